"""Estimators that each break the contract in one way, to prove that each check can fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdtokens import Recentring, TokenDiscriminantClassifier, TokenEmbedding
from tests.contract.contract import MATRICES, Case

_calls = iter(range(1, 10**6))


def _mended(X: Any) -> Any:
    """A number in place of NaN and infinity."""
    usable = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    return np.nan_to_num(X, nan=100.0, posinf=100.0) if usable else X


class Sound(TokenDiscriminantClassifier):
    """Keeps the contract."""

    def __init__(
        self, embedding: Any = "log_euclidean", *, ridge: float = 0.012, gains: Any = None
    ):
        super().__init__(embedding, ridge=ridge, gains=gains)


class SetsMore(Sound):
    def __init__(
        self, embedding: Any = "log_euclidean", *, ridge: float = 0.012, gains: Any = None
    ):
        super().__init__(embedding, ridge=ridge, gains=gains)
        self.ready = True


class LooksAtValues(Sound):
    def __init__(
        self, embedding: Any = "log_euclidean", *, ridge: float = 0.012, gains: Any = None
    ):
        super().__init__(embedding, ridge=ridge, gains=gains)
        if ridge is not None and not isinstance(ridge, float):
            raise ValueError("ridge")


class SetsAnything(Sound):
    def set_params(self, **params: Any) -> Any:
        for name, value in params.items():
            setattr(self, name, value)
        return self


class ClonesItself(Sound):
    def __sklearn_clone__(self) -> Any:
        return self


class ShowsAll(Sound):
    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"ShowsAll(embedding={self.embedding!r}, ridge={self.ridge}, gains={self.gains})"


class HasNoHtml(Sound):
    _repr_html_ = None


class SaysTwoDimensional(Sound):
    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class ReturnsNothing(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        super().fit(X, y, *more, **params)


class ChangesParameter(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        self.ridge = 0.1
        return super().fit(X, y, *more, **params)


class ChangesInput(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        X *= 2
        return super().fit(X, y, *more, **params)


class ChangesInputToPredict(Sound):
    def predict_proba(self, X: Any) -> Any:
        X[:] = X[::-1]
        return super().predict_proba(X)


class SetsPublicName(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        self.done = True
        return super().fit(X, y, *more, **params)


class DiffersEachTime(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        super().fit(X, y, *more, **params)
        self.intercept_ = self.intercept_ + np.array([1e-3 * next(_calls), 0])
        return self


class Remembers(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        before = getattr(self, "classes_", None)
        super().fit(X, y, *more, **params)
        if before is not None:
            self.before_ = before
        return self


class AddsUp(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        before = getattr(self, "intercept_", np.zeros(3))[:2].mean()
        super().fit(X, y, *more, **params)
        self.intercept_ = self.intercept_ + before * np.eye(len(self.intercept_))[0]
        return self


class DrawsNumbers(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        np.random.rand()  # noqa: NPY002
        return super().fit(X, y, *more, **params)


class CountsEntries(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        super().fit(X, y, *more, **params)
        self.n_features_in_ = 16
        return self


class AsksTooEarly(Sound):
    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(1)]


class KeepsTrials(Sound):
    def predict_proba(self, X: Any) -> Any:
        self.last_ = X
        return super().predict_proba(X)


class CentresTrials(Sound):
    def decision_function(self, X: Any) -> Any:
        scores = super().decision_function(X)
        return scores - scores.mean()


class NumbersTrials(Sound):
    def decision_function(self, X: Any) -> Any:
        scores = super().decision_function(X)
        return scores + np.arange(len(scores))


class KnowsTheFuture(Recentring):
    def transform(self, X: Any) -> Any:
        return super().transform(X / X.mean())


class HasNoPast(Recentring):
    def transform(self, X: Any) -> Any:
        return np.concatenate(
            [super(HasNoPast, self).transform(X[i : i + 1]) for i in range(len(X))]
        )


class LosesIntercept(Sound):
    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state["intercept_"] = 0 * state.get("intercept_", np.zeros(2))
        return state


class FitsAnything(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        X = _mended(X)
        return super().fit(X, y, *more, **params)


class PredictsAnything(Sound):
    def predict_proba(self, X: Any) -> Any:
        X = _mended(X)
        return super().predict_proba(X)


class CutsMatrices(Sound):
    def _checked(self, X: Any) -> Any:
        return super()._checked(X[..., : self.n_features_in_, : self.n_features_in_])


class WantsArrays(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        assert X.ndim
        return super().fit(X, y, *more, **params)


class Rounds(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        X = np.asarray(X)
        return super().fit(X / 1.1 if X.dtype == np.float32 else X, y, *more, **params)


class WantsTrials(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        X[1]
        return super().fit(X, y, *more, **params)


class WantsNumbers(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        return super().fit(X, np.asarray(y).astype(int), *more, **params)


class CutsTrials(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        n = len(X) if y is None or np.ndim(y) == 0 else len(y)
        return super().fit(X[:n], y, *more, **params)


class WantsRow(Sound):
    def fit(self, X: Any, y: Any, *more: Any, **params: Any) -> Any:
        if np.ndim(y) != 1:
            raise ValueError("y")
        return super().fit(X, y, *more, **params)


class PeeksAtLabels(TokenEmbedding):
    def fit(self, X: Any, y: Any = None) -> Any:
        self.first_ = 0.0 if y is None else float(np.asarray(y)[0])
        return super().fit(X, y)

    def tokens(self, X: Any) -> Any:
        return super().tokens(X) + self.first_


class TurnsAround(Sound):
    def decision_function(self, X: Any) -> Any:
        return -super().decision_function(X)


class AddsUpToTwo(Sound):
    def predict_proba(self, X: Any) -> Any:
        return 2 * super().predict_proba(X)


class Guesses(Sound):
    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), 2), 0.5)


class IgnoresWeights(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        return super().fit(X, y, groups)


class ChangesWeights(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        if isinstance(sample_weight, np.ndarray):
            sample_weight /= sample_weight.sum()
        return super().fit(X, y, groups, sample_weight)


class FloorsWeights(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        w = None if sample_weight is None else np.maximum(sample_weight, 0.1)
        return super().fit(X, y, groups, w)


class RootsWeights(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:
        return super().fit(X, y, groups, None if sample_weight is None else np.sqrt(sample_weight))


class TakesAnything(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None, **_: Any) -> Any:
        return super().fit(X, y, groups, sample_weight)


class IgnoresGroups(Sound):
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        return super().fit(X, y, sample_weight=sample_weight)


class Doubles(TokenEmbedding):
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return 2 * super().fit_transform(X, y)


class MakesNoFrames(TokenEmbedding, auto_wrap_output_keys=None):
    pass


class NamesAllAlike(TokenEmbedding):
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return np.array(
            ["token"] * len(super().get_feature_names_out(input_features)), dtype=object
        )


#: Which check each must fail.
BROKEN: list[tuple[str, Any]] = [
    ("constructor_only_stores_parameters", SetsMore),
    ("constructor_only_stores_parameters", LooksAtValues),
    ("get_and_set_params", SetsAnything),
    ("clone", ClonesItself),
    ("repr_shows_changed_parameters", ShowsAll),
    ("html", HasNoHtml),
    ("tags", SaysTwoDimensional),
    ("fit_returns_self", ReturnsNothing),
    ("fit_keeps_parameters", ChangesParameter),
    ("input_is_not_changed", ChangesInput),
    ("input_is_not_changed", ChangesInputToPredict),
    ("fit_sets_names_with_an_underscore", SetsPublicName),
    ("fit_is_idempotent", DiffersEachTime),
    ("fit_forgets_earlier_fits", Remembers),
    ("fit_forgets_earlier_fits", AddsUp),
    ("chance_of_others_is_left_alone", DrawsNumbers),
    ("n_features_in", CountsEntries),
    ("unfitted_is_refused", AsksTooEarly),
    ("methods_do_not_change_the_estimator", KeepsTrials),
    ("subset_invariance", CentresTrials),
    ("order_invariance", NumbersTrials),
    ("prefix_gives_prefix", KnowsTheFuture),
    ("prefix_gives_prefix", HasNoPast),
    ("pickle", LosesIntercept),
    ("bad_trials_are_refused_by_fit", FitsAnything),
    ("bad_trials_are_refused_by_methods", PredictsAnything),
    ("other_shapes_are_refused_by_methods", CutsMatrices),
    ("array_likes", WantsArrays),
    ("array_likes", Rounds),
    ("one_trial_and_one_channel", WantsTrials),
    ("labels_of_any_kind", WantsNumbers),
    ("bad_labels_are_refused", CutsTrials),
    ("labels_in_a_column", WantsRow),
    ("labels_do_not_matter", PeeksAtLabels),
    ("decisions_agree", TurnsAround),
    ("decisions_agree", AddsUpToTwo),
    ("learns", Guesses),
    ("weights", IgnoresWeights),
    ("weights", ChangesWeights),
    ("weight_zero_leaves_a_trial_out", FloorsWeights),
    ("weight_two_is_a_trial_twice", RootsWeights),
    ("unknown_fit_parameters_are_refused", TakesAnything),
    ("groups", IgnoresGroups),
    ("fit_transform", Doubles),
    ("containers", MakesNoFrames),
    ("feature_names", NamesAllAlike),
]


def broken_case(kind: type) -> Case:
    """A case that says of a broken estimator what is true of the sound one."""
    if issubclass(kind, Recentring):
        return Case(kind.__name__, kind, MATRICES, in_time=True, own_training_output=True)
    return Case(kind.__name__, kind, MATRICES, counts=issubclass(kind, Sound))
