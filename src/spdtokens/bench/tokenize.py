"""Trials to tokens: our speed against the obvious loop and against pyRiemann with SciPy."""

from __future__ import annotations

from typing import Any

import mne
import numpy as np
import scipy.linalg
import scipy.signal
import torch
from numpy.typing import NDArray
from pyriemann.estimation import Covariances
from pyriemann.geometry.base import logm
from sklearn.pipeline import make_pipeline

from spdtokens.bench.timing import interleaved_times, thread_count
from spdtokens.geometry import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances, resolve_bands
from spdtokens.preprocessing.filters import butterworth

OURS, LOOP, VECTORISED = "spdtokens", "obvious loop", "pyRiemann + SciPy"
SFREQ = 250.0


def obvious_loop(X: NDArray[Any]) -> NDArray[np.float64]:
    """Filter with MNE, covariance with NumPy, logarithm with SciPy; one trial after another."""
    upper = np.triu_indices(X.shape[1])
    tokens = []
    for trial in X:
        row = []
        for band in resolve_bands("paper3"):
            filtered = mne.filter.filter_data(trial, SFREQ, band.low, band.high, verbose="error")
            row.append(scipy.linalg.logm(np.cov(filtered))[upper])
        tokens.append(row)
    return np.array(tokens)


def vectorised(X: NDArray[Any]) -> NDArray[np.float64]:
    """All trials at once: SciPy's zero-phase filter, pyRiemann's covariances and logarithm."""
    upper = np.triu_indices(X.shape[1])
    tokens = []
    for band in resolve_bands("paper3"):
        filtered = scipy.signal.sosfiltfilt(butterworth(band, SFREQ), X)
        tokens.append(logm(Covariances("cov").transform(filtered))[:, *upper])
    return np.stack(tokens, 1)


def bench_tokenize(
    repeats: int = 5,
    threads: int | None = None,
    shape: tuple[int, int, int] = (288, 22, 1000),
) -> dict[str, Any]:
    """Time three ways to turn raw trials into log tokens of the paper's three bands.

    Returns
    -------
    dict
        Median milliseconds of each, and how many times faster we are, within rounds.
    """
    X = np.random.default_rng(0).standard_normal(shape)
    tokenizer = make_pipeline(FilterBankCovariances(SFREQ, bands="paper3"), TokenEmbedding())
    tokenizer.fit(X[:2])
    threads = threads or torch.get_num_threads()
    with thread_count(threads):
        times = interleaved_times(
            {
                OURS: lambda: tokenizer.transform(X),
                VECTORISED: lambda: vectorised(X),
                LOOP: lambda: obvious_loop(X),
            },
            repeats,
        )
    return {
        "shape": list(shape),
        "threads": threads,
        "milliseconds": {name: float(np.median(t)) for name, t in times.items()},
        "speedup": {
            name: float(np.median(times[name] / times[OURS])) for name in (LOOP, VECTORISED)
        },
    }
