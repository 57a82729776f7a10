from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.errors import SignalError
from spdtokens.preprocessing import Band, resolve_bands, stimulus_bands
from spdtokens.preprocessing.bands import UNFILTERED, check_band, cut_bands


def test_presets() -> None:
    assert resolve_bands("none") == (Band(None, None),)
    assert resolve_bands("broadband") == (Band(4, 40),)
    assert resolve_bands("paper3") == (Band(4, 8), Band(8, 13), Band(13, 30))
    assert [str(b) for b in resolve_bands("filterbank")][::8] == ["4-8 Hz", "36-40 Hz"]
    assert len(resolve_bands("filterbank")) == 9


def test_edges_as_text() -> None:
    assert resolve_bands("8-13,13-30") == (Band(8, 13), Band(13, 30))
    assert resolve_bands("0.5-4") == (Band(0.5, 4),)


def test_bands_of_flicker_are_as_narrow_as_the_window_resolves() -> None:
    bands = resolve_bands("ssvep", (10.0, 15.0), 4.0)
    assert bands[:2] == (Band(9.75, 10.25), Band(14.75, 15.25))
    assert Band(29, 31) in bands  # around the second harmonic of 15 Hz
    assert len(bands) == 2 * 2 * 2 + 4
    # In half a second 0.5 Hz cannot be told apart, nor can 1 Hz: one width is left.
    short = resolve_bands("ssvep", (10.0, 15.0), 0.5)
    for band, centre in zip(short, (10, 15, 20, 30), strict=False):
        assert (band.low, band.high) == pytest.approx((centre - 1, centre + 1), abs=1e-3)
    assert len(short) == 2 * 2 + 4


def test_stimulus_bands_cover_frequencies_and_harmonics() -> None:
    bands = resolve_bands("stimulus", (13, 17))
    assert bands == stimulus_bands((13, 17))
    assert [((b.low or 0) + (b.high or 0)) / 2 for b in bands] == [13, 17, 26, 34]


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ("stimulus", "flicker frequencies"),
        ("gamma", "'gamma'.*broadband"),
        ("ssvep", "flicker frequencies"),
        ("8-13-20", "8.*13.*20"),
        ("8-x", "8.*x"),
        ([], "bands"),
        ([(8,)], r"\(8,\)"),
        ([("a", 3)], r"\('a', 3\)"),
        ([(13, 8)], r"\(13, 8\)"),
        ([(-1, 8)], r"\(-1, 8\)"),
    ],
)
def test_refused(bands, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        resolve_bands(bands)


def test_what_the_recording_cannot_carry() -> None:
    with pytest.raises(SignalError, match=r"4-40 Hz.* 32 Hz"):
        check_band(Band(4, 40), 64, 2.0)
    with pytest.raises(SignalError, match=r"12\.75-13\.25 Hz.* 1 s"):
        check_band(Band(12.75, 13.25), 250, 1.0)
    with pytest.raises(SignalError, match=r"above 40 Hz.* 32 Hz"):
        check_band(Band(40, None), 64, 2.0)
    check_band(Band(None, 30), 250, 1.0)


@given(
    edges=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=5),
    sfreq=st.integers(4, 130),
    seconds=st.floats(1.0, 5.0),
)
def test_default_bands_are_cut_to_what_the_recording_carries(edges, sfreq, seconds) -> None:
    bands = [(float(low), float(low + width)) for low, width in edges]
    nyquist = sfreq / 2
    # What a window of so many seconds resolves of a band, below half the sampling rate.
    left = [b for b in bands if b[1] < nyquist or (nyquist - b[0]) * seconds >= 1]
    if not left:
        with pytest.raises(SignalError, match=f"nothing above {nyquist:g} Hz"):
            cut_bands(bands, sfreq, seconds)
        return
    kept, changes = cut_bands(bands, sfreq, seconds)
    for band in resolve_bands(kept):
        check_band(band, sfreq, seconds)
    assert {band.low for band in resolve_bands(kept)} == {low for low, _ in left}
    assert len(changes) == sum(high >= nyquist for _, high in bands)
    if not changes:
        assert kept is bands


def test_presets_that_fit_keep_their_name() -> None:
    assert cut_bands("broadband", 250.0, 2.0) == ("broadband", [])
    assert cut_bands("none", 10.0, 2.0) == ("none", [])
    assert resolve_bands("none") == (UNFILTERED,)
    assert cut_bands("broadband", 80.0, 2.0) == ([(4.0, None)], ["4-40 Hz cut to above 4 Hz"])
    kept, changes = cut_bands("stimulus", 64.0, 2.0, (10, 20))
    assert kept == [(9.5, 10.5), (19.5, 20.5), (19.5, 20.5)][:2]
    assert changes == ["39.5-40.5 Hz left out"]
