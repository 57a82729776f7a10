"""Names of the first edition, for one release."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens.classifiers.decoder import DecodingPipeline, make_decoder
from spdtokens.classifiers.methods import PRESETS, RECOMMENDED
from spdtokens.classifiers.transformer import TokenTransformerClassifier
from spdtokens.errors import ModelError
from spdtokens.geometry import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances

#: Parameters of the filter bank, by their names of the first edition.
_FILTERBANK = {
    "bands": "bands",
    "windows": "windows",
    "tmin": "tmin",
    "stimulus_frequencies": "stimulus_hz",
    "filtering": "filtering",
    "covariance": "estimator",
    "n_filters": "n_filters",
    "cross_fit": "cross_fit",
    "delays": "delays",
    "decimate": "decimate",
    "regularisation": "regularisation",
    "unit_in_volts": "unit_in_volts",
}
#: Parameters of the embedding, with the defaults they had in ``SPDTokenClassifier``.
_EMBEDDING = {"isometric": False, "floor": "relative", "unit_free": True}
#: Parameters that preset ``recommended`` took and did not use.
_UNUSED = ("random_state", "device", "verbose", "ensemble")


def _renamed(options: dict[str, Any], estimator: str = "sample") -> dict[str, Any]:
    """Options of the filter bank, taken out of those given."""
    found = {new: options.pop(old) for old, new in _FILTERBANK.items() if old in options}
    found = {name: value for name, value in found.items() if value is not None}
    if found.get("regularisation") == "paper":
        del found["regularisation"]
        if found.get("estimator", estimator) != "sample":
            raise ModelError(
                "regularisation='paper' is for the sample covariance: pass covariance='sample'."
            )
        found["estimator"] = "paper"
    return found


def _warn(old: str, new: str) -> None:
    text = f"{old} is deprecated and goes in 0.3: use {new} (docs/migration.md)."
    warnings.warn(text, FutureWarning, stacklevel=3)


class _Tokens(TokenEmbedding):
    """Tokens (n, tokens, features), as the first edition gave them."""

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.float64]:
        return self.fit(X, y).tokens(X)

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        return self.tokens(X)


def Tokenizer(
    embedding: str | Sequence[str] = "log_euclidean", *, sfreq: float | None = None, **options: Any
) -> Pipeline:
    """Make a pipeline from trials to tokens (n, tokens, features).

    .. deprecated:: 0.2
       Use :class:`spdtokens.FilterBankCovariances` and :class:`spdtokens.TokenEmbedding`.
    """
    _warn("Tokenizer", "FilterBankCovariances and TokenEmbedding in a pipeline")
    filterbank = _renamed(options)
    steps: list[tuple[str, BaseEstimator]] = [("tokens", _Tokens(embedding, **options))]
    if sfreq is not None:
        steps.insert(0, ("filterbank", FilterBankCovariances(sfreq, **filterbank)))
    return Pipeline(steps)


def SPDTokenClassifier(
    embedding: str | Sequence[str] | None = None,
    *,
    sfreq: float | None = None,
    paradigm: str | None = None,
    preset: str = RECOMMENDED,
    **options: Any,
) -> DecodingPipeline:
    """Make a decoder from the parameters of the first edition.

    .. deprecated:: 0.2
       Use :func:`spdtokens.make_decoder`, or :class:`spdtokens.TokenTransformerClassifier` behind
       :class:`spdtokens.FilterBankCovariances`.
    """
    _warn("SPDTokenClassifier", "make_decoder or TokenTransformerClassifier")
    if preset not in (RECOMMENDED, *PRESETS):
        known = ", ".join((RECOMMENDED, *PRESETS))
        raise ModelError(f"There is no preset {preset!r}. There are: {known}.")
    recommended = preset == RECOMMENDED
    filterbank = _renamed(options, "oas" if recommended else "sample")
    tokens = {name: options.pop(name, None) for name in _EMBEDDING}
    tokens = {name: _EMBEDDING[name] if v is None else v for name, v in tokens.items()}
    options = {name: value for name, value in options.items() if value is not None}
    if recommended:
        frequencies = filterbank.get("stimulus_hz", ())
        windows = filterbank.get("windows")
        decoder = make_decoder(
            paradigm or ("ssvep" if len(frequencies) else "mi"),
            sfreq=sfreq,
            tmin=filterbank.get("tmin", 0.0),
            window=windows[0] if windows and len(windows) == 1 else None,
            stimulus_hz=frequencies,
        )
        if sfreq is not None:
            decoder["filterbank"].set_params(**filterbank)
        options = {name: value for name, value in options.items() if name not in _UNUSED}
    else:
        first = [("filterbank", FilterBankCovariances(sfreq, **filterbank))] if sfreq else []
        classifier = TokenTransformerClassifier(**PRESETS[preset])
        decoder = DecodingPipeline([*first, ("classifier", classifier)])
    if tokens != _EMBEDDING:
        names = embedding or ("auto" if recommended else "log_euclidean")
        options["embedding"] = TokenEmbedding(names, **tokens)
    elif embedding is not None:
        options["embedding"] = embedding
    decoder["classifier"].set_params(**options)
    return decoder
