"""Rules that let our autograd functions run under ``torch.func.vmap``."""

from __future__ import annotations

from torch import Tensor


def batch_first(x: Tensor, dim: int | None) -> Tensor:
    """Bring the axis that vmap maps over to the front; add one of length 1 if there is none.

    Our functions act on trailing axes and broadcast over leading ones, so this is all that vmap
    asks of them.
    """
    return x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
