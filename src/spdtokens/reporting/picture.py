"""What stands on the page as a figure."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure with its words.

    Attributes
    ----------
    figure : Figure
    label : str
        What it shows, in words and numbers, for those who do not see it.
    caption : str
    """

    figure: Figure
    label: str
    caption: str = ""


@dataclass(frozen=True)
class Group:
    """Figures under one heading.

    Attributes
    ----------
    title, note : str
    pictures : tuple of Picture
    small : bool
        Whether many stand in a row.
    """

    title: str
    pictures: tuple[Picture, ...]
    note: str = ""
    small: bool = False
