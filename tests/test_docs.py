"""What the documentation site is made of, without building it: `make docs` does that."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import typer.main

import spdtokens
from spdtokens.experiments.config import check_study, read_study

ROOT = Path(__file__).parents[1]
ROOMS = {
    "geometry": "geometry",
    "preprocessing": "preprocessing",
    "datasets": "datasets",
    "classifiers": "classifiers",
    "classifiers.nn": "nn",
    "classifiers.explain": "explain",
    "evaluation": "evaluation",
    "runtime": "runtime",
}
SOURCE = Path(spdtokens.__file__).parent
WITH_EXAMPLES = [
    ".".join(("spdtokens", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text()
]
STUDIES = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for i, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL))
    if "datasets" in block and not re.match(r"# \S+\.toml\n", block)
]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room: str) -> None:
    names = importlib.import_module(f"spdtokens.{room}").__all__
    page = (ROOT / "docs" / "api" / f"{ROOMS[room]}.rst").read_text()
    # Constants are documented where they are used.
    missing = [name for name in names if not name.isupper() and not re.search(rf"\b{name}\b", page)]
    assert not missing


def test_every_name_of_the_top_is_on_the_first_page() -> None:
    page = (ROOT / "docs" / "api" / "index.rst").read_text()
    assert not [name for name in spdtokens.__all__ if not re.search(rf"\b{name}\b", page)]


def test_names_of_the_reference_exist() -> None:
    for page in sorted((ROOT / "docs" / "api").glob("*.rst")):
        text = page.read_text()
        module = re.search(r"currentmodule:: (\S+)", text)
        if not module:
            assert page.stem == "errors"
            continue
        for block in re.findall(r":nosignatures:\n\n((?:   \S+\n)+)", text):
            for name in block.split():
                assert _resolve(f"{module[1]}.{name}") is not None


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_of_docstrings_run(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize("block", STUDIES)
def test_study_files_of_the_pages_can_be_used(block: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(block)
    check_study(read_study(tmp_path / "study.toml"))


def test_every_command_has_its_section(tmp_path: Path) -> None:
    page = tmp_path / "new" / "cli.md"
    runpy.run_path(str(ROOT / "docs" / "_cli_page.py"))["write_cli_page"](page)
    headings = re.findall(r"^#+ (spdtokens.*)$", page.read_text(), re.MULTILINE)
    from spdtokens.cli import app

    assert headings == list(_commands(typer.main.get_command(app), "spdtokens"))


def test_tutorials_are_listed() -> None:
    scripts = {path.name for path in (ROOT / "examples").glob("plot_*.py")}
    linked = re.findall(
        r"\.\./examples/(plot_\w+\.py)", (ROOT / "docs" / "tutorials.md").read_text()
    )
    assert scripts == set(linked)


def test_numbers_of_the_pages_are_those_stored(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(ROOT / "docs" / "_results.py"))["main"]
    assert main("check") == 0, capsys.readouterr().out


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = {"index"}
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            listed |= set(re.findall(r"^(?:\w+/)?([\w-]+)$", block, re.MULTILINE))
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "research").glob("*.md")]
    assert {page.stem for page in pages} <= listed


def test_prose_that_reads_as_translated_is_found(tmp_path: Path) -> None:
    prose = runpy.run_path(str(ROOT / "docs" / "_prose.py"))
    page = tmp_path / "page.md"
    page.write_text("There is no limit.\n\nIt is no network. It prints\na line a trial.\n")
    assert [(line, phrase) for line, phrase, _ in prose["findings"](page)] == [
        (4, "line a trial"),
        (3, "is no network"),
    ]
    clean = ("src/spdtokens/cli", "src/spdtokens/bench", "src/spdtokens/_tables.py", "examples")
    assert prose["main"](*(str(ROOT / place) for place in clean)) == 0


def _resolve(path: str) -> Any:
    """What a dotted name means; as much of it as can be is a module."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            thing = getattr(thing, name)
        return thing
    return None


def _commands(command: Any, name: str) -> list[str]:
    inner = getattr(command, "commands", {})
    children = [c for k, v in inner.items() if not v.hidden for c in _commands(v, f"{name} {k}")]
    return [name, *children]
