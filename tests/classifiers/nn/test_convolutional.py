"""What is particular to single networks on raw EEG, and to the layers they share."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spdtokens.classifiers.nn.convolutional import (
    ATCNet,
    CausalBlock,
    DeepNet,
    Dropout,
    EEGNet,
    MultiHead,
    RawTransformer,
    TimeSpaceConv,
    pools,
)


@pytest.mark.parametrize("bias", [False, True])
def test_time_and_space_as_one_convolution_equal_two(bias: bool) -> None:
    layer = TimeSpaceConv(6, 3, 4, 5, bias=bias).double()
    X = torch.randn(2, 6, 20).double()
    expected = layer.space(layer.time(X[:, None]))[:, :, 0]
    torch.testing.assert_close(layer(X), expected)


def test_multi_head_equals_torch() -> None:
    ours = MultiHead(12, 12, 3, scale=0.5, dropout=0.0)  # 0.5: torch's for heads of 4
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(
            torch.cat([ours.query.weight, ours.key.weight, ours.value.weight])
        )
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    X = torch.randn(2, 5, 12)
    torch.testing.assert_close(ours(X), theirs(X, X, X)[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_drops_the_share_and_keeps_the_mean(p: float) -> None:
    layer = Dropout(p)
    x = torch.ones(301, 999)
    torch.manual_seed(0)
    first = layer(x)
    torch.manual_seed(0)
    assert torch.equal(layer(x), first)
    share = (first == 0).double().mean()
    assert abs(share - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5
    torch.testing.assert_close(first.max(), torch.tensor(1 / (1 - p)), atol=1e-4, rtol=0)
    # Entries share random words, and are independent all the same.
    neighbours = torch.corrcoef(torch.stack([first[:, :-1].flatten(), first[:, 1:].flatten()]))
    assert abs(neighbours[0, 1]) < 5 / x.numel() ** 0.5
    assert layer.eval()(x) is x


@pytest.mark.parametrize("network", [EEGNet, ATCNet])
def test_norms_stay_below_their_limits(network: type[EEGNet] | type[ATCNet]) -> None:
    net = network(4, 2, 125, 125)
    heads = [net.head] if isinstance(net, EEGNet) else list(net.heads)
    limited = [(layer.weight, 0.25) for layer in heads]
    limited += [(m.weight, 1.0) for m in net.modules() if getattr(m, "max_norm", 0) == 1.0]
    assert len(limited) == len(heads) + 1
    with torch.no_grad():
        for weight, limit in limited:
            weight.fill_(10)
            weight[0].fill_(limit / weight[0].numel())
    X, before = torch.randn(3, 4, 125), copy.deepcopy(net).eval()
    (net(X) + net(X)).sum().backward()  # twice before a backward pass
    for weight, limit in limited:
        norms = weight.flatten(1).norm(dim=1)
        torch.testing.assert_close(norms[1:], torch.full_like(norms[1:], limit))
        # What is below its limit stays as it is.
        assert (weight[0] == limit / weight[0].numel()).all()
    # In evaluation limits apply too, but weights stay as they are.
    weights = [parameter.clone() for parameter in before.parameters()]
    after = copy.deepcopy(before)
    after.load_state_dict(dict(net.named_parameters()), strict=False)
    torch.testing.assert_close(before(X), after(X))
    assert all(map(torch.equal, weights, before.parameters()))


@pytest.mark.parametrize(
    ("n_times", "expected"),
    [
        (1152, (3, 3, 3, 3)),
        (441, (3, 3, 3, 3)),
        (440, (3, 3, 3, 2)),
        (438, (3, 3, 3, 2)),
        (160, (2, 2, 2, 2)),
        (125, (2, 2, 1, 1)),
        (37, (1, 1, 1, 1)),
    ],
)
def test_pools_of_deep_net(n_times: int, expected: tuple[int, ...]) -> None:
    assert pools(n_times) == expected


def test_deep_net_builds_at_every_length() -> None:
    X = torch.randn(2, 2, 460)
    for n_times in range(37, 460, 7):
        assert DeepNet(2, 2, n_times, 125).eval()(X[..., :n_times]).isfinite().all()


@pytest.mark.parametrize(
    ("n_times", "pool", "steps"),
    [(1125, 7, 20), (438, 7, 7), (336, 7, 6), (335, 6, 6), (125, 2, 7)],
)
def test_second_pool_of_atcnet(n_times: int, pool: int, steps: int) -> None:
    net = ATCNet(3, 2, n_times, 125)
    assert net.second_pool == pool
    assert net.temporal(net.spatial(torch.randn(2, 1, 3, n_times))).shape == (2, 32, 1, steps)


def test_causal_block_sees_no_later_step() -> None:
    block = CausalBlock(4, dilation=2, dropout=0.3).eval()
    X = torch.randn(2, 4, 9)
    changed = X.clone()
    changed[..., 5] += 1
    difference = (block(X) - block(changed)).abs().amax((0, 1))
    assert (difference[:5] == 0).all()
    assert difference[5] > 0
    assert difference[7] > 0  # one dilation later


def test_raw_transformer_cuts_trials_into_patches() -> None:
    net = RawTransformer(3, 2, 438, 125).eval()
    assert (net.n_tokens, net.patch) == (18, 24)  # 17.5 patches of 25 samples
    config = net.transformer.config
    assert (config.d_model, config.n_layers, config.n_heads) == (128, 6, 8)
    assert (config.d_ff, config.dropout) == (256, 0.1)
    X = torch.randn(2, 3, 438)
    patches = torch.stack([X[..., i * 24 : i * 24 + 24].flatten(1) for i in range(18)], 1)
    torch.testing.assert_close(net(X), net.transformer(patches))
    beyond = F.pad(X[..., :432], (0, 6), value=9.0)
    torch.testing.assert_close(net(beyond), net(X))


# The same networks as braindecode 0.8's: its weights in ours give its logits.


ROOT = Path(__file__).parents[3]

CASES = [
    *[("EEGNet", i) for i in range(6)],
    *[("ShallowNet", i) for i in range(6)],
    *[("EEGConformer", i) for i in range(6)],
    # Where braindecode can build them: at least 6 steps for ATCNet, pools of one size for DeepNet.
    *[("ATCNet", i) for i in (0, 4, 5)],
    *[("DeepNet", i) for i in (1, 4, 5)],
]


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, float]]:
    """Answers of the script, run apart: it hides moabb, beside which braindecode 0.8 fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.classifiers.nn.braindecode_logits"],
        cwd=ROOT,
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if "skip" in answer:
        pytest.skip(answer["skip"])
    return answer


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_parity(results: dict[str, dict[str, float]], name: str, shape: int) -> None:
    result = results[f"{name} {shape}"]
    assert result["ours"] == result["theirs"]
    assert result["spread"] > 0.1  # logits that differ between trials, so that equal means equal
    assert result["double"] < 1e-9
    assert result["single"] < 1e-5
