"""A classifier on ready tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from spdtokens.runtime.threads import one_thread
from spdtokens.training.classifier import TokenNetworkClassifier
from spdtokens.training.labels import encode
from spdtokens.training.recipe import TrainingError


class TokenTransformerClassifier(TokenNetworkClassifier):
    """The SPD Token Transformer on tokens that are already there.

    Parameters
    ----------
    preset : str
        Network and recipe: ``'paper'`` or ``'paper-small'``. Whatever is not None below replaces
        the preset's value.
    d_model, n_layers, n_heads, d_ff : int, optional
        Shape of the network.
    dropout : float, optional
    bn_embed : bool, optional
    epochs, batch_size : int, optional
    learning_rate, weight_decay, label_smoothing : float, optional
    keep : {'last', 'best'}, optional
        Weights to keep; ``'best'`` by the loss on validation trials.
    patience : int, optional
        Stop when the validation loss has not fallen for so many epochs.
    validation : float, optional
        Share of the training trials to hold back for validation. None by default: all trials are
        trained on and the last epoch is kept.
    ensemble : int
        So many networks, trained together from different seeds; their probabilities are averaged.
    random_state : int, RandomState instance or None
        Seed of initial weights, order of trials and dropout.
    device : str
        ``'auto'``, ``'cpu'`` or ``'cuda'``.
    verbose : bool
        Show a progress bar.
    checkpoint : str or Path, optional
        ``.npz`` file to save to now and then and to go on from after an interruption.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    history_ : dict of str to ndarray, shape (ensemble, epochs)
        ``'train loss'``, ``'train accuracy'`` (with dropout, as trained), and with validation
        trials ``'validation loss'`` and ``'validation accuracy'``.
    networks_ : list of SPDTokenTransformer
    n_epochs_ : list of int
        The epoch, from 1, that was kept of each network.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.training import TokenTransformerClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = rng.standard_normal((40, 6)) + y[:, None]
    >>> model = TokenTransformerClassifier(
    ...     d_model=16, n_layers=1, n_heads=2, d_ff=32, epochs=60, random_state=0
    ... )
    >>> float(model.fit(X, y).score(X, y)) > 0.8
    True
    """

    def __init__(
        self,
        preset: str = "paper",
        *,
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
    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array, shape (n, features) or (n, tokens, features)
        y : array, shape (n,)
        groups : array, shape (n,), optional
            Trials of one group are never split between training and validation.
        """
        checked: NDArray[Any]
        checked, y = validate_data(self, X, y, allow_nd=True, ensure_all_finite=False)
        self.token_shape_ = checked.shape[1:]
        self.classes_, codes = encode(y, len(checked))
        return self._fit_tokens(self._as_tokens(checked), codes, groups=groups)

    def _tokens(self, X: ArrayLike) -> tuple[NDArray[Any], torch.Tensor | None]:
        check_is_fitted(self)
        checked: NDArray[Any] = validate_data(
            self, X, reset=False, allow_nd=True, ensure_all_finite=False
        )
        if checked.shape[1:] != self.token_shape_:
            raise TrainingError(
                f"The classifier was fitted to trials of shape {self.token_shape_}, got "
                f"{checked.shape[1:]}."
            )
        return self._as_tokens(checked), None

    @staticmethod
    def _as_tokens(X: NDArray[Any]) -> NDArray[Any]:
        if X.ndim > 3:
            raise TrainingError(
                f"Expected tokens (n, features) or (n, tokens, features), got shape {X.shape}."
            )
        return X if X.ndim == 3 else X[:, None, :]
