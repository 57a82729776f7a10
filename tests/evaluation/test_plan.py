"""Which runs answer a question, and what a method is given of a fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyriemann.utils.mean import mean_riemann

from spdtokens.datasets import Recording, Selection
from spdtokens.errors import DataError, EvaluationError, MethodError, ModelError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.execute import execute, open_fold
from spdtokens.evaluation.plan import (
    ONE_BY_ONE,
    QUICK,
    TOGETHER,
    Choice,
    Question,
    Source,
    batches,
    domains,
    plan,
    prepare,
    with_access,
)
from spdtokens.evaluation.protocols import ACCESS, Fold
from tests.evaluation.recordings import SETTINGS, covariances, evaluated, planned, signals, table


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
    refused(MethodError, "'lda'", "lda")
    refused(MethodError, "Eegnet needs signals", "ts-lr", "eegnet", dataset=covariances())
    refused(MethodError, "only to erp, not to made-up", "xdawn-ts-lr")
    refused(DataError, "has no subject '7'", "ts-lr", subjects=("1", "7"))
    for seeds in ((), (-1,), (0.5,)):
        refused(EvaluationError, "eegnet: seeds must be", "eegnet", seeds=seeds)
    refused(EvaluationError, "Unknown access 'all'", "ts-lr", access="all")
    refused(EvaluationError, "Unknown alignment 'ea'", "ts-lr", alignment="ea")
    refused(EvaluationError, "'cv'", "ts-lr", protocol="cv")
    three = signals(classes=("a", "b", "c"))
    refused(EvaluationError, "no trial of c to train on", "ts-lr", dataset=three)
    preset, device = replace(SETTINGS, preset="best"), replace(SETTINGS, device="tpu9")
    refused(MethodError, "no preset 'best'", "token-euclidean", settings=preset)
    refused(ModelError, "no device 'tpu9'", "token-euclidean", settings=device)


LABELLED = ["labeled_20p", "labeled_50p"]


SHARES = ["unlabeled_20p", "unlabeled_50p", *LABELLED]


def prepared(dataset: Any, method: str, **question: Any) -> tuple[dict[str, Any], Fold]:
    specs, source = planned(dataset, method, **question)
    spec = specs[0]
    fold, trials = open_fold(spec, source)
    return prepare(spec, fold, trials, source.estimator(spec)), fold


@pytest.mark.parametrize("method", ["ts-lr", "eegnet"])
@pytest.mark.parametrize("access", ACCESS)
def test_what_joins_training_and_what_is_scored(method: str, access: str) -> None:
    parts, fold = prepared(signals(), method, access=access)
    seen = {"20p": 4, "50p": 12}.get(access.rpartition("_")[2], 0)
    assert fold.calibration.tolist() == list(range(24, 24 + seen))
    assert parts["test"].rows.tolist() == list(range(24 + seen, 48))  # seen, so not scored
    expected = list(range(24 + seen)) if access in LABELLED else list(range(24))
    assert parts["train"].rows.tolist() == expected
    np.testing.assert_array_equal(parts["train"].y, np.arange(len(expected)) % 2)
    assert "validation" not in parts
    (result,) = evaluated(signals(), method, access=access, subjects=("1",)).results[method]
    sizes = result.sizes
    assert sizes["train"] + sizes["validation"] == len(expected)
    assert (sizes["calibration"], sizes["test"]) == (seen, 24 - seen)
    assert result.ids.tolist() == [f"1/b/{i}" for i in range(seen, 24)]


@pytest.mark.parametrize("access", SHARES)
def test_every_tested_session_has_its_own_beginning(access: str) -> None:
    _, fold = prepared(covariances(), "mdm", access=access, protocol="leave-one-subject-out")
    n = int(ACCESS[access].share * 24)
    assert fold.calibration.tolist() == [*range(n), *range(24, 24 + n)]
    assert fold.test.tolist() == [*range(n, 24), *range(24 + n, 48)]


def test_calibration_does_not_share_samples_with_what_is_scored() -> None:
    t = table([("1", "a"), ("1", "b")], [10, 10], start=[*range(0, 80, 8)] * 2)
    fold = Fold("1", "b", np.arange(10), np.arange(10, 20))
    seen = with_access(fold, t, ACCESS["labeled_50p"])
    assert seen.calibration.tolist() == [10, 11, 12, 13]  # not 14, which ends in 15
    assert seen.test.tolist() == [15, 16, 17, 18, 19]
    with pytest.raises(EvaluationError, match=r"fold b: every trial that access 'labeled_20p'"):
        with_access(fold, replace(t, stop=t.stop + 20), ACCESS["labeled_20p"])


@pytest.mark.parametrize("dataset", [signals(), covariances()], ids=["signals", "matrices"])
@pytest.mark.parametrize("domain", ["session", "subject"])
def test_recentred_by_the_mean_of_the_domain(dataset: Any, domain: str) -> None:
    index = {"1": ("a", "b", "c")}
    dataset = replace(dataset, index=index)
    parts, fold = prepared(
        dataset, "mdm", alignment="recentre", access="unlabeled_full", domain=domain
    )
    plain, _ = prepared(dataset, "mdm")
    assert fold.train.tolist() == list(range(48))
    bounds = [(0, 24), (24, 48)] if domain == "session" else [(0, 48)]
    for first, last in bounds:
        expected = whitened(plain["train"].X[first:last], plain["train"].X[first:last])
        np.testing.assert_allclose(parts["train"].X[first:last], expected, rtol=1e-5, atol=1e-7)
    seen = plain["test"].X
    if domain == "subject":
        seen = np.concatenate([plain["train"].X, seen])
    expected = whitened(plain["test"].X, seen)
    np.testing.assert_allclose(parts["test"].X, expected, rtol=1e-5, atol=1e-7)


def whitened(C: np.ndarray, seen: np.ndarray) -> np.ndarray:
    values, V = np.linalg.eigh(mean_riemann(seen, tol=1e-12, maxiter=200))
    W = (V / np.sqrt(values)) @ V.T
    return np.asarray(W @ C @ W)


def test_signals_are_whitened_like_their_covariances() -> None:
    parts, _ = prepared(signals(), "eegnet", alignment="euclidean", access="unlabeled_full")
    plain, _ = prepared(signals(), "eegnet")
    # One linear map for the whole session.
    A, *_ = np.linalg.lstsq(
        np.concatenate(plain["test"].X, axis=1).T,
        np.concatenate(parts["test"].X, axis=1).T,
        rcond=None,
    )
    np.testing.assert_allclose(
        np.einsum("nct,cd->ndt", plain["test"].X, A), parts["test"].X, rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(A, A.T, atol=1e-8)
    assert not np.allclose(A, np.eye(4), atol=0.05)


def test_groups_are_given_where_there_are_any() -> None:
    def paired(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 2)

    parts, _ = prepared(signals(), "mdm")
    assert parts["train"].groups is None
    parts, _ = prepared(signals(change=paired), "mdm")
    np.testing.assert_array_equal(parts["train"].groups, np.arange(24) // 2)


def allowed(alignment: str, access: str) -> bool:
    if alignment == "none":
        return True
    return ACCESS[access].labelled if alignment == "rotate" else access != "train"


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("method", ["mdm", "token-log-euclidean", "eegnet"])
def test_every_alignment_is_done_or_refused_beforehand(
    method: str, alignment: str, access: str
) -> None:
    question: dict[str, Any] = {"alignment": alignment, "access": access, "subjects": ("1",)}
    if method == "eegnet" and alignment in ("rescale", "rotate"):
        with pytest.raises(EvaluationError, match=f"eegnet works on signals.*'{alignment}'.*recen"):
            planned(signals(), method, **question)
    elif not allowed(alignment, access):
        with pytest.raises(EvaluationError, match=f"'{alignment}'.*'1/b'.*access"):
            planned(signals(), method, **question)
    else:
        specs, source = planned(signals(), method, **question)
        (result,) = execute(specs, source)
        assert np.isfinite(result.probabilities).all()
        assert 0 <= result.test["accuracy"] <= 1


def test_rotations_that_contradict_each_other_are_refused() -> None:
    question: dict[str, Any] = {"alignment": "rotate", "access": "labeled_20p"}
    with pytest.raises(EvaluationError, match=r"several that are tested.*\(1/a, 1/b\).*rescale"):
        planned(signals(), "mdm", protocol="k-fold", **question)
    with pytest.raises(EvaluationError, match="know the labels of validation trials"):
        planned(signals({"1": ("a", "b", "c")}), "mdm", protocol="session-split", **question)
    # By subject, or of sessions that are not trained on, there is no contradiction.
    planned(signals(), "mdm", protocol="k-fold", domain="subject", **question)
    planned(signals(), "mdm", protocol="leave-one-subject-out", **question)


def test_domains() -> None:
    t = table([("1", "a"), ("10", "a"), ("1", "b")], [1, 1, 1])
    assert domains(t, np.arange(3), "session").tolist() == ["1/a", "10/a", "1/b"]
    assert domains(t, np.arange(3), "subject").tolist() == ["1", "10", "1"]
    with pytest.raises(EvaluationError, match="session, subject, not 'run'"):
        planned(signals(), "mdm", domain="run")


def test_batches_are_of_one_family_and_complete() -> None:
    methods = ("token-euclidean", "ts-lr", "eegnet", "acm-ts-svm")
    index = {str(i): ("a", "b") for i in range(9)}
    specs, source = planned(signals(index, n=8), *methods, seeds=(1, 2, 3))
    found = batches(specs[::-1], source)
    assert sorted(s.key for batch in found for s in batch) == sorted(s.key for s in specs)
    limits = {"token-euclidean": TOGETHER, "ts-lr": QUICK, "eegnet": ONE_BY_ONE}
    limits["acm-ts-svm"] = ONE_BY_ONE  # minutes that an interruption would lose
    for batch in found:
        assert len({s.family for s in batch}) == 1
        assert len(batch) <= limits[batch[0].method]
    assert len(found) == 2 + 2 + 27 + 9
    assert batches([], source) == []
    in_order = [s for batch in batches(specs, source) for s in batch]
    assert in_order == specs  # seeds of a fold stay neighbours
