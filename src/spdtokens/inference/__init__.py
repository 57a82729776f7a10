"""Models in daily use: train on own recordings, save, predict, export, decode live."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.inference.convert import as_decoder, load_pipeline, save_model
    from spdtokens.inference.export import onnx_model, write_device_folder, write_onnx
    from spdtokens.inference.predicting import Predictions, predict
    from spdtokens.inference.training import Trained, train
    from spdtokens.runtime import Decoder, Session, load_model

__all__ = [
    "Decoder",
    "Predictions",
    "Session",
    "Trained",
    "as_decoder",
    "load_model",
    "load_pipeline",
    "onnx_model",
    "predict",
    "save_model",
    "train",
    "write_device_folder",
    "write_onnx",
]

_HOMES = {
    "spdtokens.inference.convert": ("as_decoder", "load_pipeline", "save_model"),
    "spdtokens.inference.export": ("onnx_model", "write_device_folder", "write_onnx"),
    "spdtokens.inference.predicting": ("Predictions", "predict"),
    "spdtokens.inference.training": ("Trained", "train"),
    "spdtokens.runtime": ("Decoder", "Session", "load_model"),
}


def __getattr__(name: str) -> Any:
    # Imported when first used: a live stream need not wait for torch, which it does not use.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'spdtokens.inference' has no attribute {name!r}")
