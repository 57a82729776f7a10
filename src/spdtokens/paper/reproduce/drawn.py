"""Figures as PNG files that carry their own description, command and origin."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from spdtokens._files import written_whole
from spdtokens.errors import ReportError
from spdtokens.evaluation.runs import code_digest, origin
from spdtokens.paper.reproduce.figures import PaperFigure
from spdtokens.paper.reproduce.run import Extent


@dataclass(frozen=True)
class Drawn:
    """A figure that was written.

    Attributes
    ----------
    path : Path
    label : str
        What it shows, in words and numbers, for those who do not see it.
    command : str
        That draws it again.
    extent : dict
        Of :class:`Extent`.
    origin : dict
    width, height : int
        In pixels.
    """

    path: Path
    label: str
    command: str
    extent: dict[str, Any]
    origin: dict[str, str]
    width: int
    height: int


def write_drawn(figure: Figure, about: PaperFigure, extent: Extent, folder: Path) -> Path:
    """Write a figure and what there is to know of it as ``NAME.png``."""
    path = folder / f"{about.name}.png"
    comment = {
        "command": extent.command(about.name),
        "extent": asdict(extent),
        "origin": origin(),
    }
    metadata = {
        "Title": about.title,
        "Description": described(figure),
        "Comment": json.dumps(comment),
    }
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150, metadata=metadata)
    return path


def read_drawn(path: Path) -> Drawn:
    """Read what :func:`write_drawn` wrote.

    Raises
    ------
    ReportError
        If the file is another picture, or none.
    """
    try:
        with Image.open(path) as image:
            texts: dict[str, str] = image.text  # type: ignore[attr-defined]
            width, height = image.size
        comment = json.loads(texts["Comment"])
        return Drawn(path, texts["Description"], **comment, width=width, height=height)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ReportError(
            f"{path} was not written by this version of spdtokens reproduce: move it away and run "
            f"spdtokens reproduce {path.stem} --out {path.parent}."
        ) from error


def is_drawn(path: Path, extent: Extent) -> bool:
    """Whether there is a figure, and drawing it again would give the same."""
    try:
        drawn = read_drawn(path)
    except ReportError:  # none, or by an older version
        return False
    return drawn.extent == asdict(extent) and drawn.origin["code"] == code_digest()


def described(figure: Figure) -> str:
    """A figure in words: of every part its title, where its lines end, and what is written in it.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> axes = figure.add_subplot(title="loss")
    >>> _ = axes.plot([3.0, 0.5], label="ours")
    >>> described(figure)
    'loss: ours ends at 0.5.'
    """
    parts = []
    for axes in figure.axes:
        said = [
            f"{line.get_label()} ends at {float(line.get_ydata()[-1]):.3g}"  # type: ignore[index, arg-type]
            for line in axes.lines
            if not str(line.get_label()).startswith("_")
        ]
        said += [text.get_text() for text in axes.texts]
        title = axes.get_title()
        if said or title:
            parts.append(": ".join(filter(None, (title, "; ".join(said)))))
    # Formulas and line breaks are for the eye.
    text = ". ".join(parts).replace("$", "").replace("\\", "").replace("\n", " ")
    return text + "."
