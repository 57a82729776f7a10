"""Apply a model to recordings it was not trained on, made to fit or refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.datasets.files import Cutting, Piece, parse_events, read_npz_trials
from spdtokens.datasets.recordings import holds_epochs, is_mne_file, mne_files, open_mne, read_piece
from spdtokens.datasets.select import LONGER, SAME_RATE, Head, conformed, pick_channels
from spdtokens.errors import DeployError
from spdtokens.inference.live import times_as_large
from spdtokens.inference.lsl import volts_of
from spdtokens.runtime import Decoder, load_model

if TYPE_CHECKING:
    import pandas as pd


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
        pairs = zip(self.truth, self.predicted, strict=True)
        right = [truth == found for truth, found in pairs if truth in self.classes]
        return sum(right) / len(right) if right else None

    def to_frame(self) -> pd.DataFrame:
        """A row per trial: file, trial, onset, truth, predicted, probabilities.

        Returns
        -------
        pandas.DataFrame
            The probabilities of a class are the column ``p(CLASS)``.
        """
        import pandas as pd  # slow to import, and not needed for the numbers

        columns = {
            "file": self.file,
            "trial": self.trial,
            "onset_s": self.onset,
            "truth": self.truth,
            "predicted": self.predicted,
        }
        pairs = zip(self.classes, self.probabilities.T, strict=True)
        return pd.DataFrame(columns | {f"p({name})": p for name, p in pairs})

    def as_csv(self) -> str:
        """The same as text: a heading, and a line per trial."""
        onset = ["" if np.isnan(t) else f"{t:.3f}" for t in self.onset]
        frame = self.to_frame().assign(onset_s=onset)
        return str(frame.to_csv(index=False, float_format="%.4f", lineterminator="\n"))

    def write(self, path: str | Path) -> None:
        """Write the table, whole or not at all."""
        with written_whole(Path(path)) as temporary:
            temporary.write_text(self.as_csv(), encoding="utf-8")

    def summary(self) -> str:
        """What was predicted, in a line."""
        files, predicted = len(set(self.file)), self.predicted
        text = counted(len(self), "trial") + (f" of {files} files: " if files > 1 else ": ")
        text += ", ".join(f"{name} {predicted.count(name)}" for name in self.classes) + "."
        if self.accuracy is not None:
            known = sum(truth in self.classes for truth in self.truth)
            text += f" Right: {100 * self.accuracy:.1f} % of {known} whose class the file tells."
        return text


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
    unit_in_volts = volts_of(unit)
    if every is not None and not every > 0:
        raise DeployError(f"every must be a time in seconds above zero, got {every!r}.")
    if isinstance(events, str):
        events = parse_events(events)
    cutting = Cutting(events=events, label_from=label_from or decoder.about.get("label_from"))
    notes: list[str] = []
    rows = []
    for file in _files(Path(data)):
        piece, onset = _trials(decoder, file, cutting, every)
        if unit_in_volts is not None:
            piece = replace(piece, head=replace(piece.head, unit_in_volts=unit_in_volts))
        n = len(piece.X)
        rows.append(
            (
                [file.name] * n,
                np.arange(n),
                np.full(n, np.nan) if onset is None else onset,
                [""] * n if piece.labels is None else piece.labels,
                decoder.predict_proba(_fitted(decoder, file.name, piece, notes)),
            )
        )
    files, trial, onset, truth, found = map(np.concatenate, zip(*rows, strict=True))
    notes = list(dict.fromkeys(notes))
    return Predictions(decoder.classes, files.tolist(), trial, onset, truth.tolist(), found, notes)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise DeployError(f"There is no file or folder {path}.")
    files = mne_files(path) or sorted(path.glob("*.npz")) if path.is_dir() else [path]
    wrong = [file for file in files if file.suffix != ".npz" and not is_mne_file(file)]
    if wrong or not files:
        raise DeployError(f"{(wrong or [path])[0]} has no recordings, epochs or .npz trials.")
    return files


def _trials(
    decoder: Decoder, file: Path, cutting: Cutting, every: float | None
) -> tuple[Piece, NDArray[np.float64] | None]:
    """Trials of a file, as long as the model wants them; seconds at which they begin."""
    if file.suffix == ".npz":
        return read_npz_trials(file, Cutting(label_from=cutting.label_from)), None
    if decoder.sfreq is None:
        raise DeployError(f"{file} holds signals, and the model decodes covariances.")
    epochs = holds_epochs(file)
    if every is not None:
        if epochs:
            raise DeployError(f"{file} holds epochs, decoded one by one: leave out --every.")
        return _windows(file, decoder, decoder.sfreq, every)
    if not epochs and cutting.events is None:
        cutting = replace(cutting, events=_known_events(file, decoder, cutting))
    tmax = decoder.tmin + decoder.n_samples / decoder.sfreq
    piece = read_piece(file, replace(cutting, tmin=decoder.tmin, tmax=tmax))
    return piece, None if epochs else piece.about["onset"] / piece.head.sfreq


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


def _windows(
    file: Path, decoder: Decoder, sfreq: float, every: float
) -> tuple[Piece, NDArray[np.float64]]:
    """Windows of a whole recording, one every so many seconds, and when they begin."""
    raw = open_mne(file)
    rate = float(raw.info["sfreq"])
    names = pick_channels(raw.ch_names, decoder.ch_names, f"{file}")
    n = round(decoder.n_samples * rate / sfreq)
    step = max(1, round(every * rate))
    if raw.n_times < n:
        raise DeployError(
            f"{file} lasts {raw.n_times / rate:.1f} s, and the model decodes windows of "
            f"{n / rate:.1f} s."
        )
    # A view: windows that overlap share their samples, which may be of hours.
    X = np.lib.stride_tricks.sliding_window_view(raw.get_data(picks=names), n, axis=1)
    X = X[:, ::step].swapaxes(0, 1)
    head = Head(tuple(names), rate, unit_in_volts=1.0)
    return Piece(X, head), np.arange(len(X)) * step / rate


def _fitted(decoder: Decoder, name: str, piece: Piece, notes: list[str]) -> NDArray[Any]:
    """Trials as the model takes them: its channels, unit, rate and length; notes of what was done.

    Raises
    ------
    DeployError
        For what cannot be made to fit.
    """
    head, sfreq = piece.head, decoder.sfreq
    names = tuple(pick_channels(head.ch_names, decoder.ch_names, name))
    if (head.sfreq is None) != (sfreq is None):
        kinds = ("covariances", "signals")[:: 1 if head.sfreq is None else -1]
        raise DeployError(f"{name} holds {kinds[0]}, and the model decodes {kinds[1]}.")
    if names != head.ch_names:
        extra = len(head.ch_names) - len(names)
        notes.append(
            "Channels were brought into the model's order"
            + (f", {extra} that it does not use left out." if extra else ".")
        )
    unit = decoder.unit_in_volts
    if head.unit_in_volts and unit and head.unit_in_volts != unit:
        factor = head.unit_in_volts / unit
        notes.append(f"Signals were multiplied by {factor:g}: they were in another unit.")
    if sfreq is None or head.sfreq is None:
        return conformed(piece.X, {}, head, Head(names, None, unit_in_volts=unit))[0]
    if head.sfreq < sfreq * (1 - SAME_RATE):
        raise DeployError(
            f"{name} is sampled at {head.sfreq:g} Hz, the model at {sfreq:g} Hz: what was not "
            "sampled cannot be restored. Train a model at the lower rate (resample the training "
            "recordings)."
        )
    if head.sfreq > sfreq * (1 + SAME_RATE):
        notes.append(f"Resampled from {head.sfreq:g} to {sfreq:g} Hz.")
    n = decoder.n_samples
    to = Head(names, sfreq, n_samples=n + LONGER + 1, unit_in_volts=unit)
    X, _ = conformed(piece.X, {}, head, to)
    if (ratio := times_as_large(decoder, X)) is not None:
        raise DeployError(
            f"The signals of {name} are {ratio:.2g} times as large as those the model was "
            "trained on: they seem to be in another unit. Say which, such as --unit uV (of both: "
            "store unit_in_volts in .npz files), or look at the recording."
        )
    if not n <= X.shape[-1] <= n + LONGER:
        raise DeployError(
            f"Trials of {name} last {X.shape[-1] / sfreq:.3f} s, those of the model "
            f"{n / sfreq:.3f} s. Cut them alike: from {decoder.tmin:g} to "
            f"{decoder.tmin + n / sfreq:g} s after the event."
        )
    return X[..., :n]
