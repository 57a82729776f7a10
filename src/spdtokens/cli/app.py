"""Options, output and error handling that the commands share."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from typer.core import TyperGroup

import spdtokens
from spdtokens._deprecated import OPTIONS, UNTIL
from spdtokens._plugins import load_plugins
from spdtokens.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType


def _one_line(message: Warning | str, *where: Any) -> None:  # noqa: ARG001
    """Print a warning without the line of code that raised it."""
    typer.echo(f"Warning: {message}", err=True)


class Commands(TyperGroup):
    """All commands: old options are renamed, plugins loaded, errors printed in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give old options their new names."""
        words = []
        for word in args:
            name, sign, value = word.partition("=")
            new = OPTIONS.get((args[0], name), name)
            if new != name:
                if any(other.partition("=")[0] == new for other in args):
                    raise typer.BadParameter(f"{name} is the old name of {new}: give only {new}.")
                typer.echo(f"{name} is deprecated and goes in {UNTIL}: use {new}.", err=True)
            words.append(new + sign + value)
        return super().parse_args(ctx, words)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error that the user can correct ends it with exit code 1."""
        with warnings.catch_warnings():
            warnings.showwarning = _one_line  # type: ignore[assignment]
            try:
                load_plugins()
                return super().invoke(ctx)
            except BrokenPipeError:
                raise  # the reader of the pipe has closed it: nothing to report
            except (UserError, OSError) as error:
                typer.echo(f"Error: {error}", err=True)
                raise typer.Exit(1) from error


app = typer.Typer(
    name="spdtokens",
    cls=Commands,
    help="Decode EEG from the geometry of its covariance matrices.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def option(help: str, *names: str, **more: Any) -> Any:
    """Describe an option."""
    return typer.Option(*names, help=help, **more)


def argument(help: str, **more: Any) -> Any:
    """Describe an argument."""
    return typer.Argument(help=help, **more)


AsJson = Annotated[bool, option("Print JSON instead of a table.", "--json")]
DataName = Annotated[str, argument("A name, a folder of .npz files, or -epo.fif.")]
OnlySubjects = Annotated[
    list[str] | None, option("Only this subject; may be repeated.", "--subject")
]
Channels = Annotated[
    str | None,
    option(
        "Only these, in this order: C3,Cz,C4; or 'common': those that all recordings have. "
        "Default: all of EEG."
    ),
]
Resample = Annotated[
    float | None, option("Rate in Hz to bring trials to; default: that of the recordings.")
]
Paradigm = Annotated[str | None, option("mi, erp, ssvep or other, if the data set does not tell.")]
StimulusHz = Annotated[str | None, option("Flicker frequencies of ssvep: 13,17,21.")]
Subjects = Annotated[str | None, option("Only these: 1,2,3.")]
ModelFile = Annotated[Path, argument("A model file, .spdt.")]
StudyFile = Annotated[Path, argument("A TOML file: see docs/studies.md.")]
Store = Annotated[
    Path | None, option("Where runs are kept; beside FILE, with .sqlite, by default.")
]
AnyCode = Annotated[
    bool, option("Count runs made by other code of spdtokens as done.", "--any-code")
]
Workers = Annotated[int, option("Processes; 0 to train in this one, runs batched together.", min=0)]


def listed(text: str | None) -> list[str]:
    """Comma-separated names."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def numbers(text: str | None, what: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(float(part) for part in listed(text))
    except ValueError:
        raise typer.BadParameter(f"{what} must be comma-separated numbers, got {text!r}.") from None


def show(as_json: bool, data: dict[str, Any], *tables: RenderableType) -> None:
    """Print data as JSON, or the tables that show it."""
    if as_json:
        print_json(data)
    else:
        for table in tables:
            Console().print(table)


def print_json(data: dict[str, Any]) -> None:
    """Print JSON without rich, which would wrap long lines."""
    typer.echo(json.dumps(data, indent=2))


def written(path: Path, note: str = "", *, err: bool = False) -> None:
    """Say that a file or folder was written."""
    size = "" if path.is_dir() else f" ({decimal(path.stat().st_size)})"
    typer.echo(f"Written: {path}{size}{note}", err=err)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spdtokens {spdtokens.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, option("Print the version.", "--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Decode EEG from the geometry of its covariance matrices."""
