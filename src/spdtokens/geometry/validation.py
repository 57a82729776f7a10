"""Checks of SPD matrices, with errors that name the matrix, the fault and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spdtokens.errors import NotSPDError
from spdtokens.runtime.threads import one_thread

#: Bytes of matrices that are checked at once.
PART = 1 << 26


def _array(C: Any) -> NDArray[Any]:
    """Entries of an array or a tensor as an array."""
    return np.asarray(C.detach().cpu() if hasattr(C, "detach") else C)


def _where(mask: NDArray[np.bool_]) -> str:
    """Name the first matrix marked by a mask of shape (...), and count the others."""
    if mask.ndim == 0:
        return "the matrix"
    bad = np.argwhere(mask)
    count = f"(and {len(bad) - 1} more of {mask.size})" if len(bad) > 1 else f"(of {mask.size})"
    return f"matrix [{', '.join(map(str, bad[0]))}] {count}"


def check_square(C: Any) -> None:
    """Raise an error unless ``C`` is a batch of square floating point matrices."""
    shape = tuple(C.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0:
        hint = ""
        if len(shape) == 3 and shape[-1] > shape[-2] > 0:
            hint = " It looks like raw trials (n, channels, samples): compute covariances first."
        raise NotSPDError(f"Matrices must be square, (..., d, d), got shape {shape}.{hint}")
    if "float" not in str(C.dtype):
        raise NotSPDError(
            f"Matrices must be real floating point, got dtype {C.dtype}. Convert them to float64."
        )


def check_finite(C: Any) -> None:
    """Raise an error if an entry is NaN or infinite."""
    bad = ~np.isfinite(_array(C))
    if bad.any():
        row, column = np.argwhere(bad)[0][-2:]
        raise NotSPDError(
            f"Not finite: {_where(bad.any((-2, -1)))} has NaN or infinity, first at row {row}, "
            f"column {column}. Check the recording for NaN samples or a constant trial, and "
            "drop or repair that trial."
        )


def _refuse(bad: NDArray[np.bool_], eigenvalues: NDArray[Any], fault: str) -> None:
    """Raise an error for the first matrix marked ``bad`` (...), given its eigenvalues (..., d)."""
    if bad.any():
        own = eigenvalues[bad].reshape(-1, eigenvalues.shape[-1])[0]
        raise NotSPDError(
            f"Not positive definite: {_where(bad)} {fault} (eigenvalues from {own[0]:.3g} to "
            f"{own[-1]:.3g}). Remedies: a shrinkage estimator (such as 'oas' or 'lwf'), more "
            "samples than channels in each window, or dropping flat, duplicated or "
            "re-referenced-away channels."
        )


def refuse_indefinite(eigenvalues: Any, tolerance: float) -> None:
    """Raise an error for ascending spectra (..., d) below rounding error, or nowhere positive."""
    w = _array(eigenvalues)
    _refuse(np.asarray(w[..., -1] <= 0), w, "has no positive eigenvalue")
    _refuse(np.asarray(w[..., 0] < -tolerance * w[..., -1]), w, "has a negative eigenvalue")


@one_thread()
def check_spd(C: Any) -> None:
    """Check that matrices are symmetric positive definite.

    Positive definite means here that the smallest eigenvalue exceeds the rounding error of the
    dtype, so that its logarithm is a property of the data.

    Parameters
    ----------
    C : Tensor or ndarray, shape (..., d, d)
        Matrices to check.

    Raises
    ------
    NotSPDError
        If a matrix is not SPD. The message names the first one, its fault and the remedy.

    See Also
    --------
    pyriemann.geometry.test.is_sym_pos_def : Return a boolean instead.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.geometry import check_spd
    >>> check_spd(np.eye(3))
    >>> check_spd(np.diag([1.0, -1.0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    spdtokens.errors.NotSPDError: Not positive definite: the matrix has a negative eigenvalue ...
    """
    C = _array(C)
    check_square(C)
    if C.size == 0:
        raise NotSPDError(f"There are no matrices: the array has shape {C.shape}.")
    if C.ndim > 2 and C.nbytes > PART and len(C) > 1:
        # In parts, as temporary arrays are several times as large as the matrices. If there is a
        # fault, all are checked at once for a message that counts all of them.
        try:
            for part in np.array_split(C, min(len(C), -(-C.nbytes // PART))):
                _check(part)
        except NotSPDError:
            _check(C)
            raise
    else:
        _check(C)


def _check(C: NDArray[Any]) -> None:
    """Check matrices of a valid shape, all at once."""
    check_finite(C)
    d = C.shape[-1]
    noise = d * float(np.finfo(C.dtype).eps)
    # Relative to the largest entry, as matrices may have any unit.
    asymmetry = np.abs(C - C.swapaxes(-1, -2)).max((-2, -1))
    size = np.abs(C).max((-2, -1))
    bad = np.asarray(asymmetry > 4 * noise * size)
    if bad.any():
        raise NotSPDError(
            f"Not symmetric: {_where(bad)} has entries that differ from their mirror image by "
            f"{(asymmetry / size)[bad].flat[0]:.2g} of the largest entry (rounding allows "
            f"{4 * noise:.1g}). A covariance is symmetric by construction; if only rounding is at "
            "fault, pass (C + C^T) / 2."
        )
    C = C.astype(np.float64, copy=False)
    # A Cholesky decomposition is ten times faster than eigenvalues. d times the largest entry
    # bounds the largest eigenvalue; scaling by it avoids overflow and underflow.
    bound = np.where(size > 0, d * size.astype(np.float64), 1.0)[..., None, None]
    try:
        np.linalg.cholesky(C / bound - noise * np.eye(d))
    except np.linalg.LinAlgError:
        eigenvalues = np.linalg.eigvalsh(C)
        refuse_indefinite(eigenvalues, noise)
        singular = np.asarray(eigenvalues[..., 0] <= noise * eigenvalues[..., -1])
        _refuse(singular, eigenvalues, "is singular to rounding")
