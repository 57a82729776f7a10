"""Accuracy on new people against the number of their own labelled trials.

    python studies/calibration.py [--data DIR] [--seeds 3] [--methods spatial-filters,ts-lr,...]

Imagined left or right fist, 55 people in three groups; models are trained on two groups and tested
on the third. Of each person one run of about 15 trials is tested (the first, second or third, in
turn), and the first n trials of the other two are the person's own labelled trials. Everybody is
recentred by all own trials, without labels. `spatial-filters` and `shallownet` are trained once per
group and then adapted; the classical methods are fitted to all other people and the own trials
together, and in the row "own" to the own trials only.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens import load_dataset
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Selection, select
from spdtokens.evaluation.plan import Source, recentring_of, split_front
from spdtokens.runtime.tokens import congruence

DATA = Path(__file__).parents[2] / "shared" / "data"
COUNTS = (0, 5, 10, 20, 30)
GROUPS = 3
Array = NDArray[Any]


def recentred(C: Array, person: Array, rule: Any) -> Array:
    """Matrices recentred by all trials of a person."""
    from spdtokens.geometry.alignment import mean_reference

    C = C[:, None] if C.ndim == 3 else C
    moved = np.empty_like(C)
    for name in np.unique(person):
        own = C[person == name]
        mean = mean_reference(rule.over_windows(own).astype(np.float64), rule.metric)
        moved[person == name] = congruence(own, rule.whitener(mean).astype(C.dtype))
    return moved


def own_trials(run: Array, turn: int) -> tuple[Array, Array]:
    """Trials of a person to adapt to, in the order of time, and trials to test."""
    tested = np.unique(run)[turn % len(np.unique(run))]
    return np.flatnonzero(run != tested), np.flatnonzero(run == tested)


def fine_tuned(module: torch.nn.Module, x: Array, y: Array, epochs: int = 30) -> torch.nn.Module:
    """A copy of a network, trained further on a few trials; batch norms keep their statistics."""
    module = copy.deepcopy(module).eval()
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-4)
    inputs, labels = torch.from_numpy(x).float(), torch.from_numpy(y)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    return module


def main() -> None:
    """Print one row per method: accuracy for each number of own trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default="spatial-filters,shallownet,ts-lr,ts-lda,mdm,fgmdm")
    parser.add_argument("--strength", type=float, default=30.0)
    parser.add_argument("--window", default="0,4.1")
    given = parser.parse_args()
    window = tuple(float(edge) for edge in given.window.split(","))
    dataset = select(
        load_dataset(given.data / "physionet-eegmmi-odd"),
        Selection(paradigm="mi", classes=("left_fist", "right_fist"), window=window),
    )
    trials = Source({dataset.name: dataset}).trials(dataset.name, Selection(), dataset.subjects)
    X, table = trials.signals(np.arange(len(trials.table))), trials.table
    y, person, run = table.y, table.subject, table.run
    names = np.unique(person)
    groups = np.array_split(np.random.default_rng(0).permutation(names), GROUPS)
    for method in given.methods.split(","):
        seeds = range(given.seeds) if method == "spatial-filters" else range(1)
        right = {n: np.full((len(seeds), len(names)), np.nan) for n in (*COUNTS, "own")}
        for seed in seeds:
            predict = maker(method, dataset, X, y, person, seed, given.strength)
            for group in groups:
                known = np.flatnonzero(~np.isin(person, group))
                adapted = predict(known)
                for name in group:
                    turn = int(np.searchsorted(names, name))
                    mine = np.flatnonzero(person == name)
                    own, tested = (mine[at] for at in own_trials(run[mine], turn))
                    for n in (*COUNTS, "own"):
                        found = adapted(own if n == "own" else own[:n], tested, n == "own")
                        if found is not None:
                            right[n][seed, turn] = (found == y[tested]).mean()
        for n, of in right.items():
            if np.isfinite(of).any():
                people = 100 * of.mean(0)
                error = people.std(ddof=1) / np.sqrt(len(people))
                row = {"method": method, "own": n, "score": people.mean(), "error": error}
                row |= {"seeds": len(seeds), "people": people.round(1).tolist()}
                print(json.dumps(row), flush=True)


def maker(
    method: str, dataset: Any, X: Array, y: Array, person: Array, seed: int, strength: float
) -> Any:
    """Function of the known trials to a function of own and tested trials to classes."""
    pipeline = get_method(method).make(dataset)
    if method == "shallownet":
        return shallow(pipeline, X, y, person)
    front, rest = split_front(pipeline)
    step = recentring_of(pipeline)
    from spdtokens.runtime.tokens import Reference

    assert front is not None
    C = recentred(front.fit_transform(X), person, Reference() if step is None else step.rule())

    def fitted(known: Array) -> Any:
        if method == "spatial-filters":
            rest.set_params(random_state=seed)
            model = rest.fit(C[known], y[known])

            def adapted(own: Array, tested: Array, alone: bool) -> Array | None:
                if alone:
                    return None
                mine = copy.deepcopy(model)
                if len(own):
                    mine.calibrate(C[own], y[own], strength)
                return mine.predict(C[tested])

            return adapted

        def together(own: Array, tested: Array, alone: bool) -> Array:
            train = own if alone else np.concatenate([known, own])
            shaped = C[:, 0]
            return rest.fit(shaped[train], y[train]).predict(shaped[tested])

        return together

    return fitted


def shallow(pipeline: Any, X: Array, y: Array, person: Array) -> Any:
    """ShallowFBCSPNet on signals with Euclidean alignment, 0.3-38 Hz, 60 epochs, early stopping."""
    first, network = pipeline.steps[0][1], pipeline.steps[-1][1]
    first.set_params(bands=[(0.3, 38.0)])
    network.set_params(epochs=60, random_state=0)
    Z = first.fit_transform(X)
    for name in np.unique(person):
        mine = person == name
        cov = (Z[mine] @ Z[mine].swapaxes(1, 2)).mean(0) / Z.shape[-1]
        w, V = np.linalg.eigh(cov)
        Z[mine] = (V / np.sqrt(w)) @ V.T @ Z[mine]

    def fitted(known: Array) -> Any:
        network.fit(Z[known], y[known], groups=person[known])
        module = network.module_

        def adapted(own: Array, tested: Array, alone: bool) -> Array | None:
            if alone:
                return None
            mine = fine_tuned(module, Z[own], y[own]) if len(own) else module
            with torch.inference_mode():
                return mine(torch.from_numpy(Z[tested]).float()).argmax(1).numpy()

        return adapted

    return fitted


if __name__ == "__main__":
    sys.exit(main())
