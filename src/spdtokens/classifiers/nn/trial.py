"""A trial in, class scores out: signal chain, embedding and transformer as one module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spdtokens.classifiers.nn.geometric import geometric_bias
from spdtokens.classifiers.nn.transformer import STANDARD, SPDTokenTransformer, TransformerConfig
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
        self.n_chans = _agreed("n_chans", n_chans, None if chs_info is None else len(chs_info))
        self.n_outputs = _agreed(
            "n_outputs", n_outputs, None if network is None else network.n_classes
        )
        self.n_times, self.sfreq = n_times, sfreq
        self.regularisation, self.unit_in_volts = regularisation, unit_in_volts
        if not scale > 0:
            raise ModelError(f"scale is positive, not {scale!r}.")
        self.scale = scale
        self.plan: TokenPlan | None = None
        if sfreq is None:
            _refuse_raw(n_times, self.n_chans)
            self.n_tokens = 1 if n_tokens is None else n_tokens
        else:
            if n_times is None:
                raise ModelError("sfreq was given, so trials are raw: pass n_times, their samples.")
            self.plan = plan_tokens(
                sfreq=sfreq,
                n_samples=n_times,
                bands=bands,
                windows=windows,
                tmin=tmin,
                stimulus_hz=stimulus_hz,
            )
            refuse_short_windows(self.plan, self.n_chans)
            self.n_tokens = _agreed("n_tokens", n_tokens, len(self.plan.names))
        if isinstance(embedding, str):
            least = Floor.paper() if floor == "paper" else Floor()
            embedding = get_embedding(embedding, isometric=isometric, floor=least)
        self.embedding = embedding
        reference = getattr(embedding, "reference", None)
        _check_reference(embedding, reference, self.n_tokens, self.n_chans)
        # A buffer, so that it is saved and moved with the weights.
        self.register_buffer("reference", reference)
        if network is None:
            shape = (token_dim(self.n_chans), self.n_tokens, self.n_outputs)
            network = SPDTokenTransformer(*shape, config, generator=generator)
        _check_network(network, self.n_tokens, token_dim(self.n_chans))
        self.network = network

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
                f"There are {len(embedding.names)} embeddings of each matrix, and a module has "
                "one: pass the name of one, not a list."
            )
        parts: dict[str, Any] = {
            "embedding": embedding.embedding_,
            "scale": embedding.scale_,
            "network": network,
        }
        if filterbank is None:
            module = cls(embedding.n_features_in_, n_tokens=embedding.n_tokens_, **parts)
        else:
            check_is_fitted(filterbank)
            _refuse_undifferentiable(filterbank)
            paper = filterbank.estimator == "paper"
            module = cls(
                filterbank.n_features_in_,
                n_times=filterbank.n_samples_,
                sfreq=filterbank.sfreq,
                bands=filterbank.bands_,
                windows=filterbank.windows_,
                tmin=filterbank.tmin,
                regularisation="paper" if paper else filterbank.regularisation,
                unit_in_volts=filterbank.unit_in_volts,
                **parts,
            )
        module.training = network.training
        return module

    def covariances(self, X: Tensor) -> Tensor:
        """Covariance matrices (n, tokens, d, d), in float64, of trials or covariances."""
        X = self._checked(X).double()
        if self.plan is None:
            C = X if X.ndim == 4 else X[:, None]
        else:
            assert self.sfreq is not None
            bands = zero_phase_tensor(X, self.plan.bands, self.sfreq)
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

    def _checked(self, X: Tensor) -> Tensor:
        d = self.n_chans
        if self.plan is not None:
            fits = X.ndim == 3 and X.shape[1:] == (d, self.n_times)
            expected = f"trials (n, {d}, {self.n_times})"
        else:
            fits = X.ndim in (3, 4) and X.shape[1:] in ((d, d), (self.n_tokens, d, d))
            fits = fits and (X.ndim == 4 or self.n_tokens == 1)
            expected = f"covariances (n, {self.n_tokens}, {d}, {d})"
        if not fits:
            raise ModelError(f"Expected {expected}, got a tensor of shape {tuple(X.shape)}.")
        return X

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # The network may go to half precision; the reference of an embedding may not, where a
        # covariance of 1e-10 square volts would vanish.
        exact = self.reference
        super()._apply(fn, recurse)
        if exact is not None:
            assert self.reference is not None
            self.reference = exact.to(self.reference.device)
        return self


def _agreed(name: str, given: int | None, found: int | None) -> int:
    """One number from two sources, of which one may be silent."""
    if given is None and found is None:
        raise ModelError(f"{name} is needed to build the network.")
    if given is not None and found is not None and given != found:
        raise ModelError(f"{name}={given} was given, but the rest of the module has {found}.")
    value = given if given is not None else found
    assert value is not None
    return value


def _refuse_undifferentiable(filterbank: FilterBankCovariances) -> None:
    """Refuse steps through which no gradient can be taken."""
    if filterbank.delays:
        raise ModelError(
            f"The filter bank has delays={filterbank.delays}, and a module has none: leave them "
            "out."
        )
    for name, differentiable in (
        ("filtering", ("zero-phase",)),
        ("estimator", ("sample", "paper")),
        ("decimate", (False,)),
    ):
        found = getattr(filterbank, name)
        if found not in differentiable:
            raise ModelError(
                f"The filter bank has {name}={found!r}, through which no gradient can be taken: "
                f"only {name}={differentiable[0]!r} can become part of a module. For gradients to "
                "covariances, build the module on matrices."
            )


def _refuse_raw(n_times: int | None, n_chans: int) -> None:
    # braindecode reports the last axis as n_times, whatever it holds.
    if n_times is not None and n_times != n_chans:
        raise ModelError(
            f"Arrays of {n_chans} x {n_times} hold raw trials: pass sfreq, the samples a second."
        )


def _check_reference(
    embedding: Embedding, reference: Tensor | None, n_tokens: int, n_chans: int
) -> None:
    if not embedding.needs_fit:
        return
    if reference is None:
        raise ModelError(
            f"The embedding {embedding.name!r} needs a reference learnt from training trials. Pass "
            f"embedding=get_embedding({embedding.name!r}).fit(covariances), or fit a "
            "TokenEmbedding and use TrialTransformer.from_parts."
        )
    d = (n_chans, n_chans)
    if reference.shape not in (d, (n_tokens, *d)):
        raise ModelError(
            f"The embedding's reference has shape {tuple(reference.shape)}, but the module has "
            f"{n_tokens} tokens of {n_chans} channels."
        )


def _check_network(network: SPDTokenTransformer, n_tokens: int, n_features: int) -> None:
    if (network.n_tokens, network.n_features) != (n_tokens, n_features):
        raise ModelError(
            f"The network takes {network.n_tokens} tokens of {network.n_features} features, but "
            f"the trials give {n_tokens} of {n_features}."
        )
