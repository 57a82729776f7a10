"""What all commands share: options, JSON, old spellings, and how errors are told."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import spdtokens
from spdtokens._deprecated import OPTIONS, UNTIL
from spdtokens._plugins import load_plugins
from spdtokens.errors import UserError


@contextmanager
def errors_told() -> Iterator[None]:
    """What the user can put right is told in a line, without a traceback; exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe has seen enough: nothing to tell
    except (UserError, OSError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from error


def _one_line(message: Warning | str, *where: Any) -> None:  # noqa: ARG001
    """A warning without the line of code that gave it."""
    typer.echo(f"Warning: {message}", err=True)


class Commands(TyperGroup):
    """All commands: they know old options and plugins, and tell errors in a line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give old options their new names."""
        words = []
        for word in args:
            name, sign, value = word.partition("=")
            new = OPTIONS.get((args[0], name), name)
            if new != name:
                if any(other.partition("=")[0] == new for other in args):
                    raise typer.BadParameter(f"{name} is the old name of {new}: give one of them.")
                typer.echo(f"{name} is deprecated and goes in {UNTIL}: use {new}.", err=True)
            words.append(new + sign + value)
        return super().parse_args(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        with errors_told(), warnings.catch_warnings():
            warnings.showwarning = _one_line  # type: ignore[assignment]
            load_plugins()
            return super().invoke(ctx)


app = typer.Typer(
    name="spdtokens",
    cls=Commands,
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
Paradigm = Annotated[
    str | None, typer.Option(help="mi, erp, ssvep or other, if the data set does not tell.")
]
StimulusHz = Annotated[str | None, typer.Option(help="Flicker frequencies of ssvep: 13,17,21.")]
Subjects = Annotated[str | None, typer.Option(help="Only these: 1,2,3.")]
StudyFile = Annotated[Path, typer.Argument(help="A TOML file: see docs/studies.md.")]
Store = Annotated[
    Path | None, typer.Option(help="Where runs are kept; beside FILE, with .sqlite, by default.")
]
AnyCode = Annotated[
    bool, typer.Option("--any-code", help="Count runs made by other code of spdtokens as done.")
]
Workers = Annotated[
    int, typer.Option(min=0, help="Processes; 0 to train in this one, runs batched together.")
]


def listed(text: str | None) -> list[str]:
    """Comma-separated names."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def numbers(text: str | None, what: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(float(part) for part in listed(text))
    except ValueError:
        raise typer.BadParameter(f"{what} must be comma-separated numbers, got {text!r}.") from None


def print_json(data: dict[str, Any]) -> None:
    """To standard output, and not through rich, which would wrap long lines."""
    typer.echo(json.dumps(data, indent=2))


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
