"""Train on a subject's earlier sessions, test on the last one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens.data import DataError, Dataset
from spdtokens.data.export import tokenizer_for
from spdtokens.models import SPDTokenTransformer
from spdtokens.models.classical import ts_lr
from spdtokens.spd import EMBEDDINGS
from spdtokens.training import Pool, Preset, RunPlan, train_runs
from spdtokens.training.device import resolve_device
from spdtokens.training.engine import Listener

TANGENT_SPACE = "ts-lr"
#: Method names: the token transformer with every embedding, and TS+LR.
METHODS = (*(f"token-{name.replace('_', '-')}" for name in EMBEDDINGS), TANGENT_SPACE)


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
    preset: Preset,
    subjects: Sequence[str] = (),
    seeds: Sequence[int] = (42,),
    bands: str = "broadband",
    device: str = "auto",
    bar: Callable[[str, int], Listener | None] = lambda _text, _total: None,
) -> list[Score]:
    """Score methods on the last session of each subject.

    Parameters
    ----------
    dataset : Dataset
    methods : sequence of str
        Of ``METHODS``.
    preset : Preset
        Network and recipe of the token transformers.
    subjects : sequence of str
        All by default.
    seeds : sequence of int
    bands : str
    device : str
    bar : callable
        Given a text and the number of run-epochs to come; returns what to tell of each advance.
    """
    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise DataError(f"There is no method {unknown[0]!r}. There are: {', '.join(METHODS)}.")
    resolve_device(device)
    splits = [split_last_session(dataset, subject) for subject in subjects or dataset.subjects]
    scores = []
    for method in methods:
        if method == TANGENT_SPACE:
            scores += [_tangent_space(dataset, split, bands) for split in splits]
        else:
            listener = bar(method, len(splits) * len(seeds) * preset.recipe.epochs)
            scores += _tokens(dataset, splits, method, preset, seeds, bands, device, listener)
    return scores


def _tangent_space(dataset: Dataset, split: Split, bands: str) -> Score:
    options = tokenizer_for(dataset, "euclidean", bands).get_params()
    start = time.perf_counter()
    model = ts_lr(**options).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - start
    train = model.score(split.X_train, split.y_train)
    test = model.score(split.X_test, split.y_test)
    sizes = (len(split.y_train), len(split.y_test))
    return Score(TANGENT_SPACE, split.subject, None, train, test, *sizes, seconds)


def _tokens(
    dataset: Dataset,
    splits: Sequence[Split],
    method: str,
    preset: Preset,
    seeds: Sequence[int],
    bands: str,
    device: str,
    listener: Listener | None,
) -> list[Score]:
    """All subjects and seeds of one embedding, trained as one batch."""
    start = time.perf_counter()
    embedding = method.removeprefix("token-").replace("-", "_")
    pools, tests = [], []
    for split in splits:
        tokenizer = tokenizer_for(dataset, embedding, bands).set_params(unit_free=True)
        tokenizer.fit(split.X_train)
        pools.append(torch.from_numpy(tokenizer.transform(split.X_train)).float())
        tests.append(torch.from_numpy(tokenizer.transform(split.X_test)).float())
    edges = np.cumsum([0, *map(len, pools)])
    plans = [
        RunPlan(seed, np.arange(edges[i], edges[i + 1]))
        for i in range(len(splits))
        for seed in seeds
    ]
    labels = torch.from_numpy(np.concatenate([split.y_train for split in splits]))
    where = resolve_device(device)
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
        scores.append(Score(method, split.subject, plan.seed, train, test, *sizes, seconds))
    return scores


@torch.inference_mode()
def _accuracy(model: torch.nn.Module, tokens: torch.Tensor, y: NDArray[np.int64]) -> float:
    return float((model(tokens).argmax(1).numpy() == y).mean())
