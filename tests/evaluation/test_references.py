"""The references of the real recordings, through ``evaluate`` with their own protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdtokens import evaluate
from spdtokens.datasets import Selection

REAL = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not REAL.is_dir(), reason="the real recordings are not beside this checkout (shared/data)"
)
POINTS = 0.015


def scores(name: str, methods: list[str], protocol: str, **more) -> dict[str, float]:
    return {row.method: row.score for row in evaluate(REAL / name, methods, protocol, **more).rows}


def test_bci2a_subject_9() -> None:
    found = scores("bci2a-a09-covariances", ["ts-lr", "fgmdm", "mdm"], "session-transfer")
    assert found["ts-lr"] == pytest.approx(0.781, abs=POINTS)
    assert found["fgmdm"] == pytest.approx(0.840, abs=POINTS)
    assert found["mdm"] == pytest.approx(0.743, abs=POINTS)


def test_p300() -> None:
    found = evaluate(
        REAL / "brain-invaders-p300",
        ["xdawn-ts-lr"],
        "blocks",
        selection=Selection(paradigm="erp"),
    )
    assert found.rows[0].metric == "roc_auc"
    assert found.rows[0].score == pytest.approx(0.916, abs=POINTS)


def test_motor_imagery() -> None:
    chosen = Selection(
        paradigm="mi", classes=("left_fist", "right_fist"), where=(("imagined", "1"),)
    )
    found = scores("physionet-eegmmi-s001", ["ts-lr"], "leave-one-run-out", selection=chosen)
    assert found["ts-lr"] == pytest.approx(0.80, abs=POINTS)


@pytest.mark.slow
def test_ssvep() -> None:
    """Its reference standardised the features, which costs 4 points: docs/methods.md."""
    found = scores("ssvep-exoskeleton", ["ts-lr"], "leave-one-session-out")
    assert found["ts-lr"] > 0.766
