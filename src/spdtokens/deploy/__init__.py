"""Models in daily use: train on own recordings, save, predict, export, decode live."""

from spdtokens.runtime import Decoder, DecoderError, Session, load_model

__all__ = ["Decoder", "DecoderError", "Session", "load_model"]
