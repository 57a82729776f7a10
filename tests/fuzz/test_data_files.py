"""Damaged and malicious data files give a data set, or a DataError."""

from __future__ import annotations

import io
import struct
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest
from hypothesis import strategies as st

from spdtokens.datasets import load_dataset
from spdtokens.errors import DataError
from tests.fuzz.mutations import FACTORS, for_all, limited, spoil, spoilt_bytes
from tests.helpers.recordings import write_edf

RNG = np.random.default_rng(0)


def arrays() -> dict[str, Any]:
    return {
        "X": RNG.standard_normal((6, 3, 20)).astype(np.float32),
        "y": np.array([0, 1, 0, 1, 0, 1]),
        "classes": np.array(["left", "right"]),
        "sfreq": np.array(100.0),
        "ch_names": np.array(["C3", "Cz", "C4"]),
        "tmin": np.array(-0.5),
        "run": np.array(["1", "1", "1", "2", "2", "2"]),
        "group": np.arange(6),
        "highpass": np.array(0.5),
        "onset": np.arange(6) * 100,
        "unit_in_volts": np.array(1e-6),
    }


def npz(contents: dict[str, Any], compressed: bool = True) -> bytes:
    file = io.BytesIO()
    # Objects are pickled on purpose: they must be refused.
    (np.savez_compressed if compressed else np.savez)(file, allow_pickle=True, **contents)
    return file.getvalue()


def claiming(shape: str, dtype: str = "<f8", size: int = 80) -> bytes:
    """An ``.npy`` that claims a shape."""
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(size)


@cache
def whole(name: str) -> bytes:
    """A file of epochs or of a recording, by its format."""
    info = mne.create_info(["C3", "Cz", "C4"], 100.0, "eeg")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name == "x-epo.fif":
            events = np.array([[100 * i, 0, 1 + i % 2] for i in range(1, 7)])
            data = RNG.standard_normal((6, 3, 20)) * 1e-5
            ids = {"left": 1, "right": 2}
            mne.EpochsArray(data, info, events, 0.0, ids, verbose="error").save(path)
        else:
            raw = mne.io.RawArray(RNG.standard_normal((3, 1300)) * 1e-5, info, verbose="error")
            raw.set_annotations(mne.Annotations(np.arange(12) + 0.5, 0.5, ["left", "right"] * 6))
            write_edf(path, raw) if name == "x.edf" else raw.save(path, verbose="error")
        return path.read_bytes()


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bytes], bool]:
    folder = tmp_path_factory.mktemp("data")

    def run(name: str, contents: bytes) -> bool:
        """Return whether the file is a data set that can be read completely."""
        path = folder / name
        path.write_bytes(contents)
        try:
            with limited(folder):
                try:
                    for place in (folder, path) if name.endswith(".npz") else (path,):
                        dataset = load_dataset(place)
                        for subject in dataset.subjects:
                            for session in dataset.sessions(subject):
                                found = dataset.load(subject, session)
                                assert found.X.ndim == 3
                                assert found.X.dtype.kind in "iuf"
                                assert found.X.shape[1] == len(dataset.ch_names)
                except DataError as error:
                    str(error).encode()
                    return False
                return True
        finally:
            path.unlink()

    return run


FILES = ("x-epo.fif", "x_raw.fif", "x.edf")
NPZ = "sub-01_ses-1.npz"


def test_whole_files_are_data_sets(attempt: Any) -> None:
    for compressed in (True, False):
        assert attempt(NPZ, npz(arrays(), compressed))
    for name in FILES:
        assert attempt(name, whole(name)), name


def filled(shape: Any, *dtypes: Any) -> list[Any]:
    return [np.zeros(shape, dtype) for dtype in dtypes]


SHAPES = ((0,), (0, 3, 20), (6, 0, 20), (6, 3, 0), (6, 2, 20), (6, 3), (6, 3, 3), (6, 1, 3, 20))
VALUES: list[Any] = [
    np.array(None),
    np.array([{}, []], dtype=object),
    *(np.zeros(shape) for shape in SHAPES),
    *filled((6, 3, 20), complex, bool, "U1", "M8[s]", [("a", "f8")]),
    *filled(6, "m8[s]", "V3", "S0"),
    np.full((6, 3, 20), np.nan),
    *map(np.array, (0, -1, 0.0, -100.0, np.nan, np.inf, 1e308, 5e-324, 1 + 2j, True, "a", b"a")),
    *map(np.array, ([1.0, 2.0], [[1, 2], [3, 4]], [0, 1], [0, 1, 0, 1, 0, 2])),
    *map(np.array, ([0, -1, 0, 1, 0, 1], [0.0, 1, 0, 1, 0, np.nan], [0] * 6, [True, False] * 3)),
    *(np.array(value, np.uint64) for value in (2**63, [0, 1, 0, 1, 0, 2**63])),
    *map(np.array, (["left", "right"] * 3, ["a", "a"], ["8 Hz", "13 Hz"], ["", ""], list("abc"))),
    np.array(["0Hz", "9999999999999999999999Hz"]),
    np.array(["9" * 400 + "Hz", "1Hz"]),
]
NAMES = ("X", "C", "y", "classes", "sfreq", "ch_names", "tmin", "run", "group", "highpass", "onset")
array_ways = st.lists(
    st.tuples(
        st.sampled_from((*NAMES, "unit_in_volts", "../x", "")),
        st.one_of(st.none(), st.sampled_from(VALUES)),
    ),
    min_size=1,
    max_size=3,
)


def members(changes: Callable[[str, bytes], bytes]) -> bytes:
    """An archive whose own checksums are right, with members changed."""
    with zipfile.ZipFile(io.BytesIO(npz(arrays()))) as old:
        found = {name.removesuffix(".npy"): old.read(name) for name in old.namelist()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, contents in found.items():
            archive.writestr(f"{name}.npy", changes(name, contents))
    return made.getvalue()


def other_arrays(ways: list[Any]) -> tuple[str, bytes]:
    changed = arrays() | dict(ways)
    return NPZ, npz({name: value for name, value in changed.items() if value is not None})


def spoilt_member(drawn: tuple[str, list[Any]]) -> tuple[str, bytes]:
    name, ways = drawn
    return NPZ, members(lambda key, contents: spoil(contents, ways) if key == name else contents)


def spoilt_head(drawn: tuple[str, list[Any]]) -> tuple[str, bytes]:
    """The first bytes alone, where the sizes are."""
    name, ways = drawn
    return name, spoil(whole(name)[:1500], ways) + whole(name)[1500:]


recordings = st.tuples(st.sampled_from(FILES), spoilt_bytes)
#: From what is drawn to the name and the contents of a file, the strategy, and examples.
CASES: dict[str, tuple[Any, Any, int]] = {
    "arrays": (other_arrays, array_ways, 300),
    "npz": (
        lambda ways: (NPZ, spoil(npz(arrays(), compressed=bool(len(ways) % 2)), ways)),
        spoilt_bytes,
        150,
    ),
    "members": (spoilt_member, st.tuples(st.sampled_from(NAMES), spoilt_bytes), 150),
    "recordings": (lambda drawn: (drawn[0], spoil(whole(drawn[0]), drawn[1])), recordings, 100),
    "heads": (spoilt_head, recordings, 100),
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("case", CASES)
def test_spoilt_files(case: str, factor: int, attempt: Any) -> None:
    spoilt, ways, n = CASES[case]
    for_all(ways, n * factor, lambda drawn: attempt(*spoilt(drawn)))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ("(10**15,)", "<f8"),
        ("(1000000000000000,)", "<f8"),
        ("(200000000000, 3, 20)", "<f8"),
        ("(-1, 3, 20)", "<f8"),
        ("(6, 3, 20)", "|O"),
        ("(6,)", "<U1000000000"),
        ("[" * 3000, "<f8"),
    ],
)
@pytest.mark.parametrize("name", ["X", "y"])
def test_claims(name: str, shape: str, dtype: str, attempt: Any) -> None:
    """Arrays far larger than their file."""
    claim = claiming(shape, dtype)
    assert not attempt(NPZ, members(lambda key, old: claim if key == name else old))


def test_a_bomb(attempt: Any) -> None:
    """Four gigabytes of zeros in four megabytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with zipfile.ZipFile(io.BytesIO(npz(arrays()))) as old:
            for name in set(old.namelist()) - {"X.npy"}:
                archive.writestr(name, old.read(name))
        with archive.open("X.npy", "w", force_zip64=True) as member:
            member.write(claiming("(500000, 32, 32)", size=0))
            for _ in range(16):
                member.write(bytes(1 << 24))
    assert not attempt(NPZ, made.getvalue())
