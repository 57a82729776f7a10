"""Signals to matrices, against the filters of SciPy and the estimators of NumPy and pyRiemann."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from pyriemann.estimation import Covariances, ERPCovariances, XdawnCovariances
from pyriemann.geometry.covariance import covariances
from scipy.signal import butter, sosfilt, sosfilt_zi, sosfiltfilt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from spdtokens import FilterBankCovariances, StandardTrials
from spdtokens.errors import SignalError
from spdtokens.preprocessing import Band, zero_phase
from spdtokens.preprocessing.covariance import fit_prototype, folds_in_time

SFREQ = 100.0


def trials(n: int = 24, channels: int = 4, samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that differ in the 10 Hz power of the first channel."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, channels, samples))
    t = np.arange(samples) / SFREQ
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    X[:, 0] += (0.4 + 0.8 * y[:, None]) * np.sin(2 * np.pi * 10 * t + phase)
    return X, y


def plain(**options: object) -> FilterBankCovariances:
    """Without a ridge."""
    return FilterBankCovariances(SFREQ, regularisation=0.0, **options)


@pytest.mark.parametrize("estimator", ["sample", "scm", "oas", "lwf"])
def test_zero_phase_bands_are_those_of_scipy(estimator: str) -> None:
    """In windows away from the ends, where the two continue a trial differently."""
    X, _ = trials(6, samples=1600)
    bands, windows = [(8, 13), (13, 30)], [(4.0, 8.0), (5.0, 12.0)]
    found = plain(bands=bands, windows=windows, estimator=estimator).fit_transform(X)
    assert found.shape == (6, 4, 4, 4)
    expected = Covariances("cov" if estimator == "sample" else estimator)
    for i, band in enumerate(bands):
        filtered = sosfiltfilt(butter(4, band, "bandpass", fs=SFREQ, output="sos"), X, padlen=1500)
        for j, (left, right) in enumerate(windows):
            piece = filtered[..., round(left * SFREQ) : round(right * SFREQ)]
            wanted = expected.transform(piece)
            difference = np.abs(found[:, 2 * i + j] - wanted).max()
            assert difference < 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("estimator", ["sample", "oas", "lwf"])
def test_causal_bands_are_those_of_scipy(estimator: str) -> None:
    X, _ = trials(6)
    X = X + 50  # an offset does not ring
    made = plain(bands="8-13", windows=[(0.5, 2.5)], filtering="causal", estimator=estimator)
    sos = butter(4, (8, 13), "bandpass", fs=SFREQ, output="sos")
    start = sosfilt_zi(sos)[:, None, None] * X[..., :1]
    filtered = sosfilt(sos, X, zi=start)[0][..., 50:250]
    expected = Covariances("cov" if estimator == "sample" else estimator).transform(filtered)
    np.testing.assert_allclose(made.fit_transform(X), expected, rtol=1e-7, atol=1e-10)


def test_matrices_are_bands_times_windows_with_names() -> None:
    X, _ = trials()
    filterbank = FilterBankCovariances(SFREQ, bands="4-8,8-13", windows=[(0.5, 1.5), (1.5, 2.5)])
    C = filterbank.fit_transform(X)
    assert C.shape == (24, 4, 4, 4)
    assert filterbank.matrix_names_[:3] == [
        "4-8 Hz, 0.5-1.5 s",
        "4-8 Hz, 1.5-2.5 s",
        "8-13 Hz, 0.5-1.5 s",
    ]
    np.testing.assert_array_equal(filterbank.get_feature_names_out(), filterbank.matrix_names_)
    assert (filterbank.n_matrices_, filterbank.n_features_in_, filterbank.n_samples_) == (4, 4, 300)
    assert filterbank.bands_ == (Band(4, 8), Band(8, 13))
    first = clone(filterbank).set_params(windows=[(0.5, 1.5)]).fit_transform(X)
    np.testing.assert_allclose(first, C[:, ::2], rtol=1e-12)
    one = clone(filterbank).set_params(bands="4-8", windows=None)  # matrix has no axis
    assert one.fit_transform(X).shape == (24, 4, 4)


def test_windows_by_name() -> None:
    X, _ = trials()
    nested = FilterBankCovariances(SFREQ, tmin=-1.0, windows="nested").fit(X)
    np.testing.assert_allclose(nested.windows_, [(-1.0, 2.0), (-1.0, 1.25)])
    with pytest.raises(SignalError, match="'early'"):
        FilterBankCovariances(SFREQ, windows="early").fit(X)


def test_windows_are_cut_after_filtering() -> None:
    X, _ = trials()
    inside = FilterBankCovariances(SFREQ, bands=[(4, 8)], windows=[(1.0, 2.0)]).fit_transform(X)
    cut_first = FilterBankCovariances(SFREQ, bands=[(4, 8)]).fit_transform(X[..., 100:200])
    assert not np.allclose(inside, cut_first, rtol=0.1)
    shifted = FilterBankCovariances(SFREQ, bands=[(4, 8)], windows=[(0.5, 1.5)], tmin=-0.5)
    np.testing.assert_array_equal(inside, shifted.fit_transform(X))


def test_a_decimated_band_has_nearly_the_same_covariance() -> None:
    X, _ = trials(6, samples=1000)
    options = {"bands": "9-10,20-22", "estimator": "oas"}
    full = plain(**options).fit_transform(X)
    fewer = plain(**options, decimate=True).fit_transform(X)
    assert np.abs(fewer - full).max() < 0.02 * np.abs(full).max()
    assert not np.array_equal(fewer, full)
    for wrong in ({"filtering": "causal"}, {"delays": (0.1,)}):
        with pytest.raises(SignalError, match="decimate=True"):
            plain(**options, **wrong, decimate=True).fit(X)


def test_a_ridge_is_a_share_of_the_mean_variance() -> None:
    X, _ = trials()
    found = FilterBankCovariances(SFREQ, regularisation=0.1).fit_transform(X)
    wanted = plain().fit_transform(X)
    variances = np.trace(wanted, axis1=1, axis2=2) / 4
    np.testing.assert_allclose(
        found - wanted, 0.1 * variances[:, None, None] * np.eye(4), atol=1e-12
    )


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("estimator", ["sample", "oas", "hub", "xdawn"])
def test_covariances_have_the_unit_of_the_signal_squared(estimator: str, scale: float) -> None:
    X, y = trials()
    made = FilterBankCovariances(SFREQ, bands="paper3", estimator=estimator)
    expected, scaled = (clone(made).fit_transform(unit * X, y) for unit in (1.0, scale))
    wanted = scale**2 * expected
    np.testing.assert_allclose(scaled, wanted, rtol=1e-6, atol=1e-12 * np.abs(wanted).max())


def test_xdawn_is_pyriemanns_and_fitted_to_training_trials_only() -> None:
    X, y = trials(40)
    made = plain(bands="none", estimator="xdawn", n_filters=2)
    made.fit(X[:30], y[:30])
    scale = X[:30].std()
    noise = covariances(np.hstack(X[:30] / scale)[None], estimator="oas")[0]
    theirs = XdawnCovariances(2, estimator="oas", xdawn_estimator="scm", baseline_cov=noise)
    theirs.fit(X[:30] / scale, y[:30])
    expected = scale**2 * theirs.transform(X[30:] / scale)
    np.testing.assert_allclose(made.transform(X[30:]), expected, rtol=1e-8)


def test_averages_of_bands_windows_and_delays_are_pyriemanns() -> None:
    X, y = trials(40)
    made = plain(
        bands="4-12,12-30", windows=[(0.5, 1.5), (1.0, 2.5)], estimator="erp", delays=(0.1,)
    )
    found = made.fit(X[:30], y[:30]).transform(X[30:])
    assert found.shape == (10, 4, 24, 24)  # two averages and the trial, beside their past
    for i, band in enumerate(zero_phase(X, made.bands_, SFREQ)):
        past = np.concatenate([np.zeros((40, 4, 10)), band[..., :-10]], -1)
        for j, (left, right) in enumerate([(50, 150), (100, 250)]):
            piece = np.concatenate([band, past], 1)[..., left:right]
            scale = piece[:30].std()
            theirs = ERPCovariances(estimator="oas").fit(piece[:30] / scale, y[:30])
            expected = scale**2 * theirs.transform(piece[30:] / scale)
            np.testing.assert_allclose(found[:, 2 * i + j], expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 0], r"40,.*3,"),
        (np.zeros(40), "one class"),
        (None, "requires y"),
    ],
)
@pytest.mark.parametrize("estimator", ["erp", "xdawn"])
def test_class_averages_need_labels(estimator: str, y: object, message: str) -> None:
    X, _ = trials(40)
    made = FilterBankCovariances(SFREQ, estimator=estimator)
    assert made.needs_labels
    assert made.__sklearn_tags__().target_tags.required
    for fit in (made.fit, made.fit_transform):
        with pytest.raises(SignalError, match=message):
            fit(X, y)
    assert not FilterBankCovariances(SFREQ).__sklearn_tags__().target_tags.required


def test_training_trials_meet_averages_they_are_not_part_of() -> None:
    X, y = trials(40)
    crossed = plain(bands="none", estimator="xdawn", n_filters=2, cross_fit=5)
    once = clone(crossed).set_params(cross_fit=1)
    trained = crossed.fit_transform(X, y)
    assert np.abs(trained - crossed.transform(X)).max() > 0.01
    # New trials are seen the same way, however training trials were.
    np.testing.assert_allclose(crossed.transform(X), once.fit_transform(X, y), rtol=1e-9)
    np.testing.assert_allclose(once.transform(X), once.fit_transform(X, y), rtol=1e-9)


def test_groups_stay_together_in_the_folds_of_averages() -> None:
    X, y = trials(40)
    groups = np.arange(40) % 8  # neighbours in time are of different groups
    made = plain(bands="none", estimator="xdawn", n_filters=2, cross_fit=5)
    found = made.fit_transform(X, y, groups=groups)
    _, expected = fit_prototype(X, y, "xdawn", 2, 5, groups)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.abs(found - made.fit_transform(X, y)).max() > 0.01
    with pytest.raises(SignalError, match="groups"):
        made.fit(X, y, groups=groups[:-1])


@pytest.mark.parametrize("grouped", [False, True])
def test_refitted_matrices_have_seen_the_labels_of_their_training_part_only(grouped: bool) -> None:
    X, y = trials(60)
    groups = np.arange(60) // 2 if grouped else None
    made = FilterBankCovariances(
        SFREQ, bands="4-12,12-30", estimator="xdawn", n_filters=2, cross_fit=3
    )
    made.fit(X, y, groups)
    folds = folds_in_time(y, 5, groups)
    assert len(folds) == 5
    for (train, test), C in zip(folds, made.refitted(X, y, folds, groups), strict=True):
        assert C.shape == (60, 2, 8, 8)
        fold = clone(made)
        part = None if groups is None else groups[train]
        np.testing.assert_allclose(
            C[train], fold.fit_transform(X[train], y[train], part), rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(C[test], fold.transform(X[test]), rtol=1e-9, atol=1e-12)


def test_the_papers_estimator_adds_square_microvolts() -> None:
    X, _ = trials()
    made = FilterBankCovariances(SFREQ, estimator="paper", unit_in_volts=1e-6)
    micro = made.fit_transform(X)
    volts = clone(made).set_params(unit_in_volts=1.0).fit_transform(1e-6 * X)
    np.testing.assert_allclose(volts, 1e-12 * micro, rtol=1e-9)
    added = micro - plain().fit_transform(X)
    np.testing.assert_allclose(added[0], 1e-6 * np.eye(4), atol=1e-14)
    with pytest.raises(SignalError, match="unit_in_volts"):
        clone(made).set_params(unit_in_volts=None).fit(X)


def spoil(change: Callable[[np.ndarray], None]) -> np.ndarray:
    X, _ = trials()
    change(X)
    return X


def _nan(X: np.ndarray) -> None:
    X[3, 1, 7] = np.nan


def _flat(X: np.ndarray) -> None:
    X[2, 1] = 5.0


def _twin(X: np.ndarray) -> None:
    X[:, 2] = -3 * X[:, 0] + 1


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (spoil(_nan), {}, "Trial 3, channel number 1, sample 7"),
        (spoil(_flat), {}, "Trial 2, channel number 1"),
        (spoil(_twin), {}, "number 0 and 2"),
        (spoil(_twin), {"regularisation": 1e-2}, "number 0 and 2"),
        (trials()[0], {"sfreq": 0.0}, "sfreq must be > 0"),
        (trials()[0][0], {}, r"got shape \(4, 300\)"),
        (trials()[0][:0], {}, r"got shape \(0, 4, 300\)"),
        (trials()[0] + 0j, {}, "complex128"),
        (np.full((3, 2, 5), "a"), {}, "real numbers"),
        (trials()[0], {"windows": [(2.5, 4.0)]}, "2.5-4 s .* 0 to 3 s"),
        (trials()[0], {"windows": [(1.0, 1.0)]}, "windows"),
        (trials()[0], {"windows": [1.0, 2.0]}, "windows"),
        (trials()[0], {"windows": [(0, 0.04)], "bands": "none"}, "4 samples for 4 channels"),
        (trials()[0], {"bands": [(30, 60)]}, "nothing above 50 Hz"),
        (trials()[0], {"bands": "stimulus"}, "stimulus_hz"),
        (trials()[0], {"estimator": "best"}, "xdawn.*'best'"),
        (trials()[0], {"filtering": "magic"}, "'magic'"),
        (trials()[0], {"windows": [(0, 0.05)], "bands": "none", "delays": [0.1]}, "for 8 channels"),
        *((trials()[0], {"delays": [late]}, re.escape(f"[{late}]")) for late in (0.001, 3.0, -0.1)),
    ],
)
def test_bad_input(X: np.ndarray, options: dict, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        FilterBankCovariances(**{"sfreq": SFREQ, **options}).fit_transform(X)


def test_other_trials_than_fitted_to_are_refused() -> None:
    X, _ = trials()
    with pytest.raises(NotFittedError):
        FilterBankCovariances(SFREQ).transform(X)
    filterbank = FilterBankCovariances(SFREQ).fit(X)
    with pytest.raises(SignalError, match=r"4 channels and 300 samples.*got 3 and 300"):
        filterbank.transform(X[:, :3])
    with pytest.raises(SignalError, match="got 4 and 200"):
        filterbank.transform(X[..., :200])
    with pytest.raises(SignalError, match="Trial 3"):
        filterbank.transform(spoil(_nan))


def test_fewer_samples_than_channels_with_shrinkage_is_fine() -> None:
    X, _ = trials(channels=20)
    short = FilterBankCovariances(SFREQ, bands="none", windows=[(0, 0.15)], estimator="oas")
    assert np.linalg.eigvalsh(short.fit_transform(X)).min() > 0


def test_default_bands_are_cut_at_half_the_sampling_rate() -> None:
    X, _ = trials()
    with pytest.warns(UserWarning, match="4-40 Hz cut to above 4 Hz"):
        made = FilterBankCovariances(60).fit(X)
    assert made.bands_ == (Band(4, None),)
    with pytest.raises(SignalError, match="4-40 Hz"):
        FilterBankCovariances(60, bands="broadband").fit(X)


def test_the_filter_bank_takes_the_past_from_before_the_window() -> None:
    options = {"sfreq": 100.0, "bands": "none", "windows": [(0.3, 0.9)], "regularisation": 0.0}
    X, _ = trials()
    C = FilterBankCovariances(**options, delays=[0.1]).fit_transform(X)
    both = np.concatenate([X[..., 30:90], X[..., 20:80]], axis=1)
    expected = np.stack([np.cov(trial) for trial in both])
    np.testing.assert_allclose(C, expected, rtol=1e-6, atol=1e-8)


def offset_trials(n: int = 10) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3, 300)) * np.array([1.0, 5.0, 1e-6])[:, None] + 7.0


def test_one_band_and_window_with_channels_standardised_over_training_trials() -> None:
    X = offset_trials()
    made = StandardTrials(SFREQ, bands="8-30", windows=[(0.0, 2.0)], tmin=-0.5).fit(X[:6])
    filtered = zero_phase(X, [Band(8, 30)], SFREQ)[0][..., 50:250]
    mean = filtered[:6].mean((0, 2), keepdims=True)
    deviation = filtered[:6].std((0, 2), keepdims=True)
    np.testing.assert_allclose(made.transform(X), (filtered - mean) / deviation, rtol=1e-9)
    # The strength of a trial is kept, the unit of the signal is not.
    assert made.transform(X)[:6].std(2).std() > 0.01
    other = StandardTrials(SFREQ, bands="8-30", windows=[(0.0, 2.0)], tmin=-0.5).fit(1e6 * X[:6])
    np.testing.assert_allclose(other.transform(1e6 * X), made.transform(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"bands": "paper3"}, {"windows": [(0, 1), (1, 2)]}, {"windows": [(0, 9)]}], ids=str
)
def test_what_a_network_cannot_take_is_refused(options: dict) -> None:
    with pytest.raises(SignalError):
        StandardTrials(SFREQ, **options).fit(offset_trials())


def test_trials_that_cannot_be_used_are_refused() -> None:
    X = offset_trials()
    made = StandardTrials(SFREQ).fit(X)
    with pytest.raises(SignalError, match="got 3 and 200"):
        made.transform(X[..., :200])
    X[4, 1, 9] = np.nan
    for use in (made.transform, made.fit):
        with pytest.raises(SignalError, match="Trial 4"):
            use(X)


# Means over time.


def test_means_over_time_are_rows_before_the_channels() -> None:
    X, _ = trials(6)
    bands, windows = [(0.5, 8), (8, 20)], [(0.0, 2.0), (1.0, 3.0)]
    found = plain(bands=bands, windows=windows, n_means=4).fit_transform(X)
    assert found.shape == (6, 4, 8, 8)
    for i, filtered in enumerate(zero_phase(X, [Band(*band) for band in bands], SFREQ)):
        for j, (left, right) in enumerate(windows):
            piece = filtered[..., round(left * SFREQ) : round(right * SFREQ)]
            C = found[:, 2 * i + j]
            power = (piece**2).mean((1, 2))
            means = piece.reshape(6, 4, 4, 50).mean(-1).swapaxes(1, 2) / 2  # sqrt(1 / 4)
            np.testing.assert_allclose(C[:, 4:, 4:], piece @ piece.swapaxes(1, 2) / 200, atol=1e-9)
            rows = np.sqrt(power)[:, None, None] * means
            np.testing.assert_allclose(C[:, :4, 4:], rows, atol=1e-9)


def test_a_slow_potential_is_in_the_matrix() -> None:
    """A covariance of the centred window does not contain it."""
    X, _ = trials(4)
    shifted = X + np.array([0, 2, 0, 0])[:, None]
    with_rows, without = (plain(bands="none", n_means=n) for n in (1, 0))
    assert not np.allclose(with_rows.fit_transform(X), with_rows.fit_transform(shifted), rtol=0.1)
    np.testing.assert_allclose(without.fit_transform(X), without.fit_transform(shifted), atol=1e-9)


def test_single_precision() -> None:
    X, _ = trials(6)
    options = {"bands": "8-13,13-30", "n_means": 2}
    double = FilterBankCovariances(SFREQ, **options).fit_transform(X)
    single = FilterBankCovariances(SFREQ, dtype="float32", **options).fit(X).transform(X)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(single, double.astype(np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_means": -1}, "n_means must be an integer >= 0"),
        ({"n_means": 2, "estimator": "oas"}, "n_means.*estimator='oas'"),
        ({"n_means": 101, "windows": [(0, 1), (0, 2)]}, "shortest window, 100, got 101"),
        ({"dtype": "float16"}, "dtype must be 'float64' or 'float32', got 'float16'"),
    ],
)
def test_bad_means_and_precisions_are_refused(options: dict, message: str) -> None:
    X, y = trials()
    with pytest.raises(SignalError, match=message):
        FilterBankCovariances(SFREQ, **options).fit(X, y)


def test_means_with_delays() -> None:
    """Delayed copies are channels like others."""
    X, _ = trials(4)
    C = plain(bands="none", n_means=2, delays=(0.1,)).fit_transform(X)
    assert C.shape == (4, 10, 10)
    late = np.concatenate([np.zeros((4, 4, 10)), X[..., :-10]], axis=-1)
    piece = np.concatenate([X, late], axis=1)
    np.testing.assert_allclose(C[:, 2:, 2:], piece @ piece.swapaxes(1, 2) / 300, atol=1e-9)
