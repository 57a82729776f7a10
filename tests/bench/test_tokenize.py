from __future__ import annotations

import numpy as np

from spdtokens.bench import tokenize
from spdtokens.geometry import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances


def test_ways_agree_where_filters_do(monkeypatch) -> None:
    """SciPy's filter and ours have the same response; only the ends of trials differ."""
    X = np.random.default_rng(0).standard_normal((4, 3, 2000))
    filterbank = FilterBankCovariances(tokenize.SFREQ, bands="paper3", regularisation=0.0)
    C = filterbank.fit_transform(X)
    ours = TokenEmbedding().fit(C).tokens(C)
    # SciPy pads by 30 samples, too few for a 4-8 Hz band: that much the ends weigh in 8 s.
    np.testing.assert_allclose(tokenize.vectorised(X), ours, atol=0.2)
    assert np.corrcoef(tokenize.vectorised(X).ravel(), ours.ravel())[0, 1] > 0.999
    np.testing.assert_allclose(tokenize.obvious_loop(X), ours, atol=1.0)
    assert np.corrcoef(tokenize.obvious_loop(X).ravel(), ours.ravel())[0, 1] > 0.99
    monkeypatch.setattr("spdtokens.bench.timing.SETTLE_SECONDS", 0.0)
    result = tokenize.bench_tokenize(repeats=3, threads=1, shape=(4, 3, 300))
    assert set(result["speedup"]) == {"obvious loop", "pyRiemann + SciPy"}
    assert result["milliseconds"]["spdtokens"] > 0
