"""``spdtokens study``: experiments described in files, and the stores of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdtokens._tables import counted
from spdtokens.cli.app import AsJson, app, command, existing, show, written
from spdtokens.cli.evaluate import verdict
from spdtokens.errors import StudyError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spdtokens.evaluation.answer import Evaluation
    from spdtokens.evaluation.runs import RunResult
    from spdtokens.experiments.run import Plan
    from spdtokens.experiments.store import RunStore

study = typer.Typer(help="Run experiments described in study files.", no_args_is_help=True)
app.add_typer(study, name="study")


NO_STUDY = "Check the path; study files are described in docs/studies.md."


class Kind(Enum):
    """Unit of the rows of an exported table."""

    RUNS = "runs"
    TRIALS = "trials"


@contextmanager
def opened(file: Path, store: Path | None, any_code: bool) -> Iterator[tuple[Plan, RunStore]]:
    """Open the plan of a study and the store of its runs, which must exist."""
    from spdtokens.experiments.config import read_study
    from spdtokens.experiments.run import plan_study
    from spdtokens.experiments.store import RunStore

    existing(file, NO_STUDY)
    path = store or file.with_suffix(".sqlite")
    existing(path, f"It stores the runs of the study: {run_command(file, store)}")
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
            f"Warning: the runs differ in code, libraries or hardware (number of runs in "
            f"brackets): {found}. Differences between methods may be due to that.",
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
        typer.echo(
            f"Incomplete: {left} of {total} missing. To run them: {run_command(file, store)}",
            err=True,
        )
    _warn_if_mixed(run for answer in found for mine in answer.results.values() for run in mine)
    return planned, found


@command(study)
def run(
    file: Path,
    store: Path | None = None,
    workers: Annotated[int, typer.Option(min=0)] = 0,
    cluster: str | None = None,
    any_code: bool = False,
) -> None:
    """Run a study. Runs that are stored already are skipped.

    Parameters
    ----------
    cluster : str
        Address of a Dask scheduler, such as tcp://host:8786.
    """
    existing(file, NO_STUDY)
    if workers and cluster:
        raise typer.BadParameter("--workers and --cluster are mutually exclusive.")
    from spdtokens.experiments.config import read_study
    from spdtokens.experiments.executors import Cluster, Executor, InProcess, Processes
    from spdtokens.experiments.run import StudyBar, plan_study, run_study
    from spdtokens.experiments.store import RunStore

    with ExitStack() as stack:
        # Before the data sets are opened, which can take long: a wrong address fails at once.
        many = stack.enter_context(Cluster(cluster)) if cluster else None
        planned = plan_study(read_study(file), any_code=any_code)
        runs = stack.enter_context(RunStore(store or file.with_suffix(".sqlite")))
        executor: Executor = many or (Processes(workers) if workers else InProcess(planned.source))
        if many is not None and many.n_workers == 0:
            typer.echo(
                f"Waiting for workers. To start one: dask worker {many.address} --nthreads 1",
                err=True,
            )
        try:
            with StudyBar(planned.metric_of(0)) as bar:
                progress = run_study(planned, runs, executor, tell=bar.tell, listener=bar.listen)
        except KeyboardInterrupt:
            left = len(planned.missing(runs))
            there = counted(len(planned.once()) - left, "run")
            typer.echo(
                f"Interrupted: {there} stored, {left} left; run the same command to continue. "
                f"Store: {runs.path}",
                err=True,
            )
            raise typer.Exit(130) from None
    for failure in progress.failures:
        typer.echo(f"Failed: {failure}", err=True)
    others = f"{progress.elsewhere} done by other processes, " if progress.elsewhere else ""
    typer.echo(
        f"{counted(progress.total, 'run')}: {progress.before} stored before, {progress.done} done "
        f"now, {others}{len(progress.failures)} failed. Store: {runs.path}"
    )
    if progress.failures:
        raise typer.Exit(1)


@command(study)
def status(
    file: Path, store: Path | None = None, any_code: bool = False, as_json: AsJson = False
) -> None:
    """Show how many runs of a study are done, per method."""
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


@command(study, "show")
def show_tables(
    file: Path,
    store: Path | None = None,
    metric: str | None = None,
    any_code: bool = False,
    as_json: AsJson = False,
) -> None:
    """Show the result tables of a study from the runs done so far."""
    from spdtokens.evaluation.summary import summary_table

    planned, found = _answers(file, store, metric, any_code)
    keys = ("dataset", "protocol", "protocol_options", "access", "alignment")
    data = []
    tables: list[RenderableType] = []
    for answer in found:
        question = answer.question
        about = {key: getattr(question, key) for key in keys}
        about["protocol_options"] = dict(about["protocol_options"])
        data.append(about | {"results": [row.values() for row in answer.rows]})
        name = planned.source.dataset_of(question).name
        tables += [verdict(answer), summary_table(answer.rows, question, name)]
    show(as_json, {"tables": data}, *tables)


@command(study)
def export(
    file: Path,
    out: Annotated[Path, typer.Option()],
    rows: Kind = Kind.RUNS,
    store: Path | None = None,
    any_code: bool = False,
) -> None:
    """Write the runs of a study, or its test trials with their probabilities, to a table.

    Parameters
    ----------
    out : path
        File to write: .csv or .parquet.
    rows : str
        One row per run, or one row per test trial.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"--out must end in .csv or .parquet, got {out}.")
    from spdtokens._files import output_file
    from spdtokens.experiments.export import to_csv, to_parquet

    output_file(out)
    with opened(file, store, any_code) as (planned, runs):
        found = planned.results(runs)
    _warn_if_mixed(found)
    write = to_csv if out.suffix == ".csv" else to_parquet
    write(found, out, predictions=rows is Kind.TRIALS)
    what = "the test trials of " if rows is Kind.TRIALS else ""
    written(out, f", {what}{counted(len(found), 'run')}")


@command(study)
def compare(
    file: Path,
    reference: str | None = None,
    metric: str | None = None,
    out: Path | None = None,
    store: Path | None = None,
    any_code: bool = False,
    as_json: AsJson = False,
) -> None:
    """Compare the methods of a study: tests over subjects or folds, effect sizes, figures.

    Parameters
    ----------
    reference : str, default=the first of the study
        Label or name of the method to compare with.
    out : path
        Folder to write figures to.
    """
    from spdtokens._files import output_folder
    from spdtokens.experiments.comparison import comparison_table, comparisons, write_figures

    folder = None if out is None else output_folder(out)
    _, found = _answers(file, store, metric, any_code)
    tables = [comparisons(answer, reference) for answer in found if answer.rows]
    if not tables:
        raise StudyError(f"{file} has no stored runs yet: {run_command(file, store)}")
    figures = [] if folder is None else write_figures(tables, folder)
    data = {"comparisons": [table.values() for table in tables]}
    show(as_json, data, *map(comparison_table, tables))
    for figure in figures:
        written(figure, err=as_json)
