"""One picture of a simulated data set: where, at which frequency and when the task shows."""

from __future__ import annotations

from typing import Any

import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import butter, sosfiltfilt, welch

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.simulated import CENTRE, RADIUS, SIMULATED, electrodes
from spdtokens.errors import DataError

# Okabe and Ito's colours, distinct for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
# For each data set: a subject who shows it well, and the channels of spectra and time courses.
SHOWN = {
    "sim-mi": ("3", ("C3", "C4")),
    "sim-erp": ("1", ("FCz", "Cz")),
    "sim-ssvep": ("1", ("O1", "Oz")),
}


def simulation_figure(name: str) -> Figure:
    """Topographies of all classes, above spectra and time courses at two channels.

    Parameters
    ----------
    name : str
        A key of :data:`~spdtokens.datasets.simulated.SIMULATED`.
    """
    if name not in SHOWN:
        raise DataError(f"No simulated data set {name!r}. There are: {', '.join(SIMULATED)}.")
    dataset = SIMULATED[name]()
    subject, channels = SHOWN[name]
    parts = [dataset.load(subject, session) for session in dataset.sessions(subject)]
    X = np.concatenate([part.X for part in parts])
    y = np.concatenate([part.y for part in parts])
    together = Recording(subject, "all", X, y, np.full(len(y), ""), np.arange(len(y)))
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    figure.suptitle(f"{name}: {dataset.description} (subject {subject})", fontsize=11)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 2))
    above, below = halves
    _topographies(above, dataset, together)
    axes = below.subplots(2, 2)
    for row, channel in enumerate(channels):
        _spectra(axes[row, 0], dataset, together, channel)
        _time_courses(axes[row, 1], dataset, together, channel)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _topographies(figure: Any, dataset: Dataset, recording: Recording) -> None:
    """What sets each class apart from all trials, over the head."""
    values, unit = _contrast(dataset, recording)
    limit = float(np.abs(values).max())
    info = electrodes(dataset.ch_names)
    row = figure.subplots(1, len(values))
    for axes, value, name in zip(row, values, dataset.classes, strict=True):
        image, _ = mne.viz.plot_topomap(
            value,
            info,
            axes=axes,
            show=False,
            vlim=(-limit, limit),
            cmap="RdBu_r",
            contours=4,
            # A cap over one part of the head says nothing about the rest.
            extrapolate="local",
            sphere=(*CENTRE, RADIUS),
        )
        axes.set_title(name, fontsize=9)
    figure.colorbar(image, ax=row, shrink=0.7, label=unit)


def _contrast(dataset: Dataset, recording: Recording) -> tuple[NDArray[Any], str]:
    """A value for each class and channel, and what it is."""
    classes = range(len(dataset.classes))
    if dataset.paradigm == "erp":
        start = round((0.24 - dataset.tmin) * float(dataset.sfreq or 0))
        stop = round((0.30 - dataset.tmin) * float(dataset.sfreq or 0))
        wave = _filtered(dataset, recording.X, (1.0, 20.0))[..., start:stop].mean(-1) * 1e6
        return np.array([wave[recording.y == k].mean(0) for k in classes]), "µV, 0.24 to 0.30 s"
    if dataset.paradigm == "ssvep":
        found = []
        for k, hertz in enumerate(dataset.stimulus_hz):
            power = _power(dataset, recording.X, (hertz - 0.3, hertz + 0.3))
            ratio = power[recording.y == k].mean(0) / power[recording.y != k].mean(0)
            found.append(10 * np.log10(ratio))
        return np.array(found), "dB at the flicker,\nagainst other flickers"
    level = np.log10(_power(dataset, recording.X, (8.0, 14.0))) * 10
    found = [level[recording.y == k].mean(0) - level.mean(0) for k in classes]
    return np.array(found), "dB in 8-14 Hz,\nagainst all trials"


def _spectra(axes: Axes, dataset: Dataset, recording: Recording, channel: str) -> None:
    """Power spectral density within the window, a line for each class."""
    sfreq = float(dataset.sfreq or 0)
    first, last = (round((edge - dataset.tmin) * sfreq) for edge in dataset.window)
    signal = recording.X[:, dataset.ch_names.index(channel), first:last] * 1e6
    f, density = welch(signal, sfreq, nperseg=min(last - first, round(3 * sfreq)))
    shown = (f >= 1) & (f <= 60)
    for k, name in enumerate(dataset.classes):
        mean = density[recording.y == k].mean(0)
        axes.semilogy(f[shown], mean[shown], color=COLOURS[k], lw=1, label=name)
    axes.set_xlabel("Hz")
    axes.set_ylabel(f"{channel}: µV²/Hz")
    axes.spines[["top", "right"]].set_visible(False)


def _time_courses(axes: Axes, dataset: Dataset, recording: Recording, channel: str) -> None:
    """Mean wave of error potentials; elsewhere the power of the rhythm."""
    k_channel = dataset.ch_names.index(channel)
    X = recording.X[:, [k_channel]]
    t = dataset.tmin + np.arange(X.shape[-1]) / float(dataset.sfreq or 1)
    for k, _ in enumerate(dataset.classes):
        trials = X[recording.y == k]
        if dataset.paradigm == "erp":
            course = _filtered(dataset, trials, (1.0, 20.0))[:, 0].mean(0) * 1e6
            axes.set_ylabel(f"{channel}: mean µV, 1-20 Hz")
        elif dataset.paradigm == "ssvep":
            # Flickers start at any phase, so a mean would vanish; power does not.
            hertz = dataset.stimulus_hz[k]
            level = _smooth(_filtered(dataset, X, (hertz - 0.5, hertz + 0.5))[:, 0] ** 2, dataset)
            own, other = level[recording.y == k].mean(0), level[recording.y != k].mean(0)
            course = 10 * np.log10(own / other)
            axes.set_ylabel(f"{channel}: dB at the flicker,\nagainst other flickers")
        else:
            power = _filtered(dataset, trials, (8.0, 14.0))[:, 0] ** 2 * 1e12
            course = _smooth(power, dataset).mean(0)
            axes.set_ylabel(f"{channel}: µV² in 8-14 Hz")
        axes.plot(t, course, color=COLOURS[k], lw=1)
    axes.axvline(0, color="#666666", lw=0.8)
    axes.set_xlabel("s after the cue")
    axes.spines[["top", "right"]].set_visible(False)


def _smooth(power: NDArray[Any], dataset: Dataset) -> NDArray[Any]:
    """Running mean over a quarter of a second."""
    return np.asarray(uniform_filter1d(power, round(0.25 * float(dataset.sfreq or 1)), axis=-1))


def _filtered(dataset: Dataset, X: NDArray[Any], band: tuple[float, float]) -> NDArray[Any]:
    sos = butter(3, band, btype="bandpass", fs=dataset.sfreq, output="sos")
    return np.asarray(sosfiltfilt(sos, X, axis=-1))


def _power(dataset: Dataset, X: NDArray[Any], band: tuple[float, float]) -> NDArray[Any]:
    """Power of every trial and channel in a band, within the window."""
    sfreq = float(dataset.sfreq or 0)
    first, last = (round((edge - dataset.tmin) * sfreq) for edge in dataset.window)
    return np.asarray(np.mean(_filtered(dataset, X, band)[..., first:last] ** 2, axis=-1))
