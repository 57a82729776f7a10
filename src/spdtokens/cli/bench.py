"""``spdtokens bench``: speed against peers in the same run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from spdtokens._tables import counted
from spdtokens.cli.app import AsJson, app, errors_told, print_json

bench_app = typer.Typer(
    help="Measure speed against the field's libraries, in one run.", no_args_is_help=True
)
app.add_typer(bench_app, name="bench")

Threads = Annotated[int | None, typer.Option(min=1, help="Threads for everyone; default: torch's.")]


@bench_app.command()
def embed(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 15,
    threads: Threads = None,
) -> None:
    """Time log and sqrt tokens against pyRiemann, spd_learn and plain torch."""
    import torch

    from spdtokens.bench.embed import OURS, bench_embed

    threads = threads or torch.get_num_threads()
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Timing", total=24)
        for row in bench_embed(repeats, threads):
            rows.append(row)
            progress.update(task, advance=1)
    if as_json:
        print_json({"threads": threads, "repeats": repeats, "rows": rows})
        return
    table = Table(
        title=f"Tokens of covariance matrices: median milliseconds of {repeats} rounds, "
        f"{counted(threads, 'thread')} each",
        caption="ratio: our time over the fastest peer's; below 1 we are faster",
    )
    for name in ("matrices", "function", "pass", "dtype", OURS, "fastest peer", "ratio"):
        table.add_column(name, justify="right" if name in (OURS, "ratio") else "left")
    for row in rows:
        peer = row["fastest_peer"]
        table.add_row(
            f"{row['n']} of {row['d']} x {row['d']}",
            row["function"],
            row["pass"],
            row["dtype"],
            f"{row['milliseconds'][OURS]:.2f}",
            f"{peer} {row['milliseconds'][peer]:.2f}",
            f"{row['ratio']:.2f}",
        )
    Console().print(table)
    if not any("spd_learn" in row["milliseconds"] for row in rows):
        Console().print(
            "spd_learn is not installed and was left out: pip install 'spdtokens[baselines]'"
        )


@bench_app.command()
def tokenize(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 5,
    threads: Threads = None,
) -> None:
    """Time raw trials to log tokens against the obvious loop and pyRiemann + SciPy."""
    from spdtokens.bench.tokenize import bench_tokenize

    result = bench_tokenize(repeats, threads)
    if as_json:
        print_json(result)
        return
    n, channels, samples = result["shape"]
    table = Table(
        title=f"{n} trials of {channels} channels x {samples} samples, three bands, "
        + counted(result["threads"], "thread")
    )
    for name in ("way", "milliseconds", "we are faster by"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, milliseconds in result["milliseconds"].items():
        speedup = result["speedup"].get(name)
        table.add_row(name, f"{milliseconds:.0f}", f"{speedup:.1f}x" if speedup else "")
    Console().print(table)


@bench_app.command()
def train(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 7,
    runs: Annotated[int, typer.Option(min=1, help="Runs our engine trains together.")] = 45,
    threads: Threads = None,
) -> None:
    """Time training against the obvious loop, with and without cached tokens."""
    from spdtokens.bench.show import train_tables
    from spdtokens.bench.train import bench_train

    console = Console(stderr=True)
    with console.status("Preparing") as status:
        result = bench_train(rounds, threads, runs, lambda text: status.update(f"Timing: {text}"))
    if as_json:
        print_json(result)
        return
    for table in train_tables(result):
        Console().print(table)


@bench_app.command()
def latency(
    as_json: AsJson = False,
    repeats: Annotated[int, typer.Option(min=1000, help="Timed calls of each way.")] = 2000,
) -> None:
    """Time one trial from covariance to class probabilities against plain torch, one thread."""
    from spdtokens._extras import how_to_install
    from spdtokens.bench.latency import ONNX, bench_latency
    from spdtokens.bench.show import latency_table

    result = bench_latency(repeats)
    if as_json:
        print_json(result)
        return
    Console().print(latency_table(result))
    if ONNX not in result["rows"][0]["milliseconds"]:
        Console(markup=False).print(
            f"{ONNX} is not installed and was left out: {how_to_install('onnx')}"
        )


@bench_app.command()
def methods(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 7,
    threads: Threads = None,
) -> None:
    """Cost of every method at the shape of BCI2a: size, operations, time, memory."""
    from spdtokens._extras import how_to_install
    from spdtokens.bench.methods import BATCH, BCI2A, bench_methods
    from spdtokens.bench.show import methods_cost_table
    from spdtokens.classifiers.methods import METHODS

    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Measuring", total=len(METHODS))
        for row in bench_methods(BCI2A, rounds, threads):
            rows.append(row)
            progress.update(task, advance=1, description=f"Measured {row['name']}")
    if as_json:
        print_json({"shape": asdict(BCI2A), "batch": BATCH, "rounds": rounds, "rows": rows})
    else:
        Console().print(methods_cost_table(rows, BATCH))
    for method in METHODS.values():
        if method.extra is not None and not method.installed:
            Console(stderr=True, markup=False).print(
                f"{method.name} is not installed and was left out: {how_to_install(method.extra)}"
            )


@bench_app.command()
def study(
    as_json: AsJson = False,
    subjects: Annotated[int, typer.Option(min=1, help="Simulated subjects.")] = 9,
    seeds: Annotated[int, typer.Option(min=1, max=5, help="Seeds a subject.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs a run.")] = 50,
    threads: Threads = None,
) -> None:
    """Time a whole study of three embeddings against the obvious loop run by run."""
    from spdtokens.bench.show import study_table
    from spdtokens.bench.study import StudySize, bench_study

    console = Console(stderr=True)
    with console.status("A study of noise in the shape of BCI2a"):
        found = bench_study(StudySize(subjects, seeds, epochs), threads)
    if as_json:
        print_json(found)
    else:
        Console().print(study_table(found))


@bench_app.command()
def recommended(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=10, help="Single trials each; medians.")] = 50,
    threads: Threads = None,
) -> None:
    """Time the preset `recommended` against TS+LR and MAtt: training, and one trial."""
    from spdtokens.bench.recommended import bench_recommended
    from spdtokens.bench.show import recommended_table

    with Console(stderr=True).status("Preparing") as status:
        found = bench_recommended(rounds, threads, tell=lambda text: status.update(f"{text} ..."))
    if as_json:
        print_json(found)
    else:
        Console().print(recommended_table(found))


@bench_app.command()
def threads(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds; medians are reported.")] = 5,
    threads: Annotated[int, typer.Option(min=2, help="Threads to compare with one.")] = 2,
) -> None:
    """Time the Python API with several threads against one thread."""
    from spdtokens.bench.show import threads_table
    from spdtokens.bench.threads import bench_threads

    with Console(stderr=True).status("Preparing") as status:
        found = bench_threads(rounds, threads, tell=lambda text: status.update(f"{text} ..."))
    if as_json:
        print_json(found)
    else:
        Console().print(threads_table(found))


@bench_app.command()
def live(
    as_json: AsJson = False,
    seconds: Annotated[
        float, typer.Option(min=0.5, help="Of decisions over LSL, each way in each of two turns.")
    ] = 20.0,
    calls: Annotated[int, typer.Option(min=50, help="Timed calls of the core, each way.")] = 1000,
) -> None:
    """Time a live decision from the last sample of its window against SciPy + pyRiemann."""
    from spdtokens.bench.live import bench_live
    from spdtokens.bench.show import live_table
    from spdtokens.inference.lsl import liblsl_muted

    with (
        errors_told(),
        liblsl_muted() as errors,
        Console(file=errors).status("Preparing") as status,
    ):
        found = bench_live(seconds, calls, tell=lambda text: status.update(f"{text} ..."))
    if as_json:
        print_json(found)
    else:
        Console().print(live_table(found))
