from __future__ import annotations

import numpy as np
import pytest

from spdtokens.evaluation.summary import unit_scores
from spdtokens.reporting.units import units_of
from tests.reporting.made import made_run


def test_subjects_are_means_over_seeds_then_folds() -> None:
    runs = [
        made_run("a", "1", "x", 0, right=1.0),
        made_run("a", "1", "x", 1, right=0.5),
        made_run("a", "1", "y", 0, right=0.5),
        made_run("a", "2", "x", 0, right=0.7),
    ]
    units = units_of({"a": runs, "b": runs[-1:]}, "accuracy")
    assert (units.over, units.names) == ("subjects", ("1", "2"))
    assert units.test["a"] == pytest.approx([0.625, 0.7])
    assert units.train["a"] == pytest.approx([0.95, 0.95])
    assert np.isnan(units.test["b"][0])
    assert units.complete()["a"] == pytest.approx([0.7])


@pytest.mark.parametrize("subjects", [("1",), ("1", "2", "3")])
def test_they_agree_with_the_summary(subjects: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    results = {
        name: [
            made_run(name, s, fold, seed, right=rng.uniform(0.4, 1))
            for s in subjects
            for fold in ("x", "y", "z")
            for seed in (1, 2)
        ]
        for name in ("a", "b")
    }
    over, scores = unit_scores(results, "accuracy")
    units = units_of(results, "accuracy")
    assert units.over == over
    for name, values in scores.items():
        assert units.test[name] == pytest.approx(values)


def test_one_fold_is_looked_at_by_seed() -> None:
    runs = [made_run("a", seed=seed, right=0.6 + 0.1 * seed) for seed in (1, 2)]
    units = units_of({"a": runs, "b": [made_run("b", right=0.5)]}, "accuracy")
    assert (units.over, units.names) == ("seeds", ("1", "2", "no seed"))
    assert not units.paired
    assert units.test["a"][:2] == pytest.approx([0.7, 0.8])
    assert units.test["b"][2] == pytest.approx(0.5)
