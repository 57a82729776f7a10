"""``spdtokens reproduce``: the paper's tables and figures."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spdtokens._tables import counted, table
from spdtokens.cli.app import AsJson, command, show

if TYPE_CHECKING:
    from spdtokens.paper.reproduce import Extent


class DataKind(Enum):
    """Origin of the trials."""

    SIM = "sim"
    REAL = "real"


@command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    list_: Annotated[bool, typer.Option("--list")] = False,
    data: DataKind = DataKind.SIM,
    quick: bool = False,
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
    quick : bool
        Use a subset: 3 subjects, 1 or 2 seeds, few epochs.
    out : path
        Folder to write tables, figures and runs to.
    """
    from spdtokens._files import output_folder
    from spdtokens.errors import StudyError
    from spdtokens.experiments.executors import InProcess, Processes
    from spdtokens.experiments.run import StudyBar
    from spdtokens.experiments.store import RunStore
    from spdtokens.paper import claims
    from spdtokens.paper.reproduce import EXPERIMENTS, Extent, Reproduction, tables
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
    folder = output_folder(out)
    # The index needs the theory, which takes seconds.
    also = ["theory"] if claims.NAME in wanted and not (folder / "theory.json").exists() else []
    tables.check_folder(folder, [*wanted, *also])
    extent = Extent.quick(data.value) if quick else Extent(data.value)
    experiments = [EXPERIMENTS[name] for name in wanted if name in EXPERIMENTS]
    console = Console(stderr=True)
    scores, written = [], []
    if experiments:
        console.print(f"Planning {counted(len(experiments), 'table')}")
        reproduction = Reproduction(experiments, extent, any_code=any_code)
        executor = Processes(workers) if workers else InProcess(reproduction.source)
        with RunStore(folder / tables.STORE) as store:
            try:
                with StudyBar("accuracy") as bar:
                    progress = reproduction.run(store, executor, bar.tell, bar.listen)
            except KeyboardInterrupt:
                typer.echo(f"Interrupted; run the same command to continue. Store: {store.path}")
                raise typer.Exit(130) from None
            scores = reproduction.tables(store)
            for failure in progress.failures:
                typer.echo(f"Failed: {failure}", err=True)
    for found in scores:
        written += tables.write_tables([tables.wide_table(found)], found.to_dict(), folder)
    measured = {
        name: tables.measured_content(name, extent.command(name), **_measured(name, console))
        for name in dict.fromkeys([*wanted, *also])
        if name in tables.MEASURED
    }
    for content in measured.values():
        written += tables.write_tables(tables.measured_tables(content), content, folder)
    written += [_drawn(name, extent, folder, console) for name in wanted if name in FIGURES]
    report = folder / "report.html"
    paper = make_paper_report(folder)
    write_paper_report(paper, report)
    shown = [tables.score_table(found, tables.IN_TERMINAL) for found in scores]
    for name, content in measured.items():
        shown += tables.measured_tables(content) if name in wanted else []
    views = list(map(tables.in_terminal, shown))
    results = {"tables": [found.to_dict() for found in scores], **measured}
    if claims.NAME in wanted:
        content = claims.claims_content(paper.claims, extent.command(claims.NAME))
        written += tables.write_tables(claims.claims_tables(paper.claims), content, folder)
        views.append(claims.claims_view(paper.claims))
        results[claims.NAME] = content
    show(as_json, results, *views)
    files = counted(len(written), "file")
    typer.echo(f"Written: {folder} ({files}); everything is shown in {report}.", err=as_json)


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

    path = folder / f"{name}.png"
    if is_drawn(path, extent):
        console.print(f"{path} is up to date")
        return path
    console.print(f"Drawing {name}")
    return write_drawn(FIGURES[name].draw(extent, Source()), FIGURES[name], extent, folder)


def _measured(name: str, console: Console) -> dict[str, Any]:
    from spdtokens.bench.methods import bench_methods
    from spdtokens.paper.theory import check_claims

    if name == "efficiency":
        console.print("Measuring the cost of the methods")
        found = bench_methods(rounds=3)
        return {"batch": found["batch"], "methods": found["rows"]}
    console.print("Testing the theoretical claims")
    return {"claims": list(check_claims(0))}
