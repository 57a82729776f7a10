"""Complete sessions in the official formats are read completely, and decode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from spdtokens import evaluate, load_dataset
from spdtokens.errors import DataError
from tests.datasets.official_files import write_bci2a, write_bcicha, write_mamem

Write = Callable[[Path, Iterable[int]], None]


@pytest.mark.parametrize(
    ("write", "name", "options", "sessions", "shape", "bound"),
    [
        (write_bci2a, "bci2a", {}, [288, 288], (22, 1250), 0.5),
        (write_bcicha, "bcicha", {}, [60, 60, 60, 60, 100], (56, 300), 0.7),
        (write_mamem, "mamem", {"segments": 4}, [100] * 5, (8, 500), 0.5),
    ],
)
def test_complete_sessions(
    tmp_path: Path,
    write: Write,
    name: str,
    options: dict[str, int],
    sessions: list[int],
    shape: tuple[int, int],
    bound: float,
) -> None:
    write(tmp_path, [2])
    options = {**options, "folder": str(tmp_path)}
    dataset = load_dataset(name, **options)
    assert dataset.subjects == ("2",)
    loaded = [dataset.load("02", session) for session in dataset.sessions("02")]
    assert [len(recording) for recording in loaded] == sessions
    assert {recording.X.shape[1:] for recording in loaded} == {shape}
    result = evaluate(
        name, "ts-lr", "session-transfer", subjects="02", dataset_options=options, paradigm="other"
    )
    assert result.rows[0].score > bound
    with pytest.raises(DataError, match=r"no subject '6'. It has: 2"):
        dataset.chosen("6")
