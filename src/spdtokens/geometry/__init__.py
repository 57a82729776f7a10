"""Mathematics of symmetric positive definite (SPD) matrices as tokens. Knows nothing of EEG."""

import lazy_loader

# Names are listed in __init__.pyi, for type checkers too, and imported on first use: torch and MNE
# take seconds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
