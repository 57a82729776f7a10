from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spdtokens.classifiers.nn.engine import RunStreams, dropout_masks


@pytest.mark.parametrize("p", [0.1, 0.5, 0.001])
def test_masks_drop_with_the_right_probability(p: float) -> None:
    masks = dropout_masks([RunStreams(1), RunStreams(2)], 400_001, p, "cpu")
    assert masks.shape == (2, 400_001)
    dropped = (masks == 0).double().mean(1)
    spread = np.sqrt(p * (1 - p) / 400_001)
    assert torch.all((dropped - p).abs() < 5 * spread + 1 / 65536)
    assert len(masks.unique()) == 2
    assert masks.max().item() == pytest.approx(1 / (1 - p), rel=2e-5)
    agreement = (masks[0] == masks[1]).double().mean().item()
    assert agreement == pytest.approx(p**2 + (1 - p) ** 2, abs=0.01)  # independent of each other


def test_masks_of_a_run_do_not_depend_on_its_neighbours() -> None:
    alone = dropout_masks([RunStreams(7)], 1000, 0.3, "cpu")[0]
    among = dropout_masks([RunStreams(i) for i in (3, 7, 9)], 1000, 0.3, "cpu")[1]
    assert torch.equal(alone, among)


def test_streams_go_on_from_a_saved_state() -> None:
    streams = RunStreams(5)
    streams.bits(101)
    streams.order.permutation(10)
    saved = json.loads(json.dumps(streams.state()))
    expected = (streams.bits(999), streams.order.permutation(50))
    again = RunStreams(0)
    again.restore(saved)
    np.testing.assert_array_equal(again.bits(999), expected[0])
    np.testing.assert_array_equal(again.order.permutation(50), expected[1])


def test_weights_of_a_seed_are_always_the_same() -> None:
    one, two = (torch.randn(5, generator=RunStreams(3).weights()) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, torch.randn(5, generator=RunStreams(4).weights()))
