"""Networks on tokens, trained by the batched engine: the token transformer and the token MLP."""

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

#: Trials predicted at a time.
PREDICTED_AT_ONCE = 512
#: Trials and labels to validate on, or what returns them when the steps before are fitted.
Validation = tuple[ArrayLike, ArrayLike] | Callable[[], tuple[ArrayLike, ArrayLike]]


class TokenNetworkClassifier(TokenClassifier):
    """Base of the classifiers that the engine trains.

    Subclasses have the parameters of :class:`~spdtokens.classifiers.nn.recipe.Recipe`,
    ``validation``, ``ensemble``, ``random_state``, ``device`` and ``verbose``.
    """

    # Under scikit-learn's metadata routing.
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
        """Train.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
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
        fit_together([self], [(X, y)], [{"groups": groups, "validation": validation}])
        return self

    def _store(self, given: dict[str, Any]) -> None:
        """Keep the arguments of ``__init__`` as they are, as scikit-learn wants it."""
        self.__dict__.update({name: given[name] for name in self._get_param_names()})

    @abstractmethod
    def _module(self, n_features: int, n_tokens: int, n_classes: int) -> TokenModel:
        """The network, not trained."""

    def _recipe(self) -> Recipe:
        values = {field.name: getattr(self, field.name) for field in fields(Recipe)}
        return Recipe(**values | {"betas": tuple(values["betas"])})

    def _bias(self, C: Array) -> Array | None:  # noqa: ARG002
        """What is added to attention scores, for matrices (n, m, d, d)."""
        return None

    @abstractmethod
    def _probabilities(self, tokens: Array, bias: Array | None) -> Array:
        """Mean over the ensemble."""

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict class probabilities, averaged over the ensemble.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)

        Returns
        -------
        probabilities : ndarray, shape (n, classes)
            In the order of ``classes_``.
        """
        C = self._checked(X)
        parts = np.array_split(C, -(-len(C) // PREDICTED_AT_ONCE))
        found = [self._probabilities(self._tokens_of(part), self._bias(part)) for part in parts]
        return np.concatenate(found)

    def _seeds(self) -> list[int]:
        """A seed for each member of the ensemble; the first is ``random_state`` itself."""
        if not isinstance(self.ensemble, int | np.integer) or self.ensemble < 1:
            raise ModelError(f"ensemble must be a whole number >= 1, got {self.ensemble!r}.")
        first = seed_of(self.random_state)
        others = np.random.SeedSequence([first, 1]).generate_state(int(self.ensemble) - 1)
        return [first, *map(int, others)]

    def _finish(self, runs: Sequence[TrainedRun]) -> None:
        # In double precision a prediction does not depend on which trials are predicted with it.
        self.networks_: Any = [run.model.double() for run in runs]
        self.history_ = {
            name: _stacked([run.curves[name] for run in runs]) for name in runs[0].curves
        }
        self.n_epochs_ = [run.epoch for run in runs]


class TokenTransformerClassifier(TokenNetworkClassifier):
    """The paper's SPD Token Transformer: embedding, projection, encoder, mean pooling, head.

    The defaults are the paper's for BCI2a and BCIcha. Those for MAMEM: ``d_model=64, n_layers=4,
    n_heads=4, d_ff=128, batch_size=32``.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='log_euclidean'
        Kind of tokens: see :class:`TokenEmbedding`. None if the input is tokens, (n, features) or
        (n, tokens, features).
    d_model : int, default=128
        Width of the residual stream.
    n_layers, n_heads, d_ff : int, default=6, 8, 256
        Encoder blocks, attention heads of each, and width of their feed-forward parts.
    dropout : float, default=0.1
    bn_embed : bool, default=True
        Whether projected tokens are batch-normalised (BN-Embed).
    attention : {'standard', 'geometric'}, default='standard'
        ``'geometric'`` lowers the score of two tokens by ``alpha`` times the Bures-Wasserstein
        distance of their matrices; it takes one embedding, and with one token per trial it changes
        nothing.
    alpha : float, default=0.5
    epochs, batch_size : int, default=50, 64
    learning_rate : float, default=1e-3
    weight_decay : float, default=0.0
    decoupled : bool, default=True
        Whether weights decay apart from the gradient (AdamW) or as part of it.
    betas : pair of float, default=(0.9, 0.999)
        Of Adam.
    label_smoothing : float, default=0.0
    keep : {'last', 'best'}, default='last'
        Weights to keep: those of the last epoch, or of the lowest loss on validation trials.
    patience : int, default=None
        Stop when the validation loss has not fallen for that many epochs.
    validation : float, default=None
        Share of the training trials held back for validation. By default all are trained on.
    ensemble : int, default=1
        Number of networks, trained together from different seeds; their probabilities are averaged.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, order of trials and dropout.
    device : str, default='auto'
        ``'auto'``, ``'cpu'`` or ``'cuda'``.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    embedding_ : TokenEmbedding or None
        Fitted first layer.
    networks_ : list of SPDTokenTransformer
        As torch modules, in float64.
    history_ : dict of str to ndarray, shape (ensemble, epochs)
        ``'train loss'``, ``'train accuracy'`` (with dropout, as trained), and with validation
        trials ``'validation loss'`` and ``'validation accuracy'``.
    n_epochs_ : list of int
        The epoch, from 1, that was kept of each network.
    held_back_ : ndarray of int or None
        Training trials that were validated on instead.
    n_features_in_ : int
        Rows of a matrix.

    See Also
    --------
    fit_together : Fit many at once.
    SPDTokenTransformer : The module itself, for training loops of your own.

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
                    "attention='geometric' compares the matrices of tokens: name one embedding, "
                    f"and pass matrices, got embedding={self.embedding!r}."
                )
        # Its weights do not matter: every run draws its own from its seed.
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
    """A multilayer perceptron on tokens side by side: what the paper compares its encoder with.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='log_euclidean'
        As for :class:`TokenTransformerClassifier`.
    width : int, default=None
        Of each hidden layer; by default such that there are about as many parameters as in the
        paper's transformer.
    n_layers : int, default=3
        Hidden layers.
    dropout : float, default=0.1
    epochs, batch_size, learning_rate, weight_decay, decoupled, betas, label_smoothing, keep, \
patience, validation, ensemble, random_state, device, verbose
        As for :class:`TokenTransformerClassifier`.

    Attributes
    ----------
    classes_, embedding_, networks_, history_, n_epochs_, held_back_, n_features_in_
        As of :class:`TokenTransformerClassifier`.

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
    """What an estimator brings to the engine: tokens of training and validation trials, plans."""

    estimator: TokenNetworkClassifier
    tokens: Array
    bias: Array | None
    codes: Codes
    plans: list[RunPlan]


def offers_together(estimator: BaseEstimator) -> bool:
    """Whether the engine fits such estimators: those whose last step is a token network."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return isinstance(last, TokenNetworkClassifier)


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
    than one after another; any other estimator is fitted by itself.

    Parameters
    ----------
    estimators : sequence of estimator
        Classifiers, or pipelines that end in one. Each is fitted in place.
    data : sequence of (X, y)
        One for each estimator. Estimators that are given the same arrays share what is computed
        from them.
    params : sequence of mapping, optional
        What else ``fit`` takes (``groups``, ``validation``, ...), one for each estimator.
    listener : callable, optional
        Told of advances, in units of an estimator.

    Returns
    -------
    list of estimator
        Those that were passed, fitted.

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
            f"There are {len(estimators)} estimators, {len(data)} data and {len(more)} params: "
            "they must be as many."
        )
    data = list(data)  # as long as they are kept, arrays are told apart by where they are
    known: dict[Any, Any] = {}  # what was computed from arrays, by these
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
    """What ``fit`` is told: a plain pipeline is told for which step it is."""
    if not isinstance(estimator, Pipeline) or takes(estimator, "groups"):
        return given
    if "validation" in given:
        held, labels = given["validation"]
        # Transformed when the steps before are fitted.
        given = given | {"validation": lambda: (estimator[:-1].transform(held), labels)}
    return addressed(estimator, given)


def _before_last(
    pipeline: Pipeline, X: ArrayLike, y: ArrayLike, given: dict[str, Any], known: dict[Any, Any]
) -> tuple[ArrayLike, dict[str, Any]]:
    """Fit all steps but the last; what the last is given. Those that are alike are fitted once."""
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
    """The same for steps that do the same."""
    try:
        return pickle.dumps((type(step), step.get_params()))
    except (pickle.PicklingError, AttributeError, TypeError):
        return id(step)


#: Parameters that decide the architecture, or how runs are trained besides the recipe.
_SHAPE = {*TransformerConfig.__dataclass_fields__, "width", "device", "verbose"}


def _job(
    estimator: TokenNetworkClassifier,
    X: ArrayLike,
    y: ArrayLike,
    known: dict[Any, Any],
    groups: ArrayLike | None = None,
    validation: Validation | None = None,
) -> _Job:
    """Check, embed, and plan; trials that several estimators share are embedded once."""
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
    """Hold a share of the trials back for validation, or all those after the first ``given``."""
    if given is None:
        return held_back(seed, codes, groups, share)
    return RunPlan(seed, np.arange(given), np.arange(given, len(codes)))


def _embedded(
    estimator: TokenNetworkClassifier, X: ArrayLike, y: ArrayLike, validation: Validation | None
) -> tuple[Array, Array | None, Codes]:
    """Tokens, attention bias and codes of training and validation trials."""
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
    """Curves of unequal length as (runs, epochs), filled with NaN."""
    longest = max(map(len, curves))
    return np.stack([np.pad(c, (0, longest - len(c)), constant_values=np.nan) for c in curves])
