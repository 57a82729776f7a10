"""Evaluation without leakage: protocols, target access, alignment, metrics and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.evaluation.answer import Evaluation, evaluate
    from spdtokens.evaluation.plan import Choice, Question

__all__ = ["Choice", "Evaluation", "Question", "evaluate"]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that `spdtokens protocols` does not import torch and MNE.
    if name in __all__:
        from spdtokens.evaluation import answer

        return getattr(answer, name)
    raise AttributeError(f"module 'spdtokens.evaluation' has no attribute {name!r}")
