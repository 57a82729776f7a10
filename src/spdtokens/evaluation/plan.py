"""From a question to the runs that answer it, checked before any of them is begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spdtokens.data import Dataset, Selection, load_dataset, select
from spdtokens.evaluation.access import get_access
from spdtokens.evaluation.alignment import ALIGNMENTS, get_alignment
from spdtokens.evaluation.errors import EvaluationError
from spdtokens.evaluation.folds import Fold, check_fold
from spdtokens.evaluation.parts import check_alignment, with_access
from spdtokens.evaluation.protocols import Protocol, get_protocol
from spdtokens.evaluation.runs import RunSpec
from spdtokens.evaluation.trials import Memory, Trials
from spdtokens.training.device import check_unused_device, resolve_device
from spdtokens.training.methods import Method, MethodError, Settings, get_method
from spdtokens.training.recipe import SEEDS, STABILITY_SEEDS


@dataclass(frozen=True)
class Choice:
    """A method with its settings, under the name that tables show."""

    method: str
    settings: Settings = field(default_factory=Settings)
    label: str = ""

    @property
    def title(self) -> str:
        """The label, or the method's name."""
        return self.label or self.method


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
        self._memory = Memory()

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
    specs = [
        _spec(question, options, choice, seed, fold, trials, data_hash)
        for choice in question.choices
        for fold, trials, data_hash in found
        for seed in (seeds if get_method(choice.method).has_seed else (None,))
    ]
    # Choices that differ in settings their method does not use are one run.
    return list({spec.key: spec for spec in specs}.values())


def check_question(question: Question, dataset: Dataset) -> None:
    """Refuse methods and settings that do not apply, before any work is done."""
    if not question.choices:
        raise EvaluationError("No method is named. `spdtokens methods` lists them.")
    titles = [choice.title for choice in question.choices]
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise EvaluationError(f"{twice[0]} is named twice; give each a label of its own.")
    for choice in question.choices:
        method = get_method(choice.method)
        reason = method.why_not(dataset)
        if reason is not None:
            raise MethodError(f"{reason[0].upper()}{reason[1:]}. Leave it out.")
        if method.has_seed:
            resolve_device(choice.settings.device)
        else:
            check_unused_device(choice.settings.device, method.name)
        # Wrong values are refused even where the method has no use for them.
        if method.own_tokens is None:
            choice.settings.resolved_preset()
        method.configuration(dataset, choice.settings)
        method.options(dataset, choice.settings)
        whole = all(isinstance(seed, int | np.integer) and seed >= 0 for seed in question.seeds)
        if method.has_seed and not (question.seeds and whole):
            raise EvaluationError(
                f"{method.name}: seeds must be one or more whole numbers >= 0, got "
                f"{question.seeds!r}."
            )
        _check_linear(method, choice.settings, dataset, question.alignment)


def _check_linear(method: Method, settings: Settings, dataset: Dataset, alignment: str) -> None:
    how = get_alignment(alignment)
    signals = not dataset.is_covariance and method.covariance_options(dataset, settings) is None
    if signals and not how.linear:
        linear = ", ".join(a.name for a in ALIGNMENTS.values() if a.linear)
        raise EvaluationError(
            f"{method.name} works on signals, and alignment {how.name!r} changes covariances in a "
            f"way that no linear map of signals does. Use one of: {linear}; or leave "
            f"{method.name} out."
        )


def settings_values(settings: Settings) -> dict[str, Any]:
    """Settings as plain values, without the seed, which is the run's own."""
    values = asdict(settings)
    del values["seed"]
    bands = values["bands"]
    return values | {"bands": bands if isinstance(bands, str) else [list(pair) for pair in bands]}


def _spec(
    question: Question,
    options: Mapping[str, Any],
    choice: Choice,
    seed: int | None,
    fold: Fold,
    trials: Trials,
    data_hash: str,
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
        method=choice.method,
        settings=settings_values(choice.settings),
        configuration=get_method(choice.method).configuration(trials.dataset, choice.settings),
        seed=seed,
        data_hash=data_hash,
    )
