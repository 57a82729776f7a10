"""What all commands share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

import spdtokens
from spdtokens.errors import UserError

app = typer.Typer(
    name="spdtokens",
    help="Decode EEG from the geometry of its covariance matrices.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataName = Annotated[str, typer.Argument(help="A name, a folder of .npz files, or -epo.fif.")]
OnlySubjects = Annotated[
    list[str] | None, typer.Option("--subject", help="Only this subject; may be repeated.")
]
Channels = Annotated[
    str | None,
    typer.Option(
        help="Only these, in this order: C3,Cz,C4; or 'common': those that all recordings have. "
        "Default: all of EEG."
    ),
]
Resample = Annotated[
    float | None,
    typer.Option(help="Rate in Hz to bring trials to; default: that of the recordings."),
]
Bands = Annotated[str, typer.Option(help="A preset of bands.")]


def print_json(data: dict[str, Any]) -> None:
    """To standard output, and not through rich, which would wrap long lines."""
    typer.echo(json.dumps(data, indent=2))


@contextmanager
def errors_told() -> Iterator[None]:
    """What the user can put right is told in a line, without a traceback; exit code 1."""
    try:
        yield
    except (UserError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spdtokens {spdtokens.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decode EEG from the geometry of its covariance matrices."""
