"""Small models of every kind, with the estimators they were made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from spdtokens import SPDTokenClassifier, Tokenizer
from spdtokens.deploy.convert import make_decoder
from spdtokens.runtime import Decoder

SFREQ, CHANNELS, SAMPLES = 100.0, 4, 150
NAMES = ("C3", "Cz", "C4", "Pz")
TINY = {"preset": "paper-small", "d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24}
#: Options of the classifier, by name: every way through the runtime.
KINDS: dict[str, dict[str, Any]] = {
    "imagery": {},
    "causal": {"filtering": "causal"},
    "unfiltered": {"bands": "none", "covariance": "scm"},
    "below and above": {"bands": [(None, 20.0), (5.0, None)], "covariance": "sample"},
    "windows": {"windows": [(0.1, 0.7), (0.5, 1.4)], "bands": [(4, 12), (12, 30)]},
    "potentials": {"paradigm": "erp"},
    "averages": {"paradigm": "erp", "covariance": "erp", "cross_fit": 1},
    "flicker": {"stimulus_frequencies": (8.0, 13.0)},
    "no reference": {"embedding": ["log_euclidean", "bures_wasserstein", "euclidean"]},
    "triangular": {"embedding": ["cholesky", "log_cholesky"]},
    "paper's": {"preset": "paper-small", "regularisation": "paper", "floor": "paper"},
    "transformer": TINY | {"epochs": 2},
    "ensemble": TINY | {"epochs": 2, "ensemble": 2, "bands": "paper3", "attention": "geometric"},
}
KINDS["paper's"] |= KINDS["transformer"] | {"unit_in_volts": 1e-6}
#: Options that the covariances already carry.
OF_SIGNALS = {
    "bands",
    "windows",
    "filtering",
    "covariance",
    "cross_fit",
    "regularisation",
    "unit_in_volts",
    "stimulus_frequencies",
}


@dataclass(frozen=True)
class Made:
    """A decoder, and what it was made of."""

    decoder: Decoder
    front: Tokenizer
    classifier: SPDTokenClassifier

    def expected(self, X: Any) -> Any:
        return self.classifier.predict_proba(self.front.covariances(X))


def trials(n: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Rhythms of two classes, in channels that are mixed: X and y."""
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
    options = {"random_state": 0, **KINDS[kind]}
    front = SPDTokenClassifier(sfreq=SFREQ, tmin=0.0, **options).make_tokenizer(X)
    C = front.fit_covariances(X, y)
    rest = {name: value for name, value in options.items() if name not in OF_SIGNALS}
    classifier = SPDTokenClassifier(**rest).fit(C, y)
    decoder = make_decoder(
        front, classifier, classes=("left", "right"), ch_names=NAMES, about={"made": kind}
    )
    return Made(decoder, front, classifier)
