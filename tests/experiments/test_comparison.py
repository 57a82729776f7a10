from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from spdtokens.errors import StudyError
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Choice, Question
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.summary import summarise
from spdtokens.experiments.comparison import comparison_table, comparisons, write_figures
from tests.experiments.helpers import cells, made, printed

METHODS = ("a", "b", "c")


def run(method: str, subject: int, fold: int, seed: int, accuracy: float) -> RunResult:
    result = made(seed)
    spec = replace(result.spec, method=method, subject=str(subject), fold=f"block {fold}")
    apart = np.arange(len(result.y))
    test = {**result.test, "accuracy": accuracy}
    return replace(result, spec=spec, test=test, stretch=apart, chain=apart)


def answer(scores: np.ndarray, **more: str) -> Evaluation:
    """An answer with scores (methods, subjects, folds, seeds)."""
    question = Question(
        "/home/me/mine", tuple(map(Choice, METHODS)), "blocks", {"folds": 4}, **more
    )
    results = {
        method: [
            run(method, i, j, k, scores[m, i, j, k]) for i, j, k in np.ndindex(scores.shape[1:])
        ]
        for m, method in enumerate(METHODS[: len(scores)])
    }
    return Evaluation(question, results, summarise(results, "accuracy"), ("a", "b"))


@pytest.fixture
def scores() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(0.4, 0.9, (3, 8, 2, 3)) + np.array([0, 0.02, 0.2])[:, None, None, None]


def holm_of_two(p: list[float]) -> list[float]:
    low, high = sorted(p)
    adjusted = {low: min(1, 2 * low), high: min(1, max(2 * low, high))}
    return [adjusted[value] for value in p]


def test_numbers_over_subjects_are_scipys(scores: np.ndarray) -> None:
    found = comparisons(answer(scores))
    a, b, c = scores.mean((2, 3))
    assert (found.over, found.n, found.reference) == ("subjects", 8, "a")
    assert list(found.frame.index) == ["b", "c"]
    np.testing.assert_allclose(found.scores["c"], c)
    np.testing.assert_allclose(found.frame["difference"], [(b - a).mean(), (c - a).mean()])
    t = [stats.ttest_rel(x, a).pvalue for x in (b, c)]
    np.testing.assert_allclose(found.frame["paired_t"], holm_of_two(t))
    w = [stats.wilcoxon(x, a, method="exact").pvalue for x in (b, c)]
    np.testing.assert_allclose(found.frame["wilcoxon"], holm_of_two(w))
    flips = [
        stats.permutation_test(
            (x, a),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            n_resamples=np.inf,
        ).pvalue
        for x in (b, c)
    ]
    np.testing.assert_allclose(found.frame["permutation"], holm_of_two(flips))
    assert list(found.frame.columns[2:]) == ["paired_t", "wilcoxon", "permutation"]


def test_another_reference_turns_the_differences(scores: np.ndarray) -> None:
    found = comparisons(answer(scores), "c")
    assert list(found.frame.index) == ["a", "b"]
    other = comparisons(answer(scores)).frame
    assert found.frame["difference"]["a"] == -other["difference"]["c"]


def test_folds_of_one_subject_get_the_corrected_test_only(scores: np.ndarray) -> None:
    scores = scores.transpose(0, 2, 1, 3)[:, :1]  # one subject, eight folds
    found = comparisons(answer(scores))
    assert (found.over, found.n) == ("folds", 8)
    d = (scores[1:] - scores[0]).mean((1, 3))
    sizes = made(0).sizes
    scale = np.sqrt((1 / 8 + sizes["test"] / sizes["train"]) * d.var(1, ddof=1))
    p = 2 * stats.t.sf(np.abs(d.mean(1)) / scale, 7)
    assert list(found.frame.columns[2:]) == ["corrected_resampled_t"]
    np.testing.assert_allclose(found.frame["corrected_resampled_t"], holm_of_two(list(p)))


def test_one_fold_is_compared_trial_by_trial(scores: np.ndarray) -> None:
    one = answer(scores[:2, :1, :1])
    y = one.results["a"][0].y
    right, wrong = np.eye(4)[y], np.eye(4)[(y + 1) % 4]
    for name, n in (("a", 2), ("b", 11)):  # b is right where a is, and on nine more
        p = np.where(np.arange(len(y))[:, None] < n, right, wrong)
        one.results[name][:] = [replace(r, y=y, probabilities=p) for r in one.results[name]]
    wanted = stats.binomtest(9, 9).pvalue
    found = comparisons(one)  # means over three seeds
    assert (found.over, found.n, list(found.frame.columns[2:])) == (
        "folds",
        1,
        ["trial_permutation"],
    )
    np.testing.assert_allclose(found.frame["trial_permutation"], [wanted])
    single = {name: runs[:1] for name, runs in one.results.items()}
    found = comparisons(replace(one, results=single))
    np.testing.assert_allclose(found.frame["mcnemar"], [wanted])
    # One of the two has seeds: another test, corrected together.
    three = {**single, "c": one.results["b"]}
    found = comparisons(replace(one, results=three))
    np.testing.assert_allclose(found.frame["mcnemar"], [2 * wanted, np.nan])
    np.testing.assert_allclose(found.frame["trial_permutation"], [np.nan, 2 * wanted])
    assert write_figures([found], Path("/nowhere")) == []


def test_methods_without_runs(scores: np.ndarray) -> None:
    partly = answer(scores[:2])
    partly.results["c"] = []
    assert list(comparisons(partly).frame.index) == ["b"]
    with pytest.raises(StudyError, match="c has no runs"):
        comparisons(partly, "c")
    with pytest.raises(StudyError, match=r"a, b, c.*'d'"):
        comparisons(partly, "d")


def test_methods_that_share_no_subject_yet(scores: np.ndarray) -> None:
    partly = answer(scores[:2])
    partly.results["a"] = [r for r in partly.results["a"] if r.spec.subject == "0"]
    partly.results["b"] = [r for r in partly.results["b"] if r.spec.subject != "0"]
    found = comparisons(partly)
    values = found.values()
    assert list(values) == ["title", "metric", "reference", "over", "n", "methods"]
    assert values["n"] == found.n == 0
    assert values["methods"][0] == {
        "method": "b",
        "difference": None,
        "effect": None,
        "p_values": {"corrected_resampled_t": None},
        "no_p_because": "there are fewer than two pairs",
    }


def test_figures(tmp_path: Path, scores: np.ndarray) -> None:
    tables = [
        comparisons(answer(scores)),
        comparisons(answer(scores, access="unlabeled_full", alignment="recentre")),
        comparisons(answer(scores)),  # of another selection, which the title does not tell
    ]
    written = write_figures(tables, tmp_path)
    stem = "mine-blocks-folds-4"
    assert [path.name for path in written] == [
        f"{stem}-train-differences.png",
        f"{stem}-train-ranks.png",
        f"{stem}-unlabeled-full-recentre-session-differences.png",
        f"{stem}-unlabeled-full-recentre-session-ranks.png",
        f"{stem}-train-3-differences.png",
        f"{stem}-train-3-ranks.png",
    ]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    for path in written:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5_000


def test_a_subject_without_a_score_is_left_out_of_figures(
    tmp_path: Path, scores: np.ndarray
) -> None:
    scores[1, 3] = np.nan
    found = comparisons(answer(scores))
    assert np.isfinite(found.frame["difference"]).all()
    assert len(write_figures([found], tmp_path)) == 2


def test_a_comparison_fits_a_narrow_terminal(scores: np.ndarray) -> None:
    text = printed(comparison_table(comparisons(answer(scores))), width=80)
    assert "mine, blocks, folds 4, train: difference to a" in text
    frame = comparisons(answer(scores)).frame
    for name, row in frame.iterrows():
        p = ["<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") for value in row.iloc[2:]]
        p = ["1" if value == "1.000" else value for value in p]
        wanted = [f"{row['difference']:+.3f}", f"{row['effect']:+.2f}", *p]
        assert cells(text, str(name)) == wanted
    assert "over 8 subjects" in " ".join(text.split())
    one = comparisons(answer(scores[:2, :1, :2, :1]))
    lonely = replace(one, frame=one.frame * np.nan, no_p_because={"b": "of a reason"})
    text = printed(comparison_table(lonely))
    assert cells(text, "b") == ["-"] * 3
    assert "No p for b: of a reason." in " ".join(text.split())
