"""Recentring under unbalanced classes. The table of docs/research/imbalance.md.

Run `python studies/imbalance.py [SET ...] [--method ts-lr] [--development]`, with ../shared/data
beside the checkout for the recordings. A classifier is trained on whole sessions, once recentred
and once not. The trials of a new person or session are thinned out so that one class is rare or
frequent, and decoded with all trials of the stream at hand (offline) or in order (online).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from spdtokens import DecodingPipeline, FilterBankCovariances, Recentring
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import Dataset, Selection, load_dataset, select
from spdtokens.datasets.simulated import sim_mi
from spdtokens.evaluation.alignment import align
from spdtokens.evaluation.plan import split_front
from spdtokens.runtime.balance import imbalance_shift, shifted

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDERS = {
    "physionet": "physionet-eegmmi-odd",
    "physionet-feet": "physionet-eegmmi-odd",
    "ssvep": "ssvep-exoskeleton",
    "bci2a-a09": "bci2a-a09-covariances",
}
#: Classes and window of sets of which not everything is used.
SELECTIONS = {
    "physionet": Selection(classes=("left_fist", "right_fist"), window=(0.5, 4.0)),
    "physionet-feet": Selection(classes=("both_fists", "both_feet"), window=(0.5, 4.0)),
    "sim-mi": Selection(classes=("left hand", "right hand")),
}
#: Releases of the simulator for testing and development.
RELEASES = {False: 2, True: 1}
#: Trials of a rare class per trial of another class.
RATIOS = {"50/50": 1.0, "70/30": 3 / 7, "90/10": 1 / 9}
WAYS = ("none", "recentre, offline", "balanced, offline", "recentre, online", "balanced, online")
#: Recordings of a domain: its name, matrices and labels.
Domain = tuple[str, np.ndarray, np.ndarray]
#: Training domains and tested domains.
Task = tuple[list[Domain], list[Domain]]


def left_out(domains: list[Domain], tested: list[str]) -> list[Task]:
    """One task per person; sessions are named person/session."""
    person = [name.split("/")[0] for name, *_ in domains]
    return [
        (
            [d for d, p in zip(domains, person, strict=True) if p != name],
            [d for d, p in zip(domains, person, strict=True) if p == name][:1],
        )
        for name in tested
    ]


def tasks(name: str, method: str, data: Path, development: bool) -> tuple[object, list[Task]]:
    """Return the classifier of a method, and what it is trained and tested on.

    Development data are other people, another release of the simulator, or parts of session 1T.
    """
    simulated = name == "sim-mi"
    whole = sim_mi(RELEASES[development]) if simulated else load_dataset(data / FOLDERS[name])
    dataset = select(whole, SELECTIONS.get(name, Selection()))
    front, classifier = split_front(get_method(method).make(dataset, Settings()))
    read = partial(matrices, dataset, front)
    people = sorted(dataset.subjects)
    if name.startswith("physionet"):
        people = np.random.default_rng(0).permutation(people).tolist()
        first, last = people[:36], people[36:]
        if not development:
            return classifier, [(read(first), read(last))]
        domains = read(first)
        parts = [(set(range(36)) - set(range(k, 36, 3)), range(k, 36, 3)) for k in range(3)]
        return classifier, [([domains[i] for i in a], [domains[i] for i in b]) for a, b in parts]
    if name == "ssvep":
        domains = [join(person, read([person])) for person in people]
        if development:
            return classifier, left_out(domains[:6], people[:6])
        return classifier, left_out(domains, people[6:])
    if name == "bci2a-a09":
        train, test = read(people)
        if development:
            half = len(train[2]) // 2
            first, last = (slice(half), slice(half, None))
            train, test = ((train[0], train[1][at], train[2][at]) for at in (first, last))
        return classifier, [([train], [test])]
    return classifier, left_out(read(people)[::2], people)  # first sessions


def matrices(
    dataset: Dataset, front: FilterBankCovariances | None, people: Sequence[str]
) -> list[Domain]:
    """Matrices of the sessions of some people."""
    found = []
    for person in people:
        for session in dataset.sessions(person):
            recording = dataset.load(person, session)
            C = recording.X if front is None else clone(front).fit_transform(recording.X)
            found.append((f"{person}/{session}", C, np.asarray(recording.y)))
    return found


def join(name: str, sessions: list[Domain]) -> Domain:
    """All sessions of a person as one domain, so that a class has enough trials to be thinned."""
    return name, *(np.concatenate(parts) for parts in list(zip(*sessions, strict=True))[1:])


def pairs(found: list[Task]) -> list[Task]:
    """The same tasks with every pair of classes."""
    n_classes = found[0][0][0][2].max() + 1

    def of(pair: tuple[int, int], domains: list[Domain]) -> list[Domain]:
        at = [np.isin(y, pair) for *_, y in domains]
        return [
            (f"{name} {pair}", X[k], np.searchsorted(pair, y[k]))
            for (name, X, y), k in zip(domains, at, strict=True)
        ]

    every = [(a, b) for b in range(n_classes) for a in range(b)]
    return [(of(pair, train), of(pair, test)) for pair in every for train, test in found]


def streams(y: np.ndarray, seeds: int) -> Iterator[tuple[str, np.ndarray]]:
    """Trials of a stream: each class rare and, of more than two classes, each frequent."""
    rng, n_classes = np.random.default_rng(0), y.max() + 1
    yield "50/50", np.arange(len(y))
    for balance, ratio in list(RATIOS.items())[1:]:
        for _ in range(seeds):
            for one in range(n_classes):
                for rare in (True, False)[: 1 + (n_classes > 2)]:
                    kept = []
                    for k in range(n_classes):
                        at = np.flatnonzero(y == k)
                        n = max(1, round(ratio * len(y) / n_classes))
                        thinned = (k == one) == rare
                        kept.append(rng.permutation(at)[:n] if thinned else at)
                    yield balance, np.sort(np.concatenate(kept))


def measured(y: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    """Balanced accuracy and accuracy in percent."""
    right = p.argmax(1) == y
    return 100 * np.mean([right[y == k].mean() for k in np.unique(y)]), 100 * right.mean()


def run(task: Task, classifier: object, seeds: int) -> Iterator[tuple[str, str, str, float, float]]:
    """Domain, way, balance, balanced accuracy and accuracy of each stream."""
    train, tested = task
    C, y = (np.concatenate([d[i] for d in train]) for i in (1, 2))
    domains = np.repeat([d[0] for d in train], [len(d[2]) for d in train])
    plain = clone(classifier).fit(C, y)
    steps = classifier.steps if isinstance(classifier, Pipeline) else [("classifier", classifier)]
    balanced = DecodingPipeline([("recentring", Recentring(balanced=True)), *steps])
    recentred = balanced.fit(C, y, domains=domains)[1:]
    proportions = balanced["recentring"].proportions_
    today = Recentring().fit(C, domains=domains)
    online = {
        "recentre, online": DecodingPipeline([("recentring", today), *recentred.steps]),
        "balanced, online": balanced,
    }
    few = C[:2] if C.ndim == 4 else C[:2, None]  # offline, training trials do not matter
    for name, X, labels in tested:
        for balance, at in streams(labels, seeds):
            seen = X[at] if X.ndim == 4 else X[at][:, None]
            how = {"access": "unlabeled_full", "alignment": "recentre", "domain_target": "target"}
            moved = align(few, ["a"] * 2, None, None, None, seen, **how).test
            p = {"none": plain.predict_proba(X[at])}
            offline = recentred.predict_proba(moved.reshape(X[at].shape))
            p["recentre, offline"] = offline
            p["balanced, offline"] = shifted(offline, imbalance_shift(offline, proportions))
            p |= {way: online[way].predict_proba(X[at]) for way in online}
            for way in WAYS:
                yield name, way, balance, *measured(labels[at], p[way])


def cell(values: np.ndarray) -> str:
    """Mean and standard error over domains."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.1f}" if np.isnan(error) else f"{values.mean():.1f} ± {error:.1f}"


def show(title: str, rows: list[tuple[str, str, str, float, float]]) -> None:
    """Print balanced accuracy (accuracy in brackets), and the paired differences."""
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = defaultdict(dict)
    for name, way, balance, *scores in rows:
        found[way, balance].setdefault(name, []).append(tuple(scores))
    means = {
        key: np.array([np.mean(scores, axis=0) for scores in by_name.values()])
        for key, by_name in found.items()
    }
    print(f"\n| {title} |", " | ".join(RATIOS), "|\n|" + "---|" * (1 + len(RATIOS)))
    for way in WAYS:
        cells = [f"{cell(means[way, b][:, 0])} ({means[way, b][:, 1].mean():.1f})" for b in RATIOS]
        print(f"| {way} |", " | ".join(cells), "|")
    for when in ("offline", "online"):
        for other in ("none", f"recentre, {when}"):
            cells = [cell((means[f"balanced, {when}", b] - means[other, b])[:, 0]) for b in RATIOS]
            print(f"| *balanced, {when}*, minus *{other}* |", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Print one table per data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*FOLDERS, "sim-mi"]
    parser.add_argument("sets", nargs="*", default=names, metavar="SET", help=", ".join(names))
    parser.add_argument("--method", default="recommended")
    parser.add_argument("--seeds", type=int, default=3, help="random streams per class")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--development", action="store_true")
    options = parser.parse_args()
    for name in options.sets:
        classifier, found = tasks(name, options.method, options.data, options.development)
        sets = {name: found}
        if name == "bci2a-a09":  # a single person: pairs of classes tell how much is chance
            sets[f"{name}, pairs of classes"] = pairs(found)
        for title, chosen in sets.items():
            rows = [row for task in chosen for row in run(task, classifier, options.seeds)]
            show(f"{title}, `{options.method}`", rows)


if __name__ == "__main__":
    main()
