"""Honest evaluation: what may be seen, and train scores beside test scores."""

from spdtokens.evaluation.transfer import METHODS, Score, session_transfer

__all__ = ["METHODS", "Score", "session_transfer"]
