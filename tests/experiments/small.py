"""A study that takes seconds, and what must come of it however often it is disturbed."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.evaluation.runs import RunResult
from spdtokens.experiments.config import read_study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import Plan, Progress, plan_study, run_study
from spdtokens.experiments.store import RunStore
from tests.experiments.made import assert_same

ROOT = Path(__file__).parents[2]
#: Many families, since a family's runs are done together: batches of 2, 2 and then always 4 runs.
VARIANTS = 10
TEXT = (
    """
seeds = 2
datasets = ["data"]
protocols = ["session-transfer"]
methods = [
    {name = "ts-lr"},
    {name = "mdm"},
    {name = "token-log-euclidean", epochs = 3, changes = {d_model = 16, n_layers = 1, n_heads = 2}},
"""
    + "".join(
        f'    {{name = "spd-token-mlp", label = "mlp {i}", epochs = {10 + i}}},\n'
        for i in range(VARIANTS)
    )
    + "]"
)
#: Of two subjects: two methods without seeds, the others with two.
RUNS = 2 * (1 + 1 + 2 * (1 + VARIANTS))
#: Seconds after which something hangs; far more than anything takes on a busy machine.
LIMIT = 240


def write_study(folder: Path, text: str = TEXT, subjects: int = 2) -> Path:
    """The file and its recordings; their content is always the same."""
    (folder / "data").mkdir(parents=True)
    for subject in range(1, subjects + 1):
        for session in (1, 2):
            rng = np.random.default_rng([subject, session])
            y = np.arange(24) % 2
            X = rng.standard_normal((24, 4, 60))
            X[:, 0] *= (1 + 0.5 * y)[:, None]
            np.savez(
                folder / "data" / f"sub-{subject:02d}_ses-{session}.npz",
                C=X @ X.swapaxes(1, 2) / 60,
                y=y,
                classes=np.array(["rest", "move"]),
                ch_names=np.array(["C3", "Cz", "C4", "Pz"]),
            )
    path = folder / "study.toml"
    path.write_text(text)
    return path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def planned(file: Path, **options: Any) -> Plan:
    return plan_study(read_study(file), **options)


def run_here(file: Path, **options: Any) -> Progress:
    """In this process."""
    plan = planned(file)
    with RunStore(file.with_suffix(".sqlite")) as store:
        return run_study(plan, store, InProcess(plan.source), **options)


def stored(file: Path) -> list[RunResult]:
    with RunStore(file.with_suffix(".sqlite")) as store:
        return planned(file).results(store)


def table(file: Path) -> Any:
    """What ``study show --json`` prints, without where the data is and how long it took."""
    shown = CliRunner().invoke(app, ["study", "show", str(file), "--json"])
    assert shown.exit_code == 0, shown.output
    tables = json.loads(shown.stdout)["tables"]
    for one in tables:
        del one["dataset"]
        for row in one["results"]:
            del row["seconds"]
    return tables


@cache
def undisturbed() -> tuple[dict[str, RunResult], Any]:
    """Results by key, and the table, of the study run in one go."""
    with TemporaryDirectory() as folder:
        file = write_study(Path(folder) / "undisturbed")
        assert run_here(file).done == RUNS
        return {result.spec.key: result for result in stored(file)}, table(file)


def assert_undisturbed(file: Path) -> None:
    """Every run once in a sound store, all the same bit by bit, and the same table."""
    wanted, wanted_table = undisturbed()
    connection = sqlite3.connect(file.with_suffix(".sqlite"))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    (rows,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    connection.close()
    found = stored(file)
    assert rows == len(found) == len(wanted) == RUNS
    for result in found:
        assert_same(_timeless(result), _timeless(wanted[result.spec.key]))
    assert table(file) == wanted_table


def _timeless(result: RunResult) -> RunResult:
    nowhere = replace(result.spec, dataset="")
    return replace(result, spec=nowhere, seconds=0.0, memory=0.0, origin={})


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """``spdtokens study run`` as a process, the leader of a group of its own."""
    code = "from spdtokens.cli import app; app()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "study", "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def environment() -> dict[str, str]:
    search = os.pathsep.join([str(ROOT), *sys.path])
    return {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {LIMIT} s"
        time.sleep(0.005)


def rows_in(path: Path) -> int:
    """Runs in a store by now, seen as another program would."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(path, timeout=60)
    try:
        (n,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        return int(n)
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        connection.close()
