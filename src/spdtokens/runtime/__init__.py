"""Prediction with trained models, in NumPy only, in a folder that can be copied anywhere.

This package imports nothing from spdtokens, torch, SciPy or MNE. ``spdtokens export`` copies it for
devices that have only Python and NumPy.
"""

from .decoder import Decoder, Session
from .model_file import load_model, model_bytes
from .tokens import DecoderError

__all__ = ["Decoder", "DecoderError", "Session", "load_model", "model_bytes"]
