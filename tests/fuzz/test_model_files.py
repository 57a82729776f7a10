"""Model files that were damaged, or made to do harm: a decoder that works, or a DecoderError."""

from __future__ import annotations

import copy
import json
import struct
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from spdtokens.runtime import DecoderError, load_model, model_bytes
from spdtokens.runtime.model_file import _checksum, packed
from tests.fuzz.mutations import (
    FACTORS,
    FEW,
    PLACES,
    changes,
    for_all,
    limited,
    spoil,
    spoilt_bytes,
)
from tests.fuzz.mutations import change as change_text
from tests.inference.helpers import made

MODELS = (
    "imagery",
    "causal",
    "windows",
    "averages",
    "transformer",
    "ensemble",
    "recentred",
    "balanced",
)


@cache
def whole(kind: str) -> bytes:
    if kind not in ("recentred", "balanced"):
        return model_bytes(made(kind).decoder)
    decoder = copy.copy(made("imagery").decoder)
    middle = np.stack([np.eye(decoder.shape[1])] * decoder.shape[0])
    object.__setattr__(decoder, "recentring", middle)
    if kind == "balanced":
        n = len(decoder.classes)
        object.__setattr__(decoder, "proportions", np.full(n, 1 / n))
        object.__setattr__(decoder, "start", 3)
    return model_bytes(decoder)


@cache
def _parts(kind: str) -> tuple[str, bytes]:
    contents = whole(kind)
    length = struct.unpack("<Q", contents[:8])[0]
    return contents[8 : 8 + length].decode(), contents[8 + length :]


def parts(kind: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header, our text and the arrays' bytes, each to be changed."""
    header, data = _parts(kind)
    found = json.loads(header)
    return found, json.loads(found.pop("__metadata__")["spdtokens"]), data


def sealed(header: dict[str, Any], text: str, data: bytes) -> bytes:
    """A file with the right checksum, whatever it says."""
    metadata = {"spdtokens": text, "sha256": _checksum(text, header, data)}
    encoded = json.dumps({**header, "__metadata__": metadata}).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], bool]:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "model.spdt"

    def run(contents: bytes) -> bool:
        """Whether the file is a model that decodes."""
        path.write_bytes(contents)
        with limited(folder):
            try:
                decoder = load_model(path)
                rng = np.random.default_rng(1)
                if decoder.front is None:
                    X = np.broadcast_to(2.0 * np.eye(decoder.shape[-1]), (2, *decoder.shape))
                else:
                    X = rng.standard_normal((2, len(decoder.ch_names), decoder.n_samples))
                found = decoder.predict_proba(X)
            except DecoderError as error:
                str(error).encode()  # a message that can be printed
                return False
            assert found.shape == (2, len(decoder.classes))
            assert np.isfinite(found).all()
            "".join((*decoder.classes, *decoder.ch_names)).encode()
            return True

    return run


kinds = st.sampled_from(MODELS)


@pytest.mark.parametrize("kind", MODELS)
def test_whole_files_are_models(kind: str, attempt: Any) -> None:
    """Else the rest of this file would test nothing."""
    header, config, data = parts(kind)
    assert attempt(whole(kind))
    assert attempt(sealed(header, json.dumps(config), data))


def spoilt_arrays(kind: str, ways: list[Any]) -> bytes:
    """Arrays of other shapes and values, described rightly, with a right checksum."""
    header, config, data = parts(kind)
    arrays = {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], _TYPES[entry["dtype"]]).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
    }
    for way, place, n, number in ways:
        name = sorted(arrays)[place % len(arrays)]
        with np.errstate(all="ignore"):
            changed = way(arrays[name], n, number)
        if changed is None and len(arrays) > 1:
            del arrays[name]
        elif changed is not None:
            arrays[name] = changed
    return packed(json.dumps(config), arrays)


def spoilt_text(kind: str, ways: list[Any], header: bool = False) -> bytes:
    """What the file says of the model, or of its arrays, with a right checksum."""
    of_arrays, config, data = parts(kind)
    for way in ways:
        change_text(of_arrays if header else config, *way)
    return sealed(of_arrays, json.dumps(config), data)


_TYPES = {"F64": np.float64, "F32": np.float32}


def _one_number(array: Any, n: int, number: float) -> Any:
    flat = array.copy().reshape(-1)
    if flat.size:
        flat[n % flat.size] = number
    return flat.reshape(array.shape)


_ARRAY_WAYS: list[Callable[[Any, int, float], Any]] = [
    lambda array, _, number: np.full_like(array, number),
    lambda array, _, number: (array * number).astype(array.dtype),
    lambda array, *_: array.T,
    lambda array, *_: array.reshape(-1),
    lambda array, n, _: array.reshape(-1)[:n],
    lambda array, *_: array[None],
    lambda array, n, _: array[:n] if array.ndim else array,
    lambda array, n, _: array[..., : n % 5] if array.ndim else array,
    lambda array, n, _: np.concatenate([array] * (n % 3 + 1)) if array.ndim else array,
    lambda array, *_: array.astype("f4" if array.dtype == np.float64 else "f8"),
    lambda *_: np.array(1.0),
    lambda *_: None,
    _one_number,
]
array_ways = st.lists(
    st.tuples(
        st.sampled_from(_ARRAY_WAYS),
        PLACES,
        FEW,
        st.one_of(st.floats(width=32), st.sampled_from([0.0, 1e30, 1e300, -1.0, float("nan")])),
    ),
    min_size=1,
    max_size=3,
)
#: Of loading one small file, whatever it claims: seconds of the processor, bytes of memory.
QUICK, SMALL = 1.0, 100_000_000
#: Counts beyond what is plausible, and some at the border.
CLAIMS = st.one_of(
    st.sampled_from([10**k for k in range(3, 19)]),
    st.sampled_from([(1 << k) + i for k in range(8, 64) for i in (-1, 0, 1)]),
    st.integers(1, 1 << 20),
)


def counts_in(tree: Any) -> list[tuple[Any, Any]]:
    """Places, as container and key, of all whole numbers."""
    found = []
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, dict | list):
            found += counts_in(value)
        elif type(value) is int:
            found.append((tree, key))
    return found


def _memory(name: str) -> int:
    """Bytes, of ``VmRSS`` (now) or ``VmHWM`` (the most so far)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def load_within_limits(path: Path) -> bool:
    """Whether the file is a model; a fault of loading it is a failed assertion."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the most so far
    before, start = _memory("VmRSS"), time.process_time()
    try:
        load_model(path)
        loaded = True
    except DecoderError:
        loaded = False
    assert time.process_time() - start < QUICK
    assert _memory("VmHWM") - before < SMALL
    return loaded


@pytest.mark.parametrize("factor", FACTORS)
def test_claims_cost_little(tmp_path_factory: pytest.TempPathFactory, factor: int) -> None:
    path = tmp_path_factory.mktemp("claims") / "model.spdt"

    def check(drawn: tuple[str, list[tuple[int, int]]]) -> None:
        header, config, data = parts(drawn[0])
        for place, value in drawn[1]:
            places = counts_in(config)
            tree, key = places[place % len(places)]
            tree[key] = value
        path.write_bytes(sealed(header, json.dumps(config), data))
        load_within_limits(path)

    claims = st.lists(st.tuples(PLACES, CLAIMS), min_size=1, max_size=6)
    for_all(st.tuples(kinds, claims), 150 * factor, check)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n", [100_000, 1_000_000, 3_000_000])
def test_long_trials_that_fit_together_cost_little(tmp_path: Path, kind: str, n: int) -> None:
    """Every number is changed to fit the others, so that nothing but the size is wrong."""
    header, config, data = parts(kind)
    front = config["front"]
    factor = n / front["n_samples"]
    front["length"] = n + 2 * front["pad"] if front["filtering"] == "zero-phase" else 2 * n
    front["slices"] = [[int(a * factor), int(b * factor)] for a, b in front["slices"]]
    front["n_samples"] = n
    path = tmp_path / "model.spdt"
    path.write_bytes(sealed(header, json.dumps(config), data))
    loaded = load_within_limits(path)
    assert not (loaded and n > 300_000)


@pytest.mark.parametrize("geometric", [False, True])
def test_many_tokens_in_few_bytes_cost_little(tmp_path: Path, geometric: bool) -> None:
    """A network of width 1 has few numbers per token, but attention compares every two tokens."""
    d, tokens = 21, 400
    features = d * (d + 1) // 2
    shapes = {
        "0.project": (1, features),
        "0.offsets": (1, tokens),
        "0.head": (2, 2),
        "0.0.attend": (3, 2),
        "0.0.mix": (1, 3),
        "0.0.expand": (1, 2),
        "0.0.contract": (1, 3),
    }
    config = {
        "format": 1,
        "classes": ["a", "b"],
        "ch_names": ["C3"],
        **{"sfreq": None, "tmin": 0.0, "unit_in_volts": None, "front": None},
        "shape": [tokens, d, d],
        "tokens": {
            **{"embeddings": ["log_euclidean"], "isometric": False},
            **{"relative": 1e-12, "absolute": 0.0, "scale": 1.0},
        },
        "network": {
            **{"kind": "transformers", "members": 1, "eps": [[1e-5, 1e-5]], "n_heads": 1},
            **{"geometric": geometric, "alpha": 1.0},
        },
        **{"recentred": False, "about": {}},
    }
    path = tmp_path / "model.spdt"
    path.write_bytes(packed(json.dumps(config), {k: np.ones(v) for k, v in shapes.items()}))
    assert path.stat().st_size < 10_000
    assert load_within_limits(path) is not geometric


CASES = {
    "bytes": (lambda kind, ways: spoil(whole(kind), ways), spoilt_bytes, 300),
    "text": (spoilt_text, changes, 700),
    "header": (partial(spoilt_text, header=True), changes, 300),
    "arrays": (spoilt_arrays, array_ways, 300),
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("case", CASES)
def test_spoilt_files(case: str, factor: int, attempt: Any) -> None:
    spoilt, ways, n = CASES[case]
    for_all(st.tuples(kinds, ways), n * factor, lambda drawn: attempt(spoilt(*drawn)))
