"""The ways to bring domains together; :mod:`spdtokens.evaluation.alignment` applies them."""

from __future__ import annotations

from dataclasses import dataclass

from spdtokens.evaluation.errors import EvaluationError
from spdtokens.spd.alignment import Metric


@dataclass(frozen=True)
class Alignment:
    """How domains are brought together.

    Attributes
    ----------
    name : str
    metric : str or None
        Of the mean that becomes the identity; None to leave everything as it is.
    rescales : bool
        Whether the dispersion around the mean becomes 1.
    rotates : bool
        Whether the target's class means are turned to those of the training trials.
    description : str
    """

    name: str
    metric: Metric | None
    rescales: bool
    rotates: bool
    description: str

    @property
    def linear(self) -> bool:
        """Whether it is a linear map of the signal."""
        return not self.rescales


ALIGNMENTS = {
    alignment.name: alignment
    for alignment in (
        Alignment("none", None, False, False, "as recorded"),
        Alignment("euclidean", "euclid", False, False, "arithmetic mean to the identity"),
        Alignment("recentre", "riemann", False, False, "Riemannian mean to the identity"),
        Alignment("rescale", "riemann", True, False, "recentre, then dispersion to 1"),
        Alignment("rotate", "riemann", True, True, "rescale, then class means onto each other"),
    )
}


def get_alignment(name: str | Alignment) -> Alignment:
    """Look up an alignment by its name."""
    if isinstance(name, Alignment):
        return name
    if name not in ALIGNMENTS:
        raise EvaluationError(
            f"Unknown alignment {name!r}. Choose one of: {', '.join(ALIGNMENTS)}."
        )
    return ALIGNMENTS[name]
