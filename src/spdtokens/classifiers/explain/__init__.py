"""What a fitted model looks at: which channels and bands decide, and what attends to what."""

from spdtokens.classifiers.explain.attention import band_attention
from spdtokens.classifiers.explain.importance import channel_importance
from spdtokens.classifiers.explain.positions import electrode_info

__all__ = ["band_attention", "channel_importance", "electrode_info"]
