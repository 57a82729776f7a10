from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.evaluation.plan import Source
from spdtokens.experiments.store import RunStore
from spdtokens.paper.reproduce import Extent, figures
from spdtokens.paper.reproduce.experiments import BCI2A, MAMEM, Role
from spdtokens.paper.reproduce.figures import FIGURES, Watched, is_drawn, read_drawn
from tests.paper.stand_ins import noise_source


@pytest.fixture
def source() -> Source:
    return noise_source()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three epochs, however long the paper trains."""
    whole = Watched.train
    monkeypatch.setattr(Watched, "train", lambda self, seeds, epochs=3: whole(self, seeds, epochs))


@pytest.mark.parametrize(
    ("role", "sizes"),
    # The protocol of BCI2a does not validate.
    [(MAMEM, (40, 40, 40)), (BCI2A, (70, 10, 40))],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_parts_are_the_protocols(source: Source, role, sizes: tuple[int, ...]) -> None:
    places = Watched.of(role, Extent(), role.subject, "log-euclidean", source).places
    assert tuple(len(places[part]) for part in ("train", "validation", "test")) == sizes
    assert sorted(np.concatenate(list(places.values())).tolist()) == list(range(120))


def test_nothing_is_learnt_from_the_test_trials(source: Source) -> None:
    one, two = (
        Watched.of(BCI2A, Extent(), "S1", "euclidean", s).train((1,), 2)[0]
        for s in (source, noise_source(last=7.0))
    )
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert not np.array_equal(one.curves["test loss"], two.curves["test loss"])


@pytest.mark.usefixtures("short")
def test_curves_of_three_parts_for_three_embeddings(source: Source) -> None:
    figure = figures.training_curves(Extent(seeds=1), source)
    assert len(figure.axes) == 3
    for axes in figure.axes:
        curves = [line for line in axes.lines if len(line.get_xdata()) == 3]
        assert len(curves) == 9
        assert {line.get_linestyle() for line in curves} == {"-", "--", ":"}
    first = Watched.of(BCI2A, Extent(), "S1", "log-euclidean", source).train((42,))[0]
    drawn = figure.axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, first.curves["train accuracy"])


@pytest.mark.usefixtures("short")
def test_convergence_has_a_line_and_a_range_for_each_embedding(source: Source) -> None:
    (axes,) = figures.convergence(Extent(seeds=2), source).axes
    assert len(axes.lines) == len(axes.collections) == 3


@pytest.mark.usefixtures("short")
def test_confusion_counts_every_trial(source: Source) -> None:
    figure = figures.confusion(Extent(), source)
    counts = [[int(text.get_text()) for text in axes.texts] for axes in figure.axes]
    assert [sum(found) for found in counts] == [70, 40, 70, 40]


def test_confusion_of_all_subjects_is_that_of_the_stored_runs(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Role.settings
    monkeypatch.setattr(Role, "settings", lambda self, **m: replace(settings(self, **m), epochs=2))
    store, extent = tmp_path / "runs.sqlite", Extent(subjects=3, seeds=2)
    figure = FIGURES["confusion-all-mamem"].drawn(extent, source, store)
    with RunStore(store) as runs:
        stored = runs.results()
    assert len(stored) == 6
    found = json.loads((tmp_path / "confusion-all-mamem.json").read_text())
    assert found["classes"] == ["a", "b"]
    for run in stored:
        n = np.zeros((2, 2), int)
        for true, p in zip(run.y, run.probabilities, strict=True):
            n[true, int(p[1] > p[0])] += 1
        assert found["counts"][run.spec.subject][str(run.spec.seed)] == n.tolist()
    assert len(figure.axes) == 3
    for axes, subject in zip(figure.axes, ("1", "2", "3"), strict=True):
        total = np.sum(list(found["counts"][subject].values()), axis=0)
        assert total.sum() == 80  # forty trials, two seeds
        shown = np.array([float(text.get_text()) for text in axes.texts]).reshape(2, 2)
        np.testing.assert_allclose(shown, 100 * total / 40, atol=0.5)
        assert axes.get_title() == f"subject {subject}: {100 * np.trace(total) / 80:.1f} %"

    class Idle:
        def __init__(self, _source: Source) -> None: ...

        def run(self, batches: Iterable[object], *_: object) -> None:
            assert list(batches) == []  # nothing is trained again

    monkeypatch.setattr(figures, "InProcess", Idle)
    again = FIGURES["confusion-all-mamem"].drawn(extent, source, store)
    assert [a.get_title() for a in again.axes] == [a.get_title() for a in figure.axes]


@pytest.mark.usefixtures("short")
def test_attention_between_bands_sums_to_one(source: Source) -> None:
    figure = figures.band_attention(Extent(), source)
    for axes in figure.axes[:3]:
        weights = np.array([float(text.get_text()) for text in axes.texts]).reshape(3, 3)
        np.testing.assert_allclose(weights.sum(1), 1, atol=0.016)


def test_token_spaces_show_every_trial_once(source: Source) -> None:
    figure = figures.token_spaces(Extent(), source)
    for axes in figure.axes:
        assert sum(len(c.get_offsets()) for c in axes.collections) == 120


def test_a_figure_is_written_once(tmp_path: Path) -> None:
    command = ["reproduce", "architecture", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    path = tmp_path / "architecture.png"
    drawn = read_drawn(path)
    assert (drawn.width, drawn.height) == (1380, 300)  # inches of the figure times 150
    assert "EEG trial; 22 x 438; covariance" in drawn.label
    assert drawn.command == "spdtokens reproduce architecture"
    assert 'alt="Only the token (orange) differs' in (tmp_path / "report.html").read_text()

    before = path.stat().st_mtime_ns
    again = CliRunner().invoke(app, command)
    assert "is up to date" in " ".join(again.stderr.split())
    assert path.stat().st_mtime_ns == before
    assert not is_drawn(path, Extent.quick("sim"))  # of another extent
    assert CliRunner().invoke(app, [*command, "--quick"]).exit_code == 0
    assert is_drawn(path, Extent.quick("sim"))
