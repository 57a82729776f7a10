"""Which runs answer a question, and what a method is given of a fold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from pyriemann.utils.mean import mean_riemann
from sklearn.pipeline import make_pipeline

from spdtokens import TokenDiscriminantClassifier, TokenTransformerClassifier, evaluate
from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Recording, Selection
from spdtokens.errors import DataError, EvaluationError, MethodError, ModelError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.execute import Opened, execute, open_run
from spdtokens.evaluation.plan import (
    ONE_BY_ONE,
    QUICK,
    TOGETHER,
    batches,
    with_access,
)
from spdtokens.evaluation.protocols import ACCESS, Fold
from spdtokens.evaluation.runs import RunSpec, as_text
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
    "other preset": {"settings": replace(SETTINGS, changes={}, preset="standard-small")},
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


def test_the_window_of_an_estimator_that_does_not_cut_it_is_in_the_key() -> None:
    """Two windows are two runs; the trials that it is given are those of the window."""
    mine = make_pipeline(Covariances("oas"), MDM())
    whole, shorter = (
        evaluate(signals(), {"mine": mine}, "blocks", window=window).results["mine"][0]
        for window in ((0.0, 1.2), (0.1, 0.4))
    )
    assert whole.spec.key != shorter.spec.key
    assert not np.array_equal(whole.probabilities, shorter.probabilities)


def test_aligned_matrices_have_no_unit() -> None:
    """Whether signals are in volts or microvolts, aligned trials give the same run and tokens."""
    exact = Settings(preset="paper-small", epochs=1)

    def embedded(factor: float, **how: Any) -> np.ndarray:
        dataset = signals(change=lambda r: replace(r, X=r.X * factor), unit_in_volts=1e-6 / factor)
        (spec, *_), source = planned(dataset, "token-log-euclidean", settings=exact, **how)
        estimator = source.estimator(spec)
        opened = open_run(spec, source, estimator)
        classifier = estimator[-1].fit(*opened.data)
        return classifier.embedding_.tokens(opened.X["test"])

    aligned: dict[str, Any] = {"alignment": "recentre", "access": "unlabeled_full"}
    tokens = embedded(1.0, **aligned)
    assert np.abs(tokens).max() < 5  # logarithms of matrices near the identity
    np.testing.assert_allclose(embedded(1e-6, **aligned), tokens, atol=1e-6)
    np.testing.assert_allclose(embedded(1e-6), embedded(1.0), atol=1e-6)


def test_protocol_options_are_in_the_key() -> None:
    def made(protocol: str, **options: int) -> str:
        specs, _ = planned(signals(), "mdm", protocol=protocol, protocol_options=options)
        return replace(specs[0], fold="the same").key

    assert len({made("blocks"), made("blocks", folds=4), made("k-fold")}) == 3
    assert made("blocks") == made("blocks", folds=5)  # the default, said or not


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


PADDED = {f"{i:02d}": ("a", "b") for i in range(1, 6)}


def between(*names: str | int) -> dict[str, Any]:
    return {"protocol": "between-subjects", "protocol_options": {"test_subjects": names}}


def test_test_subjects_are_a_set_of_names_of_the_data_set() -> None:
    (spec,), _ = planned(signals(PADDED), "mdm", **between("04", "02"))
    assert spec.protocol_options == {"test_subjects": ["02", "04"]}
    assert spec.subjects == tuple(PADDED)
    assert RunSpec.of(json.loads(as_text(spec.values()))) == spec
    (same,), _ = planned(signals(PADDED), "mdm", **between("2", 4, "02"))
    assert same.key == spec.key
    (other,), _ = planned(signals(PADDED), "mdm", **between(2, 5))
    (fewer,), _ = planned(signals(PADDED), "mdm", subjects=(1, 2, 4), **between(2, 4))
    assert len({spec.key, other.key, fewer.key}) == 3
    assert fewer.subjects == ("01", "02", "04")


def test_wrong_test_subjects_are_named_before_anything_is_read() -> None:
    def unread(subject: str, session: str) -> Recording:
        raise AssertionError(f"{subject}/{session} was read")

    dataset = signals(PADDED, read=unread)
    for error, culprit, more in [
        (DataError, "'9'.*01, 02", between(1, "9")),
        (EvaluationError, r"03, 05 .*\(01, 02\)", {**between(3, 1, 5), "subjects": (1, 2)}),
        (EvaluationError, "test_subjects", {"protocol": "between-subjects"}),
        (EvaluationError, "test_subjects", {**between(1), "protocol": "subjects-k-fold"}),
    ]:
        with pytest.raises(error, match=culprit):
            planned(dataset, "mdm", **more)


def test_bad_questions_are_refused_before_any_work() -> None:
    preset, device = replace(SETTINGS, preset="best"), replace(SETTINGS, device="tpu9")
    three = signals(classes=("a", "b", "c"))
    for error, culprit, methods, more in [
        (EvaluationError, "method", (), {}),
        (EvaluationError, "ts-lr", ("ts-lr", "ts-lr"), {}),
        (MethodError, "'lda'", ("lda",), {}),
        (MethodError, "Eegnet", ("ts-lr", "eegnet"), {"dataset": covariances()}),
        (MethodError, "erp", ("xdawn-ts-lr",), {}),
        (DataError, "'7'", ("ts-lr",), {"subjects": ("1", "7")}),
        (EvaluationError, "eegnet: seeds", ("eegnet",), {"seeds": ()}),
        (EvaluationError, "eegnet: seeds", ("eegnet",), {"seeds": (-1,)}),
        (EvaluationError, "'all'", ("ts-lr",), {"access": "all"}),
        (EvaluationError, "'ea'", ("ts-lr",), {"alignment": "ea"}),
        (EvaluationError, "'run'", ("ts-lr",), {"domain": "run"}),
        (EvaluationError, "'cv'", ("ts-lr",), {"protocol": "cv"}),
        (EvaluationError, "class c", ("ts-lr",), {"dataset": three}),
        (MethodError, "'best'", ("token-euclidean",), {"settings": preset}),
        (ModelError, "'tpu9'", ("token-euclidean",), {"settings": device}),
    ]:
        with pytest.raises(error, match=culprit):
            planned(more.pop("dataset", signals()), *methods, **more)


LABELLED = ["labeled_20p", "labeled_50p"]


SHARES = ["unlabeled_20p", "unlabeled_50p", *LABELLED]


def prepared(dataset: Any, method: str, **question: Any) -> Opened:
    specs, source = planned(dataset, method, **question)
    return open_run(specs[0], source, source.estimator(specs[0]))


@pytest.mark.parametrize("method", ["ts-lr", "eegnet"])
@pytest.mark.parametrize("access", ACCESS)
def test_what_joins_training_and_what_is_scored(method: str, access: str) -> None:
    run = prepared(signals(), method, access=access)
    seen = {"20p": 4, "50p": 12}.get(access.rpartition("_")[2], 0)
    assert run.fold.calibration.tolist() == list(range(24, 24 + seen))
    assert run.rows["test"].tolist() == list(range(24 + seen, 48))  # seen, so not scored
    expected = list(range(24 + seen)) if access in LABELLED else list(range(24))
    assert run.rows["train"].tolist() == expected
    assert set(run.rows) == set(run.X) == {"train", "test"}
    np.testing.assert_array_equal(run.data[1], np.arange(len(expected)) % 2)
    (result,) = evaluated(signals(), method, access=access, subjects=("1",)).results[method]
    sizes = result.sizes
    assert sizes["train"] + sizes["validation"] == len(expected)
    assert (sizes["calibration"], sizes["test"]) == (seen, 24 - seen)
    assert result.ids.tolist() == [f"1/b/{i}" for i in range(seen, 24)]


@pytest.mark.parametrize("access", SHARES)
def test_every_tested_session_has_its_own_beginning(access: str) -> None:
    fold = prepared(covariances(), "mdm", access=access, protocol="leave-one-subject-out").fold
    n = int(ACCESS[access].share * 24)
    assert fold.calibration.tolist() == [*range(n), *range(24, 24 + n)]
    assert fold.test.tolist() == [*range(n, 24), *range(24 + n, 48)]


@pytest.mark.parametrize("access", SHARES)
def test_every_tested_subject_has_its_own_beginning(access: str) -> None:
    """Sessions of different subjects have equal names."""
    run = prepared(covariances(PADDED), "mdm", access=access, **between(1, 3))
    n = int(ACCESS[access].share * 24)
    firsts = (0, 24, 96, 120)
    assert run.fold.calibration.tolist() == [first + i for first in firsts for i in range(n)]
    assert run.rows["test"].tolist() == [first + i for first in firsts for i in range(n, 24)]
    trained = set(range(48, 96)) | set(range(144, 240))
    if access in LABELLED:
        trained |= set(run.fold.calibration.tolist())
    assert set(run.rows["train"].tolist()) == trained


@pytest.mark.parametrize("protocol", ["leave-one-subject-out", "session-transfer"])
def test_networks_for_new_people_are_validated_on_other_people(protocol: str) -> None:
    run = prepared(covariances(PADDED), "mdm", protocol=protocol)
    groups = run.params(TokenTransformerClassifier()).get("groups")
    if protocol == "session-transfer":
        assert groups is None
    else:
        subjects = run.trials.table.subject[run.rows["train"]]
        assert groups.tolist() == subjects.tolist()
        assert len(set(subjects)) > 1


@pytest.mark.parametrize("access", ["train", "unlabeled_20p", "labeled_20p"])
def test_trials_of_tested_subjects_weigh_as_much_as_all_others(access: str) -> None:
    run = prepared(covariances(PADDED), "mdm", access=access, **between(1, 3))
    weights = run.params(TokenDiscriminantClassifier()).get("sample_weight")
    if access != "labeled_20p":
        assert weights is None
        return
    own = np.isin(run.rows["train"], run.fold.calibration)
    assert (own.sum(), len(set(weights[own])), len(set(weights[~own]))) == (16, 1, 1)
    assert weights[own].sum() == pytest.approx(weights[~own].sum())


def test_calibration_does_not_share_samples_with_what_is_scored() -> None:
    t = table([("1", "a"), ("1", "b")], [10, 10], start=[*range(0, 80, 8)] * 2)
    fold = Fold("1", "b", np.arange(10), np.arange(10, 20))
    seen = with_access(fold, t, ACCESS["labeled_50p"])
    assert seen.calibration.tolist() == [10, 11, 12, 13]  # not 14, which ends in 15
    assert seen.test.tolist() == [15, 16, 17, 18, 19]
    with pytest.raises(EvaluationError, match=r"fold b: .*'labeled_20p'"):
        with_access(fold, replace(t, stop=t.stop + 20), ACCESS["labeled_20p"])


@pytest.mark.parametrize("dataset", [signals(), covariances()], ids=["signals", "matrices"])
@pytest.mark.parametrize("domain", ["session", "subject"])
def test_recentred_by_the_mean_of_the_domain(dataset: Any, domain: str) -> None:
    index = {"1": ("a", "b", "c")}
    dataset = replace(dataset, index=index)
    aligned = {"alignment": "recentre", "access": "unlabeled_full", "domain": domain}
    found, plain = prepared(dataset, "mdm", **aligned).X, prepared(dataset, "mdm").X
    for first, last in [(0, 24), (24, 48)] if domain == "session" else [(0, 48)]:
        expected = whitened(plain["train"][first:last], plain["train"][first:last])
        np.testing.assert_allclose(found["train"][first:last], expected, rtol=1e-5, atol=1e-7)
    seen = plain["test"]
    if domain == "subject":
        seen = np.concatenate([plain["train"], seen])
    expected = whitened(plain["test"], seen)
    np.testing.assert_allclose(found["test"], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("access", ["unlabeled_full", "unlabeled_50p"])
@pytest.mark.parametrize("domain", ["session", "subject"])
def test_every_tested_subject_is_recentred_by_own_trials(access: str, domain: str) -> None:
    aligned = {"alignment": "recentre", "access": access, "domain": domain, **between(1, 3)}
    run = prepared(covariances(PADDED), "mdm", **aligned)
    dataset = covariances(PADDED)
    C = np.concatenate([dataset.load(s, e).X for s in PADDED for e in PADDED[s]])
    of = np.repeat(np.arange(10 if domain == "session" else 5), 24 if domain == "session" else 48)
    for part in ("train", "test"):
        rows = run.rows[part]
        for number in np.unique(of[rows]):
            mine = rows[of[rows] == number]
            seen = mine
            if part == "test" and access == "unlabeled_50p":
                seen = run.fold.calibration[of[run.fold.calibration] == number]
                assert len(seen) == len(mine)
            found = run.X[part][of[rows] == number]
            np.testing.assert_allclose(found, whitened(C[mine], C[seen]), rtol=1e-5, atol=1e-7)


def whitened(C: np.ndarray, seen: np.ndarray) -> np.ndarray:
    values, V = np.linalg.eigh(mean_riemann(seen, tol=1e-12, maxiter=200))
    W = (V / np.sqrt(values)) @ V.T
    return np.asarray(W @ C @ W)


def allowed(alignment: str, access: str) -> bool:
    if alignment == "none":
        return True
    if alignment == "recentre-balanced" and ACCESS[access].labelled:
        return False
    return ACCESS[access].labelled if alignment == "rotate" else access != "train"


@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("method", ["mdm", "token-log-euclidean", "eegnet"])
def test_every_alignment_is_done_or_refused_beforehand(
    method: str, alignment: str, access: str
) -> None:
    question: dict[str, Any] = {"alignment": alignment, "access": access, "subjects": ("1",)}
    if method == "eegnet" and alignment in ("rescale", "rotate"):
        with pytest.raises(EvaluationError, match=f"eegnet .*'{alignment}'.*recentre"):
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
    with pytest.raises(EvaluationError, match=r"\(1/a, 1/b\)"):
        planned(signals(), "mdm", protocol="k-fold", **question)
    with pytest.raises(EvaluationError, match="validation"):
        planned(signals({"1": ("a", "b", "c")}), "mdm", protocol="session-split", **question)
    # By subject, or of sessions that are not trained on, there is no contradiction.
    planned(signals(), "mdm", protocol="k-fold", domain="subject", **question)
    planned(signals(), "mdm", protocol="leave-one-subject-out", **question)


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
    groups = {"protocol": "subjects-k-fold", "protocol_options": {"folds": 3}}
    specs, source = planned(signals(index, n=8), "token-euclidean", seeds=(1, 2, 3), **groups)
    found = batches(specs, source)
    assert [[(s.fold, s.seed) for s in batch] for batch in found] == [
        [(f"group {number}", seed) for seed in (1, 2, 3)] for number in (1, 2, 3)
    ]
