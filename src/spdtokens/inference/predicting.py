"""Apply a model to new recordings, after matching channels, unit, sampling rate and length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import written_whole
from spdtokens._tables import counted
from spdtokens.datasets.files import Cutting, Piece, read_npz_trials
from spdtokens.datasets.recordings import holds_epochs, is_mne_file, mne_files, open_mne, read_piece
from spdtokens.datasets.select import LONGER, SAME_RATE, Head, conformed, pick_channels
from spdtokens.datasets.units import volts_of
from spdtokens.errors import DataError, DeployError
from spdtokens.inference.convert import with_channels
from spdtokens.inference.live import times_as_large
from spdtokens.preprocessing import coverage
from spdtokens.runtime import Decoder, load_model

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model for the trials of one or more files.

    Parameters
    ----------
    classes : tuple of str
        Class names.
    file : list of str, length n_trials
        Name of the file of each trial.
    trial : ndarray of int, shape (n_trials,)
        Index of each trial in its file.
    onset : ndarray of float, shape (n_trials,)
        Start of each trial in the file, in seconds; NaN if unknown.
    truth : list of str, length n_trials
        Class according to the file; empty if unknown.
    probabilities : ndarray, shape (n_trials, n_classes)
        Class probabilities.
    notes : list of str
        Changes made to the recordings to match the model.

    See Also
    --------
    predict : Returns predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.inference import Predictions
    >>> p = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> onset = np.array([1.0, 5.0])
    >>> found = Predictions(
    ...     ("left", "right"), ["a.edf"] * 2, np.arange(2), onset, ["left"] * 2, p, []
    ... )
    >>> found.predicted, found.accuracy
    (['left', 'right'], 0.5)
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
        """Accuracy on the trials of known class; None if there are none."""
        pairs = zip(self.truth, self.predicted, strict=True)
        right = [truth == found for truth, found in pairs if truth in self.classes]
        return sum(right) / len(right) if right else None

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per trial.

        Returns
        -------
        pandas.DataFrame
            Columns ``file``, ``trial``, ``onset_s``, ``truth``, ``predicted``, and ``p(CLASS)`` for
            each class.
        """
        import pandas as pd  # slow to import

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
        """Return the table as CSV text.

        Returns
        -------
        str
            A header, and one line per trial.
        """
        onset = ["" if np.isnan(t) else f"{t:.3f}" for t in self.onset]
        frame = self.to_frame().assign(onset_s=onset)
        return str(frame.to_csv(index=False, float_format="%.4f", lineterminator="\n"))

    def write(self, path: str | Path) -> None:
        """Write the table to a CSV file.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced only when the new one is complete.
        """
        with written_whole(Path(path)) as temporary:
            temporary.write_text(self.as_csv(), encoding="utf-8")

    def summary(self) -> str:
        """Summarise the predictions in one line.

        Returns
        -------
        str
            Number of trials, predictions per class, and the accuracy if classes are known.
        """
        files, predicted = len(set(self.file)), self.predicted
        text = counted(len(self), "trial") + (f" of {files} files: " if files > 1 else ": ")
        text += ", ".join(f"{name} {predicted.count(name)}" for name in self.classes) + "."
        if self.accuracy is not None:
            known = sum(truth in self.classes for truth in self.truth)
            text += f" Accuracy: {100 * self.accuracy:.1f} % of {known} trials of known class."
        return text


def predict(
    model: str | Path | Decoder,
    data: str | Path,
    *,
    events: str | dict[str, str] | None = None,
    every: float | None = None,
    label_from: str | None = None,
    unit: str | None = None,
    interpolate: bool = False,
) -> Predictions:
    """Predict the class of the trials of a recording.

    Channels are found by name and brought into the order of the model. Signals are resampled and
    converted to the unit of the model if necessary. Each file is treated as one session.

    Parameters
    ----------
    model : str, Path or Decoder
        A model file (``.spdt``), or a decoder.
    data : str or Path
        A file as for :func:`spdtokens.train`, or a folder of files.
    events : str or dict, default=None
        Classes and the events of a recording at which to decode, e.g. ``'left=769,right=770'``. If
        None, the events of the training data. Of an ``.npz`` file all trials are decoded, and
        ``events`` names its labels, e.g. ``'left_fist=left_hand,right_fist=right_hand'`` for a data
        set whose classes have other names than those of the model.
    every : float, default=None
        If given, decode a recording at intervals of this many seconds instead of at events.
    label_from : str, default=None
        Where the events or labels are, as for :func:`spdtokens.train`. If None, as in training.
    unit : {'V', 'mV', 'uV', 'nV'}, default=None
        Unit of an ``.npz`` file. If None, the unit in the file, or else that of the training data.
    interpolate : bool, default=False
        Whether to interpolate channels of the model that a file lacks from all channels that it
        has. If False, a missing channel is an error.

    Returns
    -------
    Predictions
        Predictions for all trials of all files.

    Raises
    ------
    UserError
        If a file cannot be read or does not match the model.

    See Also
    --------
    spdtokens.train : Train a model on recordings.
    spdtokens.load_model : Load a model for trials in memory.
    spdtokens.inference.with_channels : Apply a model to other channels.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import make_decoder, predict
    >>> from spdtokens.inference import as_decoder
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> decoder = as_decoder(pipeline, ch_names=("C3", "Cz", "C4"), classes=("left", "right"))
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/new.npz", X=X[:4], sfreq=100, ch_names=decoder.ch_names)
    ...     found = predict(decoder, f"{folder}/new.npz")
    >>> found.probabilities.shape
    (4, 2)
    """
    decoder = model if isinstance(model, Decoder) else load_model(model)
    unit_in_volts = volts_of(unit, DeployError)
    if every is not None and not every > 0:
        raise DeployError(f"every must be > 0 seconds, got {every!r}.")
    cutting = Cutting(events=events, label_from=label_from or decoder.about.get("label_from"))
    notes: list[str] = []
    rows = []
    for file in _files(Path(data)):
        piece, onset = _trials(decoder, file, cutting, every, interpolate)
        if unit_in_volts is not None:
            piece = replace(piece, head=replace(piece.head, unit_in_volts=unit_in_volts))
        n = len(piece.X)
        own = _with_channels_of(decoder, piece.head.ch_names, file.name, interpolate)
        if own is not decoder:
            notes.append(_interpolated(decoder, own, file.name))
        rows.append(
            (
                [file.name] * n,
                np.arange(n),
                np.full(n, np.nan) if onset is None else onset,
                [""] * n if piece.labels is None else piece.labels,
                own.predict_proba(_fitted(own, file.name, piece, notes)),
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
        raise DeployError(f"{(wrong or [path])[0]} contains no recordings, epochs or .npz trials.")
    return files


def _trials(
    decoder: Decoder, file: Path, cutting: Cutting, every: float | None, interpolate: bool
) -> tuple[Piece, NDArray[np.float64] | None]:
    """Read the trials of a file in the length of the model, and their onsets in seconds."""
    if file.suffix == ".npz":
        named = Cutting(events=cutting.events, label_from=cutting.label_from)
        return read_npz_trials(file, named), None
    if decoder.sfreq is None:
        raise DeployError(f"{file} must contain covariances for this model, got signals.")
    epochs = holds_epochs(file)
    if every is not None:
        if epochs:
            raise DeployError(
                f"--every applies to recordings only, but {file} contains epochs. Remove --every."
            )
        return _windows(file, decoder, decoder.sfreq, every, interpolate)
    if not epochs and cutting.events is None:
        cutting = replace(cutting, events=_known_events(file, decoder, cutting))
    tmax = decoder.tmin + decoder.n_samples / decoder.sfreq
    piece = read_piece(file, replace(cutting, tmin=decoder.tmin, tmax=tmax))
    return piece, None if epochs else piece.about["onset"] / piece.head.sfreq


def _known_events(file: Path, decoder: Decoder, cutting: Cutting) -> dict[str, str] | None:
    """Return the training events that occur in the file."""
    trained = decoder.about.get("events")
    if not isinstance(trained, dict) or cutting.label_from not in (None, "annotations"):
        return None
    there = set(open_mne(file).annotations.description.tolist())
    found = {str(name): str(event) for name, event in trained.items() if event in there}
    if found or not there:
        return found or None
    raise DeployError(
        f"{file} has none of the training events ({', '.join(map(str, trained.values()))}). Its "
        f"events: {', '.join(sorted(there))}. Name the events to decode, e.g. --events "
        f"'{next(iter(trained))}={min(there)}', or use --every 1."
    )


def _windows(
    file: Path, decoder: Decoder, sfreq: float, every: float, interpolate: bool
) -> tuple[Piece, NDArray[np.float64]]:
    """Cut a recording into windows at a regular interval; return them and their onsets."""
    raw = open_mne(file)
    rate = float(raw.info["sfreq"])
    decoder = _with_channels_of(decoder, raw.ch_names, f"{file}", interpolate)
    names = pick_channels(raw.ch_names, decoder.ch_names, f"{file}")
    n = round(decoder.n_samples * rate / sfreq)
    step = max(1, round(every * rate))
    if raw.n_times < n:
        raise DeployError(
            f"{file} must be at least {n / rate:.1f} s long for this model, got "
            f"{raw.n_times / rate:.1f} s."
        )
    # A view: overlapping windows of a long recording share their memory.
    X = np.lib.stride_tricks.sliding_window_view(raw.get_data(picks=names), n, axis=1)
    X = X[:, ::step].swapaxes(0, 1)
    head = Head(tuple(names), rate, unit_in_volts=1.0)
    return Piece(X, head), np.arange(len(X)) * step / rate


def _with_channels_of(
    decoder: Decoder, ch_names: Sequence[str], name: str, interpolate: bool
) -> Decoder:
    """Return the model for the channels of a file: itself if they contain its channels."""
    try:
        pick_channels(ch_names, decoder.ch_names, name)
    except DataError as error:
        if not interpolate:
            raise DeployError(
                f"{error} To interpolate them, use --interpolate (interpolate=True in Python)."
            ) from None
        return with_channels(decoder, ch_names)
    return decoder


def _interpolated(decoder: Decoder, own: Decoder, name: str) -> str:
    """Note about the channels of the model that were interpolated."""
    assert own.interpolation is not None
    several = (own.interpolation != 0).sum(1) > 1
    missing = np.array(decoder.ch_names)[several].tolist()
    share = coverage(decoder.ch_names, own.ch_names)
    return (
        f"{len(missing)} of {len(several)} channels of the model were interpolated for {name}: "
        f"{', '.join(missing)}. Coverage: {100 * share:.0f} %. Decoding is less accurate than with "
        "recorded channels."
    )


def _fitted(decoder: Decoder, name: str, piece: Piece, notes: list[str]) -> NDArray[Any]:
    """Match trials to the model: channels, unit, sampling rate and length; add notes of changes."""
    head, sfreq = piece.head, decoder.sfreq
    names = tuple(pick_channels(head.ch_names, decoder.ch_names, name))
    if (head.sfreq is None) != (sfreq is None):
        kinds = ("covariances", "signals")[:: 1 if sfreq is None else -1]
        raise DeployError(f"{name} must contain {kinds[0]} for this model, got {kinds[1]}.")
    if names != head.ch_names:
        extra = len(head.ch_names) - len(names)
        notes.append(
            "Channels were brought into the order of the model"
            + (f"; {counted(extra, 'channel')} not used." if extra else ".")
        )
    unit = decoder.unit_in_volts
    if head.unit_in_volts and unit and head.unit_in_volts != unit:
        factor = head.unit_in_volts / unit
        notes.append(f"Signals were multiplied by {factor:g} to convert their unit.")
    if sfreq is None or head.sfreq is None:
        return conformed(piece.X, {}, head, Head(names, None, unit_in_volts=unit))[0]
    if head.sfreq < sfreq * (1 - SAME_RATE):
        raise DeployError(
            f"The sampling rate of {name} must be at least that of the model, {sfreq:g} Hz, got "
            f"{head.sfreq:g} Hz. Train a model at the lower rate with `spdtokens train --resample "
            f"{head.sfreq:g}`."
        )
    if head.sfreq > sfreq * (1 + SAME_RATE):
        notes.append(f"Resampled from {head.sfreq:g} to {sfreq:g} Hz.")
    n = decoder.n_samples
    to = Head(names, sfreq, n_samples=n + LONGER + 1, unit_in_volts=unit)
    X, _ = conformed(piece.X, {}, head, to)
    if (ratio := times_as_large(decoder, X)) is not None:
        raise DeployError(
            f"The signals of {name} are {ratio:.2g} times as large as the training data: they "
            "seem to have another unit. Set it, e.g. --unit uV (or store unit_in_volts in the .npz "
            "files of both), or check the recording."
        )
    if not n <= X.shape[-1] <= n + LONGER:
        raise DeployError(
            f"Trials of {name} must be {n / sfreq:.3f} s long, got {X.shape[-1] / sfreq:.3f} s. "
            f"Cut them from {decoder.tmin:g} to {decoder.tmin + n / sfreq:g} s after the event."
        )
    return X[..., :n]
