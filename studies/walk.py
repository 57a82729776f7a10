"""How much of the package one trial crosses: the table of docs/architecture.md.

Run `python studies/walk.py`; `--list` also names the functions by file. It measures the package
that Python imports: `PYTHONPATH=OTHER/src python studies/walk.py` measures another checkout.

Counted are the functions defined in files of the package (distinct code objects) that are called,
and these files, from the name of the data set to the result: simulating the data counts. Not
counted are comprehensions, lambdas, methods that `dataclass` generates, and what runs when modules
are imported: all modules are imported first. Arrays for `fit` are made before. Each call has its
own process, since a function whose result is cached is called only once.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
import threading
from collections.abc import Callable
from contextlib import chdir, suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import numpy as np
from typer.testing import CliRunner

import spdtokens

HOME = Path(spdtokens.__file__).parent


def command(text: str) -> Callable[[], None]:
    """Call the command line."""
    from spdtokens.cli import app

    def call() -> None:
        with TemporaryDirectory() as folder, chdir(folder):
            found = CliRunner().invoke(app, text.split(), catch_exceptions=False)
        if found.exit_code:
            raise RuntimeError(f"spdtokens {text}: {found.output}")

    return call


def evaluate_command() -> Callable[[], None]:
    """One method, one subject and one seed."""
    return command(
        "evaluate --dataset sim-mi --method token-log-euclidean --subjects 1 --seeds 1 --json"
    )


def evaluate_three() -> Callable[[], Any]:
    """Three kinds of method in Python."""
    methods = ["recommended", "token-log-euclidean", "ts-lr"]
    return lambda: spdtokens.evaluate("sim-mi", methods, subjects=("1",), seeds=(42,))


def train_command() -> Callable[[], None]:
    """Evaluate, train on all trials and write the model file."""
    return command("train sim-mi --subjects 1 --out model.spdt --json")


def train() -> Callable[[], Any]:
    """Evaluate and train on all trials in Python."""
    return lambda: spdtokens.train("sim-mi", subjects=["1"])


def fit() -> Callable[[], Any]:
    """`fit` and `predict_proba` of the default decoder on arrays."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 8, 500))
    X[:, 0] *= (1 + y)[:, None]
    if "make_decoder" in spdtokens.__all__:
        decoder = spdtokens.make_decoder("mi", sfreq=250)
    else:
        decoder = spdtokens.SPDTokenClassifier(sfreq=250)
    return lambda: decoder.fit(X, y).predict_proba(X)


WALKS = {
    "`spdtokens evaluate`, one method": evaluate_command,
    "`evaluate(...)`, three methods": evaluate_three,
    "`spdtokens train`": train_command,
    "`train(...)`": train,
    "`fit` and `predict_proba` of the default decoder": fit,
}


def crossed(title: str) -> list[tuple[str, str]]:
    """File and qualified name of every function that a call crosses."""
    for module in pkgutil.walk_packages(spdtokens.__path__, "spdtokens."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # needs an extra that is not installed
                import_module(module.name)
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    call = WALKS[title]()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(
        (str(Path(code.co_filename).relative_to(HOME)), code.co_qualname)
        for code in seen.copy()  # threads of progress bars may still run
        if Path(code.co_filename).is_relative_to(HOME) and not code.co_name.startswith("<")
    )


def main() -> None:
    """Print the table, and the functions if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the functions by file")
    asked = parser.parse_args()
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        found = dict(zip(WALKS, pool.map(crossed, WALKS, chunksize=1), strict=True))
    print(f"spdtokens {spdtokens.__version__}, {HOME}\n")
    print("| call | files | functions |\n|---|---|---|")
    for title, functions in found.items():
        print(f"| {title} | {len({file for file, _ in functions})} | {len(functions)} |")
    if asked.list:
        for title, functions in found.items():
            print(f"\n{title}")
            for name in dict.fromkeys(file for file, _ in functions):
                print(f"  {name}: {', '.join(f for file, f in functions if file == name)}")


if __name__ == "__main__":
    main()
