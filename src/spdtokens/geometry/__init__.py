"""Mathematics of symmetric positive definite (SPD) matrices as tokens. Knows nothing of EEG."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spdtokens.geometry.tokens import TokenEmbedding  # noqa: F401
from spdtokens.geometry.validation import check_spd  # noqa: F401

if TYPE_CHECKING:
    from spdtokens.geometry.bures import (  # noqa: F401
        Barycenter,
        barycenter_bures_wasserstein,
        distance_bures_wasserstein,
        geodesic_bures_wasserstein,
    )
    from spdtokens.geometry.embeddings import EMBEDDINGS, Embedding, get_embedding  # noqa: F401
    from spdtokens.geometry.matrix_functions import (  # noqa: F401
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

_NAMES = {
    "bures": "Barycenter barycenter_bures_wasserstein distance_bures_wasserstein "
    "geodesic_bures_wasserstein",
    "embeddings": "EMBEDDINGS Embedding get_embedding",
    "matrix_functions": "EXP INV_SQRT LOG SQRT Floor SpectralFunction expm invsqrtm logm "
    "matrix_dim power_function powm spectral spectral_token sqrtm token_dim unvech vech",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "TokenEmbedding", "check_spd"])


def __getattr__(name: str) -> Any:
    # These need torch, which takes a second to import, and tokens do not.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
