"""Figures of which channels decide: over the head where positions are known, else as bars."""

from __future__ import annotations

from collections.abc import Sequence

import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from spdtokens.classifiers.explain import electrode_info
from spdtokens.reporting.figures import WIDTH
from spdtokens.reporting.style import BLUE, plain

#: With fewer positions there is nothing to draw a map between.
LEAST = 4
#: Maps side by side, and channels of a bar chart.
COLUMNS, BARS = 3, 8
#: From nothing to a blue that stands out from white and from black paper: one hue, told apart by
#: its strength, for those who see no colours.
STRENGTH = LinearSegmentedColormap.from_list("strength", [(0.17, 0.58, 0.87, a) for a in (0, 1)])
#: Dots an inch of a map, which is an image within the figure.
DPI = 160


def importance_figure(
    shares: NDArray[np.float64], names: Sequence[str], ch_names: Sequence[str]
) -> Figure:
    """Shares (tokens, channels): a map for each token, or bars where positions are unknown.

    One token has room for both.
    """
    info, places = electrode_info(ch_names)
    n = len(shares)
    mapped = len(places) >= LEAST
    panels = 2 if mapped and n == 1 else n
    columns = min(COLUMNS, panels)
    rows = -(-panels // columns)
    width = max(WIDTH * columns / COLUMNS, 2.4) if n > 1 else WIDTH
    height = 1.75 if mapped and n > 1 else 2.2
    figure = Figure(figsize=(width, height * rows + (0.35 if mapped else 0.1)), dpi=DPI)
    figure.set_layout_engine("constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in every[panels:]:
        axes.remove()
    top = float(shares[:, places].max()) if mapped else float(shares.max())
    heads = []
    for axes, share, name in zip(every, shares, names, strict=False):
        if mapped:
            image = _map(axes, share[places], info, top)
            heads.append(axes)
        else:
            _bars(axes, share, ch_names, top)
        axes.set_title(name if n == 1 else f"{name}: {100 * share.sum():.0f} %", fontsize=9)
    if mapped and n == 1:
        _bars(every[1], shares[0], ch_names, float(shares.max()))
    if mapped:
        bar = figure.colorbar(
            image, ax=heads, location="bottom", shrink=0.6 if n > 1 else 0.8, aspect=24, pad=0.02
        )
        bar.set_ticks([0, top], labels=["0", f"{100 * top:.2g} %"])
        bar.ax.tick_params(labelsize=8, length=0)
        bar.outline.set_visible(False)
    return figure


def _map(axes: Axes, share: NDArray[np.float64], info: mne.Info, top: float) -> AxesImage:
    image: AxesImage
    image, _ = mne.viz.plot_topomap(
        share,
        info,
        axes=axes,
        show=False,
        vlim=(0, top),
        cmap=STRENGTH,
        contours=0,
        # A cap over one part of the head says nothing about the rest.
        extrapolate="local",
        # A share between two electrodes is between theirs: others would overshoot.
        image_interp="linear",
    )
    return image


def _bars(axes: Axes, share: NDArray[np.float64], ch_names: Sequence[str], top: float) -> None:
    """The channels of the largest shares, in percent."""
    order = np.argsort(-share, kind="stable")[:BARS]
    axes.barh(np.arange(len(order)), 100 * share[order], color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(order)), [ch_names[i] for i in order], fontsize=8)
    axes.set_ylim(max(len(order), 4) - 0.4, -0.6)
    axes.set_xlim(0, 105 * top)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("share in %", fontsize=8)
    plain(axes, grid="x")
