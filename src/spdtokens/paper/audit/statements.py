"""Checks of networks and statements: sizes, operations, runs, bold type, bands, formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import torch
from scipy import stats
from torch import nn

from spdtokens.classifiers.nn.convolutional import ATCNet, EEGNet, MultiHead
from spdtokens.paper import theory
from spdtokens.paper.audit.check import (
    CHECKS,
    SPLITS,
    Check,
    Outcome,
    Paper,
    Verdict,
    check,
    half_step,
    judge,
    rounds_to,
    told,
)
from spdtokens.paper.tables import Cell

OURS = ("Log-Euc (Ours)", "BWSPD-Transformer (Ours)")
#: Conventional bands in Hz; mu is the alpha rhythm over the motor cortex.
CONVENTION = {(4, 8): "theta", (8, 13): "mu (alpha)", (13, 30): "beta", (30, 100): "gamma"}
#: Claims of the theory, and the verdict if they do not hold as printed.
FORMULAS: dict[str, Verdict] = {
    "index-formula": "does not hold",
    "backward-formula": "does not hold",
    "conditioning-name": "is something else",
    "gradient-ratio": "does not hold",
    "absolute-regulariser": "does not hold",
    "bilipschitz-main-upper": "does not hold",
    "bilipschitz-main-lower": "does not hold",
}


# Parameters, operations, megabytes


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
        return cls(*map(int, paper.numbers("datasets", data, *columns)))

    @property
    def linear(self) -> int:
        """Weights of the linear maps: the multiply-adds of one token."""
        block = 4 * self.width**2 + 2 * self.width * self.ff
        return self.token * self.width + self.layers * block + self.width * self.classes

    @property
    def parameters(self) -> int:
        """Of projection, encoder and head; none of positions and of BN-Embed."""
        biases_and_norms = 4 * self.width + self.ff + self.width + 4 * self.width
        return self.linear + self.width + self.layers * biases_and_norms + self.classes

    @property
    def query_key(self) -> int:
        """Weights and biases of queries and keys."""
        return self.layers * 2 * (self.width**2 + self.width)


def _sizes(paper: Paper) -> dict[str, int]:
    return {data: Shape.of(paper, data).parameters for data in paper.table("datasets").names}


def _size(paper: Paper, data: str, key: str) -> Outcome:
    shape, printed = Shape.of(paper, data), paper.text(key).number
    return Outcome(
        judge(shape.parameters == printed),
        f"{printed:,} parameters",
        f"projection, {shape.layers} blocks and head: {shape.parameters:,}; one position and "
        f"BN-Embed's scale and shift would add {3 * shape.width}",
        {"parameters": shape.parameters},
    )


@check("app:implementation_details")
def parameters_standard(paper: Paper) -> Outcome:
    """The network as described has as many."""
    return _size(paper, "BCI2a", "params-standard")


@check("app:implementation_details")
def parameters_small(paper: Paper) -> Outcome:
    """MAMEM's network as described has as many."""
    return _size(paper, "MAMEM", "params-small")


@check("app:implementation_details")
def parameters_largest(paper: Paper) -> Outcome:
    """No network of the paper has more."""
    printed, sizes = paper.text("params-largest").number, _sizes(paper)
    largest = max(sizes, key=sizes.__getitem__)
    return Outcome(
        judge(sizes[largest] == printed),
        f"{printed:,} parameters, the largest models",
        f"the network for {largest} has {sizes[largest]:,}",
        {"parameters": sizes},
    )


@check("tab:sota_comparison")
def parameters_one_size(paper: Paper) -> Outcome:
    """Each data set's network has that size."""
    printed, sizes = paper.cell("baselines", "Log-Euc", "Params").number, _sizes(paper)
    return Outcome(
        judge(set(sizes.values()) == {int(printed)}, "cannot be both"),
        f"one size, {printed:,}, beside accuracies on three data sets",
        told("{} {:,}", sizes) + f": {sum(n == printed for n in sizes.values())} of {len(sizes)}",
        {"parameters": sizes},
    )


def idle_parameters(width: int, heads: int, ff: int, layers: int) -> int:
    """Parameters of torch's own encoder that get no gradient from trials of one token."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(width, heads, ff, dropout=0.0, batch_first=True).double()
        layer(torch.randn(16, 1, width).double()).pow(3).sum().backward()
    gradients = [p.grad.abs() for p in layer.parameters() if p.grad is not None]
    largest = max(float(g.max()) for g in gradients)
    # Rounding leaves a trace of a gradient that is 0.
    return layers * sum(int((g < 1e-12 * largest).sum()) for g in gradients)


@check("tab:efficiency; app:architecture_rationale")
def parameters_idle(paper: Paper) -> Outcome:
    """Trainable parameters get a gradient."""
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


@check("tab:geometric_attention_ablation")
def geometric_attention(paper: Paper) -> Outcome:
    """What is added to the scores can change the outcome."""
    columns = ("Delta", "Time (Geo)", "Time (Std)")
    names = paper.table("geometric-attention").names
    rows = {row: tuple(paper.numbers("geometric-attention", row, *columns)) for row in names}
    gains = [gain for gain, _, _ in rows.values()]
    times = [geometric / standard for _, geometric, standard in rows.values()]
    with_bias = torch.softmax(torch.tensor([[0.3]]) - 0.5 * torch.tensor([[7.0]]), -1)
    return Outcome(
        judge(not any(gains) or float(with_bias) != 1.0, "cannot be both"),
        f"gains of {told('{1:+}', rows)} points by distances in the scores of one token",
        f"a softmax over one score is {float(with_bias):g} whatever is added to it, so with one "
        f"set of seeds the gain is 0; {sum(map(bool, gains))} of {len(gains)} printed are not. It "
        f"takes {', '.join(f'{ratio:.1f}' for ratio in times)} times as long",
        {"gains": [float(gain) for gain in gains], "time_ratio": [float(r) for r in times]},
    )


@check("tab:efficiency")
def spdnet_size(paper: Paper) -> Outcome:
    """SPDNet has bilinear maps."""
    d, classes = map(int, paper.numbers("datasets", "BCI2a", "Channels", "Classes"))
    printed = paper.cell("efficiency", "SPDNet", "Params").number
    flops = paper.cell("efficiency", "SPDNet", "FLOPs").amount
    linear = (d * (d + 1) // 2 + 1) * classes
    batch = 32 * (linear - classes)
    return Outcome(
        "is something else" if printed == linear else "undecided",
        f"SPDNet: {printed:,} parameters, {flops:,} FLOPs",
        f"logarithm and a linear layer: ({d} x {d + 1} / 2 + 1) x {classes} = {linear:,}, so "
        f"{printed - linear:,} are left for bilinear maps; its multiply-adds for 32 trials are "
        f"{batch:,}",
        {"without_bilinear_maps": linear, "multiply_adds_of_32": batch},
    )


def count(module: nn.Module) -> int:
    """Parameters of a network."""
    return sum(parameter.numel() for parameter in module.parameters())


def _raw_shape(paper: Paper) -> tuple[int, int, int, float]:
    channels, classes, hz = paper.numbers("datasets", "BCI2a", "Channels", "Classes", "Sampling")
    return int(channels), int(classes), int(paper.text("crop").numbers[2]), float(hz)


def _published(paper: Paper, name: str, published: int, wide: int, arithmetic: str) -> Outcome:
    """A network of others: as published, or wider."""
    printed = int(paper.cell("efficiency", name, "Params").number)
    return Outcome(
        judge(printed == published, "is something else" if printed == wide else "undecided"),
        f"{name}: {printed:,} parameters",
        arithmetic.format(published=published, wide=wide),
        {"published": published, "wide": wide},
    )


@check("tab:efficiency")
def eegnet_size(paper: Paper) -> Outcome:
    """EEGNet has its published shape."""
    shape = _raw_shape(paper)
    wide = count(EEGNet(*shape, n_filters=16, n_separable=32, kernel_length=65))
    shown = (
        "F1 = 8, F2 = 16, kernel 64 as published: {published:,}; F1 = 16, F2 = 32, kernel 65: "
        f"{{wide:,}} ({shape[2]} samples)"
    )
    return _published(paper, "EEGNet", count(EEGNet(*shape)), wide, shown)


@check("tab:efficiency")
def atcnet_size(paper: Paper) -> Outcome:
    """ATCNet has its published shape."""
    net = ATCNet(*_raw_shape(paper))
    blocks = [module for module in net.modules() if isinstance(module, MultiHead)]
    width = blocks[0].query.in_features
    full, norm = count(MultiHead(width, width, 2, scale=1.0, dropout=0.0)), 2 * width
    wide = count(net) + len(blocks) * (full - count(blocks[0]) - norm)
    shown = (
        "two heads of 8 as published: {published:,}; attention as wide as its input "
        f"({width}) and no layer norm before it: {{wide:,}}"
    )
    return _published(paper, "ATCNet", count(net), wide, shown)


@check("tab:efficiency")
def flops(paper: Paper) -> Outcome:
    """They are two per multiply-add, for one trial."""
    shape = Shape.of(paper, "BCI2a")
    printed = paper.cell("efficiency", OURS[1], "FLOPs")
    step = half_step(printed.number) * 10**6
    norms = 2 * shape.layers * shape.width
    batch, trial = 32 * (shape.linear + 4 * norms), 2 * shape.linear
    of_batch = abs(batch - printed.amount) <= step
    return Outcome(
        judge(
            abs(trial - printed.amount) <= step,
            "is something else" if of_batch else "does not hold",
        ),
        f"{printed.text} FLOPs",
        f"32 trials x ({shape.linear:,} multiply-adds + 4 for each of {norms:,} normalised "
        f"entries) = {batch / 1e6:.2f} M; one trial takes {trial / 1e6:.2f} MFLOP",
        {"multiply_adds": shape.linear, "batch_of_32": batch, "flops_of_one": trial},
    )


@check("tab:efficiency")
def model_size(paper: Paper) -> Outcome:
    """A model takes four bytes per parameter, and few buffers."""
    computed, off = {}, {}
    for row in paper.table("efficiency").names:
        size, parameters = paper.numbers("efficiency", row, "Size", "Params")
        computed[row] = 4 * int(parameters) / 2**20
        off[row] = float(size) - computed[row]
    # Buffers of batch norm weigh little: what the other models have beyond their parameters.
    others = max(abs(gap) for row, gap in off.items() if row not in OURS)
    ours = computed[OURS[0]]
    return Outcome(
        judge(abs(off[OURS[0]]) <= max(others, 0.02)),
        f"{ours + off[OURS[0]]:.2f} MB for our models",
        f"4 bytes a parameter: {ours:.2f} MiB ({ours * 2**20 / 1e6:.2f} MB), "
        f"printed {off[OURS[0]]:+.2f}; the other models are printed within {others:.2f} MB",
        {"mebibytes": computed},
    )


def _within(numerator: float, divisors: tuple[Decimal, ...], printed: Decimal) -> bool:
    """Whether a quotient of rounded numbers can be printed so."""
    low = high = numerator
    for value in divisors:
        low /= float(value + half_step(value))
        high /= max(float(value - half_step(value)), 1e-9)
    slack = float(half_step(printed))
    return low - slack <= float(printed) <= high + slack


@check("tab:efficiency")
def efficiency_score(paper: Paper) -> Outcome:
    """Scores follow the printed formula."""
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
    return Outcome(
        judge(as_said == len(names), other),
        "score = 1000 / (parameters x size x forward time)",
        f"{as_said} of {len(names)} scores follow it (BWSPD: {computed[OURS[1]]:.5f}); "
        f"{without_size} are 10^6 / (parameters x forward time), without the size",
        {"as_printed": as_said, "without_size": without_size, "computed": computed},
    )


@check("app:ablation")
def raw_flops(paper: Paper) -> Outcome:
    """That is the mean of the five raw-signal models."""
    names = ("EEGNet", "ShallowNet", "ATCNet", "DeepNet", "EEG-Conformer")
    giga = [paper.cell("efficiency", row, "FLOPs").amount / 10**9 for row in names]
    mean, smaller = float(sum(giga)) / len(giga), float(sum(giga[:4])) / 4
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


@check("app:datasets; app:theoretical")
def dimensions(paper: Paper) -> Outcome:
    """Entries, pairs and samples follow from channels and crop."""
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
        f"tokens of {told('{1}', tokens)} entries; {said.text.replace(' ', ' and ')} pairs of "
        f"eigenvalues; {samples} samples",
        f"d (d + 1) / 2: {told('{1}', found)}; d (d - 1) / 2: "
        f"{pairs[0]} and {pairs[1]}; {beyond} - {first} = {beyond - first}",
        {"tokens": found, "pairs": pairs},
    )


# Runs, bold type, bands, chance, and one configuration in many tables


@check("abstract; sec:experiments")
def runs(paper: Paper) -> Outcome:
    """Parts multiply and add up."""
    parts = [int(paper.text(f"runs-{k}").number) for k in ("subject", "loso", "cross", "ablation")]
    factors = (paper.text(f"runs-{key}-factors").numbers for key in ("subject", "loso"))
    products = [math.prod(map(int, numbers)) for numbers in factors]
    said = int(paper.text("abstract-runs").number)
    return Outcome(
        judge(products == parts[:2] and sum(parts) >= said),
        f"more than {said:,} runs: {' + '.join(map(str, parts))}",
        f"products {products[0]} and {products[1]}; sum {sum(parts):,}",
        {"sum": sum(parts), "products": products},
    )


@check("sec:experiments; tab:all_subjects_comparison")
def runs_within_subjects(paper: Paper) -> Outcome:
    """They are enough for the tables."""
    subjects, in_bands = (
        sum(int(cell.number) for cell in paper.table(name).column("Subjects"))
        for name in ("all-subjects", "multiband")
    )
    needed, bands = subjects * 5 * 3, in_bands * 5
    said = int(paper.text("runs-subject").number)
    return Outcome(
        judge(said >= needed + bands, "cannot be both"),
        f"{said} runs within subjects",
        f"the main table takes {subjects} subjects x 5 seeds x 3 embeddings = {needed}, and three "
        f"bands {bands} more",
        {"main_table": needed, "three_bands": bands},
    )


@check("tab:all_subjects_comparison; tab:geometry_ablation; tab:sota_comparison")
def bold_best(paper: Paper) -> Outcome:
    """Bold is the largest mean."""
    main = paper.table("all-subjects")
    looked: dict[str, dict[str, Cell]] = {
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
            wrong.append(
                f"{where}: {', '.join(sorted(k for k, cell in cells.items() if cell.bold))}"
            )
    n = len(looked)
    return Outcome(
        judge(not wrong),
        f"the best value in bold in {n} rows and columns of five tables",
        f"{n - len(wrong)} of {n} are" + "".join(f"; {w}" for w in wrong),
        {"looked_at": n, "wrong": len(wrong)},
    )


@check("sec:experiments")
def band_names(paper: Paper) -> Outcome:
    """Bands have their conventional names."""
    edges = [int(n) for n in paper.text("bands").numbers]
    rows = {}
    for name, low, high in zip(("mu", "beta", "gamma"), edges[::2], edges[1::2], strict=True):
        rows[name] = (low, high, CONVENTION.get((low, high), "none"))
    return Outcome(
        judge(all(row[2].startswith(name) for name, row in rows.items()), "is something else"),
        told("{} {}-{} Hz", rows),
        "by convention " + told("{1}-{2} Hz is {3}", rows),
        {"convention": {name: usual for name, (_, _, usual) in rows.items()}},
    )


@check("app:per_subject_baseline")
def near_chance(paper: Paper) -> Outcome:
    """Guesses reach it."""
    low, high = (int(n) for n in paper.text("near-chance-mamem").numbers)
    classes = int(paper.cell("datasets", "MAMEM", "Classes").number)
    n = SPLITS[2].test[0]
    right = round(low / 100 * n)
    p = float(stats.binom.sf(right - 1, n, 1 / classes))
    return Outcome(
        judge(p > 0.05),
        f"{low}-{high} % on MAMEM is near chance",
        f"chance with {classes} classes is {100 / classes:.0f} %; {right} or more of {n} test "
        f"trials by chance: p = {p:.1g}",
        {"chance": 1 / classes, "p": p},
    )


@check("app:ablation")
def raw_gain(paper: Paper) -> Outcome:
    """One comparison has one gain."""
    first, second = paper.text("raw-gain-summary"), paper.text("raw-gain")
    spd = paper.text("raw-spd").number
    low, high = paper.text("raw-range").numbers
    return Outcome(
        judge(first.numbers == second.numbers, "cannot be both"),
        f"SPD tokens gain {first.text} points over raw signals, and {second.text} in another place",
        f"{spd} - {high} = {spd - high}, {spd} - {low} = {spd - low}",
        {"least": float(spd - high), "most": float(spd - low)},
    )


def _standard_network(paper: Paper, epochs: int, places: Iterable[tuple[str, ...]]) -> Outcome:
    """Of two tables: the cells of a subject are at a row, or at a column, of that name."""
    shown, differ = [], False
    for split in SPLITS:
        values = {}
        for name, key in places:
            table = paper.table(name)
            if key in table.columns:
                row = next(r for r in table.names if r.startswith(split.data))
                values[name] = table.cell(row, key).text
            elif split.subject in table.columns:
                values[name] = table.cell(key, split.subject).text
        differ |= len(set(values.values())) > 1
        if len(values) > 1:
            shown.append(f"{split.subject}: {told('{1} ({0})', values)}")
    return Outcome(
        judge(not differ, "cannot be both"),
        f"the standard network, five fixed seeds and {epochs} epochs, in 2 tables",
        "; ".join(shown),
        {},
    )


@check("tab:geometry_ablation; tab:geometric_attention_ablation")
def standard_network_50(paper: Paper) -> Outcome:
    """The same configuration and seeds give the same values."""
    places = (("geometry", "BWSPD"), ("geometric-attention", "Standard"))
    return _standard_network(paper, 50, places)


@check("tab:structure_ablation_depth; tab:structure_ablation_heads")
def standard_network_100(paper: Paper) -> Outcome:
    """The same configuration and seeds give the same values."""
    return _standard_network(paper, 100, (("depth", "Depth 6 (std)"), ("heads", "8 Heads (std)")))


@check("sec:experiments; tab:sota_comparison")
def legacy_configuration(paper: Paper) -> Outcome:
    """Other seeds give other values."""
    names = {"Log-Euc": "Log-Euclidean", "BWSPD-Transformer": "BWSPD"}
    pairs = [
        (
            paper.cell("baselines", ours, split.subject).text,
            paper.cell("geometry", theirs, split.subject).text,
        )
        for split in SPLITS
        for ours, theirs in names.items()
    ]
    n, same = len(pairs), sum(a == b for a, b in pairs)
    return Outcome(
        judge(not same, "cannot be both"),
        "a table of other seeds and hyperparameters (sec:experiments) that has the standard ones "
        "(its caption)",
        f"{same} of {n} of its values are those of the standard configuration, to the last digit",
        {"same": same, "of": n},
    )


@check("sec:experiments; app:ablation")
def official_split(paper: Paper) -> Outcome:
    """It trains on a whole session."""
    trained = int(paper.cell("datasets", "BCI2a", "Training trials").number)
    official = SPLITS[0].test[0]  # both sessions have as many trials
    return Outcome(
        judge(trained == official, "cannot be both"),
        f"the official split of BCI2a, nothing split further; about {trained} training trials",
        f"the official training session has {official} trials; {trained} are "
        f"{trained / official:.3f} of them (7/8 = 0.875)",
        {"official": official, "stated": trained},
    )


# Formulas that the method rests on, as the theory finds them


def formula_check(name: str) -> Check:
    """A claim of the theory as a check of the audit."""
    source = next(claim.source for claim in theory.CLAIMS if claim.id == name)

    def test(_: Paper) -> Outcome:
        claim = next(claim for claim in theory.CLAIMS if claim.id == name)
        found = claim.check(0)
        verdict = judge(found["verdict"] == "holds", FORMULAS[name])
        shown = found["evidence"]
        if verdict != "holds":
            shown += f". Smallest: {found['counterexample']}" * bool(found["counterexample"])
            shown += f". Instead: {found['instead']}" * bool(found["instead"])
        return Outcome(verdict, claim.claim, shown, found["numbers"])

    return Check(name, source, "The formula is right as printed (spdtokens theory).", test)


CHECKS.extend(map(formula_check, FORMULAS))
