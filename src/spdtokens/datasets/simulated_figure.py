"""One picture of a simulated data set: where, at which frequency and when the task shows."""

from __future__ import annotations

from typing import Any

import mne
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d
from scipy.signal import butter, sosfiltfilt, welch

from spdtokens.datasets.base import Dataset
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
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    figure.suptitle(f"{name}: {dataset.description} (subject {subject})", fontsize=11)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 2))
    above, below = halves
    _topographies(above, dataset, X, y)
    axes = below.subplots(2, 2)
    t = dataset.tmin + np.arange(X.shape[-1]) / _sfreq(dataset)
    for (left, right), channel in zip(axes, channels, strict=True):
        signal = X[:, dataset.ch_names.index(channel)]
        part = _window(dataset, signal) * 1e6
        segment = min(part.shape[-1], round(3 * _sfreq(dataset)))
        f, density = welch(part, _sfreq(dataset), nperseg=segment)
        shown = (f >= 1) & (f <= 60)
        courses, unit = _courses(dataset, signal, y)
        for k, colour in zip(range(len(dataset.classes)), COLOURS, strict=False):
            mean = density[y == k].mean(0)
            label = dataset.classes[k]
            left.semilogy(f[shown], mean[shown], color=colour, lw=1, label=label)
            right.plot(t, courses[k], color=colour, lw=1)
        right.axvline(0, color="#666666", lw=0.8)
        left.set(xlabel="Hz", ylabel=f"{channel}: µV²/Hz")
        right.set(xlabel="s after the cue", ylabel=f"{channel}: {unit}")
        for panel in (left, right):
            panel.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _topographies(figure: Any, dataset: Dataset, X: NDArray[Any], y: NDArray[Any]) -> None:
    """What sets each class apart from all trials, over the head."""
    classes = range(len(dataset.classes))
    if dataset.paradigm == "erp":
        wave = _window(dataset, _filtered(dataset, X, 1.0, 20.0), (0.24, 0.30)).mean(-1) * 1e6
        values, unit = [wave[y == k].mean(0) for k in classes], "µV, 0.24 to 0.30 s"
    elif dataset.paradigm == "ssvep":
        powers = [_power(dataset, X, hertz - 0.3, hertz + 0.3) for hertz in dataset.stimulus_hz]
        values = [_decibel(p[y == k].mean(0) / p[y != k].mean(0)) for k, p in enumerate(powers)]
        unit = "dB at the flicker,\nagainst other flickers"
    else:
        level = _decibel(_power(dataset, X, 8.0, 14.0))
        values = [level[y == k].mean(0) - level.mean(0) for k in classes]
        unit = "dB in 8-14 Hz,\nagainst all trials"
    limit = float(np.abs(values).max())
    row = figure.subplots(1, len(values))
    for axes, value, name in zip(row, values, dataset.classes, strict=True):
        image, _ = mne.viz.plot_topomap(
            value,
            electrodes(dataset.ch_names),
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


def _courses(dataset: Dataset, X: NDArray[Any], y: NDArray[Any]) -> tuple[list[Any], str]:
    """Of each class: mean wave of error potentials; elsewhere the power of the rhythm."""
    classes = range(len(dataset.classes))
    if dataset.paradigm == "erp":
        wave = _filtered(dataset, X, 1.0, 20.0) * 1e6
        return [wave[y == k].mean(0) for k in classes], "mean µV, 1-20 Hz"
    smooth = round(0.25 * _sfreq(dataset))
    if dataset.paradigm == "ssvep":
        # Flickers start at any phase, so a mean would vanish; power does not.
        waves = [_filtered(dataset, X, hertz - 0.5, hertz + 0.5) for hertz in dataset.stimulus_hz]
        levels = [uniform_filter1d(wave**2, smooth, axis=-1) for wave in waves]
        found = [_decibel(p[y == k].mean(0) / p[y != k].mean(0)) for k, p in enumerate(levels)]
        return found, "dB at the flicker,\nagainst other flickers"
    level = uniform_filter1d(_filtered(dataset, X, 8.0, 14.0) ** 2 * 1e12, smooth, axis=-1)
    return [level[y == k].mean(0) for k in classes], "µV² in 8-14 Hz"


def _sfreq(dataset: Dataset) -> float:
    assert dataset.sfreq is not None
    return dataset.sfreq


def _window(
    dataset: Dataset, X: NDArray[Any], window: tuple[float, float] | None = None
) -> NDArray[Any]:
    edges = window or dataset.window
    first, last = (round((edge - dataset.tmin) * _sfreq(dataset)) for edge in edges)
    return X[..., first:last]


def _filtered(dataset: Dataset, X: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    sos = butter(3, (low, high), btype="bandpass", fs=dataset.sfreq, output="sos")
    return np.asarray(sosfiltfilt(sos, X, axis=-1))


def _power(dataset: Dataset, X: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    """Power of every trial and channel in a band, within the window."""
    return np.asarray(np.mean(_window(dataset, _filtered(dataset, X, low, high)) ** 2, axis=-1))


def _decibel(ratio: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(10 * np.log10(ratio))
