from __future__ import annotations

import numpy as np
import pytest
import torch

from spdtokens import SPDTokenClassifier
from spdtokens.explain import ExplainError, band_attention
from tests.explain.planted import BANDS, SFREQ, planted_trials
from tests.explain.test_importance import TINY


def fitted(**more) -> SPDTokenClassifier:
    X, y = planted_trials(60)
    options = {"sfreq": SFREQ, "bands": BANDS, "random_state": 1, **TINY, "epochs": 3, **more}
    return SPDTokenClassifier(**options).fit(X, y)


def by_hand(model: SPDTokenClassifier, X: np.ndarray) -> np.ndarray:
    """The mean of every softmax that a forward pass computes, watched from outside."""
    seen: list[torch.Tensor] = []
    softmax = torch.Tensor.softmax

    def watched(self: torch.Tensor, dim: int) -> torch.Tensor:
        result = softmax(self, dim)
        if self.ndim == 4:  # (n, heads, tokens, tokens); the last, over classes, has two axes
            seen.append(result)
        return result

    torch.Tensor.softmax = watched  # type: ignore[assignment, method-assign]
    try:
        model.predict_proba(X)
    finally:
        torch.Tensor.softmax = softmax  # type: ignore[method-assign]
    assert len(seen) == len(model.networks_) * len(model.networks_[0].blocks)
    return torch.stack(seen).mean((0, 1, 2)).numpy()


@pytest.mark.parametrize("more", [{}, {"ensemble": 2}, {"attention": "geometric", "alpha": 3.0}])
def test_it_is_the_mean_of_what_the_network_uses(
    more: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _ = planted_trials(20, seed=1)
    model = fitted(**more)
    monkeypatch.setattr("spdtokens.explain.attention.AT_ONCE", 8)
    weights = band_attention(model, X)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert np.abs(weights - 1 / 3).max() > 1e-3
    np.testing.assert_allclose(weights, by_hand(model, X), rtol=1e-6)


def test_one_token_has_nothing_to_attend_to() -> None:
    with pytest.raises(ExplainError, match="Use several bands"):
        band_attention(fitted(bands="broadband"), planted_trials(4)[0])
