"""Live decoding: from the last sample of a window to the decision, on one core."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.signal
from numpy.typing import NDArray
from pyriemann.estimation import Covariances
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens.bench.latency import CALLS, call_times
from spdtokens.bench.timing import thread_count
from spdtokens.classifiers import Recentring, make_decoder
from spdtokens.datasets import Dataset, Recording, load_dataset
from spdtokens.inference import as_decoder
from spdtokens.inference.lsl import need_lsl
from spdtokens.inference.streaming import LiveRun
from spdtokens.preprocessing import resolve_bands
from spdtokens.preprocessing.filters import butterworth
from spdtokens.runtime import Decoder

OURS, RECENTRED, PEER = "spdtokens", "spdtokens, recentring", "SciPy + pyRiemann"
#: Milliseconds; of the issue.
GOAL = 10.0
#: Seconds between two decisions over LSL, so that 99th percentiles are found soon.
STEP = 0.02


def trained(dataset: Dataset, recording: Recording, *, recentre: bool) -> Decoder:
    """The preset ``recommended``, trained on a session."""
    assert dataset.sfreq is not None
    decoder = make_decoder("mi", sfreq=dataset.sfreq, tmin=dataset.tmin, window=dataset.window)
    if recentre:
        decoder.steps.insert(-1, ("recentring", Recentring()))
    decoder.fit(recording.X, recording.y)
    return as_decoder(decoder, ch_names=dataset.ch_names, classes=dataset.classes)


@dataclass(frozen=True)
class Peer:
    """What one would write: SciPy's filter, pyRiemann's covariance and tangent space, LR.

    The same band, the same part of the trial, the same estimator as ``recommended``.
    """

    classes: tuple[str, ...]
    ch_names: tuple[str, ...]
    sfreq: float
    n_samples: int
    part: slice
    pipeline: Pipeline
    recentring: None = None
    unit_in_volts: None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def trained(cls, dataset: Dataset, recording: Recording) -> Peer:
        """On a session."""
        assert dataset.sfreq is not None
        first, last = (round((t - dataset.tmin) * dataset.sfreq) for t in dataset.window)
        pipeline = make_pipeline(
            Covariances("oas"), TangentSpace(), LogisticRegression(max_iter=1000)
        )
        n = recording.X.shape[-1]
        peer = cls(
            dataset.classes, dataset.ch_names, dataset.sfreq, n, slice(first, last), pipeline
        )
        pipeline.fit(peer.filtered(recording.X), recording.y)
        return peer

    def filtered(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Trials (n, channels, samples) in 8-30 Hz, without the margins."""
        (band,) = resolve_bands([(8.0, 30.0)])
        return np.asarray(scipy.signal.sosfiltfilt(butterworth(band, self.sfreq), X))[
            ..., self.part
        ]

    def session(self) -> Peer:
        """It has no memory."""
        return self

    def probabilities(self, window: NDArray[Any], learn: bool = True) -> NDArray[np.float64]:  # noqa: ARG002
        """Of one window (channels, samples)."""
        return np.asarray(self.pipeline.predict_proba(self.filtered(window[None])))[0]


@contextmanager
def _sender(name: str, X: NDArray[Any], sfreq: float, ch_names: tuple[str, ...]) -> Iterator[None]:
    """A process that sends a signal (channels, samples)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "signal.npz"
        samples = np.ascontiguousarray(X.T, dtype=np.float32)
        np.savez(path, X=samples, sfreq=sfreq, ch_names=np.array(ch_names))
        command = [sys.executable, "-m", "spdtokens.bench.live_sender", name, str(path)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # liblsl's remarks
        try:
            yield
        finally:
            process.kill()
            process.wait()


def over_lsl(name: str, decoder: Any, seconds: float, step: float) -> NDArray[np.float64]:
    """Times from the push of a window's last sample to the published decision."""
    # A sender that is late has lost nothing.
    with LiveRun(decoder, name, step=step, gap=1.0, out_stream=f"{name}-out") as run:
        run.latency = deque()
        run.run(seconds + run.window, timeout=30)
    return np.array(run.latency)


def bench_live(
    seconds: float = 20.0,
    calls: int = 1000,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Latency of the core alone and over LSL on this machine, beside a peer, on one core.

    Parameters
    ----------
    seconds : float
        Of decisions over LSL, for each way in each of two turns.
    calls : int
        Of the core.
    tell : callable
        Told what is being measured.

    Returns
    -------
    dict
        Medians and 99th percentiles in milliseconds; ratios are our median over the peer's.
    """
    need_lsl()
    tell("training")
    dataset = load_dataset("sim-mi")
    first, second = (dataset.load("1", session) for session in dataset.sessions("1"))
    with thread_count(1):
        ways: dict[str, Any] = {
            OURS: trained(dataset, first, recentre=False),
            RECENTRED: trained(dataset, first, recentre=True),
            PEER: Peer.trained(dataset, first),
        }
        tell("the core")
        core = _core_times(ways, second.X, calls)
        over = _lsl_times(ways, second.X, seconds, tell)
    return {
        "channels": len(dataset.ch_names),
        "sfreq": dataset.sfreq,
        "window_seconds": ways[PEER].n_samples / ways[PEER].sfreq,
        "step_seconds": STEP,
        "goal_milliseconds": GOAL,
        "threads": 1,
        "core": {name: _summary(times) for name, times in core.items()},
        "loopback": {name: _summary(times) for name, times in over.items()},
        "core_ratio": _ratios(core),
        "loopback_ratio": _ratios(over),
    }


def _core_times(
    ways: Mapping[str, Any], X: NDArray[Any], calls: int
) -> dict[str, NDArray[np.float64]]:
    """Milliseconds (calls,) from windows to probabilities; recentring learns from each."""
    sessions = {name: way.session() for name, way in ways.items()}
    windows = [np.asarray(x, np.float64) for x in X[:50]]
    turn = dict.fromkeys(ways, 0)

    def call(name: str) -> object:
        turn[name] += 1
        return sessions[name].probabilities(windows[turn[name] % len(windows)])

    rounds = -(-calls // CALLS)
    times = call_times({name: partial(call, name) for name in ways}, rounds)
    return {name: found.ravel() for name, found in times.items()}


def _lsl_times(
    ways: Mapping[str, Any], X: NDArray[Any], seconds: float, tell: Callable[[str], None]
) -> dict[str, NDArray[np.float64]]:
    name = f"spdtokens-bench-{os.getpid()}"
    found: dict[str, list[NDArray[np.float64]]] = {way: [] for way in ways}
    signal, peer = np.concatenate(list(X[:30]), axis=1), ways[PEER]
    with _sender(name, signal, peer.sfreq, peer.ch_names):
        for turn in range(2):  # in another order the second time
            for way in list(ways)[:: 1 if turn == 0 else -1]:
                tell(f"over LSL: {way}")
                found[way].append(1e3 * over_lsl(name, ways[way], seconds, STEP))
    return {way: np.concatenate(times) for way, times in found.items()}


def _summary(times: NDArray[np.float64]) -> dict[str, float]:
    return {
        "median": float(np.median(times)),
        "p99": float(np.percentile(times, 99)),
        "decisions": len(times),
    }


def _ratios(times: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    peer = float(np.median(times[PEER]))
    return {name: float(np.median(found)) / peer for name, found in times.items() if name != PEER}
