"""Train models on recordings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest

import spdtokens
from spdtokens import TokenTransformerClassifier, evaluate, load_dataset, make_decoder, train
from spdtokens.classifiers.methods import get_method
from spdtokens.datasets import Dataset, Recording, from_arrays
from spdtokens.errors import DeployError
from spdtokens.inference import predict
from spdtokens.runtime import DecoderError, load_model
from tests.helpers.recordings import simulated, write_edf
from tests.inference.helpers import NAMES, SFREQ, trials


@pytest.fixture(scope="module")
def edf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("edf") / "day1.edf"
    write_edf(path, simulated(n=60)[0])
    return path


def test_recordings_to_a_model(edf: Path, tmp_path: Path) -> None:
    """The score is that of ``evaluate``; the model is the decoder of the paradigm."""
    trained = spdtokens.train(edf, tmin=0.5, tmax=3.5)
    trained.save(tmp_path / "model.spdt")
    found = spdtokens.predict(tmp_path / "model.spdt", edf)
    assert trained.above_chance
    assert trained.row.n_test == 60
    assert found.accuracy >= trained.row.score  # on training trials
    dataset = load_dataset(edf, tmin=0.5, tmax=3.5)
    wanted = evaluate(dataset, ["recommended"], "blocks", protocol_options={"folds": 5})
    about = trained.decoder.about
    assert trained.row.score == wanted.rows[0].score == about["evaluation"]["score"]
    assert about["evaluation"]["train_score"] > about["evaluation"]["score"]
    assert about["protocol"] == "blocks"
    recording = trained.dataset.load("1", "1")
    decoder = make_decoder(
        "mi", sfreq=trained.dataset.sfreq, tmin=0.5, window=trained.dataset.window
    )
    wanted = decoder.fit(recording.X, recording.y).predict_proba(recording.X)
    for found in (trained.decoder, trained.pipeline):
        np.testing.assert_allclose(found.predict_proba(recording.X), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("preset", ["paper", "standard"])
def test_the_papers_network(preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TokenTransformerClassifier.__init__.__kwdefaults__, "epochs", 2)
    trained = train(in_memory(unit="uV"), preset=preset)
    trained.save(tmp_path / "model.spdt")
    assert isinstance(trained.pipeline[-1], TokenTransformerClassifier)
    X, _ = trials(10, seed=1)
    found = load_model(tmp_path / "model.spdt").predict_proba(X)
    np.testing.assert_allclose(found, trained.pipeline.predict_proba(X), rtol=0, atol=1e-5)


def in_memory(n: int = 40, **options: Any) -> Dataset:
    X, y = trials(n)
    return from_arrays(X, options.pop("y", y), **{"sfreq": SFREQ, "ch_names": NAMES, **options})


def people(n_subjects: int, n_sessions: int) -> Dataset:
    """Simulate subjects with the same classes and different trials."""
    one = in_memory(24)

    def read(subject: str, session: str) -> Recording:
        X, y = trials(24, seed=10 * int(subject) + int(session))
        return replace(one.load("1", "1"), subject=subject, session=session, X=X, y=y)

    sessions = tuple(str(i + 1) for i in range(n_sessions))
    return replace(one, index={str(i): sessions for i in range(n_subjects)}, read=read)


@pytest.mark.parametrize(
    ("shape", "protocol"), [((1, 2), "leave-one-session-out"), ((2, 2), "leave-one-subject-out")]
)
def test_the_most_honest_protocol_there_is(shape: tuple[int, int], protocol: str) -> None:
    trained = train(people(*shape))
    assert trained.evaluation.question.protocol == protocol
    assert sum(trained.decoder.about["trials"].values()) == 24 * shape[0] * shape[1]
    one = train(people(*shape), subjects=["0"])
    assert one.evaluation.question.protocol == "leave-one-session-out"


def test_runs_are_left_out_one_by_one() -> None:
    dataset = in_memory(run=np.repeat(["a", "b"], 20))
    assert train(dataset).evaluation.question.protocol == "leave-one-run-out"


@pytest.mark.parametrize("name", ["left\n", "\x1b[2J"])
@pytest.mark.parametrize("of", ["class", "channel"])
def test_names_that_cannot_be_saved_are_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, name: str, of: str
) -> None:
    names = {"y": [name, "right"] * 10} if of == "class" else {"ch_names": (*NAMES[1:], name)}
    monkeypatch.setattr("spdtokens.inference.training.answer", None)
    with pytest.raises(DecoderError, match=re.escape(repr(name))):
        train(in_memory(20, **names))


@pytest.mark.parametrize(
    "how",
    [
        {"paradigm": "erp"},
        {"paradigm": "erp", "n": 12},  # fewer trials than rows of a matrix
        {"paradigm": "erp", "group": np.arange(40) // 4},
        {"paradigm": "ssvep", "stimulus_hz": (9, 21)},
    ],
    ids=lambda how: "-".join(how),
)
def test_potentials_and_flicker(how: dict[str, Any], tmp_path: Path) -> None:
    """The model is the preset ``recommended``, fitted with the groups of the data set."""
    data = {name: how[name] for name in ("n", "group") if name in how}
    trained = train(in_memory(**data), **{k: v for k, v in how.items() if k not in data})
    trained.save(tmp_path / "model.spdt")
    decoder = load_model(tmp_path / "model.spdt")
    assert decoder.about["paradigm"] == how["paradigm"]
    assert (decoder.tokens.filters is None) == ("n" in how)
    X, y = trials(how.get("n", 40))
    made = get_method("recommended").make(trained.dataset)
    found, wanted = decoder.predict_proba(X), made.fit(X, y, groups=how.get("group"))
    np.testing.assert_allclose(found, wanted.predict_proba(X), rtol=0, atol=1e-8)
    if "group" in how:
        assert np.abs(found - made.fit(X, y).predict_proba(X)).max() > 1e-6


def test_causal_filters() -> None:
    trained = train(in_memory(), filtering="causal")
    assert trained.decoder.front.filtering == "causal"
    run = trained.evaluation.results["recommended"][0]
    (_, tested), _ = run.spec.estimator["steps"]
    assert tested["filtering"] == "causal"  # also in the evaluation


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"preset": "best"}, "recommended, standard, paper.*'best'"),
        ({"filtering": "causal", "preset": "paper"}, "filtering"),
        ({"paradigm": "erp", "recentre": True}, "recentre"),
        ({"tmin": 0.5}, "tmin"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], culprit: str) -> None:
    with pytest.raises(DeployError, match=culprit):
        train(in_memory(), **options)


def test_too_few_trials() -> None:
    with pytest.raises(DeployError, match="1 trial of class 1"):
        train(in_memory(5, y=[0, 0, 0, 0, 1]))


def test_epochs_to_a_report(tmp_path: Path) -> None:
    raw, _ = simulated(n=40, classes=("left hand", "right hand"))
    events, ids = mne.events_from_annotations(raw, verbose="error")
    mne.Epochs(
        raw, events, ids, tmin=0.5, tmax=3.5, baseline=None, preload=True, verbose="error"
    ).save(tmp_path / "own-epo.fif", verbose="error")
    trained = train(tmp_path / "own-epo.fif", paradigm="mi")
    trained.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Channel importance" in text
    assert "one evaluation, made by" in text
    assert predict(trained.decoder, tmp_path / "own-epo.fif").accuracy == 1.0
