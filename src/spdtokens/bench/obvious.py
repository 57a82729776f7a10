"""The obvious way to train the token transformer: what everybody would write first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from spdtokens.classifiers.nn import STANDARD, SPDTokenTransformer, TransformerConfig


class ObviousTransformer(nn.Module):
    """Algorithm 1 of the paper, from torch's own layers.

    Parameters
    ----------
    n_features, n_tokens, n_classes : int
    config : TransformerConfig
    """

    def __init__(
        self,
        n_features: int,
        n_tokens: int,
        n_classes: int,
        config: TransformerConfig = STANDARD,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(n_features, config.d_model)
        self.positions = nn.Parameter(0.02 * torch.randn(n_tokens, config.d_model))
        self.bn_embed = nn.BatchNorm1d(config.d_model)
        layer = nn.TransformerEncoderLayer(
            config.d_model, config.n_heads, config.d_ff, config.dropout, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, config.n_layers)
        self.head = nn.Linear(config.d_model, n_classes)

    @classmethod
    def like(cls, model: SPDTokenTransformer) -> Self:
        """With the weights of one of our networks, which has BN-Embed."""
        obvious = cls(model.n_features, model.n_tokens, model.n_classes, model.config)
        weights = {k: v for k, v in model.state_dict().items() if not k.startswith("blocks.")}
        for i, block in enumerate(model.blocks):
            renamed = _as_torch_names(block)
            weights |= {f"encoder.layers.{i}.{name}": value for name, value in renamed.items()}
        obvious.load_state_dict(weights)
        return obvious

    def forward(self, tokens: Tensor) -> Tensor:
        """Class scores (n, classes) of tokens (n, tokens, features)."""
        x = self.project(tokens) + self.positions
        x = self.bn_embed(x.flatten(0, 1)).view_as(x)
        return self.head(self.encoder(x).mean(1))


def _as_torch_names(block: nn.Module) -> dict[str, Tensor]:
    """Weights of our encoder block under the names of ``nn.TransformerEncoderLayer``."""
    weights = block.state_dict()
    renamed = {}
    for kind in ("weight", "bias"):
        packed = [weights[f"attention.{part}.{kind}"] for part in ("query_key", "value")]
        renamed[f"self_attn.in_proj_{kind}"] = torch.cat(packed)
        renamed[f"self_attn.out_proj.{kind}"] = weights[f"attention.out.{kind}"]
        renamed[f"linear1.{kind}"] = weights[f"expand.{kind}"]
        renamed[f"linear2.{kind}"] = weights[f"contract.{kind}"]
        for norm in ("norm1", "norm2"):
            renamed[f"{norm}.{kind}"] = weights[f"{norm}.{kind}"]
    return renamed


def log_token(C: Tensor) -> Tensor:
    """Tokens (..., d (d + 1) / 2) of matrices (..., d, d) by ``torch.linalg.eigh``."""
    eigenvalues, V = torch.linalg.eigh(C)
    logarithm = (V * eigenvalues.clamp_min(1e-12).log().unsqueeze(-2)) @ V.mT
    upper = torch.triu_indices(C.shape[-1], C.shape[-1])
    return logarithm[..., upper[0], upper[1]]


def obvious_training(
    inputs: Tensor, labels: Tensor, embed: Callable[[Tensor], Tensor], batch_size: int
) -> Callable[[], None]:
    """A function that trains one run for one epoch: DataLoader, forward, backward, Adam.

    Parameters
    ----------
    inputs : Tensor, shape (n, ...)
        Covariances, or tokens if ``embed`` does nothing.
    labels : Tensor, shape (n,)
    embed : callable
        Applied to every batch inside the loop; gives tokens (batch, tokens, features).
    batch_size : int
    """
    n_tokens, n_features = embed(inputs[:1]).shape[1:]
    model = ObviousTransformer(n_features, n_tokens, int(labels.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size, shuffle=True)

    def epoch() -> None:
        model.train()
        for X, y in loader:
            loss = F.cross_entropy(model(embed(X)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch
