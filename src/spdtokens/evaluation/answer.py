"""Evaluate methods: plan the runs, execute them and summarise the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from spdtokens.classifiers.nn.engine import Listener
from spdtokens.datasets import Dataset, Selection, from_arrays
from spdtokens.errors import DataError, EvaluationError
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.metrics import default_metric, get_metric
from spdtokens.evaluation.plan import Choice, Question, Source, batches, plan
from spdtokens.evaluation.protocols import look_up
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text
from spdtokens.evaluation.summary import (
    Pair,
    Row,
    as_frame,
    compare_methods,
    subjects_of,
    summarise,
    summary_html,
    summary_text,
)
from spdtokens.evaluation.trials import Index, TrialTable, dependence

if TYPE_CHECKING:
    import pandas as pd

#: Names, estimators, or a mapping from titles to either.
Methods: TypeAlias = (
    str | BaseEstimator | Choice | Sequence[str | BaseEstimator | Choice] | Mapping[str, Any]
)
#: Function of a title and the number of runs; returns a function that is called with progress.
Bar = Callable[[str, int], Listener | None]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores, predictions and comparisons of the evaluated methods.

    Printing shows a short summary; a notebook shows a table.

    Parameters
    ----------
    question : Question
        What was evaluated: data set, methods, protocol.
    results : dict of str to list of RunResult
        Runs of each method, by its title.
    rows : list of Row
        Summary of each method that has runs.
    classes : tuple of str
        Names of the classes, in the order of the probabilities.

    See Also
    --------
    spdtokens.evaluate : Evaluate methods on a data set.

    Examples
    --------
    >>> from spdtokens import evaluate
    >>> result = evaluate("sim-mi", ["ts-lr", "mdm"], subjects=1)
    >>> frame = result.to_frame()
    >>> frame["n_test"].to_dict()
    {'ts-lr': 288, 'mdm': 288}
    >>> trials = result.predictions()
    >>> right = trials["truth"] == trials["predicted"]
    >>> accuracy = right.groupby(trials["method"]).mean()
    >>> bool(abs(accuracy["mdm"] - frame.loc["mdm", "score"]) < 1e-12)
    True
    >>> result.compare()[["method", "reference"]].values.tolist()
    [['mdm', 'ts-lr']]
    """

    question: Question
    results: dict[str, list[RunResult]]
    rows: list[Row]
    classes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """Summarise each method in one row.

        Returns
        -------
        DataFrame
            Indexed by method. The columns are those of ``spdtokens evaluate --json`` except
            ``subjects``, described in :class:`~spdtokens.evaluation.summary.Row`: ``score`` (of
            the test trials), ``std``, ``train_score``, ``chance``, ``chance_bound``, ``n_test``,
            ``p_holm`` (against the first method), and more. Missing values are NaN or None.
        """
        return as_frame(Row, self.rows).set_index("method")

    def subjects(self) -> pd.DataFrame:
        """Return the score of each test subject.

        Returns
        -------
        DataFrame
            One row per subject and one column per method: the score of the test trials in the
            reported metric, averaged over seeds and folds.
        """
        import pandas as pd

        frame = pd.DataFrame({row.method: row.subjects for row in self.rows}, dtype=float)
        return frame.rename_axis("subject")

    def predictions(self) -> pd.DataFrame:
        """Return the predictions of all test trials.

        Returns
        -------
        DataFrame
            One row per test trial and run, with the columns ``method``, ``subject``, ``fold``,
            ``seed`` (missing for deterministic methods), ``trial`` (``'subject/session/number'``),
            ``truth``, ``predicted``, and the probability ``p(NAME)`` of each class.
        """
        import pandas as pd

        names = np.array(self.classes)
        p = [f"p({name})" for name in self.classes]
        parts = [
            pd.DataFrame(
                {
                    "method": title,
                    "subject": subjects_of(run),
                    "fold": run.spec.fold,
                    "seed": pd.array([run.spec.seed] * len(run.y), "Int64"),
                    "trial": run.ids,
                    "truth": names[run.y],
                    "predicted": names[run.probabilities.argmax(1)],
                    **dict(zip(p, run.probabilities.T, strict=True)),
                }
            )
            for title, runs in self.results.items()
            for run in runs
        ]
        if not parts:
            given = ("method", "subject", "fold", "seed", "trial", "truth", "predicted")
            return pd.DataFrame(columns=[*given, *p])
        return pd.concat(parts, ignore_index=True)

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Compare methods in pairs.

        Scores are paired by subject if there are several (sign-flip permutation test), else by
        fold (corrected resampled t-test), else by trial (McNemar's exact test, or a permutation
        test over trials).

        Parameters
        ----------
        reference : str, default None
            Title of the method that all others are compared with. None compares all pairs.

        Returns
        -------
        DataFrame
            One row per pair: ``method`` and ``reference``; ``difference``, the score of the method
            minus that of the reference; ``p_value``, and ``p_holm``, Holm-corrected for the number
            of rows; ``test`` and ``n``, how many pairs of scores or trials it was computed from;
            ``effect``, Hedges' g of the differences (Cohen's g for McNemar's test); and
            ``no_p_because``, why there is no p-value.

        Raises
        ------
        EvaluationError
            If no method with runs has the title ``reference``.

        See Also
        --------
        spdtokens.evaluation.statistics.compare : Tests on paired scores.
        spdtokens.evaluation.statistics.holm : Correction for the number of tests.
        """
        titles = [row.method for row in self.rows]
        if reference is not None and reference not in titles:
            raise EvaluationError(
                f"reference must be one of the methods evaluated ({', '.join(titles)}), "
                f"got {reference!r}."
            )
        pairs = compare_methods(self.results, self.rows[0].metric, reference) if self.rows else []
        return as_frame(Pair, pairs)

    def __repr__(self) -> str:
        return summary_text(self.rows, self.question)

    def _repr_html_(self) -> str:
        return summary_html(self.rows, self.question)


def as_choices(methods: Methods) -> tuple[Choice, ...]:
    """Return the methods as choices, each with its title."""
    if isinstance(methods, Mapping):
        return tuple(
            replace(m, label=title) if isinstance(m, Choice) else Choice(m, label=title)
            for title, m in methods.items()
        )
    if isinstance(methods, str | Choice) or hasattr(methods, "fit"):
        methods = (methods,)
    if not isinstance(methods, Iterable):
        raise EvaluationError(
            "methods must be a name, a scikit-learn classifier, a list of these, or a dict from "
            f"titles to these, got {methods!r}."
        )
    return tuple(m if isinstance(m, Choice) else Choice(m) for m in methods)


def evaluate(
    dataset: str | Path | Dataset | Sequence[ArrayLike],
    methods: Methods,
    protocol: str = "session-transfer",
    *,
    sfreq: float | None = None,
    tmin: float = 0.0,
    metric: str | None = None,
    bar: Bar = lambda _text, _total: None,
    **more: Any,
) -> Evaluation:
    """Evaluate methods on a data set, without leakage.

    Splits that share trials, groups or samples between training and test are refused before
    anything is trained, also if trials were copied under another name.

    Parameters
    ----------
    dataset : str, Path, Dataset, or tuple of array_like
        Name or path, as in :func:`spdtokens.load_dataset`, a loaded data set, or arrays ``(X, y)``
        or ``(X, y, groups)``: signals (n, n_channels, n_samples) with ``sfreq``, or covariances
        (n, d, d) without; labels (n,); and groups (n,) that are never split between training and
        test. Arrays are one recording: use the protocol ``'k-fold'`` or ``'blocks'``.
    methods : str, estimator, Choice, sequence of these, or dict
        Names, as listed by ``spdtokens methods``; scikit-learn classifiers, which are given trials
        (n, n_channels, n_samples of the window), or the matrices (n, d, d) of a data set of
        covariances (filter banks of this package are given whole trials and cut their own window);
        or a dict from titles to either. A ``random_state`` that is None is set to each of the
        seeds, one run per seed.
    protocol : str, default='session-transfer'
        Name, as listed by ``spdtokens protocols``.
    sfreq : float, default=None
        Sampling rate in Hz, for arrays of signals only.
    tmin : float, default=0.0
        Time of the first sample relative to the cue in seconds, for arrays of signals only.
    metric : str, default=None
        Metric to report. None for accuracy, ROC AUC for event-related potentials, or balanced
        accuracy for unbalanced classes: see
        :func:`~spdtokens.evaluation.metrics.default_metric`.
    bar : callable, default=no progress
        Function of a title and the number of its runs that returns a progress callback, or None.
    **more : object
        Options of :class:`~spdtokens.evaluation.Question` (``access``, ``alignment``, ``domain``,
        ``subjects``, ``seeds``, ``protocol_options``, ``dataset_options``) and of
        :class:`~spdtokens.datasets.Selection` (``paradigm``, ``stimulus_hz``, ``window``,
        ``classes``, ``where``, ``channels``, ``resample``).

    Returns
    -------
    Evaluation
        Result with :meth:`~Evaluation.to_frame`, :meth:`~Evaluation.predictions` and
        :meth:`~Evaluation.compare`.

    Raises
    ------
    EvaluationError
        If an option is unknown, or a method or protocol does not suit the data set.
    LeakError
        If training and test trials share trials, groups or samples.

    See Also
    --------
    spdtokens.make_decoder : Make the recommended classifier.
    spdtokens.load_dataset : Load a data set.

    Examples
    --------
    >>> from spdtokens import evaluate
    >>> frame = evaluate("sim-mi", ["ts-lr", "mdm"], subjects=1).to_frame()
    >>> (frame["score"] > frame["chance_bound"]).to_dict()
    {'ts-lr': True, 'mdm': True}

    A scikit-learn classifier and a named method:

    >>> from pyriemann.classification import MDM
    >>> from pyriemann.estimation import Covariances
    >>> from sklearn.pipeline import make_pipeline
    >>> mine = make_pipeline(Covariances("oas"), MDM())
    >>> both = evaluate("sim-mi", {"ours": "recommended", "mine": mine}, subjects=1)
    >>> list(both.results)
    ['ours', 'mine']
    """
    if not isinstance(dataset, str | Path | Dataset):
        dataset = _from_arrays(dataset, sfreq, tmin)
    elif sfreq is not None or tmin:
        raise DataError("sfreq and tmin apply to arrays (X, y) only; a data set has its own.")
    given = {dataset.name: dataset} if isinstance(dataset, Dataset) else {}
    selected = {
        field.name: more.pop(field.name) for field in fields(Selection) if field.name in more
    }
    if selected:
        if "selection" in more:
            raise EvaluationError(f"Pass selection or {', '.join(selected)}, not both.")
        more["selection"] = Selection(**selected)
    known = [field.name for field in (*fields(Question), *fields(Selection))]
    for name in more:
        look_up("option", name, dict.fromkeys(known[2:]))  # dataset and choices are the first two
    question = Question(
        dataset=dataset.name if isinstance(dataset, Dataset) else str(dataset),
        choices=as_choices(methods),
        protocol=protocol,
        **more,
    )
    return answer(question, Source(given), metric=metric, bar=bar)


def _from_arrays(arrays: Sequence[ArrayLike], sfreq: float | None, tmin: float) -> Dataset:
    if not isinstance(arrays, tuple | list) or len(arrays) not in (2, 3):
        raise DataError(
            "dataset must be a name, a path, a Dataset, or arrays (X, y) or (X, y, groups), "
            f"got {type(arrays).__name__}."
        )
    X, y, *groups = arrays
    return from_arrays(X, y, group=groups[0] if groups else None, sfreq=sfreq, tmin=tmin)


def answer(
    question: Question,
    source: Source,
    *,
    metric: str | None = None,
    bar: Bar = lambda _text, _total: None,
) -> Evaluation:
    """Execute all runs of a question in this process."""
    if metric is not None:
        get_metric(metric)
    specs = plan(question, source)
    done: dict[str, RunResult] = {}
    dataset = source.dataset_of(question)
    for choice, mine in by_choice(question, dataset, specs).items():
        new = [spec for spec in mine if spec.key not in done]
        listener = bar(choice, len(new))
        for batch in batches(new, source):
            done |= {result.spec.key: result for result in execute(batch, source, listener)}
    return evaluation_of(question, source, specs, list(done.values()), metric)


def by_choice(
    question: Question, dataset: Dataset, specs: Sequence[RunSpec]
) -> dict[str, list[RunSpec]]:
    """Group runs by the title of the method, in the order of the question.

    Runs are matched by their estimators: they may have been done under another name.
    """
    texts = [as_text(spec.estimator) for spec in specs]
    found: dict[str, list[RunSpec]] = {}
    for choice in question.choices:
        mine = as_text(describe(choice.make(dataset)))
        found[choice.title] = [s for s, text in zip(specs, texts, strict=True) if text == mine]
    return found


def evaluation_of(
    question: Question,
    source: Source,
    specs: Sequence[RunSpec],
    results: Sequence[RunResult],
    metric: str | None = None,
) -> Evaluation:
    """Summarise the results of a question, as far as there are any.

    ``specs`` are all runs of the question. Results are matched by their keys, so that equivalent
    settings share them.
    """
    dataset = source.dataset_of(question)
    by_key = {result.spec.key: result for result in results}
    depends: dict[int, tuple[dict[str, int], Index, Index]] = {}

    def found(spec: RunSpec) -> RunResult:
        table, result = source.trials_of(spec).table, by_key[spec.key]
        if id(table) not in depends:
            rows = {name: row for row, name in enumerate(table.id.tolist())}
            depends[id(table)] = (rows, *dependence(table))
        rows, stretch, chain = depends[id(table)]
        at = [rows[name] for name in result.ids.tolist()]
        return replace(result, spec=spec, stretch=stretch[at], chain=chain[at])

    grouped = {
        title: [found(spec) for spec in mine if spec.key in by_key]
        for title, mine in by_choice(question, dataset, specs).items()
    }
    metric = metric or suited_metric(dataset, source, specs)
    return Evaluation(question, grouped, summarise(grouped, metric), dataset.classes)


def suited_metric(dataset: Dataset, source: Source, specs: Sequence[RunSpec]) -> str:
    """Return the default metric for the paradigm and the labels of the test subjects."""
    tested: dict[str, TrialTable] = {}
    for spec in {(spec.subject, spec.fold): spec for spec in specs}.values():
        table = source.trials_of(spec).table
        tested |= dict.fromkeys(table.subject[source.fold_of(spec).test].tolist(), table)
    y = np.concatenate([table.y[table.of(subject)] for subject, table in tested.items()])
    return default_metric(dataset.paradigm, np.bincount(y, minlength=len(dataset.classes)))
