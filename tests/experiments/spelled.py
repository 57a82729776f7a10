"""Studies that spell estimators out, and what must come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from spdtokens import TokenTransformerClassifier
from spdtokens.evaluation.runs import RunResult

TOP = """
seeds = [5, 6]
datasets = ["data"]
protocols = ["session-transfer"]
"""
#: On covariance matrices. Some defaults cannot be named in a file: functions, tuples.
SPELLED = (
    TOP
    + """
[[methods]]
label = "two layers"
class = "TokenTransformerClassifier"
n_layers = 2
d_model = 16
n_heads = 2
d_ff = 16
epochs = 2
betas = [0.8, 0.99]

[[methods]]
label = "selected"
[[methods.steps]]
class = "pyriemann.tangentspace.TangentSpace"
metric = "logeuclid"
[[methods.steps]]
class = "sklearn.feature_selection.SelectKBest"
k = 5
[[methods.steps]]
class = "sklearn.preprocessing.MinMaxScaler"
feature_range = [-1, 1]
[[methods.steps]]
class = "sklearn.linear_model.LogisticRegression"
C = 0.5

[[methods]]
label = "forest"
[[methods.steps]]
class = "pyriemann.tangentspace.TangentSpace"
[[methods.steps]]
class = "sklearn.ensemble.RandomForestClassifier"
n_estimators = 5

[[methods]]
label = "searched"
class = "sklearn.model_selection.GridSearchCV"
param_grid = {metric = ["riemann", "logeuclid"]}
estimator = {class = "pyriemann.classification.MDM"}
cv = {class = "sklearn.model_selection.StratifiedKFold", n_splits = 3}
"""
)
SMALL: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "epochs": 2}
#: The same in Python.
ESTIMATORS: dict[str, BaseEstimator] = {
    "two layers": TokenTransformerClassifier(n_layers=2, betas=(0.8, 0.99), **SMALL),
    "selected": make_pipeline(
        TangentSpace(metric="logeuclid"),
        SelectKBest(k=5),
        MinMaxScaler((-1, 1)),
        LogisticRegression(C=0.5),
    ),
    "forest": make_pipeline(TangentSpace(), RandomForestClassifier(5)),
    "searched": GridSearchCV(MDM(), {"metric": ["riemann", "logeuclid"]}, cv=StratifiedKFold(3)),
}
SEED = {"two layers": "random_state", "forest": "randomforestclassifier__random_state"}
#: Of two subjects, two of the methods with two seeds.
SPELLED_RUNS = 2 * (2 + 1 + 2 + 1)


def assert_by_hand(file: Path, results: list[RunResult]) -> None:
    """Every run is what scikit-learn makes of the recordings."""
    assert len(results) == SPELLED_RUNS
    found = {(r.spec.method, r.spec.subject, r.spec.seed) for r in results}
    assert len(found) == SPELLED_RUNS
    for result in results:
        method, seed = result.spec.method, result.spec.seed
        estimator = clone(ESTIMATORS[method])
        assert (seed is not None) == (method in SEED)
        if seed is not None:
            estimator.set_params(**{SEED[method]: seed})
        train, test = (
            np.load(file.parent / "data" / f"sub-{result.spec.subject}_ses-{session}.npz")
            for session in (1, 2)
        )
        expected = estimator.fit(train["C"], train["y"]).predict_proba(test["C"])
        np.testing.assert_array_equal(result.probabilities, expected)
