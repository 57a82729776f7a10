"""Data sets from files: recordings and epochs that MNE reads, and ``.npz``."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._tables import counted
from spdtokens.datasets.base import Dataset, Paradigm, Recording, join, reading, take
from spdtokens.datasets.files import LAYOUT, Cutting, Piece, read_npz_trials
from spdtokens.datasets.select import (
    COMMON,
    Head,
    agree,
    conformed,
    later_window,
    pick_channels,
)
from spdtokens.datasets.units import UNITS, agreed_unit, volts_of
from spdtokens.errors import DataError

# MNE takes a second to import; the functions that use it import it.

RAW = (".edf", ".bdf", ".gdf", ".vhdr", ".set", ".fif", ".fif.gz")
EPOCHS = ("-epo.fif", "_epo.fif", "-epo.fif.gz", "_epo.fif.gz")


def is_mne_file(path: Path) -> bool:
    """Return whether MNE reads files of this name."""
    return path.name.lower().endswith(RAW)


def holds_epochs(path: Path) -> bool:
    """Return whether the name is that of a file of epochs."""
    return path.name.lower().endswith(EPOCHS)


def mne_files(path: Path) -> list[Path]:
    """Return the file, or the files of a folder that MNE reads, sorted by name."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file() and is_mne_file(file))
    # MNE splits long recordings into several files and finds the others from the first.
    return [file for file in found if not re.search(r"(-|_split-0*)[1-9]\d*\.fif$", file.name)]


def from_files(path: Path, cutting: Cutting) -> Dataset:
    """Make a data set from a file, or from the files of a folder.

    Parameters
    ----------
    path : Path
        File, or folder. Names such as ``sub-01_ses-2_run-3_eeg.edf`` state subject, session and
        run; files with other names are sessions of one subject, sorted by name. ``.npz`` files are
        ignored in a folder with recordings.
    cutting : Cutting
        Options.

    Returns
    -------
    Dataset
        Signals of ``.npz`` files are read on demand, those of recordings at once.

    Raises
    ------
    DataError
        If a file cannot be read or lacks events or channels, if files differ in channels, sampling
        rate or trial length, or if all trials belong to one class.
    """
    files = mne_files(path) or (sorted(path.glob("*.npz")) if path.is_dir() else [path])
    if not files:
        raise DataError(f"{path} has no recordings ({', '.join(RAW)}) and no .npz files. {LAYOUT}")
    read: Callable[[Path], Piece]
    if is_mne_file(files[0]):
        # Headers are compared before any signal is read.
        heads = {file.name: _head(file, cutting) for file in files}
        to = agree(heads, cutting.channels, cutting.resample)
        cutting = replace(cutting, channels=to.ch_names)
        pieces = {file: read_piece(file, cutting) for file in files}
        read = pieces.__getitem__
    else:
        pieces = {file: read_npz_trials(file, cutting, signals=False) for file in files}
        read = partial(read_npz_trials, cutting=cutting)
    if unlabelled := [file for file, piece in pieces.items() if piece.labels is None]:
        raise DataError(f"{unlabelled[0]} lacks the array 'y'. {LAYOUT}")
    heads = {file.name: piece.head for file, piece in pieces.items()}
    to = agree(heads, cutting.channels, cutting.resample)
    classes = _classes(pieces.values(), cutting)
    if len(classes) < 2:
        raise DataError(
            f"{path}: all trials belong to the class {', '.join(classes)}; two classes are needed. "
            "Check the labels (y of an .npz file), or name the events of a recording: --events "
            "left=769,right=770."
        )
    places = _places(files)
    index: dict[str, tuple[str, ...]] = {}
    for subject, session, _ in places.values():
        index[subject] = tuple(dict.fromkeys((*index.get(subject, ()), session)))

    def recording(subject: str, session: str) -> Recording:
        mine = [file for file, place in places.items() if place[:2] == (subject, session)]
        parts = []
        for file in mine:
            piece, name = read(file), places[file][2]
            X, about = conformed(piece.X, piece.about, piece.head, to)
            assert piece.labels is not None
            y = np.array([classes.index(label) if label else -1 for label in piece.labels])
            run, group = piece.run, piece.group
            if run is None:
                run = np.full(len(X), name)
            elif len(mine) > 1:
                run = np.array([f"{name}/{inner}" for inner in run])
            group = np.arange(len(X)) if group is None else group
            parts.append(take(Recording(subject, session, X, y, run, group, about), y >= 0))
        return join(parts)

    dropped = sum(piece.dropped for piece in pieces.values())
    note = (
        f"; {counted(dropped, 'event')} left out, at the ends or marked as bad" if dropped else ""
    )
    hertz = [re.fullmatch(r"(\d{1,5}(?:\.\d+)?) ?Hz", name) for name in classes]
    frequencies = tuple(float(match[1]) for match in hertz if match)
    paradigm: Paradigm = "ssvep" if len(frequencies) > 1 else "other"
    window = (0.0, 0.0)
    if to.sfreq and to.n_samples:
        window = (to.tmin, to.tmin + to.n_samples / to.sfreq)
        if cutting.tmin is None and cutting.tmax is None:
            window = later_window(window, to.tmin, paradigm)
    return Dataset(
        name=path.resolve().name if path.is_dir() else _stem(path),
        description=f"{path}{note}",
        paradigm=paradigm,
        classes=classes,
        ch_names=to.ch_names,
        sfreq=to.sfreq,
        tmin=to.tmin,
        window=window,
        index=index,
        read=recording,
        stimulus_hz=frequencies,
        filtered=pieces[files[0]].filtered,
        is_covariance=to.sfreq is None,
        unit_in_volts=to.unit_in_volts,
    )


def _classes(pieces: Iterable[Piece], cutting: Cutting) -> tuple[str, ...]:
    """Return the classes in the order of ``events``, else of the files, else sorted."""
    labels = {str(label) for piece in pieces for label in piece.labels}  # type: ignore[union-attr]
    named = dict.fromkeys(label for piece in pieces for label in piece.classes if label in labels)
    return tuple(cutting.events or (*named, *sorted(labels - named.keys())))


def _places(files: Sequence[Path]) -> dict[Path, tuple[str, str, str]]:
    """Return subject, session and run of every file, from names as in BIDS."""
    found = {}
    for file in files:
        entities = dict(re.findall(r"(sub|ses|run)-([^_]+)", _stem(file)))
        session = "1" if entities or len(files) == 1 else _stem(file)
        found[file] = (
            entities.get("sub", "1"),
            entities.get("ses", session),
            entities.get("run", "1"),
        )
    # Onsets are counted from the beginning of a file, so every file must be a run.
    places = list(found.values())
    return {
        file: place if places.count(place) == 1 else (*place[:2], _stem(file))
        for file, place in found.items()
    }


def _stem(path: Path) -> str:
    """Return the name without the suffix of the format."""
    known = (*EPOCHS, *RAW, ".npz")
    return next(path.name[: -len(end)] for end in known if path.name.lower().endswith(end))


def _head(path: Path, cutting: Cutting) -> Head:
    """Return the channels and the sampling rate of a file."""
    opened = open_mne(path)
    chosen = cutting.channels not in ((), (COMMON,))
    with _reading(path):
        names = opened.ch_names if chosen else _eeg(opened, (), path)
        return Head(tuple(names), float(opened.info["sfreq"]))


def open_mne(path: Path) -> Any:
    """Open a recording or epochs with MNE, without reading the signals."""
    import mne

    with _reading(path):
        _refuse_circles(path)
        read = mne.read_epochs if holds_epochs(path) else mne.io.read_raw
        return read(path, preload=False, verbose="error")


def _refuse_circles(path: Path) -> None:
    """Refuse a FIF file with a cycle of tags, which MNE would follow forever."""
    if not path.name.lower().endswith((".fif", ".fif.gz")):
        return
    head = struct.Struct(">iIii")  # kind, type, size, position of the next tag
    seen: set[int] = set()
    place = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while place not in seen:
            seen.add(place)
            file.seek(place)
            packed = file.read(head.size)
            if len(packed) < head.size:
                return
            _, _, size, following = head.unpack(packed)
            place = following or place + head.size + size
            if following < 0 or place < 0:
                return
    raise ValueError("its tags form a cycle")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in errors, and silence the log of MNE."""
    import mne

    with reading(path), mne.use_log_level("error"):
        yield


def read_piece(path: Path, cutting: Cutting) -> Piece:
    """Read the trials of a recording, or of epochs."""
    opened = open_mne(path)
    with _reading(path):
        names = _eeg(opened, cutting.channels, path)
        read = _from_epochs if holds_epochs(path) else _from_recording
        return read(opened, names, cutting, path)


def _eeg(raw: Any, channels: tuple[str, ...], path: Path) -> list[str]:
    """Return the chosen channels, else all EEG channels that are not marked as bad."""
    import mne

    if channels:
        return pick_channels(raw.ch_names, channels, f"{path}")
    picks = mne.pick_types(raw.info, meg=False, eeg=True, exclude="bads")
    if not len(picks):
        raise DataError(f"{path} has no EEG channels. It has: {', '.join(raw.ch_names)}.")
    return [raw.ch_names[i] for i in picks]


def _unit(opened: Any, names: list[str], cutting: Cutting, path: Path) -> float:
    """Return the unit in volts of the signals as MNE returns them.

    MNE converts to volts what the header states in another unit. It takes signals without a unit
    (``n/a``) for volts; the option ``unit`` says what they are.
    """
    units = getattr(opened, "_orig_units", None) or {}  # empty for FIF, which is in volts
    stated = {str(units.get(name, "V")).casefold() for name in names}
    given = volts_of(cutting.unit)
    if given is None:
        return 1.0
    if stated == {"n/a"}:
        return given
    for unit in stated:
        agreed_unit(UNITS.get(unit, 1.0), given, f"{path}")
    return 1.0


def _from_recording(raw: Any, names: list[str], cutting: Cutting, path: Path) -> Piece:
    import mne

    events, codes = _events(raw, cutting, path)
    tmin = 0.0 if cutting.tmin is None else cutting.tmin
    tmax = _duration(raw, events, codes, path) if cutting.tmax is None else cutting.tmax
    sfreq = float(raw.info["sfreq"])
    n = round((tmax - tmin) * sfreq)
    onset = events[:, 0] - raw.first_samp + round(tmin * sfreq)
    X = np.empty(0)
    if n > 1 and ((onset >= 0) & (onset + n <= raw.n_times)).any():
        times = {"tmin": tmin, "tmax": tmin + (n - 1) / sfreq, "baseline": None}
        options = {"picks": names, "preload": True, "event_repeated": "drop"}
        epochs = mne.Epochs(raw, events, codes, **times, **options)
        X = epochs.get_data(picks=names, copy=False)
    if not len(X):
        raise DataError(
            f"{path} does not cover {tmin:g} to {tmax:g} s after any of {len(events)} events, or "
            "marks these intervals as bad."
        )
    by_code = {code: name for name, code in codes.items()}
    onset = epochs.events[:, 0] - raw.first_samp + round(tmin * sfreq)
    return Piece(
        X=X,
        head=Head(tuple(names), sfreq, tmin, n, _unit(raw, names, cutting, path)),
        labels=np.array([by_code[code] for code in epochs.events[:, 2]]),
        about={"onset": onset.astype(np.int64)},
        filtered=(float(raw.info["highpass"]), float(raw.info["lowpass"])),
        dropped=len(events) - len(X),
    )


def _events(raw: Any, cutting: Cutting, path: Path) -> tuple[NDArray[Any], dict[str, int]]:
    """Return the events as MNE represents them, (n, 3), and the code of each class."""
    import mne

    marks = raw.annotations.description
    stim = mne.pick_types(raw.info, meg=False, stim=True)
    if cutting.label_from == "annotations" or (
        cutting.label_from is None and (len(marks) or not len(stim))
    ):
        chosen = cutting.chosen(marks, f"{path}")
        codes = {name: number for number, name in enumerate(chosen, 1)}
        texts = {event: codes[name] for name, event in chosen.items()}
        return mne.events_from_annotations(raw, texts, verbose="error")[0], codes
    if cutting.label_from not in (None, *raw.ch_names):
        raise DataError(
            f"{path}: label_from must be annotations or one of its channels, "
            f"{', '.join(raw.ch_names)}, got {cutting.label_from!r}."
        )
    events = mne.find_events(raw, cutting.label_from, shortest_event=1, verbose="error")
    chosen = cutting.chosen(events[:, 2], f"{path}")
    codes = {name: int(event) for name, event in chosen.items()}
    return events[np.isin(events[:, 2], list(codes.values()))], codes


def _duration(raw: Any, events: NDArray[Any], codes: dict[str, int], path: Path) -> float:
    """Return the duration of the annotations of the trials, if it is about the same for all."""
    marks = raw.annotations
    first = np.round((marks.onset - raw.first_time) * raw.info["sfreq"]) + raw.first_samp
    of_trials = np.isin(first, events[:, 0]) & (marks.duration > 0)
    lasting = marks.duration[of_trials]
    if len(lasting) < 2 or np.ptp(lasting) > 0.1 * lasting.mean() or lasting.mean() < 0.2:
        raise DataError(
            f"{path}: the file does not state the duration of trials of {', '.join(codes)}. Pass "
            "begin and end in seconds after the event, such as --tmin 0.5 --tmax 3.5, or "
            "in Python load_dataset(path, tmin=0.5, tmax=3.5)."
        )
    return float(np.round(lasting.min(), 6))


def _from_epochs(epochs: Any, names: list[str], cutting: Cutting, path: Path) -> Piece:
    epochs.load_data()
    sfreq, tmin = float(epochs.info["sfreq"]), float(epochs.tmin)
    # Metadata columns that are not numeric become strings.
    table = {} if epochs.metadata is None else dict(epochs.metadata.items())
    columns = {str(name): values.to_numpy() for name, values in table.items()}
    about = {
        name: values if values.dtype.kind in "biuf" else values.astype(str)
        for name, values in columns.items()
    }
    if cutting.label_from in (None, "events"):
        by_code = {code: name for name, code in epochs.event_id.items()}
        values = np.array([by_code[code] for code in epochs.events[:, 2]])
    elif cutting.label_from in about:
        values = about[cutting.label_from].astype(str)
    else:
        raise DataError(
            f"{path}: label_from must be events or a column of its metadata, "
            f"{', '.join(about) or 'which it does not have'}, got {cutting.label_from!r}."
        )
    X = epochs.get_data(picks=names, copy=False)
    first, last = cutting.part(tmin, sfreq, X.shape[-1], f"{path}")
    onset = epochs.events[:, 0] + round(tmin * sfreq) + first
    run, group = about.pop("run", None), about.pop("group", None)
    return Piece(
        X=X[..., first:last],
        head=Head(
            ch_names=tuple(names),
            sfreq=sfreq,
            tmin=tmin + first / sfreq,
            n_samples=last - first,
            unit_in_volts=_unit(epochs, names, cutting, path),
        ),
        labels=cutting.labels(values, f"{path}"),
        run=None if run is None else run.astype(str),
        group=None if group is None else np.unique(group, return_inverse=True)[1],
        about=about | {"onset": onset.astype(np.int64)},
        filtered=(float(epochs.info["highpass"]), float(epochs.info["lowpass"])),
    )
