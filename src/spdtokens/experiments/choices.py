"""The ``[[methods]]`` of a study file."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_args

from spdtokens.classifiers import DecodingPipeline
from spdtokens.classifiers.methods import METHODS, PRESETS, Method, RecipeName, Settings
from spdtokens.classifiers.nn.recipe import Recipe
from spdtokens.classifiers.nn.transformer import TransformerConfig
from spdtokens.errors import UserError
from spdtokens.evaluation.estimators import CLASS, build, can_classify
from spdtokens.evaluation.plan import Choice
from spdtokens.experiments.reading import (
    BANDS,
    NUMBER,
    PAIR,
    TABLE,
    TEXT,
    TRUTH,
    WHOLE,
    Kind,
    Table,
)
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import OF_STIMULI, resolve_bands
from spdtokens.preprocessing.bands import PRESETS as BANDS_BY_NAME
from spdtokens.preprocessing.covariance import ESTIMATORS, PROTOTYPES

KEYS = ("name", "label", "bands", "estimator", "preset", "changes", "recipe", "epochs", "device")
#: Values of a preset that can be changed, with an example of each from which its kind is known.
CHANGEABLE = {
    field.name: 1 if field.default is None else field.default
    for part in (TransformerConfig, Recipe)
    for field in fields(part)
}


def read_choice(table: Table) -> Choice:
    """A method with its settings; what is wrong is added to the table's problems."""
    if CLASS in table.values or "steps" in table.values:
        return _spelled_out(table)
    table.only(KEYS)
    table.needs("name")
    name = table.choice("name", METHODS, "", what="method")
    settings = Settings(
        bands=_bands(table),
        estimator=table.choice("estimator", ("auto", *ESTIMATORS, *PROTOTYPES), "auto"),
        preset=table.choice("preset", PRESETS, "paper"),
        changes=_changes(table),
        recipe=table.choice("recipe", get_args(RecipeName), "published"),
        epochs=table.get("epochs", WHOLE),
        device=_device(table),
    )
    if name:
        _refuse_idle(table, METHODS[name])
    if settings.epochs is not None and "epochs" in settings.changes:
        table.wrong("epochs is given twice: leave it out of the changes.")
    return Choice(name, settings, table.get("label", TEXT, ""))


def _spelled_out(table: Table) -> Choice:
    """An estimator by its class and parameters, or a pipeline by its steps."""
    label = table.get("label", TEXT, "")
    values = {key: value for key, value in table.values.items() if key != "label"}
    try:
        estimator = _pipeline(values) if "steps" in values else build(values)
    except UserError as error:
        table.wrong(str(error))
        return Choice("", label=label)
    choice = Choice(estimator, label=label)
    if not can_classify(estimator):
        table.wrong(f"{choice.name} is not a classifier.")
    return choice


def _pipeline(values: dict[str, Any]) -> DecodingPipeline:
    steps = values["steps"]
    others = [key for key in values if key != "steps"]
    if others:
        raise UserError(f"steps and {others[0]} are given: a pipeline has only steps.")
    whole = isinstance(steps, list) and all(isinstance(s, dict) and CLASS in s for s in steps)
    if not whole or not steps:
        raise UserError("[[methods.steps]] are tables, each with a class and its parameters.")
    made = [build(step) for step in steps]
    for step in made[:-1]:
        if not hasattr(step, "transform"):
            raise UserError(
                f"{type(step).__name__} is not a transformer, so it must be the last step."
            )
    names: list[str] = []
    for step in made[:-1]:
        name = _STEPS.get(type(step), type(step).__name__.lower())
        again = sum(known.partition("-")[0] == name for known in names)
        names.append(f"{name}-{again + 1}" if again else name)
    return DecodingPipeline(list(zip([*names, "classifier"], made, strict=True)))


#: Steps that have the names of :func:`spdtokens.make_decoder`.
_STEPS = {FilterBankCovariances: "filterbank"}


def _refuse_idle(table: Table, method: Method) -> None:
    """Refuse settings that would change nothing, since who gives them thinks that they do."""
    tokens = method.family == "token transformer"
    idle = {
        "preset": None if tokens else "is for token transformers",
        "changes": None if tokens else "are for token transformers, as values of their preset",
        "recipe": "is for other networks; token transformers have a preset" if tokens else None,
    }
    if not method.has_seed:
        idle |= dict.fromkeys(("recipe", "epochs"), "is for networks")
        if table.values.get("device") not in ("auto", "cpu"):
            idle["device"] = "is for networks"
    for key, reason in idle.items():
        if key in table.values and reason is not None:
            table.wrong(f"{key} of {method.name} {reason}. Leave {key} out.")


def _bands(table: Table) -> Any:
    value = table.get("bands", BANDS)
    if value is None:
        return "auto"
    if isinstance(value, str) and not value[:1].isdigit():
        names = ("auto", *BANDS_BY_NAME, *OF_STIMULI)
        return table.choice("bands", names, "auto", what="preset of bands")
    if not isinstance(value, str):
        value = tuple((float(low), float(high)) for low, high in value)
    try:
        resolve_bands(value)
    except UserError as error:
        table.wrong(str(error))
    return value


def _device(table: Table) -> str:
    device: str = table.get("device", TEXT, "auto")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        table.wrong(f"device is 'auto', 'cpu', 'cuda' or 'cuda:1', not {device!r}.")
        return "auto"
    return device


def _changes(table: Table) -> dict[str, Any]:
    given = table.get("changes", TABLE, {})
    several = table.place != "[[methods]]"
    place = f"[methods.changes] of {table.place}" if several else "[methods.changes]"
    changes = Table(given, place, table.problems)
    changes.only(CHANGEABLE)
    before = len(table.problems)
    values = {
        key: _as(example, changes.get(key, _kind(example)))
        for key, example in CHANGEABLE.items()
        if key in given
    }
    preset = table.values.get("preset", "paper")
    if len(table.problems) == before and isinstance(preset, str) and preset in PRESETS:
        try:
            Settings(preset=preset, changes=values).transformer()
        except UserError as error:
            changes.wrong(str(error))
    return values


def _kind(example: Any) -> Kind:
    if isinstance(example, bool):
        return TRUTH
    kinds: dict[type, Kind] = {int: WHOLE, float: NUMBER, str: TEXT, tuple: PAIR}
    return kinds[type(example)]


def _as(example: Any, value: Any) -> Any:
    """A value in the type of the preset's, so that 1 and 1.0 are one run."""
    if isinstance(example, tuple) and value is not None:
        return tuple(map(float, value))
    return float(value) if isinstance(example, float) and value is not None else value
