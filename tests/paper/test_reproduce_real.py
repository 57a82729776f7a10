"""``reproduce --data real`` on files in the formats that the authors of the data sets publish."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from spdtokens.classifiers.methods import Settings
from spdtokens.cli import app
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce.experiments import Role
from tests.datasets.official_files import write_bci2a, write_bcicha, write_mamem

SMALL = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three data sets; BCIcha without subject 2 in the first place."""
    folder = tmp_path_factory.mktemp("data")
    write_bci2a(folder / "bci2a", [1])
    write_bcicha(folder / "bcicha", [6, 2])
    write_mamem(folder / "mamem", [1])
    return folder


@pytest.fixture(autouse=True)
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Role.settings

    def short(self: Role, **more: Any) -> Settings:
        found = settings(self, **more)
        return replace(found, epochs=2, changes={**SMALL, **found.changes})

    monkeypatch.setattr(Role, "settings", short)


def reproduce(out: Path, data: Path, *options: str) -> Result:
    command = ["reproduce", "--quick", "--data", "real", "--out", str(out), *options]
    return CliRunner().invoke(app, command, env={"SPDTOKENS_DATA": str(data), "HOME": str(out)})


def runs(out: Path) -> dict[str, Any]:
    with RunStore(out / "runs.sqlite") as store:
        return {run.spec.dataset: run for run in store.results()}


def test_subjects_are_the_papers_and_splits_have_its_sizes(files: Path, tmp_path: Path) -> None:
    for split in ("honest", "paper"):
        done = reproduce(tmp_path / split, files, "geometry", "--split", split)
        assert done.exit_code == 0, done.output
    honest, paper = runs(tmp_path / "honest"), runs(tmp_path / "paper")
    for found in (honest, paper):
        assert {name: run.spec.subject for name, run in found.items()} == {
            "bci2a": "1",
            "bcicha": "2",  # by number, although 6 comes first
            "mamem": "1",
        }

    def sizes(found: dict[str, Any]) -> dict[str, list[int]]:
        parts = ("train", "validation", "test")
        return {name: [run.sizes[part] for part in parts] for name, run in found.items()}

    assert sizes(paper) == {
        "bci2a": [252, 36, 288],
        "bcicha": [237, 51, 52],
        "mamem": [350, 75, 75],
    }
    assert sizes(honest) == {
        "bci2a": [288, 0, 288],
        "bcicha": [180, 60, 100],
        "mamem": [75, 25, 25],
    }
    # The trials of the other files are so near to each other that they overlap.
    assert [name for name, run in paper.items() if "segments" in run.leaky] == ["mamem"]
    assert not any(run.leaky for run in honest.values())
    (tables,) = (path for path in (tmp_path / "paper").glob("geometry*.json"))
    found = json.loads(tables.read_text())
    assert found["extent"]["split"] == "paper"
    assert {cell["n_runs"] for cell in found["cells"]} == {2}


def test_a_table_needs_only_the_data_sets_that_are_there(files: Path, tmp_path: Path) -> None:
    some = tmp_path / "some"
    some.mkdir()
    (some / "mamem").symlink_to(files / "mamem")
    done = reproduce(tmp_path / "out", some, "geometry", "emg")
    assert done.exit_code == 0, done.output
    assert set(runs(tmp_path / "out")) == {"mamem"}
    for name in ("bci2a", "bcicha", "EMG"):
        assert name in done.stderr
    nothing = reproduce(tmp_path / "none", tmp_path / "empty", "geometry")
    assert nothing.exit_code == 1
    assert "A01T" in nothing.stderr  # the files that are looked for
    assert not (tmp_path / "none" / "runs.sqlite").exists()


def test_options_and_other_data_sets_reach_the_loader(files: Path, tmp_path: Path) -> None:
    """A folder of another name, another crop, and a subject that is not there."""
    folder = f"bci2a.folder={files / 'bci2a'}"
    done = reproduce(
        tmp_path, tmp_path, "subjects-bci2a", "--dataset-option", folder,
        "--dataset-option", "bci2a.crop=matt", "--split", "paper",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (run,) = runs(tmp_path).values()
    assert run.spec.dataset_options["crop"] == "matt"
    wrong = reproduce(tmp_path, files, "geometry", "--dataset-option", "bci2a.rate=3")
    assert wrong.exit_code == 1
    assert "'rate'" in wrong.stderr
