"""Straightforward implementations that ours are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self

import mne
import numpy as np
import scipy.linalg
import scipy.signal
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pyriemann.estimation import Covariances
from pyriemann.geometry.base import logm
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from spdtokens.classifiers.nn import STANDARD, SPDTokenTransformer, TransformerConfig
from spdtokens.datasets import Dataset, Recording
from spdtokens.preprocessing import Band, resolve_bands
from spdtokens.preprocessing.filters import butterworth


@cache
def _triangle(d: int, of_tensors: bool) -> Any:
    """Cached indices of the upper triangle, as tensors that autograd can save."""
    with torch.inference_mode(False):
        return tuple(torch.triu_indices(d, d)) if of_tensors else np.triu_indices(d)


def upper(M: Any) -> Any:
    """Upper triangle, shape (..., d (d + 1) / 2), of arrays or tensors (..., d, d)."""
    rows, columns = _triangle(M.shape[-1], isinstance(M, Tensor))
    return M[..., rows, columns]


def _eigh_token(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def tokens(C: Tensor) -> Tensor:
        eigenvalues, V = torch.linalg.eigh(C)
        return upper((V * function(eigenvalues).unsqueeze(-2)) @ V.mT)

    return tokens


#: Tokens by ``torch.linalg.eigh``, gradients by autograd.
TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "log": _eigh_token(torch.log),
    "sqrt": _eigh_token(torch.sqrt),
    "raw": upper,
}


def loop_tokens(X: NDArray[Any], sfreq: float) -> NDArray[np.float64]:
    """Loop over trials: filter with MNE, covariance with NumPy, logarithm with SciPy."""
    bands = resolve_bands("paper3")

    def token(trial: NDArray[Any], band: Band) -> NDArray[np.float64]:
        filtered = mne.filter.filter_data(trial, sfreq, band.low, band.high, verbose="error")
        return upper(scipy.linalg.logm(np.cov(filtered)))

    return np.array([[token(trial, band) for band in bands] for trial in X])


def vectorised_tokens(X: NDArray[Any], sfreq: float) -> NDArray[np.float64]:
    """Vectorised over trials: filter with SciPy, covariance and logarithm with pyRiemann."""
    filtered = (
        scipy.signal.sosfiltfilt(butterworth(band, sfreq), X) for band in resolve_bands("paper3")
    )
    return np.stack([upper(logm(Covariances("cov").transform(x))) for x in filtered], 1)


class ObviousTransformer(nn.Module):
    """Algorithm 1 of the paper, built from the layers of torch."""

    def __init__(
        self, n_features: int, n_tokens: int, n_classes: int, config: TransformerConfig = STANDARD
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
        """Copy the weights of one of our networks, which has BN-Embed."""
        obvious = cls(model.n_features, model.n_tokens, model.n_classes, model.config)
        weights = {k: v for k, v in model.state_dict().items() if not k.startswith("blocks.")}
        for i, block in enumerate(model.blocks):
            renamed = _as_torch_names(block.state_dict())
            weights |= {f"encoder.layers.{i}.{name}": value for name, value in renamed.items()}
        obvious.load_state_dict(weights)
        return obvious

    def forward(self, tokens: Tensor) -> Tensor:
        """Return class scores (n, classes) of tokens (n, tokens, features)."""
        x = self.project(tokens) + self.positions
        x = self.bn_embed(x.flatten(0, 1)).view_as(x)
        return self.head(self.encoder(x).mean(1))


def _as_torch_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of our encoder block as in ``nn.TransformerEncoderLayer``."""
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


def obvious_training(
    inputs: Tensor, labels: Tensor, embed: Callable[[Tensor], Tensor], batch_size: int
) -> Callable[[], None]:
    """Return a function that trains one run for one epoch: DataLoader, forward, backward, Adam.

    Parameters
    ----------
    inputs : Tensor, shape (n, ...)
        Covariances, or tokens if ``embed`` is the identity.
    labels : Tensor, shape (n,)
        Class of each trial.
    embed : callable
        Computes tokens (batch, tokens, features) of each batch inside the loop.
    batch_size : int
        Number of trials per batch.

    Returns
    -------
    callable
        Trains for one epoch.
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


class LivePeer:
    """Filter with SciPy, tangent space with pyRiemann, logistic regression, fitted to a session.

    Band, window and covariance estimator are those of ``recommended``.
    """

    recentring = None
    unit_in_volts = None
    about: Mapping[str, Any] = {}

    def __init__(self, dataset: Dataset, recording: Recording) -> None:
        assert dataset.sfreq is not None
        self.classes, self.ch_names, self.sfreq = dataset.classes, dataset.ch_names, dataset.sfreq
        self.n_samples = recording.X.shape[-1]
        first, last = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
        self.part = slice(first, last)
        self.filter = butterworth(resolve_bands([(8.0, 30.0)])[0], dataset.sfreq)
        self.pipeline = make_pipeline(
            Covariances("oas"), TangentSpace(), LogisticRegression(max_iter=1000)
        ).fit(self._filtered(recording.X), recording.y)

    def _filtered(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(scipy.signal.sosfiltfilt(self.filter, X))[..., self.part]

    def session(self) -> LivePeer:
        """Return itself, as it has no state."""
        return self

    def probabilities(self, window: NDArray[Any], learn: bool = True) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the class probabilities of one window (channels, samples)."""
        return np.asarray(self.pipeline.predict_proba(self._filtered(window[None])))[0]
