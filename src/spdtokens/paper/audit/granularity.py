"""Which numbers of trials a printed accuracy can come from (GRIM).

The accuracy of n trials is k / n with k a whole number, and the mean of s seeds is k / (s n). So
few trials leave gaps between the values that can be printed, and a printed value that falls into a
gap was not measured on that many trials. This needs nothing but the printed digits.

All of it is in whole numbers: no rounding of ours can make a value fit.

References
----------
Brown and Heathers, The GRIM test: a simple technique detects numerous anomalies in the reporting of
results in psychology, Social Psychological and Personality Science 8 (2017).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from spdtokens.errors import PaperError

#: How a value halfway between two printable ones was rounded. ``any``: up or down, since programs
#: differ and binary fractions hide which side a value was on. ``cut``: digits were cut off.
Rounding = Literal["any", "half-up", "half-even", "cut"]


@dataclass(frozen=True)
class Reported:
    """An accuracy as it is printed.

    Attributes
    ----------
    value : Decimal
        With its decimals: 99.60 says more than 99.6.
    seeds : int
        Runs on as many trials each whose mean it is.
    whole : int
        What a perfect score would be printed as: 100, or 1 for shares.
    label : str
    """

    value: Decimal
    seeds: int = 1
    whole: int = 100
    label: str = ""

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.seeds != int(self.seeds):
            raise PaperError(f"seeds is a whole number of at least 1, not {self.seeds}.")
        if not self.value.is_finite() or not 0 <= self.value <= self.whole:
            raise PaperError(f"{self.value} is not between 0 and {self.whole}.")

    @property
    def steps(self) -> int:
        """How many printable values lie between 0 and a perfect score."""
        return self.whole * 10**self.decimals

    @property
    def decimals(self) -> int:
        """How many are printed."""
        exponent = self.value.as_tuple().exponent
        return max(0, -int(exponent))

    def fits(self, n: int, rounding: Rounding = "any") -> bool:
        """Whether ``n`` trials can give this value.

        Parameters
        ----------
        n : int
            Trials of a seed.
        rounding : {'any', 'half-up', 'half-even', 'cut'}
        """
        return bool(self.counts(n, rounding))

    def counts(self, n: int, rounding: Rounding = "any") -> range:
        """Numbers of right answers, summed over seeds, that are printed as this value."""
        if n < 1:
            raise PaperError(f"A number of trials is at least 1, not {n}.")
        total = n * self.seeds
        printed = int(self.value.scaleb(self.decimals))
        # k fits if k * steps / total lies within half a step of what is printed; doubled, so that
        # all is whole: |2 k steps - 2 printed total| <= total. Cut off, it lies up to a step above.
        step, base = 2 * self.steps, 2 * printed * total
        low, high = (base, base + 2 * total) if rounding == "cut" else (base - total, base + total)
        even = printed % 2 == 0
        keeps_low = rounding != "half-even" or even
        keeps_high = rounding == "any" or (rounding == "half-even" and even)
        first = -(-low // step) if keeps_low else low // step + 1
        last = high // step if keeps_high else -(-high // step) - 1
        return range(max(first, 0), max(min(last, total) + 1, first, 0))


def share_that_fits(values: Sequence[Reported], n: int, rounding: Rounding = "any") -> float:
    """Share of values that ``n`` trials can give."""
    return sum(value.fits(n, rounding) for value in values) / len(values)


def sizes_that_fit(
    values: Sequence[Reported], max_n: int = 400, rounding: Rounding = "any"
) -> list[int]:
    """Numbers of trials up to ``max_n`` that can give every one of the values.

    A multiple of a size that fits, fits too.
    """
    return [n for n in range(1, max_n + 1) if all(value.fits(n, rounding) for value in values)]


def chance_to_fit(values: Iterable[Reported], n: int) -> float:
    """Chance that values which have nothing to do with ``n`` trials would all fit them.

    The product, over distinct values that are not 0 or perfect (these always fit), of the share of
    printable values that fit.
    """
    chance = 1.0
    for value in {(v.value, v.seeds, v.whole, v.decimals): v for v in values}.values():
        if 0 < value.value < value.whole:
            chance *= min(1.0, n * value.seeds / value.steps)
    return chance


def smallest_of_each_family(sizes: Sequence[int]) -> list[int]:
    """Sizes of which no smaller one in the list is a divisor: the rest are their multiples."""
    return [n for n in sizes if not any(n % m == 0 for m in sizes if m < n)]
