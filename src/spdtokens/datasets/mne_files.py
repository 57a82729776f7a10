"""The user's recordings and epochs, in any format that MNE reads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset
from spdtokens.datasets.cutting import COMMON, Cutting, chosen_events, named_labels, part_of
from spdtokens.datasets.fif import refuse_circles
from spdtokens.datasets.joining import Head, agree, pick_channels
from spdtokens.datasets.pieces import Piece, from_pieces
from spdtokens.errors import DataError

RAW = (".edf", ".bdf", ".gdf", ".vhdr", ".set", ".fif", ".fif.gz")
EPOCHS = ("-epo.fif", "_epo.fif", "-epo.fif.gz", "_epo.fif.gz")
#: Parts of a file's name, as in BIDS.
ENTITIES = re.compile(r"(sub|ses|run)-([^_]+)")


def is_mne_file(path: Path) -> bool:
    """Whether the name is that of a file MNE reads."""
    return path.name.lower().endswith(RAW)


def mne_files(path: Path) -> list[Path]:
    """A file, or those of a folder that MNE reads, in the order of their names."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file() and is_mne_file(file))
    # Long recordings are split into files of which the first leads to the others.
    return [file for file in found if not re.search(r"(-|_split-0*)[1-9]\d*\.fif$", file.name)]


def from_mne_files(path: Path, cutting: Cutting | None = None) -> Dataset:
    """Recordings or epochs as a data set.

    Parameters
    ----------
    path : Path
        A file, or a folder of them. The files of a folder are sessions of one person, in the order
        of their names, unless these tell: ``sub-01_ses-2_run-3_eeg.edf``.
    cutting : Cutting, optional

    Raises
    ------
    DataError
        If a file cannot be read, has not the events or channels, or files do not go together.
    """
    cutting = cutting or Cutting()
    files = mne_files(path)
    if not files:
        raise DataError(f"{path} has no recordings ({', '.join(RAW)}).")
    # What differs is told from the headers, before any signal is read.
    heads = {file.name: _head(file, cutting) for file in files}
    to = agree(heads, cutting.channels, cutting.resample)
    cutting = replace(cutting, channels=to.ch_names)
    pieces = {file: read_piece(file, cutting) for file in files}
    name = path.name if path.is_dir() else _stem(path)
    return from_pieces(name, f"{path}", pieces, _places(files), pieces.__getitem__, cutting)


def _head(path: Path, cutting: Cutting) -> Head:
    """Channels that can be taken from a file, and its rate."""
    opened = open_epochs(path) if holds_epochs(path) else open_raw(path)
    chosen = cutting.channels not in ((), (COMMON,))
    with _told(path):
        names = opened.ch_names if chosen else _eeg(opened, (), path)
        return Head(tuple(names), float(opened.info["sfreq"]))


def read_piece(path: Path, cutting: Cutting) -> Piece:
    """The trials of one file."""
    return _epochs(path, cutting) if holds_epochs(path) else _recording(path, cutting)


def open_raw(path: Path) -> Any:
    """A recording as MNE opens it; signals are read when they are needed."""
    import mne

    with _told(path):
        refuse_circles(path)
        return mne.io.read_raw(path, preload=False, verbose="error")


def open_epochs(path: Path) -> Any:
    """Epochs as MNE opens them; signals are read when they are needed."""
    import mne

    with _told(path):
        refuse_circles(path)
        return mne.read_epochs(path, preload=False, verbose="error")


def holds_epochs(path: Path) -> bool:
    """Whether the name is that of a file of epochs."""
    return path.name.lower().endswith(EPOCHS)


def _stem(path: Path) -> str:
    name = path.name
    for suffix in sorted((*EPOCHS, *RAW), key=len, reverse=True):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return path.stem


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """MNE raises many kinds of errors on damaged files: they become ours."""
    import mne

    try:
        with warnings.catch_warnings(), mne.use_log_level("error"):
            warnings.simplefilter("ignore")  # remarks on headers, which users cannot change
            yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}). It may be damaged, cut "
            "short, or of another format than its name says."
        ) from error


def _recording(path: Path, cutting: Cutting) -> Piece:
    import mne

    raw = open_raw(path)
    with _told(path):
        events, codes = _events(raw, cutting, path)
        tmin = 0.0 if cutting.tmin is None else cutting.tmin
        tmax = _duration(raw, codes, path) if cutting.tmax is None else cutting.tmax
        sfreq = float(raw.info["sfreq"])
        n = round((tmax - tmin) * sfreq)
        if n < 2:
            raise DataError(f"{path}: from {tmin:g} to {tmax:g} s there are {n} samples.")
        names = _eeg(raw, cutting.channels, path)
        start = events[:, 0] - raw.first_samp + round(tmin * sfreq)
        nothing = DataError(
            f"{path}: none of {len(events)} events has {tmin:g} to {tmax:g} s of signal around it "
            "that is not marked as bad."
        )
        if not ((start >= 0) & (start + n <= raw.n_times)).any():
            raise nothing
        epochs = mne.Epochs(
            raw,
            events,
            codes,
            tmin=tmin,
            tmax=tmin + (n - 1) / sfreq,
            baseline=None,
            picks=names,
            preload=True,
            event_repeated="drop",
            verbose="error",
        )
        X = epochs.get_data(picks=names, copy=False)
    if not len(X):
        raise nothing
    by_code = {code: name for name, code in codes.items()}
    labels = np.array([by_code[code] for code in epochs.events[:, 2]])
    onset = epochs.events[:, 0] - raw.first_samp + round(tmin * sfreq)
    info = raw.info
    return Piece(
        X=X,
        head=Head(tuple(names), sfreq, tmin, n, 1.0),
        labels=labels,
        about={"onset": onset.astype(np.int64)},
        filtered=(float(info["highpass"]), float(info["lowpass"])),
        dropped=len(events) - len(X),
    )


def _events(raw: Any, cutting: Cutting, path: Path) -> tuple[NDArray[Any], dict[str, int]]:
    """Events (n, 3) as MNE has them, and the number of each class."""
    import mne

    if cutting.label_from in (None, "annotations"):
        kinds, counts = np.unique(raw.annotations.description, return_counts=True)
        stim = mne.pick_types(raw.info, meg=False, stim=True)
        if len(kinds) or cutting.label_from or not len(stim):
            found = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
            chosen = chosen_events(found, cutting, f"{path}")
            codes = {name: number for number, name in enumerate(chosen, 1)}
            texts = {event: codes[name] for name, event in chosen.items()}
            events, _ = mne.events_from_annotations(raw, texts, verbose="error")
            return events, codes
    channel = None if cutting.label_from == "annotations" else cutting.label_from
    if channel is not None and channel not in raw.ch_names:
        raise DataError(
            f"{path} has no channel {channel!r} to take labels from. Say annotations, or one of "
            f"its channels: {', '.join(raw.ch_names)}."
        )
    events = mne.find_events(raw, channel, shortest_event=1, verbose="error")
    kinds, counts = np.unique(events[:, 2], return_counts=True)
    found = dict(zip(map(str, kinds), counts.tolist(), strict=True))
    chosen = chosen_events(found, cutting, f"{path}")
    codes = {name: int(event) for name, event in chosen.items()}
    return events[np.isin(events[:, 2], list(codes.values()))], codes


def _duration(raw: Any, codes: dict[str, int], path: Path) -> float:
    """How long the annotations of classes last."""
    marks = raw.annotations
    lasting = np.array([d for d, t in zip(marks.duration, marks.description, strict=True) if d > 0])
    if len(lasting) < 2 or np.ptp(lasting) > 0.1 * lasting.mean() or lasting.mean() < 0.2:
        raise DataError(
            f"{path}: how long a trial of {', '.join(codes)} lasts is not told by the file. Say "
            "so, in seconds after the event: spdtokens train --tmin 0.5 --tmax 3.5, or in Python "
            "load_dataset(path, tmin=0.5, tmax=3.5)."
        )
    return float(np.round(lasting.min(), 6))


def _eeg(raw: Any, channels: tuple[str, ...], path: Path) -> list[str]:
    """The channels that are asked for; else all of EEG that are not marked as bad."""
    import mne

    if channels:
        return pick_channels(raw.ch_names, channels, f"{path}")
    picks = mne.pick_types(raw.info, meg=False, eeg=True, exclude="bads")
    if not len(picks):
        raise DataError(f"{path} has no EEG channels. It has: {', '.join(raw.ch_names)}.")
    return [raw.ch_names[i] for i in picks]


def _epochs(path: Path, cutting: Cutting) -> Piece:
    epochs = open_epochs(path)
    with _told(path):
        epochs.load_data()
        labels = _epoch_labels(epochs, cutting, path)
        names = _eeg(epochs, cutting.channels, path)
        sfreq, tmin = float(epochs.info["sfreq"]), float(epochs.tmin)
        X = epochs.get_data(picks=names, copy=False)
    first, last = part_of(cutting, tmin, sfreq, X.shape[-1], f"{path}")
    about = _metadata(epochs)
    onset = epochs.events[:, 0] + round(tmin * sfreq) + first
    run, group = about.pop("run", None), about.pop("group", None)
    return Piece(
        X=X[..., first:last],
        head=Head(tuple(names), sfreq, tmin + first / sfreq, last - first, 1.0),
        labels=labels,
        run=None if run is None else run.astype(str),
        group=None if group is None else np.unique(group, return_inverse=True)[1],
        about=about | {"onset": onset.astype(np.int64)},
        filtered=(float(epochs.info["highpass"]), float(epochs.info["lowpass"])),
    )


def _metadata(epochs: Any) -> dict[str, NDArray[Any]]:
    """Columns of the metadata: numbers as they are, anything else as text."""
    if epochs.metadata is None:
        return {}
    columns = {str(name): epochs.metadata[name].to_numpy() for name in epochs.metadata.columns}
    return {
        name: values if values.dtype.kind in "biuf" else values.astype(str)
        for name, values in columns.items()
    }


def _epoch_labels(epochs: Any, cutting: Cutting, path: Path) -> NDArray[np.str_]:
    """Class of each epoch; empty where it is of none that is asked for."""
    if cutting.label_from in (None, "events"):
        by_code = {code: name for name, code in epochs.event_id.items()}
        values = np.array([by_code[code] for code in epochs.events[:, 2]])
    else:
        columns = [] if epochs.metadata is None else list(epochs.metadata.columns)
        if cutting.label_from not in columns:
            raise DataError(
                f"{path} has no column {cutting.label_from!r} in its metadata to take labels from. "
                f"Say events, or one of its columns: {', '.join(columns) or 'it has none'}."
            )
        values = epochs.metadata[cutting.label_from].to_numpy().astype(str)
    return named_labels(values, cutting, f"{path}")


def _places(files: Sequence[Path]) -> dict[Path, tuple[str, str, str]]:
    """Subject, session and run of every file."""
    found = {}
    for file in files:
        told = dict(ENTITIES.findall(_stem(file)))
        session = "1" if told or len(files) == 1 else _stem(file)
        found[file] = (told.get("sub", "1"), told.get("ses", session), told.get("run", "1"))
    # Every file is a run of its own: samples are counted from its beginning.
    places = list(found.values())
    return {
        file: place if places.count(place) == 1 else (*place[:2], _stem(file))
        for file, place in found.items()
    }
