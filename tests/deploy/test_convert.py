"""The NumPy decoder against the estimators it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from spdtokens import SPDTokenClassifier, Tokenizer
from spdtokens.deploy.convert import make_decoder
from spdtokens.deploy.errors import DeployError
from tests.deploy.made import KINDS, NAMES, SFREQ, made, trials


@pytest.mark.parametrize("kind", KINDS)
def test_decoders_predict_what_estimators_predict(kind: str) -> None:
    it = made(kind)
    X, _ = trials(12, seed=1)
    found, wanted = it.decoder.predict_proba(X), it.expected(X)
    # Transformers are stored in float32.
    tolerance = 1e-5 if "preset" in KINDS[kind] else 1e-10
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
    assert np.ptp(found[:, 0]) > 0.01  # not the same for all trials
    assert it.decoder.predict(X).tolist() == [("left", "right")[i] for i in wanted.argmax(1)]


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_those_of_the_tokenizer(kind: str) -> None:
    it = made(kind)
    X, _ = trials(5, seed=2)
    wanted = it.front.covariances(X)
    found = it.decoder.covariances(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max())
    assert it.decoder.shape == found.shape[1:]


def test_models_of_covariances() -> None:
    X, y = trials()
    C = Tokenizer(sfreq=SFREQ).fit(X).covariances(X)[:, 0]
    classifier = SPDTokenClassifier().fit(C, y)
    decoder = make_decoder(None, classifier, classes=("a", "b"), ch_names=NAMES)
    np.testing.assert_allclose(
        decoder.predict_proba(C), classifier.predict_proba(C), rtol=0, atol=1e-10
    )
    with pytest.raises(ValueError, match="no samples"):
        _ = decoder.n_samples


def test_an_estimator_that_the_runtime_lacks() -> None:
    X, y = trials()
    front = Tokenizer(sfreq=SFREQ, covariance="lwf")
    C = front.fit_covariances(X, y)
    classifier = SPDTokenClassifier().fit(C, y)
    with pytest.raises(DeployError, match=r"covariance='lwf' cannot be saved: the runtime has sam"):
        make_decoder(front, classifier, classes=("a", "b"), ch_names=NAMES)
