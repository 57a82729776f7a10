"""The store of runs: one SQLite file that survives being killed at any moment."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from spdtokens.errors import StudyError
from spdtokens.evaluation.runs import RunResult
from spdtokens.experiments.packing import pack, unpack

#: In the header of the file, so that no other SQLite file is taken for a store: "SPDt".
APPLICATION = 0x53504474
#: Since 3, a run is identified by its estimator's parameters. Earlier versions are refused.
SCHEMA = 3
#: Seconds to wait for another process that writes.
PATIENCE = 60.0

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
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _check_place(self.path)
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
        (said,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise _damaged(self.path, said)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version != SCHEMA:  # new
            self._connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def add(self, results: Iterable[RunResult]) -> int:
        """Store results, all or none; those already there are left as they are.

        Returns
        -------
        int
            How many were new.
        """
        # All packed before the transaction begins, so that others do not wait for it.
        rows = [(result.spec.key, _code(result), *pack(result)) for result in results]
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
        with _told(self.path):
            (n,) = self._connection.execute("SELECT count(*) FROM runs").fetchone()
            return int(n)

    def close(self) -> None:
        """Give the file back. The log is merged into it if nobody else has it open."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def _code(result: RunResult) -> str:
    code = result.origin.get("code")
    if not code:
        raise StudyError(
            f"The run {result.spec.key} ({result.spec.method}, subject {result.spec.subject}) does "
            "not say which code made it. Give it origin=spdtokens.evaluation.runs.origin()."
        )
    return code


def _check_place(path: Path) -> None:
    """Refuse what SQLite would answer with 'unable to open' or would write into."""
    if path.is_dir():
        raise StudyError(f"{path} is a folder; a store of runs is a file in one, say runs.sqlite.")
    if not path.parent.is_dir():
        raise StudyError(f"There is no folder {path.parent} to keep the store {path.name} in.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise StudyError(
            f"{path} cannot be written to, and a store needs a log beside it even to be read. "
            "Change its permissions, or copy it to a folder of your own."
        )
    if path.exists():
        with path.open("rb") as file:
            head = file.read(16)
        # An empty file is what is left of a process that was killed as it made the store.
        if head not in (b"", b"SQLite format 3\0"):
            raise StudyError(f"{path} is not a store of runs. Choose another name for the store.")


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing is in the file yet.

    Raises
    ------
    StudyError
        If what is in it is not a store, or of a later version.
    """
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
    if version > SCHEMA:
        raise StudyError(
            f"{path} was made by a later spdtokens (stores of version {version}, this one knows "
            f"{SCHEMA}). Update spdtokens, or begin a new store."
        )
    if 0 < version < SCHEMA:
        new = shlex.quote(str(path.with_name(f"{path.stem}-0.2{path.suffix}")))
        raise StudyError(
            f"{path} was made by spdtokens 0.1, which identifies runs by other values. It was left "
            f"as it is. Begin a new store: --store {new}; or read this one with spdtokens 0.1."
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
        raise _explained(path, error) from error


def _explained(path: Path, error: sqlite3.DatabaseError) -> StudyError:
    """What SQLite's error means for the file, by its code: the texts do not tell them apart."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    kind = code & 0xFF  # the rest says more, such as which call of the system failed
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StudyError(
            f"{path}: another process has been writing for over {PATIENCE:g} s. Look for one "
            "that hangs, or try again."
        )
    if kind == sqlite3.SQLITE_FULL:
        return StudyError(
            f"{path} cannot be written: the disk is full. What was stored before is safe. Free "
            f"some space in {path.parent}, and try again."
        )
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return StudyError(
            f"{path} cannot be opened for writing ({error}), and a store needs a log beside it "
            "even to be read. Change the permissions of the file and its folder, or copy it to a "
            "folder of your own."
        )
    if kind == sqlite3.SQLITE_IOERR and code != sqlite3.SQLITE_IOERR_SHORT_READ:
        return StudyError(
            f"{path}: the disk failed ({error}, {error.sqlite_errorname}). Look whether it is "
            f"full or gone (df {shlex.quote(str(path.parent))}), and try again."
        )
    # Our statements are always the same: what else can be wrong is the file.
    return _damaged(path, str(error))
