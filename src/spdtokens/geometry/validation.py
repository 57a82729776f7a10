"""Is this a batch of symmetric positive definite matrices? If not: which one, why, and what now."""

from __future__ import annotations

import torch
from torch import Tensor

from spdtokens.errors import NotSPDError
from spdtokens.geometry.arrays import numpy_too


def noise_level(d: int, dtype: torch.dtype) -> float:
    """Rounding error of the eigenvalues of a ``d x d`` matrix, relative to the largest one."""
    return d * torch.finfo(dtype).eps


def _where(mask: Tensor) -> str:
    """Name the first matrix that a mask of shape (...) marks, and count the others."""
    bad = mask.nonzero()
    if mask.ndim == 0:
        return "the matrix"
    first = ", ".join(str(i) for i in bad[0].tolist())
    others = len(bad) - 1
    count = f" (and {others} more of {mask.numel()})" if others else f" (of {mask.numel()})"
    return f"matrix [{first}]{count}"


def check_square(C: Tensor) -> None:
    """Refuse anything but a batch of square matrices of floating point numbers."""
    shape = tuple(C.shape)
    if C.ndim < 2:
        raise NotSPDError(
            f"Expected matrices of shape (..., d, d), got an array of shape {shape}. "
            "A token is turned back into a matrix by `from_token`."
        )
    if shape[-1] != shape[-2] or shape[-1] == 0:
        hint = (
            " It looks like raw trials (n, channels, samples): compute covariances first."
            if C.ndim == 3 and shape[-1] > shape[-2] > 0
            else ""
        )
        raise NotSPDError(f"Expected square matrices (..., d, d), got shape {shape}.{hint}")
    if not C.is_floating_point():
        raise NotSPDError(
            f"Expected real floating point matrices, got dtype {C.dtype}. Convert them to float64."
        )


def check_finite(C: Tensor) -> None:
    """Refuse matrices with NaN or infinite entries."""
    bad = ~torch.isfinite(C)
    if bool(bad.any()):
        mask = bad.any(-1).any(-1)
        entry = bad[mask][0].nonzero()[0].tolist() if mask.ndim else bad.nonzero()[0].tolist()
        raise NotSPDError(
            f"Not finite: {_where(mask)} has NaN or infinity, first at row {entry[0]}, column "
            f"{entry[1]}. Look for NaN samples or a constant-zero trial in the recording, and drop "
            "or repair that trial."
        )


def check_symmetric(C: Tensor) -> None:
    """Refuse matrices that differ from their transpose by more than rounding."""
    # The absolute limit of a dtype is no limit at all here: entries may be of any unit.
    asymmetry = (C - C.mT).abs().amax((-2, -1))
    size = C.abs().amax((-2, -1))
    tolerance = 4 * noise_level(C.shape[-1], C.dtype)
    bad = asymmetry > tolerance * size
    if bool(bad.any()):
        worst = (asymmetry / size)[bad].flatten()[0].item()
        raise NotSPDError(
            f"Not symmetric: {_where(bad)} has entries that differ from their mirror image by "
            f"{worst:.2g} of the largest entry (rounding allows {tolerance:.1g}). A covariance is "
            "symmetric by construction; if only rounding is at fault, pass (C + C^T) / 2."
        )


def _refuse_eigenvalues(bad: Tensor, eigenvalues: Tensor, fault: str) -> None:
    """Raise for the first matrix marked ``bad`` (...), given its eigenvalues (..., d)."""
    if bool(bad.any()):
        own = eigenvalues[bad].reshape(-1, eigenvalues.shape[-1])[0]
        raise NotSPDError(
            f"Not positive definite: {_where(bad)} {fault} (eigenvalues from {own[0].item():.3g} "
            f"to {own[-1].item():.3g}). Remedies: a shrinkage estimator (such as 'oas' or 'lwf'), "
            "more samples than channels in each window, or dropping flat, duplicated or "
            "re-referenced-away channels."
        )


def refuse_indefinite(eigenvalues: Tensor, tolerance: float) -> None:
    """Refuse spectra that are negative beyond rounding, or have nothing positive at all.

    Parameters
    ----------
    eigenvalues : Tensor, shape (..., d)
        In ascending order.
    tolerance : float
        Rounding noise relative to the largest eigenvalue.
    """
    smallest, largest = eigenvalues[..., 0], eigenvalues[..., -1]
    _refuse_eigenvalues(largest <= 0, eigenvalues, "has no positive eigenvalue")
    _refuse_eigenvalues(smallest < -tolerance * largest, eigenvalues, "has a negative eigenvalue")


@numpy_too
def check_spd(C: Tensor) -> None:
    """Refuse anything but symmetric positive definite matrices.

    Positive definite means here: the smallest eigenvalue stands above the rounding noise of the
    dtype, so that its logarithm is a property of the data.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)

    Raises
    ------
    NotSPDError
        Naming the first offending matrix, what is wrong with it, and the remedy.
    """
    check_square(C)
    if C.numel() == 0:
        raise NotSPDError(f"Got no matrices: the array has shape {tuple(C.shape)}.")
    check_finite(C)
    check_symmetric(C)
    tolerance = noise_level(C.shape[-1], C.dtype)
    C = C.double()
    # A Cholesky decomposition proves it ten times faster than eigenvalues do. The Frobenius norm is
    # no less than the largest eigenvalue; scaled by it, no entry over- or underflows.
    norm = torch.linalg.matrix_norm(C)[..., None, None]
    shifted = C / norm - tolerance * torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
    if not bool(torch.linalg.cholesky_ex(shifted).info.any()):
        return
    eigenvalues = torch.linalg.eigvalsh(C)
    refuse_indefinite(eigenvalues, tolerance)
    _refuse_eigenvalues(
        eigenvalues[..., 0] <= tolerance * eigenvalues[..., -1],
        eigenvalues,
        "is singular to rounding",
    )
