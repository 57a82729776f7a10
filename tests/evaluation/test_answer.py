"""What a user gets of an evaluation, against scikit-learn and SciPy on its own predictions."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn.recipe import STABILITY_SEEDS
from spdtokens.datasets import Dataset, Recording, Selection, load_dataset
from spdtokens.errors import DataError, EvaluationError, SignalError
from spdtokens.evaluation import Choice, Evaluation, Question, evaluate
from spdtokens.evaluation.answer import answer, evaluation_of
from spdtokens.evaluation.plan import Source, plan
from spdtokens.evaluation.statistics import compare, holm, mcnemar
from tests.evaluation.recordings import SAMPLES, SETTINGS, choices, covariances, evaluated, signals
from tests.golden.sets import IMAGERY

RECORDINGS = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no shared/data beside this checkout")


def test_the_metric_is_that_of_the_paradigm_or_asked_for() -> None:
    erp = signals(paradigm="erp", filtered=(1.0, 40.0))
    assert evaluated(erp, "xdawn-ts-lr").rows[0].metric == "roc_auc"
    assert evaluated(signals(), "mdm").rows[0].metric == "accuracy"
    row = evaluated(signals(), "mdm", metric="kappa").rows[0]
    assert (row.metric, row.chance) == ("kappa", 0)
    with pytest.raises(EvaluationError, match="'auc'"):
        evaluated(signals(), "mdm", metric="auc")


def unequal() -> Dataset:
    """Three quarters of the trials are of class a."""
    y = (np.arange(24) % 4 == 3).astype(np.int64)
    return signals(change=lambda recording: replace(recording, y=y))


def test_unequal_classes_are_shown_by_balanced_accuracy() -> None:
    row = evaluated(unequal(), "mdm", subjects=("1",)).rows[0]
    assert (row.metric, row.chance, row.majority) == ("balanced_accuracy", 0.5, 0.75)
    row = evaluated(unequal(), "mdm", subjects=("1",), metric="accuracy").rows[0]
    assert row.chance == 0.75 <= row.chance_bound


HARD = {str(i): ("a", "b") for i in range(1, 7)}


def hard(**more: Any) -> Dataset:
    """Subjects who cannot be decoded perfectly, and trials that depend on each other in pairs."""

    def change(recording: Recording) -> Recording:
        rng = np.random.default_rng([7, int(recording.subject), *map(ord, recording.session)])
        X = recording.X + 2 * rng.standard_normal(recording.X.shape)
        return replace(recording, X=X, group=np.arange(24) // 2)

    return signals(HARD, change=change, **more)


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
@pytest.mark.parametrize(
    "question",
    [
        {"protocol": "between-subjects", "protocol_options": {"test_subjects": [2, 3, 6]}},
        {"protocol": "subjects-k-fold", "protocol_options": {"folds": 4}},
        {"protocol": "leave-one-session-out", "subjects": (1, 4)},
    ],
    ids=lambda question: question["protocol"],
)
def test_scores_of_subjects_are_those_of_their_predictions(
    question: dict[str, Any], metric: str
) -> None:
    result = evaluated(hard(), "mdm", "token-euclidean", seeds=(1, 2), metric=metric, **question)
    trials = result.predictions()
    assert (trials["subject"] == trials["trial"].str.split("/").str[0]).all()
    trials["seed"] = trials["seed"].fillna(0)
    for row in result.rows:
        mine = trials[trials["method"] == row.method]
        runs = {
            place: accuracy_score(part["truth"], part["predicted"])
            if metric == "accuracy"
            else roc_auc_score(part["truth"] == "b", part["p(b)"])
            for place, part in mine.groupby(["subject", "fold", "seed"])
        }
        expected = pd.Series(runs).groupby(level=0).mean()
        assert list(row.subjects) == list(expected.index)
        np.testing.assert_allclose(list(row.subjects.values()), expected)
        assert row.score == pytest.approx(expected.mean())
        assert row.std == pytest.approx(expected.std())
        assert row.std_over == "subjects"
        assert row.n_test == mine["trial"].nunique()
        assert row.n_independent == row.n_test / (2 if metric == "accuracy" else 1)
        assert result.subjects()[row.method].to_dict() == row.subjects
        assert row.values()["subjects"] == row.subjects
    assert "subjects" not in result.to_frame()


def test_groups_of_one_are_subjects_left_out() -> None:
    """All but the time: scores, spreads, chance, calibration, tests."""
    methods, question = ("mdm", "token-euclidean"), {"seeds": (1, 2)}
    options = {"protocol_options": {"folds": len(HARD)}}
    found = evaluated(hard(), *methods, protocol="subjects-k-fold", **options, **question)
    expected = evaluated(hard(), *methods, protocol="leave-one-subject-out", **question)
    for one, other in zip(found.rows, expected.rows, strict=True):
        assert one.values() | {"seconds": 0} == other.values() | {"seconds": 0}
    assert found.rows[1].test == "permutation"
    pd.testing.assert_frame_equal(found.compare(), expected.compare())


def test_the_metric_suits_the_subjects_that_are_tested() -> None:
    """Only subject 1 has unequal classes."""
    rare = (np.arange(24) % 4 == 3).astype(np.int64)

    def change(recording: Recording) -> Recording:
        return replace(recording, y=rare) if recording.subject == "1" else recording

    for tested, metric in ((1, "balanced_accuracy"), ([2, 3], "accuracy")):
        options = {"test_subjects": tested}
        result = evaluated(
            signals(HARD, change=change),
            "mdm",
            protocol="between-subjects",
            protocol_options=options,
        )
        assert result.rows[0].metric == metric


def test_overlapping_windows_and_segments_count_as_one() -> None:
    """Three kinds of the same 24 trials: six to a group, four overlapping each other, apart."""

    def grouped(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 6, about={})

    def overlapping(recording: Recording) -> Recording:
        onset = np.arange(24) // 4 * 2 * SAMPLES + np.arange(24) % 4
        return replace(recording, about={"onset": onset})

    def apart(recording: Recording) -> Recording:
        return replace(recording, about={"onset": np.arange(24) * SAMPLES})

    for change, n in ((grouped, 4), (overlapping, 6), (apart, 24)):
        # All of a group or stretch have one label.
        def labelled(recording: Recording, change=change, n=n) -> Recording:
            return change(replace(recording, y=np.arange(24) // (24 // n) % 2))

        found = evaluated(signals(change=labelled), "ts-lr", "mdm", subjects=("1",), metric="kappa")
        bound = stats.binom.isf(0.05, n, 0.5) / n
        assert found.rows[0].chance_bound == pytest.approx((bound - 0.5) / 0.5)
        assert (found.rows[0].n_test, found.rows[0].n_independent) == (24, n)
        assert found.compare()["n"].tolist() == [n]


def test_runs_done_under_settings_that_mean_the_same_are_found() -> None:
    """A store has them under other idle settings: of ts-lr the epochs do not matter."""
    source = Source({"made-up": signals()})
    before = Question("made-up", (Choice("ts-lr", SETTINGS),))
    results = answer(before, source).results["ts-lr"]
    after = Question("made-up", (Choice("ts-lr", Settings(epochs=99), "mine"),))
    specs = plan(after, source)
    assert {s.key for s in specs} == {r.spec.key for r in results}
    found = evaluation_of(after, source, specs, results)
    assert [row.method for row in found.rows] == ["mine"]
    assert found.rows[0].n_runs == 2


def test_a_leak_that_is_asked_for_is_marked() -> None:
    def segments(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 4)

    question: dict[str, Any] = {"protocol": "paper-shuffled", "subjects": ("1",)}
    (leaky,) = evaluated(signals(change=segments), "mdm", **question).rows
    (honest,) = evaluated(signals(), "mdm", **question).rows
    assert leaky.leaky == leaky.values()["leaky"] != ""
    assert honest.leaky == ""


def test_a_data_set_by_path(tmp_path: Path) -> None:
    expected = evaluated(covariances(), "mdm", subjects=("1",)).results["mdm"][0]
    keys = set()
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        for session in "ab":
            r = covariances().load("1", session)
            path = folder / f"sub-1_ses-{session}.npz"
            np.savez(path, C=r.X, y=r.y, classes=np.array(["a", "b"]))
        (found,) = evaluate(folder, ["mdm"]).results["mdm"]
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)
        keys.add(found.spec.key)
    assert len(keys) == 1  # whatever the path


def test_one_name_is_a_list_of_one() -> None:
    (expected,) = evaluate(signals(), ["mdm"], subjects=("10",)).results["mdm"]
    for subjects in ("10", 10, [10], np.array([10]), ["10", 10]):
        (found,) = evaluate(signals(), "mdm", subjects=subjects).results["mdm"]
        assert found.spec == expected.spec
    assert evaluate(signals(), Choice("mdm"), subjects="10").results["mdm"][0].spec == expected.spec
    quick = Choice("token-log-euclidean", SETTINGS)
    (one,) = evaluate(signals(), quick, subjects="1", seeds=[7]).results["token-log-euclidean"]
    assert one.spec.seed == 7
    # A number is how many of the paper's, as on the command line.
    found = evaluate(signals(), quick, subjects="1", seeds=2).results["token-log-euclidean"]
    assert [run.spec.seed for run in found] == list(STABILITY_SEEDS[:2])
    with pytest.raises(EvaluationError, match=r"\[42\]"):
        evaluate(signals(), quick, seeds=42)
    with pytest.raises(EvaluationError, match=r"token-log-euclidean.*seeds.*1\.5"):
        evaluate(signals(), quick, seeds=[1.5])


def test_what_is_selected_can_be_said_directly() -> None:
    directly = evaluate(signals(), "mdm", subjects="1", classes=("b", "a"), paradigm="mi")
    expected = Selection(classes=("b", "a"), paradigm="mi")
    assert directly.question.selection == expected
    with pytest.raises(EvaluationError, match=r"'tmax'.*paradigm"):
        evaluate(signals(), "mdm", tmax=1.0)
    with pytest.raises(EvaluationError, match="classes"):
        evaluate(signals(), "mdm", classes=("a", "b"), selection=expected)


@pytest.mark.parametrize("make", [signals, covariances])
def test_sessions_in_other_units_are_refused(make: Callable[..., Dataset]) -> None:
    """A unit is not a difference between methods."""

    def in_volts(recording: Recording) -> Recording:
        factor = 1e-6 if recording.session == "b" else 1.0
        return replace(recording, X=recording.X * factor)

    with pytest.raises(EvaluationError, match=r"1/a.*1/b"):
        evaluate(make(change=in_volts), "mdm", subjects="1")


def test_an_error_names_the_session_and_counts_all_trials() -> None:
    def flat(recording: Recording) -> Recording:
        X = recording.X.copy()
        if recording.session == "b":
            X[:, 1] = 0.0
        return replace(recording, X=X)

    with pytest.raises(SignalError, match=r"Subject 1, session b.*24 of 24"):
        evaluate(signals(change=flat), "mdm", subjects="1")


@pytest.mark.parametrize(
    ("data", "more", "culprit"),
    [
        (lambda X, y: (X, y), {}, "sfreq"),
        (lambda X, y: (X, y[:3]), {"sfreq": 100.0}, "24, got 3"),
        (lambda X, _y: (X,), {"sfreq": 100.0}, "tuple"),
        (lambda X, _y: X, {"sfreq": 100.0}, "ndarray"),
        (lambda _X, _y: "sim-mi", {"sfreq": 100.0}, "sfreq"),
    ],
    ids=["no rate", "too few labels", "no labels", "not a pair", "not arrays"],
)
def test_arrays_that_are_not_trials_are_refused(data: Any, more: Any, culprit: str) -> None:
    trials = signals().load("1", "a")
    with pytest.raises(DataError, match=culprit):
        evaluate(data(trials.X, trials.y), "ts-lr", "k-fold", **more)


@pytest.mark.slow
@real
def test_the_papers_configuration_on_the_papers_data() -> None:
    """Near 99 / 72, 77 / 62 and 76 / 60, within what five seeds tell."""
    methods = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    found = evaluate(
        load_dataset(RECORDINGS / "bci2a-a09-covariances"), choices(*methods, settings=Settings())
    )
    rows = {row.method: row for row in found.rows}
    assert rows["token-log-euclidean"].train_score > 0.9
    for method in methods[:3]:
        assert 0.5 < rows[method].score < rows["ts-lr"].score  # classical wins
        assert rows[method].train_score - rows[method].score > 0.1  # and so does memory


FISTS = {"paradigm": "mi", "classes": ("left_fist", "right_fist"), "where": (("imagined", "1"),)}


@real
@pytest.mark.parametrize(
    ("name", "protocol", "options", "expected"),
    [
        (
            "bci2a-a09-covariances",
            "session-transfer",
            {},
            {"ts-lr": 0.781, "fgmdm": 0.840, "mdm": 0.743},
        ),
        ("brain-invaders-p300", "blocks", {"paradigm": "erp"}, {"xdawn-ts-lr": 0.916}),
        ("physionet-eegmmi-s001", "leave-one-run-out", FISTS, {"ts-lr": 0.80}),
        ("ssvep-exoskeleton", "leave-one-session-out", {}, {"ts-lr": 0.814}),
    ],
)
def test_known_scores_of_recordings(
    name: str, protocol: str, options: dict[str, Any], expected: dict[str, float]
) -> None:
    found = evaluate(RECORDINGS / name, list(expected), protocol, **options)
    assert found.to_frame()["score"].to_dict() == pytest.approx(expected, abs=0.015)


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


def test_every_test_trial_once_per_run(several: Evaluation) -> None:
    trials = several.predictions()
    columns = [f"p({name})" for name in IMAGERY.classes]
    assert list(trials) == [*RUN, "trial", "truth", "predicted", *columns]
    np.testing.assert_allclose(trials[columns].sum(axis=1), 1)
    best = trials[columns].idxmax(axis=1)
    assert (best == "p(" + trials["predicted"] + ")").all()
    runs = [run for runs in several.results.values() for run in runs]
    assert trials["trial"].tolist() == [name for run in runs for name in run.ids]
    np.testing.assert_array_equal(trials[columns], np.concatenate([r.probabilities for r in runs]))
    seeds = [-1 if run.spec.seed is None else run.spec.seed for run in runs for _ in run.ids]
    assert trials["seed"].fillna(-1).tolist() == seeds
    for name, truth in zip(trials["trial"], trials["truth"], strict=True):
        subject, session, number = name.split("/")
        assert truth == IMAGERY.classes[IMAGERY.load(subject, session).y[int(number)]]


def test_classes_are_named_as_selected() -> None:
    trials = evaluate(IMAGERY, "mdm", classes=IMAGERY.classes[:0:-1]).predictions()
    assert list(trials)[-2:] == [f"p({name})" for name in IMAGERY.classes[:0:-1]]
    assert set(trials["truth"]) == set(IMAGERY.classes[1:])
    assert accuracy(trials) > 0.5


@pytest.mark.parametrize(
    ("fixture", "test"),
    [("session", "mcnemar"), ("folds", "corrected_resampled_t"), ("several", "permutation")],
)
def test_all_pairs(fixture: str, test: str, request: pytest.FixtureRequest) -> None:
    """Each later minus earlier, by the test that suits what scores are paired by."""
    found: Evaluation = request.getfixturevalue(fixture)
    pairs, frame, trials = found.compare(), found.to_frame(), found.predictions()
    titles = list(frame.index)
    expected = [(titles[1], titles[0]), (titles[2], titles[0]), (titles[2], titles[1])]
    assert list(zip(pairs["method"], pairs["reference"], strict=True)) == expected
    by_run = trials.groupby(RUN, dropna=False).apply(accuracy)
    level = "fold" if test == "corrected_resampled_t" else "subject"
    scores = by_run.groupby(level=["method", level]).mean()
    right = trials["truth"] == trials["predicted"]
    for pair in pairs.itertuples():
        a, b = (scores[name].to_numpy() for name in (pair.method, pair.reference))
        assert pair.difference == pytest.approx(a.mean() - b.mean())
        if test == "mcnemar":
            a, b = (right[trials["method"] == name] for name in (pair.method, pair.reference))
            wanted = mcnemar(a.to_numpy(), b.to_numpy())
        elif test == "permutation":
            wanted = compare(a, b, test)
        else:
            wanted = compare(a, b, test, n_train=96, n_test=24)
        assert (pair.test, pair.n, pair.p_value) == (test, wanted.n, pytest.approx(wanted.p_value))
    assert pairs["difference"].abs().max() > 0
    np.testing.assert_allclose(pairs["p_holm"], holm(pairs["p_value"]))


@pytest.mark.parametrize("reference", ["ts-lr", "fb-ts-lr"])
def test_all_against_one(session: Evaluation, reference: str) -> None:
    found, everything = session.compare(reference), session.compare()
    assert list(found["method"]) == [m for m in session.results if m != reference]
    assert set(found["reference"]) == {reference}
    p = {frozenset(row[:2]): row.p_value for row in everything.itertuples(index=False)}
    for pair in found.itertuples():
        assert pair.p_value == p[frozenset((pair.method, reference))]
    np.testing.assert_allclose(found["p_holm"], holm(found["p_value"]))
    first = session.to_frame().loc[found["method"]]
    if reference == "ts-lr":  # the first, with which tables compare
        np.testing.assert_array_equal(found["p_holm"], first["p_holm"])


def test_an_unknown_reference_is_refused(session: Evaluation) -> None:
    with pytest.raises(EvaluationError, match=r"ts-lr, mdm, fb-ts-lr.*'svm'"):
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


def test_options_of_the_loader(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3, 50))
    coin = np.array(["heads", "tails", "tails", "heads"] * 5)
    np.savez(tmp_path / "own.npz", C=X @ X.swapaxes(1, 2), y=np.arange(20) % 2, coin=coin)
    options = {"label_from": "coin", "unit": "uV"}
    result = evaluate(tmp_path, "mdm", "k-fold", dataset_options=options)
    assert result.classes == ("heads", "tails")
    assert result.question.dataset_options == options
    with pytest.raises(DataError, match=r"'labels'.*label_from"):
        evaluate(tmp_path, "mdm", "k-fold", dataset_options={"labels": "coin"})
    with pytest.raises(EvaluationError, match="label_from"):
        evaluate(load_dataset(tmp_path), "mdm", "k-fold", dataset_options=options)
    with pytest.raises(EvaluationError, match="dataset_options"):
        evaluate(tmp_path, "mdm", "k-fold", dataset_options={"events": object()})
    # One source keeps data sets that are loaded in different ways apart.
    source = Source()
    for given, classes in (({}, ("0", "1")), (options, ("heads", "tails"))):
        question = Question(str(tmp_path), (), dataset_options=given)
        assert source.dataset_of(question).classes == classes
