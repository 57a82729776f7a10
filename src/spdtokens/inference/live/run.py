"""Read a stream, decide, publish, and survive whatever the stream does."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from spdtokens.errors import LiveError
from spdtokens.inference.live import lsl
from spdtokens.inference.live.decoder import Decision, LiveDecoder
from spdtokens.inference.live.events import Event
from spdtokens.inference.live.outlet import ProbabilityOutlet
from spdtokens.inference.live.status import Status
from spdtokens.runtime.threads import one_thread

#: Seconds without a sample after which a stream is silent, and looked for anew.
SILENT = 2.0
#: Seconds for which a search or a pull may block, and Ctrl-C wait.
SEARCH, PULL = 1.0, 0.1
#: Searches in vain after which a silent stream is lost.
MISSED = 2
#: Latencies beyond these, in seconds, are those of clocks that have nothing to do with ours.
PLAUSIBLE = (-0.05, 60.0)
#: Seconds of latency at which a run is behind, and between two complaints about it.
BEHIND, COMPLAIN = 1.0, 30.0
#: Seconds between two looks at the offset of the sender's clock; longer if it gave no answer, since
#: to ask takes time then.
CLOCK, NO_CLOCK = 5.0, 60.0


class Display(Protocol):
    """Where people look."""

    def decision(self, status: Status) -> None:
        """A decision was made, or withheld."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def refresh(self, status: Status) -> None:
        """Time has passed."""


class JsonLines:
    """A file that grows by whole lines.

    Parameters
    ----------
    path : Path
        Appended to if it is there.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, values: dict[str, Any]) -> None:
        """Add a line, and let go of it."""
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()

    def close(self) -> None:
        """End."""
        self._file.close()


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    seconds : float or None
        After the connection.
    decisions : int or None
        Made, not withheld.
    timeout : float
        Seconds to wait for the stream at the beginning.
    """

    seconds: float | None = None
    decisions: int | None = None
    timeout: float = 10.0


class LiveRun:
    """From a stream to decisions; a context manager.

    Parameters
    ----------
    live : LiveDecoder
        Its events must be told to :meth:`event`.
    wanted : lsl.Wanted
    status : Status
    display : Display
    outlet : ProbabilityOutlet, optional
    log : JsonLines, optional
    """

    def __init__(
        self,
        live: LiveDecoder,
        wanted: lsl.Wanted,
        status: Status,
        display: Display,
        outlet: ProbabilityOutlet | None = None,
        log: JsonLines | None = None,
    ) -> None:
        from mne_lsl.lsl import local_clock

        self._clock = local_clock
        self.live, self.wanted, self.status = live, wanted, status
        self._display, self._outlet, self._log = display, outlet, log
        self._inlet: lsl.Inlet | None = None
        self._refused: set[str] = set()
        self._heard = self._complained = -np.inf
        self._missed = 0
        self._silent = self._stopped = False
        self._correction, self._ask_clock_at = 0.0, -np.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for part in (self._inlet, self._outlet, self._log):
            if part is not None:
                part.close()

    def run(self, limits: Limits = Limits()) -> None:  # noqa: B008  (frozen)
        """Decide until a limit is reached.

        Raises
        ------
        LiveError
            If the stream is not found at the beginning, or is not one for the model.
        """
        # Matrices of some tens of rows: threads would wait for each other longer than they compute,
        # and far longer where other programs use the cores.
        with one_thread():
            self._run(limits)

    def _run(self, limits: Limits) -> None:
        self._connect_first(limits.timeout)
        end = np.inf if limits.seconds is None else self._clock() + limits.seconds
        most = np.inf if limits.decisions is None else limits.decisions
        while not self._stopped and self._clock() < end and self.live.decided < most:
            if self._inlet is None:
                self._look_for_it()
            else:
                self._read(most)
            self._display.refresh(self.status)

    def stop(self) -> None:
        """End soon, from another thread."""
        self._stopped = True

    def event(self, event: Event) -> None:
        """Tell it everyone."""
        self.status.events.append(event)
        self._display.event(event)
        if self._log is not None:
            self._log.write({"event": event.kind, "text": event.text, "sample": event.sample})

    def _connect_first(self, timeout: float) -> None:
        """In short searches, so that Ctrl-C is heard."""
        end = self._clock() + timeout
        while not self._stopped:
            found = lsl.find(self.wanted, SEARCH)
            if found or self._clock() >= end:
                info = lsl.only(self.wanted, found, timeout)
                break
            self._display.refresh(self.status)
        else:
            return
        try:
            self._connect(info)
        except lsl.StreamLostError as error:
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
        self.live.restart()
        self.status.state = f"connected to {inlet.name!r} on {inlet.hostname}"
        used = f"{len(self.wanted.ch_names)} of its {inlet.n_channels} channels are used"
        after = f", after {away:.1f} s without samples" if np.isfinite(away) else ""
        self._say("connected", f"{self.status.state}{after}; {used}")

    def _read(self, most: float) -> None:
        assert self._inlet is not None
        try:
            X, stamps = self._inlet.pull(PULL)
        except lsl.StreamLostError:
            self._let_go()
            return
        now = self._clock()
        if not len(stamps):
            self._nothing_came(now)
            return
        if self._silent:
            self._silent = False
            self.status.state = f"connected to {self._inlet.name!r} on {self._inlet.hostname}"
            self._say("samples again", f"samples come again after {now - self._heard:.1f} s")
        self._heard = now
        self.status.rate.add(now, len(stamps))
        self._decide(X, stamps, most)
        if now > self._ask_clock_at:
            found = self._inlet.correction()
            self._correction = self._correction if found is None else found
            self._ask_clock_at = self._clock() + (NO_CLOCK if found is None else CLOCK)

    def _decide(self, X: NDArray[np.float64], stamps: NDArray[np.float64], most: float) -> None:
        for start in range(0, len(stamps), self.live.step):
            part = slice(start, start + self.live.step)
            for decision in self.live.feed(X[:, part], stamps[part]):
                self._publish(decision)
            if self.live.decided >= most:
                return

    def _publish(self, decision: Decision) -> None:
        stamp = decision.time + self._correction
        if self._outlet is not None:
            self._outlet.push(decision, stamp)
        now = self._clock()
        age = now - stamp
        known = PLAUSIBLE[0] < age < PLAUSIBLE[1]
        self.status.take(decision, age if known else None)
        if self._log is not None:
            self._log.write(self._plain(decision, stamp, age if known else None))
        self._display.decision(self.status)
        if known and age > BEHIND and now - self._complained > COMPLAIN:
            self._complained = now
            self._say(
                "behind",
                f"decisions are {age:.1f} s behind the signal. If it goes on, the machine is too "
                "slow: give a longer --step",
            )

    def _plain(self, decision: Decision, stamp: float, age: float | None) -> dict[str, Any]:
        values: dict[str, Any] = {"sample": decision.sample, "time": stamp}
        if decision.probabilities is None:
            return values | {"withheld": decision.withheld}
        classes = self.live.decoder.classes
        return values | {
            "decision": decision.label,
            "probabilities": dict(zip(classes, decision.probabilities.tolist(), strict=True)),
            "learnt": decision.learnt,
            "latency_ms": None if age is None else 1e3 * age,
        }

    def _nothing_came(self, now: float) -> None:
        if now - self._heard < SILENT:
            return
        if not self._silent:
            self._silent = True
            self.status.state = "silent: connected, but no samples come"
            self._say(
                "silent", f"no sample for {now - self._heard:.1f} s; still waiting, and looking "
                "whether the stream was started anew"
            )  # fmt: skip
        self._look_for_it()

    def _look_for_it(self) -> None:
        """Connect to a stream of the name that is not the one we had."""
        own = self._inlet.uid if self._inlet is not None else None
        found = lsl.find(self.wanted, SEARCH)
        for info in found:
            if info.uid != own and info.uid not in self._refused and self._try(info):
                self.status.reconnections += 1
                return
        # liblsl does not always tell that a sender has ended: it is not to be found any more.
        self._missed = 0 if any(info.uid == own for info in found) else self._missed + 1
        if self._inlet is not None and self._missed >= MISSED:
            self._let_go()

    def _try(self, info: Any) -> bool:
        try:
            self._connect(info)
        except lsl.StreamLostError:
            return False
        except LiveError as error:
            self._refused.add(info.uid)
            self.status.state = "waiting for a stream that the model can read"
            self._say("refused", f"the stream came back changed and cannot be used: {error}")
            return False
        return True

    def _let_go(self) -> None:
        assert self._inlet is not None
        self._inlet.close()
        self._inlet = None
        self.status.state = "lost: waiting for the stream to come back"
        self._say("lost", f"{self.wanted.title} is gone; waiting for it to come back")

    def _say(self, kind: str, text: str) -> None:
        self.event(Event(kind, text, self.live.taken))
