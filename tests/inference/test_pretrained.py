"""Models that ship with the package, and training that starts from a model."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens import SpatialFilterClassifier, load_pretrained, save_model, train
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Dataset, from_arrays
from spdtokens.errors import DeployError, ModelError
from spdtokens.inference import load_pipeline
from spdtokens.runtime import load_model

NAMES = ("C3", "Cz", "C4", "Pz")
SHIPPED = sorted(file.name for file in (files("spdtokens") / "pretrained").iterdir())


def person(seed: int, classes: tuple[str, str] = ("left", "right"), n: int = 40) -> Dataset:
    """Trials in which the rhythm over the other hemisphere is weaker; heads differ."""
    rng = np.random.default_rng(seed)
    y, X = np.arange(n) % 2, rng.standard_normal((n, 4, 250))
    X[y == 0, 2] *= 0.6
    X[y == 1, 0] *= 0.6
    X = (np.eye(4) + 0.2 * rng.standard_normal((4, 4))) @ X
    return from_arrays(X, y, sfreq=100.0, ch_names=NAMES, classes=classes)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on one person."""
    dataset = person(0, n=120)
    pipeline = get_method("spatial-filters-power").make(dataset)
    pipeline.set_params(classifier__epochs=30, classifier__n_filters=4, classifier__random_state=0)
    recording = dataset.load(*next((s, dataset.sessions(s)[0]) for s in dataset.subjects))
    pipeline.fit(recording.X, recording.y)
    path = tmp_path_factory.mktemp("start") / "start.spdt"
    save_model(pipeline, path, ch_names=NAMES, classes=("left", "right"))
    return path


@pytest.mark.parametrize("name", [n.removesuffix(".spdt") for n in SHIPPED if n.endswith("spdt")])
def test_every_shipped_model_decodes_and_has_a_card(name: str) -> None:
    folder = Path(str(files("spdtokens"))) / "pretrained"
    assert (folder / f"{name}.spdt").stat().st_size <= 3_000_000
    card = (folder / f"{name}.md").read_text()
    assert all(word in card for word in ("Licence", "Scores", "Limits", "ODC-By"))
    decoder = load_pretrained(name)
    X = np.random.default_rng(0).standard_normal((3, len(decoder.ch_names), decoder.n_samples))
    np.testing.assert_allclose(decoder.predict_proba(X).sum(1), 1)
    assert len(decoder.ch_names) > 8
    assert "/" not in str(decoder.about["data"])


def test_imagery_left_right_ships() -> None:
    assert load_pretrained("imagery-left-right").classes == ("left_fist", "right_fist")


@pytest.mark.parametrize("name", ["imagery", "nowhere.spdt"])
def test_unknown_model(name: str) -> None:
    with pytest.raises(ModelError):
        load_pretrained(name)


@pytest.mark.parametrize("classes", [("left", "right"), ("right_hand", "left_hand")])
def test_training_that_starts_from_a_model(
    start: Path, tmp_path: Path, classes: tuple[str, str]
) -> None:
    """Classes are matched by name or side, whatever their order."""
    dataset = person(1, classes)
    trained = train(
        dataset if classes[0] == "left" else person_swapped(1, classes), start_from=start
    )
    trained.save(tmp_path / "own.spdt")
    assert trained.decoder.classes == classes
    assert trained.decoder.about["start_from"] == "start.spdt"
    assert trained.row.score > 0.8
    X = person(2).load("1", "1").X
    found = load_model(tmp_path / "own.spdt").predict_proba(X)
    zero_shot = load_model(start).predict_proba(X)
    order = [["left", "right"].index(name.split("_")[0]) for name in classes]
    assert abs(found - zero_shot[:, order]).max() < 0.3  # the prior keeps it near
    assert abs(found - zero_shot[:, order]).max() > 1e-6


def person_swapped(seed: int, classes: tuple[str, str]) -> Dataset:
    """The same trials with the classes in the other order."""
    recording = person(seed).load("1", "1")
    return from_arrays(recording.X, 1 - recording.y, sfreq=100.0, ch_names=NAMES, classes=classes)


def test_adapting_is_calibrating(start: Path) -> None:
    """``start_from`` gives what ``calibrate`` gives on the loaded pipeline."""
    recording = person(1).load("1", "1")
    pipeline = load_pipeline(start)
    front, recentring, classifier = (step for _, step in pipeline.steps)
    C = recentring.fit_transform(front.transform(recording.X))
    wanted = classifier.calibrate(C, np.array(["left", "right"])[recording.y]).predict_proba(C)
    own = SpatialFilterClassifier(start_from=str(start)).fit(C, recording.y)
    np.testing.assert_allclose(own.predict_proba(C), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("classes", "more"),
    [(("feet", "tongue"), {}), (("left", "right"), {"preset": "standard"})],
)
def test_what_cannot_start(start: Path, classes: Any, more: dict[str, Any]) -> None:
    with pytest.raises(DeployError):
        train(person(1, classes), start_from=start, **more)
