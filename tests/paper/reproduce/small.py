"""Sets small enough that a table takes seconds, and ``reproduce`` on them as a process."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

import numpy as np

from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.plan import Source
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce import run
from spdtokens.paper.reproduce.roles import ROLES, Role

SFREQ = 125.0


def signals(name: str, last: float = 1.0) -> Dataset:
    """Noise, one channel louder in class 1; the last session times a number."""

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([int(subject), int(session)])
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 3, 250))
        X[:, 0] *= (1 + 2 * y)[:, None]
        X *= last if session == "3" else 1.0
        return Recording(subject, session, X, y, np.full(40, "1"), np.arange(40))

    return Dataset(
        name=name,
        description="",
        paradigm="motor imagery",
        classes=("a", "b"),
        ch_names=("A", "B", "C"),
        sfreq=SFREQ,
        tmin=0.0,
        window=(0.0, 2.0),
        index={str(i): ("1", "2", "3") for i in range(1, 5)},
        read=read,
    )


def small_source() -> Source:
    """The three simulated sets, each replaced by a small one."""
    return Source({role.sim: signals(role.sim) for role in ROLES})


def command(arguments: list[str], batches: int) -> None:
    """The real command on small sets, two epochs a run; killed after so many batches if not 0."""
    from spdtokens.cli import app

    run.Source = small_source  # type: ignore[assignment, misc]
    settings = Role.settings
    Role.settings = lambda self, **more: replace(  # type: ignore[method-assign]
        settings(self, **more), epochs=2
    )
    add, added = RunStore.add, []

    def add_and_die(self, results) -> int:
        added.append(add(self, results))
        if len(added) == batches:
            os.kill(os.getpid(), signal.SIGKILL)
        return added[-1]

    RunStore.add = add_and_die  # type: ignore[method-assign]
    app(arguments)


if __name__ == "__main__":
    command(sys.argv[2:], int(sys.argv[1]))
