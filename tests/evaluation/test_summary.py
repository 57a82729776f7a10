"""Rows against direct arithmetic, on made-up results, and as tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from spdtokens.evaluation.chance import BOUNDS
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.evaluation.summary import Row, summarise, summary_table, unit_scores

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
    assert row.std_over == (known[0] if known else "")
    assert row.std == pytest.approx(spread[known[0]] if known else np.nan, nan_ok=True)
    assert (row.n_subjects, row.n_folds, row.n_seeds) == (shape[0], shape[0] * shape[1], shape[2])
    assert (row.n_runs, row.n_test) == (scores.size, shape[0] * shape[1] * 10)
    assert (row.n_train, row.seconds, row.chance) == (30, 2.0, 0.5)
    counts = np.array([5, 5]) * shape[0] * shape[1]
    assert row.chance_bound == BOUNDS["accuracy"](counts)
    assert row.n_independent == row.n_test
    assert row.comparison is None
    assert row.no_p_because == ""


@settings(max_examples=20)
@given(st.data())
def test_a_run_of_several_subjects_is_summarised_by_subject(data: st.DataObject) -> None:
    """As if each subject had a run of its own, with the same predictions."""
    people, seeds = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    names = tuple(map(str, range(people)))
    alone = {m: runs(drawn(data, people, 1, seeds)) for m in ("a", "b")}
    pooled = {}
    for method, mine in alone.items():
        pooled[method] = [
            replace(
                parts[0],
                spec=replace(
                    SPEC, protocol="between-subjects", subject="all", seed=seed, subjects=names
                ),
                test={},
                train={"accuracy": 0.95},
                stretch=np.arange(10 * people),
                chain=np.arange(10 * people),
                **{
                    name: np.concatenate([getattr(part, name) for part in parts])
                    for name in ("ids", "y", "probabilities")
                },
            )
            for seed in range(seeds)
            for parts in [[part for part in mine if part.spec.seed == seed]]
        ]
        alone[method] = [replace(part, train={"accuracy": 0.95}) for part in mine]
    counted = {"n_runs", "n_folds"}
    for one, other in zip(summarise(pooled, "accuracy"), summarise(alone, "accuracy"), strict=True):
        assert (one.n_runs, one.n_folds, one.n_subjects) == (seeds, 1, people)
        values, expected = one.values(), other.values()
        assert values["subjects"] == pytest.approx(expected["subjects"])
        for name in set(values) - counted - {"subjects"}:
            if isinstance(values[name], float):
                assert values[name] == pytest.approx(expected[name]), name
            else:
                assert values[name] == expected[name], name


def test_missing_scores_of_subjects_are_none() -> None:
    mine = runs(np.full((2, 1, 1), 0.5))
    mine[1] = replace(mine[1], test={})
    (row,) = summarise({"m": mine}, "accuracy")
    assert row.values()["subjects"] == {"0": 0.5, "1": None}


def test_methods_of_different_folds_are_not_compared() -> None:
    a, b = runs(np.full((3, 1, 1), 0.5)), runs(np.full((2, 1, 1), 0.7))
    rows = summarise({"a": a, "b": b, "none": []}, "accuracy")
    assert [row.method for row in rows] == ["a", "b"]
    assert np.isnan(rows[1].p_value)
    assert rows[1].no_p_because
    unit, scores = unit_scores({"a": a, "b": b}, "accuracy")
    assert unit == "subjects"
    np.testing.assert_allclose(scores["b"], [0.7, 0.7])
    assert summarise({}, "accuracy") == []


def test_plain_values() -> None:
    rows = summarise({"a": runs(np.full((3, 1, 1), 0.5)), "b": [run(0, 0, 1, 0.7)]}, "accuracy")
    first, second = (row.values() for row in rows)
    assert json.loads(json.dumps([first, second], allow_nan=False)) == [first, second]
    assert (first["std"], first["std_over"], first["n_runs"]) == (0.0, "subjects", 3)
    assert (second["std"], second["std_over"], second["n_runs"]) == (None, None, 1)
    for name in ("p_value", "leaky", "validation_score"):
        assert first[name] is None


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


QUESTION = Question("d", (), "blocks", access="online", alignment="recentre")


LEAK = "segments of one trial are in more than one part of the split"


def shown(found: list[Row], *, styled: bool = False) -> str:
    console = Console(width=200, force_terminal=styled, color_system="standard" if styled else None)
    with console.capture() as capture:
        console.print(summary_table(found, QUESTION, "my [data]"))
    return " ".join(capture.get().split())


def two_rows() -> list[Row]:
    rng = np.random.default_rng(0)
    scores = rng.random((3, 2, 2))
    return summarise(
        {"first": runs(0.2 * scores), "se[x]ond": runs(0.8 + 0.2 * scores)}, "accuracy"
    )


def test_table() -> None:
    text = shown(two_rows())
    assert "my [data]: blocks, target access online, recentre by session" in text
    for row in two_rows():
        cells = (
            f"{row.method} {100 * row.train_score:.1f} {100 * row.score:.1f} {100 * row.std:.1f}"
        )
        assert f"{cells} 50.0 60 12" in text
    assert "se[x]ond" in text  # brackets of a name are not markup
    for words in (
        "Accuracy in percent: mean over seeds, folds and subjects (2 seeds, 6 folds, 3 subjects",
        "30 training trials per run",
        "±: standard deviation over subjects",
        "comparison with first by a sign-flip permutation test over subjects, Holm-corrected",
    ):
        assert words in text
    bound = 100 * two_rows()[0].chance_bound
    assert f"Chance level 50.0 % (95th percentile for n = 60: {bound:.1f} %)." in text
    assert " .250 " in text  # of 8 sign flips, the observed one and its mirror image
    assert "leaky" not in text.lower()


def test_what_was_counted_and_why_there_is_no_p_are_told() -> None:
    found = [
        replace(two_rows()[0], n_independent=12),
        replace(two_rows()[1], p_holm=float("nan"), no_p_because="of a reason"),
    ]
    text = shown(found)
    assert "n = 12 independent of 60 test trials" in text
    assert "No p-value for se[x]ond: of a reason." in text
    assert "comparison with" not in text
    balanced = [replace(row, metric="balanced_accuracy", majority=0.75) for row in two_rows()]
    assert "classes are unbalanced: majority class 75 % of test trials" in shown(balanced)


def test_what_is_no_better_than_guessing_is_dim() -> None:
    text = shown(two_rows(), styled=True)
    low, high = (f"{100 * row.score:.1f}" for row in two_rows())
    assert f"\x1b[2m{low}" in text
    assert f"\x1b[1m{high}" in text
    unknown = [replace(row, chance_bound=float("nan")) for row in two_rows()]
    assert f"\x1b[2m{low}" not in shown(unknown, styled=True)  # where it cannot be said


def test_a_leak_is_marked() -> None:
    text = shown([two_rows()[0], replace(two_rows()[1], leaky=LEAK)])
    assert "se[x]ond leaky" in text
    assert "first leaky" not in text
    assert LEAK in text


@pytest.mark.parametrize(
    ("metric", "value", "cell", "title"),
    [
        ("roc_auc", 0.8126, ".813", "ROC AUC: mean"),
        ("kappa", -0.05, "-.050", "Cohen's kappa: mean"),
        ("itr", 1.25, "1.250", "Bits per trial: mean"),
        ("f1", 0.5, "50.0", "F1 in percent: mean"),
    ],
)
def test_numbers_of_other_metrics(metric: str, value: float, cell: str, title: str) -> None:
    text = shown([replace(two_rows()[0], metric=metric, score=value)])
    assert f" {cell} " in text
    assert title in text
