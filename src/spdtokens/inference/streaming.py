"""Read a stream, decide, publish, show, and survive whatever the stream does."""

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
from spdtokens.errors import LiveError, StreamLostError
from spdtokens.inference import lsl
from spdtokens.inference.live import Decision, Event, LiveDecoder, listed
from spdtokens.runtime import Decoder
from spdtokens.runtime.threads import one_thread

#: Seconds without a sample after which a stream is silent, and looked for anew.
SILENT = 2.0
#: Seconds for which a search or a pull may block, and Ctrl-C wait.
SEARCH, PULL = 0.5, 0.1
#: Searches in vain after which a silent stream is lost.
MISSED = 2
#: Latencies beyond these, in seconds, are those of clocks that have nothing to do with ours.
PLAUSIBLE = (-0.05, 60.0)
#: Seconds of latency at which a run is behind, and between two complaints about it.
BEHIND, COMPLAIN = 1.0, 30.0
#: Seconds between two looks at the offset of the sender's clock; longer if it gave no answer, since
#: to ask takes time then.
CLOCK, NO_CLOCK = 5.0, 60.0
#: Latencies kept.
KEPT = 2000
#: Seconds between two pictures, and letters of a bar.
REFRESH, BAR = 0.15, 40


class LiveRun(AbstractContextManager["LiveRun"]):
    """From a stream to decisions.

    Parameters
    ----------
    decoder : Decoder
    stream : str, optional
        Name or source id of the LSL stream; the only one of type EEG if not given.
    step, gap : float
        Seconds, see :class:`~spdtokens.inference.live.LiveDecoder`.
    channels : tuple of str, optional
        Names of the stream's channels in its order, if it does not tell them; ``'-'`` for others.
    unit : str, optional
        Of the stream, if it does not tell: ``'V'``, ``'mV'``, ``'uV'`` or ``'nV'``.
    out_stream : str
        Name of the LSL stream of probabilities; empty for none.
    json_lines : Path, optional
        File to which decisions and events are appended.
    display : Display, optional
        Where people look.
    model : str
        Name of the model, for people.

    Attributes
    ----------
    live : LiveDecoder
        With the counts of samples and decisions.
    state : str
        Of the connection.
    decision : Decision or None
        The last one.
    latency, computing : deque of float
        Seconds from the stamp of a window's last sample to the published decision, and the part of
        it that is ours: from the window to the probabilities. The last 2000.
    labels : Counter
        How often each class was decided.
    events : deque of Event
        The last five.
    reconnections : int
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
        sfreq, volts = self.live.sfreq, lsl.volts_of(unit)
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
        # A line is written when it is whole.
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
        """Decide until a limit is reached.

        Parameters
        ----------
        seconds : float, optional
            After the connection.
        decisions : int, optional
            Made, not withheld.
        timeout : float
            Seconds to wait for the stream at the beginning.

        Raises
        ------
        LiveError
            If the stream is not found at the beginning, or is not one for the model.
        """
        # Matrices of some tens of rows: threads would wait for each other longer than they compute,
        # and far longer where other programs use the cores.
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
        """End soon, from another thread."""
        self._stopped = True

    @property
    def window(self) -> float:
        """Seconds of a window."""
        return self.live.decoder.n_samples / self.live.sfreq

    @property
    def rate(self) -> float | None:
        """Samples per second since they came first or again, by the clock of this machine.

        None in the first second.
        """
        seconds = self._heard - self._since[0]
        return (self.live.taken - self._since[1]) / seconds if seconds >= 1 else None

    def times(self) -> str:
        """Latencies in a line; empty before the first decision."""
        kept = {"latency": self.latency, "computing": self.computing}
        found = {
            name: 1e3 * np.percentile(times, [50, 99]) for name, times in kept.items() if times
        }
        return ", ".join(f"{k} {v[0]:.2f} ms (99 %: {v[1]:.2f})" for k, v in found.items())

    def summary(self) -> list[str]:
        """Lines that tell how it went."""
        live = self.live
        shares = ", ".join(f"{name} {self.labels[name]}" for name in live.decoder.classes)
        learnt = f"; recentring learnt from {counted(live.learnt, 'window')}"
        lines = [
            f"{counted(live.decided, 'decision')} ({shares}), {live.withheld} withheld",
            f"{counted(live.taken, 'sample')}, {live.lost} lost, {counted(live.gaps, 'gap')}, "
            f"{counted(self.reconnections, 'reconnection')}{learnt if live.recentres else ''}",
            self.times(),
        ]
        return [line for line in lines if line]

    def take(self, decision: Decision, age: float | None) -> None:
        """Count a decision; ``age`` is its latency if stamps tell it."""
        self.decision = decision
        self.computing.append(decision.seconds)
        if decision.probabilities is not None:
            self.labels[decision.label] += 1
            if age is not None:
                self.latency.append(age)

    def _event(self, event: Event) -> None:
        """Tell it everyone."""
        self.events.append(event)
        self.display.event(event)
        self._write({"event": event.kind, "text": event.text, "sample": event.sample})

    def _connection(self, kind: str, text: str) -> None:
        """Something happened to the connection, which is its state until something else does."""
        self.state = text
        self._event(Event(kind, text, self.live.taken))

    def _write(self, values: dict[str, Any]) -> None:
        if self._log is not None:
            self._log.write(json.dumps(values) + "\n")

    def _connect_first(self, timeout: float) -> None:
        """In short searches, so that Ctrl-C is heard."""
        end = self._clock() + timeout
        while not (found := lsl.find(self.wanted, 2 * SEARCH)) and self._clock() < end:
            if self._stopped:
                return
            self.display.refresh(self)
        info = lsl.only(self.wanted, found, timeout)
        try:
            self._connect(info)
        except StreamLostError as error:
            raise LiveError(f"Stream {info.name!r} was found and lost again: {error}") from None
        # If it is lost, another stream of type EEG is not it.
        self.wanted = replace(self.wanted, name=self.wanted.name or info.name)

    def _connect(self, info: Any) -> None:
        inlet = lsl.Inlet(info, self.wanted)
        if self._inlet is not None:
            self._inlet.close()
        self._inlet, self._silent, self._missed = inlet, False, 0
        away = self._clock() - self._heard
        self._heard, self._ask_clock_at = self._clock(), -np.inf
        self._since = (self._heard, self.live.taken)
        self.live.restart()
        used = f"{len(self.wanted.ch_names)} of its {inlet.n_channels} channels are used"
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
                    text = f"no sample for {away:.1f} s; looking for a new sender"
                    self._connection("silent", text)
                self._look_for_it()
            return
        if self._silent:
            self._silent = False
            self._since = (now, self.live.taken + len(stamps))
            self._connection("samples again", f"{inlet.title}: samples again after {away:.1f} s")
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
                f"decisions are {age:.1f} s behind the signal. If it goes on, the machine is too "
                "slow: give a longer --step"
            )
            self._event(Event("behind", text, self.live.taken))

    def _look_for_it(self) -> None:
        """Connect to a stream of the name that is not the one we had."""
        own = self._inlet.uid if self._inlet is not None else None
        found = lsl.find(self.wanted, SEARCH)
        for info in found:
            if info.uid in (own, *self._refused):
                continue
            try:
                self._connect(info)
            except LiveError as error:
                self._refused.add(info.uid)
                text = f"the stream came back changed and cannot be used: {error}"
                self._connection("refused", text)
            except StreamLostError:
                continue  # gone before it could be opened: look at the others, then again
            else:
                self.reconnections += 1
                return
        # liblsl does not always tell that a sender has ended: it is not to be found any more.
        self._missed = 0 if any(info.uid == own for info in found) else self._missed + 1
        if self._inlet is not None and self._missed >= MISSED:
            self._let_go()

    def _let_go(self) -> None:
        if self._inlet is not None:
            self._inlet.close()
        self._inlet = None
        self._connection("lost", f"{self.wanted.title} is gone; waiting for it to come back")


class Display(AbstractContextManager["Display"]):
    """Where people look; here nobody does."""

    def __exit__(self, *_: object) -> None:
        """The run has ended."""

    def decision(self, run: LiveRun) -> None:
        """A decision was made, or withheld."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def refresh(self, run: LiveRun) -> None:
        """Time has passed."""


class Lines(Display):
    """A line per decision, and one per event to standard error: for pipes and files."""

    def __init__(self, console: Console, errors: Console) -> None:
        self._console, self._errors = console, errors

    def decision(self, run: LiveRun) -> None:
        """Print the last decision; withheld ones are told by events."""
        decision = run.decision
        if decision is not None and decision.probabilities is not None:
            pairs = zip(run.live.decoder.classes, decision.probabilities, strict=True)
            shares = "  ".join(f"{name} {value:.3f}" for name, value in pairs)
            seconds = decision.sample / run.live.sfreq
            text = f"{seconds:9.2f} s  {decision.label}  |  {shares}"
            self._console.out(text, highlight=False)

    def event(self, event: Event) -> None:
        """Print it to standard error."""
        self._errors.out(f"{event.kind}: {event.text}", highlight=False)


class View(Display):
    """A picture in the terminal, drawn anew right after a decision is published.

    Parameters
    ----------
    console : Console
    """

    def __init__(self, console: Console) -> None:
        # Drawn by the loop, between two decisions, and not by a thread that would delay them.
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._drawn = -np.inf
        self._run: LiveRun | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last picture there."""
        if self._run is not None:
            self._live.update(picture(self._run))
        self._live.stop()

    def refresh(self, run: LiveRun) -> None:
        """Draw, unless it was just done."""
        self._run = run
        now = time.monotonic()
        if now - self._drawn >= REFRESH:
            self._drawn = now
            self._live.update(picture(run), refresh=True)

    decision = refresh


def picture(run: LiveRun) -> RenderableType:
    """What is known now: bars of the last decision, facts, the last events."""
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
    learnt = f"{counted(live.learnt, 'window')} learnt, one in {run.window:.3g} s"
    facts: dict[str, Any] = {
        "decision": _decided(run),
        "stream": run.state,
        "samples": f"{coming} of {live.sfreq:g}; {live.lost} lost, {counted(live.gaps, 'gap')}",
        "delay": run.times() or "-",
        "electrodes": _electrodes(live),
        "recentring": learnt if live.recentres else "none: the model was trained without",
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
            Text("\n".join(["", "lately", *news] if news else []), style="dim"),
        ),
        title=f"spdtokens: {run.model}",
        subtitle="Ctrl-C ends",
        padding=(0, 2),
    )


def _decided(run: LiveRun) -> Text:
    if run.live.filled < 1:
        filled = run.live.filled * run.window
        return Text(f"filling the window: {filled:.1f} of {run.window:.3g} s")
    if run.decision is None:
        return Text("none yet")
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
