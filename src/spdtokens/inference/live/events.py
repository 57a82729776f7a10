"""What is worth telling while a stream is decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something happened.

    Attributes
    ----------
    kind : str
        ``'gap'``, ``'slip'``, ``'bad channel'``, ``'good channel'``, ``'withheld'``, ``'decides
        again'``; of the connection ``'connected'``, ``'silent'``, ``'samples again'``, ``'lost'``,
        ``'refused'``, ``'behind'``.
    text : str
        A sentence for people.
    sample : int or None
        How many samples had been taken.
    """

    kind: str
    text: str
    sample: int | None = None


Tell = Callable[[Event], None]


def tell_nobody(event: Event) -> None:
    """The listener where there is none."""
