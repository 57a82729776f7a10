"""Classifiers of SPD matrices: token classifiers, networks for comparison, and whole decoders."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spdtokens.classifiers.decoder import (  # noqa: F401
        DecodingPipeline,
        Recentring,
        make_decoder,
    )
    from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier  # noqa: F401
    from spdtokens.classifiers.networks import NetworkClassifier  # noqa: F401
    from spdtokens.classifiers.transformer import (  # noqa: F401
        TokenMLPClassifier,
        TokenTransformerClassifier,
        fit_together,
    )

_NAMES = {
    "decoder": "DecodingPipeline Recentring make_decoder",
    "discriminant": "TokenDiscriminantClassifier",
    "networks": "NetworkClassifier",
    "transformer": "TokenMLPClassifier TokenTransformerClassifier fit_together",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported when first used: the table of methods need not wait for torch and scikit-learn.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
