"""Mathematics of symmetric positive definite (SPD) matrices as tokens. Knows nothing of EEG."""

from spdtokens.spd.bures import (
    Barycenter,
    barycenter_bures_wasserstein,
    distance_bures_wasserstein,
    geodesic_bures_wasserstein,
)
from spdtokens.spd.embeddings import EMBEDDINGS, Embedding, get_embedding
from spdtokens.spd.matrix_functions import (
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
from spdtokens.spd.tokens import TokenEmbedding
from spdtokens.spd.triangle import matrix_dim, token_dim, unvech, vech
from spdtokens.spd.validation import NotSPDError, check_spd

__all__ = [
    "EMBEDDINGS",
    "EXP",
    "INV_SQRT",
    "LOG",
    "SQRT",
    "Barycenter",
    "Embedding",
    "Floor",
    "NotSPDError",
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
