"""``reproduce`` killed by force, and run again."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[3]


def reproduce(out: Path, die_after: int = 0) -> subprocess.CompletedProcess[str]:
    small = [sys.executable, "-m", "tests.paper.reproduce.small", str(die_after)]
    asked = ["reproduce", "geometry", "--quick", "--out", str(out)]
    return subprocess.run(
        [*small, *asked], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )


def stored(out: Path) -> dict[str, tuple[object, ...]]:
    """Every row of the store as it lies there, with the time it took and when it was made."""
    with closing(sqlite3.connect(out / "runs.sqlite")) as store:
        rows = store.execute("SELECT key, number, code, spec, rest, arrays FROM runs").fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


def test_killed_it_goes_on_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    first = reproduce(killed, die_after=2)
    assert first.returncode == -signal.SIGKILL, first.stderr
    before = stored(killed)
    assert len(before) == 4  # two batches of two seeds
    assert {path.name for path in killed.iterdir() if "sqlite" not in path.name} == set()

    again, whole = reproduce(killed), reproduce(undisturbed)
    for done in (again, whole):
        assert done.returncode == 0, done.stderr
    after = stored(killed)
    assert len(after) == 18  # 3 embeddings, 3 data sets, 2 seeds
    assert {key: after[key] for key in before} == before  # not one of them was done again

    for suffix in (".json", ".md", ".tex"):
        mine, other = (
            (folder / f"geometry{suffix}").read_text() for folder in (killed, undisturbed)
        )
        assert mine == other
    cells = json.loads((killed / "geometry.json").read_text())["cells"]
    assert [cell["n_runs"] for cell in cells] == [2] * 9
    names = {path.name for path in killed.iterdir()}
    assert {"geometry.json", "geometry.md", "geometry.tex", "report.html"} <= names
    assert f"is shown in {killed / 'report.html'}" in again.stdout.replace("\n", "")
