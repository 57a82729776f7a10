"""What the theory assumes about EEG: against closed forms, and with verdicts that can change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.paper.theory import CLAIMS, premises
from spdtokens.paper.theory.claim import F64

A09 = Path(__file__).parents[3] / "shared" / "data" / "bci2a-a09-covariances"


def scaled_identities(factors: list[float]) -> torch.Tensor:
    """Multiples of diag(1, 4): they commute, so the barycenter is the squared mean of roots."""
    return torch.stack([f**2 * torch.diag(torch.tensor([1.0, 4.0], dtype=F64)) for f in factors])


def test_commuting_matrices_by_hand() -> None:
    factors = [1.0, 3.0, 5.0, 7.0]
    noise = 1e-6 * torch.randn(4, 2, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    found = premises.measure(scaled_identities(factors) + noise @ noise.mT, np.array([0, 0, 1, 1]))
    assert found.channels == 2
    np.testing.assert_allclose(found.kappa, 4, rtol=1e-6)
    # The mean factor is 4: distances to it are 3, 1, 1, 3 of 4; class means are 2 and 6.
    np.testing.assert_allclose(found.largest, [3 / 4], rtol=1e-5)
    np.testing.assert_allclose(found.average, [2 / 4], rtol=1e-5)
    np.testing.assert_allclose(found.largest_within, [1 / 2, 1 / 6], rtol=1e-5)
    np.testing.assert_allclose(found.spread_ratio, [1 / 4], rtol=1e-5)
    np.testing.assert_allclose(found.gaps, 3 / 4, rtol=1e-5)
    np.testing.assert_allclose(found.steps, 3 / 4, rtol=1e-5)


def ideal(channels: int, kappa: float) -> premises.Measured:
    """A subject as the paper assumes it."""
    few = np.array([0.01, 0.02])
    return premises.Measured(
        channels=channels,
        kappa=np.array([kappa, kappa]),
        mean_kappa=np.array([kappa]),
        largest=few,
        average=few,
        largest_within=few,
        average_within=few,
        spread_ratio=np.array([0.5]),
        gaps=np.full(100, 1e-7 if channels > 8 else 0.5),
        steps=few,
        scale_ratio=np.array([float(channels)]),
        silhouette={"Log-Euc": 0.3, "BWSPD": 0.2, "Euclidean": 0.1},
    )


SETS = {"high": [ideal(22, 50.0)], "low": [ideal(8, 20.0)]}
#: What breaks each premise, in the data set with 22 channels.
BREAKS = {
    "eeg-condition-number": {"kappa": np.array([1e4])},
    "eeg-mean-condition": {"mean_kappa": np.array([2e3])},
    "eeg-fewer-channels": {"kappa": np.array([15.0])},
    "eeg-dispersion": {"largest": np.array([0.5])},
    "eeg-within-class": {"spread_ratio": np.array([1.5])},
    "eeg-close-eigenvalues": {"gaps": np.full(100, 0.5)},
    "eeg-token-scales": {"scale_ratio": np.array([2.0])},
    "eeg-class-separation": {"silhouette": {"Log-Euc": 0.3, "BWSPD": 0.1, "Euclidean": 0.2}},
}


def test_every_premise_has_a_case() -> None:
    assert list(BREAKS) == [claim.id for claim in CLAIMS if claim.is_premise]


@pytest.mark.parametrize("name", BREAKS)
def test_verdict_hangs_on_the_trials(name: str) -> None:
    (test,) = (claim.test for claim in CLAIMS if claim.id == name)
    assert test(SETS).verdict == "holds"
    broken = {**SETS, "high": [replace(SETS["high"][0], **BREAKS[name])]}
    assert test(broken).verdict == "fails"


def test_a_missing_folder_is_told_before_the_other_claims(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["theory", "--data", str(tmp_path / "nothing")])
    assert result.exit_code == 1
    assert "nothing" in result.output


@pytest.mark.skipif(not A09.exists(), reason="no shared/data beside this checkout")
def test_a_real_subject_is_measured_beside_the_simulated_ones() -> None:
    sets = premises.premises_of(A09)
    assert list(sets)[:3] == ["sim-mi", "sim-erp", "sim-ssvep"]
    (subject,) = sets[list(sets)[3]]
    C = np.load(A09 / "sub-09_ses-1T.npz")["C"][:128]
    assert subject.kappa == pytest.approx(np.linalg.cond(C), rel=1e-6)
