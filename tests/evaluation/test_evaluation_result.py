"""What a user gets of an evaluation, against scikit-learn and SciPy on its own predictions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from spdtokens.datasets import Recording
from spdtokens.errors import EvaluationError
from spdtokens.evaluation import Choice, Evaluation, evaluate
from spdtokens.evaluation.show import as_json
from tests.evaluation.made import SETTINGS, covariances, evaluated, signals
from tests.golden.sets import IMAGERY

RUN = ["method", "subject", "fold", "seed"]


def recomputed(trials: pd.DataFrame, score: Any) -> pd.Series:
    """A score of each run, averaged over seeds, then folds, then subjects."""
    found = trials.groupby(RUN, dropna=False, sort=False).apply(score)
    for level in (["method", "subject", "fold"], ["method", "subject"], ["method"]):
        found = found.groupby(level=level, sort=False).mean()
    return found


def accuracy(trials: pd.DataFrame) -> float:
    return float(accuracy_score(trials["truth"], trials["predicted"]))


@pytest.fixture(scope="module")
def several() -> Evaluation:
    """Three classes, two subjects, one fold each; one method has seeds."""
    choices = [Choice("ts-lr"), Choice("token-log-euclidean", SETTINGS), Choice("mdm")]
    return evaluate(IMAGERY, choices, seeds=(1, 2))


@pytest.fixture(scope="module")
def session() -> Evaluation:
    """One subject and one test session."""
    return evaluated(noisy(), "ts-lr", "mdm", "fb-ts-lr", subjects=("1",))


@pytest.fixture(scope="module")
def folds() -> Evaluation:
    return evaluated(noisy(), "ts-lr", "mdm", "fb-ts-lr", subjects=("1",), protocol="blocks")


def noisy() -> Any:
    """So noisy that methods differ."""

    def change(recording: Recording) -> Recording:
        rng = np.random.default_rng(len(recording.session))
        return replace(recording, X=recording.X + 4 * rng.standard_normal(recording.X.shape))

    return signals(change=change, n=60)


def test_scores_are_those_of_the_predictions(several: Evaluation) -> None:
    frame, trials = several.to_frame(), several.predictions()
    assert list(frame.index) == ["ts-lr", "token-log-euclidean", "mdm"]
    assert list(frame["n_seeds"]) == [1, 2, 1]
    scores = recomputed(trials, accuracy)
    pd.testing.assert_series_equal(frame["score"], scores, check_names=False)
    columns = [f"p({name})" for name in IMAGERY.classes]
    losses = recomputed(trials, lambda run: log_loss(run["truth"], run[columns]))
    pd.testing.assert_series_equal(frame["log_loss"], losses, check_names=False)
    assert frame["score"].nunique() > 1


def test_areas_are_those_of_the_predictions() -> None:
    dataset = signals(paradigm="erp", filtered=(1.0, 40.0))
    found = evaluated(dataset, "xdawn-ts-lr", "ts-lr")
    areas = recomputed(
        found.predictions(), lambda run: roc_auc_score(run["truth"] == "b", run["p(b)"])
    )
    assert set(found.to_frame()["metric"]) == {"roc_auc"}
    pd.testing.assert_series_equal(found.to_frame()["score"], areas, check_names=False)


def test_a_frame_has_the_values_of_the_command_line(several: Evaluation) -> None:
    frame = several.to_frame()
    for row in as_json(several.rows)["results"]:
        mine = frame.loc[row.pop("method")]
        assert set(mine.index) == set(row)
        for name, value in row.items():
            assert pd.isna(mine[name]) if value is None else mine[name] == value


def test_an_unknown_number_is_still_a_number() -> None:
    frame = evaluated(covariances(), "mdm", subjects=("1",)).to_frame()
    for name in ("validation_score", "std", "p_value", "p_holm"):
        assert frame[name].dtype == np.float64
        assert frame[name].isna().all()


def test_every_test_trial_once_per_run(several: Evaluation) -> None:
    trials = several.predictions()
    columns = [f"p({name})" for name in IMAGERY.classes]
    assert list(trials) == [*RUN, "trial", "truth", "predicted", *columns]
    np.testing.assert_allclose(trials[columns].sum(axis=1), 1)
    best = trials[columns].idxmax(axis=1)
    assert (best == "p(" + trials["predicted"] + ")").all()
    for title, runs in several.results.items():
        for run in runs:
            seed = (
                trials["seed"].isna() if run.spec.seed is None else trials["seed"] == run.spec.seed
            )
            mine = trials[
                (trials["method"] == title) & (trials["subject"] == run.spec.subject) & seed
            ]
            np.testing.assert_array_equal(mine[columns], run.probabilities)
            labels: dict[str, str] = {}
            for s in IMAGERY.index[run.spec.subject]:
                y = IMAGERY.load(run.spec.subject, s).y
                labels |= {
                    f"{run.spec.subject}/{s}/{i}": IMAGERY.classes[k] for i, k in enumerate(y)
                }
            assert list(mine["truth"]) == [labels[name] for name in mine["trial"]]
    assert len(trials) == sum(len(run.y) for runs in several.results.values() for run in runs)


def test_classes_are_named_as_selected() -> None:
    trials = evaluate(IMAGERY, "mdm", classes=IMAGERY.classes[:0:-1]).predictions()
    assert list(trials)[-2:] == [f"p({name})" for name in IMAGERY.classes[:0:-1]]
    assert set(trials["truth"]) == set(IMAGERY.classes[1:])
    assert accuracy(trials) > 0.5


def holm_by_hand(p: pd.Series) -> list[float]:
    """Holm (1979), one hypothesis after another."""
    adjusted, largest = [0.0] * len(p), 0.0
    for rank, place in enumerate(np.argsort(p.to_numpy())):
        largest = max(largest, min(1.0, (len(p) - rank) * p.iloc[place]))
        adjusted[place] = largest
    return adjusted


def check_pairs(found: Evaluation, test: str) -> pd.DataFrame:
    """All pairs, each later minus earlier, with differences of the scores."""
    pairs, score = found.compare(), found.to_frame()["score"]
    titles = list(score.index)
    assert list(zip(pairs["method"], pairs["reference"], strict=True)) == [
        (titles[1], titles[0]),
        (titles[2], titles[0]),
        (titles[2], titles[1]),
    ]
    difference = score.loc[pairs["method"]].to_numpy() - score.loc[pairs["reference"]].to_numpy()
    np.testing.assert_allclose(pairs["difference"], difference, atol=1e-12)
    assert np.abs(difference).max() > 0
    assert set(pairs["test"]) == {test}
    np.testing.assert_allclose(pairs["p_holm"], holm_by_hand(pairs["p_value"]))
    return pairs


def test_pairs_of_one_session_by_mcnemars_test(session: Evaluation) -> None:
    trials = session.predictions()
    right = {m: (t["truth"] == t["predicted"]).to_numpy() for m, t in trials.groupby("method")}
    for _, pair in check_pairs(session, "mcnemar").iterrows():
        a, b = right[pair["method"]], right[pair["reference"]]
        only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
        assert only_a + only_b
        assert pair["p_value"] == pytest.approx(stats.binomtest(only_a, only_a + only_b).pvalue)
        assert pair["n"] == len(a)


def test_pairs_of_folds_by_the_corrected_t_test(folds: Evaluation) -> None:
    trials = folds.predictions()
    scores = {m: t.groupby("fold").apply(accuracy) for m, t in trials.groupby("method")}
    n_test = len(trials) / 3 / len(scores["mdm"])
    n_train = folds.to_frame().loc["mdm", "n_train"]
    for _, pair in check_pairs(folds, "corrected_resampled_t").iterrows():
        d = (scores[pair["method"]] - scores[pair["reference"]]).to_numpy()
        t = d.mean() / np.sqrt((1 / len(d) + round(n_test) / round(n_train)) * d.var(ddof=1))
        assert pair["p_value"] == pytest.approx(2 * stats.t.sf(abs(t), len(d) - 1))


def test_pairs_of_subjects_by_all_sign_flips(several: Evaluation) -> None:
    trials = several.predictions()
    by_run = trials.groupby(RUN, dropna=False).apply(accuracy)
    scores = by_run.groupby(level=["method", "subject"]).mean()
    for _, pair in check_pairs(several, "permutation").iterrows():
        d = (scores[pair["method"]] - scores[pair["reference"]]).to_numpy()
        flipped = [abs(np.dot(signs, d)) for signs in product((1, -1), repeat=len(d))]
        assert pair["p_value"] == np.mean(np.array(flipped) >= abs(d.sum()) - 1e-9)


@pytest.mark.parametrize("reference", ["ts-lr", "fb-ts-lr"])
def test_all_against_one(session: Evaluation, reference: str) -> None:
    found, everything = session.compare(reference), session.compare()
    assert list(found["method"]) == [m for m in session.results if m != reference]
    assert set(found["reference"]) == {reference}
    for _, pair in found.iterrows():
        same = everything[
            everything["method"].isin([pair["method"], reference])
            & everything["reference"].isin([pair["method"], reference])
        ].iloc[0]
        sign = 1 if same["reference"] == reference else -1
        assert pair["difference"] == pytest.approx(sign * same["difference"])
        assert pair["p_value"] == same["p_value"]
    np.testing.assert_allclose(found["p_holm"], holm_by_hand(found["p_value"]))
    first = session.to_frame().loc[found["method"]]
    if reference == "ts-lr":  # the first, with which tables compare
        np.testing.assert_array_equal(found["p_holm"], first["p_holm"])


def test_an_unknown_reference_is_refused(session: Evaluation) -> None:
    with pytest.raises(EvaluationError, match=r"reference.*ts-lr, mdm, fb-ts-lr.*'svm'"):
        session.compare("svm")


def test_other_folds_are_not_compared(folds: Evaluation) -> None:
    fewer = {**folds.results, "mdm": folds.results["mdm"][:-1]}
    pairs = replace(folds, results=fewer).compare().set_index(["method", "reference"])
    assert list(pairs["no_p_because"].notna()) == [True, False, True]
    assert pairs.loc[("mdm", "ts-lr"), "no_p_because"] == "not the same folds"
    assert pairs.loc[("mdm", "ts-lr"), ["difference", "p_value", "p_holm"]].isna().all()
    # One test is left, which needs no correction.
    left = pairs.loc[("fb-ts-lr", "ts-lr")]
    assert left["p_holm"] == left["p_value"]


def test_printed_it_is_a_few_lines(several: Evaluation) -> None:
    head, about, *lines = repr(several).splitlines()
    assert head == "Evaluation of golden-mi: session-transfer, target access train"
    assert about.startswith(
        "Accuracy, 3 subjects, 3 folds, 90 test trials. Chance level 33.3 % (95"
    )
    assert max(map(len, (head, *lines))) <= 100
    for line, (title, row) in zip(lines, several.to_frame().iterrows(), strict=True):
        verdict = "above" if row["score"] > row["chance_bound"] else "not above"
        test, train = 100 * row["score"], 100 * row["train_score"]
        assert (
            line.split()
            == f"{title} test {test:.1f} %, train {train:.1f} %: {verdict} chance".split()
        )
    assert str(several) == repr(several)


def test_leaks_and_missing_bounds_are_printed() -> None:
    def segments(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 4)

    leaky = evaluated(
        signals(change=segments),
        "mdm",
        protocol="split-70-15-15",
        protocol_options={"ungrouped": True},
        subjects=("1",),
    )
    assert repr(leaky).endswith("chance, leaky")
    assert "these scores flatter" in leaky._repr_html_()
    unknown = replace(leaky, rows=[replace(leaky.rows[0], chance_bound=np.nan, leaky="")])
    assert repr(unknown).endswith("no chance bound")


def test_a_notebook_shows_a_table() -> None:
    choices = [Choice("mdm", label="<b>mine</b> & yours"), Choice("ts-lr")]
    found = evaluate(signals(), choices, subjects="1", metric="kappa")
    page = ET.fromstring(f"<div>{found._repr_html_()}</div>")
    head = [cell.text for cell in page.iter("th")]
    assert head == ["method", "train", "test", "±", "chance", "n", "runs", "p", "verdict"]
    cells = [[cell.text for cell in row.iter("td")] for row in page.iter("tr")][1:]
    assert [row[0] for row in cells] == ["<b>mine</b> & yours", "ts-lr"]
    assert [row[4] for row in cells] == [".000", ".000"]
    assert cells[0][7] == "-" != cells[1][7]
    caption = page.findall("p")[-1].text
    assert caption is not None
    assert caption.endswith("Only the test score measures generalisation.")
    assert "[" not in caption


def test_without_runs_frames_are_empty(session: Evaluation) -> None:
    """As in a study that has not begun."""
    empty = Evaluation(session.question, {"mdm": []}, [], session.classes)
    assert list(empty.to_frame()) == list(session.to_frame())
    assert list(empty.predictions()) == list(session.predictions())
    assert list(empty.compare()) == list(session.compare())
    assert not len(empty.to_frame()) + len(empty.predictions()) + len(empty.compare())
    assert repr(empty).endswith("No runs.")
    assert "No runs." in empty._repr_html_()
