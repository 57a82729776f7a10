"""Simulated data: heads, waves, the three data sets, their figure, and how well they decode."""

from __future__ import annotations

import io
import os
import runpy
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt, welch
from threadpoolctl import threadpool_limits

from spdtokens import load_dataset
from spdtokens.datasets import Recording
from spdtokens.datasets import simulated as sim
from spdtokens.datasets.simulated import CENTRE, RADIUS, SIMULATED, sim_erp, sim_mi, sim_ssvep
from spdtokens.datasets.simulated_figure import simulation_figure
from spdtokens.errors import DataError

NAMES = sorted(SIMULATED)
CHANNELS = sim_mi().ch_names
SIZES = {
    "sim-mi": (9, [288, 288], 22, 1250, 4),
    "sim-erp": (16, [60, 60, 60, 60, 100], 56, 300, 2),
    "sim-ssvep": (11, [25] * 5, 8, 1280, 5),
}


@lru_cache(maxsize=8)
def recording(name: str, subject: str = "1", session: str = "1") -> Recording:
    return SIMULATED[name]().load(subject, session)


@pytest.mark.parametrize("name", NAMES)
def test_sizes(name: str) -> None:
    subjects, trials, channels, samples, classes = SIZES[name]
    dataset = SIMULATED[name]()
    assert dataset.name == name
    assert dataset.unit_in_volts == 1.0
    assert dataset.subjects == tuple(str(i + 1) for i in range(subjects))
    assert len(dataset.ch_names) == len(set(dataset.ch_names)) == channels
    assert len(dataset.classes) == classes
    assert len(dataset.sessions("1")) == len(trials)
    got = recording(name)
    assert got.X.shape == (trials[0], channels, samples)
    assert got.X.dtype == np.float32
    assert np.isfinite(got.X).all()
    assert len(np.unique(got.group)) == len(got)
    last_sample = dataset.tmin + samples / (dataset.sfreq or 0)
    assert dataset.tmin <= dataset.window[0] < dataset.window[1] <= last_sample + 1e-9


def test_labels_are_balanced_within_runs_and_shuffled() -> None:
    got = recording("sim-mi")
    assert list(np.unique(got.run)) == list("123456")
    orders = [tuple(got.y[got.run == run]) for run in "123456"]
    assert all(np.bincount(order).tolist() == [12] * 4 for order in orders)
    assert len(set(orders)) == 6
    assert np.bincount(recording("sim-erp").y).tolist() == [42, 18]
    assert np.bincount(sim_erp().load("1", "5").y).tolist() == [70, 30]
    assert np.bincount(recording("sim-ssvep").y).tolist() == [5] * 5


@pytest.mark.parametrize("name", NAMES)
def test_any_subset_in_any_order_gives_the_same_numbers(name: str) -> None:
    """With any number of threads too: a study's worker has one, the process that plans many."""
    made = []
    for threads, others in ((1, ()), (2, (("3", "1"), ("2", "1")))):
        dataset = SIMULATED[name]()
        with threadpool_limits(threads):
            for subject, session in others:
                dataset.load(subject, session)
            made.append(dataset.load("2", "2"))
    np.testing.assert_array_equal(made[0].X, made[1].X)
    np.testing.assert_array_equal(made[0].y, made[1].y)


@pytest.mark.parametrize("name", NAMES)
def test_recordings_have_their_own_noise(name: str) -> None:
    one, two = recording(name), recording(name, session="2")
    n = min(len(one), len(two))
    correlation = np.corrcoef(one.X[:n, 0].ravel(), two.X[:n, 0].ravel())[0, 1]
    assert abs(correlation) < 0.1
    assert not np.array_equal(one.y[:n], two.y[:n])
    assert not np.array_equal(SIMULATED[name](1).load("1", "1").X, one.X)  # another release


@pytest.mark.parametrize(
    ("name", "first", "last", "rms"),
    [
        ("sim-mi", (0.261778, 7.116051, -5.844214), -1.118126, 7.875360),
        ("sim-erp", (-9.243045, -6.025115, -3.871904), 7.639570, 15.288154),
        ("sim-ssvep", (-6.377391, 6.420959, 1.405350), -8.093868, 8.606514),
    ],
)
def test_signals_are_those_that_were_released(
    name: str, first: tuple[float, ...], last: float, rms: float
) -> None:
    """The scores in docs/simulation.md are of these very numbers, in microvolts."""
    X = recording(name).X * 1e6
    np.testing.assert_allclose([*X[0, 0, :300:100], X[-1, -1, -1]], [*first, last], rtol=1e-4)
    assert X.std() == pytest.approx(rms, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_spectra_fall_with_peaks_at_alpha_and_the_mains(name: str) -> None:
    dataset = SIMULATED[name]()
    f, density = welch(recording(name).X, dataset.sfreq, nperseg=round(dataset.sfreq or 0))
    mean = np.median(density.mean(1), axis=0)
    assert f[1] == pytest.approx(1.0)
    assert mean[50] > 2 * max(mean[47], mean[53])
    peak = 8 + int(np.argmax(mean[8:14]))
    assert mean[peak] > 1.3 * np.sqrt(mean[5] * mean[17])
    assert mean[2] > 1.5 * mean[5]
    assert mean[5] > 3 * mean[35]


def power(X: np.ndarray, sfreq: float, band: tuple[float, float]) -> np.ndarray:
    sos = butter(3, band, btype="bandpass", fs=sfreq, output="sos")
    return np.asarray(sosfiltfilt(sos, X, axis=-1) ** 2)


def lateralisation(got: Recording, samples: slice) -> np.ndarray:
    """Log power of mu after right minus left hand, at C3 and C4."""
    both = [sim_mi().ch_names.index(name) for name in ("C3", "C4")]
    mu = np.log(power(got.X[:, both], 250.0, (8.0, 14.0))[..., samples].mean(-1))
    return np.asarray(mu[got.y == 1].mean(0) - mu[got.y == 0].mean(0))


def test_mu_weakens_opposite_to_the_imagined_hand() -> None:
    # C3 is above the hand area of the right hand.
    at_c3, at_c4 = lateralisation(recording("sim-mi"), slice(375, 1100))
    assert at_c3 < -0.5
    assert at_c4 > 0.5
    before = lateralisation(recording("sim-mi"), slice(0, 120))
    assert np.abs(before).max() < 0.3  # nothing is known before the cue


def test_some_people_show_nothing() -> None:
    weakest = str(int(np.argmin(sim.MI_STRENGTH)) + 1)
    assert np.abs(lateralisation(recording("sim-mi", weakest), slice(375, 1100))).max() < 0.3


def test_errors_evoke_a_negativity_then_a_positivity() -> None:
    dataset = sim_erp()
    channel = dataset.ch_names.index("FCz")
    waves = []
    for subject in dataset.subjects[:6]:
        got = dataset.load(subject, "5")
        sos = butter(3, (1.0, 20.0), btype="bandpass", fs=200.0, output="sos")
        X = sosfiltfilt(sos, got.X[:, channel], axis=-1)
        waves.append(X[got.y == 1].mean(0) - X[got.y == 0].mean(0))
    difference = np.mean(waves, axis=0) * 1e6
    t = np.arange(len(difference)) / 200.0 - 0.2
    negative = difference[(t > 0.24) & (t < 0.30)].mean()
    positive = difference[(t > 0.36) & (t < 0.46)].mean()
    assert negative < -0.5
    assert positive > 0.5


def test_flickers_show_at_their_frequency_at_any_phase() -> None:
    dataset = sim_ssvep()
    trials = [dataset.load("1", session) for session in dataset.sessions("1")]
    X = np.concatenate([part.X for part in trials])[:, dataset.ch_names.index("Oz")]
    y = np.concatenate([part.y for part in trials])
    t = np.arange(X.shape[1]) / 256.0
    for k, hertz in enumerate(dataset.stimulus_hz):
        line = (X * np.exp(-2j * np.pi * hertz * t)).mean(1)
        assert np.abs(line[y == k]).mean() > 1.5 * np.abs(line[y != k]).mean()
        locked = np.abs((line / np.abs(line))[y == k].mean())
        assert locked < 0.6


def test_a_radial_dipole_is_seen_best_above_it() -> None:
    for electrode in ("C3", "C4", "Cz", "POz"):
        out = sim.direction(electrode)
        gain = sim.leadfield(CHANNELS, (CENTRE + 0.8 * RADIUS * out)[None])
        seen = gain[:, 0] @ out
        assert CHANNELS[int(np.argmax(seen))] == electrode
        # Tenths of a microvolt for a nanoampere-metre, as in real heads.
        assert 0.05e3 < seen.max() < 2e3


def test_leadfield_is_the_same_on_another_processor() -> None:
    """MNE fits its sphere by a search that ends elsewhere where sums are rounded otherwise."""
    places = CENTRE + np.random.default_rng(0).uniform(-0.04, 0.04, (5, 3))
    script = (
        "import sys, numpy; from spdtokens.datasets.simulated import leadfield; "
        f"places = numpy.array({places.tolist()}); "
        f"sys.stdout.buffer.write(leadfield({CHANNELS}, places).tobytes())"
    )
    found = []
    for processor in ("Haswell", "Nehalem"):
        environment = os.environ | {"OPENBLAS_CORETYPE": processor}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True
        )
        found.append(np.frombuffer(run.stdout))
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-9 * np.abs(found[0]).max())


@pytest.mark.parametrize("name", NAMES)
def test_figure_shows_every_class(name: str) -> None:
    figure = simulation_figure(name)
    titles = [axes.get_title() for axes in figure.axes]
    assert [title for title in titles if title] == list(SIMULATED[name]().classes)
    figure.savefig(file := io.BytesIO(), format="png", dpi=40)
    assert file.tell() > 10_000


@pytest.fixture(scope="module")
def means() -> Any:
    """Mean score by measure, of the script in studies/."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "studies/simulated_calibration.py"))

    def measured(name: str, *subjects: str) -> dict[str, float]:
        scores = script["calibrate"](name, subjects or None)
        return {measure: float(np.mean([*found.values()])) for measure, found in scores.items()}

    return measured


def test_orderings_of_methods(means: Any) -> None:
    """The numbers are in docs/simulation.md."""
    found = means("sim-erp", "1", "2")
    assert found["AUC, Xdawn"] > found["AUC, plain"] + 0.08
    found = means("sim-ssvep", "1", "2")
    assert found["flicker bands"] > 0.6
    assert found["broad band"] < 0.4


@pytest.mark.slow
def test_released_numbers(means: Any) -> None:
    found = means("sim-mi")
    assert 0.55 < found["cross-session"] < 0.75
    assert found["other subjects"] < 0.36
    assert found["other subjects, recentred"] > found["other subjects"] + 0.08
    found = means("sim-erp")
    assert 0.75 < found["AUC, Xdawn"] < 0.85
    assert found["AUC, plain"] < 0.62
    found = means("sim-ssvep")
    assert 0.7 < found["flicker bands"] < 0.9
    assert found["broad band"] < 0.35


def test_sessions_and_runs_can_be_more_and_shorter() -> None:
    usual = load_dataset("sim-mi").load("1", "2")
    dataset = load_dataset("sim-mi", sessions=3, runs=1)
    short = dataset.load("1", "2")
    assert dataset.sessions("1") == ("1", "2", "3")
    assert np.bincount(short.y).tolist() == [12, 12, 12, 12]
    np.testing.assert_array_equal(short.y, usual.y[:48])
    assert load_dataset("sim-erp", sessions=2).sessions("16") == ("1", "2")
    for name, options in (
        ("sim-mi", {"sessions": 0}),
        ("sim-mi", {"runs": 0}),
        ("sim-mi", {"spread": -1}),
        ("sim-erp", {"spread": -1}),
    ):
        with pytest.raises(DataError, match=next(iter(options))):
            load_dataset(name, **options)


@pytest.mark.parametrize("name", ["sim-mi", "sim-erp"])
def test_spread_is_that_between_sessions(name: str) -> None:
    """Powers of the channels differ between sessions in proportion to it."""

    def difference(spread: float) -> float:
        dataset = load_dataset(name, spread=spread)
        one, two = (np.log(dataset.load("1", s).X.var((0, 2))) for s in ("1", "2"))
        return float(np.abs(one - two).mean())

    assert difference(0.0) < 0.5 * difference(1.0) < 0.25 * difference(4.0)


def test_segments_are_seconds_of_their_trial() -> None:
    whole, cut = (load_dataset("sim-ssvep", **o) for o in ({}, {"segments": 4}))
    trials, segments = (dataset.load("2", "3") for dataset in (whole, cut))
    assert (segments.X.shape, cut.window) == ((100, 8, 256), (0.0, 1.0))
    assert np.array_equal(segments.X[4 * 7 + 2], trials.X[7][:, 3 * 256 : 4 * 256])
    assert np.array_equal(segments.group, np.repeat(trials.group, 4))
    assert np.array_equal(segments.y, np.repeat(trials.y, 4))
    with pytest.raises(DataError):
        load_dataset("sim-ssvep", segments=5)
