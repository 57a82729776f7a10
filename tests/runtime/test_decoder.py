"""Decisions one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spdtokens.geometry.alignment import running_references
from spdtokens.runtime import DecoderError
from spdtokens.runtime.tokens import Reference, inverse_root
from tests.inference.helpers import made, trials


def test_a_session_is_seen_from_its_past() -> None:
    it = made("windows")
    X, _ = trials(10, seed=1)
    C = it.decoder.covariances(X)
    start = C[:3].mean(0)
    decoder = replace(it.decoder, recentring=start)
    references = running_references(C, start, 1, Reference())
    W = inverse_root(references)
    wanted = it.pipeline["classifier"].predict_proba(W @ C @ W)
    np.testing.assert_allclose(decoder.predict_proba(X), wanted, rtol=0, atol=1e-9)
    session = decoder.session()
    one_by_one = [session.probabilities(x) for x in X]
    np.testing.assert_array_equal(one_by_one, decoder.predict_proba(X))
    assert session.count == 11


def test_a_session_may_look_without_learning() -> None:
    it = made("imagery")
    X, _ = trials(4, seed=1)
    session = replace(it.decoder, recentring=it.decoder.covariances(X).mean(0)).session()
    first = session.probabilities(X[0], learn=False)
    session.probabilities(X[1], learn=False)
    np.testing.assert_array_equal(session.probabilities(X[0], learn=False), first)
    assert session.count == 1


@pytest.mark.parametrize("shape", [(2, 3, 150), (2, 4, 149), (4, 150)])
def test_trials_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(DecoderError, match=r"\(n, 4, 150\)"):
        made("imagery").decoder.predict_proba(np.ones(shape))


def test_trials_that_cannot_be_decoded() -> None:
    X, _ = trials(3)
    X[1, 2] = 7.0
    with pytest.raises(DecoderError, match="Trial 1, channel number 2"):
        made("imagery").decoder.predict_proba(X)
    X[1, 2, 5] = np.nan
    with pytest.raises(DecoderError, match="Trial 1, channel number 2, sample 5"):
        made("imagery").decoder.predict_proba(X)
