"""A recording as something that can be played from its first sample to its last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets import load_dataset
from spdtokens.datasets.base import Dataset
from spdtokens.datasets.recordings import EPOCHS, is_mne_file, open_mne
from spdtokens.errors import LiveError

#: Names of units by their size in volts.
UNITS = {1.0: "volts", 1e-3: "millivolts", 1e-6: "microvolts", 1e-9: "nanovolts"}


@dataclass(frozen=True)
class Playable:
    """A signal with markers.

    Attributes
    ----------
    title : str
    X : ndarray, shape (channels, samples)
    sfreq : float
    ch_names : tuple of str
    unit : str
        As LSL names it; ``'none'`` if not known.
    markers : list of (int, str)
        Sample and text, in the order of time.
    """

    title: str
    X: NDArray[np.float64]
    sfreq: float
    ch_names: tuple[str, ...]
    unit: str
    markers: list[tuple[int, str]]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.X.shape[1] / self.sfreq


def open_playable(source: str, subject: str | None = None, session: str | None = None) -> Playable:
    """What a name or path stands for.

    Parameters
    ----------
    source : str
        A recording that MNE reads; epochs (``-epo.fif``), an ``.npz`` file or a folder of files, a
        data set's name: their trials one after another.
    subject, session : str, optional
        Of a data set; the first if not given.

    Raises
    ------
    LiveError, DataError
    """
    path = Path(source)
    if path.is_file() and is_mne_file(path) and not path.name.lower().endswith(EPOCHS):
        if subject or session:
            raise LiveError(f"{path} is one recording: --subject and --session are for data sets.")
        return _raw(path)
    return _trials(load_dataset(source), subject, session)


def _trials(dataset: Dataset, subject: str | None, session: str | None) -> Playable:
    if dataset.is_covariance or dataset.sfreq is None:
        raise LiveError(f"{dataset.name} holds covariance matrices: there is no signal to play.")
    subject = subject or dataset.subjects[0]
    session = session or dataset.sessions(subject)[0]
    recording = dataset.load(subject, session)
    n, channels, samples = recording.X.shape
    X = np.asarray(recording.X, np.float64).transpose(1, 0, 2).reshape(channels, n * samples)
    return Playable(
        title=f"{dataset.name}, subject {subject}, session {session}",
        X=X,
        sfreq=dataset.sfreq,
        ch_names=dataset.ch_names,
        unit=UNITS.get(dataset.unit_in_volts or 0.0, "none"),
        markers=[(i * samples, dataset.classes[code]) for i, code in enumerate(recording.y)],
    )


def _raw(path: Path) -> Playable:
    import mne

    raw = open_mne(path)
    try:
        raw.pick("eeg")
        X = raw.get_data()
    except Exception as error:
        raise LiveError(
            f"{path} cannot be played ({error}). Give a recording with EEG channels."
        ) from error
    texts = sorted(set(raw.annotations.description.tolist()))
    codes = {text: code for code, text in enumerate(texts, 1)}
    events: Any = []
    if codes:
        events, _ = mne.events_from_annotations(raw, codes, regexp=None, verbose="error")
    return Playable(
        title=path.name,
        X=X,
        sfreq=float(raw.info["sfreq"]),
        ch_names=tuple(raw.ch_names),
        unit="volts",
        markers=[(int(at - raw.first_samp), texts[code - 1]) for at, _, code in events],
    )
