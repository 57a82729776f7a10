"""Trials in, classes out: the classifier most people want."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from spdtokens.models import geometric_bias
from spdtokens.models.config import Attention
from spdtokens.models.discriminant import FOLDS, RIDGE, Refit, fit_discriminant
from spdtokens.runtime.threads import one_thread
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import BandSpec, default_bands
from spdtokens.signal.covariance import PROTOTYPES
from spdtokens.signal.folds import folds_in_time
from spdtokens.signal.tokenizer import Window
from spdtokens.spd.embeddings import Embedding, Several
from spdtokens.training.classifier import OVERRIDES, TokenNetworkClassifier
from spdtokens.training.device import check_unused_device
from spdtokens.training.labels import encode
from spdtokens.training.presets import PRESETS
from spdtokens.training.recipe import TrainingError
from spdtokens.training.recommended import (
    EMBEDDINGS,
    GAINS,
    WITHOUT_LABELS,
    are_few,
    gain_drift,
    paradigm_of,
    recommended_tokens,
)

#: The preset that is no network.
RECOMMENDED = "recommended"
#: Options of the tokenizer: those the preset decides where they are None, and the others.
_BY_PRESET = (
    "embedding",
    "bands",
    "windows",
    "covariance",
    "cross_fit",
    "delays",
    "decimate",
    "isometric",
)
_AS_GIVEN = tuple(name for name in Tokenizer().get_params() if name not in _BY_PRESET)


class SPDTokenClassifier(TokenNetworkClassifier):
    """Decode EEG trials, or their covariance matrices, from tokens.

    Parameters
    ----------
    embedding : str or sequence of str, optional
        Kind of tokens, or several kinds, as in :class:`spdtokens.Tokenizer`; None for those of the
        preset. Those of ``recommended`` are four, without ``'class_filters'`` of no more trials
        than channels.
    sfreq : float, optional
        Samples a second; without it the input is taken as covariance matrices.
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, optional
        For ``recommended``, which makes other tokens of each. If not given: SSVEP where there are
        stimulus frequencies, else motor imagery (as for any other rhythm).
    bands, windows, covariance, cross_fit, delays, decimate, isometric
        None for those of the preset: of ``recommended`` by paradigm, the windows parts of the
        whole trial for potentials and the whole trial else. Bands of the preset are cut at half the
        sampling rate, with a warning.
    tmin, stimulus_frequencies, filtering, n_filters, regularisation, unit_in_volts, unit_free, \
floor
        How trials become tokens: see :class:`spdtokens.Tokenizer`. ``unit_free`` is on here:
        BN-Embed adds 1e-5 to a variance, in which square roots and raw entries of covariances in
        square volts would vanish.
    preset : str
        ``'recommended'``: the tokens that decode best, and a discriminant in closed form, in a
        second and without chance. ``'paper'`` or ``'paper-small'``: the paper's transformer on
        log-Euclidean tokens of 4-40 Hz.
    ridge : float
        Of the discriminant of ``recommended``: see
        :func:`~spdtokens.models.discriminant.fit_discriminant`.
    gains : pair of float, optional
        For ``recommended``: how much the gains of all channels together, and of each, are expected
        to change from one recording to the next (standard deviations of logarithms). Directions in
        which that moves tokens count for less. None for ``(0.05, 0.03)``, or for none of no more
        trials than channels. None too of potentials, and there they are refused: their matrices are
        not of channels. ``(0, 0)`` for none.
    attention : {'standard', 'geometric'}, optional
        ``'geometric'`` lowers attention by ``alpha`` times the Bures-Wasserstein distance of two
        tokens' matrices; with one token a trial it changes nothing.
    alpha : float, optional
    d_model, n_layers, n_heads, d_ff, dropout, bn_embed, epochs, batch_size, learning_rate, \
weight_decay, label_smoothing, keep, patience, validation, ensemble, random_state, device, \
verbose, checkpoint
        The network and its training, for the presets that have one: see
        :class:`spdtokens.training.TokenTransformerClassifier`.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    history_ : dict of str to ndarray, shape (ensemble, epochs)
        Curves: ``'train loss'``, ``'train accuracy'``, and of validation trials if there are any;
        none of ``recommended``.
    tokenizer_ : Tokenizer
    networks_ : list of SPDTokenTransformer, or of one TokenDiscriminant
        From tokens to scores.
    n_epochs_ : list of int
        The epoch, from 1, that was kept of each network.

    Examples
    --------
    >>> from spdtokens import SPDTokenClassifier, load_dataset
    >>> data = load_dataset("sim-mi")
    >>> trials = data.load("1", data.sessions("1")[0])
    >>> model = SPDTokenClassifier(sfreq=data.sfreq, tmin=data.tmin, windows=[data.window])
    >>> model.fit(trials.X, trials.y).predict_proba(trials.X[:5]).shape
    (5, 4)
    """

    def __init__(
        self,
        embedding: str | Sequence[str] | None = None,
        *,
        sfreq: float | None = None,
        paradigm: str | None = None,
        bands: BandSpec | None = None,
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_frequencies: Sequence[float] = (),
        filtering: Literal["zero-phase", "causal"] = "zero-phase",
        covariance: str | None = None,
        n_filters: int = 4,
        cross_fit: int | None = None,
        delays: Sequence[float] | None = None,
        decimate: bool | None = None,
        regularisation: float | Literal["paper"] = 1e-6,
        unit_in_volts: float | None = None,
        unit_free: bool = True,
        isometric: bool | None = None,
        floor: Literal["relative", "paper"] = "relative",
        ridge: float = RIDGE,
        gains: tuple[float, float] | None = None,
        attention: Attention | None = None,
        alpha: float | None = None,
        preset: str = "recommended",
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
        self.paradigm = paradigm
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_frequencies = stimulus_frequencies
        self.filtering = filtering
        self.covariance = covariance
        self.n_filters = n_filters
        self.cross_fit = cross_fit
        self.delays = delays
        self.decimate = decimate
        self.regularisation = regularisation
        self.unit_in_volts = unit_in_volts
        self.unit_free = unit_free
        self.isometric = isometric
        self.floor = floor
        self.ridge = ridge
        self.gains = gains
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

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        y : array, shape (n,)
        groups : array, shape (n,), optional
            Trials of one group, such as segments of one long trial, are never split between
            training and validation, nor between the folds within the training trials.
        sample_weight : array, shape (n,), optional
            Of trials, for ``recommended``: more for those of the person to be decoded, say.
        """
        self._check_preset(sample_weight)  # before the signal is worked on
        self.classes_, codes = encode(y, len(np.asarray(X)))
        self.tokenizer_ = self.make_tokenizer(X)
        if self.gains is not None and self._of_potentials:
            raise TrainingError(
                "gains is for covariances of channels, and those of potentials have class averages "
                "and filters: leave it out."
            )
        C = self.tokenizer_.fit_covariances(X, y, groups)
        self.n_features_in_ = self.tokenizer_.n_features_in_
        tokens, bias = self._tokens_of(C)
        if self.preset != RECOMMENDED:
            return self._fit_tokens(tokens, codes, bias, groups)
        head = fit_discriminant(
            tokens,
            codes,
            sample_weight,
            self.ridge,
            self._drift(self.tokenizer_.embedding_, C),
            groups=groups,
            refitted=self.tokenizer_.is_refitted_,
            refits=self._refits(X, C, codes, groups),
        )
        self.networks_ = [head]
        self.history_, self.n_epochs_ = {}, []
        return self

    def _refits(
        self,
        X: ArrayLike,
        C: NDArray[np.float64],
        codes: NDArray[np.int64],
        groups: ArrayLike | None,
    ) -> Iterator[Refit]:
        """Tokens that have seen the labels of the training part of a fold only, for every fold."""
        folds = folds_in_time(codes, FOLDS, groups)
        refitted = self.tokenizer_.refitted(X, C, codes, folds, groups)
        for (train, test), (embedding, matrices) in zip(folds, refitted, strict=True):
            tokens = embedding.to_token(matrices)
            yield Refit(train, test, tokens, self._drift(embedding, C))

    def _drift(
        self, embedding: Embedding | Several, C: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Changes of tokens to be expected of gains, where rows of matrices are channels."""
        if self._of_potentials:
            return None
        channels = self.tokenizer_.n_features_in_
        if self.gains is None and are_few(len(C), channels):
            return None
        gains = GAINS if self.gains is None else self.gains
        reference = getattr(self.tokenizer_.embedding_, "reference", None)
        middle = C.mean(0) if reference is None else reference.numpy()
        return gain_drift(embedding, middle, channels, *gains)

    @property
    def _of_potentials(self) -> bool:
        """Whether matrices have class averages beside the channels, or filters instead of them."""
        if self.sfreq is not None:
            return self.tokenizer_.covariance in PROTOTYPES
        return paradigm_of(self.paradigm, self.stimulus_frequencies) == "erp"

    def make_tokenizer(self, X: ArrayLike) -> Tokenizer:
        """The tokenizer of these parameters for such trials, not fitted."""
        return Tokenizer(**self._from_preset(X), **{n: getattr(self, n) for n in _AS_GIVEN})

    def _from_preset(self, X: ArrayLike) -> dict[str, Any]:
        """Options that the preset decides, unless they are given."""
        if self.preset != RECOMMENDED:
            options: dict[str, Any] = {"bands": None, "covariance": "sample"}
            options |= {"embedding": "log_euclidean", "isometric": False}
        else:
            few = are_few(len(X), np.shape(X)[-2])  # type: ignore[arg-type]
            options = {"embedding": WITHOUT_LABELS if few else EMBEDDINGS, "isometric": False}
            paradigm = paradigm_of(self.paradigm, self.stimulus_frequencies)
            if self.sfreq is not None:
                end = self.tmin + np.shape(X)[-1] / self.sfreq
                window = self.windows[0] if self.windows else (self.tmin, end)
                options |= recommended_tokens(paradigm, window, self.stimulus_frequencies)
                if self.bands is None:
                    seconds = window[1] - window[0]
                    options["bands"] = default_bands(options["bands"], self.sfreq, seconds)
        given = {name: getattr(self, name) for name in _BY_PRESET}
        return options | {name: value for name, value in given.items() if value is not None}

    def _check_preset(self, sample_weight: ArrayLike | None) -> None:
        if self.preset not in (RECOMMENDED, *PRESETS):
            known = ", ".join((RECOMMENDED, *PRESETS))
            raise TrainingError(f"There is no preset {self.preset!r}. There are: {known}.")
        if self.preset != RECOMMENDED:
            self._preset()
            if sample_weight is not None:
                raise TrainingError(f"Preset {self.preset!r} cannot weigh trials.")
            if self.gains is not None:
                raise TrainingError("gains is for preset 'recommended': leave it out.")
            return
        check_unused_device(self.device, "preset 'recommended'")
        if self.gains is not None and (len(self.gains) != 2 or not min(self.gains) >= 0):
            raise TrainingError(f"gains are two numbers, none below zero, not {self.gains!r}.")
        of_networks = {
            name: getattr(self, name) for name in (*OVERRIDES, "validation", "checkpoint")
        }
        given = [name for name, value in of_networks.items() if value is not None]
        if self.ensemble != 1:
            given.append("ensemble")
        if given:
            raise TrainingError(
                f"{given[0]} is for networks, and preset 'recommended' has none: leave it out, or "
                "pass preset='paper'."
            )

    def _tokens(self, X: ArrayLike) -> tuple[NDArray[Any], torch.Tensor | None]:
        check_is_fitted(self, "tokenizer_")
        return self._tokens_of(self.tokenizer_.covariances(X))

    def _tokens_of(self, C: NDArray[np.float64]) -> tuple[NDArray[Any], torch.Tensor | None]:
        tokens = self.tokenizer_.embedding_.to_token(C)
        if self.preset == RECOMMENDED or C.shape[1] == 1:
            return tokens, None
        config = self._preset().config
        if config.attention == "standard":
            return tokens, None
        return tokens, geometric_bias(torch.from_numpy(C), config.alpha)
