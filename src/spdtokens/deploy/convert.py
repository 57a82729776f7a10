"""From fitted estimators to a decoder, which needs neither of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.fft
import torch

from spdtokens.deploy.errors import DeployError
from spdtokens.models.discriminant import TokenDiscriminant
from spdtokens.models.folding import folded
from spdtokens.runtime import Decoder
from spdtokens.runtime.matrices import Array, inverse_root
from spdtokens.runtime.networks import Discriminant, Network, Transformers
from spdtokens.runtime.signals import ESTIMATORS, Front, Prototype
from spdtokens.runtime.tokens import AT_REFERENCE, PRINCIPAL, Tokens
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import UNFILTERED
from spdtokens.signal.covariance import MICROVOLT, PAPER_EPSILON
from spdtokens.signal.filters import butterworth, decimated_length, reach, transform_length
from spdtokens.spd import matrix_dim
from spdtokens.spd.embeddings.principal import principal_axes
from spdtokens.training import SPDTokenClassifier


def make_decoder(
    front: Tokenizer | None,
    classifier: SPDTokenClassifier,
    *,
    classes: tuple[str, ...],
    ch_names: tuple[str, ...],
    unit_in_volts: float | None = None,
    recentring: Array | None = None,
    about: Mapping[str, Any] | None = None,
) -> Decoder:
    """A decoder that predicts what the estimators predict.

    Parameters
    ----------
    front : Tokenizer, or None
        Fitted to raw trials, for its covariances: that of ``classifier``, or another if
        ``classifier`` is fitted to covariances that were changed on the way, by recentring. None
        if there are no raw trials.
    classifier : SPDTokenClassifier
    classes : tuple of str
        Names of ``classifier.classes_``.
    ch_names : tuple of str
    unit_in_volts : float, optional
        Of the signals.
    recentring : ndarray, shape (matrices, d, d), optional
        Middle of the training sessions, if these were recentred.
    about : mapping, optional
        Kept in the model file as JSON.

    Raises
    ------
    DeployError
        For a covariance estimator that the runtime does not have.
    """
    tokenizer = classifier.tokenizer_
    d = matrix_dim(tokenizer.n_features_out_)
    return Decoder(
        classes=classes,
        ch_names=ch_names,
        sfreq=None if front is None else float(front.sfreq or 0),
        tmin=0.0 if front is None else float(front.tmin),
        unit_in_volts=unit_in_volts,
        front=None if front is None else _front(front),
        # The front has divided by its scale already.
        tokens=_tokens(tokenizer, 1.0 if front is tokenizer else tokenizer.scale_),
        network=_network(classifier),
        shape=(tokenizer.n_matrices_, d, d),
        recentring=recentring,
        about=about or {},
    )


def _front(tokenizer: Tokenizer) -> Front:
    if tokenizer.covariance not in ESTIMATORS:
        raise DeployError(
            f"A model with covariance={tokenizer.covariance!r} cannot be saved: the runtime has "
            f"{', '.join(ESTIMATORS)}."
        )
    assert tokenizer.sfreq is not None
    n, sfreq, bands = tokenizer.n_samples_, tokenizer.sfreq, tokenizer.bands_
    pad = reach(bands, sfreq, n)
    zero_phase = tokenizer.filtering == "zero-phase"
    # A causal filter has no samples to continue into: room for the products to end.
    length = transform_length(n, pad) if zero_phase else scipy.fft.next_fast_len(2 * n, real=True)
    paper = tokenizer.regularisation == "paper"
    absolute = 0.0
    if paper:
        assert tokenizer.unit_in_volts is not None  # it was fitted
        absolute = PAPER_EPSILON * (MICROVOLT / tokenizer.unit_in_volts) ** 2
    return Front(
        n_samples=n,
        filtering=tokenizer.filtering,
        sections=[None if band == UNFILTERED else butterworth(band, sfreq) for band in bands],
        passes_offset=[band.low is None for band in bands],
        pad=pad,
        length=length,
        decimated=[decimated_length(band, sfreq, length) for band in bands]
        if tokenizer.decimate
        else None,
        slices=tokenizer.token_plan_.slices,
        delays=tokenizer.delays_,
        covariance=tokenizer.covariance,
        prototypes=tuple(_prototype(*made.state()) for made in tokenizer.prototypes_),
        relative=0.0 if paper else float(tokenizer.regularisation),
        absolute=absolute,
        scale=tokenizer.scale_,
    )


def _prototype(scale: float, averages: Array, filters: Array | None = None) -> Prototype:
    return Prototype(np.asarray(averages), filters, float(scale))


def _tokens(tokenizer: Tokenizer, scale: float) -> Tokens:
    names = [tokenizer.embedding] if isinstance(tokenizer.embedding, str) else tokenizer.embedding
    state = tokenizer.state()
    reference = state["reference"]
    paper = tokenizer.floor == "paper"
    return Tokens(
        embeddings=tuple(names),
        isometric=tokenizer.isometric,
        relative=0.0 if paper else 1e-12,
        absolute=1e-12 if paper else 0.0,
        scale=scale,
        whiteners=inverse_root(reference) if any(name in AT_REFERENCE for name in names) else None,
        axes=_axes(reference) if PRINCIPAL in names else None,
        filters=state["filters"],
    )


def _axes(reference: Array) -> Array:
    return principal_axes(torch.from_numpy(reference)).numpy()


def _network(classifier: SPDTokenClassifier) -> Network:
    first = classifier.networks_[0]
    if isinstance(first, TokenDiscriminant):
        return Discriminant(first.weight.numpy(), first.bias.numpy())
    members = [folded(network) for network in classifier.networks_]  # type: ignore[arg-type]
    return Transformers(members, first.config.alpha)  # type: ignore[union-attr,arg-type]
