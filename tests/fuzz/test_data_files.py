"""Damaged and hostile data files: a data set, or a DataError."""

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
from hypothesis import given
from hypothesis import strategies as st

from spdtokens.datasets import load_dataset
from spdtokens.errors import DataError
from tests.fuzz.mutations import examples, limited, spoil, spoilt_bytes
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
        """Whether the file is a data set, all of which can be read."""
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


VALUES: list[Any] = [
    np.array(None),
    np.array([{}, []], dtype=object),
    np.array([]),
    np.zeros((0, 3, 20)),
    np.zeros((6, 0, 20)),
    np.zeros((6, 3, 0)),
    np.zeros((6, 3, 20), complex),
    np.zeros((6, 3, 20), bool),
    np.full((6, 3, 20), np.nan),
    np.full((6, 3, 20), "a"),
    np.zeros((6, 3, 20), "M8[s]"),
    np.zeros((6, 3, 20), [("a", "f8")]),
    np.zeros((6, 2, 20)),
    np.zeros((6, 3)),
    np.zeros((6, 3, 3)),
    np.zeros((6, 1, 3, 20)),
    np.array(0),
    np.array(-1),
    np.array(0.0),
    np.array(-100.0),
    np.array(np.nan),
    np.array(np.inf),
    np.array(1e308),
    np.array(5e-324),
    np.array(1 + 2j),
    np.array("a"),
    np.array(b"a"),
    np.array(True),
    np.array(2**63, dtype=np.uint64),
    np.array([1.0, 2.0]),
    np.array([[1, 2], [3, 4]]),
    np.array([0, 1]),
    np.array([0, 1, 0, 1, 0, 2]),
    np.array([0, -1, 0, 1, 0, 1]),
    np.array([0, 1, 0, 1, 0, 2**63], dtype=np.uint64),
    np.array([0.0, 1, 0, 1, 0, np.nan]),
    np.array([0, 0, 0, 0, 0, 0]),
    np.array([True, False] * 3),
    np.array(["left", "right"] * 3),
    np.array(["a", "a"]),
    np.array(["8 Hz", "13 Hz"]),
    np.array(["0Hz", "9999999999999999999999Hz"]),
    np.array(["9" * 400 + "Hz", "1Hz"]),
    np.array(["", ""]),
    np.array(["a", "b", "c"]),
    np.zeros(6, "m8[s]"),
    np.zeros(6, "V3"),
    np.zeros(6, "S0"),
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


def other_arrays(ways: list[Any], attempt: Any) -> None:
    contents = arrays()
    for name, value in ways:
        contents[name] = value
    attempt(NPZ, npz({name: value for name, value in contents.items() if value is not None}))


def spoilt_npz(ways: list[Any], attempt: Any) -> None:
    attempt(NPZ, spoil(npz(arrays(), compressed=bool(len(ways) % 2)), ways))


def spoilt_member(drawn: tuple[str, list[Any]], attempt: Any) -> None:
    """Damage inside the archive, whose own checksums are right."""
    name, ways = drawn
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for key, value in arrays().items():
            member = io.BytesIO()
            np.save(member, value)
            contents = member.getvalue()
            archive.writestr(f"{key}.npy", spoil(contents, ways) if key == name else contents)
    attempt(NPZ, file.getvalue())


def spoilt_recording(drawn: tuple[str, list[Any]], attempt: Any) -> None:
    name, ways = drawn
    attempt(name, spoil(whole(name), ways))


def spoilt_head(drawn: tuple[str, list[Any]], attempt: Any) -> None:
    """The first bytes alone, where the sizes are."""
    name, ways = drawn
    contents = whole(name)
    attempt(name, spoil(contents[:1500], ways) + contents[1500:])


recordings = st.tuples(st.sampled_from(FILES), spoilt_bytes)
CASES: dict[str, tuple[Any, Any, int]] = {
    "arrays": (other_arrays, array_ways, 300),
    "npz": (spoilt_npz, spoilt_bytes, 150),
    "members": (spoilt_member, st.tuples(st.sampled_from(NAMES), spoilt_bytes), 150),
    "recordings": (spoilt_recording, recordings, 100),
    "heads": (spoilt_head, recordings, 100),
}


def _run(case: str, attempt: Any, factor: int) -> None:
    test, ways, n = CASES[case]

    @examples(n * factor)
    @given(ways)
    def run(ways: Any) -> None:
        test(ways, attempt)

    run()


@pytest.mark.parametrize("case", CASES)
def test_spoilt_files(case: str, attempt: Any) -> None:
    _run(case, attempt, 1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_spoilt_files(case: str, attempt: Any) -> None:
    _run(case, attempt, 10)


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
    file = io.BytesIO(npz(arrays()))
    with zipfile.ZipFile(file) as old:
        members = {key: old.read(key) for key in old.namelist()}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for key, contents in members.items():
            there = key != f"{name}.npy"
            archive.writestr(key, contents if there else claiming(shape, dtype))
    assert not attempt(NPZ, made.getvalue())


def test_a_bomb(attempt: Any) -> None:
    """Four gigabytes of zeros in four megabytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for key, value in arrays().items():
            member = io.BytesIO()
            np.save(member, value)
            if key != "X":
                archive.writestr(f"{key}.npy", member.getvalue())
        with archive.open("X.npy", "w", force_zip64=True) as member:
            member.write(claiming("(500000, 32, 32)", size=0))
            for _ in range(16):
                member.write(bytes(1 << 24))
    assert not attempt(NPZ, made.getvalue())
