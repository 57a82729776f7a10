"""What a model file may claim: a few bytes must not take seconds or fill the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from .errors import DecoderError
from .networks import Network, Transformers

#: Samples of a trial with its padding, and numbers of a trial in all bands.
MOST_SAMPLES, MOST_VALUES = 1 << 18, 30_000_000
#: Samples times sections of one filter and of all filters, and steps of causal filters.
MOST_OF_FILTER, MOST_OF_FILTERS, MOST_STEPS = 1 << 21, 1 << 23, 1 << 21
#: Numbers of a trial's matrices that any file may claim; a larger file so many times its own.
MATRICES, TIMES_MATRICES = 1 << 20, 4
#: The same of what is computed for every two tokens.
PAIRS, TIMES_PAIRS = 1 << 21, 16
#: Numbers of a made-up trial, and of it in all bands, up to which a model is tried out on one.
TRIED, TRIED_IN_BANDS = 1 << 19, 1 << 23

Shape = tuple[int, ...]


def names(values: Any, what: str) -> tuple[str, ...]:
    """Names as a model file can have them: different, and printable.

    Nothing that a terminal would take for a command, or could not show.

    Parameters
    ----------
    values : list of str
    what : str
        For the message: ``'class'`` or ``'channel'``.

    Raises
    ------
    DecoderError
    """
    if not isinstance(values, list) or not values:
        raise DecoderError(f"There must be {what} names, got {values!r}.")
    seen: set[str] = set()
    for value in values:
        if not isinstance(value, str) or not value.isprintable():
            raise DecoderError(f"A {what} name must be printable text, got {value!r}. Rename it.")
        if value in seen:
            raise DecoderError(
                f"Every {what} must have a name of its own, got {value!r} twice. Rename one."
            )
        seen.add(value)
    return tuple(values)


def check_trials(
    n_samples: int,
    length: int,
    filtering: str,
    sections: Sequence[NDArray[Any] | None],
    rows: int,
    shape: Shape,
) -> None:
    """Refuse trials and filters that are too large, before anything of that size is made.

    Parameters
    ----------
    n_samples, length : int
        Of a trial, and of its Fourier transform.
    filtering : {'zero-phase', 'causal'}
    sections : sequence of ndarray, shape (sections, 6), or None
        Filters, one per band.
    rows : int
        Channels of a trial, delayed ones included.
    shape : tuple of int
        Of a trial's matrices.

    Raises
    ------
    DecoderError
    """
    orders = [0 if sos is None else len(sos) for sos in sections]
    steps = n_samples * sum(orders) if filtering == "causal" else 0
    if (
        length > MOST_SAMPLES
        or length * max(orders) > MOST_OF_FILTER
        or length * sum(orders) > MOST_OF_FILTERS
        or length * max(rows, shape[0] * shape[1]) > MOST_VALUES
        or steps > MOST_STEPS
    ):
        raise DecoderError(
            f"Trials of {n_samples} samples ({length} with padding), {rows} rows and "
            f"{len(sections)} bands are more than a model file may describe. Train on shorter "
            "trials, or at a lower sampling rate."
        )


def check_matrices(shape: Shape, network: Network, held: int) -> None:
    """Refuse more matrices per trial than a file with ``held`` numbers can be for.

    Raises
    ------
    DecoderError
    """
    n, d = shape[:2]
    pairs = 0
    if isinstance(network, Transformers):
        first = network.members[0]
        pairs = network.shape[0] ** 2 * max(first.n_heads, d * d // 2 if first.needs_bias else 0)
    if n * d * d > max(MATRICES, TIMES_MATRICES * held) or pairs > max(PAIRS, TIMES_PAIRS * held):
        raise DecoderError(f"{n} matrices of {d} rows are more than its {held} numbers are for.")


def is_tried(length: int, rows: int, shape: Shape) -> bool:
    """Whether a trial is short enough to be made up and decoded while the file is read."""
    return length * rows <= TRIED and length * max(rows, shape[0] * shape[1]) <= TRIED_IN_BANDS
