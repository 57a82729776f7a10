"""Models in daily use: train on own recordings, save, predict, export, decode live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.deploy.convert import load_pipeline
    from spdtokens.deploy.predicting import Predictions, predict
    from spdtokens.deploy.training import Trained, save_model, train
    from spdtokens.runtime import Decoder, DecoderError, Session, load_model

__all__ = [
    "Decoder",
    "DecoderError",
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
    "DecoderError": "spdtokens.runtime",
    "Predictions": "spdtokens.deploy.predicting",
    "Session": "spdtokens.runtime",
    "Trained": "spdtokens.deploy.training",
    "load_model": "spdtokens.runtime",
    "load_pipeline": "spdtokens.deploy.convert",
    "predict": "spdtokens.deploy.predicting",
    "save_model": "spdtokens.deploy.training",
    "train": "spdtokens.deploy.training",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: a live stream need not wait for torch, which it does not use.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spdtokens.deploy' has no attribute {name!r}")
