"""Classical Riemannian classifiers, the ones to beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from spdtokens.signal import Tokenizer


def side_by_side(tokens: NDArray[Any]) -> NDArray[Any]:
    """Tokens (n, tokens, features) as vectors (n, tokens * features)."""
    return np.reshape(tokens, (len(tokens), -1))


def tangent_space_logistic(**tokenizer: Any) -> Pipeline:
    """TS+LR: every token in the tangent space at the training mean, then logistic regression.

    Parameters
    ----------
    **tokenizer
        Parameters of :class:`spdtokens.Tokenizer` but for the embedding.
    """
    return make_pipeline(
        Tokenizer("affine_invariant", **(tokenizer | {"isometric": True})),
        FunctionTransformer(side_by_side),
        LogisticRegression(max_iter=2000),
    )
