"""``spdtokens reproduce``: the paper's tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdtokens._tables import counted, table
from spdtokens.cli.app import AsJson, command, show
from spdtokens.cli.evaluate import dataset_options

if TYPE_CHECKING:
    from spdtokens.paper.reproduce import Experiment, Extent, ScoreTable


class DataKind(Enum):
    """Origin of the trials."""

    SIM = "sim"
    REAL = "real"


class SplitKind(Enum):
    """Training and test trials."""

    HONEST = "honest"
    PAPER = "paper"


Seeds = Annotated[int | None, typer.Option(min=1, max=5)]


@command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    list_: Annotated[bool, typer.Option("--list")] = False,
    data: DataKind = DataKind.SIM,
    split: SplitKind = SplitKind.HONEST,
    dataset_option: list[str] | None = None,
    quick: bool = False,
    seeds: Annotated[int, typer.Option(min=1, max=5)] = 5,
    network_seeds: Seeds = None,
    across_seeds: Seeds = None,
    dry_run: bool = False,
    stored: bool = False,
    save_models: bool = False,
    workers: Annotated[int, typer.Option(min=0)] = 0,
    out: Path = Path("reproduced"),
    any_code: bool = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce tables and figures of the paper: our train and test scores next to the paper's.

    Runs are stored in OUT/runs.sqlite, so that the same command continues after an interruption.
    OUT/report.html shows everything in OUT.

    Parameters
    ----------
    names : str
        Names of tables and figures (see --list), or all.
    list_ : bool
        List the tables and figures.
    data : str
        Simulated data (sim), or the paper's data sets where available (real).
    split : str
        Protocols without leakage (honest), or the paper's, as its numbers suggest them (paper):
        252 of 288 trials of BCI2a for training, shuffled 70/15/15 % of the others.
    dataset_option : str, default=none
        Option for loading one of the paper's data sets, such as bci2a.folder=/path, or another data
        set in its place, such as bci2a.dataset=moabb:BNCI2014_001. Can be repeated.
    quick : bool
        Use a subset: 3 subjects, 1 or 2 seeds, few epochs.
    seeds : int
        Number of seeds.
    network_seeds : int, default=seeds
        Number of seeds of networks that are trained one by one, which take most of the time.
    across_seeds : int, default=seeds
        Number of seeds of training on other subjects.
    dry_run : bool
        Print the number of runs and the projected hours per table, and do nothing else. Each method
        is timed for two epochs, which takes some minutes for all.
    stored : bool
        Make tables of the runs that are stored, for example while another process adds more.
    save_models : bool
        Also write the models of the tables subjects-... (seed 42) to OUT/models, with cards.
    out : path
        Folder to write tables, figures and runs to.
    """
    from spdtokens._files import output_folder
    from spdtokens.errors import DataError, StudyError
    from spdtokens.paper import claims
    from spdtokens.paper.reproduce import EXPERIMENTS, Extent, tables
    from spdtokens.paper.reproduce.figures import FIGURES
    from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report

    if list_ or not names:
        _print_list(as_json)
        return
    every = (*tables.NAMES, claims.NAME)
    wanted = list(every) if names == ["all"] else list(dict.fromkeys(names))
    if unknown := [name for name in wanted if name not in every]:
        known = ", ".join(every)
        raise StudyError(f"NAMES must be all or any of {known}, got {unknown[0]!r}.")
    options = tuple(dataset_options(dataset_option).items())
    extent = Extent(
        data.value, split.value, None, seeds, network_seeds, across_seeds, options=options
    )
    if quick:
        if extent != Extent(data.value, split.value, options=options):
            raise typer.BadParameter("--quick has its own numbers of seeds: give one or the other.")
        extent = replace(Extent.quick(data.value, split.value), options=options)
    if extent.split == "paper":
        if names != ["all"] and (others := [name for name in wanted if name not in EXPERIMENTS]):
            raise StudyError(f"--split paper is for tables of accuracies, not {others[0]}.")
        wanted = list(filter(EXPERIMENTS.__contains__, wanted))
    experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
    console = Console(stderr=True)
    if dry_run:
        _print_costs(experiments, extent, out / tables.STORE, any_code, as_json)
        return
    folder = output_folder(out)
    # The index needs the theory, which takes seconds.
    also = ["theory"] if claims.NAME in wanted and not (folder / "theory.json").exists() else []
    tables.check_folder(folder, [*wanted, *also], paper_split=extent.split == "paper")
    scores: list[ScoreTable] = []
    written: list[Path] = []
    if experiments:
        how = (None if stored else workers, any_code, save_models)
        scores, written = _scored(experiments, extent, folder, console, *how)
    for found in scores:
        written += tables.write_scores(found, folder)
    measured = {
        name: tables.measured_content(name, extent.command(name), **_measured(name, console))
        for name in dict.fromkeys([*wanted, *also])
        if name in tables.MEASURED
    }
    for content in measured.values():
        written += tables.write_tables(tables.measured_tables(content), content, folder)
    for name in wanted:
        if name in FIGURES:
            try:
                written.append(_drawn(name, extent, folder, console))
            except DataError as error:
                if names != ["all"]:
                    raise
                console.print(f"Left out: {name}. {error}", soft_wrap=True)
    report = folder / "report.html"
    paper = make_paper_report(folder)
    write_paper_report(paper, report)
    shown = []
    for found in scores:
        shown += [tables.score_table(found, tables.IN_TERMINAL), *tables.derived_tables(found)]
    for name, content in measured.items():
        shown += tables.measured_tables(content) if name in wanted else []
    views: list[Any] = list(map(tables.in_terminal, shown))
    results = {"tables": [found.to_dict() for found in scores], **measured}
    if claims.NAME in wanted:
        content = claims.claims_content(paper.claims, extent.command(claims.NAME))
        written += tables.write_tables(claims.claims_tables(paper.claims), content, folder)
        views.append(claims.claims_view(paper.claims))
        results[claims.NAME] = content
    show(as_json, results, *views)
    files = counted(len(written), "file")
    typer.echo(f"Written: {folder} ({files}); everything is shown in {report}.", err=as_json)


def _scored(
    experiments: Sequence[Experiment],
    extent: Extent,
    folder: Path,
    console: Console,
    workers: int | None,
    any_code: bool,
    models: bool,
) -> tuple[list[ScoreTable], list[Path]]:
    """Do missing runs unless workers is None; return the tables and the models written."""
    from spdtokens.experiments.executors import InProcess, Processes
    from spdtokens.experiments.run import StudyBar
    from spdtokens.experiments.store import RunStore
    from spdtokens.paper.reproduce import Reproduction, tables
    from spdtokens.paper.reproduce.models import save_models

    console.print(f"Planning {counted(len(experiments), 'table')}")
    reproduction = Reproduction(experiments, extent, any_code=any_code)
    for reason in reproduction.left_out.values():
        console.print(f"Left out: {reason}", soft_wrap=True)
    written: list[Path] = []
    with RunStore(folder / tables.STORE) as store:
        try:
            if workers is not None:
                executor = Processes(workers) if workers else InProcess(reproduction.source)
                with StudyBar("accuracy") as bar:
                    progress = reproduction.run(store, executor, bar.tell, bar.listen)
                for failure in progress.failures:
                    typer.echo(f"Failed: {failure}", err=True)
            if models:
                written += save_models(reproduction, store, folder)
        except KeyboardInterrupt:
            typer.echo(f"Interrupted; run the same command to continue. Store: {store.path}")
            raise typer.Exit(130) from None
        return reproduction.tables(store), written


def _print_costs(
    experiments: Sequence[Experiment], extent: Extent, path: Path, any_code: bool, as_json: bool
) -> None:
    from spdtokens.experiments.store import RunStore
    from spdtokens.paper.reproduce import Reproduction
    from spdtokens.paper.reproduce.cost import cost_table, projected

    reproduction = Reproduction(experiments, extent, any_code=any_code)
    with RunStore(path) if path.exists() else nullcontext() as store:
        costs = projected(reproduction, store)
    show(as_json, {"costs": [asdict(cost) for cost in costs]}, cost_table(costs))


def _print_list(as_json: bool) -> None:
    from spdtokens.paper import claims
    from spdtokens.paper.reproduce import EXPERIMENTS
    from spdtokens.paper.reproduce.figures import FIGURES
    from spdtokens.paper.reproduce.tables import MEASURED
    from spdtokens.paper.tables import paper_table

    rows = [(each.name, "table", each.title, each.label) for each in EXPERIMENTS.values()]
    rows += [(name, "table", title, paper_table(name).label) for name, title in MEASURED.items()]
    rows += [(each.name, "figure", each.title, each.label) for each in FIGURES.values()]
    rows.append((claims.NAME, "table", claims.TITLE, ""))
    keys = ("name", "kind", "title", "label")
    data = {"names": [dict(zip(keys, row, strict=True)) for row in rows]}
    headers = ("name", "kind", "content~", "label in the paper~")
    shown = [(*first, label or "-") for *first, label in rows]
    show(as_json, data, table(headers, shown, "The paper's tables and figures", box=None))


def _drawn(name: str, extent: Extent, folder: Path, console: Console) -> Path:
    """Draw a figure unless its file is up to date."""
    from spdtokens.evaluation.plan import Source
    from spdtokens.paper.reproduce.figures import FIGURES, is_drawn, write_drawn
    from spdtokens.paper.reproduce.tables import STORE

    path = folder / f"{name}.png"
    if is_drawn(path, extent):
        console.print(f"{path} is up to date")
        return path
    console.print(f"Drawing {name}")
    figure = FIGURES[name].drawn(extent, Source(), folder / STORE)
    return write_drawn(figure, FIGURES[name], extent, folder)


def _measured(name: str, console: Console) -> dict[str, Any]:
    from spdtokens.bench.attention import bench_attention
    from spdtokens.bench.methods import bench_methods
    from spdtokens.paper.theory import check_claims

    if name == "efficiency":
        console.print("Measuring the cost of the methods")
        found = bench_methods(rounds=3)
        attention = bench_attention(rounds=3, threads=1)["rows"]
        return {"batch": found["batch"], "methods": found["rows"], "attention": attention}
    console.print("Testing the theoretical claims")
    return {"claims": list(check_claims(0))}
