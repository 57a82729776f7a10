"""Data sets read from the files that their authors publish.

To add one, write a module that defines its :class:`OfficialSource`, and list it below.
"""

from spdtokens.datasets.official import bci2a, bcicha, mamem
from spdtokens.datasets.official._files import OfficialSource
from spdtokens.datasets.official.bci2a import load_bci2a
from spdtokens.datasets.official.bcicha import load_bcicha
from spdtokens.datasets.official.mamem import load_mamem
from spdtokens.datasets.official.moabb import load_moabb

OFFICIAL: dict[str, OfficialSource] = {
    source.name: source for source in (bci2a.SOURCE, bcicha.SOURCE, mamem.SOURCE)
}

__all__ = ["OFFICIAL", "OfficialSource", "load_bci2a", "load_bcicha", "load_mamem", "load_moabb"]
