"""Spatial filters shared by all people: an ensemble of networks for decoding new people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens.classifiers.base import Array, ProbabilisticClassifier, encode, seed_of
from spdtokens.classifiers.networks import train_module
from spdtokens.classifiers.nn.engine import RunPlan
from spdtokens.classifiers.nn.filters import EPS, SpatialFilterNetwork
from spdtokens.classifiers.nn.recipe import Recipe, TrainingBars, check_sizes, resolve_device
from spdtokens.errors import ModelError
from spdtokens.geometry.tokens import as_matrices, matrix_tags
from spdtokens.runtime.networks import SpatialFilters, means_over_time
from spdtokens.runtime.threads import one_thread


class SpatialFilterClassifier(ProbabilisticClassifier):
    """Classify SPD matrices of bands and windows by the power of learned spatial filters.

    For training on many people and decoding new ones. Each band has a few spatial filters, which
    all windows and all people share. The logarithms of their powers, and the channels' means over
    time if the matrices contain them, are the input of a linear classifier. An ensemble of such
    networks is trained; its probabilities are averaged. Matrices should be recentred by person,
    band by band (:class:`Recentring` with ``n_windows``).

    Parameters
    ----------
    n_windows : int, default=1
        Number of consecutive matrices of a trial that belong to one band: its windows.
    n_means : int, default=0
        Number of first rows of each matrix that are means over time (``n_means`` of
        :class:`FilterBankCovariances`). Those of the first band are used, which should be the
        lowest.
    means_step : int, default=1
        The means of every such window are used: 2 for windows that overlap by half, so that no
        time is used twice.
    n_filters : int, default=32
        Number of spatial filters per band.
    mirror : sequence of int, default=None
        For each channel, the index of the channel on the other side of the head (its own for a
        channel on the midline). In training, half of the trials are mirrored; in prediction, both
        views are averaged. None to disable it.
    mirror_labels : sequence of pairs, default=()
        Labels that are exchanged when a trial is mirrored, such as ``[("left", "right")]``.
    dropout : float, default=0.5
        Dropout probability of the features, in [0, 1).
    epochs : int, default=20
        Number of epochs.
    batch_size : int, default=64
        Trials per batch.
    learning_rate : float, default=2e-3
        Largest learning rate of AdamW; the schedule is one cycle [1]_.
    weight_decay : float, default=0.1
        Weight decay.
    ensemble : int, default=3
        Number of networks.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials, mirroring and dropout.
    device : {'auto', 'cpu', 'cuda'}, default='auto'
        Where to train. ``'auto'`` is CUDA where available, else the CPU.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    network_ : SpatialFilters
        The trained ensemble in NumPy, as saved in model files.
    history_ : dict of str to ndarray, shape (ensemble, n_epochs)
        ``'train loss'`` and ``'train accuracy'``, measured during training with dropout.
    n_features_in_ : int
        Number of rows of a matrix.

    See Also
    --------
    Recentring : Recentre the matrices of each person.
    FilterBankCovariances : Compute the matrices.
    TokenTransformerClassifier : The paper's network.

    References
    ----------
    .. [1] L. N. Smith and N. Topin, "Super-convergence: very fast training of neural networks using
       large learning rates", 2018. https://doi.org/10.48550/arXiv.1708.07120

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import SpatialFilterClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["left", "right"], 40)
    >>> signals = rng.standard_normal((80, 4, 100))  # C3, Cz, C4, Pz
    >>> signals[y == "left", 2] *= 0.6
    >>> signals[y == "right", 0] *= 0.6
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> options = {"mirror": [2, 1, 0, 3], "mirror_labels": [("left", "right")]}
    >>> model = SpatialFilterClassifier(n_filters=4, ensemble=2, random_state=0, **options)
    >>> float(model.fit(C[::2], y[::2]).score(C[1::2], y[1::2])) > 0.8
    True
    """

    def __init__(
        self,
        *,
        n_windows: int = 1,
        n_means: int = 0,
        means_step: int = 1,
        n_filters: int = 32,
        mirror: Sequence[int] | None = None,
        mirror_labels: Sequence[tuple[Any, Any]] = (),
        dropout: float = 0.5,
        epochs: int = 20,
        batch_size: int = 64,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        ensemble: int = 3,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_windows = n_windows
        self.n_means = n_means
        self.means_step = means_step
        self.n_filters = n_filters
        self.mirror = mirror
        self.mirror_labels = mirror_labels
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ensemble = ensemble
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input."""
        return matrix_tags(super().__sklearn_tags__())

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the networks.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of training trials, ordered by band and then by window.
        y : array, shape (n,)
            Labels.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ModelError
            If a parameter does not fit the matrices or the labels.
        """
        C = as_matrices(X, single=True)
        self.classes_, codes = encode(y, len(C))
        recipe = Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )
        check_sizes(
            n_windows=self.n_windows,
            means_step=self.means_step,
            n_filters=self.n_filters,
            ensemble=self.ensemble,
        )
        if not 0 <= self.dropout < 1:
            raise ModelError(f"dropout must be in [0, 1), got {self.dropout!r}.")
        m, rows = C.shape[1:3]
        if m % self.n_windows:
            raise ModelError(
                f"n_windows must be a divisor of {m} matrices per trial, got {self.n_windows!r}."
            )
        if not 0 <= self.n_means < rows:
            raise ModelError(
                f"n_means must be in [0, {rows}), the rows of a matrix, got {self.n_means!r}."
            )
        self.n_features_in_, self.n_matrices_ = rows, m
        mirror, swap = self._mirror(rows - self.n_means)
        # One number, so that the result does not depend on the unit.
        variances = np.einsum("nmii->nmi", C[..., self.n_means :, self.n_means :])
        self.scale_ = float(variances.mean())
        device, first = resolve_device(self.device), seed_of(self.random_state)
        inputs = torch.from_numpy(self._inputs(C)).to(device)
        labels = torch.from_numpy(codes).to(device)
        used = -(-self.n_windows // self.means_step)
        n_means = used * self.n_means * (rows - self.n_means)
        given: dict[str, Any] = {}
        if mirror is not None:
            by_channel = np.arange(n_means).reshape(-1, len(mirror))
            given = {
                "mirror": torch.from_numpy(mirror),
                "mirror_means": torch.from_numpy(by_channel[:, mirror].ravel()),
                "swap": torch.from_numpy(swap),
            }

        def build() -> SpatialFilterNetwork:
            return SpatialFilterNetwork(
                rows - self.n_means,
                m // self.n_windows,
                self.n_windows,
                len(self.classes_),
                n_means=n_means,
                n_filters=self.n_filters,
                dropout=self.dropout,
                **given,
            )

        seeds = [first, *np.random.SeedSequence([first, 1]).generate_state(self.ensemble - 1)]
        trained = []
        with TrainingBars() as bars:
            total = self.ensemble * self.epochs
            bar = bars.add(type(self).__name__, total) if self.verbose else None
            for seed in seeds:
                plan = RunPlan(int(seed), np.arange(len(codes)))
                trained.append(
                    train_module(
                        build,
                        inputs,
                        labels,
                        plan,
                        recipe,
                        n_classes=len(self.classes_),
                        listener=bar,
                        one_cycle=True,
                    )
                )
        modules, curves, _ = zip(*trained, strict=True)
        self.history_ = {name: np.stack([c[name] for c in curves]) for name in curves[0]}
        shape = (used, self.n_means, rows - self.n_means)
        self.network_ = folded(modules, self.scale_, shape, self.means_step, mirror, swap)
        return self

    def _mirror(self, d: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Index of the mirrored channel and of the mirrored class."""
        swap = np.arange(len(self.classes_))
        if self.mirror is None:
            if len(self.mirror_labels):
                raise ModelError("mirror_labels requires mirror, the channels on the other side.")
            return None, swap
        mirror = np.asarray(self.mirror, dtype=np.int64)
        if mirror.shape != (d,) or not np.array_equal(mirror[mirror % d], np.arange(d)):
            raise ModelError(
                f"mirror must give for each of {d} channels the index of its counterpart, and the "
                f"counterpart of that must be the channel itself, got {self.mirror!r}."
            )
        names = self.classes_.tolist()
        for pair in self.mirror_labels:
            unknown = [label for label in pair if label not in names]
            if unknown or len(pair) != 2:
                raise ModelError(
                    f"mirror_labels must be pairs of {', '.join(map(str, names))}, got {pair!r}."
                )
            a, b = map(names.index, pair)
            swap[[a, b]] = b, a
        if not np.array_equal(swap[swap], np.arange(len(swap))):
            raise ModelError(
                f"mirror_labels must contain each label only once, got {self.mirror_labels!r}."
            )
        return mirror, swap

    def _inputs(self, C: NDArray[Any]) -> NDArray[np.float32]:
        """Flat tokens and means (n, features) in single precision."""
        r, d = self.n_means, C.shape[-1] - self.n_means
        row, column = np.triu_indices(d)
        tokens = C[:, :, r + row, r + column].astype(np.float32)
        tokens /= self.scale_
        parts = [tokens.reshape(len(C), -1)]
        if r:
            means = means_over_time(C[:, : self.n_windows : self.means_step], r) / np.sqrt(
                self.scale_
            )
            parts.append(means.reshape(len(C), -1).astype(np.float32))
        return np.concatenate(parts, axis=1)

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict class probabilities, averaged over the ensemble and over both views.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities in the order of ``classes_``.
        """
        C = self._checked(X)
        return self.network_.of_matrices(C)

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self)
        C = as_matrices(X, single=True)
        wanted = (self.n_matrices_, self.n_features_in_, self.n_features_in_)
        if C.shape[1:] != wanted:
            raise ModelError(
                f"X must have matrices of shape {wanted} per trial, as in fit, got {C.shape[1:]}."
            )
        return C

    @one_thread()
    def calibrate(self, X: ArrayLike, y: ArrayLike, strength: float = 1.0) -> Self:
        """Adapt the fitted classifier to labelled trials of one person.

        The linear layers are fitted again, with a Gaussian prior around the weights shared by all
        people: the spatial filters stay. The optimum is unique, and found in less than a second.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of the person's trials, recentred.
        y : array, shape (n,)
            Labels, all of them classes of the model.
        strength : float, default=1.0
            Precision of the prior: larger values stay closer to the shared weights.

        Returns
        -------
        self
            The adapted classifier.

        Raises
        ------
        ModelError
            If a label is not one of the model's classes, or ``strength`` is not positive.
        """
        if not strength > 0:
            raise ModelError(f"strength must be > 0, got {strength!r}.")
        C, y = self._checked(X), np.asarray(y)
        unknown = y[~np.isin(y, self.classes_)]
        if y.shape != (len(C),) or len(unknown):
            got = f"class {unknown.tolist()[0]!r}" if len(unknown) else f"labels of shape {y.shape}"
            raise ModelError(
                f"y must be one label per trial, each of {', '.join(map(str, self.classes_))}, "
                f"got {got}."
            )
        target = np.eye(len(self.classes_))[np.searchsorted(self.classes_, y)]
        self.network_ = adapted(self.network_, C, target, strength)
        return self


def folded(
    modules: Sequence[SpatialFilterNetwork],
    scale: float,
    means_shape: tuple[int, int, int],
    means_step: int,
    mirror: NDArray[np.int64] | None,
    swap: NDArray[np.int64],
) -> SpatialFilters:
    """Fold batch norms into linear layers, and mirrored views into further members."""
    filters, weights, means, biases = [], [], [], []
    for module in modules:
        n_bands, n_windows, _ = module.shape
        k = module.filters.shape[2]
        norms = [module.powers, *([module.means] if module.means is not None else [])]
        factor, offset = (
            torch.cat(parts).double() for parts in zip(*map(_affine, norms), strict=True)
        )
        head = module.head.weight.detach().double()
        linear = (head * factor).T.numpy()
        split = n_bands * n_windows * k
        filters.append(module.filters.detach().double().numpy() / np.sqrt(scale))
        weights.append(linear[:split].reshape(n_bands, n_windows, k, -1))
        means.append(linear[split:].reshape(*means_shape, linear.shape[1]) / np.sqrt(scale))
        biases.append((module.head.bias.detach().double() + head @ offset).numpy())
    network = SpatialFilters(
        np.stack(filters), np.stack(weights), np.stack(means), np.stack(biases), EPS, means_step
    )
    if mirror is None:
        return network
    order = np.asarray(mirror)
    return replace(
        network,
        filters=np.concatenate([network.filters, network.filters[:, :, order]]),
        weight=np.concatenate([network.weight, network.weight[..., swap]]),
        means=np.concatenate([network.means, network.means[:, :, :, order][..., swap]]),
        bias=np.concatenate([network.bias, network.bias[:, swap]]),
    )


def _affine(norm: torch.nn.BatchNorm1d) -> tuple[torch.Tensor, torch.Tensor]:
    """Factor and offset of a batch norm in evaluation mode."""
    assert norm.running_var is not None
    assert norm.running_mean is not None
    factor = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    return factor, norm.bias.detach() - norm.running_mean * factor


def adapted(
    network: SpatialFilters, C: NDArray[Any], target: Array, strength: float
) -> SpatialFilters:
    """Fit the linear layers to labelled trials, with a Gaussian prior around their weights."""
    features = network.features(C)  # (members, n, features)
    weight, bias = network.linear()
    n_classes = bias.shape[1]
    fitted, offsets = [], []
    for H, W, b in zip(features, weight, bias, strict=True):
        centre = H.mean(0)
        Z = H - centre
        spread = np.sqrt((Z**2).mean()) or 1.0  # a single trial has none
        Z = Z / spread
        base = H @ W + b

        # By the representer theorem the change of the weights is a combination of the trials.
        gram = Z @ Z.T / Z.shape[1]

        def loss(flat: Array, gram: Array = gram, base: Array = base) -> tuple[float, Array]:
            A, c = flat[:-n_classes].reshape(-1, n_classes), flat[-n_classes:]
            change = gram @ A
            scores = base + change + c
            scores = scores - scores.max(1, keepdims=True)
            logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
            value = -(target * logs).sum() + 0.5 * strength * ((A * change).sum() + c @ c)
            error = np.exp(logs) - target
            grad = gram @ (error + strength * A)
            return value, np.concatenate([grad.ravel(), error.sum(0) + strength * c])

        found = minimize(loss, np.zeros((len(Z) + 1) * n_classes), jac=True, method="L-BFGS-B")
        A, c = found.x[:-n_classes].reshape(-1, n_classes), found.x[-n_classes:]
        change = Z.T @ A / (Z.shape[1] * spread)
        fitted.append(W + change)
        offsets.append(b + c - centre @ change)
    return network.with_linear(np.stack(fitted), np.stack(offsets))
