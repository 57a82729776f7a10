"""Reproduced tables: as a table for every medium, as files, and read again from a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdtokens import _tables
from spdtokens._files import written_whole
from spdtokens.errors import ReportError
from spdtokens.evaluation.runs import RunResult, code_digest, origin
from spdtokens.experiments.store import RunStore
from spdtokens.paper.findings import claim_evidence, tally
from spdtokens.paper.reproduce.experiments import EXPERIMENTS
from spdtokens.paper.reproduce.figures import FIGURES, Drawn, read_drawn
from spdtokens.paper.reproduce.scores import ScoreTable, file_stem
from spdtokens.paper.tables import paper_table
from spdtokens.reporting.tables import (
    MINUS,
    NAN,
    Cell,
    Table,
    number_text,
    score_text,
    to_latex,
    to_markdown,
)

if TYPE_CHECKING:
    from rich.table import Table as RichTable

STORE = "runs.sqlite"
#: Titles of the tables without accuracies.
MEASURED = {
    "efficiency": "Computational efficiency",
    "theory": "Theory, tested numerically",
}
#: Names of all tables and figures, in the order of ``--list``.
NAMES = (*EXPERIMENTS, *MEASURED, *FIGURES)


# Accuracies


percent = partial(score_text, metric="accuracy")


def difference(value: float) -> str:
    """Return a difference of scores in percent, with its sign."""
    return ("+" if value > 0 else "") + percent(value)


#: Header of the paper's values.
PAPER = "paper, real data"
#: Columns of a table of accuracies, made from a row of :attr:`ScoreTable.frame`.
COLUMNS: dict[str, Callable[[Any], Cell]] = {
    "row": lambda cell: Cell(cell.row),
    "column": lambda cell: Cell(cell.column),
    "train": lambda cell: Cell(percent(cell.train), cell.train),
    "test": lambda cell: Cell(percent(cell.test), cell.test),
    "±": lambda cell: Cell(percent(cell.std), cell.std),
    f"train {MINUS} test": lambda cell: Cell(difference(cell.gap), cell.gap),
    PAPER: lambda cell: Cell(cell.reported.replace("+-", "±") or "-", cell.printed),
    "nearer to": lambda cell: Cell(cell.nearer or "-"),
    "runs": lambda cell: Cell(str(cell.n_runs), cell.n_runs),
}
#: Columns that fit a terminal.
IN_TERMINAL = ("row", "column", "train", "test", "±", PAPER)


#: Headers of the scores of the paper's split.
PAPER_SPLIT = ("train, paper's split", "test, paper's split")


def score_table(
    found: ScoreTable,
    columns: Sequence[str] = tuple(COLUMNS),
    paper_split: ScoreTable | None = None,
) -> Table:
    """Make a table with one row per cell: train and test score, and what the paper reports.

    Parameters
    ----------
    found : ScoreTable
        The scores.
    columns : sequence of str
        Names of :data:`COLUMNS`; all are shown if there are two splits.
    paper_split : ScoreTable, optional
        Scores of the same cells with the paper's split, for two further columns.
    """
    rows = [{n: make(cell) for n, make in COLUMNS.items()} for cell in found.frame.itertuples()]
    note = ["Accuracy in %.", found.extent.note, found.note]
    if paper_split is not None:
        # What is compared comes first, where it can be seen without scrolling.
        columns = ["row", "column", "train", "test", *PAPER_SPLIT, PAPER]
        columns += [name for name in COLUMNS if name not in columns]
        there = paper_split.cells.set_index(["row", "column"])[["train", "test"]]
        places = [tuple(place) for place in found.cells[["row", "column"]].to_numpy()]
        for row, scores in zip(rows, there.reindex(places).to_numpy(), strict=True):
            row |= {n: Cell(percent(s), s) for n, s in zip(PAPER_SPLIT, scores, strict=True)}
        if replace(paper_split.extent, split=found.extent.split) != found.extent:
            note.append(f"Paper's split: {paper_split.extent.note}")
    note += [protocol_note(t) for t in (found, paper_split) if t and t.has_paper_split]
    shown = [[row[name] for name in columns] for row in rows]
    text = " ".join(filter(None, note))
    return Table(found.stem, found.heading, tuple(columns), shown, text)


def protocol_note(found: ScoreTable) -> str:
    """Name the protocols of a table of the paper's split."""
    protocols = ", ".join(found.cells["protocol"].unique())
    return (
        f"The paper's split is our reading of the paper, as the protocol {protocols}; its scores "
        "are leaky where segments of one trial are on both sides."
    )


def derived_tables(found: ScoreTable, paper_split: ScoreTable | None = None) -> list[Table]:
    """Make the table of the other columns of the paper's table; none if there is nothing to show.

    Parameters
    ----------
    found : ScoreTable
        The scores.
    paper_split : ScoreTable, optional
        Scores with the paper's split, for two further columns.
    """
    derived = found.derived
    if not derived:
        return []
    headers = ["row", "column", "ours (train)", "ours (test)"]
    others = {}
    if paper_split is not None:
        headers += PAPER_SPLIT
        others = {(each.row, each.column): each for each in paper_split.derived}
    rows = []
    for each in derived:
        texts = [each.row, each.column, each.text("train"), each.text("test")]
        if paper_split is not None:
            other = others.get((each.row, each.column))
            texts += [other.text(part) if other else "-" for part in ("train", "test")]
        rows.append([Cell(text) for text in [*texts, each.printed or "-"]])
    words = {word for each in derived for word in (each.kind, *each.column.split())}
    note = " ".join(text for word, text in _EXPLAINED.items() if word in words)
    title = "Other columns of the paper's table"
    heading = f"{found.heading}: {title[:1].lower()}{title[1:]}"
    return [Table(f"{found.stem}-other", heading, (*headers, "paper"), rows, note, title)]


#: Notes of derived values, by a word of their kind or column.
_EXPLAINED = {
    "accuracy": "Accuracy in %.",
    "points": "Differences in points of accuracy.",
    "Best": "Best seed, accuracy in %; in brackets, how many seeds reach it.",
    "[min-max]": "Worst and best fold, averaged over seeds, accuracy in %; in brackets, the test "
    "subject.",
    "range": "Range: accuracy in %; in brackets, the subject.",
    "Std": "Standard deviations are over runs (subjects and seeds), and over the means of the "
    "subjects.",
    "p": "p: paired t-test, over seeds unless stated; - if the differences are constant.",
    "Params": "Params: all trained parameters, on BCI2a.",
    "Time/Epoch": "Our Time/Epoch is on BCI2a.",
    "seconds": "Our times are measured on the CPU, include preparation and prediction, and are "
    "shared equally by runs trained together.",
}


def wide_table(found: ScoreTable) -> Table:
    """Make a table laid out as in the paper, with cells ``train / test ± std / paper``."""
    rows, columns = (found.cells[key].unique() for key in ("row", "column"))
    texts = {
        (cell.row, cell.column): " / ".join(
            (
                percent(cell.train),
                percent(cell.test) + (f" ± {percent(cell.std)}" if cell.std == cell.std else ""),
                cell.reported.replace("+-", "±") or "-",
            )
        )
        for cell in found.cells.itertuples()
    }
    cells = [[Cell(row), *(Cell(texts.get((row, c), "")) for c in columns)] for row in rows]
    label = f"The paper's {found.label}." if found.label else ""
    said = f"Cells: train / test / {PAPER}; accuracy in %, ± over subjects or seeds."
    split = protocol_note(found) if found.has_paper_split else ""
    note = " ".join(filter(None, (label, found.extent.note, found.note, said, split)))
    return Table(found.stem, found.heading, ("", *columns), cells, note)


# Efficiency and theory

#: The paper's models by our names, in the paper's order.
MODELS = {
    "spdnet-paper": "SPDNet",
    "eegnet-paper": "EEGNet",
    "shallownet": "ShallowNet",
    "atcnet-paper": "ATCNet",
    "deepnet": "DeepNet",
    "token-log-euclidean": "Log-Euc (Ours)",
    "token-bures-wasserstein": "BWSPD-Transformer (Ours)",
    "eeg-conformer": "EEG-Conformer",
}
#: Header, our key, format, unit, and the paper's column.
_COSTS = (
    ("parameters", "parameters", ",.0f", 1.0, "Params"),
    ("MB", "size_megabytes", ".2f", 1.0, "Size"),
    ("forward ms", "forward_milliseconds", ".2f", 1.0, "Forward"),
    ("backward ms", "backward_milliseconds", ".2f", 1.0, "Backward"),
    ("MFLOP", "flops_per_trial", ",.2f", 1e6, "FLOPs"),
    ("training MB", "training_megabytes", ".1f", 1.0, "GPU"),
    ("efficiency", "paper_efficiency", ".3g", 1.0, "Efficiency"),
)


def efficiency_table(rows: Sequence[Mapping[str, Any]], batch: int) -> Table:
    """Make a table of the cost of every method, with the paper's value after ours.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :func:`spdtokens.bench.methods.bench_methods`.
    batch : int
        Number of trials of a timed pass.
    """
    order = [*MODELS, *(row["name"] for row in rows if row["name"] not in MODELS)]
    return Table(
        "efficiency",
        MEASURED["efficiency"],
        ("method", *(cost[0] for cost in _COSTS)),
        [
            [Cell(row["name"]), *(_cost_cell(row, *cost[1:]) for cost in _COSTS)]
            for row in sorted(rows, key=lambda row: order.index(row["name"]))
        ],
        note=f"Cells: ours / the paper's. Ours were measured with trials of the size of BCI2a on "
        f"the CPU of this machine, {batch} trials per pass; the paper's on an RTX 3090 with an "
        "unknown batch size. Our FLOPs are for one trial, without eigendecompositions; our "
        "training memory is weights, gradients, Adam's moments and activations. Efficiency: 1000 / "
        "(parameters x MB x ms of the forward pass).",
    )


def _cost_cell(row: Mapping[str, Any], key: str, form: str, unit: float, column: str) -> Cell:
    """Make a cell with our and the paper's value, sorted by ours."""
    value = row[key]
    ours = "-" if value is None else format(value / unit, form)
    printed = "-"
    if row["name"] in MODELS:
        cell = paper_table("efficiency").cell(MODELS[row["name"]], column)
        printed = f"{float(cell.amount) / unit:{form}}" if unit != 1.0 else cell.text
    return Cell(f"{ours} / {printed}", NAN if value is None else float(value))


def attention_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of the cost of geometric attention, with the paper's ratio after ours.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of :func:`spdtokens.bench.attention.bench_attention`.
    """
    cells = []
    for row in rows:
        times = [Cell(f"{value:.3g}", value) for value in row["milliseconds"].values()]
        ratios = [Cell(f"{value:.2f}", value) for value in row["ratio"].values()]
        printed = row["printed_ratio"] or NAN
        sizes = [Cell(str(row[key]), row[key]) for key in ("channels", "tokens")]
        cells.append([*sizes, *times, *ratios, Cell(number_text(printed, ".1f"), printed)])
    return Table(
        "attention-cost",
        "Cost of geometric attention",
        ("channels", "tokens", "standard", "once", "every block", "once / standard",
         "every block / standard", "paper"),
        cells,
        note="Milliseconds of a training step on one core of this machine, with the network and "
        "batch size of the paper. Distances are computed once before training, as we do, or in "
        "every block and step, as the paper does. The paper's ratio is of times on a GPU.",
    )  # fmt: skip


def theory_tables(findings: Sequence[dict[str, Any]]) -> list[Table]:
    """Make the paper's table of properties with measured values, and a table of all claims."""
    claims = []
    for found in findings:
        mark = "" if found["verdict"] == "holds" else "best"
        texts = (found["claim"], f"{claim_evidence(found)}.", found["source"])
        claims.append([Cell(found["id"]), Cell(found["verdict"], mark=mark), *map(Cell, texts)])
    headers = ("claim", "verdict", "the paper", "ours", "where")
    note = f"{len(claims)}: {tally(findings)}."
    return [
        _properties({found["id"]: found["numbers"] for found in findings}),
        Table("theory-claims", "Claims of the theory", headers, claims, note),
    ]


def _properties(numbers: Mapping[str, Mapping[str, Any]]) -> Table:
    """Make ``tab:theory_comparison`` with a measured value before each of the paper's."""
    functions = {"BWSPD": "sqrt", "Log-Euclidean": "log", "Euclidean": "identity"}
    names = ("bures_wasserstein", "log_euclidean", "euclidean")
    paper = paper_table("theory")
    cells: dict[str, list[Cell]] = {row: [Cell(row)] for row in paper.names}
    for (column, f), name in zip(functions.items(), names, strict=True):
        low, high = numbers["table-bilipschitz"]["own"][name]
        entries = numbers["table-k-condition"]["entry_ratio"][f]["10000"]
        power = round(numbers["table-gradient-bound"]["exponent"][f], 2) + 0  # no -0.00
        off = numbers["table-distance"]["max_relative_difference"][name]
        measured = (
            f"round trip off by {numbers['table-injective']['round_trip_error'][name]:.0e}",
            f"{low:.2f} to {high:.2f} of its own distance",
            f"{entries:.4g} at kappa = 10000",
            f"lambda_min to the {power:.2f}",
            "see stability-clustered",
            f"off by {off:.1g}",
        )
        for row, text in zip(cells, measured, strict=True):
            cells[row].append(Cell(f"{text} / {paper.cell(row, column).text}"))
    return Table(
        "theory",
        "Properties of the three embeddings",
        ("property", *functions),
        list(cells.values()),
        note="Cells: measured / paper. Distances of isometric tokens are compared with the "
        "distance of the same geometry.",
    )


def measured_tables(content: Mapping[str, Any]) -> list[Table]:
    """Make the tables of the content of ``efficiency.json`` or ``theory.json``."""
    if content["name"] == "efficiency":
        costs = efficiency_table(content["methods"], content["batch"])
        return [costs, attention_table(content["attention"])]
    return theory_tables(content["claims"])


def measured_content(name: str, command: str, **data: Any) -> dict[str, Any]:
    """Return the content of ``NAME.json``: measurements, command and origin."""
    label = paper_table(name).label
    about = {"name": name, "title": MEASURED[name], "label": label, "command": command}
    return about | {"origin": origin()} | data


# In a terminal and in files


def in_terminal(found: Table) -> RichTable:
    """Make a table for the terminal; two values of a cell are on two lines."""
    rows, last = [], ""
    for row in found.rows:
        texts = [cell.text.replace(" / ", "\n") for cell in row]
        rows.append(["" if texts[0] == last else texts[0], *texts[1:]])
        last = texts[0]
    headers = [
        f">{name}" if numeric else f"{name}~"
        for name, numeric in zip(found.headers, found.numeric, strict=True)
    ]
    lines = any("\n" in text for row in rows for text in row)
    made = _tables.table(headers, rows, found.title, found.note, show_lines=lines)
    for column in made.columns:
        column.overflow = "fold"
    return made


def write_scores(found: ScoreTable, folder: Path) -> list[Path]:
    """Write a table of accuracies and its other columns as Markdown, LaTeX and JSON."""
    return write_tables([wide_table(found), *derived_tables(found)], found.to_dict(), folder)


def write_tables(tables: Sequence[Table], content: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write tables as ``NAME.md`` and ``NAME.tex``, and their content as ``NAME.json``.

    ``NAME`` is the ``file`` of the content, or its ``name``.
    """
    plain = json.dumps(content, indent=2)
    # Lists of plain values are on one line: there is one value per run.
    plain = re.sub(r"\[\n[^\[\]{}]*\n *\]", lambda found: re.sub("\n *", " ", found[0]), plain)
    texts = {
        ".md": "\n".join(map(to_markdown, tables)),
        ".tex": "\n".join(map(to_latex, tables)),
        ".json": f"{plain}\n",
    }
    written = [folder / f"{content.get('file', content['name'])}{suffix}" for suffix in texts]
    for path, text in zip(written, texts.values(), strict=True):
        with written_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


# Read


@dataclass(frozen=True)
class Folder:
    """Content of a folder that was written by ``spdtokens reproduce``.

    Attributes
    ----------
    path : Path
        The folder.
    scores : list of ScoreTable
        Tables of accuracies.
    paper_split : dict of str to ScoreTable
        Tables of accuracies with the paper's split, by name.
    measured : dict of str to dict
        Content of ``efficiency.json`` and ``theory.json``.
    figures : dict of str to Drawn
        Figures by name.
    runs : list of RunResult
        Runs of the tables.
    """

    path: Path
    scores: list[ScoreTable]
    paper_split: dict[str, ScoreTable]
    measured: dict[str, dict[str, Any]]
    figures: dict[str, Drawn]
    runs: list[RunResult]

    @property
    def shown(self) -> list[ScoreTable]:
        """Tables of accuracies with a section of their own.

        The paper's split is shown next to the one without leakage, and alone if that is missing.
        """
        names = {found.name for found in self.scores}
        alone = [found for name, found in self.paper_split.items() if name not in names]
        return [*self.scores, *alone]

    def beside(self, found: ScoreTable) -> ScoreTable | None:
        """Return the table of the paper's split to show beside another table."""
        return None if found.has_paper_split else self.paper_split.get(found.name)

    @property
    def _made(self) -> dict[str, tuple[str, str | None]]:
        """Command and code digest of each table and figure, by name."""
        return {
            **{
                found.stem: (found.command, found.code)
                for found in (*self.scores, *self.paper_split.values())
            },
            **{
                n: (found["command"], found["origin"]["code"]) for n, found in self.measured.items()
            },
            **{n: (found.command, found.origin["code"]) for n, found in self.figures.items()},
        }

    @property
    def missing(self) -> list[str]:
        """Names of missing tables and figures."""
        return [name for name in NAMES if name not in self._made]

    @property
    def commands(self) -> dict[str, str]:
        """Commands that make each table and figure, by name."""
        where = f" --out {self.path}"
        return {name: text + where if text else "" for name, (text, _) in self._made.items()}

    @property
    def foreign(self) -> list[str]:
        """Names of tables and figures that were made by another version of the code."""
        return [name for name, (_, code) in self._made.items() if code != code_digest()]


def read_folder(path: Path) -> Folder:
    """Read a folder that was written by ``spdtokens reproduce``.

    Raises
    ------
    ReportError
        If the folder has no table or figure, or one that cannot be read.
    """
    tables, measured, figures = _read(path)
    if not (tables or measured or figures):
        raise ReportError(
            f"{path} must have tables or figures of spdtokens reproduce. Run: spdtokens reproduce "
            f"all --quick --out {path}"
        )
    runs: dict[str, RunResult] = {}
    if tables and (path / STORE).exists():
        with RunStore(path / STORE) as store:
            for code in dict.fromkeys(table.code for table in tables):
                runs |= {run.spec.key: run for run in store.results(None, code)}
    scores = [table for table in tables if not table.has_paper_split]
    split = {table.name: table for table in tables if table.has_paper_split}
    return Folder(path, scores, split, measured, figures, list(runs.values()))


def check_folder(path: Path, new: Collection[str], *, paper_split: bool = False) -> None:
    """Check that the report can be made from the files of a folder.

    Parameters
    ----------
    path : Path
        The folder.
    new : collection of str
        Names of tables and figures that will be overwritten and are not checked.
    paper_split : bool
        Whether these are tables with the paper's split.
    """
    _read(path, {file_stem(n, paper_split=paper_split and n in EXPERIMENTS) for n in new})


def _read(
    path: Path, but: Collection[str] = ()
) -> tuple[list[ScoreTable], dict[str, dict[str, Any]], dict[str, Drawn]]:
    def there(stems: Iterable[str], suffix: str) -> list[Path]:
        files = [path / f"{stem}{suffix}" for stem in stems if stem not in but]
        return [file for file in files if file.exists()]

    def read(file: Path) -> Any:
        name, *split = file.stem.split(".")
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            if name in EXPERIMENTS:
                return ScoreTable.from_dict(found)
            needed = ("methods", "attention") if file.stem == "efficiency" else ("claims",)
            return found | {key: found[key] for key in ("command", "origin", *needed)}
        except (KeyError, TypeError, ValueError) as error:
            raise ReportError(
                f"{file} must be written by this version of spdtokens reproduce. Run: spdtokens "
                f"reproduce {name}{' --split paper' if split else ''} --out {file.parent}"
            ) from error

    splits = [False, True]
    stems = [file_stem(name, paper_split=split) for split in splits for name in EXPERIMENTS]
    return (
        [read(file) for file in there(stems, ".json")],
        {file.stem: read(file) for file in there(MEASURED, ".json")},
        {file.stem: read_drawn(file) for file in there(FIGURES, ".png")},
    )
