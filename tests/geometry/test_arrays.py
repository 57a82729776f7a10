"""Every public function of matrices takes arrays and tensors, and answers in kind."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spdtokens import geometry as spd
from spdtokens.errors import NotSPDError
from tests.matrices import spd_matrices

#: What to call each public function with, given matrices (n, d, d).
CALLS = {
    "barycenter_bures_wasserstein": lambda f, C: f(C).mean,
    "check_spd": lambda f, C: f(C),
    "distance_bures_wasserstein": lambda f, C: f(C, C[:1]),
    "expm": lambda f, C: f(C / abs(C).max()),
    "geodesic_bures_wasserstein": lambda f, C: f(C, C[:1], 0.3),
    "invsqrtm": lambda f, C: f(C),
    "logm": lambda f, C: f(C),
    "powm": lambda f, C: f(C, -0.3),
    "spectral": lambda f, C: f(C, spd.LOG),
    "spectral_token": lambda f, C: f(C, spd.SQRT, isometric=True),
    "sqrtm": lambda f, C: f(C),
    "unvech": lambda f, C: f(C[:, 0, :1], isometric=True),
    "vech": lambda f, C: f(C, isometric=True),
}
#: Public functions that take no matrices.
OTHERS = {"get_embedding", "matrix_dim", "power_function", "token_dim"}


def test_every_public_function_is_tried() -> None:
    functions = {name for name in spd.__all__ if inspect.isfunction(getattr(spd, name))}
    assert functions == CALLS.keys() | OTHERS


@pytest.mark.parametrize("name", sorted(CALLS))
@given(C=spd_matrices(max_decades=2.0), kind=st.sampled_from([np.float64, np.float32]))
def test_arrays_in_arrays_out(name: str, C: torch.Tensor, kind: type) -> None:
    call, function = CALLS[name], getattr(spd, name)
    array = C.numpy().astype(kind)[::-1]  # torch has no negative strides
    array.flags.writeable = False
    expected, found = call(function, torch.tensor(array.copy())), call(function, array)
    if expected is None:
        assert found is None
        return
    assert isinstance(expected, torch.Tensor)
    assert isinstance(found, np.ndarray)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("name", sorted(spd.EMBEDDINGS))
@given(C=spd_matrices(max_decades=2.0))
def test_embeddings_answer_in_kind(name: str, C: torch.Tensor) -> None:
    embedding = spd.get_embedding(name).fit(C.numpy())
    token = embedding.to_token(C.numpy())
    assert isinstance(token, np.ndarray)
    np.testing.assert_array_equal(token, embedding.to_token(C).numpy())
    assert isinstance(embedding.from_token(token), np.ndarray)


def test_whole_numbers_are_refused_with_a_remedy_that_works() -> None:
    matrix = np.array([[2, 1], [1, 2]])
    with pytest.raises(NotSPDError, match=r"int64.*float64"):
        spd.sqrtm(matrix)
    root = spd.sqrtm(matrix.astype(np.float64))
    np.testing.assert_allclose(root @ root, matrix)
