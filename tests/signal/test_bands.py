from __future__ import annotations

import pytest

from spdtokens.signal import Band, SignalError, resolve_bands, stimulus_bands
from spdtokens.signal.bands import check_band


def test_presets() -> None:
    assert resolve_bands("none") == (Band(None, None),)
    assert resolve_bands("broadband") == (Band(4, 40),)
    assert resolve_bands("paper3") == (Band(4, 8), Band(8, 13), Band(13, 30))
    assert [str(b) for b in resolve_bands("filterbank")][::8] == ["4-8 Hz", "36-40 Hz"]
    assert len(resolve_bands("filterbank")) == 9


def test_stimulus_bands_cover_frequencies_and_harmonics() -> None:
    bands = resolve_bands("stimulus", (13, 17))
    assert bands == stimulus_bands((13, 17))
    assert [((b.low or 0) + (b.high or 0)) / 2 for b in bands] == [13, 17, 26, 34]


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ("stimulus", "need the flicker frequencies"),
        ("gamma", "no bands 'gamma'. Choose from none, broadband"),
        ([], "list of bands is empty"),
        ([(8,)], "pair .low, high. in Hz"),
        ([("a", 3)], "pair .low, high. in Hz"),
        ([(13, 8)], "low edge must be below"),
        ([(-1, 8)], "none negative"),
    ],
)
def test_refused(bands, message: str) -> None:
    with pytest.raises(SignalError, match=message):
        resolve_bands(bands)


def test_what_the_recording_cannot_carry() -> None:
    with pytest.raises(SignalError, match=r"4-40 Hz: at 64 samples a second .* above 32 Hz"):
        check_band(Band(4, 40), 64, 2.0)
    with pytest.raises(SignalError, match=r"0\.5 Hz wide, but a window of 1 s resolves no less"):
        check_band(Band(12.75, 13.25), 250, 1.0)
    with pytest.raises(SignalError, match="begins above 32 Hz"):
        check_band(Band(40, None), 64, 2.0)
    check_band(Band(None, 30), 250, 1.0)
