"""A trial in, class scores out: signal chain, embedding and transformer as one module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spdtokens.classifiers.nn.transformer import (
    STANDARD,
    SPDTokenTransformer,
    TransformerConfig,
    geometric_bias,
)
from spdtokens.errors import ModelError
from spdtokens.geometry import Embedding, Floor, TokenEmbedding, get_embedding, token_dim
from spdtokens.geometry.embeddings import StackedEmbedding
from spdtokens.preprocessing.bands import (
    BandSpec,
    TokenPlan,
    Window,
    plan_tokens,
    refuse_short_windows,
)
from spdtokens.preprocessing.covariance import (
    paper_regularisation,
    relative_regularisation,
    sample_covariance,
)
from spdtokens.preprocessing.filterbank import FilterBankCovariances
from spdtokens.preprocessing.filters import zero_phase_tensor


class TrialTransformer(nn.Module):
    """Raw trials or covariances in, class scores out, differentiable to the input.

    The steps are those of :class:`~spdtokens.FilterBankCovariances` (zero-phase bands, windows,
    sample covariance, regularisation) and :class:`~spdtokens.TokenEmbedding`, then
    :class:`SPDTokenTransformer`. Everything up to the tokens is computed in float64; tokens are
    cast to the dtype of the network. The names of the first parameters are braindecode's, so that
    its ``EEGClassifier`` can fill them in.

    Parameters
    ----------
    n_chans, n_outputs : int
        Channels and classes. ``chs_info`` stands in for ``n_chans``, ``network`` for ``n_outputs``.
    n_times : int, optional
        Samples of a trial. Needed for raw trials.
    sfreq : float, optional
        Samples a second. Needed for raw trials; without it the input is taken as covariances.
    chs_info : sequence, optional
        One entry a channel; only counted (braindecode passes it for MNE epochs).
    n_tokens : int, optional
        Matrices of a trial, when these are the input; 1 by default.
    bands, windows, tmin, stimulus_hz, regularisation, unit_in_volts
        As in :class:`~spdtokens.FilterBankCovariances`.
    scale : float
        What covariances are divided by. For signals in volts give 1e-12, which makes them
        microvolts: BN-Embed adds 1e-5 to a variance, in which square-root and raw tokens would
        vanish.
    embedding : str or Embedding
        A name, or an embedding already fitted: ``'affine_invariant'`` needs a reference.
    isometric : bool
        Off-diagonal entries times sqrt 2. For an embedding by name.
    floor : {'relative', 'paper'}
        Least eigenvalue, for an embedding by name.
    config : TransformerConfig
        By default the paper's standard network.
    network : SPDTokenTransformer, optional
        Used, not copied, instead of a new one built from ``config``.
    generator : torch.Generator, optional
        Draws the initial weights; torch's global one by default.

    Notes
    -----
    Tokens are computed anew in every epoch. To train many runs fast, compute tokens once, train on
    them and put the result together with :meth:`from_parts`.

    Values are not searched for flat or doubled channels, as ``FilterBankCovariances`` does: do it
    once, before training.

    Gradients can be taken once (see :func:`spdtokens.geometry.spectral`). With geometric attention
    they do not flow through the distances between a trial's matrices, which count as constants.
    """

    reference: Tensor | None

    def __init__(
        self,
        n_chans: int | None = None,
        n_outputs: int | None = None,
        n_times: int | None = None,
        sfreq: float | None = None,
        *,
        chs_info: Sequence[Any] | None = None,
        n_tokens: int | None = None,
        bands: BandSpec | None = None,
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_hz: Sequence[float] = (),
        embedding: str | Embedding = "log_euclidean",
        regularisation: float | Literal["paper"] = 1e-6,
        unit_in_volts: float | None = None,
        scale: float = 1.0,
        isometric: bool = False,
        floor: Literal["relative", "paper"] = "relative",
        config: TransformerConfig = STANDARD,
        network: SPDTokenTransformer | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n_chans is None and chs_info is not None:
            n_chans = len(chs_info)
        if n_outputs is None and network is not None:
            n_outputs = network.n_classes
        if n_chans is None or n_outputs is None:
            missing = "n_chans" if n_chans is None else "n_outputs"
            raise ModelError(f"{missing} is needed to build the network.")
        if not scale > 0:
            raise ModelError(f"scale must be > 0, got {scale!r}.")
        self.n_chans, self.n_outputs, self.n_times, self.sfreq = n_chans, n_outputs, n_times, sfreq
        self.regularisation, self.unit_in_volts = regularisation, unit_in_volts
        self.scale = scale
        self.plan: TokenPlan | None = None
        self.n_tokens = n_tokens or 1
        # braindecode reports the last axis as n_times, whatever it holds.
        if sfreq is None and n_times not in (None, n_chans):
            raise ModelError(
                f"Arrays of {n_chans} x {n_times} are raw trials: pass sfreq, the sampling rate."
            )
        if sfreq is not None:
            if n_times is None:
                raise ModelError("With sfreq trials are raw: pass n_times, their samples.")
            self.plan = plan_tokens(
                sfreq=sfreq,
                n_samples=n_times,
                bands=bands,
                windows=windows,
                tmin=tmin,
                stimulus_hz=stimulus_hz,
            )
            refuse_short_windows(self.plan, n_chans)
            self.n_tokens = len(self.plan.names)
        if isinstance(embedding, str):
            least = Floor.paper() if floor == "paper" else Floor()
            embedding = get_embedding(embedding, isometric=isometric, floor=least)
        self.embedding = embedding
        # A buffer, so that it is saved and moved with the weights.
        self.register_buffer("reference", getattr(embedding, "reference", None))
        if embedding.needs_fit and self.reference is None:
            raise ModelError(
                f"The embedding {embedding.name!r} needs a reference from training trials: fit a "
                "TokenEmbedding and use TrialTransformer.from_parts."
            )
        self.network = network or SPDTokenTransformer(
            token_dim(n_chans), self.n_tokens, n_outputs, config, generator=generator
        )

    @classmethod
    def from_parts(
        cls,
        filterbank: FilterBankCovariances | None,
        embedding: TokenEmbedding,
        network: SPDTokenTransformer,
    ) -> Self:
        """One module of fitted steps and a network trained on their tokens.

        Parameters
        ----------
        filterbank : FilterBankCovariances, or None
            Fitted, with zero-phase filters and the sample covariance; None for matrices.
        embedding : TokenEmbedding
            Fitted, of one kind of tokens.
        network : SPDTokenTransformer
            Used, not copied: the module is in training mode if the network is.

        Raises
        ------
        ModelError
            Naming the step through which no gradient can be taken.
        """
        check_is_fitted(embedding)
        if isinstance(embedding.embedding_, StackedEmbedding):
            raise ModelError(
                f"A module has one embedding, got {', '.join(embedding.names)}: name one of them."
            )
        signal: dict[str, Any] = {"n_tokens": embedding.n_tokens_}
        if filterbank is not None:
            check_is_fitted(filterbank)
            _refuse_undifferentiable(filterbank)
            signal = {
                "n_times": filterbank.n_samples_,
                "sfreq": filterbank.sfreq,
                "bands": filterbank.bands_,
                "windows": filterbank.windows_,
                "tmin": filterbank.tmin,
                "regularisation": filterbank.regularisation,
                "unit_in_volts": filterbank.unit_in_volts,
            }
            if filterbank.estimator == "paper":
                signal["regularisation"] = "paper"
        module = cls(
            embedding.n_features_in_,
            embedding=embedding.embedding_,
            scale=embedding.scale_,
            network=network,
            **signal,
        )
        module.training = network.training
        return module

    def covariances(self, X: Tensor) -> Tensor:
        """Covariance matrices (n, tokens, d, d), in float64, of trials or covariances."""
        d = self.n_chans
        if self.plan is None and self.n_tokens == 1 and X.ndim == 3:
            X = X[:, None]
        expected = (self.n_tokens, d, d) if self.plan is None else (d, self.n_times)
        if X.shape[1:] != expected:
            kind = "covariances" if self.plan is None else "trials"
            shape = ", ".join(map(str, expected))
            raise ModelError(f"Expected {kind} (n, {shape}), got a shape of {tuple(X.shape)}.")
        C = X.double()
        if self.plan is not None:
            assert self.sfreq is not None
            bands = zero_phase_tensor(C, self.plan.bands, self.sfreq)
            pieces = [band[..., a:b] for band in bands for a, b in self.plan.slices]
            C = torch.stack([sample_covariance(piece) for piece in pieces], 1)
        if self.regularisation == "paper":
            C = paper_regularisation(C, self.unit_in_volts)
        elif self.plan is not None:  # given covariances were regularised by whoever made them
            C = relative_regularisation(C, self.regularisation)
        return C / self.scale

    def tokens(self, X: Tensor) -> Tensor:
        """Tokens (n, tokens, features), in float64, of trials or covariances."""
        return self._embed(self.covariances(X))

    def forward(self, X: Tensor) -> Tensor:
        """Class scores (n, classes) before the softmax.

        Parameters
        ----------
        X : Tensor, shape (n, channels, samples)
            Without ``sfreq`` (n, d, d) or (n, tokens, d, d).
        """
        C = self.covariances(X)
        dtype = self.network.head.weight.dtype
        config, bias = self.network.config, None
        if config.attention == "geometric" and self.n_tokens > 1:
            bias = geometric_bias(C, config.alpha).to(dtype)
        return self.network(self._embed(C).to(dtype), bias)

    def _embed(self, C: Tensor) -> Tensor:
        if self.reference is None:
            return self.embedding.to_token(C)
        change: dict[str, Any] = {"reference": self.reference}  # not every embedding has one
        return replace(self.embedding, **change).to_token(C)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # The network may go to half precision; the reference of an embedding may not, where a
        # covariance of 1e-10 square volts would vanish.
        exact = self.reference
        super()._apply(fn, recurse)
        if exact is not None and self.reference is not None:
            self.reference = exact.to(self.reference.device)
        return self


def _refuse_undifferentiable(filterbank: FilterBankCovariances) -> None:
    """Refuse a filter bank through which no gradient can be taken."""
    differentiable = {
        "filtering": filterbank.filtering == "zero-phase",
        "estimator": filterbank.estimator in ("sample", "paper"),
        "decimate": not filterbank.decimate,
        "delays": not filterbank.delays,
    }
    for name, fine in differentiable.items():
        if not fine:
            raise ModelError(
                f"The filter bank has {name}={getattr(filterbank, name)!r}, through which no "
                "gradient can be taken: use zero-phase filters and the sample covariance, without "
                "decimation and delays, or build the module on matrices."
            )


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
        asked = repeat(None) if classes is None else classes.split(batch_size)
        pairs = zip(X.split(batch_size), asked, strict=False)
        product = torch.cat([gradient_times_input(module, *pair) for pair in pairs])
    finally:
        for part, training in modes:  # one by one: some may have been frozen
            part.training = training
    effect = product.sum(-1)
    if X.shape[-1] == X.shape[-2]:
        effect = effect + product.sum(-2)
    return (effect if effect.ndim == 2 else effect.sum(1)).abs().cpu().numpy()


def gradient_times_input(
    score: Callable[[Tensor], Tensor], X: Tensor, classes: Tensor | None = None
) -> Tensor:
    """Input times the gradient of a class's margin over the mean, in float64, like ``X``.

    Without ``classes`` the margins are those of the classes predicted.
    """
    X = X.detach().clone().requires_grad_()
    with torch.enable_grad():
        scores = score(X)
        if classes is None:
            classes = scores.argmax(-1)
        elif bool(((classes < 0) | (classes >= scores.shape[-1])).any()):
            raise ModelError(
                f"Labels must be class numbers from 0 to {scores.shape[-1] - 1}, got "
                f"{int(classes.min())} to {int(classes.max())}."
            )
        margin = scores.gather(-1, classes[:, None]) - scores.mean(-1, keepdim=True)
        # Trials do not mix in evaluation, so the gradient of the sum is that of each.
        (gradient,) = torch.autograd.grad(margin.sum(), X)
    return (gradient * X.detach()).double()
