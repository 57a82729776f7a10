"""Honest evaluation: what may be seen, and train scores beside test scores."""

from spdtokens.evaluation.transfer import Score, session_transfer

__all__ = ["Score", "session_transfer"]
