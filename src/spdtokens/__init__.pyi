from ._deprecated import SPDTokenClassifier, Tokenizer
from .classifiers import (
    AdversarialTokenClassifier,
    DecodingPipeline,
    NetworkClassifier,
    Recentring,
    SpatialFilterClassifier,
    TokenDiscriminantClassifier,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    fit_together,
    make_decoder,
)
from .classifiers.nn import SPDTokenTransformer
from .datasets import load_dataset
from .evaluation import evaluate
from .geometry import TokenEmbedding
from .inference import load_pipeline, load_pretrained, predict, save_model, train
from .preprocessing import FilterBankCovariances, MontageInterpolator, StandardTrials
from .runtime import load_model

__version__: str
__all__ = [
    "AdversarialTokenClassifier",
    "DecodingPipeline",
    "FilterBankCovariances",
    "MontageInterpolator",
    "NetworkClassifier",
    "Recentring",
    "SPDTokenClassifier",
    "SPDTokenTransformer",
    "SpatialFilterClassifier",
    "StandardTrials",
    "TokenDiscriminantClassifier",
    "TokenEmbedding",
    "TokenMLPClassifier",
    "TokenTransformerClassifier",
    "Tokenizer",
    "evaluate",
    "fit_together",
    "load_dataset",
    "load_model",
    "load_pipeline",
    "load_pretrained",
    "make_decoder",
    "predict",
    "save_model",
    "train",
]
