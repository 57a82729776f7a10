"""The live view of a terminal, and lines where there is none."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spdtokens._tables import counted
from spdtokens.inference.live.events import Event
from spdtokens.inference.live.quality import listed
from spdtokens.inference.live.status import Status

#: Seconds between two pictures.
REFRESH = 0.15
BAR = 40


class Lines:
    """A line a decision and a line an event, for pipes and files."""

    def __init__(self, console: Console, errors: Console) -> None:
        self._console, self._errors = console, errors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def decision(self, status: Status) -> None:
        """Print the last decision; withheld ones are told by events."""
        decision = status.decision
        if decision is None or decision.probabilities is None:
            return
        pairs = zip(status.live.decoder.classes, decision.probabilities, strict=True)
        shares = "  ".join(f"{name} {value:.3f}" for name, value in pairs)
        seconds = decision.sample / status.live.sfreq
        _line(self._console, f"{seconds:9.2f} s  {decision.label}  |  {shares}")

    def event(self, event: Event) -> None:
        """Print it to standard error."""
        _line(self._errors, f"{event.kind}: {event.text}")

    def refresh(self, status: Status) -> None:
        """Nothing: lines stay."""


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class View:
    """A picture in the terminal, drawn anew right after a decision is published.

    Parameters
    ----------
    console : Console
    """

    def __init__(self, console: Console) -> None:
        # Drawn by the loop, between two decisions, and not by a thread that would delay them.
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._drawn = -np.inf
        self._status: Status | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._live.update(picture(self._status), refresh=True)
        self._live.stop()

    def decision(self, status: Status) -> None:
        """Draw, unless it was just done."""
        self.refresh(status)

    def event(self, event: Event) -> None:
        """Is in the picture drawn next."""

    def refresh(self, status: Status) -> None:
        """Draw, unless it was just done."""
        self._status = status
        now = time.monotonic()
        if now - self._drawn >= REFRESH:
            self._drawn = now
            self._live.update(picture(status), refresh=True)


def picture(status: Status) -> RenderableType:
    """What is known now."""
    return Panel(
        Group(_bars(status), Text(), _facts(status), *_news(status)),
        title=f"spdtokens: {status.model}",
        subtitle="Ctrl-C ends",
        padding=(0, 2),
    )


def _bars(status: Status) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(justify="right")
    decision = status.decision
    found = decision.probabilities if decision is not None else None
    filling = status.live.filled < 1
    for i, name in enumerate(status.live.decoder.classes):
        if found is None or filling:
            table.add_row(name, Text("·" * BAR, style="dim"), "")
            continue
        chosen = decision is not None and decision.label == name
        style = "bold green" if chosen else "cyan"
        table.add_row(
            Text(name, style="bold" if chosen else ""),
            Text("█" * round(BAR * float(found[i])), style=style),
            Text(f"{100 * float(found[i]):5.1f} %", style="bold" if chosen else ""),
        )
    return table


def _facts(status: Status) -> Table:
    live, table = status.live, Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("decision", _decided(status))
    table.add_row("stream", status.state)
    rate = status.rate.hertz()
    coming = "-" if rate is None else f"{rate:.1f} Hz"
    table.add_row(
        "samples", f"{coming} of {live.sfreq:g}; {live.lost} lost, {counted(live.gaps, 'gap')}"
    )
    table.add_row("delay", status.times() or "-")
    table.add_row("electrodes", _electrodes(status))
    every = live.decoder.n_samples / live.sfreq
    table.add_row(
        "recentring",
        f"{counted(live.learnt, 'window')} learnt, one in {every:.3g} s"
        if live.recentres
        else "none: the model was trained without",
    )
    if status.out_stream:
        table.add_row(
            "published", f"LSL stream {status.out_stream!r}, {counted(live.decided, 'decision')}"
        )
    return table


def _decided(status: Status) -> Text:
    decision, live = status.decision, status.live
    if live.filled < 1:
        seconds = live.decoder.n_samples / live.sfreq
        return Text(f"filling the window: {live.filled * seconds:.1f} of {seconds:.3g} s")
    if decision is None:
        return Text("none yet")
    if decision.probabilities is None:
        return Text(f"withheld: {decision.withheld}", style="bold red")
    return Text(decision.label, style="bold green")


def _electrodes(status: Status) -> Text:
    names, words = status.live.decoder.ch_names, status.live.quality
    kinds = sorted(set(words) - {""})
    if not kinds:
        return Text(f"all {len(names)} good")
    parts = [
        f"{kind}: {listed([n for n, word in zip(names, words, strict=True) if word == kind])}"
        for kind in kinds
    ]
    return Text(f"{words.count('')} of {len(names)} good; " + "; ".join(parts), style="yellow")


def _news(status: Status) -> list[RenderableType]:
    if not status.events:
        return []
    sfreq = status.live.sfreq
    lines = [Text(), Text("lately", style="dim")]
    for event in status.events:
        when = "" if event.sample is None else f"{event.sample / sfreq:7.1f} s  "
        lines.append(Text(f"{when}{event.text}", style="dim"))
    return list(lines)
