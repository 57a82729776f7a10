"""What must hold of a FIF file before MNE reads it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

from spdtokens.errors import DataError

_HEAD = struct.Struct(">iIii")  # kind, type, size, where the next tag is


def refuse_circles(path: Path) -> None:
    """Refuse a FIF file whose tags lead back to one another: MNE would follow them for ever.

    Files of other formats are not looked at.

    Raises
    ------
    DataError
    """
    if not path.name.lower().endswith((".fif", ".fif.gz")):
        return
    seen: set[int] = set()
    place = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while place not in seen:
            seen.add(place)
            file.seek(place)
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return
            _, _, size, following = _HEAD.unpack(head)
            place = following or place + _HEAD.size + size
            if following < 0 or place < 0:
                return
    raise DataError(
        f"{path} is damaged: its parts lead in circles. Copy it again, or save it anew with MNE."
    )
