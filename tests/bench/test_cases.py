"""Every case, small, as the command runs it."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from spdtokens.bench import latency, methods, timing, tokens, training
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.networks import TrialShape
from tests.helpers import run, run_json

SMALL = TrialShape(8, 2, 256, 128.0)


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SETTLE_SECONDS", 0.0)


@pytest.mark.parametrize("words", [["embed", "--repeats", "1"], ["latency", "--repeats", "10"]])
def test_too_few_rounds_are_refused(words: list[str]) -> None:
    assert words[1] in run("bench", *words, code=2).stderr


def test_embed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "SHAPES", ((12, 4), (10, 3)))
    found = run_json("bench", "embed", "--repeats", 3, "--threads", 1)
    assert (found["threads"], found["repeats"], len(found["rows"])) == (1, 3, 16)
    for row in found["rows"]:
        others = set(row["milliseconds"]) - {"spdtokens"}
        assert len(others) == (4 if row["pass"] == "forward" else 3)
        assert row["fastest_peer"] in others
        assert row["ratio"] > 0
    monkeypatch.setitem(sys.modules, "spd_learn", None)  # as if it were not installed
    table = run("bench", "embed", "--repeats", 3)
    for part in ("forward+backward", "float32", "fastest peer", "repeats"):
        assert part in table.stdout
    assert "spdtokens[baselines]" in table.stderr


def test_tokenize() -> None:
    found = tokens.bench_tokenize(repeats=3, threads=1, shape=(4, 3, 300))
    assert set(found["speedup"]) == {"obvious loop", "pyRiemann + SciPy"}
    assert found["milliseconds"]["spdtokens"] > 0


def test_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "GROWTH", {"runs": (1, 2), "channels": (4,)})
    monkeypatch.setattr(training, "memory_per_run", lambda _: {"peak_megabytes": 2})
    found = run_json("bench", "train", "--rounds", 3, "--runs", 2, "--threads", 1)
    assert [row["tokens"] for row in found["comparisons"]] == [1, 3]
    for row in found["comparisons"]:
        assert min(row["speedup_vs_obvious"], row["speedup_vs_cached"]) > 0
        assert set(row["milliseconds_per_run_epoch"]) == {"obvious", "cached", "spdtokens"}
    assert [row["channels"] for row in found["geometric_attention"]] == [8, 22, 56]
    varied = [(row["varied"], row["runs"]) for row in found["growth"]]
    assert varied == [("runs", 1), ("runs", 2), ("channels", 10)]


def test_memory_is_that_of_the_state_and_more() -> None:
    memory = training.memory_per_run(training.Shape(runs=12, trials=32, channels=8))
    # Three numbers a weight (itself and Adam's two), four bytes each, but for queries and keys.
    parameters = sum(p.numel() for p in SPDTokenTransformer(36, 1, 4).parameters())
    expected = 4e-6 * (3 * parameters - 2 * 198_144)
    assert memory["state_megabytes"] == pytest.approx(expected, rel=0.01)
    assert 0.7 * memory["state_megabytes"] < memory["peak_megabytes"] < 30


def test_study() -> None:
    found = training.bench_study(2, 1, 1, 1, shape=(40, 4, 60))
    assert found["runs"] == 6
    assert found["speedup"] == pytest.approx(found["obvious_seconds"] / found["seconds"])
    assert found["projected_hours"] == pytest.approx(found["seconds"] / 6 * 1500 / 3600)
    assert 50 < found["peak_megabytes"] < 4000


def test_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "CALLS", 30)
    monkeypatch.setattr(latency, "CHANNELS", 4)
    monkeypatch.setattr(latency, "TOKEN_COUNTS", (1,))
    found = latency.bench_latency(40)
    assert (found["threads"], found["calls"]) == (1, 60)
    (row,) = found["rows"]
    for times in row["milliseconds"].values():
        assert 0 < times["median"] <= times["p99"]
    assert set(row["speedup"]) == {latency.NUMPY, latency.ONNX}


@pytest.mark.slow
def test_live() -> None:
    pytest.importorskip("mne_lsl")
    found = run_json("bench", "live", "--seconds", 1, "--calls", 50)
    assert set(found["loopback"]) == set(found["core"])
    for times in found["loopback"].values():
        assert times["decisions"] > 20
        assert 0 < times["median"] <= times["p99"]


def test_operations_of_the_token_transformer_by_hand() -> None:
    """Twice the weights of the linear layers, queries and keys of the only token left out."""
    row = methods.measure_network(
        lambda s: SPDTokenTransformer(253, 1, s.n_outputs), "tokens", methods.BCI2A, 3
    )
    assert row["parameters"] == 827_908 + 3 * 128
    layer = 2 * 128 * 128 + 2 * 128 * 256
    expected = 2 * (253 * 128 + 6 * layer + 128 * 4)
    # The weight 1 of each head is still multiplied with its values.
    assert row["flops_per_trial"] == pytest.approx(expected, rel=0.01)
    assert row["size_megabytes"] == pytest.approx(4e-6 * row["parameters"], rel=0.02)
    assert row["training_megabytes"] > 4 * row["size_megabytes"]


def test_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ("token-log-euclidean-multiband", "spd-token-mlp", "ts-lr", "matt", "eegnet", "tsmnet")
    monkeypatch.setattr(methods, "METHODS", {name: methods.METHODS[name] for name in few})
    monkeypatch.setitem(sys.modules, "spd_learn", None)  # tsmnet needs it
    rows = methods.bench_methods(3, 1, shape=SMALL)["rows"]
    assert [row["name"] for row in rows] == list(few[:-1])
    for row in rows:
        assert row["trials_per_second"] == pytest.approx(32e3 / row["forward_milliseconds"])
        if row["parameters"] is not None:
            product = row["parameters"] * row["size_megabytes"] * row["forward_milliseconds"]
            assert row["paper_efficiency"] == pytest.approx(1000 / product)


def test_inputs_are_what_networks_take() -> None:
    shape = TrialShape(5, 2, 100, 50.0, n_tokens=3)
    assert methods.inputs_for("raw", shape, 4).shape == (4, 5, 100)
    assert methods.inputs_for("tokens", shape, 4).shape == (4, 3, 15)
    C = methods.inputs_for("covariance", shape, 4)
    assert C.shape == (4, 1, 5, 5)
    assert torch.linalg.eigvalsh(C).min() > 0


def test_recommended() -> None:
    told: list[str] = []
    found = methods.bench_recommended(
        10, 1, told.append, shape=TrialShape(6, 2, 128, 64.0), n_trials=24, epochs=1
    )
    assert told[0] == "training recommended"
    for peer in ("ts-lr", "matt"):
        expected = found["train_seconds"]["recommended"] / found["train_seconds"][peer]
        assert found["train_ratio"][peer] == pytest.approx(expected)
        assert found["decode_ratio"][peer] > 0
    assert all(ms > 0 for ms in found["decode_milliseconds"].values())


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ratio is that of several threads to one."""
    cases = {
        "slower": lambda: time.sleep({1: 0.01, 2: 0.03}[torch.get_num_threads()]),
        "alike": lambda: time.sleep(0.02),
    }
    monkeypatch.setattr(methods, "thread_cases", lambda: cases)
    found = run_json("bench", "threads", "--rounds", 3)
    slower, alike = found["rows"]
    assert slower["ratio"] == pytest.approx(3, rel=0.5)
    assert slower["milliseconds"]["several"] > slower["milliseconds"]["one"]
    assert alike["ratio"] == pytest.approx(1, rel=0.5)
    assert found["worst_ratio"] == max(slower["ratio"], alike["ratio"])


def test_thread_cases_are_calls_that_work() -> None:
    cases = methods.thread_cases((24, 3, 100), (8, 4, 100), (24, 6))
    assert len(cases) == 6
    for case in cases.values():
        case()


def test_ways_side_by_side_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "threads": 1,
        "milliseconds": {"spdtokens": 1.0, "obvious loop": 512.25},
        "speedup": {"obvious loop": 512.25},
    }
    monkeypatch.setattr("spdtokens.bench.tokens.bench_tokenize", lambda **_: made)
    assert run_json("bench", "tokenize") == made
    rows = [row.split() for row in run("bench", "tokenize").stdout.splitlines()]
    assert ["spdtokens", "1", "-"] in rows
    assert ["obvious", "loop", "512", "512"] in rows
    assert ["threads", "1"] in rows
