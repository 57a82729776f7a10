"""From a question to the runs that answer it, checked before any of them is begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from spdtokens.classifiers.methods import (
    RECOMMENDED,
    Method,
    MethodError,
    Settings,
    get_method,
)
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.transformer import TokenNetworkClassifier, TokenTransformerClassifier
from spdtokens.data import Dataset, Selection, load_dataset, select
from spdtokens.evaluation.access import get_access
from spdtokens.evaluation.alignment import ALIGNMENTS, get_alignment
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.estimators import (
    build,
    can_classify,
    describe,
    open_seeds,
    steps_of,
)
from spdtokens.evaluation.folds import Fold, check_fold
from spdtokens.evaluation.parts import check_alignment, split_front, with_access
from spdtokens.evaluation.protocols import Protocol, get_protocol
from spdtokens.evaluation.runs import RunSpec, as_text
from spdtokens.evaluation.trials import Memory, Trials
from spdtokens.signal import FilterBankCovariances, StandardTrials
from spdtokens.training.device import check_unused_device, resolve_device
from spdtokens.training.recipe import SEEDS, STABILITY_SEEDS


@dataclass(frozen=True)
class Choice:
    """A method under the name that tables show.

    Attributes
    ----------
    method : str or estimator
        A name of :data:`~spdtokens.classifiers.methods.METHODS`, or any scikit-learn classifier.
    settings : Settings
        What to change of a method given by name.
    label : str
        For tables; the method's name by default.
    """

    method: str | BaseEstimator
    settings: Settings = field(default_factory=Settings)
    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the name of the method or of its last step."""
        return self.label or self.name

    @property
    def name(self) -> str:
        """Of the method; of an estimator the class of its last step."""
        if isinstance(self.method, str):
            return self.method
        last = self.method.steps[-1][1] if isinstance(self.method, Pipeline) else self.method
        return type(last).__name__

    def make(self, dataset: Dataset) -> BaseEstimator:
        """The estimator for the trials of a data set, not fitted.

        Of an estimator that was given, only the unit of the signal is filled in, if it needs it
        and leaves it open.
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
        """How the estimator came about, as plain values."""
        if not isinstance(self.method, str):
            return {}
        cut = get_method(self.method).bands_cut(dataset, self.settings)
        settings = {"settings": describe(asdict(self.settings))}
        return settings | ({"bands_cut": cut, "sfreq": dataset.sfreq} if cut else {})


@dataclass(frozen=True)
class Question:
    """How well do these methods decode this data set, under this protocol.

    Attributes
    ----------
    dataset : str
        Name or path, as :func:`spdtokens.load_dataset` takes it.
    choices : tuple of Choice
    protocol : str
    protocol_options : mapping
    access : str
        What may be seen of the target.
    alignment, domain : str
        How trials are aligned, and what shares a reference: ``'session'`` or ``'subject'``.
    selection : Selection
    subjects : tuple of str or int
        As :meth:`spdtokens.data.Dataset.chosen` takes them, one or several; all by default. Where a
        protocol trains on other subjects, these are meant too.
    seeds : tuple of int
        For methods in which chance plays a part. A number by itself is how many of the paper's to
        take, 1 to 10, as on the command line and in study files.
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

    def __post_init__(self) -> None:
        """Take one subject, a number of seeds, and lists, as people write them."""
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


class Source:
    """Opens data sets and keeps what it has opened.

    Parameters
    ----------
    given : mapping of str to Dataset
        Data sets that are in memory, by name; all others are loaded.
    """

    def __init__(self, given: Mapping[str, Dataset] | None = None) -> None:
        self._given = dict(given or {})
        self._datasets: dict[tuple[str, Selection], Dataset] = {}
        self._trials: dict[tuple[str, Selection, tuple[str, ...]], Trials] = {}
        self._folds: dict[tuple[Any, ...], list[Fold]] = {}
        self._estimators: dict[str, BaseEstimator] = {}
        self._memory = Memory()

    def estimator(self, spec: RunSpec) -> BaseEstimator:
        """The estimator of a run, not fitted; built from what the run says, if it was not given."""
        text = as_text(spec.estimator)
        if text not in self._estimators:
            self._estimators[text] = build(spec.estimator)
        return self._estimators[text]

    def give(self, estimator: BaseEstimator) -> dict[str, Any]:
        """Keep an estimator, and tell by which plain values runs will ask for it."""
        values: dict[str, Any] = describe(estimator)
        self._estimators[as_text(values)] = estimator
        return values

    def dataset(self, name: str, selection: Selection) -> Dataset:
        """A data set by name or path, with a selection applied."""
        key = (name, selection)
        if key not in self._datasets:
            whole = self._given.get(name) or load_dataset(
                name, channels=selection.channels, resample=selection.resample
            )
            self._datasets[key] = select(whole, selection)
        return self._datasets[key]

    def trials(self, name: str, selection: Selection, subjects: tuple[str, ...]) -> Trials:
        """Trials of some subjects of a data set."""
        key = (name, selection, subjects)
        if key not in self._trials:
            self._trials[key] = Trials(self.dataset(name, selection), subjects, self._memory)
        return self._trials[key]

    def folds(
        self, trials: Trials, subject: str, protocol: Protocol, options: Mapping[str, int | bool]
    ) -> list[Fold]:
        """Folds of a subject, made once for all methods and seeds."""
        key = (id(trials), subject, protocol.name, *sorted(protocol.checked(options).items()))
        if key not in self._folds:
            self._folds[key] = protocol.folds(trials.table, subject, **options)
        return self._folds[key]


def plan(question: Question, source: Source) -> list[RunSpec]:
    """All runs of a question, in the order of its choices.

    Every fold is checked for leaks here, and whatever else can be known beforehand: nothing has
    been trained when an error is raised.
    """
    protocol = get_protocol(question.protocol)
    options = protocol.checked(question.protocol_options)
    access = get_access(question.access)
    dataset = source.dataset(question.dataset, question.selection)
    check_question(question, dataset)
    # In the order of the data set: no result depends on how the question names them.
    everybody = dataset.chosen(question.subjects)
    found: list[tuple[Fold, Trials, str]] = []
    for subject in everybody:
        mine = everybody if protocol.sees_others else (subject,)
        trials = source.trials(question.dataset, question.selection, mine)
        for fold in source.folds(trials, subject, protocol, options):
            seen = with_access(fold, trials.table, access)
            check_fold(seen, trials)
            check_alignment(seen, trials.table, question.alignment, question.domain, access)
            found.append((seen, trials, trials.hash_of(seen.rows)))
    seeds = tuple(dict.fromkeys(map(int, question.seeds)))
    specs = []
    for choice in question.choices:
        estimator = choice.make(dataset)
        made = {"estimator": source.give(estimator), "about": choice.about(dataset)}
        specs += [
            _spec(question, options, choice, seed, fold, trials, data_hash, made)
            for fold, trials, data_hash in found
            for seed in (seeds if open_seeds(estimator) else (None,))
        ]
    # Choices that mean the same estimator are one run.
    return list({spec.key: spec for spec in specs}.values())


def check_question(question: Question, dataset: Dataset) -> None:
    """Refuse methods and settings that do not apply, before any work is done."""
    if not question.choices:
        raise EvaluationError("No method is named. `spdtokens methods` lists them.")
    titles = [choice.title for choice in question.choices]
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise EvaluationError(
            f"{twice[0]} is named twice: name it once, or give each a title of its own (the keys "
            "of a dict in Python, label in a study file)."
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
                f"{choice.title}: seeds must be one or more whole numbers >= 0, got "
                f"{question.seeds!r}."
            )
        _check_linear(choice.title, estimator, dataset, question.alignment)


def check_estimator(choice: Choice, dataset: Dataset) -> None:
    """Refuse what is not a classifier, and steps of ours that do not fit the data set.

    Raises
    ------
    UserError
        If it is no classifier, takes signals where there are matrices or of another sampling rate
        or clock than the data set has, or is a network with values out of range.
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
    if dataset.sfreq is None:
        raise EvaluationError(
            f"{name} takes signals, and {dataset.name} holds covariance matrices. Leave it out."
        )
    if step.sfreq != dataset.sfreq:
        raise EvaluationError(
            f"{name} is for signals of sfreq={step.sfreq!r} Hz, and {dataset.name} has "
            f"{dataset.sfreq:g} Hz. Pass that as sfreq, or resample the data set."
        )
    # Windows on another clock are of other samples; whole trials have no clock.
    windows = getattr(step, "windows", None)
    if not isinstance(windows, str | None) and step.tmin != dataset.tmin:
        raise EvaluationError(
            f"{name} has windows in seconds and tmin={step.tmin!r}, but the trials of "
            f"{dataset.name} begin at {dataset.tmin:g} s. Pass that as tmin."
        )


def _check_method(method: Method, settings: Settings, dataset: Dataset) -> None:
    reason = method.why_not(dataset)
    if reason is not None:
        raise MethodError(f"{reason[0].upper()}{reason[1:]}. Leave it out.")
    if method.has_seed:
        resolve_device(settings.device)
    else:
        check_unused_device(settings.device, method.name)
    # Wrong values are refused even where the method has no use for them.
    if method.name != RECOMMENDED:
        settings.transformer()


def _check_linear(title: str, estimator: BaseEstimator, dataset: Dataset, alignment: str) -> None:
    how = get_alignment(alignment)
    signals = not dataset.is_covariance and split_front(estimator)[0] is None
    if signals and not how.linear:
        linear = ", ".join(a.name for a in ALIGNMENTS.values() if a.linear)
        raise EvaluationError(
            f"{title} works on signals, and alignment {how.name!r} changes covariances in a "
            f"way that no linear map of signals does. Use one of: {linear}; or leave "
            f"{title} out."
        )


def _spec(
    question: Question,
    options: Mapping[str, Any],
    choice: Choice,
    seed: int | None,
    fold: Fold,
    trials: Trials,
    data_hash: str,
    made: Mapping[str, Any],
) -> RunSpec:
    return RunSpec(
        dataset=question.dataset,
        selection=question.selection.values(),
        subjects=trials.subjects,
        protocol=question.protocol,
        protocol_options=dict(options),
        access=question.access,
        alignment=question.alignment,
        domain=question.domain,
        subject=fold.subject,
        fold=fold.name,
        method=choice.name if isinstance(choice.method, str) else choice.title,
        seed=seed,
        data_hash=data_hash,
        **made,
    )
