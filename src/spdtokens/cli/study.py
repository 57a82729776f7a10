"""``spdtokens study``: an experiment as a file, and the store of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import AnyCode, AsJson, Store, StudyFile, Workers, app, option, show, written
from spdtokens.errors import StudyError

if TYPE_CHECKING:
    from spdtokens.evaluation.answer import Evaluation
    from spdtokens.evaluation.runs import RunResult
    from spdtokens.experiments.run import Plan
    from spdtokens.experiments.store import RunStore

study = typer.Typer(help="Run an experiment that is described in a file.", no_args_is_help=True)
app.add_typer(study, name="study")

Metric = Annotated[str | None, option("Instead of the study's.")]


class Kind(Enum):
    """What the rows of an exported table are."""

    RUNS = "runs"
    TRIALS = "trials"


@contextmanager
def opened(file: Path, store: Path | None, any_code: bool) -> Iterator[tuple[Plan, RunStore]]:
    """Open the plan of a study and the store of its runs, which must exist."""
    from spdtokens.experiments.config import read_study
    from spdtokens.experiments.run import plan_study
    from spdtokens.experiments.store import RunStore

    path = store or file.with_suffix(".sqlite")
    if not path.exists():
        raise StudyError(f"There is no store {path} yet: {run_command(file, store)}")
    with RunStore(path) as runs:
        yield plan_study(read_study(file), any_code=any_code), runs


def run_command(file: Path, store: Path | None) -> str:
    """The command that performs the runs of a study."""
    return f"spdtokens study run {file}" + (f" --store {store}" if store else "")


def _warn_if_mixed(results: Iterable[RunResult]) -> None:
    """Warn about runs of one table that other code or other libraries made."""
    from spdtokens.evaluation.runs import differing

    if found := differing(result.origin for result in results):
        typer.echo(
            f"Not all runs were made alike (number of runs in brackets): {found}. Differences "
            "between methods may come from that.",
            err=True,
        )


def _answers(
    file: Path, store: Path | None, metric: str | None, any_code: bool
) -> tuple[Plan, list[Evaluation]]:
    """Evaluate the stored runs of a study; warn if some are missing or mixed."""
    from spdtokens.evaluation.metrics import get_metric

    if metric is not None:
        get_metric(metric)  # an unknown one is refused before the data sets are opened
    with opened(file, store, any_code) as (planned, runs):
        if metric is not None:
            planned = replace(planned, study=replace(planned.study, metric=metric))
        found = planned.evaluations(runs)
        left, total = len(planned.missing(runs)), counted(len(planned.once()), "run")
    if left:
        typer.echo(f"Not done yet: {left} of {total}: {run_command(file, store)}", err=True)
    _warn_if_mixed(run for answer in found for mine in answer.results.values() for run in mine)
    return planned, found


@study.command()
def run(
    file: StudyFile,
    store: Store = None,
    workers: Workers = 0,
    cluster: Annotated[str | None, option("A Dask scheduler: tcp://host:8786.")] = None,
    any_code: AnyCode = False,
) -> None:
    """Do the runs of a study that are not in its store yet."""
    if workers and cluster:
        raise typer.BadParameter("--workers and --cluster exclude each other.")
    from spdtokens.experiments.config import read_study
    from spdtokens.experiments.executors import Cluster, Executor, InProcess, Processes
    from spdtokens.experiments.run import StudyBar, plan_study, run_study
    from spdtokens.experiments.store import RunStore

    with ExitStack() as stack:
        # Before the data sets are opened, which may take long: a wrong address is told at once.
        many = stack.enter_context(Cluster(cluster)) if cluster else None
        planned = plan_study(read_study(file), any_code=any_code)
        runs = stack.enter_context(RunStore(store or file.with_suffix(".sqlite")))
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

    with opened(file, store, any_code) as (planned, runs):
        left = {spec.key for spec in planned.missing(runs)}
        codes = runs.codes()
    titled = planned.by_title()
    total = {title: len(specs) for title, specs in titled.items()}
    missing = {title: sum(s.key in left for s in specs) for title, specs in titled.items()}
    rows = [{"method": m, "done": n - missing[m], "total": n} for m, n in total.items()]
    whole = sum(total.values())
    found = {"done": whole - len(left), "total": whole, "methods": rows, "codes": codes}
    show(as_json, found, status_table(total, missing, codes, planned.code))


@study.command("show")
def show_tables(
    file: StudyFile,
    store: Store = None,
    metric: Metric = None,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """The tables of a study, as far as it is done."""
    from spdtokens.evaluation.summary import summary_table

    planned, found = _answers(file, store, metric, any_code)
    keys = ("dataset", "protocol", "protocol_options", "access", "alignment")
    data, tables = [], []
    for answer in found:
        question = answer.question
        about = {key: getattr(question, key) for key in keys}
        about["protocol_options"] = dict(about["protocol_options"])
        data.append(about | {"results": [row.values() for row in answer.rows]})
        name = planned.source.dataset(question.dataset, question.selection).name
        tables.append(summary_table(answer.rows, question, name))
    show(as_json, {"tables": data}, *tables)


@study.command()
def export(
    file: StudyFile,
    out: Annotated[Path, option("A .csv or .parquet file.")],
    rows: Annotated[Kind, option("One row per run, or per test trial.")] = Kind.RUNS,
    store: Store = None,
    any_code: AnyCode = False,
) -> None:
    """Write a study's runs, or every test trial with its probabilities, as a table."""
    if out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{out} ends neither in .csv nor in .parquet.")
    from spdtokens._files import output_file
    from spdtokens.experiments.export import to_csv, to_parquet

    output_file(out)
    with opened(file, store, any_code) as (planned, runs):
        found = planned.results(runs)
    _warn_if_mixed(found)
    write = to_csv if out.suffix == ".csv" else to_parquet
    write(found, out, predictions=rows is Kind.TRIALS)
    what = "Trials of " if rows is Kind.TRIALS else ""
    typer.echo(f"{what}{counted(len(found), 'run')} written to {out}.")


@study.command()
def compare(
    file: StudyFile,
    reference: Annotated[
        str | None, option("Label or name of a method; the first by default.")
    ] = None,
    metric: Metric = None,
    out: Annotated[Path | None, option("Folder for the figures of differences.")] = None,
    store: Store = None,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Whether methods differ: several tests over subjects or folds, effect sizes, figures."""
    from spdtokens._files import output_folder
    from spdtokens.experiments.comparison import comparison_table, comparisons, write_figures

    folder = None if out is None else output_folder(out)
    _, found = _answers(file, store, metric, any_code)
    tables = [comparisons(answer, reference) for answer in found if answer.rows]
    if not tables:
        raise StudyError(f"No run is done yet: {run_command(file, store)}")
    figures = [] if folder is None else write_figures(tables, folder)
    data = {"comparisons": [table.values() for table in tables]}
    show(as_json, data, *map(comparison_table, tables))
    for figure in figures:
        written(figure, err=as_json)
