"""Any data set that MOABB knows, by name: ``moabb:BNCI2014_001``.

MOABB downloads what is missing. Where that fails, the message says which files are missed and where
they belong, so that they can be brought there by hand.
"""

from __future__ import annotations

import difflib
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import mne
import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Paradigm, Recording
from spdtokens.datasets.official._reading import cut, expect, first_samples, overlap_groups
from spdtokens.errors import DataError

PREFIX = "moabb:"
PARADIGMS: dict[str, Paradigm] = {
    "imagery": "motor imagery",
    "p300": "erp",
    "ssvep": "ssvep",
}
MARGIN = 0.5  # seconds around the interval that MOABB names, for the filters
# Sets whose events mark the start of a trial: seconds to the cue, and the window after the cue.
CUES = {"BNCI2014_001": (2.0, (0.5, 4.0))}
# One session whose runs were recorded minutes apart, and are what the literature calls sessions.
RUNS_ARE_SESSIONS = frozenset({"MAMEM1", "MAMEM2", "MAMEM3"})
BNCI_HOST = "lampx.tugraz.at"
MIRROR = "data.nemar.org"
PROVIDER = "MOABB_DOWNLOAD_PROVIDER"
By = Literal["session", "run"]
Raws = dict[str, dict[str, Any]]


def load_moabb(name: str, *, by: By | None = None, **options: Any) -> Dataset:
    """A data set of MOABB.

    Parameters
    ----------
    name : str
        Name of a class of ``moabb.datasets``, with or without ``moabb:``.
    by : {'session', 'run'}, optional
        What counts as a session. Default: the session, but the run for the MAMEM sets.
    options
        Given to the class.
    """
    name = name.removeprefix(PREFIX)
    expect(by in (None, "session", "run"), f"by must be 'session' or 'run', not {by!r}.")
    source = _make(name, options)
    trials = _Trials(name, source, by or ("run" if name in RUNS_ARE_SESSIONS else "session"))
    subjects = tuple(str(subject) for subject in source.subject_list)
    # Channels and rate stand in the files only; the first subject's are taken for all, and checked.
    info = trials.info(subjects[0])
    return Dataset(
        name=PREFIX + name,
        description=f"{name} of MOABB: {_first_line(source)}",
        paradigm=PARADIGMS.get(source.paradigm, "other"),
        classes=trials.classes,
        ch_names=tuple(info.ch_names),
        sfreq=float(info["sfreq"]),
        tmin=trials.interval[0],
        window=trials.window,
        index=_Index(subjects, trials),
        read=trials.read,
        stimulus_hz=_frequencies(source, trials.classes),
        # MOABB multiplies by this factor to get microvolts.
        unit_in_volts=float(source.unit_factor) * 1e-6,
    )


class _Index(Mapping[str, tuple[str, ...]]):
    """Sessions of every subject, found out when asked for: only the files tell."""

    def __init__(self, subjects: tuple[str, ...], trials: _Trials) -> None:
        self.subjects, self.trials = subjects, trials

    def __getitem__(self, subject: str) -> tuple[str, ...]:
        if subject not in self.subjects:
            raise KeyError(subject)
        return self.trials.sessions(subject)

    def __iter__(self) -> Iterator[str]:
        return iter(self.subjects)

    def __len__(self) -> int:
        return len(self.subjects)

    def __contains__(self, subject: object) -> bool:  # Mapping's own would read the files
        return subject in self.subjects


class _Trials:
    """Trials of a MOABB data set."""

    def __init__(self, name: str, source: Any, by: By) -> None:
        self.name, self.source, self.by = name, source, by
        codes = sorted(source.event_id.items(), key=lambda item: item[1])
        self.classes = tuple(event for event, _ in codes)
        self.codes = tuple(code for _, code in codes)
        self.cue, window = CUES.get(name, (0.0, tuple(map(float, source.interval))))
        self.window = (window[0], window[1])
        margin = (0.5 + MARGIN, MARGIN) if name in CUES else (MARGIN, MARGIN)
        self.interval = (self.window[0] - margin[0], self.window[1] + margin[1])
        # Neighbouring questions concern one subject; two do not fit into memory for large sets.
        self.raws = lru_cache(maxsize=1)(self._raws)
        self.known: dict[str, tuple[str, ...]] = {}
        self.first: mne.Info | None = None

    def _raws(self, subject: str) -> Raws:
        """Recordings of a subject: by session, then by run."""
        found: Raws = _get(self.name, self.source, int(subject))
        if self.by == "session":
            return found
        several = len(found) > 1
        return {
            f"{session}:{run}" if several else run: {run: raw}
            for session, runs in found.items()
            for run, raw in runs.items()
        }

    def sessions(self, subject: str) -> tuple[str, ...]:
        if subject not in self.known:
            self.known[subject] = tuple(self.raws(subject))
        return self.known[subject]

    def info(self, subject: str) -> mne.Info:
        session = next(iter(self.raws(subject).values()))
        self.first = _eeg(next(iter(session.values()))).info
        return self.first

    def _check(self, info: mne.Info, where: Path) -> None:
        """Refuse a recording that cannot be joined with those of the first subject."""
        if self.first is None:
            return
        missing = sorted(set(self.first.ch_names) ^ set(info.ch_names))
        expect(
            self.first.ch_names == info.ch_names and self.first["sfreq"] == info["sfreq"],
            f"{where}: {len(info.ch_names)} channels at {info['sfreq']:g} Hz, but the first has "
            f"{len(self.first.ch_names)} at {self.first['sfreq']:g} Hz; differing channels: "
            f"{', '.join(missing) or 'none'}.",
        )

    def read(self, subject: str, session: str) -> Recording:
        X, y, run, onset = [], [], [], []
        group: list[NDArray[np.int64]] = []
        for name, raw in self.raws(subject)[session].items():
            onsets, labels = self._events(raw)
            if not onsets.size:
                continue
            sfreq = float(raw.info["sfreq"])
            where = Path(f"{self.name}, subject {subject}, session {session}, run {name}")
            onsets = onsets + round(self.cue * sfreq)
            eeg = _eeg(raw)
            self._check(eeg.info, where)
            X.append(cut(eeg.get_data(), onsets, sfreq, self.interval, self.window, where))
            y.append(labels)
            run.append(np.full(len(labels), name))
            onset.append(first_samples(onsets, sfreq, self.interval))
            first = int(group[-1][-1]) + 1 if group else 0
            group.append(first + overlap_groups(onsets, sfreq, self.window))
        expect(bool(X), f"{self.name}: no trials for subject {subject} in session {session}.")
        return Recording(
            subject,
            session,
            np.concatenate(X),
            np.concatenate(y),
            np.concatenate(run),
            np.concatenate(group),
            {"onset": np.concatenate(onset)},
        )

    def _events(self, raw: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Samples, counted from the first of the recording, and labels."""
        if len(mne.pick_types(raw.info, stim=True)):
            events = mne.find_events(raw, shortest_event=0, verbose=logging.ERROR)
        else:
            wanted = {
                name: code
                for name, code in self.source.event_id.items()
                if name in set(raw.annotations.description)
            }
            events, _ = mne.events_from_annotations(raw, event_id=wanted, verbose=logging.ERROR)
        events = events[np.isin(events[:, 2], self.codes)]
        labels = np.array([self.codes.index(code) for code in events[:, 2]], dtype=np.int64)
        return events[:, 0].astype(np.int64) - raw.first_samp, labels


def _eeg(raw: Any) -> Any:
    return raw.copy().pick("eeg", verbose=logging.ERROR)


def _moabb() -> ModuleType:
    try:
        with _quiet():
            import_module("moabb.datasets.fake")
            return import_module("moabb.datasets")
    except ImportError as error:
        raise DataError(
            f"Data sets of MOABB need the package moabb ({error}). Install it with: pip install "
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
        raise DataError(f"MOABB's {name} cannot be made from {dict(options)}: {error}.") from error


def _get(name: str, source: Any, subject: int) -> Raws:
    """A subject's recordings, from the disk, or from the network through MOABB."""
    files = _expected(name, subject)
    missing = [path for path in files if not path.is_file()]
    ask_mirror = not (files and not missing) and _reachable(MIRROR)
    if missing and not ask_mirror and not _reachable(BNCI_HOST):
        # MOABB would try again and again for most of a minute.
        reason = f"neither {MIRROR} nor {BNCI_HOST} answers"
        raise DataError(_not_there(name, subject, missing, reason))
    try:
        with _quiet(), nullcontext() if ask_mirror else _without_mirror():
            found: Raws = source.get_data(subjects=[subject])[subject]
    except Exception as error:  # downloads, archives and readers fail in many ways
        missing = [path for path in files if not path.is_file()]
        if missing or _is_of_the_network(error):
            reason = f"{type(error).__name__}: {error}"
            raise DataError(_not_there(name, subject, missing, reason)) from error
        raise DataError(
            f"MOABB cannot read {name}, subject {subject} ({type(error).__name__}: {error}). If a "
            f"file in {_data_folder()} is damaged, remove it and get it again."
        ) from error
    expect(bool(found), f"MOABB gave nothing for {name}, subject {subject}.")
    return found


def _is_of_the_network(error: Exception) -> bool:
    """Whether a download failed: the errors of sockets and of requests are OSErrors."""
    of_the_disk = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, OSError) and not isinstance(error, of_the_disk)


@contextmanager
def _quiet() -> Iterator[None]:
    """MOABB and MNE warn of optional packages, old names, and what is downloaded."""
    with warnings.catch_warnings(), mne.utils.use_log_level("ERROR"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _without_mirror() -> Iterator[None]:
    """Keep MOABB from asking its mirror, which it does even for files that are on the disk."""
    if mne.get_config(PROVIDER):  # the user's choice stands
        yield
        return
    os.environ[PROVIDER] = "upstream"
    try:
        yield
    finally:
        os.environ.pop(PROVIDER, None)


def _data_folder(sign: str = "") -> Path:
    """Folder in which MOABB keeps the files of a data set."""
    configured = mne.get_config(f"MNE_DATASETS_{sign}_PATH") if sign else None
    return Path(configured or mne.get_config("MNE_DATA") or Path.home() / "mne_data")


def _expected(name: str, subject: int) -> list[Path]:
    """Files that MOABB will look for, where that is known."""
    if name != "BNCI2014_001":
        return []
    folder = _data_folder("BNCI") / "MNE-bnci-data" / "~bci" / "database" / "001-2014"
    return [folder / f"A{subject:02d}{session}.mat" for session in "TE"]


def _reachable(host: str) -> bool:
    try:
        with socket.create_connection((host, 443), timeout=3):
            return True
    except OSError:
        return False


def _not_there(name: str, subject: int, missing: list[Path], reason: str) -> str:
    files = "\n".join(f"  {path}" for path in missing)
    where = (
        f"Missing:\n{files}\nPut them there by hand"
        if missing
        else f"MOABB keeps its files in {_data_folder()}; put them there by hand"
    )
    return (
        f"{name}, subject {subject}: the files are not here and could not be downloaded: "
        f"the network was not reached ({reason}). {where}, or connect to the network and try again."
    )


def _first_line(source: Any) -> str:
    return next((line for line in (source.__doc__ or "").splitlines() if line.strip()), "").strip()


def _frequencies(source: Any, classes: tuple[str, ...]) -> tuple[float, ...]:
    """Flicker frequencies, which MOABB writes as the names of the events."""
    if source.paradigm != "ssvep":
        return ()
    found = []
    for name in classes:
        try:
            found.append(float(name))
        except ValueError:
            continue  # rest
    return tuple(found)
