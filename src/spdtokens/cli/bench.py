"""``spdtokens bench``: speed compared with other libraries in the same run."""

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
from spdtokens._tables import number, table
from spdtokens.cli.app import AsJson, app, command, show

bench_app = typer.Typer(
    help="Measure speed, compared with other libraries in the same run.", no_args_is_help=True
)
app.add_typer(bench_app, name="bench")

Threads = Annotated[int | None, typer.Option(min=1)]
Rounds = Annotated[int, typer.Option(min=3)]
Count = Annotated[int, typer.Option(min=1)]


def _bench(module: str, name: str, as_json: bool, extra: str | None = None, **options: Any) -> None:
    """Run a benchmark, and print JSON or tables and the libraries left out."""
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
        typer.echo(
            f"Left out because not installed: {names}. To install: {how_to_install(extra)}",
            err=True,
        )


def _tables(found: dict[str, Any], title: str) -> Iterator[Table]:
    """One table per list of rows, one of the ways side by side, one of all other values."""
    import pandas as pd

    lists = {k: v for k, v in found.items() if isinstance(v, list) and isinstance(v[0], dict)}
    ways = {k: v for k, v in found.items() if isinstance(v, dict) and k != "shape"}
    rest = {k: v for k, v in found.items() if k not in {*lists, *ways}}
    if ways:
        names = next(iter(ways.values()))
        lists[""] = [{"": n} | {k: v[n] for k, v in ways.items() if n in v} for n in names]
    for name, rows in lists.items():
        frame = pd.json_normalize(rows, sep=" ").rename(columns=_words)
        numeric = set(frame.select_dtypes("number"))
        headings = [f">{column}~" if column in numeric else column for column in frame]
        part = "" if name in ("", "rows") else f": {_words(name)}"
        yield table(headings, frame.map(_cell).to_numpy(), title + part)
    yield table(("", ""), [(_words(k), _cell(v)) for k, v in rest.items()], show_header=False)


def _words(key: str) -> str:
    return key.replace("_", " ").replace("milliseconds", "ms").replace("megabytes", "MB")


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "-" if value is None else str(value)
    return number(value, ",.0f" if value >= 100 else ".3g")


@command(bench_app)
def embed(as_json: AsJson = False, repeats: Rounds = 15, threads: Threads = None) -> None:
    """Time log and sqrt tokens, compared with pyRiemann, spd_learn and plain torch."""
    _bench("tokens", "bench_embed", as_json, "baselines", repeats=repeats, threads=threads)


@command(bench_app)
def tokenize(as_json: AsJson = False, repeats: Rounds = 5, threads: Threads = None) -> None:
    """Time raw trials to log tokens, compared with a plain loop and with pyRiemann + SciPy."""
    _bench("tokens", "bench_tokenize", as_json, repeats=repeats, threads=threads)


@command(bench_app)
def train(
    as_json: AsJson = False, rounds: Rounds = 7, runs: Count = 45, threads: Threads = None
) -> None:
    """Time training, compared with a plain loop with and without cached tokens.

    Parameters
    ----------
    runs : int
        Number of runs trained together.
    """
    _bench("training", "bench_train", as_json, rounds=rounds, runs=runs, threads=threads)


@command(bench_app)
def attention(as_json: AsJson = False, rounds: Rounds = 5, threads: Threads = None) -> None:
    """Time geometric attention, with distances computed once and in every block."""
    _bench("attention", "bench_attention", as_json, rounds=rounds, threads=threads)


@command(bench_app)
def latency(
    as_json: AsJson = False, repeats: Annotated[int, typer.Option(min=1000)] = 2000
) -> None:
    """Time one trial from covariance to probabilities on one thread, compared with torch.

    Parameters
    ----------
    repeats : int
        Number of timed calls per implementation.
    """
    _bench("latency", "bench_latency", as_json, "onnx", repeats=repeats)


@command(bench_app)
def methods(as_json: AsJson = False, rounds: Rounds = 7, threads: Threads = None) -> None:
    """Measure size, operations, time and memory of every method at the shape of BCI2a."""
    _bench("methods", "bench_methods", as_json, "baselines", rounds=rounds, threads=threads)


@command(bench_app)
def study(
    as_json: AsJson = False,
    subjects: Count = 9,
    seeds: Annotated[int, typer.Option(min=1, max=5)] = 5,
    epochs: Count = 50,
    threads: Threads = None,
) -> None:
    """Time a whole study of three embeddings, compared with a plain loop over runs.

    Parameters
    ----------
    subjects : int
        Number of simulated subjects.
    seeds : int
        Number of seeds per subject.
    epochs : int
        Number of epochs per run.
    """
    sizes: Any = {"subjects": subjects, "seeds": seeds, "epochs": epochs, "threads": threads}
    _bench("training", "bench_study", as_json, **sizes)


@command(bench_app)
def recommended(
    as_json: AsJson = False,
    rounds: Annotated[int, typer.Option(min=10)] = 50,
    threads: Threads = None,
) -> None:
    """Time training and single trials of `recommended`, compared with TS+LR and MAtt.

    Parameters
    ----------
    rounds : int
        Number of single trials per method; medians are reported.
    """
    _bench("methods", "bench_recommended", as_json, rounds=rounds, threads=threads)


@command(bench_app)
def threads(
    as_json: AsJson = False,
    rounds: Rounds = 5,
    threads: Annotated[int, typer.Option(min=2)] = 2,
) -> None:
    """Time the Python API with several threads, compared with one thread.

    Parameters
    ----------
    threads : int
        Number of threads to compare with one.
    """
    _bench("methods", "bench_threads", as_json, rounds=rounds, threads=threads)


@command(bench_app)
def live(
    as_json: AsJson = False,
    seconds: Annotated[float, typer.Option(min=0.5)] = 20.0,
    calls: Annotated[int, typer.Option(min=50)] = 1000,
) -> None:
    """Time live decisions from the last sample on, compared with SciPy + pyRiemann.

    Parameters
    ----------
    seconds : float
        Seconds of decisions over LSL, per implementation and turn (two turns).
    calls : int
        Number of timed calls without LSL, per implementation.
    """
    _bench("latency", "bench_live", as_json, "live", seconds=seconds, calls=calls)
