"""A folder for a small device: a model, the runtime that uses it, and an example."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from spdtokens import runtime
from spdtokens.errors import DeployError
from spdtokens.runtime import Decoder

README = """\
# A decoder

`model.spdt` is a model of spdtokens, {about}.
Classes: {classes}.

Copy this folder to any machine with Python 3.11 or newer and NumPy 2; nothing else is needed.{onnx}

    python decode.py TRIALS.npy     # an array (trials, {shape})

`decode.py` shows how to decode from Python, `spdtokens_runtime` is what it uses. Trials are in the
unit, and channels in the order, of the recording that the model was trained on{channels}.
"""

ONNX = """
With `pip install onnxruntime` the network in `model.onnx` is used, which is quicker for several
tokens a trial; without it, remove that file. Decisions are the same."""

EXAMPLE = '''\
"""Decode trials with the model in this folder: python decode.py TRIALS.npy."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices this small gain nothing from threads

import numpy as np
from spdtokens_runtime import DecoderError, load_model

here = Path(__file__).parent
onnx = here / "model.onnx"
try:
    decoder = load_model(here / "model.spdt", onnx=onnx if onnx.exists() else None)
    session = decoder.session()  # decisions in the order of time
    for trial in np.load(sys.argv[1]):
        p = session.probabilities(trial)
        shares = "  ".join(f"{name} {q:.3f}" for name, q in zip(decoder.classes, p, strict=True))
        print(f"{decoder.classes[p.argmax()]}  ({shares})")
except DecoderError as error:
    sys.exit(f"Error: {error}")
'''


def check_device_folder(folder: Path) -> None:
    """Refuse a folder that has something in it, has no place, or is the current one.

    Raises
    ------
    DeployError
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DeployError(f"{folder} exists and is not empty. Give a new folder to --runtime.")
    if folder.exists() and folder.samefile(Path.cwd()):
        raise DeployError(f"{folder} is the current folder. Give a new folder to --runtime.")
    folder = Path(os.path.realpath(folder))
    if not folder.parent.is_dir():
        raise DeployError(f"There is no folder {folder.parent} to make {folder.name} in.")


def write_device_folder(
    folder: Path, decoder: Decoder, model: Path, onnx: Path | None = None
) -> None:
    """Write the folder, whole or not at all.

    Parameters
    ----------
    folder : Path
        A new or empty one.
    decoder : Decoder
        Of ``model``.
    model, onnx : Path
        Copied into the folder.
    """
    check_device_folder(folder)
    folder = Path(os.path.realpath(folder))  # a link to an empty folder stays a link
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
    signals = decoder.front is not None
    if signals:
        about = (
            f"of signals of {len(decoder.ch_names)} channels at {decoder.sfreq:g} Hz, "
            f"{decoder.n_samples} samples a trial"
        )
        shape = f"{len(decoder.ch_names)}, {decoder.n_samples}"
    else:
        about, shape = "of covariance matrices", ", ".join(map(str, decoder.shape))
    return README.format(
        about=about,
        classes=", ".join(decoder.classes),
        onnx=ONNX if onnx else "",
        shape=shape,
        channels=f":\n{', '.join(decoder.ch_names)}",
    )
