"""The same function for NumPy arrays and torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spdtokens.runtime.threads import one_thread

# Rules that let our autograd functions run under ``torch.func.vmap``.


def batch_first(x: Tensor, dim: int | None) -> Tensor:
    """Bring the axis that vmap maps over to the front; add one of length 1 if there is none.

    Our functions act on trailing axes and broadcast over leading ones, so this is all that vmap
    asks of them.
    """
    return x.unsqueeze(0) if dim is None else x.movedim(dim, 0)


def as_tensor(x: Any) -> Any:
    """A tensor that shares memory with the array where it can; anything else unchanged."""
    if not isinstance(x, np.ndarray):
        return x
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    # torch has no negative strides and warns of read-only memory.
    return torch.from_numpy(x if x.flags.writeable and min(x.strides, default=0) >= 0 else x.copy())


def numpy_too(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of tensors take NumPy arrays, and then return NumPy arrays.

    Tensors pass through untouched, gradients and all. The function itself is written, and typed,
    for tensors.
    """

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if not any(isinstance(x, np.ndarray) for x in given):
            return function(*args, **kwargs)
        if any(isinstance(x, Tensor) for x in given):
            raise TypeError("Mixing NumPy arrays and torch tensors: convert one to the other.")
        with torch.no_grad(), one_thread():
            out = function(
                *(as_tensor(x) for x in args), **{k: as_tensor(x) for k, x in kwargs.items()}
            )
        return out.numpy() if isinstance(out, Tensor) else out

    return wrapper
