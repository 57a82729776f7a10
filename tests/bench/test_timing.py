"""The harness: turns, ratios, threads; and that the ways that are compared do the same."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch import nn

from spdtokens.bench import latency, peers, timing, tokens
from spdtokens.bench.latency import LIVE_PEER, NUMPY, ONNX, PEER, RECENTRED
from spdtokens.bench.timing import OURS, random_covariances, take_turns, thread_count
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.datasets import load_dataset
from spdtokens.geometry import TokenEmbedding, get_embedding
from spdtokens.preprocessing import FilterBankCovariances


def test_times_tell_slow_from_fast() -> None:
    times = take_turns({"slow": lambda: time.sleep(0.02), "fast": lambda: None}, 3)
    assert times["slow"].shape == (3, 1)
    assert times["slow"].min() >= 20 > times["fast"].max()


def test_every_call_is_timed_and_the_ways_take_turns() -> None:
    called: list[str] = []
    ways = {letter: lambda letter=letter: called.append(letter) for letter in "ab"}
    times = take_turns(ways, rounds=2, calls=3, warm_up=1)
    assert "".join(called) == "aaaabbbb" + "bbbbaaaa"
    assert times["a"].shape == (2, 3)
    assert (times["a"] > 0).all()


def test_ratio_is_taken_within_rounds() -> None:
    """Twice as fast in every round, though the machine slows down tenfold in between."""
    times = {
        "ours": np.array([[1.0], [10.0], [1.0]]),
        "peer": np.array([[2.0], [20.0], [2.0]]),
    }
    assert timing.ratio(times, "ours", "peer") == 0.5
    assert timing.medians(times) == {"ours": 1.0, "peer": 2.0}


def test_thread_count_holds_for_all_and_is_restored() -> None:
    before = torch.get_num_threads()
    with thread_count(1):
        assert torch.get_num_threads() == 1
        assert all(pool["num_threads"] == 1 for pool in threadpool_info())
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("function", tokens.EMBEDDINGS)
def test_all_ways_compute_the_same_tokens(function: str) -> None:
    C = random_covariances(5, 6, dtype=torch.float64)
    ways = tokens.torch_tokens(function)
    assert set(ways) == {"spdtokens", "torch eigh", "pyRiemann (torch)", "spd_learn"}
    for way in ways.values():
        torch.testing.assert_close(way(C), ways["torch eigh"](C), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(peers.TOKENS["raw"](C), get_embedding("euclidean").to_token(C))


def test_ways_from_trials_to_tokens_agree_where_filters_do() -> None:
    """SciPy's filter and ours have the same response; only the ends of trials differ."""
    X = np.random.default_rng(0).standard_normal((4, 3, 2000))
    filterbank = FilterBankCovariances(tokens.SFREQ, bands="paper3", regularisation=0.0)
    C = filterbank.fit_transform(X)
    ours = TokenEmbedding().fit(C).tokens(C)
    for way, atol in ((peers.vectorised_tokens, 0.2), (peers.loop_tokens, 1.0)):
        found = way(X, tokens.SFREQ)
        # SciPy pads by 30 samples, too few for a 4-8 Hz band: that much the ends weigh in 8 s.
        np.testing.assert_allclose(found, ours, atol=atol)
        assert np.corrcoef(found.ravel(), ours.ravel())[0, 1] > 0.99


def test_the_obvious_network_computes_the_same() -> None:
    """A peer that does less work would flatter us."""
    model = SPDTokenTransformer(36, 3, 4).eval()
    given = torch.randn(5, 3, 36)
    peer = peers.ObviousTransformer.like(model).eval()
    torch.testing.assert_close(peer(given), model(given), atol=1e-5, rtol=1e-5)


class TestSingleTrials:
    """From one thread: with two, small products wait for each other on a busy machine."""

    @pytest.fixture(autouse=True)
    def _one_thread(self):
        with thread_count(1):
            yield

    @pytest.mark.parametrize("n_tokens", [1, 3])
    def test_all_ways_agree(self, n_tokens: int) -> None:
        ways = latency.single_trial(n_tokens, channels=8)
        assert list(ways) == [NUMPY, ONNX, PEER]
        theirs = ways[PEER]()
        for name in (NUMPY, ONNX):
            np.testing.assert_allclose(ways[name](), theirs, rtol=0, atol=1e-5)
        assert theirs.shape == (latency.CLASSES,)
        assert np.ptp(theirs) > 1e-3  # the classes are told apart: agreement says something

    @pytest.mark.parametrize("name", [NUMPY, ONNX])
    def test_ways_that_differ_are_not_compared(self, name: str, monkeypatch) -> None:
        wrong = SimpleNamespace(predict_proba=lambda C: np.full((len(C), latency.CLASSES), 0.25))
        made = latency.decoders
        monkeypatch.setattr(latency, "decoders", lambda *args: made(*args) | {name: wrong})
        with pytest.raises(RuntimeError, match=f"{name} differs"):
            latency.single_trial(1, channels=4)

    def test_without_onnx_runtime(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(latency, "is_installed", lambda _: False)
        assert list(latency.single_trial(1, channels=4)) == [NUMPY, PEER]

    def test_the_peer_is_on_torchs_fast_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plain layers would call the feed-forward part from Python."""

        def slow(*_: object) -> None:
            raise AssertionError("the slow path")

        ways = latency.single_trial(3, channels=4)
        monkeypatch.setattr(nn.TransformerEncoderLayer, "_ff_block", slow)
        assert ways[PEER]().shape == (latency.CLASSES,)
        with pytest.raises(AssertionError, match="the slow path"):
            nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)(torch.zeros(1, 1, 8))


def test_live_ways_are_decoders_that_decode() -> None:
    """A comparison with something that guesses would be worthless."""
    dataset = load_dataset("sim-mi")
    first, second = (dataset.load("1", session) for session in dataset.sessions("1"))
    ways = {
        OURS: latency.trained(dataset, first, recentre=False),
        RECENTRED: latency.trained(dataset, first, recentre=True),
        LIVE_PEER: peers.LivePeer(dataset, first),
    }
    for way in ways.values():
        assert way.n_samples == first.X.shape[-1]
        assert way.classes == dataset.classes
    for name in (RECENTRED, LIVE_PEER):
        session = ways[name].session()
        found = np.array([session.probabilities(x) for x in second.X[:60]]).argmax(1)
        assert (found == second.y[:60]).mean() > 0.4
    times = latency.core_times(ways, second.X, 50)
    expected = np.median(times[OURS]) / np.median(times[LIVE_PEER])
    assert latency.live_ratios(times)[OURS] == pytest.approx(expected)
