"""Mathematics of symmetric positive definite (SPD) matrices as tokens. Knows nothing of EEG."""

from spdtokens.geometry.bures import (
    Barycenter,
    barycenter_bures_wasserstein,
    distance_bures_wasserstein,
    geodesic_bures_wasserstein,
)
from spdtokens.geometry.embeddings import EMBEDDINGS, Embedding, get_embedding
from spdtokens.geometry.matrix_functions import (
    EXP,
    INV_SQRT,
    LOG,
    SQRT,
    Floor,
    SpectralFunction,
    expm,
    invsqrtm,
    logm,
    power_function,
    powm,
    spectral,
    spectral_token,
    sqrtm,
)
from spdtokens.geometry.tokens import TokenEmbedding
from spdtokens.geometry.triangle import matrix_dim, token_dim, unvech, vech
from spdtokens.geometry.validation import check_spd

__all__ = [
    "EMBEDDINGS",
    "EXP",
    "INV_SQRT",
    "LOG",
    "SQRT",
    "Barycenter",
    "Embedding",
    "Floor",
    "SpectralFunction",
    "TokenEmbedding",
    "barycenter_bures_wasserstein",
    "check_spd",
    "distance_bures_wasserstein",
    "expm",
    "geodesic_bures_wasserstein",
    "get_embedding",
    "invsqrtm",
    "logm",
    "matrix_dim",
    "power_function",
    "powm",
    "spectral",
    "spectral_token",
    "sqrtm",
    "token_dim",
    "unvech",
    "vech",
]
