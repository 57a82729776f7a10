"""Check a data set: shape, labels, bad channels, line noise, rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spdtokens._tables import counted, number, table
from spdtokens.datasets.base import Dataset, Recording

if TYPE_CHECKING:
    from rich.table import Table

LINE_FREQUENCIES = (50.0, 60.0)
#: Ratio of the power at the line frequency to that of adjacent frequencies, above which it is
#: reported.
LINE_NOISE_LIMIT = 10.0


@dataclass(frozen=True)
class RecordingCheck:
    """Properties of one recording; ``problems`` is empty if there are none."""

    subject: str
    session: str
    trials: int
    shape: tuple[int, int]
    classes: dict[str, int]
    runs: int
    groups: int
    rms: float
    rank: int
    line_noise: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check_recording(dataset: Dataset, recording: Recording) -> RecordingCheck:
    """Check one recording."""
    classes = {name: int((recording.y == i).sum()) for i, name in enumerate(dataset.classes)}
    missing = [name for name, n in classes.items() if not n]
    problems = [f"no trial of class {', '.join(missing)}"] if missing else []
    finite = np.isfinite(recording.X).all((1, 2))
    if not finite.all():
        bad = np.flatnonzero(~finite)
        problems.append(f"NaN or infinity in {counted(len(bad), 'trial')}, first in trial {bad[0]}")
    X = recording.X if finite.all() else recording.X[finite]
    rms, rank, line = float("nan"), 0, {}
    if len(X):
        rms, rank = _rms_and_rank(X, dataset.is_covariance)
        if rank < X.shape[1]:
            channels = counted(X.shape[1], "channel")
            problems.append(f"rank {rank} of {channels}: covariances are singular")
        if not dataset.is_covariance:
            problems += _channel_problems(X, dataset.ch_names)
            line = _line_noise(X, dataset.sfreq or 0.0)
            problems += [
                f"line noise at {hertz} Hz: {ratio:.0f} times the power of adjacent frequencies"
                for hertz, ratio in line.items()
                if ratio > LINE_NOISE_LIMIT
            ]
    return RecordingCheck(
        subject=recording.subject,
        session=recording.session,
        trials=len(recording),
        shape=(recording.X.shape[1], recording.X.shape[2]),
        classes=classes,
        runs=len(np.unique(recording.run)),
        groups=len(np.unique(recording.group)),
        rms=rms,
        rank=rank,
        line_noise=line,
        problems=problems,
    )


def _rms_and_rank(X: NDArray[Any], is_covariance: bool) -> tuple[float, int]:
    """Root mean square of centred channels, and the numerical rank of their covariance."""
    if is_covariance:
        C = X.mean(0, dtype=np.float64)
        rms = np.sqrt(np.mean(np.diagonal(X, axis1=1, axis2=2)))
    else:
        Z = X.astype(np.float64)
        rms = np.sqrt(Z.var(-1).mean())
        Z -= Z.mean(-1, keepdims=True)
        C = np.einsum("nct,ndt->cd", Z, Z, optimize=True)
    deviation = np.sqrt(np.clip(np.diag(C), 1e-300, None))
    eigenvalues = np.linalg.eigvalsh(C / np.outer(deviation, deviation))
    return float(rms), int((eigenvalues > len(C) * np.finfo(X.dtype).eps).sum())


def _channel_problems(X: NDArray[Any], ch_names: tuple[str, ...]) -> list[str]:
    spread = X.astype(np.float64).std(-1)
    flat = (spread == 0).mean(0)
    loud = np.median(spread, axis=0)
    typical = np.median(loud)
    return [
        *(f"{ch_names[i]} is flat in {flat[i]:.0%} of trials" for i in np.flatnonzero(flat)),
        *(
            f"{ch_names[i]} has {loud[i] / typical:.0f} times the amplitude of the others"
            for i in np.flatnonzero(loud > 10 * typical)
        ),
    ]


def _line_noise(X: NDArray[Any], sfreq: float) -> dict[str, float]:
    """Ratio of the power within 0.5 Hz of the line frequency to that 2 to 4 Hz away."""
    from scipy.signal import welch

    found = {}
    segment = min(X.shape[-1], int(2 * sfreq))
    frequencies, power = welch(X.astype(np.float64), sfreq, nperseg=segment)
    mean = power.mean((0, 1))
    for line in LINE_FREQUENCIES:
        distance = np.abs(frequencies - line)
        near, beside = distance <= 0.5, (distance >= 2) & (distance <= 4)
        if line + 4 < sfreq / 2 and near.any() and beside.any():
            found[f"{line:g}"] = float(mean[near].max() / mean[beside].mean())
    return found


def describe(dataset: Dataset) -> str:
    """Describe a data set in a few lines."""
    fewest, most = (f(len(s) for s in dataset.index.values()) for f in (min, max))
    each = ("" if fewest == most else f"{fewest}-") + counted(most, "session")
    (left, right), (low, high) = dataset.window, dataset.filtered
    high = np.inf if high is None else high
    filtered = low or high < (dataset.sfreq or 0) / 2
    signals = (
        f"sampling rate {dataset.sfreq or 0:g} Hz, trials from {dataset.tmin:g} s, window "
        f"{left:g} to {right:g} s after the cue"
    )
    stimuli = ", ".join(f"{hertz:g}" for hertz in dataset.stimulus_hz)
    lines = [
        f"{dataset.name}: {dataset.description}",
        f"{counted(len(dataset.subjects), 'subject')}, {each} each, paradigm {dataset.paradigm}",
        f"classes: {', '.join(dataset.classes)}",
        f"{counted(len(dataset.ch_names), 'channel')}: {', '.join(dataset.ch_names)}",
        "covariance matrices, no signals" if dataset.is_covariance else signals,
        f"stimuli at {stimuli} Hz" if stimuli else "",
        f"filtered from {low or 0:g} to {high:g} Hz" if filtered else "",
    ]
    return "\n".join(filter(None, lines))


def check_table(checks: Sequence[RecordingCheck], unit_in_volts: float | None) -> Table:
    """Table with one row per recording."""
    scale, unit = (1.0, "") if unit_in_volts is None else (unit_in_volts * 1e6, " uV")
    return table(
        [
            *("subject", "session", ">trials", ">channels x samples~", "trials per class~"),
            *(">rms", ">rank", "remarks~"),
        ],
        [
            (
                check.subject,
                check.session,
                check.trials,
                f"{check.shape[0]} x {check.shape[1]}",
                ", ".join(map(str, check.classes.values())),
                number(check.rms * scale, ".3g") + unit,
                check.rank,
                "; ".join(check.problems) or "-",
            )
            for check in checks
        ],
        "Recordings",
        f"{sum(bool(check.problems) for check in checks)} of {len(checks)} recordings have remarks",
    )
