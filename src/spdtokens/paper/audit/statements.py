"""Checks of statements: runs, bold type, bands, chance, and one configuration in many tables."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from scipy import stats

from spdtokens.paper.audit.check import Check, Outcome, Paper, judge
from spdtokens.paper.audit.sizes import SPLITS

#: Conventional bands in Hz; mu is the alpha rhythm over the motor cortex.
CONVENTION = {
    "theta": (4, 8),
    "mu (alpha)": (8, 13),
    "beta": (13, 30),
    "gamma": (30, 100),
}


def _runs(paper: Paper) -> Outcome:
    parts = [int(paper.text(f"runs-{k}").number) for k in ("subject", "loso", "cross", "ablation")]
    products = []
    for key in ("subject", "loso"):
        product = 1
        for factor in paper.text(f"runs-{key}-factors").numbers:
            product *= int(factor)
        products.append(product)
    said = int(paper.text("abstract-runs").number)
    holds = products == parts[:2] and sum(parts) >= said
    return Outcome(
        judge(holds),
        f"more than {said:,} runs: {' + '.join(map(str, parts))}",
        f"products {products[0]} and {products[1]}; sum {sum(parts):,}",
        {"sum": sum(parts), "products": products},
    )


def _runs_of_table(paper: Paper) -> Outcome:
    table = paper.table("all-subjects")
    subjects = sum(int(table.cell(data, "Subjects").number) for data in table.names)
    embeddings = ("Log-Euc", "BWSPD", "Euclidean")
    needed = subjects * 5 * len(embeddings)
    bands = sum(int(paper.cell("multiband", d, "Subjects").number) for d in table.names) * 5
    said = int(paper.text("runs-subject").number)
    return Outcome(
        judge(said >= needed + bands, "cannot be both"),
        f"{said} runs within subjects",
        f"the main table takes {subjects} subjects x 5 seeds x {len(embeddings)} embeddings = "
        f"{needed}, and three bands {bands} more",
        {"main_table": needed, "three_bands": bands},
    )


def _best_in_bold(paper: Paper) -> Outcome:
    wrong, n = [], 0

    def look(name: str, cells: dict[str, tuple[Decimal, bool]]) -> None:
        nonlocal n
        n += 1
        best = max(value for value, _ in cells.values())
        bold = {key for key, (_, is_bold) in cells.items() if is_bold}
        if bold != {key for key, (value, _) in cells.items() if value == best}:
            wrong.append(f"{name}: {', '.join(sorted(bold))}")

    main = paper.table("all-subjects")
    for data in main.names:
        row = {c: main.cell(data, c) for c in main.columns[2:]}
        look(f"main table, {data}", {c: (cell.number, cell.bold) for c, cell in row.items()})
    for name, rows in (
        ("geometry", None),
        ("depth", None),
        ("heads", None),
        ("baselines", ("Log-Euc", "BWSPD-Transformer", "SPDNet")),
    ):
        table = paper.table(name)
        for column in (split.subject for split in SPLITS if split.subject in table.columns):
            cells = {row: table.cell(row, column) for row in rows or table.names}
            look(f"{name}, {column}", {r: (cell.number, cell.bold) for r, cell in cells.items()})
    return Outcome(
        judge(not wrong),
        f"the best value in bold in {n} rows and columns of five tables",
        f"{n - len(wrong)} of {n} are" + "".join(f"; {w}" for w in wrong),
        {"looked_at": n, "wrong": len(wrong)},
    )


def _bands(paper: Paper) -> Outcome:
    edges = [int(n) for n in paper.text("bands").numbers]
    named = dict(
        zip(("mu", "beta", "gamma"), zip(edges[::2], edges[1::2], strict=True), strict=True)
    )
    usual = {
        name: next((c for c, band in CONVENTION.items() if band == edge), "none")
        for name, edge in named.items()
    }
    return Outcome(
        judge(all(usual[name].startswith(name) for name in named), "is something else"),
        ", ".join(f"{name} {low}-{high} Hz" for name, (low, high) in named.items()),
        "by convention "
        + ", ".join(f"{named[n][0]}-{named[n][1]} Hz is {usual[n]}" for n in named),
        {"convention": usual},
    )


def _chance(paper: Paper) -> Outcome:
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


def _raw_gain(paper: Paper) -> Outcome:
    first, second = paper.text("raw-gain-summary"), paper.text("raw-gain")
    spd = paper.text("raw-spd").number
    low, high = paper.text("raw-range").numbers
    return Outcome(
        judge(first.numbers == second.numbers, "cannot be both"),
        f"SPD tokens gain {first.text} points over raw signals, and {second.text} in another place",
        f"{spd} - {high} = {spd - high}, {spd} - {low} = {spd - low}",
        {"least": float(spd - high), "most": float(spd - low)},
    )


def _one_configuration(paper: Paper, epochs: int) -> Outcome:
    """The standard network in the tables that were trained for so many epochs."""
    places = {
        50: (("geometry", "BWSPD"), ("geometric-attention", "Standard")),
        100: (("depth", "Depth 6 (std)"), ("heads", "8 Heads (std)")),
    }[epochs]
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
            shown.append(f"{split.subject}: " + ", ".join(f"{v} ({k})" for k, v in values.items()))
    return Outcome(
        judge(not differ, "cannot be both"),
        f"the standard network, five fixed seeds and {epochs} epochs, in {len(places)} tables",
        "; ".join(shown),
        {},
    )


def _legacy(paper: Paper) -> Outcome:
    pairs = {"Log-Euc": "Log-Euclidean", "BWSPD-Transformer": "BWSPD"}
    n, same = 0, 0
    for split in SPLITS:
        for ours, theirs in pairs.items():
            a = paper.cell("baselines", ours, split.subject).text
            n, same = n + 1, same + (a == paper.cell("geometry", theirs, split.subject).text)
    return Outcome(
        judge(not same, "cannot be both"),
        "a table of other seeds and hyperparameters (sec:experiments) that has the standard ones "
        "(its caption)",
        f"{same} of {n} of its values are those of the standard configuration, to the last digit",
        {"same": same, "of": n},
    )


def _split(paper: Paper) -> Outcome:
    trained = int(paper.cell("datasets", "BCI2a", "Training trials").number)
    official = SPLITS[0].test[0]  # both sessions have as many trials
    return Outcome(
        judge(trained == official, "cannot be both"),
        f"the official split of BCI2a, nothing split further; about {trained} training trials",
        f"the official training session has {official} trials; {trained} are "
        f"{trained / official:.3f} of them (7/8 = 0.875)",
        {"official": official, "stated": trained},
    )


CHECKS = [
    Check("runs", "abstract; sec:experiments", "Parts multiply and add up.", _runs),
    Check(
        "runs-within-subjects",
        "sec:experiments; tab:all_subjects_comparison",
        "They are enough for the tables.",
        _runs_of_table,
    ),
    Check(
        "bold-best",
        "tab:all_subjects_comparison; tab:geometry_ablation; tab:sota_comparison",
        "Bold is the largest mean.",
        _best_in_bold,
    ),
    Check("band-names", "sec:experiments", "Bands have their conventional names.", _bands),
    Check("near-chance", "app:per_subject_baseline", "Guesses reach it.", _chance),
    Check("raw-gain", "app:ablation", "One comparison has one gain.", _raw_gain),
    *(
        Check(
            f"standard-network-{epochs}",
            "tab:geometry_ablation; tab:geometric_attention_ablation"
            if epochs == 50
            else "tab:structure_ablation_depth; tab:structure_ablation_heads",
            "The same configuration and seeds give the same values.",
            partial(_one_configuration, epochs=epochs),
        )
        for epochs in (50, 100)
    ),
    Check(
        "legacy-configuration",
        "sec:experiments; tab:sota_comparison",
        "Other seeds give other values.",
        _legacy,
    ),
    Check(
        "official-split", "sec:experiments; app:ablation", "It trains on a whole session.", _split
    ),
]
