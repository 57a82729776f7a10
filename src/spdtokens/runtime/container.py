"""The model file: arrays and one JSON text, in the safetensors format, read without trust.

Nothing in such a file can be executed. A file is an 8-byte length, a JSON header of that length
that names each array's dtype, shape and place, and the arrays' bytes. The package ``safetensors``
reads it too; here NumPy is enough. Our JSON text is in the header's ``__metadata__``, with a
checksum of all the rest.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DecoderError

#: Key of our text in ``__metadata__``, and of the checksum.
TEXT, CHECKSUM = "spdtokens", "sha256"
#: Bytes. A header of a real model has some ten thousand; as JSON it may take 20 times its size.
LARGEST_HEADER = 2_000_000
DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4")}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def packed(text: str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a model file.

    Parameters
    ----------
    text : str
        JSON.
    arrays : mapping of str to ndarray of float32 or float64
    """
    header: dict[str, Any] = {}
    blocks, place = [], 0
    for name, array in sorted(arrays.items()):
        # Not ascontiguousarray, which gives a single number an axis.
        block = np.asarray(array, order="C").tobytes()
        shape = list(array.shape)
        header[name] = {"dtype": _NAMES[array.dtype.newbyteorder("<")], "shape": shape}
        header[name]["data_offsets"] = [place, place + len(block)]
        blocks.append(block)
        place += len(block)
    data = b"".join(blocks)
    header["__metadata__"] = {TEXT: text, CHECKSUM: _checksum(text, header, data)}
    encoded = json.dumps(header, sort_keys=True).encode()
    encoded += b" " * (-len(encoded) % 8)  # arrays begin at a multiple of 8, as the format wants
    return struct.pack("<Q", len(encoded)) + encoded + data


def unpacked(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Our JSON text, parsed, and the arrays of a model file.

    Raises
    ------
    DecoderError
        For anything that is not a whole, unchanged file of ours.
    OSError
        If there is no such file, or it may not be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise _refused(path, "it is too short")
        length = struct.unpack("<Q", start)[0]
        if not 2 <= length <= min(LARGEST_HEADER, size - 8):
            raise _refused(path, "its header is longer than the file, or than any of ours")
        encoded = file.read(length)
        data = file.read()
    header = _json(encoded, path)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(TEXT), str):
        raise _refused(path, "it holds arrays but no description by spdtokens")
    text = metadata[TEXT]
    arrays = _arrays(header, data, path)
    if metadata.get(CHECKSUM) != _checksum(text, header, data):
        raise _refused(path, "its checksum is not that of its contents")
    return _json(text, path), arrays


def _checksum(text: str, header: Mapping[str, Any], data: bytes) -> str:
    places = {name: value for name, value in header.items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps([text, places], sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def _json(encoded: str | bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(encoded)
    # Text that is nested too deep ends in a RecursionError.
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its header is no JSON ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise _refused(path, "its header is not a JSON object")
    return found


def _arrays(header: Mapping[str, Any], data: bytes, path: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    try:
        entries = sorted(header.items(), key=lambda item: tuple(item[1]["data_offsets"]))
        for name, entry in entries:
            dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
            first, last = entry["data_offsets"]
            whole = all(type(n) is int and n >= 0 for n in (*shape, first, last))
            # One after another without holes, as the format demands: no bytes hide in between.
            if not whole or first != end or last - first != math.prod(shape) * dtype.itemsize:
                raise _refused(path, f"its array {name!r} is not where its header says")
            end = last
            if last > len(data):
                raise _refused(path, "it ends before its arrays do: it was cut off")
            arrays[name] = np.frombuffer(data[first:last], dtype).reshape(shape)
    # A length beyond what the machine can count ends in an OverflowError.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, DecoderError):
            raise
        raise _refused(path, "its header does not describe arrays") from error
    if end != len(data):
        raise _refused(path, "it goes on after its arrays")
    return arrays


def _refused(path: Path, why: str) -> DecoderError:
    return DecoderError(
        f"{path} is not a whole model file of spdtokens: {why}. Nothing of it was used; copy it "
        "again, or make it anew with `spdtokens train`."
    )
