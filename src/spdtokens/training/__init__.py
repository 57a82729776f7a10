"""Training: many runs as one batched network, and scikit-learn estimators on top."""

from spdtokens.training.engine import RunPlan, TrainedRun, Training, train_runs
from spdtokens.training.group import Pool
from spdtokens.training.presets import PRESETS, Preset
from spdtokens.training.recipe import SEEDS, STABILITY_SEEDS, Recipe, TrainingError
from spdtokens.training.spd_classifier import SPDTokenClassifier
from spdtokens.training.token_classifier import TokenTransformerClassifier

__all__ = [
    "PRESETS",
    "SEEDS",
    "STABILITY_SEEDS",
    "Pool",
    "Preset",
    "Recipe",
    "RunPlan",
    "SPDTokenClassifier",
    "TokenTransformerClassifier",
    "TrainedRun",
    "Training",
    "TrainingError",
    "train_runs",
]
