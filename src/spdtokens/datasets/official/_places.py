"""Where official files are looked for, and what is said when they are not there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spdtokens.datasets.base import Dataset
from spdtokens.errors import DataError

Match = re.Match[str]


@dataclass(frozen=True)
class OfficialSource:
    """A data set that is read from the files its makers publish.

    Attributes
    ----------
    name : str
    description : str
        One line: what was recorded.
    how_to_get : str
        Which files are expected, and who gives them out.
    load : callable
        From a folder (None: the usual places) and options to a :class:`Dataset`.
    layouts : mapping of str to callable
        Whether a folder holds files of a layout, for every layout that ``load`` knows.
    """

    name: str
    description: str
    how_to_get: str
    load: Callable[..., Dataset]
    layouts: Mapping[str, Callable[[Path], bool]]

    def is_present(self, folder: Path | None = None) -> bool:
        """Whether files of this data set are in the folder, or in the usual places."""
        places = folders(self.name, folder)
        return any(is_there(place) for place in places for is_there in self.layouts.values())


def folders(name: str, folder: Path | None = None) -> list[Path]:
    """Places to look for a data set: the folder given, or else the usual ones, in order."""
    if folder is not None:
        return [Path(folder).expanduser()]
    places = []
    if os.environ.get("SPDTOKENS_DATA"):
        places.append(Path(os.environ["SPDTOKENS_DATA"]).expanduser() / name)
    return [*places, Path.home() / "spdtokens_data" / name]


def matching(folder: Path, pattern: str) -> dict[tuple[str, ...], Path]:
    """Files of a folder and its direct subfolders, by the groups of a pattern for their names.

    Archives unpack into ``train/`` or ``true_labels/``, so one level of folders is searched. A
    file nearer to the top wins.
    """
    if not folder.is_dir():
        return {}
    found: dict[tuple[str, ...], Path] = {}
    for path in [*sorted(folder.glob("*/*")), *sorted(folder.glob("*"))]:
        match = re.fullmatch(pattern, path.name, flags=re.IGNORECASE)
        if match and path.is_file():
            found[match.groups()] = path
    return found


def first_layout(
    name: str, folder: Path | None, layouts: Mapping[str, Callable[[Path], bool]], how_to_get: str
) -> tuple[Path, str]:
    """First folder that holds files, and the first of the layouts that its files have.

    Raises
    ------
    DataError
        If there is none: names every path tried, what is expected and how to get it.
    """
    tried = folders(name, folder)
    for place in tried:
        for layout, is_there in layouts.items():
            if is_there(place):
                return place, layout
    paths = "\n".join(
        f"  {place}{'' if place.is_dir() else ' (no such folder)'}" for place in tried
    )
    raise DataError(
        f"No files of {name} found. Looked in:\n{paths}\n{how_to_get}\nPut them into one of these "
        "folders, give the folder, or set SPDTOKENS_DATA to the folder that contains a folder "
        f"{name!r}."
    )


def check_layout(name: str, layout: str | None, known: Mapping[str, object]) -> None:
    """Refuse a layout that does not exist, before anything is looked for."""
    if layout is not None and layout not in known:
        raise DataError(f"{name} has no layout {layout!r}. There are: {', '.join(known)}.")
