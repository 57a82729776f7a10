"""``spdtokens bench``: speed against peers in the same run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from spdtokens._extras import PACKAGES, how_to_install, is_installed
from spdtokens._tables import table
from spdtokens.cli.app import AsJson, app, option, show

bench_app = typer.Typer(
    help="Measure speed against the field's libraries, in one run.", no_args_is_help=True
)
app.add_typer(bench_app, name="bench")

Threads = Annotated[int | None, option("Threads for everyone; default: torch's.", min=1)]
Rounds = Annotated[int, option("Rounds; medians are reported.", min=3)]


def _bench(module: str, name: str, as_json: bool, extra: str | None = None, **options: Any) -> None:
    """Run a case, saying what is timed; print JSON or tables, and what is left out of them."""
    from spdtokens.inference.lsl import liblsl_muted

    run = getattr(import_module(f"spdtokens.bench.{module}"), name)
    with (
        liblsl_muted() if extra == "live" else nullcontext(sys.stderr) as errors,
        Console(file=errors).status("Preparing") as status,
    ):
        found = run(**options, tell=lambda text: status.update(f"Timing: {text}"))
    show(as_json, found, *_tables(found, (run.__doc__ or "").partition(".\n")[0]))
    if extra is not None and not is_installed(extra):
        names = " and ".join(PACKAGES[extra])
        typer.echo(f"Left out, not installed: {names}: {how_to_install(extra)}", err=True)


def _tables(found: dict[str, Any], title: str) -> Iterator[Table]:
    """Show what was found: lists row by row, the ways side by side, all else below."""
    lists = {k: v for k, v in found.items() if isinstance(v, list) and isinstance(v[0], dict)}
    ways = {k: v for k, v in found.items() if isinstance(v, dict) and k != "shape"}
    rest = {k: v for k, v in found.items() if k not in {*lists, *ways}}
    names = next(iter(ways.values()), ())
    lists[""] = [{"": n} | {k: v[n] for k, v in ways.items() if n in v} for n in names]
    for name, rows in lists.items():
        flat = [dict(_flat(row)) for row in rows]
        columns = {column: value for row in flat for column, value in row.items()}
        if columns:
            headings = [c if isinstance(v, str) else f">{c}~" for c, v in columns.items()]
            cells = [[_cell(row.get(column)) for column in columns] for row in flat]
            part = "" if name in ("", "rows") else f": {_words(name)}"
            yield table(headings, cells, title + part)
    yield table(("", ""), [(_words(k), _cell(v)) for k, v in rest.items()], show_header=False)


def _words(key: str) -> str:
    return key.replace("_", " ").replace("milliseconds", "ms").replace("megabytes", "MB")


def _flat(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        name = prefix + _words(key)
        yield from _flat(value, f"{name} ") if isinstance(value, dict) else [(name, value)]


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@bench_app.command()
def embed(as_json: AsJson = False, repeats: Rounds = 15, threads: Threads = None) -> None:
    """Time log and sqrt tokens against pyRiemann, spd_learn and plain torch."""
    _bench("tokens", "bench_embed", as_json, "baselines", repeats=repeats, threads=threads)


@bench_app.command()
def tokenize(as_json: AsJson = False, repeats: Rounds = 5, threads: Threads = None) -> None:
    """Time raw trials to log tokens against the obvious loop and pyRiemann + SciPy."""
    _bench("tokens", "bench_tokenize", as_json, repeats=repeats, threads=threads)


@bench_app.command()
def train(
    as_json: AsJson = False,
    rounds: Rounds = 7,
    runs: Annotated[int, option("Runs our engine trains together.", min=1)] = 45,
    threads: Threads = None,
) -> None:
    """Time training against the obvious loop, with and without cached tokens."""
    _bench("training", "bench_train", as_json, rounds=rounds, runs=runs, threads=threads)


@bench_app.command()
def latency(
    as_json: AsJson = False,
    repeats: Annotated[int, option("Timed calls of each way.", min=1000)] = 2000,
) -> None:
    """Time one trial from covariance to class probabilities against plain torch, one thread."""
    _bench("latency", "bench_latency", as_json, "onnx", repeats=repeats)


@bench_app.command()
def methods(as_json: AsJson = False, rounds: Rounds = 7, threads: Threads = None) -> None:
    """Cost of every method at the shape of BCI2a: size, operations, time, memory."""
    _bench("methods", "bench_methods", as_json, "baselines", rounds=rounds, threads=threads)


@bench_app.command()
def study(
    as_json: AsJson = False,
    subjects: Annotated[int, option("Simulated subjects.", min=1)] = 9,
    seeds: Annotated[int, option("Seeds per subject.", min=1, max=5)] = 5,
    epochs: Annotated[int, option("Epochs per run.", min=1)] = 50,
    threads: Threads = None,
) -> None:
    """Time a whole study of three embeddings against the obvious loop run by run."""
    sizes: Any = {"subjects": subjects, "seeds": seeds, "epochs": epochs, "threads": threads}
    _bench("training", "bench_study", as_json, **sizes)


@bench_app.command()
def recommended(
    as_json: AsJson = False,
    rounds: Annotated[int, option("Single trials each; medians.", min=10)] = 50,
    threads: Threads = None,
) -> None:
    """Time the preset `recommended` against TS+LR and MAtt: training, and one trial."""
    _bench("methods", "bench_recommended", as_json, rounds=rounds, threads=threads)


@bench_app.command()
def threads(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    threads: Annotated[int, option("Threads to compare with one.", min=2)] = 2,
) -> None:
    """Time the Python API with several threads against one thread."""
    _bench("methods", "bench_threads", as_json, rounds=rounds, threads=threads)


@bench_app.command()
def live(
    as_json: AsJson = False,
    seconds: Annotated[
        float, option("Of decisions over LSL, each way in each of two turns.", min=0.5)
    ] = 20.0,
    calls: Annotated[int, option("Timed calls of the core, each way.", min=50)] = 1000,
) -> None:
    """Time a live decision from the last sample of its window against SciPy + pyRiemann."""
    _bench("latency", "bench_live", as_json, "live", seconds=seconds, calls=calls)
