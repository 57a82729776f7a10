"""A classifier around any network of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from spdtokens._extras import how_to_install, is_installed
from spdtokens.models.networks import NETWORKS, Network, TrialShape
from spdtokens.runtime.threads import one_thread
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import BandSpec
from spdtokens.signal.standard import StandardTrials
from spdtokens.signal.tokenizer import Window
from spdtokens.spd.arrays import as_tensor
from spdtokens.training.device import resolve_device
from spdtokens.training.engine import RunPlan
from spdtokens.training.labels import encode, held_back, seed_of
from spdtokens.training.loop import train_module
from spdtokens.training.progress import training_bar
from spdtokens.training.recipe import TrainingError
from spdtokens.training.recipes import published_recipe

#: Trials predicted at a time.
PREDICTED_AT_ONCE = 256


class NetworkClassifier(ClassifierMixin, BaseEstimator):
    """Train and apply a network of the comparison.

    Raw networks get trials in one band, cut to the window and standardised channel by channel with
    the moments of the training trials; SPD networks get covariances or tokens. So no result depends
    on the unit of the signal.

    Parameters
    ----------
    network : str
        One of ``spdtokens.models.networks.NETWORKS``.
    sfreq : float, optional
        Samples a second; without it the input is taken as covariances.
    bands : str or sequence of pairs, optional
        As in :class:`spdtokens.Tokenizer`; raw networks take one band.
    windows : sequence of pairs, optional
    tmin : float
    stimulus_frequencies : sequence of float
    covariance : str
        Estimator, as in :class:`spdtokens.Tokenizer`; raw networks have none.
    recipe : {'published', 'common'}
        The recipe published with the network, or the paper's common one: Adam 1e-3, batches of 64,
        50 epochs, last epoch.
    epochs : int, optional
        Instead of the recipe's.
    validation : float
        Share of training trials held back where the recipe chooses an epoch; 1/8 as in MAtt.
    random_state : int, RandomState instance or None
    device : str
    verbose : bool

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    module_ : nn.Module
    history_ : dict of str to ndarray, shape (epochs,)
    epoch_ : int
        From 1: the epoch that was kept.
    held_back_ : ndarray of int or None
        Trials given to ``fit`` that were validated on instead; None if there were none.
    """

    def __init__(
        self,
        network: str = "eegnet",
        *,
        sfreq: float | None = None,
        bands: BandSpec | None = None,
        windows: Sequence[Window] | None = None,
        tmin: float = 0.0,
        stimulus_frequencies: Sequence[float] = (),
        covariance: str = "sample",
        recipe: Literal["published", "common"] = "published",
        epochs: int | None = None,
        validation: float = 0.125,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.sfreq = sfreq
        self.bands = bands
        self.windows = windows
        self.tmin = tmin
        self.stimulus_frequencies = stimulus_frequencies
        self.covariance = covariance
        self.recipe = recipe
        self.epochs = epochs
        self.validation = validation
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, shape (n, channels, samples), (n, d, d) or (n, tokens, d, d)
        y : array, shape (n,)
        groups : array, shape (n,), optional
            Trials of one group are never split between training and validation.
        validation : tuple of array, optional
            Trials and labels to validate on, instead of holding some of ``X`` back.
        """
        network = self._network()
        recipe = published_recipe(
            network.name,
            np.asarray(X).shape[-2] if np.ndim(X) > 2 else 0,
            common=self.recipe == "common",
            epochs=self.epochs,
        )
        device = resolve_device(self.device)
        self.classes_, codes = encode(y, len(np.asarray(X)))
        seed = seed_of(self.random_state)
        self.preparation_ = self._preparation(network).fit(X, y)
        inputs = self._inputs(X)
        shape = self._shape(X, inputs, network)
        if validation is None:
            share = self.validation if recipe.needs_validation else None
            plan = held_back(seed, codes, groups, share)
            self.held_back_ = plan.validation
        else:
            self.held_back_ = None
            inputs, codes, plan = self._with_validation(inputs, codes, seed, *validation)
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
        """Class probabilities (n, classes), in the order of ``classes_``."""
        check_is_fitted(self)
        inputs = self._inputs(X)
        with torch.inference_mode():
            parts = [self.module_(part).softmax(-1) for part in inputs.split(PREDICTED_AT_ONCE)]
        return torch.cat(parts).double().numpy()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class (n,) of each trial."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def _with_validation(
        self, inputs: Tensor, codes: NDArray[np.int64], seed: int, X: ArrayLike, y: ArrayLike
    ) -> tuple[Tensor, NDArray[np.int64], RunPlan]:
        """Trials of both kinds, and which are which."""
        known = np.isin(np.asarray(y), self.classes_)
        if not known.all():
            raise TrainingError(
                f"Validation trials are of class {np.asarray(y)[~known][0]}, which is not among "
                "the classes to train on."
            )
        n = len(inputs)
        both = torch.cat([inputs, self._inputs(X)])
        all_codes = np.concatenate([codes, np.searchsorted(self.classes_, np.asarray(y))])
        return both, all_codes, RunPlan(seed, np.arange(n), np.arange(n, len(both)))

    def _network(self) -> Network:
        if self.network not in NETWORKS:
            raise TrainingError(
                f"There is no network {self.network!r}. There are: {', '.join(NETWORKS)}."
            )
        network = NETWORKS[self.network]
        if network.extra is not None and not is_installed(network.extra):
            raise TrainingError(
                f"{network.name} needs an extra that is not installed: "
                f"{how_to_install(network.extra)}."
            )
        if network.input == "raw" and self.sfreq is None:
            raise TrainingError(
                f"{network.name} takes raw trials: pass sfreq, the samples a second. It cannot be "
                "trained on covariances."
            )
        return network

    def _preparation(self, network: Network) -> Any:
        options: dict[str, Any] = {
            "sfreq": self.sfreq,
            "bands": self.bands,
            "windows": self.windows,
            "tmin": self.tmin,
            "stimulus_frequencies": self.stimulus_frequencies,
        }
        if network.input == "raw":
            return StandardTrials(**options)
        return Tokenizer(network.embedding, unit_free=True, covariance=self.covariance, **options)

    def _inputs(self, X: ArrayLike) -> Tensor:
        network = self._network()
        if network.input == "covariance":
            prepared = self.preparation_.covariances(X)
        else:
            prepared = self.preparation_.transform(X)
        inputs: Tensor = as_tensor(prepared).float()
        return inputs

    def _shape(self, X: ArrayLike, inputs: Tensor, network: Network) -> TrialShape:
        n_classes = len(self.classes_)
        if network.input == "raw":
            assert self.sfreq is not None
            return TrialShape(inputs.shape[1], n_classes, inputs.shape[-1], self.sfreq)
        # With prototypes a matrix has more rows than the trial channels.
        C = self.preparation_.covariances(np.asarray(X)[:1])
        return TrialShape(C.shape[-1], n_classes, n_tokens=inputs.shape[1])


def _calibrated(module: nn.Module, inputs: Tensor) -> nn.Module:
    """Networks with a unit of their own take it from all training trials, in no order."""
    unit = getattr(module, "unit", None)
    if unit is not None:
        unit.calibrate(inputs)
    return module
