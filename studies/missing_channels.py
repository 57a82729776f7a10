"""How much accuracy is kept if channels of other people are missing? The table of docs/research.

Run `python studies/missing_channels.py`, with ../shared/data beside the checkout; it takes about
six minutes on an idle core. Left against right imagined fist of the odd people of PhysioNet EEG
Motor Movement/Imagery, 8-30 Hz: trained on all 64 channels of two thirds of the people, tested on
half of the rest, whose channels are removed and interpolated. Each new person is recentred by the
trials before each trial. Scores are means of two methods: logistic regression in the tangent space
and linear discriminant analysis of the log power behind 10 CSP filters.

The columns are the reference of recentring (Riemannian mean, its shrinkage) and the share by which
interpolated covariances are shrunk.

`python studies/missing_channels.py METHOD` prints another table, of a method with spatial filters
trained on two thirds of the people, all others recentred by all their trials: accuracy with 0, 10,
30 and 50 % of the channels missing, mean and standard error over people, three draws of channels.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
from pyriemann.spatialfilters import CSP
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens import FilterBankCovariances, Recentring, TokenEmbedding, load_dataset
from spdtokens._channels import plain_name
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Selection, select
from spdtokens.evaluation.estimators import with_seed
from spdtokens.preprocessing import coverage, interpolation_matrix, montage
from spdtokens.runtime import tokens

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "physionet-eegmmi-odd"
CLASSES = ("left_fist", "right_fist")
#: Shrinkage of the reference, and of interpolated covariances.
WAYS = tuple(product((0.0, 0.1), (0.01, 0.05, 0.1)))
#: Montages that people have.
MONTAGES = {
    "BCI2a, 22": "Fz FC3 FC1 FCz FC2 FC4 C5 C3 C1 Cz C2 C4 C6 CP3 CP1 CPz CP2 CP4 P1 Pz P2 POz",
    "10-20, 19": "Fp1 Fp2 F7 F3 Fz F4 F8 T3 C3 Cz C4 T4 T5 P3 Pz P4 T6 O1 O2",
    "Unicorn, 8": "Fz C3 Cz C4 Pz PO7 Oz PO8",
    "Emotiv, 14": "AF3 F7 F3 FC5 T7 P7 O1 O2 P8 T8 FC6 F4 F8 AF4",
    "C3, Cz, C4": "C3 Cz C4",
}


def sets_of_channels(ch_names: tuple[str, ...]) -> dict[str, list[str]]:
    """Channels that are left, by name of the row."""
    left = {"none missing": list(ch_names)}
    for share in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9):
        order = np.random.default_rng(0).permutation(ch_names).tolist()
        left[f"{100 * share:.0f} % missing"] = order[: round(len(order) * (1 - share))]
    left["left half missing"] = [name for name in ch_names if name[-1] not in "13579"]
    return left | {name: text.split() for name, text in MONTAGES.items()}


def main() -> None:
    """Print one row per set of channels."""
    montage.LEAST_COVERAGE = 0.0  # interpolate anyway, to see what is lost
    dataset = select(load_dataset(DATA), Selection(classes=CLASSES))
    filterbank = FilterBankCovariances(
        dataset.sfreq, bands="8-30", windows=[(0.5, 3.5)], tmin=dataset.tmin, estimator="oas"
    )
    names, plain = dataset.subjects, [plain_name(name) for name in dataset.ch_names]
    people = [dataset.load(name, dataset.sessions(name)[0]) for name in names]
    train = [person for i, person in enumerate(people) if i % 3]
    y = np.concatenate([person.y for person in train])
    C = filterbank.fit_transform(np.concatenate([person.X for person in train]))
    domains = np.repeat(range(len(train)), [len(person.y) for person in train])
    fitted = {}
    for shrinkage in dict(WAYS):
        recentring = Recentring(shrinkage=shrinkage)
        seen = recentring.fit_transform(C, domains=domains)
        models = (
            make_pipeline(TokenEmbedding("log_euclidean"), LogisticRegression(C=0.01)),
            make_pipeline(CSP(10), LinearDiscriminantAnalysis()),
        )
        fitted[shrinkage] = recentring, [model.fit(seen, y) for model in models]
    print("| channels | coverage |", " | ".join(f"{s:g}, {share:g}" for s, share in WAYS), "|")
    print("|---|---|" + "---|" * len(WAYS), flush=True)
    for row, left in sets_of_channels(dataset.ch_names).items():
        W = interpolation_matrix(dataset.ch_names, left)
        at = [plain.index(plain_name(name)) for name in left]
        scores: dict[tuple[float, float], list[float]] = {way: [] for way in WAYS}
        for person in people[::6]:
            own = filterbank.fit_transform(person.X[:, at])
            for shrinkage, tokens.SHRINKAGE in WAYS:
                recentring, models = fitted[shrinkage]
                seen = recentring.transform(tokens.interpolated(own, W))
                scores[shrinkage, tokens.SHRINKAGE] += [m.score(seen, person.y) for m in models]
        cells = [f"{100 * np.mean(values):.1f}" for values in scores.values()]
        covered = f"{100 * coverage(dataset.ch_names, left):.0f}"
        print(f"| {row} | {covered} |", " | ".join(cells), "|", flush=True)


def of_network(method: str) -> None:
    """Print the accuracy of a network for shares of missing channels."""
    dataset = select(load_dataset(DATA), Selection(paradigm="mi", classes=CLASSES))
    people = [dataset.load(name, dataset.sessions(name)[0]) for name in dataset.subjects]
    train, test = [p for i, p in enumerate(people) if i % 3], people[::3]
    pipeline = with_seed(get_method(method).make(dataset), 0)
    front, recentring, classifier = (step for _, step in pipeline.steps)
    C = front.fit_transform(np.concatenate([person.X for person in train]))
    domains = np.repeat(range(len(train)), [len(person.y) for person in train])
    y = np.concatenate([person.y for person in train])
    classifier.fit(recentring.fit_transform(C, domains=domains), y)
    print(f"| missing | accuracy of {method} | standard error |\n|---|---|---|", flush=True)
    for share in (0.0, 0.1, 0.3, 0.5):
        scores = np.zeros((3 if share else 1, len(test)))
        for draw, at in np.ndindex(scores.shape):
            rng = np.random.default_rng([draw, at])
            left = np.sort(rng.permutation(64)[: round(64 * (1 - share))])
            W = interpolation_matrix(dataset.ch_names, [dataset.ch_names[i] for i in left])
            own = clone(front).fit_transform(test[at].X[:, left])
            seen = clone(recentring).fit_transform(tokens.interpolated(own, W))
            scores[draw, at] = classifier.score(seen.astype(np.float32), test[at].y)
        mean = 100 * scores.mean(0)
        error = mean.std(ddof=1) / len(mean) ** 0.5
        print(f"| {100 * share:.0f} % | {mean.mean():.1f} | {error:.1f} |", flush=True)


if __name__ == "__main__":
    of_network(sys.argv[1]) if sys.argv[1:] else main()
