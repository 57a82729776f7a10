"""Figure of a simulated data set: where, at which frequency and when classes differ."""

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

# Okabe and Ito's colours, distinct for colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
# For each data set: a subject with clear effects, the channels of spectra and time courses, and the
# seconds of the topographies.
SHOWN = {
    "sim-mi": ("3", ("C3", "C4"), (0.5, 4.0)),
    "sim-erp": ("1", ("FCz", "Cz"), (0.24, 0.30)),
    "sim-ssvep": ("1", ("O1", "Oz"), (0.5, 5.0)),
}


def simulation_figure(name: str) -> Figure:
    """Draw topographies of all classes, and spectra and time courses at two channels.

    Parameters
    ----------
    name : str
        A key of :data:`~spdtokens.datasets.simulated.SIMULATED`.
    """
    dataset = SIMULATED[name]()
    sfreq = float(dataset.sfreq or 0)
    subject, channels, seconds = SHOWN[name]
    parts = [dataset.load(subject, session) for session in dataset.sessions(subject)]
    X = np.concatenate([part.X for part in parts])
    y = np.concatenate([part.y for part in parts])
    t = dataset.tmin + np.arange(X.shape[-1]) / sfreq
    decoded = (t >= dataset.window[0]) & (t < dataset.window[1])
    courses, unit = _courses(dataset, X, y)
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    figure.suptitle(f"{name}: {dataset.description} (subject {subject})", fontsize=11)
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 2))
    above, below = halves
    averaged = (t >= seconds[0]) & (t < seconds[1])
    _topographies(above, dataset, [course[:, averaged].mean(-1) for course in courses], unit)
    axes = below.subplots(2, 2)
    for (left, right), channel in zip(axes, channels, strict=True):
        row = dataset.ch_names.index(channel)
        part = X[:, row, decoded] * 1e6
        f, density = welch(part, sfreq, nperseg=min(part.shape[-1], round(3 * sfreq)))
        shown = (f >= 1) & (f <= 60)
        for k, (label, colour) in enumerate(zip(dataset.classes, COLOURS, strict=False)):
            mean = density[y == k].mean(0)
            left.semilogy(f[shown], mean[shown], color=colour, lw=1, label=label)
            right.plot(t, courses[k][row], color=colour, lw=1)
        right.axvline(0, color="#666666", lw=0.8)
        left.set(xlabel="Frequency (Hz)", ylabel=f"{channel}: µV²/Hz")
        right.set(xlabel="Time after the cue (s)", ylabel=f"{channel}: {unit}")
        for panel in (left, right):
            panel.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _courses(dataset: Dataset, X: NDArray[Any], y: NDArray[Any]) -> tuple[list[NDArray[Any]], str]:
    """Time course of each class, (channels, samples): the mean wave, or power in a band."""
    sfreq, classes = float(dataset.sfreq or 0), range(len(dataset.classes))

    def filtered(low: float, high: float) -> NDArray[Any]:
        sos = butter(3, (low, high), btype="bandpass", fs=sfreq, output="sos")
        return np.asarray(sosfiltfilt(sos, X, axis=-1))

    if dataset.paradigm == "erp":
        wave = filtered(1.0, 20.0) * 1e6
        return [wave[y == k].mean(0) for k in classes], "µV, 1-20 Hz"
    # Rhythms and flickers have any phase: a mean wave would vanish, its power does not.
    bands = [(hertz - 0.5, hertz + 0.5) for hertz in dataset.stimulus_hz] or [(8.0, 14.0)]
    powers = [uniform_filter1d(filtered(*b) ** 2, round(0.25 * sfreq), axis=-1) for b in bands]
    found = []
    for k in classes:
        power = powers[k % len(powers)]
        found.append(10 * np.log10(power[y == k].mean(0) / power[y != k].mean(0)))
    band = "at the flicker" if dataset.stimulus_hz else "in 8-14 Hz"
    return found, f"dB {band},\nagainst other classes"


def _topographies(figure: Any, dataset: Dataset, values: list[NDArray[Any]], unit: str) -> None:
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
