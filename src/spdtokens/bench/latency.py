"""Latency of single trials and of live decisions, on one core."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spdtokens._extras import is_installed
from spdtokens._tables import counted
from spdtokens.bench import timing
from spdtokens.bench.peers import TOKENS, LivePeer, ObviousTransformer
from spdtokens.bench.timing import OURS, Tell, Times, Way, silent
from spdtokens.classifiers import Recentring, make_decoder
from spdtokens.classifiers.nn import SPDTokenTransformer, folded
from spdtokens.datasets import Dataset, Recording, load_dataset
from spdtokens.geometry import get_embedding, token_dim
from spdtokens.inference.convert import as_decoder
from spdtokens.inference.export import write_onnx
from spdtokens.inference.lsl import need_lsl
from spdtokens.inference.streaming import LiveRun
from spdtokens.runtime import Decoder, load_model, model_bytes
from spdtokens.runtime.networks import Transformers
from spdtokens.runtime.tokens import Tokens

#: Implementations: the model file in NumPy, its network in ONNX Runtime, and torch.
NUMPY, ONNX, PEER = "NumPy", "ONNX Runtime", "nn.TransformerEncoder"
CHANNELS, CLASSES = 22, 4
TOKEN_COUNTS = (1, 3)
#: Timed calls in a row, and untimed calls before them, which fill the processor's caches.
CALLS, WARM_UP = 50, 10
#: Latency that the paper states for a forward pass.
PAPER = "3.00 ms on an RTX 3090"

RECENTRED, LIVE_PEER = "spdtokens, recentring", "SciPy + pyRiemann"
#: Longest latency of a live decision that we accept, in ms.
GOAL = 10.0
#: Seconds between decisions over LSL: short, to estimate the 99th percentile quickly.
STEP = 0.02


def decoders(model: SPDTokenTransformer, channels: int) -> dict[str, Decoder]:
    """Save a network of log tokens and load it as model file and, if installed, as ONNX."""
    made = Decoder(
        classes=tuple(f"class {i}" for i in range(model.head.out_features)),
        ch_names=tuple(f"channel {i}" for i in range(channels)),
        sfreq=None,
        tmin=0.0,
        unit_in_volts=None,
        front=None,
        tokens=Tokens(("log_euclidean",), False, 1e-12, 0.0, 1.0, None),
        network=Transformers((folded(model),), model.config.alpha),
        shape=(model.n_tokens, channels, channels),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.spdt"
        path.write_bytes(model_bytes(made))
        found = {NUMPY: load_model(path)}
        if is_installed("onnx"):
            write_onnx(path, path.with_suffix(".onnx"))
            found[ONNX] = load_model(path, onnx=path.with_suffix(".onnx"))
    return found


def single_trial(tokens: int, channels: int = CHANNELS) -> dict[str, Callable[[], NDArray[Any]]]:
    """Implementations from the same covariances (tokens, channels, channels) to probabilities.

    Raises
    ------
    RuntimeError
        If one of them differs by 1e-5 or more from torch.
    """
    C = timing.random_covariances(32, tokens, channels, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    model = SPDTokenTransformer(token_dim(channels), tokens, CLASSES, generator=generator)
    with torch.no_grad():  # so that the running statistics are not the initial ones
        for _ in range(3):
            model(get_embedding("log_euclidean").to_token(C).float())
    plain, trial = ObviousTransformer.like(model.eval()).eval(), C[:1].clone()

    @torch.inference_mode()
    def peer() -> NDArray[Any]:
        return plain(TOKENS["log"](trial).float()).softmax(-1)[0].numpy()

    def ours(decoder: Decoder) -> NDArray[Any]:
        return decoder.predict_proba(trial.numpy())[0]

    ways = {name: partial(ours, decoder) for name, decoder in decoders(model, channels).items()}
    for name, way in ways.items():
        difference = float(np.abs(way() - peer()).max())
        if not difference < 1e-5:
            raise RuntimeError(f"{name} differs by {difference:.2g} in a class probability.")
    return ways | {PEER: peer}


def _summary(times: Times) -> dict[str, dict[str, float]]:
    return {
        name: {"median": median, "p99": float(np.percentile(times[name], 99))}
        for name, median in timing.medians(times).items()
    }


def bench_latency(repeats: int = 2000, tell: Tell = silent) -> dict[str, Any]:
    """Time single calls from covariance to class probabilities, on one thread.

    Parameters
    ----------
    repeats : int, default=2000
        Number of calls per implementation, rounded up to a multiple of ``CALLS``.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        ``rows`` has the median and 99th percentile of a call in ms. ``speedup`` is the time of
        torch divided by ours (median over rounds).
    """
    rounds = -(-repeats // CALLS)
    rows = []
    with timing.thread_count(1):
        for tokens in TOKEN_COUNTS:
            tell(counted(tokens, "token"))
            times = timing.take_turns(single_trial(tokens), rounds, CALLS, WARM_UP)
            faster = {name: timing.ratio(times, PEER, name) for name in times if name != PEER}
            row = {"tokens": tokens, "channels": CHANNELS, "milliseconds": _summary(times)}
            rows.append(row | {"speedup": faster})
    return {"threads": 1, "calls": rounds * CALLS, "paper": PAPER, "rows": rows}


def trained(dataset: Dataset, recording: Recording, *, recentre: bool) -> Decoder:
    """Fit the preset ``recommended`` to a session."""
    assert dataset.sfreq is not None
    decoder = make_decoder("mi", sfreq=dataset.sfreq, tmin=dataset.tmin, window=dataset.window)
    if recentre:
        decoder.steps.insert(-1, ("recentring", Recentring()))
    decoder.fit(recording.X, recording.y)
    return as_decoder(decoder, ch_names=dataset.ch_names, classes=dataset.classes)


def bench_live(seconds: float = 20.0, calls: int = 1000, tell: Tell = silent) -> dict[str, Any]:
    """Time live decisions without LSL and over LSL, compared with SciPy + pyRiemann.

    Parameters
    ----------
    seconds : float, default=20.0
        Seconds of decisions over LSL, per implementation and turn (two turns).
    calls : int, default=1000
        Number of timed calls without LSL, per implementation.
    tell : callable, default=silent
        Called with a description of what is being timed.

    Returns
    -------
    dict
        Medians and 99th percentiles in ms; ratios are our median divided by that of SciPy +
        pyRiemann.
    """
    need_lsl()
    tell("training")
    dataset = load_dataset("sim-mi")
    first, second = (dataset.load("1", session) for session in dataset.sessions("1"))
    with timing.thread_count(1):
        ways: dict[str, Any] = {
            OURS: trained(dataset, first, recentre=False),
            RECENTRED: trained(dataset, first, recentre=True),
            LIVE_PEER: LivePeer(dataset, first),
        }
        tell("the core")
        times = {
            "core": core_times(ways, second.X, calls),
            "loopback": _lsl_times(ways, seconds, tell),
        }
    peer = ways[LIVE_PEER]
    return {
        "channels": len(dataset.ch_names),
        "sfreq": dataset.sfreq,
        "window_seconds": peer.n_samples / peer.sfreq,
        "step_seconds": STEP,
        "goal_milliseconds": GOAL,
        "threads": 1,
        **{
            place: {n: row | {"decisions": found[n].size} for n, row in _summary(found).items()}
            for place, found in times.items()
        },
        **{f"{place}_ratio": live_ratios(found) for place, found in times.items()},
    }


def live_ratios(times: Times) -> dict[str, float]:
    """Our median times divided by that of SciPy + pyRiemann."""
    middle = timing.medians(times)
    return {n: found / middle[LIVE_PEER] for n, found in middle.items() if n != LIVE_PEER}


def core_times(
    ways: Mapping[str, Any], X: NDArray[Any], calls: int
) -> dict[str, NDArray[np.float64]]:
    """Time windows to probabilities, in ms; recentring is updated with each window."""
    windows = [np.asarray(x, np.float64) for x in X[:50]]

    def calling(session: Any) -> Way:
        turn = cycle(windows)
        return lambda: session.probabilities(next(turn))

    timed = {name: calling(way.session()) for name, way in ways.items()}
    return timing.take_turns(timed, -(-calls // CALLS), CALLS, WARM_UP)


def _lsl_times(
    ways: Mapping[str, Any], seconds: float, tell: Tell
) -> dict[str, NDArray[np.float64]]:
    """Time from the last sample of a window to the published decision, in ms."""
    name = f"spdtokens-bench-{os.getpid()}"
    found: dict[str, list[float]] = {way: [] for way in ways}
    sender = get_context("spawn").Process(target=_send, args=(name,), daemon=True)
    sender.start()
    try:
        for way in (*ways, *list(ways)[::-1]):  # the second time in reverse order
            tell(f"over LSL: {way}")
            # A large gap: a late sender has not lost samples.
            with LiveRun(ways[way], name, step=STEP, gap=1.0, out_stream=f"{name}-out") as run:
                run.latency = deque()
                run.run(seconds + run.window, timeout=30)
            found[way] += run.latency
    finally:
        sender.kill()
        sender.join()
    return {way: 1e3 * np.array(times) for way, times in found.items()}


def _send(name: str) -> None:
    """Play the second session in a loop; each sample is stamped when it is pushed."""
    from mne_lsl.lsl import StreamInfo, StreamOutlet, local_clock

    dataset = load_dataset("sim-mi")
    assert dataset.sfreq is not None
    X = dataset.load("1", dataset.sessions("1")[1]).X[:30]
    samples = np.ascontiguousarray(np.concatenate(list(X), axis=1).T, dtype=np.float32)
    info = StreamInfo(name, "EEG", samples.shape[1], dataset.sfreq, "float32", f"{name}-sender")
    info.set_channel_names(list(dataset.ch_names))
    info.set_channel_units("none")
    outlet, begin = StreamOutlet(info), local_clock()
    for i in itertools.count():
        # A time stamp of the past would count the sleep of the sender as latency.
        time.sleep(max(0.0, begin + i / dataset.sfreq - local_clock()))
        outlet.push_sample(samples[i % len(samples)], local_clock())
