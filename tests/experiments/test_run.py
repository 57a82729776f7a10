from __future__ import annotations

import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spdtokens.errors import StudyError
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import code_digest
from spdtokens.experiments import run as run_module
from spdtokens.experiments.executors import InProcess
from spdtokens.experiments.run import Progress, run_study
from spdtokens.experiments.store import RunStore
from spdtokens.experiments.work import Done
from tests.experiments.small import (
    LIMIT,
    RUNS,
    TEXT,
    assert_undisturbed,
    edit,
    planned,
    rows_in,
    run_here,
    start,
    stored,
    table,
    wait_for,
    write_study,
)

QUICK = """
datasets = ["data"]
protocols = ["session-transfer"]
seeds = 2
methods = ["ts-lr", {name = "spd-token-mlp", epochs = 3}]
"""


# ------------------------------------------------------------------ disturbed


def test_killed_three_times_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    file = write_study(tmp_path / "killed")
    store = file.with_suffix(".sqlite")
    rng = np.random.default_rng(0)
    seen = [0]
    for number in range(3):
        # Each time a few runs further, at some moment of the next.
        more = int(rng.integers(1, 4))
        process = start(file)
        wait_for(
            lambda: rows_in(store) >= seen[-1] + more or process.poll() is not None,  # noqa: B023
            f"progress before kill {number + 1}",
        )
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        said = process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGKILL, said
        seen.append(rows_in(store))
    assert seen == sorted(set(seen))  # none was lost, and each went further
    assert seen[-1] < RUNS
    progress = run_here(file)
    assert (progress.before, progress.done, progress.failures) == (seen[-1], RUNS - seen[-1], [])
    assert_undisturbed(file)


def test_two_at_once_share_a_store(tmp_path: Path) -> None:
    file = write_study(tmp_path / "twice")
    both = [start(file), start(file)]
    said = [process.communicate(timeout=LIMIT) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [err for _, err in said] == ["", ""]
    # Each run was stored by one of them.
    new = [int(out.split(" were there, ")[1].split(" done now")[0]) for out, _ in said]
    assert sum(new) == RUNS
    assert_undisturbed(file)


def test_what_another_process_does_meanwhile_is_not_done_again(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)
    plan = planned(file)
    told: list[tuple[int, int]] = []

    def meanwhile(progress: Progress) -> None:
        told.append((progress.done, progress.elsewhere))
        if len(told) == 2:  # after the first batch, both runs of ts-lr
            run_here(file)

    with RunStore(file.with_suffix(".sqlite")) as store:
        progress = run_study(plan, store, InProcess(plan.source), tell=meanwhile)
    assert told[:2] == [(0, 0), (2, 0)]
    assert (progress.done, progress.elsewhere, progress.total) == (2, 4, 6)


def test_interrupted_it_keeps_what_was_done(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)

    def interrupt(progress: Progress) -> None:
        if progress.done == 2:  # ts-lr of both subjects
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_here(file, tell=interrupt)
    assert rows_in(file.with_suffix(".sqlite")) == 2
    assert run_here(file).before == 2


# ------------------------------------------------------------------ what counts as done


def test_other_settings_are_other_runs(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)
    assert run_here(file).done == 6
    before = table(file)
    edit(file, "epochs = 3", "epochs = 4")
    changed = run_here(file)
    assert (changed.before, changed.done) == (2, 4)  # ts-lr was there
    assert {len(curve) for r in stored(file) for curve in r.curves.values()} == {4}
    edit(file, "epochs = 4", "epochs = 3")
    assert run_here(file).before == 6
    assert table(file) == before


def test_other_recordings_are_other_runs(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)
    run_here(file)
    recording = tmp_path / "study" / "data" / "sub-02_ses-2.npz"
    whole = recording.read_bytes()
    with np.load(recording) as opened:
        arrays = dict(opened)
    arrays["C"][3, 0, 0] *= 1 + 1e-9
    np.savez(recording, **arrays)
    plan = planned(file)
    with RunStore(file.with_suffix(".sqlite")) as store:
        assert {spec.subject for spec in plan.missing(store)} == {"02"}
        assert len(plan.missing(store)) == 3
    recording.write_bytes(whole)
    assert run_here(file).before == 6


def test_settings_in_other_words_are_the_same_runs(tmp_path: Path) -> None:
    """They count as done, so they must be shown too."""
    text = QUICK.replace('spd-token-mlp", epochs = 3', 'token-euclidean", preset = "paper-small"')
    file = write_study(tmp_path / "study", text.replace('small"}', 'small", epochs = 1}'))
    run_here(file)
    before = table(file)
    edit(file, "epochs = 1", "changes = {epochs = 1}")
    (tmp_path / "study" / "data").rename(tmp_path / "study" / "moved")
    edit(file, '"data"', '"moved"')
    assert run_here(file).before == 6
    assert [row["n_runs"] for row in table(file)[0]["results"]] == [2, 4]
    assert table(file) == before
    assert {Path(result.spec.dataset).name for result in stored(file)} == {"moved"}


def test_results_by_other_code_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path / "study", QUICK)
    run_here(file)
    monkeypatch.setattr(run_module, "code_digest", lambda: "other")
    with RunStore(file.with_suffix(".sqlite")) as store:
        other = planned(file)
        assert len(other.missing(store)) == 6
        assert other.evaluations(store)[0].rows == []
        assert planned(file, any_code=True).missing(store) == []
        assert len(planned(file, any_code=True).results(store)) == 6


def test_methods_of_one_name_are_counted_by_label(tmp_path: Path) -> None:
    text = QUICK.replace('"ts-lr",', '{name = "spd-token-mlp", epochs = 2, label = "short"},')
    plan = planned(write_study(tmp_path / "study", text))
    assert {title: len(specs) for title, specs in plan.by_title().items()} == {
        "short": 4,
        "spd-token-mlp": 4,
    }


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    text = QUICK.replace('"ts-lr"', '"xdawn-ts-lr", "eegnet"')
    with pytest.raises(StudyError) as caught:
        planned(write_study(tmp_path / "study", text))
    assert "xdawn-ts-lr" in str(caught.value)
    assert "eegnet" in str(caught.value)


# ------------------------------------------------------------------ workers with other code


class _Elsewhere(InProcess):
    """Results as a worker with other code returns them; the first batch is by this code."""

    def run(self, batches, report, listener) -> None:  # type: ignore[no-untyped-def]
        def changed(done: Done) -> None:
            if done.results[0].spec.method != "ts-lr":
                results = [replace(r, origin={**r.origin, "code": "0ld"}) for r in done.results]
                done = Done(results, [], "node7, process 12")
            report(done)

        super().run(batches, changed, listener)


def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)
    plan = planned(file)
    with RunStore(file.with_suffix(".sqlite")) as store:
        with pytest.raises(StudyError) as caught:
            run_study(plan, store, _Elsewhere(plan.source))
        assert "worker on node7, process 12 has other code of spdtokens (0ld" in str(caught.value)
        assert code_digest() in str(caught.value)
        assert store.codes() == {code_digest(): 2}


def test_a_worker_with_other_code_is_accepted_if_any_will_do(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", QUICK)
    plan = planned(file, source=Source(), any_code=True)
    with RunStore(file.with_suffix(".sqlite")) as store:
        assert run_study(plan, store, _Elsewhere(plan.source)).done == 6
        # Under the code that made them: without any_code they do not count.
        assert store.codes() == {code_digest(): 2, "0ld": 4}
        assert plan.missing(store) == []
        assert len(planned(file).missing(store)) == 4


def test_the_text_of_the_small_study_says_what_its_size_is(tmp_path: Path) -> None:
    assert len(planned(write_study(tmp_path / "study", TEXT)).once()) == RUNS
