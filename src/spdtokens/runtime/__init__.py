"""Trained models as they predict: NumPy only, in a folder that can be copied anywhere.

This package imports nothing of spdtokens, torch, SciPy or MNE. ``spdtokens export`` copies it for a
device on which only Python and NumPy are installed.
"""

from .decoder import Decoder, Session
from .model_file import load_model, model_bytes
from .tokens import DecoderError

__all__ = ["Decoder", "DecoderError", "Session", "load_model", "model_bytes"]
