from __future__ import annotations

import pytest
import torch

from spdtokens.classifiers.nn import SPDTokenMLP, SPDTokenTransformer, matching_width
from spdtokens.errors import ModelError


@pytest.mark.parametrize(("features", "tokens", "classes"), [(253, 1, 4), (1596, 1, 2), (36, 6, 5)])
def test_matching_width_matches(features, tokens, classes) -> None:
    wanted = sum(p.numel() for p in SPDTokenTransformer(features, tokens, classes).parameters())
    width = matching_width(features * tokens, classes, wanted)
    mlp = SPDTokenMLP(features, tokens, classes, width=width)
    assert sum(p.numel() for p in mlp.parameters()) == pytest.approx(wanted, rel=0.01)
    shallow = SPDTokenMLP(
        features,
        tokens,
        classes,
        n_layers=1,
        width=matching_width(features * tokens, classes, 5000, 1),
    )
    assert sum(p.numel() for p in shallow.parameters()) < 7000


def test_forward_equals_a_plain_stack() -> None:
    mlp = SPDTokenMLP(5, 2, 3, width=7, n_layers=2).eval()
    plain = torch.nn.Sequential(
        torch.nn.Flatten(),
        mlp.hidden[0],
        mlp.norms[0],
        torch.nn.ReLU(),
        mlp.hidden[1],
        mlp.norms[1],
        torch.nn.ReLU(),
        mlp.head,
    ).eval()
    X = torch.randn(4, 2, 5)
    torch.testing.assert_close(mlp(X), plain(X))


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ModelError, match="n_classes"):
        SPDTokenMLP(5, 2, 1)
