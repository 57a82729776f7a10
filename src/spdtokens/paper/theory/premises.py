"""What the theory assumes about EEG covariances, measured on simulated or given trials."""
# ruff: noqa: D205  (the first paragraph of a docstring is the claim)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import silhouette_score
from torch import Tensor

from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import Dataset, load_dataset
from spdtokens.evaluation.plan import split_front
from spdtokens.geometry import (
    barycenter_bures_wasserstein,
    distance_bures_wasserstein,
    get_embedding,
    sqrtm,
)
from spdtokens.paper.findings import Outcome, told
from spdtokens.paper.reproduce.experiments import EMBEDDINGS, ROLES
from spdtokens.paper.theory.claim import judge, premise
from spdtokens.runtime.threads import one_thread

#: Subjects per data set, trials per subject, and trials per batch.
SUBJECTS, TRIALS, BATCH = 2, 128, 64
#: Numbers of channels that the paper calls high and low.
HIGH, LOW = 22, 8
#: A dispersion that is "much less than one" is at most this.
SMALL = 0.1
#: Relative distances of two eigenvalues that count as close, and the share of pairs that counts as
#: many.
CLOSE, MANY = (1e-6, 1e-3), 0.01

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Properties of the covariances of one subject.

    Attributes
    ----------
    channels : int
        Number of channels.
    kappa : ndarray
        Condition number of each trial.
    mean_kappa, largest, average : ndarray
        For each batch: condition number of the barycenter, and largest and mean distance of a trial
        to it, relative to the norm of its square root. The largest is the paper's dispersion.
    largest_within, average_within : ndarray
        The same distances to the barycenter of the class, for each class.
    spread_ratio : ndarray
        Mean distance of a trial to the barycenter of its class, over the mean distance between
        these barycenters.
    gaps, steps : ndarray
        Difference of each pair of eigenvalues, and of neighbours, relative to the larger one.
    scale_ratio : ndarray
        Standard deviation of the most variable entry of a BWSPD token over that of the least
        variable one.
    silhouette : dict of str to float
        Mean silhouette of the classes among standardised tokens, by embedding.
    """

    channels: int
    kappa: Array
    mean_kappa: Array
    largest: Array
    average: Array
    largest_within: Array
    average_within: Array
    spread_ratio: Array
    gaps: Array
    steps: Array
    scale_ratio: Array
    silhouette: dict[str, float]


Sets = Mapping[str, Sequence[Measured]]


def measure(C: Tensor, y: NDArray[np.int64]) -> Measured:
    """Measure the covariances (n, d, d) of a subject, with labels (n,)."""
    eigenvalues = torch.linalg.eigvalsh(C)
    low, high = torch.tril_indices(C.shape[-1], C.shape[-1], -1).flip(0)
    gaps = 1 - eigenvalues[:, low] / eigenvalues[:, high]
    means, distances = zip(*map(_around, C.split(BATCH)), strict=True)
    own, within = zip(*(_around(C[y == label]) for label in np.unique(y)), strict=True)
    absolute = torch.cat([d * sqrtm(mean).norm() for mean, d in zip(own, within, strict=True)])
    between = [float(distance_bures_wasserstein(a, b)) for a, b in combinations(own, 2)]
    tokens = {
        name: get_embedding(key.replace("-", "_")).to_token(C).numpy()
        for name, key in EMBEDDINGS.items()
    }
    spread = tokens["BWSPD"].std(0)
    return Measured(
        channels=C.shape[-1],
        kappa=_condition(C),
        mean_kappa=_condition(torch.stack(means)),
        largest=np.array([float(d.max()) for d in distances]),
        average=np.array([float(d.mean()) for d in distances]),
        largest_within=np.array([float(d.max()) for d in within]),
        average_within=np.array([float(d.mean()) for d in within]),
        spread_ratio=np.array([float(absolute.mean()) / np.mean(between)]),
        gaps=gaps.flatten().numpy(),
        steps=(1 - eigenvalues[:, :-1] / eigenvalues[:, 1:]).flatten().numpy(),
        scale_ratio=np.array([spread.max() / spread.min()]),
        silhouette={name: float(silhouette_score(x / x.std(0), y)) for name, x in tokens.items()},
    )


def _around(C: Tensor) -> tuple[Tensor, Tensor]:
    """Return the barycenter, and the distances to it relative to the norm of its square root."""
    # Three digits are enough, and an iteration with 56 channels takes long.
    mean = barycenter_bures_wasserstein(C, tol=1e-3).mean
    return mean, distance_bures_wasserstein(C, mean) / sqrtm(mean).norm()


def _condition(C: Tensor) -> Array:
    eigenvalues = torch.linalg.eigvalsh(C)
    return (eigenvalues[..., -1] / eigenvalues[..., 0]).numpy()


def measure_dataset(dataset: Dataset, settings: Settings) -> list[Measured]:
    """Measure the first trials of the first subjects, without the last session if there are more.

    Parameters
    ----------
    dataset : Dataset
        Signals, or covariances, which are used as they are.
    settings : Settings
        Bands and covariance estimator.
    """
    front = None
    if not dataset.is_covariance:
        front, _ = split_front(get_method("token-log-euclidean").make(dataset, settings))
    found = []
    for subject in dataset.subjects[:SUBJECTS]:
        sessions = dataset.sessions(subject)
        parts = [dataset.load(subject, session) for session in sessions[:-1] or sessions]
        X, y = (np.concatenate([getattr(part, key) for part in parts])[:TRIALS] for key in "Xy")
        C = X if front is None else front.fit_transform(X)
        found.append(measure(torch.from_numpy(np.asarray(C, dtype=np.float64)), y))
    return found


@cache
@one_thread()
def premises_of(data: Path | None) -> Sets:
    """Measure the three simulated data sets, and a data set of the user's.

    Parameters
    ----------
    data : Path or None
        Folder or file of trials or covariances, as in ``load_dataset``; None for none. Its signals
        are filtered at 4-40 Hz.
    """
    # The user's data first: an error comes before any long work.
    chosen = [] if data is None else [(load_dataset(data), Settings("broadband", "sample"))]
    known = [(load_dataset(r.sim), replace(r.settings(), estimator="paper")) for r in ROLES]
    return {dataset.name: measure_dataset(dataset, s) for dataset, s in (*known, *chosen)}


def _joined(sets: Sets, key: str) -> dict[str, Array]:
    """Return the values of all subjects by data set."""
    return {
        name: np.concatenate([getattr(one, key) for one in found]) for name, found in sets.items()
    }


def _channels(sets: Sets) -> dict[str, int]:
    return {name: found[0].channels for name, found in sets.items()}


def _ranges(values: Mapping[str, Array], form: str) -> tuple[str, dict[str, list[float]]]:
    """Return median and range of each data set as text, and as numbers."""
    found = {
        name: [float(np.median(v)), float(v.min()), float(v.max())] for name, v in values.items()
    }
    rows = {name: tuple(numbers) for name, numbers in found.items()}
    return told(f"{{0}} {{1:{form}}} ({{2:{form}}} to {{3:{form}}})", rows), found


@premise("thm:distortion_general (remark); thm:K_conditioning (remark 1)")
def eeg_condition_number(sets: Sets) -> Outcome:
    """Regularised EEG covariances have condition numbers of 10 to 100.

    Tested on: the first trials of two subjects per data set, estimator and bands of the paper; the
    median of every data set must be in the range

    Found: median (range) of kappa: {shown}; {inside:.0%} of the trials are in the range

    Instead: kappa depends on the number of channels, their reference and the band; 1e-6 square
    microvolts on the diagonal do not bound it
    """
    kappa = _joined(sets, "kappa")
    shown, numbers = _ranges(kappa, ".3g")
    every = np.concatenate(list(kappa.values()))
    inside = float(((every >= 10) & (every <= 100)).mean())
    fine = all(10 <= median <= 100 for median, *_ in numbers.values())
    return Outcome(judge(fine), {"kappa": numbers, "inside": inside}, shown=shown)


@premise("prop:barycenter_approx (proof)")
def eeg_mean_condition(sets: Sets) -> Outcome:
    """The barycenter of a batch of EEG covariances has a condition number of at most 1000.

    Tested on: batches of 64 of the same trials; the median of every data set must be at most 1000

    Found: median (range) of the condition number of the barycenter: {shown}

    Instead: the constant of the quadratic error grows with this condition number, so that the
    bound is weaker than stated
    """
    shown, numbers = _ranges(_joined(sets, "mean_kappa"), ".3g")
    fine = all(median <= 1000 for median, *_ in numbers.values())
    return Outcome(judge(fine), {"kappa": numbers}, shown=shown)


@premise("thm:K_conditioning (remark 3)")
def eeg_fewer_channels(sets: Sets) -> Outcome:
    """Covariances of 8 channels are better conditioned than those of 22 or more.

    Tested on: the same trials; every data set with at most 8 channels must have a lower median than
    every one with at least 22

    Found: median of kappa by number of channels: {shown}

    Instead: the number of channels alone does not order the condition numbers
    """
    channels, kappa = _channels(sets), _joined(sets, "kappa")
    medians = {name: float(np.median(values)) for name, values in kappa.items()}
    few = [medians[name] for name, d in channels.items() if d <= LOW]
    many = [medians[name] for name, d in channels.items() if d >= HIGH]
    shown = told("{1} {2:.3g} ({0})", {name: (channels[name], medians[name]) for name in medians})
    return Outcome(judge(max(few) < min(many)), {"median_kappa": medians}, shown=shown)


@premise("prop:bn_main, prop:barycenter_approx (premise)")
def eeg_dispersion(sets: Sets) -> Outcome:
    """Within a batch the dispersion eps, the largest distance to the barycenter relative to its
    norm, is much less than 1.

    Tested on: batches of 64 of the same trials; eps must be at most 0.1 in every batch

    Found: median (range) of eps: {largest}; of the mean distance: {average}; {valid:.0%} of the
    batches have eps < 1

    Instead: eps is {least:.2f} or more, so that an error of O(eps^2) need not be small
    """
    values = _joined(sets, "largest")
    largest, numbers = _ranges(values, ".2f")
    average, means = _ranges(_joined(sets, "average"), ".2f")
    every = np.concatenate(list(values.values()))
    found = {"eps": numbers, "mean_distance": means, "valid": float((every < 1).mean())}
    words = {"largest": largest, "average": average, "least": every.min()}
    return Outcome(judge(bool((every <= SMALL).all())), found, **words)


@premise("prop:bn_main, cor:bn_embed (remark)")
def eeg_within_class(sets: Sets) -> Outcome:
    """Covariances of one class cluster tightly, with a dispersion much less than 1.

    Tested on: the same trials by class; the dispersion of every class must be at most 0.1, and
    trials must be nearer to the mean of their class than these means are to each other

    Found: median (range) of eps within classes: {largest}; distance to the mean of the class over
    distance between these means: {ratio}

    Instead: eps within classes is {least:.2f} or more, and trials are up to {most:.1f} times as far
    from the mean of their class as these means are from each other
    """
    values = _joined(sets, "largest_within")
    largest, numbers = _ranges(values, ".2f")
    ratio, ratios = _ranges(_joined(sets, "spread_ratio"), ".1f")
    tight = all(bool((v <= SMALL).all()) for v in values.values())
    near = all(most < 1 for *_, most in ratios.values())
    return Outcome(
        judge(tight and near),
        {"eps": numbers, "spread_ratio": ratios},
        largest=largest,
        ratio=ratio,
        least=min(low for _, low, _ in numbers.values()),
        most=max(high for *_, high in ratios.values()),
    )


@premise("prop:speed_ratio (premise)")
def eeg_close_eigenvalues(sets: Sets) -> Outcome:
    """With 22 channels many pairs of eigenvalues are nearly equal and need a branch; with 8 fewer.

    Tested on: the same trials; at least 1 % of the pairs must differ by less than 0.1 % with 22 or
    more channels, and a smaller share with 8

    Found: share of pairs closer than 1e-3 (1e-6), relative: {shown}

    Instead: neighbouring eigenvalues differ by {neighbours} in the median
    """
    gaps, channels = _joined(sets, "gaps"), _channels(sets)
    shares = {name: [float((g < limit).mean()) for limit in CLOSE] for name, g in gaps.items()}
    few = [share for name, (_, share) in shares.items() if channels[name] <= LOW]
    many = [share for name, (_, share) in shares.items() if channels[name] >= HIGH]
    rows = {name: (channels[name], share, least) for name, (least, share) in shares.items()}
    steps = {name: float(np.median(values)) for name, values in _joined(sets, "steps").items()}
    return Outcome(
        judge(min(many) >= MANY and max(few) < min(many)),
        {"share_of_pairs": shares, "neighbours": steps},
        shown=told("{0} ({1} channels) {2:.3%} ({3:.3%})", rows),
        neighbours=told("{1:.0%} ({0})", steps),
    )


@premise("cor:bn_embed (remark)")
def eeg_token_scales(sets: Sets) -> Outcome:
    """The more entries tokens have, the more their scales differ.

    Tested on: standard deviations of the entries of BWSPD tokens; the ratio of the largest to the
    smallest must grow with the number of channels

    Found: ratio of the largest to the smallest standard deviation: {shown}

    Instead: the scales depend on the signals more than on the number of entries
    """
    channels, scales = _channels(sets), _joined(sets, "scale_ratio")
    ratios = {name: float(values.mean()) for name, values in scales.items()}
    order = sorted(ratios, key=lambda name: channels[name])
    grows = all(
        ratios[a] < ratios[b] for a, b in combinations(order, 2) if channels[a] < channels[b]
    )
    rows = {name: (channels[name], ratios[name]) for name in order}
    shown = told("{0} ({1} channels) {2:.1f}", rows)
    return Outcome(judge(grows), {"scale_ratio": ratios}, shown=shown)


@premise("fig:embedding_vis")
def eeg_class_separation(sets: Sets) -> Outcome:
    """Classes are better separated by BWSPD and Log-Euclidean tokens than by Euclidean ones.

    Tested on: mean silhouette of the classes among standardised tokens of the same trials; both
    must exceed that of Euclidean tokens in every data set

    Found: mean silhouette of Log-Euclidean, BWSPD and Euclidean tokens: {shown}

    Instead: the order depends on the data; a silhouette near 0 means that classes overlap
    """
    found = {
        name: {key: float(np.mean([m.silhouette[key] for m in values])) for key in EMBEDDINGS}
        for name, values in sets.items()
    }
    better = all(min(s["Log-Euc"], s["BWSPD"]) > s["Euclidean"] for s in found.values())
    rows = {name: tuple(s.values()) for name, s in found.items()}
    shown = told("{0} {1:.3f}, {2:.3f}, {3:.3f}", rows, "; ")
    return Outcome(judge(better), {"silhouette": found}, shown=shown)
