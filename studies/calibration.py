"""Are the probabilities of `recommended` calibrated? The table of docs/recommended.md.

Run `python studies/calibration.py`, with ../shared/data beside the checkout for the recordings.
Prints two Markdown tables: noise, in which nothing can be decoded, and data sets.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss

from spdtokens import evaluate, make_decoder
from spdtokens.datasets import Selection

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
#: Channels, trials and classes of the noise, and how many sets are made of each.
SHAPES = ((22, 48, 2), (32, 80, 2), (22, 144, 4), (64, 60, 2))
N_SETS, N_TEST = 60, 100
SETS = {
    "sim-mi": ("sim-mi", {}),
    "BCI2a, subject 9": (DATA / "bci2a-a09-covariances", {}),
    "P300": (
        DATA / "brain-invaders-p300",
        {"selection": Selection(paradigm="erp"), "protocol": "blocks"},
    ),
}


def noise(channels: int, n: int, classes: int, seed: int) -> tuple[float, float, float]:
    """Mean confidence, accuracy and log loss on new trials of mixed white noise."""
    rng = np.random.default_rng([channels, n, classes, seed])
    mixing = np.eye(channels) + rng.standard_normal((channels, channels)) / np.sqrt(channels)
    X = mixing @ rng.standard_normal((n + N_TEST, channels, 500))
    y = np.arange(n + N_TEST) % classes
    y[:n] = rng.permutation(y[:n])
    model = make_decoder("mi", sfreq=250.0).fit(X[:n], y[:n])
    return measured(y[n:], model.predict_proba(X[n:]))


def measured(y: np.ndarray, p: np.ndarray) -> tuple[float, float, float]:
    """Mean confidence, accuracy and log loss."""
    loss = log_loss(y, p, labels=np.arange(p.shape[1]))
    return float(p.max(1).mean()), float((p.argmax(1) == y).mean()), float(loss)


def main() -> None:
    """Print both tables."""
    print(f"| channels, trials, classes ({N_SETS} sets) | confidence | accuracy | log loss |")
    print("|---|---|---|---|")
    for shape in SHAPES:
        values = np.mean([noise(*shape, seed) for seed in range(N_SETS)], axis=0)
        print(f"| {', '.join(map(str, shape))} |", " | ".join(f"{v:.3f}" for v in values), "|")
    print("\n| data set | test trials | confidence | accuracy | log loss |")
    print("|---|---|---|---|---|")
    for name, (dataset, options) in SETS.items():
        if isinstance(dataset, Path) and not dataset.is_dir():
            print(f"| {name} | not here | | | |")
            continue
        (runs,) = evaluate(dataset, ["recommended"], **options).results.values()
        values = np.mean([measured(run.y, run.probabilities) for run in runs], axis=0)
        n = sum(len(run.y) for run in runs)
        print(f"| {name} | {n} |", " | ".join(f"{v:.3f}" for v in values), "|", flush=True)


if __name__ == "__main__":
    main()
