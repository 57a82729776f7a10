"""Describe estimators as plain values, which identify a run, and build them in a worker."""

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

#: Keys of a class, a function, a non-finite number and anything else in plain values.
CLASS, FUNCTION, NUMBER, TEXT = "class", "function", "number", "text"


def describe(value: Any) -> Any:
    """Return an estimator, or one of its parameters, as plain values.

    An estimator is a mapping of its ``class`` and parameters. Tuples and arrays become lists, and
    functions their names. Anything else becomes its text and a digest, which identify it but cannot
    be built.
    """
    if isinstance(value, float) and not np.isfinite(value):
        return {NUMBER: str(value)}  # not valid in JSON
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
        # Lambdas share a name. A function is not copied with its estimator, so its id is stable.
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
    """Content that distinguishes an object from others of its class, but not from its copies."""
    if isinstance(value, partial):
        return describe([value.func, value.args, value.keywords])
    try:
        return pickle.dumps(value)
    except Exception:
        # Its class cannot be imported, or it contains a lambda.
        return describe(vars(value)) if hasattr(value, "__dict__") else None


def _opaque(text: str, content: Any) -> dict[str, str]:
    """Description of an object that can be identified, but not built."""
    return {TEXT: text, "digest": _digest(content)}


def _digest(content: Any) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _path(cls: type) -> str:
    """Return the shortest path from which a class can be imported."""
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
    """Build the estimator or parameter from its description by :func:`describe`.

    Raises
    ------
    MethodError
        If a class or parameter does not exist, or is not an estimator.
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
            raise MethodError(f"number must be a number, got {value[NUMBER]!r}.") from error
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
        # A default may be something that cannot be built, such as a function of scikit-learn.
        if repr(item) != repr(describe(default)):
            made[key] = build(item)
            # scikit-learn requires tuples for some parameters.
            if isinstance(default, tuple) and isinstance(made[key], list):
                made[key] = tuple(made[key])
    try:
        if issubclass(cls, Pipeline):
            made["steps"] = [(str(name), step) for name, step in made["steps"]]
        return cls(**made)
    except (TypeError, ValueError) as error:
        raise MethodError(f"{cls.__name__} cannot be made: {error}.") from error


def find_class(path: str) -> type:
    """Return the class of an estimator by its dotted path; those of spdtokens also by name.

    Raises
    ------
    MethodError
        If it does not exist, with the closest name, or is not an estimator.
    """
    module, _, name = path.rpartition(".")
    module = module or "spdtokens"
    try:
        home = import_module(module)
        found = getattr(home, name, None)
    except Exception as error:  # importing a module can raise anything
        raise MethodError(f"Cannot import module {module!r} of class {path!r}: {error}.") from error
    if found is None:
        names = [key for key in dir(home) if key[:1].isupper()]
        raise MethodError(f"{module} has no class {name!r}.{nearest(name, names)}")
    if not (isinstance(found, type) and issubclass(found, BaseEstimator | BaseCrossValidator)):
        raise MethodError(f"{path} is not a scikit-learn estimator.")
    return found


def check_parameters(cls: type, given: Iterable[str]) -> None:
    """Refuse unknown and missing parameters of a class; the error suggests the closest name."""
    # **kwds, as of pyRiemann, are lost when an estimator is cloned.
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
        raise MethodError(f"Functions must be of spdtokens, got {path}.")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise MethodError(f"There is no function {path}: {error}.") from error


def can_classify(value: Any) -> bool:
    """Whether a value is a classifier, as far as known before it is fitted."""
    if isinstance(value, type) or not (hasattr(value, "get_params") and hasattr(value, "fit")):
        return False
    # A stack has no ``predict`` before it is fitted; others have one without being a classifier.
    return hasattr(value, "predict") or isinstance(value, ClassifierMixin)


def open_seeds(estimator: BaseEstimator) -> list[str]:
    """Names of the parameters ``random_state`` that are None, of steps that use them."""
    parameters = estimator.get_params(deep=True)
    owners = {"": estimator} | {k: v for k, v in parameters.items() if hasattr(v, "get_params")}
    found = []
    for name, owner in owners.items():
        own = owner.get_params(deep=False)
        if "random_state" in own and own["random_state"] is None and not _ignores_seed(owner):
            found.append(f"{name}__random_state" if name else "random_state")
    return found


def _ignores_seed(estimator: BaseEstimator) -> bool:
    """Whether an estimator does not use its ``random_state``."""
    if isinstance(estimator, LogisticRegression):
        return bool(estimator.solver in ("lbfgs", "newton-cg", "newton-cholesky"))
    # The default is a string since scikit-learn 1.8.
    return isinstance(estimator, SVC) and estimator.probability is not True


def with_seed(estimator: BaseEstimator, seed: int | None) -> BaseEstimator:
    """Clone an estimator and set its open seeds."""
    fresh = clone(estimator)
    if seed is not None:
        fresh.set_params(**dict.fromkeys(open_seeds(fresh), seed))
    return fresh


def steps_of(estimator: Any) -> Iterator[Any]:
    """Iterate over the steps of a pipeline, also inside a search, or the estimator itself."""
    inner = getattr(estimator, "estimator", None)
    if inner is not None and hasattr(inner, "get_params"):
        yield from steps_of(inner)
    elif isinstance(estimator, Pipeline):
        for _, step in estimator.steps:
            yield from steps_of(step)
    else:
        yield estimator
