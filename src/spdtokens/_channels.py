"""Names of electrodes."""

from __future__ import annotations

import re

#: Names of the 10-20 system of 1958 for electrodes that 10-10 renamed.
RENAMED = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}


def plain_name(name: str) -> str:
    """Normalise the name of an electrode: ``'EEG Fz-Ref'`` and ``'fz.'`` give ``'FZ'``.

    Old names become those of the 10-10 system: ``'T3'`` gives ``'T7'``.
    """
    text = re.sub(r"^EEG[ :_-]+|[-_ ]+(REF|LE|AR|A1|A2|M1|M2)$", "", name.strip().upper())
    text = text.strip(" .")
    return RENAMED.get(text, text)
