"""The run store: one SQLite file that survives kill -9 at any moment."""

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

#: "SPDt" in the file header tells a store from other SQLite files.
APPLICATION = 0x53504474
#: Since version 3, a run is identified by its estimator's parameters. Others are refused.
SCHEMA = 3
#: Seconds to wait for another writing process.
PATIENCE = 60.0

#: The fastest zlib level: ids shrink to a twentieth with any, probabilities hardly at all.
LEVEL = 1

# The number is the order of insertion; SQLite's rowid would not survive a VACUUM.
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
# Keys are passed as one JSON text, since SQLite limits the number of bound values.
_AMONG = "key IN (SELECT value FROM json_each(?))"


class RunStore:
    """Results of runs, by the key of the run and the digest of the code that computed it.

    :meth:`add` is one transaction: all results are on disk when it returns, or none if the process
    is killed before. Processes that write at the same time wait for each other.

    Parameters
    ----------
    path : str or Path
        The store, created if it does not exist. It must be on a local disk: the write-ahead log
        does not work on network file systems.

    Raises
    ------
    StudyError
        If the file is not a store, or damaged. It is not changed.
    OSError
        If the file cannot be written.

    See Also
    --------
    spdtokens.experiments.run.run_study : Run what is missing in a store.
    spdtokens.experiments.export.to_csv : Export results.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from spdtokens import evaluate
    >>> from spdtokens.experiments.store import RunStore
    >>> X = np.random.default_rng(0).standard_normal((40, 4, 50))
    >>> data = (X @ X.swapaxes(1, 2), np.arange(40) % 2)
    >>> results = evaluate(data, "mdm", "k-fold").results["mdm"]
    >>> with TemporaryDirectory() as folder, RunStore(Path(folder, "runs.sqlite")) as store:
    ...     print(store.add(results), store.add(results), len(store.results()))
    5 0 5
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        output_file(self.path)  # reading needs a log beside the store too
        if self.path.exists():
            with self.path.open("rb") as file:
                head = file.read(16)
            # An empty file is left by a process that was killed while creating the store.
            if head not in (b"", b"SQLite format 3\0"):
                raise StudyError(f"{path} is not a store of runs. Choose another name for it.")
        with _told(self.path):
            # Transactions are explicit, not implicit as by Python's default.
            self._connection = sqlite3.connect(self.path, PATIENCE, isolation_level=None)
        try:
            with _told(self.path):
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        # Checked before anything is written: the journal mode of another file stays as it is.
        new = _is_new(self._connection, self.path)
        _use_log(self._connection, self.path)
        # A run may have taken an hour: wait for the disk.
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
        """Store results, all or none; results that are there already are not changed.

        Parameters
        ----------
        results : iterable of RunResult
            Results with an origin, which names the code that computed them.

        Returns
        -------
        int
            Number of new results.
        """
        # Packed before the transaction, so that other writers do not wait for it.
        rows = [(result.spec.key, result.origin["code"], *pack(result)) for result in results]
        with _told(self.path), self._transaction():
            before = self._connection.total_changes
            self._connection.executemany(
                "INSERT OR IGNORE INTO runs (key, code, spec, rest, arrays) VALUES (?, ?, ?, ?, ?)",
                rows,
            )
            return self._connection.total_changes - before

    def done(self, keys: Iterable[str], code: str | None) -> set[str]:
        """Return the keys that have a result.

        Parameters
        ----------
        keys : iterable of str
            Keys of runs.
        code : str or None
            Count only results computed by this code; None counts any.

        Returns
        -------
        set of str
            Those of the keys that have a result.
        """
        asked = json.dumps(list(keys))
        with _told(self.path):
            found = self._connection.execute(
                f"SELECT key FROM runs WHERE {_AMONG} AND code = coalesce(?, code)", (asked, code)
            )
            return {key for (key,) in found}

    def results(
        self, keys: Iterable[str] | None = None, code: str | None = None
    ) -> list[RunResult]:
        """Return stored results, one per key.

        Parameters
        ----------
        keys : iterable of str, default=None
            Keys of runs, in the order of the results; keys without a result are skipped. None
            returns all, in the order of insertion.
        code : str, default=None
            Return only results computed by this code. None returns the latest result of each run.

        Returns
        -------
        list of RunResult
            The results.

        Raises
        ------
        StudyError
            If a stored result is damaged.
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
        """Count the results of each version of the code.

        Returns
        -------
        dict of str to int
            Number of results by code digest, in the order of insertion.
        """
        with _told(self.path):
            found = self._connection.execute(
                "SELECT code, count(*) FROM runs GROUP BY code ORDER BY min(number)"
            )
            return dict(found.fetchall())

    def __len__(self) -> int:
        """Count the results; a run computed by two versions of the code counts twice."""
        return sum(self.codes().values())

    def close(self) -> None:
        """Close the file. Its log is merged into it unless another process has it open."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE waits for other writers; a deferred transaction would fail at the first row.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has ended it already
                self._connection.execute("ROLLBACK")
            raise


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file is empty; refuse anything but a store of this version."""
    # One statement, hence one snapshot, while another process may be creating the store.
    application, version, tables = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if application == version == tables == 0:
        return True
    if application != APPLICATION:
        raise StudyError(
            f"{path} is an SQLite file of another program. Choose another name for the store."
        )
    if version not in (0, SCHEMA):  # 0: the process that created it was killed
        new = shlex.quote(str(path.with_name(f"{path.stem}-0.2{path.suffix}")))
        by = "a later spdtokens" if version > SCHEMA else "spdtokens 0.1"
        raise StudyError(
            f"{path} was created by {by}, which identifies runs in another way (store version "
            f"{version}, supported: {SCHEMA}). It was not changed. Use a new store: --store {new}; "
            f"or read this one with {by}."
        )
    return False


def _use_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to the write-ahead log; without it, a reader and a writer block each other."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # SQLite does not wait here if two processes switch a new file at the same time.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StudyError(
            f"{path}: SQLite cannot use a write-ahead log there (it offers {mode!r}), as on most "
            "network file systems. Put the store on a local disk."
        )


def _unusable_run(path: Path, key: str, why: Exception) -> StudyError:
    remove = (
        f"import sqlite3; store = sqlite3.connect({json.dumps(str(path))}); "
        f'store.execute("DELETE FROM runs WHERE key = ?", ["{key}"]); store.commit()'
    )
    return StudyError(
        f"{path} is damaged: run {key} cannot be read: {why}. Other runs are not affected. "
        f"Remove this run, then repeat it with `spdtokens study run`:\n"
        f"python -c {shlex.quote(remove)}"
    )


def _damaged(path: Path, why: str) -> StudyError:
    aside = path.with_name(f"{path.name}.damaged")
    return StudyError(
        f"{path} is damaged: {why}. It was not changed. Restore it from a backup, or move it away "
        f"and repeat the runs: mv {shlex.quote(str(path))} {shlex.quote(str(aside))}"
    )


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise SQLite's errors with the name of the file and a remedy."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a mistake of the caller, such as a closed store
    except sqlite3.DatabaseError as error:
        # By error code: the messages are ambiguous.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        kind = code & 0xFF  # without the details in the higher bits
        outside = ("FULL", "READONLY", "PERM", "CANTOPEN", "IOERR")
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            why = StudyError(
                f"{path}: another process has been writing for over {PATIENCE:g} s. Stop it if it "
                "hangs, or try again."
            )
        elif code == sqlite3.SQLITE_IOERR_SHORT_READ or kind not in (
            getattr(sqlite3, f"SQLITE_{name}") for name in outside
        ):
            # Our statements never change: the file must be wrong.
            why = _damaged(path, str(error))
        else:
            why = StudyError(
                f"{path} cannot be used: {error}. Stored runs are safe. Check that the disk is not "
                f"full and that {path.parent} can be written (reading a store needs a log beside "
                "it too), and try again."
            )
        raise why from error


# ------------------------------------------------------------------ a result as a row


def pack(result: RunResult) -> tuple[str, str, bytes]:
    """Convert a result to a row: the spec as JSON, the other plain values as JSON, and the arrays.

    The blob is zlib-compressed: arrays in NumPy's format, one after another: ids, y, probabilities,
    then each curve in the order of the names in the second text. Metrics may be NaN, which Python
    writes into JSON as such. Test scores are not stored: they follow from ``y`` and the
    probabilities.
    """
    names = ("train", "validation", "sizes", "curves", "epoch", "leaky", "seconds", "memory")
    rest = {name: getattr(result, name) for name in (*names, "origin")}
    rest["curves"] = list(result.curves)
    stream = io.BytesIO()
    for array in (result.ids, result.y, result.probabilities, *result.curves.values()):
        # No pickle: a store from somebody else must not be able to run code.
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    spec, blob = as_text(result.spec.values()), zlib.compress(stream.getvalue(), LEVEL)
    rest["digest"] = _digest(spec, rest, blob)
    return spec, json.dumps(rest, default=np.generic.item), blob


def unpack(spec: str, rest: str, blob: bytes) -> RunResult:
    """Convert a row back to a result; tuples within the spec become lists, its key stays the same.

    Raises
    ------
    ValueError, KeyError, zlib.error
        If the row is not what :func:`pack` returned, or its arrays contradict each other.
    """
    values: dict[str, Any] = json.loads(rest)
    if values.pop("digest") != _digest(spec, values, blob):
        raise ValueError("its checksum does not match")
    stream = io.BytesIO(zlib.decompress(blob))

    def array() -> Any:
        return np.lib.format.read_array(stream, allow_pickle=False)

    ids, y, probabilities = array(), array(), array()
    checked(y, probabilities)
    if len(ids) != len(y):
        raise ValueError(f"it has {len(ids)} trial ids but {len(y)} labels")
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
    """Test scores by metric, each computed on first access."""

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
