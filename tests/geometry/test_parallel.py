from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spdtokens.geometry import logm, parallel
from spdtokens.geometry.parallel import in_parts
from spdtokens.runtime.threads import one_thread


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def double_and_sum(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x, (x + y).sum(-1)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [0, 1, 2, 7, 1000])
def test_same_as_whole(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PART_ENTRIES", 64)
    x, y = torch.randn(n, 8), torch.randn(n, 8)
    found = in_parts(double_and_sum, x, y, shared_from=1)
    for ours, whole in zip(found, double_and_sum(x, y), strict=True):
        assert torch.equal(ours, whole)


def _meeting(n: int) -> tuple[torch.Tensor, set[int]]:
    """Share out parts of which ``n`` wait for each other; the result, and the threads seen."""
    meeting = threading.Barrier(n, timeout=20)  # passes only if n threads are here at once
    seen: set[int] = set()

    def kernel(x: torch.Tensor) -> tuple[torch.Tensor]:
        seen.add(threading.get_ident())
        if x[0, 0] < n:
            meeting.wait()
        assert torch.get_num_threads() == 1
        return (x,)

    x = torch.arange(4.0).reshape(4, 1)
    (out,) = in_parts(kernel, x, shared_from=1)
    assert torch.equal(out, x)
    return out, seen


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_idle_cores_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_idle_cores", lambda: 7)
    _, seen = _meeting(2)
    assert len(seen) == 2
    with one_thread():  # as the estimators do
        assert len(_meeting(2)[1]) == 2
    with torch.inference_mode():  # which threads do not inherit
        assert len(_meeting(2)[1]) == 2


@pytest.mark.usefixtures("two_threads")
def test_on_a_busy_machine_the_caller_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_idle_cores", lambda: 0)
    assert _meeting(1)[1] == {threading.get_ident()}


@pytest.mark.usefixtures("two_threads")
def test_a_helper_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = ThreadPoolExecutor(1)
    end = threading.Event()
    busy.submit(end.wait)
    monkeypatch.setattr(parallel, "_helpers", lambda: busy)
    monkeypatch.setattr(parallel, "_idle_cores", lambda: 1)
    try:
        assert _meeting(1)[1] == {threading.get_ident()}
    finally:
        end.set()
        busy.shutdown()


def test_parts_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else rounding could: BLAS takes another way for a matrix at another place of a batch."""
    monkeypatch.setattr(parallel, "_idle_cores", lambda: 7)
    A = torch.randn(70, 22, 44, dtype=torch.float64)
    C, seen, before = A @ A.mT, [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            sizes: list[int] = []
            in_parts(lambda x, sizes=sizes: (sizes.append(len(x)) or x,), C, shared_from=1 << 13)
            seen.append((sorted(sizes), logm(C)))
    finally:
        torch.set_num_threads(before)
    for sizes, logs in seen[1:]:
        assert sizes == seen[0][0]
        assert torch.equal(logs, seen[0][1])


@pytest.mark.usefixtures("threads")
def test_error_in_a_part_is_raised() -> None:
    def kernel(x: torch.Tensor) -> tuple[torch.Tensor]:
        if bool((x == 5).any()):
            raise ValueError("part with a five")
        return (x,)

    with pytest.raises(ValueError, match="part with a five"):
        in_parts(kernel, torch.arange(40.0).reshape(40, 1), shared_from=1)
    (out,) = in_parts(kernel, torch.zeros(4, 1), shared_from=1)  # and the next call works
    assert torch.equal(out, torch.zeros(4, 1))


def test_several_user_threads_at_once() -> None:
    x = torch.randn(400, 30)
    results: list[torch.Tensor] = []
    workers = [
        threading.Thread(
            target=lambda: results.append(in_parts(lambda p: (p + 1,), x, shared_from=1)[0])
        )
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert len(results) == 4
    assert all(torch.equal(r, x + 1) for r in results)


def _in_child(queue) -> None:
    C = torch.eye(16).repeat(200, 1, 1)
    queue.put(float(logm(C).abs().max()))


def test_works_in_a_spawned_process() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == 0.0
    child.join(timeout=60)
    assert child.exitcode == 0


def _share(n: int) -> list[int]:
    found: list[int] = []
    parallel.share_out(found.append, range(n), 2)
    return sorted(found)


def _shared_in_child(queue) -> None:
    queue.put(_share(9))


def test_works_in_a_forked_process() -> None:
    """There the helpers of the parent are gone."""
    assert _share(9) == list(range(9))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_shared_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == list(range(9))
    child.join(timeout=60)
    assert child.exitcode == 0
