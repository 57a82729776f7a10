"""Summarise runs in one row per method, compare methods, and print the result as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spdtokens import _tables
from spdtokens._tables import counted, p_value
from spdtokens.evaluation.chance import BOUNDS, independent_counts
from spdtokens.evaluation.metrics import (
    METRICS,
    UNEQUAL,
    all_scores,
    calibration_error,
    get_metric,
    log_loss,
)
from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.protocols import get_protocol
from spdtokens.evaluation.runs import RunResult
from spdtokens.evaluation.statistics import Comparison, compare, holm, mcnemar, trial_permutation
from spdtokens.preprocessing.bands import cut_note

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NAN = float("nan")
#: Comparison of methods that do not have the same folds.
NOT_COMPARED = Comparison("", 0, NAN, NAN, NAN, NAN, "not the same folds")
#: Metrics that are shown in percent.
PERCENT = ("accuracy", "balanced_accuracy", "f1")
TESTS = {
    "permutation": "a sign-flip permutation test over subjects",
    "corrected_resampled_t": "a corrected resampled t-test over folds",
    "mcnemar": "McNemar's exact test over trials",
    "trial_permutation": "a paired permutation test over trials (dependent ones swapped together)",
}


class _Record:
    """Dataclass that can be printed as plain values."""

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values.

        Returns
        -------
        dict of str to object
            Strings and numbers by name; None for missing values.
        """
        found = {name: getattr(self, name) for name in _columns(type(self))}
        missing = [k for k, v in found.items() if v == "" or (v is not None and v != v)]
        return found | dict.fromkeys(missing)


def _columns(kind: type) -> dict[str, Any]:
    """Names and types of all fields of a record that are single values."""
    several = ("comparison", "subjects")
    return {field.name: field.type for field in fields(kind) if field.name not in several}


def as_frame(kind: type[_Record], records: Sequence[_Record]) -> pd.DataFrame:
    """Return a frame with one row per record; missing numbers are NaN."""
    import pandas as pd

    columns = _columns(kind)
    frame = pd.DataFrame([record.values() for record in records], columns=list(columns))
    numbers = [name for name, of in columns.items() if of != "str"]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    return frame


@dataclass(frozen=True)
class Row(_Record):
    """Results of one method on one data set under one protocol.

    Scores are averaged over seeds, then folds, then subjects.

    Parameters
    ----------
    method : str
        Title of the method.
    metric : str
        Name of the metric.
    score : float
        Score of the test trials.
    std : float
        Standard deviation of the score, over the unit in ``std_over``.
    std_over : str
        ``'subjects'`` if there are several, else ``'seeds'``, else ``'folds'``; empty if there is
        only one run.
    train_score : float
        Score of the training trials.
    chance : float
        Expected score of the best guesser: the majority class for accuracy, 1 / n_classes for
        balanced accuracy, 0.5 for ROC AUC.
    chance_bound : float
        95th percentile of the score of guesses for ``n_independent`` trials; NaN if unknown.
    n_test : int
        Number of distinct test trials.
    n_independent : int or None
        Effective number of independent test trials: overlapping trials and segments of one trial
        count once. None if unknown.
    n_train : float
        Mean number of training trials per run.
    n_runs : int
        Number of runs.
    n_subjects : int
        Number of test subjects.
    n_folds : int
        Number of folds of all subjects together: one per subject and split, or per split of a
        pooled protocol.
    n_seeds : int
        Number of random seeds.
    p_value : float
        P-value of the comparison with the first method; NaN for the first.
    p_holm : float
        P-value after Holm's correction for the number of methods.
    test : str
        Name of the test.
    effect : float
        Effect size: see :class:`~spdtokens.evaluation.statistics.Comparison`.
    no_p_because : str
        Why there is no p-value; empty if there is one, and for the first method.
    leaky : str
        Why the score is optimistic (leakage that was asked for); empty otherwise.
    note : str
        Deviation from the defaults of the method that was not asked for; empty if none.
    validation_score : float
        Score of the validation trials; NaN if there are none.
    std_seeds : float
        Standard deviation over seeds, averaged over subjects; NaN for one seed.
    std_folds : float
        Standard deviation over folds, averaged over subjects; NaN for one fold per subject.
    std_subjects : float
        Standard deviation over subjects; NaN for one subject.
    majority : float
        Fraction of the test trials in the majority class.
    calibration_error : float
        Expected calibration error of the test trials, pooled over the folds of a subject.
    log_loss : float
        Mean negative log-probability of the true class, pooled in the same way.
    confidence : float
        Mean of the highest probability, pooled in the same way.
    seconds : float
        Mean time per run.
    comparison : Comparison or None
        Comparison with the first method; None for the first.
    subjects : dict of str to float
        Score of the test trials of each subject.

    See Also
    --------
    spdtokens.evaluation.Evaluation.to_frame : All rows as a DataFrame.

    Examples
    --------
    >>> from spdtokens import evaluate
    >>> row = evaluate("sim-mi", "mdm", subjects=1).rows[0]
    >>> row.metric, row.n_test, row.chance
    ('accuracy', 288, 0.25)
    >>> row.score > row.chance_bound
    True
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
    subjects: Mapping[str, float]

    def values(self) -> dict[str, Any]:
        """Return the fields as plain values.

        Returns
        -------
        dict of str to object
            Strings and numbers by name, and ``subjects``, a dict of scores; None for missing
            values.
        """
        scores = {name: None if v != v else float(v) for name, v in self.subjects.items()}
        return super().values() | {"subjects": scores}


@dataclass(frozen=True)
class Pair(_Record):
    """Comparison of two methods, with the columns of :meth:`Evaluation.compare`."""

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


def by_subject(runs: Sequence[RunResult]) -> list[RunResult]:
    """Split the runs of a pooled protocol into one result per test subject.

    Each has the subject's predictions and test scores; all else is that of the run. They are in the
    order of the data set. Runs of other protocols are returned as they are.
    """
    if not runs or not get_protocol(runs[0].spec.protocol).pooled:
        return list(runs)
    found = []
    for run in runs:
        subject = subjects_of(run)
        for name in dict.fromkeys(subject.tolist()):
            at = np.flatnonzero(subject == name)
            y, p = run.y[at], run.probabilities[at]
            mine = replace(
                run,
                spec=replace(run.spec, subject=name),
                ids=run.ids[at],
                y=y,
                probabilities=p,
                test=all_scores(y, p),
                sizes={**run.sizes, "test": len(at)},
                stretch=None if run.stretch is None else run.stretch[at],
                chain=None if run.chain is None else run.chain[at],
            )
            found.append(mine)
    return sorted(found, key=lambda run: run.spec.subjects.index(run.spec.subject))


def subjects_of(run: RunResult) -> NDArray[np.str_]:
    """Return the subject of each test trial (n,)."""
    if not get_protocol(run.spec.protocol).pooled:
        return np.full(len(run.ids), run.spec.subject)
    return np.array([trial.split("/", 1)[0] for trial in run.ids.tolist()])


def summarise(results: Mapping[str, Sequence[RunResult]], metric: str) -> list[Row]:
    """Summarise the runs of each method in a row, and compare it with the first method."""
    known = {name: runs for name, runs in results.items() if runs}
    pairs = {p.method: p for p in compare_methods(known, metric, next(iter(known), None))}
    return [_row(metric, name, runs, pairs.get(name)) for name, runs in known.items()]


def compare_methods(
    results: Mapping[str, Sequence[RunResult]], metric: str, reference: str | None = None
) -> list[Pair]:
    """Compare methods by subject if there are several, else by fold, else by trial.

    Methods without runs are left out. Each is compared with ``reference``, or with all methods
    before it if that is None.
    """
    known = {name: by_subject(runs) for name, runs in results.items() if runs}
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
    """Return what methods are paired by, ``'subjects'`` or ``'folds'``, and their scores (n,).

    Only subjects, or folds, that all methods have.
    """
    import pandas as pd

    found = {
        name: _by_fold(_scores(by_subject(runs), metric))["test"]
        for name, runs in results.items()
        if runs
    }
    shared = pd.concat(found, axis=1, join="inner")
    means = shared.groupby("subject", sort=False).mean()
    over, table = ("folds", shared) if len(means) < 2 else ("subjects", means)
    return over, {name: table[name].to_numpy() for name in found}


def compare_trials(
    mine: Sequence[RunResult], theirs: Sequence[RunResult], metric: str
) -> Comparison:
    """Compare two methods on the trials of one fold, from one run per seed.

    McNemar's exact test for the accuracy of single runs on independent trials, otherwise a paired
    permutation test over chains of dependent trials.
    """
    y, chain = mine[0].y, mine[0].chain
    a, b = (np.stack([run.probabilities for run in runs]) for runs in (mine, theirs))
    if chain is None:
        why = "the dependence between test trials is unknown"
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
    """Compare by subject if there are several, else by fold, else by trial."""
    if set(a.index) != set(b.index):
        return NOT_COMPARED
    b = b[a.index]
    means = [scores.groupby("subject", sort=False).mean() for scores in (a, b)]
    if len(means[0]) > 1:
        return compare(means[0], means[1], "permutation")
    if len(a) > 1:
        sizes = {part: np.mean([run.sizes[part] for run in mine]) for part in ("train", "test")}
        n_train, n_test = (round(float(size)) for size in sizes.values())
        return compare(a, b, "corrected_resampled_t", n_train=n_train, n_test=n_test)
    return compare_trials(mine, theirs, metric)


def _scores(runs: Sequence[RunResult], metric: str) -> pd.DataFrame:
    """One row per run: subject, fold, seed and scores; NaN if there is none."""
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
    """Mean over seeds, indexed by subject and fold."""
    return scores.drop(columns="seed").groupby(["subject", "fold"], sort=False).mean()


def _row(metric: str, method: str, whole: Sequence[RunResult], pair: Pair | None) -> Row:
    runs = by_subject(whole)
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
        # Stretches are numbered per table of trials, and subjects may have different tables.
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
        n_train=float(np.mean([run.sizes["train"] for run in whole])),
        n_runs=len(whole),
        n_subjects=len(subjects),
        n_folds=len({(run.spec.subject, run.spec.fold) for run in whole}),
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
        seconds=float(np.mean([run.seconds for run in whole])),
        comparison=pair.comparison if pair else None,
        subjects=subjects["test"].to_dict(),
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


HEADINGS = ("method", ">train", ">test", ">±", ">chance", ">n", ">runs", ">p")


def summary_table(rows: Sequence[Row], question: Question, name: str) -> Table:
    """Make a table with train and test scores, and a caption that explains the numbers."""
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
    """Summarise the setting, the chance level, and each method in one line."""
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
    """Summarise as a table for notebooks, with the caption of the terminal."""
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
    """Name the protocol, target access and alignment."""
    aligned = "" if question.alignment == "none" else f", {question.alignment} by {question.domain}"
    return f"{question.protocol}, target access {question.access}{aligned}"


def _title(row: Row) -> str:
    title = METRICS[row.metric].title
    return f"{title[0].upper()}{title[1:]}"


def _verdict(row: Row) -> str:
    """Say whether the score is above chance, and whether it is leaky."""
    text = "above chance" if row.score > row.chance_bound else "not above chance"
    text = text if np.isfinite(row.chance_bound) else "chance bound unknown"
    return f"{text}, leaky" if row.leaky else text


def _number(value: float, metric: str) -> str:
    if metric in PERCENT:
        return _tables.number(100 * value, ".1f")
    shown = _tables.number(value, ".3f")
    return shown.replace("0.", ".", 1) if abs(value) < 1 else shown


def classes_said(row: Row) -> str:
    """Explain why balanced accuracy is shown; empty for other metrics and balanced classes."""
    if row.metric != "balanced_accuracy" or row.majority < UNEQUAL * row.chance:
        return ""
    return f" (classes are unbalanced: majority class {100 * row.majority:.0f} % of test trials)"


def chance_said(row: Row) -> str:
    """Chance level, its 95th percentile and the number of trials, in a sentence."""
    text = f"Chance level {score_said(row.chance, row.metric)}"
    if row.n_independent is None:
        return f"{text} (95th percentile unknown: so is the dependence between test trials)."
    if not np.isfinite(row.chance_bound):
        return f"{text} (95th percentile not available for this metric and these classes)."
    of = "" if row.n_independent == row.n_test else f" independent of {row.n_test} test trials"
    bound = score_said(row.chance_bound, row.metric)
    return f"{text} (95th percentile for n = {row.n_independent}{of}: {bound})."


def score_said(value: float, metric: str) -> str:
    """Format a score within a sentence."""
    return _number(value, metric) + (" %" if metric in PERCENT else "")


def _caption(rows: Sequence[Row]) -> str:
    if not rows:
        return "No runs."
    row = rows[0]
    unit = " in percent" if row.metric in PERCENT else ""
    text = f"{_title(row)}{unit}{classes_said(row)}: mean over seeds, folds and subjects "
    text += f"({counted(max(r.n_seeds for r in rows), 'seed')}, {counted(row.n_folds, 'fold')}, "
    text += f"{counted(row.n_subjects, 'subject')}; {row.n_train:.0f} training trials per run; "
    text += "n: test trials). "
    spreads = dict.fromkeys(r.std_over for r in rows if r.std_over)
    if spreads:
        text += f"±: standard deviation over {' or '.join(spreads)}. "
    text += f"{chance_said(row)} "
    tests = dict.fromkeys(r.test for r in rows if r.test and not r.no_p_because)
    if tests:
        named = ", ".join(TESTS[test] for test in tests)
        text += f"p: comparison with {row.method} by {named}, Holm-corrected. "
    for before, name in (("", "note"), ("No p-value for ", "no_p_because")):
        for why in dict.fromkeys(getattr(r, name) for r in rows if getattr(r, name)):
            who = ", ".join(r.method for r in rows if getattr(r, name) == why)
            text += f"{before}{who}: {why}. "
    leaks = dict.fromkeys(r.leaky for r in rows if r.leaky)
    if leaks:
        text += f"Leakage: {'; '.join(leaks)}; these scores are too high. "
    return f"{text}Only the test score measures generalisation."
