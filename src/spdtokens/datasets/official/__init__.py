"""Data sets read from the files their makers publish."""

from spdtokens.datasets.official import bci2a, bcicha, mamem
from spdtokens.datasets.official._places import OfficialSource, folders
from spdtokens.datasets.official.bci2a import load_bci2a
from spdtokens.datasets.official.bcicha import load_bcicha
from spdtokens.datasets.official.mamem import load_mamem
from spdtokens.datasets.official.moabb_sets import load_moabb

OFFICIAL: dict[str, OfficialSource] = {
    source.name: source
    for source in (
        OfficialSource(bci2a.NAME, bci2a.AVAILABLE, bci2a.HOW_TO_GET, load_bci2a, bci2a.LAYOUTS),
        OfficialSource(
            bcicha.NAME, bcicha.AVAILABLE, bcicha.HOW_TO_GET, load_bcicha, bcicha.LAYOUTS
        ),
        OfficialSource(mamem.NAME, mamem.AVAILABLE, mamem.HOW_TO_GET, load_mamem, mamem.LAYOUTS),
    )
}

__all__ = [
    "OFFICIAL",
    "OfficialSource",
    "folders",
    "load_bci2a",
    "load_bcicha",
    "load_mamem",
    "load_moabb",
]
