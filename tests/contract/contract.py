"""What scikit-learn's ``check_estimator`` tests, for signals and SPD matrices instead of tables.

A :class:`Case` is an estimator with the kind of input it takes. Each function ``check_...`` takes a
case and raises if the estimator breaks the contract; :func:`checks_for` says which apply.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

SFREQ = 100.0
OUTPUTS = ("predict", "predict_proba", "decision_function", "transform", "tokens")
#: Kinds of input.
SIGNALS, MATRICES, SEVERAL, TOKENS, ROWS = "signals", "matrices", "several", "tokens", "token rows"


@dataclass(frozen=True, eq=False)
class Case:
    """An estimator, and what is true of it by nature.

    Attributes
    ----------
    name : str
    make : callable
        Returns the estimator, not fitted.
    kind : str
        Of its input.
    needs_labels : bool
        Whether a transformer is fitted to labels.
    learning : mapping
        Parameters with which a classifier learns; those of ``make`` are chosen for speed.
    atol : float
        How far two ways to compute one number may differ: single precision in networks.
    keeps_single : bool
        Input in single precision gives output in single precision, as documented.
    in_time : bool
        The output for a trial depends on the trials before it: a filter in time. Then a prefix of
        the input gives a prefix of the output, in place of invariance to order and subset.
    own_training_output : bool
        ``fit_transform(X)`` differs from ``fit(X).transform(X)``, as documented.
    fitted_without_weights : bool
        A step that takes no weights is fitted to all trials, so that one of weight 0 still counts.
    counts : bool
        A weight of 2 is a trial that is there twice. Not so where the embedding has a reference or
        a drift, which are means over trials without weights.
    """

    name: str
    make: Callable[[], Any]
    kind: str
    needs_labels: bool = False
    learning: Mapping[str, Any] = field(default_factory=dict)
    atol: float = 1e-9
    keeps_single: bool = False
    in_time: bool = False
    own_training_output: bool = False
    fitted_without_weights: bool = False
    counts: bool = False

    def data(self, seed: int = 0, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Trials and labels 0, 1, ..."""
        return make_data(self.kind, seed, **options)

    def fitted(self) -> Any:
        """The estimator fitted to ``data()``: to be looked at, not changed."""
        return _fitted(self)

    def new(self) -> np.ndarray:
        """Trials that the estimator was not fitted to."""
        return self.data(seed=1, n=10)[0]

    def outputs(self, *data: Any, **params: Any) -> dict[str, np.ndarray]:
        """Outputs for the new trials, of an estimator fitted to ``data`` or as usual."""
        made = self.make().fit(*data, **params) if data else self.fitted()
        return outputs(made, self.new())

    def assert_same(self, found: Any, expected: Any = None, atol: float | None = None) -> None:
        """Outputs, or those of an estimator for the new trials, are as usual or as expected."""
        if isinstance(found, BaseEstimator):
            found = outputs(found, self.new())
        expected = self.outputs() if expected is None else expected
        assert_same(found, expected, self.atol if atol is None else atol)


@cache
def _fitted(case: Case) -> Any:
    return case.make().fit(*case.data())


@cache
def _made(kind: str, seed: int, n: int, k: int, d: int, m: int, samples: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, n, k, d])
    y = np.arange(n) % k
    t = np.arange(samples) / SFREQ
    X = rng.standard_normal((n, d, samples))
    for c in range(k):  # classes differ in variances, rhythms and potentials
        X[y == c, c] *= 1.5
        X[y == c, c] += 2 * np.sin(2 * np.pi * (10 + 5 * c) * t)
        X[y == c] += (1 + np.arange(d))[:, None] * np.exp(-(((t - 0.3 - 0.2 * c) / 0.05) ** 2))
    if kind == SIGNALS:
        return X, y
    C = np.stack([part @ part.swapaxes(1, 2) / len(t) for part in np.array_split(X, m, -1)], axis=1)
    if kind == MATRICES:
        return C[:, 0], y
    if kind == SEVERAL:
        return C, y
    rows = np.log(C[..., *np.triu_indices(d)] + 10)
    return (rows[:, 0] if kind == TOKENS else rows), y


def make_data(
    kind: str, seed: int = 0, *, n: int = 24, k: int = 2, d: int = 4, samples: int = 150, m: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Trials of a kind: ``n`` of ``k`` classes, ``d`` channels or rows; and their labels."""
    m = m if kind in (SEVERAL, ROWS) else 1
    X, y = _made(kind, seed, n, k, d, m, samples)
    return X.copy(), y.copy()


def outputs(estimator: Any, X: Any) -> dict[str, np.ndarray]:
    """What each method of an estimator gives."""
    return {name: getattr(estimator, name)(X) for name in OUTPUTS if hasattr(estimator, name)}


def assert_same(
    found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], atol: float, of: str = ""
) -> None:
    """Outputs that do not differ."""
    assert found.keys() == expected.keys()
    assert found
    for name, value in expected.items():
        if np.asarray(value).dtype.kind == "f":
            assert_allclose(found[name], value, rtol=1e-9, atol=atol, err_msg=f"{of}: {name}")
        else:
            assert_array_equal(found[name], value, err_msg=f"{of}: {name}")


def takes(estimator: Any, name: str) -> bool:
    """Whether ``fit`` takes a parameter; a pipeline does if one of its steps does."""
    if isinstance(estimator, Pipeline):
        return any(takes(step, name) for _, step in estimator.steps)
    return bool(has_fit_parameter(estimator, name))


def is_transformer(estimator: Any) -> bool:
    return hasattr(estimator, "transform")


def names_features(estimator: Any) -> bool:
    """Whether what a transformer gives has names; a pipeline has the method in any case."""
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    return all(hasattr(step, "get_feature_names_out") for step in steps)


# --- parameters ---------------------------------------------------------------------------------


def check_constructor_only_stores_parameters(case: Case) -> None:
    made = case.make()
    parameters = made.get_params(deep=False)
    assert set(vars(made)) == set(parameters)
    assert all(getattr(made, name) is value for name, value in parameters.items())
    kinds = {p.kind for p in inspect.signature(type(made)).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    # Values are not looked at, let alone replaced, before `fit`.
    for odd in (None, -3, "nonsense", [], {}):
        strange = type(made)(**dict.fromkeys(parameters, odd))
        assert all(getattr(strange, name) is odd for name in parameters)


def check_get_and_set_params(case: Case) -> None:
    made = case.make()
    shallow, deep = made.get_params(deep=False), made.get_params(deep=True)
    assert shallow.items() <= deep.items()
    before = joblib.hash(shallow)
    assert made.set_params(**deep) is made
    assert joblib.hash(made.get_params(deep=False)) == before
    with pytest.raises(ValueError, match="nonsense"):
        made.set_params(nonsense=1)
    for name in shallow:
        changed = case.make()
        value = object()
        assert changed.set_params(**{name: value}) is changed
        assert changed.get_params(deep=False)[name] is value
    for name in deep.keys() - shallow.keys():
        if "__" in name:
            assert case.make().set_params(**{name: None}).get_params()[name] is None


def check_clone(case: Case) -> None:
    for original in (case.make(), case.fitted()):
        twin = clone(original)
        assert type(twin) is type(original)
        for name, value in original.get_params().items():
            if isinstance(value, BaseEstimator):
                assert twin.get_params()[name] is not value
            else:
                assert repr(twin.get_params()[name]) == repr(value), name
        with pytest.raises(NotFittedError):
            check_is_fitted(twin)
    case.assert_same(clone(case.fitted()).fit(*case.data()))


def check_repr_shows_changed_parameters(case: Case) -> None:
    made = case.make()
    text = made.__repr__(N_CHAR_MAX=10**6)
    assert text.startswith(type(made).__name__ + "(")
    for name, parameter in inspect.signature(type(made)).parameters.items():
        value = getattr(made, name)
        kept = value is parameter.default or repr(value) == repr(parameter.default)
        shown = re.search(rf"\b{name}=", text) is not None
        assert shown is not kept, name
    assert repr(case.fitted()).startswith(type(made).__name__ + "(")


def check_html(case: Case) -> None:
    for estimator in (case.make(), case.fitted()):
        html = estimator_html_repr(estimator)
        assert type(estimator).__name__ in html
        for _, step in getattr(estimator, "steps", []):
            assert type(step).__name__ in html
        assert "<div" in estimator._repr_html_()
        assert set(estimator._repr_mimebundle_()) == {"text/plain", "text/html"}


def check_tags(case: Case) -> None:
    tags = get_tags(case.make())
    assert is_classifier(case.make()) is hasattr(case.make(), "predict")
    assert tags.input_tags.two_d_array is (case.kind in (TOKENS, ROWS))
    assert tags.input_tags.three_d_array is (case.kind not in (TOKENS, ROWS))
    assert tags.target_tags.required is (case.needs_labels or is_classifier(case.make()))
    assert tags.requires_fit


# --- fit ----------------------------------------------------------------------------------------


def check_fit_returns_self(case: Case) -> None:
    made = case.make()
    assert made.fit(*case.data()) is made


def check_fit_keeps_parameters(case: Case) -> None:
    made = case.make()
    shallow = made.get_params(deep=False)
    before = joblib.hash({k: v for k, v in made.get_params().items() if not _is_nested(v)})
    made.fit(*case.data())
    outputs(made, case.new())
    after = made.get_params()
    assert joblib.hash({k: v for k, v in after.items() if not _is_nested(v)}) == before
    if not isinstance(made, Pipeline):  # whose steps are fitted in place
        assert all(after[name] is value for name, value in shallow.items())
        assert joblib.hash(shallow) == joblib.hash(case.make().get_params(deep=False))


def _is_nested(value: Any) -> bool:
    return isinstance(value, BaseEstimator | list)


def check_input_is_not_changed(case: Case) -> None:
    (X, y), new = case.data(), case.new()
    copies = [array.copy() for array in (X, y, new)]
    outputs(case.make().fit(X, y), new)
    for array, before in zip((X, y, new), copies, strict=True):
        assert_array_equal(array, before)
        array.setflags(write=False)
    outputs(case.make().fit(X, y), new)


def check_fit_sets_names_with_an_underscore(case: Case) -> None:
    made = case.make()
    before = dict(vars(made))
    made.fit(*case.data())
    added = vars(made).keys() - before.keys()
    assert all(name.endswith("_") or name.startswith("_") for name in added), added
    assert before.keys() <= vars(made).keys()
    check_is_fitted(made)


def check_fit_is_idempotent(case: Case) -> None:
    made = case.make().fit(*case.data())
    first = outputs(made, case.new())
    case.assert_same(made.fit(*case.data()), first, 0.0)
    case.assert_same(case.make().fit(*case.data()), first, 0.0)


def check_fit_forgets_earlier_fits(case: Case) -> None:
    made, fresh = case.make(), case.fitted()
    made.fit(*case.data(seed=5, n=27, k=3, d=5, samples=160, m=3))
    case.assert_same(made.fit(*case.data()))
    assert vars(made).keys() == vars(fresh).keys()
    assert made.n_features_in_ == fresh.n_features_in_


def check_chance_of_others_is_left_alone(case: Case) -> None:
    before = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    outputs(case.make().fit(*case.data()), case.new())
    after = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert torch.equal(before[1], after[1])


def check_n_features_in(case: Case) -> None:
    assert not hasattr(case.make(), "n_features_in_")
    X = case.data()[0]
    n = X.shape[-1] if case.kind in (MATRICES, SEVERAL) else X.shape[1]
    assert case.fitted().n_features_in_ == n


def check_unfitted_is_refused(case: Case) -> None:
    made = case.make()
    names = [name for name in OUTPUTS if hasattr(made, name)]
    assert names
    for name in names:
        with pytest.raises(NotFittedError):
            getattr(made, name)(case.new())
    if names_features(made):
        with pytest.raises(NotFittedError):
            made.get_feature_names_out()


# --- what a fitted estimator gives ----------------------------------------------------------------


def check_methods_do_not_change_the_estimator(case: Case) -> None:
    made = case.make().fit(*case.data())
    before = joblib.hash(made)
    found = outputs(made, case.new())
    assert joblib.hash(made) == before
    case.assert_same(made, found, 0.0)


def check_subset_invariance(case: Case) -> None:
    new, whole = case.new(), case.outputs()
    for size in (1, 3):
        parts = [outputs(case.fitted(), new[i : i + size]) for i in range(0, len(new), size)]
        case.assert_same({name: np.concatenate([p[name] for p in parts]) for name in whole})


def check_order_invariance(case: Case) -> None:
    new = case.new()
    order = np.random.default_rng(0).permutation(len(new))
    expected = {name: value[order] for name, value in case.outputs().items()}
    case.assert_same(outputs(case.fitted(), new[order]), expected)


def check_prefix_gives_prefix(case: Case) -> None:
    """Of a filter in time: a trial is seen from those before it, never from those after it."""
    new, whole = case.new(), case.outputs()
    for size in (1, 4, len(new)):
        expected = {name: value[:size] for name, value in whole.items()}
        case.assert_same(outputs(case.fitted(), new[:size]), expected)
    # The exemption from the two checks above is needed: the past does matter.
    backwards = outputs(case.fitted(), new[::-1])
    numbers = [name for name, value in whole.items() if value.dtype.kind == "f"]
    assert numbers
    assert not any(np.allclose(backwards[name][::-1], whole[name]) for name in numbers)


def check_pickle(case: Case) -> None:
    for twin in (pickle.loads(pickle.dumps(case.fitted())), copy.deepcopy(case.fitted())):
        case.assert_same(twin, atol=0.0)
    case.assert_same(pickle.loads(pickle.dumps(case.make())).fit(*case.data()))


# --- input ----------------------------------------------------------------------------------------


def bad_trials(X: np.ndarray, kind: str) -> dict[str, Any]:
    """Inputs that are no trials, by what is wrong with them."""

    def with_value(value: Any, dtype: Any = float) -> np.ndarray:
        found = X.astype(dtype)
        found[2].flat[5] = value
        return found

    bad: dict[str, Any] = {
        "0-D": np.float64(1.0),
        "1-D": X.ravel(),
        "no trials": X[:0],
        "no samples": X[..., :0],
        "NaN": with_value(np.nan),
        "infinity": with_value(np.inf),
        "complex": X * (1 + 1j),
        "text": np.full(X.shape, "word"),
        "objects": with_value("word", object),
        "None": None,
        "ragged": [X[0].tolist(), X[1][:-1].tolist()],
    }
    if kind in (TOKENS, ROWS):
        return bad | {"4-D": X.reshape(len(X), 1, 1, -1)}
    bad |= {
        "2-D": X.reshape(len(X), -1),
        "5-D": X.reshape(len(X), -1, 1, *X.shape[-2:]),
        "one trial": X[0, 0] if kind == SEVERAL else X[0],
        "no channels": X[..., :0, :],
        "a mapping": {"X": 1},  # of tables scikit-learn says TypeError
        "sparse": scipy.sparse.csr_array(X.reshape(len(X), -1)),
    }
    if kind in (MATRICES, SEVERAL):
        skew, singular, negative = X.copy(), X.copy(), X.copy()
        skew[2, ..., 0, 1] *= -1
        singular[2, ..., 1, :], singular[2, ..., :, 1] = 0, 0
        negative[2] *= -1
        bad |= {"skew": skew, "singular": singular, "negative": negative}
        bad |= {"not square": X[..., :-1]}
    return bad


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Like ``pytest.raises(ValueError)``, but the failure says of what."""
    try:
        yield
    except Exception as error:
        explained = isinstance(error, ValueError) and str(error).strip()
        if not explained or isinstance(error, NotFittedError):
            raise AssertionError(f"{what}: {error!r}") from error
    else:
        raise AssertionError(f"{what}: not refused")


def refused_by_fit(case: Case, what: str, X: Any, y: Any, **params: Any) -> None:
    for method in ("fit", "fit_transform"):
        if hasattr(case.make(), method):
            with refused(f"{method}: {what}"):
                getattr(case.make(), method)(X, y, **params)


def refused_by_methods(case: Case, what: str, X: Any) -> None:
    for method in case.outputs():
        with refused(f"{method}: {what}"):
            getattr(case.fitted(), method)(X)


def check_bad_trials_are_refused_by_fit(case: Case) -> None:
    X, y = case.data()
    for name, bad in bad_trials(X, case.kind).items():
        refused_by_fit(case, name, bad, y)


def check_bad_trials_are_refused_by_methods(case: Case) -> None:
    for name, bad in bad_trials(case.data()[0], case.kind).items():
        refused_by_methods(case, name, bad)


def check_other_shapes_are_refused_by_methods(case: Case) -> None:
    others = [case.data(d=5)[0], case.data(d=3)[0]]
    if case.kind == SIGNALS:
        others.append(case.data(samples=120)[0])
    if case.kind in (SEVERAL, ROWS):
        others += [case.data(m=3)[0], case.data(m=2)[0][:, :1]]
    if case.kind == MATRICES:
        others.append(make_data(SEVERAL)[0])
    for other in others:
        refused_by_methods(case, str(other.shape), other)


class ArrayLike:
    """What is no array, and can be made one."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.data if dtype is None else self.data.astype(dtype)


def check_array_likes(case: Case) -> None:
    X, y = case.data()
    X = np.round(256 * X)  # which every type can hold
    new = np.round(256 * case.new())
    expected = outputs(case.make().fit(X, y), new)
    with tempfile.TemporaryDirectory() as folder:

        def mapped(array: np.ndarray) -> np.ndarray:
            file = Path(folder) / f"{len(array)}.npy"
            np.save(file, array)
            return np.load(file, mmap_mode="r")

        forms: dict[str, Callable[[np.ndarray], Any]] = {
            "lists": np.ndarray.tolist,
            "single precision": lambda a: a.astype(np.float32),
            "whole numbers": lambda a: a.astype(np.int64),
            "Fortran order": np.asfortranarray,
            "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
            "mapped, read-only": mapped,
            "objects that are numbers": lambda a: a.astype(object),
            "array-like": ArrayLike,
        }
        for name, form in forms.items():
            made = case.make().fit(form(X), y.tolist() if name == "lists" else y)
            found = outputs(made, form(new))
            if name == "single precision" and case.keeps_single:
                for output, value in expected.items():
                    assert found[output].dtype == np.float32
                    near = 1e-5 * np.abs(value).max()
                    assert_allclose(found[output], value, rtol=0, atol=near, err_msg=output)
            else:
                assert_same(found, expected, case.atol, name)


def check_one_trial_and_one_channel(case: Case) -> None:
    """Either works, or is refused in words."""
    X, y = case.data()
    one = X[..., :1, :1] if case.kind in (MATRICES, SEVERAL) else X[:, :1]
    for trials, labels in ((X[:1], y[:1]), (X[..., :1] if case.kind == ROWS else one, y)):
        made = case.make()
        try:
            made.fit(trials, labels)
        except ValueError:
            continue
        for value in outputs(made, trials).values():
            assert value.dtype.kind != "f" or np.isfinite(value).all()


# --- labels ---------------------------------------------------------------------------------------


def check_labels_of_any_kind(case: Case) -> None:
    X, y = case.data()
    kinds: list[tuple[Any, Any]] = [
        (["left", "right"], np.asarray),
        (np.array(["left", "right"], dtype=object), np.asarray),
        ([-5, 7], np.asarray),
        ([False, True], np.asarray),
        ([1.0, 2.0], np.asarray),
        (["a", "b"], list),
        (["a", "b"], lambda labels: pd.Series(labels, index=range(5, 5 + len(labels)))),
    ]
    for classes, form in kinds:
        values = np.asarray(classes)
        labels = form(values[y])
        made = case.make().fit(X, labels)
        found = outputs(made, case.new())
        if "predict" in found:
            assert_array_equal(made.classes_, values)
            assert made.classes_.dtype == found["predict"].dtype == np.asarray(labels).dtype
            found["predict"] = np.searchsorted(values, found["predict"])
        case.assert_same(found)


def check_bad_labels_are_refused(case: Case) -> None:
    X, y = case.data()
    missing = np.where(np.arange(len(y)) == 3, np.nan, y.astype(float))
    bad: dict[str, Any] = {
        "none": None,
        "too few": y[:-1],
        "too many": np.append(y, 0),
        "2-D": np.stack([y, y], axis=1),
        "one class": np.zeros_like(y),
        "a number": 1,
        "NaN": missing,
        "infinity": np.where(np.isnan(missing), np.inf, missing),
        "continuous": np.linspace(0, 1, len(y)),
    }
    for name, labels in bad.items():
        refused_by_fit(case, name, X, labels)


def check_labels_in_a_column(case: Case) -> None:
    X, y = case.data()
    with pytest.warns(DataConversionWarning):
        made = case.make().fit(X, y[:, None])
    case.assert_same(made)


def check_labels_do_not_matter(case: Case) -> None:
    X, y = case.data()
    for labels in ((), (None,), (y[::-1],)):
        case.assert_same(case.make().fit(X, *labels), atol=0.0)


# --- classifiers ----------------------------------------------------------------------------------


def check_decisions_agree(case: Case) -> None:
    for k in (2, 3):
        made = case.make().fit(*case.data(k=k))
        new = case.data(seed=1, n=12, k=k)[0]
        labels, p, scores = (getattr(made, name)(new) for name in OUTPUTS[:3])
        assert_array_equal(made.classes_, np.arange(k))
        assert p.shape == (12, k)
        assert_allclose(p.sum(1), 1, atol=1e-6)
        assert p.min() >= 0
        assert_array_equal(labels, p.argmax(1))
        if k == 2:
            assert scores.shape == (12,)
            assert_array_equal(labels, (scores > 0).astype(int))
            # The same ranks: to threshold one is to threshold the other.
            order = np.argsort(scores)
            assert (np.diff(p[order, 1]) >= -1e-7).all()
        else:
            assert scores.shape == (12, 3)
            assert_array_equal(labels, scores.argmax(1))


def check_learns(case: Case) -> None:
    made = case.make().set_params(**case.learning)
    X, y = case.data(n=40, k=2)
    assert made.fit(X, y).score(X, y) > 0.83
    assert made.score(X, y) == pytest.approx(np.mean(made.predict(X) == y))
    X, y = case.data(seed=1, n=20)
    assert made.score(X, y.tolist()) > 0.7


def check_weights(case: Case) -> None:
    X, y = case.data()
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    before = w.copy()
    expected = case.outputs(X, y, sample_weight=w)
    assert_array_equal(w, before)
    for name, value in case.outputs().items():
        assert name == "predict" or not np.allclose(value, expected[name]), "weights do not matter"
    for same in (w.tolist(), pd.Series(w, index=range(9, 9 + len(w))), 4 * w, ArrayLike(w)):
        case.assert_same(case.outputs(X, y, sample_weight=same), expected)
    for ones in (None, np.ones(len(y)), np.full(len(y), 3)):
        case.assert_same(case.outputs(X, y, sample_weight=ones))
    bad: dict[str, Any] = {
        "too few": w[:-1],
        "2-D": w[:, None],
        "negative": -w,
        "NaN": np.full(len(w), np.nan),
        "all zero": np.zeros(len(w)),
        "none of a class": (y == 1).astype(float),
    }
    for name, weights in bad.items():
        refused_by_fit(case, name, X, y, sample_weight=weights)


def check_weight_zero_leaves_a_trial_out(case: Case) -> None:
    X, y = case.data()
    some = np.random.default_rng(1).permutation(len(y)) % 4 > 0
    # The second leaves a stretch of time without a class.
    for kept in (some, (y != 0) | (np.arange(len(y)) < 5)):
        left = case.outputs(X, y, sample_weight=kept.astype(float))
        case.assert_same(left, case.outputs(X[kept], y[kept]))


def check_weight_two_is_a_trial_twice(case: Case) -> None:
    """Up to the temperature, for which the two are other folds: as for scikit-learn's own
    ``CalibratedClassifierCV``, which is exempt from its check."""
    X, y = case.data()
    times = np.random.default_rng(2).integers(1, 4, len(y))
    weighted, repeated, plain = (
        score / np.linalg.norm(score)
        for score in (
            case.outputs(X, y, sample_weight=times)["decision_function"],
            case.outputs(X.repeat(times, axis=0), y.repeat(times))["decision_function"],
            case.outputs()["decision_function"],
        )
    )
    assert_allclose(weighted, repeated, atol=case.atol)
    assert not np.allclose(weighted, plain)


def check_unknown_fit_parameters_are_refused(case: Case) -> None:
    """Rather than ignored."""
    X, y = case.data()
    unknown = [name for name in ("sample_weight", "groups") if not takes(case.make(), name)]
    for name in ("nonsense", *unknown):
        for method in ("fit", "fit_transform"):
            made = case.make()
            if hasattr(made, method):
                with pytest.raises((TypeError, ValueError), match=name):
                    getattr(made, method)(X, y, **{name: np.ones(len(y))})


def check_groups(case: Case) -> None:
    X, y = case.data()
    groups = np.arange(len(y)) // 4
    named = case.outputs(X, y, groups=[f"group {g}" for g in groups])
    case.assert_same(case.outputs(X, y, groups=groups), named)
    refused_by_fit(case, "too few", X, y, groups=groups[:-1])


# --- transformers ---------------------------------------------------------------------------------


def check_fit_transform(case: Case) -> None:
    X, y = case.data()
    at_once = case.make().fit_transform(X, y)
    apart = case.fitted().transform(X)
    assert at_once.shape == apart.shape
    if case.own_training_output:
        assert not np.allclose(at_once, apart)  # else the exemption is not needed
    else:
        assert_allclose(at_once, apart, rtol=1e-9, atol=case.atol)
    made = case.make()
    made.fit_transform(X, y)
    case.assert_same(made)


def check_containers(case: Case) -> None:
    """A table becomes a frame where that is asked for; matrices stay an array."""
    (X, y), new = case.data(), case.new()
    expected = case.fitted().transform(new)
    for ask in ("globally", "here"):
        with config_context(transform_output="pandas" if ask == "globally" else "default"):
            made = case.make()
            if ask == "here":
                assert made.set_output(transform="pandas") is made
            found = made.fit(X, y).transform(new)
            again = made.fit_transform(X, y)
        if expected.ndim == 2:
            assert isinstance(found, pd.DataFrame)
            assert isinstance(again, pd.DataFrame)
            last = made[-1] if isinstance(made, Pipeline) else made  # which sees arrays, no names
            assert list(found.columns) == list(last.get_feature_names_out())
        else:
            assert isinstance(found, np.ndarray)
            assert isinstance(again, np.ndarray)
        assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=case.atol)


def check_feature_names(case: Case) -> None:
    made = case.fitted()
    shape = made.transform(case.new()).shape
    wanted = {2: shape[1], 3: 1, 4: shape[1]}[len(shape)]  # columns of a table, or matrices
    names = made.get_feature_names_out()
    assert names.dtype == object
    assert names.shape == (wanted,)
    assert len(set(names)) == wanted
    assert all(isinstance(name, str) for name in names)


# --- which apply ----------------------------------------------------------------------------------

Check = Callable[[Case], None]
CHECKS: dict[str, Check] = {
    name.removeprefix("check_"): value
    for name, value in list(globals().items())
    if name.startswith("check_") and inspect.isfunction(value) and value.__module__ == __name__
}
_OF_CLASSIFIERS = {"decisions_agree", "learns", "labels_in_a_column"}
_OF_TRANSFORMERS = {"fit_transform", "containers"}


def checks_for(case: Case) -> list[str]:
    """Names of the checks that apply to a case."""
    made = case.make()
    classifier, labels = is_classifier(made), is_classifier(made) or case.needs_labels
    apply = {
        **dict.fromkeys(CHECKS, True),
        **dict.fromkeys(_OF_CLASSIFIERS, classifier),
        **dict.fromkeys(_OF_TRANSFORMERS, is_transformer(made)),
        "feature_names": names_features(made),
        "subset_invariance": not case.in_time,
        "order_invariance": not case.in_time,
        "prefix_gives_prefix": case.in_time,
        "bad_labels_are_refused": labels,
        "labels_do_not_matter": not labels,
        "groups": takes(made, "groups"),
        "weights": takes(made, "sample_weight"),
        "weight_zero_leaves_a_trial_out": takes(made, "sample_weight")
        and not case.fitted_without_weights,
        "weight_two_is_a_trial_twice": case.counts,
    }
    return [name for name in CHECKS if apply[name]]
