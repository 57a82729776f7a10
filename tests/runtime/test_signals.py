"""Matrices that contain means over time, against their definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.runtime.networks import means_over_time
from spdtokens.runtime.signals import Front, with_means


def plain(n_samples: int = 50, **options: object) -> Front:
    """Unfiltered, in two windows."""
    slices = [(0, 20), (10, n_samples)]
    return Front(n_samples, "zero-phase", [None], [True], 0, n_samples, slices, **options)


def signals(n: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 3, 50)) + 0.3


@pytest.mark.parametrize(("samples", "sizes"), [(12, [4, 4, 4]), (14, [5, 4, 5]), (3, [1, 1, 1])])
def test_blocks_of_a_matrix(samples: int, sizes: list[int]) -> None:
    X = signals()[..., :samples]
    C = with_means(X, 3)
    np.testing.assert_allclose(C[:, 3:, 3:], np.einsum("nit,njt->nij", X, X) / samples)
    power = (X**2).mean((1, 2))
    np.testing.assert_allclose(C[:, :3, :3], power[:, None, None] * np.eye(3))
    parts = np.split(X, np.cumsum(sizes)[:-1], axis=-1)
    for i, part in enumerate(parts):
        mean = part.mean(-1) * np.sqrt(sizes[i] / samples)
        np.testing.assert_allclose(C[:, i, 3:], np.sqrt(power)[:, None] * mean)
        np.testing.assert_array_equal(C[:, 3:, i], C[:, i, 3:])


@given(
    seed=st.integers(0, 1000),
    parts=st.integers(1, 6),
    extra=st.integers(0, 20),
    exponent=st.integers(-9, 9),
    offset=st.floats(-100, 100),
)
def test_matrices_are_positive_semidefinite_and_give_the_means(
    seed: int, parts: int, extra: int, exponent: int, offset: float
) -> None:
    """In any unit, for any signal."""
    rng = np.random.default_rng(seed)
    samples = parts + extra
    X = 10.0**exponent * (rng.standard_normal((2, 3, samples)) + offset)
    C = with_means(X, parts)
    values = np.linalg.eigvalsh(C)
    assert (values >= -1e-12 * values[:, -1:]).all()
    edges = np.linspace(0, samples, parts + 1).round().astype(int)
    pieces = np.split(X, edges[1:-1], axis=-1)
    wanted = np.stack([x.sum(-1) / np.sqrt(x.shape[-1] * samples) for x in pieces], axis=1)
    scale = np.abs(X).max()
    for factor in (1.0, 1e-12, 1e6):
        found = means_over_time(factor * C[:, None], parts)[:, 0] / np.sqrt(factor)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 * scale)


def test_channels_may_be_mixed_in_the_matrix() -> None:
    """Recentring multiplies the channels of a matrix as a filter of the signal does."""
    X, W = signals(), np.random.default_rng(1).standard_normal((3, 3))
    whole = np.eye(5)
    whole[2:, 2:] = W
    mixed = whole @ with_means(X, 2) @ whole.T
    found = means_over_time(mixed[:, None], 2)[:, 0]
    wanted = np.stack([x.mean(-1) for x in np.split(W @ X, 2, axis=-1)], axis=1) * np.sqrt(0.5)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_front_with_means() -> None:
    X = signals()
    C = plain(n_means=2).covariances(X)
    assert C.shape == (5, 2, 5, 5)
    np.testing.assert_allclose(C[:, 0], with_means(X[..., :20], 2))
    np.testing.assert_allclose(C[:, 1], with_means(X[..., 10:], 2))
    # A single trial is computed in one batch if windows are of equal length.
    equal = replace(plain(n_means=2), slices=[(0, 20), (20, 40)])
    np.testing.assert_allclose(equal.covariances(X[:1]), equal.covariances(X)[:1], rtol=1e-12)


def test_regularisation_keeps_the_means() -> None:
    """Up to the factor by which it raises the power."""
    X = signals()
    plainly, more = plain(n_means=2), plain(n_means=2, relative=0.1)
    found, wanted = (means_over_time(f.covariances(X), 2) for f in (more, plainly))
    np.testing.assert_allclose(found * np.sqrt(1.1), wanted, rtol=1e-12)
