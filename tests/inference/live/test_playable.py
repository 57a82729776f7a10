"""Files that can be played."""

from __future__ import annotations

from pathlib import Path

import mne
import numpy as np
import pytest

from spdtokens.errors import UserError
from spdtokens.inference.live.playable import open_playable


@pytest.fixture
def signal() -> np.ndarray:
    return 1e-5 * np.random.default_rng(0).standard_normal((3, 500))


def test_a_recording_with_its_annotations(tmp_path: Path, signal: np.ndarray) -> None:
    info = mne.create_info(["C3", "C4", "eye"], 100.0, ["eeg", "eeg", "eog"])
    raw = mne.io.RawArray(signal, info, verbose="error")
    raw.set_annotations(mne.Annotations([2.5, 1.0], 0.0, ["right", "left"]))
    raw.save(tmp_path / "all_raw.fif", verbose="error")
    raw.crop(0.5, verbose="error").save(tmp_path / "late_raw.fif", verbose="error")
    played = open_playable(str(tmp_path / "all_raw.fif"))
    assert played.markers == [(100, "left"), (250, "right")]
    assert (played.ch_names, played.unit, played.sfreq) == (("C3", "C4"), "volts", 100.0)
    np.testing.assert_allclose(played.X, signal[:2], rtol=1e-6)
    late = open_playable(str(tmp_path / "late_raw.fif"))
    assert late.markers == [(50, "left"), (200, "right")]
    np.testing.assert_allclose(late.X, signal[:2, 50:], rtol=1e-6)
    raw.set_annotations(None).save(tmp_path / "none_raw.fif", verbose="error")
    assert open_playable(str(tmp_path / "none_raw.fif")).markers == []


def test_npz_and_epochs(tmp_path: Path, signal: np.ndarray) -> None:
    X = signal[:, :400].reshape(3, 4, 100).transpose(1, 0, 2)
    path = tmp_path / "trials.npz"
    y = np.array(["b", "a", "b", "a"])
    np.savez(path, X=X, y=y, sfreq=100.0, ch_names=np.array(["C3", "C4", "Cz"]))
    played = open_playable(str(path))
    np.testing.assert_array_equal(played.X, signal[:, :400])
    assert played.markers == [(0, "b"), (100, "a"), (200, "b"), (300, "a")]
    events = np.stack([np.arange(4) * 100, np.zeros(4, int), [2, 1, 2, 1]], 1)
    epochs = mne.EpochsArray(
        X,
        mne.create_info(3, 100.0, "eeg"),
        events,
        event_id={"a": 1, "b": 2},
        baseline=None,
        verbose="error",
    )
    epochs.save(tmp_path / "x-epo.fif", verbose="error")
    played = open_playable(str(tmp_path / "x-epo.fif"))
    np.testing.assert_allclose(played.X, signal[:, :400], rtol=1e-6)
    assert [text for _, text in played.markers] == ["b", "a", "b", "a"]


def test_what_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder or file"):
        open_playable(str(tmp_path / "nothing"))
    covariances = tmp_path / "c.npz"
    np.savez(covariances, C=np.stack([np.eye(3)] * 4), y=np.array([0, 1, 0, 1]))
    with pytest.raises(UserError, match="no signal to play"):
        open_playable(str(covariances))
    broken = tmp_path / "x.edf"
    broken.write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read"):
        open_playable(str(broken))
    with pytest.raises(UserError, match="--subject"):
        open_playable(str(broken), subject="1")
