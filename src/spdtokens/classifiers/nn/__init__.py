"""Torch modules: token networks, networks to compare with, and the batched engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.classifiers.nn.engine import (  # noqa: F401
        Pool,
        RunPlan,
        TrainedRun,
        Training,
        train_runs,
    )
    from spdtokens.classifiers.nn.recipe import SEEDS, STABILITY_SEEDS, Recipe  # noqa: F401
    from spdtokens.classifiers.nn.saliency import channel_saliency  # noqa: F401
    from spdtokens.classifiers.nn.transformer import (  # noqa: F401
        SMALL,
        STANDARD,
        SPDTokenMLP,
        SPDTokenTransformer,
        TransformerConfig,
        folded,
        geometric_bias,
        matching_width,
    )

_NAMES = {
    "engine": "Pool RunPlan TrainedRun Training train_runs",
    "recipe": "Recipe SEEDS STABILITY_SEEDS",
    "saliency": "channel_saliency",
    "transformer": "SMALL STANDARD SPDTokenMLP SPDTokenTransformer TransformerConfig folded "
    "geometric_bias matching_width",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported on first use, so that names of networks and recipes do not import torch.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
