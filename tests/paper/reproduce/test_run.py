from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Dataset, Recording
from spdtokens.evaluation.plan import Choice, Source
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce import Cell, Experiment, Extent, Reproduction
from spdtokens.paper.reproduce.roles import ROLES
from spdtokens.paper.reproduce.show import latex, markdown, rich_table, write_tables


def small(name: str) -> Dataset:
    """Three sessions of covariances, classes that differ in one variance."""

    def read(subject: str, session: str) -> Recording:
        rng = np.random.default_rng([int(subject), int(session)])
        y = np.arange(24) % 2
        X = rng.standard_normal((24, 3, 60))
        X[:, 0] *= (1 + y)[:, None]
        C = X @ X.transpose(0, 2, 1) / 60
        return Recording(subject, session, C, y, np.full(24, "1"), np.arange(24))

    return Dataset(
        name=name,
        description="",
        paradigm="other",
        classes=("a", "b"),
        ch_names=("A", "B", "C"),
        sfreq=None,
        tmin=0.0,
        window=(0.0, 1.0),
        index={str(i): ("1", "2", "3") for i in range(1, 5)},
        read=read,
        is_covariance=True,
    )


@pytest.fixture
def source() -> Source:
    return Source({role.sim: small(role.sim) for role in ROLES})


TINY = Settings(epochs=3, changes={"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8})
EXPERIMENT = Experiment(
    "tiny",
    "Tiny & small",
    "tab:tiny",
    lambda _counts: iter(
        [
            Cell("BCI2a", "TS+LR", ROLES[0], Choice("ts-lr"), reported="64.85 +- 15.18"),
            Cell("BCI2a", "Log", ROLES[0], Choice("token-log-euclidean", TINY)),
            Cell("MAMEM", "TS+LR", ROLES[2], Choice("ts-lr"), 0),
        ]
    ),
    "A note.",
)


def test_runs_are_done_once_and_tables_have_three_values(source: Source, tmp_path: Path) -> None:
    extent = Extent(subjects=2, seeds=2)
    reproduction = Reproduction([EXPERIMENT], extent, source)
    with RunStore(tmp_path / "runs.sqlite") as store:
        before = reproduction.tables(store)[0]
        assert np.isnan(before.values["BCI2a", "TS+LR"].test)
        progress = reproduction.run(store, InProcess(source))
        assert (progress.total, progress.done) == (2 + 4 + 1, 7)
        again = Reproduction([EXPERIMENT], extent, source).run(store, InProcess(source))
        assert (again.before, again.done) == (7, 0)
        table = reproduction.tables(store)[0]
        runs = [r for r in store.results() if r.spec.method == "ts-lr"]
        mine = [r.test["accuracy"] for r in runs if r.spec.protocol == "session-transfer"]
    value = table.values["BCI2a", "TS+LR"]
    assert value.test == pytest.approx(np.mean(mine))
    assert value.reported == "64.85 +- 15.18"
    assert value.n_runs == 2
    assert table.values["MAMEM", "TS+LR"].n_runs == 1
    assert ("MAMEM", "Log") not in table.values

    text = markdown(table)
    assert f"{100 * value.train:.1f} / {100 * value.test:.1f}" in text
    assert "64.85 +- 15.18" in text
    assert "QUICK: at most 2 subjects, 2 seeds" in text
    tex = latex(table)
    assert r"Tiny \& small" in tex
    assert r"64.85 $\pm$ 15.18" in tex
    assert tex.count("{") == tex.count("}")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(rich_table(table))
    shown = console.export_text()
    assert f"{100 * value.test:.1f}" in shown
    assert "64.85 ± 15.18" in shown  # not cut off
    assert rich_table(table).row_count == len(table.values)
    names = {path.name for path in write_tables([table], tmp_path)}
    assert names == {"tiny.md", "tiny.tex", "tiny.json"}
    plain = json.loads((tmp_path / "tiny.json").read_text())
    assert plain["whole"] is False
    assert plain["command"] == ""  # no option of the command asks for two subjects
    assert plain["cells"][0]["reported"] == "64.85 +- 15.18"


def test_quick_shortens_only_networks_that_train_one_by_one(source: Source) -> None:
    cells = [
        Cell("r", name, ROLES[0], Choice(name))
        for name in ("spdnet", "ts-lr", "token-log-euclidean", "spd-token-mlp")
    ]
    experiment = Experiment("e", "E", "", lambda _counts: iter(cells))
    reproduction = Reproduction([experiment], Extent.quick("sim"), source)
    epochs = {
        question.choices[0].method: question.choices[0].settings.epochs
        for _, question in reproduction.cells["e"]
    }
    assert epochs == {
        "spdnet": 10,
        "ts-lr": None,
        "token-log-euclidean": None,
        "spd-token-mlp": None,
    }
    alone = [replace(cell, subject=0) for cell in cells]  # its spread is over seeds
    one = Experiment("one", "One", "", lambda _counts: iter(alone))
    mine = Reproduction([one], Extent.quick("sim"), source).cells["one"]
    assert {len(question.seeds) for _, question in mine} == {2}
    assert {len(question.seeds) for _, question in reproduction.cells["e"]} == {1}
    assert not Extent.quick("sim").is_whole
    assert Extent.quick("real").command("depth") == "spdtokens reproduce depth --quick --data real"
    assert Extent().command("depth") == "spdtokens reproduce depth"
    assert Extent().is_whole
