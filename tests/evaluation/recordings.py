"""Small data sets to evaluate, and tables of trials to split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.answer import Evaluation, evaluate
from spdtokens.evaluation.plan import Choice, Question, Source, plan
from spdtokens.evaluation.runs import RunSpec
from spdtokens.evaluation.trials import Trials, TrialTable

SFREQ, SAMPLES, CHANNELS = 100.0, 120, 4
#: Small networks, trained briefly.
SETTINGS = Settings(
    epochs=2,
    changes={"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16, "batch_size": 16},
)
Change = Callable[[Recording], Recording]


def same(recording: Recording) -> Recording:
    return recording


def signals(
    index: dict[str, tuple[str, ...]] | None = None,
    *,
    n: int = 24,
    change: Change = same,
    **more: Any,
) -> Dataset:
    """Noise; of class b the third channel is louder, and has a wave in common with its like."""
    index = index or {"1": ("a", "b"), "10": ("a", "b")}

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([int(subject), *map(ord, session)])
        y = np.arange(n) % 2
        X = rng.standard_normal((n, CHANNELS, SAMPLES))
        X[:, 2] *= (1 + y)[:, None]
        X[:, 1] += np.outer(y, np.sin(np.arange(SAMPLES) / 6))
        run = np.repeat(["r1", "r2"], [n // 2, n - n // 2])
        return change(Recording(subject, session, X, y, run, np.arange(n)))

    dataset = Dataset(
        name="made-up",
        description="",
        paradigm="motor imagery",
        classes=("a", "b"),
        ch_names=tuple("ABCD"),
        sfreq=SFREQ,
        tmin=0.0,
        window=(0.0, SAMPLES / SFREQ),
        index=index,
        read=read,
    )
    return replace(dataset, **more)


def covariances(index: dict[str, tuple[str, ...]] | None = None, **more: Any) -> Dataset:
    """The same as covariance matrices."""
    dataset = signals(index, **more)

    def read(subject: str, session: str) -> Recording:
        recording = dataset.read(subject, session)
        X = recording.X
        return replace(recording, X=X @ X.swapaxes(-1, -2) / X.shape[-1])

    return replace(dataset, read=read, sfreq=None, is_covariance=True, paradigm="other")


def choices(*methods: str, settings: Settings = SETTINGS) -> tuple[Choice, ...]:
    return tuple(Choice(method, settings) for method in methods)


def planned(dataset: Dataset, *methods: str, **more: Any) -> tuple[list[RunSpec], Source]:
    """Runs of a question, and where their data are."""
    source = Source({dataset.name: dataset})
    settings = more.pop("settings", SETTINGS)
    named = more.pop("choices", choices(*methods, settings=settings))
    return plan(Question(dataset.name, named, **{"seeds": (1,), **more}), source), source


def evaluated(dataset: Dataset, *methods: str, **more: Any) -> Evaluation:
    return evaluate(dataset, choices(*methods), **{"seeds": (1,), **more})


def table(
    recordings: Sequence[tuple[str, str]],
    sizes: Sequence[int],
    *,
    y: Sequence[int] | None = None,
    group: Sequence[int] | None = None,
    run: Sequence[str] | None = None,
    start: Sequence[int] | None = None,
    length: int = 10,
) -> TrialTable:
    """Trials of recordings (subject, session), so many each."""
    n = sum(sizes)
    number = np.repeat(np.arange(len(sizes)), sizes)
    begins = np.full(n, -1) if start is None else np.asarray(start)
    places = [i for size in sizes for i in range(size)]
    who = [recordings[i] for i in number]
    return TrialTable(
        id=np.array([f"{s}/{e}/{i}" for (s, e), i in zip(who, places, strict=True)]),
        subject=np.array([s for s, _ in who]),
        session=np.array([e for _, e in who]),
        run=np.full(n, "1") if run is None else np.array(run),
        recording=number,
        group=np.arange(n) if group is None else np.array(group),
        y=np.arange(n) % 2 if y is None else np.array(y),
        start=begins,
        stop=np.where(begins < 0, -1, begins + length),
    )


def trials(t: TrialTable) -> Trials:
    """Noise of which the table is that given."""
    length = max(2, int((t.stop - t.start).max()))

    def read(subject: str, session: str) -> Recording:
        mine = (t.subject == subject) & (t.session == session)
        rng = np.random.default_rng(np.flatnonzero(mine)[0])
        X = rng.standard_normal((mine.sum(), 2, length))
        about = {} if (t.start < 0).any() else {"onset": t.start[mine]}
        return Recording(subject, session, X, t.y[mine], t.run[mine], t.group[mine], about)

    index: dict[str, tuple[str, ...]] = {}
    for subject, session in zip(t.subject.tolist(), t.session.tolist(), strict=True):
        index[subject] = tuple(dict.fromkeys((*index.get(subject, ()), session)))
    classes = tuple("abc"[: t.y.max() + 1])
    return Trials(signals(index, read=read, classes=classes))
