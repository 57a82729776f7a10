"""How often a decoder of noise is called above chance: docs/evaluation.md.

Run `python studies/chance_bound.py` from a checkout, or `python studies/chance_bound.py 50` for 50
simulated data sets per row instead of 300 (which take some minutes). Prints one Markdown row per
kind of trials.

Every data set is noise of 4 channels: one session to train on, one to test. Stretches of noise have
random labels, equally many of each class, and `mdm` is evaluated through `spdtokens.evaluate`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np

from spdtokens import evaluate
from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.chance import BOUNDS

CHANNELS, SFREQ = 4, 100.0
#: Samples of a trial, and of these on either side that are there for the filters.
LENGTH, MARGIN = 400, 50
HEAVY = "10 windows a sample apart, `onset`"
#: Name: stretches of each class, windows of a stretch, samples from one window to the next, whether
#: the file has groups, whether it has onsets, metric.
KINDS = {
    "independent trials": ((40, 40), 1, LENGTH, False, True, "accuracy"),
    HEAVY: ((40, 40), 10, 1, False, True, "accuracy"),
    "the same, `group`": ((40, 40), 10, 1, True, False, "accuracy"),
    "the same, 30 stretches": ((15, 15), 10, 1, True, False, "accuracy"),
    "the same, 4 classes": ((20, 20, 20, 20), 10, 1, False, True, "accuracy"),
    "the same, ROC AUC": ((60, 20), 10, 1, False, True, "roc_auc"),
    "the same, classes 3 to 1": ((60, 20), 10, 1, False, True, None),
    "10 windows 3 samples apart": ((40, 40), 10, 3, False, True, "accuracy"),
    "10 windows 3 samples apart, 4 classes": ((20, 20, 20, 20), 10, 3, False, True, "accuracy"),
    "4 windows, half of each in the next": ((40, 40), 4, LENGTH // 2, True, True, "accuracy"),
    "4 segments of a trial, none overlapping": ((40, 40), 4, LENGTH, True, False, "accuracy"),
}


def noise(
    seed: int,
    sizes: tuple[int, ...],
    windows: int = 10,
    step: int = 1,
    group: bool = False,
    onset: bool = True,
) -> Dataset:
    """Make a data set without anything to decode.

    Parameters
    ----------
    seed : int
    sizes : tuple of int
        Stretches of noise of each class, in each of two sessions.
    windows : int, default 10
        Trials cut from a stretch.
    step : int, default 1
        Samples from one to the next.
    group, onset : bool
        Whether trials of a stretch share a group, and whether it is known where each begins.
    """
    n = sum(sizes)
    span = LENGTH + (windows - 1) * step

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([seed, int(session)])
        y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        stretches = rng.standard_normal((n, CHANNELS, span))
        cut = [stretches[..., i * step : i * step + LENGTH] for i in range(windows)]
        X = np.stack(cut, axis=1).reshape(n * windows, CHANNELS, LENGTH)
        begins = 2 * span * np.arange(n)[:, None] + step * np.arange(windows)
        return Recording(
            subject,
            session,
            X,
            np.repeat(y, windows),
            np.full(len(X), "1"),
            np.repeat(np.arange(n), windows) if group else np.arange(len(X)),
            {"onset": begins.ravel()} if onset else {},
        )

    return Dataset(
        name="noise",
        description="",
        paradigm="other",
        classes=tuple("abcd"[: len(sizes)]),
        ch_names=tuple("ABCD"),
        sfreq=SFREQ,
        tmin=0.0,
        window=(MARGIN / SFREQ, (LENGTH - MARGIN) / SFREQ),
        index={"1": ("1", "2")},
        read=read,
    )


def exceeded(kind: str, n_sets: int) -> tuple[str, int, int, float, float]:
    """Metric, test trials, independent ones, and the shares of data sets above the bounds.

    The second share is of the bound that takes every trial as independent.
    """
    *made, metric = KINDS[kind]
    beyond = []
    for seed in range(n_sets):
        answer = evaluate(noise(seed, *made), ["mdm"], metric=metric)
        row = answer.rows[0]
        counts = np.bincount(answer.results["mdm"][0].y)
        beyond.append(row.score > np.array([row.chance_bound, BOUNDS[row.metric](counts)]))
    shares = np.mean(beyond, axis=0)
    return row.metric, row.n_test, row.n_independent or 0, float(shares[0]), float(shares[1])


def main(arguments: Iterable[str]) -> None:
    """Print the table."""
    n_sets = int(next(iter(arguments), 300))
    print("| noise | metric | trials | counted | above the bound | if all counted |")
    print("|---|---|---|---|---|---|")
    for kind in KINDS:
        metric, n, independent, share, naive = exceeded(kind, n_sets)
        shares = f"{share:.1%} | {naive:.1%}".replace("%", " %")
        print(f"| {kind} | {metric} | {n} | {independent} | {shares} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
