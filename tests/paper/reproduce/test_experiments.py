from __future__ import annotations

import pytest

from spdtokens import TokenTransformerClassifier
from spdtokens.datasets import load_dataset
from spdtokens.evaluation.plan import Question, check_question
from spdtokens.paper.reproduce import EXPERIMENTS, Experiment
from spdtokens.paper.reproduce.figures import FIGURES
from spdtokens.paper.reproduce.roles import BCI2A, BCICHA, MAMEM, ROLES
from spdtokens.paper.reproduce.side import SIDES
from spdtokens.paper.tables import TABLES, paper_table

COUNTS = {"BCI2a": 9, "BCIcha": 16, "MAMEM": 11}


def cells(name: str) -> list:
    return list(EXPERIMENTS[name].cells(COUNTS))


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_every_cell_can_be_run_on_the_simulated_sets(experiment: Experiment) -> None:
    found = list(experiment.cells(COUNTS))
    assert len({(cell.row, cell.column) for cell in found}) == len(found)
    for cell in found:
        dataset = load_dataset(cell.role.sim)
        assert len(dataset.subjects) == COUNTS[cell.role.name]
        check_question(Question(cell.role.sim, (cell.choice,)), dataset)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("all-subjects", "all-subjects"),
        ("geometry", "geometry"),
        ("multiband", "multiband"),
        ("multiband-bci2a", "multiband-bci2a"),
        ("multiband-bcicha", "multiband-bcicha"),
        ("multiband-mamem", "multiband-mamem"),
        ("subjects-bci2a", "subjects-bci2a"),
        ("subjects-bcicha", "subjects-bcicha"),
        ("subjects-mamem", "subjects-mamem"),
        ("bn-embed", "bn-embed"),
        ("geometric-attention", "geometric-attention"),
        ("depth", "depth"),
        ("heads", "heads"),
        ("baselines", "baselines"),
        ("cross-subject", "cross-subject"),
    ],
)
def test_the_papers_values_stand_beside_ours(name: str, table: str) -> None:
    """Every accuracy the paper prints with a spread, and in its text."""
    paper = paper_table(table)
    assert EXPERIMENTS[name].label == paper.label
    mine = {(cell.row, cell.column): cell.reported for cell in cells(name) if cell.reported}
    printed = {
        ("Overall" if row.startswith("Overall") else row, column): paper.cell(row, column).text
        for row in paper.names
        for column in paper.columns[1:]
        if "+-" in paper.cell(row, column).text
    }
    if name == "cross-subject":
        printed |= {
            ("BCI2a, Euclidean alignment", "Log-Euc"): "32.15",
            ("BCI2a, Euclidean alignment", "BWSPD"): "31.89",
        }
    assert mine == printed


def test_every_table_and_figure_of_the_paper_is_there() -> None:
    without = {"datasets", "text"}  # prose put into tables
    assert set(TABLES) - without <= {*EXPERIMENTS, *SIDES}
    labels = {label for _, label in SIDES.values()} | {e.label for e in EXPERIMENTS.values()}
    assert {paper_table(name).label for name in TABLES if name not in without} == labels - {""}
    assert {figure.label for figure in FIGURES.values()} - {""} == {
        "fig:architecture_overview",
        "fig:gradient_conditioning",
        "fig:embedding_vis",
        "fig:training_curves",
        "fig:confusion_matrices_key",
    }


def test_the_papers_future_work_is_there() -> None:
    embeddings = {cell.choice.method for cell in cells("multiband-embeddings")}
    assert len(embeddings) == 3
    assert {str(cell.choice.settings.bands) for cell in cells("bands")} > {"paper3", "filterbank"}
    alignments = {cell.alignment for cell in cells("cross-subject")}
    assert alignments == {"none", "euclidean", "recentre"}
    assert "attention" in FIGURES


def test_the_papers_configuration() -> None:
    for role, bands in ((BCI2A, "broadband"), (BCICHA, "none"), (MAMEM, "none")):
        settings = role.settings()
        assert settings.bands == bands
        network = TokenTransformerClassifier(**settings.transformer())
        assert (network.epochs, network.learning_rate) == (50, 1e-3)
        assert role.settings(multiband=True).bands == "paper3"
    assert MAMEM.settings().transformer()["d_model"] == 64
    assert {cell.choice.settings.epochs for cell in cells("depth")} == {100}
    depths = [cell.choice.settings.transformer()["n_layers"] for cell in cells("depth")]
    assert depths == [2, 2, 4, 4, 6, 6, 8, 8]
    heads = {cell.choice.settings.transformer()["n_heads"] for cell in cells("heads")}
    assert heads == {4, 8, 16}
    with_bn = {
        cell.column: cell.choice.settings.transformer().get("bn_embed", True)
        for cell in cells("bn-embed")
    }
    assert with_bn == {"With BN": True, "Without BN": False}
    assert {cell.protocol for cell in cells("cross-subject")} == {"leave-one-subject-out"}
    assert [role.name for role in ROLES] == ["BCI2a", "BCIcha", "MAMEM"]
