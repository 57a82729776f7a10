"""The user's recordings and epochs, in any format that MNE reads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.data.base import DataError, Dataset, Recording
from spdtokens.data.cutting import Cutting, chosen_events, refuse_one_class
from spdtokens.data.fif import refuse_circles

RAW = (".edf", ".bdf", ".gdf", ".vhdr", ".set", ".fif", ".fif.gz")
EPOCHS = ("-epo.fif", "_epo.fif", "-epo.fif.gz", "_epo.fif.gz")
#: Parts of a file's name, as in BIDS.
ENTITIES = re.compile(r"(sub|ses|run)-([^_]+)")


@dataclass(frozen=True)
class Piece:
    """The trials of one file.

    Attributes
    ----------
    X : ndarray, shape (n, channels, samples)
        In volts.
    labels : ndarray of str, shape (n,)
    onset : ndarray of int, shape (n,), or None
        First sample of each trial in the recording.
    ch_names : tuple of str
    sfreq, tmin : float
    filtered : pair of float
        High-pass and low-pass in Hz that the file tells of.
    dropped : int
        Trials at an end of the recording, or marked as bad.
    """

    X: NDArray[np.float64]
    labels: NDArray[np.str_]
    onset: NDArray[np.int64] | None
    ch_names: tuple[str, ...]
    sfreq: float
    tmin: float
    filtered: tuple[float, float]
    dropped: int


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
    pieces = {file: read_piece(file, cutting) for file in files}
    first = pieces[files[0]]
    for file, piece in pieces.items():
        _refuse_other(file, piece, files[0], first)
    classes = _classes(pieces, cutting)
    refuse_one_class(classes, f"{path}")
    places = _places(files)

    def read(subject: str, session: str) -> Recording:
        mine = [file for file, place in places.items() if place[:2] == (subject, session)]
        parts = [pieces[file] for file in mine]
        runs = np.repeat([places[file][2] for file in mine], [len(p.X) for p in parts])
        labels = np.concatenate([part.labels for part in parts])
        X = np.concatenate([part.X for part in parts])
        about = {}
        if all(part.onset is not None for part in parts):
            about["onset"] = _after_each_other(parts)
        y = np.array([classes.index(label) for label in labels], dtype=np.int64)
        return Recording(subject, session, X, y, runs, np.arange(len(X)), about)

    index: dict[str, tuple[str, ...]] = {}
    for subject, session, _ in places.values():
        index[subject] = tuple(dict.fromkeys((*index.get(subject, ()), session)))
    dropped = sum(piece.dropped for piece in pieces.values())
    end = first.tmin + first.X.shape[-1] / first.sfreq
    return Dataset(
        name=path.name if path.is_dir() else _stem(path),
        description=f"{path}"
        + (f"; {dropped} events at its ends or marked as bad left out" if dropped else ""),
        paradigm="other",
        classes=classes,
        ch_names=first.ch_names,
        sfreq=first.sfreq,
        tmin=first.tmin,
        window=(first.tmin, end),
        index=index,
        read=read,
        filtered=first.filtered,
        unit_in_volts=1.0,
    )


def read_piece(path: Path, cutting: Cutting) -> Piece:
    """The trials of one file."""
    return _epochs(path, cutting) if holds_epochs(path) else _recording(path, cutting)


def open_raw(path: Path) -> Any:
    """A recording as MNE opens it; signals are read when they are needed."""
    import mne

    with _told(path):
        refuse_circles(path)
        return mne.io.read_raw(path, preload=False, verbose="error")


def pick_channels(there: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """Names of a file's channels for those that are wanted.

    Written alike but for case, spaces, dots and the words EEG and REF: ``EEG C3-REF`` is ``C3``.

    Raises
    ------
    DataError
        With those that are missing, and what there is.
    """
    plain = {plain_name(name): name for name in there}
    missing = [name for name in wanted if plain_name(name) not in plain]
    if missing:
        raise DataError(
            f"{where} lacks {len(missing)} of {len(wanted)} channels: {', '.join(missing[:8])}"
            f"{', ...' if len(missing) > 8 else ''}. It has: {', '.join(there)}."
        )
    return [plain[plain_name(name)] for name in wanted]


def plain_name(name: str) -> str:
    """A channel's name without what differs from lab to lab."""
    text = re.sub(r"^EEG[ :_-]+|[-_ ]+(REF|LE|AR|A1|A2|M1|M2)$", "", name.strip().upper())
    return text.strip(" .")


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
    try:
        with warnings.catch_warnings():
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
        names = _eeg(raw, cutting, path)
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
        labels=labels,
        onset=onset.astype(np.int64),
        ch_names=tuple(names),
        sfreq=sfreq,
        tmin=tmin,
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
            "so: --tmin 0.5 --tmax 3.5, seconds after the event."
        )
    return float(np.round(lasting.min(), 6))


def _eeg(raw: Any, cutting: Cutting, path: Path) -> list[str]:
    import mne

    if cutting.channels:
        return pick_channels(raw.ch_names, cutting.channels, f"{path}")
    picks = mne.pick_types(raw.info, meg=False, eeg=True, exclude="bads")
    if not len(picks):
        raise DataError(f"{path} has no EEG channels. It has: {', '.join(raw.ch_names)}.")
    return [raw.ch_names[i] for i in picks]


def _epochs(path: Path, cutting: Cutting) -> Piece:
    import mne

    with _told(path):
        refuse_circles(path)
        epochs = mne.read_epochs(path, preload=True, verbose="error")
        labels = _epoch_labels(epochs, cutting, path)
        names = _eeg(epochs, cutting, path)
        sfreq, tmin = float(epochs.info["sfreq"]), float(epochs.tmin)
        X = epochs.get_data(picks=names, copy=False)
    first, last = 0, X.shape[-1]
    if cutting.tmin is not None:
        first = round((cutting.tmin - tmin) * sfreq)
    if cutting.tmax is not None:
        last = round((cutting.tmax - tmin) * sfreq)
    if not 0 <= first < last <= X.shape[-1]:
        raise DataError(
            f"{path}: its epochs last from {tmin:g} to {tmin + X.shape[-1] / sfreq:g} s, and do "
            "not hold the part that is asked for. Change --tmin and --tmax."
        )
    kept = labels != ""
    return Piece(
        X=X[kept][..., first:last],
        labels=labels[kept],
        onset=(epochs.events[:, 0] + round(tmin * sfreq) + first)[kept].astype(np.int64),
        ch_names=tuple(names),
        sfreq=sfreq,
        tmin=tmin + first / sfreq,
        filtered=(float(epochs.info["highpass"]), float(epochs.info["lowpass"])),
        dropped=0,
    )


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
    if cutting.events is None:
        return values
    kinds, counts = np.unique(values, return_counts=True)
    found = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    chosen = chosen_events(found, cutting, f"{path}")
    names = {event: name for name, event in chosen.items()}
    return np.array([names.get(value, "") for value in values])


def _refuse_other(file: Path, piece: Piece, first_file: Path, first: Piece) -> None:
    pairs: list[tuple[str, Callable[[Piece], Any]]] = [
        ("sampled at {} Hz", lambda p: p.sfreq),
        ("trials of {} samples", lambda p: p.X.shape[-1]),
        ("trials that begin at {} s", lambda p: round(p.tmin, 9)),
    ]
    for what, of in pairs:
        if of(piece) != of(first):
            raise DataError(
                f"{file} has {what.format(of(piece))}, {first_file} {of(first)}. Only recordings "
                "that are alike can be used together: leave it out, or resample it."
            )
    if piece.ch_names != first.ch_names:
        other = ", ".join(sorted(set(piece.ch_names) ^ set(first.ch_names))[:8])
        raise DataError(
            f"{file} and {first_file} have not the same channels"
            + (f" ({other})" if other else " in the same order")
            + ". Name those to use, in order: --channels C3,Cz,C4."
        )


def _classes(pieces: dict[Path, Piece], cutting: Cutting) -> tuple[str, ...]:
    if cutting.events is not None:
        return tuple(cutting.events)
    return tuple(sorted({label for piece in pieces.values() for label in piece.labels.tolist()}))


def _places(files: Sequence[Path]) -> dict[Path, tuple[str, str, str]]:
    """Subject, session and run of every file."""
    found = {}
    for file in files:
        told = dict(ENTITIES.findall(_stem(file)))
        session = "1" if told or len(files) == 1 else _stem(file)
        found[file] = (told.get("sub", "1"), told.get("ses", session), told.get("run", "1"))
    return found


def _after_each_other(parts: Sequence[Piece]) -> NDArray[np.int64]:
    """First samples of trials of several files, as if one had been recorded after the other."""
    onsets, start = [], 0
    for part in parts:
        assert part.onset is not None
        onsets.append(part.onset + start)
        start = int(onsets[-1].max()) + 2 * part.X.shape[-1]
    return np.concatenate(onsets)
