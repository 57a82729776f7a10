from .convert import as_decoder, load_pipeline, save_model, with_channels
from .export import onnx_model, write_device_folder, write_onnx
from .predicting import Predictions, predict
from .pretrained import load_pretrained
from .training import Trained, train

__all__ = [
    "Predictions",
    "Trained",
    "as_decoder",
    "load_pipeline",
    "load_pretrained",
    "onnx_model",
    "predict",
    "save_model",
    "train",
    "with_channels",
    "write_device_folder",
    "write_onnx",
]
