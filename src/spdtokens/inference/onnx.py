"""The network of a model as an ONNX graph: tokens in, class probabilities out.

Built node by node from the folded matrices of the model file, so that few nodes run for one trial.
What makes the tokens, filters, covariances and eigendecompositions, stays in the runtime: ONNX has
no eigendecomposition.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdtokens
from spdtokens._extras import how_to_install
from spdtokens._files import written_whole
from spdtokens.errors import DeployError
from spdtokens.runtime import Decoder, load_model
from spdtokens.runtime.networks import (
    BIAS,
    PROBABILITIES,
    TOKENS,
    Discriminant,
    FoldedBlock,
    FoldedTransformer,
    Transformers,
    file_digest,
)

#: The oldest with a layer norm of its own, and the file version that came with it.
OPSET, IR_VERSION = 17, 8


def write_onnx(model: Path, out: Path) -> Decoder:
    """Write the network of a model file as ONNX; the decoder that was exported.

    Parameters
    ----------
    model : Path
        A model file, ``.spdt``.
    out : Path
        The ``.onnx`` to write.

    Raises
    ------
    DeployError
        If the package ``onnx`` is not installed.
    DecoderError
        For a file that is no model.
    """
    decoder = load_model(model)
    made = onnx_model(decoder, file_digest(model))
    with written_whole(out) as path:
        path.write_bytes(made.SerializeToString())
    return decoder


def onnx_model(decoder: Decoder, digest: str = "") -> Any:
    """The network of a decoder as a checked ``onnx.ModelProto``.

    Parameters
    ----------
    decoder : Decoder
    digest : str
        SHA-256 of its model file, by which the runtime knows that the two belong together.
    """
    try:
        import onnx
        from onnx import helper
    except ImportError as error:
        raise DeployError(
            f"The package onnx is not installed, which writes the file: {how_to_install('onnx')}."
        ) from error
    graph = _Graph()
    network = decoder.network
    if isinstance(network, Discriminant):
        _discriminant(graph, network)
    else:
        assert isinstance(network, Transformers)
        _transformers(graph, network)
    tokens, features, classes = network.shape
    inputs = [_value(TOKENS, tokens, features)]
    if graph.uses(BIAS):
        inputs.append(_value(BIAS, tokens, tokens))
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "spdtokens",
            inputs,
            [_value(PROBABILITIES, classes)],
            graph.constants,
        ),
        producer_name="spdtokens",
        producer_version=spdtokens.__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    helper.set_model_props(made, _description(decoder, digest))
    onnx.checker.check_model(made, full_check=True)
    return made


def _description(decoder: Decoder, digest: str) -> dict[str, str]:
    """What whoever opens the file wants to know, as JSON texts."""
    signals = decoder.front is not None
    return {
        "classes": json.dumps(decoder.classes),
        "ch_names": json.dumps(decoder.ch_names),
        "sfreq": json.dumps(decoder.sfreq),
        "n_samples": json.dumps(decoder.n_samples if signals else None),
        "tmin": json.dumps(decoder.tmin),
        "sha256": digest,
        "spdtokens_version": spdtokens.__version__,
    }


def _value(name: str, *shape: int) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])


class _Graph:
    """Nodes and constants as they come; every name is given once."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, bytes], str] = {}

    def uses(self, name: str) -> bool:
        return any(name in node.input for node in self.nodes)

    def node(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add a node with one output; the name of that."""
        return self.several(kind, *inputs, outs=[out or self._fresh()], **attributes)[0]

    def several(self, kind: str, *inputs: str, outs: list[str], **attributes: Any) -> list[str]:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, outs, **attributes))
        return outs

    def three(self, kind: str, x: str, **attributes: Any) -> list[str]:
        """Add a node with three outputs."""
        outs = [f"{self._fresh()}.{i}" for i in range(3)]
        return self.several(kind, x, outs=outs, **attributes)

    def _fresh(self) -> str:
        return f"v{len(self.nodes)}"

    def constant(self, array: NDArray[Any]) -> str:
        """The name of a constant, the same for the same values."""
        from onnx import numpy_helper

        array = np.asarray(array, order="C")
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        if key not in self._known:
            self._known[key] = f"c{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def numbers(self, array: NDArray[Any]) -> str:
        return self.constant(array.astype(np.float32))

    def linear(self, x: str, weight: NDArray[Any], bias: NDArray[Any]) -> str:
        """``x @ weight.T + bias`` of rows ``x``; the runtime's matrices are as Gemm wants them."""
        return self.node("Gemm", x, self.numbers(weight), self.numbers(bias), transB=1)

    def reshaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))


def _discriminant(graph: _Graph, network: Discriminant) -> None:
    flat = network.weight.reshape(-1, len(network.bias))
    scores = graph.linear(graph.node("Flatten", TOKENS), flat.T, network.bias)
    graph.node("Softmax", scores, axis=-1, out=PROBABILITIES)


def _transformers(graph: _Graph, network: Transformers) -> None:
    first = network.members[0]
    bias = None
    if first.needs_bias and first.n_tokens > 1:  # the same for all heads
        axes = graph.constant(np.array([1], dtype=np.int64))
        bias = graph.node("Unsqueeze", BIAS, axes)
    several = len(network.members) > 1
    out = None if several else PROBABILITIES
    scores = [_transformer(graph, member, bias) for member in network.members]
    found = [graph.node("Softmax", s, axis=-1, out=out) for s in scores]
    if several:
        graph.node("Mean", *found, out=PROBABILITIES)


def _transformer(graph: _Graph, network: FoldedTransformer, bias: str | None) -> str:
    """Class scores (n, classes). A row is a token until the mean over tokens."""
    d, T = network.d_model, network.n_tokens
    if T == 1:
        z = graph.linear(graph.node("Flatten", TOKENS), network.project, network.offsets[:, 0])
    else:
        projected = graph.node("MatMul", TOKENS, graph.numbers(network.project.T))
        placed = graph.node("Add", projected, graph.numbers(network.offsets.T))
        z = graph.reshaped(placed, -1, d)
    for block in network.blocks:
        z = _block(graph, network, block, z, bias)
    if T > 1:
        z = graph.node("ReduceMean", graph.reshaped(z, -1, T, d), axes=[1], keepdims=0)
    return graph.linear(z, network.head[:, :d], network.head[:, d])


def _block(
    graph: _Graph, network: FoldedTransformer, block: FoldedBlock, z: str, bias: str | None
) -> str:
    """An encoder block on rows. Column ``d`` of its matrices is what they add."""
    d = network.d_model
    ones = graph.numbers(np.ones(d))
    if block.attend is not None:
        attended = _attended(graph, network, block.attend, z, bias)
        z = graph.node("Concat", z, attended, axis=-1)
    if block.mix is not None:
        z = graph.linear(z, np.delete(block.mix, d, axis=1), block.mix[:, d])
    z = graph.node("LayerNormalization", z, ones, epsilon=block.eps[0])
    hidden = graph.node("Relu", graph.linear(z, block.expand[:, :d], block.expand[:, d]))
    both = graph.node("Concat", z, hidden, axis=-1)
    z = graph.linear(both, np.delete(block.contract, d, axis=1), block.contract[:, d])
    return graph.node("LayerNormalization", z, ones, epsilon=block.eps[1])


def _attended(
    graph: _Graph, network: FoldedTransformer, attend: NDArray[Any], z: str, bias: str | None
) -> str:
    """What each token (a row) attends to."""
    d, T, heads = network.d_model, network.n_tokens, network.n_heads
    made = graph.linear(z, attend[:, :d], attend[:, d])
    split = graph.reshaped(made, -1, T, 3 * heads, d // heads)
    by_head = graph.node("Transpose", split, perm=[0, 2, 1, 3])
    queries, keys, values = graph.three("Split", by_head, axis=1)
    turned = graph.node("Transpose", keys, perm=[0, 1, 3, 2])
    scores = graph.node("MatMul", queries, turned)
    if bias is not None:
        scores = graph.node("Add", scores, bias)
    attended = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)
    return graph.reshaped(graph.node("Transpose", attended, perm=[0, 2, 1, 3]), -1, d)
