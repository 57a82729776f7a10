"""Estimators that each break the contract in one way, to prove that each check can fail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from spdtokens import Recentring, TokenDiscriminantClassifier, TokenEmbedding
from tests.contract.contract import MATRICES, Case

_calls = iter(range(1, 10**6))


class Sound(TokenDiscriminantClassifier):
    """Keeps the contract."""

    def __init__(
        self, embedding: Any = "log_euclidean", *, ridge: float = 0.012, gains: Any = None
    ):
        super().__init__(embedding, ridge=ridge, gains=gains)


class LosesIntercept(Sound):
    """Has a name that pickle can find."""

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        return state | {"intercept_": 0 * state.get("intercept_", np.zeros(2))}


class MakesNoFrames(TokenEmbedding, auto_wrap_output_keys=None):
    pass


class PeeksAtLabels(TokenEmbedding):
    def fit(self, X: Any, y: Any = None) -> Any:
        self.first_ = 0.0 if y is None else float(np.asarray(y)[0])
        return super().fit(X, y)

    def tokens(self, X: Any) -> Any:
        return super().tokens(X) + self.first_


def broken(name: str, change: Callable[..., Any], base: type = Sound) -> type:
    """A subclass that calls ``change(self, original method, ...)`` in place of one method."""
    original = getattr(base, name)

    @wraps(original)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        return change(self, partial(original, self), *args, **params)

    return type("Broken", (base,), {name: method})


def before_fit(change: Callable[..., Any]) -> type:
    """A sound estimator, fitted to what ``change(X, y)`` returns."""
    return broken("fit", lambda _, fit, X, y, **params: fit(*change(X, y), **params))


def after_fit(change: Callable[[Any], Any]) -> type:
    """A sound estimator whose ``fit`` returns ``change(self)``."""
    return broken("fit", lambda _, fit, X, y, **params: change(fit(X, y, **params)))


def weighted(change: Callable[[Any], Any]) -> type:
    """A sound estimator, fitted with other weights."""

    def fit(_: Any, fit: Any, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        weight = None if sample_weight is None else change(sample_weight)
        return fit(X, y, sample_weight=weight, **params)

    return broken("fit", fit)


def _with(made: Any, **attributes: Any) -> Any:
    vars(made).update(attributes)
    return made


def _sets_more(self: Any, init: Any, *args: Any, **params: Any) -> None:
    init(*args, **params)
    self.ready = True


def _looks_at_values(_: Any, init: Any, *args: Any, ridge: Any = 0.012, **params: Any) -> None:
    init(*args, ridge=ridge, **params)
    if ridge is not None and not isinstance(ridge, float):
        raise ValueError("ridge")


def _says_two_dimensional(_: Any, tags: Any) -> Any:
    found = tags()
    found.input_tags.two_d_array = True
    return found


def _remembers(self: Any, fit: Any, X: Any, y: Any, **params: Any) -> Any:
    before = vars(self).get("classes_")
    return _with(fit(X, y, **params), **({} if before is None else {"before_": before}))


def _adds_up(self: Any, fit: Any, X: Any, y: Any, **params: Any) -> Any:
    before = getattr(self, "intercept_", np.zeros(3))[:2].mean()
    fit(X, y, **params)
    return _with(self, intercept_=self.intercept_ + before * np.eye(len(self.intercept_))[0])


def _wants_row(X: Any, y: Any) -> Any:
    if np.ndim(y) != 1:
        raise ValueError("y")
    return X, y


def _wants_two_trials(X: Any, y: Any) -> Any:
    assert len(X) > 1
    return X, y


def _draws_numbers(X: Any, y: Any) -> Any:
    np.random.rand()  # noqa: NPY002
    return X, y


def _turns_input_around(_: Any, predict_proba: Any, X: Any) -> Any:
    X[:] = X[::-1]
    return predict_proba(X)


def _mended(X: Any) -> Any:
    """A number in place of NaN and infinity."""
    usable = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    return np.nan_to_num(X, nan=100.0, posinf=100.0) if usable else X


def _cuts_trials(X: Any, y: Any) -> Any:
    return X[: len(X) if y is None or np.ndim(y) == 0 else len(y)], y


def _rounds(X: Any, y: Any) -> Any:
    return np.asarray(X) / (1.1 if np.asarray(X).dtype == np.float32 else 1), y


def _scores(change: Callable[[Any], Any]) -> type:
    """A sound estimator with other scores."""
    return broken("decision_function", lambda _, scores, X: change(scores(X)))


#: Which check each must fail.
BROKEN: list[tuple[str, Any]] = [
    ("constructor_only_stores_parameters", broken("__init__", _sets_more)),
    ("constructor_only_stores_parameters", broken("__init__", _looks_at_values)),
    ("get_and_set_params", broken("set_params", lambda self, _, **params: _with(self, **params))),
    ("clone", type("ClonesItself", (Sound,), {"__sklearn_clone__": lambda self: self})),
    (
        "repr_shows_changed_parameters",
        broken("__repr__", lambda self, _, **__: f"{type(self).__name__}(ridge={self.ridge})"),
    ),
    ("html", type("HasNoHtml", (Sound,), {"_repr_html_": None})),
    ("tags", broken("__sklearn_tags__", _says_two_dimensional)),
    ("fit_returns_self", after_fit(lambda _: None)),
    ("fit_keeps_parameters", after_fit(lambda made: _with(made, ridge=0.1))),
    ("input_is_not_changed", before_fit(lambda X, y: (np.multiply(X, 2, out=X), y))),
    ("input_is_not_changed", broken("predict_proba", _turns_input_around)),
    ("fit_sets_names_with_an_underscore", after_fit(lambda made: _with(made, done=True))),
    (
        "fit_is_idempotent",
        after_fit(lambda m: _with(m, intercept_=np.add(m.intercept_, [next(_calls), 0]))),
    ),
    ("fit_forgets_earlier_fits", broken("fit", _remembers)),
    ("fit_forgets_earlier_fits", broken("fit", _adds_up)),
    ("chance_of_others_is_left_alone", before_fit(_draws_numbers)),
    ("n_features_in", after_fit(lambda made: _with(made, n_features_in_=16))),
    (
        "unfitted_is_refused",
        broken("predict", lambda self, _, X: self.classes_[self.predict_proba(X).argmax(1)]),
    ),
    (
        "methods_do_not_change_the_estimator",
        broken("predict_proba", lambda self, p, X: p(_with(self, last_=X).last_)),
    ),
    ("subset_invariance", _scores(lambda scores: scores - scores.mean())),
    ("order_invariance", _scores(lambda scores: scores + np.arange(len(scores)))),
    (
        "prefix_gives_prefix",
        broken("transform", lambda _, transform, X: transform(X / X.mean()), Recentring),
    ),
    (
        "prefix_gives_prefix",
        broken("transform", lambda _, f, X: np.concatenate([f(x[None]) for x in X]), Recentring),
    ),
    ("pickle", LosesIntercept),
    ("bad_trials_are_refused_by_fit", before_fit(lambda X, y: (_mended(X), y))),
    (
        "bad_trials_are_refused_by_methods",
        broken("predict_proba", lambda _, p, X: p(_mended(X))),
    ),
    (
        "other_shapes_are_refused_by_methods",
        broken(
            "_checked",
            lambda self, check, X: check(X[..., : self.n_features_in_, : self.n_features_in_]),
        ),
    ),
    ("array_likes", before_fit(lambda X, y: (X.astype(float), y))),
    ("array_likes", before_fit(_rounds)),
    ("one_trial_and_one_channel", before_fit(_wants_two_trials)),
    ("labels_of_any_kind", before_fit(lambda X, y: (X, np.asarray(y).astype(int)))),
    ("bad_labels_are_refused", before_fit(_cuts_trials)),
    ("labels_in_a_column", before_fit(_wants_row)),
    ("labels_do_not_matter", PeeksAtLabels),
    ("decisions_agree", _scores(np.negative)),
    ("decisions_agree", broken("predict_proba", lambda _, p, X: 2 * p(X))),
    ("learns", broken("predict_proba", lambda _, __, X: np.full((len(X), 2), 0.5))),
    ("weights", weighted(lambda _: None)),
    ("weights", weighted(lambda w: np.divide(w, w.sum(), out=w) if hasattr(w, "dtype") else w)),
    ("weight_zero_leaves_a_trial_out", weighted(lambda weight: np.maximum(weight, 0.1))),
    ("weight_two_is_a_trial_twice", weighted(np.sqrt)),
    (
        "unknown_fit_parameters_are_refused",
        broken("fit", lambda _, fit, X, y, **params: fit(X, y)),  # noqa: ARG005
    ),
    (
        "groups",
        broken("fit", lambda _, fit, X, y, groups=None, **params: fit(X, y, **params)),  # noqa: ARG005
    ),
    ("fit_transform", broken("fit_transform", lambda _, f, *data: 2 * f(*data), TokenEmbedding)),
    ("containers", MakesNoFrames),
    (
        "feature_names",
        broken("get_feature_names_out", lambda _, f: np.full_like(f(), "token"), TokenEmbedding),
    ),
]


def broken_case(kind: type) -> Case:
    """A case that says of a broken estimator what is true of the sound one."""
    if issubclass(kind, Recentring):
        return Case(kind.__name__, kind, MATRICES, in_time=True, own_training_output=True)
    return Case(kind.__name__, kind, MATRICES, counts=issubclass(kind, Sound))
