"""Models in daily use: train on own recordings, save, predict, export, decode live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.inference.convert import load_pipeline
    from spdtokens.inference.predicting import Predictions, predict
    from spdtokens.inference.training import Trained, save_model, train
    from spdtokens.runtime import Decoder, Session, load_model

__all__ = [
    "Decoder",
    "Predictions",
    "Session",
    "Trained",
    "load_model",
    "load_pipeline",
    "predict",
    "save_model",
    "train",
]

_HOMES = {
    "Decoder": "spdtokens.runtime",
    "Predictions": "spdtokens.inference.predicting",
    "Session": "spdtokens.runtime",
    "Trained": "spdtokens.inference.training",
    "load_model": "spdtokens.runtime",
    "load_pipeline": "spdtokens.inference.convert",
    "predict": "spdtokens.inference.predicting",
    "save_model": "spdtokens.inference.training",
    "train": "spdtokens.inference.training",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: a live stream need not wait for torch, which it does not use.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spdtokens.inference' has no attribute {name!r}")
