"""Geometric attention as the paper computes it, against ours."""

from __future__ import annotations

import pytest
import torch
from scipy.linalg import sqrtm

from spdtokens.bench import attention, timing
from spdtokens.bench.attention import RecomputedAttention, bias_from_tokens
from spdtokens.classifiers.nn import SPDTokenTransformer, geometric_bias
from spdtokens.geometry import sqrtm as matrix_root
from spdtokens.geometry import vech
from spdtokens.paper.tables import paper_table
from tests.helpers import run_json


def test_distances_by_their_definition() -> None:
    A, B = C = timing.random_covariances(2, 4, dtype=torch.float64)
    root = sqrtm(A.numpy())
    cross = torch.from_numpy(sqrtm(root @ B.numpy() @ root).real)
    squared = (A.trace() + B.trace() - 2 * cross.trace()) / ((A.trace() + B.trace()) / 2)
    found = bias_from_tokens(vech(matrix_root(C))[None], 0.3)[0]
    expected = -0.3 * squared.sqrt() * (1 - torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-9)


@pytest.mark.parametrize("n_tokens", [1, 3])
def test_scores_are_those_of_distances_computed_once(n_tokens: int) -> None:
    C = timing.random_covariances(5, n_tokens, 6, dtype=torch.float64)
    tokens = vech(matrix_root(C))
    torch.manual_seed(0)
    model = SPDTokenTransformer(21, n_tokens, 4, attention="geometric", alpha=5.0).double().eval()
    with torch.no_grad():
        ours = model(tokens, geometric_bias(C, 5.0).double())
        torch.testing.assert_close(RecomputedAttention(model)(tokens), ours, atol=1e-5, rtol=0)
        unbiased = model(tokens, torch.zeros(5, n_tokens, n_tokens, dtype=torch.float64))
    # With one token the softmax is 1, whatever its score: the distances change nothing.
    assert torch.equal(ours, unbiased) == (n_tokens == 1)
    assert n_tokens == 1 or (ours - unbiased).abs().max() > 1e-3


def test_printed_seconds_are_the_papers() -> None:
    table = paper_table("geometric-attention")
    rows = {8: "MAMEM (S1)", 22: "BCI2a (S1)", 56: "BCIcha (S2)"}
    for channels, row in rows.items():
        printed = (table.cell(row, f"Time ({kind})").number for kind in ("Std", "Geo"))
        assert tuple(map(float, printed)) == attention.PRINTED_SECONDS[channels]


def test_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SETTLE_SECONDS", 0.0)
    config, batch = attention.NETWORKS[8]
    monkeypatch.setattr(attention, "NETWORKS", {8: (config, batch)})
    found = run_json("bench", "attention", "--rounds", 3, "--threads", 1)
    assert (found["threads"], found["rounds"]) == (1, 3)
    assert [row["tokens"] for row in found["rows"]] == [1, 3]
    assert [row["printed_ratio"] for row in found["rows"]] == [pytest.approx(7.31 / 3.97), None]
    for row in found["rows"]:
        assert row["batch_size"] == 32
        assert set(row["milliseconds"]) == {"standard", *row["ratio"]}
        assert min(*row["milliseconds"].values(), *row["ratio"].values()) > 0
