from __future__ import annotations

import numpy as np
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from spdtokens.models.classical import tangent_space_logistic


def test_ts_lr_predicts_as_pyriemann() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5, 40))
    y = np.repeat([0, 1, 2], 20)
    X[:, 0] *= (1 + y)[:, None]
    C = X @ X.transpose(0, 2, 1) / 40
    theirs = make_pipeline(TangentSpace(), LogisticRegression(max_iter=2000)).fit(C[::2], y[::2])
    ours = tangent_space_logistic().fit(C[::2], y[::2])
    np.testing.assert_allclose(
        ours.predict_proba(C[1::2]), theirs.predict_proba(C[1::2]), atol=1e-3
    )
    assert ours.score(C[1::2], y[1::2]) > 0.6
