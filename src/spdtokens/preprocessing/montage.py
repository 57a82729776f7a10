"""Interpolation of missing electrodes by spherical splines, as a linear map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.polynomial.legendre import legval
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens._channels import plain_name
from spdtokens.errors import SignalError
from spdtokens.geometry.tokens import ArrayOutputMixin, as_real, matrix_tags
from spdtokens.runtime.tokens import interpolated

Array = NDArray[np.float64]
#: The 10-05 system, which contains the names of 10-20 and 10-10. MNE renamed it in 1.13.
MONTAGES = ("colin27_1005", "standard_1005")
#: Stiffness of the splines, terms of their Legendre series, and regularisation, as in MNE.
STIFFNESS, TERMS, ALPHA = 4, 50, 1e-5
#: Radius of the head, and distance within which an electrode covers another, in millimetres.
RADIUS, NEAR = 90.0, 40.0
#: Coverage below which interpolation is refused: see ``studies/missing_channels.py``.
LEAST_COVERAGE = 0.5


def electrode_positions(ch_names: Sequence[str]) -> Array:
    """Look up standard positions of electrodes in the 10-05 system.

    Parameters
    ----------
    ch_names : sequence of str
        Channel names. Case, dots, spaces, a prefix ``EEG`` and the reference are ignored.

    Returns
    -------
    ndarray, shape (n_channels, 3)
        Unit vectors from the centre of the head; NaN for channels without a standard position.

    See Also
    --------
    interpolation_matrix : Interpolate missing channels.

    Examples
    --------
    >>> from spdtokens.preprocessing import electrode_positions
    >>> electrode_positions(["EEG Cz-REF", "EOG"]).round(1)
    array([[ 0. , -0.1,  1. ],
           [ nan,  nan,  nan]])
    """
    import mne  # here, because it takes a second

    name = next(name for name in MONTAGES if name in mne.channels.get_builtin_montages())
    known = {
        plain_name(name): place / np.linalg.norm(place)
        for name, place in mne.channels.make_standard_montage(name)
        .get_positions()["ch_pos"]
        .items()
    }
    return np.array([known.get(plain_name(name), np.full(3, np.nan)) for name in ch_names])


def interpolation_matrix(ch_names: Sequence[str], given: Sequence[str]) -> Array:
    """Compute the matrix that interpolates channels from other channels.

    Channels that are given pass unchanged. The others are interpolated by spherical splines [1]_
    from all given channels that have a standard position. The matrix multiplies signals, ``W @ X``,
    or covariances from both sides, ``W @ C @ W.T``.

    Parameters
    ----------
    ch_names : sequence of str
        Channels to compute.
    given : sequence of str
        Channels that were recorded. Those without a standard position, such as EOG, are not used
        for interpolation.

    Returns
    -------
    ndarray, shape (n_channels, n_given)
        The matrix.

    Raises
    ------
    SignalError
        If the coverage is below 50 %, see :func:`coverage`, if two given channels are the same
        electrode, or if a missing channel has no standard position.

    See Also
    --------
    MontageInterpolator : The same as a transformer.
    mne.io.Raw.interpolate_bads : The same for recordings.

    References
    ----------
    .. [1] F. Perrin, J. Pernier, O. Bertrand and J. F. Echallier, "Spherical splines for scalp
       potential and current density mapping", Electroencephalogr. Clin. Neurophysiol. 72, 184-187,
       1989. https://doi.org/10.1016/0013-4694(89)90180-6

    Examples
    --------
    >>> from spdtokens.preprocessing import interpolation_matrix
    >>> W = interpolation_matrix(["C3", "Cz", "C1"], ["Cz", "C3", "FC1", "CP1"])
    >>> W.round(2)
    array([[0.  , 1.  , 0.  , 0.  ],
           [1.  , 0.  , 0.  , 0.  ],
           [0.08, 0.07, 0.4 , 0.45]])
    """
    plain = [plain_name(name) for name in given]
    twice = [name for name, short in zip(given, plain, strict=True) if plain.count(short) > 1]
    if twice:
        raise SignalError(
            f"given must be different electrodes, got {' and '.join(twice[:2])}. Remove one."
        )
    wanted = [plain_name(name) for name in ch_names]
    missing = np.array([i for i, name in enumerate(wanted) if name not in plain], dtype=int)
    W = np.zeros((len(wanted), len(plain)))
    for row, name in enumerate(wanted):
        if name in plain:
            W[row, plain.index(name)] = 1.0
    if not len(missing):
        return W
    names = [ch_names[i] for i in missing]
    targets, sources = electrode_positions(names), electrode_positions(given)
    unknown = [name for name, at in zip(names, targets, strict=True) if np.isnan(at).any()]
    if unknown:
        raise SignalError(
            f"Channels {', '.join(unknown)} are missing and have no standard position, so they "
            "cannot be interpolated. Record them, or name them as in the 10-05 system."
        )
    share = coverage(ch_names, given)
    if share < LEAST_COVERAGE:
        raise SignalError(
            f"Too few channels to interpolate the {len(missing)} of {len(wanted)} that are missing "
            f"({', '.join(names)}): {100 * share:.0f} % of all have a recorded electrode within "
            f"{NEAR:g} mm, {100 * LEAST_COVERAGE:.0f} % are required. Record more of them, or "
            "train a model on the channels that you have."
        )
    usable = np.flatnonzero(~np.isnan(sources).any(1))
    W[np.ix_(missing, usable)] = _splines(sources[usable], targets)
    return W


def coverage(ch_names: Sequence[str], given: Sequence[str]) -> float:
    """Compute how well given channels cover others: the share that have one within 40 mm.

    Parameters
    ----------
    ch_names : sequence of str
        Channels to cover.
    given : sequence of str
        Channels that were recorded.

    Returns
    -------
    float
        Share of ``ch_names`` that are given or have a given electrode within 40 mm, along the
        surface of a head of 90 mm radius, at standard positions.

    See Also
    --------
    interpolation_matrix : Refuses to interpolate below a coverage of 50 %.

    Examples
    --------
    >>> from spdtokens.preprocessing import coverage
    >>> coverage(["C3", "C1", "Fp1", "O1"], ["C3", "Cz", "C4"])
    0.5
    """
    plain = {plain_name(name) for name in given}
    here = np.array([plain_name(name) in plain for name in ch_names])
    cosines = electrode_positions(ch_names) @ electrode_positions(given).T
    near = np.nan_to_num(cosines, nan=-1.0) >= np.cos(NEAR / RADIUS)
    return float((here | near.any(1)).mean())


def _splines(sources: Array, targets: Array) -> Array:
    """Weights (targets, sources) of spherical splines between unit vectors."""
    n = np.arange(1, TERMS + 1)
    terms = np.append(0.0, (2 * n + 1) / (n * (n + 1.0)) ** STIFFNESS / (4 * np.pi))
    k = len(sources)
    # Splines at the sources and a constant; the weights of the splines sum to zero.
    system = np.ones((k + 1, k + 1))
    system[:k, :k] = legval(sources @ sources.T, terms) + ALPHA * np.eye(k)
    system[k, k] = 0.0
    at = np.column_stack([legval(targets @ sources.T, terms), np.ones(len(targets))])
    return np.asarray(np.linalg.solve(system, at.T)[:k].T)


class MontageInterpolator(ArrayOutputMixin, BaseEstimator):
    """Interpolate the channels of a model from the channels of a recording.

    Signals are multiplied by :func:`interpolation_matrix`, covariances from both sides. Covariances
    of interpolated channels are singular and are therefore shrunk slightly towards a multiple of
    the identity. In a pipeline for covariances, the step follows
    :class:`~spdtokens.FilterBankCovariances`.

    Parameters
    ----------
    ch_names : sequence of str
        Channels to compute: those of the model.
    given : sequence of str
        Channels of the trials.

    Attributes
    ----------
    matrix_ : ndarray, shape (n_channels, n_given)
        The linear map.
    n_features_in_ : int
        Number of given channels.

    See Also
    --------
    interpolation_matrix : Computes the linear map.
    spdtokens.inference.with_channels : Apply a saved model to other channels.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import MontageInterpolator
    >>> X = np.random.default_rng(0).standard_normal((5, 4, 100))
    >>> interpolator = MontageInterpolator(["C3", "C1", "Cz"], ["Cz", "C3", "FC1", "CP1"])
    >>> interpolator.fit_transform(X).shape
    (5, 3, 100)
    """

    def __init__(self, ch_names: Sequence[str], given: Sequence[str]) -> None:
        self.ch_names = ch_names
        self.given = given

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input."""
        return matrix_tags(super().__sklearn_tags__())

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Compute the linear map.

        Parameters
        ----------
        X : array, shape (n, n_given, n_samples) or (n[, m], n_given, n_given)
            Trials, or covariance matrices.
        y : object, default=None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        self.matrix_ = interpolation_matrix(self.ch_names, self.given)
        self.n_features_in_ = self.matrix_.shape[1]
        self._checked(X)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Interpolate trials or covariance matrices.

        Parameters
        ----------
        X : array, shape (n, n_given, n_samples) or (n[, m], n_given, n_given)
            Trials, or covariance matrices, which are recognised by their symmetry.

        Returns
        -------
        ndarray, shape (n, n_channels, n_samples) or (n[, m], n_channels, n_channels)
            Interpolated trials or covariance matrices.

        Raises
        ------
        SignalError
            If the number of channels is not that of ``given``.
        """
        check_is_fitted(self)
        X = self._checked(X)
        square = X.shape[-1] == X.shape[-2]
        if square and np.allclose(X, X.swapaxes(-1, -2), rtol=1e-6, atol=0):
            return interpolated(X, self.matrix_)
        return np.asarray(self.matrix_ @ X)

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        X = as_real(X, "trials", SignalError)
        if X.ndim not in (3, 4) or X.shape[-2] != self.n_features_in_:
            raise SignalError(
                f"X must have the {self.n_features_in_} given channels, shape (n, "
                f"{self.n_features_in_}, n_samples) or matrices, got shape {X.shape}."
            )
        return X
