from __future__ import annotations

import multiprocessing
import threading

import pytest
import torch

from spdtokens.spd import parallel
from spdtokens.spd.parallel import in_parts


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


def test_work_is_shared_by_torchs_own_threads() -> None:
    if parallel._open_parallel_region() is None:
        pytest.skip("this torch does not carry libgomp")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    meeting = threading.Barrier(2, timeout=20)  # passes only if two threads are here at once

    def kernel(x: torch.Tensor) -> tuple[torch.Tensor]:
        if x[0, 0] < 2:
            meeting.wait()
        return (x,)

    try:
        x = torch.arange(4.0).reshape(4, 1)
        (out,) = in_parts(kernel, x, shared_from=1)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(out, x)


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
    from spdtokens.spd import logm

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
