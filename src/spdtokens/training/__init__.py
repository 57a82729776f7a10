"""Training: many runs as one batched network."""

from spdtokens.training.engine import Pool, RunPlan, TrainedRun, Training, train_runs
from spdtokens.training.recipe import SEEDS, STABILITY_SEEDS, Recipe, TrainingError

__all__ = [
    "SEEDS",
    "STABILITY_SEEDS",
    "Pool",
    "Recipe",
    "RunPlan",
    "TrainedRun",
    "Training",
    "TrainingError",
    "train_runs",
]
