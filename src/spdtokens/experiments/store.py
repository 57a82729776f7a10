"""The store of runs: one SQLite file that survives being killed at any moment."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spdtokens._files import output_file
from spdtokens.errors import StudyError
from spdtokens.evaluation.metrics import METRICS, checked
from spdtokens.evaluation.runs import RunResult, RunSpec, as_text

#: In the header of the file, so that no other SQLite file is taken for a store: "SPDt".
APPLICATION = 0x53504474
#: Since 3, a run is identified by its estimator's parameters. Earlier versions are refused.
SCHEMA = 3
#: Seconds to wait for another process that writes.
PATIENCE = 60.0

#: The fastest of zlib: ids shrink to a twentieth by any level, probabilities hardly by the best.
LEVEL = 1

# The number is the order of arrival; SQLite's hidden one would not survive a VACUUM.
_TABLE = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    code TEXT NOT NULL,
    spec TEXT NOT NULL,
    rest TEXT NOT NULL,
    arrays BLOB NOT NULL,
    UNIQUE (key, code)
)
"""
# A list as one JSON text: SQLite limits how many values a statement may be given one by one.
_AMONG = "key IN (SELECT value FROM json_each(?))"


class RunStore:
    """Results of runs, by the run's key and the digest of the code that made them.

    Adding is one transaction: all of it is on the disk when :meth:`add` returns, and nothing of it
    if the process is killed before. Processes that write at once wait for each other.

    Parameters
    ----------
    path : str or Path
        Made if it is not there, in a folder that is. On a local disk: the write-ahead log does not
        work on network file systems.

    Raises
    ------
    StudyError
        If the file is anything but a sound store, which is then left as it is.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        output_file(self.path)  # a store needs a log beside it even to be read
        if self.path.exists():
            with self.path.open("rb") as file:
                head = file.read(16)
            # An empty file is what is left of a process that was killed as it made the store.
            if head not in (b"", b"SQLite format 3\0"):
                raise StudyError(f"{path} is not a store of runs. Choose another name for it.")
        with _told(self.path):
            # Transactions are begun and ended here, and not as Python guesses.
            self._connection = sqlite3.connect(self.path, PATIENCE, isolation_level=None)
        try:
            with _told(self.path):
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        # Before anything is written: a foreign file is not even switched to a write-ahead log.
        new = _is_new(self._connection, self.path)
        _use_log(self._connection, self.path)
        # A run may have taken an hour: it is worth waiting for the disk.
        self._connection.execute("PRAGMA synchronous = FULL")
        if new:
            with self._transaction():
                if _is_new(self._connection, self.path):  # else another process was faster
                    self._connection.execute(_TABLE)
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
        (said,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise _damaged(self.path, said)

    def add(self, results: Iterable[RunResult]) -> int:
        """Store results, all or none; those already there are left as they are.

        Returns
        -------
        int
            How many were new.
        """
        # All packed before the transaction begins, so that others do not wait for it.
        rows = [(result.spec.key, result.origin["code"], *pack(result)) for result in results]
        with _told(self.path), self._transaction():
            before = self._connection.total_changes
            self._connection.executemany(
                "INSERT OR IGNORE INTO runs (key, code, spec, rest, arrays) VALUES (?, ?, ?, ?, ?)",
                rows,
            )
            return self._connection.total_changes - before

    def done(self, keys: Iterable[str], code: str | None) -> set[str]:
        """Those of the keys that have a result, by this code or, if None, by any."""
        asked = json.dumps(list(keys))
        with _told(self.path):
            found = self._connection.execute(
                f"SELECT key FROM runs WHERE {_AMONG} AND code = coalesce(?, code)", (asked, code)
            )
            return {key for (key,) in found}

    def results(
        self, keys: Iterable[str] | None = None, code: str | None = None
    ) -> list[RunResult]:
        """Stored results, one a key.

        Parameters
        ----------
        keys : iterable of str, optional
            Results come in this order, and keys without one are passed over. All in the order of
            arrival if None.
        code : str, optional
            Only results by this code; by default of each run the one that was added last.
        """
        order = None if keys is None else list(dict.fromkeys(keys))
        where, values = ("1", []) if order is None else (_AMONG, [json.dumps(order)])
        found: dict[str, RunResult] = {}
        with _told(self.path):
            rows = self._connection.execute(
                # With max(), SQLite takes the other columns from the row that has the maximum.
                f"SELECT max(number) AS last, key, spec, rest, arrays FROM runs WHERE {where} "
                "AND code = coalesce(?, code) GROUP BY key ORDER BY last",
                (*values, code),
            )
            for _, key, spec, rest, arrays in rows:
                try:
                    found[key] = unpack(spec, rest, arrays)
                    if found[key].spec.key != key:
                        raise ValueError("it is stored under the key of another run")
                except (ValueError, TypeError, KeyError, zlib.error) as error:
                    raise _unusable_run(self.path, key, error) from error
        return [found[key] for key in (found if order is None else order) if key in found]

    def codes(self) -> dict[str, int]:
        """Number of results by every code, in the order of arrival."""
        with _told(self.path):
            found = self._connection.execute(
                "SELECT code, count(*) FROM runs GROUP BY code ORDER BY min(number)"
            )
            return dict(found.fetchall())

    def __len__(self) -> int:
        """Number of results; a run that two codes made counts twice."""
        return sum(self.codes().values())

    def close(self) -> None:
        """Give the file back. The log is merged into it if nobody else has it open."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE waits for other writers here; begun as a reader it would fail at the first row.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has ended it already
                self._connection.execute("ROLLBACK")
            raise


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing is in the file yet; refuses what is not a store of this version."""
    # In one statement, so that all of it is of one moment while another process makes the store.
    application, version, tables = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if application == version == tables == 0:
        return True
    if application != APPLICATION:
        raise StudyError(
            f"{path} is a SQLite file of another program. Choose another name for the store."
        )
    if version not in (0, SCHEMA):  # 0: an earlier 0.2 was killed as it made the store
        new = shlex.quote(str(path.with_name(f"{path.stem}-0.2{path.suffix}")))
        by = "a later spdtokens" if version > SCHEMA else "spdtokens 0.1"
        raise StudyError(
            f"{path} was made by {by}, which identifies runs by other values (stores of version "
            f"{version}, this one knows {SCHEMA}). It was left as it is. Begin a new store: "
            f"--store {new}; or read this one with {by}."
        )
    return False


def _use_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to the write-ahead log, without which a reader and a writer would block each other."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself where two processes switch a new file at once.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StudyError(
            f"{path}: SQLite cannot keep a write-ahead log there (it offers {mode!r}), as on most "
            "network file systems. Put the store on a local disk."
        )


def _unusable_run(path: Path, key: str, why: Exception) -> StudyError:
    remove = (
        f"import sqlite3; store = sqlite3.connect({json.dumps(str(path))}); "
        f'store.execute("DELETE FROM runs WHERE key = ?", ["{key}"]); store.commit()'
    )
    return StudyError(
        f"{path} is damaged: run {key} cannot be used: {why}. The other runs are not affected. "
        f"Remove this run, and do it again with `spdtokens study run`:\n"
        f"python -c {shlex.quote(remove)}"
    )


def _damaged(path: Path, why: str) -> StudyError:
    aside = path.with_name(f"{path.name}.damaged")
    return StudyError(
        f"{path} is damaged: {why}. It was left as it is. Restore it from a copy, or put it aside "
        f"and do the runs again: mv {shlex.quote(str(path))} {shlex.quote(str(aside))}"
    )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """SQLite's errors with the file's name and what to do."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a closed store, say: the caller's mistake, not the file's
    except sqlite3.DatabaseError as error:
        # By its code: the texts do not tell them apart.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        kind = code & 0xFF  # the rest says more, such as which call of the system failed
        outside = ("FULL", "READONLY", "PERM", "CANTOPEN", "IOERR")
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            why = StudyError(
                f"{path}: another process has been writing for over {PATIENCE:g} s. Look for one "
                "that hangs, or try again."
            )
        elif code == sqlite3.SQLITE_IOERR_SHORT_READ or kind not in (
            getattr(sqlite3, f"SQLITE_{name}") for name in outside
        ):
            # Our statements are always the same: what is wrong is the file.
            why = _damaged(path, str(error))
        else:
            why = StudyError(
                f"{path} cannot be used: {error}. What was stored before is safe. Look whether the "
                f"disk is full or gone and whether {path.parent} may be written to (a store needs "
                "a log beside it even to be read), and try again."
            )
        raise why from error


# ------------------------------------------------------------------ a result as a row


def pack(result: RunResult) -> tuple[str, str, bytes]:
    """The spec as JSON, all other plain values as JSON, and the arrays.

    The blob is zlib over arrays in NumPy's own format, one after another: ids, y, probabilities,
    then each curve in the order of the names in the second text. Metrics may be NaN, which Python
    writes into JSON as such. Scores of test trials are not stored: they follow from ``y`` and the
    probabilities.
    """
    names = ("train", "validation", "sizes", "curves", "epoch", "leaky", "seconds", "memory")
    rest = {name: getattr(result, name) for name in (*names, "origin")}
    rest["curves"] = list(result.curves)
    stream = io.BytesIO()
    for array in (result.ids, result.y, result.probabilities, *result.curves.values()):
        # Never a pickle: a store from somebody else must not be able to run code.
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    spec, blob = as_text(result.spec.values()), zlib.compress(stream.getvalue(), LEVEL)
    rest["digest"] = _digest(spec, rest, blob)
    return spec, json.dumps(rest, default=np.generic.item), blob


def unpack(spec: str, rest: str, blob: bytes) -> RunResult:
    """What :func:`pack` was given. Sequences within the spec come back as lists, its key the same.

    Raises
    ------
    ValueError, KeyError, zlib.error
        If they are not what :func:`pack` gave, or contradict each other.
    """
    values: dict[str, Any] = json.loads(rest)
    if values.pop("digest") != _digest(spec, values, blob):
        raise ValueError("it is not what was stored: its checksum is another")
    stream = io.BytesIO(zlib.decompress(blob))

    def array() -> Any:
        return np.lib.format.read_array(stream, allow_pickle=False)

    ids, y, probabilities = array(), array(), array()
    checked(y, probabilities)
    if len(ids) != len(y):
        raise ValueError(f"it has {len(ids)} trials but {len(y)} labels")
    return RunResult(
        spec=RunSpec.of(json.loads(spec)),
        ids=ids,
        y=y,
        probabilities=probabilities,
        curves={name: array() for name in values.pop("curves")},
        test=DerivedScores(y, probabilities),
        **values,
    )


class DerivedScores(Mapping[str, float]):
    """Every metric of test trials by name, computed when it is first asked for."""

    def __init__(self, y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
        self._of, self._known = (y, probabilities), dict[str, float]()

    def __getitem__(self, name: str) -> float:
        if name not in self._known:
            self._known[name] = METRICS[name](*self._of)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS)

    def __len__(self) -> int:
        return len(METRICS)


def _digest(spec: str, rest: Mapping[str, Any], blob: bytes) -> str:
    plain = json.dumps(rest, sort_keys=True, default=np.generic.item)
    return hashlib.blake2b(spec.encode() + plain.encode() + blob, digest_size=16).hexdigest()
