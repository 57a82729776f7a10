"""Trials played one after another are decided on as in an evaluation with access ``online``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from spdtokens import evaluate, load_dataset, train
from spdtokens.datasets import Dataset, Recording
from spdtokens.inference.live import LiveDecoder
from spdtokens.inference.live.playable import open_playable

TRIALS = 48


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """The first trials of two sessions."""
    whole = load_dataset("sim-mi")

    @cache  # making them takes most of the time
    def read(subject: str, session: str) -> Recording:
        r = whole.load(subject, session)
        parts = {name: getattr(r, name)[:TRIALS] for name in ("X", "y", "run", "group")}
        return replace(r, **parts, about={})

    return replace(whole, name="sim-mi-begin", index={"1": ("1", "2")}, read=read)


@pytest.mark.parametrize("recentre", [True, False], ids=["recentred", "plain"])
def test_the_same_as_evaluated(dataset: Dataset, recentre: bool) -> None:
    found = evaluate(
        dataset,
        ["recommended"],
        "session-transfer",
        access="online" if recentre else "train",
        alignment="recentre" if recentre else "none",
    )
    (result,) = found.results["recommended"]
    first = replace(dataset, index={"1": ("1",)})
    decoder = train(first, recentre=recentre).decoder
    second = dataset.load("1", "2")
    live = LiveDecoder(decoder, decoder.n_samples / 250.0)
    X = np.concatenate(list(second.X), axis=1)
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(np.arange(1, X.shape[1]), 200, replace=False))
    decisions = [d for chunk in np.split(X, cuts, axis=1) for d in live.feed(chunk)]
    probabilities = np.array([d.probabilities for d in decisions])
    np.testing.assert_array_equal(result.y, second.y)
    np.testing.assert_allclose(probabilities, result.probabilities, rtol=0, atol=1e-9)
    assert [d.label for d in decisions] == [
        dataset.classes[i] for i in result.probabilities.argmax(1)
    ]
    assert all(d.learnt == recentre for d in decisions)
    assert result.test["accuracy"] > 0.4  # decided on something


def test_a_data_set_is_played_trial_after_trial(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spdtokens.inference.live.playable.load_dataset", lambda _: dataset)
    played, r = open_playable("sim-mi-begin", session="2"), dataset.load("1", "2")
    n = r.X.shape[-1]
    assert played.markers[:2] == [(0, dataset.classes[r.y[0]]), (n, dataset.classes[r.y[1]])]
    np.testing.assert_array_equal(played.X[:, n : 2 * n], r.X[1])
    assert (played.unit, played.sfreq, played.ch_names) == ("volts", 250.0, dataset.ch_names)
    assert played.seconds == len(r) * n / 250
    first = open_playable("sim-mi-begin")
    np.testing.assert_array_equal(first.X[:, :n], dataset.load("1", "1").X[0])
