"""A run as plain values, and where a result comes from."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import spdtokens
from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Selection
from spdtokens.evaluation import runs as module
from spdtokens.evaluation.estimators import describe
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import (
    RunSpec,
    code_digest,
    differing,
    git_revision,
    origin,
)
from tests.evaluation.recordings import SETTINGS, planned, signals
from tests.test_rooms import FILES, imported_rooms, room_of


def test_specs_survive_json() -> None:
    settings = replace(SETTINGS, bands=[(8.0, 13.0), (13.0, 30.0)])
    selection = Selection(window=(0.1, 1.1), classes=("b", "a"), where=(("run", "r1"),))
    specs, source = planned(
        signals(), "token-euclidean", "eegnet", settings=replace(settings), selection=selection
    )
    for spec in specs:
        again = RunSpec.of(json.loads(json.dumps(spec.values())))
        assert (again.key, again.family) == (spec.key, spec.family)
        assert again.subjects == spec.subjects
        assert Selection(**again.selection) == selection
        assert Settings(**again.about["settings"]).transformer() == settings.transformer()
        assert source.estimator(again) is source.estimator(spec)
        assert describe(Source().estimator(again)) == spec.estimator


def test_specs_of_older_stores_have_no_dataset_options() -> None:
    (spec, *_), _ = planned(signals(), "ts-lr")
    values = spec.values()
    assert values.pop("dataset_options") == {}
    assert RunSpec.of(values).key == spec.key
    assert replace(spec, dataset_options={"segments": 4}).key == spec.key


def test_a_family_is_what_can_be_trained_together() -> None:
    specs, _ = planned(signals(), "token-euclidean", seeds=(1, 2))
    assert len({spec.family for spec in specs}) == 1
    assert len({spec.key for spec in specs}) == 4
    for name, value in (
        ("access", "online"),
        ("alignment", "recentre"),
        ("protocol_options", {"folds": 3}),
        ("dataset", "elsewhere"),
        ("dataset_options", {"segments": 4}),
        ("estimator", {**specs[0].estimator, "verbose": True}),
    ):
        assert replace(specs[0], **{name: value}).family != specs[0].family, name


def test_a_result_tells_where_it_comes_from() -> None:
    found = origin()
    assert found["spdtokens"] == spdtokens.__version__
    assert found["python"] == platform.python_version()
    assert found["numpy"] == np.__version__
    for name in ("scipy", "scikit-learn", "pyriemann", "torch"):
        assert found[name] == version(name)
    assert re.fullmatch("[0-9a-f]{16}", found["code"])
    assert abs(datetime.fromisoformat(found["time"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert all(isinstance(value, str) for value in found.values())
    assert differing([found, found | {"time": "", "git": ""}]) == ""
    assert differing([found, found | {"numpy": "1.0"}]) == f"numpy {np.__version__} (1), 1.0 (1)"


def test_git_revision_is_that_of_git() -> None:
    home = Path(spdtokens.__file__).parents[2]
    if not (home / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-C", str(home), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    found = git_revision()
    assert head.startswith(found.removesuffix("+"))
    assert len(found.removesuffix("+")) >= 12


def test_a_package_in_somebody_elses_repository_has_no_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    inside = tmp_path / "site-packages" / "spdtokens"
    inside.mkdir(parents=True)
    monkeypatch.setattr(module.spdtokens, "__file__", str(inside / "__init__.py"))
    assert git_revision.__wrapped__() == ""


def test_code_digest_is_of_what_results_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.spdtokens, "__file__", str(tmp_path / "__init__.py"))
    digest = code_digest.__wrapped__
    for room in ("geometry", "evaluation", "cli"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.py").write_text("x = 1")
    before = digest()
    (tmp_path / "cli" / "a.py").write_text("x = 2")
    assert digest() == before
    (tmp_path / "evaluation" / "a.py").rename(tmp_path / "evaluation" / "b.py")
    renamed = digest()
    assert renamed != before
    (tmp_path / "geometry" / "a.py").write_text("x = 2")
    assert digest() not in (before, renamed)


def test_the_digest_is_of_all_that_evaluations_import() -> None:
    """Covariances are estimated by the runtime: a change there must not pass for the same code."""
    needed, new = set(), {"evaluation"}
    while new:
        needed |= new
        files = [path for path in FILES if room_of(path) in new]
        new = {room for path in files for room in imported_rooms(path)} - needed
    assert set(module.ROOMS) == needed
