"""Trials in, classes out: the classifier most people want."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from spdtokens.models import geometric_bias
from spdtokens.models.config import Attention
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import BandSpec
from spdtokens.signal.tokenizer import Window
from spdtokens.training.classifier import TokenNetworkClassifier
from spdtokens.training.labels import encode


class SPDTokenClassifier(TokenNetworkClassifier):
    """Decode EEG trials, or their covariance matrices, with the SPD Token Transformer.

    Parameters
    ----------
    embedding, sfreq, bands, windows, tmin, stimulus_frequencies, filtering, covariance, \
n_filters, regularisation, unit_in_volts, unit_free, isometric, floor
        How trials become tokens: see :class:`spdtokens.Tokenizer`. Without ``sfreq`` the input is
        taken as covariance matrices. ``unit_free`` is on here: BN-Embed adds 1e-5 to a variance,
        in which square roots and raw entries of covariances in square volts would vanish.
    attention : {'standard', 'geometric'}, optional
        ``'geometric'`` lowers attention by ``alpha`` times the Bures-Wasserstein distance of two
        tokens' matrices; with one token a trial it changes nothing.
    alpha : float, optional
    preset, d_model, n_layers, n_heads, d_ff, dropout, bn_embed, epochs, batch_size, \
learning_rate, weight_decay, label_smoothing, keep, patience, validation, ensemble, \
random_state, device, verbose, checkpoint
        The network and its training: see
        :class:`spdtokens.training.TokenTransformerClassifier`.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    history_ : dict of str to ndarray, shape (ensemble, epochs)
        Curves: ``'train loss'``, ``'train accuracy'``, and of validation trials if there are any.
    tokenizer_ : Tokenizer
    networks_ : list of SPDTokenTransformer
    n_epochs_ : list of int
        The epoch, from 1, that was kept of each network.

    Examples
    --------
    >>> from spdtokens import SPDTokenClassifier, load_dataset
    >>> data = load_dataset("sim-mi")
    >>> trials = data.load("1", data.sessions("1")[0])
    >>> model = SPDTokenClassifier(sfreq=data.sfreq, epochs=2, random_state=42)
    >>> model.fit(trials.X, trials.y).predict_proba(trials.X[:5]).shape
    (5, 4)
    """

    def __init__(
        self,
        embedding: str = "log_euclidean",
        *,
        sfreq: float | None = None,
        bands: BandSpec = "broadband",
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_frequencies: Sequence[float] = (),
        filtering: Literal["zero-phase", "causal"] = "zero-phase",
        covariance: str = "sample",
        n_filters: int = 4,
        regularisation: float | Literal["paper"] = 1e-6,
        unit_in_volts: float | None = None,
        unit_free: bool = True,
        isometric: bool = False,
        floor: Literal["relative", "paper"] = "relative",
        attention: Attention | None = None,
        alpha: float | None = None,
        preset: str = "paper",
        d_model: int | None = None,
        n_layers: int | None = None,
        n_heads: int | None = None,
        d_ff: int | None = None,
        dropout: float | None = None,
        bn_embed: bool | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        label_smoothing: float | None = None,
        keep: Literal["last", "best"] | None = None,
        patience: int | None = None,
        validation: float | None = None,
        ensemble: int = 1,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.embedding = embedding
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_frequencies = stimulus_frequencies
        self.filtering = filtering
        self.covariance = covariance
        self.n_filters = n_filters
        self.regularisation = regularisation
        self.unit_in_volts = unit_in_volts
        self.unit_free = unit_free
        self.isometric = isometric
        self.floor = floor
        self.attention = attention
        self.alpha = alpha
        self.preset = preset
        self.d_model = d_model
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.d_ff = d_ff
        self.dropout = dropout
        self.bn_embed = bn_embed
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.keep = keep
        self.patience = patience
        self.validation = validation
        self.ensemble = ensemble
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        y : array, shape (n,)
        groups : array, shape (n,), optional
            Trials of one group, such as segments of one long trial, are never split between
            training and validation.
        """
        self._preset()  # a wrong setting is refused before the signal is worked on
        self.classes_, codes = encode(y, len(np.asarray(X)))
        self.tokenizer_ = self.make_tokenizer().fit(X, y)
        self.n_features_in_ = self.tokenizer_.n_features_in_
        tokens, bias = self._tokens(X)
        return self._fit_tokens(tokens, codes, bias, groups)

    def make_tokenizer(self) -> Tokenizer:
        """The tokenizer of these parameters, not fitted."""
        return Tokenizer(**{name: getattr(self, name) for name in Tokenizer().get_params()})

    def _tokens(self, X: ArrayLike) -> tuple[NDArray[Any], torch.Tensor | None]:
        check_is_fitted(self, "tokenizer_")
        C = self.tokenizer_.covariances(X)
        tokens = self.tokenizer_.embedding_.to_token(C)
        config = self._preset().config
        if config.attention == "standard" or C.shape[1] == 1:
            return tokens, None
        return tokens, geometric_bias(torch.from_numpy(C), config.alpha)
