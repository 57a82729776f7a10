"""Tokens of what spatial filters of the classes pass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import pad

from spdtokens._labels import as_labels
from spdtokens.geometry.arrays import as_tensor
from spdtokens.geometry.embeddings.base import Embedding, check_fitted_shape
from spdtokens.geometry.matrix_functions import LOG, spectral
from spdtokens.geometry.validation import check_spd

#: Filters a class, where there are channels enough.
PER_CLASS = 2
#: Of the mean variance, added to every variance that is compared: along directions that carry
#: hardly anything, as after an average reference, ratios would be chance.
SHRINKAGE = 0.003

Array = NDArray[np.float64]


def class_filters(C: Array, y: ArrayLike) -> Array:
    """Directions along which the variance of a class differs most from that of all.

    Common spatial patterns of each class against all of them (of two classes those of one, which
    are those of the other). Every trial counts alike, however strong, and so does every class.

    Parameters
    ----------
    C : ndarray, shape (n, d, d) or (n, tokens, d, d)
    y : array, shape (n,)

    Returns
    -------
    F : ndarray, shape (k, d) or (tokens, k, d)
        Two of each class where there are channels enough, else one, and never more than ``d``;
        those that differ most of each class come first.
    """
    y = np.asarray(y)
    names = np.unique(y)
    d = C.shape[-1]
    shares = C / np.trace(C, axis1=-2, axis2=-1)[..., None, None]
    means = np.stack([shares[y == name].mean(0) for name in names])
    means += SHRINKAGE / d * np.eye(d)
    whitener = np.linalg.inv(np.linalg.cholesky(means.mean(0)))
    per_class = max(1, min(PER_CLASS, d // len(names)))
    if len(names) == 2:
        means, per_class = means[:1], min(2 * per_class, d)
    means = means[:d]  # one filter of each of more classes would be more than channels
    ratios, V = np.linalg.eigh(whitener @ means @ whitener.swapaxes(-1, -2))
    unlike = np.argsort(-np.abs(np.log(ratios)), axis=-1, kind="stable")[..., None, :per_class]
    found = np.take_along_axis(V, unlike, axis=-1).swapaxes(-1, -2) @ whitener
    # From (classes, ..., filters, d): the first filter of every class, then the second.
    F = np.moveaxis(found, (-2, 0), (-3, -2)).reshape(*C.shape[1:-2], -1, d)[..., :d, :]
    # Which way a filter points is chance: its largest entry is positive.
    largest = np.take_along_axis(F, np.abs(F).argmax(-1)[..., None], axis=-1)
    return np.asarray(F * np.sign(largest))


@dataclass(frozen=True)
class ClassFilters(Embedding):
    """``triu(log(F C F'))`` with spatial filters ``F`` of the classes, fitted on training trials.

    The ``k`` filters are those of :func:`class_filters`. The token is as long as that of any other
    embedding, with zeros for what is beyond the ``k x k`` matrix; with fewer filters than channels
    no matrix can be had back from it.

    Scale law: ``to_token(s C) = to_token(C) + log(s) I`` within the ``k x k`` matrix, at fixed
    filters, which do not depend on the scale of trials.
    """

    name: ClassVar[str] = "class_filters"
    needs_fit: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True

    filters: Tensor | None = field(default=None, compare=False, repr=False)

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:
        """Return a copy with the filters of labelled training matrices.

        Parameters
        ----------
        C : Tensor or ndarray, shape (n, d, d) or (n, tokens, d, d)
            With tokens, each token gets filters of its own.
        y : array, shape (n,)
        """
        C = as_tensor(C).detach().double()
        check_spd(C)
        made = class_filters(C.cpu().numpy(), as_labels(y, len(C), who="'class_filters'"))
        return replace(self, filters=torch.from_numpy(made).to(C.device))

    def embed(self, C: Tensor) -> Tensor:
        if self.filters is None:
            raise RuntimeError(
                "The class_filters embedding needs filters: call `fit` with labelled training "
                "matrices (never test ones) and use the embedding it returns."
            )
        F = self.filters.to(C.device)
        check_fitted_shape("filter bank", F, C)
        logs = spectral(F @ C.double() @ F.mT, LOG, floor=self.floor, dtype=C.dtype)
        beyond = C.shape[-1] - F.shape[-2]
        return pad(logs, (0, beyond, 0, beyond))

    def unembed(self, M: Tensor) -> Tensor:
        raise NotImplementedError(
            "Matrices cannot be had back from tokens of 'class_filters': what no filter passes is "
            "not in them."
        )
