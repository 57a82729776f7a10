"""Reports of made-up runs whose scores are known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
from sklearn.base import BaseEstimator

from spdtokens.evaluation.answer import Evaluation
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.plan import Choice, Question, Source
from spdtokens.evaluation.runs import RunResult, RunSpec, code_digest
from spdtokens.evaluation.summary import summarise
from spdtokens.reporting.decisions import Decision
from spdtokens.reporting.report import Facts, Report

CLASSES = ("left", "right")
CHANNELS = ("Fz", "C3", "Cz", "C4", "Pz", "Oz")
#: Names that HTML, LaTeX, Markdown or matplotlib would trip over.
NASTY = "a_b & <c>, 50 % $x$ | #1 {k}"


def made_run(
    method: str,
    subject: str = "1",
    fold: str = "last",
    seed: int | None = None,
    *,
    right: float = 0.8,
    trained: float = 0.95,
    n: int = 40,
    leaky: str = "",
    curves: bool = False,
) -> RunResult:
    """A run with a share ``right`` of its test trials, and ``trained`` of its training trials."""
    spec = RunSpec(
        "sim-mi", {}, (subject,), "session-transfer", {}, "train", "none", "session", subject, fold,
        method, {}, {}, seed, f"hash{subject}",
    )  # fmt: skip
    y = np.arange(n) % 2
    told = np.where(np.arange(n) < round(right * n), y, 1 - y)
    probabilities = np.where(np.eye(2)[told] > 0, 0.9, 0.1)
    epochs = np.linspace(0.5, 1, 30)
    return RunResult(
        spec=spec,
        ids=np.array([f"{subject}/{fold}/{i}" for i in range(n)]),
        y=y,
        probabilities=probabilities,
        train={"accuracy": trained, "roc_auc": trained},
        validation={},
        test=all_scores(y, probabilities),
        sizes={"train": 2 * n, "validation": 0, "test": n},
        curves={"train accuracy": epochs, "train loss": 1 - epochs} if curves else {},
        epoch=30 if curves else None,
        leaky=leaky,
        seconds=1.5,
        memory=100.0,
        stretch=np.arange(n) + n * sum(map(ord, fold)),
        chain=np.arange(n) + n * sum(map(ord, fold)),
        origin={"spdtokens": "0.1.0", "code": code_digest(), "git": "abc", "time": "2026-11-16"},
    )


def run_of(estimator: BaseEstimator, source: Source, method: str = "m", **more) -> RunResult:
    """A run of an estimator, which the source will know."""
    run = made_run(method, **more)
    return replace(run, spec=replace(run.spec, estimator=source.give(estimator)))


def made_decision(run: RunResult, bands: int = 3, changed: int = 0) -> Decision:
    """Of a model that decides by C4 most of all, in its last band; it attends to the first."""
    shares = np.ones((bands, len(CHANNELS)))
    shares[-1, CHANNELS.index("C4")] = 10.0
    attention = np.full((bands, bands), 0.5 / (bands - 1)) if bands > 1 else None
    if attention is not None:
        attention[:, 0] = 0.5
    names = tuple(f"{8 * i + 4}-{8 * i + 12} Hz" for i in range(bands))
    shares /= shares.sum()
    return Decision(run.spec.method, run, names, shares, attention, changed)


def made_facts(results: dict[str, list[RunResult]], *, metric="accuracy", more=0, **asked) -> Facts:
    """Of runs by method; ``more`` of them are missing."""
    question = Question("sim-mi", tuple(map(Choice, results)), **asked)
    answer = Evaluation(question, results, summarise(results, metric), CLASSES)
    return Facts(1, answer, "sim-mi", CLASSES, sum(map(len, results.values())) + more)


def many(n_methods: int = 3, n_subjects: int = 6, seeds: int = 1, **more) -> dict[str, list]:
    """Methods from best to worst, on subjects that differ."""
    names = [f"method-{i}" for i in range(n_methods)]
    if n_methods > 2:
        names[2] = NASTY
    return {
        name: [
            made_run(name, str(s), seed=seed, right=0.9 - 0.05 * i - 0.025 * (s % 3), **more)
            for s in range(1, n_subjects + 1)
            for seed in range(seeds)
        ]
        for i, name in enumerate(names)
    }


def made_report(*found: Facts) -> Report:
    return Report("A & <B>", 'methods = ["<x>"]', ["spdtokens study run f.toml"], list(found),
                  datetime.now(UTC))  # fmt: skip


class Tree(HTMLParser):
    """Checks that every tag is closed, and keeps elements and texts."""

    EMPTY = ("meta", "link", "br", "hr", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag}: an attribute twice"
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data) -> None:
        if self.open and data.strip():
            self.texts.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [found for name, found in self.elements if name == tag]

    def inside(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]
