"""Whether `recommended` weights ridges well where 1.2 % is wrong: docs/recommended.md.

Run `python studies/adaptive.py`, or name cases: `python studies/adaptive.py pooled`. Prints one
Markdown row per method: mean over subjects and standard error of the mean; the difference to
`recommended`, paired by subject, and its standard error; and the ridges of largest weight.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from spdtokens import evaluate, make_decoder
from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import load_dataset
from spdtokens.evaluation import Choice

MOTOR = ("FC3", "FCz", "FC4", "C5", "C3", "Cz", "C4", "C6", "CP3", "CPz", "CP4")
HANDS = ("left hand", "right hand")
#: Sessions of 24 trials, between which cap, gains and background differ much.
SHORT = {"sessions": 15, "runs": 1, "spread": 10, "release": 2029}
SUBJECTS = ("1", "3", "7", "9")
#: A session of 60 trials to train on, and one to test on, which differs.
NEXT = {"sessions": 2, "spread": 3, "release": 2029}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "pooled": (
        "sim-mi",
        {
            "dataset_options": SHORT,
            "channels": MOTOR,
            "classes": HANDS,
            "subjects": SUBJECTS,
            "protocol": "k-fold",
        },
    ),
    "another session": (
        "sim-mi",
        {
            "dataset_options": SHORT,
            "channels": MOTOR,
            "classes": HANDS,
            "subjects": SUBJECTS,
            "protocol": "leave-one-session-out",
        },
    ),
    "potentials": ("sim-erp", {"dataset_options": NEXT, "protocol": "session-transfer"}),
}
METHODS = {
    "recommended": Choice("recommended"),
    "ridge 0.012": Choice("recommended", Settings(changes={"ridge": 0.012})),
    **{name: Choice(name) for name in ("ts-lr", "ts-lda", "fgmdm", "mdm", "xdawn-ts-lr")},
}


def ridges(name: str, question: dict[str, Any]) -> Counter[float]:
    """Ridges of largest weight by subject: from all sessions but the last."""
    dataset = load_dataset(name, **question["dataset_options"])
    found: Counter[float] = Counter()
    for subject in question.get("subjects", dataset.subjects):
        known = [dataset.load(subject, session) for session in dataset.sessions(subject)[:-1]]
        X, y = np.concatenate([one.X for one in known]), np.concatenate([one.y for one in known])
        kept = np.isin(y, range(2))
        at = [dataset.ch_names.index(c) for c in question.get("channels", dataset.ch_names)]
        decoder = make_decoder(
            dataset.paradigm, sfreq=dataset.sfreq, tmin=dataset.tmin, window=dataset.window
        )
        found[decoder.fit(X[kept][:, at], y[kept])[-1].ridge_] += 1
    return found


def main(names: list[str]) -> None:
    """Print the table of cases."""
    for case in names or CASES:
        name, question = CASES[case]
        methods = {n: c for n, c in METHODS.items() if name == "sim-erp" or n != "xdawn-ts-lr"}
        result = evaluate(name, methods, **question)
        by_subject = result.subjects()
        for row in methods:
            scores = by_subject[row]
            apart = by_subject["recommended"] - scores
            error, of_apart = scores.sem(), apart.sem()
            print(
                f"| {case} | {row} | {scores.mean():.3f} ± {error:.3f} | "
                f"{apart.mean():+.3f} ± {of_apart:.3f} |",
                flush=True,
            )
        print(f"| {case} | ridges | {dict(ridges(name, question))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
