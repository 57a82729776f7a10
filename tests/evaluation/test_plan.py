"""Which runs answer a question, and what makes one run another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens.datasets import Recording, Selection
from spdtokens.errors import DataError, EvaluationError, MethodError, ModelError
from spdtokens.evaluation.plan import Choice, Question, Source, plan
from tests.evaluation.made import SETTINGS, covariances, planned, signals


def test_all_runs_in_the_order_of_the_question() -> None:
    specs, _ = planned(signals(), "token-euclidean", "ts-lr", seeds=(3, 1, 3))
    assert [(s.method, s.subject, s.fold, s.seed) for s in specs] == [
        ("token-euclidean", "1", "b", 3),
        ("token-euclidean", "1", "b", 1),
        ("token-euclidean", "10", "b", 3),
        ("token-euclidean", "10", "b", 1),
        ("ts-lr", "1", "b", None),
        ("ts-lr", "10", "b", None),
    ]
    assert len({s.key for s in specs}) == 6
    assert len({s.family for s in specs}) == 2


def key(dataset: Any = None, method: str = "token-euclidean", **question: Any) -> str:
    specs, _ = planned(dataset or signals(), method, **{"subjects": ("1",), **question})
    return specs[0].key


def one(change: Callable[[np.ndarray], None], name: str) -> Any:
    def changed(recording: Recording) -> Recording:
        if (recording.subject, recording.session) != ("1", "a"):
            return recording
        array = np.array(getattr(recording, name))
        change(array)
        return replace(recording, **{name: array})

    return signals(change=changed)


def turned(y: np.ndarray) -> None:
    y[3] = 1 - y[3]


def nudged(X: np.ndarray) -> None:
    X[5, 1, 7] = np.nextafter(X[5, 1, 7], 1e9)


OTHERS: dict[str, dict[str, Any]] = {
    "preset": {"settings": replace(SETTINGS, changes={})},
    "other preset": {"settings": replace(SETTINGS, changes={}, preset="paper-small")},
    "value of preset": {"settings": replace(SETTINGS, changes={**SETTINGS.changes, "dropout": 0})},
    "epochs": {"settings": replace(SETTINGS, epochs=3)},
    "bands": {"settings": replace(SETTINGS, bands="paper3")},
    "pairs": {"settings": replace(SETTINGS, bands=[(8.0, 30.0)])},
    "window": {"selection": Selection(window=(0.1, 1.1))},
    "paradigm": {"selection": Selection(paradigm="erp")},
    "order of classes": {"selection": Selection(classes=("b", "a"))},
    "trials": {"selection": Selection(where=(("run", "r1"),))},
    "seed": {"seeds": (2,)},
    "method": {"method": "token-cholesky"},
    "protocol": {"protocol": "blocks"},
    "access": {"access": "unlabeled_20p"},
    "alignment": {"alignment": "recentre", "access": "online"},
    "label": {"dataset": one(turned, "y")},
    "sample": {"dataset": one(nudged, "X")},
    "rate": {"dataset": signals(sfreq=101.0)},
    "clock": {"dataset": signals(tmin=-0.01)},
}


def test_whatever_determines_a_run_is_in_its_key() -> None:
    keys = {"plain": key()} | {name: key(**other) for name, other in OTHERS.items()}
    assert len(set(keys.values())) == len(keys), keys


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"folds": 5}, {"folds": 4}),
        ({"protocol": "k-fold"}, {"protocol": "blocks"}),
    ],
)
def test_protocol_options_are_in_the_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    def made(options: dict[str, Any]) -> str:
        protocol = options.get("protocol", "blocks")
        folds = {k: v for k, v in options.items() if k == "folds"}
        specs, _ = planned(signals(), "mdm", protocol=protocol, protocol_options=folds)
        return replace(specs[0], fold="the same").key

    assert made(one) != made(other)
    assert made({"protocol": "blocks"}) == made({"folds": 5})  # the default, said or not


def test_recipes_and_domains_count_where_they_matter() -> None:
    common = replace(SETTINGS, recipe="common")
    assert key(method="eegnet") != key(method="eegnet", settings=common)
    assert key(method="ts-lr") == key(method="ts-lr", settings=common)
    aligned: dict[str, Any] = {"alignment": "recentre", "access": "online"}
    assert key(**aligned) != key(**aligned, domain="subject")
    assert key() == key(domain="subject")


def test_the_order_of_sessions_counts() -> None:
    question: dict[str, Any] = {"protocol": "session-split", "method": "mdm"}
    one, other = ({"1": ("a", "b", "c")}, {"1": ("b", "a", "c")})
    assert key(signals(one), **question) != key(signals(other), **question)


@pytest.mark.parametrize(
    "other",
    [
        {"settings": replace(SETTINGS, preset="paper-small")},
        {"settings": replace(SETTINGS, epochs=9)},
        {"settings": replace(SETTINGS, recipe="common")},
        {"settings": replace(SETTINGS, device="cpu")},
        {"seeds": (7, 8)},
        {"selection": Selection(paradigm="mi")},
        {"selection": Selection(classes=("a", "b"))},
        {"selection": Selection(window=(0.0, 1.2))},
        {"dataset": replace(signals(), name="other", description="elsewhere")},
        {"subjects": ("10", "1")},
    ],
)
def test_whatever_is_idle_is_not(other: dict[str, Any]) -> None:
    assert key(method="ts-lr", **other) == key(method="ts-lr")


def write(folder: Path) -> Path:
    folder.mkdir()
    for session in "ab":
        r = signals().load("1", session)
        path = folder / f"sub-1_ses-{session}.npz"
        np.savez(path, X=r.X, y=r.y, sfreq=100.0, classes=np.array(["a", "b"]))
    return folder


def test_the_path_of_a_data_set_is_not_in_the_key(tmp_path: Path) -> None:
    keys = []
    for name in ("here", "there"):
        question = Question(str(write(tmp_path / name)), (Choice("ts-lr", SETTINGS),))
        keys += [spec.key for spec in plan(question, Source())]
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_subjects_are_a_set() -> None:
    index = {"2": ("a",), "1": ("a",), "10": ("a",)}
    question: dict[str, Any] = {"protocol": "leave-one-subject-out"}
    specs, _ = planned(signals(index), "mdm", **question)
    assert [s.subject for s in specs] == ["2", "1", "10"]
    again, _ = planned(signals(index), "mdm", subjects=("1", "10", "2", "1"), **question)
    assert [s.key for s in again] == [s.key for s in specs]
    fewer, _ = planned(signals(index), "mdm", subjects=("1", "10"), **question)
    assert [s.subject for s in fewer] == ["1", "10"]
    assert fewer[0].key != specs[1].key  # trained on others


def test_choices_that_mean_the_same_are_one_run() -> None:
    choices = (Choice("ts-lr", SETTINGS), Choice("ts-lr", replace(SETTINGS, epochs=7), "again"))
    specs, _ = planned(signals(), choices=choices)
    assert [s.subject for s in specs] == ["1", "10"]


def test_bad_questions_are_refused_before_any_work() -> None:
    def refused(error: type[Exception], message: str, *methods: str, **more: Any) -> None:
        with pytest.raises(error, match=message):
            planned(more.pop("dataset", signals()), *methods, **more)

    refused(EvaluationError, "No method is named")
    refused(EvaluationError, "ts-lr is named twice", "ts-lr", "ts-lr")
    refused(MethodError, r"There is no method 'lda'\. There are: recommended, token-", "lda")
    refused(MethodError, "Eegnet needs signals", "ts-lr", "eegnet", dataset=covariances())
    refused(MethodError, "made for erp, and made-up is not. Leave it out", "xdawn-ts-lr")
    refused(DataError, "has no subject '7'", "ts-lr", subjects=("1", "7"))
    for seeds in ((), (-1,), (0.5,)):
        refused(EvaluationError, "eegnet: seeds must be", "eegnet", seeds=seeds)
    refused(EvaluationError, "Unknown access 'all'", "ts-lr", access="all")
    refused(EvaluationError, "Unknown alignment 'ea'", "ts-lr", alignment="ea")
    refused(EvaluationError, "no protocol 'cv'", "ts-lr", protocol="cv")
    three = signals(classes=("a", "b", "c"))
    refused(EvaluationError, "no trial of c to train on", "ts-lr", dataset=three)
    preset, device = replace(SETTINGS, preset="best"), replace(SETTINGS, device="tpu9")
    refused(MethodError, "no preset 'best'", "token-euclidean", settings=preset)
    refused(ModelError, "no device 'tpu9'", "token-euclidean", settings=device)
