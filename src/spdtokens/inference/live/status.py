"""What is known of a run at a moment: for the view, and at the end for the summary."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from spdtokens._tables import counted
from spdtokens.inference.live.decoder import Decision, LiveDecoder
from spdtokens.inference.live.events import Event
from spdtokens.inference.live.latencies import Latencies, Rate


@dataclass
class Status:
    """Counts and the last news of a run.

    Attributes
    ----------
    live : LiveDecoder
    model, stream : str
        For people.
    out_stream : str
        Name of the stream of decisions; empty if there is none.
    state : str
        Of the connection.
    decision : Decision or None
        The last one.
    latency, computing : Latencies
        From the stamp of a window's last sample to the published decision, and the part of it that
        is ours: from the window to the probabilities.
    rate : Rate
        Samples a second that come.
    labels : Counter
        How often each class was decided.
    events : deque of Event
        The last ones.
    reconnections : int
    """

    live: LiveDecoder
    model: str
    stream: str
    out_stream: str = ""
    state: str = "looking for the stream"
    decision: Decision | None = None
    latency: Latencies = field(default_factory=Latencies)
    computing: Latencies = field(default_factory=Latencies)
    rate: Rate = field(default_factory=Rate)
    labels: Counter[str] = field(default_factory=Counter)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=5))
    reconnections: int = 0

    def take(self, decision: Decision, age: float | None) -> None:
        """Count a decision; ``age`` is its latency if stamps tell it."""
        self.decision = decision
        self.computing.add(decision.seconds)
        if decision.probabilities is not None:
            self.labels[decision.label] += 1
            if age is not None:
                self.latency.add(age)

    def about(self) -> dict[str, str]:
        """For the description of the stream of decisions."""
        decoder = self.live.decoder
        return {
            "model": self.model,
            "input": self.stream,
            "step": f"{self.live.step / self.live.sfreq:g}",
            "window": f"{decoder.n_samples / self.live.sfreq:g}",
        }

    def summary(self) -> list[str]:
        """Lines that tell how it went."""
        live = self.live
        shares = ", ".join(f"{name} {self.labels[name]}" for name in live.decoder.classes)
        lines = [
            f"{counted(live.decided, 'decision')} ({shares}), {live.withheld} withheld",
            f"{counted(live.taken, 'sample')}, {live.lost} lost, {counted(live.gaps, 'gap')}, "
            f"{counted(self.reconnections, 'reconnection')}"
            + (
                f"; recentring learnt from {counted(live.learnt, 'window')}"
                if live.recentres
                else ""
            ),
        ]
        return lines + [line for line in (self.times(),) if line]

    def times(self) -> str:
        """Latencies in a line; empty before the first decision."""
        parts = []
        for name, times in (("latency", self.latency), ("computing", self.computing)):
            found = times.milliseconds()
            if found is not None:
                parts.append(f"{name} {found[0]:.2f} ms (99 %: {found[1]:.2f})")
        return ", ".join(parts)
