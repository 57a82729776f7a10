"""Decode an LSL stream: read, decide, publish, display, and reconnect."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from spdtokens._tables import counted, table
from spdtokens.datasets.units import volts_of
from spdtokens.errors import DeployError, LiveError, StreamLostError
from spdtokens.inference import lsl
from spdtokens.inference.live import Decision, Event, LiveDecoder, listed
from spdtokens.runtime import Decoder
from spdtokens.runtime.threads import one_thread

#: Seconds without a sample after which a stream is silent and a new sender is searched.
SILENT = 2.0
#: Maximum seconds of one search or pull, during which Ctrl-C has to wait.
SEARCH, PULL = 0.5, 0.1
#: Unsuccessful searches after which a silent stream is lost.
MISSED = 2
#: Bounds of plausible latencies in seconds; beyond, the clocks are unrelated.
PLAUSIBLE = (-0.05, 60.0)
#: Latency in seconds that is reported, and seconds between two reports.
BEHIND, COMPLAIN = 1.0, 30.0
#: Seconds between two requests for the sender's clock offset; longer without an answer, since a
#: request then blocks.
CLOCK, NO_CLOCK = 5.0, 60.0
#: Number of latencies kept.
KEPT = 2000
#: Seconds between two updates of the view, and width of a bar in characters.
REFRESH, BAR = 0.15, 40


class LiveRun(AbstractContextManager["LiveRun"]):
    """Decode an LSL stream until a limit is reached.

    Parameters
    ----------
    decoder : Decoder
        A model of signals.
    stream : str, default=None
        Name or source id of the LSL stream. If None, the only stream of type EEG.
    step, gap : float
        See :class:`~spdtokens.inference.live.LiveDecoder`.
    channels : tuple of str, default=None
        Channel names of the stream in its order, ``'-'`` for channels that are not needed. If None,
        the names in the stream's description.
    unit : {'V', 'mV', 'uV', 'nV'}, default=None
        Unit of the stream. If None, the unit in the stream's description.
    out_stream : str, default=''
        Name of the LSL stream of probabilities; empty for none.
    json_lines : Path, default=None
        File to which decisions and events are appended, one JSON object per line.
    display : Display, default=None
        Shows decisions and events to the user.
    model : str, default='model'
        Name of the model to display.

    Attributes
    ----------
    live : LiveDecoder
        Decoder of the stream, with counts of samples and decisions.
    state : str
        State of the connection.
    decision : Decision or None
        The last decision.
    latency, computing : deque of float
        Seconds from the time stamp of a window's last sample to the published decision, and the
        part from the window to the probabilities. The last 2000.
    labels : Counter
        Number of decisions per class.
    events : deque of Event
        The last five events.
    reconnections : int
        Number of times the stream was lost and found.
    """

    def __init__(
        self,
        decoder: Decoder,
        stream: str | None = None,
        *,
        step: float = 0.1,
        gap: float | None = None,
        channels: tuple[str, ...] | None = None,
        unit: str | None = None,
        out_stream: str = "",
        json_lines: Path | None = None,
        display: Display | None = None,
        model: str = "model",
    ) -> None:
        lsl.need_lsl()
        from mne_lsl.lsl import local_clock

        self._clock = local_clock
        self.live = LiveDecoder(decoder, step, gap=gap, tell=self._event)
        sfreq, volts = self.live.sfreq, volts_of(unit, DeployError)
        self.wanted = lsl.Wanted(
            stream, decoder.ch_names, sfreq, channels, decoder.unit_in_volts, volts
        )
        self.model, self.out_stream = model, out_stream
        self.display = display or Display()
        self.state = "looking for the stream"
        self.decision: Decision | None = None
        self.latency: deque[float] = deque(maxlen=KEPT)
        self.computing: deque[float] = deque(maxlen=KEPT)
        self.labels: Counter[str] = Counter()
        self.events: deque[Event] = deque(maxlen=5)
        self.reconnections = 0
        self._since = (np.inf, 0)
        self._inlet: lsl.Inlet | None = None
        self._refused: set[str] = set()
        self._heard = self._complained = -np.inf
        self._missed = 0
        self._silent = self._stopped = False
        self._correction, self._ask_clock_at = 0.0, -np.inf
        # Line buffered: only complete lines are written.
        self._log = None if json_lines is None else json_lines.open("a", 1, "utf-8")
        about = {
            "model": model,
            "input": self.wanted.title,
            "step": f"{self.live.step / sfreq:g}",
            "window": f"{self.window:g}",
        }
        self._outlet = None
        if out_stream:
            self._outlet = lsl.ProbabilityOutlet(out_stream, decoder.classes, about)

    def __exit__(self, *_: object) -> None:
        for part in (self._inlet, self._outlet, self._log):
            if part is not None:
                part.close()

    def run(
        self, seconds: float | None = None, decisions: int | None = None, timeout: float = 10.0
    ) -> None:
        """Decode until a limit is reached.

        Parameters
        ----------
        seconds : float, default=None
            Maximum duration after the connection.
        decisions : int, default=None
            Maximum number of decisions, without those withheld.
        timeout : float, default=10.0
            Seconds to wait for the stream at the start.

        Raises
        ------
        LiveError
            If the stream is not found at the start, or does not match the model.
        """
        # The matrices are small: threads would wait for each other longer than they compute.
        with one_thread():
            self._connect_first(timeout)
            end = self._clock() + (np.inf if seconds is None else seconds)
            most = np.inf if decisions is None else decisions
            while not self._stopped and self._clock() < end and self.live.decided < most:
                if self._inlet is None:
                    self._look_for_it()
                else:
                    self._read(self._inlet, most)
                self.display.refresh(self)

    def stop(self) -> None:
        """Stop the run from another thread."""
        self._stopped = True

    @property
    def window(self) -> float:
        """Length of the window in seconds."""
        return self.live.decoder.n_samples / self.live.sfreq

    @property
    def rate(self) -> float | None:
        """Samples received per second since the stream was connected or resumed.

        None in the first second.
        """
        seconds = self._heard - self._since[0]
        return (self.live.taken - self._since[1]) / seconds if seconds >= 1 else None

    def times(self) -> str:
        """Summarise latencies in one line; empty before the first decision."""
        kept = {"latency": self.latency, "computing": self.computing}
        found = {
            name: 1e3 * np.percentile(times, [50, 99]) for name, times in kept.items() if times
        }
        return ", ".join(f"{k} {v[0]:.2f} ms (99 %: {v[1]:.2f})" for k, v in found.items())

    def summary(self) -> list[str]:
        """Summarise the run in a few lines."""
        live = self.live
        shares = ", ".join(f"{name} {self.labels[name]}" for name in live.decoder.classes)
        learnt = f"; recentring updated with {counted(live.learnt, 'window')}"
        lines = [
            f"{counted(live.decided, 'decision')} ({shares}), {live.withheld} withheld",
            f"{counted(live.taken, 'sample')}, {live.lost} lost, {counted(live.gaps, 'gap')}, "
            f"{counted(self.reconnections, 'reconnection')}{learnt if live.recentres else ''}",
            self.times(),
        ]
        return [line for line in lines if line]

    def take(self, decision: Decision, age: float | None) -> None:
        """Count a decision; ``age`` is its latency, if known."""
        self.decision = decision
        self.computing.append(decision.seconds)
        if decision.probabilities is not None:
            self.labels[decision.label] += 1
            if age is not None:
                self.latency.append(age)

    def _event(self, event: Event) -> None:
        """Display and log an event."""
        self.events.append(event)
        self.display.event(event)
        self._write({"event": event.kind, "text": event.text, "sample": event.sample})

    def _connection(self, kind: str, text: str) -> None:
        """Report an event of the connection, and store it as its state."""
        self.state = text
        self._event(Event(kind, text, self.live.taken))

    def _write(self, values: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(json.dumps(values) + "\n")

    def _connect_first(self, timeout: float) -> None:
        """Find and connect to the stream, in short searches that Ctrl-C can interrupt."""
        end = self._clock() + timeout
        while not (found := lsl.find(self.wanted, 2 * SEARCH)) and self._clock() < end:
            if self._stopped:
                return
            self.display.refresh(self)
        info = lsl.only(self.wanted, found, timeout)
        try:
            self._connect(info)
        except StreamLostError as error:
            raise LiveError(
                f"Stream {info.name!r} ended before the connection: {error}. Start it again."
            ) from None
        # After a loss, wait for this stream and not for any other of type EEG.
        self.wanted = replace(self.wanted, name=self.wanted.name or info.name)

    def _connect(self, info: Any) -> None:
        inlet = lsl.Inlet(info, self.wanted)
        if self._inlet is not None:
            self._inlet.close()
        self._inlet, self._silent, self._missed = inlet, False, 0
        away = self._clock() - self._heard
        self._heard, self._ask_clock_at = self._clock(), -np.inf
        self._since = (np.inf, 0)
        self.live.restart()
        used = f"{len(self.wanted.ch_names)} of {inlet.n_channels} channels used"
        after = f", after {away:.1f} s without samples" if np.isfinite(away) else ""
        self._connection("connected", f"{inlet.title}{after}; {used}")

    def _read(self, inlet: lsl.Inlet, most: float) -> None:
        try:
            X, stamps = inlet.pull(PULL)
        except StreamLostError:
            self._let_go()
            return
        now = self._clock()
        away = now - self._heard
        if not len(stamps):
            if away >= SILENT:
                if not self._silent:
                    self._silent = True
                    text = f"no samples for {away:.1f} s; searching for a new sender"
                    self._connection("silent", text)
                self._look_for_it()
            return
        if self._silent or self._since[0] == np.inf:  # what waited in the buffer has no rate
            self._since = (now, self.live.taken + len(stamps))
        if self._silent:
            self._silent = False
            self._connection("samples again", f"{inlet.title}; samples again after {away:.1f} s")
        self._heard = now
        for start in range(0, len(stamps), self.live.step):
            part = slice(start, start + self.live.step)
            for decision in self.live.feed(X[:, part], stamps[part]):
                self._publish(decision)
            if self.live.decided >= most:
                return
        if now > self._ask_clock_at:
            found = inlet.correction()
            self._correction = self._correction if found is None else found
            self._ask_clock_at = self._clock() + (NO_CLOCK if found is None else CLOCK)

    def _publish(self, decision: Decision) -> None:
        stamp = decision.time + self._correction
        if self._outlet is not None:
            self._outlet.push(decision, stamp)
        now = self._clock()
        age = now - stamp if PLAUSIBLE[0] < now - stamp < PLAUSIBLE[1] else None
        self.take(decision, age)
        self.live.check_electrodes()
        values: dict[str, Any] = {"withheld": decision.withheld}
        if decision.probabilities is not None:
            pairs = zip(self.live.decoder.classes, decision.probabilities.tolist(), strict=True)
            values = {"decision": decision.label, "probabilities": dict(pairs)}
            values |= {"learnt": decision.learnt, "latency_ms": age and 1e3 * age}
        self._write({"sample": decision.sample, "time": stamp, **values})
        self.display.decision(self)
        if age is not None and age > BEHIND and now - self._complained > COMPLAIN:
            self._complained = now
            text = (
                f"decisions are {age:.1f} s behind the signal. If this persists, the machine is "
                "too slow: use a longer --step"
            )
            self._event(Event("behind", text, self.live.taken))

    def _look_for_it(self) -> None:
        """Connect to another stream of the same name."""
        own = self._inlet.uid if self._inlet is not None else None
        found = lsl.find(self.wanted, SEARCH)
        for info in found:
            if info.uid in (own, *self._refused):
                continue
            try:
                self._connect(info)
            except LiveError as error:
                self._refused.add(info.uid)
                text = f"the stream came back but cannot be used: {error}"
                self._connection("refused", text)
            except StreamLostError:
                continue  # it ended before it could be opened: try the others
            else:
                self.reconnections += 1
                return
        # liblsl does not always report that a sender has ended; then no search finds it.
        self._missed = 0 if any(info.uid == own for info in found) else self._missed + 1
        if self._inlet is not None and self._missed >= MISSED:
            self._let_go()

    def _let_go(self) -> None:
        if self._inlet is not None:
            self._inlet.close()
        self._inlet = None
        self._connection("lost", f"{self.wanted.title} lost; waiting for it to come back")


class Display(AbstractContextManager["Display"]):
    """Show a run to the user; this base class shows nothing."""

    def __exit__(self, *_: object) -> None:
        """End the display."""

    def decision(self, run: LiveRun) -> None:
        """Show the last decision of a run."""

    def event(self, event: Event) -> None:
        """Show an event."""

    def refresh(self, run: LiveRun) -> None:
        """Update the display; called continually."""


class Lines(Display):
    """Print one line per decision, and one per event to standard error: for pipes and files."""

    def __init__(self, console: Console, errors: Console) -> None:
        self._console, self._errors = console, errors

    def decision(self, run: LiveRun) -> None:
        """Print the last decision; events report those withheld."""
        decision = run.decision
        if decision is not None and decision.probabilities is not None:
            pairs = zip(run.live.decoder.classes, decision.probabilities, strict=True)
            shares = "  ".join(f"{name} {value:.3f}" for name, value in pairs)
            seconds = decision.sample / run.live.sfreq
            text = f"{seconds:9.2f} s  {decision.label}  |  {shares}"
            self._console.out(text, highlight=False)

    def event(self, event: Event) -> None:
        """Print an event to standard error."""
        self._errors.out(f"{event.kind}: {event.text}", highlight=False)


class View(Display):
    """Show a run in the terminal, updated right after a decision is published.

    Parameters
    ----------
    console : Console
        The terminal.
    """

    def __init__(self, console: Console) -> None:
        # Drawn by the loop between two decisions; a thread would delay them.
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._drawn = -np.inf
        self._run: LiveRun | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Draw the final state, which remains visible."""
        if self._run is not None:
            self._live.update(picture(self._run))
        self._live.stop()

    def refresh(self, run: LiveRun) -> None:
        """Draw the current state, unless it was just drawn."""
        self._run = run
        now = time.monotonic()
        if now - self._drawn >= REFRESH:
            self._drawn = now
            self._live.update(picture(run), refresh=True)

    decision = refresh


def picture(run: LiveRun) -> RenderableType:
    """Render the state of a run: probabilities, facts, the last events."""
    live, decision = run.live, run.decision
    found = None if decision is None or live.filled < 1 else decision.probabilities
    bars = Table.grid(padding=(0, 2))
    for i, name in enumerate(live.decoder.classes):
        p = 0.0 if found is None else float(found[i])
        chosen = found is not None and i == found.argmax()
        style, color = ("bold", "bold green") if chosen else ("", "cyan")
        bar = ProgressBar(1, p, width=BAR, complete_style=color, finished_style=color)
        share = "" if found is None else f"{100 * p:5.1f} %"
        bars.add_row(Text(name, style), bar, Text(share, style))
    coming = "-" if run.rate is None else f"{run.rate:.1f} Hz"
    learnt = f"updated with {counted(live.learnt, 'window')}, one per {run.window:.3g} s"
    facts: dict[str, Any] = {
        "decision": _decided(run),
        "stream": run.state,
        "samples": f"{coming} of {live.sfreq:g}; {live.lost} lost, {counted(live.gaps, 'gap')}",
        "delay": run.times() or "-",
        "electrodes": _electrodes(live),
        "recentring": learnt if live.recentres else "none: the model was trained without it",
    }
    if run.out_stream:
        decided = counted(live.decided, "decision")
        facts["published"] = f"LSL stream {run.out_stream!r}, {decided}"
    news = [f"{(e.sample or 0) / live.sfreq:7.1f} s  {e.text}" for e in run.events]
    return Panel(
        Group(
            bars,
            Text(),
            table(("", "~"), facts.items(), show_header=False, box=None),
            Text("\n".join(["", "events", *news] if news else []), style="dim"),
        ),
        title=f"spdtokens: {run.model}",
        subtitle="Ctrl-C ends",
        padding=(0, 2),
    )


def _decided(run: LiveRun) -> Text:
    if run.decision is None or run.live.filled < 1:
        filled = run.live.filled * run.window
        return Text(f"filling the window: {filled:.1f} of {run.window:.3g} s")
    if run.decision.probabilities is None:
        return Text(f"withheld: {run.decision.withheld}", style="bold red")
    return Text(run.decision.label, style="bold green")


def _electrodes(live: LiveDecoder) -> Text:
    names, words = live.decoder.ch_names, live.quality
    if not any(words):
        return Text(f"all {len(names)} good")
    bad = (
        f"{word}: {listed([n for n, w in zip(names, words, strict=True) if w == word])}"
        for word in sorted({*words} - {""})
    )
    return Text(f"{words.count('')} of {len(names)} good; {'; '.join(bad)}", style="yellow")
