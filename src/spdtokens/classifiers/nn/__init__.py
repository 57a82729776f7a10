"""The torch modules: token networks, networks to compare with, and the batched engine."""

from spdtokens.classifiers.nn.engine import Pool, RunPlan, TrainedRun, Training, train_runs
from spdtokens.classifiers.nn.geometric import geometric_bias
from spdtokens.classifiers.nn.mlp import SPDTokenMLP, matching_width
from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS, Recipe
from spdtokens.classifiers.nn.saliency import channel_saliency
from spdtokens.classifiers.nn.transformer import (
    SMALL,
    STANDARD,
    SPDTokenTransformer,
    TransformerConfig,
    folded,
)
from spdtokens.classifiers.nn.trial import TrialTransformer

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
    "TrialTransformer",
    "channel_saliency",
    "folded",
    "geometric_bias",
    "matching_width",
    "train_runs",
]
