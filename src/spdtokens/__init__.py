"""Decode EEG from the geometry of its covariance matrices, and measure it honestly."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = [
    "SPDTokenClassifier",
    "SPDTokenTransformer",
    "Tokenizer",
    "evaluate",
    "load_dataset",
    "load_model",
    "predict",
    "train",
]

_HOMES = {
    "SPDTokenClassifier": "spdtokens.training",
    "SPDTokenTransformer": "spdtokens.models",
    "Tokenizer": "spdtokens.signal",
    "evaluate": "spdtokens.evaluation",
    "load_dataset": "spdtokens.data",
    "load_model": "spdtokens.runtime",
    "predict": "spdtokens.deploy",
    "train": "spdtokens.deploy",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: `spdtokens --help` need not wait for torch and MNE.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spdtokens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
