"""Estimators as plain values, and back."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from spdtokens import (
    FilterBankCovariances,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.datasets import Dataset
from spdtokens.errors import MethodError
from spdtokens.evaluation.estimators import (
    build,
    describe,
    find_class,
    open_seeds,
    steps_of,
    with_seed,
)
from spdtokens.evaluation.runs import as_text
from tests.golden.cases import TOO_SHORT
from tests.golden.sets import FLICKER, IMAGERY, MATRICES, POTENTIALS

CASES = [
    pytest.param(dataset, name, id=f"{dataset.name}-{name}")
    for dataset in (IMAGERY, POTENTIALS, FLICKER, MATRICES)
    for name, method in METHODS.items()
    if method.why_not(dataset) is None and (dataset.name, name) not in TOO_SHORT
]


def sent(estimator: BaseEstimator) -> Any:
    """The estimator as another process builds it."""
    return build(json.loads(as_text(describe(estimator))))


def predicted(estimator: Any, dataset: Dataset) -> np.ndarray:
    """What it makes of one session, trained on another."""
    one, other = (dataset.load("1", session) for session in dataset.sessions("1"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few trials and epochs
        estimator.fit(one.X, one.y)
    told = getattr(estimator, "predict_proba", None) or estimator.decision_function
    return np.asarray(told(other.X))


# ------------------------------------------------------------------ there and back


@pytest.mark.parametrize(("dataset", "name"), CASES)
def test_every_method_survives_the_way_to_a_worker(dataset: Dataset, name: str) -> None:
    settings = Settings(epochs=1) if METHODS[name].has_seed else Settings()
    estimator = METHODS[name].make(dataset, settings)
    again = sent(estimator)
    assert type(again) is type(estimator)
    assert describe(again) == describe(estimator)
    if METHODS[name].has_seed:
        estimator, again = with_seed(estimator, 3), with_seed(again, 3)
    np.testing.assert_array_equal(predicted(again, dataset), predicted(estimator, dataset))


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(Covariances("lwf"), MDM(metric={"mean": "logeuclid", "distance": "riemann"})),
        # Defaults that are functions, and tuples which scikit-learn insists on.
        make_pipeline(
            Covariances("oas"),
            TangentSpace(),
            SelectKBest(k=5),
            MinMaxScaler(feature_range=(-1, 1)),
            LogisticRegression(class_weight="balanced", tol=np.float32(1e-3)),
        ),
        GridSearchCV(
            make_pipeline(Covariances("oas"), TangentSpace(), SVC()),
            {"svc__C": [0.1, 1.0], "svc__kernel": ("linear", "rbf")},
            cv=StratifiedKFold(2),
        ),
        GridSearchCV(make_pipeline(Covariances("oas"), MDM()), {}, cv=TimeSeriesSplit(2, gap=1)),
        CalibratedClassifierCV(make_pipeline(Covariances("oas"), MDM()), cv=2),
        make_pipeline(
            FilterBankCovariances(100, tmin=-0.5, bands=np.array([[8.0, 13.0], [13.0, 30.0]])),
            TokenDiscriminantClassifier(
                TokenEmbedding(("log_euclidean", "cholesky"), isometric=True), gains=(0.1, 0.2)
            ),
        ),
        Pipeline([("covariances", Covariances("oas")), ("idle", "passthrough"), ("mdm", MDM())]),
    ],
    ids=["dict", "defaults", "search", "splits", "calibrated", "ours", "passthrough"],
)
def test_estimators_of_others_survive_too(estimator: BaseEstimator) -> None:
    again = sent(estimator)
    assert describe(again) == describe(estimator)
    np.testing.assert_array_equal(predicted(again, IMAGERY), predicted(clone(estimator), IMAGERY))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(plain, plain)
def test_parameters_are_told_apart_and_come_back(one: Any, other: Any) -> None:
    told = describe(LogisticRegression(C=one))
    text = as_text(told)  # which refuses what JSON does not have
    assert as_text(describe(build(json.loads(text)))) == text
    again = as_text(describe(LogisticRegression(C=other)))
    assert (again == text) == (repr(describe(one)) == repr(describe(other)))


def test_ours_are_named_shortly() -> None:
    assert describe(TokenEmbedding())["class"] == "spdtokens.TokenEmbedding"
    assert describe(MDM())["class"] == "pyriemann.classification.MDM"
    assert describe(LogisticRegression())["class"] == "sklearn.linear_model.LogisticRegression"
    steps = describe(make_decoder("mi", sfreq=250))["steps"]
    assert [name for name, _ in steps] == ["filterbank", "classifier"]


def test_sets_have_one_order() -> None:
    values = [f"channel {i}" for i in range(40)]
    assert describe(set(values)) == describe(frozenset(reversed(values))) == sorted(values)


# ------------------------------------------------------------------ what cannot be named


class Picked:
    """Some of the channels."""

    def __init__(self, first: int) -> None:
        self.first = first

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X[:, self.first : self.first + 2]


def local(first: int) -> Any:
    class Local(Picked):
        pass

    return Local(first)


def picked(X: np.ndarray, first: int) -> np.ndarray:
    return X[:, first : first + 2]


def grown(depth: int) -> type:
    class Grown(ClassifierMixin, BaseEstimator):
        """Behaves otherwise, by a parameter that it does not have."""

        n = depth

    return Grown


@pytest.mark.parametrize(
    "make",
    [
        lambda i: lambda X: X[:, i : i + 2],
        lambda i: partial(picked, first=i),
        lambda i: partial(lambda X, first: X[:, first], first=i),
        Picked,
        local,
        np.random.RandomState,
        np.random.default_rng,
        lambda i: np.random.RandomState(0) if i else np.random.default_rng(0),
        lambda i: np.log if i else np.sqrt,
        lambda i: StratifiedShuffleSplit(2, test_size=0.2 + i / 10),
        lambda i: type(f"C{i}", (), {}),
        lambda i: b"a" if i else b"b",
    ],
    ids=[
        *("lambda", "partial", "partial of lambda", "object", "local", "RandomState", "Generator"),
        *("chance", "ufunc", "splitter", "class", "bytes"),
    ],
)
def test_other_values_are_told_apart(make: Any) -> None:
    """Else two estimators would be one run, and both would have the scores of one."""
    one, other = make(0), make(2)
    told = [as_text(describe(FunctionTransformer(value))) for value in (one, other)]
    assert told[0] != told[1]
    # Copies, which are made of every estimator, are the same.
    for value, text in zip((one, other), told, strict=True):
        assert as_text(describe(clone(FunctionTransformer(value)))) == text
    with pytest.raises(MethodError):
        build(json.loads(told[0]))


def test_classes_of_one_name_are_told_apart() -> None:
    one, other = grown(1), grown(2)
    assert describe(one()) != describe(other())
    assert describe(one()) == describe(clone(one()))
    with pytest.raises(MethodError):
        build(describe(one()))


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("path", "culprit"),
    [
        ("subprocess.Popen", "subprocess.Popen"),
        ("os.system", "os.system"),
        ("spdtokens.evaluate", "spdtokens.evaluate"),
        ("sklearn.linear_model", "sklearn.linear_model"),
        ("TokenTransformerClasifier", "'TokenTransformerClassifier'"),
        ("pyriemann.classification.MMD", "'MDM'"),
        ("pyriemann.clasification.MDM", "pyriemann.clasification"),
        ("LogisticRegression", "spdtokens.*'LogisticRegression'"),
        ("", "spdtokens"),
        ("..x", r"\.\.x"),
    ],
)
def test_what_is_not_an_estimator_is_refused(path: str, culprit: str) -> None:
    with pytest.raises(MethodError, match=culprit):
        find_class(path)


@pytest.mark.parametrize(
    ("values", "culprit"),
    [
        ({"class": "TokenTransformerClassifier", "n_layer": 2}, "'n_layer'.*'n_layers'"),
        ({"class": "FilterBankCovariances", "bands": "4-40"}, "FilterBank.*'sfreq'"),
        # What pyRiemann only passes on is lost when an estimator is cloned.
        ({"class": "pyriemann.estimation.Covariances", "kwds": {"a": 1}}, "'kwds'"),
        ({"class": "sklearn.pipeline.Pipeline", "steps": [1]}, "Pipeline"),
        ({"class": "sklearn.pipeline.Pipeline", "steps": [["a", {"class": "os.x"}]]}, "os"),
        ({"class": "sklearn.svm.SVC", "kernel": {"function": "os.system"}}, "os.system"),
        ({"class": "sklearn.svm.SVC", "kernel": {"function": "spdtokens.no.x"}}, "spdtokens.no"),
        ({"class": "sklearn.svm.SVC", "C": {"number": "many"}}, "many"),
    ],
)
def test_what_cannot_be_built_is_refused(values: dict[str, Any], culprit: str) -> None:
    with pytest.raises(MethodError, match=culprit):
        build(values)


# ------------------------------------------------------------------ chance


def forest(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_estimators=3, **options)


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (LogisticRegression(), []),
        (LogisticRegression(solver="saga"), ["random_state"]),
        (SVC(), []),
        (SVC(probability=True), ["random_state"]),
        (TokenTransformerClassifier(), ["random_state"]),
        (forest(random_state=np.random.RandomState(0)), []),
        (
            GridSearchCV(make_pipeline(StandardScaler(), forest()), {}),
            ["estimator__randomforestclassifier__random_state"],
        ),
        (BaggingClassifier(forest(), random_state=1), ["estimator__random_state"]),
        (BaggingClassifier(SVC()), ["random_state"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_open_seeds(estimator: BaseEstimator, names: list[str]) -> None:
    assert open_seeds(estimator) == names


@pytest.mark.parametrize(("dataset", "name"), CASES)
def test_chance_plays_a_part_where_methods_say_so(dataset: Dataset, name: str) -> None:
    assert bool(open_seeds(METHODS[name].make(dataset))) == METHODS[name].has_seed


def test_seeds_are_set_in_a_copy() -> None:
    whole = make_pipeline(StandardScaler(), BaggingClassifier(forest(random_state=5)))
    seeded = with_seed(whole, 7)
    assert seeded is not whole
    assert seeded[-1].random_state == 7
    assert seeded[-1].estimator.random_state == 5  # was not open
    assert whole[-1].random_state is None
    assert with_seed(whole, None)[-1].random_state is None
    assert open_seeds(seeded) == []


def test_steps_are_found_within_searches() -> None:
    inner = make_pipeline(StandardScaler(), Pipeline([("a", MinMaxScaler()), ("b", SVC())]))
    found = [type(step) for step in steps_of(GridSearchCV(inner, {}))]
    assert found == [StandardScaler, MinMaxScaler, SVC]
    assert [type(step) for step in steps_of(FilterBankCovariances(100))] == [FilterBankCovariances]
