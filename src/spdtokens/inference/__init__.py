"""Use models: train on your own recordings, save, predict, export, decode live."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.inference.training import Trained  # noqa: F401

_NAMES = {
    "spdtokens.inference.convert": "as_decoder load_pipeline save_model",
    "spdtokens.inference.export": "onnx_model write_device_folder write_onnx",
    "spdtokens.inference.predicting": "Predictions predict",
    "spdtokens.inference.training": "Trained train",
    "spdtokens.runtime": "Decoder Session load_model",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported on first use: live decoding does not need torch, which is slow to import.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
