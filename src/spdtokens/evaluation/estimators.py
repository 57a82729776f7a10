"""Estimators as plain values: what identifies a run, and what a worker builds it from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import spdtokens
from spdtokens._errors import UserError

#: How a class, a function, and a number that is not finite are told in plain values.
CLASS, FUNCTION, NUMBER = "class", "function", "number"


class EstimatorError(UserError):
    """An estimator that cannot be built; the message names the culprit and what there is."""


def describe(value: Any) -> Any:
    """An estimator, or a parameter of one, as plain values.

    An estimator is a mapping: its ``class`` and its parameters. Tuples and arrays become lists,
    functions their names; anything else its text, by which it can be told apart but not built.
    """
    if isinstance(value, float) and not np.isfinite(value):
        return {NUMBER: str(value)}  # which JSON does not have
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, np.ndarray):
        return describe(value.tolist())
    if isinstance(value, list | tuple | set | frozenset | range):
        return [describe(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, type) or inspect.isfunction(value):
        return {FUNCTION: f"{value.__module__}.{value.__qualname__}"}
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        return {CLASS: _path(type(value))} | {k: describe(v) for k, v in parameters.items()}
    if isinstance(value, BaseCrossValidator):
        return {CLASS: _path(type(value))} | {k: describe(v) for k, v in vars(value).items()}
    return {"text": re.sub(r" at 0x[0-9a-f]+", "", f"{type(value).__qualname__}: {value!r}")}


def _path(cls: type) -> str:
    """The shortest name from which a class can be imported."""
    if getattr(spdtokens, cls.__name__, None) is cls:
        return f"spdtokens.{cls.__name__}"
    parts = cls.__module__.split(".")
    for n in range(1, len(parts)):
        home = import_module(".".join(parts[:n]))
        if getattr(home, cls.__name__, None) is cls:
            return f"{'.'.join(parts[:n])}.{cls.__name__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def build(value: Any) -> Any:
    """What :func:`describe` was given.

    Raises
    ------
    EstimatorError
        For a class or parameter that does not exist, or anything but an estimator.
    """
    if isinstance(value, list):
        return [build(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if FUNCTION in value:
        return _function(str(value[FUNCTION]))
    if NUMBER in value and len(value) == 1:
        return float(value[NUMBER])
    if "text" in value and len(value) == 1:
        raise EstimatorError(f"A parameter cannot be built from its text: {value['text']}.")
    if CLASS not in value:
        return {key: build(item) for key, item in value.items()}
    cls = find_class(str(value[CLASS]))
    given = {key: build(item) for key, item in value.items() if key != CLASS}
    check_parameters(cls, given)
    for name, parameter in inspect.signature(cls).parameters.items():
        if isinstance(parameter.default, tuple) and isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    if issubclass(cls, Pipeline):
        given["steps"] = [(str(name), step) for name, step in given["steps"]]
    return cls(**given)


def find_class(path: str) -> type:
    """The class of an estimator, by its dotted path; ours also by name alone.

    Raises
    ------
    EstimatorError
        If there is none, with the nearest name, or it is not an estimator.
    """
    module, _, name = path.rpartition(".")
    module = module or "spdtokens"
    try:
        found = getattr(import_module(module), name)
    except (ImportError, ValueError) as error:
        raise EstimatorError(
            f"There is no module {module!r} for class {path!r}: {error}."
        ) from error
    except AttributeError:
        names = [key for key in dir(import_module(module)) if key[:1].isupper()]
        raise EstimatorError(f"{module} has no class {name!r}.{nearest(name, names)}") from None
    if not (isinstance(found, type) and issubclass(found, BaseEstimator | BaseCrossValidator)):
        raise EstimatorError(f"{path} is not a scikit-learn estimator.")
    return found


def check_parameters(cls: type, given: Mapping[str, Any]) -> None:
    """Refuse parameters that the constructor of a class does not have, or lacks.

    Raises
    ------
    EstimatorError
        With the nearest name.
    """
    known = inspect.signature(cls).parameters
    unknown = [name for name in given if name not in known]
    if unknown:
        raise EstimatorError(
            f"{cls.__name__} has no parameter {unknown[0]!r}.{nearest(unknown[0], list(known))} It "
            f"has: {', '.join(known)}."
        )
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and name not in given
    ]
    if missing:
        raise EstimatorError(f"{cls.__name__} needs the parameter {missing[0]!r}.")


def nearest(name: str, names: list[str]) -> str:
    """A question, if one of the names is near; else nothing."""
    near = get_close_matches(name, names, 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _function(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if module.split(".")[0] != "spdtokens":
        raise EstimatorError(f"Only functions of spdtokens can be named in a study, not {path}.")
    return getattr(import_module(module), name)


def open_seeds(estimator: BaseEstimator) -> list[str]:
    """Parameters ``random_state`` that are None, of steps in which chance plays a part."""
    parameters = estimator.get_params(deep=True)
    owners = {"": estimator} | {k: v for k, v in parameters.items() if hasattr(v, "get_params")}
    found = []
    for name, owner in owners.items():
        own = owner.get_params(deep=False)
        if "random_state" in own and own["random_state"] is None and not _decides_alone(owner):
            found.append(f"{name}__random_state" if name else "random_state")
    return found


def _decides_alone(estimator: BaseEstimator) -> bool:
    """Whether an estimator has a seed that it does not use."""
    if isinstance(estimator, LogisticRegression):
        return bool(estimator.solver in ("lbfgs", "newton-cg", "newton-cholesky"))
    return isinstance(estimator, SVC) and not estimator.probability


def with_seed(estimator: BaseEstimator, seed: int | None) -> BaseEstimator:
    """A clone whose open seeds are set."""
    fresh = clone(estimator)
    if seed is not None:
        fresh.set_params(**dict.fromkeys(open_seeds(fresh), seed))
    return fresh


def steps_of(estimator: Any) -> Iterator[Any]:
    """The steps of a pipeline, of one inside a search, or the estimator itself."""
    inner = getattr(estimator, "estimator", None)
    if inner is not None and hasattr(inner, "get_params"):
        yield from steps_of(inner)
    elif isinstance(estimator, Pipeline):
        for _, step in estimator.steps:
            yield from steps_of(step)
    else:
        yield estimator
