"""What attends to what."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.explain.importance import AT_ONCE, channel_covariances, token_classifier
from spdtokens.classifiers.nn import geometric_bias
from spdtokens.errors import ReportError


def band_attention(model: BaseEstimator, X: ArrayLike) -> NDArray[np.float64]:
    """Mean attention weights between the tokens (bands) of trials.

    Parameters
    ----------
    model : estimator
        A fitted decoder or :class:`TokenTransformerClassifier`, with several tokens per trial.
    X : array
        Trials, or covariances, as the model predicts.

    Returns
    -------
    weights : ndarray, shape (tokens, tokens)
        Mean over trials, layers, heads and the networks of an ensemble. Rows attend to columns and
        sum to 1; without any preference all entries would be ``1 / tokens``.

    Raises
    ------
    ReportError
        If a trial has one token, which can only attend to itself, or there is no transformer.

    Notes
    -----
    Attention tells where values are taken from, not how much they matter to the class; for that see
    :func:`channel_importance`.
    """
    C, classifier = channel_covariances(model, X), token_classifier(model)
    if not isinstance(classifier, TokenTransformerClassifier):
        raise ReportError(
            f"{type(classifier).__name__} is not a transformer: its tokens do not attend."
        )
    assert classifier.embedding_ is not None
    tokens = classifier.embedding_.embedding_.to_token(C)
    n_tokens = tokens.shape[1]
    if n_tokens == 1:
        raise ReportError(
            "A trial has one token, which can only attend to itself. Use several bands or windows."
        )
    networks = classifier.networks_
    config = networks[0].config
    geometric = config.attention == "geometric"
    total = torch.zeros(n_tokens, n_tokens, dtype=torch.float64)
    with torch.inference_mode():
        for start in range(0, len(C), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            bias = geometric_bias(C[part], config.alpha).double() if geometric else None
            for network in networks:
                weights = network.attention_weights(tokens[part], bias)
                total += weights.mean((1, 2)).sum(0)
    found: NDArray[np.float64] = (total / (len(C) * len(networks))).numpy()
    return found
