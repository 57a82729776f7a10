"""A room imports only rooms before it: a trial walks one way through the house."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spdtokens

HOUSE = Path(spdtokens.__file__).parent
ROOMS = [
    "runtime",
    "geometry",
    "preprocessing",
    "datasets",
    "classifiers",
    "evaluation",
    "experiments",
    "reporting",
    "inference",
    "paper",
    "bench",
    "cli",
]
FILES = sorted(HOUSE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    """Modules of the package that a file imports, at its top or inside functions."""
    found: set[str] = set()
    package = ("spdtokens", *path.relative_to(HOUSE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(x for x in (base, node.module) if x)
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("spdtokens.")}


def imported_rooms(path: Path) -> set[str]:
    rooms = {name.split(".")[1] for name in imported_modules(path)}
    return {room for room in rooms if room in ROOMS}


def test_every_room_has_a_place_in_the_order() -> None:
    known = {*ROOMS, "errors", "__init__", "__pycache__", "py.typed"}
    unknown = {room_of(path) for path in FILES} - known
    # Files that begin with an underscore are tools for every room.
    assert {name for name in unknown if not name.startswith("_")} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "_deprecated"):  # they lead to all rooms
        return
    limit = ROOMS.index(room) if room in ROOMS else -1
    later = {other for other in imported_rooms(path) if ROOMS.index(other) > limit}
    assert not later, f"{path.relative_to(HOUSE)} imports {later}, which come after {room!r}"


def test_the_check_sees_a_wrong_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "geometry").mkdir()
    wrong = tmp_path / "geometry" / "wrong.py"
    wrong.write_text("def f():\n    from spdtokens.paper import theory\n")
    monkeypatch.setattr("tests.test_rooms.HOUSE", tmp_path)
    with pytest.raises(AssertionError, match="come after 'geometry'"):
        test_imports_go_one_way(wrong)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(HOUSE)))
def test_files_stay_small(path: Path) -> None:
    assert path.read_text().count("\n") <= 900
