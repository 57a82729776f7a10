"""Which n can give a printed accuracy, against brute force in exact fractions."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest

from spdtokens.errors import PaperError
from spdtokens.paper.audit import Paper
from spdtokens.paper.audit.granularity import (
    Reported,
    Rounding,
    chance_to_fit,
    share_that_fits,
    sizes_that_fit,
    smallest_of_each_family,
)
from spdtokens.paper.audit.sizes import SPLITS, subject_values

MODES: dict[Rounding, tuple[str, ...]] = {
    "any": (ROUND_HALF_UP, ROUND_HALF_DOWN, ROUND_HALF_EVEN),
    "half-up": (ROUND_HALF_UP,),
    "half-even": (ROUND_HALF_EVEN,),
    "cut": (ROUND_DOWN,),
}


def printed(share: Fraction, whole: int, decimals: int, mode: str) -> Decimal:
    """A fraction as a program with that rounding prints it, exactly."""
    scaled = share * whole * 10**decimals
    floor, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    # One digit behind the point is enough to decide, once ties are told from the rest.
    digit = "5" if half == 0 else "7" if half > 0 else "2"
    if rest == 0:
        digit = "0"
    return Decimal(f"{floor}.{digit}").quantize(Decimal(1), rounding=mode).scaleb(-decimals)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("seeds", "whole", "decimals"), [(1, 100, 1), (3, 100, 0), (5, 100, 1), (2, 1, 2)]
)
def test_counts_are_those_of_brute_force(
    mode: Rounding, seeds: int, whole: int, decimals: int
) -> None:
    for n in (1, 7, 8, 16, 40, 200):
        total = n * seeds
        made: dict[Decimal, set[int]] = {}
        for k in range(total + 1):
            for rounding in MODES[mode]:
                value = printed(Fraction(k, total), whole, decimals, rounding)
                made.setdefault(value, set()).add(k)
        for step in range(whole * 10**decimals + 1):
            value = Decimal(step).scaleb(-decimals)
            reported = Reported(value, seeds, whole)
            assert set(reported.counts(n, mode)) == made.get(value, set()), (value, n, mode)
            assert reported.fits(n, mode) == (value in made)


def test_ties_are_where_modes_part() -> None:
    # 1 of 8 is 12.5 %: printed as 13 by half-up, as 12 by half-even and when cut.
    up, even = Reported(Decimal(13)), Reported(Decimal(12))
    assert [up.fits(8, mode) for mode in MODES] == [True, True, False, False]
    assert [even.fits(8, mode) for mode in MODES] == [True, False, True, True]


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.data)
@pytest.mark.parametrize("mode", ["any", "half-up", "half-even"])
def test_the_papers_values_fit_one_size_only(split: object, mode: Rounding) -> None:
    expected = {"BCI2a": 252, "BCIcha": 237, "MAMEM": 350}
    for one in SPLITS:
        if one is split:
            groups = subject_values(Paper(), one)
            values = [value for group in groups.values() for value in group]
            assert sizes_that_fit(values, 400, mode) == [expected[one.data]]
            # Single seeds alone and means alone say the same.
            seeds = [value for value in values if value.seeds == 1]
            means = [value for value in values if value.seeds == 5]
            assert sizes_that_fit(seeds, 400, mode) == [expected[one.data]]
            assert sizes_that_fit(means, 400, mode) == [expected[one.data]]


def test_counts_of_values_are_the_notes() -> None:
    sizes = {s.data: {k: len(v) for k, v in subject_values(Paper(), s).items()} for s in SPLITS}
    assert sizes["BCI2a"]["best and worst seeds"] == 10  # nine worst ones and 100.00
    assert sizes["BCI2a"]["means of 5 seeds"] == 9


def test_a_multiple_fits_too_and_is_of_the_family() -> None:
    values = [Reported(Decimal("98.81")), Reported(Decimal("76.59"))]
    sizes = sizes_that_fit(values, 800)
    assert {252, 504, 756} <= set(sizes)
    assert 504 not in smallest_of_each_family(sizes)
    assert smallest_of_each_family([2, 3, 4, 5, 9, 25]) == [2, 3, 5]


def test_share_and_chance() -> None:
    values = [Reported(Decimal("50.00")), Reported(Decimal("33.33")), Reported(Decimal("100.00"))]
    assert share_that_fits(values, 2) == pytest.approx(2 / 3)
    assert share_that_fits(values, 6) == 1
    # Two values of 10,000 printable ones, of which 6 trials give 6; 100.00 always fits.
    assert chance_to_fit(values, 6) == pytest.approx((6 / 10_000) ** 2)
    assert chance_to_fit(values * 2, 6) == chance_to_fit(values, 6)
    assert chance_to_fit(values, 20_000) == 1


def test_decimals_matter() -> None:
    assert Reported(Decimal("98.6")).fits(288)  # 284 of 288 is 98.61
    assert not Reported(Decimal("98.60")).fits(288)
    assert Reported(Decimal("0.996"), whole=1).decimals == 3


@pytest.mark.parametrize("value", ["100.01", "-0.01", "nan"])
def test_what_is_no_accuracy_is_refused(value: str) -> None:
    with pytest.raises(PaperError, match="not between 0 and 100"):
        Reported(Decimal(value))


def test_numbers_of_trials_and_seeds_are_checked() -> None:
    with pytest.raises(PaperError, match="at least 1, not 0"):
        Reported(Decimal(1)).fits(0)
    with pytest.raises(PaperError, match="seeds is a whole number"):
        Reported(Decimal(1), seeds=0)
