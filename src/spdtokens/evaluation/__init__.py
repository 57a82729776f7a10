"""Honest evaluation: who may see what, and train scores beside test scores."""

from spdtokens.evaluation.answer import Evaluation, evaluate
from spdtokens.evaluation.plan import Choice, Question

__all__ = ["Choice", "Evaluation", "Question", "evaluate"]
