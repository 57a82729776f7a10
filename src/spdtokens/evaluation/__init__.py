"""Honest evaluation: who may see what, and train scores beside test scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.evaluation.answer import Evaluation, evaluate
    from spdtokens.evaluation.plan import Choice, Question

__all__ = ["Choice", "Evaluation", "Question", "evaluate"]


def __getattr__(name: str) -> Any:
    # Imported when first used: `spdtokens protocols` need not wait for torch and MNE.
    if name in __all__:
        from spdtokens.evaluation import answer

        return getattr(answer, name)
    raise AttributeError(f"module 'spdtokens.evaluation' has no attribute {name!r}")
