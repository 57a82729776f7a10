"""Gradients of class scores with respect to channel gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from spdtokens.errors import ModelError


def channel_saliency(
    module: nn.Module, X: Any, y: ArrayLike | None = None, *, batch_size: int = 64
) -> NDArray[np.float64]:
    r"""How much a class score hangs on the gain of each channel, in size.

    .. math:: \left|\, \partial s / \partial \log g_c \,\right|

    where :math:`g_c` multiplies channel :math:`c`, so row and column :math:`c` of each covariance
    matrix, and :math:`s` is the score of a class less the mean over classes (adding one number to
    all scores changes no decision).

    Parameters
    ----------
    module : nn.Module
        From matrices to class scores. Evaluated without dropout and left in the mode it was in.
    X : Tensor or ndarray, shape (n, d, d) or (n, tokens, d, d)
        Covariance matrices.
    y : array of int, shape (n,), optional
        Classes whose scores are asked about; by default those the module predicts.
    batch_size : int
        Trials at a time.

    Returns
    -------
    saliency : ndarray, shape (n, channels)
        Average over trials before comparing channels; single trials are noisy.

    Notes
    -----
    A gradient tells what a small change would do. In trials that are classified with great ease
    layer norms level off in just the direction that decided, and the channel that decided may show
    little saliency: look at trials of all kinds, or turn the channel off and see.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        effect = gain_gradient(module, torch.as_tensor(X), y, batch_size)
    finally:
        for part, training in modes:  # one by one: some may have been frozen
            part.training = training
    return (effect if effect.ndim == 2 else effect.sum(1)).abs().cpu().numpy()


def gain_gradient(
    score: Callable[[Tensor], Tensor], C: Tensor, y: ArrayLike | None, batch_size: int
) -> Tensor:
    """Derivative (n, ..., d), in float64, of a class's margin over the mean by log channel gains.

    Without ``y`` the margins are those of the classes predicted.
    """
    classes = None if y is None else torch.as_tensor(np.asarray(y), device=C.device).long()
    if classes is not None and classes.shape != C.shape[:1]:
        raise ModelError(f"There are {len(C)} trials but labels of shape {tuple(classes.shape)}.")
    found: list[Tensor] = []
    for start in range(0, len(C), batch_size):
        part = C[start : start + batch_size]
        # At gains of 1 the derivative by a gain is that by its logarithm.
        gains = torch.ones(part.shape[:-1], dtype=C.dtype, device=C.device, requires_grad=True)
        with torch.enable_grad():
            scores = score(gains[..., :, None] * part * gains[..., None, :])
            asked = scores.argmax(-1) if classes is None else classes[start : start + batch_size]
            if not 0 <= int(asked.min()) <= int(asked.max()) < scores.shape[-1]:
                raise ModelError(
                    f"Labels must be class numbers from 0 to {scores.shape[-1] - 1}, got "
                    f"{int(asked.min())} to {int(asked.max())}."
                )
            margin = scores.gather(-1, asked[:, None]) - scores.mean(-1, keepdim=True)
            # Trials do not mix in evaluation, so the gradient of the sum is that of each.
            found += torch.autograd.grad(margin.sum(), gains)
    return torch.cat(found).double()
