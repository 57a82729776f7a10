"""Rows against direct arithmetic, on made-up results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spdtokens.evaluation.chance import BOUNDS
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.evaluation.summary import summarise, unit_scores

KEYS = [
    "method",
    "metric",
    "score",
    "std",
    "train_score",
    "chance",
    "n_test",
    "n_runs",
    "p_value",
]
SPEC = RunSpec(
    dataset="d",
    selection={},
    subjects=(),
    protocol="blocks",
    protocol_options={},
    access="train",
    alignment="none",
    domain="session",
    subject="1",
    fold="f",
    method="m",
    about={},
    estimator={},
    seed=None,
    data_hash="",
)


def run(subject: int, fold: int, seed: int, score: float, *, n: int = 10, **more: Any) -> RunResult:
    y = np.arange(n) % 2
    right = np.arange(n) < round(score * n)
    p = np.where((y == 1) == right, 0.9, 0.1)
    result = RunResult(
        spec=replace(SPEC, subject=str(subject), fold=str(fold), seed=seed),
        ids=np.array([f"{subject}/{fold}/{i}" for i in range(n)]),
        y=y,
        probabilities=np.stack([1 - p, p], axis=1),
        train={"accuracy": 0.9 + score / 100},
        validation={},
        test={"accuracy": score},
        sizes={"train": 30, "validation": 0, "calibration": 0, "test": n},
        seconds=2.0,
        stretch=fold * n + np.arange(n),
        chain=fold * n + np.arange(n),
    )
    return replace(result, **more)


def runs(scores: np.ndarray, **more: Any) -> list[RunResult]:
    """Scores (subjects, folds, seeds)."""
    return [run(s, f, e, scores[s, f, e], **more) for s, f, e in np.ndindex(*scores.shape)]


def drawn(data: st.DataObject, *shape: int) -> np.ndarray:
    tenths = st.lists(
        st.integers(0, 10), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))
    )
    return np.array(data.draw(tenths)).reshape(shape) / 10


@settings(max_examples=40)
@given(st.data())
def test_means_and_spreads(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.integers(1, 3)) for _ in range(3))
    scores = drawn(data, *shape)
    mine = runs(scores)
    order = data.draw(st.permutations(range(len(mine))))
    (row,) = summarise({"m": [mine[i] for i in order]}, "accuracy")
    assert row.score == pytest.approx(scores.mean())
    assert row.train_score == pytest.approx(0.9 + scores.mean() / 100)
    assert np.isnan(row.validation_score)
    spread = {
        "subjects": scores.mean((1, 2)).std(ddof=1) if shape[0] > 1 else np.nan,
        "seeds": scores.mean(1).std(1, ddof=1).mean() if shape[2] > 1 else np.nan,
        "folds": scores.mean(2).std(1, ddof=1).mean() if shape[1] > 1 else np.nan,
    }
    for name, expected in spread.items():
        assert getattr(row, f"std_{name}") == pytest.approx(expected, nan_ok=True)
    known = [name for name, expected in spread.items() if np.isfinite(expected)]
    assert row.spread_over == (known[0] if known else "")
    assert row.std == pytest.approx(spread[known[0]] if known else np.nan, nan_ok=True)
    assert (row.n_subjects, row.n_folds, row.n_seeds) == (shape[0], shape[0] * shape[1], shape[2])
    assert (row.n_runs, row.n_test) == (scores.size, shape[0] * shape[1] * 10)
    assert (row.n_train, row.seconds, row.chance) == (30, 2.0, 0.5)
    counts = np.array([5, 5]) * shape[0] * shape[1]
    assert row.chance_bound == BOUNDS["accuracy"](counts, 0.05)
    assert row.n_independent == row.n_test
    assert row.comparison is None
    assert row.no_p_because == ""


@settings(max_examples=25)
@given(st.data())
def test_subjects_are_compared_by_permutation(data: st.DataObject) -> None:
    a, b = drawn(data, 6, 2, 2), drawn(data, 6, 2, 2)
    rows = summarise({"a": runs(a), "b": runs(b)}, "accuracy")
    d = (b - a).mean((1, 2))
    expected = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert rows[1].comparison is not None
    assert rows[1].comparison.test == "permutation"
    assert rows[1].comparison.mean_difference == pytest.approx(d.mean())
    assert rows[1].comparison.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    assert rows[1].p_holm == rows[1].comparison.p_value  # one comparison needs no correction


def test_folds_are_compared_by_nadeau_and_bengio() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1, 5, 2))
    rows = summarise({"a": runs(a), "b": runs(b)}, "accuracy")
    d = (b - a).mean(2)[0]
    t = d.mean() / np.sqrt((1 / 5 + 10 / 30) * d.var(ddof=1))
    found = rows[1].comparison
    assert found is not None
    assert found.test == "corrected_resampled_t"
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(t), 4))


def test_trials_are_compared_by_mcnemar() -> None:
    rows = summarise({"a": [run(1, 1, 1, 0.2, n=40)], "b": [run(1, 1, 1, 0.5, n=40)]}, "accuracy")
    found = rows[1].comparison
    assert found is not None
    assert found.test == "mcnemar"
    # 12 trials only b has right, none only a.
    assert found.p_value == pytest.approx(stats.binomtest(12, 12).pvalue)


def test_p_values_are_corrected_for_their_number() -> None:
    rng = np.random.default_rng(1)
    base = rng.random((6, 1, 1)) / 2
    methods = {"a": base, "b": base + 0.3, "c": base + rng.random((6, 1, 1)) / 3, "d": base}
    rows = summarise({name: runs(scores) for name, scores in methods.items()}, "accuracy")
    p = np.array([row.comparison.p_value for row in rows[1:] if row.comparison])
    order = np.argsort(p)
    expected = np.minimum(1, np.maximum.accumulate(p[order] * [3, 2, 1]))
    np.testing.assert_allclose([rows[1 + i].p_holm for i in order], expected)
    assert np.isnan(rows[0].p_holm)


def test_methods_of_different_folds_are_not_compared() -> None:
    a, b = runs(np.full((3, 1, 1), 0.5)), runs(np.full((2, 1, 1), 0.7))
    rows = summarise({"a": a, "b": b, "none": []}, "accuracy")
    assert [row.method for row in rows] == ["a", "b"]
    assert rows[1].comparison is None
    assert rows[1].no_p_because
    unit, scores = unit_scores({"a": a, "b": b}, "accuracy")
    assert unit == "subjects"
    np.testing.assert_allclose(scores["b"], [0.7, 0.7])
    assert summarise({}, "accuracy") == []


def test_plain_values() -> None:
    rows = summarise({"a": runs(np.full((3, 1, 1), 0.5)), "b": [run(0, 0, 1, 0.7)]}, "accuracy")
    for row in rows:
        values = row.values()
        assert list(values)[: len(KEYS)] == KEYS
        for name in ("score", "train_score", "chance"):
            assert 0 <= values[name] <= 1
        assert values["p_value"] is None
        assert values["leaky"] is None
        assert values["validation_score"] is None
        assert not any(isinstance(v, float) and np.isnan(v) for v in values.values())
    assert (rows[0].values()["std"], rows[0].values()["std_over"]) == (0.0, "subjects")
    assert (rows[1].values()["std"], rows[1].values()["std_over"]) == (None, None)
    assert (rows[0].values()["n_test"], rows[0].values()["n_runs"]) == (30, 3)


def test_one_leaky_fold_marks_the_row() -> None:
    mine = runs(np.full((2, 2, 1), 0.5))
    mine[3] = replace(mine[3], leaky="segments")
    rows = summarise({"a": runs(np.full((2, 2, 1), 0.5)), "b": mine}, "accuracy")
    assert [row.leaky for row in rows] == ["", "segments"]
    assert [row.values()["leaky"] for row in rows] == [None, "segments"]


def test_a_fold_without_the_metric_is_left_out_of_the_mean() -> None:
    mine = runs(np.array([[[0.4], [0.8]]]))
    mine[0] = replace(mine[0], test={"accuracy": float("nan")})
    (row,) = summarise({"a": mine}, "accuracy")
    assert row.score == 0.8


def test_trials_are_compared_by_the_metric_that_is_shown() -> None:
    """One always says the class of nine tenths: far more decisions are right, none is better."""
    y = (np.arange(200) % 10 == 0).astype(int)
    rng = np.random.default_rng(0)
    guess = rng.random(200)
    p = {"a": np.full(200, 0.1) + 1e-3 * guess, "b": rng.random(200)}
    results = {
        name: [run(1, 1, 1, 0.0, n=200, y=y, probabilities=np.stack([1 - q, q], axis=1))]
        for name, q in p.items()
    }
    assert summarise(results, "accuracy")[1].p_holm < 1e-6
    for metric in ("balanced_accuracy", "roc_auc"):
        found = summarise(results, metric)[1].comparison
        assert found is not None
        assert (found.test, found.n) == ("trial_permutation", 200)
        scores = [METRICS[metric](y, results[name][0].probabilities) for name in "ba"]
        assert found.mean_difference == pytest.approx(scores[0] - scores[1])
        assert found.p_value > 0.05


def test_dependent_trials_are_swapped_together() -> None:
    """Ten decisions of which one method has seven right, each counted twelve times."""
    y = np.repeat(np.arange(10) % 2, 12)
    right = {"a": np.repeat(np.arange(10) < 4, 12), "b": np.repeat(np.arange(10) < 7, 12)}
    chain = np.repeat(np.arange(10), 12)
    results = {
        name: [
            run(1, 1, 1, 0.0, n=120, y=y, chain=chain, stretch=chain,
                probabilities=np.where(np.eye(2)[np.where(r, y, 1 - y)] > 0, 0.9, 0.1))
        ]
        for name, r in right.items()
    }  # fmt: skip
    row = summarise(results, "accuracy")[1]
    assert row.comparison is not None
    assert (row.comparison.n, row.n_independent, row.n_test) == (10, 10, 120)
    assert row.comparison.p_value == pytest.approx(stats.binomtest(0, 3).pvalue)
    assert row.chance_bound == BOUNDS["accuracy"](np.array([5, 5]), 0.05)


def test_without_knowing_what_depends_nothing_is_claimed() -> None:
    results = {
        name: [run(1, 1, 1, score, n=40, stretch=None, chain=None)]
        for name, score in (("a", 0.2), ("b", 0.5))
    }
    for row in summarise(results, "accuracy"):
        assert np.isnan(row.chance_bound)
        assert row.n_independent is None
        assert np.isnan(row.p_holm)
    assert summarise(results, "accuracy")[1].no_p_because


def test_calibration_is_of_all_folds_of_a_subject() -> None:
    """Ten trials are too few for ten bins: the folds of a subject are measured together."""
    mine = runs(np.array([[[0.5], [1.0]], [[0.9], [0.9]]]))
    (row,) = summarise({"a": mine}, "accuracy")
    assert row.confidence == pytest.approx(0.9)
    assert row.calibration_error == pytest.approx(np.mean([abs(0.75 - 0.9), 0.0]))
    loss = [-np.log(0.9) * hit - np.log(0.1) * (1 - hit) for hit in (0.75, 0.9)]
    assert row.log_loss == pytest.approx(np.mean(loss))
    values = row.values()
    assert values["calibration_error"] == row.calibration_error
    assert values["log_loss"] == row.log_loss
