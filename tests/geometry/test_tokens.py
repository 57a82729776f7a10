"""Matrices to tokens: NumPy pinned to the embeddings in torch, which are the reference."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from spdtokens import TokenEmbedding
from spdtokens.errors import NotSPDError, UserError
from spdtokens.geometry import EMBEDDINGS
from spdtokens.geometry import tokens as module
from spdtokens.geometry.embeddings import SUPERVISED
from spdtokens.geometry.tokens import as_matrices
from tests.matrices import random_spd, with_spectrum

NAMES = sorted(EMBEDDINGS | SUPERVISED)
SEVERAL = [
    ("log_euclidean", "whitened_root"),
    ("affine_invariant", "whitened_root", "principal_correlation", "class_filters"),
    ("cholesky", "euclidean", "log_cholesky", "bures_wasserstein"),
    ("principal_correlation", "affine_invariant"),
]


def matrices(n: int = 24, m: int = 3, d: int = 4, scale: float = 1.0) -> np.ndarray:
    return random_spd(n, m, d, scale=scale).numpy()


def labels(n: int = 24) -> np.ndarray:
    return np.arange(n) % 3


@pytest.mark.parametrize("isometric", [False, True])
@pytest.mark.parametrize("floor", ["relative", "paper"])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e8])
@pytest.mark.parametrize("embedding", [*NAMES, *SEVERAL], ids=str)
def test_tokens_are_those_of_torch(
    embedding: str | tuple[str, ...], scale: float, floor: str, isometric: bool
) -> None:
    C, y = matrices(scale=scale), labels()
    made = TokenEmbedding(embedding, isometric=isometric, floor=floor).fit(C[:16], y[:16])
    found, expected = made.tokens(C), made.embedding_.to_token(C)
    assert found.shape == expected.shape == (24, made.n_tokens_, 10)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_a_floor_is_that_of_torch() -> None:
    """A matrix with an eigenvalue of zero, which only a floor makes usable."""
    C = np.stack([with_spectrum([0.0, 1e-13, 0.3, 2.0]).numpy(), *matrices(3, 1)[:, 0]])[:, None]
    found = {}
    for floor in ("relative", "paper"):
        made = TokenEmbedding(floor=floor).fit_matrices(C)
        found[floor] = made.of_matrices(C)
        np.testing.assert_allclose(found[floor], made.embedding_.to_token(C), rtol=0, atol=1e-4)
    assert np.abs(found["paper"][0] - found["relative"][0]).max() > 0.1
    np.testing.assert_array_equal(found["paper"][1:], found["relative"][1:])
    with pytest.raises(UserError, match="'none'"):
        TokenEmbedding(floor="none").fit(C[1:])


def test_two_axes_are_tokens_side_by_side_with_names() -> None:
    C = matrices(m=2)
    made = TokenEmbedding(["log_euclidean", "euclidean"]).fit(C)
    flat = made.transform(C)
    np.testing.assert_array_equal(flat, made.tokens(C).reshape(24, -1))
    np.testing.assert_array_equal(clone(made).fit_transform(C), flat)
    names = made.get_feature_names_out(["8-13 Hz", "13-30 Hz"])
    assert len(names) == len(set(names)) == flat.shape[1] == 40
    assert names[0] == "8-13 Hz log_euclidean[0,0]"
    # The entry of a matrix that a name tells is the entry that is there.
    place = list(names).index("13-30 Hz euclidean[1,3]")
    np.testing.assert_allclose(flat[:, place], C[:, 1, 1, 3], rtol=1e-12)
    assert made.get_feature_names_out()[10] == "matrix 1 log_euclidean[0,0]"
    assert (made.n_matrices_, made.n_tokens_, made.n_features_in_) == (2, 4, 4)


def test_one_matrix_per_trial_needs_no_axis() -> None:
    C = matrices(m=1)
    with_axis = TokenEmbedding("affine_invariant").fit(C[:16])
    without = TokenEmbedding("affine_invariant").fit(C[:16, 0])
    np.testing.assert_array_equal(without.tokens(C[:, 0]), with_axis.tokens(C))
    assert without.transform(C[:, 0].tolist()).shape == (24, 10)


def test_many_trials_are_embedded_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    C, y = matrices(50), labels(50)
    made = TokenEmbedding(SEVERAL[1]).fit(C, y)
    expected = made.tokens(C)
    monkeypatch.setattr(module, "PART_ENTRIES", 7 * C[0].size)
    np.testing.assert_allclose(made.tokens(C), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("embedding", NAMES)
@pytest.mark.parametrize("unit", [1e-6, 1e4])
def test_unit_free_tokens_do_not_depend_on_the_unit(embedding: str, unit: float) -> None:
    C, y = matrices(), labels()
    C[12:] *= 9

    def tokens(C: np.ndarray) -> np.ndarray:
        return TokenEmbedding(embedding, unit_free=True).fit(C[:16], y[:16]).tokens(C[16:])

    np.testing.assert_allclose(tokens(unit**2 * C), tokens(C), rtol=1e-6, atol=1e-9)


def test_unit_free_makes_the_mean_variance_of_training_trials_100() -> None:
    C = matrices()
    free = TokenEmbedding("euclidean", unit_free=True).fit(C[:8])
    scale = np.trace(C[:8], axis1=-2, axis2=-1).mean() / 4 / 100
    assert free.scale_ == pytest.approx(scale)
    plain = TokenEmbedding("euclidean").fit(C[:8])
    assert plain.scale_ == 1
    np.testing.assert_allclose(free.tokens(C), plain.tokens(C) / scale, rtol=1e-12)
    np.testing.assert_allclose(free.scaled(C), C / scale, rtol=1e-12)
    diagonal = np.eye(4)[np.triu_indices(4)] > 0
    assert free.tokens(C[:8])[..., diagonal].mean() == pytest.approx(100)


def test_labels_are_needed_by_filters_of_classes_only() -> None:
    C, y = matrices(), labels()
    for embedding in ("class_filters", ("euclidean", "class_filters")):
        made = TokenEmbedding(embedding)
        assert made.__sklearn_tags__().target_tags.required
        for fit in (made.fit, made.fit_transform):
            with pytest.raises(UserError, match="requires y"):
                fit(C)
        assert made.fit(C, y).tokens(C).shape[0] == 24
    assert not TokenEmbedding().__sklearn_tags__().target_tags.required


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((3, 4, 4)), NotSPDError, r"matrix \[0"),
        (-np.stack([np.eye(3)] * 2), NotSPDError, "positive definite"),
        (np.triu(np.ones((2, 3, 3))), NotSPDError, "symmetric"),
        (np.ones((3, 4, 5)), ValueError, "square|shape"),
        (np.eye(4), UserError, r"shape \(4, 4\)"),
        (np.ones((0, 4, 4)), UserError, r"shape \(0, 4, 4\)"),
        (np.ones((2, 1, 1, 4, 4)), UserError, "FilterBankCovariances"),
        (np.stack([np.eye(3)] * 2) + 0j, UserError, "[Cc]omplex"),
        ([[["a"]]], UserError, "real numbers"),
        (np.full((2, 3, 3), np.nan), ValueError, "NaN"),
    ],
)
def test_what_is_not_a_matrix_is_refused(X: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        as_matrices(X)
    with pytest.raises(error, match=message):
        TokenEmbedding().fit(X)


def test_other_matrices_than_fitted_to_are_refused() -> None:
    C = matrices()
    with pytest.raises(NotFittedError):
        TokenEmbedding().transform(C)
    made = TokenEmbedding().fit(C)
    for wrong in (C[:, :2], C[:, 0], C[..., :3, :3]):
        with pytest.raises(UserError, match="3 matrices of 4 rows"):
            made.transform(wrong)
    with pytest.raises(UserError, match="no embedding 'best'"):
        TokenEmbedding("best").fit(C)
    with pytest.raises(UserError, match=r"\[\]"):
        TokenEmbedding([]).fit(C)
