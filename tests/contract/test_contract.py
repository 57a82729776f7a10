"""Every public estimator keeps scikit-learn's contract, and every check of it can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyriemann.classification import TSClassifier
from pyriemann.estimation import Covariances
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

import spdtokens
from spdtokens import (
    AdversarialTokenClassifier,
    DecodingPipeline,
    FilterBankCovariances,
    MontageInterpolator,
    NetworkClassifier,
    Recentring,
    SpatialFilterClassifier,
    StandardTrials,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers.nn.networks import NETWORKS
from tests.contract.broken import BROKEN, broken_case
from tests.contract.contract import (
    CHECKS,
    MATRICES,
    ROWS,
    SEVERAL,
    SFREQ,
    SIGNALS,
    TOKENS,
    Case,
    checks_for,
    make_data,
)

SHORT: dict[str, Any] = {"epochs": 2, "batch_size": 16, "random_state": 0}
TINY = SHORT | {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}
BEST: dict[str, Any] = {"keep": "best", "validation": 0.2}
FILTERS = SHORT | {"n_filters": 4, "ensemble": 2}
LEARNING = {"epochs": 40, "learning_rate": 1e-2}
labelled = partial(Case, needs_labels=True)
recentred = partial(Case, keeps_single=True, in_time=True, own_training_output=True)
#: A network, in single precision.
trained = partial(Case, learning=LEARNING, atol=1e-6)


def filterbank(**options: Any) -> FilterBankCovariances:
    return FilterBankCovariances(SFREQ, **options)


def decoder(*steps: Any) -> DecodingPipeline:
    names = ("filterbank", "middle", "classifier")
    return DecodingPipeline([*zip(names if len(steps) == 3 else names[::2], steps, strict=True)])


def network(name: str) -> Case:
    raw = NETWORKS[name].input == "raw"
    options = {"sfreq": SFREQ} if raw else {}
    return Case(
        f"network {name}",
        lambda: NetworkClassifier(name, epochs=1, random_state=0, **options),
        SIGNALS if raw else MATRICES,
        learning={"epochs": {"spdnet": 150, "spdnet-paper": 100}.get(name, 20)},
        atol=1e-5,
    )


CASES = [
    Case("filterbank", lambda: filterbank(), SIGNALS),
    Case("filterbank bands", lambda: filterbank(bands="8-13,13-30", windows="nested"), SIGNALS),
    labelled("filterbank xdawn", lambda: filterbank(estimator="xdawn", n_filters=2), SIGNALS),
    labelled(
        "filterbank xdawn cross-fitted",
        lambda: filterbank(estimator="xdawn", n_filters=2, cross_fit=3, delays=(0.1,)),
        SIGNALS,
        own_training_output=True,
    ),
    labelled("filterbank erp", lambda: filterbank(estimator="erp"), SIGNALS),
    Case("standard trials", lambda: StandardTrials(SFREQ), SIGNALS),
    Case("embedding", lambda: TokenEmbedding(), MATRICES),
    Case("embedding fitted", lambda: TokenEmbedding("affine_invariant", unit_free=True), SEVERAL),
    labelled(
        "embedding with labels",
        lambda: TokenEmbedding(["cholesky", "class_filters"], isometric=True),
        SEVERAL,
    ),
    Case("discriminant", lambda: TokenDiscriminantClassifier(), MATRICES),
    Case("discriminant several", lambda: TokenDiscriminantClassifier(), SEVERAL),
    Case(
        "discriminant counts",
        # The average over ridges is over draws of trials, of which copies are others.
        lambda: TokenDiscriminantClassifier("log_euclidean", gains=None, ridge=0.012),
        MATRICES,
        counts=True,
    ),
    Case("discriminant tokens", lambda: TokenDiscriminantClassifier(None), TOKENS, counts=True),
    Case("discriminant rows", lambda: TokenDiscriminantClassifier(None), ROWS, counts=True),
    trained("transformer", lambda: TokenTransformerClassifier(**TINY), MATRICES),
    trained(
        "transformer geometric",
        lambda: TokenTransformerClassifier(attention="geometric", **TINY),
        SEVERAL,
    ),
    trained(
        "transformer ensemble",
        lambda: TokenTransformerClassifier(
            TokenEmbedding(["affine_invariant", "class_filters"]), ensemble=2, **BEST, **TINY
        ),
        SEVERAL,
    ),
    trained(
        "transformer rows",
        lambda: TokenTransformerClassifier(None, **TINY),
        ROWS,
        learning={"epochs": 60, "learning_rate": 3e-3},
    ),
    trained("adversarial", lambda: AdversarialTokenClassifier(**TINY), MATRICES),
    trained("mlp", lambda: TokenMLPClassifier(width=8, **SHORT), SEVERAL),
    trained("spatial filters", lambda: SpatialFilterClassifier(**FILTERS), MATRICES),
    trained(
        "spatial filters means",
        lambda: SpatialFilterClassifier(n_means=1, **FILTERS),
        SEVERAL,
    ),
    *map(network, NETWORKS),
    recentred("recentring", lambda: Recentring(), MATRICES),
    recentred("recentring several", lambda: Recentring(), SEVERAL),
    recentred(
        "recentring bands",
        lambda: Recentring(metric="euclid", n_means=1, shrinkage=0.1),
        SEVERAL,
    ),
    Case("filterbank means", lambda: filterbank(bands="8-13,13-30", n_means=3), SIGNALS),
    Case("decoder mi", lambda: make_decoder("mi", sfreq=SFREQ), SIGNALS),
    Case(
        "decoder erp",
        lambda: make_decoder("erp", sfreq=SFREQ),
        SIGNALS,
        fitted_without_weights=True,
    ),
    Case(
        "decoder ssvep",
        lambda: make_decoder("ssvep", sfreq=SFREQ, stimulus_hz=(10.0, 15.0)),
        SIGNALS,
    ),
    Case("decoder matrices", lambda: make_decoder("mi"), SEVERAL),
    trained(
        "pipeline transformer",
        lambda: decoder(filterbank(bands="8-13,13-30"), TokenTransformerClassifier(**TINY)),
        SIGNALS,
        learning={f"classifier__{name}": value for name, value in LEARNING.items()},
    ),
    Case(
        "pipeline recentring",
        lambda: decoder(filterbank(), Recentring(), TokenDiscriminantClassifier()),
        SIGNALS,
        in_time=True,
        fitted_without_weights=True,
    ),
    Case(
        "pipeline recentring balanced",
        lambda: decoder(filterbank(), Recentring(balanced=True), TokenDiscriminantClassifier()),
        SIGNALS,
        in_time=True,
        fitted_without_weights=True,
    ),
    Case("pipeline tokens", lambda: decoder(filterbank(), TokenEmbedding()), SIGNALS),
]


@pytest.mark.parametrize(
    ("case", "check"),
    [
        pytest.param(case, check, id=f"{case.name}-{check}")
        for case in CASES
        for check in checks_for(case)
    ],
)
def test_contract(case: Case, check: str) -> None:
    CHECKS[check](case)


def test_every_public_estimator_has_a_case() -> None:
    public = {
        found
        for name in spdtokens.__all__
        if isinstance(found := getattr(spdtokens, name), type) and issubclass(found, BaseEstimator)
    }
    # Its channels are parameters, so that it takes neither other numbers of them nor no trials.
    assert public - {MontageInterpolator} == {type(case.make()) for case in CASES}
    assert {case.name for case in CASES} >= {f"network {name}" for name in NETWORKS}


def _ts_classifier() -> TSClassifier:
    return TSClassifier(clf=LogisticRegression())  # its default is one object for all


#: pyRiemann's estimators as controls, with the checks they are known to fail: that they pass the
#: others shows that the suite asks for nothing unusual.
CONTROLS = [
    (
        Case("pyRiemann TSClassifier", _ts_classifier, MATRICES),
        {
            "tags",
            "fit_keeps_parameters",  # the nested classifier is fitted in place
            "fit_forgets_earlier_fits",  # no n_features_in_
            "n_features_in",
            "unfitted_is_refused",  # AttributeError
            "bad_trials_are_refused_by_fit",  # matrices that are not symmetric
            "bad_trials_are_refused_by_methods",
            "array_likes",  # lists
            "decisions_agree",  # no decision_function
            "weights",  # of logistic regression their scale matters
        },
    ),
    (
        Case("pyRiemann Covariances", lambda: Covariances("oas"), SIGNALS),
        {
            "constructor_only_stores_parameters",  # **kwds
            "repr_shows_changed_parameters",
            "clone",  # nothing is fitted, so nothing is refused
            "tags",
            "fit_forgets_earlier_fits",
            "n_features_in",
            "unfitted_is_refused",
            "bad_trials_are_refused_by_fit",
            "bad_trials_are_refused_by_methods",
            "other_shapes_are_refused_by_methods",
            "array_likes",
            "containers",  # no set_output
        },
    ),
]


@pytest.mark.parametrize(("case", "fails"), CONTROLS, ids=lambda x: getattr(x, "name", ""))
def test_controls(case: Case, fails: set[str]) -> None:
    found = set()
    for check in checks_for(case):
        try:
            CHECKS[check](case)
        except (Exception, pytest.fail.Exception):
            found.add(check)
    assert found == fails


@pytest.mark.parametrize(("check", "kind"), BROKEN, ids=lambda x: x if isinstance(x, str) else "")
def test_each_check_can_fail(check: str, kind: type) -> None:
    case = broken_case(kind)
    assert check in checks_for(case)
    CHECKS[check](replace(case, make=kind.__bases__[0]))
    with pytest.raises((Exception, pytest.fail.Exception)):
        CHECKS[check](case)


def test_each_check_is_proven_to_fail() -> None:
    assert set(CHECKS) == {check for check, _ in BROKEN}


@pytest.mark.parametrize("exempt", ["in_time", "own_training_output"])
def test_an_exemption_that_is_not_needed_fails(exempt: str) -> None:
    case = Case("tokens", TokenEmbedding, MATRICES, **{exempt: True})
    check = {"in_time": "prefix_gives_prefix", "own_training_output": "fit_transform"}[exempt]
    with pytest.raises(AssertionError):
        CHECKS[check](case)


#: Estimators of tables, on which scikit-learn's own checks run.
TABLES = [
    TokenDiscriminantClassifier(None),
    TokenTransformerClassifier(None, **TINY | {"epochs": 20, "learning_rate": 1e-2}),
    AdversarialTokenClassifier(None, **TINY | {"epochs": 20, "learning_rate": 1e-2}),
    TokenMLPClassifier(None, width=16, **SHORT | {"epochs": 20, "learning_rate": 1e-2}),
]
#: As scikit-learn says of its own CalibratedClassifierCV.
WEIGHTS = "the folds of the temperature are others if a trial is there twice"


@pytest.mark.parametrize("estimator", TABLES, ids=lambda x: type(x).__name__)
def test_scikit_learns_own_checks(
    estimator: BaseEstimator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else a check skips itself
    known = {}
    if isinstance(estimator, TokenDiscriminantClassifier):
        known["check_sample_weight_equivalence_on_dense_data"] = WEIGHTS
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=known)
    assert len(results) > 50
    other = {
        r["check_name"]: (r["status"], r["exception"]) for r in results if r["status"] != "passed"
    }
    assert {name: status for name, (status, _) in other.items()} == dict.fromkeys(known, "xfail"), (
        other
    )


def test_geometric_attention_takes_one_embedding() -> None:
    for kind in (MATRICES, SEVERAL):
        model = TokenTransformerClassifier(["cholesky", "log_euclidean"], attention="geometric")
        with pytest.raises(ValueError, match="one embedding"):
            model.fit(*make_data(kind))
