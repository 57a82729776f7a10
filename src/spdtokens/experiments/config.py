"""Study files: an experiment in TOML, checked in full before anything runs.

Top-level keys are ``name`` (default: the name of the file), ``seeds`` (a list, or how many of the
paper's seeds to use, default 5) and ``metric`` (default: the one that suits the data). Every data
set is combined with every protocol, and every method is run on each combination:

``[[datasets]]``
    ``name`` (a registered name, or a path relative to the file), ``subjects``, ``paradigm``,
    ``stimulus_hz``, ``window``, ``classes``, ``where``, ``channels`` (names, or ``"common"`` for
    the channels that all recordings share), ``resample`` (sampling rate in Hz),
    ``dataset_options`` (a table of options of :func:`spdtokens.load_dataset`, such as
    ``{segments = 4}``; a ``folder`` is relative to the file).
``[[methods]]``
    ``name``, ``label``, ``bands``, ``estimator``, ``device``; for networks ``epochs`` and
    ``recipe``; for token transformers ``preset`` and ``[methods.changes]``, parameters to replace.
    Alternatively ``class`` (of spdtokens, or the dotted path of a scikit-learn estimator) and its
    parameters, or ``[[methods.steps]]``, one such table per step of a pipeline.
``[[protocols]]``
    ``name``, the protocol's options, ``access``, ``alignment``, ``domain``.

A kind of table can be a list of names where nothing else is set: ``methods = ["ts-lr", "mdm"]``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from spdtokens import _deprecated
from spdtokens.classifiers import DecodingPipeline
from spdtokens.classifiers.methods import METHODS, PRESETS, RecipeName, Settings, get_method
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS, Recipe
from spdtokens.classifiers.nn.transformer import TransformerConfig
from spdtokens.datasets import Selection
from spdtokens.datasets.official import OFFICIAL
from spdtokens.datasets.registry import DATASETS
from spdtokens.errors import StudyError, UserError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.estimators import CLASS, build
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.plan import (
    DOMAINS,
    Choice,
    Question,
    Source,
    check_question,
    plain_options,
)
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS, look_up
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.covariance import ESTIMATORS, PROTOTYPES


@dataclass(frozen=True)
class Study:
    """A study: the runs to do, as questions about data sets, protocols and methods.

    Parameters
    ----------
    name : str
        Name of the study, the title of its report.
    path : Path
        The study file.
    questions : tuple of Question
        One per combination of data set and protocol.
    metric : str, default=None
        Metric shown first. None selects the one that suits the paradigm.

    See Also
    --------
    read_study : Read a study from a TOML file.
    spdtokens.experiments.run.plan_study : List the runs of a study.

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdtokens.evaluation.plan import Choice, Question
    >>> from spdtokens.experiments.config import Study
    >>> question = Question("sim-mi", (Choice("ts-lr"), Choice("mdm")), subjects=("1",))
    >>> Study("mine", Path("mine.toml"), (question,)).questions[0].protocol
    'session-transfer'
    """

    name: str
    path: Path
    questions: tuple[Question, ...]
    metric: str | None = None


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file.

    No data set is opened: see :func:`check_study` for what only the data can tell.

    Parameters
    ----------
    path : str or Path
        The study file. Paths of data sets in it are relative to its folder.

    Returns
    -------
    Study
        The study.

    Raises
    ------
    StudyError
        If the file cannot be used. The message lists every problem on its own line.

    See Also
    --------
    check_study : Check a study against its data sets.
    spdtokens.experiments.run.plan_study : List the runs of a study.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens.experiments.config import read_study
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.toml")
    ...     _ = file.write_text('''
    ... datasets = ["sim-mi"]
    ... methods = ["ts-lr", "mdm"]
    ... protocols = ["session-transfer", {name = "blocks", folds = 4}]
    ... ''')
    ...     study = read_study(file)
    >>> study.name, [question.protocol for question in study.questions]
    ('mine', ['session-transfer', 'blocks'])
    """
    path = Path(path)
    values = _parsed(path)
    try:
        file = _File.model_validate(values, context={"folder": path.parent})
    except ValidationError as error:
        raise StudyError(
            "\n".join([f"{path} cannot be used:", *_problems(error, values)])
        ) from error
    choices = tuple(method.asked() for method in file.methods)
    questions = tuple(
        Question(
            **dataset.asked(), **protocol.asked(), choices=choices, seeds=cast(Any, file.seeds)
        )
        for dataset, protocol in product(file.datasets, file.protocols)
    )
    return Study(file.name or path.stem, path, questions, file.metric)


def check_study(study: Study, source: Source | None = None) -> None:
    """Check a study against its data sets and this machine.

    Parameters
    ----------
    study : Study
        The study.
    source : Source, default=None
        Provides the data sets and keeps those it opens. None creates one.

    Raises
    ------
    StudyError
        If a data set cannot be opened, or a subject, method or setting does not fit it. The
        message lists every problem on its own line.

    See Also
    --------
    read_study : Read a study from a TOML file.
    spdtokens.experiments.run.plan_study : Check a study and list its runs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from spdtokens.evaluation.plan import Choice, Question
    >>> from spdtokens.experiments.config import Study, check_study
    >>> question = Question("sim-mi", (Choice("xdawn-ts-lr"),))
    >>> try:
    ...     check_study(Study("mine", Path("mine.toml"), (question,)))
    ... except ValueError as error:
    ...     print(str(error).splitlines()[0])
    mine.toml does not fit its data:
    """
    source = source or Source()
    problems: dict[str, None] = {}  # ordered; a problem that two protocols share is listed once
    for question in study.questions:
        try:
            dataset = source.dataset_of(question)
            dataset.chosen(question.subjects)
        except (UserError, OSError) as error:
            problems[f"{question.dataset}: {error}"] = None
            continue
        for choice in question.choices:
            try:
                check_question(replace(question, choices=(choice,)), dataset)
            except UserError as error:
                problems[f"{choice.title} on {dataset.name}: {error}"] = None
    if problems:
        raise StudyError("\n".join([f"{study.path} does not fit its data:", *problems]))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Notepad writes a BOM
    except FileNotFoundError as error:
        raise StudyError(f"Study file {path} does not exist.") from error
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} must be UTF-8 text, as TOML requires.") from error
    # Deeply nested lists and numbers with thousands of digits raise errors of Python.
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{path} is not valid TOML: {error}.") from error


# ------------------------------------------------------------------ kinds of values


def _printable(value: str) -> str:
    # Names are printed: control characters would reach the terminal.
    if not value.strip() or not value.isprintable():
        raise PydanticCustomError("printable", "not printable")
    return value


def _different(values: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is listed twice. Remove one.")
    return values


def _one_of(what: str, known: Iterable[str]) -> Any:
    def check(name: str) -> str:
        look_up(what, name, dict.fromkeys(known))
        return name

    return Annotated[_Text, AfterValidator(check)]


_Text = Annotated[
    str,
    Strict(),
    Field(description="non-empty printable text in quotes"),
    AfterValidator(_printable),
]
_Name = Annotated[_Text, BeforeValidator(lambda v: str(v) if type(v) is int else v)]
_Number = Annotated[float, Strict(), AllowInfNan(False), Field(description="a number")]
_Positive = Annotated[_Number, Field(gt=0, description="a number > 0")]
_Whole = Annotated[int, Strict(), Field(ge=1, description="an integer >= 1")]
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
    Literal["common"] | _Names,
    Field(description='"common" or a list of names, such as ["C3", "C4"]'),
]
_Bands = Annotated[
    _Text | Annotated[tuple[_Pair, ...], Field(min_length=1)],
    Field(description="a preset or a list of pairs in Hz, such as [[8, 13], [13, 30]]"),
]
_Seed = Annotated[int, Strict(), Field(ge=0, lt=2**32)]
_Seeds = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=len(STABILITY_SEEDS))]
    | Annotated[tuple[_Seed, ...], Field(min_length=1), AfterValidator(_different)],
    Field(
        description=f"a number of seeds from 1 to {len(STABILITY_SEEDS)}, or a list of different "
        "seeds from 0 to 2^32 - 1, such as [42, 123]"
    ),
]


# ------------------------------------------------------------------ tables of the file


#: Value of keys that are not set; :meth:`_Table.given` omits them.
_UNSET: Any = None


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    def given(self, *without: str) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={*without})


class _Dataset(_Table):
    name: _Text
    subjects: _Names = ()
    paradigm: _Text = _UNSET
    stimulus_hz: Annotated[
        tuple[_Positive, ...],
        Field(min_length=1, description="a list of numbers > 0, such as [13, 17, 21]"),
    ] = ()
    window: _Pair = _UNSET
    classes: _Names = ()
    where: Annotated[
        dict[str, _Name],
        Field(min_length=1, description='a table of names and values, such as {run = "1"}'),
    ] = _UNSET
    channels: _Channels = ()
    resample: _Positive = _UNSET
    dataset_options: Annotated[
        dict[str, Any],
        Field(min_length=1, description="a table of options, such as {segments = 4}"),
    ] = {}

    @field_validator("dataset_options")
    @classmethod
    def _plain(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Return the options with a folder relative to the file as absolute path."""
        folder: Path = info.context["folder"]  # type: ignore[index]
        if isinstance(own := options.get("folder"), str):
            options = options | {"folder": str((folder / Path(own).expanduser()).resolve())}
        return plain_options(options)

    @field_validator("name")
    @classmethod
    def _found(cls, name: str, info: ValidationInfo) -> str:
        """Return a registered name as it is, and a path relative to the file as absolute path."""
        known = (*DATASETS, *OFFICIAL)
        if name in known or name.startswith("moabb:"):
            return name
        folder: Path = info.context["folder"]  # type: ignore[index]
        try:
            return str((folder / Path(name).expanduser()).resolve(strict=True))
        except (OSError, RuntimeError) as error:  # RuntimeError: unknown user, or a loop of links
            raise ValueError(
                f"Unknown data set {name!r}, and {folder / name} does not exist."
                + _meant(name, known)
            ) from error

    def asked(self) -> Any:
        return {
            "dataset": self.name,
            "selection": Selection(**self.given("name", "subjects", "dataset_options")),
            "subjects": self.subjects,
            "dataset_options": self.dataset_options,
        }


def _kind(default: Any) -> Any:
    kinds = {bool: _Truth, float: _Number, str: _Text, tuple: _Pair}
    return kinds.get(type(default), _Whole)


#: Parameters of a preset that can be replaced, with the types of their defaults.
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
    name: Annotated[_Text, AfterValidator(lambda name: get_method(name).name)]
    label: _Text = ""
    bands: _Bands = "auto"
    estimator: _one_of("estimator", ("auto", *ESTIMATORS, *PROTOTYPES)) = "auto"  # type: ignore[valid-type]
    preset: _one_of("preset", PRESETS) = "standard"  # type: ignore[valid-type]
    changes: _Changes = Field(default_factory=_Changes, description="a table")  # type: ignore[valid-type]
    recipe: _one_of("recipe", get_args(RecipeName)) = "published"  # type: ignore[valid-type]
    epochs: _Whole = _UNSET
    device: _Text = "auto"

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, values: dict[str, Any]) -> dict[str, Any]:
        for old in set(values) & set(_deprecated.KEYS):
            new = _deprecated.KEYS[old]
            if new in values:
                raise ValueError(f"{old} is the old name of {new}: set only {new}.")
            _deprecated._warn(f"{old} of a method", new)
        return {_deprecated.KEYS.get(key, key): value for key, value in values.items()}

    @model_validator(mode="after")
    def _works(self) -> Self:
        """Refuse settings that the method would ignore."""
        method = METHODS[self.name]
        tokens = method.family == "token transformer"
        idle = {"recipe"} if tokens else {"preset", "changes"}
        idle |= set() if method.has_seed else {"recipe", "epochs"}
        if found := sorted(idle & self.model_fields_set):
            raise ValueError(
                f"{', '.join(found)} does not apply to {method.name} (preset and changes: token "
                "transformers; recipe: other networks; epochs: all networks). Remove it."
            )
        if self.epochs is not None and "epochs" in self.changes.model_fields_set:  # type: ignore[attr-defined]
            raise ValueError("epochs is set twice: remove it from the changes.")
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
        self.asked()
        return self

    def asked(self) -> Any:
        given = dict(self.model_extra or {})
        if "steps" not in given:
            return Choice(build(given), label=self.label)
        steps = given.pop("steps")
        tables = isinstance(steps, list) and all(isinstance(s, dict) and CLASS in s for s in steps)
        if given or not steps or not tables:
            raise ValueError(
                "[[methods.steps]] must be tables, each with a class and its parameters"
                + (f"; remove {', '.join(given)}." if given else ".")
            )
        *made, last = (build(step) for step in steps)
        names: list[str] = []
        for step in made:
            kind = type(step).__name__
            if not hasattr(step, "transform"):
                raise ValueError(f"{kind} is not a transformer: it must be the last step.")
            # The name that make_decoder uses.
            name = "filterbank" if isinstance(step, FilterBankCovariances) else kind.lower()
            again = sum(known.partition("-")[0] == name for known in names)
            names.append(f"{name}-{again + 1}" if again else name)
        pipeline = DecodingPipeline([*zip(names, made, strict=True), ("classifier", last)])
        return Choice(pipeline, label=self.label)


class _Protocol(_Table):
    model_config = ConfigDict(extra="allow")  # for the protocol's options
    name: _one_of("protocol", PROTOCOLS)  # type: ignore[valid-type]
    access: _one_of("access", ACCESS) = "train"  # type: ignore[valid-type]
    alignment: _one_of("alignment", ALIGNMENTS) = "none"  # type: ignore[valid-type]
    domain: _one_of("domain", DOMAINS) = "session"  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _works(self) -> Self:
        options = self.model_extra or {}
        known = [*_Protocol.model_fields, *PROTOCOLS[self.name].options]
        if unknown := [key for key in options if key not in known]:
            raise ValueError(_unknown_key(unknown[0], known))
        PROTOCOLS[self.name].checked(options)
        return self

    def asked(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in ("access", "alignment", "domain")}
        return {"protocol": self.name, "protocol_options": self.model_extra, **own}


# ------------------------------------------------------------------ the file


def _tables(kind: str, table: Any, example: str) -> Any:
    """Tables of a kind; an entry can be a name alone."""

    def named(entry: Any) -> Any:
        if not isinstance(entry, str | dict):
            raise ValueError(f"an entry must be a name or a table, got {entry!r:.60}.")
        return {"name": entry} if isinstance(entry, str) else entry

    words = f'[[{kind}]] tables or a list of names, such as ["{example}"]'
    entries = list[Annotated[table, BeforeValidator(named)]]
    return Annotated[entries, Field(min_length=1, description=words)]


_AnyMethod = Annotated[
    Annotated[_Method, Tag("by name")] | Annotated[_SpelledOut, Tag("by class")],
    Discriminator(lambda entry: "by class" if {CLASS, "steps"} & {*entry} else "by name"),
]


class _File(_Table):
    name: _Text = ""
    seeds: _Seeds = SEEDS
    metric: _one_of("metric", METRICS) = _UNSET  # type: ignore[valid-type]
    datasets: _tables("datasets", _Dataset, "sim-mi")  # type: ignore[valid-type]
    methods: _tables("methods", _AnyMethod, "ts-lr")  # type: ignore[valid-type]
    protocols: _tables("protocols", _Protocol, "session-transfer")  # type: ignore[valid-type]


def _problems(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """List what is wrong with a file, one line per key."""
    tables: dict[Any, Any] = {"datasets": _Dataset, "methods": _Method, "protocols": _Protocol}
    lines: dict[tuple[str, ...], str] = {}
    # Unknown keys first: a missing key may be there with another spelling.
    for one in sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden"):
        place, model = "The study", cast(Any, _File)
        where: list[Any] = [part for part in one["loc"] if part not in ("by name", "by class")]
        if where[0] in tables and where[1:]:
            kind, number, *where = where
            place, model = f"[[{kind}]]", tables[kind]
            place += f" {number + 1}" if len(values[kind]) > 1 else ""
        if where[:1] == ["changes"] and where[1:]:
            place, model, where = f"[methods.changes] of {place}", _Changes, where[1:]
        name = str(where[0]) if where else ""
        if one["type"] == "extra_forbidden":
            line = f"{place} {_unknown_key(name, model.model_fields)}"
        elif one["type"] == "missing" and len(where) == 1:
            line = f"{place}: {name} is missing."
            if any(line.endswith(f"Did you mean {name!r}?") for line in lines.values()):
                continue
        elif "error" in one.get("ctx", {}):
            line = f"{place}: {one['ctx']['error']}"
        else:
            wanted = model.model_fields[name].description
            line = f"{place}: {name} must be {wanted}, got {one['input']!r:.60}."
        lines.setdefault((place, name or line), line)
    return list(lines.values())


def _unknown_key(name: str, known: Iterable[str]) -> str:
    if name in _File.model_fields:
        return f"has no key {name!r}. It belongs at the top of the file, before the first table."
    known = tuple(known)
    return f"has no key {name!r}." + (_meant(name, known) or f" It has: {', '.join(known)}.")


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), tuple(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""
