"""Model files: what is written is read; damaged and hostile files are refused."""

from __future__ import annotations

import json
import pickle
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from spdtokens.runtime import DecoderError, load_model, model_bytes
from spdtokens.runtime.model_file import packed, unpacked
from spdtokens.runtime.tokens import Reference
from tests.inference.helpers import made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.spdt"


def test_the_library_of_the_format_reads_it(path: Path) -> None:
    path.write_bytes(model_bytes(made("imagery").decoder))
    classifier = made("imagery").pipeline["classifier"]
    np.testing.assert_array_equal(load_file(path)["weight"], classifier.coef_)


def change(path: Path, kind: str, **changes: Any) -> None:
    """Write a model with changed fields or arrays (None: removed) and a valid checksum."""
    path.write_bytes(model_bytes(made(kind).decoder))
    config, arrays = unpacked(path)
    for key, value in changes.items():
        *parents, last = key.split("__")
        place: Any = config
        for parent in parents:
            place = place[parent]
        if key in arrays or isinstance(value, np.ndarray):
            place, last = arrays, key
        place[last] = value
    kept = {name: array for name, array in arrays.items() if array is not None}
    path.write_bytes(packed(json.dumps(config), kept))


NETWORK = np.zeros((1, 17), np.float32)
LONG = {"front__n_samples": 3_000_000, "front__length": 6_000_000, "front__pad": 0}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("imagery", {"format": 4}),
        ("imagery", {"classes": ["left"]}),
        ("imagery", {"classes": ["left", "left"]}),
        ("imagery", {"classes": ["a", "b", "c"]}),
        ("imagery", {"classes": []}),
        ("imagery", {"ch_names": ["C3", "Cz"]}),
        ("imagery", {"shape": [1, 4, 5]}),
        ("imagery", {"sfreq": None}),
        ("imagery", {"tmin": "0"}),
        ("imagery", {"front__n_samples": 10**12}),
        ("imagery", {"front__length": 10**12}),
        ("imagery", {"front__slices": [[0, 151]]}),
        ("imagery", {"front__delays": [150]}),
        ("imagery", {"front__covariance": "eval"}),
        ("imagery", {"front__scale": 0.0}),
        ("imagery", {"front__decimated": [10**6]}),
        ("imagery", {"front__decimated": [100, 100]}),
        ("imagery", {"front__prototypes": [1.0]}),
        ("imagery", {"front__passes_offset": []}),
        ("imagery", {"tokens__embeddings": ["__import__"]}),
        ("imagery", {"tokens__embeddings": ["euclidean"]}),
        ("imagery", {"network__kind": "pickle"}),
        ("imagery", {"network": {"kind": "transformers"}}),
        ("imagery", {"recentred": True}),
        ("imagery", {"about": "me"}),
        ("imagery", {"steps": ["me"]}),
        # Would fill the memory, take minutes, or divide by zero.
        ("imagery", {"front": None, "sfreq": None, "shape": [1, 10**6, 10**6]}),
        ("causal", LONG),
        ("imagery", {"filter.0": np.zeros((4, 6))}),
        # Reflection that is longer than the trial.
        ("causal", {"front__pad": 149, "front__filtering": "zero-phase"}),
        ("imagery", {"bias": np.full(2, np.nan)}),
        # More filters than channels, or none.
        ("imagery", {"filters": np.ones((1, 5, 4))}),
        ("imagery", {"filters": np.ones((1, 0, 4))}),
        ("ensemble", {"1.0.attend": None}),
        # A member with a single class.
        ("ensemble", {"1.head": NETWORK}),
        # Of spatial filters: two members, bands, windows; three means, four channels.
        ("spatial filters", {"format": 4}),
        ("spatial filters", {"network__step": 0}),
        ("spatial filters", {"network__step": 2}),
        ("spatial filters", {"network__eps": 0.0}),
        ("spatial filters", {"network__kind": "discriminant"}),
        ("spatial filters", {"network.filters": np.zeros((4, 2, 5, 3))}),
        ("spatial filters", {"network.filters": np.zeros((4, 3, 4, 3))}),
        ("spatial filters", {"network.filters": np.zeros((4, 0, 4, 3))}),
        ("spatial filters", {"network.filters": np.zeros((2, 2, 4, 3))}),
        ("spatial filters", {"network.filters": np.full((4, 2, 4, 3), np.nan)}),
        ("spatial filters", {"network.filters": None}),
        ("spatial filters", {"network.weight": np.zeros((4, 2, 2, 3, 3))}),
        ("spatial filters", {"network.weight": np.zeros((4, 2, 2, 2, 2))}),
        ("spatial filters", {"network.means": np.zeros((4, 2, 2, 4, 2))}),
        ("spatial filters", {"network.means": np.zeros((4, 1, 3, 4, 2))}),
        ("spatial filters", {"network.bias": np.zeros((4, 3))}),
        ("spatial filters", {"front__n_means": 2}),
        ("spatial filters", {"front__n_means": -1}),
        ("imagery", {"front__n_means": 1}),
        ("recentred filters", {"reference__n_means": 7}),
        ("recentred filters", {"reference__n_means": 2}),
        ("recentred filters", {"reference__n_windows": 3}),
        ("recentred filters", {"reference__n_windows": 1}),
        ("recentred filters", {"reference__shrinkage": 1.0}),
        ("recentred filters", {"reference__metric": "logeuclid"}),
    ],
    ids=str,
)
def test_contents_that_make_no_model(path: Path, kind: str, changes: dict[str, Any]) -> None:
    change(path, kind, **changes)
    with pytest.raises(DecoderError, match=re.escape(str(path))):
        load_model(path)


@pytest.mark.parametrize(
    ("kind", "number"),
    [("imagery", 1), ("flicker", 2), ("spatial filters", 3), ("recentred filters", 3)],
)
def test_the_lowest_format_that_describes_a_model(path: Path, kind: str, number: int) -> None:
    """Files of models that an older version can run say so."""
    path.write_bytes(model_bytes(made(kind).decoder))
    assert unpacked(path)[0]["format"] == number
    plain = replace(made("imagery").decoder, reference=Reference("euclid"))
    path.write_bytes(model_bytes(plain))
    assert unpacked(path)[0]["format"] == 3


def test_spatial_filters_are_written_and_read(path: Path) -> None:
    decoder = made("recentred filters").decoder
    path.write_bytes(model_bytes(decoder))
    again = load_model(path)
    assert again.reference == decoder.reference == Reference("euclid", 2, 0.05, 3)
    assert (again.network.eps, again.network.step) == (decoder.network.eps, decoder.network.step)
    for name in ("filters", "weight", "means", "bias"):
        array = getattr(again.network, name)
        np.testing.assert_array_equal(array, getattr(decoder.network, name), strict=True)
    assert array.dtype == np.float32
    assert again.front.n_means == 3


@pytest.mark.parametrize("name", ["\x1b[2J", "\ud800", "a\nb"], ids=ascii)
def test_names_that_cannot_be_printed(path: Path, name: str) -> None:
    """Control characters must not reach the terminal."""
    change(path, "imagery", classes=["left", name])
    with pytest.raises(DecoderError, match="printable") as caught:
        load_model(path)
    str(caught.value).encode()
    with pytest.raises(DecoderError, match="printable"):
        model_bytes(replace(made("imagery").decoder, classes=("left", name)))


def test_causal_filters_may_reach_far(path: Path) -> None:
    """Causal filters do not pad the trial, so that a pad as long as the trial is allowed."""
    change(path, "causal", front__pad=149)
    assert load_model(path).n_samples == 150


class Trap:
    """Raises SystemExit if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit",)


def headed(data: bytes = b"", **entries: Any) -> bytes:
    header = json.dumps({**entries, "__metadata__": {"spdtokens": "{}"}}).encode()
    return struct.pack("<Q", len(header)) + header + data


ENTRY = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    **{f"cut at {n}": lambda whole, n=n: whole[:n] for n in (0, 3, 8, 500, -1)},
    "goes on": lambda whole: whole + b"\0",
    "one wrong bit": lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
    "pickle": lambda _: pickle.dumps(Trap()),
    "another model": lambda _: save({"weight": np.ones(3)}),
    "nested without end": lambda _: struct.pack("<Q", 200_000) + b"[" * 200_000,
    "overlapping arrays": lambda _: headed(bytes(8), a=ENTRY, b=ENTRY),
    "impossible shape": lambda _: headed(a={**ENTRY, "shape": [0, 10**30], "data_offsets": [0, 0]}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bytes_that_are_no_model_file(path: Path, damage: str) -> None:
    path.write_bytes(DAMAGES[damage](model_bytes(made("imagery").decoder)))
    with pytest.raises(DecoderError, match=re.escape(str(path))):
        load_model(path)


def test_no_such_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(path)
