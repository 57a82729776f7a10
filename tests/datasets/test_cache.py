from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens import FilterBankCovariances, TokenEmbedding
from spdtokens.datasets import cache as module
from spdtokens.datasets.cache import TokenCache, default_folder, digest
from spdtokens.errors import DataError

X = np.random.default_rng(0).standard_normal((12, 3, 200))
Y = np.arange(12) % 2


def steps(embedding: str = "log_euclidean", unit_free: bool = False, **options: Any) -> Pipeline:
    filterbank = FilterBankCovariances(**{"sfreq": 100.0, "bands": [(4, 30)]} | options)
    return make_pipeline(filterbank, TokenEmbedding(embedding, unit_free=unit_free))


def fitted(**options: Any) -> Pipeline:
    return steps(**options).fit(X, Y)


class Counting(Pipeline):
    calls = 0

    def transform(self, trials: Any) -> Any:
        type(self).calls += 1
        return super().transform(trials)


def test_second_time_from_disk(tmp_path: Path) -> None:
    cache = TokenCache(tmp_path)
    made = Counting(steps().steps).fit(X)
    Counting.calls = 0
    first, second = cache.transform(made, X), cache.transform(made, X)
    np.testing.assert_array_equal(first, second)
    assert Counting.calls == 1
    TokenCache(tmp_path, enabled=False).transform(made, X)
    assert Counting.calls == 2
    assert [p.suffix for p in tmp_path.iterdir()] == [".npz"]


def test_any_change_is_another_entry() -> None:
    other = X.copy()
    other[3, 1, 7] += 1e-12
    names = [
        digest(fitted(), X),
        digest(fitted(), other),
        digest(fitted(), X[:6]),
        digest(fitted(), X.astype(np.float32)),
        digest(fitted(bands=[(4, 31)]), X),
        digest(fitted(embedding="euclidean"), X),
        digest(fitted(embedding="affine_invariant"), X),
        digest(steps("affine_invariant").fit(X[:6]), X),
        digest(fitted(embedding="class_filters"), X),
        digest(steps("class_filters").fit(X, Y[::-1]), X),
        digest(fitted(unit_free=True), X),
        digest(steps(unit_free=True).fit(X[:6]), X),
        digest(fitted(estimator="xdawn", n_filters=1), X),
        digest(steps(estimator="xdawn", n_filters=1).fit(X, Y[::-1]), X),
    ]
    assert len(set(names)) == len(names)
    assert digest(fitted(estimator="xdawn"), X) == digest(fitted(estimator="xdawn"), X)
    # What was learnt does not matter where tokens do not depend on it.
    assert digest(steps().fit(X[:6]), X) == digest(fitted(), X)


def test_bounded(tmp_path: Path) -> None:
    cache = TokenCache(tmp_path, limit=3000)
    made = fitted()
    for i in range(6):
        cache.transform(made, X + i)
        for age, (file, _, _) in enumerate(reversed(cache.entries())):
            os.utime(file, (1e9 - age, 1e9 - age))
    assert sum(size for _, size, _ in cache.entries()) <= 3000
    assert cache.clear() > 0
    assert cache.entries() == []


def test_other_code_is_another_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(fitted(), X)
    monkeypatch.setattr(
        module, "digest_of", lambda rooms: "other" if "preprocessing" in rooms else ""
    )
    assert digest(fitted(), X) != before


@pytest.mark.parametrize("kind", ["cut", "flipped", "other tokens", "text", "array", "nothing"])
def test_a_damaged_entry_is_computed_again(tmp_path: Path, kind: str) -> None:
    """Whatever is in the file, tokens are those of the trials."""
    cache = TokenCache(tmp_path)
    expected = cache.transform(fitted(), X)
    (file,) = tmp_path.iterdir()
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    if kind == "other tokens":
        cache.transform(fitted(), X + 1)
        (other,) = set(tmp_path.iterdir()) - {file}
        other.replace(file)
    elif kind == "array":
        with file.open("wb") as opened:
            np.save(opened, expected + 1)
    else:
        contents = {"cut": whole[:50], "flipped": whole, "text": b"hello", "nothing": b""}
        file.write_bytes(contents[kind])
    with pytest.warns(UserWarning, match="damaged cache file"):
        found = cache.transform(fitted(), X)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(cache.transform(fitted(), X), expected)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """Recordings in the folder are not removed by the limit, or by --clear."""
    np.save(tmp_path / "recording.npy", X)
    cache = TokenCache(tmp_path, limit=1)
    cache.transform(fitted(), X)
    cache.transform(fitted(), X + 1)
    cache.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["recording.npy"]


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(DataError, match=r"file.*SPDTOKENS_CACHE"):
        TokenCache(file).transform(fitted(), X)
    cache = TokenCache(tmp_path / "cache")
    (cache.path / f"{digest(fitted(), X)}.npz").mkdir(parents=True)
    with pytest.raises(DataError, match="SPDTOKENS_CACHE"):
        cache.transform(fitted(), X)


def _work(folder: str, queue) -> None:
    cache = TokenCache(Path(folder), limit=4000)
    for i in range(15):
        tokens = cache.transform(fitted(), X + i % 5)
    queue.put(float(tokens.sum()))


def test_several_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_work, args=(str(tmp_path), queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    sums = {queue.get(timeout=120) for _ in workers}
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert sums == {float(fitted().transform(X + 4).sum())}
    assert all(p.suffix == ".npz" and not p.name.startswith(".") for p in tmp_path.iterdir())


def test_folder_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPDTOKENS_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("SPDTOKENS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "spdtokens"
