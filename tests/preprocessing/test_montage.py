"""Interpolation of missing channels, checked against MNE and against fields that are known."""

from __future__ import annotations

import mne
import numpy as np
import pytest
from sklearn.base import clone

from spdtokens import MontageInterpolator
from spdtokens._channels import plain_name
from spdtokens.datasets.official.bci2a import CHANNELS as NAMES
from spdtokens.errors import SignalError
from spdtokens.preprocessing import coverage, electrode_positions, interpolation_matrix
from spdtokens.preprocessing.montage import MONTAGES, _splines

MISSING = ("C1", "CPz", "FC4")
GIVEN = tuple(name for name in NAMES if name not in MISSING)


def test_weights_are_those_of_mne() -> None:
    info = mne.create_info(list(NAMES), 100.0, "eeg")
    known = next(name for name in MONTAGES if name in mne.channels.get_builtin_montages())
    info.set_montage(mne.channels.make_standard_montage(known))
    raw = mne.io.RawArray(np.random.default_rng(0).standard_normal((22, 50)), info, verbose=False)
    X = raw.get_data(picks=list(GIVEN))
    raw.info["bads"] = list(MISSING)
    places = np.array([channel["loc"][:3] for channel in raw.info["chs"]])
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    here = np.isin(NAMES, GIVEN)
    found = _splines(places[here], places[~here]) @ X
    raw.interpolate_bads(origin=(0.0, 0.0, 0.0), verbose=False)
    wanted = raw.get_data()[~here]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_a_smooth_field_is_restored() -> None:
    places = electrode_positions(NAMES)
    field = np.stack([np.ones(22), places[:, 0], places[:, 1] * places[:, 2]])
    W = interpolation_matrix(NAMES, GIVEN)
    here = [NAMES.index(name) for name in GIVEN]
    np.testing.assert_allclose(field[:, here] @ W.T, field, rtol=0, atol=0.03)
    np.testing.assert_allclose(W.sum(1), 1.0, rtol=0, atol=1e-8)


def test_given_channels_pass_unchanged_in_any_order_and_spelling() -> None:
    W = interpolation_matrix(["T7", "Cz", "C4"], ["EEG C4-REF", "cz.", "Fz", "t3"])
    np.testing.assert_array_equal(W, [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]])


def test_old_names_are_those_of_the_same_place() -> None:
    old, new = ["T3", "T4", "T5", "T6"], ["T7", "T8", "P7", "P8"]
    np.testing.assert_array_equal(electrode_positions(old), electrode_positions(new))
    assert [plain_name(name) for name in old] == new


def test_channels_off_the_scalp_are_not_used() -> None:
    given = (*GIVEN, "EOG-left", "ECG")
    W = interpolation_matrix(NAMES, given)
    np.testing.assert_array_equal(W[:, -2:], 0)
    np.testing.assert_array_equal(W[:, :-2], interpolation_matrix(NAMES, GIVEN))


def test_coverage_counts_channels_near_an_electrode() -> None:
    assert coverage(NAMES, NAMES) == 1
    # 40 mm on a head of 90 mm radius are 25 degrees; the step from Cz to C1 is 11, to C4 43.
    angles = np.degrees(
        np.arccos(electrode_positions(["C1", "C2", "C4"]) @ electrode_positions(["Cz"])[0])
    )
    assert (angles < 25).tolist() == [True, True, False]
    assert coverage(["C1", "C2", "C4", "Cz"], ["Cz"]) == 0.75
    assert coverage(["Cz", "EOG"], ["Cz", "eog"]) == 1


def test_too_few_channels_are_refused_by_name() -> None:
    with pytest.raises(
        SignalError, match=r"3 of 4 that are missing \(Fp1, O1, O2\): 25 %"
    ) as error:
        interpolation_matrix(["Cz", "Fp1", "O1", "O2"], ["Cz", "C3"])
    assert "train a model on the channels that you have" in str(error.value)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (("Cz", "C3", "EEG C3-LE"), "C3 and EEG C3-LE"),
        (("Cz", "C3"), "EMG are missing and have no standard position"),
    ],
)
def test_channels_that_cannot_be_placed(given: tuple[str, ...], match: str) -> None:
    with pytest.raises(SignalError, match=match):
        interpolation_matrix(["C3", "Cz", "EMG"], given)


def test_signals_and_their_covariances_are_interpolated_alike() -> None:
    X = np.random.default_rng(0).standard_normal((6, len(GIVEN), 400))
    interpolator = clone(MontageInterpolator(NAMES, GIVEN))
    Y = interpolator.fit_transform(X)
    assert Y.shape == (6, 22, 400)
    C = np.stack([x @ x.T for x in X])
    found = interpolator.transform(C)
    wanted = np.stack([y @ y.T for y in Y])
    # Interpolated covariances are singular: shrinkage keeps the trace, and each trial by itself.
    assert np.linalg.matrix_rank(wanted).max() == len(GIVEN)
    trace = np.trace(wanted, axis1=1, axis2=2)
    np.testing.assert_allclose(np.trace(found, axis1=1, axis2=2), trace, rtol=1e-9)
    least = np.linalg.eigvalsh(found)[:, 0]
    np.testing.assert_allclose(least, 0.05 * trace / 22, rtol=1e-6)
    off = ~np.eye(22, dtype=bool)
    np.testing.assert_allclose(found[:, off], 0.95 * wanted[:, off], rtol=1e-9, atol=1e-9)
    windows = interpolator.transform(np.stack([C, C], axis=1))
    np.testing.assert_array_equal(windows[:, 1], found)


def test_covariances_of_recorded_channels_are_not_shrunk() -> None:
    C = np.random.default_rng(0).standard_normal((3, 4, 9))
    C = C @ C.swapaxes(1, 2)
    found = MontageInterpolator(["Cz", "C3"], ["C3", "C1", "Cz", "C2"]).fit_transform(C)
    np.testing.assert_array_equal(found, C[:, [2, 0]][:, :, [2, 0]])


def test_trials_of_another_number_of_channels_are_refused() -> None:
    interpolator = MontageInterpolator(NAMES, GIVEN).fit(np.ones((1, 19, 50)))
    with pytest.raises(SignalError, match=r"19 given channels.*got shape \(1, 22, 50\)"):
        interpolator.transform(np.ones((1, 22, 50)))
