"""Our decoder as a MOABB pipeline, in MOABB's own evaluations on its fake data."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from spdtokens import make_decoder

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("moabb") is None,
    reason="MOABB is not installed (pip install 'spdtokens[moabb]')",
)


@pytest.mark.filterwarnings("ignore")  # MOABB's and MNE's own
@pytest.mark.parametrize(
    "name", ["WithinSessionEvaluation", "CrossSessionEvaluation", "CrossSubjectEvaluation"]
)
def test_moabb_evaluates_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    monkeypatch.setenv("_MNE_FAKE_HOME_DIR", str(tmp_path))
    import moabb.evaluations
    from moabb.datasets.fake import FakeDataset
    from moabb.paradigms import MotorImagery

    dataset = FakeDataset(
        ["left_hand", "right_hand"], n_sessions=2, n_runs=1, n_subjects=2, seed=0, n_events=24
    )
    paradigm = MotorImagery(n_classes=2, events=["left_hand", "right_hand"], fmin=8, fmax=30)
    model = make_decoder("mi", sfreq=128).set_params(filterbank__bands="none")
    evaluation = getattr(moabb.evaluations, name)(
        paradigm=paradigm, datasets=[dataset], overwrite=True, hdf5_path=str(tmp_path)
    )
    results = evaluation.process({"spdtokens": model})
    assert set(results["subject"]) == {"1", "2"}
    assert np.isfinite(results["score"]).all()
    assert results["score"].between(0, 1).all()
    expected = {"CrossSubjectEvaluation": 2}.get(name, 4)
    assert len(results) >= expected
