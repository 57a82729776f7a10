from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.classification import MDM, FgMDM
from pyriemann.tangentspace import TangentSpace
from pyriemann.utils.distance import distance_riemann
from pyriemann.utils.mean import mean_riemann
from scipy.linalg import block_diag
from sklearn.base import clone

from spdtokens.classifiers.classical import NearestMean, TangentSpaces


def matrices(seed: int, n: int = 24, tokens: int | None = None, classes: int = 3) -> tuple:
    """Covariances (n, d, d) or (n, tokens, d, d), of classes that differ in a channel's power."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.standard_normal((n, tokens or 1, 3, 30))
    X[:, :, 1] *= (1 + y)[:, None, None]
    C = X @ X.swapaxes(-1, -2) / 30
    return (C[:, 0] if tokens is None else C), y


def side_by_side(C: np.ndarray) -> np.ndarray:
    return np.stack([block_diag(*trial) for trial in C])


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_one_matrix_is_exactly_pyriemann(seed: int, extra_axis: bool) -> None:
    C, y = matrices(seed)
    mine = C[:, None] if extra_axis else C
    spaces, expected = TangentSpaces().fit(mine), TangentSpace(metric="riemann").fit(C)
    np.testing.assert_array_equal(spaces.transform(mine), expected.transform(C))
    nearest, mdm = NearestMean().fit(mine, y), MDM(metric="riemann").fit(C, y)
    np.testing.assert_array_equal(nearest.predict(mine), mdm.predict(C))
    np.testing.assert_allclose(nearest.predict_proba(mine), mdm.predict_proba(C), rtol=1e-12)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_geodesic_filter_is_pyriemanns(seed: int) -> None:
    C, y = matrices(seed, n=30)
    mine = NearestMean(filtered=True).fit(C[:20], y[:20])
    expected = FgMDM(metric="riemann", tsupdate=False).fit(C[:20], y[:20])
    np.testing.assert_array_equal(mine.predict(C), expected.predict(C))
    np.testing.assert_allclose(mine.predict_proba(C), expected.predict_proba(C), atol=1e-6)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_several_matrices_are_one_of_blocks(seed: int, tokens: int) -> None:
    C, y = matrices(seed, tokens=tokens)
    blocks = side_by_side(C)
    mine, expected = NearestMean().fit(C, y), MDM(metric="riemann").fit(blocks, y)
    np.testing.assert_array_equal(mine.predict(C), expected.predict(blocks))
    np.testing.assert_allclose(mine.predict_proba(C), expected.predict_proba(blocks), atol=1e-6)
    vectors = TangentSpaces().fit(C).transform(C)
    whole = TangentSpace(metric="riemann").fit(blocks).transform(blocks)
    # Between blocks a tangent vector is zero; the rest is the same in another order.
    np.testing.assert_allclose(
        np.linalg.norm(vectors[:, None] - vectors, axis=-1),
        np.linalg.norm(whole[:, None] - whole, axis=-1),
        atol=1e-6,
    )


def test_squared_distances_add_up() -> None:
    C, y = matrices(3, tokens=2)
    means = [[mean_riemann(C[y == k, i]) for i in range(2)] for k in range(3)]
    squared = np.array(
        [[sum(distance_riemann(c[i], m[i]) ** 2 for i in range(2)) for m in means] for c in C]
    )
    p = np.exp(-squared)
    found = NearestMean().fit(C, y)
    np.testing.assert_allclose(found.predict_proba(C), p / p.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(found.predict(C), squared.argmin(1))


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_there_and_back(seed: int, tokens: int) -> None:
    C, _ = matrices(seed, tokens=tokens)
    spaces = TangentSpaces().fit(C)
    np.testing.assert_allclose(spaces.inverse_transform(spaces.transform(C)), C, rtol=1e-6)


def test_contract() -> None:
    C, y = matrices(0, tokens=2)
    names = np.array(["x", "a", "m"])[y]
    found = clone(NearestMean(filtered=True)).fit(C, names)
    assert found.classes_.tolist() == ["a", "m", "x"]
    assert set(found.predict(C)) == {"a", "m", "x"}
    np.testing.assert_array_equal(
        found.predict(C), found.classes_[found.predict_proba(C).argmax(1)]
    )
    assert found.score(C, names) > 0.5
    with pytest.raises(ValueError, match="zip"):
        found.predict(C[:, :1])
