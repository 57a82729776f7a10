"""Data sets of MOABB by name, such as ``moabb:BNCI2014_001``. MOABB downloads missing files."""

from __future__ import annotations

import difflib
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Paradigm, Recording, join
from spdtokens.datasets.official._files import cut, expect
from spdtokens.errors import DataError

PARADIGMS: dict[str, Paradigm] = {"imagery": "motor imagery", "p300": "erp", "ssvep": "ssvep"}
MARGIN = 0.5  # seconds around MOABB's interval, for the filters
# Data sets whose events mark the start of a trial: seconds to the cue, and window after the cue.
CUES = {"BNCI2014_001": (2.0, (0.5, 4.0))}
# Data sets of one session whose runs, recorded minutes apart, the literature calls sessions.
RUNS_ARE_SESSIONS = frozenset({"MAMEM1", "MAMEM2", "MAMEM3"})
MIRROR, PROVIDER = "data.nemar.org", "MOABB_DOWNLOAD_PROVIDER"
Raws = dict[str, dict[str, Any]]


def load_moabb(name: str, **options: Any) -> Dataset:
    """Load a data set of MOABB.

    Parameters
    ----------
    name : str
        Name of a class of ``moabb.datasets``, with or without ``moabb:``.
    **options
        Passed to the class.
    """
    name = name.removeprefix("moabb:")
    source = _make(name, options)
    trials = _Trials(name, source)
    lines = [line.strip() for line in (source.__doc__ or "").splitlines() if line.strip()]
    # Flicker frequencies are the names of the events, except "rest".
    hertz = [
        c for c in trials.classes if source.paradigm == "ssvep" and c.replace(".", "").isdigit()
    ]
    return Dataset(
        name=f"moabb:{name}",
        description=f"{name} of MOABB: {lines[0] if lines else ''}",
        paradigm=PARADIGMS.get(source.paradigm, "other"),
        classes=trials.classes,
        ch_names=trials.ch_names,
        sfreq=trials.sfreq,
        tmin=trials.interval[0],
        window=trials.window,
        index=trials,
        read=trials.read,
        stimulus_hz=tuple(float(c) for c in hertz),
        # MOABB multiplies signals by this factor to get microvolts.
        unit_in_volts=float(source.unit_factor) * 1e-6,
    )


class _Trials(Mapping[str, tuple[str, ...]]):
    """Trials of a MOABB data set, and a mapping from subjects to sessions.

    Only the files state the sessions of a subject, so they are read on demand. Channels and
    sampling rate are those of the first subject; other subjects must have the same.
    """

    def __init__(self, name: str, source: Any) -> None:
        self.name, self.source = name, source
        self.codes = dict(sorted(source.event_id.items(), key=lambda item: item[1]))
        self.classes = tuple(self.codes)
        self.subjects = tuple(str(subject) for subject in source.subject_list)
        self.cue, (begin, end) = CUES.get(name, (0.0, tuple(map(float, source.interval))))
        self.window = (begin, end)
        before = 0.5 + MARGIN if name in CUES else MARGIN
        self.interval = (begin - before, end + MARGIN)
        # Sessions of one subject are read one after the other; two subjects may not fit in memory.
        self.raws = lru_cache(maxsize=1)(self._raws)
        self.sessions = lru_cache(maxsize=None)(lambda subject: tuple(self.raws(subject)))
        first = next(iter(next(iter(self.raws(self.subjects[0]).values())).values()))
        info = _eeg(first).info
        self.ch_names, self.sfreq = tuple(info.ch_names), float(info["sfreq"])

    def __getitem__(self, subject: str) -> tuple[str, ...]:
        if subject not in self.subjects:
            raise KeyError(subject)
        return self.sessions(subject)

    def __iter__(self) -> Iterator[str]:
        return iter(self.subjects)

    def __len__(self) -> int:
        return len(self.subjects)

    def __contains__(self, subject: object) -> bool:  # that of Mapping would read the files
        return subject in self.subjects

    def _raws(self, subject: str) -> Raws:
        """Return the recordings of a subject by session and run."""
        found = _get(self.name, self.source, int(subject))
        if self.name not in RUNS_ARE_SESSIONS:
            return found
        return {run: {run: raw} for runs in found.values() for run, raw in runs.items()}

    def read(self, subject: str, session: str) -> Recording:
        parts = []
        for name, raw in self.raws(subject)[session].items():
            onsets, y = self._events(raw)
            if not onsets.size:
                continue
            where = f"{self.name}, subject {subject}, session {session}, run {name}"
            eeg = _eeg(raw)
            ch_names, sfreq = tuple(eeg.ch_names), float(eeg.info["sfreq"])
            differing = ", ".join(set(self.ch_names) ^ set(ch_names)) or "none"
            expect(
                ch_names == self.ch_names and sfreq == self.sfreq,
                f"{where} must have the channels and the rate of the first recording, "
                f"{self.sfreq:g} Hz, got {sfreq:g} Hz; differing channels: {differing}.",
            )
            cues = onsets + round(self.cue * sfreq)
            X, group, onset = cut(eeg.get_data(), cues, sfreq, self.interval, self.window, where)
            run, about = np.full(len(y), name), {"onset": onset}
            parts.append(Recording(subject, session, X, y, run, group, about))
        expect(bool(parts), f"{self.name}: no trials for subject {subject} in session {session}.")
        return join(parts)

    def _events(self, raw: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the samples of the events, counted from the first, and their labels."""
        import mne

        if len(mne.pick_types(raw.info, stim=True)):
            events = mne.find_events(raw, shortest_event=0, verbose="error")
        else:
            there = set(raw.annotations.description)
            wanted = {name: code for name, code in self.codes.items() if name in there}
            events, _ = mne.events_from_annotations(raw, event_id=wanted, verbose="error")
        codes = list(self.codes.values())
        events = events[np.isin(events[:, 2], codes)]
        labels = np.array([codes.index(code) for code in events[:, 2]], dtype=np.int64)
        return events[:, 0].astype(np.int64) - raw.first_samp, labels


def _eeg(raw: Any) -> Any:
    return raw.copy().pick("eeg", verbose="error")


def _moabb() -> ModuleType:
    try:
        with _quiet():
            import_module("moabb.datasets.fake")
            return import_module("moabb.datasets")
    except ImportError as error:
        raise DataError(
            f"Data sets of MOABB require the package moabb ({error}). Install it: pip install "
            "'spdtokens[moabb]'"
        ) from error


def _make(name: str, options: Mapping[str, Any]) -> Any:
    datasets = _moabb()
    found = getattr(datasets, name, None) or getattr(datasets.fake, name, None)
    if not (isinstance(found, type) and hasattr(found, "get_data")):
        known = [n for n in dir(datasets) if hasattr(getattr(datasets, n), "get_data")]
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise DataError(f"MOABB has no data set {name!r}.{hint}")
    try:
        with _quiet():
            return found(**options)
    except TypeError as error:
        raise DataError(f"Options of {name} must be those of its class: {error}.") from error


def _get(name: str, source: Any, subject: int) -> Raws:
    """Let MOABB read the recordings of a subject, and download them if they are missing."""
    import mne

    # MOABB contacts its mirror even if the files are on disk, and waits if it does not answer.
    upstream = not mne.get_config(PROVIDER) and not _reachable(MIRROR)
    if upstream:
        os.environ[PROVIDER] = "upstream"
    try:
        with _quiet():
            found: Raws = source.get_data(subjects=[subject])[subject]
    except Exception as error:  # downloads, archives and readers fail in many ways
        folder = mne.get_config("MNE_DATA") or Path.home() / "mne_data"
        raise DataError(
            f"MOABB cannot read {name}, subject {subject} ({type(error).__name__}: {error}). Its "
            f"folder is {folder}: if files are missing there, connect to the network or copy them; "
            "if a file is damaged, remove it and try again."
        ) from error
    finally:
        if upstream:
            os.environ.pop(PROVIDER, None)
    expect(bool(found), f"MOABB returned no recordings of {name}, subject {subject}.")
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of MOABB and MNE about optional packages, old names and downloads."""
    import mne

    with warnings.catch_warnings(), mne.utils.use_log_level("ERROR"):
        warnings.simplefilter("ignore")
        yield


def _reachable(host: str) -> bool:
    try:
        with socket.create_connection((host, 443), timeout=3):
            return True
    except OSError:
        return False
