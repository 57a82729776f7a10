"""``spdtokens study``: an experiment as a file, and the store of its runs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from spdtokens._tables import counted
from spdtokens.cli.app import AnyCode, AsJson, Store, StudyFile, Workers, app, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdtokens.evaluation.answer import Evaluation
    from spdtokens.evaluation.runs import RunResult
    from spdtokens.experiments.run import Plan
    from spdtokens.experiments.store import RunStore

study = typer.Typer(help="Run an experiment that is described in a file.", no_args_is_help=True)
app.add_typer(study, name="study")

Metric = Annotated[str | None, typer.Option(help="Instead of the study's.")]


class Kind(Enum):
    """What the rows of an exported table are."""

    RUNS = "runs"
    TRIALS = "trials"


def plan_file(file: Path, any_code: bool) -> Plan:
    """Read and plan a study."""
    from spdtokens.experiments.config import read_study
    from spdtokens.experiments.run import plan_study

    return plan_study(read_study(file), any_code=any_code)


def open_store(file: Path, store: Path | None, *, must_exist: bool = True) -> RunStore:
    """Open the store of a study's runs."""
    from spdtokens.errors import StudyError
    from spdtokens.experiments.store import RunStore

    path = store or file.with_suffix(".sqlite")
    if must_exist and not path.exists():
        raise StudyError(f"There is no store {path} yet: {_run_command(file, path)}")
    return RunStore(path)


def _run_command(file: Path, store: Path) -> str:
    """What to type to do the runs of a study."""
    own = store == file.with_suffix(".sqlite")
    return f"spdtokens study run {file}" + ("" if own else f" --store {store}")


def _tell_mixed(results: Iterable[RunResult]) -> None:
    """Tell if runs that are shown side by side were not made alike."""
    from spdtokens.evaluation.runs import differing

    if found := differing(result.origin for result in results):
        typer.echo(
            f"Not all runs were made alike (number of runs in brackets): {found}. Differences "
            "between methods may come from that.",
            err=True,
        )


def _answers(
    file: Path, store: Path | None, metric: str | None, any_code: bool
) -> tuple[Plan, list[Evaluation], Path]:
    """A study's plan, what its runs answer, and their store; tell what is missing or mixed."""
    from spdtokens.evaluation.metrics import get_metric

    planned = plan_file(file, any_code)
    if metric is not None:
        get_metric(metric)
        planned = replace(planned, study=replace(planned.study, metric=metric))
    with open_store(file, store) as runs:
        found = planned.evaluations(runs)
        left, total = len(planned.missing(runs)), counted(len(planned.once()), "run")
    if left:
        typer.echo(f"Not done yet: {left} of {total}: {_run_command(file, runs.path)}", err=True)
    _tell_mixed(run for answer in found for mine in answer.results.values() for run in mine)
    return planned, found, runs.path


@study.command()
def run(
    file: StudyFile,
    store: Store = None,
    workers: Workers = 0,
    cluster: Annotated[str | None, typer.Option(help="A Dask scheduler: tcp://host:8786.")] = None,
    any_code: AnyCode = False,
) -> None:
    """Do the runs of a study that are not in its store yet."""
    if workers and cluster:
        raise typer.BadParameter("--workers and --cluster exclude each other.")
    from spdtokens.experiments.executors import Cluster, Executor, InProcess, Processes
    from spdtokens.experiments.run import StudyBar, run_study

    with ExitStack() as stack:
        # Before the data sets are opened, which may take long: a wrong address is told at once.
        many = stack.enter_context(Cluster(cluster)) if cluster else None
        planned = plan_file(file, any_code)
        runs = stack.enter_context(open_store(file, store, must_exist=False))
        executor: Executor = many or (Processes(workers) if workers else InProcess(planned.source))
        if many is not None and many.n_workers == 0:
            typer.echo(
                f"No worker has joined yet; waiting. Start some: dask worker {many.address} "
                "--nthreads 1",
                err=True,
            )
        try:
            with StudyBar(planned.metric_of(0)) as bar:
                progress = run_study(planned, runs, executor, tell=bar.tell, listener=bar.listen)
        except KeyboardInterrupt:
            left = len(planned.missing(runs))
            there = counted(len(planned.once()) - left, "run")
            typer.echo(
                f"Stopped with {there} in {runs.path}, {left} left; the same command goes on.",
                err=True,
            )
            raise typer.Exit(130) from None
    for failure in progress.failures:
        typer.echo(f"Failed: {failure}", err=True)
    others = f"{progress.elsewhere} by another process, " if progress.elsewhere else ""
    typer.echo(
        f"{counted(progress.total, 'run')}: {progress.before} were there, {progress.done} done "
        f"now, {others}{len(progress.failures)} failed. Store: {runs.path}"
    )
    if progress.failures:
        raise typer.Exit(1)


@study.command()
def status(
    file: StudyFile, store: Store = None, any_code: AnyCode = False, as_json: AsJson = False
) -> None:
    """How much of a study is done."""
    from spdtokens.experiments.run import status_table

    planned = plan_file(file, any_code)
    with open_store(file, store) as runs:
        left = {spec.key for spec in planned.missing(runs)}
        codes = runs.codes()
    titled = planned.by_title()
    total = {title: len(specs) for title, specs in titled.items()}
    missing = {title: sum(s.key in left for s in specs) for title, specs in titled.items()}
    if as_json:
        rows = [{"method": m, "done": n - missing[m], "total": n} for m, n in total.items()]
        done = sum(total.values()) - len(left)
        print_json({"done": done, "total": sum(total.values()), "methods": rows, "codes": codes})
    else:
        Console().print(status_table(total, missing, codes, planned.code))


@study.command()
def show(
    file: StudyFile,
    store: Store = None,
    metric: Metric = None,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """The tables of a study, as far as it is done."""
    from spdtokens.evaluation.summary import summary_table

    planned, found, _ = _answers(file, store, metric, any_code)
    if as_json:
        keys = ("dataset", "protocol", "protocol_options", "access", "alignment")
        tables = []
        for answer in found:
            about = {key: getattr(answer.question, key) for key in keys}
            about["protocol_options"] = dict(about["protocol_options"])
            tables.append(about | {"results": [row.values() for row in answer.rows]})
        print_json({"tables": tables})
        return
    for answer in found:
        question = answer.question
        name = planned.source.dataset(question.dataset, question.selection).name
        Console().print(summary_table(answer.rows, question, name))


@study.command()
def export(
    file: StudyFile,
    out: Annotated[Path, typer.Option(help="A .csv or .parquet file.")],
    rows: Annotated[Kind, typer.Option(help="One row per run, or per test trial.")] = Kind.RUNS,
    store: Store = None,
    any_code: AnyCode = False,
) -> None:
    """Write a study's runs, or every test trial with its probabilities, as a table."""
    if out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{out} ends neither in .csv nor in .parquet.")
    from spdtokens._files import output_file
    from spdtokens.experiments.export import to_csv, to_parquet

    output_file(out)
    planned = plan_file(file, any_code)
    with open_store(file, store) as runs:
        found = planned.results(runs)
    _tell_mixed(found)
    write = to_csv if out.suffix == ".csv" else to_parquet
    write(found, out, predictions=rows is Kind.TRIALS)
    what = "Trials of " if rows is Kind.TRIALS else ""
    typer.echo(f"{what}{counted(len(found), 'run')} written to {out}.")


@study.command()
def compare(
    file: StudyFile,
    reference: Annotated[
        str | None, typer.Option(help="Label or name of a method; the first by default.")
    ] = None,
    metric: Metric = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures of differences.")] = None,
    store: Store = None,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Whether methods differ: several tests over subjects or folds, effect sizes, figures."""
    from spdtokens._files import output_folder
    from spdtokens.errors import StudyError
    from spdtokens.experiments.comparison import comparison_table, comparisons, write_figures

    folder = None if out is None else output_folder(out)
    _, found, path = _answers(file, store, metric, any_code)
    tables = [comparisons(answer, reference) for answer in found if answer.rows]
    if not tables:
        raise StudyError(f"No run is done yet: {_run_command(file, path)}")
    written = [] if folder is None else write_figures(tables, folder)
    if as_json:
        print_json({"comparisons": [table.values() for table in tables]})
        return
    for table in tables:
        Console().print(comparison_table(table))
    for figure in written:
        typer.echo(f"Written: {figure}")
