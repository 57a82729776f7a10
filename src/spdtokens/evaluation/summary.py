"""Runs summarised: one row a method, every spread named, compared with the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.evaluation.chance import BOUNDS, independent_counts
from spdtokens.evaluation.metrics import calibration_error, get_metric, log_loss
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.evaluation.statistics import Comparison, compare, holm, mcnemar, trial_permutation
from spdtokens.preprocessing.bands import cut_note

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """A method's results on one data set under one protocol.

    A score is the mean over seeds, then folds, then subjects.

    Attributes
    ----------
    method : str
        As shown.
    metric : str
    score, train_score, validation_score : float
        Of the test, training and validation trials; NaN where there are none.
    std_seeds : float
        Standard deviation over seeds of the mean over folds, averaged over subjects; NaN for one
        seed.
    std_folds : float
        Over folds, averaged over subjects; NaN for one fold a subject.
    std_subjects : float
        Over subjects; NaN for one.
    chance : float
        What the best constant or random guess expects in this metric: see
        :class:`~spdtokens.evaluation.metrics.Metric`.
    chance_bound : float
        95th percentile of guesses, given the number of independent test trials; NaN where it
        cannot be said.
    majority : float
        Share of the most frequent class among the test trials.
    calibration_error, log_loss, confidence : float
        Expected calibration error, mean negative log-likelihood and mean confidence of the test
        trials: of all folds of a subject together, then mean over seeds and subjects.
    n_train : float
        Training trials of a run, on average.
    n_test : int
        Different trials tested.
    n_independent : int or None
        How many independent trials they are worth, by which the bound is computed: see
        :func:`~spdtokens.evaluation.chance.independent_counts`. None if it is not known.
    n_runs, n_subjects, n_folds, n_seeds : int
        Folds of all subjects together.
    comparison : Comparison or None
        With the first method; None for the first itself, or if they have not the same folds.
    p_holm : float
        Its p-value, corrected for the number of methods in the table.
    no_p_because : str
        Why there is no p-value; empty if there is one, and for the first method.
    leaky : str
        Why the score flatters; empty for an honest one.
    seconds : float
        A run, on average.
    note : str
        What differs from the method's defaults although nobody asked for it; empty if nothing.
    """

    method: str
    metric: str
    score: float
    train_score: float
    validation_score: float
    std_seeds: float
    std_folds: float
    std_subjects: float
    chance: float
    chance_bound: float
    majority: float
    calibration_error: float
    log_loss: float
    confidence: float
    n_train: float
    n_test: int
    n_independent: int | None
    n_runs: int
    n_subjects: int
    n_folds: int
    n_seeds: int
    comparison: Comparison | None
    p_holm: float
    no_p_because: str
    leaky: str
    seconds: float
    note: str = ""

    @property
    def std(self) -> float:
        """The widest spread there is: over subjects, else seeds, else folds."""
        spreads = (self.std_subjects, self.std_seeds, self.std_folds)
        return next((spread for spread in spreads if np.isfinite(spread)), NAN)

    @property
    def spread_over(self) -> str:
        """What :attr:`std` is taken over."""
        named = (
            (self.std_subjects, "subjects"),
            (self.std_seeds, "seeds"),
            (self.std_folds, "folds"),
        )
        return next((name for spread, name in named if np.isfinite(spread)), "")

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        comparison = self.comparison
        return {
            "method": self.method,
            "metric": self.metric,
            "score": _plain(self.score),
            "std": _plain(self.std),
            "train_score": _plain(self.train_score),
            "chance": _plain(self.chance),
            "n_test": self.n_test,
            "n_runs": self.n_runs,
            "p_value": None if comparison is None else _plain(comparison.p_value),
            "p_holm": _plain(self.p_holm),
            "test": None if comparison is None else comparison.test,
            "effect": None if comparison is None else _plain(comparison.effect),
            "chance_bound": _plain(self.chance_bound),
            "validation_score": _plain(self.validation_score),
            "std_over": self.spread_over or None,
            "std_seeds": _plain(self.std_seeds),
            "std_folds": _plain(self.std_folds),
            "std_subjects": _plain(self.std_subjects),
            "n_train": self.n_train,
            "n_subjects": self.n_subjects,
            "n_folds": self.n_folds,
            "n_seeds": self.n_seeds,
            "leaky": self.leaky or None,
            "seconds": self.seconds,
            "note": self.note or None,
            "no_p_because": self.no_p_because or None,
            "n_independent": self.n_independent,
            "majority": self.majority,
            "calibration_error": self.calibration_error,
            "log_loss": self.log_loss,
            "confidence": self.confidence,
        }


@dataclass(frozen=True)
class Pair:
    """Two methods compared.

    Attributes
    ----------
    method, reference : str
        Titles of the two methods. Differences are ``method - reference``.
    comparison : Comparison or None
        None if they do not have the same folds.
    p_holm : float
        P-value, Holm-corrected for the number of pairs compared together.
    no_p_because : str
        Why there is no p-value; empty if there is one.
    """

    method: str
    reference: str
    comparison: Comparison | None
    p_holm: float
    no_p_because: str

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        found = self.comparison
        return {
            "method": self.method,
            "reference": self.reference,
            "difference": None if found is None else _plain(found.mean_difference),
            "p_value": None if found is None else _plain(found.p_value),
            "p_holm": _plain(self.p_holm),
            "test": None if found is None else found.test,
            "n": None if found is None else found.n,
            "effect": None if found is None else _plain(found.effect),
            "no_p_because": self.no_p_because or None,
        }


def summarise(results: Mapping[str, Sequence[RunResult]], metric: str) -> list[Row]:
    """Summarise each method in a row and compare it with the first.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Runs of each method, of one data set under one protocol; the first is compared with.
    metric : str
    """
    tables = _tables(results, metric)
    pairs = {pair.method: pair for pair in _compared(tables, next(iter(tables), None))}
    return [
        _row(metric, table, pairs.get(name, Pair(name, name, None, NAN, "")))
        for name, table in tables.items()
    ]


def compare_methods(
    results: Mapping[str, Sequence[RunResult]], metric: str, reference: str | None = None
) -> list[Pair]:
    """Compare methods in pairs.

    Scores are paired by subject if there are several, else by fold, else by trial.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Runs of each method, of one data set under one protocol. Methods without runs are left out.
    metric : str
        A key of :data:`~spdtokens.evaluation.metrics.METRICS`.
    reference : str, default None
        The method, one with runs, that all others are compared with. None compares each method
        with every method before it.

    Returns
    -------
    list of Pair
    """
    return _compared(_tables(results, metric), reference)


def unit_scores(
    results: Mapping[str, Sequence[RunResult]], metric: str
) -> tuple[str, dict[str, NDArray[np.float64]]]:
    """What methods are paired by, ``'subjects'`` or ``'folds'``, and each one's scores (n,).

    Only subjects, or folds, of which every method has a run.
    """
    tables = _tables(results, metric)
    shared = set.intersection(*(set(table.folds) for table in tables.values()))
    order = [fold for fold in next(iter(tables.values())).folds if fold in shared]
    subjects = list(dict.fromkeys(subject for subject, _ in order))
    by_fold = {
        name: {fold: _mean(row) for fold, row in zip(table.folds, table.test, strict=True)}
        for name, table in tables.items()
    }
    if len(subjects) < 2:
        return "folds", {n: np.array([by_fold[n][fold] for fold in order]) for n in tables}
    return "subjects", {
        name: np.array([_mean([found[f] for f in order if f[0] == s]) for s in subjects])
        for name, found in by_fold.items()
    }


class _Scores:
    """Scores of one method as (subject, fold) x seed."""

    def __init__(self, runs: Sequence[RunResult], metric: str) -> None:
        self.runs, self.metric = runs, metric
        self.folds = list(dict.fromkeys((run.spec.subject, run.spec.fold) for run in runs))
        self.subjects = list(dict.fromkeys(subject for subject, _ in self.folds))
        self.seeds = list(dict.fromkeys(run.spec.seed for run in runs))
        self.test = self.scores("test")

    def scores(self, part: str) -> NDArray[np.float64]:
        """(folds, seeds), NaN where a run is missing or has no such score."""
        table = np.full((len(self.folds), len(self.seeds)), np.nan)
        for run in self.runs:
            at = (
                self.folds.index((run.spec.subject, run.spec.fold)),
                self.seeds.index(run.spec.seed),
            )
            table[at] = getattr(run, part).get(self.metric, np.nan)
        return table

    def by_subject(self, table: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The rows of each subject."""
        of = np.array([self.subjects.index(subject) for subject, _ in self.folds])
        return [table[of == i] for i in range(len(self.subjects))]

    def mean(self, part: str) -> float:
        """Over seeds, then folds, then subjects."""
        return _mean([_mean(_means(rows, 1)) for rows in self.by_subject(self.scores(part))])

    def compared_with(self, other: _Scores) -> Comparison | None:
        """By subjects if there are several, else folds, else trials."""
        if set(self.folds) != set(other.folds):
            return None
        order = [other.folds.index(fold) for fold in self.folds]
        mine, theirs = _means(self.test, 1), _means(other.test[order], 1)
        if len(self.subjects) > 1:
            a = [_mean(rows) for rows in self.by_subject(mine[:, None])]
            b = [_mean(rows) for rows in self.by_subject(theirs[:, None])]
            return compare(a, b, "permutation")
        if len(self.folds) > 1:
            sizes = [(run.sizes["train"], run.sizes["test"]) for run in self.runs]
            n_train, n_test = (round(float(np.mean(column))) for column in zip(*sizes, strict=True))
            return compare(mine, theirs, "corrected_resampled_t", n_train=n_train, n_test=n_test)
        return compare_trials(self.runs, other.runs, self.metric)


def compare_trials(
    mine: Sequence[RunResult], theirs: Sequence[RunResult], metric: str
) -> Comparison:
    """Compare two methods on the trials of one test set, by the metric that is shown.

    McNemar's exact test for the accuracy of one run each on independent trials; else a paired
    permutation test over chains of dependent trials.

    Parameters
    ----------
    mine, theirs : sequence of RunResult
        Of one fold of one subject, one per seed.
    metric : str
    """
    y, chain = mine[0].y, mine[0].chain
    a, b = (np.stack([run.probabilities for run in runs]) for runs in (mine, theirs))
    if chain is None:
        why = "it is not known which test trials depend on each other"
        return Comparison("trial_permutation", 0, NAN, NAN, NAN, NAN, why)
    if metric == "accuracy" and len(a) == len(b) == 1 and len(np.unique(chain)) == len(y):
        return mcnemar(a[0].argmax(1) == y, b[0].argmax(1) == y)
    return trial_permutation(metric, y, a, b, chain)


def _tables(results: Mapping[str, Sequence[RunResult]], metric: str) -> dict[str, _Scores]:
    return {name: _Scores(runs, metric) for name, runs in results.items() if runs}


def _compared(tables: Mapping[str, _Scores], reference: str | None) -> list[Pair]:
    """All pairs of methods, or all others with the reference."""
    if reference is None:
        pairs = [(method, before) for before, method in combinations(tables, 2)]
    else:
        pairs = [(method, reference) for method in tables if method != reference]
    found = [tables[method].compared_with(tables[before]) for method, before in pairs]
    p = holm([NAN if comparison is None else comparison.p_value for comparison in found])
    return [
        Pair(
            method,
            before,
            comparison,
            float(corrected),
            "not the same folds" if comparison is None else comparison.why_not,
        )
        for (method, before), comparison, corrected in zip(pairs, found, p, strict=True)
    ]


def _row(metric: str, table: _Scores, pair: Pair) -> Row:
    runs = table.runs
    n_classes = runs[0].probabilities.shape[1]
    once = list({(run.spec.subject, run.spec.fold): run for run in runs}.values())
    counts = np.bincount(np.concatenate([run.y for run in once]), minlength=n_classes)
    independent = _independent(once, metric, n_classes)
    bound = NAN
    if independent is not None and metric in BOUNDS:
        bound = BOUNDS[metric](independent, 0.05)
    subjects = table.by_subject(table.test)
    error, loss, confidence = _calibration(runs)
    return Row(
        method=pair.method,
        metric=metric,
        score=table.mean("test"),
        train_score=table.mean("train"),
        validation_score=table.mean("validation"),
        std_seeds=_mean([_std(_means(rows, 0)) for rows in subjects]),
        std_folds=_mean([_std(_means(rows, 1)) for rows in subjects]),
        std_subjects=_std(np.array([_mean(_means(rows, 1)) for rows in subjects])),
        chance=get_metric(metric).chance(counts),
        chance_bound=bound,
        majority=float(counts.max() / counts.sum()),
        calibration_error=error,
        log_loss=loss,
        confidence=confidence,
        n_train=float(np.mean([run.sizes["train"] for run in runs])),
        n_test=len({(run.spec.subject, trial) for run in once for trial in run.ids}),
        n_independent=None if independent is None else round(independent.sum()),
        n_runs=len(runs),
        n_subjects=len(table.subjects),
        n_folds=len(table.folds),
        n_seeds=len(table.seeds),
        comparison=pair.comparison,
        p_holm=pair.p_holm,
        no_p_because=pair.no_p_because,
        leaky="; ".join(sorted({run.leaky for run in runs} - {""})),
        seconds=float(np.mean([run.seconds for run in runs])),
        note=_note(runs[0].spec),
    )


def _note(spec: RunSpec) -> str:
    cut = spec.about.get("bands_cut")
    return f"default bands: {cut_note(cut, spec.about['sfreq'])}" if cut else ""


def _independent(
    runs: Sequence[RunResult], metric: str, n_classes: int
) -> NDArray[np.float64] | None:
    """Independent test trials of each class in all folds together; None if it is not known."""
    numbers: dict[tuple[str, int], int] = {}
    stretch: list[int] = []
    for run in runs:
        if run.stretch is None:
            return None
        # Numbers are of one table of trials; every subject may have its own.
        mine = ((run.spec.subject, number) for number in run.stretch.tolist())
        stretch += [numbers.setdefault(key, len(numbers)) for key in mine]
    y = np.concatenate([run.y for run in runs])
    return independent_counts(metric, y, np.array(stretch), n_classes)


def _calibration(runs: Sequence[RunResult]) -> tuple[float, float, float]:
    """Calibration error, log loss and confidence: folds pooled, mean over seeds and subjects."""
    parts: dict[tuple[str, int | None], list[RunResult]] = {}
    for run in runs:
        parts.setdefault((run.spec.subject, run.spec.seed), []).append(run)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for (subject, _), mine in parts.items():
        y = np.concatenate([run.y for run in mine])
        p = np.concatenate([run.probabilities for run in mine])
        measured = (calibration_error(y, p), log_loss(y, p), float(p.max(1).mean()))
        found.setdefault(subject, []).append(measured)
    error, loss, confidence = np.mean([np.mean(rows, axis=0) for rows in found.values()], axis=0)
    return float(error), float(loss), float(confidence)


def _means(table: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Mean of what is known along an axis; NaN where nothing is."""
    return np.array([_mean(values) for values in np.moveaxis(table, axis, -1)])


def _mean(values: Sequence[float] | NDArray[np.float64]) -> float:
    known = np.asarray(values)[np.isfinite(values)]
    return float(known.mean()) if len(known) else NAN


def _std(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else NAN


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
