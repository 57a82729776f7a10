"""The networks we compare with, as scikit-learn classifiers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spdtokens._extras import how_to_install, is_installed
from spdtokens.classifiers.base import Codes, as_decisions, encode, held_back, seed_of
from spdtokens.classifiers.nn.engine import RunPlan
from spdtokens.classifiers.nn.loop import train_module
from spdtokens.classifiers.nn.networks import NETWORKS, Network, TrialShape
from spdtokens.classifiers.nn.progress import training_bar
from spdtokens.classifiers.nn.recipe import published_recipe, resolve_device
from spdtokens.classifiers.transformer import Validation, coded
from spdtokens.errors import ModelError
from spdtokens.geometry.matrix_functions import as_tensor
from spdtokens.geometry.tokens import TokenEmbedding, as_matrices, matrix_tags
from spdtokens.preprocessing.filterbank import as_trials
from spdtokens.runtime.threads import one_thread

#: Trials predicted at a time.
PREDICTED_AT_ONCE = 256


class NetworkClassifier(ClassifierMixin, BaseEstimator):
    """Train and apply a network of the comparison.

    SPD networks take matrices, so :class:`FilterBankCovariances` goes before them; networks on raw
    EEG take trials, and :class:`StandardTrials` goes before them.

    Parameters
    ----------
    network : str, default='spdnet'
        On matrices: ``'spdnet'``, ``'spdnet-paper'``, ``'spdtransnet'``. On trials: ``'eegnet'``,
        ``'shallownet'``, ``'deepnet'``, ``'atcnet'``, ``'eeg-conformer'``, ``'raw-transformer'``,
        ``'matt'``, ``'tsmnet'``.
    sfreq : float, default=None
        Sampling rate in Hz, for networks on trials.
    recipe : {'published', 'common'}, default='published'
        The recipe published with the network, or the paper's common one: Adam 1e-3, batches of 64,
        50 epochs, last epoch.
    epochs : int, default=None
        Instead of the recipe's.
    validation : float, default=0.125
        Share of training trials held back where the recipe chooses an epoch; 1/8 as in MAtt.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : str, default='auto'
        ``'auto'``, ``'cpu'`` or ``'cuda'``.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    module_ : nn.Module
    embedding_ : TokenEmbedding or None
        What makes matrices free of their unit, and tokens for networks that take tokens.
    history_ : dict of str to ndarray, shape (epochs,)
    epoch_ : int
        The epoch, from 1, that was kept.
    held_back_ : ndarray of int or None
        Training trials that were validated on instead.
    n_features_in_ : int
        Channels, or rows of a matrix.

    See Also
    --------
    TokenTransformerClassifier : The paper's network.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import NetworkClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((20, 3, 200)), np.repeat([0, 1], 10)
    >>> model = NetworkClassifier("eegnet", sfreq=100, epochs=2, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (20, 2)
    """

    # Under scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {"groups": True, "validation": True}

    def __init__(
        self,
        network: str = "spdnet",
        *,
        sfreq: float | None = None,
        recipe: Literal["published", "common"] = "published",
        epochs: int | None = None,
        validation: float = 0.125,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.sfreq = sfreq
        self.recipe = recipe
        self.epochs = epochs
        self.validation = validation
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Say that input is three-dimensional."""
        return matrix_tags(super().__sklearn_tags__())

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        validation: Validation | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, m, d, d)
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), optional
            Trials of one group are never split between training and validation.
        validation : tuple of array, optional
            Trials and labels to validate on, instead of holding some of ``X`` back.

        Returns
        -------
        self
        """
        network = self._network()
        if self.recipe not in ("published", "common"):
            raise ModelError(f"recipe must be 'published' or 'common', got {self.recipe!r}.")
        device, seed = resolve_device(self.device), seed_of(self.random_state)
        checked = self._as_input(X, network)
        recipe = published_recipe(
            network.name, checked.shape[-2], common=self.recipe == "common", epochs=self.epochs
        )
        self.classes_, codes = encode(y, len(checked))
        self.n_features_in_ = checked.shape[-2]
        self.input_shape_ = checked.shape[1:]
        self.embedding_ = None
        if network.input != "raw":
            embedding = TokenEmbedding(network.embedding, unit_free=True)
            self.embedding_ = embedding.fit_matrices(checked, codes)
        inputs = self._inputs(checked, network)
        shape = self._shape(checked, network)
        if validation is None:
            share = self.validation if recipe.needs_validation else None
            plan = held_back(seed, codes, groups, share)
            self.held_back_ = plan.validation
        else:
            self.held_back_ = None
            inputs, codes, plan = self._with_validation(inputs, codes, seed, network, validation)
        with training_bar(network.name, recipe.epochs, enabled=bool(self.verbose)) as listener:
            self.module_, self.history_, self.epoch_ = train_module(
                lambda: _calibrated(network.build(shape), inputs[plan.train]),
                inputs.to(device),
                torch.from_numpy(codes).to(device),
                plan,
                recipe,
                n_classes=len(self.classes_),
                listener=listener,
            )
        return self

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict class probabilities.

        Parameters
        ----------
        X : array, as for ``fit``

        Returns
        -------
        probabilities : ndarray, shape (n, classes)
            In the order of ``classes_``.
        """
        inputs = self._inputs_like_fit(X)
        with torch.inference_mode():
            parts = [self.module_(part).softmax(-1) for part in inputs.split(PREDICTED_AT_ONCE)]
        return torch.cat(parts).double().numpy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the most probable class (n,) of each trial."""
        probabilities = self.predict_proba(X)  # which refuses what is not fitted
        return self.classes_[probabilities.argmax(1)]

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of probabilities (n, classes), or their difference (n,) for two classes."""
        return as_decisions(np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny)))

    def _with_validation(
        self, inputs: Tensor, codes: Codes, seed: int, network: Network, validation: Validation
    ) -> tuple[Tensor, Codes, RunPlan]:
        """Trials of both kinds, and which are which."""
        X, y = validation() if callable(validation) else validation
        n = len(inputs)
        both = torch.cat([inputs, self._inputs(self._as_input(X, network), network)])
        all_codes = np.concatenate([codes, coded(y, self.classes_)])
        return both, all_codes, RunPlan(seed, np.arange(n), np.arange(n, len(both)))

    def _network(self) -> Network:
        if self.network not in NETWORKS:
            raise ModelError(
                f"There is no network {self.network!r}. There are: {', '.join(NETWORKS)}."
            )
        network = NETWORKS[self.network]
        if network.extra is not None and not is_installed(network.extra):
            raise ModelError(
                f"{network.name} needs an extra that is not installed: "
                f"{how_to_install(network.extra)}."
            )
        if network.input == "raw" and self.sfreq is None:
            raise ModelError(
                f"{network.name} takes raw trials: pass sfreq, the sampling rate. It cannot be "
                "trained on covariances."
            )
        return network

    def _as_input(self, X: ArrayLike, network: Network) -> NDArray[Any]:
        """Trials (n, channels, samples), or matrices (n, m, d, d)."""
        if network.input != "raw":
            return as_matrices(X)
        trials = as_trials(X)
        if not np.isfinite(trials).all():
            raise ModelError("Input X contains NaN or infinity. Remove these trials.")
        return trials

    def _inputs_like_fit(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        network = self._network()
        checked = self._as_input(X, network)
        if checked.shape[1:] != self.input_shape_:
            raise ModelError(
                f"Fitted to trials of shape {self.input_shape_}, got {checked.shape[1:]}."
            )
        return self._inputs(checked, network)

    def _inputs(self, X: NDArray[Any], network: Network) -> Tensor:
        prepared = X
        if self.embedding_ is not None:
            tokens = network.input == "tokens"
            prepared = self.embedding_.of_matrices(X) if tokens else self.embedding_.scaled(X)
        inputs: Tensor = as_tensor(np.ascontiguousarray(prepared)).float()
        return inputs

    def _shape(self, X: NDArray[Any], network: Network) -> TrialShape:
        n_classes = len(self.classes_)
        if network.input == "raw":
            assert self.sfreq is not None
            return TrialShape(X.shape[1], n_classes, X.shape[-1], self.sfreq)
        return TrialShape(X.shape[-1], n_classes, n_tokens=X.shape[1])


def _calibrated(module: nn.Module, inputs: Tensor) -> nn.Module:
    """Networks with a unit of their own take it from all training trials, in no order."""
    unit = getattr(module, "unit", None)
    if unit is not None:
        unit.calibrate(inputs)
    return module
