"""From tokens to class probabilities with NumPy: discriminant, token transformers, ONNX Runtime.

``spdtokens.classifiers.nn.transformer`` explains how the matrices of a folded transformer are
computed. Vectors end with a constant 1, so that every bias is a column of its matrix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .tokens import DecoderError, softmax

Array = NDArray[Any]

#: Columns (trials times tokens) computed at once; more do not fit into the cache.
_COLUMNS = 1024
#: Matrices whose filters are applied at once.
_MATRICES = 2048
#: Number of tokens of a single trial up to which they are faster one after another.
_FEW = 6
#: Allowed range of the scale of a vector: its square is far from the limits of float32.
_SMALL, _LARGE = 1e-6, 1e6
#: Names of the inputs and the output of an ONNX graph.
TOKENS, BIAS, PROBABILITIES = "tokens", "bias", "probabilities"
#: Largest difference between its probabilities and those of the model file.
TOLERANCE = 1e-4


class Network(Protocol):
    """Network from tokens to class probabilities."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of tokens, features and classes."""

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Compute (n, classes) of tokens (n, tokens, features) and matrices (n, matrices, d, d)."""


@dataclass(frozen=True)
class Discriminant:
    """Linear discriminant on all tokens.

    Parameters
    ----------
    weight : ndarray, shape (tokens, features, classes)
        Weights.
    bias : ndarray, shape (classes,)
        Offsets of the scores.
    """

    weight: Array
    bias: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of tokens, features and classes."""
        tokens, features, classes = self.weight.shape
        return tokens, features, classes

    def probabilities(self, tokens: Array, C: Array) -> Array:  # noqa: ARG002
        """Compute class probabilities (n, classes) of tokens (n, tokens, features)."""
        return softmax(self.scores(tokens))

    def scores(self, tokens: Array) -> Array:
        """Compute scores (n, classes) of tokens (n, tokens, features)."""
        flat = self.weight.reshape(-1, len(self.bias))
        return tokens.reshape(len(tokens), -1) @ flat + self.bias


@dataclass(frozen=True)
class FoldedBlock:
    """Encoder block of a folded transformer.

    Parameters
    ----------
    attend : ndarray, shape (3 d_model, d_model + 1), or None
        Maps ``[z; 1]`` to queries, keys and values. None with one token.
    mix : ndarray, shape (d_model, 2 d_model + 1) or (d_model, d_model + 1), or None
        Maps ``[z; 1; attended]``, or with one token ``[z; 1]``, to the output of attention plus
        residual, centred. None where it is part of the projection.
    expand : ndarray, shape (d_ff, d_model + 1)
        Maps ``[z; 1]`` to the input of the ReLU.
    contract : ndarray, shape (d_model, d_model + 1 + d_ff)
        Maps ``[z; 1; relu]`` to the output of the feed-forward network plus residual, centred.
    eps : tuple of float
        Constants that the two layer norms add to the variance.
    """

    attend: Array | None
    mix: Array | None
    expand: Array
    contract: Array
    eps: tuple[float, float]

    def astype(self, dtype: DTypeLike) -> FoldedBlock:
        """Return a copy with matrices of another dtype."""
        made = {
            name: stored(m, dtype) for name, m in vars(self).items() if isinstance(m, np.ndarray)
        }
        return replace(self, **made)  # type: ignore[arg-type]


class FoldedTransformer:
    """Token transformer in evaluation mode, for prediction without torch.

    ``spdtokens.classifiers.nn.folded`` makes one. It is thread-safe: nothing is written after
    construction, and every call has its own buffers.

    Parameters
    ----------
    project : ndarray, shape (d_model, features)
        Projection of the tokens.
    offsets : ndarray, shape (d_model, tokens)
        Offsets of the projected tokens.
    blocks : tuple of FoldedBlock
        Encoder blocks.
    head : ndarray, shape (classes, d_model + 1)
        Maps the mean over tokens, ``[z; 1]``, to class scores.
    n_heads : int
        Attention heads per block.
    needs_bias : bool, default=False
        Whether attention is geometric, which needs a bias of the attention scores.
    """

    def __init__(
        self,
        project: Array,
        offsets: Array,
        blocks: tuple[FoldedBlock, ...],
        head: Array,
        n_heads: int,
        needs_bias: bool = False,
    ) -> None:
        self.project, self.offsets, self.blocks, self.head = project, offsets, blocks, head
        self.n_heads, self.needs_bias = n_heads, needs_bias
        self.d_model, self.n_features = project.shape
        self.n_tokens = offsets.shape[1]
        self.n_classes = len(head)
        self.d_ff = len(blocks[0].expand)
        self.dtype = project.dtype

    def astype(self, dtype: DTypeLike) -> FoldedTransformer:
        """Return a copy with matrices of another dtype."""
        return FoldedTransformer(
            stored(self.project, dtype),
            stored(self.offsets, dtype),
            tuple(block.astype(dtype) for block in self.blocks),
            stored(self.head, dtype),
            self.n_heads,
            self.needs_bias,
        )

    def scores(self, tokens: Array, bias: Array | None = None) -> Array:
        """Compute class scores (n, classes).

        Parameters
        ----------
        tokens : ndarray, shape (n, tokens, features)
            Tokens.
        bias : ndarray, shape (n, tokens, tokens), optional
            Bias of the attention scores, which geometric attention needs.
        """
        n, T, F = len(tokens), self.n_tokens, self.n_features
        if tokens.shape != (n, T, F):
            raise DecoderError(f"Expected tokens of shape (n, {T}, {F}), got {tokens.shape}.")
        if bias is None and self.needs_bias and T > 1:
            raise DecoderError(
                "Geometric attention needs the distances between the matrices of a trial: pass "
                "bias=geometric_bias(covariances, alpha)."
            )
        if bias is not None and bias.shape != (n, T, T):
            raise DecoderError(f"Expected a bias of shape ({n}, {T}, {T}), got {bias.shape}.")
        tokens = tokens.astype(self.dtype, copy=False)
        if n == 1 and T <= _FEW:
            return self._single(tokens[0], None if bias is None else bias[0])[None]
        step = max(1, _COLUMNS // T)
        parts = [slice(i, i + step) for i in range(0, n, step)]
        return np.concatenate(
            [np.empty((0, self.n_classes), self.dtype)]
            + [self._batch(tokens[p], None if bias is None else bias[p]) for p in parts]
        )

    def probabilities(self, tokens: Array, bias: Array | None = None) -> Array:
        """Compute class probabilities (n, classes); arguments as in :meth:`scores`."""
        return softmax(self.scores(tokens, bias))

    def _single(self, tokens: Array, bias: Array | None) -> Array:
        """Compute scores (classes,) of the tokens (tokens, features) of one trial, one by one.

        A product with a vector starts several times faster than one with a matrix of a few columns.
        Divisions by the lengths ``r`` of layer norms are postponed: ReLU and linear maps commute
        with a positive factor, so each vector is stored as ``[y; r]``, which stands for
        ``[y / r; 1]``, and ``eps`` is multiplied by ``r`` squared. With attention, which compares
        tokens, the division is done after each block.
        """
        d, T = self.d_model, len(tokens)
        several = T > 1
        # New buffers in every call, which takes a microsecond: threads must not share them.
        state = np.empty((T, 2 * d + 1 if several else d + 1), self.dtype)
        wide = np.empty((T, d + 1 + self.d_ff), self.dtype)
        rows = []
        for i in range(T):
            x, row = state[i], wide[i]
            out, y = x[:d], row[:d]
            rows.append((x, out, row, y, row[: d + 1], row[d + 1 :]))
            start = out if several else y
            self.project.dot(tokens[i], start)
            start += self.offsets[:, i]
        z = state[:, : d + 1]
        if several:
            state[:, d] = 1
            qkv = np.empty((T, 3 * d), self.dtype)
            heads = qkv.reshape(T, 3, self.n_heads, -1).transpose(1, 2, 3, 0)
            place = state[:, d + 1 :].reshape(T, self.n_heads, -1).transpose(1, 2, 0)
        r = length = 1.0
        for block in self.blocks:
            mix, expand, contract, (eps1, eps2) = block.mix, block.expand, block.contract, block.eps
            if block.attend is not None:
                for token, row in zip(z, qkv, strict=True):
                    block.attend.dot(token, row)
                _attend(heads, bias, place)
            for x, out, row, y, normed, hidden in rows:
                if mix is not None:
                    mix.dot(x, y)
                row[d] = length = sqrt(float(y.dot(y)) / d + eps1 * r * r)
                expand.dot(normed, hidden)
                np.maximum(hidden, 0, out=hidden)
                contract.dot(row, out)
                x[d] = length = sqrt(float(out.dot(out)) / d + eps2 * length * length)
            r = length
            if several or not _SMALL < r < _LARGE:  # stay in the range of the dtype
                z /= z[:, d:]
                r = 1.0
        total = np.add.reduce(z, 0) if several else state[0]
        return self.head.dot(total) / (T * r)

    def _batch(self, tokens: Array, bias: Array | None) -> Array:
        """Compute scores (n, classes) of tokens (n, tokens, features); columns are tokens."""
        n, T, F = tokens.shape
        d, columns = self.d_model, n * T
        state = np.empty((d + 1 + (d if T > 1 else 0), columns), self.dtype)
        wide = np.empty((d + 1 + self.d_ff, columns), self.dtype)
        state[d] = wide[d] = 1
        start = state if T > 1 else wide
        np.dot(self.project, tokens.reshape(columns, F).T, out=start[:d])
        start[:d].reshape(d, n, T)[...] += self.offsets[:, None]
        for block in self.blocks:
            if block.attend is not None:
                qkv = np.dot(block.attend, state[: d + 1]).reshape(3, self.n_heads, -1, n, T)
                place = state[d + 1 :].reshape(self.n_heads, -1, n, T).transpose(2, 0, 1, 3)
                _attend(qkv.transpose(0, 3, 1, 2, 4), bias, place)
            if block.mix is not None:
                np.dot(block.mix, state, out=wide[:d])
            _normalise(wide[:d], block.eps[0])
            hidden = np.dot(block.expand, wide[: d + 1], out=wide[d + 1 :])
            np.maximum(hidden, 0, out=hidden)
            np.dot(block.contract, wide, out=state[:d])
            _normalise(state[:d], block.eps[1])
        return np.dot(self.head, state[: d + 1]).reshape(-1, n, T).mean(2).T


def _normalise(y: Array, eps: float) -> None:
    """Normalise centred columns (d, ...) in place, as a layer norm does."""
    variance = np.einsum("i...,i...->...", y, y) / len(y)
    y /= np.sqrt(variance + eps)


def _attend(qkv: Array, bias: Array | None, out: Array) -> None:
    """Compute attention into ``out`` (..., heads, d_head, tokens).

    ``qkv`` (3, ..., heads, d_head, tokens) contains queries, keys and values; ``bias``
    (..., tokens, tokens) is the same for all heads.
    """
    scores = qkv[0].swapaxes(-1, -2) @ qkv[1]
    if bias is not None:
        scores += bias[..., None, :, :]
    np.matmul(qkv[2], softmax(scores).swapaxes(-1, -2), out=out)


def stored(matrix: Array, dtype: DTypeLike) -> Array:
    """Return a copy of another dtype in column-major order."""
    # BLAS computes products with a vector faster in column-major order.
    return np.asfortranarray(matrix.astype(dtype))


@dataclass(frozen=True)
class Transformers:
    """Ensemble of transformers, whose probabilities are averaged.

    Parameters
    ----------
    members : sequence of FoldedTransformer
        Transformers of equal shape.
    alpha : float
        Weight of the distance in geometric attention.
    """

    members: Sequence[FoldedTransformer]
    alpha: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of tokens, features and classes."""
        first = self.members[0]
        return first.n_tokens, first.n_features, first.n_classes

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Compute class probabilities (n, classes) of tokens (n, tokens, features)."""
        return self.mean(tokens, self.bias(C))

    def bias(self, C: Array) -> Array | None:
        """Compute the bias of geometric attention of matrices (n, matrices, d, d), if needed."""
        needs = self.members[0].needs_bias and C.shape[1] > 1
        return geometric_bias(C, self.alpha) if needs else None

    def mean(self, tokens: Array, bias: Array | None) -> Array:
        """Compute probabilities of tokens and the bias (n, tokens, tokens)."""
        found = [member.probabilities(tokens, bias) for member in self.members]
        mean = found[0] if len(found) == 1 else sum(found) / len(found)
        return np.asarray(mean, dtype=np.float64)


@dataclass(frozen=True)
class SpatialFilters:
    """Ensemble of linear classifiers of the power of spatial filters and of means over time.

    Parameters
    ----------
    filters : ndarray, shape (members, bands, d, k)
        Spatial filters, shared by the windows of a band.
    weight : ndarray, shape (members, bands, windows, k, classes)
        Weights of the logarithms of the powers.
    means : ndarray, shape (members, windows used, n_means, d, classes)
        Weights of the channels' means in parts of the windows of the first band; ``n_means`` may be
        0. They are the first rows of each matrix, see
        :func:`~spdtokens.runtime.signals.with_means`.
    bias : ndarray, shape (members, classes)
        Offsets of the scores.
    eps : float
        Added to the powers.
    step : int
        The means of every ``step``-th window are used.
    """

    filters: Array
    weight: Array
    means: Array
    bias: Array
    eps: float
    step: int = 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of tokens, features and classes."""
        _, bands, windows, _, classes = self.weight.shape
        rows = self.means.shape[2] + self.filters.shape[2]
        return bands * windows, rows * (rows + 1) // 2, classes

    def astype(self, dtype: DTypeLike) -> SpatialFilters:
        """Return a copy with arrays of another dtype."""
        made: dict[str, Any] = {
            name: a.astype(dtype) for name, a in vars(self).items() if isinstance(a, np.ndarray)
        }
        return replace(self, **made)

    def probabilities(self, tokens: Array, C: Array) -> Array:  # noqa: ARG002
        """Compute class probabilities (n, classes) of matrices (n, matrices, rows, rows)."""
        return self.of_matrices(C)

    def of_matrices(self, C: Array) -> Array:
        """Compute class probabilities of matrices, averaged over the members."""
        weight, bias = self.linear()
        step = max(1, _MATRICES // C.shape[1])
        parts = [np.empty((0, bias.shape[1]))]
        for i in range(0, len(C), step):
            scores = self.features(C[i : i + step]) @ weight + bias[:, None]
            parts.append(softmax(scores).mean(0))
        return np.concatenate(parts)

    def features(self, C: Array) -> Array:
        """Compute logarithms of powers, and means: (members, n, features)."""
        members, bands, d, k = self.filters.shape
        windows, r = self.weight.shape[2], self.means.shape[2]
        F = self.filters.transpose(1, 2, 0, 3).reshape(bands, d, members * k)
        powers = np.empty((members, len(C), bands, windows, k))
        for b in range(bands):
            seen = C[:, b * windows : (b + 1) * windows, r:, r:]
            power = np.einsum("nwdf,df->nwf", seen @ F[b], F[b], optimize=False)
            power = np.log(np.maximum(power, 0) + self.eps)
            powers[:, :, b] = power.reshape(len(C), windows, members, k).transpose(2, 0, 1, 3)
        found = powers.reshape(members, len(C), -1)
        if not r:
            return found
        means = means_over_time(C[:, : windows : self.step], r).reshape(len(C), -1)
        return np.concatenate([found, np.broadcast_to(means, (members, *means.shape))], axis=2)

    def linear(self) -> tuple[Array, Array]:
        """Weights (members, features, classes) and offsets of :meth:`features`."""
        members, classes = self.bias.shape
        flat = [a.reshape(members, -1, classes) for a in (self.weight, self.means)]
        return np.concatenate(flat, axis=1), self.bias

    def with_linear(self, weight: Array, bias: Array) -> SpatialFilters:
        """Return a copy with other weights, of the shapes of :meth:`linear`."""
        split = int(np.prod(self.weight.shape[1:-1]))
        return replace(
            self,
            weight=weight[:, :split].reshape(self.weight.shape),
            means=weight[:, split:].reshape(self.means.shape),
            bias=bias,
        )


def means_over_time(C: Array, n_means: int) -> Array:
    """Means (n, windows, n_means, d) of matrices with ``n_means`` first rows: ``with_means``."""
    power = np.einsum("nwii->nwi", C[..., :n_means, :n_means])
    return np.asarray(C[..., :n_means, n_means:] / np.sqrt(power)[..., None])


def geometric_bias(C: Array, alpha: float) -> Array:
    """Compute minus ``alpha`` times the Bures-Wasserstein distances between matrices of a trial.

    Parameters
    ----------
    C : ndarray, shape (n, matrices, d, d)
        SPD matrices.
    alpha : float
        Weight of the distance.

    Returns
    -------
    ndarray, shape (n, matrices, matrices)
        Bias. Distances are divided by the square root of the mean trace of the trial's matrices.
    """
    w, V = np.linalg.eigh(0.5 * (C + C.swapaxes(-1, -2)))
    roots = (V * np.sqrt(np.maximum(w, 0))[..., None, :]) @ V.swapaxes(-1, -2)
    trace = w.sum(-1)
    i, j = np.triu_indices(C.shape[1], 1)
    product = np.linalg.eigvalsh(roots[:, i] @ C[:, j] @ roots[:, i])
    fidelity = np.sqrt(np.maximum(product, 0)).sum(-1)
    squared = np.maximum(trace[:, i] + trace[:, j] - 2 * fidelity, 0)
    bias = np.zeros((len(C), C.shape[1], C.shape[1]))
    bias[:, i, j] = bias[:, j, i] = -alpha * np.sqrt(squared / trace.mean(-1, keepdims=True))
    return bias


def file_digest(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class OnnxNetwork:
    """Network of a model file, computed by ONNX Runtime.

    Parameters
    ----------
    path : Path
        ONNX file that ``spdtokens export`` wrote.
    network : Network
        Network of the model file, to compare with.
    digest : str
        SHA-256 of the model file.
    classes : tuple of str
        Class labels.
    threads : int, default=1
        Threads per call. More than one does not help for single trials.

    Raises
    ------
    DecoderError
        If ONNX Runtime is not installed or cannot read the file, or the file belongs to another
        model.
    OSError
        If the file does not exist or cannot be read.
    """

    def __init__(
        self,
        path: Path,
        network: Network,
        digest: str,
        classes: tuple[str, ...],
        threads: int = 1,
    ) -> None:
        session = _session(path, threads)
        about = session.get_modelmeta().custom_metadata_map
        if about.get("sha256") != digest or about.get("classes") != json.dumps(classes):
            raise DecoderError(
                f"{path} was not exported from this model file, or the model file has changed "
                "since. Export it again: spdtokens export MODEL.spdt MODEL.onnx."
            )
        self.shape, self._network, self._run = network.shape, network, session.run
        self._compare(path)

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Compute class probabilities (n, classes) of tokens (n, tokens, features)."""
        given = {TOKENS: tokens.astype(np.float32)}
        bias = self._network.bias(C) if isinstance(self._network, Transformers) else None
        if bias is not None:
            given[BIAS] = bias.astype(np.float32)
        return np.asarray(self._run([PROBABILITIES], given)[0], dtype=np.float64)

    def _compare(self, path: Path) -> None:
        """Raise DecoderError for a graph that differs from the model file."""
        rng = np.random.default_rng(0)
        T, F, _ = self.shape
        tokens, A = rng.standard_normal((2, T, F)), rng.standard_normal((2, T, 2, 4))
        C = A @ A.swapaxes(-1, -2)
        wanted = self._network.probabilities(tokens, C)
        try:
            found = self.probabilities(tokens, C)
        # ONNX Runtime raises many kinds of errors.
        except Exception as error:
            raise DecoderError(
                f"{path} does not accept the tokens of this model: {error}"
            ) from error
        if found.shape != wanted.shape or not np.abs(found - wanted).max() < TOLERANCE:
            raise DecoderError(
                f"{path} does not give the probabilities of its model file. Export it again: "
                "spdtokens export MODEL.spdt MODEL.onnx."
            )


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise DecoderError(
            f"{path} needs ONNX Runtime: pip install onnxruntime. Or omit the .onnx file: the "
            "model file gives the same decisions with NumPy alone."
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4  # errors are raised anyway
    contents = path.read_bytes()
    try:
        return ort.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DecoderError(f"{path} cannot be read as an ONNX file: {error}") from error
