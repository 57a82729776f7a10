"""Orderings that the simulation must show; the numbers are in docs/simulation.md."""

from __future__ import annotations

import pytest

from spdtokens.datasets.simulated.calibration import calibrate, main


def means(name: str, *subjects: str) -> dict[str, float]:
    return {row["measure"]: row["mean"] for row in calibrate([name], subjects or None)}


def test_xdawn_sees_what_plain_covariances_do_not() -> None:
    found = means("sim-erp", "1", "2")
    assert found["AUC, Xdawn"] > found["AUC, plain"] + 0.08


def test_flicker_bands_see_what_a_broad_band_does_not() -> None:
    found = means("sim-ssvep", "1", "2")
    assert found["flicker bands"] > 0.6
    assert found["broad band"] < 0.4


def test_table_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def instead(_dataset: object, _subjects: object) -> dict[str, dict[str, float]]:
        return {"some measure": {"1": 0.5, "2": 0.75}}

    monkeypatch.setitem(calibrate.__globals__["MEASURES"], "sim-mi", instead)
    main(["sim-mi"])
    assert "some measure" in (out := capsys.readouterr().out)
    assert "62.5  50.0  75.0  50 75" in out


@pytest.mark.slow
def test_motor_imagery_needs_recentring() -> None:
    found = means("sim-mi")
    assert 0.55 < found["cross-session"] < 0.75
    assert found["other subjects"] < 0.36
    assert found["other subjects, recentred"] > found["other subjects"] + 0.08


@pytest.mark.slow
def test_released_numbers() -> None:
    found = means("sim-erp")
    assert 0.75 < found["AUC, Xdawn"] < 0.85
    assert found["AUC, plain"] < 0.62
    found = means("sim-ssvep")
    assert 0.7 < found["flicker bands"] < 0.9
    assert found["broad band"] < 0.35
