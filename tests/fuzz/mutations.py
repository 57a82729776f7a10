"""Mutations of files, and limits of time and memory for readers."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

#: Limits of one case, far above what any needs.
SECONDS, BYTES = 20, 2 << 30
PLACES = st.integers(0, 2**32 - 1)
FEW = st.integers(0, 40)


#: Times the examples of a case.
FACTORS = [1, pytest.param(10, marks=pytest.mark.slow)]


def for_all(strategy: Any, n: int, check: Callable[[Any], object]) -> None:
    """Check ``n`` examples, the same in every run."""

    @settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],  # of a busy machine, not of the tests
    )
    @given(strategy)
    def run(drawn: Any) -> None:
        check(drawn)

    run()


@contextlib.contextmanager
def limited(folder: Path) -> Iterator[None]:
    """Fail if the block hangs, takes much memory, or changes which files there are."""
    before = sorted(folder.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    # Seconds of the processor: on a busy machine those of the clock mean little.
    old = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert sorted(folder.rglob("*")) == before


class Hangs(BaseException):
    """Not an Exception, so that the code under test cannot catch it."""


def _late(*_: Any) -> None:
    raise Hangs(f"not done after {SECONDS} seconds")


def _flip(whole: bytes, at: int, n: int, _: bytes) -> bytes:
    if not whole:
        return whole
    at = min(at, len(whole) - 1)
    return whole[:at] + bytes([whole[at] ^ 1 << n % 8]) + whole[at + 1 :]


def _swap(whole: bytes, at: int, n: int, _: bytes) -> bytes:
    a, b = sorted((at, (at * 31 + 7) % (len(whole) + 1)))
    n = min(n, b - a)
    return whole[:a] + whole[b : b + n] + whole[a + n : b] + whole[a : a + n] + whole[b + n :]


_WAYS = st.sampled_from([
    _flip,
    _swap,
    lambda whole, at, *_: whole[:at],  # cut off
    lambda whole, at, n, _: whole[:at] + whole[at + n :],  # drop
    lambda whole, at, _, some: whole[:at] + some + whole[at:],  # insert
    lambda whole, at, _, some: whole[:at] + some + whole[at + len(some) :],  # overwrite
    lambda whole, at, n, _: whole[: at + n] + whole[at:],  # twice
])  # fmt: skip
_SOME = st.one_of(
    st.binary(max_size=16),
    st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x01\x00", b"9" * 30]),
)
#: Mutations of bytes, as by a faulty disk or network, or on purpose.
spoilt_bytes = st.lists(st.tuples(_WAYS, PLACES, FEW, _SOME), min_size=1, max_size=4)


def spoil(whole: bytes, ways: list[Any]) -> bytes:
    """Apply what was drawn from ``spoilt_bytes``."""
    for way, place, n, some in ways:
        whole = way(whole, place % (len(whole) + 1), n, some)
    return whole


#: Unusual JSON values.
NASTY = st.one_of(
    st.sampled_from([
        None, True, False, 0, 1, -1, 2, 3, 10**6, 10**9, 2**31, 2**63, 2**64, 10**30, 10**400,
        -(10**30), 0.0, -0.0, 0.5, 1e-300, 5e-324, 1e150, 1e308, -1e308,
        float("nan"), float("inf"), float("-inf"),
        "", "0", "nan", "\x00", "\ud800", "\x1b[2J", "../../etc/passwd", "x" * 3000,
        [], [[]], [None], [[0, 1]], [0, 10**9], [1.0, 2.0], ["a", "a"], [[[[[[1]]]]]],
        list(range(300)), {}, {"kind": "discriminant"}, {"": None},
    ]),
    st.integers(-5, 400),
    st.floats(),
    st.text(max_size=5),
)  # fmt: skip


def places_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a JSON document, except the root."""
    if path:
        yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places_in(value, (*path, key))


def change(tree: Any, how: str, place: int, value: Any) -> None:
    """Replace, drop, double or rename a value in a JSON document, in place."""
    paths = list(places_in(tree))
    if not paths:
        return
    *parents, key = paths[place % len(paths)]
    for parent in parents:
        tree = tree[parent]
    if how == "replace":
        tree[key] = deepcopy(value)  # else a list could come to stand within itself
    elif how == "drop":
        del tree[key]
    elif how == "double" and isinstance(tree, list):
        tree.insert(key, deepcopy(tree[key]))
    elif how == "nudge" and type(tree[key]) in (int, float):
        tree[key] += value if type(value) in (int, float) and abs(value) < 5 else 1
    elif isinstance(tree, dict):
        tree[str(value)[:20]] = tree.pop(key)


HOW = st.sampled_from(["replace", "replace", "replace", "nudge", "drop", "double", "rename"])
#: For ``change``.
changes = st.lists(st.tuples(HOW, PLACES, NASTY), min_size=1, max_size=3)
