"""Words that depend on a number."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``'1 fold'``, ``'3 folds'``."""
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"
