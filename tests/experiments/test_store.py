from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spdtokens.errors import StudyError
from spdtokens.evaluation.metrics import all_scores
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text
from spdtokens.experiments import store as store_module
from spdtokens.experiments.store import APPLICATION, SCHEMA, RunStore, pack, unpack
from tests.experiments.helpers import SPEC, assert_same, made

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


def test_what_is_added_comes_back(path: Path) -> None:
    results = [made(i) for i in range(5)]
    with RunStore(path) as store:
        assert store.add(results) == 5
    with RunStore(path) as store:
        found = store.results()
        assert len(store) == 5
    for one, other in zip(results, found, strict=True):
        assert_same(one, other)
    assert [p.name for p in path.parent.iterdir()] == ["runs.sqlite"]  # the log is merged


names = st.text(max_size=8)
numbers = st.floats(width=64)
scores = st.dictionaries(names, numbers, max_size=3)


@st.composite
def any_result(draw: st.DrawFn) -> RunResult:
    n, classes = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    p = draw(hnp.arrays(np.float32, (n, classes), elements=st.floats(0.125, 1, width=32)))
    p /= p.sum(1, keepdims=True)
    y = draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    text = st.text(st.characters(exclude_characters="\0"), max_size=6)
    return RunResult(
        spec=replace(
            SPEC,
            dataset=draw(names),
            selection={"classes": tuple(draw(st.lists(names, max_size=3)))},
            subjects=tuple(draw(st.lists(names, max_size=3))),
            about=draw(st.dictionaries(names, names | st.none() | st.booleans())),
            estimator=draw(st.dictionaries(names, names | st.none() | st.booleans())),
            seed=draw(st.none() | st.integers(0, 2**62)),
        ),
        ids=np.array([draw(text) for _ in range(n)], dtype=np.str_),
        y=y,
        probabilities=p,
        train=draw(scores),
        validation=draw(scores),
        test=all_scores(y, p),
        sizes=draw(st.dictionaries(names, st.integers(0, 10**9), max_size=3)),
        curves=draw(st.dictionaries(names, hnp.arrays(np.float64, st.integers(0, 4)), max_size=3)),
        epoch=draw(st.none() | st.integers(1, 999)),
        leaky=draw(names),
        seconds=draw(numbers),
        memory=draw(numbers),
        origin={**draw(st.dictionaries(names, names, max_size=2)), "code": "c"},
    )


@given(any_result())
def test_packing_loses_nothing(result: RunResult) -> None:
    found = unpack(*pack(result))
    assert found.spec.key == result.spec.key  # though a tuple within the spec is a list now
    plain = json.loads(as_text(result.spec.values()))
    assert_same(replace(result, spec=RunSpec.of(plain)), found)


def test_a_run_is_stored_once(path: Path) -> None:
    first = made(1)
    with RunStore(path) as store:
        assert store.add([first, first]) == 1
        assert store.add([replace(first, seconds=99.0), made(2)]) == 1
        assert_same(store.results([first.spec.key])[0], first)
        assert store.add([]) == 0


def test_other_code_is_another_result(path: Path) -> None:
    old, new = made(1, "old"), made(1, "new")
    key = old.spec.key
    with RunStore(path) as store:
        store.add([old, made(2, "old"), new])
        assert store.codes() == {"old": 2, "new": 1}
        assert len(store) == 3
        assert store.done([key, made(2).spec.key, "nothing"], "new") == {key}
        assert store.done([key, made(2).spec.key, "nothing"], None) == {key, made(2).spec.key}
        assert [r.origin["code"] for r in store.results()] == ["old", "new"]
        assert [r.origin["code"] for r in store.results([key])] == ["new"]
        assert [r.origin["code"] for r in store.results([key], "old")] == ["old"]
        assert store.results([key], "other") == []


def test_results_come_in_the_order_of_the_keys(path: Path) -> None:
    results = [made(i) for i in range(6)]
    keys = [r.spec.key for r in results]
    with RunStore(path) as store:
        store.add(results)
        asked = [keys[4], "unknown", keys[0], keys[4]]
        assert [r.spec.key for r in store.results(asked)] == [keys[4], keys[0]]
        assert store.results([]) == []


def test_more_keys_than_a_statement_has_variables(path: Path) -> None:
    key = made(1).spec.key
    many = [f"{i:032x}" for i in range(300_000)]
    with RunStore(path) as store:
        store.add([made(1)])
        assert store.done([*many, key], None) == {key}
        assert len(store.results([*many, key])) == 1


def test_no_pickle_is_stored(path: Path) -> None:
    objects = np.array([{}], dtype=object)
    with RunStore(path) as store:
        with pytest.raises(ValueError, match="allow_pickle"):
            store.add([made(1, ids=objects)])
        assert len(store) == 0


# ------------------------------------------------------------------ several processes


def _add_many(path: Path, first: int, n: int, gate: Any) -> None:
    gate.wait()
    with RunStore(path) as store:
        for i in range(first, first + n):
            store.add([made(i)])


def test_two_processes_add_at_once(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(2)  # both open the store, which is not there yet, at once
    # Half of the runs are done by both.
    workers = [context.Process(target=_add_many, args=(path, i, 200, gate)) for i in (0, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    with RunStore(path) as store:
        assert {r.spec.seed for r in store.results()} == set(range(300))
        assert len(store) == 300


def _python(code: str, path: Path) -> subprocess.Popen[str]:
    search = os.pathsep.join([str(ROOT), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )


def _is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


IN_A_TRANSACTION = """
import os, signal, sys
from spdtokens.experiments.store import RunStore
from tests.experiments.helpers import made
store = RunStore(sys.argv[1])
store.add([made(i) for i in range(20)])
size = os.path.getsize(sys.argv[1] + "-wal")
calls = 0
def kill():
    global calls
    calls += 1
    if calls == 8:
        print("killed inside", store._connection.in_transaction, size, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
store._connection.set_progress_handler(kill, 1000)
store.add([made(i, n=288) for i in range(100, 800)])
print("survived")
"""


def test_killed_in_a_transaction_only_that_is_lost(path: Path) -> None:
    process = _python(IN_A_TRANSACTION, path)
    said, _ = process.communicate(timeout=120)
    *words, size = said.split()
    assert (process.returncode, words) == (-signal.SIGKILL, ["killed", "inside", "True"])
    # Rows of the lost transaction had reached the disk, and are in the log still.
    assert path.with_name("runs.sqlite-wal").stat().st_size > int(size) + 100_000
    with RunStore(path) as store:
        assert sorted(r.spec.seed for r in store.results()) == list(range(20))  # type: ignore[type-var]
        assert store.add([made(i) for i in range(15, 25)]) == 5
    assert _is_sound(path)


# ------------------------------------------------------------------ files that are refused


def _refused(path: Path, message: str) -> str:
    """The message, and the file as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises((StudyError, OSError)) as caught:
        RunStore(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value) or str(path.parent) in str(caught.value)
    if before is not None:
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.iterdir()] == [path.name]
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"dataset,method\n", b"x", b"SQLite format 2\0" * 99, "CREATE TABLE runs (key TEXT)"],
)
def test_another_file_is_refused(path: Path, content: bytes | str) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        _change(path, content)
    _refused(path, "Choose another name")


@pytest.mark.parametrize("version", [*range(1, SCHEMA), SCHEMA + 1])
def test_a_store_of_another_edition_is_refused(path: Path, version: int) -> None:
    """Its runs are identified by other values, so none would be found in it."""
    RunStore(path).close()
    _change(path, f"PRAGMA user_version = {version}")
    told = _refused(path, "spdtokens 0.1" if version < SCHEMA else "a later spdtokens")
    # The name that it proposes can be used, whatever is in the path.
    words = shlex.split(told)
    new = Path(words[words.index("--store") + 1].rstrip(";"))
    assert not new.exists()
    with RunStore(new) as store:
        assert store.add([made(1)]) == 1


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.999])
def test_a_truncated_store_is_refused(path: Path, share: float) -> None:
    with RunStore(path) as store:
        store.add([made(i, n=288) for i in range(40)])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    _refused(path, "damaged")


def _change(path: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def _first_rest(path: Path) -> dict[str, Any]:
    connection = sqlite3.connect(path)
    (rest,) = connection.execute("SELECT rest FROM runs WHERE number = 1").fetchone()
    connection.close()
    found: dict[str, Any] = json.loads(rest)
    return found


def _remedy(error: StudyError) -> None:
    """Do what the last line of the message says."""
    command = shlex.split(str(error).splitlines()[-1])
    subprocess.run([sys.executable, *command[1:]], check=True)


@pytest.mark.parametrize("what", ["train", "sizes", "leaky", "origin", "arrays"])
def test_nothing_of_a_run_can_be_changed_unnoticed(path: Path, what: str) -> None:
    results = [made(i, n=60) for i in range(2)]
    with RunStore(path) as store:
        store.add(results)
    if what == "arrays":
        _change(path, "UPDATE runs SET arrays = zeroblob(50) WHERE number = 1")
    else:
        rest = _first_rest(path)
        value = rest[what]
        rest[what] = value | {next(iter(value)): 7} if isinstance(value, dict) else "changed"
        _change(path, "UPDATE runs SET rest = ? WHERE number = 1", json.dumps(rest))
    with RunStore(path) as store, pytest.raises(StudyError, match=results[0].spec.key):
        store.results()


def test_scores_follow_from_the_probabilities(path: Path) -> None:
    result = made(3)
    with RunStore(path) as store:
        store.add([replace(result, test={"accuracy": 0.99, "made up": 1.0})])
        (found,) = store.results()
    assert dict(found.test) == all_scores(result.y, result.probabilities)
    assert found.test.get("made up") is None
    assert "test" not in _first_rest(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"probabilities": np.full((12, 4), 0.5)},
        {"probabilities": np.full((11, 4), 0.25)},
        {"probabilities": np.full((12, 4), np.nan)},
        {"y": np.full(12, 7)},
        {"ids": np.array(["one"])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_arrays_that_contradict_each_other(path: Path, changes: dict[str, Any]) -> None:
    with RunStore(path) as store:
        store.add([made(1), replace(made(2), **changes)])
        with pytest.raises(StudyError, match=made(2).spec.key):
            store.results()


def test_a_run_under_the_key_of_another(path: Path) -> None:
    """Without a check: a KeyError in the middle of a table."""
    with RunStore(path) as store:
        store.add([made(1)])
    _change(path, "UPDATE runs SET key = ?", made(2).spec.key)
    with RunStore(path) as store, pytest.raises(StudyError, match=made(2).spec.key) as caught:
        store.results()
    _remedy(caught.value)
    with RunStore(path) as store:
        assert store.results() == []


# ------------------------------------------------------------------ faults are told apart


def test_damage_is_not_called_a_full_disk(path: Path) -> None:
    with RunStore(path) as store:
        store.add([made(i, n=288) for i in range(40)])
    whole = path.read_bytes()
    # In the pages of rows, of the index and, at last, of the schema.
    for place in (len(whole) - 6000, 8192 + 2000, 4096, 100):
        path.write_bytes(whole[:place] + b"\xa5" * 900 + whole[place + 900 :])
        with pytest.raises(StudyError) as caught:
            RunStore(path).results()
        assert "damaged" in str(caught.value)
        assert "full" not in str(caught.value)
    subprocess.run(shlex.split(str(caught.value).rpartition(": ")[2]), check=True)
    with RunStore(path) as store:
        assert len(store) == 0
    assert path.with_name("runs.sqlite.damaged").exists()


def test_a_store_without_its_table_is_damaged(path: Path) -> None:
    """SQLite calls this an operational error, as it does a full disk."""
    RunStore(path).close()
    _change(path, "DROP TABLE runs")
    with RunStore(path) as store, pytest.raises(StudyError, match="damaged: no such table"):
        store.results()


def test_a_full_disk_and_a_store_that_became_read_only_are_told(path: Path) -> None:
    with RunStore(path) as store:
        store.add([made(1)])
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        for pragma, why in ((f"max_page_count = {pages}", "full"), ("query_only = 1", "readonly")):
            store._connection.execute(f"PRAGMA {pragma}")
            with pytest.raises(StudyError, match=why) as caught:
                store.add([made(i, n=288) for i in range(2, 40)])
            assert "damaged" not in str(caught.value)
            assert str(path) in str(caught.value)
        assert len(store) == 1


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()  # left by a process that was killed as it made it
    with RunStore(path) as store:
        assert len(store) == 0
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.close()


@pytest.mark.parametrize("place", ["nowhere/runs.sqlite", ".", "/proc/runs.sqlite"])
def test_places_that_cannot_be_used_are_named(tmp_path: Path, place: str) -> None:
    _refused(tmp_path / place, str((tmp_path / place).parent))


def test_a_place_without_a_log_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def without_shared_memory(name: Path, *args: Any, **more: Any) -> sqlite3.Connection:
        return connect(f"file:{name}?vfs=unix-dotfile", *args, uri=True, **more)

    monkeypatch.setattr(store_module.sqlite3, "connect", without_shared_memory)
    with pytest.raises(StudyError, match=r"write-ahead log .*on a local disk"):
        RunStore(path)


def test_a_writer_that_hangs_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PATIENCE", 0.05)
    with RunStore(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StudyError, match=r"0\.05 s"):
            store.add([made(1)])
        assert len(store) == 0  # readers do not wait
        other.execute("ROLLBACK")
        other.close()
        assert store.add([made(1)]) == 1
