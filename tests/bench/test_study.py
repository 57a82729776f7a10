from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from spdtokens.bench.obvious import log_token
from spdtokens.bench.study import StudySize, bench_study, noise, raw_token, sqrt_token
from spdtokens.cli import app
from spdtokens.geometry import get_embedding

TINY = StudySize(subjects=2, seeds=1, epochs=1, trials=40, channels=4, samples=60)


def test_a_small_study_is_measured_from_signals_to_store() -> None:
    found = bench_study(TINY, threads=1)
    assert found["runs"] == 6
    assert found["speedup"] == pytest.approx(found["obvious_seconds"] / found["seconds"])
    per_run = found["seconds"] / 6
    assert found["projected_hours"] == pytest.approx(per_run * 1500 / 3600)
    assert 50 < found["peak_megabytes"] < 4000


def test_noise_has_the_shape_asked_for() -> None:
    dataset = noise(TINY)
    assert dataset.subjects == ("1", "2")
    assert dataset.load("2", "1").X.shape == (40, 4, 60)


def test_the_obvious_tokens_are_ours() -> None:
    X = torch.randn(5, 1, 4, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    C = X @ X.mT / 40
    for name, embed in (
        ("log_euclidean", log_token),
        ("bures_wasserstein", sqrt_token),
        ("euclidean", raw_token),
    ):
        torch.testing.assert_close(embed(C), get_embedding(name).to_token(C))


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "threads": 2,
        "runs": 135,
        "epochs": 50,
        "subjects": 9,
        "seeds": 5,
        "seconds": 120.0,
        "obvious_seconds": 660.0,
        "obvious_is_extrapolated_from_epochs": 18,
        "speedup": 5.5,
        "peak_megabytes": 700.0,
        "projected_runs": 1500,
        "projected_hours": 0.37,
        "projected_obvious_hours": 2.04,
    }
    monkeypatch.setattr("spdtokens.bench.study.bench_study", lambda *_: made)
    runner = CliRunner()
    assert json.loads(runner.invoke(app, ["bench", "study", "--json"]).stdout) == made
    table = runner.invoke(app, ["bench", "study"], env={"COLUMNS": "140"}).stdout
    for part in ("135 runs", "5.5x", "700 MB", "extrapolated", "2.04"):
        assert part in table
