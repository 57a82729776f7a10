"""The network of a model in ONNX Runtime; imported only when it is asked for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DecoderError
from .matrices import Array
from .networks import Network, Transformers, geometric_bias

#: Inputs and output of the graph.
TOKENS, BIAS, PROBABILITIES = "tokens", "bias", "probabilities"
#: How far its probabilities may be from those of the model file: float32 against NumPy.
TOLERANCE = 1e-4


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
        self.shape = network.shape
        self._alpha = _alpha(network)
        self._run, self._wanted = session.run, [PROBABILITIES]
        self._compare(path, network)

    def probabilities(self, tokens: Array, C: Array) -> Array:
        """Class probabilities (n, classes) of tokens (n, tokens, features)."""
        bias = None if self._alpha is None else geometric_bias(C, self._alpha)
        return self._probabilities(tokens, bias)

    def _probabilities(self, tokens: Array, bias: NDArray[Any] | None) -> Array:
        given = {TOKENS: tokens.astype(np.float32)}
        if bias is not None:
            given[BIAS] = bias.astype(np.float32)
        found: Array = self._run(self._wanted, given)[0].astype(np.float64)
        return found

    def _compare(self, path: Path, network: Network) -> None:
        """Refuse a graph that computes something else than the model file."""
        rng = np.random.default_rng(0)
        tokens = rng.standard_normal((2, *network.shape[:2]))
        T = tokens.shape[1]
        bias = None if self._alpha is None else -rng.random((2, T, T))
        try:
            found = self._probabilities(tokens, bias)
        # Whatever ONNX Runtime raises, and its names are many: the file does not fit.
        except Exception as error:
            raise DecoderError(f"{path} does not take this model's tokens: {error}") from error
        wanted = _of(network, tokens, bias)
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


def _alpha(network: Network) -> float | None:
    """Of geometric attention, if there is any."""
    if isinstance(network, Transformers):
        first = network.members[0]
        if first.needs_bias and first.n_tokens > 1:
            return network.alpha
    return None


def _of(network: Network, tokens: Array, bias: NDArray[Any] | None) -> Array:
    if isinstance(network, Transformers):
        return network.mean(tokens, bias)
    return network.probabilities(tokens, tokens)
