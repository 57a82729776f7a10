"""Checks of sizes: parameters, operations, megabytes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import torch
from torch import nn

from spdtokens.classifiers.nn.convolutional import ATCNet, EEGNet, MultiHead
from spdtokens.paper.audit.check import Check, Outcome, Paper, half_step, judge, rounds_to

SETUP = "app:implementation_details"
OURS = ("Log-Euc (Ours)", "BWSPD-Transformer (Ours)")


@dataclass(frozen=True)
class Shape:
    """Of a token transformer."""

    token: int
    width: int
    layers: int
    heads: int
    ff: int
    classes: int

    @classmethod
    def of(cls, paper: Paper, data: str) -> Shape:
        """As the text gives it for a data set."""
        columns = ("Token", "Width", "Layers", "Heads", "Feed-forward", "Classes")
        return cls(*(int(paper.cell("datasets", data, column).number) for column in columns))

    @property
    def linear(self) -> int:
        """Weights of the linear maps: the multiply-adds of one token."""
        block = 4 * self.width**2 + 2 * self.width * self.ff
        return self.token * self.width + self.layers * block + self.width * self.classes

    @property
    def parameters(self) -> int:
        """Of projection, encoder and head; none of positions and of BN-Embed."""
        block_biases = 4 * self.width + self.ff + self.width
        norms = 4 * self.width
        return self.linear + self.width + self.layers * (block_biases + norms) + self.classes

    @property
    def query_key(self) -> int:
        """Weights and biases of queries and keys."""
        return self.layers * 2 * (self.width**2 + self.width)


def _size(paper: Paper, data: str, key: str) -> Outcome:
    shape, printed = Shape.of(paper, data), paper.text(key).number
    extra = 2 * shape.width + shape.width
    return Outcome(
        judge(shape.parameters == printed),
        f"{printed:,} parameters",
        f"projection, {shape.layers} blocks and head: {shape.parameters:,}; one position and "
        f"BN-Embed's scale and shift would add {extra}",
        {"parameters": shape.parameters},
    )


def _standard(paper: Paper) -> Outcome:
    return _size(paper, "BCI2a", "params-standard")


def _small(paper: Paper) -> Outcome:
    return _size(paper, "MAMEM", "params-small")


def _largest(paper: Paper) -> Outcome:
    printed = paper.text("params-largest").number
    sizes = {d: Shape.of(paper, d).parameters for d in paper.table("datasets").names}
    largest = max(sizes, key=lambda d: sizes[d])
    return Outcome(
        judge(sizes[largest] == printed),
        f"{printed:,} parameters, the largest models",
        f"the network for {largest} has {sizes[largest]:,}",
        {"parameters": sizes},
    )


def _one_size(paper: Paper) -> Outcome:
    printed = paper.cell("baselines", "Log-Euc", "Params").number
    sizes = {d: Shape.of(paper, d).parameters for d in paper.table("datasets").names}
    return Outcome(
        judge(set(sizes.values()) == {int(printed)}, "cannot be both"),
        f"one size, {printed:,}, beside accuracies on three data sets",
        ", ".join(f"{d} {n:,}" for d, n in sizes.items())
        + f": {sum(n == printed for n in sizes.values())} of {len(sizes)}",
        {"parameters": sizes},
    )


def idle_parameters(width: int, heads: int, ff: int, layers: int) -> int:
    """Parameters of torch's own encoder that get no gradient from trials of one token."""
    rng = torch.random.get_rng_state()
    torch.manual_seed(0)
    try:
        layer = nn.TransformerEncoderLayer(width, heads, ff, dropout=0.0, batch_first=True).double()
        layer(torch.randn(16, 1, width).double()).pow(3).sum().backward()
    finally:
        torch.random.set_rng_state(rng)
    gradients = [p.grad for p in layer.parameters() if p.grad is not None]
    largest = max(float(g.abs().max()) for g in gradients)
    # Rounding leaves a trace of a gradient that is 0.
    return layers * sum(int((g.abs() < 1e-12 * largest).sum()) for g in gradients)


def _idle(paper: Paper) -> Outcome:
    shape = Shape.of(paper, "BCI2a")
    idle = idle_parameters(shape.width, shape.heads, shape.ff, shape.layers)
    total = int(paper.text("params-standard").number)
    return Outcome(
        judge(idle == 0),
        f"{total:,} trainable parameters with one token a trial",
        f"without a gradient in torch's own encoder: {idle:,} parameters ({idle / total:.1%}); "
        f"queries and keys have {shape.query_key:,}, and a softmax over one score is 1",
        {"idle": idle, "share": idle / total},
    )


def _geometric(paper: Paper) -> Outcome:
    table = paper.table("geometric-attention")
    gains = [table.cell(row, "Delta").number for row in table.names]
    times = [
        table.cell(row, "Time (Geo)").number / table.cell(row, "Time (Std)").number
        for row in table.names
    ]
    with_bias = torch.softmax(torch.tensor([[0.3]]) - 0.5 * torch.tensor([[7.0]]), -1)
    return Outcome(
        judge(not any(gains) or float(with_bias) != 1.0, "cannot be both"),
        f"gains of {', '.join(f'{gain:+}' for gain in gains)} points by distances in the scores of "
        "one token",
        f"a softmax over one score is {float(with_bias):g} whatever is added to it, so with one "
        f"set of seeds the gain is 0; {sum(map(bool, gains))} of {len(gains)} printed are not. It "
        f"takes {', '.join(f'{ratio:.1f}' for ratio in times)} times as long",
        {"gains": [float(gain) for gain in gains], "time_ratio": [float(r) for r in times]},
    )


def _spdnet(paper: Paper) -> Outcome:
    printed = paper.cell("efficiency", "SPDNet", "Params").number
    d, classes = (int(paper.cell("datasets", "BCI2a", c).number) for c in ("Channels", "Classes"))
    linear = (d * (d + 1) // 2 + 1) * classes
    flops = paper.cell("efficiency", "SPDNet", "FLOPs").amount
    batch = 32 * (linear - classes)
    fits = printed == linear
    return Outcome(
        "is something else" if fits else "undecided",
        f"SPDNet: {printed:,} parameters, {flops:,} FLOPs",
        f"logarithm and a linear layer: ({d} x {d + 1} / 2 + 1) x {classes} = {linear:,}, so "
        f"{printed - linear:,} are left for bilinear maps; its multiply-adds for 32 trials are "
        f"{batch:,}",
        {"without_bilinear_maps": linear, "multiply_adds_of_32": batch},
    )


def _eegnet(paper: Paper) -> Outcome:
    printed = int(paper.cell("efficiency", "EEGNet", "Params").number)
    shape = _raw_shape(paper)
    published = count(EEGNet(*shape))
    wide = count(EEGNet(*shape, n_filters=16, n_separable=32, kernel_length=65))
    return Outcome(
        "holds"
        if printed == published
        else ("is something else" if printed == wide else "undecided"),
        f"EEGNet: {printed:,} parameters",
        f"F1 = 8, F2 = 16, kernel 64 as published: {published:,}; F1 = 16, F2 = 32, kernel 65: "
        f"{wide:,} ({shape[2]} samples)",
        {"published": published, "wide": wide},
    )


def _atcnet(paper: Paper) -> Outcome:
    printed = int(paper.cell("efficiency", "ATCNet", "Params").number)
    net = ATCNet(*_raw_shape(paper))
    published = count(net)
    blocks = [module for module in net.modules() if isinstance(module, MultiHead)]
    width = blocks[0].query.in_features
    full = count(MultiHead(width, width, 2, scale=1.0, dropout=0.0))
    norm = 2 * width
    wide = published + len(blocks) * (full - count(blocks[0]) - norm)
    return Outcome(
        "holds"
        if printed == published
        else ("is something else" if printed == wide else "undecided"),
        f"ATCNet: {printed:,} parameters",
        f"two heads of 8 as published: {published:,}; attention as wide as its input ({width}) and "
        f"no layer norm before it: {wide:,}",
        {"published": published, "wide": wide},
    )


def _raw_shape(paper: Paper) -> tuple[int, int, int, float]:
    channels, classes, hz = (
        int(paper.cell("datasets", "BCI2a", c).number) for c in ("Channels", "Classes", "Sampling")
    )
    return channels, classes, int(paper.text("crop").numbers[2]), float(hz)


def count(module: nn.Module) -> int:
    """Parameters of a network."""
    return sum(parameter.numel() for parameter in module.parameters())


def _flops(paper: Paper) -> Outcome:
    shape = Shape.of(paper, "BCI2a")
    printed = paper.cell("efficiency", OURS[1], "FLOPs")
    step = half_step(printed.number) * 10**6
    norms = 2 * shape.layers * shape.width
    one = shape.linear + 4 * norms
    fits = abs(32 * one - printed.amount) <= step
    trial = 2 * shape.linear
    return Outcome(
        judge(
            abs(trial - printed.amount) <= step, "is something else" if fits else "does not hold"
        ),
        f"{printed.text} FLOPs",
        f"32 trials x ({shape.linear:,} multiply-adds + 4 for each of {norms:,} normalised "
        f"entries) = {32 * one / 1e6:.2f} M; one trial takes {trial / 1e6:.2f} MFLOP",
        {"multiply_adds": shape.linear, "batch_of_32": 32 * one, "flops_of_one": trial},
    )


def _megabytes(paper: Paper) -> Outcome:
    rows = {}
    for row in paper.table("efficiency").names:
        size, parameters = (paper.cell("efficiency", row, c).number for c in ("Size", "Params"))
        rows[row] = (float(size), 4 * int(parameters) / 2**20)
    off = {row: size - computed for row, (size, computed) in rows.items()}
    # Buffers of batch norm weigh little: what the other models have beyond their parameters.
    others = max(abs(gap) for row, gap in off.items() if row not in OURS)
    printed, computed = rows[OURS[0]]
    return Outcome(
        judge(abs(off[OURS[0]]) <= max(others, 0.02)),
        f"{printed:.2f} MB for our models",
        f"4 bytes a parameter: {computed:.2f} MiB ({computed * 2**20 / 1e6:.2f} MB), "
        f"printed {off[OURS[0]]:+.2f}; the other models are printed within {others:.2f} MB",
        {"mebibytes": {row: computed for row, (_, computed) in rows.items()}},
    )


def _efficiency(paper: Paper) -> Outcome:
    names = paper.table("efficiency").names
    as_said, without_size, computed = 0, 0, {}
    for row in names:
        parameters, size, forward, score = (
            paper.cell("efficiency", row, c).number
            for c in ("Params", "Size", "Forward", "Efficiency")
        )
        base = 1000 / float(parameters)
        computed[row] = base / max(float(size), 0.005) / float(forward)
        as_said += _within(base, (size, forward), score)
        without_size += _within(1000 * base, (forward,), score)
    return Outcome(
        judge(
            as_said == len(names),
            "is something else" if without_size == len(names) else "does not hold",
        ),
        "score = 1000 / (parameters x size x forward time)",
        f"{as_said} of {len(names)} scores follow it (BWSPD: {computed[OURS[1]]:.5f}); "
        f"{without_size} are 10^6 / (parameters x forward time), without the size",
        {"as_printed": as_said, "without_size": without_size, "computed": computed},
    )


def _within(numerator: float, divisors: tuple[Decimal, ...], printed: Decimal) -> bool:
    """Whether a quotient of rounded numbers can be printed so."""
    low = high = numerator
    for value in divisors:
        low /= float(value + half_step(value))
        high /= max(float(value - half_step(value)), 1e-9)
    slack = float(half_step(printed))
    return low - slack <= float(printed) <= high + slack


def _eeg_flops(paper: Paper) -> Outcome:
    names = ("EEGNet", "ShallowNet", "ATCNet", "DeepNet", "EEG-Conformer")
    giga = [paper.cell("efficiency", row, "FLOPs").amount / 10**9 for row in names]
    mean = float(sum(giga)) / len(giga)
    smaller = float(sum(giga[:4])) / 4
    printed, ratio = paper.text("eeg-flops").number, paper.text("eeg-flops-ratio").number
    ours = float(paper.cell("efficiency", OURS[1], "FLOPs").amount) / 10**9
    found = mean / ours
    return Outcome(
        judge(rounds_to(mean, printed, 0.005) and abs(found / float(ratio) - 1) < 0.02),
        f"{printed} GFLOP on average for raw-signal models, about {ratio} times",
        f"mean {mean:.2f}, {found:.0f} times; without EEG-Conformer {smaller:.2f}, "
        f"{smaller / ours:.0f} times",
        {"mean": mean, "ratio": found},
    )


def _tokens(paper: Paper) -> Outcome:
    table = paper.table("datasets")
    pairs = {d: [int(table.cell(d, c).number) for c in ("Channels", "Token")] for d in table.names}
    found = {d: n * (n + 1) // 2 for d, (n, _) in pairs.items()}
    first, beyond, samples = paper.text("crop").numbers
    off_diagonal = [int(pairs[d][0] * (pairs[d][0] - 1) / 2) for d in ("MAMEM", "BCI2a")]
    holds = all(found[d] == token for d, (_, token) in pairs.items())
    holds &= beyond - first == samples and off_diagonal == list(paper.text("pairs").numbers)
    return Outcome(
        judge(holds),
        f"tokens of {', '.join(str(token) for _, token in pairs.values())} entries; "
        f"{paper.text('pairs').text.replace(' ', ' and ')} pairs of eigenvalues; {samples} samples",
        f"d (d + 1) / 2: {', '.join(map(str, found.values()))}; d (d - 1) / 2: "
        f"{off_diagonal[0]} and {off_diagonal[1]}; {beyond} - {first} = {beyond - first}",
        {"tokens": found, "pairs": off_diagonal},
    )


CHECKS = [
    Check("parameters-standard", SETUP, "The network as described has as many.", _standard),
    Check("parameters-small", SETUP, "MAMEM's network as described has as many.", _small),
    Check("parameters-largest", SETUP, "No network of the paper has more.", _largest),
    Check(
        "parameters-one-size",
        "tab:sota_comparison",
        "Each data set's network has that size.",
        _one_size,
    ),
    Check(
        "parameters-idle",
        "tab:efficiency; app:architecture_rationale",
        "Trainable parameters get a gradient.",
        _idle,
    ),
    Check(
        "geometric-attention",
        "tab:geometric_attention_ablation",
        "What is added to the scores can change the outcome.",
        _geometric,
    ),
    Check("spdnet-size", "tab:efficiency", "SPDNet has bilinear maps.", _spdnet),
    Check("eegnet-size", "tab:efficiency", "EEGNet has its published shape.", _eegnet),
    Check("atcnet-size", "tab:efficiency", "ATCNet has its published shape.", _atcnet),
    Check("flops", "tab:efficiency", "They are two per multiply-add, for one trial.", _flops),
    Check(
        "model-size",
        "tab:efficiency",
        "A model takes four bytes per parameter, and few buffers.",
        _megabytes,
    ),
    Check("efficiency-score", "tab:efficiency", "Scores follow the printed formula.", _efficiency),
    Check(
        "raw-flops", "app:ablation", "That is the mean of the five raw-signal models.", _eeg_flops
    ),
    Check(
        "dimensions",
        "app:datasets; app:theoretical",
        "Entries, pairs and samples follow from channels and crop.",
        _tokens,
    ),
]
