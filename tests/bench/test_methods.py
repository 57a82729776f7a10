from __future__ import annotations

import sys

import pytest
import torch

from spdtokens.bench import methods
from spdtokens.bench.show import methods_cost_table
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.networks import TrialShape


def test_operations_of_the_token_transformer_by_hand() -> None:
    """Twice the weights of the linear layers, queries and keys of the only token left out."""
    row = methods.measure_network(
        lambda s: SPDTokenTransformer(253, 1, s.n_outputs), "tokens", methods.BCI2A, 3
    )
    assert row["parameters"] == 827_908 + 3 * 128
    layer = 2 * 128 * 128 + 2 * 128 * 256
    expected = 2 * (253 * 128 + 6 * layer + 128 * 4)
    # The weight 1 of each head is still multiplied with its values.
    assert row["flops_per_trial"] == pytest.approx(expected, rel=0.01)
    assert row["size_megabytes"] == pytest.approx(4e-6 * row["parameters"], rel=0.02)
    assert row["training_megabytes"] > 4 * row["size_megabytes"]


def test_every_method_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("token-log-euclidean-multiband", "ts-lr", "spdnet", "matt", "eegnet")
    chosen = {name: methods.METHODS[name] for name in few}
    monkeypatch.setattr(methods, "METHODS", chosen)
    shape = TrialShape(8, 2, 256, 128.0)
    rows = list(methods.bench_methods(shape, rounds=3, threads=1))
    assert [row["name"] for row in rows] == list(few)
    for row in rows:
        assert row["forward_milliseconds"] > 0
        assert row["trials_per_second"] == pytest.approx(32e3 / row["forward_milliseconds"])
        if row["parameters"] is not None:
            product = row["parameters"] * row["size_megabytes"] * row["forward_milliseconds"]
            assert row["paper_efficiency"] == pytest.approx(1000 / product)
    assert methods_cost_table(rows, 32).row_count == len(few)


def test_methods_without_their_extra_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: methods.METHODS[name] for name in ("tsmnet", "spdnet-paper")}
    monkeypatch.setattr(methods, "METHODS", chosen)
    monkeypatch.setitem(sys.modules, "spd_learn", None)  # as if it were not installed
    rows = methods.bench_methods(TrialShape(8, 2, 256, 128.0), rounds=3, threads=1)
    assert [row["name"] for row in rows] == ["spdnet-paper"]


def test_inputs_are_what_networks_take() -> None:
    shape = TrialShape(5, 2, 100, 50.0, n_tokens=3)
    assert methods.inputs_for("raw", shape, 4).shape == (4, 5, 100)
    assert methods.inputs_for("tokens", shape, 4).shape == (4, 3, 15)
    C = methods.inputs_for("covariance", shape, 4)
    assert C.shape == (4, 1, 5, 5)
    assert torch.linalg.eigvalsh(C).min() > 0
