"""Shapes of the networks, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spdtokens._errors import UserError

Attention = Literal["standard", "geometric"]


class ModelError(UserError):
    """A network that cannot be built; the message names the culprit and the remedy."""


@dataclass(frozen=True)
class TransformerConfig:
    """Everything about a token transformer but the shape of its data.

    Attributes
    ----------
    d_model : int
        Width of the residual stream.
    n_layers, n_heads, d_ff : int
        Encoder blocks, attention heads of each, width of their feed-forward parts.
    dropout : float
        Probability of dropping an entry, in [0, 1).
    bn_embed : bool
        Whether projected tokens are batch-normalised (the paper's BN-Embed).
    attention : {'standard', 'geometric'}
        ``'geometric'`` lowers the score of two tokens by ``alpha`` times the Bures-Wasserstein
        distance of their matrices.
    alpha : float
    """

    d_model: int = 128
    n_layers: int = 6
    n_heads: int = 8
    d_ff: int = 256
    dropout: float = 0.1
    bn_embed: bool = True
    attention: Attention = "standard"
    alpha: float = 0.5

    def __post_init__(self) -> None:
        for name in ("d_model", "n_layers", "n_heads", "d_ff"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ModelError(f"{name} is a whole number of at least 1, not {value!r}.")
        if self.d_model % self.n_heads:
            fitting = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            raise ModelError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}: every head gets "
                f"an equal part of the width. Heads that fit: {', '.join(map(str, fitting))}."
            )
        if not 0 <= self.dropout < 1:
            raise ModelError(f"dropout is a probability in [0, 1), not {self.dropout!r}.")
        if self.attention not in ("standard", "geometric"):
            raise ModelError(f"attention is 'standard' or 'geometric', not {self.attention!r}.")


#: The paper's networks: for BCI2a and BCIcha, and for MAMEM.
STANDARD = TransformerConfig()
SMALL = TransformerConfig(d_model=64, n_layers=4, n_heads=4, d_ff=128)
