"""Decode EEG from the geometry of its covariance matrices, and measure it honestly."""

__version__ = "0.1.0"
