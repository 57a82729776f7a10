"""The paper's two tables that are not of accuracies: what models cost, and the theory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from spdtokens._files import written_whole
from spdtokens.evaluation.runs import origin
from spdtokens.paper.tables import paper_table
from spdtokens.reporting.tables import Cell, Table, to_latex, to_markdown

#: Name, title and the paper's label.
SIDES = {
    "efficiency": ("Computational efficiency", "tab:efficiency"),
    "theory": ("Theory, tested numerically", "tab:theory_comparison"),
}
#: The paper's models by our names, in its order.
MODELS = {
    "spdnet-paper": "SPDNet",
    "eegnet": "EEGNet",
    "shallownet": "ShallowNet",
    "atcnet": "ATCNet",
    "deepnet": "DeepNet",
    "token-log-euclidean": "Log-Euc (Ours)",
    "token-bures-wasserstein": "BWSPD-Transformer (Ours)",
    "eeg-conformer": "EEG-Conformer",
}
#: Header, our key, how it is written, what one printed unit is, and the paper's column.
_COSTS = (
    ("parameters", "parameters", ",.0f", 1.0, "Params"),
    ("MB", "size_megabytes", ".2f", 1.0, "Size"),
    ("forward ms", "forward_milliseconds", ".2f", 1.0, "Forward"),
    ("backward ms", "backward_milliseconds", ".2f", 1.0, "Backward"),
    ("MFLOP", "flops_per_trial", ",.2f", 1e6, "FLOPs"),
    ("training MB", "training_megabytes", ".1f", 1.0, "GPU"),
    ("efficiency", "paper_efficiency", ".3g", 1.0, "Efficiency"),
)
_VERDICTS = ("holds", "corrected", "fails")


def efficiency_table(rows: Sequence[Mapping[str, Any]], batch: int) -> Table:
    """What every method costs, the paper's value behind ours.

    Parameters
    ----------
    rows : sequence of mapping
        As :func:`spdtokens.bench.methods.bench_methods` gives them.
    batch : int
        Trials of a timed pass.
    """
    by_name = {row["name"]: row for row in rows}
    names = [name for name in MODELS if name in by_name]
    names += [name for name in by_name if name not in MODELS]
    found = [
        [Cell(name), *(_cost_cell(by_name[name], *cost[1:]) for cost in _COSTS)] for name in names
    ]
    return Table(
        "efficiency",
        SIDES["efficiency"][0],
        ("method", *(cost[0] for cost in _COSTS)),
        found,
        note=f"Cells: ours / the paper's. Ours at the shape of BCI2a on this machine's processor, "
        f"{batch} trials a pass; the paper's on an RTX 3090, its number of trials not said. Our "
        "operations are those of one trial, without eigendecompositions; our memory for training "
        "is weights, gradients, Adam's moments and activations. Efficiency: 1000 / (parameters x "
        "MB x ms of the forward pass).",
    )


def _cost_cell(row: Mapping[str, Any], key: str, form: str, unit: float, column: str) -> Cell:
    """Ours and the paper's; sorted by ours."""
    value = row[key]
    ours = "-" if value is None else format(value / unit, form)
    printed = "-"
    if row["name"] in MODELS:
        cell = paper_table("efficiency").cell(MODELS[row["name"]], column)
        printed = f"{float(cell.amount) / unit:{form}}" if unit != 1.0 else cell.text
    return Cell(f"{ours} / {printed}", float("nan") if value is None else float(value))


def theory_tables(findings: Sequence[Mapping[str, Any]]) -> list[Table]:
    """The paper's table of properties with what we measured, and every claim with its verdict."""
    counts = Counter(finding["verdict"] for finding in findings)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    claims = [
        [
            Cell(finding["id"]),
            Cell(finding["verdict"], mark="" if finding["verdict"] == "holds" else "best"),
            Cell(finding["claim"]),
            Cell(_ours(finding)),
            Cell(finding["source"]),
        ]
        for finding in findings
    ]
    headers = ("claim", "verdict", "the paper", "ours", "where")
    return [
        _properties({finding["id"]: finding["numbers"] for finding in findings}),
        Table("theory-claims", "Claims of the theory", headers, claims, f"{len(claims)}: {told}."),
    ]


def _ours(finding: Mapping[str, Any]) -> str:
    text = str(finding["evidence"])
    if finding["verdict"] != "holds":
        for label, key in (("Counter-example", "counterexample"), ("True instead", "instead")):
            text += f". {label}: {finding[key]}" if finding[key] else ""
    return text + "."


def _properties(numbers: Mapping[str, Mapping[str, Any]]) -> Table:
    """``tab:theory_comparison``, a measured number before each printed word."""
    embeddings = {
        "BWSPD": ("bures_wasserstein", "sqrt"),
        "Log-Euclidean": ("log_euclidean", "log"),
        "Euclidean": ("euclidean", "identity"),
    }
    measured = {
        "Injective": lambda name, _f: (
            f"round trip off by {numbers['table-injective']['round_trip_error'][name]:.0e}"
        ),
        "Bi-Lipschitz (commuting)": lambda name, _f: "{:.2f} to {:.2f} of its own distance".format(
            *numbers["table-bilipschitz"]["own"][name]
        ),
        "K-matrix condition": lambda _n, f: (
            f"{numbers['table-k-condition']['entry_ratio'][f]['10000']:.4g} at kappa = 10000"
        ),
        "Gradient bound": lambda _n, f: (
            f"lambda_min to the {_power(numbers['table-gradient-bound']['exponent'][f])}"
        ),
        "Numerical stability": lambda _n, _f: "see stability-clustered",
        "Manifold distance": lambda name, _f: (
            f"off by {numbers['table-distance']['max_relative_difference'][name]:.1g}"
        ),
    }
    paper = paper_table("theory")
    rows = [
        [
            Cell(row),
            *(
                Cell(f"{tell(*embeddings[column])} / {paper.cell(row, column).text}")
                for column in embeddings
            ),
        ]
        for row, tell in measured.items()
    ]
    return Table(
        "theory",
        "Properties of the three embeddings",
        ("property", *embeddings),
        rows,
        note="Cells: measured / the paper's word. Distances of isometric tokens against each "
        "embedding's own distance.",
    )


def _power(exponent: float) -> str:
    return f"{round(exponent, 2) + 0:.2f}"  # plus zero: -0.00 is 0.00


def side_tables(name: str, content: Mapping[str, Any]) -> list[Table]:
    """Tables of what was written to ``NAME.json``."""
    if name == "efficiency":
        return [efficiency_table(content["methods"], content["batch"])]
    return theory_tables(content["claims"])


def side_content(name: str, command: str, **data: Any) -> dict[str, Any]:
    """What ``NAME.json`` has: the measurements and where they come from."""
    title, label = SIDES[name]
    about = {"name": name, "title": title, "label": label, "command": command}
    return about | {"origin": origin()} | data


def write_side(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the tables of one as Markdown, LaTeX and JSON."""
    name = content["name"]
    tables = side_tables(name, content)
    texts = {
        ".md": "\n".join(map(to_markdown, tables)),
        ".tex": "\n".join(map(to_latex, tables)),
        ".json": json.dumps(content, indent=2) + "\n",
    }
    written = [folder / f"{name}{suffix}" for suffix in texts]
    for path, text in zip(written, texts.values(), strict=True):
        with written_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


def rich_side(table: Table) -> RichTable:
    """For a terminal: where a cell has two values, one below the other."""
    found = RichTable(title=table.title, caption=table.note, box=box.SIMPLE, show_lines=True)
    for header, numeric in zip(table.headers, table.numeric, strict=True):
        found.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        found.add_row(*(escape(cell.text.replace(" / ", "\n")) for cell in row))
    return found
