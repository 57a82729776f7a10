"""``spdtokens stream`` and ``spdtokens replay``: live decoding over Lab Streaming Layer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from spdtokens.cli.app import app, errors_told

if TYPE_CHECKING:
    from spdtokens.inference.live.replay import Replay
    from spdtokens.inference.live.status import Status


@contextmanager
def _ends_on_signals() -> Iterator[None]:
    """Ctrl-C and a polite kill end what is inside, and are no error."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


@app.command()
def stream(
    model: Annotated[Path, typer.Argument(help="A model file (.spdt).")],
    stream_name: Annotated[
        str | None,
        typer.Option(
            "--stream",
            help="Name or source id of the LSL stream; default: the only one of type EEG.",
        ),
    ] = None,
    step: Annotated[float, typer.Option(help="Seconds from one decision to the next.")] = 0.1,
    out_stream: Annotated[
        str | None,
        typer.Option(
            help="Name of the LSL stream of probabilities; '' for none.",
            show_default="spdtokens-STREAM",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, help="Seconds to run; default: until Ctrl-C.")
    ] = None,
    decisions: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many decisions.")
    ] = None,
    json_lines: Annotated[
        Path | None, typer.Option(help="Append decisions and events to this file.")
    ] = None,
    channels: Annotated[
        str | None,
        typer.Option(help="Names of the stream's channels in its order: C3,C4,-; '-' for others."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Of the stream, if it does not tell: V, mV, uV or nV.")
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(help="Seconds that count as lost samples; default: learnt from the stream."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the stream.")] = 10.0,
) -> None:
    """Decode a live LSL stream, show it, and publish the probabilities as a stream."""
    from spdtokens.errors import LiveError
    from spdtokens.inference import load_model
    from spdtokens.inference.live.decoder import LiveDecoder
    from spdtokens.inference.live.lsl import UNITS, Wanted, need_lsl
    from spdtokens.inference.live.muted import liblsl_muted
    from spdtokens.inference.live.outlet import ProbabilityOutlet
    from spdtokens.inference.live.run import JsonLines, Limits, LiveRun
    from spdtokens.inference.live.status import Status
    from spdtokens.inference.live.view import Lines, View

    with errors_told(), ExitStack() as stack:
        decoder = load_model(model)
        need_lsl()
        errors = stack.enter_context(liblsl_muted())
        given = None if channels is None else tuple(name.strip() for name in channels.split(","))
        live = LiveDecoder(decoder, step, gap=gap, tell=lambda event: run.event(event))
        volts = None if unit is None else UNITS.get(unit.casefold(), 0.0)
        if volts == 0:
            raise LiveError(f"There is no unit {unit!r}. There are: V, mV, uV, nV.")
        wanted = Wanted(
            stream_name, decoder.ch_names, live.sfreq, given, decoder.unit_in_volts, volts
        )
        name = f"spdtokens-{stream_name or 'EEG'}" if out_stream is None else out_stream
        status = Status(live, model.name, wanted.title, name)
        log = None if json_lines is None else JsonLines(json_lines)
        outlet = ProbabilityOutlet(name, decoder.classes, status.about()) if name else None
        console = Console()
        display = View(console) if console.is_terminal else Lines(console, Console(file=errors))
        run = LiveRun(live, wanted, status, display, outlet, log)
        with run, _ends_on_signals(), display:
            run.run(Limits(seconds, decisions, timeout))
    _print_summary(status)


def _print_summary(status: Status) -> None:
    for line in status.summary():
        typer.echo(line, err=True)


@app.command()
def replay(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A recording that MNE reads, -epo.fif, .npz, or a data set such as sim-mi.",
        ),
    ],
    speed: Annotated[float, typer.Option(help="Times the speed of the recording.")] = 1.0,
    name: Annotated[str, typer.Option(help="Name of the LSL stream.")] = "spdtokens-replay",
    loop: Annotated[bool, typer.Option("--loop", help="Again and again.")] = False,
    subject: Annotated[str | None, typer.Option(help="Of a data set; default: the first.")] = None,
    session: Annotated[str | None, typer.Option(help="Of a data set; default: the first.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for a listener before the first sample.")
    ] = 0.0,
    chunk: Annotated[float, typer.Option(help="Seconds of signal sent at once.")] = 0.02,
) -> None:
    """Play a recording as a live LSL stream, with its markers as a second one."""
    from rich.progress import Progress, TextColumn

    from spdtokens.inference.live.lsl import need_lsl
    from spdtokens.inference.live.muted import liblsl_muted
    from spdtokens.inference.live.playable import open_playable
    from spdtokens.inference.live.replay import Replay

    with errors_told(), ExitStack() as stack:
        need_lsl()
        playable = open_playable(source, subject, session)
        errors = stack.enter_context(liblsl_muted())
        player = Replay(playable, name, speed=speed, chunk=chunk)
        typer.echo(
            f"{playable.title}: {len(playable.ch_names)} channels, {playable.sfreq:g} Hz, "
            f"{playable.seconds:.1f} s, {len(playable.markers)} markers; LSL streams {name!r} and "
            f"{name + '-markers'!r}",
            file=errors,
        )
        bar = Progress(
            *Progress.get_default_columns()[:2],
            TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
            console=Console(file=errors),
            transient=True,
        )
        with _ends_on_signals(), bar:
            _wait_for_listener(player, wait)
            task = bar.add_task("Playing", total=playable.seconds)
            player.play(loop=loop, tell=lambda t: bar.update(task, completed=t))
        player.close()


def _wait_for_listener(player: Replay, seconds: float) -> None:
    """In short waits, so that Ctrl-C is heard."""
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end and not player.wait(0.2):
        pass
