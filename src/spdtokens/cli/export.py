"""``spdtokens export``: a model for other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spdtokens.cli.app import app, errors_told


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model file, .spdt.")],
    onnx: Annotated[
        Path | None, typer.Argument(help="The .onnx to write: tokens in, probabilities out.")
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(help="New folder with the model and all it needs beside Python and NumPy."),
    ] = None,
) -> None:
    """Write a model's network as ONNX, or the model with a runtime for a small device, or both."""
    from spdtokens._files import output_file
    from spdtokens.errors import DeployError
    from spdtokens.inference.device import check_device_folder, write_device_folder
    from spdtokens.inference.onnx import write_onnx
    from spdtokens.runtime import load_model

    with errors_told():
        if onnx is None and runtime is None:
            raise DeployError(
                f"Say what to write: spdtokens export {model} MODEL.onnx or --runtime FOLDER."
            )
        if onnx is not None and onnx.suffix != ".onnx":
            raise DeployError(f"{onnx} should end in .onnx.")
        if onnx is not None:
            output_file(onnx)
        if runtime is not None:
            check_device_folder(runtime)
        decoder = load_model(model) if onnx is None else write_onnx(model, onnx)
        if runtime is not None:
            write_device_folder(runtime, decoder, model, onnx)
    if onnx is not None:
        typer.echo(f"Written: {onnx} ({onnx.stat().st_size / 1e6:.1f} MB)")
    if runtime is not None:
        typer.echo(f"Written: {runtime}; there, with NumPy alone: python decode.py TRIALS.npy")
