"""Train on a subject's earlier sessions, test on the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens.data import DataError, Dataset
from spdtokens.models import SPDTokenTransformer
from spdtokens.training import Pool, RunPlan, SPDTokenClassifier, train_runs
from spdtokens.training.device import resolve_device
from spdtokens.training.engine import Listener
from spdtokens.training.methods import Method, MethodError, Settings, get_method


@dataclass(frozen=True)
class Score:
    """Accuracy of one method, subject and seed.

    Attributes
    ----------
    method, subject : str
    seed : int or None
        None for a method without chance in it.
    train, test : float
        Accuracy on the trials it was trained on, and on the last session.
    n_train, n_test : int
    seconds : float
        To train; runs trained together share the time equally.
    """

    method: str
    subject: str
    seed: int | None
    train: float
    test: float
    n_train: int
    n_test: int
    seconds: float


@dataclass(frozen=True)
class Split:
    """The trials of a subject: those to train on, those to test on."""

    subject: str
    X_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


def split_last_session(dataset: Dataset, subject: str) -> Split:
    """All sessions but the last to train on, the last to test on.

    Raises
    ------
    DataError
        If the subject has one session only, or a class is missing from training.
    """
    *earlier, last = dataset.sessions(subject)
    if not earlier:
        raise DataError(
            f"{dataset.name}: subject {subject} has one session only ({last}), so there is no "
            "earlier one to train on."
        )
    train = [dataset.load(subject, session) for session in earlier]
    test = dataset.load(subject, last)
    y = np.concatenate([recording.y for recording in train])
    missing = sorted(set(range(len(dataset.classes))) - set(y.tolist()))
    if missing:
        names = ", ".join(dataset.classes[i] for i in missing)
        raise DataError(
            f"{dataset.name}: subject {subject} has no trial of {names} in the sessions to train "
            f"on ({', '.join(earlier)})."
        )
    X = np.concatenate([recording.X for recording in train])
    return Split(subject, X, y, test.X, test.y)


def session_transfer(
    dataset: Dataset,
    methods: Sequence[str],
    *,
    settings: Settings,
    subjects: Sequence[str] = (),
    seeds: Sequence[int] = (42,),
    bar: Callable[[str, int], Listener | None] = lambda _text, _total: None,
) -> list[Score]:
    """Score methods on the last session of each subject.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of str
        Names: see ``spdtokens methods``.
    settings : Settings
    subjects : sequence of str
        All by default.
    seeds : sequence of int
        For the methods in which chance plays a part.
    bar : callable
        Given a text and the number of steps to come; returns what to tell of each advance.
    """
    chosen = [get_method(name) for name in methods]
    for reason in (method.why_not(dataset) for method in chosen):
        if reason is not None:
            raise MethodError(f"{reason[0].upper()}{reason[1:]}. Leave it out.")
    resolve_device(settings.device)
    settings.resolved_preset()  # a wrong one is refused before any work is done
    splits = [split_last_session(dataset, subject) for subject in subjects or dataset.subjects]
    scores = []
    for method in chosen:
        if method.family == "token transformer":
            total = len(splits) * len(seeds) * settings.resolved_preset().recipe.epochs
            listener = bar(method.name, total)
            scores += _tokens(dataset, splits, method, settings, seeds, listener)
        else:
            wanted = [(s, seed) for s in splits for seed in (seeds if method.has_seed else [None])]
            listener = bar(method.name, len(wanted))
            for split, seed in wanted:
                scores.append(_one_by_one(dataset, split, method, settings, seed))
                if listener:
                    listener(1)
    return scores


def _one_by_one(
    dataset: Dataset, split: Split, method: Method, settings: Settings, seed: int | None
) -> Score:
    mine = settings if seed is None else replace(settings, seed=seed)
    classifier = method.classifier(dataset, mine)
    start = time.perf_counter()
    classifier.fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - start
    train = float(classifier.score(split.X_train, split.y_train))
    test = float(classifier.score(split.X_test, split.y_test))
    sizes = (len(split.y_train), len(split.y_test))
    return Score(method.name, split.subject, seed, train, test, *sizes, seconds)


def _tokens(
    dataset: Dataset,
    splits: Sequence[Split],
    method: Method,
    settings: Settings,
    seeds: Sequence[int],
    listener: Listener | None,
) -> list[Score]:
    """All subjects and seeds of one embedding, trained as one batch."""
    start = time.perf_counter()
    preset = settings.resolved_preset()
    pools, tests = [], []
    for split in splits:
        classifier = method.classifier(dataset, settings)
        assert isinstance(classifier, SPDTokenClassifier)
        tokenizer = classifier.make_tokenizer().fit(split.X_train)
        pools.append(torch.from_numpy(tokenizer.transform(split.X_train)).float())
        tests.append(torch.from_numpy(tokenizer.transform(split.X_test)).float())
    edges = np.cumsum([0, *map(len, pools)])
    plans = [
        RunPlan(seed, np.arange(edges[i], edges[i + 1]))
        for i in range(len(splits))
        for seed in seeds
    ]
    labels = torch.from_numpy(np.concatenate([split.y_train for split in splits]))
    where = resolve_device(settings.device)
    n_tokens, n_features = pools[0].shape[1:]
    model = SPDTokenTransformer(n_features, n_tokens, len(dataset.classes), preset.config)
    pool = Pool(torch.cat(pools).to(where), labels.to(where))
    runs = train_runs(model, pool, plans, preset.recipe, listener=listener)
    seconds = (time.perf_counter() - start) / len(runs)

    scores = []
    for number, (run, plan) in enumerate(zip(runs, plans, strict=True)):
        i = number // len(seeds)
        split = splits[i]
        train = _accuracy(run.model, pools[i], split.y_train)
        test = _accuracy(run.model, tests[i], split.y_test)
        sizes = (len(split.y_train), len(split.y_test))
        scores.append(Score(method.name, split.subject, plan.seed, train, test, *sizes, seconds))
    return scores


@torch.inference_mode()
def _accuracy(model: torch.nn.Module, tokens: torch.Tensor, y: NDArray[np.int64]) -> float:
    return float((model(tokens).argmax(1).numpy() == y).mean())
