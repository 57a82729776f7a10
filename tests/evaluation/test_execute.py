from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    NetworkClassifier,
    StandardTrials,
    TokenTransformerClassifier,
)
from spdtokens.classifiers import classical
from spdtokens.classifiers.methods import Settings
from spdtokens.classifiers.nn import Pool, RunPlan, SPDTokenTransformer, train_runs
from spdtokens.classifiers.nn.recipe import Recipe
from spdtokens.classifiers.nn.transformer import TransformerConfig
from spdtokens.datasets import Dataset
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.execute import class_probabilities, execute, open_fold
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.plan import Choice, Source
from spdtokens.evaluation.runs import RunResult
from spdtokens.geometry import TokenEmbedding
from tests.evaluation.made import SETTINGS, covariances, planned, signals

METHODS = ("ts-lr", "eegnet", "spdnet", "token-affine-invariant", "spd-token-mlp")
WINDOWS: dict[str, Any] = {"sfreq": 100.0, "windows": [(0.0, 1.2)]}
SMALL = SETTINGS.changes


def decoder(classifier: Any, **options: Any) -> DecodingPipeline:
    """On one matrix per trial."""
    front = FilterBankCovariances(**WINDOWS, **options)
    return DecodingPipeline([("filterbank", front), ("classifier", classifier)])


def network(name: str, **options: Any) -> DecodingPipeline:
    """On trials or matrices, as the network takes them."""
    if name == "spdnet":
        return decoder(NetworkClassifier(name, **options))
    classifier = NetworkClassifier(name, sfreq=WINDOWS["sfreq"], **options)
    return DecodingPipeline([("trials", StandardTrials(**WINDOWS)), ("classifier", classifier)])


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


@pytest.mark.parametrize("method", METHODS)
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


@pytest.mark.parametrize("embedding", ["log_euclidean", "affine_invariant"])
def test_token_runs_are_those_of_the_classifier(embedding: str) -> None:
    dataset = signals()
    specs, source = planned(dataset, f"token-{embedding.replace('_', '-')}", seeds=(5,))
    result = execute(specs, source)[0]
    classifier = decoder(TokenTransformerClassifier(embedding, **SMALL, epochs=2, random_state=5))
    X, y = whole(dataset, "a")
    classifier.fit(X, y)
    X_test, y_test = whole(dataset, "b")
    expected = classifier.predict_proba(X_test)
    np.testing.assert_array_equal(result.probabilities, expected)
    assert result.test == all_scores(y_test, expected)
    assert result.train == all_scores(y, classifier.predict_proba(X))
    for name, curve in result.curves.items():
        np.testing.assert_array_equal(curve, classifier["classifier"].history_[name][0])


def test_classical_runs_are_those_of_the_pipeline() -> None:
    dataset = signals()
    specs, source = planned(dataset, "ts-lr")
    result = execute(specs, source)[0]
    pipeline = classical.ts_lr(WINDOWS | {"bands": [(8.0, 30.0)], "estimator": "oas"})
    X, y = whole(dataset, "a")
    pipeline.fit(X, y)
    X_test, y_test = whole(dataset, "b")
    np.testing.assert_array_equal(result.probabilities, pipeline.predict_proba(X_test))
    assert result.test["accuracy"] == pipeline.score(X_test, y_test)
    assert result.train["accuracy"] == pipeline.score(X, y)
    assert (result.epoch, dict(result.curves)) == (None, {})


@pytest.mark.parametrize("method", ["eegnet", "spdnet"])
def test_network_runs_are_those_of_the_classifier(method: str) -> None:
    dataset = signals()
    specs, source = planned(dataset, method, seeds=(5,))
    result = execute(specs, source)[0]
    classifier = network(method, epochs=2, random_state=5)
    X, y = whole(dataset, "a")
    classifier.fit(X, y)
    np.testing.assert_array_equal(
        result.probabilities, classifier.predict_proba(whole(dataset, "b")[0])
    )
    held = classifier["classifier"].held_back_
    if method == "spdnet":
        assert held is None
        assert result.validation == {}
        return
    # The recipe chooses an epoch by trials of its own, which are not counted as trained on.
    assert held is not None
    kept = np.setdiff1d(np.arange(24), held)
    assert result.sizes == {"train": 21, "validation": 3, "calibration": 0, "test": 24}
    for part, scores in ((kept, result.train), (held, result.validation)):
        assert scores == all_scores(y[part], classifier.predict_proba(X[part]))
    losses = classifier["classifier"].history_["validation loss"]
    assert result.epoch == int(np.argmin(losses)) + 1


BEST = replace(SETTINGS, epochs=6, changes={**SMALL, "keep": "best", "learning_rate": 0.05})


@pytest.mark.parametrize("method", ["token-euclidean", "eegnet"])
def test_the_validating_session_chooses_the_epoch(method: str) -> None:
    dataset = signals({"1": ("a", "b", "c")})
    specs, source = planned(dataset, method, protocol="session-split", settings=BEST)
    (result,) = execute(specs, source)
    assert result.sizes == {"train": 24, "validation": 24, "calibration": 0, "test": 24}
    losses = result.curves["validation loss"]
    assert result.epoch == int(np.nanargmin(losses)) + 1
    fold, trials = open_fold(specs[0], source)
    assert set(trials.table.session[fold.validation]) == {"b"}
    if method == "eegnet":
        classifier = network(method, epochs=6, random_state=1)
    else:
        classifier = decoder(
            TokenTransformerClassifier("euclidean", **BEST.changes, epochs=6, random_state=1)
        )
    classifier.fit(*whole(dataset, "a"), validation=whole(dataset, "b"))
    p = classifier.predict_proba(whole(dataset, "c")[0])
    np.testing.assert_array_equal(result.probabilities, p)
    assert result.test == all_scores(whole(dataset, "c")[1], p)


def test_the_validating_session_is_that_of_the_engine() -> None:
    dataset = signals({"1": ("a", "b", "c")})
    specs, source = planned(dataset, "token-euclidean", protocol="session-split", settings=BEST)
    (result,) = execute(specs, source)
    (X, y), (V, v), (T, _) = (whole(dataset, session) for session in "abc")
    C = [FilterBankCovariances(**WINDOWS).fit_transform(part) for part in (X, V, T)]
    embedding = TokenEmbedding("euclidean", unit_free=True).fit(C[0])
    tokens = [torch.from_numpy(embedding.tokens(part)) for part in C]
    pool = Pool(torch.cat(tokens[:2]).float(), torch.from_numpy(np.concatenate([y, v])))
    model = SPDTokenTransformer(10, 1, 2, TransformerConfig(8, 1, 2, 16))
    recipe = Recipe(epochs=6, batch_size=16, keep="best", learning_rate=0.05)
    (run,) = train_runs(model, pool, [RunPlan(1, np.arange(24), np.arange(24, 48))], recipe)
    p = run.model.double()(tokens[2]).softmax(-1).detach().numpy()
    np.testing.assert_allclose(result.probabilities, p, rtol=1e-10)


def test_token_recipes_that_choose_hold_trials_back() -> None:
    specs, source = planned(signals(), "token-euclidean", settings=BEST)
    result = execute(specs[:1], source)[0]
    assert result.sizes == {"train": 21, "validation": 3, "calibration": 0, "test": 24}
    assert result.validation.keys() == result.train.keys()
    assert result.epoch == int(np.nanargmin(result.curves["validation loss"])) + 1


@pytest.mark.parametrize("method", ["ts-lr", "spd-token-mlp", "spdnet", "token-cholesky"])
def test_covariances_are_enough(method: str) -> None:
    specs, source = planned(covariances(), method)
    results = execute(specs, source)
    assert [r.spec.subject for r in results] == ["1", "10"]
    for result in results:
        np.testing.assert_allclose(result.probabilities.sum(1), 1, rtol=1e-6)


def test_nothing_is_left_empty() -> None:
    for method in ("ts-lr", "eegnet", "token-euclidean"):
        specs, source = planned(signals(), method)
        result = execute(specs[:1], source)[0]
        for field in fields(RunResult):
            value = getattr(result, field.name)
            if method == "ts-lr" and field.name in ("curves", "epoch"):
                continue
            if field.name in (
                "leaky",
                "validation",
                "stretch",
                "chain",
            ):  # the last two when summarised
                continue
            assert np.size(value) if isinstance(value, np.ndarray) else value, field.name
        assert result.ids.tolist() == [f"1/b/{i}" for i in range(24)]
        np.testing.assert_array_equal(result.y, np.arange(24) % 2)
        assert result.probabilities.shape == (24, 2)
        assert result.seconds > 0
        assert result.memory > 1


def test_a_test_without_a_class() -> None:
    def change(recording: Any) -> Any:
        if recording.session == "a":
            return recording
        return replace(recording, y=np.zeros(24, dtype=np.int64))

    specs, source = planned(signals(change=change), "mdm")
    result = execute(specs[:1], source)[0]
    assert result.probabilities.shape == (24, 2)
    assert np.isnan(result.test["roc_auc"])
    assert result.test["accuracy"] == (result.probabilities.argmax(1) == 0).mean()


@pytest.mark.parametrize("classes", [2, 3])
def test_decision_values_become_probabilities_of_the_same_order(classes: int) -> None:
    rng = np.random.default_rng(classes)
    y = np.arange(60) % classes
    X = rng.standard_normal((60, 2)) + y[:, None]
    svm = SVC(break_ties=True).fit(X, y)
    p = class_probabilities(svm, X, classes)
    np.testing.assert_array_equal(p.argmax(1), svm.predict(X))
    np.testing.assert_allclose(p.sum(1), 1)
    if classes == 2:
        np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-svm.decision_function(X))))


def test_runs_that_cannot_be_done() -> None:
    specs, source = planned(signals(), "ts-lr", "mdm")
    with pytest.raises(EvaluationError, match="differ in subject, fold and seed only"):
        execute(specs, source)
    with pytest.raises(EvaluationError, match="subject 1 has no fold z"):
        execute([replace(specs[0], fold="z")], source)
    louder = signals(change=lambda r: replace(r, X=r.X * 2))
    with pytest.raises(EvaluationError, match="are not those the run was planned with"):
        execute(specs[:1], Source({"made-up": louder}))


def test_settings_survive_the_way_to_a_worker() -> None:
    bands = Settings(bands=[(8.0, 13.0), (13.0, 30.0)])
    specs, source = planned(signals(), choices=(Choice("ts-lr", bands),))
    result = execute(specs[:1], source)[0]
    X, y = whole(signals(), "a")
    pipeline = classical.ts_lr(WINDOWS | {"bands": bands.bands, "estimator": "oas"}).fit(X, y)
    expected = pipeline.predict_proba(whole(signals(), "b")[0])
    np.testing.assert_array_equal(result.probabilities, expected)


def test_progress_adds_up_to_the_runs() -> None:
    for method in ("mdm", "token-euclidean"):
        specs, source = planned(signals(), method)
        told: list[float] = []
        execute(specs, source, told.append)
        assert sum(told) == pytest.approx(len(specs))
