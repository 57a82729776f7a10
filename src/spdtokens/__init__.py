"""Decode EEG from the geometry of its covariance matrices."""

from __future__ import annotations

import sys
from typing import Any

from spdtokens._deprecated import OldRooms

__version__ = "0.2.0"

_HOMES = {
    "DecodingPipeline": "spdtokens.classifiers",
    "FilterBankCovariances": "spdtokens.preprocessing",
    "NetworkClassifier": "spdtokens.classifiers",
    "Recentring": "spdtokens.classifiers",
    "SPDTokenClassifier": "spdtokens._deprecated",
    "SPDTokenTransformer": "spdtokens.classifiers.nn",
    "StandardTrials": "spdtokens.preprocessing",
    "TokenDiscriminantClassifier": "spdtokens.classifiers",
    "TokenEmbedding": "spdtokens.geometry",
    "TokenMLPClassifier": "spdtokens.classifiers",
    "TokenTransformerClassifier": "spdtokens.classifiers",
    "Tokenizer": "spdtokens._deprecated",
    "evaluate": "spdtokens.evaluation",
    "fit_together": "spdtokens.classifiers",
    "load_dataset": "spdtokens.datasets",
    "load_model": "spdtokens.runtime",
    "load_pipeline": "spdtokens.inference",
    "make_decoder": "spdtokens.classifiers",
    "predict": "spdtokens.inference",
    "save_model": "spdtokens.inference",
    "train": "spdtokens.inference",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `spdtokens --help` does not import torch and MNE.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spdtokens' has no attribute {name!r}")


sys.meta_path.insert(0, OldRooms())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
