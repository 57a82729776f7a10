from __future__ import annotations

from pathlib import Path

import pytest

from spdtokens._files import written_whole


def test_written_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with written_whole(target) as path:
        path.write_text("new")
        assert not target.exists()
        assert path.suffix == ".txt"
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_failure_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")

    def write_half() -> None:
        with written_whole(target) as path:
            path.write_text("half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
