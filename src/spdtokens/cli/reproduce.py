"""``spdtokens reproduce``: the paper's tables and figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from spdtokens.cli.app import AsJson, app, errors_told, print_json

if TYPE_CHECKING:
    from spdtokens.evaluation.plan import Source
    from spdtokens.paper.reproduce import Extent
    from spdtokens.study.executors import Executor

EXTRAS = {
    "efficiency": ("Computational efficiency", "tab:efficiency"),
    "theory": ("Theory, tested numerically", "tab:theory_comparison"),
}


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
        bool, typer.Option("--quick", help="A subset: 3 subjects, 2 seeds, short networks.")
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

    Runs are kept in OUT/runs.sqlite; the same command goes on after an interruption.
    """
    from spdtokens._files import output_folder
    from spdtokens.paper.reproduce import EXPERIMENTS, Extent, Reproduction
    from spdtokens.paper.reproduce.figures import FIGURES
    from spdtokens.paper.reproduce.show import rich_table, write_tables
    from spdtokens.study.errors import StudyError
    from spdtokens.study.progress import StudyBar
    from spdtokens.study.store import RunStore

    known = [*EXPERIMENTS, *EXTRAS, *FIGURES]
    if list_ or not names:
        _print_list()
        return
    with errors_told():
        wanted = known if names == ["all"] else list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise StudyError(f"There is no {unknown[0]!r}. There are: all, {', '.join(known)}.")
        folder = output_folder(out)
        extent = Extent.quick(data.value) if quick else Extent(data.value)
        experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
        console = Console(stderr=True)
        tables = []
        if experiments:
            console.print(f"Planning {len(experiments)} tables")
            reproduction = Reproduction(experiments, extent, any_code=any_code)
            with RunStore(folder / "runs.sqlite") as store:
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
        written = write_tables(tables, folder) if tables else []
        for name in wanted:
            if name in FIGURES:
                written.append(_draw(name, extent, folder, console))
            elif name in EXTRAS:
                written += _extra(name, folder, console)
    if as_json:
        print_json({"tables": [table.plain() for table in tables]})
    else:
        for table in tables:
            Console().print(rich_table(table))
        typer.echo(f"{len(written)} files in {folder}.")


def _executor(source: Source, workers: int) -> Executor:
    from spdtokens.study.executors import InProcess, Processes

    return Processes(workers) if workers else InProcess(source)


def _print_list() -> None:
    from spdtokens.paper.reproduce import EXPERIMENTS
    from spdtokens.paper.reproduce.figures import FIGURES

    table = Table(title="The paper's tables and figures", box=None, pad_edge=False)
    for header in ("name", "kind", "what", "label in the paper"):
        table.add_column(header, no_wrap=header == "name")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, "table", experiment.title, experiment.label or "-")
    for name, (title, label) in EXTRAS.items():
        table.add_row(name, "table", title, label)
    for figure in FIGURES.values():
        table.add_row(figure.name, "figure", figure.title, figure.label or "-")
    Console().print(table)


def _draw(name: str, extent: Extent, folder: Path, console: Console) -> Path:
    from spdtokens._files import written_whole
    from spdtokens.evaluation.plan import Source
    from spdtokens.paper.reproduce.figures import FIGURES

    console.print(f"Drawing {name}")
    figure = FIGURES[name].draw(extent, Source())
    path = folder / f"{name}.png"
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=150)
    return path


def _extra(name: str, folder: Path, console: Console) -> list[Path]:
    import json

    from spdtokens._files import written_whole

    console.print(f"Measuring {name}" if name == "efficiency" else "Testing the theory")
    if name == "efficiency":
        from spdtokens.bench.methods import bench_methods

        content = {"methods": list(bench_methods(rounds=3))}
    else:
        from spdtokens.paper.theory import check_claims

        content = {"claims": list(check_claims(0))}
    path = folder / f"{name}.json"
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return [path]
