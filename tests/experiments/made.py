"""Results as an evaluation would give them, without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.runs import RunResult, RunSpec

SPEC = RunSpec(
    dataset="sim-mi",
    selection={"classes": ["left", "right"], "where": {"run": "1"}},
    subjects=("1",),
    protocol="blocks",
    protocol_options={"folds": 5},
    access="train",
    alignment="none",
    domain="session",
    subject="1",
    fold="block 1",
    method="token-log-euclidean",
    about={"settings": {"bands": "auto", "changes": {"n_layers": 2}, "epochs": None}},
    estimator={"class": "spdtokens.TokenTransformerClassifier", "betas": [0.9, 0.999]},
    seed=0,
    data_hash="00ff",
)


def made(number: int = 0, code: str = "c0de", *, n: int = 12, **changes: Any) -> RunResult:
    """A result; another number is another run."""
    rng = np.random.default_rng(number)
    p = rng.random((n, 4), dtype=np.float32)
    p /= p.sum(1, keepdims=True)
    y = rng.integers(0, 4, n)
    result = RunResult(
        spec=replace(SPEC, seed=number),
        ids=np.array([f"sim-mi/1/0/{i}" for i in range(n)], dtype=np.str_),
        y=y,
        probabilities=p,
        train={"accuracy": 1.0, "roc_auc": float("nan")},
        validation={},
        test=all_scores(y, p),
        sizes={"train": 3 * n, "validation": 0, "test": n},
        curves={"loss": rng.random(50), "validation_loss": np.full(50, np.nan)},
        epoch=50,
        leaky="",
        seconds=0.1 + number,
        memory=512.25,
        origin={"code": code, "git": "abc+", "time": "2026-11-16T00:00:00+00:00"},
    )
    return replace(result, **changes)


def assert_same(one: RunResult, other: RunResult) -> None:
    """Equal in every field, arrays with their types, NaN where there was NaN."""
    assert one.spec.key == other.spec.key
    assert one.spec.family == other.spec.family
    assert one.spec.values() == other.spec.values()
    for name in ("ids", "y", "probabilities"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, strict=True)
    assert list(one.curves) == list(other.curves)
    for name in one.curves:
        np.testing.assert_array_equal(one.curves[name], other.curves[name], strict=True)
    for name in ("train", "validation", "test"):
        # As text, since NaN is not equal to itself.
        assert repr(dict(getattr(one, name))) == repr(dict(getattr(other, name)))
    for name in ("sizes", "epoch", "leaky", "origin"):
        assert getattr(one, name) == getattr(other, name)
    assert repr((one.seconds, one.memory)) == repr((other.seconds, other.memory))
