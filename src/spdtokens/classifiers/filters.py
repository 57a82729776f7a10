"""Spatial filters shared by all people: an ensemble of networks for decoding new people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional as F

from spdtokens.classifiers.base import Array, ProbabilisticClassifier, encode, seed_of
from spdtokens.classifiers.nn.engine import RunStreams
from spdtokens.classifiers.nn.filters import EPS, SpatialFilterNetwork, training_dtype
from spdtokens.classifiers.nn.recipe import (
    Listener,
    Recipe,
    TrainingBars,
    check_sizes,
    resolve_device,
)
from spdtokens.errors import ModelError
from spdtokens.geometry.tokens import as_matrices, matrix_tags
from spdtokens.runtime import load_model
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
    start_from : str or Path, default=None
        Model to adapt to the training trials, as :meth:`calibrate` does, instead of training
        networks: the name of a model that ships with the package, or a model file. The parameters
        above then have no effect.
    start_labels : sequence, default=()
        Labels of the training trials in the order of the classes of ``start_from``. Sorted if
        empty.
    strength : float, default=30.0
        Precision of the prior around the weights of ``start_from``.
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
    >>> options = {"epochs": 100, "mirror": [2, 1, 0, 3], "mirror_labels": [("left", "right")]}
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
        start_from: str | Path | None = None,
        start_labels: Sequence[Any] = (),
        strength: float = 30.0,
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
        self.start_from = start_from
        self.start_labels = start_labels
        self.strength = strength
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
        self.n_features_in_, self.n_matrices_ = C.shape[2], C.shape[1]
        if self.start_from is not None:
            self._start(C.shape)
            return self.calibrate(C, self.classes_[codes], self.strength)
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
        if self.batch_size < 2:
            raise ModelError(f"batch_size must be >= 2, got {self.batch_size!r}.")
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
        mirror, swap = self._mirror(rows - self.n_means)
        # One number, so that the result does not depend on the unit.
        variances = np.einsum("nmii->nmi", C[..., self.n_means :, self.n_means :])
        self.scale_ = float(variances.mean())
        device, seed = resolve_device(self.device), seed_of(self.random_state)
        used = -(-self.n_windows // self.means_step)
        n_means = used * self.n_means * (rows - self.n_means)
        given: dict[str, Any] = {}
        if mirror is not None:
            by_channel = np.arange(n_means).reshape(-1, len(mirror))
            given = {
                "mirror": torch.from_numpy(mirror).to(device),
                "mirror_means": torch.from_numpy(by_channel[:, mirror].ravel()).to(device),
                "swap": torch.from_numpy(swap).to(device),
            }

        def build() -> SpatialFilterNetwork:
            return SpatialFilterNetwork(
                rows - self.n_means,
                m // self.n_windows,
                self.n_windows,
                len(self.classes_),
                n_means=n_means,
                n_filters=self.n_filters,
                members=self.ensemble,
                dropout=self.dropout,
                **given,
            )

        with TrainingBars() as bars:
            bar = bars.add(type(self).__name__, recipe.epochs) if self.verbose else None
            network, self.history_ = trained(
                build,
                *self._inputs(C, device),
                torch.from_numpy(codes).to(device),
                recipe,
                seed,
                bar,
            )
        shape = (used, self.n_means, rows - self.n_means)
        self.network_ = folded(network, self.scale_, shape, self.means_step, mirror, swap)
        return self

    def _start(self, shape: tuple[int, ...]) -> None:
        """Take the weights of the model to start from."""
        assert self.start_from is not None
        decoder = load_model(model_path(self.start_from))
        if not isinstance(decoder.network, SpatialFilters):
            raise ModelError(
                f"start_from must be a model with spatial filters, got {self.start_from}. Train "
                "one on many people: spdtokens train FOLDER --preset spatial-filters."
            )
        if shape[1:] != decoder.shape:
            raise ModelError(
                f"{self.start_from} was trained on matrices of shape {decoder.shape} per trial, "
                f"got {shape[1:]}. Use its filter bank and channels."
            )
        labels = list(self.start_labels) or self.classes_.tolist()
        if sorted(labels) != self.classes_.tolist() or len(labels) != len(decoder.classes):
            raise ModelError(
                f"start_labels must be the labels of {', '.join(decoder.classes)} in this order, "
                f"got {labels}, and training trials of {self.classes_.tolist()}."
            )
        network = decoder.network.astype(np.float64)
        order = [labels.index(label) for label in self.classes_.tolist()]
        self.network_ = replace(
            network,
            weight=network.weight[..., order],
            means=network.means[..., order],
            bias=network.bias[:, order],
        )

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

    def _inputs(self, C: NDArray[Any], device: torch.device) -> tuple[list[Tensor], Tensor | None]:
        """Tokens (n, windows, features) of each band, and means (n, features)."""
        r, d, windows = self.n_means, C.shape[-1] - self.n_means, self.n_windows
        row, column = np.triu_indices(d)
        bands, dtype = [], training_dtype(device)
        for first in range(0, C.shape[1], windows):
            tokens = C[:, first : first + windows, r + row, r + column] / self.scale_
            bands.append(torch.from_numpy(tokens).to(device, dtype))
        if not r:
            return bands, None
        means = means_over_time(C[:, : windows : self.means_step], r) / np.sqrt(self.scale_)
        means = means.reshape(len(C), -1).astype(np.float32)
        return bands, torch.from_numpy(means).to(device)

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
    def calibrate(self, X: ArrayLike, y: ArrayLike, strength: float = 30.0) -> Self:
        """Adapt the fitted classifier to labelled trials of one person.

        The linear layers are fitted again, with a Gaussian prior around the weights shared by all
        people: the spatial filters stay. The optimum is unique, and found in less than a second.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of the person's trials, recentred.
        y : array, shape (n,)
            Labels, all of them classes of the model.
        strength : float, default=30.0
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


def model_path(model: str | Path) -> Path:
    """Path of a model file, or of a model that ships with the package.

    Raises
    ------
    ModelError
        If there is neither.
    """
    folder = Path(str(files("spdtokens"))) / "pretrained"
    path, shipped = Path(model), folder / f"{model}.spdt"
    if path.suffix == ".spdt" and path.exists():
        return path
    if not shipped.exists():
        names = ", ".join(sorted(file.stem for file in folder.glob("*.spdt")))
        raise ModelError(
            f"There is no model file {model}, and no model of this name in the package. It has: "
            f"{names}."
        )
    return shipped


def trained(
    build: Callable[[], SpatialFilterNetwork],
    bands: Sequence[Tensor],
    means: Tensor | None,
    labels: Tensor,
    recipe: Recipe,
    seed: int,
    listener: Listener | None,
) -> tuple[SpatialFilterNetwork, dict[str, NDArray[np.float64]]]:
    """Train the networks of an ensemble on the same batches; the learning rate runs one cycle."""
    streams, n = RunStreams(seed), len(labels)
    curves: dict[str, list[NDArray[np.float64]]] = {"train loss": [], "train accuracy": []}
    with torch.random.fork_rng([labels.device] if labels.device.type == "cuda" else []):
        torch.manual_seed(streams.weights().initial_seed())
        network = build().to(labels.device).train()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        # Batch norms cannot train on one trial.
        sizes = [k for k in np.diff([*range(0, n, recipe.batch_size), n]).tolist() if k > 1]
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=recipe.epochs * len(sizes)
        )
        for _ in range(recipe.epochs):
            order = torch.from_numpy(streams.order.permutation(n)).to(labels.device)
            loss, correct = torch.zeros(network.members), torch.zeros(network.members)
            for index in order[: sum(sizes)].split(sizes):
                y = labels[index]
                scores = network(
                    [band[index] for band in bands], None if means is None else means[index]
                )
                losses = F.cross_entropy(
                    scores.transpose(1, 2), y[:, None].expand(-1, network.members), reduction="none"
                )
                optimizer.zero_grad()
                losses.mean(0).sum().backward()
                optimizer.step()
                cycle.step()
                loss += losses.detach().sum(0).cpu()
                correct += (scores.argmax(2) == y[:, None]).sum(0).cpu()
            curves["train loss"].append(loss.double().numpy() / sum(sizes))
            curves["train accuracy"].append(correct.double().numpy() / sum(sizes))
            if not np.isfinite(curves["train loss"][-1]).all():
                raise ModelError(
                    f"Training diverged at epoch {len(curves['train loss'])} (the loss is not "
                    f"finite): lower learning_rate (now {recipe.learning_rate:g})."
                )
            if listener:
                listener(1)
    return network.cpu().eval(), {name: np.stack(v, axis=1) for name, v in curves.items()}


def folded(
    network: SpatialFilterNetwork,
    scale: float,
    means_shape: tuple[int, int, int],
    means_step: int,
    mirror: NDArray[np.int64] | None,
    swap: NDArray[np.int64],
) -> SpatialFilters:
    """Fold batch norms into linear layers, and mirrored views into further members."""
    members = network.members
    factor, offset = (a.reshape(members, -1) for a in _affine(network.powers))
    if network.means is not None:
        more = (np.broadcast_to(a, (members, len(a))) for a in _affine(network.means))
        factor, offset = (
            np.concatenate(pair, axis=1) for pair in zip((factor, offset), more, strict=True)
        )
    head = network.weight.detach().double().numpy()
    linear = head * factor[..., None]
    filters = network.filters.detach().double().permute(2, 0, 1, 3).numpy()
    n_bands, k, n_classes = filters.shape[1], filters.shape[3], head.shape[2]
    split = network.powers.num_features // members
    both = SpatialFilters(
        filters / np.sqrt(scale),
        linear[:, :split].reshape(members, n_bands, -1, k, n_classes),
        linear[:, split:].reshape(members, *means_shape, n_classes) / np.sqrt(scale),
        network.bias.detach().double().numpy() + np.einsum("mf,mfc->mc", offset, head),
        EPS,
        means_step,
    )
    if mirror is None:
        return both
    return replace(
        both,
        filters=np.concatenate([both.filters, both.filters[:, :, mirror]]),
        weight=np.concatenate([both.weight, both.weight[..., swap]]),
        means=np.concatenate([both.means, both.means[:, :, :, mirror][..., swap]]),
        bias=np.concatenate([both.bias, both.bias[:, swap]]),
    )


def _affine(norm: torch.nn.BatchNorm1d) -> tuple[Array, Array]:
    """Factor and offset of a batch norm in evaluation mode."""
    assert norm.running_var is not None
    assert norm.running_mean is not None
    factor = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    offset = norm.bias.detach() - norm.running_mean * factor
    return factor.double().numpy(), offset.double().numpy()


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
