"""Compare networks with braindecode 0.8's: cases as JSON from stdin, answers as JSON to stdout."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import nn

from spdtokens.classifiers.nn import convolutional
from tests.classifiers.nn.test_networks import SHAPES

#: For each network: braindecode's name of it, and its options.
THEIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "EEGNet": ("EEGNetv4", {}),
    "ShallowNet": ("ShallowFBCSPNet", {"final_conv_length": "auto"}),
    "DeepNet": ("Deep4Net", {"final_conv_length": "auto"}),
    # braindecode constrains the weights of an input rather than of a class, and shrinks them a
    # little at every call.
    "ATCNet": ("ATCNet", {"max_norm_const": 1e6}),
    "EEGConformer": ("EEGConformer", {"final_fc_length": "auto"}),
}


def build(models: Any, name: str, shape: tuple[int, int, int, int]) -> tuple[nn.Module, nn.Module]:
    """Our network and theirs, without the log-softmax that theirs ends with."""
    n_chans, n_outputs, n_times, sfreq = shape
    theirs, options = THEIRS[name]
    ours = getattr(convolutional, name)(*shape)
    for layer in ours.modules():  # braindecode does not constrain the classifier of EEGNet
        if isinstance(layer, convolutional.MaxNormLinear):
            layer.max_norm = 1e6
    if name == "ATCNet":  # it takes seconds
        options = {**options, "input_window_seconds": n_times / sfreq}
    if name == "DeepNet":
        (pool,) = set(ours.pools)  # theirs has one size for all blocks
        options = {**options, "pool_time_length": pool, "pool_time_stride": pool}
    if name != "EEGNet":
        options = {**options, "add_log_softmax": False}
    net = getattr(models, theirs)(
        n_chans=n_chans, n_outputs=n_outputs, n_times=n_times, sfreq=sfreq, **options
    )
    if name == "EEGNet":
        net.final_layer.logsoftmax = nn.Identity()
    return ours, net


def randomise(network: nn.Module) -> None:
    """Values for everything, batch norms too; filters of a norm just below the limit of 1."""
    for name, value in network.state_dict().items():
        if value.ndim > 1:
            value.normal_()
            value *= 0.99 / value.flatten(1).norm(dim=1).view(-1, *[1] * (value.ndim - 1))
        elif name.endswith(("weight", "running_var")):
            value.uniform_(0.5, 1.5)
        elif value.is_floating_point():
            value.normal_(0, 0.5)


def copy_weights(theirs: nn.Module, ours: nn.Module) -> None:
    """Both register layers in the same order, but for the key and query of the Conformer."""
    source = list(theirs.state_dict().items())
    if any("queries" in name for name, _ in source):
        for i, (name, _) in enumerate(source):
            if name.endswith("queries.weight"):  # after key weight, key bias
                source[i - 2 : i + 2] = source[i : i + 2] + source[i - 2 : i]
    state = ours.state_dict()
    pairs = zip(state.items(), source, strict=True)
    ours.load_state_dict({name: value.reshape(own.shape) for (name, own), (_, value) in pairs})


def compare(models: Any, name: str, shape: tuple[int, int, int, int]) -> dict[str, float]:
    """Parameters of both, how much logits differ (single: to the largest), and how they vary."""
    torch.manual_seed(0)
    ours, theirs = build(models, name, shape)
    randomise(theirs)
    copy_weights(theirs, ours)
    X = 10 * torch.randn(4, shape[0], shape[2])  # so that logits differ between trials
    with torch.no_grad():
        single = (ours.eval()(X) - theirs.eval()(X)).abs().max().item()
        a, b = ours.double()(X.double()), theirs.double()(X.double())
    return {
        "ours": sum(p.numel() for p in ours.parameters()),
        "theirs": sum(p.numel() for p in theirs.parameters()),
        "single": single / b.abs().max().item(),
        "double": (a - b).abs().max().item(),
        "spread": b.std(0).max().item(),
    }


def answer(cases: list[tuple[str, int]]) -> dict[str, Any]:
    """A result for each case, or why there is none."""
    sys.modules["moabb"] = None  # type: ignore[assignment]  # braindecode 0.8 fails beside 1.7
    try:
        from braindecode import models
    except (ImportError, OSError) as error:  # OSError: torchaudio of another torch build
        return {"skip": f"braindecode 0.8 cannot be imported: {error}"}
    if not hasattr(models, "EEGNetv4") or not hasattr(models, "EEGNetv1"):
        return {"skip": "only braindecode 0.8 is compared with"}
    return {f"{name} {i}": compare(models, name, SHAPES[i]) for name, i in cases}


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
