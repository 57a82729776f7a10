"""What each ingredient of the preset `recommended` is worth: docs/recommended.md.

Run `python studies/ablation.py` from a checkout with ../shared/data beside it, or name sets:
`python studies/ablation.py sim-mi p300`. Prints one Markdown row per variant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from spdtokens import evaluate
from spdtokens.classifiers.discriminant import EMBEDDINGS, GAINS, WITHOUT_LABELS
from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Selection
from spdtokens.evaluation import Choice

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FLICKER = Selection(paradigm="ssvep", stimulus_hz=(13.0, 17.0, 21.0))
FISTS = Selection(paradigm="mi", classes=("left_fist", "right_fist"), where=(("imagined", "1"),))
RECENTRED = {"access": "unlabeled_full", "alignment": "recentre"}
SETS = {
    "a09": (DATA / "bci2a-a09-covariances", {}),
    "a09 recentred": (DATA / "bci2a-a09-covariances", RECENTRED),
    "ssvep": (
        DATA / "ssvep-exoskeleton",
        {"selection": FLICKER, "protocol": "leave-one-session-out"},
    ),
    "p300": (
        DATA / "brain-invaders-p300",
        {"selection": Selection(paradigm="erp"), "protocol": "blocks"},
    ),
    "imagery": (
        DATA / "physionet-eegmmi-s001",
        {"selection": FISTS, "protocol": "leave-one-run-out"},
    ),
    "sim-mi": ("sim-mi", {}),
    "sim-erp": ("sim-erp", {}),
    "sim-ssvep": ("sim-ssvep", {}),
}
EPOCHS = {"p300": (0.0, 1.0), "sim-erp": (0.0, 1.25)}
TOKENS = {
    "no logarithms": "affine_invariant",
    "no square roots": "whitened_root",
    "no principal correlations": "principal_correlation",
    "no class filters": "class_filters",
}
VARIANTS = {
    "off-diagonal entries times sqrt 2": Settings(changes={"isometric": True}),
    "a tenth of the ridge": Settings(changes={"ridge": 0.0012}),
    "ten times the ridge": Settings(changes={"ridge": 0.12}),
}
ONLY_SIGNALS = {"sample covariance": Settings(estimator="sample")}
ONLY = {
    "erp": {
        "no delay": Settings(changes={"delays": ()}),
        "filters have seen the training trials": Settings(changes={"cross_fit": 1}),
    },
    "ssvep": {"bands of 1 Hz at the stimuli only": Settings(bands="stimulus")},
}


def _with(tokens: Iterable[str]) -> Settings:
    return Settings(changes={"embedding": tuple(tokens)})


def variants(name: str) -> dict[str, Settings]:
    """What can be left out or changed on a set."""
    few = name == "imagery"  # 30 trials of 64 channels: neither filters nor gains
    tokens = WITHOUT_LABELS if few else EMBEDDINGS
    chosen = {"recommended": Settings()}
    for label, left_out in TOKENS.items():
        if left_out in tokens:
            chosen[label] = _with(token for token in tokens if token != left_out)
    chosen["not seen from the mean"] = _with(("log_euclidean", "bures_wasserstein", *tokens[3:]))
    chosen |= VARIANTS
    if few:
        chosen["class filters although trials are few"] = _with(EMBEDDINGS)
        chosen["gains although trials are few"] = Settings(changes={"gains": GAINS})
    elif name not in EPOCHS:
        chosen["no gains"] = Settings(changes={"gains": (0.0, 0.0)})
        chosen["twice the gains"] = Settings(changes={"gains": tuple(2 * g for g in GAINS)})
    if not name.startswith("a09"):
        chosen |= ONLY["erp"] if name in EPOCHS else ONLY_SIGNALS
    if name in EPOCHS:
        chosen["one window"] = Settings(changes={"windows": [EPOCHS[name]]})
    if "ssvep" in name:
        chosen |= ONLY["ssvep"]
    return chosen


def main(names: list[str]) -> None:
    """Print scores of all variants on sets."""
    for name in names or SETS:
        where, question = SETS[name]
        choices = {label: Choice("recommended", s) for label, s in variants(name).items()}
        frame = evaluate(where, choices, **question).to_frame()
        for label, row in frame.iterrows():
            print(f"| {name} | {label} | {row.train_score:.4f} | {row.score:.4f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
