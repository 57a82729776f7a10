"""A study as a TOML file, checked in full before anything runs.

The file has, at its top, ``name`` (of the file, if it has none), ``seeds`` (a list, or how many of
the paper's; five by default) and ``metric`` (what suits the data by default); then three kinds of
tables, every data set being combined with every protocol, and every method run on each:

``[[datasets]]``
    ``name`` (a name, or a path from the file's folder), ``subjects``, ``paradigm``,
    ``stimulus_hz``, ``window``, ``classes``, ``where``, ``channels`` (names, or ``"common"``: those
    that all recordings have), ``resample`` (a rate in Hz).
``[[methods]]``
    ``name``, ``label``, ``bands``, ``estimator``, ``device``; of networks ``epochs`` and
    ``recipe``; of token transformers ``preset`` and ``[methods.changes]``, parameters to replace.
    Or an estimator spelled out: ``class`` (of spdtokens, or a dotted path to any scikit-learn
    estimator) and its parameters; or ``[[methods.steps]]``, each such a table, for a pipeline.
``[[protocols]]``
    ``name``, the protocol's options, ``access``, ``alignment``, ``domain``.

A kind of which nothing but names is said can be a list: ``methods = ["ts-lr", "mdm"]``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from spdtokens import _deprecated
from spdtokens.classifiers import DecodingPipeline
from spdtokens.classifiers.methods import METHODS, PRESETS, RecipeName, Settings, get_method
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS, Recipe, resolve_device
from spdtokens.classifiers.nn.transformer import TransformerConfig
from spdtokens.datasets import Selection
from spdtokens.datasets.official import OFFICIAL
from spdtokens.datasets.registry import DATASETS
from spdtokens.datasets.select import PARADIGMS
from spdtokens.errors import MethodError, StudyError, UserError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.estimators import CLASS, build, can_classify
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import DOMAINS, Choice, Question, Source, check_estimator
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import OF_STIMULI, resolve_bands
from spdtokens.preprocessing.bands import PRESETS as BANDS_BY_NAME
from spdtokens.preprocessing.covariance import ESTIMATORS, PROTOTYPES


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
    values = _parsed(path)
    problems: list[str] = []
    top = _asked(_Top, values, "The study", problems)
    found: dict[str, list[Any]] = {}
    for key, keys_of in _KINDS.items():
        entries = values.get(key)
        if not isinstance(entries, list) or not all(isinstance(e, dict | str) for e in entries):
            continue  # as the top has told
        found[key] = []
        for number, entry in enumerate(entries, 1):
            place = f"[[{key}]]" if len(entries) == 1 else f"[[{key}]] {number}"
            table = {"name": entry} if isinstance(entry, str) else entry
            made = _asked(keys_of(table), table, place, problems, folder=path.parent)
            same = made.title if isinstance(made, Choice) else made
            known = [c.title if isinstance(c, Choice) else c for c in found[key]]
            if made is not None and same in known:
                what = "alike. Leave one out"
                if key == "methods":
                    what = f"both called {same!r}. Give each a label"
                problems.append(f"[[{key}]] {known.index(same) + 1} and {number} are {what}.")
            found[key].append(made)
    if problems:
        raise StudyError("\n".join([f"{path} cannot be used:", *problems]))
    asked = product(found["datasets"], found["protocols"])
    choices, seeds = tuple(found["methods"]), top["seeds"]
    questions = [Question(**d, **p, choices=choices, seeds=seeds) for d, p in asked]
    return Study(top["name"] or path.stem, path, tuple(questions), top["metric"])


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


# ------------------------------------------------------------------ kinds of values


def _printable(value: str) -> str:
    # Titles are printed, and names become paths: control characters would reach the terminal.
    if not value.strip() or not value.isprintable():
        raise PydanticCustomError("printable", "not printable")
    return value


def _different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is named twice. Leave one out.")
    return values


def _known(value: str, known: Iterable[str], what: str) -> str:
    known = tuple(known)
    if value not in known:
        hint = _meant(value, known) or f" There are: {', '.join(known)}."
        raise ValueError(f"there is no {what} {value!r}.{hint}")
    return value


def _one_of(known: Iterable[str], what: str) -> Any:
    return Annotated[_Text, AfterValidator(lambda value: _known(value, known, what))]


def _method(name: str) -> str:
    with suppress(MethodError):  # which does not suggest a name
        return get_method(name).name
    return _known(name, METHODS, "method")


def _seeds(value: Any) -> tuple[int, ...]:
    if type(value) is int and 1 <= value <= len(STABILITY_SEEDS):
        return STABILITY_SEEDS[:value]
    if (
        isinstance(value, list)
        and all(type(seed) is int and 0 <= seed < 2**32 for seed in value)
        and 0 < len(value) == len(set(value))
    ):
        return tuple(value)
    raise ValueError(
        f"seeds must be how many of the paper's to take, 1 to {len(STABILITY_SEEDS)}, or a list of "
        f"different numbers from 0 to 2^32 - 1 such as [42, 123], got {_shown(value)}."
    )


def _bands(value: Any, pairs: Callable[[Any], Any]) -> Any:
    if isinstance(value, str) and not value[:1].isdigit():
        return _known(value, ("auto", *BANDS_BY_NAME, *OF_STIMULI), "preset of bands")
    bands = value if isinstance(value, str) else pairs(value)
    resolve_bands(bands)
    return bands


_Text = Annotated[
    str, Strict(), Field(description="printable text in quotes"), AfterValidator(_printable)
]
_Name = Annotated[_Text, BeforeValidator(lambda v: str(v) if type(v) is int else v)]
_Number = Annotated[float, Strict(), AllowInfNan(False), Field(description="a number")]
_Positive = Annotated[_Number, Field(gt=0, description="a number above 0")]
_Whole = Annotated[int, Strict(), Field(ge=1, description="a whole number of at least 1")]
_Truth = Annotated[bool, Strict(), Field(description="true or false")]
_Pair = Annotated[
    tuple[_Number, _Number], Field(description="a list of two numbers, such as [0.5, 4]")
]
_Names = Annotated[
    tuple[_Name, ...],
    Field(min_length=1, description='a list of names, such as ["1", "2"]'),
    AfterValidator(_different),
]
_Channels = Annotated[
    _Names,
    WrapValidator(lambda value, names: value if value == "common" else names(value)),
    Field(description='"common" or a list of names, such as ["C3", "C4"]'),
]
_Bands = Annotated[
    tuple[_Pair, ...],
    Field(min_length=1),
    WrapValidator(_bands),
    Field(description="a preset or a list of pairs in Hz, such as [[8, 13], [13, 30]]"),
]


# ------------------------------------------------------------------ tables of the file


#: Of keys that are left out; :meth:`_Table.given` passes them over.
_UNSET: Any = None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    def given(self, *without: str) -> dict[str, Any]:
        wanted = self.model_fields_set - {*without}
        return {key: getattr(self, key) for key in type(self).model_fields if key in wanted}

    def asked(self) -> Any:
        """What the table is read for."""
        return dict(self)


def _tables(key: str, example: str) -> Any:
    words = f'[[{key}]] tables, or a list of names such as ["{example}"]'
    return Annotated[list[dict[str, Any] | str], Field(min_length=1, description=words)]


class _Top(_Table):
    name: _Text = ""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] = SEEDS
    metric: _one_of(METRICS, "metric") = _UNSET  # type: ignore[valid-type]
    datasets: _tables("datasets", "sim-mi")  # type: ignore[valid-type]
    methods: _tables("methods", "ts-lr")  # type: ignore[valid-type]
    protocols: _tables("protocols", "session-transfer")  # type: ignore[valid-type]


class _Dataset(_Table):
    name: _Text
    subjects: _Names = ()
    paradigm: _one_of(PARADIGMS, "paradigm") = _UNSET  # type: ignore[valid-type]
    stimulus_hz: Annotated[
        tuple[_Positive, ...],
        Field(min_length=1, description="a list of numbers above 0, such as [13, 17, 21]"),
    ] = ()
    window: _Pair = _UNSET
    classes: Annotated[
        _Names, Field(min_length=2, description='a list of two or more names, such as ["a", "b"]')
    ] = ()
    where: Annotated[
        dict[str, _Name],
        Field(min_length=1, description='a table of names and values, such as {run = "1"}'),
    ] = _UNSET
    channels: _Channels = ()
    resample: _Positive = _UNSET

    @field_validator("name")
    @classmethod
    def _found(cls, name: str, info: ValidationInfo) -> str:
        """A known name as it is; a path from the file's folder, in full."""
        known = (*DATASETS, *OFFICIAL)
        if name in known or name.startswith("moabb:"):
            return name
        folder: Path = info.context["folder"]  # type: ignore[index]
        try:
            return str((folder / Path(name).expanduser()).resolve(strict=True))
        except (OSError, RuntimeError) as error:  # the latter: no such user, or a loop of links
            raise ValueError(
                f"there is no data set {name!r}, and no file or folder {folder / name}."
                + _meant(name, known)
            ) from error

    @field_validator("window")
    @classmethod
    def _in_order(cls, window: tuple[float, float]) -> tuple[float, float]:
        if window[0] >= window[1]:
            raise ValueError(f"window must end after it begins, got {list(window)}.")
        return window

    def asked(self) -> Any:
        return {
            "dataset": self.name,
            "selection": Selection(**self.given("name", "subjects")),
            "subjects": self.subjects,
        }


def _kind(default: Any) -> Any:
    kinds = {bool: _Truth, float: _Number, str: _Text, tuple: _Pair}
    return kinds.get(type(default), _Whole)


#: Values of a preset that can be changed, of the types that they have there.
_Changes = create_model(
    "_Changes",
    __base__=_Table,
    **{
        field.name: (_kind(field.default), None)
        for part in (TransformerConfig, Recipe)
        for field in fields(part)
    },  # type: ignore[call-overload]
)


class _Method(_Table):
    name: Annotated[_Text, AfterValidator(_method)]
    label: _Text = ""
    bands: _Bands = "auto"  # type: ignore[assignment]
    estimator: _one_of(("auto", *ESTIMATORS, *PROTOTYPES), "estimator") = "auto"  # type: ignore[valid-type]
    preset: _one_of(PRESETS, "preset") = "paper"  # type: ignore[valid-type]
    changes: _Changes = Field(default_factory=_Changes, description="a table")  # type: ignore[valid-type]
    recipe: _one_of(get_args(RecipeName), "recipe") = "published"  # type: ignore[valid-type]
    epochs: _Whole = _UNSET
    device: Annotated[
        str,
        Strict(),
        Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="auto, cpu, cuda or cuda:1"),
    ] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: dict[str, Any]) -> dict[str, Any]:
        for old in set(values) & set(_deprecated.KEYS):
            new = _deprecated.KEYS[old]
            if new in values:
                raise ValueError(f"{old} is the old name of {new}: give one of them.")
            _deprecated._warn(f"{old} of a method", new)
        return {_deprecated.KEYS.get(key, key): value for key, value in values.items()}

    @model_validator(mode="after")
    def _works(self) -> Self:
        """Refuse settings that would change nothing, since who gives them thinks that they do."""
        method = METHODS[self.name]
        tokens = method.family == "token transformer"
        idle = {"recipe"} if tokens else {"preset", "changes"}
        if not method.has_seed:
            idle |= {"recipe", "epochs"}
            idle |= set() if self.device in ("auto", "cpu") else {"device"}
        settings = self.asked().settings
        if found := sorted(idle & self.model_fields_set):
            raise ValueError(
                f"{', '.join(found)}: {method.name} has no such setting (preset and changes are "
                "for token transformers, recipe for other networks, epochs and cuda for networks)."
                " Leave it out."
            )
        if self.epochs is not None and "epochs" in settings.changes:
            raise ValueError("epochs is given twice: leave it out of the changes.")
        settings.transformer()
        return self

    def asked(self) -> Any:
        changes = self.changes.given()  # type: ignore[attr-defined]
        settings = Settings(**self.given("name", "label", "changes"), changes=changes)
        return Choice(self.name, settings, self.label)


class _SpelledOut(_Table):
    """An estimator by its class and parameters, or a pipeline by its steps."""

    model_config = ConfigDict(extra="allow")
    label: _Text = ""

    @model_validator(mode="after")
    def _works(self) -> Self:
        choice = self.asked()
        if not can_classify(choice.method):
            raise ValueError(f"{choice.name} is not a classifier.")
        return self

    def asked(self) -> Any:
        given = dict(self.model_extra or {})
        if "steps" not in given:
            return Choice(build(given), label=self.label)
        steps = given.pop("steps")
        tables = isinstance(steps, list) and all(isinstance(s, dict) and CLASS in s for s in steps)
        if given or not steps or not tables:
            raise ValueError(
                "[[methods.steps]] are tables, each with a class and its parameters"
                + (f", and there is no {', '.join(given)} beside them." if given else ".")
            )
        *made, last = (build(step) for step in steps)
        names: list[str] = []
        for step in made:
            kind = type(step).__name__
            if not hasattr(step, "transform"):
                raise ValueError(f"{kind} is not a transformer, so it must be the last step.")
            # As make_decoder calls it.
            name = "filterbank" if isinstance(step, FilterBankCovariances) else kind.lower()
            again = sum(known.partition("-")[0] == name for known in names)
            names.append(f"{name}-{again + 1}" if again else name)
        pipeline = DecodingPipeline([*zip(names, made, strict=True), ("classifier", last)])
        return Choice(pipeline, label=self.label)


class _Protocol(_Table):
    name: _one_of(PROTOCOLS, "protocol")  # type: ignore[valid-type]
    access: _one_of(ACCESS, "access") = "train"  # type: ignore[valid-type]
    alignment: _one_of(ALIGNMENTS, "alignment") = "none"  # type: ignore[valid-type]
    domain: _one_of(DOMAINS, "domain") = "session"  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _works(self) -> Self:
        PROTOCOLS[self.name].checked(self.given(*_Protocol.model_fields))
        return self

    def asked(self) -> Any:
        own = {key: getattr(self, key) for key in ("access", "alignment", "domain")}
        options = self.given(*_Protocol.model_fields)
        return {"protocol": self.name, "protocol_options": options, **own}


def _protocol_keys(entry: Mapping[str, Any]) -> type[_Table]:
    """The keys of a protocol, with its own options; with all if there is no such protocol."""
    name = entry.get("name")
    known = [PROTOCOLS[name]] if isinstance(name, str) and name in PROTOCOLS else PROTOCOLS.values()
    options = {option: (Any, None) for protocol in known for option in protocol.options}
    return create_model("_Options", __base__=_Protocol, **options)  # type: ignore[call-overload]


#: The keys that a table may have, by its kind.
_KINDS: dict[str, Callable[[Mapping[str, Any]], type[_Table]]] = {
    "datasets": lambda _entry: _Dataset,
    "methods": lambda entry: _SpelledOut if {CLASS, "steps"} & set(entry) else _Method,
    "protocols": _protocol_keys,
}


# ------------------------------------------------------------------ what is wrong with a table


def _asked(
    keys: type[_Table], values: Mapping[str, Any], place: str, problems: list[str], **context: Any
) -> Any:
    """What a table asks for; None if something is wrong, which is added to the problems."""
    try:
        return keys.model_validate(values, context=context).asked()
    except ValidationError as error:
        found = error.errors()
    lines: dict[tuple[int | str, ...], str] = {}  # one a key
    # Unknown keys first: what is missing may be there in another spelling.
    for one in sorted(found, key=lambda one: one["type"] != "extra_forbidden"):
        at, model, given, where = place, keys, values, one["loc"][:1]
        if where == ("changes",) and one["loc"][1:]:
            at, model, given = f"[methods.changes] of {place}", _Changes, values["changes"]
            where = one["loc"][:2]
        name = str(where[-1]) if where else ""
        if one["type"] == "extra_forbidden":
            hint = _meant(name, model.model_fields) or f" It has: {', '.join(model.model_fields)}."
            if name in _Top.model_fields:
                hint = f" {name!r} belongs at the top of the file, before the first table."
            line = f"{at} has no key {name!r}.{hint}"
        elif one["type"] == "missing" and name not in given:
            line = f"{at}: {name} is missing."
            if any(told.endswith(f"Did you mean {name!r}?") for told in lines.values()):
                continue
        elif "error" in one.get("ctx", {}):
            line = f"{at}: {one['ctx']['error']}"
        else:
            wanted = model.model_fields[name].description
            line = f"{at}: {name} must be {wanted}, got {_shown(given[name])}."
        lines.setdefault(where or (line,), line)
    problems += lines.values()
    return None


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), tuple(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
