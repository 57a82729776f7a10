"""An embedding that is only in the registry, as docs/extending.md adds one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from scipy.linalg import fractional_matrix_power
from torch import Tensor

from spdtokens import TokenDiscriminantClassifier, TokenEmbedding, TokenTransformerClassifier
from spdtokens.classifiers.methods import METHODS, get_method
from spdtokens.datasets import load_dataset
from spdtokens.errors import DeployError, MethodError
from spdtokens.geometry import EMBEDDINGS, Embedding, powm, vech
from spdtokens.inference import as_decoder

Y = np.arange(40) % 2
SIGNALS = np.random.default_rng(0).standard_normal((40, 3, 100)) * (1 + Y)[:, None, None]
C = SIGNALS @ SIGNALS.swapaxes(1, 2) / 100


@dataclass(frozen=True)
class FourthRoot(Embedding):
    """Fourth roots, less that of the first training matrix."""

    name: ClassVar[str] = "fourth_root"
    needs_fit: ClassVar[bool] = True
    first: Tensor | None = None

    def fit(self, C: Any, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        return replace(self, first=powm(torch.as_tensor(C[0]), 0.25))

    def embed(self, C: Tensor) -> Tensor:
        return powm(C, 0.25) - self.first  # type: ignore[no-any-return]

    def unembed(self, M: Tensor) -> Tensor:
        return powm(M + self.first, 4.0)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EMBEDDINGS, FourthRoot.name, FourthRoot)


def test_tokens_are_its_own() -> None:
    roots = np.stack([fractional_matrix_power(matrix, 0.25) for matrix in C])
    found = TokenEmbedding("fourth_root").fit_transform(C)
    np.testing.assert_allclose(found, vech(roots - roots[0]), atol=1e-12)


def test_tokens_without_a_unit_do_not_depend_on_it() -> None:
    one, other = (
        TokenEmbedding("fourth_root", unit_free=True).fit_transform(unit * C) for unit in (1, 1e-12)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert one.std() > 0.1


@pytest.mark.parametrize(
    "classifier",
    [
        TokenDiscriminantClassifier(["fourth_root", "log_euclidean"]),
        TokenTransformerClassifier("fourth_root", d_model=8, n_layers=1, n_heads=2, epochs=1),
    ],
)
def test_classifiers_take_it_and_model_files_refuse_it(classifier: Any) -> None:
    classifier.fit(C, Y)
    assert np.isfinite(classifier.predict_proba(C)).all()
    with pytest.raises(DeployError, match="fourth_root"):
        as_decoder(classifier, ch_names=("a", "b", "c"))


def test_its_method_comes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdtokens.classifiers.methods.METHODS", dict(METHODS))
    method = get_method("token-fourth-root-multiband")
    assert method.make(load_dataset("sim-mi"))["classifier"].embedding == "fourth_root"
    with pytest.raises(MethodError, match="token-fifth-root"):
        get_method("token-fifth-root")
