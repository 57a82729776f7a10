"""Mathematics of symmetric positive definite (SPD) matrices as tokens. Knows nothing of EEG."""

from typing import TYPE_CHECKING, Any

from spdtokens.geometry.tokens import TokenEmbedding
from spdtokens.geometry.validation import check_spd

if TYPE_CHECKING:
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
        matrix_dim,
        power_function,
        powm,
        spectral,
        spectral_token,
        sqrtm,
        token_dim,
        unvech,
        vech,
    )

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


def __getattr__(name: str) -> Any:
    # These need torch, which takes a second to import, and tokens do not.
    if name in __all__:
        from importlib import import_module

        for module in ("matrix_functions", "embeddings", "bures"):
            found = vars(import_module(f"spdtokens.geometry.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
