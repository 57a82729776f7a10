from .adversarial import AdversarialTokenClassifier
from .decoder import DecodingPipeline, Recentring, make_decoder
from .discriminant import TokenDiscriminantClassifier
from .filters import SpatialFilterClassifier
from .networks import NetworkClassifier
from .transformer import TokenMLPClassifier, TokenTransformerClassifier, fit_together

__all__ = [
    "AdversarialTokenClassifier",
    "DecodingPipeline",
    "NetworkClassifier",
    "Recentring",
    "SpatialFilterClassifier",
    "TokenDiscriminantClassifier",
    "TokenMLPClassifier",
    "TokenTransformerClassifier",
    "fit_together",
    "make_decoder",
]
