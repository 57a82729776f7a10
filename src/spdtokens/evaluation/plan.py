"""Plan the runs of an evaluation and check them before the first one starts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from spdtokens.classifiers.decoder import Recentring
from spdtokens.classifiers.methods import METHODS, RECOMMENDED, Method, Settings, get_method
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.nn.recipe import (
    SEEDS,
    STABILITY_SEEDS,
    check_unused_device,
    resolve_device,
)
from spdtokens.classifiers.transformer import (
    TokenNetworkClassifier,
    TokenTransformerClassifier,
    offers_together,
)
from spdtokens.datasets import Dataset, Selection, load_dataset, select
from spdtokens.errors import EvaluationError, MethodError
from spdtokens.evaluation.alignment import check_linear, check_seen, get_alignment
from spdtokens.evaluation.estimators import build, can_classify, describe, open_seeds, steps_of
from spdtokens.evaluation.protocols import (
    Access,
    Fold,
    Protocol,
    calibration_split,
    check_fold,
    get_access,
    get_protocol,
)
from spdtokens.evaluation.runs import RunSpec, as_text
from spdtokens.evaluation.trials import Index, Memory, Trials, TrialTable
from spdtokens.geometry.tokens import MICROVOLT, TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances, StandardTrials

DOMAINS = ("session", "subject")
#: Steps that have frequency bands, and cut the window of a trial.
IN_BANDS = (FilterBankCovariances, StandardTrials)


def with_access(fold: Fold, table: TrialTable, access: Access) -> Fold:
    """Set the first trials of each test session apart for calibration, as the access says.

    Calibration trials that share samples with a scored trial are dropped.
    """
    if not access.calibrates or not len(fold.test):
        return fold
    calibration, test = [], []
    sessions = domains(table, fold.test, "session")  # subjects have sessions of equal names
    for session in dict.fromkeys(sessions.tolist()):
        rows = fold.test[sessions == session]
        first, rest = calibration_split(np.arange(len(rows)), table.group[rows], access)
        seen = np.setdiff1d(rows[first], table.overlapping(rows[first], rows[rest]))
        if not len(seen):
            raise EvaluationError(
                f"{fold.title}: all calibration trials of access {access.name!r} in session "
                f"{session} overlap with scored trials. Use an access to more trials, or to none."
            )
        calibration.append(seen)
        test.append(rows[rest])
    return replace(fold, calibration=np.concatenate(calibration), test=np.concatenate(test))


def check_alignment(
    fold: Fold, table: TrialTable, alignment: str, domain: str, access: Access
) -> None:
    """Refuse an alignment that needs more of the target than is available, or is impossible."""
    how = get_alignment(alignment)
    known = set(domains(table, fold.train, domain).tolist())
    if how.metric is None:
        return
    targets = dict.fromkeys(domains(table, fold.test, domain).tolist())
    where = f"{fold.title}: alignment {how.name!r}"
    if how.rotates and len(fold.validation):
        raise EvaluationError(
            f"{where} would use the labels of validation trials. Use a protocol without "
            "validation, or another alignment."
        )
    if how.rotates and len(targets) > 1 and known.intersection(targets):
        raise EvaluationError(
            f"{where} rotates one {domain} to all others, but several test {domain}s are also "
            f"trained on ({', '.join(targets)}). Use leave-one-session-out, or alignment rescale."
        )
    for target in targets:
        check_seen(how, access, target, known=target in known)
        labels = table.y[fold.calibration[domains(table, fold.calibration, domain) == target]]
        if how.rotates and target not in known and len(np.unique(labels)) < 2:
            raise EvaluationError(
                f"{where} needs two classes among the labelled trials of {domain} {target}, got "
                f"{len(labels)} calibration trials of one class. Use access labeled_50p, or "
                "alignment recentre or rescale."
            )


def domains(table: TrialTable, rows: Index, domain: str) -> NDArray[np.str_]:
    """Return the domain of each trial (n,): its subject, or its session."""
    if domain not in DOMAINS:
        raise EvaluationError(f"domain must be one of {', '.join(DOMAINS)}, got {domain!r}.")
    if domain == "subject":
        return table.subject[rows]
    pairs = zip(table.subject[rows], table.session[rows], strict=True)
    return np.array(["/".join(pair) for pair in pairs], dtype=np.str_)


def split_front(
    estimator: BaseEstimator,
) -> tuple[FilterBankCovariances | None, BaseEstimator]:
    """Split an estimator into the step that computes matrices trial by trial, and the rest.

    These matrices can be computed once for all folds. Alignment goes between the two, in place of a
    recentring step, which is left out: what is seen of the target is up to the access. The first is
    None if there is no such step: class averages, for example, are fitted to training trials.
    """
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return None, estimator
    front = estimator.steps[0][1]
    if not isinstance(front, FilterBankCovariances) or front.needs_labels:
        front = None
    first = (front is not None) + (recentring_of(estimator) is not None)
    if not first:
        return None, estimator
    rest = estimator[first:]
    return front, rest.steps[0][1] if len(rest.steps) == 1 else rest


def recentring_of(estimator: BaseEstimator) -> Recentring | None:
    """Return the recentring step of an estimator, if it comes first, or after the filter bank.

    Alignment 'recentre' follows the rule of this step: its metric, and what shares a reference.
    """
    if not isinstance(estimator, Pipeline):
        return None
    steps = [step for _, step in estimator.steps]
    if isinstance(steps[0], FilterBankCovariances) and not steps[0].needs_labels:
        steps = steps[1:]
    return steps[0] if isinstance(steps[0], Recentring) and len(steps) > 1 else None


@dataclass(frozen=True)
class Choice:
    """A method to evaluate, with its settings and title.

    Parameters
    ----------
    method : str or estimator
        Name, as listed by ``spdtokens methods``, or a scikit-learn classifier.
    settings : Settings, default=Settings()
        Settings of a method given by name.
    label : str, default=''
        Title in tables. Empty for the name of the method, or of the last step of an estimator.

    See Also
    --------
    spdtokens.evaluate : Evaluate methods.

    Examples
    --------
    >>> from spdtokens.classifiers.methods import Settings
    >>> from spdtokens.evaluation import Choice
    >>> quick = Choice("token-log-euclidean", Settings(epochs=5), label="5 epochs")
    >>> quick.title
    '5 epochs'
    """

    method: str | BaseEstimator
    settings: Settings = field(default_factory=Settings)
    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the name if there is none."""
        return self.label or self.name

    @property
    def name(self) -> str:
        """Name of the method, or class of the last step of an estimator."""
        if isinstance(self.method, str):
            return self.method
        last = self.method.steps[-1][1] if isinstance(self.method, Pipeline) else self.method
        return type(last).__name__

    def make(self, dataset: Dataset) -> BaseEstimator:
        """Make the estimator for a data set.

        Parameters
        ----------
        dataset : Dataset
            Data set, whose sampling rate, window, paradigm and unit a named method uses.

        Returns
        -------
        estimator
            Unfitted estimator. A given estimator is cloned; only the unit of the signals is filled
            in if it is needed and None.
        """
        if isinstance(self.method, str):
            return get_method(self.method).make(dataset, self.settings)
        estimator = clone(self.method)
        for step in steps_of(estimator):
            paper = isinstance(step, FilterBankCovariances) and step.estimator == "paper"
            if paper and step.unit_in_volts is None:
                step.set_params(unit_in_volts=dataset.unit_in_volts)
        return estimator

    def about(self, dataset: Dataset) -> dict[str, Any]:
        """Describe how a named method was configured.

        Parameters
        ----------
        dataset : Dataset
            Data set that the estimator is made for.

        Returns
        -------
        dict
            Settings, and which default bands were cut, as plain values; empty for an estimator.
        """
        if not isinstance(self.method, str):
            return {}
        cut = get_method(self.method).bands_cut(dataset, self.settings)
        settings = {"settings": describe(asdict(self.settings))}
        return settings | ({"bands_cut": cut, "sfreq": dataset.sfreq} if cut else {})


@dataclass(frozen=True)
class Question:
    """An evaluation to run: data set, methods, protocol and options.

    Parameters
    ----------
    dataset : str
        Name or path, as in :func:`spdtokens.load_dataset`.
    choices : tuple of Choice
        Methods to evaluate.
    protocol : str, default='session-transfer'
        Name, as listed by ``spdtokens protocols``.
    protocol_options : mapping, default={}
        Options of the protocol, such as ``{"folds": 10}`` or ``{"test_subjects": [2, 4]}``.
    access : str, default='train'
        Target access: data of the test session or subject that may be used without training on
        it, as listed by ``spdtokens protocols``.
    alignment : str, default='none'
        How trials of different domains are aligned: ``'none'``, ``'euclidean'``, ``'recentre'``,
        ``'recentre-balanced'``, ``'rescale'`` or ``'rotate'``.
    domain : {'session', 'subject'}, default='session'
        Trials of one domain share a reference.
    selection : Selection, default=Selection()
        Classes, channels, window, ... to use.
    subjects : str, int or sequence of these, default=()
        Subjects to evaluate; empty for all. A protocol that trains on other subjects uses only
        these.
    seeds : int or sequence of int, default=(42, 123, 456, 789, 1024)
        Random seeds, for methods that depend on one. An integer is the number of seeds, 1 to 10.
    dataset_options : mapping, default={}
        Options of :func:`spdtokens.load_dataset`, such as ``{"segments": 4}``, as plain values;
        not ``channels`` and ``resample``, which belong to the selection.

    Raises
    ------
    EvaluationError
        If the number of seeds is out of range, or a data set option is not a plain value.

    See Also
    --------
    spdtokens.evaluate : Takes the same options.

    Examples
    --------
    >>> from spdtokens.evaluation import Choice, Question
    >>> question = Question("sim-mi", (Choice("ts-lr"),), subjects=1, seeds=2)
    >>> question.subjects, question.seeds
    ((1,), (42, 123))
    """

    dataset: str
    choices: tuple[Choice, ...]
    protocol: str = "session-transfer"
    protocol_options: Mapping[str, Any] = field(default_factory=dict)
    access: str = "train"
    alignment: str = "none"
    domain: str = "session"
    selection: Selection = field(default_factory=Selection)
    subjects: tuple[str | int, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    dataset_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Accept a single subject, a number of seeds, and lists."""
        one = isinstance(self.subjects, str | int | np.integer)
        object.__setattr__(self, "subjects", (self.subjects,) if one else tuple(self.subjects))
        seeds: Any = self.seeds
        if isinstance(seeds, int | np.integer):
            if not 1 <= seeds <= len(STABILITY_SEEDS):
                raise EvaluationError(
                    f"seeds must be a number of seeds from 1 to {len(STABILITY_SEEDS)}, or a list "
                    f"of seeds such as [{seeds}], got {seeds}."
                )
            seeds = STABILITY_SEEDS[:seeds]
        object.__setattr__(self, "seeds", tuple(seeds))
        object.__setattr__(self, "dataset_options", plain_options(self.dataset_options))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as values that can be stored and sent to workers."""
    if twice := [name for name in ("channels", "resample") if name in options]:
        raise EvaluationError(
            f"dataset_options must not contain {twice[0]}. Pass {twice[0]} as an option of its own."
        )
    plain = {n: str(v) if isinstance(v, Path) else v for n, v in options.items()}
    try:
        as_text(plain)
    except (TypeError, ValueError) as error:
        raise EvaluationError(
            f"dataset_options must be numbers, text, lists or tables of these ({error})."
        ) from error
    return plain


class Source:
    """Loads data sets, and keeps data sets, trials, folds and estimators in memory.

    Parameters
    ----------
    given : mapping of str to Dataset
        Data sets in memory, by name; all others are loaded.
    """

    def __init__(self, given: Mapping[str, Dataset] | None = None) -> None:
        self._given = dict(given or {})
        self._kept: dict[Hashable, Any] = {}
        self._memory = Memory()

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def estimator(self, spec: RunSpec) -> BaseEstimator:
        """Return the unfitted estimator of a run, built from its description if not given."""
        return self._once(as_text(spec.estimator), lambda: build(spec.estimator))

    def give(self, estimator: BaseEstimator) -> dict[str, Any]:
        """Keep an estimator and return its description."""
        values: dict[str, Any] = describe(estimator)
        self._kept[as_text(values)] = estimator
        return values

    def dataset(
        self, name: str, selection: Selection, options: Mapping[str, Any] | None = None
    ) -> Dataset:
        """Return a data set by name or path, loaded with options, with a selection applied."""
        options = options or {}

        def opened() -> Dataset:
            chosen = {"channels": selection.channels, "resample": selection.resample}
            if (given := self._given.get(name)) is None:
                return select(load_dataset(name, **chosen, **options), selection)
            if options:
                raise EvaluationError(
                    f"{name} is loaded already: pass {', '.join(options)} when loading it."
                )
            return select(given, selection)

        return self._once((name, selection, as_text(options)), opened)

    def dataset_of(self, question: Question) -> Dataset:
        """Return the data set of a question."""
        return self.dataset(question.dataset, question.selection, question.dataset_options)

    def trials(
        self,
        name: str,
        selection: Selection,
        subjects: tuple[str, ...],
        options: Mapping[str, Any] | None = None,
    ) -> Trials:
        """Return the trials of some subjects of a data set."""
        return self._once(
            (name, selection, subjects, as_text(options or {})),
            lambda: Trials(self.dataset(name, selection, options), subjects, self._memory),
        )

    def trials_of(self, spec: RunSpec) -> Trials:
        """Return the trials that the protocol of a run splits."""
        selection = Selection(**spec.selection)
        return self.trials(spec.dataset, selection, spec.subjects, spec.dataset_options)

    def folds(
        self, trials: Trials, subject: str, protocol: Protocol, options: Mapping[str, Any]
    ) -> list[Fold]:
        """Return the folds of a subject, made once for all methods and seeds."""
        subject = "" if protocol.pooled else subject
        return self._once(
            (id(trials), subject, protocol.name, *sorted(protocol.checked(options).items())),
            lambda: protocol.folds(trials.table, subject, **options),
        )

    def fold_of(self, spec: RunSpec) -> Fold:
        """Return the fold of a run, without its target access."""
        protocol = get_protocol(spec.protocol)
        folds = self.folds(self.trials_of(spec), spec.subject, protocol, spec.protocol_options)
        fold = next((fold for fold in folds if fold.name == spec.fold), None)
        if fold is None:
            raise EvaluationError(
                f"{spec.dataset}: subject {spec.subject} has no fold {spec.fold}."
            )
        return fold


def without_unit(estimator: BaseEstimator) -> BaseEstimator:
    """Let the paper's embedding take matrices as they are, as aligned matrices have no unit.

    Converted from volts, a logarithm would have an offset of 27.6, which BN-Embed cannot remove
    from new trials: its running mean follows the weights too slowly.
    """
    for step in steps_of(estimator):
        embedding = getattr(step, "embedding", None)
        if isinstance(embedding, TokenEmbedding) and embedding.unit_in_volts is not None:
            step.set_params(embedding=clone(embedding).set_params(unit_in_volts=MICROVOLT))
    return estimator


def given_samples(estimator: BaseEstimator, dataset: Dataset) -> tuple[int, int] | None:
    """Return the first sample of the window and one past its last, for estimators given only it.

    None if the data set has matrices, or if a step of the estimator cuts the window itself.
    """
    parts = [estimator, *estimator.get_params(deep=True).values()]
    if dataset.sfreq is None or any(isinstance(part, IN_BANDS) for part in parts):
        return None
    start, stop = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
    return start, stop


def plan(question: Question, source: Source) -> list[RunSpec]:
    """List the runs of a question, in the order of its choices.

    All folds are checked for leakage here, and everything else that can be checked before training.
    """
    protocol = get_protocol(question.protocol)
    options = protocol.checked(question.protocol_options)
    access = get_access(question.access)
    dataset = source.dataset_of(question)
    check_question(question, dataset)
    # In the order of the data set: results do not depend on the order in the question.
    everybody = dataset.chosen(question.subjects)
    if "test_subjects" in options:
        options["test_subjects"] = _tested(options["test_subjects"], dataset, everybody)
    found: list[tuple[Fold, Trials, str]] = []
    for subject in everybody[:1] if protocol.pooled else everybody:
        mine = everybody if protocol.sees_others else (subject,)
        trials = source.trials(question.dataset, question.selection, mine, question.dataset_options)
        for fold in source.folds(trials, subject, protocol, options):
            seen = with_access(fold, trials.table, access)
            check_fold(seen, trials)
            check_alignment(seen, trials.table, question.alignment, question.domain, access)
            found.append((seen, trials, trials.hash_of(seen.rows)))
    seeds = tuple(dict.fromkeys(map(int, question.seeds)))
    specs = []
    for choice in question.choices:
        estimator = choice.make(dataset)
        if question.alignment != "none":
            estimator = without_unit(estimator)
        values, about = source.give(estimator), choice.about(dataset)
        specs += [
            RunSpec(
                dataset=question.dataset,
                selection=question.selection.values(),
                subjects=trials.subjects,
                protocol=question.protocol,
                protocol_options=options,
                access=question.access,
                alignment=question.alignment,
                domain=question.domain,
                subject=fold.subject,
                fold=fold.name,
                method=choice.name if isinstance(choice.method, str) else choice.title,
                about=about,
                estimator=values,
                seed=seed,
                data_hash=data_hash,
                dataset_options=question.dataset_options,
                samples=given_samples(estimator, dataset),
            )
            for fold, trials, data_hash in found
            for seed in (seeds if open_seeds(estimator) else (None,))
        ]
    # Choices with equal estimators share their runs.
    return list({spec.key: spec for spec in specs}.values())


def _tested(subjects: Sequence[str | int], dataset: Dataset, everybody: Sequence[str]) -> list[str]:
    """Return the names of the test subjects, in the order of the data set."""
    names = dataset.chosen(subjects)
    if absent := [name for name in names if name not in everybody]:
        raise EvaluationError(
            f"test_subjects: {', '.join(absent)} not among the subjects that are evaluated "
            f"({', '.join(everybody)}). Add them to subjects, or do not test them."
        )
    return list(names)


def check_question(question: Question, dataset: Dataset) -> None:
    """Refuse methods and settings that do not apply."""
    if not question.choices:
        raise EvaluationError("methods must not be empty. `spdtokens methods` lists their names.")
    titles = [choice.title for choice in question.choices]
    for title in titles:
        if titles.count(title) > 1:
            raise EvaluationError(
                f"Method {title} is given twice. Remove one, or give each a title: keys of a dict "
                "in Python, label in a study file."
            )
    whole = all(isinstance(seed, int | np.integer) and seed >= 0 for seed in question.seeds)
    for choice in question.choices:
        if isinstance(choice.method, str):
            _check_method(get_method(choice.method), choice.settings, dataset)
        else:
            check_estimator(choice, dataset)
        estimator = choice.make(dataset)
        if open_seeds(estimator) and not (question.seeds and whole):
            raise EvaluationError(
                f"{choice.title}: seeds must be one or more integers >= 0, got {question.seeds!r}."
            )
        if not dataset.is_covariance and split_front(estimator)[0] is None:
            check_linear(question.alignment, choice.title)
        if recentring_of(estimator) is not None and get_alignment(question.alignment).rescales:
            raise EvaluationError(
                f"{choice.title} recentres by itself, but alignment {question.alignment!r} also "
                "changes the dispersion. Use alignment recentre."
            )


def check_estimator(choice: Choice, dataset: Dataset) -> None:
    """Refuse what is not a classifier, and steps of ours that do not fit the data set.

    Raises
    ------
    UserError
        If it is not a classifier; if a step takes signals but there are matrices, or has another
        sampling rate or start time than the data set; or if a parameter of a network is invalid.
    """
    given = choice.method
    if not can_classify(given):
        what = f"the class {given.__name__}" if isinstance(given, type) else choice.name
        raise EvaluationError(f"A method must be a name or a scikit-learn classifier, got {what}.")
    known = True
    for step in steps_of(given):
        fronts = isinstance(step, FilterBankCovariances | StandardTrials)
        if known and (fronts or isinstance(step, NetworkClassifier)):
            _check_signals(step, dataset)
        known = known and fronts  # a step of others may change the sampling rate
        try:
            if isinstance(step, TokenNetworkClassifier):
                step._recipe()
            if isinstance(step, TokenTransformerClassifier):
                step._config()
            if isinstance(step, NetworkClassifier):
                step._network()
        except TypeError as error:  # text where a number is wanted
            raise EvaluationError(f"{type(step).__name__}: {error}.") from error


def _check_signals(step: Any, dataset: Dataset) -> None:
    if step.sfreq is None:
        return
    name = type(step).__name__
    if step.sfreq != dataset.sfreq:
        has = "covariance matrices" if dataset.sfreq is None else f"signals of {dataset.sfreq:g} Hz"
        remedy = "Leave the step out" if dataset.sfreq is None else "Pass it as sfreq, or resample"
        raise EvaluationError(
            f"{name} has sfreq={step.sfreq!r}, but {dataset.name} contains {has}. {remedy}."
        )
    # Windows in seconds depend on the start time; whole trials do not.
    windows = getattr(step, "windows", None)
    if not isinstance(windows, str | None) and step.tmin != dataset.tmin:
        raise EvaluationError(
            f"{name} has windows in seconds and tmin={step.tmin!r}, but the trials of "
            f"{dataset.name} start at {dataset.tmin:g} s. Pass it as tmin."
        )


def _check_method(method: Method, settings: Settings, dataset: Dataset) -> None:
    reason = method.why_not(dataset)
    if reason is not None:
        raise MethodError(f"{reason[0].upper()}{reason[1:]}. Leave it out.")
    if method.has_seed:
        resolve_device(settings.device)
    else:
        check_unused_device(settings.device, method.name)
    # Invalid values are refused even if the method does not use them.
    if method.name != RECOMMENDED:
        settings.transformer()


#: Runs that are trained as one batch: few enough that an interruption loses little and that
#: workers share a study evenly.
TOGETHER = 24
#: Batch size of estimators that are trained one by one and may take minutes.
ONE_BY_ONE = 1
#: Batch size of fast, deterministic methods of ours.
QUICK = 8


def batches(specs: Sequence[RunSpec], source: Source) -> list[list[RunSpec]]:
    """Group runs into batches of one family, in the order given.

    All seeds of a fold stay together, so that its trials are prepared once. Folds of a pooled
    protocol are large: a batch has one only.
    """
    families: dict[tuple[str, str], list[RunSpec]] = {}
    for spec in specs:
        fold = spec.fold if get_protocol(spec.protocol).pooled else ""
        families.setdefault((spec.family, fold), []).append(spec)
    found = []
    for runs in families.values():
        method = METHODS.get(runs[0].method)
        quick = method is not None and not method.has_seed and not method.takes_minutes
        together = offers_together(source.estimator(runs[0]))
        size = TOGETHER if together else QUICK if quick else ONE_BY_ONE
        found += [runs[i : i + size] for i in range(0, len(runs), size)]
    return found
