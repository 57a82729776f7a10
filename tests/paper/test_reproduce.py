"""The paper's tables as experiments: what is trained, run once, shown, written and gone on with."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from spdtokens import TokenTransformerClassifier, load_model
from spdtokens.classifiers.methods import METHODS, Settings
from spdtokens.cli import app
from spdtokens.datasets import Selection, load_dataset
from spdtokens.errors import StudyError
from spdtokens.evaluation.plan import Choice, Question, check_question
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce import (
    EXPERIMENTS,
    Cell,
    Experiment,
    Extent,
    Reproduction,
    run,
    tables,
)
from spdtokens.paper.reproduce.cost import Cost, projected
from spdtokens.paper.reproduce.experiments import BCI2A, BCICHA, MAMEM, ROLES, Role
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.models import save_models
from spdtokens.paper.tables import TABLES, paper_table
from tests.paper.stand_ins import COSTS, made_findings, noise_source

OF_ACCURACIES = sorted(set(EXPERIMENTS) & set(TABLES))


def cells(name: str) -> list[Cell]:
    return list(EXPERIMENTS[name].cells())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_can_be_run_on_the_simulated_sets(name: str) -> None:
    found = cells(name)
    assert len({(cell.row, cell.column) for cell in found}) == len(found)
    for cell in found:
        dataset = load_dataset(cell.role.sim)
        assert len(cell.role.found("sim", dataset.subjects)) == len(cell.role.subjects)
        check_question(Question(cell.role.sim, (cell.choice,)), dataset)


@pytest.mark.parametrize("name", OF_ACCURACIES)
def test_the_papers_values_stand_beside_ours(name: str) -> None:
    """Every accuracy the paper prints with a spread, and in its text."""
    paper = paper_table(name)
    assert EXPERIMENTS[name].label == paper.label
    mine = {(cell.row, cell.column): cell.reported for cell in cells(name) if cell.reported}
    printed = {
        ("Overall" if row.startswith("Overall") else row, column): paper.cell(row, column).text
        for row in paper.names
        for column in paper.columns[1:]
        if "+-" in paper.cell(row, column).text
    }
    if name == "cross-subject":
        aligned = "BCI2a, Euclidean alignment"
        printed |= {(aligned, "Log-Euc"): "32.15", (aligned, "BWSPD"): "31.89"}
    assert mine == printed


def test_every_table_and_figure_of_the_paper_and_its_future_work_is_there() -> None:
    assert set(TABLES) - {"datasets", "text"} <= {*EXPERIMENTS, *tables.MEASURED}
    labels = {label for figure in FIGURES.values() for label in figure.labels}
    assert {label.removeprefix("fig:") for label in labels} == {
        "architecture_overview",
        "gradient_conditioning",
        "embedding_vis",
        "training_curves",
        "confusion_matrices_key",
        "confusion_s2",
        "confusion_s4",
    }
    assert len({cell.choice.method for cell in cells("multiband-embeddings")}) == 3
    assert {str(cell.choice.settings.bands) for cell in cells("bands")} > {"paper3", "filterbank"}
    alignments = {cell.alignment for cell in cells("cross-subject")}
    assert alignments == {"none", "euclidean", "recentre"}


def test_the_papers_configuration() -> None:
    for role, bands in ((BCI2A, "broadband"), (BCICHA, "none"), (MAMEM, "none")):
        settings = role.settings()
        assert settings.bands == bands
        network = TokenTransformerClassifier(**settings.transformer())
        assert (network.epochs, network.learning_rate) == (50, 1e-3)
        assert role.settings(multiband=True).bands == "paper3"
    assert MAMEM.settings().transformer()["d_model"] == 64
    assert {cell.choice.settings.epochs for cell in cells("depth")} == {100}

    def varied(name: str, key: str, default: object = None) -> list[object]:
        found = [cell.choice.settings.transformer().get(key, default) for cell in cells(name)]
        return list(dict.fromkeys(found))

    assert varied("depth", "n_layers") == [2, 4, 6, 8]
    assert varied("heads", "n_heads") == [4, 8, 16]
    assert varied("bn-embed", "bn_embed", True) == [True, False]
    assert varied("geometric-attention", "attention", "standard") == ["standard", "geometric"]
    assert {cell.protocol for cell in cells("cross-subject")} == {"leave-one-subject-out"}


TINY = Settings(epochs=3, changes={"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8})


def test_runs_are_done_once_and_tables_have_three_values(tmp_path: Path) -> None:
    wanted = [
        Cell("BCI2a", "TS+LR", ROLES[0], Choice("ts-lr"), reported="64.85 +- 15.18"),
        Cell("BCI2a", "Log", ROLES[0], Choice("token-log-euclidean", TINY)),
        Cell("MAMEM", "TS+LR", ROLES[2], Choice("ts-lr"), "S1"),
    ]
    experiment = Experiment("tiny", "Tiny & small", lambda _name, _counts: iter(wanted), "A note.")
    source, extent = noise_source(), Extent(subjects=2, seeds=2)
    reproduction = Reproduction([experiment], extent, source)
    with RunStore(tmp_path / "runs.sqlite") as store:
        assert reproduction.tables(store)[0].cells["test"].isna().all()
        progress = reproduction.run(store, InProcess(source))
        assert (progress.total, progress.done) == (2 + 4 + 1, 7)
        again = Reproduction([experiment], extent, source).run(store, InProcess(source))
        assert (again.before, again.done) == (7, 0)
        table = reproduction.tables(store)[0]
        runs = [r for r in store.results() if r.spec.method == "ts-lr"]
        mine = [r.test["accuracy"] for r in runs if r.spec.protocol == "session-transfer"]
    first = table.cells.iloc[0]
    assert first.test == pytest.approx(np.mean(mine))
    assert first.reported == "64.85 +- 15.18"
    assert table.cells["n_runs"].tolist() == [2, 4, 1]

    written = tables.write_scores(table, tmp_path)
    assert [path.name for path in written] == ["tiny.md", "tiny.tex", "tiny.json"]
    text, tex, plain = (path.read_text() for path in written)
    assert f"| {100 * first.train:.1f} / {100 * first.test:.1f}" in text
    assert "QUICK: at most 2 subjects, 2 seeds" in text
    assert r"Tiny \& small" in tex
    assert r"64.85 $\pm$ 15.18" in tex
    found = json.loads(plain)
    assert found["whole"] is False
    assert found["command"] == ""  # no option of the command asks for two subjects
    assert found["cells"][0]["reported"] == "64.85 +- 15.18"
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(tables.in_terminal(tables.score_table(table, tables.IN_TERMINAL)))
    shown = console.export_text()
    assert "64.85 ± 15.18" in shown  # not cut off
    assert "Tiny & small (simulated data)" in shown
    assert "paper, real data" in shown
    assert shown.count("BCI2a") == 1


def test_quick_shortens_only_networks_that_train_one_by_one() -> None:
    names = ("spdnet", "ts-lr", "token-log-euclidean", "spd-token-mlp")
    pooled = [Cell("r", name, ROLES[0], Choice(name)) for name in names]
    across = [replace(cell, protocol="leave-one-subject-out") for cell in pooled]
    found = [
        Experiment("within", "", lambda *_: iter(pooled)),
        Experiment("across", "", lambda *_: iter(across)),
    ]

    def seeds(extent: Extent) -> dict[str, list[int]]:
        asked = Reproduction(found, extent, noise_source()).cells
        epochs = {q.choices[0].method: q.choices[0].settings.epochs for _, q in asked["within"]}
        assert epochs == dict.fromkeys(names) | {"spdnet": extent.network_epochs}
        return {name: [len(q.seeds) for _, q in asked[name]] for name in asked}

    assert seeds(Extent.quick("sim")) == {"within": [1, 2, 2, 2], "across": [1] * 4}
    assert seeds(Extent()) == {"within": [5] * 4, "across": [5] * 4}
    few = Extent(seeds=3, network_seeds=2)
    assert seeds(few) == {"within": [2, 3, 3, 3], "across": [2, 3, 3, 3]}


def test_extents_name_their_command() -> None:
    assert Extent.quick("real").command("depth") == "spdtokens reproduce depth --quick --data real"
    assert Extent().command("depth") == "spdtokens reproduce depth"
    assert "All subjects" in Extent("real").note
    some = Extent("real", "paper", network_seeds=1, options=(("bci2a.unit", "uV"),))
    assert some.command("heads") == (
        "spdtokens reproduce heads --network-seeds 1 --data real --split paper "
        "--dataset-option bci2a.unit=uV"
    )
    assert Extent(**json.loads(json.dumps(asdict(some)))) == some
    for options in ({"data": "real", "options": (("bci2b.unit", "uV"),)},
                    {"data": "real", "options": (("unit", "uV"),)},
                    {"options": (("bci2a.unit", "uV"),)}):  # fmt: skip
        with pytest.raises(StudyError):
            Extent(**options)


def test_stability_has_ten_seeds_and_others_five() -> None:
    source = noise_source()
    asked = Reproduction([EXPERIMENTS["stability"], EXPERIMENTS["heads"]], Extent(), source).cells
    assert {len(q.seeds) for _, q in asked["stability"]} == {10}
    assert {len(q.seeds) for _, q in asked["heads"]} == {5}


def test_real_subjects_are_found_by_their_numbers() -> None:
    there = ("02", "06", "11", "99")
    assert BCICHA.found("real", there) == {"S2": "02", "S6": "06", "S11": "11"}
    assert MAMEM.found("real", ("U010", "U001")) == {"S1": "U001", "S10": "U010"}
    assert list(BCICHA.found("sim", ("1", "2")).items()) == [("S2", "1"), ("S6", "2")]


def test_costs_are_projected_from_short_runs(tmp_path: Path) -> None:
    """In proportion to runs, epochs and training trials; what is stored costs nothing."""
    source = noise_source()

    def cost(store: RunStore | None, *cells: Cell) -> list[Cost]:
        experiment = Experiment("tiny", "", lambda *_: iter(cells))
        return projected(Reproduction([experiment], Extent(seeds=2), source), store)

    alone, classical = (
        Cell("r", "c", BCI2A, Choice(*choice), "S1")
        for choice in (("token-log-euclidean", TINY), ("ts-lr",))
    )
    (first,) = cost(None, alone)
    assert (first.runs, first.missing, first.of_networks) == (2, 2, 0.0)
    assert 0 < first.hours < 1
    longer = replace(TINY, epochs=300)
    (hundredfold,) = cost(None, replace(alone, choice=Choice("token-log-euclidean", longer)))
    assert 10 < hundredfold.hours / first.hours < 1000
    network = Choice("spdnet-paper", Settings(recipe="common", epochs=2))
    (slow,) = cost(None, replace(alone, choice=network))
    assert slow.of_networks == slow.hours > 0
    with RunStore(tmp_path / "runs.sqlite") as store:
        experiment = Experiment("tiny", "", lambda *_: iter([alone, classical]))
        Reproduction([experiment], Extent(seeds=2), source).run(store, InProcess(source))
        (done,) = cost(store, alone, classical)
    assert (done.runs, done.missing, done.hours) == (3, 0, 0.0)


def test_saved_models_are_those_of_the_table(tmp_path: Path) -> None:
    source = noise_source()
    wanted = [
        Cell(subject, "Accuracy", BCI2A, Choice("token-log-euclidean", TINY), subject)
        for subject in ("S1", "S3")
    ]
    overall = replace(wanted[0], row="Overall", subject=None)
    experiment = Experiment("subjects-bci2a", "", lambda *_: iter([*wanted, overall]))
    reproduction = Reproduction([experiment], Extent(seeds=2), source)
    with RunStore(tmp_path / "runs.sqlite") as store:
        reproduction.run(store, InProcess(source))
        written = save_models(reproduction, store, tmp_path)
        runs = {run.spec.subject: run for run in store.results() if run.spec.seed == 42}
    assert [path.name for path in written] == [
        f"bci2a-S{i}.{end}" for i in (1, 3) for end in ("spdt", "md")
    ]
    dataset = source.dataset("sim-mi", Selection())
    test = dataset.load("3", "3")
    found = load_model(written[2]).predict_proba(test.X)
    np.testing.assert_allclose(found, runs["3"].probabilities, rtol=0, atol=1e-5)
    card = written[3].read_text()
    assert f"**Accuracy on 40 held-out trials: {100 * runs['3'].test['accuracy']:.1f} %**" in card


def test_the_list_and_unknown_names(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["reproduce", "--list"], env={"COLUMNS": "160"}).stdout
    assert all(name in shown for name in tables.NAMES)
    result = CliRunner().invoke(app, ["reproduce", "table-9", "--out", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert "'table-9'" in result.stderr
    assert not (tmp_path / "new").exists()


def test_costs_stand_before_the_papers() -> None:
    table = tables.efficiency_table(COSTS, 32)
    assert [row[0].text for row in table.rows] == ["token-log-euclidean", "mdm"]  # its rows first
    ours, other = ([cell.text for cell in row[1:]] for row in table.rows)
    assert ours[:4] == ["827,000 / 827,908", "5.00 / 5.72", "3.25 / 2.85", "7.50 / 6.53"]
    assert ours[4:] == ["2.50 / 26.42", "12.0 / 32.45", "0.25 / 0.42"]
    assert (other[0], other[2]) == ("- / -", "9.00 / -")
    assert table.rows[0][1].value == 827_000  # sorted by ours
    rows = [COSTS[1] | {"name": name} for name in ("spdnet-paper", "eeg-conformer")]
    operations = [row[5].text for row in tables.efficiency_table(rows, 32).rows]
    assert operations == ["2.50 / 0.03", "2.50 / 78,620.00"]  # millions
    assert set(tables.MODELS.values()) == set(paper_table("efficiency").names)
    assert set(tables.MODELS) <= set(METHODS)


def test_the_theory_is_told_beside_what_was_measured(tmp_path: Path) -> None:
    content = tables.measured_content("theory", "the command", claims=made_findings())
    assert content["label"] == paper_table("theory").label
    assert {"code", "machine", "time", "torch"} <= set(content["origin"])
    properties, claims = tables.measured_tables(content)
    paper = paper_table("theory")
    by_name = {row[0].text: [cell.text for cell in row[1:]] for row in properties.rows}
    assert list(by_name) == list(paper.names)
    for row, texts in by_name.items():
        for text, column in zip(texts, paper.columns[1:], strict=True):
            assert text.endswith(f" / {paper.cell(row, column).text}")
    assert [text.split(" ")[0] for text in by_name["K-matrix condition"]] == ["100", "1e+04", "1"]
    powers = [text.split(" / ")[0].split(" ")[-1] for text in by_name["Gradient bound"]]
    assert powers == ["-0.50", "-1.00", "0.00"]
    wrong = next(row for row in claims.rows if row[0].text == "wrong")
    assert [cell.text for cell in wrong][1:4] == ["fails", "1 < 0", "1 is 1. Counter-example: 1."]
    names = [path.name for path in tables.write_tables([properties, claims], content, tmp_path)]
    assert names == ["theory.md", "theory.tex", "theory.json"]
    again = json.loads((tmp_path / "theory.json").read_text())
    assert tables.measured_tables(again) == [properties, claims]
    assert tables.in_terminal(properties).row_count == len(paper.names)


def stored(out: Path) -> dict[str, tuple[object, ...]]:
    """Every row of the store as it lies there, with the time it took and when it was made."""
    with closing(sqlite3.connect(out / "runs.sqlite")) as store:
        rows = store.execute("SELECT key, number, code, spec, rest, arrays FROM runs").fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


def test_interrupted_it_goes_on_and_ends_as_if_undisturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, add, added = Role.settings, RunStore.add, []

    def add_two(self, results) -> int:
        added.append(add(self, results))
        if len(added) == 2:
            raise KeyboardInterrupt
        return added[-1]

    def reproduce(out: Path) -> Result:
        return CliRunner().invoke(app, ["reproduce", "geometry", "--quick", "--out", str(out)])

    def short(self, **more) -> Settings:
        return replace(settings(self, **more), epochs=2)

    monkeypatch.setattr(run, "Source", noise_source)
    monkeypatch.setattr(Role, "settings", short)
    monkeypatch.setattr(RunStore, "add", add_two)
    stopped, undisturbed = tmp_path / "stopped", tmp_path / "undisturbed"
    assert reproduce(stopped).exit_code == 130
    before = stored(stopped)
    assert len(before) == 4  # two batches of two seeds
    assert {path.name for path in stopped.iterdir() if "sqlite" not in path.name} == set()

    again, whole = reproduce(stopped), reproduce(undisturbed)
    for done in (again, whole):
        assert done.exit_code == 0, done.output
    after = stored(stopped)
    assert len(after) == 18  # 3 embeddings, 3 data sets, 2 seeds
    assert {key: after[key] for key in before} == before  # not one of them was done again
    for name in ("geometry.md", "geometry.tex"):
        # The other columns have times, which differ.
        one, two = (
            (out / name).read_text().split("other columns")[0] for out in (stopped, undisturbed)
        )
        assert one == two
    one, two = (tables.read_folder(out).scores[0] for out in (stopped, undisturbed))
    pd.testing.assert_frame_equal(one.cells, two.cells)
    pd.testing.assert_frame_equal(*(t.runs.drop(columns="seconds") for t in (one, two)))
    assert one.cells["n_runs"].tolist() == [2] * 9
    assert one.runs.groupby(["row", "column"])["epochs"].sum().tolist() == [4] * 9
    assert f"is shown in {stopped / 'report.html'}" in again.stdout.replace("\n", "")
