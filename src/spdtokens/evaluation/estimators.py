"""Estimators as plain values: what identifies a run, and what a worker builds it from."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

import spdtokens
from spdtokens.errors import MethodError
from spdtokens.evaluation.protocols import nearest

#: How a class, a function, a number that is not finite, and anything else are told in plain values.
CLASS, FUNCTION, NUMBER, TEXT = "class", "function", "number", "text"


def describe(value: Any) -> Any:
    """An estimator, or a parameter of one, as plain values.

    An estimator is a mapping: its ``class`` and its parameters. Tuples and arrays become lists,
    functions their names; anything else its text and a digest, by which it can be told apart but
    not built.
    """
    if isinstance(value, float) and not np.isfinite(value):
        return {NUMBER: str(value)}  # which JSON does not have
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, np.ndarray):
        return describe(value.tolist())
    if isinstance(value, list | tuple | range):
        return [describe(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(describe, value), key=repr)
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, type) or inspect.isfunction(value):
        path = f"{value.__module__}.{value.__qualname__}"
        # Two lambdas have one name. A function is not copied with its estimator: its id stays.
        return {FUNCTION: path} if _is_found(path, value) else _opaque(path, id(value))
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        return {CLASS: _path(type(value))} | {k: describe(v) for k, v in parameters.items()}
    if isinstance(value, BaseCrossValidator):
        known, found = inspect.signature(type(value)).parameters, vars(value)
        if all(name in found for name in known):
            return {CLASS: _path(type(value))} | {k: describe(found[k]) for k in known}
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", f"{type(value).__qualname__}: {value!r}")
    return _opaque(text, _content(value))


def _is_found(path: str, value: Any) -> bool:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name, None) is value
    except ImportError:  # a class within a class
        return False


def _content(value: Any) -> Any:
    """What tells an object from others of its class, and a copy of it has too."""
    if isinstance(value, partial):
        return describe([value.func, value.args, value.keywords])
    try:
        return pickle.dumps(value)
    except Exception:
        # Of a class that cannot be imported, or with a lambda in it.
        return describe(vars(value)) if hasattr(value, "__dict__") else None


def _opaque(text: str, content: Any) -> dict[str, str]:
    """What can be told apart, but not built."""
    return {TEXT: text, "digest": _digest(content)}


def _digest(content: Any) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _path(cls: type) -> str:
    """The shortest name from which a class can be imported."""
    if getattr(spdtokens, cls.__name__, None) is cls:
        return f"spdtokens.{cls.__name__}"
    parts = cls.__module__.split(".")
    for n in range(1, len(parts)):
        home = import_module(".".join(parts[:n]))
        if getattr(home, cls.__name__, None) is cls:
            return f"{'.'.join(parts[:n])}.{cls.__name__}"
    path = f"{cls.__module__}.{cls.__qualname__}"
    return path if _is_found(path, cls) else f"{path} ({_digest(id(cls))})"


def build(value: Any) -> Any:
    """What :func:`describe` was given.

    Raises
    ------
    MethodError
        For a class or parameter that does not exist, or anything but an estimator.
    """
    if isinstance(value, list):
        return [build(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {FUNCTION}:
        return _function(str(value[FUNCTION]))
    if set(value) == {NUMBER}:
        try:
            return float(value[NUMBER])
        except (TypeError, ValueError) as error:
            raise MethodError(f"{value[NUMBER]!r} is not a number.") from error
    if set(value) == {TEXT, "digest"}:
        raise MethodError(f"A parameter cannot be built from its text: {value[TEXT]}.")
    if CLASS not in value:
        return {key: build(item) for key, item in value.items()}
    cls = find_class(str(value[CLASS]))
    given = {key: item for key, item in value.items() if key != CLASS}
    check_parameters(cls, given)
    made = {}
    for key, item in given.items():
        default = inspect.signature(cls).parameters[key].default
        # A default may be what cannot be named here, such as a function of scikit-learn.
        if repr(item) != repr(describe(default)):
            made[key] = build(item)
            # scikit-learn refuses a list for some of its tuples.
            if isinstance(default, tuple) and isinstance(made[key], list):
                made[key] = tuple(made[key])
    try:
        if issubclass(cls, Pipeline):
            made["steps"] = [(str(name), step) for name, step in made["steps"]]
        return cls(**made)
    except (TypeError, ValueError) as error:
        raise MethodError(f"{cls.__name__} cannot be made: {error}.") from error


def find_class(path: str) -> type:
    """The class of an estimator, by its dotted path; ours also by name alone.

    Raises
    ------
    MethodError
        If there is none, with the nearest name, or it is not an estimator.
    """
    module, _, name = path.rpartition(".")
    module = module or "spdtokens"
    try:
        home = import_module(module)
        found = getattr(home, name, None)
    except Exception as error:  # whatever happens when a module is imported
        raise MethodError(f"There is no module {module!r} for class {path!r}: {error}.") from error
    if found is None:
        names = [key for key in dir(home) if key[:1].isupper()]
        raise MethodError(f"{module} has no class {name!r}.{nearest(name, names)}")
    if not (isinstance(found, type) and issubclass(found, BaseEstimator | BaseCrossValidator)):
        raise MethodError(f"{path} is not a scikit-learn estimator.")
    return found


def check_parameters(cls: type, given: Iterable[str]) -> None:
    """Refuse parameters that the constructor of a class does not have, or lacks.

    Raises
    ------
    MethodError
        With the nearest name.
    """
    # What is only passed on (**kwds of pyRiemann) is lost when an estimator is cloned.
    known = {
        name: parameter
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    unknown = [name for name in given if name not in known]
    if unknown:
        raise MethodError(
            f"{cls.__name__} has no parameter {unknown[0]!r}.{nearest(unknown[0], known)} It "
            f"has: {', '.join(known)}."
        )
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in given:
            raise MethodError(f"{cls.__name__} needs the parameter {name!r}.")


def _function(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if module.split(".")[0] != "spdtokens":
        raise MethodError(f"Only functions of spdtokens can be named in a study, not {path}.")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise MethodError(f"There is no function {path}: {error}.") from error


def can_classify(value: Any) -> bool:
    """Whether a value is an estimator that predicts, as far as it says so before it is fitted."""
    if isinstance(value, type) or not (hasattr(value, "get_params") and hasattr(value, "fit")):
        return False
    # A stack has no ``predict`` before it is fitted; what has one need not be called a classifier.
    return hasattr(value, "predict") or isinstance(value, ClassifierMixin)


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
    # Whose default is a word since scikit-learn 1.8.
    return isinstance(estimator, SVC) and estimator.probability is not True


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
