"""Accuracy on new people: unlabelled trials, online, and against the number of training people.

    python studies/people.py [--data DIR] [--task left-right] [--seeds 3] [--counts 11,22,33]

Trains `spatial-filters` on two of three groups of people, the groups of the protocol
`subjects-k-fold`, and tests on the third. One fit serves the target accesses `unlabeled_full` and
`online`, which `spdtokens evaluate` fits one after another; the results are the same. Prints one
JSON object per line: mean over people and seeds, its standard error over people, the score on the
training trials, and the score of each person.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spdtokens import load_dataset
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Selection, select
from spdtokens.evaluation.alignment import Known, Task
from spdtokens.evaluation.plan import Source, recentring_of, split_front
from spdtokens.evaluation.protocols import get_protocol

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TASKS = {
    "left-right": ("left_fist", "right_fist"),
    "fists-feet": ("both_fists", "both_feet"),
    "four": (),
}
ACCESSES = ("unlabeled_full", "online")


def scores(method: str, task: str, data: Path, seeds: int, count: int | None) -> Iterator[Any]:
    """Accuracy per access, seed and person; and on the training trials."""
    dataset = select(
        load_dataset(data / "physionet-eegmmi-odd"), Selection(paradigm="mi", classes=TASKS[task])
    )
    trials = Source({dataset.name: dataset}).trials(dataset.name, Selection(), dataset.subjects)
    table, pipeline = trials.table, get_method(method).make(dataset)
    front, classifier = split_front(pipeline)
    step = recentring_of(pipeline)
    assert front is not None
    assert step is not None
    C = front.fit_transform(trials.signals(np.arange(len(table))))
    for fold in get_protocol("subjects-k-fold").folds(table, "", folds=3):
        train, test = fold.train, fold.test
        aligned: dict[str, np.ndarray] = {}
        for seed in range(seeds):
            if count is not None:
                people = np.random.default_rng(seed).permutation(
                    np.unique(table.subject[fold.train])
                )
                train = fold.train[np.isin(table.subject[fold.train], people[:count])]
                aligned = {}
            for access in ACCESSES:
                if access not in aligned:
                    known = Known(C[train], table.subject[train], access, "recentre", step.rule())
                    aligned.setdefault("train", known.aligned)
                    aligned[access] = np.empty_like(C[test])
                    for name in np.unique(table.subject[test]):
                        here = table.subject[test] == name
                        target = Task(known, None, C[test][here], name)
                        aligned[access][here] = target.aligned(None, None).test
            classifier.set_params(random_state=seed)
            classifier.fit(aligned["train"], table.y[train])
            yield "train", seed, {"all": classifier.score(aligned["train"], table.y[train])}
            for access in ACCESSES:
                right = classifier.predict(aligned[access]) == table.y[test]
                of = table.subject[test]
                yield access, seed, {n: float(right[of == n].mean()) for n in np.unique(of)}


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--method", default="spatial-filters")
    parser.add_argument("--task", choices=TASKS, default="left-right")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--counts", default="")
    given = parser.parse_args()
    counts = [int(n) for n in given.counts.split(",") if n] or [None]
    for count in counts:
        found: dict[str, dict[str, list[float]]] = {}
        for what, _, of in scores(given.method, given.task, given.data, given.seeds, count):
            for name, score in of.items():
                found.setdefault(what, {}).setdefault(name, []).append(score)
        train = float(np.mean(found.pop("train")["all"]))
        for access, of in found.items():
            people = np.array([np.mean(seeds) for seeds in of.values()])
            row = {"method": given.method, "task": given.task, "access": access, "train": train}
            row |= {"people trained on": count, "seeds": given.seeds, "score": people.mean()}
            row |= {"error": people.std(ddof=1) / len(people) ** 0.5}
            row["subjects"] = dict(zip(of, people.tolist(), strict=True))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
