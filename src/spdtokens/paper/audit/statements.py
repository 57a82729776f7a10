"""Checks of network sizes, FLOPs, numbers of runs, bold type, frequency bands and formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import torch
from scipy import stats
from torch import nn

from spdtokens.classifiers.nn.convolutional import ATCNet, EEGNet, MultiHead
from spdtokens.paper import theory
from spdtokens.paper.audit.accuracies import count_right
from spdtokens.paper.audit.check import (
    CHECKS,
    SPLITS,
    Check,
    Paper,
    Verdict,
    check,
    half_step,
    judge,
    rounds_to,
)
from spdtokens.paper.findings import Outcome, claim_evidence, told

OURS = ("Log-Euc (Ours)", "BWSPD-Transformer (Ours)")
#: Conventional frequency bands in Hz; mu is the alpha rhythm over the motor cortex.
CONVENTION = {(4, 8): "theta", (8, 13): "mu (alpha)", (13, 30): "beta", (30, 100): "gamma"}
#: Claims of the theory that are checked, and the verdict if they do not hold.
FORMULAS: dict[str, Verdict] = {
    "index-formula": "does not hold",
    "backward-formula": "does not hold",
    "conditioning-name": "is something else",
    "gradient-ratio": "does not hold",
    "absolute-regulariser": "does not hold",
    "bilipschitz-main-upper": "does not hold",
    "bilipschitz-main-lower": "does not hold",
}


# Parameters, FLOPs, megabytes


@dataclass(frozen=True)
class Shape:
    """Sizes of a token transformer."""

    token: int
    width: int
    layers: int
    heads: int
    ff: int
    classes: int

    @classmethod
    def of(cls, paper: Paper, data: str) -> Shape:
        """Return the sizes stated for a data set."""
        columns = ("Token", "Width", "Layers", "Heads", "Feed-forward", "Classes")
        return cls(*map(int, paper.numbers("datasets", data, *columns)))

    @property
    def linear(self) -> int:
        """Number of weights of the linear layers, which is the multiply-adds per token."""
        block = 4 * self.width**2 + 2 * self.width * self.ff
        return self.token * self.width + self.layers * block + self.width * self.classes

    @property
    def parameters(self) -> int:
        """Number of parameters without positional encoding and BN-Embed."""
        biases_and_norms = 4 * self.width + self.ff + self.width + 4 * self.width
        return self.linear + self.width + self.layers * biases_and_norms + self.classes

    @property
    def query_key(self) -> int:
        """Number of weights and biases of queries and keys."""
        return self.layers * 2 * (self.width**2 + self.width)


def _sizes(paper: Paper) -> dict[str, int]:
    return {data: Shape.of(paper, data).parameters for data in paper.table("datasets").names}


@check("app:implementation_details", "parameters-standard", "BCI2a", "params-standard")
def parameters(paper: Paper, data: str, key: str) -> Outcome:
    """The network described for the data set has the stated number of parameters.

    Printed: {printed:,} parameters

    Arithmetic: projection, {layers} blocks and head for {data}: {parameters:,}; one position and
    BN-Embed's scale and shift would add {more}
    """
    shape, printed = Shape.of(paper, data), paper.text(key).number
    words = {"data": data, "layers": shape.layers, "more": 3 * shape.width}
    numbers = {"parameters": shape.parameters}
    return Outcome(judge(shape.parameters == printed), numbers, printed=printed, **words)


check("app:implementation_details", "parameters-small", "MAMEM", "params-small")(parameters)


@check("app:implementation_details")
def parameters_largest(paper: Paper) -> Outcome:
    """No network of the paper has more parameters.

    Printed: {printed:,} parameters, the largest models

    Arithmetic: the network for {largest} has {size:,}
    """
    printed, sizes = paper.text("params-largest").number, _sizes(paper)
    largest = max(sizes, key=sizes.__getitem__)
    words = {"printed": printed, "largest": largest, "size": sizes[largest]}
    return Outcome(judge(sizes[largest] == printed), {"parameters": sizes}, **words)


@check("tab:sota_comparison")
def parameters_one_size(paper: Paper) -> Outcome:
    """The networks of all data sets have the stated size.

    Printed: one size, {printed:,}, for accuracies on three data sets

    Arithmetic: BCI2a {parameters[BCI2a]:,}, BCIcha {parameters[BCIcha]:,}, MAMEM
    {parameters[MAMEM]:,}: {same} of 3 equal
    """
    printed, sizes = paper.cell("baselines", "Log-Euc", "Params").number, _sizes(paper)
    same = sum(size == printed for size in sizes.values())
    verdict = judge(same == len(sizes), "contradiction")
    return Outcome(verdict, {"parameters": sizes}, printed=printed, same=same)


def idle_parameters(width: int, heads: int, ff: int, layers: int) -> int:
    """Count parameters of PyTorch's encoder without a gradient if trials have one token."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(width, heads, ff, dropout=0.0, batch_first=True).double()
        layer(torch.randn(16, 1, width).double()).pow(3).sum().backward()
    gradients = [p.grad.abs() for p in layer.parameters() if p.grad is not None]
    largest = max(float(g.max()) for g in gradients)
    # Gradients that should be 0 are small because of rounding.
    return layers * sum(int((g < 1e-12 * largest).sum()) for g in gradients)


@check("tab:efficiency; app:architecture_rationale")
def parameters_idle(paper: Paper) -> Outcome:
    """All trainable parameters have a gradient.

    Printed: {total:,} trainable parameters with one token per trial

    Arithmetic: parameters without a gradient in PyTorch's encoder: {idle:,} ({share:.1%}); queries
    and keys have {query_key:,}, and a softmax over one score is 1
    """
    shape = Shape.of(paper, "BCI2a")
    idle = idle_parameters(shape.width, shape.heads, shape.ff, shape.layers)
    total = int(paper.text("params-standard").number)
    numbers = {"idle": idle, "share": idle / total}
    return Outcome(judge(idle == 0), numbers, total=total, query_key=shape.query_key)


@check("tab:geometric_attention_ablation")
def geometric_attention(paper: Paper) -> Outcome:
    """Adding distances to the attention scores can change the output.

    Printed: gains of {gains[0]:+}, {gains[1]:+}, {gains[2]:+} points by adding distances to the
    attention scores of one token

    Arithmetic: a softmax over one score is {softmax:g} whatever is added, so the gain with the same
    seeds is 0; {other} of 3 printed gains are not. It takes {time_ratio[0]:.1f},
    {time_ratio[1]:.1f}, {time_ratio[2]:.1f} times as long
    """
    columns = ("Delta", "Time (Geo)", "Time (Std)")
    gains, times = [], []
    for row in paper.table("geometric-attention").names:
        gain, geometric, standard = paper.numbers("geometric-attention", row, *columns)
        gains.append(float(gain))
        times.append(float(geometric / standard))
    with_bias = float(torch.softmax(torch.tensor([[0.3]]) - 0.5 * torch.tensor([[7.0]]), -1))
    verdict = judge(not any(gains) or with_bias != 1.0, "contradiction")
    numbers = {"gains": gains, "time_ratio": times}
    return Outcome(verdict, numbers, softmax=with_bias, other=sum(map(bool, gains)))


@check("tab:efficiency")
def spdnet_size(paper: Paper) -> Outcome:
    """SPDNet has bilinear maps.

    Printed: SPDNet: {printed:,} parameters, {flops:,} FLOPs

    Arithmetic: logarithm and a linear layer: ({d} x {d} + {d}) / 2 x {classes} + {classes} =
    {without_bilinear_maps:,}, so {left:,} are left for bilinear maps; its multiply-adds for 32
    trials are {multiply_adds_of_32:,}
    """
    d, classes = map(int, paper.numbers("datasets", "BCI2a", "Channels", "Classes"))
    printed = int(paper.cell("efficiency", "SPDNet", "Params").number)
    flops = paper.cell("efficiency", "SPDNet", "FLOPs").amount
    linear = (d * (d + 1) // 2 + 1) * classes
    return Outcome(
        "is something else" if printed == linear else "undecided",
        {"without_bilinear_maps": linear, "multiply_adds_of_32": 32 * (linear - classes)},
        printed=printed,
        flops=flops,
        d=d,
        classes=classes,
        left=printed - linear,
    )


def count(module: nn.Module) -> int:
    """Return the number of parameters of a network."""
    return sum(parameter.numel() for parameter in module.parameters())


def _raw_shape(paper: Paper) -> tuple[int, int, int, float]:
    channels, classes, hz = paper.numbers("datasets", "BCI2a", "Channels", "Classes", "Sampling")
    return int(channels), int(classes), int(paper.text("crop").numbers[2]), float(hz)


def _published(paper: Paper, name: str, published: int, wide: int, **words: object) -> Outcome:
    """Compare the size of another method with that of the published and of a wider network."""
    printed = int(paper.cell("efficiency", name, "Params").number)
    verdict = judge(printed == published, "is something else" if printed == wide else "undecided")
    return Outcome(verdict, {"published": published, "wide": wide}, printed=printed, **words)


@check("tab:efficiency")
def eegnet_size(paper: Paper) -> Outcome:
    """EEGNet has its published shape.

    Printed: EEGNet: {printed:,} parameters

    Arithmetic: F1 = 8, F2 = 16, kernel 64 as published: {published:,}; F1 = 16, F2 = 32, kernel 65:
    {wide:,} ({samples} samples)
    """
    shape = _raw_shape(paper)
    wide = count(EEGNet(*shape, n_filters=16, n_separable=32, kernel_length=65))
    return _published(paper, "EEGNet", count(EEGNet(*shape)), wide, samples=shape[2])


@check("tab:efficiency")
def atcnet_size(paper: Paper) -> Outcome:
    """ATCNet has its published shape.

    Printed: ATCNet: {printed:,} parameters

    Arithmetic: two heads of 8 as published: {published:,}; attention as wide as its input ({width})
    and no layer norm before it: {wide:,}
    """
    net = ATCNet(*_raw_shape(paper))
    blocks = [module for module in net.modules() if isinstance(module, MultiHead)]
    width = blocks[0].query.in_features
    full, norm = count(MultiHead(width, width, 2, scale=1.0, dropout=0.0)), 2 * width
    wide = count(net) + len(blocks) * (full - count(blocks[0]) - norm)
    return _published(paper, "ATCNet", count(net), wide, width=width)


@check("tab:efficiency")
def flops(paper: Paper) -> Outcome:
    """FLOPs are two per multiply-add, for one trial.

    Printed: {printed} FLOPs

    Arithmetic: 32 trials x ({multiply_adds:,} multiply-adds + 4 for each of {norms:,} normalised
    entries) = {batch:.2f} M; one trial takes {trial:.2f} MFLOP
    """
    shape = Shape.of(paper, "BCI2a")
    printed = paper.cell("efficiency", OURS[1], "FLOPs")
    norms = 2 * shape.layers * shape.width
    batch, trial = 32 * (shape.linear + 4 * norms), 2 * shape.linear
    of_batch, of_trial = (rounds_to(n / 1e6, printed.number) for n in (batch, trial))
    return Outcome(
        judge(of_trial, "is something else" if of_batch else "does not hold"),
        {"multiply_adds": shape.linear, "batch_of_32": batch, "flops_of_one": trial},
        printed=printed.text,
        norms=norms,
        batch=batch / 1e6,
        trial=trial / 1e6,
    )


@check("tab:efficiency")
def model_size(paper: Paper) -> Outcome:
    """The model size is four bytes per parameter, plus small buffers.

    Printed: {printed} MB for the token transformers

    Arithmetic: 4 bytes per parameter: {ours:.2f} MiB ({megabytes:.2f} MB), printed {off:+.2f}; the
    printed sizes of the other models are within {others:.2f} MB
    """
    computed, off = {}, {}
    for row in paper.table("efficiency").names:
        size, parameters = paper.numbers("efficiency", row, "Size", "Params")
        computed[row] = 4 * int(parameters) / 2**20
        off[row] = float(size) - computed[row]
    # The other models show how large buffers of batch normalisation are.
    others = max(abs(gap) for row, gap in off.items() if row not in OURS)
    ours = computed[OURS[0]]
    return Outcome(
        judge(abs(off[OURS[0]]) <= max(others, 0.02)),
        {"mebibytes": computed},
        printed=paper.cell("efficiency", OURS[0], "Size").number,
        ours=ours,
        megabytes=ours * 2**20 / 1e6,
        off=off[OURS[0]],
        others=others,
    )


def _within(numerator: float, divisors: tuple[Decimal, ...], printed: Decimal) -> bool:
    """Whether a quotient of rounded numbers can round to the printed value."""
    low = high = numerator
    for value in divisors:
        low /= float(value + half_step(value))
        high /= max(float(value - half_step(value)), 1e-9)
    slack = float(half_step(printed))
    return low - slack <= float(printed) <= high + slack


@check("tab:efficiency")
def efficiency_score(paper: Paper) -> Outcome:
    """Scores follow the printed formula.

    Printed: score = 1000 / (parameters x size x forward time)

    Arithmetic: {as_printed} of {n} scores follow it (BWSPD: {ours:.5f}); {without_size} are 10^6 /
    (parameters x forward time), without the size
    """
    columns = ("Params", "Size", "Forward", "Efficiency")
    names = paper.table("efficiency").names
    as_said, without_size, computed = 0, 0, {}
    for row in names:
        parameters, size, forward, score = paper.numbers("efficiency", row, *columns)
        base = 1000 / float(parameters)
        computed[row] = base / max(float(size), 0.005) / float(forward)
        as_said += _within(base, (size, forward), score)
        without_size += _within(1000 * base, (forward,), score)
    other: Verdict = "is something else" if without_size == len(names) else "does not hold"
    numbers = {"as_printed": as_said, "without_size": without_size, "computed": computed}
    verdict = judge(as_said == len(names), other)
    return Outcome(verdict, numbers, n=len(names), ours=computed[OURS[1]])


@check("app:ablation")
def raw_flops(paper: Paper) -> Outcome:
    """The stated mean is that of the five raw-signal models.

    Printed: {printed} GFLOP on average for raw-signal models, about {times} times

    Arithmetic: mean {mean:.2f}, {ratio:.0f} times; without EEG-Conformer {smaller:.2f},
    {smaller_ratio:.0f} times
    """
    names = ("EEGNet", "ShallowNet", "ATCNet", "DeepNet", "EEG-Conformer", OURS[1])
    *raw, ours = (paper.cell("efficiency", row, "FLOPs").amount / 10**9 for row in names)
    mean, smaller = float(sum(raw)) / 5, float(sum(raw[:4])) / 4
    ratio = mean / float(ours)
    printed, times = (paper.text(key).number for key in ("eeg-flops", "eeg-flops-ratio"))
    return Outcome(
        judge(rounds_to(mean, printed, 0.005) and abs(ratio / float(times) - 1) < 0.02),
        {"mean": mean, "ratio": ratio},
        printed=printed,
        times=times,
        smaller=smaller,
        smaller_ratio=smaller / float(ours),
    )


@check("app:datasets; app:theoretical")
def dimensions(paper: Paper) -> Outcome:
    """Numbers of token entries, eigenvalue pairs and samples follow from channels and window.

    Printed: tokens of {said_tokens} entries; {said_pairs} pairs of eigenvalues; {samples} samples

    Arithmetic: d (d + 1) / 2: {tokens[BCI2a]}, {tokens[BCIcha]}, {tokens[MAMEM]}; d (d - 1) / 2:
    {pairs[0]} and {pairs[1]}; {beyond} - {first} = {difference}
    """
    names = paper.table("datasets").names
    channels, tokens = (
        {d: int(paper.cell("datasets", d, c).number) for d in names} for c in ("Channels", "Token")
    )
    found = {d: n * (n + 1) // 2 for d, n in channels.items()}
    pairs = [channels[d] * (channels[d] - 1) // 2 for d in ("MAMEM", "BCI2a")]
    first, beyond, samples = paper.text("crop").numbers
    said = paper.text("pairs")
    return Outcome(
        judge(found == tokens and beyond - first == samples and pairs == list(said.numbers)),
        {"tokens": found, "pairs": pairs},
        said_tokens=told("{1}", tokens),
        said_pairs=said.text.replace(" ", " and "),
        samples=samples,
        beyond=beyond,
        first=first,
        difference=beyond - first,
    )


# Runs, bold type, bands, chance level, repeated configurations


@check("abstract; sec:experiments")
def runs(paper: Paper) -> Outcome:
    """The numbers of runs multiply and add up.

    Printed: more than {said:,} runs: {parts}

    Arithmetic: products {products[0]} and {products[1]}; sum {sum:,}
    """
    parts = [int(paper.text(f"runs-{k}").number) for k in ("subject", "loso", "cross", "ablation")]
    factors = (paper.text(f"runs-{key}-factors").numbers for key in ("subject", "loso"))
    products = [math.prod(map(int, numbers)) for numbers in factors]
    said = int(paper.text("abstract-runs").number)
    verdict = judge(products == parts[:2] and sum(parts) >= said)
    numbers = {"sum": sum(parts), "products": products}
    return Outcome(verdict, numbers, said=said, parts=" + ".join(map(str, parts)))


@check("sec:experiments; tab:all_subjects_comparison")
def runs_within_subjects(paper: Paper) -> Outcome:
    """The stated number of runs suffices for the tables.

    Printed: {said} runs within subjects

    Arithmetic: the main table takes {subjects} subjects x 5 seeds x 3 embeddings = {main_table},
    and three bands {three_bands} more
    """
    subjects, in_bands = (
        sum(int(cell.number) for cell in paper.table(name).column("Subjects"))
        for name in ("all-subjects", "multiband")
    )
    needed, bands = subjects * 5 * 3, in_bands * 5
    said = int(paper.text("runs-subject").number)
    verdict = judge(said >= needed + bands, "contradiction")
    numbers = {"main_table": needed, "three_bands": bands}
    return Outcome(verdict, numbers, said=said, subjects=subjects)


@check("tab:all_subjects_comparison; tab:geometry_ablation; tab:sota_comparison")
def bold_best(paper: Paper) -> Outcome:
    """The largest mean is in bold.

    Printed: the best value in bold in {looked_at} rows and columns of five tables

    Arithmetic: {right} have the largest mean in bold{wrong_ones}
    """
    main = paper.table("all-subjects")
    looked = {
        f"main table, {data}": {c: main.cell(data, c) for c in main.columns[2:]}
        for data in main.names
    }
    some = {"baselines": ("Log-Euc", "BWSPD-Transformer", "SPDNet")}
    for name in ("geometry", "depth", "heads", "baselines"):
        table = paper.table(name)
        for column in (split.subject for split in SPLITS if split.subject in table.columns):
            rows = some.get(name, table.names)
            looked[f"{name}, {column}"] = {row: table.cell(row, column) for row in rows}
    wrong = []
    for where, cells in looked.items():
        best = max(cell.number for cell in cells.values())
        if any(cell.bold != (cell.number == best) for cell in cells.values()):
            bold = sorted(name for name, cell in cells.items() if cell.bold)
            wrong.append(f"{where}: {', '.join(bold)}")
    return count_right(len(looked), wrong, "looked_at")


@check("sec:experiments")
def band_names(paper: Paper) -> Outcome:
    """Frequency bands have their conventional names.

    Printed: {printed}

    Arithmetic: by convention {usual}
    """
    edges = [int(n) for n in paper.text("bands").numbers]
    rows = {}
    for name, low, high in zip(("mu", "beta", "gamma"), edges[::2], edges[1::2], strict=True):
        rows[name] = (low, high, CONVENTION.get((low, high), "none"))
    return Outcome(
        judge(all(row[2].startswith(name) for name, row in rows.items()), "is something else"),
        {"convention": {name: usual for name, (_, _, usual) in rows.items()}},
        printed=told("{} {}-{} Hz", rows),
        usual=told("{1}-{2} Hz is {3}", rows),
    )


@check("app:per_subject_baseline")
def near_chance(paper: Paper) -> Outcome:
    """The accuracy is not significantly above chance.

    Printed: {said} % on MAMEM is near chance

    Arithmetic: chance level with {classes} classes is {chance:.0%}; p-value of {right} or more of
    {n} test trials: {p:.1g}
    """
    said = paper.text("near-chance-mamem")
    classes = int(paper.cell("datasets", "MAMEM", "Classes").number)
    n = SPLITS[2].test[0]
    right = round(float(said.number) / 100 * n)
    p = float(stats.binom.sf(right - 1, n, 1 / classes))
    numbers = {"chance": 1 / classes, "p": p}
    return Outcome(judge(p > 0.05), numbers, said=said.text, classes=classes, right=right, n=n)


@check("app:ablation")
def raw_gain(paper: Paper) -> Outcome:
    """The same gain is stated in both places.

    Printed: SPD tokens gain {first} points over raw signals in one place, {second} in another

    Arithmetic: {spd} - {high} = {least:.2f}, {spd} - {low} = {most:.2f}
    """
    first, second = (paper.text(key).text for key in ("raw-gain-summary", "raw-gain"))
    spd = paper.text("raw-spd").number
    low, high = paper.text("raw-range").numbers
    numbers = {"least": float(spd - high), "most": float(spd - low)}
    words = {"first": first, "second": second, "spd": spd, "low": low, "high": high}
    return Outcome(judge(first == second, "contradiction"), numbers, **words)


def standard_network(paper: Paper, epochs: int, *places: tuple[str, str]) -> Outcome:
    """The same configuration and seeds give the same values.

    Printed: the standard network, five fixed seeds and {epochs} epochs, in 2 tables

    Arithmetic: {shown}
    """
    shown, differ = [], False
    for split in SPLITS:
        values = {}
        for name, key in places:  # a subject is in a row or in a column
            table = paper.table(name)
            if key in table.columns:
                row = next(r for r in table.names if r.startswith(split.data))
                values[name] = table.cell(row, key).text
            elif split.subject in table.columns:
                values[name] = table.cell(key, split.subject).text
        differ |= len(set(values.values())) > 1
        if len(values) > 1:
            shown.append(f"{split.subject}: {told('{1} ({0})', values)}")
    return Outcome(judge(not differ, "contradiction"), {}, epochs=epochs, shown="; ".join(shown))


check(
    "tab:geometry_ablation; tab:geometric_attention_ablation", "standard-network-50",
    50, ("geometry", "BWSPD"), ("geometric-attention", "Standard"),
)(standard_network)  # fmt: skip
check(
    "tab:structure_ablation_depth; tab:structure_ablation_heads", "standard-network-100",
    100, ("depth", "Depth 6 (std)"), ("heads", "8 Heads (std)"),
)(standard_network)  # fmt: skip


@check("sec:experiments; tab:sota_comparison")
def legacy_configuration(paper: Paper) -> Outcome:
    """Other seeds give other values.

    Printed: a table with other seeds and hyperparameters (sec:experiments) or with the standard
    ones (its caption)

    Arithmetic: {same} of {of} values equal those of the standard configuration to the last digit
    """
    names = {"Log-Euc": "Log-Euclidean", "BWSPD-Transformer": "BWSPD"}
    same = [
        paper.cell("baselines", ours, split.subject).text
        == paper.cell("geometry", theirs, split.subject).text
        for split in SPLITS
        for ours, theirs in names.items()
    ]
    verdict = judge(not any(same), "contradiction")
    return Outcome(verdict, {"same": sum(same), "of": len(same)})


@check("sec:experiments; app:ablation")
def official_split(paper: Paper) -> Outcome:
    """The official split trains on a whole session.

    Printed: the official split of BCI2a without further splits; about {stated} training trials

    Arithmetic: the official training session has {official} trials; {stated} is {share:.3f} of it
    (7/8 = 0.875)
    """
    trained = int(paper.cell("datasets", "BCI2a", "Training trials").number)
    official = SPLITS[0].test[0]  # both sessions have the same number of trials
    verdict = judge(trained == official, "contradiction")
    numbers = {"official": official, "stated": trained}
    return Outcome(verdict, numbers, share=trained / official)


# Formulas of the method, as tested by the theory


def formula_check(name: str) -> Check:
    """Make a check of a claim of the theory."""
    claims = {claim.id: claim for claim in theory.CLAIMS}

    def test(_: Paper) -> Outcome:
        found = next(claim for claim in theory.CLAIMS if claim.id == name).check(0)
        verdict = judge(found["verdict"] == "holds", FORMULAS[name])
        texts = {"claim": found["claim"], "shown": claim_evidence(found)}
        return Outcome(verdict, found["numbers"], **texts)

    required = "The formula is correct (see spdtokens theory)."
    texts = {"Printed": "{claim}", "Arithmetic": "{shown}"}
    return Check(name, claims[name].source, required, texts, test)


CHECKS.extend(map(formula_check, FORMULAS))
