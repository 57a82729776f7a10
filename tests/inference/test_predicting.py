"""Models on recordings with other channels, rates and units: made to fit, or refused."""

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
from spdtokens.errors import DataError, DeployError
from spdtokens.inference import Decoder, predict, save_model
from spdtokens.runtime import DecoderError, signals
from tests.helpers.recordings import simulated, write_edf
from tests.inference.made import NAMES, SAMPLES, SFREQ, trials


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """Of trials in microvolts, in memory."""
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


def test_a_table(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(3, seed=1)
    found = predict(decoder, write(tmp_path / "new.npz", X))
    found.write(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "file,trial,onset_s,truth,predicted,p(left),p(right)"
    file, trial, onset, truth, predicted, *p = lines[2].split(",")
    assert (file, trial, onset, truth) == ("new.npz", "1", "", "")
    assert predicted == decoder.predict(X)[1]
    assert sum(map(float, p)) == pytest.approx(1, abs=1e-3)
    assert found.accuracy is None


def test_channels_in_another_order(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(6, seed=1)
    more = np.concatenate([X[:, ::-1], np.ones((6, 1, SAMPLES))], axis=1)
    names = [*(f"EEG {name.upper()}-REF" for name in reversed(NAMES)), "EOG"]
    found = predict(decoder, write(tmp_path / "new.npz", more, ch_names=names))
    np.testing.assert_array_equal(found.probabilities, decoder.predict_proba(X))
    assert found.notes == [
        "Channels were brought into the model's order, 1 that it does not use left out."
    ]


def test_a_channel_is_missing(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(3)
    file = write(tmp_path / "new.npz", X[:, :3], ch_names=NAMES[:3])
    with pytest.raises(DataError, match=r"new.npz lacks 1 of 4 channels: Pz\. It has: C3, Cz, C4"):
        predict(decoder, file)


def test_another_rate(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(20, seed=1)
    faster = resample(X, 2 * SAMPLES, axis=-1)
    found = predict(decoder, write(tmp_path / "new.npz", faster, sfreq=2 * SFREQ))
    assert found.notes == ["Resampled from 200 to 100 Hz."]
    assert np.abs(found.probabilities - decoder.predict_proba(X)).max() < 0.1
    assert found.predicted == decoder.predict(X).tolist()
    slower = write(tmp_path / "slow.npz", X[..., ::2], sfreq=SFREQ / 2)
    with pytest.raises(DeployError, match=r"sampled at 50 Hz, the model at 100 Hz.*cannot be rest"):
        predict(decoder, slower)


def test_another_unit(tmp_path: Path) -> None:
    X, y = trials()
    dataset = from_arrays(X, y, sfreq=SFREQ, ch_names=NAMES)
    decoder = train(replace(dataset, unit_in_volts=1e-6)).decoder
    new, _ = trials(5, seed=1)
    wanted = decoder.predict_proba(new)
    found = predict(decoder, write(tmp_path / "volts.npz", 1e-6 * new, unit_in_volts=1.0))
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-9)
    assert found.notes == ["Signals were multiplied by 1e+06: they were in another unit."]
    with pytest.raises(DeployError, match=r"e-0[67] times as large.*another unit.*--unit uV"):
        predict(decoder, write(tmp_path / "unknown.npz", 1e-6 * new))
    found = predict(decoder, tmp_path / "unknown.npz", unit="V")
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-9)
    with pytest.raises(DeployError, match=r"no unit 'kV'\. There are: V, mV, uV, nV"):
        predict(decoder, tmp_path / "unknown.npz", unit="kV")


def test_trials_of_another_length(decoder: Decoder, tmp_path: Path) -> None:
    X, _ = trials(3)
    with pytest.raises(DeployError, match=r"last 1\.400 s, those of the model 1\.500 s"):
        predict(decoder, write(tmp_path / "new.npz", X[..., :140]))


def test_covariances_and_signals_are_not_mixed_up(decoder: Decoder, tmp_path: Path) -> None:
    X, y = trials()
    C = X @ X.swapaxes(-1, -2)
    np.savez(tmp_path / "C.npz", C=C, ch_names=NAMES)
    with pytest.raises(DeployError, match="holds covariances, and the model decodes signals"):
        predict(decoder, tmp_path / "C.npz")
    matrices = train(from_arrays(C, y, ch_names=NAMES)).decoder
    found = predict(matrices, tmp_path / "C.npz")
    np.testing.assert_array_equal(found.probabilities, matrices.predict_proba(C))
    with pytest.raises(DeployError, match="holds signals, and the model decodes covariances"):
        predict(matrices, write(tmp_path / "new.npz", X))


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
    with pytest.raises(DeployError, match=r"none of the events trained with .*Its events: x"):
        predict(tmp_path / "model.spdt", tmp_path / "day3.edf")
    whole = predict(tmp_path / "model.spdt", tmp_path / "day3.edf", events="all=x")
    np.testing.assert_array_equal(whole.probabilities, found.probabilities)
    assert whole.accuracy is None


def test_many_windows_take_little_memory(
    decoder: Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of 64 channels at 1 kHz took over 19 GB: each window was copied, and all filtered."""
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


def test_files_that_are_none(decoder: Decoder, tmp_path: Path) -> None:
    with pytest.raises(DeployError, match="no file or folder"):
        predict(decoder, tmp_path / "nothing.edf")
    (tmp_path / "text.txt").write_text("x")
    with pytest.raises(DeployError, match="no recording, epochs"):
        predict(decoder, tmp_path / "text.txt")
    with pytest.raises(DeployError, match="has no recordings, epochs"):
        predict(decoder, tmp_path)
    with pytest.raises(DecoderError, match="not a whole model file"):
        predict(tmp_path / "text.txt", tmp_path)
    with pytest.raises(DeployError, match="every is a time in seconds above zero"):
        predict(decoder, tmp_path, every=0.0)
