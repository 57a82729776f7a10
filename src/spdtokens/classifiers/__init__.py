"""From SPD matrices to classes: token classifiers, networks to compare with, whole decoders."""

from spdtokens.classifiers.decoder import DecodingPipeline, Recentring, make_decoder
from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.classifiers.networks import NetworkClassifier
from spdtokens.classifiers.transformer import (
    TokenMLPClassifier,
    TokenTransformerClassifier,
    fit_together,
)

__all__ = [
    "DecodingPipeline",
    "NetworkClassifier",
    "Recentring",
    "TokenDiscriminantClassifier",
    "TokenMLPClassifier",
    "TokenTransformerClassifier",
    "fit_together",
    "make_decoder",
]
