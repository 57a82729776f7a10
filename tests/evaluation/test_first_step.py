"""A first step that was told other things than the data set says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from spdtokens import (
    DecodingPipeline,
    FilterBankCovariances,
    NetworkClassifier,
    StandardTrials,
    TokenDiscriminantClassifier,
    evaluate,
    make_decoder,
)
from spdtokens.errors import EvaluationError

Y = np.arange(40) % 2
X = np.random.default_rng(0).standard_normal((40, 4, 200)) * (1 + 0.4 * Y)[:, None, None]


def score(method: BaseEstimator, **clock: Any) -> float:
    data = (X, Y) if clock else (X @ X.swapaxes(1, 2) / 200, Y)
    return evaluate(data, {"mine": method}, "k-fold", **clock).rows[0].score


@pytest.mark.parametrize(
    "method",
    [
        make_decoder("mi", sfreq=128),
        make_decoder("mi", sfreq=100, window=(0.5, 1.5)),  # but tmin
        GridSearchCV(make_decoder("mi", sfreq=128), {"classifier__ridge": [0.01]}),
        make_pipeline(StandardTrials(128), NetworkClassifier("eegnet", sfreq=128)),
    ],
)
def test_another_clock_is_refused(method: BaseEstimator) -> None:
    with pytest.raises(EvaluationError, match=r"100|-0\.5"):
        score(method, sfreq=100, tmin=-0.5)


def test_signals_are_needed_by_a_filter_bank() -> None:
    with pytest.raises(EvaluationError, match="covariance matrices"):
        score(make_decoder("mi", sfreq=100))


@pytest.mark.parametrize(
    "method",
    [
        make_decoder("mi", sfreq=100),
        make_decoder("mi", sfreq=100, tmin=-0.5, window=(0.0, 1.5)),
        # Resampled before: the rate is not that of the data set any more.
        DecodingPipeline(
            [
                ("resampled", FunctionTransformer(lambda X: X[..., ::2])),
                ("filterbank", FilterBankCovariances(50, bands="8-20")),
                ("classifier", TokenDiscriminantClassifier()),
            ]
        ),
    ],
)
def test_the_right_clock_is_not(method: BaseEstimator) -> None:
    assert score(method, sfreq=100, tmin=-0.5) > 0.5
