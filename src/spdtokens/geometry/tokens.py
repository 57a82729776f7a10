"""From SPD matrices to tokens, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from spdtokens._labels import as_labels
from spdtokens.errors import UserError
from spdtokens.geometry.embeddings import Embedding, Several, find_embedding, get_embeddings
from spdtokens.geometry.embeddings.at_reference import AtReference
from spdtokens.geometry.embeddings.class_filters import class_filters
from spdtokens.geometry.embeddings.principal import principal_axes
from spdtokens.geometry.karcher import riemannian_mean
from spdtokens.geometry.matrix_functions import Floor
from spdtokens.geometry.parallel import share_out
from spdtokens.geometry.triangle import token_dim
from spdtokens.geometry.validation import check_spd
from spdtokens.runtime.matrices import inverse_root
from spdtokens.runtime.threads import one_thread
from spdtokens.runtime.tokens import AT_REFERENCE, PRINCIPAL, Tokens
from spdtokens.runtime.tokens import EMBEDDINGS as IN_NUMPY

#: Of EEG, in square microvolts: a signal of 10 microvolts.
USUAL_VARIANCE = 100.0
#: Entries of matrices that are embedded at a time.
PART_ENTRIES = 1 << 17
Array = NDArray[np.float64]


def as_matrices(X: ArrayLike) -> Array:
    """SPD matrices (n, m, d, d) from (n, d, d), (n, m, d, d) or nested lists of either.

    Raises
    ------
    UserError
        For another shape, no trials, or matrices that are not symmetric positive definite.
    """
    X = np.asarray(X)
    if X.dtype.kind == "c":
        raise UserError(f"Complex data not supported: matrices must be real, got {X.dtype}.")
    try:
        C = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"Matrices must be real numbers, got {X.dtype}: {error}.") from error
    if C.ndim not in (3, 4) or 0 in C.shape:
        raise UserError(
            f"Expected SPD matrices (n, d, d) or (n, m, d, d), n > 0, got shape {X.shape}. Reshape "
            "your data, or put FilterBankCovariances before the classifier."
        )
    check_spd(C)
    return C if C.ndim == 4 else C[:, None]


def names_of_matrices(given: Sequence[str] | None, n: int) -> NDArray[Any]:
    """Names of a trial's ``n`` matrices: those given, if they are as many."""
    names = given if given is not None and len(given) == n else [f"matrix {i}" for i in range(n)]
    return np.array(names, dtype=object)


def matrix_tags(tags: Tags) -> Tags:
    """Say that input is three-dimensional and positive."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    return tags


class ArrayOutputMixin(TransformerMixin, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """A transformer whose output is trials or matrices, not a table with named columns.

    It stays an array where ``set_output`` or scikit-learn's configuration ask for data frames, so
    that these can be asked for in a pipeline whose later steps make tables.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **kwargs)

    def set_output(self, *, transform: str | None = None) -> Self:  # noqa: ARG002
        """Do nothing: the output is an array of three or more dimensions, whatever is asked for.

        Parameters
        ----------
        transform : str, optional
            Ignored.

        Returns
        -------
        self
        """
        return self


class TokenEmbedding(TransformerMixin, BaseEstimator):
    """Turn SPD matrices into tokens: the upper triangle of a function of the matrix.

    The first layer of the token classifiers. By itself it puts tokens in front of any classifier.

    Parameters
    ----------
    embedding : str or sequence of str, default='log_euclidean'
        ``'log_euclidean'``, ``'bures_wasserstein'`` (the square root), ``'euclidean'``,
        ``'cholesky'``, ``'log_cholesky'``; ``'affine_invariant'``, ``'whitened_root'`` or
        ``'principal_correlation'``, which are fitted to training matrices; or ``'class_filters'``,
        which is fitted to training matrices and labels. With several names, each matrix gives one
        token per name: those of the first embedding come first.
    isometric : bool, default=False
        Multiply off-diagonal entries by sqrt 2, so that distances of tokens are those of matrices.
    floor : {'relative', 'paper'}, default='relative'
        Least eigenvalue: relative to the matrix, or the paper's 1e-12.
    unit_free : bool, default=False
        Divide all matrices by one number, so that the mean variance of the training trials is 100:
        that of EEG in microvolts, for which the paper's network was made. Then no token depends on
        the unit of the signal.

    Attributes
    ----------
    tokens_ : Tokens or None
        The computation itself, in NumPy: what :meth:`tokens` and model files use. None for an
        embedding that was added to the registry and has no NumPy code: torch then computes tokens.
    reference_ : ndarray, shape (m, d, d), or None
        Riemannian mean of the training matrices, for embeddings that are seen from it.
    filters_ : ndarray, shape (m, k, d), or None
        Of ``'class_filters'``.
    scale_ : float
        What matrices are divided by; 1 unless ``unit_free``.
    n_matrices_, n_tokens_ : int
        Per trial.
    n_features_in_ : int
        Rows of a matrix.

    See Also
    --------
    FilterBankCovariances : Makes matrices of signals.

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
    ) -> None:
        self.embedding = embedding
        self.isometric = isometric
        self.floor = floor
        self.unit_free = unit_free

    def __sklearn_tags__(self) -> Tags:
        """Say that input is three-dimensional, and whether labels are needed."""
        tags = matrix_tags(super().__sklearn_tags__())
        tags.target_tags.required = "class_filters" in self.names
        return tags

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the embeddings."""
        return (self.embedding,) if isinstance(self.embedding, str) else tuple(self.embedding)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the unit, references and filters from training matrices.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
        y : array, shape (n,), optional
            Labels, needed by ``'class_filters'``.

        Returns
        -------
        self
        """
        return self.fit_matrices(as_matrices(X), y)

    reference_: Array | None
    filters_: Array | None
    tokens_: Tokens | None
    _added: Embedding | Several | None  # to the registry, without NumPy code

    @one_thread()
    def fit_matrices(self, C: Array, y: ArrayLike | None = None) -> Self:
        """:meth:`fit` of matrices (n, m, d, d) that have been checked."""
        kinds = [find_embedding(name) for name in self.names]
        if not kinds or self.floor not in ("relative", "paper"):
            raise UserError(
                "embedding must be one or more names and floor 'relative' or 'paper', got "
                f"{self.embedding!r} and {self.floor!r}."
            )
        self.scale_ = 1.0
        if self.unit_free:
            variances = np.trace(C, axis1=-2, axis2=-1) / C.shape[-1]
            self.scale_ = float(variances.mean()) / USUAL_VARIANCE
        self.n_features_in_ = C.shape[-1]
        self.n_matrices_ = C.shape[1]
        self.n_tokens_ = self.n_matrices_ * len(self.names)
        seen, floor = self.scaled(C), self._floor()
        self.reference_ = self.filters_ = self.tokens_ = self._added = None
        if any(name not in IN_NUMPY for name in self.names):
            self._added = self._made({}).fit(seen, y)
            return self
        at_reference = any(issubclass(kind, AtReference) for kind in kinds)
        self.reference_ = riemannian_mean(seen) if at_reference else None
        if any(kind.needs_labels for kind in kinds):
            self.filters_ = class_filters(seen, as_labels(y, len(C), who="'class_filters'"))
        whitened = any(name in AT_REFERENCE for name in self.names)
        self.tokens_ = Tokens(
            embeddings=self.names,
            isometric=self.isometric,
            relative=floor.relative,
            absolute=floor.absolute,
            scale=self.scale_,
            whiteners=inverse_root(self.reference_) if whitened else None,  # type: ignore[arg-type]
            axes=principal_axes(torch.from_numpy(self.reference_)).numpy()
            if PRINCIPAL in self.names
            else None,
            filters=self.filters_,
        )
        return self

    @classmethod
    def of_tokens(cls, tokens: Tokens, n_matrices: int, d: int) -> Self:
        """The fitted embedding of which a model file holds the computation."""
        names: Any = tokens.embeddings
        made = cls(
            names[0] if len(names) == 1 else tuple(names),
            isometric=tokens.isometric,
            floor="paper" if tokens.absolute else "relative",
            unit_free=tokens.scale != 1,
        )
        made.tokens_, made.scale_, made.filters_ = tokens, tokens.scale, tokens.filters
        made.n_matrices_, made.n_tokens_ = n_matrices, n_matrices * len(names)
        made.n_features_in_, made._added = d, None
        W = tokens.axes if tokens.whiteners is None else tokens.whiteners
        made.reference_ = None if W is None else np.asarray(np.linalg.inv(W.swapaxes(-1, -2) @ W))
        return made

    def _floor(self) -> Floor:
        return Floor.paper() if self.floor == "paper" else Floor()

    @property
    def embedding_(self) -> Embedding | Several:
        """The fitted embedding as torch computes it, with gradients; of matrices without a unit."""
        check_is_fitted(self)
        if self._added is not None:
            return self._added
        fitted: dict[str, Any] = {}
        if self.reference_ is not None:
            fitted["reference"] = torch.from_numpy(self.reference_)
        if self.filters_ is not None:
            fitted["filters"] = torch.from_numpy(self.filters_)
        return self._made(fitted)

    def _made(self, fitted: dict[str, Any]) -> Embedding | Several:
        """The embedding, each member with the fitted tensors that it has."""

        def filled(member: Embedding) -> Embedding:
            return replace(member, **{k: v for k, v in fitted.items() if hasattr(member, k)})

        made = get_embeddings(self.embedding, isometric=self.isometric, floor=self._floor())
        if isinstance(made, Several):
            return Several(tuple(map(filled, made.members)))
        return filled(made)

    def scaled(self, C: Array) -> Array:
        """Matrices as the embedding sees them: without a unit, if that is asked for."""
        return C / self.scale_ if self.unit_free else C

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Fit, and return the tokens of the training matrices (n, tokens * features)."""
        C = as_matrices(X)
        return self.fit_matrices(C, y).of_matrices(C).reshape(len(C), -1)

    def transform(self, X: ArrayLike) -> Array:
        """Compute tokens, side by side.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)

        Returns
        -------
        tokens : ndarray, shape (n, tokens * features)
        """
        tokens = self.tokens(X)
        return tokens.reshape(len(tokens), -1)

    def tokens(self, X: ArrayLike) -> Array:
        """Compute tokens.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)

        Returns
        -------
        tokens : ndarray, shape (n, tokens, features)
        """
        check_is_fitted(self)
        return self.of_matrices(self.checked(X))

    def checked(self, X: ArrayLike) -> Array:
        """Matrices (n, m, d, d) like those of :meth:`fit`; others are refused."""
        C = as_matrices(X)
        if C.shape[1:3] != (self.n_matrices_, self.n_features_in_):
            raise UserError(
                f"Fitted to {self.n_matrices_} matrices of {self.n_features_in_} rows per trial, "
                f"got {C.shape[1]} of {C.shape[2]}."
            )
        return C

    @one_thread()
    def of_matrices(self, C: Array) -> Array:
        """:meth:`tokens` of matrices (n, m, d, d) that have been checked."""
        size = max(1, PART_ENTRIES // C[0].size)
        if len(C) <= size:
            return self._computed(C)
        tokens = np.empty((len(C), self.n_tokens_, token_dim(C.shape[-1])))

        def work(start: int) -> None:
            tokens[start : start + size] = self._computed(C[start : start + size])

        share_out(work, range(0, len(C), size))
        return tokens

    def _computed(self, C: Array) -> Array:
        if self.tokens_ is not None:
            return self.tokens_(C)
        return self.embedding_.to_token(self.scaled(C))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Names of the tokens' entries.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of a trial's matrices, as :class:`FilterBankCovariances` gives them;
            ``'matrix 0'``, ... by default.

        Returns
        -------
        names : ndarray of str, shape (tokens * features,)
            Such as ``'8-13 Hz log_euclidean[0,1]'``.
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
