"""``spdtokens stream`` and ``spdtokens replay``: live decoding over Lab Streaming Layer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from spdtokens.cli.app import ModelFile, app, argument, option


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
    model: ModelFile,
    stream_name: Annotated[
        str | None,
        option(
            "Name or source id of the LSL stream; default: the only one of type EEG.", "--stream"
        ),
    ] = None,
    step: Annotated[float, option("Seconds from one decision to the next.")] = 0.1,
    out_stream: Annotated[
        str | None,
        option(
            "Name of the LSL stream of probabilities; '' for none.", show_default="spdtokens-STREAM"
        ),
    ] = None,
    seconds: Annotated[
        float | None, option("Seconds to run; default: until Ctrl-C.", "--for", min=0)
    ] = None,
    decisions: Annotated[int | None, option("Number of decisions to stop after.", min=1)] = None,
    json_lines: Annotated[Path | None, option("Append decisions and events to this file.")] = None,
    channels: Annotated[
        str | None,
        option("Names of the stream's channels in its order: C3,C4,-; '-' for others."),
    ] = None,
    unit: Annotated[
        str | None, option("Of the stream, if it does not tell: V, mV, uV or nV.")
    ] = None,
    gap: Annotated[
        float | None,
        option("Seconds that count as lost samples; default: learnt from the stream."),
    ] = None,
    timeout: Annotated[float, option("Seconds to wait for the stream.", min=0)] = 10.0,
) -> None:
    """Decode a live LSL stream, show it, and publish the probabilities as a stream."""
    from spdtokens.inference import load_model
    from spdtokens.inference.lsl import liblsl_muted
    from spdtokens.inference.streaming import Lines, LiveRun, View

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


@app.command()
def replay(
    source: Annotated[
        str,
        argument(
            "A recording that MNE reads, -epo.fif, .npz, or a data set such as sim-mi.",
            metavar="FILE",
        ),
    ],
    speed: Annotated[float, option("Times the speed of the recording.")] = 1.0,
    name: Annotated[str, option("Name of the LSL stream.")] = "spdtokens-replay",
    loop: Annotated[bool, option("Again and again.", "--loop")] = False,
    subject: Annotated[str | None, option("Of a data set; default: the first.")] = None,
    session: Annotated[str | None, option("Of a data set; default: the first.")] = None,
    wait: Annotated[
        float, option("Seconds to wait for a listener before the first sample.", min=0)
    ] = 0.0,
    chunk: Annotated[float, option("Seconds of signal sent at once.")] = 0.02,
) -> None:
    """Play a recording as a live LSL stream, with its markers as a second one."""
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
