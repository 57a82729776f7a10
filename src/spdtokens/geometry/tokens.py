"""From SPD matrices to tokens, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens._labels import as_labels
from spdtokens.errors import UserError
from spdtokens.geometry.alignment import riemannian_mean
from spdtokens.geometry.validation import check_finite, check_spd
from spdtokens.runtime.threads import one_thread, share_out
from spdtokens.runtime.tokens import AT_REFERENCE, FILTERED, PRINCIPAL, Tokens, inverse_root
from spdtokens.runtime.tokens import EMBEDDINGS as IN_NUMPY

if TYPE_CHECKING:
    from spdtokens.geometry.embeddings import Embedding, StackedEmbedding

#: Variance of EEG in square microvolts: a signal of 10 microvolts.
USUAL_VARIANCE = 100.0
MICROVOLT = 1e-6
#: Entries of matrices that are embedded at once.
PART_ENTRIES = 1 << 17
#: Lower bounds of eigenvalues: relative to their mean, and absolute.
FLOORS = {"relative": (1e-12, 0.0), "paper": (0.0, 1e-12)}
#: Relative difference of eigenvalues below which a reference has no principal directions.
ROUND = 1e-4
#: Filters per class, if there are enough channels.
PER_CLASS = 2
#: Fraction of the mean variance that is added to class variances. Along directions with almost no
#: variance, as after an average reference, ratios would be random.
SHRINKAGE = 0.003
Array = NDArray[np.float64]


def principal_axes(R: Array) -> Array:
    """Compute rows that whiten ``R``: its principal directions, strongest first, scaled.

    If ``R`` is a multiple of the identity to within 1e-4, as the mean of recentred matrices is, its
    directions would be rounding errors: the channels are used in their order instead.

    Parameters
    ----------
    R : ndarray, shape (..., d, d)
        SPD matrices.

    Returns
    -------
    ndarray, shape (..., d, d)
        Matrices ``P`` with ``P R P' = I``.
    """
    w, V = np.linalg.eigh(R)
    w, V = w[..., ::-1], V[..., ::-1]
    # The sign of a direction is arbitrary: make its largest entry positive.
    V = V * np.sign(np.take_along_axis(V, np.abs(V).argmax(-2)[..., None, :], axis=-2))
    is_round = (w[..., 0] <= (1 + ROUND) * w[..., -1])[..., None, None]
    V = np.where(is_round, np.eye(R.shape[-1]), V)
    return np.asarray(V.swapaxes(-1, -2) / np.sqrt(w)[..., None])


def class_filters(C: Array, y: ArrayLike) -> Array:
    """Compute common spatial patterns of each class against all classes.

    With two classes, the patterns of the first are also those of the second. All trials have the
    same weight, whatever their power, and so have all classes.

    Parameters
    ----------
    C : ndarray, shape (n, d, d) or (n, m, d, d)
        SPD matrices.
    y : array, shape (n,)
        Labels.

    Returns
    -------
    ndarray, shape (k, d) or (m, k, d)
        Two filters per class if there are enough channels, else one, and never more than ``d``. The
        best filter of every class comes first.
    """
    y = np.asarray(y)
    names = np.unique(y)
    d = C.shape[-1]
    shares = C / np.trace(C, axis1=-2, axis2=-1)[..., None, None]
    means = np.stack([shares[y == name].mean(0) for name in names])
    means += SHRINKAGE / d * np.eye(d)
    whitener = np.linalg.inv(np.linalg.cholesky(means.mean(0)))
    per_class = max(1, min(PER_CLASS, d // len(names)))
    if len(names) == 2:
        means, per_class = means[:1], min(2 * per_class, d)
    means = means[:d]  # at most one filter per channel
    ratios, V = np.linalg.eigh(whitener @ means @ whitener.swapaxes(-1, -2))
    unlike = np.argsort(-np.abs(np.log(ratios)), axis=-1, kind="stable")[..., None, :per_class]
    found = np.take_along_axis(V, unlike, axis=-1).swapaxes(-1, -2) @ whitener
    # From (classes, ..., filters, d): the first filter of every class, then the second.
    F = np.moveaxis(found, (-2, 0), (-3, -2)).reshape(*C.shape[1:-2], -1, d)[..., :d, :]
    # The sign of a filter is arbitrary: make its largest entry positive.
    largest = np.take_along_axis(F, np.abs(F).argmax(-1)[..., None], axis=-1)
    return np.asarray(F * np.sign(largest))


def as_real(X: ArrayLike, what: str, error: type[UserError] = UserError) -> NDArray[Any]:
    """Convert ``X`` to an array of real numbers; errors name it ``what``."""
    X = np.asarray(X)
    if X.dtype.kind == "c":
        raise error(f"Complex data not supported: {what} must be real, got {X.dtype}.")
    try:
        return X if X.dtype.kind in "fiub" else X.astype(np.float64)
    except (TypeError, ValueError) as fault:
        raise error(f"The {what} must be real numbers, got {X.dtype}: {fault}.") from fault


def as_matrices(X: ArrayLike, *, single: bool = False) -> Array:
    """Convert ``X`` to SPD matrices (n, m, d, d), from (n, d, d), (n, m, d, d) or nested lists.

    Matrices in single precision are converted to double precision. With ``single`` they are not,
    and are only checked to be finite: rounding makes small eigenvalues negative.

    Raises
    ------
    UserError
        For another shape, no trials, or matrices that are not symmetric positive definite.
    """
    C = as_real(X, "matrices")
    if not single or C.dtype != np.float32:
        C = np.asarray(C, dtype=np.float64)
    if C.ndim not in (3, 4) or 0 in C.shape:
        raise UserError(
            f"X must be SPD matrices (n, d, d) or (n, m, d, d), n > 0, got shape {C.shape}. "
            "Reshape your data, or put FilterBankCovariances before the classifier."
        )
    (check_finite if C.dtype == np.float32 else check_spd)(C)
    return C if C.ndim == 4 else C[:, None]


def names_of_matrices(given: Sequence[str] | None, n: int) -> NDArray[Any]:
    """Names of the ``n`` matrices of a trial: those given if their number is right."""
    names = given if given is not None and len(given) == n else [f"matrix {i}" for i in range(n)]
    return np.array(names, dtype=object)


def matrix_tags(tags: Tags) -> Tags:
    """Declare that input is three-dimensional."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    return tags


class ArrayOutputMixin(TransformerMixin, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Mixin of transformers that return trials or matrices, not a table with named columns.

    Their output stays an array if ``set_output`` or scikit-learn's configuration asks for data
    frames, so that a later step of the pipeline can return one.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform: str | None = None) -> Self:  # noqa: ARG002
        """Do nothing: the output is always an array of three or more dimensions.

        Parameters
        ----------
        transform : str, default=None
            Ignored.

        Returns
        -------
        self
            The transformer.
        """
        return self


class TokenEmbedding(TransformerMixin, BaseEstimator):
    """Embed SPD matrices as tokens: the upper triangle of a function of the matrix.

    It is the first layer of the token classifiers. Used as a transformer, it puts tokens in front
    of any scikit-learn classifier.

    Parameters
    ----------
    embedding : str or sequence of str, default='log_euclidean'
        Name of the embedding, see :func:`spdtokens.geometry.get_embedding`: ``'log_euclidean'``,
        ``'bures_wasserstein'`` (square root), ``'euclidean'``, ``'cholesky'``, ``'log_cholesky'``;
        ``'affine_invariant'``, ``'whitened_root'`` or ``'principal_correlation'``, which are fitted
        to training matrices; or ``'class_filters'``, which is fitted to training matrices and
        labels. With several names, each matrix has one token per name, ordered by name.
    isometric : bool, default=False
        Multiply off-diagonal entries by sqrt(2), so that distances of tokens are those of matrices.
    floor : {'relative', 'paper'}, default='relative'
        Lower bound of eigenvalues: relative to the mean eigenvalue of a matrix, or the paper's
        1e-12.
    unit_free : bool, default=False
        Divide all matrices by one number, so that the mean variance of training trials is 100, as
        for EEG in microvolts. Tokens then do not depend on the unit of the signal.
    unit_in_volts : float, default=None
        Unit of the signals, 1e-6 for microvolts. If given, matrices are converted to square
        microvolts, as ``floor='paper'`` requires. By default they are used as they are.

    Attributes
    ----------
    tokens_ : Tokens or None
        The computation in NumPy, as saved in model files. None for an embedding added to the
        registry without NumPy code, which is computed in torch.
    reference_ : ndarray, shape (m, d, d), or None
        Riemannian mean of the training matrices, for embeddings that whiten by it.
    filters_ : ndarray, shape (m, k, d), or None
        Spatial filters of ``'class_filters'``.
    scale_ : float
        Divisor of the matrices; 1 unless ``unit_free`` or ``unit_in_volts``.
    n_matrices_, n_tokens_ : int
        Number of matrices and tokens per trial.
    n_features_in_ : int
        Number of rows of a matrix.

    See Also
    --------
    FilterBankCovariances : Compute SPD matrices from signals.
    TokenDiscriminantClassifier : Classify matrices by their tokens.
    pyriemann.tangentspace.TangentSpace : ``'affine_invariant'`` with ``isometric=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenEmbedding
    >>> C = np.stack([np.eye(3), 4 * np.eye(3)])
    >>> TokenEmbedding("bures_wasserstein").fit_transform(C)
    array([[1., 0., 0., 1., 0., 1.],
           [2., 0., 0., 2., 0., 2.]])
    """

    def __init__(
        self,
        embedding: str | Sequence[str] = "log_euclidean",
        *,
        isometric: bool = False,
        floor: Literal["relative", "paper"] = "relative",
        unit_free: bool = False,
        unit_in_volts: float | None = None,
    ) -> None:
        self.embedding = embedding
        self.isometric = isometric
        self.floor = floor
        self.unit_free = unit_free
        self.unit_in_volts = unit_in_volts

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input, and whether labels are required."""
        tags = matrix_tags(super().__sklearn_tags__())
        tags.target_tags.required = FILTERED in self.names
        return tags

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the embeddings."""
        return (self.embedding,) if isinstance(self.embedding, str) else tuple(self.embedding)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Fit scale, reference and filters to training matrices.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
            SPD matrices.
        y : array, shape (n,), default=None
            Labels, required by ``'class_filters'``.

        Returns
        -------
        self
            The fitted transformer.
        """
        return self.fit_matrices(as_matrices(X), y)

    reference_: Array | None
    filters_: Array | None
    tokens_: Tokens | None
    _added: Embedding | StackedEmbedding | None  # to the registry, without NumPy code

    @one_thread()
    def fit_matrices(self, C: Array, y: ArrayLike | None = None) -> Self:
        """Fit to matrices that have been checked.

        Parameters
        ----------
        C : ndarray, shape (n, m, d, d)
            SPD matrices.
        y : array, shape (n,), default=None
            Labels, required by ``'class_filters'``.

        Returns
        -------
        self
            The fitted transformer.
        """
        names = self.names
        if not names or self.floor not in FLOORS:
            raise UserError(
                "embedding must be one or more names and floor 'relative' or 'paper', got "
                f"{self.embedding!r} and {self.floor!r}."
            )
        if self.unit_free and self.unit_in_volts is not None:
            raise UserError("unit_free and unit_in_volts exclude each other. Pass one of them.")
        self.scale_ = 1.0
        if self.unit_in_volts is not None:
            if not self.unit_in_volts > 0:
                raise UserError(f"unit_in_volts must be > 0, got {self.unit_in_volts!r}.")
            self.scale_ = (MICROVOLT / self.unit_in_volts) ** 2
        if self.unit_free:
            variances = np.trace(C, axis1=-2, axis2=-1) / C.shape[-1]
            self.scale_ = float(variances.mean()) / USUAL_VARIANCE
        self.n_features_in_ = C.shape[-1]
        self.n_matrices_ = C.shape[1]
        self.n_tokens_ = self.n_matrices_ * len(names)
        seen, (relative, absolute) = self.scaled(C), FLOORS[self.floor]
        self.reference_ = self.filters_ = self.tokens_ = self._added = None
        if not set(names) <= set(IN_NUMPY):
            self._added = self._in_torch().fit(seen, y)
            return self
        whitened, along = not set(AT_REFERENCE).isdisjoint(names), PRINCIPAL in names
        R = riemannian_mean(seen) if whitened or along else None
        if FILTERED in names:
            self.filters_ = class_filters(seen, as_labels(y, len(C), who=repr(FILTERED)))
        self.reference_ = R
        self.tokens_ = Tokens(
            names,
            self.isometric,
            relative,
            absolute,
            self.scale_,
            whiteners=inverse_root(R) if R is not None and whitened else None,
            axes=principal_axes(R) if R is not None and along else None,
            filters=self.filters_,
        )
        return self

    @classmethod
    def of_tokens(cls, tokens: Tokens, n_matrices: int, d: int) -> Self:
        """Build a fitted transformer from the computation saved in a model file.

        Parameters
        ----------
        tokens : Tokens
            The computation.
        n_matrices : int
            Number of matrices per trial.
        d : int
            Number of rows of a matrix.

        Returns
        -------
        TokenEmbedding
            The fitted transformer.
        """
        names: Any = tokens.embeddings
        paper, own = bool(tokens.absolute), tokens.scale != 1
        made = cls(
            names[0] if len(names) == 1 else tuple(names),
            isometric=tokens.isometric,
            floor="paper" if paper else "relative",
            unit_free=own and not paper,
            unit_in_volts=MICROVOLT / tokens.scale**0.5 if own and paper else None,
        )
        made.tokens_, made.scale_, made.filters_ = tokens, tokens.scale, tokens.filters
        made.n_matrices_, made.n_tokens_ = n_matrices, n_matrices * len(names)
        made.n_features_in_, made._added = d, None
        W = tokens.axes if tokens.whiteners is None else tokens.whiteners
        made.reference_ = None if W is None else np.asarray(np.linalg.inv(W.swapaxes(-1, -2) @ W))
        return made

    @property
    def embedding_(self) -> Embedding | StackedEmbedding:
        """The fitted embedding in torch, with gradients, for matrices divided by ``scale_``."""
        check_is_fitted(self)
        return self._in_torch() if self._added is None else self._added

    def _in_torch(self) -> Embedding | StackedEmbedding:
        """The embedding in torch; each member gets the fitted arrays it has fields for."""
        import torch

        from spdtokens.geometry.embeddings import StackedEmbedding, get_embedding
        from spdtokens.geometry.matrix_functions import Floor

        arrays = {"reference": self.reference_, "filters": self.filters_}
        fitted = {k: torch.from_numpy(v) for k, v in arrays.items() if v is not None}
        members: list[Any] = []
        for name in self.names:
            member = get_embedding(name, isometric=self.isometric, floor=Floor(*FLOORS[self.floor]))
            own: Any = {k: v for k, v in fitted.items() if hasattr(member, k)}
            members.append(replace(member, **own))
        return members[0] if len(members) == 1 else StackedEmbedding(tuple(members))

    def scaled(self, C: Array) -> Array:
        """Divide matrices by ``scale_``.

        Parameters
        ----------
        C : ndarray, shape (..., d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (..., d, d)
            Scaled matrices.
        """
        return C if self.scale_ == 1 else C / self.scale_

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Fit to training matrices and return their tokens.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
            SPD matrices.
        y : array, shape (n,), default=None
            Labels, required by ``'class_filters'``.

        Returns
        -------
        ndarray, shape (n, n_tokens * d (d + 1) / 2)
            Tokens, concatenated per trial.
        """
        C = as_matrices(X)
        return self.fit_matrices(C, y).of_matrices(C).reshape(len(C), -1)

    def transform(self, X: ArrayLike) -> Array:
        """Compute tokens, concatenated per trial.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_tokens * d (d + 1) / 2)
            Tokens, concatenated per trial.
        """
        tokens = self.tokens(X)
        return tokens.reshape(len(tokens), -1)

    def tokens(self, X: ArrayLike) -> Array:
        """Compute tokens.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_tokens, d (d + 1) / 2)
            Tokens.
        """
        check_is_fitted(self)
        return self.of_matrices(self.checked(X))

    def checked(self, X: ArrayLike) -> Array:
        """Check that matrices are SPD and have the shape of those passed to :meth:`fit`.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, m, d, d)
            The matrices as an array of float64.

        Raises
        ------
        UserError
            If the shape differs.
        NotSPDError
            If a matrix is not SPD.
        """
        C = as_matrices(X)
        if C.shape[1:3] != (self.n_matrices_, self.n_features_in_):
            raise UserError(
                f"X must have {self.n_matrices_} matrices of {self.n_features_in_} rows per trial, "
                f"as in fit, got {C.shape[1]} of {C.shape[2]}."
            )
        return C

    @one_thread()
    def of_matrices(self, C: Array) -> Array:
        """Compute the tokens of matrices that have been checked.

        Parameters
        ----------
        C : ndarray, shape (n, m, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_tokens, d (d + 1) / 2)
            Tokens.
        """
        size = max(1, PART_ENTRIES // C[0].size)

        def compute(C: Array) -> Array:
            if self.tokens_ is not None:
                return self.tokens_(C)
            return self.embedding_.to_token(self.scaled(C))

        if len(C) <= size:
            return compute(C)
        starts = range(0, len(C), size)
        return np.concatenate(share_out(lambda i: compute(C[i : i + size]), starts))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the token entries.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the matrices of a trial, as returned by :class:`FilterBankCovariances`. None
            for ``'matrix 0'``, ``'matrix 1'``, ...

        Returns
        -------
        ndarray of str, shape (n_tokens * d (d + 1) / 2,)
            Names such as ``'8-13 Hz log_euclidean[0,1]'``.
        """
        check_is_fitted(self)
        matrices = names_of_matrices(input_features, self.n_matrices_)
        entries = list(zip(*np.triu_indices(self.n_features_in_), strict=True))
        return np.array(
            [
                f"{matrix} {name}[{i},{j}]"
                for name in self.names
                for matrix in matrices
                for i, j in entries
            ],
            dtype=object,
        )
