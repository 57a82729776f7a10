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
    r"""Compute the sensitivity of class scores to the gain of each channel.

    .. math:: \left|\, \partial s / \partial \log g_c \,\right|

    where :math:`g_c` multiplies channel :math:`c`, that is row and column :math:`c` of each
    covariance matrix, and :math:`s` is the score of a class minus the mean over classes.

    Parameters
    ----------
    module : nn.Module
        Module from matrices to class scores. It is evaluated without dropout and left in the mode
        it was in.
    X : Tensor or ndarray, shape (n, d, d) or (n, n_tokens, d, d)
        Covariance matrices.
    y : array of int, shape (n,), default=None
        Class numbers whose scores are explained. By default the predicted classes.
    batch_size : int, default=64
        Number of trials per backward pass.

    Returns
    -------
    ndarray, shape (n, d)
        Saliency of each channel in each trial. Single trials are noisy: average over trials before
        comparing channels.

    Raises
    ------
    ModelError
        If there is not one class number per trial, or a class does not exist.

    See Also
    --------
    spdtokens.classifiers.explain.channel_importance : Explain a fitted classifier.

    Notes
    -----
    A gradient describes the effect of a small change. In trials that are classified with a large
    margin, layer norms saturate in the direction that decided, and the deciding channel may have a
    small saliency: include trials of all kinds, or remove the channel and compare.

    Examples
    --------
    >>> import torch
    >>> from spdtokens.classifiers.nn import channel_saliency
    >>> from spdtokens.classifiers.nn.spdnet import SPDNet
    >>> X = torch.randn(10, 4, 50)
    >>> channel_saliency(SPDNet(4, 2), X @ X.mT / 50).shape
    (10, 4)
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
    """Differentiate class margins by log channel gains: (n, ..., d), in float64.

    The margin is the score of a class minus the mean over classes. Without ``y`` the class is the
    predicted one.
    """
    classes = None if y is None else torch.as_tensor(np.asarray(y), device=C.device).long()
    if classes is not None and classes.shape != C.shape[:1]:
        raise ModelError(f"y must have one label per trial ({len(C)}), got {tuple(classes.shape)}.")
    found: list[Tensor] = []
    for start in range(0, len(C), batch_size):
        part = C[start : start + batch_size]
        # At a gain of 1 the derivative by the gain equals that by its logarithm.
        gains = torch.ones(part.shape[:-1], dtype=C.dtype, device=C.device, requires_grad=True)
        with torch.enable_grad():
            scores = score(gains[..., :, None] * part * gains[..., None, :])
            asked = scores.argmax(-1) if classes is None else classes[start : start + batch_size]
            if not 0 <= int(asked.min()) <= int(asked.max()) < scores.shape[-1]:
                raise ModelError(
                    f"y must be class numbers from 0 to {scores.shape[-1] - 1}, got "
                    f"{int(asked.min())} to {int(asked.max())}."
                )
            margin = scores.gather(-1, asked[:, None]) - scores.mean(-1, keepdim=True)
            # Trials are independent in evaluation mode: the gradient of the sum is that of each.
            found += torch.autograd.grad(margin.sum(), gains)
    return torch.cat(found).double()
