"""``spdtokens reproduce``: the paper's tables and figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from spdtokens._tables import counted
from spdtokens.cli.app import AsJson, app, errors_told, print_json

if TYPE_CHECKING:
    from spdtokens.evaluation.plan import Source
    from spdtokens.experiments.executors import Executor
    from spdtokens.paper.reproduce import Extent


class DataKind(Enum):
    """Where trials come from."""

    SIM = "sim"
    REAL = "real"


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Tables and figures, or all; see --list.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show what there is.")] = False,
    data: Annotated[
        DataKind, typer.Option(help="Simulated, or the paper's data sets where you have them.")
    ] = DataKind.SIM,
    quick: Annotated[
        bool, typer.Option("--quick", help="A subset: 3 subjects, 1 or 2 seeds, few epochs.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes; 0 to train in this one, runs batched together.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and runs.")] = Path(
        "reproduced"
    ),
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Count runs made by other code as done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's tables and figures again: our train, our test, what the paper reports.

    Runs are kept in OUT/runs.sqlite; the same command goes on after an interruption. All that is in
    OUT is shown in OUT/report.html.
    """
    from spdtokens._files import output_folder
    from spdtokens.errors import StudyError
    from spdtokens.experiments.progress import StudyBar
    from spdtokens.experiments.store import RunStore
    from spdtokens.paper.reproduce import EXPERIMENTS, Extent, Reproduction
    from spdtokens.paper.reproduce.figures import FIGURES
    from spdtokens.paper.reproduce.folder import NAMES, STORE, check_folder
    from spdtokens.paper.reproduce.page import make_paper_report, write_paper_report
    from spdtokens.paper.reproduce.show import rich_table, write_tables
    from spdtokens.paper.reproduce.side import SIDES, rich_side, side_tables, write_side

    if list_ or not names:
        _print_list(as_json)
        return
    with errors_told():
        wanted = list(NAMES) if names == ["all"] else list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in NAMES]
        if unknown:
            raise StudyError(f"There is no {unknown[0]!r}. There are: all, {', '.join(NAMES)}.")
        folder = output_folder(out)
        check_folder(folder, wanted)
        extent = Extent.quick(data.value) if quick else Extent(data.value)
        experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
        console = Console(stderr=True)
        tables = []
        if experiments:
            console.print(f"Planning {counted(len(experiments), 'table')}")
            reproduction = Reproduction(experiments, extent, any_code=any_code)
            with RunStore(folder / STORE) as store:
                try:
                    with StudyBar("accuracy") as bar:
                        executor = _executor(reproduction.source, workers)
                        progress = reproduction.run(store, executor, bar.tell, bar.listen)
                except KeyboardInterrupt:
                    typer.echo(f"Stopped. Runs are in {store.path}; the same command goes on.")
                    raise typer.Exit(130) from None
                tables = reproduction.tables(store)
                for failure in progress.failures:
                    typer.echo(f"Failed: {failure}", err=True)
        written = write_tables(tables, folder)
        sides = {
            name: _measured(name, extent.command(name), console) for name in wanted if name in SIDES
        }
        for content in sides.values():
            written += write_side(content, folder)
        written += [_drawn(name, extent, folder, console) for name in wanted if name in FIGURES]
        report = folder / "report.html"
        write_paper_report(make_paper_report(folder), report)
    if as_json:
        print_json({"tables": [table.plain() for table in tables], **sides})
        return
    for table in tables:
        Console().print(rich_table(table))
    for name, content in sides.items():
        for shown in side_tables(name, content):
            Console().print(rich_side(shown))
    typer.echo(f"{counted(len(written), 'file')} in {folder}; all of it is shown in {report}.")


def _executor(source: Source, workers: int) -> Executor:
    from spdtokens.experiments.executors import InProcess, Processes

    return Processes(workers) if workers else InProcess(source)


def _print_list(as_json: bool) -> None:
    from spdtokens.paper.reproduce import EXPERIMENTS
    from spdtokens.paper.reproduce.figures import FIGURES
    from spdtokens.paper.reproduce.side import SIDES

    rows = [(each.name, "table", each.title, each.label) for each in EXPERIMENTS.values()]
    rows += [(name, "table", title, label) for name, (title, label) in SIDES.items()]
    rows += [(each.name, "figure", each.title, each.label) for each in FIGURES.values()]
    if as_json:
        keys = ("name", "kind", "title", "label")
        print_json({"names": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    table = Table(title="The paper's tables and figures", box=None, pad_edge=False)
    for header in ("name", "kind", "what", "label in the paper"):
        table.add_column(header, no_wrap=header == "name")
    for *first, label in rows:
        table.add_row(*first, label or "-")
    Console().print(table)


def _drawn(name: str, extent: Extent, folder: Path, console: Console) -> Path:
    """A figure's file; drawn unless the same code has drawn the same before."""
    from spdtokens.evaluation.plan import Source
    from spdtokens.paper.reproduce.drawn import is_drawn, write_drawn
    from spdtokens.paper.reproduce.figures import FIGURES

    path = folder / f"{name}.png"
    if is_drawn(path, extent):
        console.print(f"{path} is there already, drawn by the same code")
        return path
    console.print(f"Drawing {name}")
    return write_drawn(FIGURES[name].draw(extent, Source()), FIGURES[name], extent, folder)


def _measured(name: str, command: str, console: Console) -> dict[str, Any]:
    from spdtokens.bench.methods import bench_methods
    from spdtokens.paper.reproduce.side import side_content
    from spdtokens.paper.theory import check_claims

    if name == "efficiency":
        console.print("Measuring what methods cost")
        found = bench_methods(rounds=3)
        return side_content(name, command, batch=found["batch"], methods=found["rows"])
    console.print("Testing the theory")
    return side_content(name, command, claims=list(check_claims(0)))
