"""How methods are told apart in figures: by colour and by marker."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

# Okabe and Ito's colours, distinct for colour-blind readers. Black is the page's ink.
INK, GREY = "#000000", "#666666"
BLUE, ORANGE, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
SKY, AMBER = "#56b4e9", "#e69f00"
PALETTE = (BLUE, ORANGE, GREEN, PINK, AMBER, SKY, INK)
# Seven colours and eight markers have no common divisor: 56 methods look different.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")


def looks(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Colour and marker of each method, by its place in the study."""
    return {
        name: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(names)
    }


def legend_name(name: str) -> str:
    """Matplotlib leaves out of legends what begins with an underscore."""
    return f" {name}" if name.startswith("_") else name


def plain(axes: Axes, *, grid: str = "both") -> None:
    """Axes with as little ink as will do."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(color=GREY)
    axes.grid(axis=grid, color=GREY, alpha=0.2, lw=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
