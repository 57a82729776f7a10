"""Which channels a decision rests on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from spdtokens.errors import ModelError


def channel_saliency(
    module: nn.Module, X: Any, y: ArrayLike | None = None, *, batch_size: int = 64
) -> NDArray[np.float64]:
    r"""How much a class score hangs on the gain of each channel: gradient times input, in size.

    .. math:: \left|\, \partial s / \partial \log g_c \,\right|
              = \Big|\, \sum_t X_{ct}\, \partial s / \partial X_{ct} \Big|

    where :math:`g_c` multiplies channel :math:`c` and :math:`s` is the score of a class less the
    mean over classes (adding one number to all scores changes no decision). Summing over time
    before taking the size leaves out what the gradient does to single samples by chance; units and
    offsets of channels do not matter to a :class:`TrialTransformer`.

    Parameters
    ----------
    module : nn.Module
        From trials to class scores, such as :class:`TrialTransformer`. Evaluated without dropout
        and left in the mode it was in.
    X : Tensor or ndarray, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        What the module takes. Square arrays are covariances, where a gain multiplies a row and a
        column.
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
    X = torch.as_tensor(X)
    classes = None if y is None else torch.as_tensor(np.asarray(y), device=X.device).long()
    if classes is not None and classes.shape != X.shape[:1]:
        raise ModelError(f"There are {len(X)} trials but labels of shape {tuple(classes.shape)}.")
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        batches = [slice(i, i + batch_size) for i in range(0, len(X), batch_size)]
        found = [_of_batch(module, X[b], None if classes is None else classes[b]) for b in batches]
    finally:
        for part, training in modes:  # one by one: some may have been frozen
            part.training = training
    return torch.cat(found).cpu().numpy()


def _of_batch(module: nn.Module, X: Tensor, classes: Tensor | None) -> Tensor:
    X = X.detach().clone().requires_grad_()
    with torch.enable_grad():
        scores = module(X)
        if classes is None:
            classes = scores.argmax(-1)
        elif bool(((classes < 0) | (classes >= scores.shape[-1])).any()):
            raise ModelError(
                f"Labels are class numbers from 0 to {scores.shape[-1] - 1}, got "
                f"{int(classes.min())} to {int(classes.max())}."
            )
        margin = scores.gather(-1, classes[:, None]) - scores.mean(-1, keepdim=True)
        # Trials do not mix in evaluation, so the gradient of the sum is that of each.
        (gradient,) = torch.autograd.grad(margin.sum(), X)
    product = (gradient * X.detach()).double()
    effect = product.sum(-1)
    if X.shape[-1] == X.shape[-2]:
        effect = effect + product.sum(-2)
    return (effect if effect.ndim == 2 else effect.sum(1)).abs()
