"""Models as files: what is written is read, and nothing else is."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from spdtokens import runtime
from spdtokens.runtime import DecoderError, load_model, model_bytes
from spdtokens.runtime.model_file import packed, unpacked
from tests.inference.helpers import KINDS, NAMES, made, trials


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(made("imagery").decoder))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_model(kind: str, tmp_path: Path) -> None:
    decoder = made(kind).decoder
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(decoder))
    found = load_model(path)
    X, _ = trials(6, seed=3)
    np.testing.assert_array_equal(found.predict_proba(X), decoder.predict_proba(X))
    assert found.classes == ("left", "right")
    assert found.ch_names == NAMES
    assert found.sfreq == 100
    assert found.n_samples == 150
    assert found.about == {"made": kind}


def test_the_library_of_the_format_reads_it(path: Path) -> None:
    arrays = load_file(path)
    classifier = made("imagery").pipeline["classifier"]
    np.testing.assert_array_equal(arrays["weight"], classifier.coef_)


def test_recentred_models_remember_their_start(tmp_path: Path) -> None:
    decoder = made("imagery").decoder
    middle = decoder.covariances(trials()[0]).mean(0)
    recentred = replace(decoder, recentring=middle)
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(recentred))
    X, _ = trials(4, seed=5)
    found = load_model(path).predict_proba(X)
    np.testing.assert_array_equal(found, recentred.predict_proba(X))
    assert np.abs(found - decoder.predict_proba(X)).max() > 1e-3


def changed(path: Path, **what: Any) -> None:
    """Write the file again, whole and with a right checksum, with other contents."""
    config, arrays = unpacked(path)
    for key, value in what.items():
        *parents, last = key.split("__")
        place = config
        for parent in parents:
            place = place[parent]
        place[last] = value
    path.write_bytes(packed(json.dumps(config), arrays))


@pytest.mark.parametrize(
    "what",
    [
        {"format": 3},
        {"classes": ["left"]},
        {"classes": ["left", "left"]},
        {"classes": ["a", "b", "c"]},
        {"classes": []},
        {"ch_names": ["C3", "Cz"]},
        {"shape": [1, 4, 5]},
        {"sfreq": None},
        {"tmin": "0"},
        {"front__n_samples": 10**12},
        {"front__length": 10**12},
        {"front__slices": [[0, 151]]},
        {"front__delays": [150]},
        {"front__covariance": "eval"},
        {"front__scale": 0.0},
        {"front__decimated": [10**6]},
        {"front__decimated": [100, 100]},
        {"front__prototypes": [1.0]},
        {"front__passes_offset": []},
        {"tokens__embeddings": ["__import__"]},
        {"tokens__embeddings": ["euclidean"]},
        {"network__kind": "pickle"},
        {"network": {"kind": "transformers"}},
        {"recentred": True},
        {"about": "me"},
        {"steps": ["me"]},
    ],
    ids=str,
)
def test_contents_that_make_no_model(path: Path, what: dict[str, Any]) -> None:
    changed(path, **what)
    with pytest.raises(DecoderError, match=re.escape(str(path))):
        load_model(path)


def test_a_file_that_ends_early(path: Path) -> None:
    whole = path.read_bytes()
    for length in (0, 3, 8, 500, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DecoderError, match="not a whole model file"):
            load_model(path)


def test_a_file_that_goes_on(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DecoderError, match="longer or shorter than its arrays"):
        load_model(path)


def test_one_wrong_bit_in_the_numbers(path: Path) -> None:
    contents = bytearray(path.read_bytes())
    contents[-1] ^= 1
    path.write_bytes(contents)
    with pytest.raises(DecoderError, match="checksum"):
        load_model(path)


def test_numbers_that_are_none(path: Path) -> None:
    config, arrays = unpacked(path)
    arrays["bias"] = np.full_like(arrays["bias"], np.nan)
    path.write_bytes(packed(json.dumps(config), arrays))
    with pytest.raises(DecoderError, match="array 'bias' has values that are not numbers"):
        load_model(path)


def test_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "model.spdt"
    path.write_bytes(pickle.dumps(Trap(str(tmp_path / "executed"))))
    with pytest.raises(DecoderError, match="not a whole model file of spdtokens"):
        load_model(path)
    save_file({"weight": np.ones(3)}, path)
    with pytest.raises(DecoderError, match="not a whole model file of spdtokens"):
        load_model(path)
    np.savez(tmp_path / "model.npz", weight=np.ones(3))
    with pytest.raises(DecoderError, match="not a whole model file of spdtokens"):
        load_model(tmp_path / "model.npz")
    assert not (tmp_path / "executed").exists()


class Trap:
    """Would leave a file if it were unpickled."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.where),)


def test_a_header_nested_without_end(path: Path) -> None:
    header = b"[" * 200_000
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(DecoderError, match="RecursionError"):
        load_model(path)


def test_overlapping_arrays(path: Path) -> None:
    entry = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
    header = json.dumps({"a": entry, "b": entry, "__metadata__": {"spdtokens": "{}"}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(DecoderError, match="not where its header says"):
        load_model(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "model.spdt")


@pytest.mark.usefixtures("path")
def test_numpy_is_enough(tmp_path: Path) -> None:
    """A copy of the runtime, with NumPy and without everything else."""
    shutil.copytree(Path(runtime.__file__).parent, tmp_path / "spdtokens_runtime")
    X, _ = trials(3, seed=4)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, numpy as np\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('torch', 'scipy', 'mne', 'sklearn', 'spdtokens'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from spdtokens_runtime import load_model\n"
        "print(load_model('model.spdt').predict_proba(np.load('X.npy')).tolist())\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    np.testing.assert_array_equal(json.loads(run.stdout), made("imagery").decoder.predict_proba(X))


@pytest.mark.parametrize("name", ["\x1b[2J", "\ud800", "a\nb"], ids=ascii)
def test_names_that_cannot_be_printed(path: Path, name: str) -> None:
    """Without a check: they would reach the terminal."""
    changed(path, classes=["left", name])
    with pytest.raises(DecoderError, match="printable name") as caught:
        load_model(path)
    str(caught.value).encode()
    with pytest.raises(DecoderError, match="printable name"):
        model_bytes(replace(made("imagery").decoder, classes=("left", name)))


def test_an_empty_array_of_an_impossible_shape(path: Path) -> None:
    """Without a check: an OverflowError."""
    entry = {"dtype": "F64", "shape": [0, 10**30], "data_offsets": [0, 0]}
    header = json.dumps({"a": entry, "__metadata__": {"spdtokens": "{}"}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(DecoderError, match="not a whole model file"):
        load_model(path)


def test_matrices_that_fill_the_memory(path: Path) -> None:
    """Without a check: a MemoryError, of a file of some kilobytes."""
    changed(path, front=None, sfreq=None, shape=[1, 10**6, 10**6])
    with pytest.raises(DecoderError, match="an array has shape"):
        load_model(path)


@pytest.mark.parametrize("k", [0, 5])
def test_filters_of_classes_that_cannot_be(k: int, tmp_path: Path) -> None:
    """More filters than channels have a token that is too long."""
    decoder = made("imagery").decoder
    wrong = replace(decoder.tokens, filters=np.ones((1, k, 4)))
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(replace(decoder, tokens=wrong)))
    with pytest.raises(DecoderError, match="an array has shape"):
        load_model(path)


@pytest.mark.parametrize("n", [3_000_000, 9_999_999])
def test_trials_that_take_minutes(tmp_path: Path, n: int) -> None:
    """Without a check: filters of a trial of an hour, computed sample by sample."""
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(made("causal").decoder))
    changed(path, front__n_samples=n, front__length=2 * n, front__pad=0)
    with pytest.raises(DecoderError, match=f"Trials of {n} samples"):
        load_model(path)


def test_causal_filters_may_reach_far(tmp_path: Path) -> None:
    """They are not continued past a trial's ends, so that their length need not fit in."""
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(made("causal").decoder))
    changed(path, front__pad=149)
    assert load_model(path).n_samples == 150
    changed(path, front__filtering="zero-phase")
    with pytest.raises(DecoderError, match="impossible length"):
        load_model(path)


def with_arrays(path: Path, kind: str, **arrays: Any) -> None:
    """A model some arrays of which are others; None for those to leave out."""
    path.write_bytes(model_bytes(made(kind).decoder))
    config, there = unpacked(path)
    names = {name.replace("__", "."): array for name, array in arrays.items()}
    kept = {name: array for name, array in (there | names).items() if array is not None}
    path.write_bytes(packed(json.dumps(config), kept))


def test_filters_that_divide_by_zero(path: Path) -> None:
    """Without a check: a warning of NumPy, and NaN."""
    with_arrays(path, "imagery", filter__0=np.zeros((4, 6)))
    with pytest.raises(DecoderError, match="filter of the model is not stable"):
        load_model(path)


def test_a_block_without_attention(path: Path) -> None:
    """Without a check: an AssertionError."""
    with_arrays(path, "ensemble", **{"1__0__attend": None})
    with pytest.raises(DecoderError, match="does not describe a model that works"):
        load_model(path)


def test_numbers_of_several_kinds(path: Path) -> None:
    """Without a check: one trial could be decoded, and two could not."""
    head = np.zeros((2, 17))
    with_arrays(path, "transformer", **{"0__head": head})
    with pytest.raises(DecoderError, match="of several kinds"):
        load_model(path)


def test_networks_that_are_not_alike(path: Path) -> None:
    """One with a single class, which is certain of it: sums of 1.5."""
    with_arrays(path, "ensemble", **{"1__head": np.zeros((1, 17), np.float32)})
    with pytest.raises(DecoderError, match="not alike"):
        load_model(path)
