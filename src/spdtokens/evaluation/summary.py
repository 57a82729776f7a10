"""Runs summarised: one row per method, every spread named, compared with the first; as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spdtokens import _tables
from spdtokens._tables import counted, p_value
from spdtokens.evaluation.chance import BOUNDS, independent_counts
from spdtokens.evaluation.metrics import METRICS, UNEQUAL, calibration_error, get_metric, log_loss
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.statistics import Comparison, compare, holm, mcnemar, trial_permutation
from spdtokens.preprocessing.bands import cut_note

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NAN = float("nan")
#: What a comparison is where methods have not the same folds.
NOT_COMPARED = Comparison("", 0, NAN, NAN, NAN, NAN, "not the same folds")
#: Metrics that are shares and shown in percent.
PERCENT = ("accuracy", "balanced_accuracy", "f1")
TESTS = {
    "permutation": "a sign-flip permutation test over subjects",
    "corrected_resampled_t": "a corrected resampled t-test over folds",
    "mcnemar": "McNemar's exact test over trials",
    "trial_permutation": "a paired permutation test over trials (dependent ones swapped together)",
}


class _Values:
    """Fields as plain values, and as columns of a frame."""

    @classmethod
    def names(cls) -> list[str]:
        """Names of all fields but the comparison."""
        return [f.name for f in fields(cls) if f.name != "comparison"]  # type: ignore[arg-type]

    def values(self) -> dict[str, Any]:
        """As plain values; what is not known is None."""
        found = {name: getattr(self, name) for name in self.names()}
        unknown = [k for k, v in found.items() if v == "" or (v is not None and v != v)]
        return found | dict.fromkeys(unknown)

    @classmethod
    def frame(cls, items: Sequence[_Values]) -> pd.DataFrame:
        """One row per item; an unknown number is NaN."""
        import pandas as pd

        frame = pd.DataFrame([item.values() for item in items], columns=cls.names())
        numbers = [f.name for f in fields(cls) if f.name in frame and f.type != "str"]  # type: ignore[arg-type]
        frame[numbers] = frame[numbers].apply(pd.to_numeric)
        return frame


@dataclass(frozen=True)
class Row(_Values):
    """A method's results on one data set under one protocol.

    A score is the mean over seeds, then folds, then subjects.

    Attributes
    ----------
    method : str
        As shown.
    metric : str
    score, train_score, validation_score : float
        Of the test, training and validation trials; NaN where there are none.
    std, std_over : float, str
        The widest spread there is: over ``'subjects'``, else ``'seeds'``, else ``'folds'``.
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
    p_value, test, effect : float, str, float
        Of the comparison with the first method.
    p_holm : float
        The p-value, corrected for the number of methods in the table.
    no_p_because : str
        Why there is no p-value; empty if there is one, and for the first method.
    leaky : str
        Why the score flatters; empty for an honest one.
    seconds : float
        A run, on average.
    note : str
        What differs from the method's defaults although nobody asked for it; empty if nothing.
    comparison : Comparison or None
        With the first method; None for the first itself.
    """

    method: str
    metric: str
    score: float
    std: float
    std_over: str
    train_score: float
    chance: float
    chance_bound: float
    n_test: int
    n_independent: int | None
    n_train: float
    n_runs: int
    n_subjects: int
    n_folds: int
    n_seeds: int
    p_value: float
    p_holm: float
    test: str
    effect: float
    no_p_because: str
    leaky: str
    note: str
    validation_score: float
    std_seeds: float
    std_folds: float
    std_subjects: float
    majority: float
    calibration_error: float
    log_loss: float
    confidence: float
    seconds: float
    comparison: Comparison | None


@dataclass(frozen=True)
class Pair(_Values):
    """Two methods compared.

    Attributes
    ----------
    method, reference : str
        Titles of the two methods.
    difference : float
        Score of the method minus that of the reference.
    p_value, test, n, effect, no_p_because
        Of the comparison.
    p_holm : float
        P-value, Holm-corrected for the number of pairs compared together.
    comparison : Comparison
    """

    method: str
    reference: str
    difference: float
    p_value: float
    p_holm: float
    test: str
    n: int
    effect: float
    no_p_because: str
    comparison: Comparison


def summarise(results: Mapping[str, Sequence[RunResult]], metric: str) -> list[Row]:
    """Summarise each method in a row and compare it with the first.

    Parameters
    ----------
    results : mapping of str to sequence of RunResult
        Runs of each method, of one data set under one protocol; the first is compared with.
    metric : str
    """
    known = {name: runs for name, runs in results.items() if runs}
    pairs = {p.method: p for p in compare_methods(known, metric, next(iter(known), None))}
    return [_row(metric, name, runs, pairs.get(name)) for name, runs in known.items()]


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
    known = {name: runs for name, runs in results.items() if runs}
    scores = {name: _by_fold(_scores(runs, metric))["test"] for name, runs in known.items()}
    pairs = [(method, before) for before, method in combinations(known, 2)]
    if reference is not None:
        pairs = [(method, reference) for method in known if method != reference]
    found = [
        _compared(known[one], known[other], scores[one], scores[other], metric)
        for one, other in pairs
    ]
    p = holm([comparison.p_value for comparison in found]).tolist()
    return [
        Pair(*pair, c.mean_difference, c.p_value, p_holm, c.test, c.n, c.effect, c.why_not, c)
        for pair, c, p_holm in zip(pairs, found, p, strict=True)
    ]


def unit_scores(
    results: Mapping[str, Sequence[RunResult]], metric: str
) -> tuple[str, dict[str, NDArray[np.float64]]]:
    """What methods are paired by, ``'subjects'`` or ``'folds'``, and each one's scores (n,).

    Only subjects, or folds, of which every method has a run.
    """
    import pandas as pd

    found = {
        name: _by_fold(_scores(runs, metric))["test"] for name, runs in results.items() if runs
    }
    shared = pd.concat(found, axis=1, join="inner")
    by_subject = shared.groupby("subject", sort=False).mean()
    over, table = ("folds", shared) if len(by_subject) < 2 else ("subjects", by_subject)
    return over, {name: table[name].to_numpy() for name in found}


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


def _compared(
    mine: Sequence[RunResult],
    theirs: Sequence[RunResult],
    a: pd.Series[float],
    b: pd.Series[float],
    metric: str,
) -> Comparison:
    """By subjects if there are several, else folds, else trials; from scores of folds."""
    if set(a.index) != set(b.index):
        return NOT_COMPARED
    b = b[a.index]
    by_subject = [scores.groupby("subject", sort=False).mean() for scores in (a, b)]
    if len(by_subject[0]) > 1:
        return compare(by_subject[0], by_subject[1], "permutation")
    if len(a) > 1:
        sizes = {part: np.mean([run.sizes[part] for run in mine]) for part in ("train", "test")}
        n_train, n_test = (round(float(size)) for size in sizes.values())
        return compare(a, b, "corrected_resampled_t", n_train=n_train, n_test=n_test)
    return compare_trials(mine, theirs, metric)


def _scores(runs: Sequence[RunResult], metric: str) -> pd.DataFrame:
    """One row per run: subject, fold, seed, and the score of each part, NaN without."""
    import pandas as pd

    parts = ("test", "train", "validation")
    specs = [run.spec for run in runs]
    return pd.DataFrame(
        {
            "subject": [spec.subject for spec in specs],
            "fold": [spec.fold for spec in specs],
            "seed": [-1 if spec.seed is None else spec.seed for spec in specs],
            **{part: [getattr(run, part).get(metric, NAN) for run in runs] for part in parts},
        }
    )


def _by_fold(scores: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, indexed by subject and fold."""
    return scores.drop(columns="seed").groupby(["subject", "fold"], sort=False).mean()


def _row(metric: str, method: str, runs: Sequence[RunResult], pair: Pair | None) -> Row:
    scores = _scores(runs, metric)
    folds = _by_fold(scores)
    subjects = folds.groupby("subject", sort=False).mean()
    seeds = scores.groupby(["subject", "seed"], sort=False)["test"].mean()
    n_classes = runs[0].probabilities.shape[1]
    once = list({(run.spec.subject, run.spec.fold): run for run in runs}.values())
    y = np.concatenate([run.y for run in once])
    counts = np.bincount(y, minlength=n_classes)
    independent, bound = None, NAN
    known = [run.stretch for run in once if run.stretch is not None]
    if len(known) == len(once):
        # Numbers are of one table of trials; every subject may have its own.
        place = subjects.index.get_indexer([run.spec.subject for run in once])
        span = 1 + max(int(numbers.max()) for numbers in known)
        stretch = np.concatenate([span * i + n for i, n in zip(place, known, strict=True)])
        independent = independent_counts(metric, y, stretch, n_classes)
        bound = BOUNDS[metric](independent) if metric in BOUNDS else NAN
    error, loss, confidence = _calibration(scores, runs)
    stds = {
        "subjects": float(subjects["test"].std()),
        "seeds": float(seeds.groupby("subject").std().mean()),
        "folds": float(folds["test"].groupby("subject").std().mean()),
    }
    over = next((name for name, std in stds.items() if np.isfinite(std)), "")
    cut = runs[0].spec.about.get("bands_cut")
    return Row(
        method=method,
        metric=metric,
        score=float(subjects["test"].mean()),
        std=stds.get(over, NAN),
        std_over=over,
        train_score=float(subjects["train"].mean()),
        chance=get_metric(metric).chance(counts),
        chance_bound=bound,
        n_test=len({(run.spec.subject, trial) for run in once for trial in run.ids.tolist()}),
        n_independent=None if independent is None else round(independent.sum()),
        n_train=float(np.mean([run.sizes["train"] for run in runs])),
        n_runs=len(runs),
        n_subjects=len(subjects),
        n_folds=len(folds),
        n_seeds=scores["seed"].nunique(),
        p_value=pair.p_value if pair else NAN,
        p_holm=pair.p_holm if pair else NAN,
        test=pair.test if pair else "",
        effect=pair.effect if pair else NAN,
        no_p_because=pair.no_p_because if pair else "",
        leaky="; ".join(sorted({run.leaky for run in runs} - {""})),
        note=f"default bands: {cut_note(cut, runs[0].spec.about['sfreq'])}" if cut else "",
        validation_score=float(subjects["validation"].mean()),
        **{f"std_{name}": std for name, std in stds.items()},
        majority=float(counts.max() / counts.sum()),
        calibration_error=error,
        log_loss=loss,
        confidence=confidence,
        seconds=float(np.mean([run.seconds for run in runs])),
        comparison=pair.comparison if pair else None,
    )


def _calibration(scores: pd.DataFrame, runs: Sequence[RunResult]) -> tuple[float, float, float]:
    """Calibration error, log loss and confidence: folds pooled, mean over seeds and subjects."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for (subject, _), at in scores.groupby(["subject", "seed"], sort=False).indices.items():
        y = np.concatenate([runs[i].y for i in at])
        p = np.concatenate([runs[i].probabilities for i in at])
        measured = (calibration_error(y, p), log_loss(y, p), float(p.max(1).mean()))
        found.setdefault(subject, []).append(measured)
    error, loss, confidence = np.mean([np.mean(rows, axis=0) for rows in found.values()], axis=0)
    return float(error), float(loss), float(confidence)


# The same as a table, as text and as HTML.

HEADINGS = ("method", ">train", ">test", ">±", ">chance", ">n", ">runs", ">p")


def summary_table(rows: Sequence[Row], question: Question, name: str) -> Table:
    """For people: train beside test, and what the numbers mean."""
    from rich.text import Text

    lines: list[list[str | Text]] = []
    for row in rows:
        method, train, test, *others = _cells(row)
        style = "bold" if row.score > row.chance_bound else "dim"
        lines.append(
            [
                Text.assemble(method, (" leaky" if row.leaky else "", "red")),
                train,
                Text(test, style if np.isfinite(row.chance_bound) else ""),
                *others,
            ]
        )
    return _tables.table(HEADINGS, lines, f"{name}: {_setting(question)}", _caption(rows))


def summary_text(rows: Sequence[Row], question: Question) -> str:
    """Summarise in a few lines: the setting, the chance level, and one line per method."""
    head = f"Evaluation of {question.dataset}: {_setting(question)}"
    if not rows:
        return f"{head}\nNo runs."
    row = rows[0]
    tested = f"{counted(row.n_subjects, 'subject')}, {counted(row.n_folds, 'fold')}, "
    tested += f"{row.n_test} test trials"
    width = max(len(row.method) for row in rows)
    lines = [
        f"  {row.method:<{width}}  test {score_said(row.score, row.metric)}, "
        f"train {score_said(row.train_score, row.metric)}: {_verdict(row)}"
        for row in rows
    ]
    return "\n".join((head, f"{_title(row)}, {tested}. {chance_said(row)}", *lines))


def summary_html(rows: Sequence[Row], question: Question) -> str:
    """Summarise as a table for notebooks, with the caption of the table in the terminal."""
    import pandas as pd

    text = f"<p><b>{escape(question.dataset)}</b>: {_setting(question)}</p>"
    if rows:
        names = [name.removeprefix(">") for name in HEADINGS]
        shown = pd.DataFrame([_cells(row) for row in rows], columns=names)
        shown["verdict"] = [_verdict(row) for row in rows]
        text += shown.to_html(index=False, border=0)
    return f"{text}<p>{escape(_caption(rows))}</p>"


def _cells(row: Row) -> list[str]:
    scores = [row.train_score, row.score, row.std, row.chance]
    shown = [_number(value, row.metric) for value in scores]
    return [row.method, *shown, str(row.n_test), str(row.n_runs), p_value(row.p_holm)]


def _setting(question: Question) -> str:
    """Protocol, target access and alignment."""
    aligned = "" if question.alignment == "none" else f", {question.alignment} by {question.domain}"
    return f"{question.protocol}, target access {question.access}{aligned}"


def _title(row: Row) -> str:
    title = METRICS[row.metric].title
    return f"{title[0].upper()}{title[1:]}"


def _verdict(row: Row) -> str:
    """Whether the score is above chance, and whether it is leaky."""
    text = "above chance" if row.score > row.chance_bound else "not above chance"
    text = text if np.isfinite(row.chance_bound) else "no chance bound"
    return f"{text}, leaky" if row.leaky else text


def _number(value: float, metric: str) -> str:
    if metric in PERCENT:
        return _tables.number(100 * value, ".1f")
    shown = _tables.number(value, ".3f")
    return shown.replace("0.", ".", 1) if abs(value) < 1 else shown


def classes_said(row: Row) -> str:
    """Why balanced accuracy is shown; empty for other metrics and about equal classes."""
    if row.metric != "balanced_accuracy" or row.majority < UNEQUAL * row.chance:
        return ""
    return f", as classes are unequal (largest: {100 * row.majority:.0f} % of test trials)"


def chance_said(row: Row) -> str:
    """Chance level and its bound in a sentence, with the number of trials that counted."""
    text = f"Chance level {score_said(row.chance, row.metric)}"
    if row.n_independent is None:
        return f"{text} (no bound: it is not known which test trials depend on each other)."
    if not np.isfinite(row.chance_bound):
        return f"{text} (no bound for this metric and these classes)."
    of = "" if row.n_independent == row.n_test else f" independent of {row.n_test} test trials"
    bound = score_said(row.chance_bound, row.metric)
    return f"{text} (95th percentile for n = {row.n_independent}{of}: {bound})."


def score_said(value: float, metric: str) -> str:
    """A score within a sentence."""
    return _number(value, metric) + (" %" if metric in PERCENT else "")


def _caption(rows: Sequence[Row]) -> str:
    if not rows:
        return "No runs."
    row = rows[0]
    unit = " in percent" if row.metric in PERCENT else ""
    text = f"{_title(row)}{unit}{classes_said(row)}: mean over seeds, then folds, then subjects "
    text += f"({counted(max(r.n_seeds for r in rows), 'seed')}, {counted(row.n_folds, 'fold')}, "
    text += f"{counted(row.n_subjects, 'subject')}; {row.n_train:.0f} training trials per run, "
    text += "n test trials). "
    spreads = dict.fromkeys(r.std_over for r in rows if r.std_over)
    if spreads:
        text += f"± standard deviation over {' or '.join(spreads)}. "
    text += f"{chance_said(row)} "
    tests = dict.fromkeys(r.test for r in rows if r.test and not r.no_p_because)
    if tests:
        named = ", ".join(TESTS[test] for test in tests)
        text += f"p against {row.method} by {named}, Holm-corrected. "
    for before, name in (("", "note"), ("No p for ", "no_p_because")):
        for why in dict.fromkeys(getattr(r, name) for r in rows if getattr(r, name)):
            who = ", ".join(r.method for r in rows if getattr(r, name) == why)
            text += f"{before}{who}: {why}. "
    leaks = dict.fromkeys(r.leaky for r in rows if r.leaky)
    if leaks:
        text += f"Leaky: {'; '.join(leaks)}; these scores flatter. "
    return f"{text}Only the test score measures generalisation."
