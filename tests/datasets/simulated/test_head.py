from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from spdtokens.datasets.simulated.motor_imagery import CHANNELS
from spdtokens.datasets.simulated.subject import (
    CENTRE,
    RADIUS,
    check_count,
    direction,
    inside,
    leadfield,
    rotation,
)
from spdtokens.errors import DataError


def test_a_radial_dipole_is_seen_best_above_it() -> None:
    for electrode in ("C3", "C4", "Cz", "POz"):
        out = direction(electrode)
        gain = leadfield(CHANNELS, (CENTRE + 0.8 * RADIUS * out)[None])
        seen = gain[:, 0] @ out
        assert CHANNELS[int(np.argmax(seen))] == electrode
        # Tenths of a microvolt for a nanoampere-metre, as in real heads.
        assert 0.05e3 < seen.max() < 2e3


def test_leadfield_mirrors_left_and_right() -> None:
    """A sphere has no sides: a mirrored source has mirrored potentials."""
    left = CENTRE + np.array([-0.05, 0.01, 0.04])
    both = np.array([left, left * [-1, 1, 1]])
    gain = leadfield(("C3", "C4", "F3", "F4"), both)
    np.testing.assert_allclose(gain[[0, 2], 0, 2], gain[[1, 3], 1, 2], rtol=1e-3)
    np.testing.assert_allclose(gain[[0, 2], 0, 0], -gain[[1, 3], 1, 0], rtol=1e-3)


def test_leadfield_keeps_the_order_of_dipoles() -> None:
    positions = CENTRE + np.random.default_rng(0).uniform(-0.04, 0.04, (7, 3))
    together = leadfield(CHANNELS, positions)
    alone = [leadfield(CHANNELS, position[None])[:, 0] for position in positions]
    np.testing.assert_allclose(together, np.stack(alone, axis=1), rtol=1e-6)


def test_leadfield_is_the_same_on_another_processor() -> None:
    """MNE fits its sphere by a search that ends elsewhere where sums are rounded otherwise."""
    places = CENTRE + np.random.default_rng(0).uniform(-0.04, 0.04, (5, 3))
    script = (
        "import sys, numpy; from spdtokens.datasets.simulated.subject import leadfield; "
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


def test_lost_dipoles_are_refused() -> None:
    outside = CENTRE + np.array([[0.0, 0.0, 0.97 * RADIUS], [0.0, 0.0, 0.5 * RADIUS]])
    with pytest.raises(DataError, match="1 of 2 dipoles"):
        leadfield(CHANNELS, outside)
    leadfield(CHANNELS, inside(outside))
    check_count(3, 3)


def test_unknown_electrodes_are_named() -> None:
    with pytest.raises(DataError, match="EEG7"):
        leadfield(("Cz", "EEG7"), CENTRE[None] + 0.01)


def test_rotation_is_a_rotation() -> None:
    R = rotation(np.array([0.3, -0.2, 1.0]))
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1)
    np.testing.assert_allclose(
        rotation(np.array([0, 0, np.pi / 2])) @ [1, 0, 0], [0, 1, 0], atol=1e-12
    )
