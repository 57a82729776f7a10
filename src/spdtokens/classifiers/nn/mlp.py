"""A multilayer perceptron on the same tokens, to tell what the transformer adds."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spdtokens.classifiers.nn.transformer import UndrawnLinear, reset_linear
from spdtokens.errors import ModelError


class SPDTokenMLP(nn.Module):
    """Tokens side by side, then hidden layers (linear, batch norm, ReLU, dropout), then a head.

    Parameters
    ----------
    n_features, n_tokens, n_classes : int
    width : int
        Of each hidden layer; see :func:`matching_width`.
    n_layers : int
        Hidden layers.
    dropout : float
    bn : bool
        Batch norm after each hidden linear layer.
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_classes: int,
        *,
        width: int = 512,
        n_layers: int = 3,
        dropout: float = 0.1,
        bn: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if min(n_features, n_tokens, width, n_layers) < 1 or n_classes < 2:
            raise ModelError(
                "Features, tokens, width and layers are at least 1 and classes at least 2, got "
                f"{n_features}, {n_tokens}, {width}, {n_layers} and {n_classes}."
            )
        self.n_features, self.n_tokens, self.n_classes = n_features, n_tokens, n_classes
        self.width, self.dropout = width, dropout
        sizes = [n_features * n_tokens] + [width] * n_layers
        self.hidden = nn.ModuleList([UndrawnLinear(a, b) for a, b in itertools.pairwise(sizes)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(n_layers)] if bn else [])
        self.head = UndrawnLinear(width, n_classes)
        # A batch norm takes out what is added to all trials: no gradient but rounding errors.
        for layer in self.hidden:
            layer.bias.requires_grad_(not bn)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                reset_linear(layer, generator)
        for norm in self.modules():
            if isinstance(norm, nn.BatchNorm1d):
                norm.reset_parameters()

    def forward(self, tokens: Tensor) -> Tensor:
        """Class scores (n, classes) of tokens (n, tokens, features)."""
        x = tokens.flatten(1)
        for i, layer in enumerate(self.hidden):
            x = layer(x)
            if len(self.norms):
                x = self.norms[i](x)
            x = F.dropout(F.relu(x), self.dropout, self.training)
        return self.head(x)


def matching_width(inputs: int, n_classes: int, n_parameters: int, n_layers: int = 3) -> int:
    """Width at which :class:`SPDTokenMLP` has about ``n_parameters`` weights.

    Solves ``(layers - 1) w^2 + (inputs + 3 layers + classes) w = n_parameters`` for the width,
    where the middle term holds the first and last layer, biases and batch norms.
    """
    a, b = n_layers - 1, inputs + 3 * n_layers + n_classes
    if a == 0:
        return max(1, round(n_parameters / b))
    return max(1, round((math.sqrt(b * b + 4 * a * n_parameters) - b) / (2 * a)))
