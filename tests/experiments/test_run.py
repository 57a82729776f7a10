"""Studies run, disturbed and shown."""

from __future__ import annotations

import io
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from spdtokens.errors import StudyError
from spdtokens.evaluation.plan import Source
from spdtokens.evaluation.runs import code_digest
from spdtokens.experiments import run as run_module
from spdtokens.experiments.executors import Done, Failure, InProcess
from spdtokens.experiments.run import Progress, StudyBar, run_study, status_table
from spdtokens.experiments.store import RunStore
from tests.experiments.helpers import (
    LIMIT,
    RUNS,
    SPEC,
    SPELLED,
    SPELLED_RUNS,
    TOP,
    assert_by_hand,
    assert_undisturbed,
    cells,
    edit,
    planned,
    printed,
    rows_in,
    run_here,
    start,
    stored,
    table,
    wait_for,
    write_study,
)

runner = CliRunner()
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
    new = [int(out.split(" stored before, ")[1].split(" done now")[0]) for out, _ in said]
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


# ------------------------------------------------------------------ what counts as done


def test_other_settings_are_other_runs_and_back_again(tmp_path: Path) -> None:
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
    text = QUICK.replace(
        'spd-token-mlp", epochs = 3', 'token-euclidean", preset = "standard-small"'
    )
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


# ------------------------------------------------------------------ estimators spelled out


def test_runs_are_done_stored_and_resumed(tmp_path: Path) -> None:
    file = write_study(tmp_path / "study", SPELLED)

    class Stopped(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.done >= 3:
            raise Stopped

    with pytest.raises(Stopped):
        run_here(file, tell=stop)
    before = len(stored(file))
    assert 3 <= before < SPELLED_RUNS
    again = run_here(file)
    assert (again.before, again.done, again.failures) == (before, SPELLED_RUNS - before, [])
    assert_by_hand(file, stored(file))
    assert run_here(file).done == 0
    rows = table(file)[0]["results"]
    assert {row["method"]: row["n_runs"] for row in rows} == {"two layers": 4, "selected": 2}


def test_an_estimator_and_a_name_that_mean_the_same_share_runs(tmp_path: Path) -> None:
    name = '[[methods]]\nname = "spd-token-mlp"\nepochs = 2\n'
    file = write_study(tmp_path / "study", TOP + name)
    run_here(file)
    in_full = (
        '[[methods]]\nlabel = "in full"\n[[methods.steps]]\nclass = "TokenMLPClassifier"\n'
        "epochs = 2\n"
    )
    file.write_text(TOP + in_full)
    assert run_here(file).done == 0
    (row,) = table(file)[0]["results"]
    assert (row["method"], row["n_runs"]) == ("in full", 4)


def test_a_run_that_fails_names_its_title(tmp_path: Path) -> None:
    """Values of the parameters of others are known to be wrong only when they are fitted."""
    file = write_study(tmp_path / "study", SPELLED.replace("C = 0.5", "C = -1"))
    progress = run_here(file)
    assert progress.done == SPELLED_RUNS - 2
    assert {failure.spec.method for failure in progress.failures} == {"selected"}
    assert all("'C'" in failure.reason for failure in progress.failures)
    assert len(planned(file).once()) == SPELLED_RUNS


# ------------------------------------------------------------------ progress and status


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)


def shown(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def test_the_bar_shows_runs_time_left_score_and_failures() -> None:
    where = console(terminal=True)
    progress = Progress(total=40, before=10)
    with StudyBar("accuracy", where) as bar:
        bar.tell(progress)
        bar._bars.refresh()
        assert "10/40 runs" in shown(where)
        task = bar._bars.tasks[0]
        bar.listen(0.5)
        bar.listen(0.25)
        assert task.completed == 10.75
        bar.listen(70.0)
        assert task.completed == 40  # not beyond the end
        progress.done, progress.elsewhere = 9, 5
        progress.failures.append(Failure(SPEC, "no"))
        progress.scores += [{"accuracy": 0.5}, {"accuracy": 0.75}, {"accuracy": float("nan")}]
        bar.tell(progress)
        bar._bars.refresh()
    last = shown(where).split("\r")[-1]
    assert "25/40 runs" in last
    assert "mean accuracy 0.625, 1 failed" in last


def test_nothing_where_there_is_no_terminal() -> None:
    where = console(terminal=False)
    with StudyBar("accuracy", where) as bar:
        bar.tell(Progress(total=40, before=12))
        bar.listen(0.5)
    assert shown(where) == ""


def test_status_counts_and_sums() -> None:
    text = printed(status_table({"mdm": 4, "[b]": 12}, {"[b]": 5}, {"c0de": 11}, "c0de"))
    assert cells(text, "mdm") == ["4", "4"]
    assert cells(text, "[b]") == ["7", "12"]
    assert cells(text, "all") == ["11", "16"]
    assert "other code" not in text


def test_status_tells_of_other_code() -> None:
    codes = {"old": 3, "older": 4, "c0de": 1}
    text = " ".join(printed(status_table({"mdm": 4}, {}, codes, "c0de")).split())
    assert "has 7 runs computed by other code" in text
    assert "other code" not in printed(status_table({"mdm": 4}, {}, codes, None))
