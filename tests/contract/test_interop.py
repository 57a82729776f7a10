"""Our estimators among other people's: scikit-learn, MOABB, pyRiemann, skorch and torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pyriemann.classification import MDM, TSClassifier
from pyriemann.estimation import Covariances
from pyriemann.spatialfilters import CSP
from pyriemann.tangentspace import TangentSpace
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    Recentring,
    SPDTokenTransformer,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
    evaluate,
    load_dataset,
    make_decoder,
)
from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn import TransformerConfig
from spdtokens.runtime.threads import one_thread
from tests.contract.contract import SEVERAL, SFREQ, SIGNALS, make_data

TINY: dict[str, Any] = {
    "d_model": 8,
    "n_layers": 1,
    "n_heads": 2,
    "d_ff": 16,
    "epochs": 15,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "random_state": 0,
}
BANDS = "8-13,13-30"


@pytest.fixture(scope="module")
def trials() -> tuple[np.ndarray, np.ndarray]:
    return make_data(SIGNALS, n=48, k=2)


@pytest.fixture(scope="module")
def new() -> tuple[np.ndarray, np.ndarray]:
    return make_data(SIGNALS, seed=1, n=24, k=2)


# --- the code of the design -----------------------------------------------------------------------


def test_the_code_of_the_design() -> None:
    clf = make_decoder("mi", sfreq=250, tmin=-0.5, window=(0.5, 4.0))
    network = TokenTransformerClassifier("log_euclidean", n_layers=6, random_state=42, epochs=2)
    paper = make_pipeline(FilterBankCovariances(250, bands="4-40", estimator="paper"), network)
    mine = make_pipeline(Covariances("oas"), CSP(6), LogisticRegression())
    methods = {"recommended": clf, "paper": paper, "mine": mine}
    result = evaluate("sim-mi", methods, protocol="session-transfer", subjects=1)
    frame = result.to_frame()
    assert list(frame.index) == list(methods)
    assert frame["n_test"].tolist() == [288] * 3
    assert frame["n_runs"].tolist() == [1] * 3
    assert "<table" in result._repr_html_()
    # What is evaluated is what is shipped.
    dataset = load_dataset("sim-mi")
    first, second = (dataset.load("1", session) for session in dataset.index["1"])
    begin, end = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
    # Ours cuts the window itself.
    for name, cut in (("recommended", slice(None)), ("mine", slice(begin, end))):
        one = clone(methods[name]).fit(first.X[..., cut], first.y)
        by_hand = one.predict(second.X[..., cut])
        assert frame.loc[name, "score"] == accuracy_score(second.y, by_hand)
    assert frame.loc["recommended", "score"] > frame.loc["recommended", "chance_bound"]


# --- MOABB ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # MOABB's and MNE's own
@pytest.mark.parametrize(
    "name", ["WithinSessionEvaluation", "CrossSessionEvaluation", "CrossSubjectEvaluation"]
)
def test_moabb_evaluates_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluations = pytest.importorskip("moabb.evaluations", reason="needs the extra 'moabb'")
    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    monkeypatch.setenv("_MNE_FAKE_HOME_DIR", str(tmp_path))
    from moabb.datasets.fake import FakeDataset
    from moabb.paradigms import MotorImagery

    dataset = FakeDataset(
        ["left_hand", "right_hand"], n_sessions=2, n_runs=1, n_subjects=2, seed=0, n_events=24
    )
    paradigm = MotorImagery(n_classes=2, events=["left_hand", "right_hand"], fmin=8, fmax=30)
    evaluation = getattr(evaluations, name)(
        paradigm=paradigm, datasets=[dataset], overwrite=True, hdf5_path=str(tmp_path)
    )
    results = evaluation.process(
        {
            "ours": make_decoder("mi", sfreq=128).set_params(filterbank__bands="none"),
            "theirs": make_pipeline(Covariances("oas"), MDM()),
        }
    )
    for pipeline in ("ours", "theirs"):
        mine = results[results["pipeline"] == pipeline]
        assert set(mine["subject"]) == {"1", "2"}
        assert len(mine) == 4  # two sessions each
        assert mine["score"].between(0, 1).all()


# --- scikit-learn ---------------------------------------------------------------------------------


def test_cross_validation(trials: Any) -> None:
    X, y = trials
    groups = np.arange(len(y)) // 4
    decoder, cv = make_decoder("mi", sfreq=SFREQ), GroupKFold(3)
    scores = cross_val_score(decoder, X, y, cv=cv, groups=groups)
    found = cross_val_predict(decoder, X, y, cv=cv, groups=groups, method="predict_proba")
    for score, (train, test) in zip(scores, cv.split(X, y, groups), strict=True):
        assert not set(groups[train]) & set(groups[test])
        by_hand = clone(decoder).fit(X[train], y[train])
        assert score == by_hand.score(X[test], y[test])
        assert_array_equal(found[test], by_hand.predict_proba(X[test]))
    assert scores.mean() > 0.9


def test_grid_search() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4, 200))
    rhythm = np.sin(2 * np.pi * 10 * np.arange(200) / SFREQ + rng.uniform(0, 6, (60, 1)))
    X[:, 0] += y[:, None] * rhythm  # the classes differ at 10 Hz
    decoder = make_decoder("mi", sfreq=SFREQ)
    grid = {"filterbank__bands": ["20-40", "8-13", BANDS], "classifier__ridge": [0.01, 1e6]}
    search = GridSearchCV(decoder, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["filterbank__bands"] in ("8-13", BANDS)
    for parameters, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        again = clone(decoder).set_params(**parameters)
        assert score == cross_val_score(again, X, y, cv=3).mean()
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 1  # the parameters were set
    assert search.best_estimator_["filterbank"].bands == search.best_params_["filterbank__bands"]
    assert search.score(X, y) > 0.9
    # Steps can be searched, too.
    grid = {"classifier": [TokenDiscriminantClassifier(), MDM()], "filterbank__bands": ["8-13"]}
    search = GridSearchCV(decoder, grid, cv=3, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 2


class Counting(FilterBankCovariances):
    """Counts how often it is fitted."""

    count = 0

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        type(self).count += 1
        return super().fit_transform(X, y, groups)


@pytest.mark.parametrize("kind", [Pipeline, DecodingPipeline])
@pytest.mark.parametrize("paradigm", ["mi", "erp"])
def test_memory(kind: type[Pipeline], paradigm: str, trials: Any, tmp_path: Path) -> None:
    X, y = trials
    plain = make_decoder(paradigm, sfreq=SFREQ)
    steps = [("filterbank", Counting(**plain["filterbank"].get_params())), plain.steps[-1]]
    expected = kind(clone(kind(steps)).steps).fit(X, y).predict_proba(X)
    cached = clone(kind(steps)).set_params(memory=str(tmp_path))
    Counting.count = 0
    assert_array_equal(cached.fit(X, y).predict_proba(X), expected)
    assert Counting.count == 1
    again = clone(cached).set_params(classifier__ridge=0.5).fit(X, y)
    assert Counting.count == 1  # read, not computed
    assert_array_equal(
        again.predict_proba(X),
        clone(kind(steps)).set_params(classifier__ridge=0.5).fit(X, y).predict_proba(X),
    )


@pytest.mark.parametrize("bands", [None, BANDS], ids=["one matrix", "several"])
def test_ensembles_of_scikit_learn(bands: str | None, trials: Any, new: Any) -> None:
    (X, y), (Z, z) = trials, new
    filterbank = FilterBankCovariances(SFREQ, bands=bands, estimator="oas")
    C, D = filterbank.fit_transform(X), filterbank.transform(Z)
    ours = TokenDiscriminantClassifier()
    members = [("discriminant", ours), ("transformer", TokenTransformerClassifier(**TINY))]
    if bands is None:
        theirs = get_method("ts-lr").make(load_dataset("sim-mi"))[1:]  # without its filter bank
        members += [("ts-lr", theirs), ("mdm", MDM())]
    cv = StratifiedKFold(3)
    for model in (
        CalibratedClassifierCV(ours, cv=cv),  # by decision values
        AdaBoostClassifier(ours, n_estimators=3),  # by weights
        StackingClassifier(members, LogisticRegression(), cv=cv),
        VotingClassifier(members, voting="soft"),
    ):
        assert model.fit(C, y).score(D, z) > 0.9
    # The last one by hand.
    expected = np.mean([clone(m).fit(C, y).predict_proba(D) for _, m in members], axis=0)
    assert_allclose(model.predict_proba(D), expected, atol=1e-9)


def test_names_of_tokens_through_a_pipeline(trials: Any, new: Any) -> None:
    (X, y), (Z, _) = trials, new
    filterbank = FilterBankCovariances(SFREQ, bands=BANDS)
    embedding = TokenEmbedding(["log_euclidean", "cholesky"])
    steps = (filterbank, Recentring(), embedding, StandardScaler(), LogisticRegression())
    model = make_pipeline(*steps).fit(X, y)
    names = model[:-1].get_feature_names_out()
    assert len(names) == model[-1].coef_.shape[1] == 2 * 2 * 10
    assert names[0] == "8-13 Hz log_euclidean[0,0]"
    assert names[-1] == "13-30 Hz cholesky[3,3]"
    # By hand.
    C = Recentring().fit(clone(filterbank).fit_transform(X))
    tokens, moved = clone(embedding), C.fit_transform(clone(filterbank).fit_transform(X))
    T = StandardScaler().fit(tokens.fit_transform(moved))
    by_hand = LogisticRegression().fit(T.transform(tokens.transform(moved)), y)
    D = T.transform(tokens.transform(C.transform(clone(filterbank).fit(X).transform(Z))))
    assert_allclose(model.predict_proba(Z), by_hand.predict_proba(D), atol=1e-9)
    # A frame where one is asked for.
    frames = make_pipeline(filterbank, embedding).set_output(transform="pandas").fit_transform(X, y)
    assert frames.shape == (len(X), 40)


# --- what fit is told of trials -------------------------------------------------------------------


@pytest.mark.parametrize("paradigm", ["mi", "erp"])
def test_weights_and_groups_through_the_pipeline(paradigm: str, trials: Any, new: Any) -> None:
    (X, y), Z = trials, new[0]
    told = {
        "groups": np.arange(len(y)) // 6,
        "sample_weight": np.random.default_rng(0).uniform(0.2, 2, len(y)),
    }
    decoder = make_decoder(paradigm, sfreq=SFREQ)
    shared = clone(decoder).fit(X, y, **told).predict_proba(Z)
    by_step = {f"classifier__{name}": value for name, value in told.items()}
    by_step["filterbank__groups"] = told["groups"]
    assert_array_equal(clone(decoder).fit(X, y, **by_step).predict_proba(Z), shared)
    assert not np.allclose(clone(decoder).fit(X, y).predict_proba(Z), shared)
    with pytest.raises(ValueError, match="sample_weight"):
        clone(decoder).fit(X, y, sample_weight=told["sample_weight"][:-1])

    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            clone(decoder).fit(X, y, **told)
        routed = clone(decoder)
        routed["classifier"].set_fit_request(sample_weight=True)
        assert_array_equal(routed.fit(X, y, **told).predict_proba(Z), shared)
        routed["classifier"].set_score_request(sample_weight=True)
        cv = GroupKFold(3)
        found = cross_validate(
            routed, X, y, cv=cv, params=told, return_estimator=True, error_score="raise"
        )
    # Groups were both split by and handed on.
    for one, (train, _) in zip(found["estimator"], cv.split(X, y, told["groups"]), strict=True):
        part = {name: value[train] for name, value in told.items()}
        by_hand = clone(decoder).fit(X[train], y[train], **part)
        assert_array_equal(one.predict_proba(Z), by_hand.predict_proba(Z))


def test_routing_reaches_networks_and_recentring(trials: Any, new: Any) -> None:
    (X, y), Z = trials, new[0]
    model = DecodingPipeline(
        [
            ("filterbank", FilterBankCovariances(SFREQ, estimator="xdawn", n_filters=2)),
            ("recentring", Recentring()),
            ("classifier", TokenTransformerClassifier(**TINY, keep="best")),
        ]
    )
    told = {"domains": np.arange(len(y)) % 2, "validation": new}
    expected = clone(model).fit(X, y, **told).predict_proba(Z)
    with sklearn.config_context(enable_metadata_routing=True):
        assert_array_equal(clone(model).fit(X, y, **told).predict_proba(Z), expected)
    del told["domains"]
    assert not np.allclose(clone(model).fit(X, y, **told).predict_proba(Z), expected)


def test_steps_between_take_part_in_the_folds_of_the_temperature(trials: Any, new: Any) -> None:
    """The fitted classifier is that of the same folds, each recentred, by hand."""
    (X, y), Z = trials, new[0]
    domains = np.arange(len(y)) % 2
    filterbank = FilterBankCovariances(SFREQ, estimator="xdawn", n_filters=2, cross_fit=3)
    recentring, classifier = Recentring(), TokenDiscriminantClassifier(gains=None)
    model = DecodingPipeline(
        [("filterbank", filterbank), ("between", recentring), ("classifier", classifier)]
    )
    found = clone(model).fit(X, y, domains=domains).predict_proba(Z)
    C = recentring.fit_transform(filterbank.fit_transform(X, y), domains=domains)

    def refit(folds: Any) -> Any:
        for made in filterbank.refitted(X, y, folds):
            yield Recentring().fit_transform(made, domains=domains)

    classifier.fit(C, y, refit=refit)
    D = recentring.transform(filterbank.transform(Z))
    assert_allclose(classifier.predict_proba(D), found, atol=1e-12)
    skipped = clone(classifier).fit(C, y, refit=lambda folds: filterbank.refitted(X, y, folds))
    assert not np.allclose(skipped.predict_proba(D), found)


# --- pyRiemann ------------------------------------------------------------------------------------


OURS, THEIRS = FilterBankCovariances(SFREQ, bands="8-30", estimator="oas"), Covariances("oas")


@pytest.mark.parametrize(
    ("covariances", "classifier"),
    [
        (THEIRS, TokenDiscriminantClassifier()),
        (THEIRS, TokenTransformerClassifier(**TINY)),
        (OURS, MDM()),
        (OURS, TSClassifier(clf=LogisticRegression())),
        (OURS, make_pipeline(TangentSpace(), LogisticRegression())),
    ],
    ids=lambda step: type(step).__name__,
)
def test_covariances_and_classifiers_mix(
    covariances: Any, classifier: Any, trials: Any, new: Any
) -> None:
    (X, y), (Z, z) = trials, new
    model = make_pipeline(clone(covariances), clone(classifier)).fit(X, y)
    assert model.score(Z, z) > 0.9
    by_hand = clone(classifier).fit(clone(covariances).fit_transform(X), y)
    D = clone(covariances).fit(X).transform(Z)
    assert_array_equal(model.predict_proba(Z), by_hand.predict_proba(D))


# --- torch ----------------------------------------------------------------------------------------


def test_skorch_trains_the_module() -> None:
    skorch = pytest.importorskip("skorch", reason="needs the extra 'dev'")
    (C, y), (D, z) = make_data(SEVERAL, n=48), make_data(SEVERAL, seed=1, n=24)
    embedding = TokenEmbedding().fit(C)
    X, Z = (embedding.tokens(matrices).astype(np.float32) for matrices in (C, D))
    config = TransformerConfig(**{k: TINY[k] for k in ("d_model", "n_layers", "n_heads", "d_ff")})
    options = {"n_features": 10, "n_tokens": 2, "n_classes": 2, "config": config}
    with torch.random.fork_rng(), one_thread():
        torch.manual_seed(0)
        net = skorch.NeuralNetClassifier(
            SPDTokenTransformer,
            **{f"module__{name}": value for name, value in options.items()},
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=1e-2,
            max_epochs=12,
            batch_size=16,
            train_split=None,
            verbose=0,
        ).initialize()
        before = {name: value.detach().clone() for name, value in net.module_.named_parameters()}
        net.partial_fit(X, y)
    assert net.history[-1, "train_loss"] < 0.5 * net.history[0, "train_loss"]
    assert net.score(Z, z) > 0.9
    assert_allclose(net.predict_proba(Z).sum(1), 1, rtol=1e-5)
    for name, parameter in net.module_.named_parameters():
        assert parameter.requires_grad is not torch.equal(parameter.detach(), before[name]), name
    # Weights can be kept and put into a new module.
    twin = SPDTokenTransformer(**options).eval()
    twin.load_state_dict(net.module_.state_dict())
    with torch.no_grad():
        assert torch.equal(twin(torch.from_numpy(Z)), net.module_.eval()(torch.from_numpy(Z)))
