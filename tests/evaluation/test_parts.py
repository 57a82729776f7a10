"""What a method is given of a fold, for every access and alignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyriemann.utils.covariance import covariances as pyriemann_covariances
from pyriemann.utils.mean import mean_riemann

from spdtokens.datasets import Recording
from spdtokens.errors import EvaluationError
from spdtokens.evaluation.alignment import ALIGNMENTS
from spdtokens.evaluation.execute import execute, open_fold
from spdtokens.evaluation.plan import Parts, domains, prepare, with_access
from spdtokens.evaluation.protocols import ACCESS, Fold
from tests.evaluation.made import covariances, evaluated, planned, signals, table

LABELLED = ["labeled_20p", "labeled_50p"]
SHARES = ["unlabeled_20p", "unlabeled_50p", *LABELLED]


def prepared(dataset: Any, method: str, **question: Any) -> tuple[Parts, Fold]:
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
    assert parts.test.rows.tolist() == list(range(24 + seen, 48))  # seen, so not scored
    expected = list(range(24 + seen)) if access in LABELLED else list(range(24))
    assert parts.train.rows.tolist() == expected
    np.testing.assert_array_equal(parts.train.y, np.arange(len(expected)) % 2)
    assert parts.validation is None
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
        expected = whitened(plain.train.X[first:last], plain.train.X[first:last])
        np.testing.assert_allclose(parts.train.X[first:last], expected, rtol=1e-5, atol=1e-7)
    seen = plain.test.X
    if domain == "subject":
        seen = np.concatenate([plain.train.X, seen])
    expected = whitened(plain.test.X, seen)
    np.testing.assert_allclose(parts.test.X, expected, rtol=1e-5, atol=1e-7)


def whitened(C: np.ndarray, seen: np.ndarray) -> np.ndarray:
    values, V = np.linalg.eigh(mean_riemann(seen, tol=1e-12, maxiter=200))
    W = (V / np.sqrt(values)) @ V.T
    return np.asarray(W @ C @ W)


def test_signals_are_whitened_like_their_covariances() -> None:
    parts, _ = prepared(signals(), "eegnet", alignment="euclidean", access="unlabeled_full")
    plain, _ = prepared(signals(), "eegnet")
    # One linear map for the whole session.
    A, *_ = np.linalg.lstsq(
        np.concatenate(plain.test.X, axis=1).T, np.concatenate(parts.test.X, axis=1).T, rcond=None
    )
    np.testing.assert_allclose(
        np.einsum("nct,cd->ndt", plain.test.X, A), parts.test.X, rtol=1e-8, atol=1e-8
    )
    np.testing.assert_allclose(A, A.T, atol=1e-8)
    assert not np.allclose(A, np.eye(4), atol=0.05)


def test_covariances_are_pyriemanns() -> None:
    dataset = signals(paradigm="erp", filtered=(1.0, 40.0))
    specs, source = planned(dataset, "spd-token-mlp")
    fold, trials = open_fold(specs[0], source)
    parts = prepare(specs[0], fold, trials, source.estimator(specs[0]))
    X = dataset.load("1", "a").X
    np.testing.assert_allclose(
        parts.train.X, pyriemann_covariances(X, estimator="cov"), rtol=1e-4, atol=1e-4
    )


def test_groups_are_given_where_there_are_any() -> None:
    def paired(recording: Recording) -> Recording:
        return replace(recording, group=np.arange(24) // 2)

    parts, _ = prepared(signals(), "mdm")
    assert parts.train.groups is None
    parts, _ = prepared(signals(change=paired), "mdm")
    np.testing.assert_array_equal(parts.train.groups, np.arange(24) // 2)
    held = parts.holding_back(np.array([5, 2]))
    assert held.validation is not None
    np.testing.assert_array_equal(held.validation.X, parts.train.X[[5, 2]])
    assert held.train.rows.tolist() == [i for i in range(24) if i not in (2, 5)]
    assert held.test is parts.test


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
        with pytest.raises(EvaluationError, match=r"fold b: alignment .* needs .* session 1/b"):
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
