from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from spdtokens import (
    FilterBankCovariances,
    NetworkClassifier,
    Recentring,
    StandardTrials,
    TokenDiscriminantClassifier,
    TokenEmbedding,
    TokenMLPClassifier,
    TokenTransformerClassifier,
    make_decoder,
)
from spdtokens.classifiers import decoder, networks, transformer
from spdtokens.geometry import matrix_functions, tokens
from spdtokens.geometry.matrix_functions import in_parts
from spdtokens.preprocessing import filterbank
from spdtokens.runtime import signals, threads
from spdtokens.runtime.threads import one_thread, share_out, usable_threads
from spdtokens.runtime.tokens import Tokens
from tests.inference.helpers import made, trials


def counts(api: str = "") -> set[int]:
    """Threads of all BLAS and OpenMP libraries as this thread sees them, and of torch."""
    found = [pool for pool in threadpool_info() if api in ("", pool["user_api"])]
    return {pool["num_threads"] for pool in found} | {torch.get_num_threads()}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(2):
        yield
    torch.set_num_threads(before)


def test_one_thread_inside_and_as_before_outside() -> None:
    assert counts() == {2}
    with one_thread():
        assert counts() == {1}
        with one_thread():
            assert counts() == {1}
        assert counts() == {1}
        assert usable_threads() == 2
    assert counts() == {2}
    assert usable_threads() == 2

    @one_thread()
    def fail() -> None:
        raise ZeroDivisionError(counts())

    with pytest.raises(ZeroDivisionError, match=r"\{1\}"):
        fail()
    assert counts() == {2}


def test_the_last_thread_to_leave_restores() -> None:
    """BLAS has one number for all threads: who came first must not give it back too early."""
    entered, leave, seen = threading.Event(), threading.Event(), {}

    def other() -> None:
        with one_thread():
            entered.set()
            leave.wait(20)
            seen["inside"] = counts()
        seen["after"] = counts()

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert entered.wait(20)
    leave.set()
    thread.join(20)
    assert seen["inside"] == {1}
    assert seen["after"] == {2}
    assert counts() == {2}


def test_many_threads_at_once() -> None:
    x = torch.randn(400, 300)

    def work(_: int) -> torch.Tensor:
        for _ in range(200):
            with one_thread():
                assert (torch.get_num_threads(), usable_threads()) == (1, 2)
        return in_parts(lambda part: (part + 1,), x)[0]

    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(found, x + 1) for found in pool.map(work, range(4)))
    assert counts() == {2}


X, Y = trials(12, seed=3)
C = X @ X.swapaxes(1, 2) / X.shape[-1]
SFREQ = 100.0
SMALL: dict[str, Any] = {"epochs": 1, "random_state": 0}
CLASSIFIER = ("predict", "predict_proba", "decision_function")
#: Estimators, what they are fitted to, and what else they do with it.
ESTIMATORS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "filter bank": (FilterBankCovariances(SFREQ), X, ("fit_transform", "transform")),
    "averages": (FilterBankCovariances(SFREQ, estimator="erp"), X, ("transform",)),
    "standard trials": (StandardTrials(SFREQ), X, ("transform",)),
    "tokens": (TokenEmbedding("affine_invariant"), C, ("fit_transform", "transform", "tokens")),
    "recentring": (Recentring(), C, ("transform",)),
    "decoder": (make_decoder("mi", sfreq=SFREQ), X, ("predict", "predict_proba")),
    "discriminant": (TokenDiscriminantClassifier(), C, CLASSIFIER),
    "transformer": (
        TokenTransformerClassifier(d_model=8, n_layers=1, n_heads=2, d_ff=8, **SMALL),
        C,
        CLASSIFIER,
    ),
    "mlp": (TokenMLPClassifier(width=8, **SMALL), C, CLASSIFIER),
    "spdnet": (NetworkClassifier("spdnet", **SMALL), C, CLASSIFIER),
    "shallownet": (
        NetworkClassifier("shallownet", sfreq=SFREQ, recipe="common", **SMALL),
        X,
        CLASSIFIER,
    ),
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """Numbers of threads at the moments in which something is computed."""
    found: list[set[int]] = []

    def noting(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def noted(*args: Any, **options: Any) -> Any:
            found.append(counts())
            return function(*args, **options)

        monkeypatch.setattr(owner, name, noted)

    noting(filterbank, "check_trials")
    noting(signals, "check_trials")
    noting(decoder, "congruence")
    noting(tokens, "riemannian_mean")
    noting(Tokens, "__call__")
    noting(networks, "train_module")
    noting(transformer, "train_runs")
    noting(torch.nn.Module, "__call__")
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_use_one_thread(name: str, seen: list[set[int]]) -> None:
    estimator, trials, methods = ESTIMATORS[name]
    calls = {"fit": lambda: estimator.fit(trials, Y)}
    calls |= {method: partial(getattr(estimator, method), trials) for method in methods}
    _check_calls(calls, seen)


def test_decoders_use_one_thread(seen: list[set[int]]) -> None:
    decoder = made("imagery").decoder
    session = decoder.session()
    calls = {"predict_proba": lambda: decoder.predict_proba(X)}
    calls |= {"covariances": lambda: decoder.covariances(X)}
    calls |= {"session": lambda: session.probabilities(X[0])}
    _check_calls(calls, seen)


def _check_calls(calls: dict[str, Callable[[], Any]], seen: list[set[int]]) -> None:
    for name, call in calls.items():
        seen.clear()
        call()
        assert seen, name
        assert all(found == {1} for found in seen), name
        assert counts() == {2}


def _bits(threads: int, fit: Callable[[], Any], tested: Any) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            return fit().predict_proba(tested)
    finally:
        torch.set_num_threads(before)


def test_results_do_not_depend_on_threads() -> None:
    """Enough trials, channels and samples that BLAS would share a product among its threads."""
    rng = np.random.default_rng(0)
    many = rng.standard_normal((96, 22, 500))
    labels = np.arange(96) % 3
    ready = rng.standard_normal((64, 253))
    fits: dict[str, tuple[Callable[[], Any], Any]] = {
        "recommended": (lambda: make_decoder("mi", sfreq=250.0).fit(many, labels), many),
        "transformer": (
            lambda: TokenTransformerClassifier(None, epochs=2, random_state=0).fit(
                ready, labels[:64]
            ),
            ready,
        ),
        "tsmnet": (
            lambda: NetworkClassifier(
                "tsmnet", sfreq=250.0, recipe="common", epochs=1, random_state=0
            ).fit(many[:32], labels[:32]),
            many[:32],
        ),
    }
    for name, (fit, tested) in fits.items():
        one, two = (_bits(threads, fit, tested) for threads in (1, 2))
        assert np.array_equal(one, two), name


# Large batches, shared out as a whole.


def double_and_sum(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return 2 * x, (x + y).sum(-1)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_parts_are_the_whole(n: int, n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_functions, "PART_ENTRIES", 64)
    torch.set_num_threads(n_threads)
    x, y = torch.randn(n, 8), torch.randn(n, 8)
    found = in_parts(double_and_sum, x, y)
    for ours, whole in zip(found, double_and_sum(x, y), strict=True):
        assert torch.equal(ours, whole)


def _meeting(n: int) -> set[int]:
    """Share out four tasks of which ``n`` wait for each other; the threads that came."""
    meeting = threading.Barrier(n, timeout=20)  # passes only if n threads are here at once
    seen: set[int] = set()

    def work(task: int) -> None:
        seen.add(threading.get_ident())
        if task < n:
            meeting.wait()
        assert torch.get_num_threads() == 1
        assert not torch.is_grad_enabled()

    share_out(work, range(4))
    return seen


def test_threads_share_the_work() -> None:
    assert len(_meeting(2)) == 2
    with one_thread():  # as the estimators do
        assert len(_meeting(2)) == 2
    with torch.inference_mode():  # which threads do not inherit
        assert len(_meeting(2)) == 2


def test_a_helper_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    with ThreadPoolExecutor(1) as busy:
        busy.submit(end.wait)
        monkeypatch.setattr(threads, "_helpers", lambda: busy)
        try:
            assert _meeting(1) == {threading.get_ident()}
        finally:
            end.set()


def test_results_are_in_the_order_of_tasks_also_when_nested() -> None:
    found = share_out(lambda i: share_out(lambda j: 10 * i + j, range(3)), range(5))
    assert found == [[10 * i + j for j in range(3)] for i in range(5)]


@pytest.mark.parametrize("bad", [0, 5, 39])
def test_an_error_is_raised_and_the_next_call_works(bad: int) -> None:
    def work(task: int) -> int:
        if task == bad:
            raise ValueError("task five")
        return task

    with pytest.raises(ValueError, match="task five"):
        share_out(work, range(40))
    assert share_out(work, range(bad)) == list(range(bad))  # the next call works


def test_an_error_of_a_helper_is_raised() -> None:
    caller = threading.get_ident()
    meeting = threading.Barrier(2, timeout=20)

    def work(task: int) -> None:
        if task < 2:
            meeting.wait()
            if threading.get_ident() != caller:
                raise ValueError("not mine")

    with pytest.raises(ValueError, match="not mine"):
        share_out(work, range(4))


def _shared(queue: Any) -> None:
    queue.put(share_out(lambda task: task, range(9)))


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_works_in_another_process(start: str) -> None:
    """In a forked one the helpers of the parent are gone."""
    context = multiprocessing.get_context(start)
    queue = context.Queue()
    _shared(queue)
    child = context.Process(target=_shared, args=(queue,))  # type: ignore[attr-defined]
    child.start()
    for _ in range(2):
        assert queue.get(timeout=60) == list(range(9))
    child.join(timeout=60)
    assert child.exitcode == 0
