from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn.recipe import STABILITY_SEEDS
from spdtokens.datasets import Dataset, Recording, Selection, from_arrays, load_dataset
from spdtokens.errors import DataError, EvaluationError, SignalError
from spdtokens.evaluation import Choice, Question, evaluate
from spdtokens.evaluation.answer import answer, by_choice, evaluation_of
from spdtokens.evaluation.plan import Source, plan
from tests.evaluation.made import SAMPLES, SETTINGS, choices, covariances, evaluated, signals

REAL = Path(__file__).parents[3] / "shared" / "data" / "bci2a-a09-covariances"
QUICK = ("token-log-euclidean", "mdm", "ts-lr", "spd-token-mlp")


def test_one_row_a_method_and_every_run_kept() -> None:
    found = evaluated(covariances(), *QUICK, seeds=(1, 2))
    assert [row.method for row in found.rows] == list(QUICK)
    for row in found.rows:
        results = found.results[row.method]
        seeds = 1 if row.method in ("mdm", "ts-lr") else 2
        assert len(results) == row.n_runs == 2 * seeds
        assert row.score == pytest.approx(np.mean([r.test["accuracy"] for r in results]))
        assert row.train_score == pytest.approx(np.mean([r.train["accuracy"] for r in results]))
        assert row.n_test == 48
        assert {r.spec.subject for r in results} == {"1", "10"}
    assert all(row.score > row.chance_bound for row in found.rows if row.method in ("mdm", "ts-lr"))


def test_the_metric_is_that_of_the_paradigm_or_asked_for() -> None:
    erp = signals(paradigm="erp", filtered=(1.0, 40.0))
    assert evaluated(erp, "xdawn-ts-lr").rows[0].metric == "roc_auc"
    assert evaluated(signals(), "mdm").rows[0].metric == "accuracy"
    row = evaluated(signals(), "mdm", metric="kappa").rows[0]
    assert (row.metric, row.chance) == ("kappa", 0)
    with pytest.raises(EvaluationError, match="no metric 'auc'"):
        evaluated(signals(), "mdm", metric="auc")


def unequal(change=None, **more: Any):
    """Three quarters of the trials are of class a."""

    def fewer(recording: Recording) -> Recording:
        y = (np.arange(len(recording)) % 4 == 3).astype(np.int64)
        recording = replace(recording, y=y)
        return recording if change is None else change(recording)

    return signals(change=fewer, **more)


def test_unequal_classes_are_shown_by_balanced_accuracy() -> None:
    row = evaluated(unequal(), "mdm", subjects=("1",)).rows[0]
    assert (row.metric, row.chance) == ("balanced_accuracy", 0.5)
    assert row.majority == 0.75
    row = evaluated(unequal(), "mdm", subjects=("1",), metric="accuracy").rows[0]
    assert row.chance == 0.75 <= row.chance_bound
    row = evaluated(unequal(paradigm="erp", filtered=(1.0, 40.0)), "xdawn-ts-lr").rows[0]
    assert (row.metric, row.chance) == ("roc_auc", 0.5)


def test_the_p_value_is_of_the_metric_in_the_table() -> None:
    """In noise `ts-lr` says the larger class, `mdm` either: only accuracy tells them apart."""

    def noise(recording: Recording) -> Recording:
        seed = [len(recording.session), *map(ord, recording.session)]
        return replace(recording, X=np.random.default_rng(seed).standard_normal(recording.X.shape))

    dataset = unequal(noise, n=120)
    p = {}
    for metric in ("accuracy", "balanced_accuracy", "roc_auc"):
        found = evaluated(dataset, "ts-lr", "mdm", subjects=("1",), metric=metric)
        p[metric] = found.rows[1].p_holm
        gap = found.rows[1].score - found.rows[0].score
        assert found.rows[1].comparison is not None
        assert found.rows[1].comparison.mean_difference == pytest.approx(gap)
    assert p["accuracy"] < 0.01
    assert min(p["balanced_accuracy"], p["roc_auc"]) > 0.05


def test_overlapping_windows_and_segments_count_as_one() -> None:
    """Three kinds of the same 24 trials: six to a group, four overlapping each other, apart."""

    def grouped(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 6, about={})

    def overlapping(recording: Recording) -> Recording:
        onset = np.arange(24) // 4 * 2 * SAMPLES + np.arange(24) % 4
        return replace(recording, about={"onset": onset})

    def apart(recording: Recording) -> Recording:
        return replace(recording, about={"onset": np.arange(24) * SAMPLES})

    wanted = {grouped: 4, overlapping: 6, apart: 24}
    for change, n in wanted.items():
        # All of a group or stretch have one label.
        def labelled(recording: Recording, change=change, n=n) -> Recording:
            return change(replace(recording, y=np.arange(24) // (24 // n) % 2))

        found = evaluated(signals(change=labelled), "ts-lr", "mdm", subjects=("1",), metric="kappa")
        row = found.rows[0]
        bound = stats.binom.isf(0.05, n, 0.5) / n
        assert row.chance_bound == pytest.approx((bound - 0.5) / 0.5)
        assert (row.n_test, row.n_independent) == (24, n)
        assert found.rows[1].comparison is not None
        assert found.rows[1].comparison.n == n


def test_windows_that_slide_without_a_gap_are_one_chain() -> None:
    """Half of each overlaps the next, so every second one counts, and nothing can be swapped."""

    def sliding(recording: Recording) -> Recording:
        onset = np.arange(24) * (SAMPLES // 2)
        return replace(recording, run=np.full(24, "1"), about={"onset": onset})

    found = evaluated(signals(change=sliding), "ts-lr", "mdm", subjects=("1",))
    assert found.rows[0].n_independent == 12
    assert np.isnan(found.rows[1].p_holm)
    assert found.rows[1].no_p_because
    assert found.rows[1].values()["no_p_because"] == found.rows[1].no_p_because


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


def test_choices_that_mean_the_same_share_their_runs() -> None:
    told: list[tuple[str, int]] = []
    settings = replace(SETTINGS, epochs=7)
    found = evaluate(
        signals(),
        [Choice("mdm", SETTINGS), Choice("mdm", settings, "again"), Choice("ts-lr", settings)],
        bar=lambda title, total: told.append((title, total)),  # type: ignore[func-returns-value]
    )
    assert told == [("mdm", 2), ("again", 0), ("ts-lr", 2)]
    assert found.rows[0].score == found.rows[1].score
    assert [row.n_runs for row in found.rows] == [2, 2, 2]
    comparison = found.rows[1].comparison
    assert comparison is not None
    assert comparison.p_value == 1


def test_settings_that_matter_are_told_apart() -> None:
    source = Source({"made-up": signals()})
    other = replace(SETTINGS, bands="broadband")
    question = Question("made-up", (Choice("mdm", SETTINGS), Choice("mdm", other, "wide")))
    dataset = source.dataset("made-up", question.selection)
    named = by_choice(question, dataset, plan(question, source))
    assert [len(specs) for specs in named.values()] == [2, 2]
    assert not {s.key for s in named["mdm"]} & {s.key for s in named["wide"]}


def test_a_leak_that_is_asked_for_is_marked() -> None:
    def segments(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 4)

    question: dict[str, Any] = {"protocol": "split-70-15-15", "subjects": ("1",)}
    leaky = evaluated(
        signals(change=segments), "mdm", protocol_options={"ungrouped": True}, **question
    )
    (row,) = leaky.rows
    assert row.leaky == "segments of one trial are in more than one part of the split"
    assert row.values()["leaky"] == row.leaky
    honest = evaluated(signals(), "mdm", protocol_options={"ungrouped": True}, **question)
    assert honest.rows[0].leaky == ""


def test_a_data_set_by_path(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for session in "ab":
        r = covariances().load("1", session)
        np.savez(folder / f"sub-1_ses-{session}.npz", C=r.X, y=r.y, classes=np.array(["a", "b"]))
    found = evaluate(folder, ["mdm"])
    expected = evaluated(covariances(), "mdm", subjects=("1",))
    np.testing.assert_array_equal(
        found.results["mdm"][0].probabilities, expected.results["mdm"][0].probabilities
    )


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


def test_arrays_are_a_data_set_of_one_recording() -> None:
    trials = signals().load("1", "a")
    expected = evaluated(
        from_arrays(trials.X, trials.y, sfreq=100.0), "ts-lr", protocol="k-fold"
    ).results["ts-lr"]
    labels = np.array(["left", "right"])[trials.y]
    found = evaluate((trials.X, labels), "ts-lr", "k-fold", sfreq=100.0).results["ts-lr"]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)
    C = covariances().load("1", "a")
    assert evaluate((C.X, C.y), "mdm", "blocks").rows[0].n_test == len(C.y)


def test_groups_of_arrays_are_never_split() -> None:
    trials = signals().load("1", "a")
    groups = np.array([f"block {i // 4}" for i in range(len(trials.y))])
    found = evaluate((trials.X, trials.y, groups), "ts-lr", "k-fold", sfreq=100.0)
    tested = [set(groups[[int(i.split("/")[-1]) for i in r.ids]]) for r in found.results["ts-lr"]]
    assert sum(map(len, tested)) == len(np.unique(groups))


@pytest.mark.parametrize(
    ("data", "more", "culprit"),
    [
        (lambda X, y: (X, y), {}, "sfreq"),
        (lambda X, y: (X, y[:3]), {"sfreq": 100.0}, "24 trials but 3"),
        (lambda X, y: (X, y[:, None]), {"sfreq": 100.0}, r"\(24, 1\)"),
        (lambda X, _y: (X[0], np.arange(4)), {"sfreq": 100.0}, r"\(4, 120\)"),
        (lambda X, _y: (X,), {"sfreq": 100.0}, "tuple"),
        (lambda X, _y: X, {"sfreq": 100.0}, "ndarray"),
        (lambda _X, _y: "sim-mi", {"sfreq": 100.0}, "sfreq"),
    ],
    ids=[
        "no rate",
        "too few labels",
        "labels of two axes",
        "one trial",
        "no labels",
        "not a pair",
        "not arrays",
    ],
)
def test_arrays_that_are_not_trials_are_refused(data: Any, more: Any, culprit: str) -> None:
    trials = signals().load("1", "a")
    with pytest.raises(DataError, match=culprit):
        evaluate(data(trials.X, trials.y), "ts-lr", "k-fold", **more)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="the real recordings are not beside this checkout")
def test_the_papers_configuration_on_the_papers_data() -> None:
    """Near 99 / 72, 77 / 62 and 76 / 60, within what five seeds tell."""
    methods = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    found = evaluate(load_dataset(REAL), choices(*methods, settings=Settings()))
    rows = {row.method: row for row in found.rows}
    assert rows["token-log-euclidean"].train_score > 0.9
    for method in methods[:3]:
        assert 0.5 < rows[method].score < rows["ts-lr"].score  # classical wins
        assert rows[method].train_score - rows[method].score > 0.1  # and so does memory
