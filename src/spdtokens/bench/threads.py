"""The Python API with several threads against the same with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score

from spdtokens.bench.timing import interleaved_times, thread_count
from spdtokens.classifiers import TokenTransformerClassifier, make_decoder
from spdtokens.preprocessing import FilterBankCovariances

SFREQ = 250.0
#: A session of BCI2a, a long recording of many channels, and tokens of 22 channels: trials,
#: channels, samples.
SESSION, LARGE, TOKENS = (288, 22, 1000), (1000, 64, 250), (252, 253)
EPOCHS = 5


def thread_cases(
    session: tuple[int, int, int] = SESSION,
    large: tuple[int, int, int] = LARGE,
    tokens: tuple[int, int] = TOKENS,
) -> dict[str, Callable[[], object]]:
    """What is timed, by name: calls that a user makes."""
    rng = np.random.default_rng(0)
    X, many, flat = (rng.standard_normal(shape) for shape in (session, large, tokens))
    y, labels = np.arange(len(X)) % 4, np.arange(len(flat)) % 4
    fitted = make_decoder("mi", sfreq=SFREQ).fit(X, y)
    n, channels, samples = session
    trials = f"{n} x {channels} x {samples}"
    return {
        f"recommended: fit, {trials}": lambda: make_decoder("mi", sfreq=SFREQ).fit(X, y),
        f"recommended: predict, {trials}": lambda: fitted.predict(X),
        f"recommended: predict, {min(n, 50)} trials one by one": lambda: [
            fitted.predict(X[i : i + 1]) for i in range(min(n, 50))
        ],
        f"recommended: cross_val_score, 5 folds, {trials}": lambda: cross_val_score(
            make_decoder("mi", sfreq=SFREQ), X, y, cv=5
        ),
        f"filter bank: fit_transform, {' x '.join(map(str, large))}": lambda: FilterBankCovariances(
            SFREQ
        ).fit_transform(many),
        f"token transformer: fit, {EPOCHS} epochs, {' x '.join(map(str, tokens))}": lambda: (
            TokenTransformerClassifier(None, epochs=EPOCHS, random_state=0).fit(flat, labels)
        ),
    }


def bench_threads(
    rounds: int = 5,
    threads: int = 2,
    cases: dict[str, Callable[[], object]] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Time each case with one thread and with several, in turn.

    Parameters
    ----------
    rounds : int
        Medians are reported.
    threads : int
        For torch and every BLAS, against one.
    cases : dict of str to callable, optional
        By default :func:`thread_cases`.
    tell : callable
        Told what is being timed.

    Returns
    -------
    dict
        Milliseconds and ratio (time with several threads over time with one, median over rounds)
        of each case, and the largest ratio.
    """

    def limited(case: Callable[[], object], n: int) -> Callable[[], None]:
        def run() -> None:
            with thread_count(n):
                case()

        return run

    rows = []
    for name, case in (thread_cases() if cases is None else cases).items():
        tell(name)
        times = interleaved_times(
            {"one": limited(case, 1), "several": limited(case, threads)}, rounds
        )
        rows.append(
            {
                "case": name,
                "milliseconds": {key: float(np.median(found)) for key, found in times.items()},
                "ratio": float(np.median(times["several"] / times["one"])),
            }
        )
    worst = max(float(row["ratio"]) for row in rows)  # type: ignore[arg-type]
    return {"threads": threads, "rounds": rounds, "rows": rows, "worst_ratio": worst}
