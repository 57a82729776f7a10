"""Small models of every kind, with the pipelines they were converted from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    Recentring,
    SpatialFilterClassifier,
    TokenEmbedding,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.inference.convert import as_decoder
from spdtokens.runtime import Decoder

SFREQ, CHANNELS, SAMPLES = 100.0, 4, 150
NAMES = ("C3", "Cz", "C4", "Pz")
TINY: dict[str, Any] = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "batch_size": 32}


def _recommended(paradigm: str = "mi", stimulus_hz: Any = (), **changes: Any) -> DecodingPipeline:
    decoder = make_decoder(paradigm, sfreq=SFREQ, stimulus_hz=stimulus_hz)
    return decoder.set_params(**changes)


def _paper(filterbank: dict[str, Any], **changes: Any) -> DecodingPipeline:
    classifier = TokenTransformerClassifier(**TINY | {"epochs": 2, "random_state": 0} | changes)
    first = FilterBankCovariances(SFREQ, **filterbank)
    return DecodingPipeline([("filterbank", first), ("classifier", classifier)])


def _spatial_filters(**recentring: Any) -> DecodingPipeline:
    shared: dict[str, Any] = {"n_windows": 2, "n_means": 3}
    windows = [(0.0, 0.9), (0.6, 1.5)]
    options = {"bands": [(4, 12), (12, 30)], "windows": windows, "n_means": 3}
    network = {"n_filters": 3, "ensemble": 2, "epochs": 2, "random_state": 0}
    mirror = {"mirror": [2, 1, 0, 3], "mirror_labels": [(0, 1)]}
    steps = [
        ("filterbank", FilterBankCovariances(SFREQ, **options)),
        ("recentring", Recentring(**shared, **recentring)),
        ("classifier", SpatialFilterClassifier(**shared, **network, **mirror)),
    ]
    return DecodingPipeline(steps if recentring else steps[::2])


#: Pipelines by name: every way through the runtime.
KINDS: dict[str, DecodingPipeline] = {
    "imagery": _recommended(),
    "causal": _recommended(filterbank__filtering="causal"),
    "unfiltered": _recommended(filterbank__bands="none", filterbank__estimator="scm"),
    "below and above": _recommended(
        filterbank__bands=[(None, 20.0), (5.0, None)], filterbank__estimator="sample"
    ),
    "windows": _recommended(
        filterbank__windows=[(0.1, 0.7), (0.5, 1.4)], filterbank__bands=[(4, 12), (12, 30)]
    ),
    "potentials": _recommended("erp"),
    "averages": _recommended("erp", filterbank__estimator="erp", filterbank__cross_fit=1),
    "flicker": _recommended("ssvep", (8.0, 13.0)),
    "no reference": _recommended(
        classifier__embedding=["log_euclidean", "bures_wasserstein", "euclidean"]
    ),
    "triangular": _recommended(classifier__embedding=["cholesky", "log_cholesky"]),
    "paper's": _paper(
        {"estimator": "paper", "unit_in_volts": 1e-6},
        embedding=TokenEmbedding(floor="paper", unit_free=True),
    ),
    "transformer": _paper({}),
    "ensemble": _paper({"bands": "paper3"}, ensemble=2, attention="geometric"),
}
#: Without ONNX.
ONLY_NUMPY: dict[str, DecodingPipeline] = {
    "spatial filters": _spatial_filters(),
    "recentred filters": _spatial_filters(metric="euclid", shrinkage=0.05),
}


@dataclass(frozen=True)
class Made:
    """A decoder and the pipeline it was converted from."""

    decoder: Decoder
    pipeline: DecodingPipeline


def trials(n: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Simulate oscillations of two classes in mixed channels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, CHANNELS, SAMPLES)).cumsum(-1) * 0.3
    X += rng.standard_normal((n, CHANNELS, SAMPLES))
    t = np.arange(SAMPLES) / SFREQ
    for k, frequency in enumerate((9.0, 21.0)):
        X[y == k, k] += 2 * np.sin(2 * np.pi * (frequency * t + rng.random(((y == k).sum(), 1))))
    mixing = np.random.default_rng(99).standard_normal((CHANNELS, CHANNELS))
    return mixing @ X + 50, y


@cache
def made(kind: str) -> Made:
    X, y = trials()
    pipeline = clone((KINDS | ONLY_NUMPY)[kind]).fit(X, y)
    decoder = as_decoder(pipeline, ch_names=NAMES, classes=("left", "right"), about={"made": kind})
    return Made(decoder, pipeline)
