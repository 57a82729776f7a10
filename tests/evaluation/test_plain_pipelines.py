"""Pipelines of scikit-learn's own class, on trials that have groups."""

from __future__ import annotations

import numpy as np
import pytest
from pyriemann.estimation import Covariances
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    NetworkClassifier,
    Recentring,
    TokenDiscriminantClassifier,
    evaluate,
)

Y, GROUPS = np.repeat(np.arange(20) % 2, 2), np.repeat(np.arange(20), 2)
X = np.random.default_rng(0).standard_normal((40, 4, 200)) * (1 + 0.4 * Y)[:, None, None]
BANK = FilterBankCovariances(100)
XDAWN = FilterBankCovariances(100, estimator="xdawn", cross_fit=2)
PLAIN = {
    "xdawn": make_pipeline(XDAWN, TokenDiscriminantClassifier(gains=None)),
    "pyRiemann first": make_pipeline(Covariances("oas"), TokenDiscriminantClassifier()),
    "recentred": make_pipeline(BANK, Recentring(), TokenDiscriminantClassifier()),
    "network": make_pipeline(XDAWN, NetworkClassifier("spdnet-paper", epochs=1, random_state=0)),
}


@pytest.mark.parametrize("title", PLAIN)
def test_groups_reach_the_steps_that_take_them(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, int] = {}
    for kind in (FilterBankCovariances, TokenDiscriminantClassifier, NetworkClassifier):
        _listen(monkeypatch, kind, told)
    result = evaluate((X, Y, GROUPS), {title: PLAIN[title]}, "k-fold", sfreq=100)
    assert 0 <= result.rows[0].score <= 1
    assert told[type(PLAIN[title].steps[-1][1]).__name__] > 0


def _listen(
    monkeypatch: pytest.MonkeyPatch, kind: type[BaseEstimator], told: dict[str, int]
) -> None:
    fit = kind.fit

    def heard(self, X, y=None, groups=None, **more):  # type: ignore[no-untyped-def]
        told[kind.__name__] = told.get(kind.__name__, 0) + (groups is not None)
        return fit(self, X, y, groups, **more)

    monkeypatch.setattr(kind, "fit", heard)


def test_plain_pipeline_without_labels_in_it_is_scored_as_a_decoding_one() -> None:
    steps = [("filterbank", BANK), ("r", Recentring()), ("c", TokenDiscriminantClassifier())]
    both = {"plain": make_pipeline(*(s for _, s in steps)), "ours": DecodingPipeline(steps)}
    frame = evaluate((X, Y, GROUPS), both, "k-fold", sfreq=100).to_frame()
    assert frame.loc["plain", "log_loss"] == frame.loc["ours", "log_loss"]
