from __future__ import annotations

import mne
import numpy as np
import pytest

from spdtokens.classifiers.explain import electrode_info


def test_names_are_found_in_any_case_and_others_left_out() -> None:
    info, places = electrode_info(["fcz", "EOG", "C3", "CZ", "Gyro"])
    assert places == [0, 2, 3]
    assert info.ch_names == ["fcz", "C3", "CZ"]
    known = mne.channels.make_standard_montage("colin27_1005").get_positions()["ch_pos"]
    found = np.array([channel["loc"][:3] for channel in info["chs"]])
    # MNE moves a montage from the frame of the template to that of the head: distances stay.
    apart = np.linalg.norm(found[0] - found[1])
    assert apart == pytest.approx(np.linalg.norm(known["FCz"] - known["C3"]), rel=1e-5)
    assert found[1][0] < 0 < found[1][2]  # C3 is left, and above the ears


def test_a_position_counts_once_and_none_is_fine() -> None:
    assert electrode_info(["T3", "Cz", "T7"])[1] == [0, 1]
    info, places = electrode_info(["a", "b"])
    assert places == []
    assert info.ch_names == []
