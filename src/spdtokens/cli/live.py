"""``spdtokens stream`` and ``spdtokens replay``: live decoding over the Lab Streaming Layer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spdtokens.cli.app import NO_MODEL, command, existing


@contextmanager
def _ends_on_signals() -> Iterator[None]:
    """End the block without an error on Ctrl-C or SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


@command()
def stream(
    model: Path,
    stream_name: Annotated[str | None, typer.Option("--stream")] = None,
    step: float = 0.1,
    out_stream: str | None = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0)] = None,
    decisions: Annotated[int | None, typer.Option(min=1)] = None,
    json_lines: Path | None = None,
    channels: str | None = None,
    unit: str | None = None,
    gap: float | None = None,
    timeout: Annotated[float, typer.Option(min=0)] = 10.0,
) -> None:
    """Decode a live LSL stream: show the decisions and publish the probabilities over LSL.

    Parameters
    ----------
    stream_name : str, default=the only stream of type EEG
        Name or source ID of the LSL stream.
    step : float
        Seconds between decisions.
    out_stream : str, default=spdtokens-STREAM
        Name of the LSL stream to publish the probabilities to; '' publishes none.
    seconds : float, default=until Ctrl-C
        Seconds to run.
    decisions : int
        Stop after this number of decisions.
    json_lines : path
        File to append decisions and events to, as JSON lines.
    channels : str, default=as stated by the stream
        Comma-separated names of the stream's channels in its order, such as C3,C4,-. '-' marks a
        channel that the model does not use.
    unit : str, default=as stated by the stream
        Unit of the stream: V, mV, uV or nV.
    gap : float, default=estimated from the stream
        Seconds between time stamps that count as lost samples.
    timeout : float
        Seconds to wait for the stream.
    """
    from spdtokens.inference.lsl import liblsl_muted
    from spdtokens.inference.streaming import Lines, LiveRun, View
    from spdtokens.runtime import load_model

    existing(model, NO_MODEL)
    with liblsl_muted() as errors:
        console = Console()
        display = View(console) if console.is_terminal else Lines(console, Console(file=errors))
        run = LiveRun(
            load_model(model),
            stream_name,
            step=step,
            gap=gap,
            channels=None if channels is None else tuple(n.strip() for n in channels.split(",")),
            unit=unit,
            out_stream=f"spdtokens-{stream_name or 'EEG'}" if out_stream is None else out_stream,
            json_lines=json_lines,
            display=display,
            model=model.name,
        )
        with run, _ends_on_signals(), display:
            run.run(seconds, decisions, timeout)
    for line in run.summary():
        typer.echo(line, err=True)


@command()
def replay(
    source: Annotated[str, typer.Argument(metavar="FILE")],
    speed: float = 1.0,
    name: str = "spdtokens-replay",
    loop: bool = False,
    subject: str | None = None,
    session: str | None = None,
    wait: Annotated[float, typer.Option(min=0)] = 0.0,
    chunk: float = 0.02,
) -> None:
    """Play a recording as a live LSL stream, with its markers as a second stream.

    Parameters
    ----------
    source : str
        Recording that MNE reads, -epo.fif or .npz file, or name of a data set such as sim-mi.
    speed : float
        Speed relative to the recording.
    name : str
        Name of the LSL stream.
    loop : bool
        Repeat until Ctrl-C.
    subject : str, default=the first
        Subject of the data set.
    session : str, default=the first
        Session of the subject.
    wait : float
        Seconds to wait for a receiver before the first sample.
    chunk : float
        Seconds of signal per chunk.
    """
    from rich.progress import Progress, TextColumn

    from spdtokens.inference.lsl import liblsl_muted, need_lsl
    from spdtokens.inference.replay import Replay, open_playable

    with liblsl_muted() as errors:
        need_lsl()
        playable = open_playable(source, subject, session)
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
            player.wait(wait)
            task = bar.add_task("Playing", total=playable.seconds)
            player.play(loop=loop, tell=lambda t: bar.update(task, completed=t))
        player.close()
