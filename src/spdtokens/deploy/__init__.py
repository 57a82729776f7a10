"""Models in daily use: train on own recordings, save, predict, export, decode live."""

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
    "predict",
    "save_model",
    "train",
]
