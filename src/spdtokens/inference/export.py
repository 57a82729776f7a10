"""Export models: the network to ONNX, or the model to a folder that only needs NumPy.

The ONNX graph is built from the folded matrices of the model file. The reference implementation is
:class:`~spdtokens.runtime.networks.FoldedTransformer`; tests compare the two, and the runtime
compares them when it opens a file. Filters, covariances and eigendecompositions stay in the
runtime, since ONNX has no eigendecomposition.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdtokens
from spdtokens import runtime
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

#: The oldest opset with layer normalisation, and its file version.
OPSET, IR_VERSION = 17, 8

README = """\
# Decoder

`model.spdt` is a model of spdtokens for {about}.
Classes: {classes}.

Copy this folder to a machine with Python 3.11 or later and NumPy 2; nothing else is required.{onnx}

    python decode.py TRIALS.npy     # an array (trials, {shape})

`decode.py` is an example in Python; it uses the package `spdtokens_runtime`. Trials must have the
unit and the channel order of the training data:
{channels}.
"""

ONNX = """
With `pip install onnxruntime`, the network in `model.onnx` is used, which is faster for several
tokens per trial; without onnxruntime, remove that file. Decisions are the same."""

EXAMPLE = '''\
"""Decode trials with the model in this folder: python decode.py TRIALS.npy."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads do not speed up small matrices

import numpy as np
from spdtokens_runtime import DecoderError, load_model

here = Path(__file__).parent
onnx = here / "model.onnx"
try:
    decoder = load_model(here / "model.spdt", onnx=onnx if onnx.exists() else None)
    session = decoder.session()  # decisions in order of time
    for trial in np.load(sys.argv[1]):
        p = session.probabilities(trial)
        shares = "  ".join(f"{name} {q:.3f}" for name, q in zip(decoder.classes, p, strict=True))
        print(f"{decoder.classes[p.argmax()]}  ({shares})")
except DecoderError as error:
    sys.exit(f"Error: {error}")
'''


def check_device_folder(folder: Path) -> Path:
    """Check that a device folder can be written: new or empty, and not the current folder.

    Parameters
    ----------
    folder : Path
        The folder to write.

    Returns
    -------
    Path
        Absolute path, with symbolic links resolved.

    Raises
    ------
    DeployError
        If the folder cannot be written.
    """
    target = Path(os.path.realpath(folder))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DeployError(f"--runtime must be a new or empty folder, got {folder}.")
    if target == Path.cwd():
        raise DeployError(f"--runtime must be a new folder, got the current folder {folder}.")
    if not target.parent.is_dir():
        raise DeployError(f"There is no folder {target.parent} in which to create {target.name}.")
    return target


def write_device_folder(
    folder: Path, decoder: Decoder, model: Path, onnx: Path | None = None
) -> None:
    """Write a folder with a model, a runtime that only needs NumPy, and an example.

    The folder is created only when it is complete.

    Parameters
    ----------
    folder : Path
        A new or empty folder.
    decoder : Decoder
        The model in the file ``model``.
    model : Path
        Model file to copy into the folder.
    onnx : Path, default=None
        ONNX file of the model to copy into the folder.

    Raises
    ------
    DeployError
        If the folder is not empty, or cannot be created.

    See Also
    --------
    write_onnx : Write the network of a model as ONNX.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_model, make_decoder, save_model
    >>> from spdtokens.inference import write_device_folder
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> with TemporaryDirectory() as name:
    ...     model, folder = Path(name) / "model.spdt", Path(name) / "device"
    ...     save_model(pipeline, model, ch_names=("C3", "Cz", "C4"))
    ...     write_device_folder(folder, load_model(model), model)
    ...     sorted(path.name for path in folder.iterdir())
    ['README.md', 'decode.py', 'model.spdt', 'spdtokens_runtime']
    """
    folder = check_device_folder(folder)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
        made = Path(name) / "made"
        source = Path(runtime.__file__).parent
        ours = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, made / "spdtokens_runtime", ignore=ours)
        shutil.copyfile(model, made / "model.spdt")
        if onnx is not None:
            shutil.copyfile(onnx, made / "model.onnx")
        (made / "decode.py").write_text(EXAMPLE)
        (made / "README.md").write_text(_readme(decoder, onnx is not None))
        made.replace(folder)


def _readme(decoder: Decoder, onnx: bool) -> str:
    about, shape = "covariance matrices", list(decoder.shape)
    if decoder.front is not None:
        shape = [len(decoder.ch_names), decoder.n_samples]
        about = f"{shape[0]} channels at {decoder.sfreq:g} Hz, {shape[1]} samples per trial"
    return README.format(
        about=about,
        classes=", ".join(decoder.classes),
        onnx=ONNX if onnx else "",
        shape=", ".join(map(str, shape)),
        channels=", ".join(decoder.ch_names),
    )


def write_onnx(model: Path, out: Path) -> Decoder:
    """Write the network of a model file as ONNX.

    The graph maps tokens (n, n_tokens, n_features) to probabilities (n, n_classes), both float32.
    With geometric attention and several tokens it has a second input, the attention bias
    (n, n_tokens, n_tokens). To use it, pass the file to :func:`spdtokens.load_model`.

    Parameters
    ----------
    model : Path
        A model file (``.spdt``).
    out : Path
        The ``.onnx`` file to write.

    Returns
    -------
    Decoder
        The model that was exported.

    Raises
    ------
    DeployError
        If the package ``onnx`` is not installed.
    DecoderError
        If the file is not a valid model file.

    See Also
    --------
    write_device_folder : Write a folder for a machine with NumPy only.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_model, make_decoder, save_model
    >>> from spdtokens.inference import write_onnx
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> with TemporaryDirectory() as folder:
    ...     model = Path(folder) / "model.spdt"
    ...     save_model(pipeline, model, ch_names=("C3", "Cz", "C4"))
    ...     decoder = write_onnx(model, model.with_suffix(".onnx"))
    ...     faster = load_model(model, onnx=model.with_suffix(".onnx"))
    >>> bool(np.allclose(faster.predict_proba(X), decoder.predict_proba(X), atol=1e-5))
    True
    """
    decoder = load_model(model)
    made = onnx_model(decoder, file_digest(model))
    with written_whole(out) as path:
        path.write_bytes(made.SerializeToString())
    return decoder


def onnx_model(decoder: Decoder, digest: str = "") -> Any:
    """Convert the network of a decoder to a checked ``onnx.ModelProto``.

    Parameters
    ----------
    decoder : Decoder
        The model.
    digest : str, default=''
        SHA-256 of the model file, by which the runtime recognises that the files belong together.

    Returns
    -------
    onnx.ModelProto
        The graph, see :func:`write_onnx`.

    Raises
    ------
    DeployError
        If the package ``onnx`` is not installed.

    See Also
    --------
    write_onnx : Write the graph to a file.
    """
    try:
        import onnx
        from onnx import helper
    except ImportError as error:
        raise DeployError(
            f"Export requires the package onnx, which is not installed: {how_to_install('onnx')}."
        ) from error

    def value(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", *shape])

    graph, network = _Graph(), decoder.network
    if not isinstance(network, Discriminant | Transformers):
        raise DeployError(
            "Models with spatial filters cannot be exported to ONNX. Use the model file: it needs "
            "only NumPy, see `spdtokens export MODEL.spdt FOLDER`."
        )
    tokens, features, classes = network.shape
    inputs = [value(TOKENS, tokens, features)]
    if isinstance(network, Discriminant):
        flat = network.weight.reshape(-1, classes)
        graph("Softmax", graph.linear(graph("Flatten", TOKENS), flat.T, network.bias), axis=-1)
    else:
        bias = None
        if network.members[0].needs_bias and tokens > 1:  # shared by all heads
            inputs.append(value(BIAS, tokens, tokens))
            bias = graph("Unsqueeze", BIAS, np.array([1]))
        scores = [_transformer(graph, member, bias) for member in network.members]
        found = [graph("Softmax", score, axis=-1) for score in scores]
        if len(found) > 1:
            graph("Mean", *found)
    graph.nodes[-1].output[0] = PROBABILITIES
    outputs = [value(PROBABILITIES, classes)]
    made = helper.make_model(
        helper.make_graph(graph.nodes, "spdtokens", inputs, outputs, graph.constants),
        producer_name="spdtokens",
        producer_version=spdtokens.__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    about = {
        "classes": decoder.classes,
        "ch_names": decoder.ch_names,
        "sfreq": decoder.sfreq,
        "n_samples": None if decoder.front is None else decoder.n_samples,
        "tmin": decoder.tmin,
    }
    texts = {name: json.dumps(value) for name, value in about.items()}
    texts |= {"sha256": digest, "spdtokens_version": spdtokens.__version__}
    helper.set_model_props(made, texts)
    onnx.checker.check_model(made, full_check=True)
    return made


class _Graph:
    """Nodes and constants of an ONNX graph; calling it adds a node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, kind: str, *inputs: str | NDArray[Any], **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        return self.outputs(1, kind, *inputs, **attributes)[0]

    def outputs(
        self, n: int, kind: str, *inputs: str | NDArray[Any], **attributes: Any
    ) -> list[str]:
        from onnx import helper

        names = [x if isinstance(x, str) else self._constant(x) for x in inputs]
        made = [f"v{len(self.nodes)}.{i}" for i in range(n)]
        self.nodes.append(helper.make_node(kind, names, made, **attributes))
        return made

    def _constant(self, array: NDArray[Any]) -> str:
        from onnx import numpy_helper

        array = np.asarray(array, np.float32 if array.dtype.kind == "f" else np.int64, order="C")
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def linear(self, x: str, weight: NDArray[Any], bias: NDArray[Any]) -> str:
        """Add ``x @ weight.T + bias`` for rows ``x``."""
        return self("Gemm", x, weight, bias, transB=1)


def _transformer(graph: _Graph, network: FoldedTransformer, bias: str | None) -> str:
    """Add a transformer that returns class scores; rows are tokens until the mean over them."""
    d, T = network.d_model, network.n_tokens
    if T == 1:
        z = graph.linear(graph("Flatten", TOKENS), network.project, network.offsets[:, 0])
    else:
        placed = graph("Add", graph("MatMul", TOKENS, network.project.T), network.offsets.T)
        z = graph("Reshape", placed, np.array([-1, d]))
    for block in network.blocks:
        z = _block(graph, network, block, z, bias)
    if T > 1:
        by_trial = graph("Reshape", z, np.array([-1, T, d]))
        z = graph("ReduceMean", by_trial, axes=[1], keepdims=0)
    return graph.linear(z, network.head[:, :d], network.head[:, d])


def _block(
    graph: _Graph, network: FoldedTransformer, block: FoldedBlock, z: str, bias: str | None
) -> str:
    """Add an encoder block. Column ``d`` of its matrices is the bias."""
    d, T, heads = network.d_model, network.n_tokens, network.n_heads
    if block.attend is not None:
        qkv = graph.linear(z, block.attend[:, :d], block.attend[:, d])
        split = graph("Reshape", qkv, np.array([-1, T, 3 * heads, d // heads]))
        by_head = graph("Transpose", split, perm=[0, 2, 1, 3])
        queries, keys, values = graph.outputs(3, "Split", by_head, axis=1)
        scores = graph("MatMul", queries, graph("Transpose", keys, perm=[0, 1, 3, 2]))
        if bias is not None:
            scores = graph("Add", scores, bias)
        attended = graph("MatMul", graph("Softmax", scores, axis=-1), values)
        by_token = graph("Transpose", attended, perm=[0, 2, 1, 3])
        z = graph("Concat", z, graph("Reshape", by_token, np.array([-1, d])), axis=-1)
    if block.mix is not None:
        z = graph.linear(z, np.delete(block.mix, d, axis=1), block.mix[:, d])
    z = graph("LayerNormalization", z, np.ones(d), epsilon=block.eps[0])
    hidden = graph("Relu", graph.linear(z, block.expand[:, :d], block.expand[:, d]))
    both = graph("Concat", z, hidden, axis=-1)
    z = graph.linear(both, np.delete(block.contract, d, axis=1), block.contract[:, d])
    return graph("LayerNormalization", z, np.ones(d), epsilon=block.eps[1])
