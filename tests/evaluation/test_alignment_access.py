"""No alignment sees more of the target than its access allows."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

from spdtokens.errors import EvaluationError
from spdtokens.evaluation.alignment import (
    ALIGNMENTS,
    Task,
    align,
    align_signals,
    congruences,
    target_domain,
    training_domains,
)
from spdtokens.evaluation.protocols import ACCESS
from tests.evaluation.subjects import (
    CHANGING,
    STUDY,
    TOKENS,
    WITHIN,
    D,
    Study,
    allowed,
    assert_same,
    cases,
)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("access", ACCESS)
@pytest.mark.parametrize("study", [STUDY, WITHIN], ids=["new", "known"])
def test_what_is_allowed(study: Study, access: str, alignment: str) -> None:
    if allowed(study, access, alignment):
        out = study.align(access, alignment)
        for part, index in zip(
            (out.train, out.calibration, out.test), study.parts(access), strict=True
        ):
            assert part.shape == (len(index), TOKENS, D, D)
            np.testing.assert_array_equal(part, part.swapaxes(-1, -2))
    else:
        with pytest.raises(EvaluationError, match=r"'s3'.*access .*labeled_20p.*'s3' among"):
            study.align(access, alignment)


def test_impossible_names_the_ways_out() -> None:
    with pytest.raises(EvaluationError, match=r"'train' shows none.*unlabeled_full.*online"):
        STUDY.align("train", "recentre")
    with pytest.raises(EvaluationError, match=r"rotate.*labeled_20p, labeled_50p.*'rescale'"):
        STUDY.align("online", "rotate")


def disturbed(study: Study, which: np.ndarray) -> Study:
    C = study.C.copy()
    C[which] = 7 * C[which] + 3 * np.eye(D)
    return replace(study, C=C)


@pytest.mark.parametrize(("study", "access", "alignment"), cases(CHANGING, ["online"]))
def test_online_sees_the_strict_past_only(study: Study, access: str, alignment: str) -> None:
    _, _, test = study.parts(access)
    before = study.align(access, alignment)
    for i in range(len(test)):
        later = study if i + 1 == len(test) else disturbed(study, test[i + 1 :])
        out = later.align(access, alignment)
        np.testing.assert_array_equal(out.test[: i + 1], before.test[: i + 1])
        np.testing.assert_array_equal(out.train, before.train)


@pytest.mark.parametrize("alignment", ["euclidean", "recentre", "rescale"])
@pytest.mark.parametrize("study", [STUDY, WITHIN], ids=["new", "known"])
def test_online_reference_knows_nothing_of_its_own_trial(study: Study, alignment: str) -> None:
    train, _, test = study.parts("online")

    def known(study: Study) -> list[np.ndarray]:
        C, domain = study.C, study.domain[train]
        task = Task.checked(C[train], domain, None, C[test], "s3", "online", alignment)
        target = target_domain(task, training_domains(task))
        return [x for x in (target.reference, target.dispersion) if x is not None]

    before = known(study)
    assert len(before) == 1 + (alignment == "rescale")
    for i in range(len(test)):
        for new, old in zip(known(disturbed(study, test[i:])), before, strict=True):
            np.testing.assert_array_equal(new[: i + 1], old[: i + 1])
            assert i + 1 == len(test) or not np.allclose(new[i + 1], old[i + 1])


@pytest.mark.parametrize("alignment", CHANGING)
@pytest.mark.parametrize("access", ["train", "unlabeled_20p", "labeled_20p", "labeled_50p"])
def test_a_test_trial_moves_no_other(access: str, alignment: str) -> None:
    study = WITHIN
    *_, test = study.parts(access)
    before, after = (
        study.align(access, alignment),
        disturbed(study, test[1:]).align(access, alignment),
    )
    np.testing.assert_array_equal(after.train, before.train)
    np.testing.assert_array_equal(after.calibration, before.calibration)
    np.testing.assert_array_equal(after.test[0], before.test[0])


@pytest.mark.parametrize(("study", "access", "alignment"), cases(ALIGNMENTS, ACCESS))
def test_hidden_labels_change_nothing(study: Study, access: str, alignment: str) -> None:
    _, calibration, test = study.parts(access)
    hidden = test if ACCESS[access].labelled else np.concatenate([calibration, test])
    y = study.y.copy()
    y[hidden] = 2 - y[hidden]
    after = replace(study, y=y).align(access, alignment)
    assert_same(after, study.align(access, alignment), rtol=0)


def test_test_labels_are_no_argument() -> None:
    for function in (align, congruences, align_signals):
        assert not {"y_test", "y_target"} & set(inspect.signature(function).parameters)


@pytest.mark.parametrize("access", ["unlabeled_full", "online", "labeled_50p"])
def test_training_does_not_depend_on_the_access(access: str) -> None:
    expected = WITHIN.align("train", "rescale").train
    np.testing.assert_array_equal(WITHIN.align(access, "rescale").train, expected)
