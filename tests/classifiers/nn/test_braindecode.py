"""The same networks as braindecode 0.8's: its weights in ours give its logits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

CASES = [
    *[("EEGNet", i) for i in range(6)],
    *[("ShallowNet", i) for i in range(6)],
    *[("EEGConformer", i) for i in range(6)],
    # Where braindecode can build them: at least 6 steps for ATCNet, pools of one size for DeepNet.
    *[("ATCNet", i) for i in (0, 4, 5)],
    *[("DeepNet", i) for i in (1, 4, 5)],
]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, float]]:
    """Answers of the script, run apart: it hides moabb, beside which braindecode 0.8 fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.classifiers.nn.braindecode_logits"],
        cwd=ROOT,
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if "skip" in answer:
        pytest.skip(answer["skip"])
    return answer


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_parity(results: dict[str, dict[str, float]], name: str, shape: int) -> None:
    result = results[f"{name} {shape}"]
    assert result["ours"] == result["theirs"]
    assert result["spread"] > 0.1  # logits that differ between trials, so that equal means equal
    assert result["double"] < 1e-9
    assert result["single"] < 1e-5
