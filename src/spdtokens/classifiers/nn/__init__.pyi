from .engine import Pool, RunPlan, TrainedRun, Training, train_runs
from .recipe import SEEDS, STABILITY_SEEDS, Recipe
from .saliency import channel_saliency
from .transformer import (
    SMALL,
    STANDARD,
    SPDTokenMLP,
    SPDTokenTransformer,
    TransformerConfig,
    folded,
    geometric_bias,
    matching_width,
)

__all__ = [
    "SEEDS",
    "SMALL",
    "STABILITY_SEEDS",
    "STANDARD",
    "Pool",
    "Recipe",
    "RunPlan",
    "SPDTokenMLP",
    "SPDTokenTransformer",
    "TrainedRun",
    "Training",
    "TransformerConfig",
    "channel_saliency",
    "folded",
    "geometric_bias",
    "matching_width",
    "train_runs",
]
