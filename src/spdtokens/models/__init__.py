"""Networks on SPD tokens."""

from spdtokens.models.config import SMALL, STANDARD, ModelError, TransformerConfig
from spdtokens.models.geometric import geometric_bias
from spdtokens.models.mlp import SPDTokenMLP, matching_width
from spdtokens.models.transformer import SPDTokenTransformer

__all__ = [
    "SMALL",
    "STANDARD",
    "ModelError",
    "SPDTokenMLP",
    "SPDTokenTransformer",
    "TransformerConfig",
    "geometric_bias",
    "matching_width",
]
