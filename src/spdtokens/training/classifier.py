"""What every classifier on tokens does, whatever makes the tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from spdtokens.models import SPDTokenTransformer
from spdtokens.models.discriminant import TokenDiscriminant
from spdtokens.runtime.threads import one_thread
from spdtokens.spd.arrays import as_tensor
from spdtokens.training.device import resolve_device
from spdtokens.training.engine import train_runs
from spdtokens.training.group import Pool
from spdtokens.training.labels import held_back, seed_of
from spdtokens.training.network import TokenModel
from spdtokens.training.presets import Preset, resolve_preset
from spdtokens.training.progress import training_bar
from spdtokens.training.recipe import TrainingError

#: Parameters of estimators that replace values of the preset.
OVERRIDES = (
    "d_model",
    "n_layers",
    "n_heads",
    "d_ff",
    "dropout",
    "bn_embed",
    "attention",
    "alpha",
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "label_smoothing",
    "keep",
    "patience",
)
#: Trials predicted at a time.
PREDICTED_AT_ONCE = 512


class TokenNetworkClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers: trains on tokens and predicts from them.

    Subclasses have the parameters ``preset``, ``validation``, ``ensemble``, ``random_state``,
    ``device``, ``verbose`` and ``checkpoint``, and any of ``OVERRIDES``.
    """

    preset: str
    validation: float | None
    ensemble: int
    random_state: Any
    device: str
    verbose: bool
    checkpoint: str | Path | None

    def _preset(self) -> Preset:
        return resolve_preset(self.preset, **{k: getattr(self, k, None) for k in OVERRIDES})

    def _fit_tokens(
        self,
        tokens: NDArray[Any],
        codes: NDArray[np.int64],
        bias: torch.Tensor | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on tokens (n, tokens, features) with labels coded 0, 1, ..."""
        preset = self._preset()
        device = resolve_device(self.device)
        if not isinstance(self.ensemble, int | np.integer) or self.ensemble < 1:
            raise TrainingError(f"ensemble is a whole number from 1, not {self.ensemble!r}.")
        if preset.recipe.needs_validation and self.validation is None:
            raise TrainingError(
                "keep='best' and patience choose by trials held back from training: pass "
                "validation, the share to hold back, such as 0.2."
            )
        _check_finite(tokens)
        seeds = self._seeds()
        plans = [held_back(seed, codes, groups, self.validation) for seed in seeds]
        pool = Pool(
            as_tensor(tokens).to(device, torch.float32),
            torch.from_numpy(codes).to(device),
            None if bias is None else bias.to(device),
        )
        model = SPDTokenTransformer(
            tokens.shape[2],
            tokens.shape[1],
            len(self.classes_),
            preset.config,
            generator=torch.Generator().manual_seed(0),
        )
        total = preset.recipe.epochs * len(plans)
        with training_bar(type(self).__name__, total, enabled=bool(self.verbose)) as listener:
            runs = train_runs(
                model,
                pool,
                plans,
                preset.recipe,
                listener=listener,
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            )
        # In double precision a prediction does not depend on which trials are predicted with it.
        self.networks_: list[TokenModel | TokenDiscriminant]
        self.networks_ = [run.model.double() for run in runs]
        self.history_ = {
            name: _stacked([run.curves[name] for run in runs]) for name in runs[0].curves
        }
        self.n_epochs_ = [run.epoch for run in runs]
        return self

    def _seeds(self) -> list[int]:
        """A seed for each member of the ensemble; the first is ``random_state`` itself."""
        first = seed_of(self.random_state)
        others = np.random.SeedSequence([first, 1]).generate_state(int(self.ensemble) - 1)
        return [first, *map(int, others)]

    def _probabilities(
        self, tokens: NDArray[Any], bias: torch.Tensor | None = None
    ) -> NDArray[np.float64]:
        """Class probabilities (n, classes), averaged over the ensemble."""
        _check_finite(tokens)
        X = as_tensor(tokens).double()
        total = np.zeros((len(X), len(self.classes_)))
        with torch.inference_mode():
            for start in range(0, len(X), PREDICTED_AT_ONCE):
                part = slice(start, start + PREDICTED_AT_ONCE)
                extra = None if bias is None else bias[part].double()
                for network in self.networks_:
                    total[part] += network(X[part], extra).softmax(-1).numpy()
        return total / len(self.networks_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most probable class (n,) of each trial."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities (n, classes), in the order of ``classes_``."""
        check_is_fitted(self)
        return self._probabilities(*self._tokens(X))

    @abstractmethod
    def _tokens(self, X: ArrayLike) -> tuple[NDArray[Any], torch.Tensor | None]:
        """Tokens, and attention bias where there is one, of trials to predict."""


def _check_finite(tokens: NDArray[Any]) -> None:
    bad = np.flatnonzero(~np.isfinite(tokens).all(axis=tuple(range(1, tokens.ndim))))
    if len(bad):
        shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise TrainingError(
            f"Input X contains NaN or infinity in {len(bad)} of {len(tokens)} trials ({shown}). "
            "Remove these trials, or look where the values come from."
        )


def _stacked(curves: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Curves of unequal length as (runs, epochs), filled with NaN."""
    longest = max(map(len, curves))
    return np.stack([np.pad(c, (0, longest - len(c)), constant_values=np.nan) for c in curves])
