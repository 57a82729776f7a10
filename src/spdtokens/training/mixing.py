"""The heart of attention: scores, softmax, weighted sum; forward and backward.

Queries, keys and values are (runs, heads, head width, tokens, trials). With few tokens, as EEG
has, every pair of tokens is a row of trials, and all is done on such rows; with many tokens the
matrices of each trial are multiplied instead, which needs them reordered first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: Tokens from which matrix products, reordering included, beat products of rows.
MANY_TOKENS = 8

Notes = tuple[Tensor, ...]


def mix(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, Notes]:
    """Attend: (runs, heads, width, tokens, trials), and what the backward pass needs.

    Parameters
    ----------
    query, key, value : Tensor, shape (runs, heads, width, tokens, trials)
    bias : Tensor, shape (runs, 1, tokens, tokens, trials), optional
        Added to the scores.
    mask : Tensor, shape (runs, heads, tokens, tokens, trials), optional
        Multiplied with the weights; rows attend to columns.
    """
    scores = _contract_width(query, key).mul_(1 / math.sqrt(query.shape[2]))
    if bias is not None:
        scores.add_(bias)
    weights = scores.softmax(3)
    dropped = weights if mask is None else weights * mask
    notes = (query, key, value, weights, dropped, *(() if mask is None else (mask,)))
    return _weigh(dropped, value), notes


def mix_backward(
    d_mixed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: Tensor,
    dropped: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of queries and keys, stacked (runs, 2, heads, width, ...), and of values."""
    d_value = _weigh(dropped.transpose(2, 3), d_mixed)
    d_weights = _contract_width(d_mixed, value)
    if mask is not None:
        d_weights.mul_(mask)
    d_weights.mul_(weights)
    d_scores = d_weights.sub_(weights * d_weights.sum(3, keepdim=True))
    d_scores.mul_(1 / math.sqrt(query.shape[2]))
    d_query = _weigh(d_scores, key)
    d_key = _weigh(d_scores.transpose(2, 3), query)
    return torch.stack([d_query, d_key], 1), d_value


def _contract_width(a: Tensor, b: Tensor) -> Tensor:
    """Products of token i of ``a`` with token j of ``b``: (runs, heads, i, j, trials)."""
    if a.shape[3] >= MANY_TOKENS:
        pairs = a.permute(0, 1, 4, 3, 2) @ b.permute(0, 1, 4, 2, 3)
        return pairs.permute(0, 1, 3, 4, 2).contiguous()
    return (a.unsqueeze(4) * b.unsqueeze(3)).sum(2)


def _weigh(weights: Tensor, x: Tensor) -> Tensor:
    """Sums over tokens j of ``weights[i, j] x[j]``: (runs, heads, width, i, trials)."""
    if x.shape[3] >= MANY_TOKENS:
        mixed = x.permute(0, 1, 4, 2, 3) @ weights.permute(0, 1, 4, 3, 2)
        return mixed.permute(0, 1, 3, 4, 2).contiguous()
    return (weights.unsqueeze(2) * x.unsqueeze(3)).sum(4)
