"""Decode people of one data set with methods trained on another.

Run `python studies/across_data_sets.py [METHOD ...]`, with ../shared/data beside the checkout. The
methods (see METHODS for the default) are trained on imagined fists of the odd people of
PhysioNet EEG Motor Movement/Imagery, each recentred by their own mean. They are tested on imagined
left and right hand of subject 9 of BCI competition IV 2a, of whom no label is used.

The files of subject 9 hold one covariance matrix per trial (8-30 Hz, 1.5-3.5 s after the cue), so
the training trials are treated alike, on the 22 channels that both have. The sampling rates differ
(80 and 250 Hz) and the amplifiers' unit and reference may: recentring removes linear mixing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from spdtokens import FilterBankCovariances, Recentring, load_dataset
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Dataset, Selection, from_arrays, select
from spdtokens.evaluation.chance import accuracy_bound
from spdtokens.evaluation.estimators import open_seeds, with_seed
from spdtokens.evaluation.plan import split_front

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
#: Class names of each data set, left first.
TRAINED = ("physionet-eegmmi-odd", ("left_fist", "right_fist"))
TESTED = ("bci2a-a09-covariances", ("left_hand", "right_hand"))
#: Seconds after the cue.
WINDOW = (1.5, 3.5)
METHODS = ("ts-lr", "mdm", "recommended", "spatial-filters-power")
SEEDS = 3


def trials(dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Trials, labels and sessions of all subjects."""
    recordings = [
        dataset.load(subject, session)
        for subject in dataset.subjects
        for session in dataset.sessions(subject)
    ]
    X = np.concatenate([recording.X for recording in recordings])
    y = np.concatenate([recording.y for recording in recordings])
    of = np.repeat(np.arange(len(recordings)), [len(recording.y) for recording in recordings])
    return X, y, of


def both() -> tuple[np.ndarray, ...]:
    """Matrices, labels and sessions to train on, and to test on."""
    name, classes = TESTED
    tested = select(load_dataset(DATA / name), Selection(classes=classes))
    name, classes = TRAINED
    trained = select(
        load_dataset(DATA / name), Selection(classes=classes, channels=tested.ch_names)
    )
    X, y, people = trials(trained)
    filterbank = FilterBankCovariances(
        trained.sfreq, bands="8-30", windows=[WINDOW], tmin=trained.tmin
    )
    channels = np.array(tested.ch_names)
    return filterbank.fit_transform(X), y, people, *trials(tested), channels


def accuracies(
    estimator: BaseEstimator, data: Sequence[np.ndarray]
) -> dict[str, list[tuple[float, int]]]:
    """Accuracy and number of trials of each test session, by the trials that recentre it."""
    C, y, people, C_test, y_test, sessions, _ = data
    recentring = Recentring()
    estimator.fit(recentring.fit_transform(C, domains=people), y)
    found: dict[str, list[tuple[float, int]]] = {"all trials": [], "trials before": []}
    for session in np.unique(sessions):
        here = sessions == session
        for how, seen in (
            ("all trials", Recentring().fit_transform(C_test[here])),
            ("trials before", recentring.transform(C_test[here])),
        ):
            right = estimator.predict(seen) == y_test[here]
            found[how].append((float(right.mean()), int(here.sum())))
    return found


def main(methods: Sequence[str]) -> None:
    """Print one row per method and way to recentre."""
    data = both()
    print(f"Trained on {len(data[1])} trials of {len(np.unique(data[2]))} people.")
    print("| method | recentred by | session 1 | session 2 | both | trials | 95 % of chance |")
    print("|---|---|---|---|---|---|---|")
    for name in methods:
        matrices = from_arrays(data[0], data[1], classes=TRAINED[1], ch_names=data[-1].tolist())
        _, estimator = split_front(get_method(name).make(matrices))
        runs = [
            accuracies(with_seed(estimator, seed), data)
            for seed in range(SEEDS if open_seeds(estimator) else 1)
        ]
        for how in runs[0]:
            sessions = [
                (float(np.mean([score for score, _ in of])), of[0][1])
                for of in zip(*(run[how] for run in runs), strict=True)
            ]
            n = sum(trials for _, trials in sessions)
            mean = sum(score * trials for score, trials in sessions) / n
            scores = [*(score for score, _ in sessions), mean]
            cells = [name, how, *(f"{100 * s:.1f}" for s in scores), str(n)]
            print("|", " | ".join(cells), f"| {100 * accuracy_bound(n, 2):.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or METHODS)
