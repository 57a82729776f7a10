from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from spdtokens import (
    DecodingPipeline,
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
from spdtokens.geometry import parallel, tokens
from spdtokens.preprocessing import filterbank, standard
from spdtokens.runtime import signals
from spdtokens.runtime.threads import one_thread, usable_threads
from spdtokens.runtime.tokens import Tokens
from tests.inference.made import made, trials


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


def test_restored_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), one_thread(), one_thread():
        _ = 1 / 0
    assert counts() == {2}


def test_as_a_decorator() -> None:
    @one_thread()
    def inside(n: int) -> set[int]:
        return counts() if n == 0 else inside(n - 1)

    assert inside(3) == {1}
    assert inside.__name__ == "inside"
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
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(200):
            with one_thread():
                if torch.get_num_threads() != 1 or usable_threads() != 2:
                    wrong.append((torch.get_num_threads(), usable_threads()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert wrong == []
    assert counts() == {2}


X, Y = trials(12, seed=3)
C = X @ X.swapaxes(1, 2) / X.shape[-1]
SFREQ = 100.0
SMALL: dict[str, Any] = {"epochs": 1, "random_state": 0}


def _network() -> NetworkClassifier:
    return NetworkClassifier("shallownet", sfreq=SFREQ, recipe="common", **SMALL)


def _spdnet() -> NetworkClassifier:
    return NetworkClassifier("spdnet", **SMALL)


def _transformer() -> TokenTransformerClassifier:
    return TokenTransformerClassifier(d_model=8, n_layers=1, n_heads=2, d_ff=8, **SMALL)


def _mlp() -> TokenMLPClassifier:
    return TokenMLPClassifier(width=8, **SMALL)


def _decoder() -> DecodingPipeline:
    return make_decoder("mi", sfreq=SFREQ)


CALLS: dict[str, Callable[[], Any]] = {
    "FilterBankCovariances.fit": lambda: FilterBankCovariances(SFREQ, estimator="erp").fit(X, Y),
    "FilterBankCovariances.fit_transform": lambda: FilterBankCovariances(SFREQ).fit_transform(X),
    "StandardTrials.fit": lambda: StandardTrials(SFREQ).fit(X),
    "TokenEmbedding.fit": lambda: TokenEmbedding("affine_invariant").fit(C),
    "TokenEmbedding.fit_transform": lambda: TokenEmbedding().fit_transform(C),
    "Recentring.fit": lambda: Recentring().fit(C),
    "DecodingPipeline.fit": lambda: _decoder().fit(X, Y),
    "TokenDiscriminantClassifier.fit": lambda: TokenDiscriminantClassifier().fit(C, Y),
    "TokenTransformerClassifier.fit": lambda: _transformer().fit(C, Y),
    "TokenMLPClassifier.fit": lambda: _mlp().fit(C, Y),
    "NetworkClassifier.fit": lambda: _spdnet().fit(C, Y),
    "Decoder.predict_proba": lambda: made("imagery").decoder.predict_proba(X),
    "Decoder.covariances": lambda: made("imagery").decoder.covariances(X),
    "Session.probabilities": lambda: made("imagery").decoder.session().probabilities(X[0]),
}
FITTED: dict[str, tuple[Callable[[], Any], Any, tuple[str, ...]]] = {
    "FilterBankCovariances": (lambda: FilterBankCovariances(SFREQ).fit(X), X, ("transform",)),
    "StandardTrials": (lambda: StandardTrials(SFREQ).fit(X), X, ("transform",)),
    "TokenEmbedding": (lambda: TokenEmbedding().fit(C), C, ("transform", "tokens")),
    "Recentring": (lambda: Recentring().fit(C), C, ("transform",)),
    "make_decoder": (lambda: _decoder().fit(X, Y), X, ("predict", "predict_proba")),
    "TokenDiscriminantClassifier": (
        lambda: TokenDiscriminantClassifier().fit(C, Y),
        C,
        ("predict", "predict_proba", "decision_function"),
    ),
    "TokenTransformerClassifier": (
        lambda: _transformer().fit(C, Y),
        C,
        ("predict", "predict_proba", "decision_function"),
    ),
    "TokenMLPClassifier": (lambda: _mlp().fit(C, Y), C, ("predict", "predict_proba")),
    "NetworkClassifier": (lambda: _spdnet().fit(C, Y), C, ("predict", "predict_proba")),
    "NetworkClassifier of trials": (lambda: _network().fit(X, Y), X, ("predict_proba",)),
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
    noting(standard, "check_trials")
    noting(signals, "_check")
    noting(decoder, "congruence")
    noting(decoder, "seen_from")
    noting(tokens, "riemannian_mean")
    noting(Tokens, "__call__")
    noting(networks, "train_module")
    noting(transformer, "train_runs")
    noting(torch.nn.Module, "__call__")
    return found


@pytest.mark.parametrize("call", CALLS)
def test_work_is_done_with_one_thread(call: str, seen: list[set[int]]) -> None:
    made("imagery")
    seen.clear()
    CALLS[call]()
    assert seen
    assert all(found == {1} for found in seen)
    assert counts() == {2}


@pytest.mark.parametrize("name", FITTED)
def test_fitted_estimators_use_one_thread(name: str, seen: list[set[int]]) -> None:
    make, trials, methods = FITTED[name]
    estimator = make()
    for method in methods:
        seen.clear()
        getattr(estimator, method)(trials)
        assert seen
        assert all(found == {1} for found in seen)
    assert counts() == {2}


def _bits(threads: int, fit: Callable[[], Any], tested: Any) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            return fit().predict_proba(tested)
    finally:
        torch.set_num_threads(before)


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough trials, channels and samples that BLAS would share a product among its threads."""
    monkeypatch.setattr(parallel, "_idle_cores", lambda: 1)  # whatever else runs
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
