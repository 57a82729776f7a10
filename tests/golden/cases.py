"""What golden outputs are of: a name, and how to compute the probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    TokenTransformerClassifier,
    evaluate,
    make_decoder,
    train,
)
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.datasets import Dataset
from spdtokens.evaluation.plan import Choice
from tests.golden.sets import FEW, FLICKER, GROUPED, IMAGERY, MATRICES, POTENTIALS

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
#: Networks for which the potentials of 0.8 s are too short.
TOO_SHORT = {("golden-erp", name) for name in ("matt", "shallownet", "eeg-conformer")}
#: Methods that the first edition did not have.
SINCE = ("token-adversarial", "spatial-filters", "spatial-filters-power")
TWO = ("log_euclidean", "cholesky")
#: Trials of real data of which the output is kept.
KEPT = 24
REAL: dict[str, dict[str, Any]] = {
    "bci2a-a09-covariances": {},
    "brain-invaders-p300": {"protocol": "blocks", "paradigm": "erp"},
    "ssvep-exoskeleton": {"protocol": "leave-one-session-out", "subjects": "01"},
    "physionet-eegmmi-odd": {"protocol": "blocks", "subjects": "001"},
}
Case = Callable[[], NDArray[np.float64]]


def runs(
    dataset: Dataset | Path, method: str, settings: dict[str, Any], **question: Any
) -> NDArray[np.float64]:
    """Probabilities of the test trials of all runs, one after another."""
    choice = Choice(method, Settings(**settings))
    question = {"protocol": "session-transfer", "subjects": "1", "seeds": (42,)} | question
    found = evaluate(dataset, [choice], question.pop("protocol"), **question)
    (results,) = found.results.values()
    return np.concatenate([result.probabilities for result in results])


def fitted(model: Any, dataset: Dataset) -> NDArray[np.float64]:
    """Trained on one session, of the next."""
    one, other = (dataset.load("1", session) for session in dataset.sessions("1"))
    return np.asarray(model.fit(one.X, one.y).predict_proba(other.X))


def of_estimator(dataset: Dataset, paradigm: str = "mi", **filterbank: Any) -> NDArray[np.float64]:
    """The recommended decoder."""
    hertz = dataset.stimulus_hz
    model = make_decoder(paradigm, sfreq=dataset.sfreq, tmin=dataset.tmin, stimulus_hz=hertz)
    return fitted(model.set_params(**filterbank), dataset)


def of_network(dataset: Dataset, bands: str | None = None, **options: Any) -> NDArray[np.float64]:
    """The paper's network."""
    steps: list[Any] = [("classifier", TokenTransformerClassifier(**options))]
    if not dataset.is_covariance:
        front = FilterBankCovariances(dataset.sfreq, tmin=dataset.tmin, bands=bands)
        steps.insert(0, ("filterbank", front))
    return fitted(DecodingPipeline(steps), dataset)


def of_model(dataset: Dataset, **options: Any) -> NDArray[np.float64]:
    """Of a model as it is shipped, trained on all sessions of two people, of the third."""
    trained = train(dataset, subjects=["1", "2"], **options)
    return np.asarray(trained.decoder.predict_proba(dataset.load("3", "a").X))


def cases() -> dict[str, Case]:
    """Every case: on the sets of random numbers, and on the recordings that are there."""
    found: dict[str, Case] = {}

    def add(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        found[name] = partial(function, *args, **options)

    for dataset in (IMAGERY, POTENTIALS, FLICKER, MATRICES):
        for name, method in METHODS.items():
            left_out = name in SINCE or (dataset.name, name) in TOO_SHORT
            if method.why_not(dataset) is None and not left_out:
                add(f"{dataset.name}/{name}", runs, dataset, name, _short(name))
        paradigm = {"motor imagery": "mi"}.get(dataset.paradigm, dataset.paradigm)
        add(f"estimator/{dataset.name}", of_estimator, dataset, paradigm)
        add(f"model/{dataset.name}", of_model, dataset)

    paper: dict[str, Any] = {"epochs": 3, "random_state": 7}
    add("estimator/paper", of_network, IMAGERY, **paper)
    add("estimator/paper3", of_network, IMAGERY, bands="paper3", ensemble=2, **paper)
    add("estimator/roots", of_network, MATRICES, embedding="bures_wasserstein", **paper)
    add("estimator/held back", of_network, IMAGERY, keep="best", validation=0.25, **paper)
    add("estimator/causal", of_estimator, IMAGERY, filterbank__filtering="causal")
    add("model/recentred", of_model, IMAGERY, recentre=True)
    add("model/recentred matrices", of_model, MATRICES, recentre=True)
    add("model/causal", of_model, IMAGERY, filtering="causal")

    network, many = "token-log-euclidean", "token-bures-wasserstein-multiband"
    for name, method, settings in (
        ("small", network, {"preset": "standard-small", "epochs": 3}),
        ("geometric", many, {"changes": {"attention": "geometric"}, "epochs": 3}),
        ("best", network, {"changes": {"keep": "best", "patience": 2}, "epochs": 4}),
        ("decay", network, {"changes": {"weight_decay": 0.1, "label_smoothing": 0.1}, "epochs": 3}),
        ("shape", network, {"changes": {"n_layers": 2, "d_model": 32, "bn_embed": False}}),
        ("bands", "ts-lr", {"bands": [(8.0, 13.0), (13.0, 30.0)]}),
        ("lwf", "ts-lr", {"estimator": "lwf"}),
        ("lwf network", network, {"estimator": "lwf", "epochs": 3}),
        ("two embeddings", "recommended", {"changes": {"embedding": TWO}}),
        ("ridge", "recommended", {"changes": {"ridge": 0.1, "gains": (0.1, 0.1)}}),
        ("delays", "recommended", {"changes": {"delays": (0.05,)}}),
        ("common", "spdnet", {"recipe": "common", "epochs": 3}),
        ("common mlp", "spd-token-mlp", {"recipe": "common", "epochs": 3}),
    ):
        add(f"settings/{name}", runs, IMAGERY, method, settings)
    for method in ("recommended", network, "eegnet", "spd-token-mlp", "ts-svm"):
        add(f"grouped/{method}", runs, GROUPED, method, _short(method))
        split = {"protocol": "split-70-15-15"}
        add(f"validation/{method}", runs, IMAGERY, method, _short(method), **split)
    add("grouped/best", runs, GROUPED, network, {"changes": {"keep": "best"}, "epochs": 3})
    add("few/recommended", runs, FEW, "recommended", {})
    filters = {"changes": {"n_filters": 2, "cross_fit": 3}}
    add("erp/recommended filters", runs, POTENTIALS, "recommended", filters)
    add("erp/ts-lr erp", runs, POTENTIALS, "ts-lr", {"estimator": "erp"})
    add("erp/network xdawn", runs, POTENTIALS, network, {"estimator": "xdawn", "epochs": 3})
    several = {"seeds": (42, 123), "subjects": ("1", "2")}
    add("seeds", runs, IMAGERY, network, {"epochs": 3}, **several)

    recentred = {"alignment": "recentre", "access": "unlabeled_full"}
    everybody = {"protocol": "leave-one-subject-out", "subjects": ()}
    for method in ("recommended", network, "ts-lr", "eegnet", "acm-ts-svm"):
        for alignment, access in (
            ("recentre", "unlabeled_full"),
            ("euclidean", "unlabeled_20p"),
            ("recentre", "online"),
            ("rescale", "unlabeled_full"),
            ("rotate", "labeled_50p"),
        ):
            if alignment in ("rescale", "rotate") and method in ("eegnet", "acm-ts-svm"):
                continue
            if method == "acm-ts-svm" and access != "unlabeled_full":
                continue
            question = {"alignment": alignment, "access": access}
            name = f"{alignment}/{access}/{method}"
            add(name, runs, IMAGERY, method, _short(method, 2), **question)
        if method != "acm-ts-svm":
            add(f"others/{method}", runs, IMAGERY, method, _short(method, 2), **everybody)
    both = recentred | {"protocol": "leave-one-subject-out-calibrated", "domain": "subject"}
    for method in ("recommended", "ts-lr"):
        add(f"calibrated/{method}", runs, IMAGERY, method, {}, **both, subjects=())
    add("erp/ts-lr recentred", runs, POTENTIALS, "ts-lr", {}, **recentred)

    for folder, question in REAL.items():
        if (SHARED / folder).is_dir():
            for method in ("recommended", "ts-lr", "mdm", network):
                add(f"{folder}/{method}", _real, folder, method, _short(method, 2), **question)
    return found


def _short(method: str, epochs: int = 3) -> dict[str, Any]:
    """Settings with which a network is trained for some epochs."""
    return {"epochs": epochs} if METHODS[method].has_seed else {}


def _real(
    folder: str, method: str, settings: dict[str, Any], **question: Any
) -> NDArray[np.float64]:
    found = runs(SHARED / folder, method, settings, **{"subjects": ()} | question)
    return found[:: max(1, len(found) // KEPT)][:KEPT]
