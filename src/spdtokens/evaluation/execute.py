"""Do runs: many at once where the engine can, else one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from spdtokens.data import Selection
from spdtokens.evaluation.access import get_access
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.folds import Fold, check_fold
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.origin import origin, peak_memory
from spdtokens.evaluation.parts import Part, Parts, prepare, with_access
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.protocols import get_protocol
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.evaluation.trials import Trials
from spdtokens.models import geometric_bias
from spdtokens.models.networks import TrialShape
from spdtokens.runtime.threads import one_thread
from spdtokens.training import Pool, RunPlan, train_runs
from spdtokens.training.device import resolve_device
from spdtokens.training.engine import Listener
from spdtokens.training.labels import held_back
from spdtokens.training.methods import Method, Settings, Together, get_method
from spdtokens.training.network_classifier import NetworkClassifier

#: Share of training trials held back where a recipe needs validation and the protocol has none.
HELD_BACK = 0.125
#: Trials predicted at a time.
PREDICTED_AT_ONCE = 512


# In the order of one thread: the same bits in a worker with one and a process with many.
@one_thread()
def execute(
    specs: Sequence[RunSpec], source: Source, listener: Listener | None = None
) -> list[RunResult]:
    """Do runs of one family.

    Every result is the same, bit by bit, whatever runs are done with it.

    Parameters
    ----------
    specs : sequence of RunSpec
        That differ in subject, fold and seed only.
    source : Source
    listener : callable, optional
        Told of every run that is done, or of parts of it.
    """
    if len({spec.family for spec in specs}) != 1:
        raise EvaluationError("Runs done together differ in subject, fold and seed only.")
    method = get_method(specs[0].method)
    settings = Settings(**specs[0].settings)
    if method.together is not None:
        return _together(specs, source, method, settings, method.together(settings), listener)
    results = []
    for spec in specs:
        results.append(_alone(spec, source, method, settings))
        if listener:
            listener(1.0)
    return results


def open_fold(spec: RunSpec, source: Source) -> tuple[Fold, Trials]:
    """The fold of a run, checked again for leaks, and the trials it is made of."""
    selection = Selection.of(spec.selection)
    trials = source.trials(spec.dataset, selection, spec.subjects)
    protocol = get_protocol(spec.protocol)
    folds = source.folds(trials, spec.subject, protocol, spec.protocol_options)
    fold = next((fold for fold in folds if fold.name == spec.fold), None)
    if fold is None:
        raise EvaluationError(f"{spec.dataset}: subject {spec.subject} has no fold {spec.fold}.")
    fold = with_access(fold, trials.table, get_access(spec.access))
    check_fold(fold, trials)
    if trials.hash_of(fold.rows) != spec.data_hash:
        raise EvaluationError(
            f"{spec.dataset}: the recordings of subject {spec.subject} are not those the run was "
            "planned with. They were changed since, or this machine has others."
        )
    return fold, trials


def _alone(spec: RunSpec, source: Source, method: Method, settings: Settings) -> RunResult:
    start = time.perf_counter()
    fold, trials = open_fold(spec, source)
    parts = prepare(spec, fold, get_access(spec.access), trials, method, settings)
    mine = settings if spec.seed is None else replace(settings, seed=spec.seed)
    matrices = parts.train.X.ndim == 4
    options = {} if matrices else method.options(trials.dataset, mine)
    classifier = method.build(options, mine)
    if isinstance(classifier, NetworkClassifier):
        held = parts.validation
        validation = None if held is None else (held.X, held.y)
        classifier.fit(parts.train.X, parts.train.y, parts.train.groups, validation)
        curves, epoch, own = classifier.history_, classifier.epoch_, classifier.held_back_
    else:
        weights = weights_for(method, fold, trials, parts)
        # Classical pipelines split nothing by groups.
        grouped = {"groups": parts.train.groups} if method.weighs else {}
        classifier.fit(parts.train.X, parts.train.y, **grouped, **weights)
        curves, epoch, own = {}, None, None
    return _result(
        spec,
        fold,
        trials,
        parts if own is None else parts.holding_back(own),
        lambda part: class_probabilities(classifier, part.X),
        start,
        curves=curves,
        epoch=epoch,
    )


def weights_for(method: Method, fold: Fold, trials: Trials, parts: Parts) -> dict[str, Any]:
    """What to pass to ``fit``: for methods that weigh trials, how much each counts.

    The tested subject's own trials count for as much as those of all other subjects together.
    """
    own = trials.table.subject[parts.train.rows] == fold.subject
    share = own.mean()
    if not method.weighs or share in (0, 1):
        return {}
    return {"sample_weight": np.where(own, 0.5 / share, 0.5 / (1 - share))}


def class_probabilities(classifier: BaseEstimator, X: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities (n, classes), or where there are none a softmax of decision values.

    The largest is that of the predicted class.
    """
    if hasattr(classifier, "predict_proba"):
        probabilities: NDArray[np.float64] = classifier.predict_proba(X)
        return probabilities
    values = classifier.decision_function(X)
    if values.ndim == 1:
        values = np.stack([-values / 2, values / 2], axis=1)
    return torch.from_numpy(values).softmax(1).numpy()


def _together(
    specs: Sequence[RunSpec],
    source: Source,
    method: Method,
    settings: Settings,
    engine: Together,
    listener: Listener | None,
) -> list[RunResult]:
    start = time.perf_counter()
    opened: dict[tuple[str, str], _Tokens] = {}
    first = 0
    for spec in specs:
        where = (spec.subject, spec.fold)
        if where not in opened:
            opened[where] = _Tokens(spec, source, method, settings, engine, first)
            first += opened[where].n_pooled
    mine = [opened[spec.subject, spec.fold] for spec in specs]
    device = resolve_device(settings.device)
    pool = _pool(list(opened.values()), device)
    any_fold = mine[0]
    shape = TrialShape(
        any_fold.n_chans, len(any_fold.trials.dataset.classes), n_tokens=pool.tokens.shape[1]
    )
    epochs = engine.recipe.epochs
    plans = [tokens.plan(spec.seed or 0, engine) for spec, tokens in zip(specs, mine, strict=True)]
    runs = train_runs(
        engine.build(shape),
        pool,
        [tokens.in_pool(plan) for tokens, plan in zip(mine, plans, strict=True)],
        engine.recipe,
        listener=None if listener is None else lambda done: listener(done / epochs),
    )
    spent = (time.perf_counter() - start) / len(specs)
    results = []
    for spec, tokens, run, plan in zip(specs, mine, runs, plans, strict=True):
        begin = time.perf_counter() - spent  # each carries its share of what was done together
        network = run.model.double()
        results.append(
            _result(
                spec,
                tokens.fold,
                tokens.trials,
                tokens.used(plan),
                partial(tokens.probabilities, network),
                begin,
                curves=run.curves,
                epoch=run.epoch,
            )
        )
    return results


class _Tokens:
    """A fold as tokens, its place in the pool, and its parts."""

    def __init__(
        self,
        spec: RunSpec,
        source: Source,
        method: Method,
        settings: Settings,
        engine: Together,
        first: int,
    ) -> None:
        self.fold, self.trials = open_fold(spec, source)
        access = get_access(spec.access)
        self.parts = prepare(spec, self.fold, access, self.trials, method, settings)
        self.alpha, self.first = engine.alpha, first
        train = self.parts.train
        options = {} if train.X.ndim == 4 else method.options(self.trials.dataset, settings)
        self.tokenizer = engine.tokenizer(**options).fit(train.X, train.y)
        self.n_chans = self.tokenizer.covariances(train.X[:1]).shape[-1]
        self.pooled = [self.parts.train]
        if self.parts.validation is not None:
            self.pooled.append(self.parts.validation)
        self.n_pooled = sum(map(len, self.pooled))
        made = [self.tokens(part) for part in self.pooled]
        self.X = torch.cat([tokens for tokens, _ in made])
        biases = [bias for _, bias in made if bias is not None]
        self.bias = torch.cat(biases) if biases else None
        self.y = np.concatenate([part.y for part in self.pooled])

    def tokens(self, part: Part) -> tuple[torch.Tensor, torch.Tensor | None]:
        C = self.tokenizer.covariances(part.X)
        tokens = torch.from_numpy(self.tokenizer.embedding_.to_token(C))
        if self.alpha is None or C.shape[1] == 1:
            return tokens, None
        return tokens, geometric_bias(torch.from_numpy(C), self.alpha)

    def plan(self, seed: int, engine: Together) -> RunPlan:
        """What a run trains on and validates on, by place in the fold."""
        train = self.parts.train
        if self.parts.validation is not None:
            return RunPlan(seed, np.arange(len(train)), np.arange(len(train), self.n_pooled))
        share = HELD_BACK if engine.recipe.needs_validation else None
        return held_back(seed, train.y, train.groups, share)

    def in_pool(self, plan: RunPlan) -> RunPlan:
        """The same by place in the pool."""
        held = None if plan.validation is None else self.first + plan.validation
        return RunPlan(plan.seed, self.first + plan.train, held)

    def used(self, plan: RunPlan) -> Parts:
        """Parts as the run used them."""
        if self.parts.validation is not None or plan.validation is None:
            return self.parts
        return self.parts.holding_back(plan.validation)

    def probabilities(self, network: torch.nn.Module, part: Part) -> NDArray[np.float64]:
        tokens, bias = self.tokens(part)
        found = []
        with torch.inference_mode():
            for at in torch.arange(len(tokens)).split(PREDICTED_AT_ONCE):
                extra = () if bias is None else (bias[at].double(),)
                found.append(network(tokens[at].double(), *extra).softmax(-1))
        return torch.cat(found).numpy()


def _pool(folds: Sequence[_Tokens], device: torch.device) -> Pool:
    biases = [tokens.bias for tokens in folds if tokens.bias is not None]
    return Pool(
        torch.cat([tokens.X for tokens in folds]).to(device, torch.float32),
        torch.from_numpy(np.concatenate([tokens.y for tokens in folds])).to(device),
        torch.cat(biases).to(device) if biases else None,
    )


def _result(
    spec: RunSpec,
    fold: Fold,
    trials: Trials,
    parts: Parts,
    predict: Callable[[Part], NDArray[np.float64]],
    start: float,
    *,
    curves: dict[str, NDArray[np.float64]],
    epoch: int | None,
) -> RunResult:
    def scores(part: Part) -> dict[str, float]:
        return all_scores(part.y, predict(part))

    probabilities = predict(parts.test)
    return RunResult(
        spec=spec,
        ids=trials.table.id[parts.test.rows],
        y=parts.test.y,
        probabilities=probabilities,
        train=scores(parts.train),
        validation={} if parts.validation is None else scores(parts.validation),
        test=all_scores(parts.test.y, probabilities),
        sizes={
            "train": len(parts.train),
            "validation": 0 if parts.validation is None else len(parts.validation),
            "calibration": len(fold.calibration),
            "test": len(parts.test),
        },
        curves=curves,
        epoch=epoch,
        leaky=fold.leaky,
        seconds=time.perf_counter() - start,
        memory=peak_memory(),
        origin=origin(),
    )
