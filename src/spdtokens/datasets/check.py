"""Look at a data set before using it: shape, labels, bad channels, line noise, rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.signal
from numpy.typing import NDArray

from spdtokens._tables import counted
from spdtokens.datasets.base import Dataset, Recording

LINE_FREQUENCIES = (50.0, 60.0)
#: Power at the line frequency over that of its neighbourhood, beyond which it is reported.
LINE_NOISE_LIMIT = 10.0


@dataclass(frozen=True)
class RecordingCheck:
    """What was found in one recording; ``problems`` is empty if all is well."""

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

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def check_dataset(
    dataset: Dataset, subjects: tuple[str, ...] | None = None
) -> Iterator[RecordingCheck]:
    """Check every recording of a data set, or of some of its subjects."""
    for subject in subjects or dataset.subjects:
        for session in dataset.sessions(subject):
            yield check_recording(dataset, dataset.load(subject, session))


def check_recording(dataset: Dataset, recording: Recording) -> RecordingCheck:
    """Check one recording."""
    X, y = recording.X, recording.y
    counts = {name: int((y == i).sum()) for i, name in enumerate(dataset.classes)}
    problems = _label_problems(counts)
    finite = np.isfinite(X)
    if not finite.all():
        bad = np.flatnonzero(~finite.all((1, 2)))
        problems.append(f"NaN or infinity in {counted(len(bad), 'trial')}, first in trial {bad[0]}")
        X = X[finite.all((1, 2))]
    rank, line = 0, {}
    if len(X):
        rank = _rank(X, dataset.is_covariance)
        if rank < X.shape[1]:
            problems.append(
                f"rank {rank} of {counted(X.shape[1], 'channel')}: a covariance is singular"
            )
        if not dataset.is_covariance:
            problems += _channel_problems(X, dataset.ch_names)
            line = _line_noise(X, dataset.sfreq or 0.0)
            problems += [
                f"line noise at {hertz} Hz: {ratio:.0f} times the neighbouring power"
                for hertz, ratio in line.items()
                if ratio > LINE_NOISE_LIMIT
            ]
    return RecordingCheck(
        subject=recording.subject,
        session=recording.session,
        trials=len(recording),
        shape=(recording.X.shape[1], recording.X.shape[2]),
        classes=counts,
        runs=len(np.unique(recording.run)),
        groups=len(np.unique(recording.group)),
        rms=_rms(X, dataset.is_covariance) if len(X) else float("nan"),
        rank=rank,
        line_noise=line,
        problems=problems,
    )


def _label_problems(counts: dict[str, int]) -> list[str]:
    present = {name: n for name, n in counts.items() if n}
    if len(present) < 2:
        return [f"only one class is present: {', '.join(present) or 'none'}"]
    missing = [name for name in counts if not counts[name]]
    return [f"no trial of class {', '.join(missing)}"] if missing else []


def _rms(X: NDArray[Any], is_covariance: bool) -> float:
    """Root mean square over time of de-meaned channels, in the unit of the signal."""
    if is_covariance:
        return float(np.sqrt(np.mean(np.diagonal(X, axis1=1, axis2=2))))
    return float(np.sqrt(X.astype(np.float64).var(-1).mean()))


def _rank(X: NDArray[Any], is_covariance: bool) -> int:
    """Dimensions that the whole recording spans, above the rounding of its dtype."""
    if is_covariance:
        C = X.mean(0, dtype=np.float64)
    else:
        Z = X.astype(np.float64)
        Z -= Z.mean(-1, keepdims=True)
        C = np.einsum("nct,ndt->cd", Z, Z, optimize=True)
    deviation = np.sqrt(np.clip(np.diag(C), 1e-300, None))
    eigenvalues = np.linalg.eigvalsh(C / np.outer(deviation, deviation))
    return int((eigenvalues > len(C) * np.finfo(X.dtype).eps).sum())


def _channel_problems(X: NDArray[Any], ch_names: tuple[str, ...]) -> list[str]:
    problems = []
    spread = X.astype(np.float64).std(-1)
    flat = (spread == 0).mean(0)
    for channel in np.flatnonzero(flat > 0):
        problems.append(f"{ch_names[channel]} is flat in {flat[channel]:.0%} of trials")
    loud = np.median(spread, axis=0)
    typical = np.median(loud)
    for channel in np.flatnonzero(loud > 10 * typical):
        problems.append(
            f"{ch_names[channel]} is {loud[channel] / typical:.0f} times as loud as the others"
        )
    return problems


def _line_noise(X: NDArray[Any], sfreq: float) -> dict[str, float]:
    """Power within half a hertz of the line frequency over that two to four hertz beside it."""
    found = {}
    segment = min(X.shape[-1], int(2 * sfreq))
    frequencies, power = scipy.signal.welch(X.astype(np.float64), sfreq, nperseg=segment)
    mean = power.mean((0, 1))
    for line in LINE_FREQUENCIES:
        distance = np.abs(frequencies - line)
        near, beside = distance <= 0.5, (distance >= 2) & (distance <= 4)
        if line + 4 < sfreq / 2 and near.any() and beside.any():
            found[f"{line:g}"] = float(mean[near].max() / mean[beside].mean())
    return found
