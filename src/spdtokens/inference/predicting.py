"""Apply a model to recordings it was not trained on, made to fit or refused."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.datasets.base import OTHER_UNIT
from spdtokens.datasets.files import Cutting, Piece, parse_events, read_npz_trials
from spdtokens.datasets.recordings import holds_epochs, is_mne_file, mne_files, open_mne, read_piece
from spdtokens.datasets.select import SAME_RATE, pick_channels, resampled
from spdtokens.errors import DeployError
from spdtokens.runtime import Decoder, load_model
from spdtokens.runtime.signals import in_parts

UNITS = {"V": 1.0, "mV": 1e-3, "uV": 1e-6, "nV": 1e-9}


@dataclass(frozen=True)
class Cut:
    """Trials of one file, as the file has them.

    Attributes
    ----------
    name : str
    X : ndarray, shape (n, channels, samples)
    ch_names : tuple of str
    sfreq : float, or None
    unit_in_volts : float, or None
    labels : ndarray of str, shape (n,), or None
        Classes, where the file tells them.
    onset : ndarray of float, shape (n,), or None
        Seconds from the beginning of the file to a trial's first sample.
    """

    name: str
    X: NDArray[Any]
    ch_names: tuple[str, ...]
    sfreq: float | None
    unit_in_volts: float | None
    labels: NDArray[np.str_] | None
    onset: NDArray[np.float64] | None


@dataclass(frozen=True)
class Predictions:
    """What a model says of trials.

    Attributes
    ----------
    classes : tuple of str
    file : list of str
        Of each trial.
    trial : ndarray of int, shape (n,)
        Number within its file, from 0.
    onset : ndarray of float, shape (n,)
        Seconds into the file; NaN where it is not known.
    truth : list of str
        What the file says; empty where it does not.
    probabilities : ndarray, shape (n, classes)
    notes : list of str
        What was done to make the recording fit the model.
    """

    classes: tuple[str, ...]
    file: list[str]
    trial: NDArray[np.int64]
    onset: NDArray[np.float64]
    truth: list[str]
    probabilities: NDArray[np.float64]
    notes: list[str]

    def __len__(self) -> int:
        return len(self.file)

    @property
    def predicted(self) -> list[str]:
        """Most probable class of each trial."""
        return [self.classes[i] for i in self.probabilities.argmax(1)]

    @property
    def accuracy(self) -> float | None:
        """Share of trials of known class that are right; None where none is known."""
        known = [(t, p) for t, p in zip(self.truth, self.predicted, strict=True) if t]
        known = [pair for pair in known if pair[0] in self.classes]
        return sum(t == p for t, p in known) / len(known) if known else None

    def as_csv(self) -> str:
        """A line a trial: file, trial, onset, truth, predicted, probabilities."""
        out = StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = [f"p({name})" for name in self.classes]
        writer.writerow(["file", "trial", "onset_s", "truth", "predicted", *columns])
        for row in zip(
            self.file,
            self.trial.tolist(),
            ["" if np.isnan(t) else f"{t:.3f}" for t in self.onset],
            self.truth,
            self.predicted,
            [[f"{p:.4f}" for p in row] for row in self.probabilities],
            strict=True,
        ):
            writer.writerow([*row[:-1], *row[-1]])
        return out.getvalue()

    def write(self, path: str | Path) -> None:
        """Write the table, whole or not at all."""
        with written_whole(Path(path)) as temporary:
            temporary.write_text(self.as_csv(), encoding="utf-8")


def predict(
    model: str | Path | Decoder,
    data: str | Path,
    *,
    events: str | dict[str, str] | None = None,
    every: float | None = None,
    label_from: str | None = None,
    unit: str | None = None,
) -> Predictions:
    """Class probabilities of the trials of a recording.

    Channels are found by name and brought into the model's order; another rate is resampled,
    another unit converted. What cannot be made to fit is refused with the reason.

    Parameters
    ----------
    model : str, Path or Decoder
    data : str or Path
        A file as for :func:`spdtokens.train`, or a folder of them. Each file is a session.
    events : str or dict, optional
        Events of a recording at which to decode, as for training; those trained with by default.
    every : float, optional
        Instead: decode every so many seconds, whatever happened.
    label_from : str, optional
        Where events are, as for training.
    unit : {'V', 'mV', 'uV', 'nV'}, optional
        Of an ``.npz`` file, if it is not that of the training data.

    Raises
    ------
    UserError
        If the file cannot be read, or does not fit the model.
    """
    decoder = model if isinstance(model, Decoder) else load_model(model)
    if unit is not None and unit not in UNITS:
        raise DeployError(f"There is no unit {unit!r}. There are: {', '.join(UNITS)}.")
    if every is not None and not every > 0:
        raise DeployError(f"every is a time in seconds above zero, not {every!r}.")
    if isinstance(events, str):
        events = parse_events(events)
    cutting = Cutting(events=events, label_from=label_from or decoder.about.get("label_from"))
    notes: list[str] = []
    cuts = list(_cuts(decoder, Path(data), cutting, every))
    if unit is not None:
        cuts = [replace(cut, unit_in_volts=UNITS[unit]) for cut in cuts]
    found = [decoder.predict_proba(fitted(decoder, cut, notes)) for cut in cuts]
    return Predictions(
        classes=decoder.classes,
        file=[cut.name for cut in cuts for _ in cut.X],
        trial=np.concatenate([np.arange(len(cut.X)) for cut in cuts]),
        onset=np.concatenate(
            [np.full(len(cut.X), np.nan) if cut.onset is None else cut.onset for cut in cuts]
        ),
        truth=[
            str(label)
            for cut in cuts
            for label in ([""] * len(cut.X) if cut.labels is None else cut.labels)
        ],
        probabilities=np.concatenate(found),
        notes=list(dict.fromkeys(notes)),
    )


def _cuts(decoder: Decoder, path: Path, cutting: Cutting, every: float | None) -> Iterator[Cut]:
    """Trials of every file of a path, as long as the model wants them."""
    if not path.exists():
        raise DeployError(f"There is no file or folder {path}.")
    files = mne_files(path) or sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not files:
        raise DeployError(f"{path} has no recordings, epochs or .npz files.")
    for file in files:
        if file.suffix == ".npz":
            yield _from_npz(file, cutting)
        elif not is_mne_file(file):
            raise DeployError(f"{file} is no recording, epochs or .npz file.")
        elif decoder.front is None or decoder.sfreq is None:
            raise DeployError(f"The model decodes covariance matrices, and {file} holds signals.")
        else:
            tmax = decoder.tmin + decoder.n_samples / decoder.sfreq
            timed = replace(cutting, tmin=decoder.tmin, tmax=tmax)
            yield _from_mne(file, decoder, timed, every)


def _from_npz(file: Path, cutting: Cutting) -> Cut:
    return _cut(file, read_npz_trials(file, Cutting(label_from=cutting.label_from)))


def _cut(file: Path, piece: Piece, onset: NDArray[np.float64] | None = None) -> Cut:
    head = piece.head
    return Cut(
        file.name, piece.X, head.ch_names, head.sfreq, head.unit_in_volts, piece.labels, onset
    )


def _from_mne(file: Path, decoder: Decoder, cutting: Cutting, every: float | None) -> Cut:
    epochs = holds_epochs(file)
    if every is not None:
        if epochs:
            raise DeployError(f"{file} holds epochs, decoded one by one: leave out --every.")
        return _windows(file, decoder, every)
    if not epochs and cutting.events is None:
        cutting = replace(cutting, events=_known_events(file, decoder, cutting))
    piece = read_piece(file, cutting)
    return _cut(file, piece, None if epochs else piece.about["onset"] / piece.head.sfreq)


def _known_events(file: Path, decoder: Decoder, cutting: Cutting) -> dict[str, str] | None:
    """Of the events trained with, those that the file has."""
    trained = decoder.about.get("events")
    if not isinstance(trained, dict) or cutting.label_from not in (None, "annotations"):
        return None
    there = set(open_mne(file).annotations.description.tolist())
    found = {str(name): str(event) for name, event in trained.items() if event in there}
    if found or not there:
        return found or None
    raise DeployError(
        f"{file} has none of the events trained with ({', '.join(map(str, trained.values()))}). "
        f"Its events: {', '.join(sorted(there))}. Say where to decode: --events left=769,right=770 "
        "or --every 1."
    )


def _windows(file: Path, decoder: Decoder, every: float) -> Cut:
    """Windows of a whole recording, one every so many seconds."""
    raw = open_mne(file)
    assert decoder.sfreq is not None
    sfreq = float(raw.info["sfreq"])
    names = pick_channels(raw.ch_names, decoder.ch_names, f"{file}")
    n = round(decoder.n_samples * sfreq / decoder.sfreq)
    step = max(1, round(every * sfreq))
    starts = np.arange(0, raw.n_times - n + 1, step)
    if not len(starts):
        raise DeployError(
            f"{file} lasts {raw.n_times / sfreq:.1f} s, and the model decodes windows of "
            f"{n / sfreq:.1f} s."
        )
    # A view: windows that overlap share their samples, which may be of hours.
    X = np.lib.stride_tricks.sliding_window_view(raw.get_data(picks=names), n, axis=1)
    X = X[:, ::step].swapaxes(0, 1)
    return Cut(file.name, X, tuple(names), sfreq, 1.0, None, starts / sfreq)


def fitted(decoder: Decoder, cut: Cut, notes: list[str]) -> NDArray[Any]:
    """Trials as the model takes them: its channels in its order, its rate, its unit, its length.

    Parameters
    ----------
    decoder : Decoder
    cut : Cut
    notes : list of str
        To which is added what was changed.

    Raises
    ------
    DeployError
        For what cannot be made to fit.
    """
    names = pick_channels(cut.ch_names, decoder.ch_names, cut.name)
    rows = [cut.ch_names.index(name) for name in names]
    X = cut.X
    if rows != list(range(len(cut.ch_names))):
        X = X[:, rows]
        extra = len(cut.ch_names) - len(rows)
        notes.append(
            "Channels were brought into the model's order"
            + (f", {extra} that it does not use left out." if extra else ".")
        )
    if decoder.front is None:
        if cut.sfreq is not None:
            raise DeployError(f"{cut.name} holds signals, and the model decodes covariances.")
        return X[:, :, rows]
    if cut.sfreq is None:
        raise DeployError(f"{cut.name} holds covariances, and the model decodes signals.")
    X = _in_unit(decoder, cut, X, notes)
    return _at_rate(decoder, cut, X, notes)


def _in_unit(decoder: Decoder, cut: Cut, X: NDArray[Any], notes: list[str]) -> NDArray[Any]:
    known = cut.unit_in_volts is not None and decoder.unit_in_volts is not None
    if known and cut.unit_in_volts != decoder.unit_in_volts:
        factor = cut.unit_in_volts / decoder.unit_in_volts  # type: ignore[operator]
        X = X * factor
        notes.append(f"Signals were multiplied by {factor:g}: they were in another unit.")
    before = decoder.about.get("amplitude")
    now = float(np.median(np.concatenate([part.std(-1) for part in in_parts(X)])))
    if not isinstance(before, int | float) or not before > 0 or not now > 0:
        return X
    ratio = now / before
    if not 1 / OTHER_UNIT < ratio < OTHER_UNIT:
        raise DeployError(
            f"The signals of {cut.name} are {ratio:.2g} times as large as those the model was "
            "trained on: they seem to be in another unit. Say which, such as --unit uV (of both: "
            "store unit_in_volts in .npz files), or look at the recording."
        )
    return X


def _at_rate(decoder: Decoder, cut: Cut, X: NDArray[Any], notes: list[str]) -> NDArray[Any]:
    assert decoder.sfreq is not None
    assert cut.sfreq is not None
    wanted, n = decoder.sfreq, decoder.n_samples
    if abs(cut.sfreq / wanted - 1) > SAME_RATE:
        if cut.sfreq < wanted:
            raise DeployError(
                f"{cut.name} is sampled at {cut.sfreq:g} Hz, the model at {wanted:g} Hz: what was "
                "not sampled cannot be restored. Train a model at the lower rate (resample the "
                "training recordings)."
            )
        X = resampled(X, cut.sfreq, wanted)
        notes.append(f"Resampled from {cut.sfreq:g} to {wanted:g} Hz.")
    if not n <= X.shape[-1] <= n + 2:
        raise DeployError(
            f"Trials of {cut.name} last {X.shape[-1] / wanted:.3f} s, those of the model "
            f"{n / wanted:.3f} s. Cut them alike: from {decoder.tmin:g} to "
            f"{decoder.tmin + n / wanted:g} s after the event."
        )
    return X[..., :n]


def summary(found: Predictions, files: Sequence[str] = ()) -> str:
    """What was predicted, in a line or two."""
    counts = {name: found.predicted.count(name) for name in found.classes}
    told = ", ".join(f"{name} {n}" for name, n in counts.items())
    text = counted(len(found), "trial")
    text += f" of {len(files)} files: {told}." if len(files) > 1 else f": {told}."
    if found.accuracy is not None:
        known = sum(t in found.classes for t in found.truth)
        text += f" Right: {100 * found.accuracy:.1f} % of {known} whose class the file tells."
    return text
