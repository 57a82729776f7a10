from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import welch
from threadpoolctl import threadpool_limits

from spdtokens import evaluate, load_dataset
from spdtokens.datasets.simulated_emg import FALL_OFF, FOREARM, gains, sim_emg


def test_sizes() -> None:
    dataset = load_dataset("sim-emg")
    assert (dataset.name, dataset.paradigm, dataset.unit_in_volts) == ("sim-emg", "other", 1.0)
    assert dict(dataset.index) == dict.fromkeys("12345", ("1", "2"))
    recording = dataset.load("1", "1")
    assert recording.X.shape == (120, 8, 500)
    assert recording.X.dtype == np.float32
    assert np.bincount(recording.y).tolist() == [24] * 5
    assert len(np.unique(recording.group)) == 120


def test_any_subset_in_any_order_gives_the_same_numbers() -> None:
    made = []
    for threads, others in ((1, ()), (2, (("3", "1"), ("2", "1")))):
        with threadpool_limits(threads):
            for subject, session in others:
                sim_emg().load(subject, session)
            made.append(sim_emg().load("2", "2"))
    np.testing.assert_array_equal(made[0].X, made[1].X)
    np.testing.assert_array_equal(made[0].y, made[1].y)
    assert not np.array_equal(made[0].X, sim_emg().load("2", "1").X)
    assert not np.array_equal(made[0].X, sim_emg(1).load("2", "2").X)


def test_potentials_fall_with_distance() -> None:
    below, beside = gains(np.array([[0.0, 10.0]]))[[0, 2], 0]
    assert below == pytest.approx(1.0)  # 10 mm below the first electrode
    distance = np.hypot(FOREARM, FOREARM - 10)
    assert beside == pytest.approx((10 / distance) ** FALL_OFF)
    # Turned by the angle between two electrodes, the next one is there.
    turned = gains(np.array([[0.0, 10.0]]), turn=-45.0)
    assert turned[1, 0] == pytest.approx(1.0)


def test_signals_are_like_surface_emg() -> None:
    recording = sim_emg().load("1", "1")
    rms = [recording.X[recording.y == k].std() * 1e6 for k in range(5)]
    assert 5 < rms[0] < 30  # rest, in microvolts
    assert min(rms[1:]) > 2 * rms[0]
    f, density = welch(recording.X[recording.y > 0], 500.0, nperseg=250)
    power = density.mean((0, 1))
    assert power[(f >= 20) & (f <= 150)].sum() > 0.7 * power.sum()
    assert 30 < f[np.argmax(np.where(np.abs(f - 50) < 5, 0, power))] < 120


def test_a_turned_bracelet_costs_accuracy() -> None:
    """Chance is 20 %."""
    across = evaluate("sim-emg", "ts-lr", "session-transfer").rows[0]
    within = evaluate("sim-emg", "ts-lr", "blocks").rows[0]
    assert 0.45 < across.score < 0.8
    assert across.score > across.chance_bound
    assert within.score > across.score + 0.1
