"""From tokens to class probabilities: discriminant, token transformers, ONNX Runtime; NumPy only.

How the few matrices of a transformer come about is told in
``spdtokens.classifiers.nn.transformer``. Vectors end with a constant 1, so that every bias is a
column of its matrix.
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

#: Columns (trials times tokens) computed at once; more do not fit into a processor's cache.
_COLUMNS = 1024
#: Tokens of a single trial up to which they are faster one after another.
_FEW = 6
#: Range in which a vector's scale may float: far from the limits of float32, even squared.
_SMALL, _LARGE = 1e-6, 1e6
#: Inputs and output of an ONNX graph.
TOKENS, BIAS, PROBABILITIES = "tokens", "bias", "probabilities"
#: How far its probabilities may be from those of the model file: float32 against NumPy.
TOLERANCE = 1e-4


class Network(Protocol):
    """What turns tokens into probabilities."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Of tokens (n, tokens, features) of matrices (n, matrices, d, d): (n, classes)."""


@dataclass(frozen=True)
class Discriminant:
    """Scores that are linear in all tokens.

    Attributes
    ----------
    weight : ndarray, shape (tokens, features, classes)
    bias : ndarray, shape (classes,)
    """

    weight: Array
    bias: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""
        tokens, features, classes = self.weight.shape
        return tokens, features, classes

    def probabilities(self, tokens: Array, C: Array) -> Array:  # noqa: ARG002
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        return softmax(self.scores(tokens))

    def scores(self, tokens: Array) -> Array:
        """Scores (n, classes) of tokens (n, tokens, features)."""
        flat = self.weight.reshape(-1, len(self.bias))
        return tokens.reshape(len(tokens), -1) @ flat + self.bias


@dataclass(frozen=True)
class FoldedBlock:
    """An encoder block.

    Attributes
    ----------
    attend : ndarray, shape (3 d_model, d_model + 1), or None
        Queries, keys and values of ``[z; 1]``; None with one token.
    mix : ndarray, shape (d_model, 2 d_model + 1) or (d_model, d_model + 1), or None
        Of ``[z; 1; attended]``, or with one token of ``[z; 1]``: attention's output plus residual,
        centred. None where the projection contains it.
    expand : ndarray, shape (d_ff, d_model + 1)
        Of ``[z; 1]``, before the ReLU.
    contract : ndarray, shape (d_model, d_model + 1 + d_ff)
        Of ``[z; 1; relu]``: the feed-forward part plus residual, centred.
    eps : tuple of float
        What the two layer norms add to the variance.
    """

    attend: Array | None
    mix: Array | None
    expand: Array
    contract: Array
    eps: tuple[float, float]

    def astype(self, dtype: DTypeLike) -> FoldedBlock:
        """A copy with matrices of another dtype."""
        made = {
            name: stored(m, dtype) for name, m in vars(self).items() if isinstance(m, np.ndarray)
        }
        return replace(self, **made)  # type: ignore[arg-type]


class FoldedTransformer:
    """A token transformer in eval mode, for prediction without torch.

    Made by ``spdtokens.classifiers.nn.folded``. Safe to share among threads: nothing is written to
    after construction, every call has buffers of its own.

    Parameters
    ----------
    project : ndarray, shape (d_model, features)
    offsets : ndarray, shape (d_model, tokens)
        Added to the projected tokens.
    blocks : tuple of FoldedBlock
    head : ndarray, shape (classes, d_model + 1)
        Of ``[z; 1]``, the mean over tokens.
    n_heads : int
    needs_bias : bool
        Whether attention is geometric, which needs a bias for its scores.
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
        """A copy with matrices of another dtype."""
        return FoldedTransformer(
            stored(self.project, dtype),
            stored(self.offsets, dtype),
            tuple(block.astype(dtype) for block in self.blocks),
            stored(self.head, dtype),
            self.n_heads,
            self.needs_bias,
        )

    def scores(self, tokens: Array, bias: Array | None = None) -> Array:
        """Class scores (n, classes) of tokens.

        Parameters
        ----------
        tokens : ndarray, shape (n, tokens, features)
        bias : ndarray, shape (n, tokens, tokens), optional
            Added to the attention scores; geometric attention needs it.
        """
        n, T, F = len(tokens), self.n_tokens, self.n_features
        if tokens.shape != (n, T, F):
            raise DecoderError(f"Expected tokens of shape (n, {T}, {F}), got {tokens.shape}.")
        if bias is None and self.needs_bias and T > 1:
            raise DecoderError(
                "Geometric attention needs the distances of a trial's matrices: pass "
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
        """Class probabilities (n, classes); arguments as for :meth:`scores`."""
        return softmax(self.scores(tokens, bias))

    def _single(self, tokens: Array, bias: Array | None) -> Array:
        """Scores (classes,) of the tokens (tokens, features) of one trial, one after another.

        A product with a vector starts several times faster than one with a matrix of a few
        columns. Divisions by the lengths ``r`` of layer norms wait: ReLU and linear maps pass a
        positive factor on, so each vector is kept as ``[y; r]``, which stands for ``[y / r; 1]``,
        and ``eps`` grows with ``r`` squared. They do not wait for attention, which compares.
        """
        d, T = self.d_model, len(tokens)
        several = T > 1
        # Made anew, which costs a microsecond: threads must not share them.
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
            if several or not _SMALL < r < _LARGE:  # before it leaves the range of its dtype
                z /= z[:, d:]
                r = 1.0
        total = np.add.reduce(z, 0) if several else state[0]
        return self.head.dot(total) / (T * r)

    def _batch(self, tokens: Array, bias: Array | None) -> Array:
        """Scores (n, classes) of tokens (n, tokens, features); columns are tokens."""
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
    """Layer norm, in place, of centred columns (d, ...)."""
    variance = np.einsum("i...,i...->...", y, y) / len(y)
    y /= np.sqrt(variance + eps)


def _attend(qkv: Array, bias: Array | None, out: Array) -> None:
    """Write what tokens attend to into ``out`` (..., heads, d_head, tokens).

    ``qkv`` (3, ..., heads, d_head, tokens) holds queries, keys and values, ``bias``
    (..., tokens, tokens) is the same for all heads.
    """
    scores = qkv[0].swapaxes(-1, -2) @ qkv[1]
    if bias is not None:
        scores += bias[..., None, :, :]
    np.matmul(qkv[2], softmax(scores).swapaxes(-1, -2), out=out)


def stored(matrix: Array, dtype: DTypeLike) -> Array:
    """A copy of another dtype, laid out for products with vectors."""
    # Column-major: a product with a vector then adds up columns, the faster way in BLAS.
    return np.asfortranarray(matrix.astype(dtype))


@dataclass(frozen=True)
class Transformers:
    """The mean of the probabilities of transformers.

    Attributes
    ----------
    members : sequence of FoldedTransformer
    alpha : float
        Of geometric attention.
    """

    members: Sequence[FoldedTransformer]
    alpha: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Tokens, features and classes."""
        first = self.members[0]
        return first.n_tokens, first.n_features, first.n_classes

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        return self.mean(tokens, self.bias(C))

    def bias(self, C: Array) -> Array | None:
        """What geometric attention, if there is any, needs of matrices (n, matrices, d, d)."""
        needs = self.members[0].needs_bias and C.shape[1] > 1
        return geometric_bias(C, self.alpha) if needs else None

    def mean(self, tokens: Array, bias: Array | None) -> Array:
        """The same of tokens and the bias (n, tokens, tokens) of geometric attention."""
        found = [member.probabilities(tokens, bias) for member in self.members]
        mean = found[0] if len(found) == 1 else sum(found) / len(found)
        return np.asarray(mean, dtype=np.float64)


def geometric_bias(C: Array, alpha: float) -> Array:
    """Minus ``alpha`` times the Bures-Wasserstein distances of a trial's matrices.

    Parameters
    ----------
    C : ndarray, shape (n, matrices, d, d)
    alpha : float

    Returns
    -------
    bias : ndarray, shape (n, matrices, matrices)
        Distances are divided by the root of the mean trace of a trial's matrices.
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
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class OnnxNetwork:
    """The network of a model file, computed by ONNX Runtime.

    Parameters
    ----------
    path : Path
        What ``spdtokens export`` made of the model file.
    network : Network
        Of the model file, to compare with.
    digest : str
        SHA-256 of the model file.
    classes : tuple of str
    threads : int
        Of one call. One trial is too little work for more than one.

    Raises
    ------
    DecoderError
        If ONNX Runtime is not installed or cannot read the file, or it is of another model.
    OSError
        If there is no such file, or it may not be read.
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
                f"{path} was not made of this model file, or that was written anew since. Export "
                "it again: spdtokens export MODEL.spdt MODEL.onnx."
            )
        self.shape, self._network, self._run = network.shape, network, session.run
        self._compare(path)

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        given = {TOKENS: tokens.astype(np.float32)}
        bias = self._network.bias(C) if isinstance(self._network, Transformers) else None
        if bias is not None:
            given[BIAS] = bias.astype(np.float32)
        return np.asarray(self._run([PROBABILITIES], given)[0], dtype=np.float64)

    def _compare(self, path: Path) -> None:
        """Refuse a graph that computes something else than the model file."""
        rng = np.random.default_rng(0)
        T, F, _ = self.shape
        tokens, A = rng.standard_normal((2, T, F)), rng.standard_normal((2, T, 2, 4))
        C = A @ A.swapaxes(-1, -2)
        wanted = self._network.probabilities(tokens, C)
        try:
            found = self.probabilities(tokens, C)
        # Whatever ONNX Runtime raises, and its names are many: the file does not fit.
        except Exception as error:
            raise DecoderError(f"{path} does not take this model's tokens: {error}") from error
        if found.shape != wanted.shape or not np.abs(found - wanted).max() < TOLERANCE:
            raise DecoderError(
                f"{path} does not compute what its model file does. Export it again: spdtokens "
                "export MODEL.spdt MODEL.onnx."
            )


def _session(path: Path, threads: int) -> Any:
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise DecoderError(
            f"{path} needs ONNX Runtime: pip install onnxruntime. Or leave the .onnx out; the "
            "model file gives the same decisions with NumPy alone."
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4  # it raises, too; once is enough
    contents = path.read_bytes()
    try:
        return ort.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise DecoderError(f"{path} is no ONNX file that can be used: {error}") from error
