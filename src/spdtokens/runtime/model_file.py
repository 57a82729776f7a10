"""A decoder as a file, and back; read without trust.

Arrays and one JSON text, in the safetensors format: an 8-byte length, a JSON header of that length
that names each array's dtype, shape and place, and the arrays' bytes. The package ``safetensors``
reads it too; here NumPy is enough. Our JSON text is in the header's ``__metadata__``, with a
checksum of all the rest. Nothing in such a file can be executed, and a few bytes must not take
seconds or fill the memory: sizes are checked before anything of that size is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decoder import Decoder
from .networks import (
    Discriminant,
    FoldedBlock,
    FoldedTransformer,
    Network,
    OnnxNetwork,
    Transformers,
    file_digest,
    stored,
)
from .signals import ESTIMATORS, Front, Prototype
from .tokens import AT_REFERENCE, EMBEDDINGS, FILTERED, PRINCIPAL, DecoderError, Tokens

#: Of the file; 2 if bands are decimated, which older versions do not know. Files of another number
#: are refused: what they mean may have changed.
FORMATS = (1, 2)
#: Key of our text in ``__metadata__``, and of the checksum.
TEXT, CHECKSUM = "spdtokens", "sha256"
#: Bytes. A header of a real model has some ten thousand; as JSON it may take 20 times its size.
LARGEST_HEADER = 2_000_000
DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4")}
#: Samples of a trial with its padding, and numbers of a trial in all bands.
MOST_SAMPLES, MOST_VALUES = 1 << 18, 30_000_000
#: Samples times sections of one filter and of all filters, and steps of causal filters.
MOST_OF_FILTER, MOST_OF_FILTERS, MOST_STEPS = 1 << 21, 1 << 23, 1 << 21
#: Numbers of a trial's matrices that any file may claim; a larger file so many times its own.
MATRICES, TIMES_MATRICES = 1 << 20, 4
#: The same of what is computed for every two tokens.
PAIRS, TIMES_PAIRS = 1 << 21, 16
#: Numbers of a made-up trial, and of it in all bands, up to which a model is tried out on one.
TRIED, TRIED_IN_BANDS = 1 << 19, 1 << 23
#: What shows when a file does not say what it should.
FAULTS = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, MemoryError)

Arrays = Mapping[str, NDArray[Any]]
Shape = tuple[int, ...]
_BLOCK = ("attend", "mix", "expand", "contract")


def packed(text: str, arrays: Arrays) -> bytes:
    """The bytes of a file with a JSON text and arrays of float32 or float64."""
    header: dict[str, Any] = {}
    kinds = {dtype: name for name, dtype in DTYPES.items()}
    blocks, place = [], 0
    for name, array in sorted(arrays.items()):
        # Not ascontiguousarray, which gives a single number an axis.
        block = np.asarray(array, order="C").tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [place, place + len(block)],
        }
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
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if not 2 <= length <= min(LARGEST_HEADER, size - 8):
                raise ValueError("its header is longer than the file, or than any of ours")
            header, data = json.loads(file.read(length)), file.read()
        metadata = header.pop("__metadata__")
        arrays = _arrays(header, data)
        if metadata[CHECKSUM] != _checksum(metadata[TEXT], header, data):
            raise ValueError("its checksum is not that of its contents")
        config = json.loads(metadata[TEXT])
        if not isinstance(config, dict):
            raise ValueError("its text is not a JSON object")
    # Text that is nested too deep ends in a RecursionError.
    except (struct.error, RecursionError, *FAULTS) as error:
        raise DecoderError(
            f"{path} is not a whole model file of spdtokens ({type(error).__name__}: {error}). "
            "Nothing of it was used; copy it again, or make it anew with `spdtokens train`."
        ) from error
    return config, arrays


def _checksum(text: str, header: Mapping[str, Any], data: bytes) -> str:
    places = {name: value for name, value in header.items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps([text, places], sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def _arrays(header: Mapping[str, Any], data: bytes) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: tuple(item[1]["data_offsets"])):
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        first, last = entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, first, last))
        # One after another without holes, as the format demands: no bytes hide in between.
        if not whole or first != end or last - first != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"its array {name!r} is not where its header says")
        arrays[name] = np.frombuffer(data[first:last], dtype).reshape(shape)
        end = last
    if end != len(data):
        raise ValueError("it is longer or shorter than its arrays")
    return arrays


def model_bytes(decoder: Decoder) -> bytes:
    """The contents of a model file."""
    arrays: dict[str, NDArray[Any]] = {}
    front = decoder.front
    config = {
        "format": FORMATS[front is not None and front.decimated is not None],
        "classes": names(list(decoder.classes), "class"),
        "ch_names": names(list(decoder.ch_names), "channel"),
        "sfreq": decoder.sfreq,
        "tmin": decoder.tmin,
        "unit_in_volts": decoder.unit_in_volts,
        "shape": list(decoder.shape),
        "front": None if front is None else _front_out(front, arrays, decoder),
        "tokens": _tokens_out(decoder.tokens, arrays),
        "network": _network_out(decoder.network, arrays),
        "recentred": decoder.recentring is not None,
        "about": dict(decoder.about),
        "steps": [dict(step) for step in decoder.steps],
    }
    if decoder.recentring is not None:
        arrays["recentring"] = decoder.recentring
    # NaN is no JSON: what another program could not read is refused here, not there.
    return packed(json.dumps(config, allow_nan=False), arrays)


def load_model(
    path: str | Path, onnx: str | Path | None = None, *, onnx_threads: int = 1
) -> Decoder:
    """Read a model file, ``.spdt``.

    Only numbers and names are read; nothing in a file is executed. Needs NumPy and nothing else.

    Parameters
    ----------
    path : str or Path
    onnx : str or Path, optional
        Its network as ``spdtokens export`` wrote it, to be computed by ONNX Runtime, which must be
        installed.
    onnx_threads : int
        Threads of ONNX Runtime.

    Raises
    ------
    DecoderError
        If the file is not whole, not a model, or made by a newer version; or the ONNX file is of
        another model.
    OSError
        If there is no such file, or it may not be read.
    """
    path = Path(path)
    config, arrays = unpacked(path)
    made = config.get("format")
    if made not in FORMATS:
        raise DecoderError(
            f"{path} has format {made!r}, and this version of spdtokens reads formats "
            f"{', '.join(map(str, FORMATS))}. Train the model again, or use the version it was "
            "made with."
        )
    try:
        with np.errstate(all="ignore"):  # what comes out is looked at
            decoder = _decoder(config, arrays)
            _try_out(decoder)
    except FAULTS as error:
        raise DecoderError(
            f"{path} does not describe a model that works ({type(error).__name__}: {error}). "
            "Nothing of it was used; make it anew with `spdtokens train`."
        ) from error
    if onnx is None:
        return decoder
    digest = file_digest(path)
    network = OnnxNetwork(Path(onnx), decoder.network, digest, decoder.classes, onnx_threads)
    return replace(decoder, network=network)


def names(values: Any, what: str) -> tuple[str, ...]:
    """Names as a model file can have them: different, and printable.

    Nothing that a terminal would take for a command, or could not show.

    Parameters
    ----------
    values : list of str
    what : str
        For the message: ``'class'`` or ``'channel'``.

    Raises
    ------
    DecoderError
    """
    if not isinstance(values, list) or not values:
        raise DecoderError(f"There must be {what} names, got {values!r}.")
    wrong = [v for v in values if not isinstance(v, str) or not v.isprintable()]
    wrong = wrong or [value for value, count in Counter(values).items() if count > 1]
    if wrong:
        raise DecoderError(
            f"Every {what} must have a printable name of its own, got {wrong[0]!r}. Rename it."
        )
    return tuple(values)


def _require(fits: object, what: str) -> None:
    if not fits:
        raise DecoderError(what)


def _one_of(value: Any, known: Sequence[str]) -> str:
    _require(isinstance(value, str) and value in known, f"{value!r} is none of {', '.join(known)}")
    return str(value)


def _count(value: Any, least: int = 1) -> int:
    _require(type(value) is int and value >= least, f"{value!r} is no whole number from {least}")
    return int(value)


def _number(value: Any, least: float = -math.inf) -> float:
    fits = type(value) in (int, float) and math.isfinite(value) and value >= least
    _require(fits, f"{value!r} is not a number that can stand there")
    return float(value)


def _positive(value: Any) -> float:
    return _number(value, math.ulp(0.0))


def _shaped(array: NDArray[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    fits = array.ndim == len(shape) and all(
        want in (None, n) for want, n in zip(shape, array.shape, strict=True)
    )
    _require(fits, f"an array has shape {array.shape}")
    return array


def _decoder(config: dict[str, Any], arrays: Arrays) -> Decoder:
    for name, array in arrays.items():
        _require(np.isfinite(array).all(), f"its array {name!r} has values that are not numbers")
    classes, ch_names = names(config["classes"], "class"), names(config["ch_names"], "channel")
    m, d, _ = shape = tuple(_count(n) for n in config["shape"])
    tokens = _tokens_in(config["tokens"], arrays, shape)
    network = _network_in(config["network"], arrays)
    # What is told three times must agree before anything of that size is computed.
    told = (m * len(tokens.embeddings), d * (d + 1) // 2, len(classes))
    _require(
        network.shape == told and d == shape[2] and len(classes) > 1,
        "its classes, matrices and network do not fit together",
    )
    held, pairs = sum(array.size for array in arrays.values()), 0
    if isinstance(network, Transformers):
        first = network.members[0]
        pairs = network.shape[0] ** 2 * max(first.n_heads, d * d // 2 if first.needs_bias else 0)
    _require(
        m * d * d <= max(MATRICES, TIMES_MATRICES * held)
        and pairs <= max(PAIRS, TIMES_PAIRS * held),
        f"{m} matrices of {d} rows are more than its {held} numbers are for",
    )
    front = config["front"]
    if front is not None:
        front = _front_in(front, arrays, len(ch_names), shape)
    sfreq, unit = (
        None if config[name] is None else _positive(config[name])
        for name in ("sfreq", "unit_in_volts")
    )
    about, steps = config["about"], config.get("steps", [])  # which version 0.1 did not write
    _require(
        (front is None) == (sfreq is None)
        and isinstance(about, dict)
        and isinstance(steps, list)
        and all(isinstance(step, dict) for step in steps),
        "its sampling rate, steps or description are not those of a model",
    )
    return Decoder(
        classes=classes,
        ch_names=ch_names,
        sfreq=sfreq,
        tmin=_number(config["tmin"]),
        unit_in_volts=unit,
        front=front,
        tokens=tokens,
        network=network,
        shape=(m, d, d),
        recentring=_shaped(arrays["recentring"], shape) if config["recentred"] is True else None,
        about=about,
        steps=steps,
    )


def _try_out(decoder: Decoder) -> None:
    """Decode a made-up trial: what does not work shows now, not in the middle of a session.

    The shapes of all parts have been checked. Trials that are very long are not made up; the model
    is then tried out from the covariances on.
    """
    shape, front, channels = decoder.shape, decoder.front, len(decoder.ch_names)
    C = np.broadcast_to(np.eye(shape[-1]), (1, *shape))
    if front is not None:
        rows = channels * (1 + len(front.delays))
        in_bands = front.length * max(rows, shape[0] * shape[1])
        if front.length * rows <= TRIED and in_bands <= TRIED_IN_BANDS:
            rng = np.random.default_rng(0)
            C = decoder.covariances(rng.standard_normal((1, channels, front.n_samples)))
    found = decoder.session().decide(C[0])
    _require(
        C.shape[1:] == shape
        and found.shape == (len(decoder.classes),)
        and abs(found.sum() - 1) < 1e-3,
        "its parts do not fit together, or its probabilities are none",
    )


def _check_size(
    n_samples: int,
    length: int,
    filtering: str,
    sections: Sequence[NDArray[Any] | None],
    rows: int,
    shape: Shape,
) -> None:
    """Refuse trials (``rows`` with delayed channels) and filters that are too large."""
    orders = [0 if sos is None else len(sos) for sos in sections]
    steps = n_samples * sum(orders) if filtering == "causal" else 0
    _require(
        length <= MOST_SAMPLES
        and length * max(orders) <= MOST_OF_FILTER
        and length * sum(orders) <= MOST_OF_FILTERS
        and length * max(rows, shape[0] * shape[1]) <= MOST_VALUES
        and steps <= MOST_STEPS,
        f"Trials of {n_samples} samples ({length} with padding), {rows} rows and {len(sections)} "
        "bands are more than a model file may describe. Train on shorter trials, or at a lower "
        "sampling rate.",
    )


def _front_out(front: Front, arrays: dict[str, NDArray[Any]], decoder: Decoder) -> dict[str, Any]:
    # What could not be read is not written.
    rows, sections = len(decoder.ch_names) * (1 + len(front.delays)), front.sections
    _check_size(front.n_samples, front.length, front.filtering, sections, rows, decoder.shape)
    _require(
        front.other is None,
        f"A model with estimator={front.covariance!r} cannot be saved: model files have "
        f"{', '.join(ESTIMATORS)}.",
    )
    fields = asdict(front)
    del fields["other"]
    for i, sos in enumerate(sections):
        if sos is not None:
            arrays[f"filter.{i}"] = sos
    for i, prototype in enumerate(front.prototypes):
        arrays[f"prototype.{i}.averages"] = prototype.averages
        if prototype.filters is not None:
            arrays[f"prototype.{i}.filters"] = prototype.filters
    fields["sections"] = [sos is not None for sos in sections]
    fields["prototypes"] = [prototype.scale for prototype in front.prototypes]
    return fields


def _front_in(fields: dict[str, Any], arrays: Arrays, channels: int, shape: Shape) -> Front:
    n, length, pad = _count(fields["n_samples"]), _count(fields["length"]), _count(fields["pad"], 0)
    filtering = _one_of(fields["filtering"], ("zero-phase", "causal"))
    covariance = _one_of(fields["covariance"], ESTIMATORS)
    slices = tuple((_count(a, 0), _count(b)) for a, b in fields["slices"])
    delays = tuple(_count(delay) for delay in fields["delays"])
    decimated = fields.get("decimated")  # which format 1 has not
    zero_phase = filtering == "zero-phase"
    shortest = 2 if covariance == "sample" else 1  # of one sample there is no sample covariance
    _require(
        pad < n
        and (n + 2 * pad if zero_phase else n) <= length <= 10 * n + 1000
        and all(a + shortest <= b <= n for a, b in slices)
        and max(delays, default=0) < n
        and (decimated is None or (zero_phase and max(map(_count, decimated)) <= length)),
        "its trials, filters, windows or delays have an impossible length",
    )
    sections = [
        _shaped(arrays[f"filter.{i}"], (None, 6)) if filtered is True else None
        for i, filtered in enumerate(fields["sections"])
    ]
    bands, rows = len(sections), channels * (1 + len(delays))
    n_matrices = bands * len(slices)
    prototypes = []
    for i, scale in enumerate(fields["prototypes"]):
        start, stop = slices[i % len(slices)]
        averages = _shaped(arrays[f"prototype.{i}.averages"], (None, stop - start))
        filters = arrays.get(f"prototype.{i}.filters")
        filters = None if filters is None else _shaped(filters, (None, rows))
        prototypes.append(Prototype(averages, filters, _positive(scale)))
    sizes = {prototype.size(rows) for prototype in prototypes} or {rows}
    _require(
        len(prototypes) == (n_matrices if covariance in ("erp", "xdawn") else 0)
        and (n_matrices, sizes) == (shape[0], {shape[1]})
        and len(fields["passes_offset"]) == bands == len(decimated or sections),
        "its bands, windows, class averages and matrices do not fit together",
    )
    _check_size(n, length, filtering, sections, rows, shape)
    return Front(
        n_samples=n,
        filtering=filtering,
        sections=sections,
        passes_offset=[passes is True for passes in fields["passes_offset"]],
        pad=pad,
        length=length,
        slices=slices,
        delays=delays,
        covariance=covariance,
        prototypes=tuple(prototypes),
        relative=_number(fields["relative"], 0),
        absolute=_number(fields["absolute"], 0),
        scale=_positive(fields["scale"]),
        decimated=decimated,
    )


def _tokens_out(tokens: Tokens, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    fields = asdict(tokens)
    for name in ("whiteners", "axes", "filters"):
        found = fields.pop(name)
        if found is not None:
            arrays[name] = np.asarray(found)
    return fields


def _tokens_in(fields: dict[str, Any], arrays: Arrays, shape: Shape) -> Tokens:
    embeddings = tuple(_one_of(name, EMBEDDINGS) for name in fields["embeddings"])
    whitened, filters = not set(AT_REFERENCE).isdisjoint(embeddings), None
    if FILTERED in embeddings:
        filters = _shaped(arrays["filters"], (shape[0], None, shape[2]))
        _require(1 <= filters.shape[1] <= shape[2], f"an array has shape {filters.shape}")
    return Tokens(
        embeddings=embeddings,
        isometric=fields["isometric"] is True,
        relative=_number(fields["relative"], 0),
        absolute=_number(fields["absolute"], 0),
        scale=_positive(fields["scale"]),
        whiteners=_shaped(arrays["whiteners"], shape) if whitened else None,
        axes=_shaped(arrays["axes"], shape) if PRINCIPAL in embeddings else None,
        filters=filters,
    )


def _network_out(network: Network, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(network, Discriminant):
        arrays["weight"], arrays["bias"] = network.weight, network.bias
        return {"kind": "discriminant"}
    assert isinstance(network, Transformers)
    for i, member in enumerate(network.members):
        for name in ("project", "offsets", "head"):
            arrays[f"{i}.{name}"] = getattr(member, name)
        for j, block in enumerate(member.blocks):
            for name in _BLOCK:
                if getattr(block, name) is not None:
                    arrays[f"{i}.{j}.{name}"] = getattr(block, name)
    first = network.members[0]
    return {
        "kind": "transformers",
        "members": len(network.members),
        "eps": [list(block.eps) for block in first.blocks],
        "n_heads": first.n_heads,
        "geometric": first.needs_bias,
        "alpha": network.alpha,
    }


def _network_in(fields: dict[str, Any], arrays: Arrays) -> Network:
    if _one_of(fields["kind"], ("discriminant", "transformers")) == "discriminant":
        weight = _shaped(arrays["weight"], (None, None, None))
        return Discriminant(weight, _shaped(arrays["bias"], weight.shape[2:]))
    members = [_transformer(f"{i}.", fields, arrays) for i in range(_count(fields["members"]))]
    alike = {(m.n_tokens, m.n_features, m.n_classes) for m in members}
    _require(len(alike) == 1, "its networks are not alike")
    return Transformers(tuple(members), _number(fields["alpha"]))


def _transformer(prefix: str, fields: dict[str, Any], arrays: Arrays) -> FoldedTransformer:
    dtype, n_heads = arrays[prefix + "project"].dtype, _count(fields["n_heads"])

    def taken(name: str, *shape: int | None) -> NDArray[Any]:
        array = _shaped(arrays[prefix + name], shape)
        _require(array.dtype == dtype, "its numbers are of several kinds")
        return stored(array, dtype)

    project = taken("project", None, None)
    d = len(project)
    _require(d % n_heads == 0, "its width is no multiple of its heads")
    offsets = taken("offsets", d, None)
    several = offsets.shape[1] > 1
    hidden = len(arrays[f"{prefix}0.expand"])
    blocks = []
    for j, (first, second) in enumerate(fields["eps"]):
        # The first mix of a single token is part of the projection.
        mixes = several or j > 0
        blocks.append(
            FoldedBlock(
                attend=taken(f"{j}.attend", 3 * d, d + 1) if several else None,
                mix=taken(f"{j}.mix", d, 2 * d + 1 if several else d + 1) if mixes else None,
                expand=taken(f"{j}.expand", hidden, d + 1),
                contract=taken(f"{j}.contract", d, d + 1 + hidden),
                eps=(_number(first, 0), _number(second, 0)),
            )
        )
    head, geometric = taken("head", None, d + 1), fields["geometric"] is True
    return FoldedTransformer(project, offsets, tuple(blocks), head, n_heads, geometric)
