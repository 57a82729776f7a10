r"""Fold a trained token transformer into few matrices, in float64.

What a trained network computes for one trial is mostly calls, not arithmetic: 32 linear layers and
12 layer norms, of some hundred rows each. Everything linear that stands side by side becomes one
matrix. All of it is exact algebra:

- BN-Embed and positions are part of the projection.
- The gain and shift of a layer norm are part of the linear maps that follow it, and its centring
  :math:`P = I - 11^\top / d` is part of those before it: what is left of the layer norm is a
  division by the length of a vector, ``y / sqrt(y.y / d + eps)``.
- A residual is a block of the matrix: ``x + W u + c`` is ``[I | c | W]`` times ``[x; 1; u]``.
- With one token, attention is the linear map ``Wo Wv``, and joins its residual; in the first block
  it joins the projection, too.
- ``1 / sqrt(d_head)`` is part of the queries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spdtokens.runtime.transformer import Array, FoldedBlock, FoldedTransformer, stored

if TYPE_CHECKING:
    from torch import nn

    from spdtokens.models.transformer import EncoderBlock, SelfAttention, SPDTokenTransformer


def folded(model: SPDTokenTransformer, dtype: DTypeLike = np.float32) -> FoldedTransformer:
    """Fold a network as it is now: in eval mode, whatever mode it is in.

    Parameters
    ----------
    model : SPDTokenTransformer
    dtype : dtype
        Of the result; the folding itself is done in float64.
    """
    project, offsets, blocks, head = _fold(model)
    return FoldedTransformer(
        stored(project, dtype),
        stored(offsets, dtype),
        tuple(block.astype(dtype) for block in blocks),
        stored(head, dtype),
        model.config.n_heads,
        model.config.attention == "geometric",
    )


def _fold(model: SPDTokenTransformer) -> tuple[Array, Array, tuple[FoldedBlock, ...], Array]:
    """Projection, offsets, blocks and head."""
    project, offsets = _folded_embedding(model)
    gain, shift = np.ones(len(project)), np.zeros(len(project))
    blocks: list[FoldedBlock] = []
    for block in cast("Iterable[EncoderBlock]", model.blocks):
        folded, gain, shift = _folded_block(block, gain, shift, model.n_tokens)
        blocks.append(folded)
    mix = blocks[0].mix
    if model.n_tokens == 1 and mix is not None:
        project, offsets = mix[:, :-1] @ project, mix[:, :-1] @ offsets + mix[:, -1:]
        blocks[0] = replace(blocks[0], mix=None)
    W, c = _linear(model.head)
    return project, offsets, tuple(blocks), _augmented(W * gain, W @ shift + c)


def _array(tensor: Any) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()


def _linear(layer: nn.Linear) -> tuple[Array, Array]:
    return _array(layer.weight), _array(layer.bias)


def _augmented(W: Array, *columns: Array) -> Array:
    """Matrix ``[W | ...]`` of vectors and matrices side by side."""
    return np.column_stack([W, *columns])


def _centred(W: Array) -> Array:
    """``P W``: what follows is a layer norm, which subtracts the mean over its rows."""
    return W - W.mean(0)


def _folded_embedding(model: SPDTokenTransformer) -> tuple[Array, Array]:
    """Projection (d_model, features) and offsets (d_model, tokens)."""
    W, c = _linear(model.project)
    offsets = c[:, None] + _array(model.positions).T
    bn = model.bn_embed
    if bn is None:
        return W, offsets
    scale = _array(bn.weight) / np.sqrt(_array(bn.running_var) + bn.eps)
    mean, shift = _array(bn.running_mean), _array(bn.bias)
    return W * scale[:, None], scale[:, None] * (offsets - mean[:, None]) + shift[:, None]


def _folded_attention(
    attention: SelfAttention, gain: Array, shift: Array, n_tokens: int
) -> tuple[Array | None, Array]:
    """``attend`` and ``mix`` of a block whose input is ``gain * z + shift``."""
    d = len(gain)
    Wqk, cqk = _linear(attention.query_key)
    Wv, cv = _linear(attention.value)
    Wo, co = _linear(attention.out)
    if n_tokens == 1:
        M = np.eye(d) + Wo @ Wv
        return None, _centred(_augmented(M * gain, M @ shift + Wo @ cv + co))
    W, c = np.concatenate([Wqk, Wv]), np.concatenate([cqk, cv])
    attend = _augmented(W * gain, W @ shift + c)
    attend[:d] /= math.sqrt(d // attention.n_heads)
    return attend, _centred(_augmented(np.diag(gain), shift + co, Wo))


def _folded_block(
    block: EncoderBlock, gain: Array, shift: Array, n_tokens: int
) -> tuple[FoldedBlock, Array, Array]:
    """A block whose input is ``gain * z + shift``; the gain and shift of its output."""
    attend, mix = _folded_attention(block.attention, gain, shift, n_tokens)
    gain, shift = _array(block.norm1.weight), _array(block.norm1.bias)
    W1, c1 = _linear(block.expand)
    W2, c2 = _linear(block.contract)
    folded = FoldedBlock(
        attend,
        mix,
        expand=_augmented(W1 * gain, W1 @ shift + c1),
        contract=_centred(_augmented(np.diag(gain), shift + c2, W2)),
        eps=(block.norm1.eps, block.norm2.eps),
    )
    return folded, _array(block.norm2.weight), _array(block.norm2.bias)
