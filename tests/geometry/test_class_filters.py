"""Tokens behind filters of the classes, against pyRiemann's CSP and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from pyriemann.spatialfilters import CSP
from torch.autograd import gradcheck

from spdtokens.errors import UserError
from spdtokens.geometry import get_embedding
from spdtokens.geometry.embeddings import get_embeddings
from spdtokens.geometry.tokens import SHRINKAGE, class_filters
from tests.matrices import F64, random_spd


def labelled(n: int = 60, d: int = 8, classes: int = 2, seed: int = 0) -> tuple:
    """Trials of mixed sources; each class has a source that is stronger than for the others."""
    rng = np.random.default_rng(seed)
    # A turn: however strong a source, all channels together have as much of it.
    mixing = np.linalg.qr(rng.standard_normal((d, d)))[0]
    y = np.arange(n) % classes
    powers = np.ones((n, d))
    powers[np.arange(n), y] = 3.0
    S = rng.standard_normal((n, d, 200)) * np.sqrt(powers)[..., None]
    X = mixing @ S
    return X @ X.swapaxes(-1, -2) / 200, y, mixing


def directions(F: np.ndarray) -> np.ndarray:
    return F / np.linalg.norm(F, axis=1, keepdims=True)


def test_two_classes_have_the_filters_of_pyriemanns_csp() -> None:
    C, y, _ = labelled()
    shares = C / np.trace(C, axis1=1, axis2=2)[:, None, None] + SHRINKAGE / 8 * np.eye(8)
    wanted = directions(CSP(nfilter=4, metric="euclid").fit(shares, y).filters_)
    found = directions(class_filters(C, y))
    assert found.shape == (4, 8)
    # The two that tell the classes; what pyRiemann takes third it ranks by another number.
    np.testing.assert_allclose(np.abs(found[:2] @ wanted.T).max(1), 1, atol=1e-6)


def test_filters_find_the_sources_that_differ() -> None:
    C, y, mixing = labelled(300, 9, 4)
    F = class_filters(C, y)
    assert F.shape == (8, 9)
    unmixed = directions(F[:4] @ mixing)  # the first of each class, over sources
    assert (np.abs(unmixed[np.arange(4), np.arange(4)]) > 0.95).all()
    # How strong trials are, and how many a class has, says nothing.
    rng = np.random.default_rng(1)
    scaled = class_filters(C * rng.uniform(0.1, 10, (300, 1, 1)), y)
    np.testing.assert_allclose(scaled, F, rtol=1e-6, atol=1e-9)
    more = np.concatenate([np.arange(300), np.flatnonzero(y == 1)])
    np.testing.assert_allclose(class_filters(C[more], y[more]), F, rtol=1e-6, atol=1e-9)


def test_directions_that_carry_nothing_are_not_chosen() -> None:
    C, y, _ = labelled(d=6)
    average = np.eye(6) - 1 / 6  # a reference that leaves one direction empty
    C = average @ C @ average + 1e-9 * np.trace(C[0]) * np.eye(6)
    F = directions(class_filters(C, y))
    assert np.abs(F @ np.ones(6) / np.sqrt(6)).max() < 0.5


@pytest.mark.parametrize(("d", "classes", "k"), [(1, 2, 1), (3, 2, 2), (5, 3, 3), (4, 7, 4)])
def test_there_are_never_more_filters_than_channels(d: int, classes: int, k: int) -> None:
    y = np.arange(8 * classes) % classes
    C = random_spd(len(y), d, seed=3)
    embedding = get_embedding("class_filters").fit(C, y)
    assert embedding.filters.shape == (k, d)
    assert torch.isfinite(embedding.to_token(C)).all()


@pytest.mark.parametrize("isometric", [False, True])
def test_a_token_is_the_logarithm_of_what_filters_pass(isometric: bool) -> None:
    C, y, _ = labelled()
    embedding = get_embedding("class_filters", isometric=isometric).fit(C, y)
    F = embedding.filters.numpy()
    wanted = np.zeros((8, 8))
    wanted[:4, :4] = scipy.linalg.logm(F @ C[5] @ F.T)
    np.testing.assert_allclose(embedding.embed(torch.from_numpy(C[5])), wanted, atol=1e-9)
    rows, columns = np.triu_indices(8)
    weight = np.where((rows == columns) | (not isometric), 1.0, np.sqrt(2.0))
    np.testing.assert_allclose(embedding.to_token(C[5]), weight * wanted[rows, columns], atol=1e-9)
    louder = embedding.to_token(3 * C[5]) - embedding.to_token(C[5])
    np.testing.assert_allclose(louder, np.log(3) * ((rows == columns) & (rows < 4)), atol=1e-9)


def test_gradients() -> None:
    y = np.arange(12) % 2
    embedding = get_embedding("class_filters").fit(random_spd(12, 4), y)
    C = random_spd(2, 4, seed=5).to(F64).requires_grad_()
    assert gradcheck(lambda C: embedding.to_token(0.5 * (C + C.mT)), (C,))


def test_each_matrix_of_a_trial_has_filters_of_its_own() -> None:
    C, y, _ = labelled()
    other, _, _ = labelled(seed=1)
    both = np.stack([C, other], axis=1)
    names = ("whitened_root", "class_filters")
    several = get_embeddings(names).fit(both, y)
    tokens = several.to_token(both)
    for i, matrices in enumerate((C, other)):
        alone = get_embedding("class_filters").fit(matrices, y)
        np.testing.assert_allclose(tokens[:, 2 + i], alone.to_token(matrices), atol=1e-9)
        np.testing.assert_array_equal(several.members[1].filters[i], alone.filters)


def test_what_is_missing_is_told() -> None:
    C, y, _ = labelled()
    embedding = get_embedding("class_filters")
    with pytest.raises(UserError, match="requires y"):
        embedding.fit(C)
    with pytest.raises(UserError, match=r"60 .* one class"):
        embedding.fit(C, np.zeros(60))
    with pytest.raises(UserError, match=r"60 labels.*59"):
        embedding.fit(C, y[:-1])
    with pytest.raises(RuntimeError, match=r"class_filters.*`fit`"):
        embedding.to_token(C)
    fitted = embedding.fit(C, y)
    with pytest.raises(NotImplementedError, match="what no filter passes is not in them"):
        fitted.from_token(fitted.to_token(C))
    with pytest.raises(ValueError, match=r"\(\.\.\., 8, 8\), got \(3, 5, 5\)"):
        fitted.to_token(random_spd(3, 5))
    two = embedding.fit(np.stack([C, C], axis=1), y)
    with pytest.raises(ValueError, match=r"\(\.\.\., 2, 8, 8\), got \(60, 8, 8\)"):
        two.to_token(C)
