"""The arithmetic behind the checks, against other ways to compute it."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import numpy as np
import pytest
from scipy import stats
from torch import nn

from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.transformer import SMALL, STANDARD
from spdtokens.paper.audit import Paper
from spdtokens.paper.audit.across import folds
from spdtokens.paper.audit.check import half_step, rounds_to
from spdtokens.paper.audit.granularity import Reported
from spdtokens.paper.audit.networks import Shape, idle_parameters
from spdtokens.paper.audit.significance import paired_p_range
from spdtokens.paper.audit.spreads import overall_spreads, possible_spreads, wrong_answers
from spdtokens.paper.tables import Cell


@pytest.mark.parametrize(("data", "config"), [("BCI2a", STANDARD), ("MAMEM", SMALL)])
def test_shape_is_that_of_our_network(data: str, config: object) -> None:
    shape = Shape.of(Paper(), data)
    net = SPDTokenTransformer(shape.token, 1, shape.classes, config)  # type: ignore[arg-type]
    ours = sum(p.numel() for p in net.parameters())
    # Ours has a position and the scale and shift of BN-Embed beyond what the paper counts.
    assert ours - 3 * shape.width == shape.parameters
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert sum(m.weight.numel() for m in linear) == shape.linear
    assert sum(p.numel() for n, p in net.named_parameters() if "query_key" in n) == shape.query_key


def test_idle_parameters_are_queries_and_keys() -> None:
    assert idle_parameters(16, 2, 24, 3) == 3 * 2 * (16 * 16 + 16)


def test_wrong_answers_are_all_multisets() -> None:
    for total in (0, 1, 5, 9):
        every = {
            tuple(sorted(p, reverse=True)) for p in product(range(5), repeat=5) if sum(p) == total
        }
        assert sorted(every) == sorted(wrong_answers(total, 4))
        ends = {p for p in every if p[0] == 3 and p[-1] == 0}
        assert sorted(ends) == sorted(wrong_answers(total, 4, low=0, high=3))


def test_possible_spreads_are_numpys() -> None:
    # BCI2a S2: 3 wrong of 5 x 252, best seed 252 and worst 251 right.
    found = possible_spreads(
        Reported(Decimal("99.76"), 5), 252, Reported(Decimal("99.60")), Reported(Decimal("100.00"))
    )
    seeds = 100 * np.array([251, 251, 251, 252, 252]) / 252
    assert found is not None
    assert list(found["n - 1"]) == [pytest.approx(np.std(seeds, ddof=1))]
    assert list(found["n"]) == [pytest.approx(np.std(seeds))]
    twice = np.std(np.concatenate([seeds, seeds]), ddof=1)
    assert list(found["seeds counted twice"]) == [pytest.approx(twice)]
    assert possible_spreads(Reported(Decimal("50.00"), 5), 252) is None


def test_overall_spreads_are_those_of_all_runs_and_of_means() -> None:
    runs = np.random.default_rng(0).normal(90, 5, (9, 5))
    means = runs.mean(1)
    for ddof in (0, 1):
        found = overall_spreads(means.tolist(), runs.std(1, ddof=ddof).tolist())
        for total in (0, 1):
            assert any(np.isclose(v, runs.std(ddof=total)) for v in found["all runs"])
            subjects = found["means of subjects"]
            assert any(np.isclose(v, means.std(ddof=total)) for v in subjects)


def test_bounds_of_p_hold_for_any_pairs_and_are_reached() -> None:
    rng = np.random.default_rng(1)
    ratios = []
    for correlation in np.linspace(-1, 1, 41):
        z = rng.normal(size=(2, 5))
        x = z[0]
        y = 2 * (correlation * z[0] + np.sqrt(1 - correlation**2) * z[1]) + 0.7
        p = stats.ttest_rel(x, y).pvalue
        cells = [Cell(f"{v.mean():.6f} +- {v.std(ddof=1):.6f}") for v in (x, y)]
        low, high = paired_p_range(*cells)
        assert low - 1e-9 <= p <= high + 1e-9
        ratios.append(p / low)
    assert min(ratios) < 1.1


def test_folds_at_mean_and_std_are_told_from_others() -> None:
    by_place = {(f.method, f.data): f for f in folds(Paper())}
    assert by_place["BWSPD", "BCI2a"].ends_are_mean_and_std
    assert not by_place["Log-Euc", "BCI2a"].ends_are_mean_and_std
    assert sum(f.ends_are_mean_and_std for f in by_place.values()) == 8


def test_rounding_helpers() -> None:
    assert half_step(Decimal("99.60")) == Decimal("0.005")
    assert half_step(Decimal("96")) == Decimal("0.5")
    assert rounds_to(99.6049, Decimal("99.60"))
    assert not rounds_to(99.606, Decimal("99.60"))
    assert rounds_to(99.606, Decimal("99.60"), slack=0.01)
