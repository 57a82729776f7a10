"""Predictions for recordings with other channels, sampling rates and units."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import mne
import numpy as np
import pytest
from scipy.signal import resample

from spdtokens import train
from spdtokens.datasets import from_arrays
from spdtokens.errors import DeployError, UserError
from spdtokens.inference import predict, save_model
from spdtokens.runtime import Decoder, DecoderError, signals
from tests.helpers.recordings import simulated, write_edf
from tests.inference.helpers import NAMES, SAMPLES, SFREQ, trials


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """Train on trials in memory."""
    X, y = trials()
    return train(from_arrays(X, y, sfreq=SFREQ, ch_names=NAMES, classes=("left", "right"))).decoder


def write(path: Path, X: np.ndarray, **more: object) -> Path:
    np.savez(path, X=X, **{"sfreq": SFREQ, "ch_names": NAMES, **more})
    return path


def test_trials_as_they_were_trained_on(decoder: Decoder, tmp_path: Path) -> None:
    X, y = trials(10, seed=1)
    file = write(tmp_path / "new.npz", X, y=y, classes=["left", "right"])
    found = predict(decoder, file)
    np.testing.assert_array_equal(found.probabilities, decoder.predict_proba(X))
    assert found.notes == []
    assert found.truth == ["left", "right"] * 5
    assert found.accuracy == np.mean(np.array(found.predicted) == np.array(found.truth))


def test_labels_of_another_data_set_are_mapped(decoder: Decoder, tmp_path: Path) -> None:
    X, y = trials(9, seed=1)
    names = np.array(["left_hand", "right_hand", "feet"])
    labels = names[[*y[:8], 2]]
    file = write(tmp_path / "new.npz", X, y=labels)
    assert predict(decoder, file).accuracy is None
    found = predict(decoder, file, events="left=left_hand,right=right_hand")
    assert found.truth == [*(["left", "right"] * 4), ""]
    assert found.accuracy == np.mean(np.array(found.predicted[:8]) == found.truth[:8])
    np.testing.assert_array_equal(found.probabilities, decoder.predict_proba(X))
    with pytest.raises(UserError, match="no event 'hand_left'"):
        predict(decoder, file, events="left=hand_left,right=right_hand")


def test_a_table(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(3, seed=1)
    for name in ("a.npz", "b.npz"):
        write(tmp_path / name, X)
    found = predict(decoder, tmp_path)
    found.write(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "file,trial,onset_s,truth,predicted,p(left),p(right)"
    p = decoder.predict_proba(X)[1]
    assert lines[5] == f"b.npz,1,,,{decoder.predict(X)[1]},{p[0]:.4f},{p[1]:.4f}"
    assert found.accuracy is None
    assert "6 trials of 2 files" in found.summary()
    frame = found.to_frame()
    assert frame.columns.tolist() == lines[0].split(",")
    np.testing.assert_array_equal(frame[["p(left)", "p(right)"]], found.probabilities)


def test_channels_in_another_order(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(6, seed=1)
    more = np.concatenate([X[:, ::-1], np.ones((6, 1, SAMPLES))], axis=1)
    names = [*(f"EEG {name.upper()}-REF" for name in reversed(NAMES)), "EOG"]
    found = predict(decoder, write(tmp_path / "new.npz", more, ch_names=names))
    np.testing.assert_array_equal(found.probabilities, decoder.predict_proba(X))
    (note,) = found.notes
    assert "1 channel not used" in note


def test_another_rate(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(20, seed=1)
    faster = resample(X, 2 * SAMPLES, axis=-1)
    found = predict(decoder, write(tmp_path / "new.npz", faster, sfreq=2 * SFREQ))
    (note,) = found.notes
    assert "200 to 100 Hz" in note
    assert np.abs(found.probabilities - decoder.predict_proba(X)).max() < 0.1
    assert found.predicted == decoder.predict(X).tolist()


def test_another_unit(tmp_path: Path) -> None:
    X, y = trials()
    dataset = from_arrays(X, y, sfreq=SFREQ, ch_names=NAMES)
    decoder = train(replace(dataset, unit_in_volts=1e-6)).decoder
    new, _ = trials(5, seed=1)
    wanted = decoder.predict_proba(new)
    found = predict(decoder, write(tmp_path / "volts.npz", 1e-6 * new, unit_in_volts=1.0))
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-9)
    assert "1e+06" in found.notes[0]
    with pytest.raises(DeployError, match=r"unknown.npz are .*e-0[67] times as large.*--unit"):
        predict(decoder, write(tmp_path / "unknown.npz", 1e-6 * new))
    found = predict(decoder, tmp_path / "unknown.npz", unit="V")
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-9)


def test_matrices(decoder: Decoder, tmp_path: Path) -> None:
    X, y = trials()
    C = X @ X.swapaxes(-1, -2)
    np.savez(tmp_path / "C.npz", C=C[:, ::-1, ::-1], ch_names=NAMES[::-1])
    matrices = train(from_arrays(C, y, ch_names=NAMES)).decoder
    found = predict(matrices, tmp_path / "C.npz")
    np.testing.assert_array_equal(found.probabilities, matrices.predict_proba(C))
    raw, _ = simulated(n=5)
    write_edf(tmp_path / "x.edf", raw)
    write(tmp_path / "X.npz", X)
    for model, name in ((decoder, "C.npz"), (matrices, "X.npz"), (matrices, "x.edf")):
        with pytest.raises(DeployError, match=rf"{name} must contain"):
            predict(model, tmp_path / name)


@pytest.mark.parametrize(
    ("part", "more", "culprit"),
    [
        (np.s_[:, :3], {"ch_names": NAMES[:3]}, r"new.npz .*: Pz\. "),
        (np.s_[..., ::2], {"sfreq": SFREQ / 2}, "new.npz .* 50 Hz"),
        (np.s_[..., :140], {}, r"new.npz .*1\.400 s"),
    ],
)
def test_trials_that_cannot_be_made_to_fit(
    decoder: Decoder, tmp_path: Path, part: tuple, more: dict, culprit: str
) -> None:
    with pytest.raises(UserError, match=culprit):
        predict(decoder, write(tmp_path / "new.npz", trials(3)[0][part], **more))


def test_a_recording(tmp_path: Path) -> None:
    first, _ = simulated(n=40, classes=("left hand", "right hand"))
    second, truth = simulated(session=1, n=20, classes=("left hand", "right hand"))
    for name, raw in (("day1.edf", first), ("day2.edf", second)):
        write_edf(tmp_path / name, raw)
    events = "left=cue/left hand,right=cue/right hand"
    trained = train(tmp_path / "day1.edf", events=events, tmin=0.5, tmax=3.5)
    save_model(trained.decoder, tmp_path / "model.spdt")
    found = predict(tmp_path / "model.spdt", tmp_path / "day2.edf")
    assert found.truth == [name.removesuffix(" hand") for name in truth]
    assert found.onset[:2].tolist() == [1.0, 6.5]
    windows = predict(tmp_path / "model.spdt", tmp_path / "day2.edf", every=0.5)
    assert windows.truth == [""] * len(windows)
    # The third window begins where the first trial does.
    np.testing.assert_allclose(windows.probabilities[2], found.probabilities[0], rtol=0, atol=1e-9)
    second.annotations.description[:] = "x"
    write_edf(tmp_path / "day3.edf", second)
    with pytest.raises(DeployError, match=r"day3.edf .*: x\."):
        predict(tmp_path / "model.spdt", tmp_path / "day3.edf")
    with pytest.raises(DeployError, match=r"day3\.edf must be"):
        predict(replace(trained.decoder, sfreq=0.01), tmp_path / "day3.edf", every=1)
    whole = predict(tmp_path / "model.spdt", tmp_path / "day3.edf", events="all=x")
    np.testing.assert_array_equal(whole.probabilities, found.probabilities)
    assert whole.accuracy is None


def test_many_windows_take_little_memory(
    decoder: Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows must not be copied: one hour of 64 channels at 1 kHz would take 19 GB."""
    monkeypatch.setattr(signals, "PART", 500_000, raising=False)
    n, step = SAMPLES, 3
    X = np.random.default_rng(0).standard_normal((len(NAMES), 200 * n)) * 1e-5
    raw = mne.io.RawArray(X, mne.create_info(list(NAMES), SFREQ, "eeg"), verbose=False)
    raw.save(tmp_path / "long_raw.fif", fmt="double", verbose=False)
    plain = replace(decoder, unit_in_volts=None, about={})
    tracemalloc.start()
    found = predict(plain, tmp_path / "long_raw.fif", every=step / SFREQ)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 199 * n // step + 1
    assert peak < len(found) * X[:, :n].nbytes, (peak, len(found) * X[:, :n].nbytes)
    some = range(0, len(found), 500)
    trials = np.stack([X[:, i * step : i * step + n] for i in some])
    np.testing.assert_array_equal(found.probabilities[::500], plain.predict_proba(trials))


def test_wrong_arguments(decoder: Decoder, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "x-epo.fif").write_text("x")
    for given, culprit in {
        (tmp_path / "nothing.edf", ()): "nothing.edf",
        (tmp_path / "text.txt", ()): "text.txt",
        (tmp_path / "sub", ()): "sub",
        (tmp_path, (("every", 0.0),)): "every",
        (tmp_path, (("unit", "kV"),)): "'kV'",
        (tmp_path / "x-epo.fif", (("every", 1.0),)): "x-epo.fif.*--every",
    }.items():
        with pytest.raises(DeployError, match=culprit):
            predict(decoder, given[0], **dict(given[1]))
    with pytest.raises(DecoderError, match=r"text\.txt"):
        predict(tmp_path / "text.txt", tmp_path)
