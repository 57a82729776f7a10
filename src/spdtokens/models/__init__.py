"""Networks on SPD tokens."""

from spdtokens.models.geometric import geometric_bias
from spdtokens.models.mlp import SPDTokenMLP, matching_width
from spdtokens.models.saliency import channel_saliency
from spdtokens.models.transformer import (
    SMALL,
    STANDARD,
    ModelError,
    SPDTokenTransformer,
    TransformerConfig,
    folded,
)
from spdtokens.models.trial import TrialTransformer

__all__ = [
    "SMALL",
    "STANDARD",
    "ModelError",
    "SPDTokenMLP",
    "SPDTokenTransformer",
    "TransformerConfig",
    "TrialTransformer",
    "channel_saliency",
    "folded",
    "geometric_bias",
    "matching_width",
]
