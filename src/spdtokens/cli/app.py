"""Options, output and error handling that the commands share."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from copy import copy
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from rich.console import Console
from rich.filesize import decimal
from typer.core import TyperGroup

import spdtokens
from spdtokens._deprecated import OPTIONS, UNTIL
from spdtokens._plugins import load_plugins
from spdtokens._tables import fitted
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
                    raise typer.BadParameter(f"{name} is the old name of {new}: use only {new}.")
                typer.echo(
                    f"{name} is deprecated and will be removed in {UNTIL}: use {new}.", err=True
                )
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


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
F = TypeVar("F", bound=Callable[..., None])


def shared() -> None:
    """Describe the options that several commands have.

    Parameters
    ----------
    any_code : bool
        Also count stored runs made by other versions of spdtokens.
    as_json : bool
        Print JSON instead of tables.
    channels : str, default=all EEG channels
        Comma-separated channel names in the order to use, such as C3,Cz,C4, or 'common' for the
        channels that all recordings share.
    events : str, default=every event that occurs often
        Classes and the events that mark their trials, such as left=769,right=770.
    file : path
        Study file (.toml), see docs/studies.md.
    label_from : str, default=found in the file
        Source of the labels: 'annotations' or a trigger channel of a recording, a metadata column
        of epochs, or an array of an .npz file.
    metric : str, default=that of the study
        Metric to report.
    model : path
        Model file (.spdt) written by `spdtokens train`.
    name : str
        Name of a data set (see `spdtokens datasets`), recording (.edf, .bdf, .gdf, .vhdr, .set,
        .fif), -epo.fif, .npz, or folder of them.
    paradigm : str, default=as stated by the data set
        Paradigm: mi, erp, ssvep or other.
    resample : float, default=as recorded
        Sampling rate in Hz to resample to.
    rounds, repeats : int
        Number of rounds; medians are reported.
    stimulus_hz : str, default=as stated by the data set
        Comma-separated stimulus frequencies in Hz (SSVEP only), such as 13,17,21.
    store : path, default=the study file with suffix .sqlite
        SQLite file that stores the runs.
    subject : str, default=all
        Use only this subject. Can be repeated.
    subjects : str, default=all
        Comma-separated subjects, such as 1,2,3.
    threads : int, default=that of torch
        Number of threads of every library.
    tmin : float, default=start of the trials in the file
        Start of a trial in seconds relative to its event. Required for recordings whose
        annotations have no duration.
    tmax : float, default=end of the trials in the file
        End of a trial in seconds relative to its event. Required for recordings whose
        annotations have no duration.
    workers : int
        Number of worker processes. 0 trains in this process, with runs batched together.
    """


def command(group: typer.Typer = app, name: str | None = None) -> Callable[[F], F]:
    """Add a function to the commands; its docstring describes the command and its options."""

    def add(function: F) -> F:
        text, described = _documented(function)
        described = _documented(shared)[1] | described
        hints = get_type_hints(function, include_extras=True)
        for key, parameter in signature(function).parameters.items():
            kind, given = hints[key], None
            if get_origin(kind) is Annotated:
                kind, given = get_args(kind)
            if given is None:
                required = parameter.default is Parameter.empty
                flag = [f"--{key.replace('_', '-')}"] if parameter.default is False else []
                given = typer.Argument() if required else typer.Option(*flag)
            given = copy(given)
            given.help, default = described.get(key, ("", ""))
            if default:
                given.show_default = default
            hints[key] = Annotated[kind, given]
        function.__annotations__ = hints
        group.command(name, help=text)(function)
        return function

    return add


def _documented(function: Callable[..., None]) -> tuple[str, dict[str, tuple[str, str]]]:
    """The text of a docstring, and the help and default of each parameter."""
    text, _, parameters = (getdoc(function) or "").partition("\n\nParameters\n----------\n")
    found: dict[str, tuple[str, str]] = {}
    for names, default, help in re.findall(
        r"^([\w, ]+) : [^,\n]*(?:, default=(.*))?\n((?:    .*\n?)+)", parameters, re.MULTILINE
    ):
        found |= dict.fromkeys(names.split(", "), (" ".join(help.split()), default))
    return text, found


NO_MODEL = "Check the path, or train a model: spdtokens train DATA --out MODEL.spdt"


def listed(text: str | None) -> list[str]:
    """Split comma-separated names."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def numbers(text: str | None, what: str) -> tuple[float, ...]:
    """Split comma-separated numbers."""
    try:
        return tuple(float(part) for part in listed(text))
    except ValueError:
        raise typer.BadParameter(f"{what} must be comma-separated numbers, got {text!r}.") from None


def existing(path: Path, remedy: str) -> None:
    """Refuse a file or folder that does not exist."""
    if not path.exists():
        raise UserError(f"{path} does not exist. {remedy}")


def show(as_json: bool, data: dict[str, Any], *tables: RenderableType) -> None:
    """Print data as JSON, or as text and tables."""
    if as_json:
        print_json(data)
    else:
        console = Console()
        for table in tables:
            console.print(fitted(table, console.width))


def print_json(data: dict[str, Any]) -> None:
    """Print JSON without rich, which would wrap long lines."""
    typer.echo(json.dumps(data, indent=2))


def written(path: Path, note: str = "", *, err: bool = False) -> None:
    """Report a file, with its size, or a folder that was written."""
    size = "" if path.is_dir() else f" ({decimal(path.stat().st_size)})"
    typer.echo(f"Written: {path}{size}{note}", err=err)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"spdtokens {spdtokens.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Decode EEG from the geometry of its covariance matrices."""
