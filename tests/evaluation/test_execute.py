"""Runs are those of the estimators by hand, and nothing fitted knows a test trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC

from spdtokens import (
    DecodingPipeline,
    NetworkClassifier,
    Recentring,
    StandardTrials,
    TokenDiscriminantClassifier,
    evaluate,
)
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import Dataset, Recording
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.estimators import with_seed
from spdtokens.evaluation.execute import class_probabilities, execute
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import RunResult
from spdtokens.geometry.alignment import riemannian_mean
from spdtokens.runtime.balance import imbalance_shift, shifted
from tests.evaluation.recordings import SETTINGS, covariances, planned, same, signals

KINDS = (
    *("ts-lr", "eegnet", "spdnet", "token-affine-invariant", "spd-token-mlp"),
    "token-adversarial",
)


WINDOWS: dict[str, Any] = {"sfreq": 100.0, "windows": [(0.0, 1.2)]}


SMALL = SETTINGS.changes


def whole(dataset: Dataset, session: str) -> tuple[np.ndarray, np.ndarray]:
    recording = dataset.load("1", session)
    return recording.X, recording.y


def assert_same_bits(one: RunResult, other: RunResult) -> None:
    np.testing.assert_array_equal(one.probabilities, other.probabilities, strict=True)
    for name in ("train", "validation", "test", "sizes", "epoch"):
        assert getattr(one, name) == getattr(other, name)
    for name, curve in one.curves.items():
        np.testing.assert_array_equal(curve, other.curves[name], strict=True)


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("method", KINDS)
def test_a_run_is_the_same_alone_and_in_company_with_any_threads(method: str) -> None:
    specs, source = planned(
        signals(), method, seeds=(1, 2), alignment="recentre", access="unlabeled_20p"
    )
    with threads(1):
        together = execute(specs, source)
    with threads(2):
        (alone,) = execute(specs[-1:], Source({"made-up": signals()}))
        backwards = execute(specs[::-1], source)[::-1]
        assert torch.get_num_threads() == 2  # as it was
    assert_same_bits(together[-1], alone)
    for one, other in zip(together, backwards, strict=True):
        assert one.spec == other.spec
        assert_same_bits(one, other)


def test_trials_that_the_recipe_holds_back_are_not_counted_as_trained_on() -> None:
    dataset = signals()
    result = execute(*planned(dataset, "eegnet", seeds=(5,)))[0]
    steps = [("trials", StandardTrials(**WINDOWS)), ("classifier", NetworkClassifier("eegnet"))]
    classifier = DecodingPipeline(steps)
    classifier.set_params(classifier__sfreq=100.0, classifier__epochs=2, classifier__random_state=5)
    X, y = whole(dataset, "a")
    classifier.fit(X, y)
    held = classifier["classifier"].held_back_
    kept = np.setdiff1d(np.arange(24), held)
    assert result.sizes == {"train": 21, "validation": 3, "calibration": 0, "test": 24}
    for part, scores in ((kept, result.train), (held, result.validation)):
        assert scores == all_scores(y[part], classifier.predict_proba(X[part]))


BEST = replace(SETTINGS, epochs=6, changes={**SMALL, "keep": "best", "learning_rate": 0.05})


@pytest.mark.parametrize("method", ["token-euclidean", "eegnet"])
def test_the_validating_session_chooses_the_epoch(method: str) -> None:
    dataset = signals({"1": ("a", "b", "c")})
    specs, source = planned(dataset, method, protocol="session-split", settings=BEST)
    (result,) = execute(specs, source)
    assert result.sizes == {"train": 24, "validation": 24, "calibration": 0, "test": 24}
    losses = result.curves["validation loss"]
    assert result.epoch == int(np.nanargmin(losses)) + 1
    (held,) = execute(*planned(signals({"1": ("a", "b")}), method, settings=BEST))
    assert held.sizes == {"train": 21, "validation": 3, "calibration": 0, "test": 24}


@pytest.mark.parametrize("classes", [2, 3])
def test_decision_values_become_probabilities_of_the_same_order(classes: int) -> None:
    rng = np.random.default_rng(classes)
    y = np.arange(60) % classes
    X = rng.standard_normal((60, 2)) + y[:, None]
    svm = SVC(break_ties=True).fit(X, y)
    p = class_probabilities(svm, X, classes)
    np.testing.assert_array_equal(p.argmax(1), svm.predict(X))
    np.testing.assert_allclose(p.sum(1), 1)
    pairs = SVC(decision_function_shape="ovo").fit(X, y)  # of pairs of classes, if more than two
    decided = class_probabilities(pairs, X, classes).argmax(1)
    np.testing.assert_array_equal(decided, pairs.predict(X))
    if classes == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-svm.decision_function(X))))


def test_runs_that_cannot_be_done() -> None:
    specs, source = planned(signals(), "ts-lr")
    louder = signals(change=lambda r: replace(r, X=r.X * 2))
    for spec, where, culprit in (
        (replace(specs[0], fold="z"), source, "subject 1 has no fold z"),
        (specs[0], Source({"made-up": louder}), "subject 1"),
    ):
        with pytest.raises(EvaluationError, match=culprit):
            execute([spec], where)


def test_progress_adds_up_to_the_runs() -> None:
    for method in ("mdm", "token-euclidean"):
        specs, source = planned(signals(), method)
        told: list[float] = []
        execute(specs, source, told.append)
        assert sum(told) == pytest.approx(len(specs))


METHODS = ("ts-lr", "mdm", "eegnet", "token-affine-invariant", "spd-token-mlp")


#: Of these test trials the signals stay: the probe by which two trained models are compared.
PROBE = 4


INDEX = {"1": ("a", "b"), "2": ("a", "b")}


def replaced(numbers: np.ndarray, session: str) -> Callable[[Recording], Recording]:
    """Much louder noise in the place of some trials of subject 1, labels turned round."""

    def change(recording: Recording) -> Recording:
        if (recording.subject, recording.session) != ("1", session):
            return recording
        X, y = recording.X.copy(), recording.y.copy()
        X[numbers] = 40 * np.random.default_rng(9).standard_normal(X[numbers].shape)
        y[numbers] = 1 - y[numbers]
        return replace(recording, X=X, y=y)

    return change


def done(dataset: Dataset, method: str, fold: int, **question: Any) -> RunResult:
    specs, source = planned(dataset, method, subjects=("1",), **question)
    (result,) = execute(specs[fold : fold + 1], source)
    return result


def assert_trained_the_same(before: RunResult, after: RunResult) -> None:
    assert before.spec.data_hash != after.spec.data_hash  # the trials are others
    np.testing.assert_array_equal(before.ids, after.ids)
    assert before.train == after.train
    assert before.validation == after.validation
    assert before.epoch == after.epoch
    assert list(before.curves) == list(after.curves)
    for name in before.curves:
        np.testing.assert_array_equal(before.curves[name], after.curves[name])


def compared(method: str, **question: Any) -> tuple[RunResult, RunResult]:
    """With the last session as it is, and with all but the first of its trials replaced."""
    before, after = (
        done(signals(INDEX, change=change), method, 0, **question)
        for change in (same, replaced(np.arange(PROBE, 24), "b"))
    )
    assert_trained_the_same(before, after)
    return before, after


@pytest.mark.parametrize(
    ("question", "probe_stays"),
    [
        ({}, True),
        ({"alignment": "recentre", "access": "online"}, True),  # knows no future
        ({"alignment": "recentre", "domain": "subject"}, True),  # by its training trials
        # The reference of the target is that of all its trials, as the access says.
        ({"alignment": "recentre", "access": "unlabeled_full"}, False),
    ],
    ids=["none", "online", "known", "full"],
)
@pytest.mark.parametrize("method", METHODS)
def test_nothing_fitted_knows_the_tested_session(
    method: str, question: dict[str, Any], probe_stays: bool
) -> None:
    before, after = compared(method, **question)
    same_probe = np.array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])
    assert same_probe == probe_stays
    assert not np.array_equal(before.probabilities[PROBE:], after.probabilities[PROBE:])


@pytest.mark.parametrize("method", [*METHODS, "xdawn-ts-lr"])
def test_nothing_fitted_knows_the_tested_block(method: str) -> None:
    """Within a session, whose covariances are computed at once and kept."""
    erp: dict[str, Any] = {"paradigm": "erp", "filtered": (1.0, 40.0)}
    more = erp if method == "xdawn-ts-lr" else {}
    question: dict[str, Any] = {"protocol": "blocks", "protocol_options": {"folds": 3}}
    before, after = (
        done(signals({"1": ("a",)}, change=change, **more), method, 1, **question)
        for change in (same, replaced(np.arange(8 + PROBE, 16), "a"))
    )
    assert before.ids.tolist() == [f"1/a/{i}" for i in range(8, 16)]
    assert_trained_the_same(before, after)
    np.testing.assert_array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE])


def test_the_training_trials_do_matter() -> None:
    """The other way round, or the tests above could not fail."""
    for method in METHODS:
        before, after = (
            done(signals(INDEX, change=change), method, 0)
            for change in (same, replaced(np.arange(20, 24), "a"))
        )
        assert not np.array_equal(before.probabilities, after.probabilities)


def test_other_subjects_are_trained_on_and_the_target_is_not() -> None:
    everybody = np.arange(24)
    question: dict[str, Any] = {"protocol": "leave-one-subject-out"}
    results = []
    for change in (same, replaced(everybody, "a")):
        specs, source = planned(signals(INDEX, change=change), "ts-lr", **question)
        results.append(execute(specs, source))
    (tested, trained), (tested_other, trained_other) = results
    assert tested.spec.subject == "1"
    assert tested.train == tested_other.train
    np.testing.assert_array_equal(tested.probabilities[24:], tested_other.probabilities[24:])
    assert not np.array_equal(trained.probabilities, trained_other.probabilities)


FIVE = {str(i): ("a", "b") for i in range(1, 6)}


class Counting(SGDClassifier):
    """Logistic regression of variances that remembers how many trials each fit was given."""

    fits: ClassVar[list[int]] = []

    def __init__(self, random_state: int | None = None) -> None:
        super().__init__(loss="log_loss", random_state=random_state)

    def fit(self, X: Any, y: Any) -> Counting:
        self.fits.append(len(X))
        return super().fit(X.var(-1), y)

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X.var(-1))


@pytest.mark.parametrize(
    ("protocol", "options", "sizes"),
    [
        ("between-subjects", {"test_subjects": [2, 4, 5]}, [96]),
        ("subjects-k-fold", {"folds": 2}, [96, 144]),  # groups of three and two
    ],
)
def test_one_fit_per_fold_and_seed_serves_all_subjects(
    protocol: str, options: dict[str, Any], sizes: list[int]
) -> None:
    Counting.fits.clear()
    result = evaluate(
        signals(FIVE), Counting(), protocol, protocol_options=options, seeds=(1, 2, 3)
    )
    assert sorted(Counting.fits) == sorted(sizes * 3)
    (row,) = result.rows
    tested = ["2", "4", "5"] if protocol == "between-subjects" else list(FIVE)
    assert list(row.subjects) == tested
    assert (row.n_runs, row.n_folds, row.n_seeds) == (3 * len(sizes), len(sizes), 3)


@pytest.mark.parametrize("access", ["train", "unlabeled_20p", "labeled_50p", "online"])
@pytest.mark.parametrize("method", ["ts-lr", "recommended", "token-log-euclidean", "shallownet"])
def test_one_tested_subject_is_one_left_out(method: str, access: str) -> None:
    question: dict[str, Any] = {"access": access, "seeds": (1,)}
    if method == "recommended":
        question["settings"] = Settings()
    if access != "train":
        question["alignment"] = "recentre"
    named = {"protocol": "between-subjects", "protocol_options": {"test_subjects": "3"}}
    (found,) = execute(*planned(signals(FIVE, n=12), method, **question, **named))
    specs, source = planned(
        signals(FIVE, n=12), method, protocol="leave-one-subject-out", **question
    )
    (expected,) = execute([spec for spec in specs if spec.subject == "3"], source)
    assert found.ids.tolist() == expected.ids.tolist()
    assert_same_bits(found, expected)


def test_tested_subjects_do_not_know_each_other() -> None:
    """Nobody's predictions depend on who else is tested, if the same people are trained on."""
    question: dict[str, Any] = {
        "access": "unlabeled_full", "alignment": "recentre", "protocol": "between-subjects",
    }  # fmt: skip
    both, alone = (
        execute(
            *planned(
                signals(FIVE), "ts-lr", subjects=subjects, **question,
                protocol_options={"test_subjects": tested},
            )
        )[0]
        for subjects, tested in (((), (4, 5)), ((1, 2, 3, 5), 5))
    )  # fmt: skip
    mine = [name.startswith("5/") for name in both.ids]
    np.testing.assert_array_equal(both.probabilities[mine], alone.probabilities)


# Adversarial training, the only one that may learn from trials of the target without labels.

THREE = {"1": ("a",), "2": ("a",), "3": ("a",)}


def turned(numbers: np.ndarray) -> Callable[[Recording], Recording]:
    """Turn the labels of some trials of subject 1 round."""

    def change(recording: Recording) -> Recording:
        y = recording.y.copy()
        y[numbers] = 1 - y[numbers]
        return replace(recording, y=y) if recording.subject == "1" else recording

    return change


def adversarial(access: str, change: Callable[[Recording], Recording] = same) -> RunResult:
    dataset = signals(THREE, change=change)
    specs, source = planned(
        dataset, "token-adversarial", protocol="leave-one-subject-out", access=access
    )
    (result,) = execute([spec for spec in specs if spec.subject == "1"], source)
    return result


@pytest.mark.parametrize("access", ["train", "online", "unlabeled_20p", "unlabeled_full"])
def test_an_adversary_does_not_know_the_labels_of_the_target(access: str) -> None:
    before, after = (adversarial(access, change) for change in (same, turned(np.arange(24))))
    assert not np.array_equal(before.y, after.y)
    assert_trained_the_same(before, after)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)


@pytest.mark.parametrize(
    ("access", "numbers", "known"),
    [
        ("train", np.arange(PROBE, 24), False),
        ("online", np.arange(PROBE, 24), False),
        ("unlabeled_20p", np.arange(8, 24), False),  # the first four are for calibration
        ("unlabeled_20p", np.arange(2), True),
        ("unlabeled_full", np.arange(PROBE, 24), True),
    ],
)
def test_an_adversary_knows_the_trials_that_the_access_provides(
    access: str, numbers: np.ndarray, known: bool
) -> None:
    before, after = (adversarial(access, change) for change in (same, replaced(numbers, "a")))
    same_curves = [np.array_equal(before.curves[k], after.curves[k]) for k in before.curves]
    assert all(same_curves) != known
    assert np.array_equal(before.probabilities[:PROBE], after.probabilities[:PROBE]) != known


def test_an_adversary_learns_from_labels_of_the_target_where_it_may() -> None:
    before, after = (adversarial("labeled_20p", change) for change in (same, turned(np.arange(2))))
    assert not np.array_equal(before.probabilities, after.probabilities)


def test_a_run_with_an_adversary_is_fit_by_hand() -> None:
    dataset = signals(THREE)
    result = adversarial("unlabeled_full")
    steps = get_method("token-adversarial").make(dataset, SETTINGS)
    others = [whole_of(dataset, subject) for subject in "23"]
    X, y = (np.concatenate(parts) for parts in zip(*others, strict=True))
    target = whole_of(dataset, "1")[0]
    fitted = with_seed(steps, 1).fit(
        X, y, domains=np.repeat(["2", "3"], 24), unlabeled=(target, np.repeat("1", 24))
    )
    np.testing.assert_allclose(fitted.predict_proba(target), result.probabilities, atol=1e-9)


def whole_of(dataset: Dataset, subject: str) -> tuple[np.ndarray, np.ndarray]:
    recording = dataset.load(subject, "a")
    return recording.X, recording.y


def balanced_by_hand(access: str) -> np.ndarray:
    """Session b decoded by a model of session a, recentred; decisions corrected by hand."""
    dataset = covariances()
    a, b = (dataset.load("1", session) for session in ("a", "b"))
    decoder = DecodingPipeline(
        [("recentring", Recentring(balanced=True)), ("classifier", TokenDiscriminantClassifier())]
    )
    decoder.fit(a.X, a.y)
    if access == "online":
        return np.asarray(decoder.predict_proba(b.X))
    q, n = np.bincount(a.y) / len(a.y), {"20p": 4, "50p": 12}.get(access[-3:], len(b.X))
    R = riemannian_mean(b.X[:n])
    values, V = np.linalg.eigh(R)
    W = (V / np.sqrt(values)) @ V.T
    p = decoder["classifier"].predict_proba(W @ b.X @ W)
    return shifted(p if access == "unlabeled_full" else p[n:], imbalance_shift(p[:n], q))


@pytest.mark.parametrize("access", ["online", "unlabeled_full", "unlabeled_50p"])
def test_decisions_are_balanced_by_what_the_access_provides(access: str) -> None:
    question: dict[str, Any] = {"access": access, "settings": Settings()}
    question["alignment"] = "recentre-balanced"
    found = done(covariances(), "recommended", 0, **question).probabilities
    np.testing.assert_allclose(found, balanced_by_hand(access), rtol=1e-6, atol=1e-9)
    plain = done(covariances(), "recommended", 0, **question | {"alignment": "recentre"})
    assert not np.array_equal(found, plain.probabilities)


def test_balanced_decisions_of_known_sessions_count_the_training_trials() -> None:
    """The reference is that of the training trials, too, which are not unbalanced."""
    question: dict[str, Any] = {"domain": "subject", "access": "unlabeled_full"}
    question["settings"] = Settings()
    plain = done(covariances(), "recommended", 0, alignment="recentre", **question).probabilities
    found = done(covariances(), "recommended", 0, alignment="recentre-balanced", **question)
    expected = shifted(plain, 0.5 * imbalance_shift(plain, np.full(2, 0.5)))
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-9)


@pytest.mark.parametrize("access", ["train", "labeled_20p"])
def test_balance_needs_trials_without_labels(access: str) -> None:
    question: dict[str, Any] = {"access": access, "domain": "subject", "settings": Settings()}
    question["alignment"] = "recentre-balanced"
    with pytest.raises(EvaluationError, match=r"without labels.*unlabeled_20p.*online"):
        planned(covariances(), "recommended", **question)
