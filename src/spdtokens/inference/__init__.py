"""Use models: train on your own recordings, save, predict, export, decode live."""

import lazy_loader

from spdtokens.runtime import Decoder, Session, load_model  # noqa: F401  # as in version 0.1

# Names are listed in __init__.pyi, for type checkers too, and imported on first use: torch and MNE
# take seconds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
