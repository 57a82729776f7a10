from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances, XdawnCovariances
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens import (
    FilterBankCovariances,
    NetworkClassifier,
    StandardTrials,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    load_dataset,
)
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.datasets import Dataset
from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.plan import Question, Source
from spdtokens.reporting.efficiency import efficiency_table
from spdtokens.reporting.parameters import parameters_of
from tests.golden.sets import IMAGERY
from tests.reporting.made import made_facts, made_run, run_of


def test_a_row_has_weights_median_time_and_least_memory() -> None:
    runs = [replace(made_run("a", s), seconds=t, memory=m)
            for s, t, m in (("1", 1.0, 300.0), ("2", 9.0, 250.0), ("3", 2.0, 400.0))]  # fmt: skip
    facts = made_facts({"a": runs, "b": [made_run("b", leaky="all was seen")]})
    table = efficiency_table(replace(facts, parameters={"a": 12345}))
    assert table.headers[2:] == ("parameters", "seconds", "longest", "trained on", "MB, at most")
    first, second = table.rows
    assert [cell.text for cell in first] == ["a", "80.0", "12,345", "2", "9", "80", "250"]
    values = [cell.value for cell in first[1:]]
    assert values == pytest.approx([0.8, 12345, 2.0, 9.0, 80.0, 250.0])
    assert second[0].text == "b (leaky)"
    assert second[2].text == "-"


@pytest.mark.parametrize(
    ("method", "settings", "weights"),
    [
        ("ts-lr", {}, None),
        # 22 channels, 4 classes: what `spdtokens methods` lists for BCI2a, which has this shape.
        ("token-log-euclidean", {}, 828_292),
        # Two more positions of 128 numbers.
        ("token-log-euclidean-multiband", {}, 828_292 + 2 * 128),
        # By hand: projection, positions, BN-Embed; a block; head.
        (
            "token-log-euclidean",
            {"changes": {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}},
            (253 * 8 + 8) + 8 + 16 + (4 * (64 + 8) + 2 * 16 + (8 * 16 + 16) + (16 * 8 + 8)) + 36,
        ),
        ("token-euclidean", {"estimator": "xdawn"}, None),
    ],
)
def test_weights_are_those_of_the_network(method: str, settings: dict, weights: int | None) -> None:
    dataset, source = load_dataset("sim-mi"), Source()
    found = weights_of(METHODS[method].make(dataset, Settings(**settings)), source, dataset)
    assert found == ({} if weights is None else {"name": weights})


def weights_of(estimator: BaseEstimator, source: Source, dataset: Dataset) -> dict[str, int]:
    run = run_of(estimator, source)
    answer = Evaluation(Question("sim-mi", ()), {"name": [run], "none yet": []}, [], ("a", "b"))
    return parameters_of(answer, source, dataset)


SMALL: dict[str, Any] = {"epochs": 1, "random_state": 0}
TINY = SMALL | {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}
WINDOW: dict[str, Any] = {"tmin": -0.5, "windows": [(0.5, 2.0)]}


def on_matrices(classifier: BaseEstimator, **options: Any) -> Pipeline:
    return make_pipeline(FilterBankCovariances(100, **WINDOW, **options), classifier)


def on_trials(classifier: BaseEstimator) -> Pipeline:
    return make_pipeline(StandardTrials(100, **WINDOW), classifier)


@pytest.mark.parametrize(
    "estimator",
    [
        on_matrices(TokenTransformerClassifier(**TINY), delays=(0.05,)),
        on_matrices(TokenTransformerClassifier(**TINY), bands="8-13,13-30"),
        on_matrices(TokenTransformerClassifier(["log_euclidean", "cholesky"], **TINY)),
        on_matrices(TokenMLPClassifier(TokenEmbedding("cholesky"), width=5, **SMALL)),
        on_matrices(TokenMLPClassifier(**SMALL), bands="paper3"),
        on_matrices(NetworkClassifier("spdnet", **SMALL)),
        on_matrices(NetworkClassifier("spdtransnet", **SMALL), bands="paper3"),
        on_trials(NetworkClassifier("eegnet", sfreq=100, **SMALL)),
    ],
    ids=["delays", "bands", "embeddings", "mlp", "mlp bands", "spdnet", "spdtransnet", "eegnet"],
)
def test_weights_of_any_estimator_are_those_after_fitting(estimator: Pipeline) -> None:
    trials = IMAGERY.load("1", "a")
    last = clone(estimator).fit(trials.X, trials.y)[-1]
    module = last.module_ if isinstance(last, NetworkClassifier) else last.networks_[0]
    expected = sum(p.numel() for p in module.parameters())
    assert weights_of(estimator, Source(), IMAGERY) == {"name": expected}


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(Covariances("oas"), TokenTransformerClassifier(**TINY)),
        make_pipeline(
            FilterBankCovariances(100), TokenEmbedding(), TokenMLPClassifier(None, **SMALL)
        ),
        NetworkClassifier("eegnet", sfreq=100, **SMALL),
        make_pipeline(Covariances("oas"), MDM()),
        make_pipeline(XdawnCovariances(), TokenTransformerClassifier(**TINY)),
    ],
    ids=["covariances", "tokens", "no window", "no network", "xdawn"],
)
def test_weights_that_only_fitting_tells_are_not_guessed(estimator: BaseEstimator) -> None:
    assert weights_of(estimator, Source(), IMAGERY) == {}
