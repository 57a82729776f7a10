"""Study files, made-up results, and small studies with what must come of them."""

from __future__ import annotations

import io
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
import pytest
from pyriemann.tangentspace import TangentSpace
from rich.console import Console
from rich.table import Table
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from typer.testing import CliRunner

from spdtokens import TokenTransformerClassifier
from spdtokens.cli import app
from spdtokens.errors import StudyError
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.runs import RunResult, RunSpec
from spdtokens.experiments.config import Study, check_study, read_study
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import Plan, Progress, plan_study, run_study
from spdtokens.experiments.store import RunStore

# ------------------------------------------------------------------ study files to make mistakes in

SHORT = """
datasets = ["sim-mi"]
methods = ["ts-lr", "mdm"]
protocols = ["session-transfer"]
"""
LONG = """
name = "a"
seeds = 2
metric = "kappa"
[[datasets]]
name = "sim-mi"
{datasets}
[[methods]]
name = "token-log-euclidean"
{methods}
[methods.changes]
n_layers = 2
{changes}
[[protocols]]
name = "blocks"
{protocols}
"""


def read(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text)
    return read_study(path)


def long(**places: str) -> str:
    return LONG.format(**{"datasets": "", "methods": "", "changes": "", "protocols": "", **places})


def problems(folder: Path, text: str) -> list[str]:
    """What is wrong with a study, as a file or with its data."""
    with pytest.raises(StudyError) as caught:
        check_study(read(folder, text))
    head, *rest = str(caught.value).split("\n")
    assert str(folder / "study.toml") in head
    return rest


# ------------------------------------------------------------------ results without an evaluation

SPEC = RunSpec(
    dataset="sim-mi",
    selection={"classes": ["left", "right"], "where": {"run": "1"}},
    subjects=("1",),
    protocol="blocks",
    protocol_options={"folds": 5},
    access="train",
    alignment="none",
    domain="session",
    subject="1",
    fold="block 1",
    method="token-log-euclidean",
    about={"settings": {"bands": "auto", "changes": {"n_layers": 2}, "epochs": None}},
    estimator={"class": "spdtokens.TokenTransformerClassifier", "betas": [0.9, 0.999]},
    seed=0,
    data_hash="00ff",
)


def made(number: int = 0, code: str = "c0de", *, n: int = 12, **changes: Any) -> RunResult:
    """A result; another number is another run."""
    rng = np.random.default_rng(number)
    p = rng.random((n, 4), dtype=np.float32)
    p /= p.sum(1, keepdims=True)
    y = rng.integers(0, 4, n)
    result = RunResult(
        spec=replace(SPEC, seed=number),
        ids=np.array([f"sim-mi/1/0/{i}" for i in range(n)], dtype=np.str_),
        y=y,
        probabilities=p,
        train={"accuracy": 1.0, "roc_auc": float("nan")},
        validation={},
        test=all_scores(y, p),
        sizes={"train": 3 * n, "validation": 0, "test": n},
        curves={"loss": rng.random(50), "validation_loss": np.full(50, np.nan)},
        epoch=50,
        leaky="",
        seconds=0.1 + number,
        memory=512.25,
        origin={"code": code, "git": "abc+", "time": "2026-11-16T00:00:00+00:00"},
    )
    return replace(result, **changes)


def assert_same(one: RunResult, other: RunResult) -> None:
    """Equal in every field, arrays with their types, NaN where there was NaN."""
    assert one.spec.key == other.spec.key
    assert one.spec.family == other.spec.family
    assert one.spec.values() == other.spec.values()
    for name in ("ids", "y", "probabilities"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, strict=True)
    assert list(one.curves) == list(other.curves)
    for name in one.curves:
        np.testing.assert_array_equal(one.curves[name], other.curves[name], strict=True)
    for name in ("train", "validation", "test"):
        # As text, since NaN is not equal to itself.
        assert repr(dict(getattr(one, name))) == repr(dict(getattr(other, name)))
    for name in ("sizes", "epoch", "leaky", "origin"):
        assert getattr(one, name) == getattr(other, name)
    assert repr((one.seconds, one.memory)) == repr((other.seconds, other.memory))


# ------------------------------------------------------------------ a study that takes seconds

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


# ------------------------------------------------------------------ estimators spelled out

TOP = """
seeds = [5, 6]
datasets = ["data"]
protocols = ["session-transfer"]
"""
#: On covariance matrices. Some defaults cannot be named in a file: functions, tuples.
SPELLED = (
    TOP
    + """
[[methods]]
label = "two layers"
class = "TokenTransformerClassifier"
n_layers = 2
d_model = 16
n_heads = 2
d_ff = 16
epochs = 2
betas = [0.8, 0.99]

[[methods]]
label = "selected"
[[methods.steps]]
class = "pyriemann.tangentspace.TangentSpace"
metric = "logeuclid"
[[methods.steps]]
class = "sklearn.feature_selection.SelectKBest"
k = 5
[[methods.steps]]
class = "sklearn.preprocessing.MinMaxScaler"
feature_range = [-1, 1]
[[methods.steps]]
class = "sklearn.linear_model.LogisticRegression"
C = 0.5

"""
)
SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "epochs": 2}
#: The same in Python.
ESTIMATORS: dict[str, BaseEstimator] = {
    "two layers": TokenTransformerClassifier(n_layers=2, betas=(0.8, 0.99), **SMALL),
    "selected": make_pipeline(
        TangentSpace(metric="logeuclid"),
        SelectKBest(k=5),
        MinMaxScaler((-1, 1)),
        LogisticRegression(C=0.5),
    ),
}
#: Of two subjects, the first with two seeds.
SPELLED_RUNS = 2 * (2 + 1)


def assert_by_hand(file: Path, results: list[RunResult]) -> None:
    """Every run is what scikit-learn makes of the recordings."""
    assert len(results) == SPELLED_RUNS
    found = {(r.spec.method, r.spec.subject, r.spec.seed) for r in results}
    assert len(found) == SPELLED_RUNS
    for result in results:
        method, seed = result.spec.method, result.spec.seed
        estimator = clone(ESTIMATORS[method])
        assert (seed is not None) == (method == "two layers")
        if seed is not None:
            estimator.set_params(random_state=seed)
        train, test = (
            np.load(file.parent / "data" / f"sub-{result.spec.subject}_ses-{session}.npz")
            for session in (1, 2)
        )
        expected = estimator.fit(train["C"], train["y"]).predict_proba(test["C"])
        np.testing.assert_array_equal(result.probabilities, expected)


# ------------------------------------------------------------------ tables as printed


def printed(table: Table, width: int = 100) -> str:
    where = Console(file=io.StringIO(), width=width)
    where.print(table)
    return where.file.getvalue()  # type: ignore[attr-defined]


def cells(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.split()[:1] == [first]]
    return line.split()[1:]
