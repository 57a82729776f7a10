"""Token transformer and token MLP as scikit-learn classifiers, trained by the batched engine."""

from __future__ import annotations

import copy
import pickle
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import Tensor

from spdtokens.classifiers.base import (
    Array,
    Codes,
    EmbeddingSpec,
    TokenClassifier,
    addressed,
    check_finite,
    coded,
    held_back,
    seed_of,
    shared_out,
    takes,
)
from spdtokens.classifiers.nn import SPDTokenMLP, SPDTokenTransformer, folded, matching_width
from spdtokens.classifiers.nn.engine import Listener, Pool, RunPlan, TrainedRun, train_runs
from spdtokens.classifiers.nn.layers import TokenModel
from spdtokens.classifiers.nn.recipe import Recipe, TrainingBars, resolve_device
from spdtokens.classifiers.nn.transformer import STANDARD, Attention, TransformerConfig
from spdtokens.errors import ModelError
from spdtokens.geometry.matrix_functions import as_tensor
from spdtokens.runtime.networks import Transformers, geometric_bias
from spdtokens.runtime.threads import one_thread

#: Number of trials predicted at a time.
PREDICTED_AT_ONCE = 512
#: Validation trials and labels, or a function that returns them once earlier steps are fitted.
Validation = tuple[ArrayLike, ArrayLike] | Callable[[], tuple[ArrayLike, ArrayLike]]


class TokenNetworkClassifier(TokenClassifier):
    """Base class of the classifiers that the batched engine trains.

    Subclasses have the parameters of :class:`~spdtokens.classifiers.nn.Recipe`, and ``validation``,
    ``ensemble``, ``random_state``, ``device`` and ``verbose``.
    """

    # For scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {"groups": True, "validation": True}

    validation: float | None
    ensemble: int
    random_state: Any
    device: str
    verbose: bool

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        validation: Validation | None = None,
    ) -> Self:
        """Train the networks.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices; with ``embedding=None`` tokens (n, n_features) or
            (n, n_tokens, n_features).
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), default=None
            Groups of trials that are never split between training and validation.
        validation : tuple of array, default=None
            Validation trials and labels, instead of holding out some of ``X``.

        Returns
        -------
        self
            Fitted classifier.
        """
        fit_together([self], [(X, y)], [{"groups": groups, "validation": validation}])
        return self

    def _store(self, given: dict[str, Any]) -> None:
        """Store the arguments of ``__init__`` unchanged, as scikit-learn requires."""
        self.__dict__.update({name: given[name] for name in self._get_param_names()})

    @abstractmethod
    def _module(self, n_features: int, n_tokens: int, n_classes: int) -> TokenModel:
        """Build the untrained network."""

    def _recipe(self) -> Recipe:
        values = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        return Recipe(**values | {"betas": tuple(values["betas"])})

    def _bias(self, C: Array) -> Array | None:  # noqa: ARG002
        """Compute the attention bias of matrices (n, n_matrices, d, d), if there is one."""
        return None

    @abstractmethod
    def _probabilities(self, tokens: Array, bias: Array | None) -> Array:
        """Compute probabilities, averaged over the ensemble."""

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict class probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices, or tokens, as in ``fit``.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities in the order of ``classes_``.
        """
        C = self._checked(X)
        parts = np.array_split(C, -(-len(C) // PREDICTED_AT_ONCE))
        found = [self._probabilities(self._tokens_of(part), self._bias(part)) for part in parts]
        return np.concatenate(found)

    def _seeds(self) -> list[int]:
        """Return one seed per network of the ensemble; the first is ``random_state`` itself."""
        if not isinstance(self.ensemble, int | np.integer) or self.ensemble < 1:
            raise ModelError(f"ensemble must be an integer >= 1, got {self.ensemble!r}.")
        first = seed_of(self.random_state)
        others = np.random.SeedSequence([first, 1]).generate_state(int(self.ensemble) - 1)
        return [first, *map(int, others)]

    def _finish(self, runs: Sequence[TrainedRun]) -> None:
        # In double precision a prediction does not depend on the other trials of the batch.
        self.networks_: Any = [run.model.double() for run in runs]
        self.history_ = {
            name: _stacked([run.curves[name] for run in runs]) for name in runs[0].curves
        }
        self.n_epochs_ = [run.epoch for run in runs]


class TokenTransformerClassifier(TokenNetworkClassifier):
    """SPD Token Transformer of the paper, on SPD matrices.

    Embedding, linear projection, transformer encoder, mean over tokens and linear head. The
    defaults are the paper's for BCI2a and BCIcha. For MAMEM it uses ``d_model=64, n_layers=4,
    n_heads=4, d_ff=128, batch_size=32``.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='log_euclidean'
        Embedding of the matrices, see :class:`TokenEmbedding`. None if the input is tokens
        (n, n_features) or (n, n_tokens, n_features).
    d_model : int, default=128
        Width of the residual stream.
    n_layers : int, default=6
        Number of encoder blocks.
    n_heads : int, default=8
        Attention heads per block. Must divide ``d_model``.
    d_ff : int, default=256
        Hidden width of the feed-forward networks.
    dropout : float, default=0.1
        Dropout probability, in [0, 1).
    bn_embed : bool, default=True
        Whether projected tokens are batch-normalised (BN-Embed of the paper).
    attention : {'standard', 'geometric'}, default='standard'
        ``'geometric'`` lowers the attention score of two tokens by ``alpha`` times the
        Bures-Wasserstein distance between their matrices. It needs a single embedding, and has no
        effect with one token per trial.
    alpha : float, default=0.5
        Weight of the distance in geometric attention.
    epochs : int, default=50
        Number of epochs.
    batch_size : int, default=64
        Trials per batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    weight_decay : float, default=0.0
        Weight decay.
    decoupled : bool, default=True
        Whether the weight decay is decoupled from the gradient (AdamW) or part of it (Adam with L2
        penalty).
    betas : tuple of float, default=(0.9, 0.999)
        Decay rates of Adam's two moments.
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over the classes.
    keep : {'last', 'best'}, default='last'
        Weights to keep: those of the last epoch, or those of the epoch with the lowest validation
        loss.
    patience : int, default=None
        Stop when the validation loss has not decreased for this many epochs.
    validation : float, default=None
        Share of the training trials held out for validation. By default all are trained on.
    ensemble : int, default=1
        Number of networks, trained together from different seeds. Their probabilities are averaged.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : {'auto', 'cpu', 'cuda'}, default='auto'
        Where to train. ``'auto'`` is CUDA where available, else the CPU.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    embedding_ : TokenEmbedding or None
        Fitted embedding.
    networks_ : list of SPDTokenTransformer
        Trained torch modules, in float64.
    history_ : dict of str to ndarray, shape (ensemble, n_epochs)
        ``'train loss'`` and ``'train accuracy'``, measured during training with dropout, and with
        validation trials ``'validation loss'`` and ``'validation accuracy'``.
    n_epochs_ : list of int
        Epoch that was kept for each network, counted from 1.
    held_back_ : ndarray of int or None
        Indices of the training trials that were held out for validation.
    n_features_in_ : int
        Rows of a matrix, or number of features of a token.

    See Also
    --------
    TokenMLPClassifier : The same with a multilayer perceptron.
    fit_together : Fit many classifiers at once.
    SPDTokenTransformer : The torch module, for custom training loops.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenTransformerClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> signals = rng.standard_normal((40, 3, 100))
    >>> signals[y == 1, 0] *= 2
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> model = TokenTransformerClassifier(d_model=16, n_layers=1, n_heads=2, random_state=0)
    >>> float(model.fit(C, y).score(C, y)) > 0.8
    True
    """

    networks_: list[SPDTokenTransformer]
    attention: Attention
    alpha: float

    def __init__(
        self,
        embedding: EmbeddingSpec = "log_euclidean",
        *,
        d_model: int = STANDARD.d_model,
        n_layers: int = STANDARD.n_layers,
        n_heads: int = STANDARD.n_heads,
        d_ff: int = STANDARD.d_ff,
        dropout: float = STANDARD.dropout,
        bn_embed: bool = STANDARD.bn_embed,
        attention: Attention = STANDARD.attention,
        alpha: float = STANDARD.alpha,
        epochs: int = Recipe.epochs,
        batch_size: int = Recipe.batch_size,
        learning_rate: float = Recipe.learning_rate,
        weight_decay: float = Recipe.weight_decay,
        decoupled: bool = Recipe.decoupled,
        betas: tuple[float, float] = Recipe.betas,
        label_smoothing: float = Recipe.label_smoothing,
        keep: Literal["last", "best"] = Recipe.keep,
        patience: int | None = Recipe.patience,
        validation: float | None = None,
        ensemble: int = 1,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self._store(locals())

    def _config(self) -> TransformerConfig:
        names = TransformerConfig.__dataclass_fields__
        return TransformerConfig(**{name: getattr(self, name) for name in names})

    def _module(self, n_features: int, n_tokens: int, n_classes: int) -> SPDTokenTransformer:
        config = self._config()
        if config.attention == "geometric" and n_tokens > 1:
            embedding = self._embedding()
            if embedding is None or len(embedding.names) > 1:
                raise ModelError(
                    "attention='geometric' compares the matrices of tokens: it needs matrices and "
                    f"one embedding, got embedding={self.embedding!r}."
                )
        # These weights are not used: every run draws its own from its seed.
        generator = torch.Generator().manual_seed(0)
        return SPDTokenTransformer(n_features, n_tokens, n_classes, config, generator=generator)

    def _bias(self, C: Array) -> Array | None:
        if self.attention != "geometric" or self.embedding_ is None or C.shape[1] == 1:
            return None
        return geometric_bias(self.embedding_.scaled(C), self.alpha)

    def _finish(self, runs: Sequence[TrainedRun]) -> None:
        super()._finish(runs)
        members = [folded(network, np.float64) for network in self.networks_]
        self.network_ = Transformers(members, self.alpha)

    def _probabilities(self, tokens: Array, bias: Array | None) -> Array:
        return self.network_.mean(tokens, bias)


class TokenMLPClassifier(TokenNetworkClassifier):
    """Multilayer perceptron on concatenated tokens, the paper's comparison to its encoder.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='log_euclidean'
        Embedding of the matrices, see :class:`TokenEmbedding`. None if the input is tokens
        (n, n_features) or (n, n_tokens, n_features).
    width : int, default=None
        Width of each hidden layer. By default the number of parameters is about that of the
        paper's transformer.
    n_layers : int, default=3
        Number of hidden layers.
    dropout : float, default=0.1
        Dropout probability, in [0, 1).
    epochs : int, default=50
        Number of epochs.
    batch_size : int, default=64
        Trials per batch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    weight_decay : float, default=0.0
        Weight decay.
    decoupled : bool, default=True
        Whether the weight decay is decoupled from the gradient (AdamW) or part of it (Adam with L2
        penalty).
    betas : tuple of float, default=(0.9, 0.999)
        Decay rates of Adam's two moments.
    label_smoothing : float, default=0.0
        Share of the target that is spread evenly over the classes.
    keep : {'last', 'best'}, default='last'
        Weights to keep: those of the last epoch, or those of the epoch with the lowest validation
        loss.
    patience : int, default=None
        Stop when the validation loss has not decreased for this many epochs.
    validation : float, default=None
        Share of the training trials held out for validation. By default all are trained on.
    ensemble : int, default=1
        Number of networks, trained together from different seeds. Their probabilities are averaged.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : {'auto', 'cpu', 'cuda'}, default='auto'
        Where to train. ``'auto'`` is CUDA where available, else the CPU.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    embedding_ : TokenEmbedding or None
        Fitted embedding.
    networks_ : list of SPDTokenMLP
        Trained torch modules, in float64.
    history_ : dict of str to ndarray, shape (ensemble, n_epochs)
        ``'train loss'`` and ``'train accuracy'``, measured during training with dropout, and with
        validation trials ``'validation loss'`` and ``'validation accuracy'``.
    n_epochs_ : list of int
        Epoch that was kept for each network, counted from 1.
    held_back_ : ndarray of int or None
        Indices of the training trials that were held out for validation.
    n_features_in_ : int
        Rows of a matrix, or number of features of a token.

    See Also
    --------
    TokenTransformerClassifier : The same with a transformer.
    fit_together : Fit many classifiers at once.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenMLPClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = rng.standard_normal((40, 6)) + y[:, None]
    >>> model = TokenMLPClassifier(embedding=None, width=16, epochs=60, random_state=0)
    >>> float(model.fit(X, y).score(X, y)) > 0.8
    True
    """

    width: int | None
    n_layers: int
    dropout: float

    def __init__(
        self,
        embedding: EmbeddingSpec = "log_euclidean",
        *,
        width: int | None = None,
        n_layers: int = 3,
        dropout: float = 0.1,
        epochs: int = Recipe.epochs,
        batch_size: int = Recipe.batch_size,
        learning_rate: float = Recipe.learning_rate,
        weight_decay: float = Recipe.weight_decay,
        decoupled: bool = Recipe.decoupled,
        betas: tuple[float, float] = Recipe.betas,
        label_smoothing: float = Recipe.label_smoothing,
        keep: Literal["last", "best"] = Recipe.keep,
        patience: int | None = Recipe.patience,
        validation: float | None = None,
        ensemble: int = 1,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self._store(locals())

    def _module(self, n_features: int, n_tokens: int, n_classes: int) -> SPDTokenMLP:
        width, generator = self.width, torch.Generator().manual_seed(0)
        if width is None:
            alike = SPDTokenTransformer(n_features, n_tokens, n_classes, generator=generator)
            parameters = sum(p.numel() for p in alike.parameters())
            width = matching_width(n_features * n_tokens, n_classes, parameters, self.n_layers)
        return SPDTokenMLP(
            n_features,
            n_tokens,
            n_classes,
            width=width,
            n_layers=self.n_layers,
            dropout=self.dropout,
            generator=generator,
        )

    def _probabilities(self, tokens: Array, bias: Array | None) -> Array:  # noqa: ARG002
        with torch.inference_mode():
            scores = [network(as_tensor(tokens).double()) for network in self.networks_]
            return sum(score.softmax(-1).numpy() for score in scores) / len(scores)


class _Job(NamedTuple):
    """Tokens of training and validation trials of an estimator, and its runs."""

    estimator: TokenNetworkClassifier
    tokens: Array
    bias: Array | None
    codes: Codes
    plans: list[RunPlan]


def offers_together(estimator: BaseEstimator) -> bool:
    """Return whether the last step is a token network that the batched engine trains.

    A subclass with a ``fit`` of its own is not.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return getattr(type(last), "fit", None) is TokenNetworkClassifier.fit


@one_thread()
def fit_together(
    estimators: Sequence[BaseEstimator],
    data: Sequence[tuple[ArrayLike, ArrayLike]],
    params: Sequence[Mapping[str, Any]] | None = None,
    *,
    listener: Listener | None = None,
) -> list[BaseEstimator]:
    """Fit many estimators at once, each exactly as its own ``fit`` would, bit for bit.

    Token networks of one architecture and recipe are trained as one batch, several times faster
    than one after another. Any other estimator is fitted by itself.

    Parameters
    ----------
    estimators : sequence of estimator
        Classifiers, or pipelines that end in one. Each is fitted in place.
    data : sequence of (X, y)
        Trials and labels of each estimator. Computations on arrays that several estimators share
        are done once.
    params : sequence of mapping, default=None
        Further arguments of each ``fit``, such as ``groups`` or ``validation``.
    listener : callable, default=None
        Called with the progress, in units of one estimator.

    Returns
    -------
    list of estimator
        The fitted ``estimators``.

    Raises
    ------
    ModelError
        If the sequences differ in length, or an estimator cannot be fitted.

    See Also
    --------
    TokenTransformerClassifier : A token network.
    TokenMLPClassifier : Another one.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenTransformerClassifier, fit_together
    >>> rng = np.random.default_rng(0)
    >>> signals, y = rng.standard_normal((40, 3, 100)), np.repeat([0, 1], 20)
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> small = {"d_model": 16, "n_layers": 1, "n_heads": 2, "epochs": 2}
    >>> five = [TokenTransformerClassifier(**small, random_state=seed) for seed in range(5)]
    >>> len(fit_together(five, [(C, y)] * 5))
    5
    """
    more = [dict(p) for p in params] if params is not None else [{} for _ in estimators]
    if not len(estimators) == len(data) == len(more):
        raise ModelError(
            "estimators, data and params must have equal length, got "
            f"{len(estimators)}, {len(data)} and {len(more)}."
        )
    data = list(data)  # kept alive, so that the id of an array stays unique
    known: dict[Any, Any] = {}  # results, by the arrays they were computed from
    families: dict[Any, list[_Job]] = {}
    for estimator, (X, y), given in zip(estimators, data, more, strict=True):
        given = {name: value for name, value in given.items() if value is not None}
        if not offers_together(estimator):
            estimator.fit(X, y, **_told(estimator, given))
            if listener:
                listener(1.0)
            continue
        last = estimator
        if isinstance(estimator, Pipeline):
            X, given = _before_last(estimator, X, y, given, known)
            last = estimator.steps[-1][1]
        job = _job(last, X, y, known, **given)
        family = (
            type(last),
            repr(last._recipe()),
            repr({k: v for k, v in last.get_params(deep=False).items() if k in _SHAPE}),
            job.tokens.shape[1:],
            len(last.classes_),
            job.plans[0].validation is None,
            job.bias is None,
        )
        families.setdefault(family, []).append(job)
    for jobs in families.values():
        _train(jobs, listener)
    return list(estimators)


def _told(estimator: BaseEstimator, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``fit``; those of a plain pipeline name the step."""
    if not isinstance(estimator, Pipeline) or takes(estimator, "groups"):
        return given

    def before(X: ArrayLike) -> Any:
        return estimator[:-1].transform(X) if len(estimator.steps) > 1 else X

    # Transformed once the earlier steps are fitted.
    later = {
        name: lambda pair=given[name]: (before(pair[0]), pair[1])
        for name in ("validation", "unlabeled")
        if name in given
    }
    return addressed(estimator, given | later)


def _before_last(
    pipeline: Pipeline, X: ArrayLike, y: ArrayLike, given: dict[str, Any], known: dict[Any, Any]
) -> tuple[ArrayLike, dict[str, Any]]:
    """Fit all steps but the last and return the input of the last; equal steps are fitted once."""
    told = shared_out(pipeline, given)
    steps = {name: step for name, step in pipeline.steps[:-1] if name in told}
    rest = told[pipeline.steps[-1][0]]
    key = (id(X), id(y), *((name, id(value)) for name, value in given.items()))
    same = (*key, *map(_alike, steps.values()))
    if same in known:
        fitted, made, held = known[same]
        for step, first in zip(steps.values(), fitted, strict=True):
            vars(step).update(copy.deepcopy(vars(first)))
    else:
        made, held = X, rest.get("validation")
        for name, step in steps.items():
            made = step.fit_transform(made, y, **told[name])
        if held is not None:
            trials, labels = held
            for step in steps.values():
                trials = step.transform(trials)
            held = (trials, labels)
        known[same] = ([*steps.values()], made, held)
    return made, rest if held is None else rest | {"validation": held}


def _alike(step: BaseEstimator) -> bytes | int:
    """Return a key that is equal for steps of the same class and parameters."""
    try:
        return pickle.dumps((type(step), step.get_params()))
    except (pickle.PicklingError, AttributeError, TypeError):
        return id(step)


#: Parameters besides the recipe that must be equal to train runs together.
_SHAPE = {*TransformerConfig.__dataclass_fields__, "width", "device", "verbose"}


def _job(
    estimator: TokenNetworkClassifier,
    X: ArrayLike,
    y: ArrayLike,
    known: dict[Any, Any],
    groups: ArrayLike | None = None,
    validation: Validation | None = None,
) -> _Job:
    """Check and embed trials, and plan the runs; shared trials are embedded once."""
    same = (
        *(id(X), id(y), id(validation), repr(estimator.embedding), type(estimator)),
        *(getattr(estimator, "attention", None), getattr(estimator, "alpha", None)),
    )
    if same in known:
        first, tokens, bias, codes = known[same]
        for name in ("classes_", "n_features_in_", "embedding_", "token_shape_"):
            if hasattr(first, name):
                setattr(estimator, name, getattr(first, name))
    else:
        tokens, bias, codes = _embedded(estimator, X, y, validation)
        known[same] = (estimator, tokens, bias, codes)
    n = None if validation is None else len(np.asarray(y))
    plans = [planned(s, codes, groups, estimator.validation, n) for s in estimator._seeds()]
    estimator.held_back_ = plans[0].validation if n is None else None
    return _Job(estimator, tokens, bias, codes, plans)


def planned(
    seed: int, codes: Codes, groups: ArrayLike | None, share: float | None, given: int | None
) -> RunPlan:
    """Hold out a share of the trials for validation, or all after the first ``given``."""
    if given is None:
        return held_back(seed, codes, groups, share)
    return RunPlan(seed, np.arange(given), np.arange(given, len(codes)))


def _embedded(
    estimator: TokenNetworkClassifier, X: ArrayLike, y: ArrayLike, validation: Validation | None
) -> tuple[Array, Array | None, Codes]:
    """Compute tokens, attention bias and class numbers of training and validation trials."""
    C, codes = estimator._checked_for_fit(X, y)
    embedding = estimator._embedding()
    estimator.embedding_ = None if embedding is None else embedding.fit_matrices(C, codes)
    parts, labels = [C], [codes]
    if validation is not None:
        held, held_y = validation() if callable(validation) else validation
        parts.append(estimator._checked(held))
        labels.append(coded(held_y, estimator.classes_))
    tokens = np.concatenate([estimator._tokens_of(part) for part in parts])
    check_finite(tokens)
    biases = [bias for bias in map(estimator._bias, parts) if bias is not None]
    return tokens, np.concatenate(biases) if biases else None, np.concatenate(labels)


def _train(jobs: Sequence[_Job], listener: Listener | None) -> None:
    """Train the runs of estimators of one architecture and recipe."""
    first = jobs[0].estimator
    recipe, device = first._recipe(), resolve_device(first.device)
    pooled: list[_Job] = []
    starts: dict[int, int] = {}
    for job in jobs:
        if id(job.tokens) not in starts:
            starts[id(job.tokens)] = sum(len(other.tokens) for other in pooled)
            pooled.append(job)
    plans = [plan.moved(starts[id(job.tokens)]) for job in jobs for plan in job.plans]
    biases = [job.bias for job in pooled if job.bias is not None]
    pool = Pool(
        _as_float32([job.tokens for job in pooled]).to(device),
        torch.from_numpy(np.concatenate([job.codes for job in pooled])).to(device),
        _as_float32(biases).to(device) if biases else None,
    )
    _, n_tokens, n_features = jobs[0].tokens.shape
    total = recipe.epochs * len(plans)
    with TrainingBars() as bars:
        bar = bars.add(type(first).__name__, total) if first.verbose else None

        def told(done: float) -> None:
            if bar:
                bar(done)
            if listener:
                listener(done * len(jobs) / total)

        module = first._module(n_features, n_tokens, len(first.classes_))
        runs = train_runs(module, pool, plans, recipe, listener=told)
    for job in jobs:
        job.estimator._finish(runs[: len(job.plans)])
        runs = runs[len(job.plans) :]


def _as_float32(arrays: Sequence[Array]) -> Tensor:
    return torch.cat([as_tensor(array).to(torch.float32) for array in arrays])


def _stacked(curves: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Stack curves of unequal length as (runs, epochs), padded with NaN."""
    longest = max(map(len, curves))
    return np.stack([np.pad(c, (0, longest - len(c)), constant_values=np.nan) for c in curves])
