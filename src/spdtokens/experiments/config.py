"""A study as a TOML file, checked in full before anything runs.

The file has, at its top, ``name`` (of the file, if it has none), ``seeds`` (a list, or how many of
the paper's; five by default) and ``metric`` (what suits the data by default); then three kinds of
tables, every data set being combined with every protocol, and every method run on each:

``[[datasets]]``
    ``name`` (a name, or a path from the file's folder), ``subjects``, ``paradigm``,
    ``stimulus_hz``, ``window``, ``classes``, ``where``, ``channels`` (names, or ``"common"``: those
    that all recordings have), ``resample`` (a rate in Hz).
``[[methods]]``
    ``name``, ``label``, ``bands``, ``device``; of networks ``epochs`` and ``recipe``; of token
    transformers ``preset`` and ``[methods.changes]``, parameters to replace. Or an estimator
    spelled out: ``class`` (of spdtokens, or a dotted path to any scikit-learn estimator) and its
    parameters; or ``[[methods.steps]]``, each such a table, for a pipeline.
``[[protocols]]``
    ``name``, the protocol's options, ``access``, ``alignment``, ``domain``.

A kind of which nothing but names is said can be a list: ``methods = ["ts-lr", "mdm"]``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from spdtokens.classifiers.methods import get_method
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS, resolve_device
from spdtokens.errors import StudyError, UserError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import DOMAINS, Choice, Question, Source, check_estimator
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.experiments.choices import read_choice
from spdtokens.experiments.datasets import read_dataset
from spdtokens.experiments.reading import ANYTHING, TEXT, TOP, Table, shown, tables


@dataclass(frozen=True)
class Study:
    """What is to be found out.

    Attributes
    ----------
    name : str
    path : Path
        Of the file.
    questions : tuple of Question
        One for every data set and protocol.
    metric : str or None
        To look at first; None for what suits the paradigm.
    """

    name: str
    path: Path
    questions: tuple[Question, ...]
    metric: str | None = None


def read_study(path: str | Path) -> Study:
    """The study of a file. No data set is opened; see :func:`check_study`.

    Raises
    ------
    StudyError
        With everything that is wrong with the file, one problem a line.
    """
    path = Path(path)
    problems: list[str] = []
    top = Table(_parsed(path), "The study", problems)
    top.only(TOP)
    name = top.get("name", TEXT, path.stem)
    metric = top.choice("metric", METRICS)
    seeds = _seeds(top)
    datasets = [read_dataset(table, path.parent) for table in tables(top, "datasets")]
    methods = tables(top, "methods")
    choices = [read_choice(table) for table in methods]
    protocols = [_protocol(table) for table in tables(top, "protocols")]
    _refuse_twice(problems, "datasets", datasets)
    _refuse_twice(problems, "protocols", protocols)
    _refuse_same_titles(problems, choices)
    if problems:
        raise StudyError("\n".join([f"{path} cannot be used:", *problems]))
    return Study(
        name,
        path,
        tuple(
            Question(**dataset, **protocol, choices=tuple(choices), seeds=seeds)
            for dataset, protocol in product(datasets, protocols)
        ),
        metric,
    )


def check_study(study: Study, source: Source | None = None) -> None:
    """Open the data sets and refuse what does not fit them, or this machine.

    Parameters
    ----------
    study : Study
    source : Source, optional
        That has, or will keep, the data sets.

    Raises
    ------
    StudyError
        With everything that does not fit, one problem a line.
    """
    source = source or Source()
    problems: dict[str, None] = {}  # a dict keeps the order, and a problem of two protocols once
    for question in study.questions:
        try:
            dataset = source.dataset(question.dataset, question.selection)
        except (UserError, OSError) as error:
            problems[f"{question.dataset}: {error}"] = None
            continue
        for subject in question.subjects:
            try:
                dataset.chosen(subject)
            except UserError as error:
                problems[str(error)] = None
        for choice in question.choices:
            if isinstance(choice.method, str):
                reason = get_method(choice.method).why_not(dataset)
                if reason is not None:
                    problems[f"{reason}. Leave it out."] = None
                    continue
            try:
                if not isinstance(choice.method, str):
                    check_estimator(choice, dataset)
                resolve_device(choice.settings.device)
                choice.make(dataset)
            except UserError as error:
                problems[f"{choice.title} on {dataset.name}: {error}"] = None
    if problems:
        raise StudyError("\n".join([f"{study.path} does not fit:", *problems]))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Notepad writes a mark first
    except FileNotFoundError as error:
        raise StudyError(f"There is no study file {path}.") from error
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not text in UTF-8, as TOML must be.") from error
    # Lists in lists in lists, and numbers of thousands of digits, are errors of Python.
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{path} is not TOML: {error}.") from error


def _seeds(top: Table) -> tuple[int, ...]:
    value = top.get("seeds", ANYTHING, list(SEEDS))
    if type(value) is int and 1 <= value <= len(STABILITY_SEEDS):
        return STABILITY_SEEDS[:value]
    if type(value) is int and value > len(STABILITY_SEEDS):
        top.wrong(
            f"seeds = {shown(value)} is more than the paper's {len(STABILITY_SEEDS)}. List your "
            "own: seeds = [1, 2, 3]."
        )
    elif not isinstance(value, list) or not value or any(type(s) is not int for s in value):
        top.wrong(
            "seeds is how many of the paper's to take, 1 to "
            f"{len(STABILITY_SEEDS)}, or a list such as [42, 123], not {value!r}."
        )
    elif not 0 <= min(value) <= max(value) < 2**32 or len(set(value)) < len(value):
        top.wrong(f"seeds are different and not negative, and below 2^32, unlike {shown(value)}.")
    else:
        return tuple(value)
    return SEEDS


def _protocol(table: Table) -> dict[str, Any]:
    name = table.choice("name", PROTOCOLS, what="protocol")
    if name is None:  # which options it would have is not known
        options = {option for protocol in PROTOCOLS.values() for option in protocol.options}
    else:
        options = set(PROTOCOLS[name].options)
    table.only(("name", *sorted(options), "access", "alignment", "domain"))
    table.needs("name")
    given = {option: table.values[option] for option in options if option in table.values}
    if name is not None:
        try:
            PROTOCOLS[name].checked(given)
        except UserError as error:
            table.wrong(str(error))
    return {
        "protocol": name,
        "protocol_options": given,
        "access": table.choice("access", ACCESS, "train"),
        "alignment": table.choice("alignment", ALIGNMENTS, "none"),
        "domain": table.choice("domain", DOMAINS, "session"),
    }


def _refuse_twice(problems: list[str], key: str, entries: list[dict[str, Any]]) -> None:
    for number, entry in enumerate(entries, 1):
        first = entries.index(entry) + 1
        if first < number:
            problems.append(f"[[{key}]] {number} is the same as {first}. Leave it out.")


def _refuse_same_titles(problems: list[str], choices: list[Choice]) -> None:
    titles = [choice.title for choice in choices]
    for number, title in enumerate(titles, 1):
        first = titles.index(title) + 1
        if title and first < number:
            problems.append(
                f"[[methods]] {first} and {number} are both called {title!r}; give each a label of "
                "its own."
            )
