from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spdtokens import DecodingPipeline, FilterBankCovariances, TokenTransformerClassifier
from spdtokens.classifiers.explain import band_attention
from spdtokens.classifiers.nn import geometric_bias
from spdtokens.errors import ReportError
from tests.classifiers.explain.planted import BANDS, SFREQ, planted_trials
from tests.classifiers.explain.test_importance import TINY


def fitted(bands: Any = BANDS, **more: Any) -> DecodingPipeline:
    X, y = planted_trials(60)
    options = {"random_state": 1, **TINY, "epochs": 3, **more}
    first = FilterBankCovariances(SFREQ, bands=bands)
    steps = [("filterbank", first), ("classifier", TokenTransformerClassifier(**options))]
    return DecodingPipeline(steps).fit(X, y)


def by_hand(model: DecodingPipeline, X: np.ndarray) -> np.ndarray:
    """The mean of every softmax that a forward pass computes, watched from outside."""
    seen: list[torch.Tensor] = []
    softmax = torch.Tensor.softmax

    def watched(self: torch.Tensor, dim: int) -> torch.Tensor:
        result = softmax(self, dim)
        if self.ndim == 4:  # (n, heads, tokens, tokens)
            seen.append(result)
        return result

    C, classifier = model["filterbank"].transform(X), model["classifier"]
    tokens = torch.from_numpy(classifier.embedding_.tokens(C))
    bias = None
    if classifier.attention == "geometric":
        bias = geometric_bias(torch.from_numpy(C), classifier.alpha).double()
    torch.Tensor.softmax = watched  # type: ignore[assignment, method-assign]
    try:
        with torch.inference_mode():
            for network in classifier.networks_:
                network(tokens, bias)
    finally:
        torch.Tensor.softmax = softmax  # type: ignore[method-assign]
    assert len(seen) == len(classifier.networks_) * classifier.n_layers
    return torch.stack(seen).mean((0, 1, 2)).numpy()


@pytest.mark.parametrize("more", [{}, {"ensemble": 2}, {"attention": "geometric", "alpha": 3.0}])
def test_it_is_the_mean_of_what_the_network_uses(
    more: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = planted_trials(20, seed=1)
    model = fitted(**more)
    monkeypatch.setattr("spdtokens.classifiers.explain.attention.AT_ONCE", 8)
    weights = band_attention(model, X)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert np.abs(weights - 1 / 3).max() > 1e-3
    np.testing.assert_allclose(weights, by_hand(model, X), rtol=1e-6)


def test_one_token_has_nothing_to_attend_to() -> None:
    with pytest.raises(ReportError, match="Use several bands"):
        band_attention(fitted(bands="broadband"), planted_trials(4)[0])


def test_several_embeddings_attend_token_by_token() -> None:
    X, _ = planted_trials(20, seed=1)
    model = fitted(embedding=["log_euclidean", "bures_wasserstein"])
    weights = band_attention(model, X)
    assert weights.shape == (6, 6)
    np.testing.assert_allclose(weights, by_hand(model, X), rtol=1e-6)
