from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from spdtokens import _files
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


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, target = tmp_path / "a.txt", tmp_path / "far" / "b.txt"
    link.symlink_to(target)
    for text in ("new", "newer"):  # first of a file that is not there yet
        with written_whole(link) as path:
            path.write_text(text)
        assert target.read_text() == text
    assert link.is_symlink()
    assert [p.name for p in target.parent.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permissions(tmp_path: Path, umask: int) -> None:
    """Those of the umask, or of the file that was there; never wider on the way."""
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.touch()
    old.chmod(0o600)
    before = os.umask(umask)
    try:
        for target, mode in ((old, 0o600), (new, 0o666 & ~umask)):
            with written_whole(target) as path:
                assert stat.S_IMODE(path.stat().st_mode) == mode
                path.write_text("x")
            assert stat.S_IMODE(target.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_a_name_as_long_as_the_disk_allows(tmp_path: Path) -> None:
    target = tmp_path / ("a" * 251 + ".txt")
    with written_whole(target) as path:
        path.write_text("x")
    assert target.read_text() == "x"


def _loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (Path.mkdir, IsADirectoryError),
        (os.mkfifo, OSError),
        (_loop, OSError),
        (lambda path: path.symlink_to(path.parent / "none" / "a.csv"), FileNotFoundError),
    ],
)
def test_what_is_no_file_is_refused_and_kept(tmp_path: Path, make, error: type[OSError]) -> None:
    """A pipe, a device and a loop of links were replaced by a file."""
    target = tmp_path / "a.csv"
    make(target)
    kind = stat.S_IFMT(target.lstat().st_mode)

    def write() -> None:
        with written_whole(target) as path:
            path.write_text("x")

    for attempt in (write, lambda: _files.output_file(target)):
        with pytest.raises(error, match=r"a\.csv"):
            attempt()
    assert stat.S_IFMT(target.lstat().st_mode) == kind
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
