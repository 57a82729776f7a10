"""Study files to make mistakes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdtokens.errors import StudyError
from spdtokens.experiments.config import Study, read_study

SHORT = """
datasets = ["sim-mi"]
methods = ["ts-lr", "mdm"]
protocols = ["session-transfer"]
"""
LONG = """
name = "a"
seeds = 2
metric = "kappa"
[[datasets]]
name = "sim-mi"
{datasets}
[[methods]]
name = "token-log-euclidean"
{methods}
[methods.changes]
n_layers = 2
{changes}
[[protocols]]
name = "blocks"
{protocols}
"""


def read(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text)
    return read_study(path)


def long(**places: str) -> str:
    return LONG.format(**{"datasets": "", "methods": "", "changes": "", "protocols": "", **places})


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        read(folder, text)
    head, *rest = str(caught.value).split("\n")
    assert head == f"{folder / 'study.toml'} cannot be used:"
    return rest
