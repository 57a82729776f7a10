"""What a fitted model looks at: which channels and bands decide, and what attends to what."""

from spdtokens.explain.attention import band_attention
from spdtokens.explain.errors import ExplainError
from spdtokens.explain.importance import channel_importance
from spdtokens.explain.positions import electrode_info

__all__ = ["ExplainError", "band_attention", "channel_importance", "electrode_info"]
