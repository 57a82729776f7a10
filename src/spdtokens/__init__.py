"""Decode EEG from the geometry of its covariance matrices."""

import sys

import lazy_loader

from spdtokens._deprecated import OldRooms

__version__ = "0.2.0"
# Names are listed in __init__.pyi, for type checkers too, and imported on first use: torch and MNE
# take seconds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

sys.meta_path.insert(0, OldRooms())
