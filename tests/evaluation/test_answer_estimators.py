"""Any scikit-learn classifier can be evaluated, and what is told of it is what it does."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from pyriemann.utils.mean import mean_riemann
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    NetworkClassifier,
    Recentring,
    StandardTrials,
    TokenDiscriminantClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.datasets import Dataset, Recording
from spdtokens.errors import EvaluationError, UserError
from spdtokens.evaluation import Choice, evaluate
from spdtokens.evaluation.runs import RunResult
from tests.evaluation.recordings import SAMPLES, SETTINGS, SFREQ, covariances, signals
from tests.golden.sets import FLICKER, GROUPED, IMAGERY, MATRICES, POTENTIALS

TINY: dict[str, Any] = {**SETTINGS.changes, "epochs": 2}


WINDOW: dict[str, Any] = {"tmin": -0.5, "windows": [(0.5, 2.0)]}


XDAWN: dict[str, Any] = {"estimator": "xdawn", "cross_fit": 3}


def outsiders() -> Pipeline:
    return make_pipeline(Covariances("oas"), TangentSpace(), LogisticRegression())


def nearest() -> Pipeline:
    return make_pipeline(Covariances(), MDM())


def runs_of(dataset: Any, method: Any, protocol: str = "session-transfer", **more: Any) -> list:
    more = {"subjects": 1, "seeds": [3]} | more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few trials
        found = evaluate(dataset, {"it": method}, protocol, **more)
    return found.results["it"]


def given(estimator: Any, dataset: Dataset, recording: Recording) -> Recording:
    """Whole trials for those who cut the window themselves, the window for others."""
    parts = [estimator, *estimator.get_params().values()]
    fronts = (FilterBankCovariances, StandardTrials)
    if dataset.is_covariance or any(isinstance(part, fronts) for part in parts):
        return recording
    start, stop = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
    return replace(recording, X=recording.X[..., start:stop])


def by_hand(estimator: Any, dataset: Dataset, **params: Any) -> np.ndarray:
    """Of the second session, trained on the first."""
    sessions = dataset.sessions("1")[:2]
    one, other = (given(estimator, dataset, dataset.load("1", name)) for name in sessions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(estimator).fit(one.X, one.y, **params)
    return np.asarray(fitted.predict_proba(other.X))


# ------------------------------------------------------------------ what is told is what it does


@pytest.mark.parametrize("dataset", [IMAGERY, POTENTIALS, FLICKER, MATRICES], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "name", ["recommended", "ts-lr", "mdm", "spd-token-mlp", "token-affine-invariant", "spdnet"]
)
def test_methods_are_their_estimators(dataset: Dataset, name: str) -> None:
    settings = Settings(epochs=2) if METHODS[name].has_seed else Settings()
    (run,) = runs_of(dataset, Choice(name, settings))
    estimator = METHODS[name].make(dataset, settings)
    if METHODS[name].has_seed:
        estimator.set_params(classifier__random_state=3)
    np.testing.assert_array_equal(run.probabilities, by_hand(estimator, dataset))


@pytest.mark.parametrize(
    ("dataset", "estimator"),
    [
        (IMAGERY, outsiders()),
        (MATRICES, make_pipeline(TangentSpace(), LogisticRegression())),
        (POTENTIALS, make_pipeline(FilterBankCovariances(100, **XDAWN), *outsiders()[1:])),
        (
            POTENTIALS,
            make_pipeline(
                FilterBankCovariances(100, **XDAWN), TokenDiscriminantClassifier(gains=None)
            ),
        ),
        (IMAGERY, CalibratedClassifierCV(outsiders(), cv=2)),
        (IMAGERY, GridSearchCV(outsiders(), {"logisticregression__C": [0.1, 1.0]}, cv=2)),
        (IMAGERY, StackingClassifier([("a", outsiders()), ("b", nearest())])),
        (IMAGERY, Pipeline([("a", Covariances("oas")), ("b", "passthrough"), ("c", MDM())])),
    ],
    ids=[
        *("outsider's", "tangents", "xdawn", "plain xdawn"),
        *("calibrated", "search", "stack", "passthrough"),
    ],
)
def test_estimators_are_evaluated_as_they_are(dataset: Dataset, estimator: BaseEstimator) -> None:
    (run,) = runs_of(dataset, estimator)
    assert run.spec.seed is None
    expected = by_hand(estimator, dataset)
    np.testing.assert_array_equal(run.probabilities, expected)
    one, other = (dataset.load("1", session) for session in dataset.sessions("1"))
    assert run.test["accuracy"] == accuracy_score(other.y, expected.argmax(1))
    np.testing.assert_array_equal(run.y, other.y)
    assert run.sizes["train"] == len(one.y)
    with pytest.raises(NotFittedError):  # what was given is left alone
        check_is_fitted(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(
            FilterBankCovariances(100, bands="8-13,13-30", **WINDOW),
            TokenTransformerClassifier(["log_euclidean", "cholesky"], ensemble=2, **TINY),
        ),
        make_pipeline(Covariances("oas"), TokenTransformerClassifier(validation=0.2, **TINY)),
        make_pipeline(StandardTrials(100), NetworkClassifier("eegnet", sfreq=100, epochs=2)),
        make_pipeline(Covariances("oas"), TangentSpace(), RandomForestClassifier(5)),
    ],
    ids=["ours", "held back", "eegnet", "forest"],
)
def test_chance_is_that_of_the_seeds(estimator: Pipeline) -> None:
    runs = runs_of(IMAGERY, estimator, seeds=[5, 6, 7])
    assert [run.spec.seed for run in runs] == [5, 6, 7]
    last = estimator.steps[-1][0]
    for run in runs:
        seeded = clone(estimator).set_params(**{f"{last}__random_state": run.spec.seed})
        np.testing.assert_array_equal(run.probabilities, by_hand(seeded, IMAGERY))
    assert len({run.probabilities.tobytes() for run in runs}) == 3
    fixed = clone(estimator).set_params(**{f"{last}__random_state": 6})
    (run,) = runs_of(IMAGERY, fixed, seeds=[5, 6, 7])
    assert run.spec.seed is None
    np.testing.assert_array_equal(run.probabilities, runs[1].probabilities)


@pytest.mark.parametrize("kind", [Pipeline, DecodingPipeline])
@pytest.mark.parametrize(
    ("classifier", "options"),
    [
        (TokenDiscriminantClassifier(), {}),
        (TokenDiscriminantClassifier(gains=None), XDAWN),
        (TokenTransformerClassifier(validation=0.25, random_state=0, **TINY), {}),
    ],
    ids=["discriminant", "xdawn", "held back"],
)
def test_groups_reach_every_step_of_any_pipeline(
    kind: type[Pipeline], classifier: BaseEstimator, options: dict[str, Any]
) -> None:
    front = FilterBankCovariances(100, **WINDOW, **options)
    estimator = kind([("front", front), ("classifier", classifier)])
    (run,) = runs_of(GROUPED, estimator)
    groups = GROUPED.load("1", "a").group
    params = {"groups": groups}
    if kind is Pipeline:
        params = {"front__groups": groups, "classifier__groups": groups}
    np.testing.assert_array_equal(run.probabilities, by_hand(estimator, GROUPED, **params))
    # They matter here.
    assert not np.array_equal(run.probabilities, by_hand(estimator, GROUPED))


@pytest.mark.parametrize("kind", [Pipeline, DecodingPipeline])
@pytest.mark.parametrize("network", ["tokens", "trials"])
def test_the_validating_session_reaches_the_last_step(kind: type[Pipeline], network: str) -> None:
    dataset = signals({"1": ("a", "b", "c")})
    parts = [dataset.load("1", session) for session in "abc"]
    classifier: Any = NetworkClassifier("eegnet", sfreq=SFREQ, epochs=6, random_state=0)
    front: Any = StandardTrials(SFREQ)
    if network == "tokens":
        chosen = TINY | {"epochs": 6, "keep": "best", "learning_rate": 0.05, "random_state": 0}
        front, classifier = Covariances("oas"), TokenTransformerClassifier(**chosen)
    (run,) = runs_of(dataset, kind([("front", front), ("classifier", classifier)]), "session-split")
    first = clone(front).fit(parts[0].X)
    A, B, C = (first.transform(part.X) for part in parts)
    expected = clone(classifier).fit(A, parts[0].y, validation=(B, parts[1].y))
    np.testing.assert_array_equal(run.probabilities, expected.predict_proba(C))
    assert run.sizes["validation"] == len(parts[1].y)


def test_ones_own_trials_weigh_as_much_as_all_others() -> None:
    question: dict[str, Any] = {"protocol": "leave-one-subject-out-calibrated", "subjects": ()}
    front = FilterBankCovariances(100, **WINDOW)
    # The average over ridges is over draws of trials, which depend on their order.
    discriminant = TokenDiscriminantClassifier(ridge=0.012)
    found = {
        kind: runs_of(IMAGERY, kind([("f", front), ("c", discriminant)]), **question)
        for kind in (Pipeline, DecodingPipeline)
    }
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
    run = found[Pipeline][0]
    tested = {name.rsplit("/", 1)[0] for name in run.ids}
    train = [
        IMAGERY.load(subject, session)
        for subject in IMAGERY.subjects
        for session in IMAGERY.sessions(subject)
        if f"{subject}/{session}" not in tested
    ]
    own = np.concatenate([np.full(len(r.y), r.subject == run.spec.subject) for r in train])
    weight = np.where(own, 0.5 / own.mean(), 0.5 / (1 - own.mean()))
    C = clone(front).fit_transform(np.concatenate([r.X for r in train]))
    model = clone(discriminant)
    model.fit(C, np.concatenate([r.y for r in train]), sample_weight=weight)
    T = np.concatenate([IMAGERY.load(*name.split("/")).X for name in sorted(tested)])
    expected = model.predict_proba(clone(front).fit_transform(T))
    np.testing.assert_allclose(run.probabilities, expected, rtol=1e-9)


# ------------------------------------------------------------------ how estimators are given


def test_an_estimator_is_named_by_its_last_step() -> None:
    assert list(evaluate(signals(), outsiders(), subjects=1).results) == ["LogisticRegression"]
    both = evaluate(signals(), [outsiders(), nearest()], subjects=1)
    assert list(both.results) == ["LogisticRegression", "MDM"]
    with pytest.raises(EvaluationError, match="MDM"):
        evaluate(signals(), [nearest(), make_pipeline(Covariances("lwf"), MDM())])


@pytest.mark.parametrize("matrices", [False, True], ids=["signals", "matrices"])
def test_arrays_with_groups(matrices: bool) -> None:
    recording = (covariances if matrices else signals)().load("1", "a")
    X, labels = recording.X, np.array(["left", "right"])[recording.y]
    groups = np.arange(len(X)) // 3
    estimator = outsiders()[1:] if matrices else outsiders()
    options = {} if matrices else {"sfreq": SFREQ}
    found = evaluate((X, labels, groups), estimator, "k-fold", **options)
    runs = found.results["LogisticRegression"]
    seen: list[int] = []
    for run in runs:
        test = np.array([int(name.rsplit("/", 1)[1]) for name in run.ids])
        train = np.setdiff1d(np.arange(len(X)), test)
        assert not set(groups[test]) & set(groups[train])
        by_us = clone(estimator).fit(X[train], labels[train])
        np.testing.assert_array_equal(by_us.classes_, found.classes)
        np.testing.assert_array_equal(run.probabilities, by_us.predict_proba(X[test]))
        seen += test.tolist()
    assert sorted(seen) == list(range(len(X)))


class Parity(BaseEstimator):
    """Gives nothing but predictions: the class in which the loudest channel was seen most."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Parity:
        self.votes_ = np.zeros((X.shape[1], y.max() + 1))
        np.add.at(self.votes_, (X.var(-1).argmax(1), y), 1)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.votes_.argmax(1)[X.var(-1).argmax(1)]


def test_predictions_are_enough() -> None:
    (run,) = runs_of(IMAGERY, Parity())
    one, other = (given(Parity(), IMAGERY, IMAGERY.load("1", session)) for session in "ab")
    predicted = Parity().fit(one.X, one.y).predict(other.X)
    np.testing.assert_array_equal(run.probabilities, np.eye(3)[predicted])
    assert len(np.unique(predicted)) > 1


def test_the_unit_of_the_papers_estimator_is_filled_in() -> None:
    open_unit = make_pipeline(FilterBankCovariances(100, estimator="paper"), MDM())
    said = make_pipeline(FilterBankCovariances(100, estimator="paper", unit_in_volts=1.0), MDM())
    (one,), (other,) = runs_of(IMAGERY, open_unit), runs_of(IMAGERY, said)
    assert one.spec.key == other.spec.key
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert open_unit[0].unit_in_volts is None


# ------------------------------------------------------------------ what is one run


def test_estimators_that_mean_the_same_are_one_run() -> None:
    told: list[tuple[str, int]] = []
    methods = {
        "named": "ts-lr",
        "in other words": Choice("ts-lr", Settings(epochs=3)),
        "made": METHODS["ts-lr"].make(signals()),
        "theirs": outsiders(),
        "again": make_pipeline(Covariances(estimator="oas"), TangentSpace(), LogisticRegression()),
        "stronger": outsiders().set_params(logisticregression__C=0.01),
    }
    found = evaluate(
        signals(),
        methods,
        bar=lambda title, n: told.append((title, n)),  # type: ignore[func-returns-value]
    )
    assert [n for _, n in told] == [2, 0, 0, 2, 0, 2]
    score = found.to_frame()["score"]
    assert score["named"] == score["in other words"] == score["made"]
    assert score["theirs"] == score["again"]
    keys = {tuple(run.spec.key for run in runs) for runs in found.results.values()}
    assert len(keys) == 3


def test_functions_that_cannot_be_named_are_other_runs() -> None:
    """Two lambdas of one name: each pipeline has its own scores."""

    def on(*channels: int) -> Pipeline:
        picked = FunctionTransformer(lambda X: X[:, list(channels)])
        return make_pipeline(picked, *outsiders())

    methods = {"quiet": on(0, 3), "loud": on(1, 2)}
    found = evaluate(signals(), methods, subjects=1)
    for title, estimator in methods.items():
        (run,) = found.results[title]
        np.testing.assert_array_equal(run.probabilities, by_hand(estimator, signals()))
    assert found.to_frame().loc["loud", "score"] > found.to_frame().loc["quiet", "score"]


# ------------------------------------------------------------------ alignment


def aligned_by_hand(estimator: Any, dataset: Dataset, mean: Any) -> np.ndarray:
    """Signals of each session whitened by the mean of their covariances, 4 to 40 Hz."""
    parts = []
    for session in dataset.sessions("1"):
        recording = dataset.load("1", session)
        front = FilterBankCovariances(
            dataset.sfreq, tmin=dataset.tmin, windows=[dataset.window], estimator="oas"
        )
        values, V = np.linalg.eigh(mean(front.fit_transform(recording.X)))
        parts.append(replace(recording, X=(V / np.sqrt(values)) @ V.T @ recording.X))
    one, other = (given(estimator, dataset, part) for part in parts)
    return np.asarray(clone(estimator).fit(one.X, one.y).predict_proba(other.X))


@pytest.mark.parametrize(
    ("alignment", "mean"),
    [
        ("euclidean", lambda C: C.mean(0)),
        ("recentre", lambda C: mean_riemann(C, tol=1e-12, maxiter=200)),
    ],
)
def test_an_outsiders_pipeline_is_given_aligned_signals(alignment: str, mean: Any) -> None:
    (run,) = runs_of(IMAGERY, outsiders(), alignment=alignment, access="unlabeled_full")
    expected = aligned_by_hand(outsiders(), IMAGERY, mean)
    np.testing.assert_allclose(run.probabilities, expected, rtol=1e-5, atol=1e-7)
    (plain,) = runs_of(IMAGERY, outsiders())
    assert np.abs(run.probabilities - plain.probabilities).max() > 0.05


def recentring(rule: Recentring | None, dtype: str = "float64") -> Pipeline:
    """Two bands of two windows, with two means; a discriminant of the channels."""
    windows = [(0.5, 1.25), (1.25, 2.0)]
    options = {"tmin": -0.5, "bands": "8-13,13-30", "windows": windows, "n_means": 2}
    front = FilterBankCovariances(100, **options, dtype=dtype)
    steps = [front] if rule is None else [front, rule]
    return make_pipeline(*steps, TokenDiscriminantClassifier("euclidean", gains=None))


RULE: dict[str, Any] = {"metric": "euclid", "n_windows": 2, "shrinkage": 0.1, "n_means": 2}


@pytest.mark.parametrize("front", [True, False])
def test_a_recentring_step_is_left_out_without_alignment(front: bool) -> None:
    """What is seen of the target is up to the access: here, nothing."""
    dataset = IMAGERY if front else MATRICES
    with_step, without = recentring(Recentring(**RULE)), recentring(None)
    if not front:
        with_step, without = (
            make_pipeline(*steps, TangentSpace(), LogisticRegression())
            for steps in ([Recentring()], [])
        )
    (found,), (expected,) = (runs_of(dataset, model) for model in (with_step, without))
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    aligned: dict[str, Any] = {"alignment": "recentre", "access": "unlabeled_full"}
    (other,) = runs_of(dataset, with_step, **aligned)
    assert np.abs(other.probabilities - found.probabilities).max() > 0.01


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-8), ("float32", 2e-3)])
def test_alignment_follows_the_rule_of_the_step(dtype: str, atol: float) -> None:
    """Its metric, windows of a band together, means over time as they are; see the whole target."""
    rule = Recentring(**RULE)
    question: dict[str, Any] = {"alignment": "recentre", "access": "unlabeled_full"}
    (run,) = runs_of(IMAGERY, recentring(rule, dtype), **question)
    model = recentring(None)
    parts = []
    for session in IMAGERY.sessions("1"):
        recording = IMAGERY.load("1", session)
        C = model[0].fit_transform(recording.X)
        d = C.shape[-1] - 2
        R = C[..., 2:, 2:].reshape(len(C), 2, 2, d, d).mean((0, 2))
        R = 0.9 * R + 0.1 * np.trace(R, axis1=1, axis2=2)[:, None, None] / d * np.eye(d)
        W = np.zeros((4, d + 2, d + 2))
        W[:, :2, :2] = np.eye(2)
        values, V = np.linalg.eigh(R)
        roots = (V / np.sqrt(values)[:, None]) @ V.swapaxes(1, 2)
        W[:, 2:, 2:] = np.repeat(roots, 2, axis=0)
        parts.append((W @ C @ W, recording.y))
    expected = clone(model[1]).fit(*parts[0]).predict_proba(parts[1][0])
    np.testing.assert_allclose(run.probabilities, expected, rtol=0, atol=atol)


def test_online_alignment_is_the_step_itself() -> None:
    """A session that is not in training begins at the mean of the others, as in a saved model."""
    estimator = recentring(Recentring(**RULE))
    question: dict[str, Any] = {"alignment": "recentre", "access": "online"}
    (run,) = runs_of(IMAGERY, estimator, **question)
    expected = by_hand(estimator, IMAGERY)
    np.testing.assert_allclose(run.probabilities, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("alignment", ["rescale", "rotate"])
def test_a_recentring_step_is_not_rescaled(alignment: str) -> None:
    with pytest.raises(EvaluationError, match=f"recentres by itself.*{alignment}"):
        runs_of(
            IMAGERY,
            recentring(Recentring(**RULE)),
            alignment=alignment,
            access="labeled_50p",
        )


@pytest.mark.parametrize("bands", ["paper3", np.array([[2.0, 12.0]])], ids=["several", "array"])
def test_signals_can_be_aligned_whatever_the_bands(bands: Any) -> None:
    front = FilterBankCovariances(100, tmin=-0.1, bands=bands, estimator="xdawn")
    estimator = DecodingPipeline(
        [("filterbank", front), ("classifier", TokenDiscriminantClassifier(gains=None))]
    )
    (run,) = runs_of(POTENTIALS, estimator, alignment="euclidean", access="unlabeled_full")
    assert np.isfinite(run.probabilities).all()


# ------------------------------------------------------------------ what is refused, before work


def tokens(**options: Any) -> Pipeline:
    return make_pipeline(Covariances(), TokenTransformerClassifier(**options))


@pytest.mark.parametrize(
    ("dataset", "method", "culprit"),
    [
        (signals, outsiders()[:2], "TangentSpace"),
        (signals, MDM, "MDM"),
        (signals, None, "None"),
        (signals, [3], "int"),
        (signals, make_decoder("mi", sfreq=250), "250"),
        (signals, make_decoder("mi", sfreq=SFREQ, tmin=-0.25, window=(0.25, 1.0)), "tmin=-0.25"),
        (signals, GridSearchCV(make_decoder("mi", sfreq=128), {}), "128"),
        (signals, NetworkClassifier("eegnet", sfreq=50), "50"),
        (signals, NetworkClassifier("eegnett", sfreq=SFREQ), "eegnett"),
        (covariances, make_decoder("mi", sfreq=SFREQ), "FilterBankCovariances"),
        (signals, tokens(n_layers=0), "n_layers"),
        (signals, tokens(learning_rate="fast"), "TokenTransformerClassifier"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_evaluated_is_refused(dataset: Any, method: Any, culprit: str) -> None:
    begun: list[str] = []
    methods: Any = method
    if isinstance(method, BaseEstimator):
        methods = {"fine": "mdm", "wrong": method}
    with pytest.raises(UserError, match=culprit):
        evaluate(
            dataset(),
            methods,
            bar=lambda title, _: begun.append(title),  # type: ignore[func-returns-value]
        )
    assert begun == []


class Halved(FunctionTransformer):
    """Every second sample."""

    def __init__(self) -> None:
        super().__init__(lambda X: X[:, :, ::2])

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {}


def test_a_step_of_others_may_change_the_sampling_rate() -> None:
    estimator = make_pipeline(Halved(), FilterBankCovariances(SFREQ / 2, bands="4-20"), MDM())
    (run,) = runs_of(signals(), estimator)
    np.testing.assert_array_equal(run.probabilities, by_hand(estimator, signals()))


@pytest.mark.parametrize("window", [None, (0.1, 0.5)])
def test_trials_are_those_of_the_window(window: tuple[float, float] | None) -> None:
    """An estimator sees all channels, in the order of time, in the window of named methods."""
    seen: list[np.ndarray] = []

    class Looking(Parity):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Looking:
            seen.append(X)
            super().fit(X, y)
            return self

    dataset = signals()
    runs: list[RunResult] = runs_of(dataset, Looking(), window=window)
    assert len(runs) == 1
    (X,) = seen
    start, stop = (round((t - dataset.tmin) * dataset.sfreq) for t in window or dataset.window)
    assert stop - start < SAMPLES or window is None
    np.testing.assert_array_equal(X, dataset.load("1", "a").X[..., start:stop])
