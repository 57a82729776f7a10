from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdtokens.errors import UserError
from spdtokens.evaluation.execute import execute
from spdtokens.evaluation.runs import RunSpec
from spdtokens.experiments import work
from spdtokens.experiments.work import Failure, attempt
from tests.experiments.made import SPEC
from tests.experiments.small import planned, write_study

TOKENS = """
datasets = ["data"]
protocols = ["session-transfer"]
seeds = 4
methods = [
    {name = "token-log-euclidean", epochs = 2, changes = {d_model = 16, n_layers = 1, n_heads = 2}},
]
"""


def test_a_failure_says_which_run() -> None:
    assert str(Failure(SPEC, "it rained")) == (
        "sim-mi, token-log-euclidean, subject 1, fold block 1, seed 0: it rained"
    )


@pytest.mark.parametrize("error", [UserError("no good"), KeyError("bad")])
def test_one_run_that_fails_does_not_stop_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    plan = planned(write_study(tmp_path / "study", TOKENS))
    batch = plan.once()
    whole = {result.spec.key: result for result in execute(batch, plan.source)}
    calls: list[int] = []

    def failing(specs: Sequence[RunSpec], *others: Any) -> Any:
        calls.append(len(specs))
        if batch[5] in specs:
            raise error
        return execute(specs, *others)

    monkeypatch.setattr(work, "execute", failing)
    done = attempt(batch, plan.source)
    (failure,) = done.failures
    assert failure.spec == batch[5]
    reason = "no good" if isinstance(error, UserError) else "KeyError: 'bad' (test_work.py, line "
    assert failure.reason.startswith(reason)
    assert [r.spec for r in done.results] == [spec for spec in batch if spec != batch[5]]
    for result in done.results:  # the same as in the batch that failed, whatever they were with
        np.testing.assert_array_equal(
            result.probabilities, whole[result.spec.key].probabilities, strict=True
        )
    assert calls == [8, 4, 4, 2, 1, 1, 2]  # halves, not one by one


def test_ctrl_c_is_not_a_failure_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(write_study(tmp_path / "study", TOKENS))

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(work, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attempt(plan.once(), plan.source)
