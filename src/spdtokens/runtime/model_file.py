"""Write a decoder to a model file and read it back, without trusting the file.

A model file contains arrays and one JSON text, in the safetensors format: an 8-byte length, a JSON
header of that length with the dtype, shape and offsets of each array, and the bytes of the arrays.
The package ``safetensors`` reads it, too; here NumPy is enough. Our JSON text is stored in the
header's ``__metadata__``, with a checksum of everything else. Nothing in such a file is executed.
Sizes are checked before anything of that size is allocated, so that a small file cannot take
seconds or fill the memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
    SpatialFilters,
    Transformers,
    file_digest,
)
from .signals import ESTIMATORS, Front, Prototype
from .tokens import AT_REFERENCE, EMBEDDINGS, FILTERED, PRINCIPAL, DecoderError, Reference, Tokens

#: Known formats. Format 2 has decimated bands, format 3 interpolated channels, spatial filters,
#: references shared by windows, or means over time; files of any other format are refused.
FORMATS = (1, 2, 3)
#: Keys of the JSON text and of the checksum in ``__metadata__``.
TEXT, CHECKSUM = "spdtokens", "sha256"
#: Maximum header size in bytes. Real models have about 10 kB; parsed, JSON can take 20 times that.
LARGEST_HEADER = 2_000_000
DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4")}
#: Maximum number of samples per padded trial, and of values per trial in all bands.
MOST_SAMPLES, MOST_VALUES = 1 << 18, 30_000_000
#: Maximum of samples x sections: for one filter, all filters, all causal filters.
MOST_OF_FILTER, MOST_OF_FILTERS, MOST_OF_CAUSAL = 1 << 21, 1 << 23, 1 << 21
#: Maximum number of values in a trial's matrices or in attention between its tokens: a constant, or
#: a multiple of the number of values stored in the file, whichever is larger.
ANY_FILE, TIMES_OWN = 1 << 20, 16
#: Maximum number of trials that the start of a reference counts for.
MOST_START = 10_000
#: Maximum number of values in all bands of the random trial on which a loaded model is tested.
TRIED = 1 << 20
#: Exceptions that unexpected contents can raise (RecursionError: JSON nested too deeply).
FAULTS = (
    *(LookupError, AttributeError, TypeError, ValueError, ArithmeticError, MemoryError),
    *(RecursionError, struct.error),
)

Arrays = Mapping[str, NDArray[Any]]
Shape = tuple[int, ...]


def packed(text: str, arrays: Arrays) -> bytes:
    """Return the contents of a file with a JSON text and arrays of float32 or float64."""
    header: dict[str, Any] = {}
    kinds = {dtype: name for name, dtype in DTYPES.items()}
    data = bytearray()
    for name, array in sorted(arrays.items()):
        # Not ascontiguousarray, which adds an axis to a scalar.
        block = np.asarray(array, order="C").tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(block)],
        }
        data += block
    header["__metadata__"] = {TEXT: text, CHECKSUM: _checksum(text, header, data)}
    encoded = json.dumps(header, sort_keys=True).encode()
    encoded += b" " * (-len(encoded) % 8)  # the format aligns arrays to 8 bytes
    return struct.pack("<Q", len(encoded)) + encoded + data


def unpacked(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the parsed JSON text and the arrays of a model file, or raise one of ``FAULTS``."""
    size = path.stat().st_size
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        _require(
            2 <= length <= min(LARGEST_HEADER, size - 8),
            "the header is longer than the file, or than allowed",
        )
        header, data = json.loads(file.read(length)), file.read()
    metadata = header.pop("__metadata__")
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: tuple(item[1]["data_offsets"])):
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        first, last = entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, first, last))
        # The format requires arrays without gaps, so that no bytes are hidden between them.
        fits = whole and first == end and last - first == math.prod(shape) * dtype.itemsize
        _require(fits, f"array {name!r} does not match its offsets in the header")
        arrays[name] = np.frombuffer(data[first:last], dtype).reshape(shape)
        end = last
    _require(end == len(data), "the file is longer or shorter than its arrays")
    checksum = _checksum(metadata[TEXT], header, data)
    _require(metadata[CHECKSUM] == checksum, "the checksum does not match the contents")
    return json.loads(metadata[TEXT]), arrays


def _checksum(text: str, header: Mapping[str, Any], data: bytes | bytearray) -> str:
    digest = hashlib.sha256(json.dumps([text, header], sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def model_bytes(decoder: Decoder) -> bytes:
    """Return the contents of a model file.

    Parameters
    ----------
    decoder : Decoder
        The model to store.

    Returns
    -------
    bytes
        Contents of an ``.spdt`` file.

    Raises
    ------
    DecoderError
        If a class or channel name is not printable or not unique, if trials or filters are too
        large, or if the covariance estimator is not available in the runtime.

    See Also
    --------
    load_model : Read a model file.
    spdtokens.save_model : Write a decoder or a fitted pipeline to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenDiscriminantClassifier
    >>> from spdtokens.inference import as_decoder
    >>> C = np.stack([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])] * 10)
    >>> classifier = TokenDiscriminantClassifier().fit(C, [0, 1] * 10)
    >>> contents = model_bytes(as_decoder(classifier, ch_names=("C3", "C4")))
    >>> b"TokenDiscriminantClassifier" in contents
    True
    """
    arrays: dict[str, NDArray[Any]] = {}
    front = decoder.front
    config = _checked(vars(decoder), _DECODER) | {
        "format": _format(decoder),
        "front": None if front is None else _front_out(front, arrays, decoder),
        "tokens": _checked(vars(decoder.tokens), _TOKENS),
        "network": _network_out(decoder.network, arrays),
        "recentred": decoder.recentring is not None,
        "reference": _checked(vars(decoder.reference), _REFERENCE),
    }
    if decoder.interpolation is not None:
        config["interpolated"] = True
    if decoder.proportions is not None:
        config["start"] = decoder.start
    _put(decoder, "", arrays)
    _put(decoder.tokens, "", arrays)
    # NaN is not valid JSON: other programs could not read it.
    return packed(json.dumps(config, allow_nan=False), arrays)


def _format(decoder: Decoder) -> int:
    """Return the lowest format that describes a model, for versions that know only this."""
    front = decoder.front
    new = (
        isinstance(decoder.network, SpatialFilters),
        decoder.reference != Reference(),
        decoder.interpolation is not None,
        decoder.proportions is not None,
        front is not None and front.n_means > 0,
    )
    if any(new):
        return 3
    return 2 if front is not None and front.decimated is not None else 1


def load_model(
    path: str | Path, onnx: str | Path | None = None, *, onnx_threads: int = 1
) -> Decoder:
    """Load a model file (``.spdt``).

    Only numbers and names are read; nothing in a file is executed. Requires only NumPy.

    Parameters
    ----------
    path : str or Path
        The model file, written by ``spdtokens train`` or :func:`spdtokens.save_model`.
    onnx : str or Path, optional
        ONNX file that ``spdtokens export`` wrote for this model file. If given, ONNX Runtime
        computes the network; it must be installed.
    onnx_threads : int, default=1
        Number of threads of ONNX Runtime.

    Returns
    -------
    Decoder
        The model, with ``predict`` and ``predict_proba``.

    Raises
    ------
    DecoderError
        If the file is damaged, is not a model file, or was written in a format that this version
        does not know; if the ONNX file belongs to another model.
    OSError
        If the file does not exist or cannot be read.

    See Also
    --------
    spdtokens.load_pipeline : Load a model file as a scikit-learn pipeline.
    spdtokens.save_model : Write a model file.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_model, make_decoder, save_model
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/model.spdt"
    ...     save_model(pipeline, path, ch_names=("C3", "Cz", "C4"), classes=("left", "right"))
    ...     decoder = load_model(path)
    >>> decoder.predict_proba(X).shape
    (20, 2)
    """
    path = Path(path)
    try:
        with np.errstate(all="ignore"):  # the output is checked
            decoder = _decoder(*unpacked(path))
            _try_out(decoder)
    except FAULTS as error:
        why = error if isinstance(error, DecoderError) else f"{type(error).__name__}: {error}"
        raise DecoderError(
            f"{path} is not a valid model file ({why}). Copy the file again, or train the model "
            "again with `spdtokens train`."
        ) from error
    if onnx is None:
        return decoder
    digest = file_digest(path)
    network = OnnxNetwork(Path(onnx), decoder.network, digest, decoder.classes, onnx_threads)
    return replace(decoder, network=network)


def names(values: Any, what: str) -> tuple[str, ...]:
    """Check class or channel names: printable, so that a terminal can show them, and unique.

    Parameters
    ----------
    values : list or tuple of str
        The names.
    what : {'class', 'channel'}
        What they name, for the error message.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    DecoderError
        If there is no name, or one is not printable or not unique.
    """
    if not isinstance(values, list | tuple) or not values:
        raise DecoderError(f"{what} names must be a list of names, got {values!r}.")
    wrong = [v for v in values if not isinstance(v, str) or not v.isprintable()]
    wrong = wrong or [value for value, count in Counter(values).items() if count > 1]
    if wrong:
        raise DecoderError(
            f"{what} names must be printable and unique, got {wrong[0]!r}. Rename it."
        )
    return tuple(values)


def _require(fits: object, message: str) -> None:
    if not fits:
        raise DecoderError(message)


def _one_of(value: Any, known: Sequence[str]) -> str:
    _require(
        isinstance(value, str) and value in known, f"{value!r} must be one of {', '.join(known)}"
    )
    return str(value)


def _count(value: Any, least: int = 1) -> int:
    _require(type(value) is int and value >= least, f"{value!r} must be an integer >= {least}")
    return int(value)


def _number(value: Any, least: float = -math.inf) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    _require(
        known and math.isfinite(value) and value >= least,
        f"{value!r} must be a finite number >= {least}",
    )
    return float(value)


def _optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _mapping(value: Any) -> dict[str, Any]:
    _require(isinstance(value, Mapping), f"{value!r} must be a mapping")
    return dict(value)


_positive = partial(_number, least=math.ulp(0.0))
Checks = Mapping[str, Callable[[Any], Any]]
#: How to check the fields that are not arrays, when a file is written and when it is read.
_DECODER: Checks = {
    "classes": partial(names, what="class"),
    "ch_names": partial(names, what="channel"),
    "sfreq": _optional(_positive),
    "tmin": _number,
    "unit_in_volts": _optional(_positive),
    "shape": lambda values: tuple(map(_count, values)),
    "about": _mapping,
    # Files of version 0.1 have none.
    "steps": lambda values: [_mapping(value) for value in values or ()],
}
_SIZES: Checks = {
    "relative": partial(_number, least=0),
    "absolute": partial(_number, least=0),
    "scale": _positive,
}
#: Files of versions before 0.3 have none: ``Reference()``.
_REFERENCE: Checks = {
    "metric": partial(_one_of, known=("riemann", "euclid")),
    "n_windows": _count,
    "shrinkage": partial(_number, least=0),
    "n_means": lambda value: 0 if value is None else _count(value, 0),
}
_TOKENS: Checks = {
    "embeddings": lambda values: tuple(_one_of(value, EMBEDDINGS) for value in values),
    "isometric": lambda value: value is True,
    **_SIZES,
}
_FRONT: Checks = {
    "n_samples": _count,
    "filtering": partial(_one_of, known=("zero-phase", "causal")),
    "passes_offset": lambda values: [value is True for value in values],
    "pad": partial(_count, least=0),
    "length": _count,
    "slices": lambda pairs: tuple((_count(a, 0), _count(b)) for a, b in pairs),
    "delays": lambda values: tuple(map(_count, values)),
    "covariance": partial(_one_of, known=ESTIMATORS),
    "decimated": _optional(lambda values: tuple(map(_count, values))),  # not in format 1
    "n_means": lambda value: 0 if value is None else _count(value, 0),  # in format 3
    **_SIZES,
}


def _checked(fields: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    found = {}
    for name, check in checks.items():
        try:
            found[name] = check(fields.get(name))
        except FAULTS as error:
            raise DecoderError(f"{name}: {error}") from error
    return found


def _shaped(arrays: Arrays, name: str, *shape: int | None) -> NDArray[Any]:
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        want in (None, n) for want, n in zip(shape, array.shape, strict=True)
    )
    _require(fits, f"array {name!r} must have shape {shape}, got {array.shape}")
    return array


def _decoder(config: dict[str, Any], arrays: Arrays) -> Decoder:
    made = config["format"]
    _require(
        made in FORMATS,
        f"format must be one of {FORMATS}, got {made!r}; use the version that wrote the file",
    )
    for name, array in arrays.items():
        _require(np.isfinite(array).all(), f"array {name!r} contains NaN or infinite values")
    fields, front = _checked(config, _DECODER), config["front"]
    m, d, _ = shape = fields["shape"]
    _require(
        d == shape[2] and (front is None) == (fields["sfreq"] is None),
        "matrices must be square, and only models of signals have a sampling rate",
    )
    tokens = _tokens_in(config["tokens"], arrays, shape)
    n_tokens, n_classes = m * len(tokens.embeddings), len(fields["classes"])
    network = _network_in(config["network"], arrays, (n_tokens, d * (d + 1) // 2, n_classes))
    held, pairs = sum(array.size for array in arrays.values()), 0
    if isinstance(network, Transformers):
        first = network.members[0]
        pairs = n_tokens**2 * max(first.n_heads, d * d // 2 if first.needs_bias else 0)
    _require(
        max(m * d * d, pairs) <= max(ANY_FILE, TIMES_OWN * held),
        f"{m} matrices of {d} rows are too many for a file of {held} numbers",
    )
    channels = len(fields["ch_names"])
    reference = Reference()
    if config.get("reference") is not None:
        reference = Reference(**_checked(config["reference"], _REFERENCE))
    _require(
        m % reference.n_windows == 0 and reference.shrinkage < 1 and reference.n_means < d,
        "n_windows and shrinkage of the reference do not fit the matrices",
    )
    seen = d - reference.n_means
    references = (m // reference.n_windows, seen, seen)
    recentred = config["recentred"] is True
    W = None
    if config.get("interpolated") is True:
        means = d - len(arrays["interpolation"])  # rows that are not interpolated
        _require(0 <= means < d, "interpolation and matrices do not match")
        W = _shaped(arrays, "interpolation", None, channels)
    rows = (m, d, d) if W is None else (m, means + channels, means + channels)
    proportions = _shaped(arrays, "proportions", n_classes) if "proportions" in arrays else None
    _require(
        proportions is None
        or (recentred and proportions.min() > 0 and abs(proportions.sum() - 1) < 1e-6),
        "proportions must be positive, sum to one, and belong to a recentred model",
    )
    start = 1 if proportions is None else _count(config.get("start"))
    _require(start <= MOST_START, f"start must be <= {MOST_START}, got {start}")
    return Decoder(
        **fields,
        front=None if front is None else _front_in(front, arrays, channels, rows),
        tokens=tokens,
        network=network,
        recentring=_shaped(arrays, "recentring", *references) if recentred else None,
        reference=reference,
        interpolation=W,
        proportions=proportions,
        start=start,
    )


def _try_out(decoder: Decoder) -> None:
    """Decode a random trial, so that a broken model is refused now and not during a session.

    All shapes have been checked before. If trials are very long, the test starts from covariances.
    """
    shape, front, channels = decoder.shape, decoder.front, len(decoder.ch_names)
    C = np.broadcast_to(np.eye(shape[-1]), (1, *shape))
    if front is not None:
        rows = max(channels * (1 + len(front.delays)), shape[0] * shape[1])
        if front.length * rows <= TRIED:
            rng = np.random.default_rng(0)
            C = decoder.covariances(rng.standard_normal((1, channels, front.n_samples)))
    found = decoder.session().decide(C[0])
    fits = C.shape[1:] == shape and found.shape == (len(decoder.classes),) and len(found) > 1
    _require(
        fits and abs(found.sum() - 1) < 1e-3,
        "there must be probabilities of two classes or more that sum to one",
    )


def _put(part: object, prefix: str, arrays: dict[str, NDArray[Any]]) -> None:
    """Add all array attributes of ``part`` to ``arrays``, under their names."""
    found = {name: value for name, value in vars(part).items() if isinstance(value, np.ndarray)}
    arrays.update({prefix + name: array for name, array in found.items()})


def _check_size(front: Mapping[str, Any], channels: int, shape: Shape) -> None:
    """Refuse trials and filters that are too large."""
    n, length, causal = front["n_samples"], front["length"], front["filtering"] == "causal"
    rows = channels * (1 + len(front["delays"]))
    orders = [0 if sos is None else len(sos) for sos in front["sections"]]
    _require(
        length <= MOST_SAMPLES
        and length * max(rows, shape[0] * shape[1]) <= MOST_VALUES
        and length * max(orders) <= MOST_OF_FILTER
        and length * sum(orders) <= MOST_OF_FILTERS
        and not (causal and n * sum(orders) > MOST_OF_CAUSAL),
        f"trials of {n} samples ({length} with padding), {rows} rows and {len(orders)} bands are "
        "too large for a model file. Train on shorter trials or at a lower sampling rate.",
    )


def _front_out(front: Front, arrays: dict[str, NDArray[Any]], decoder: Decoder) -> dict[str, Any]:
    _require(
        front.other is None,
        f"estimator must be one of {', '.join(ESTIMATORS)} to save a model, got "
        f"{front.covariance!r}.",
    )
    # Do not write what could not be read back.
    _check_size(vars(front), len(decoder.ch_names), decoder.shape)
    for i, sos in enumerate(front.sections):
        if sos is not None:
            arrays[f"filter.{i}"] = sos
    for i, prototype in enumerate(front.prototypes):
        _put(prototype, f"prototype.{i}.", arrays)
    return _checked(vars(front), _FRONT) | {
        "sections": [sos is not None for sos in front.sections],
        "prototypes": [prototype.scale for prototype in front.prototypes],
    }


def _front_in(fields: dict[str, Any], arrays: Arrays, channels: int, shape: Shape) -> Front:
    front = _checked(fields, _FRONT)
    n, length, slices, decimated = (
        front[k] for k in ("n_samples", "length", "slices", "decimated")
    )
    zero_phase, pad = front["filtering"] == "zero-phase", front["pad"]
    shortest = 2 if front["covariance"] == "sample" else 1  # samples needed for a covariance
    _require(
        pad < n
        and (n + 2 * pad if zero_phase else n) <= length <= 10 * n + 1000
        and all(a + shortest <= b <= n for a, b in slices)
        and max(front["delays"], default=0) < n
        and (decimated is None or (zero_phase and max(decimated) <= length)),
        "n_samples, pad, length, slices, delays and decimated contradict each other",
    )
    front["sections"] = sections = [
        _shaped(arrays, f"filter.{i}", None, 6) if filtered is True else None
        for i, filtered in enumerate(fields["sections"])
    ]
    _check_size(front, channels, shape)
    rows, prototypes = channels * (1 + len(front["delays"])), []
    for i, scale in enumerate(fields["prototypes"]):
        start, stop = slices[i % len(slices)]
        averages = _shaped(arrays, f"prototype.{i}.averages", None, stop - start)
        name = f"prototype.{i}.filters"
        filters = _shaped(arrays, name, None, rows) if name in arrays else None
        prototypes.append(Prototype(averages, filters, _positive(scale)))
    averaged, means = front["covariance"] in ("erp", "xdawn"), front["n_means"]
    _require(
        len(sections) * len(slices) == shape[0]
        and len(prototypes) == (shape[0] if averaged else 0)
        and {p.size(rows) for p in prototypes} | (set() if averaged else {rows + means})
        == {shape[1]}
        and (means == 0 or (not averaged and means <= min(b - a for a, b in slices)))
        and len(front["passes_offset"]) == len(sections) == len(decimated or sections),
        "bands, windows, class averages and matrices do not match",
    )
    return Front(**front, prototypes=tuple(prototypes))


def _tokens_in(fields: dict[str, Any], arrays: Arrays, shape: Shape) -> Tokens:
    checked = _checked(fields, _TOKENS)
    uses = set(checked["embeddings"])
    filters = _shaped(arrays, "filters", shape[0], None, shape[2]) if FILTERED in uses else None
    if filters is not None:
        k = filters.shape[1]
        _require(1 <= k <= shape[2], f"array 'filters' has {k} filters for {shape[2]} channels")
    return Tokens(
        **checked,
        whiteners=_shaped(arrays, "whiteners", *shape) if uses & set(AT_REFERENCE) else None,
        axes=_shaped(arrays, "axes", *shape) if PRINCIPAL in uses else None,
        filters=filters,
    )


def _network_out(network: Network, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(network, Discriminant):
        _put(network, "", arrays)
        return {"kind": "discriminant"}
    if isinstance(network, SpatialFilters):
        _put(network, "network.", arrays)
        return {"kind": "spatial filters", "eps": network.eps, "step": network.step}
    assert isinstance(network, Transformers)
    for i, member in enumerate(network.members):
        _put(member, f"{i}.", arrays)
        for j, block in enumerate(member.blocks):
            _put(block, f"{i}.{j}.", arrays)
    first = network.members[0]
    return {
        "kind": "transformers",
        "members": len(network.members),
        "eps": [list(block.eps) for block in first.blocks],
        "n_heads": first.n_heads,
        "geometric": first.needs_bias,
        "alpha": network.alpha,
    }


def _network_in(fields: dict[str, Any], arrays: Arrays, shape: Shape) -> Network:
    """Read a network with ``shape`` tokens, features and classes."""
    kind = _one_of(fields["kind"], ("discriminant", "transformers", "spatial filters"))
    if kind == "discriminant":
        return Discriminant(_shaped(arrays, "weight", *shape), _shaped(arrays, "bias", shape[2]))
    if kind == "spatial filters":
        return _filters(fields, arrays, shape)
    n = _count(fields["members"])
    members = tuple(_transformer(f"{i}.", fields, arrays, shape) for i in range(n))
    return Transformers(members, _number(fields["alpha"]))


def _filters(fields: dict[str, Any], arrays: Arrays, shape: Shape) -> SpatialFilters:
    tokens, features, classes = shape
    filters = _shaped(arrays, "network.filters", None, None, None, None)
    members, bands, d, k = filters.shape
    _require(bands and tokens % bands == 0, "bands of filters and matrices do not match")
    weight = _shaped(arrays, "network.weight", members, bands, tokens // bands, k, classes)
    step = _count(fields["step"])
    used = -(-(tokens // bands) // step)
    means = _shaped(arrays, "network.means", members, used, None, d, classes)
    rows = d + means.shape[2]
    _require(rows * (rows + 1) // 2 == features, "filters and matrices do not match")
    bias = _shaped(arrays, "network.bias", members, classes)
    return SpatialFilters(filters, weight, means, bias, _positive(fields["eps"]), step)


def _transformer(
    prefix: str, fields: dict[str, Any], arrays: Arrays, shape: Shape
) -> FoldedTransformer:
    tokens, features, classes = shape
    several, n_heads = tokens > 1, _count(fields["n_heads"])

    def taken(name: str, *shape: int | None) -> NDArray[Any]:
        return _shaped(arrays, prefix + name, *shape)

    project = taken("project", None, features)
    d, hidden = len(project), len(arrays[f"{prefix}0.expand"])
    _require(d % n_heads == 0, f"d_model={d} must be divisible by n_heads={n_heads}")
    blocks = tuple(
        FoldedBlock(
            attend=taken(f"{j}.attend", 3 * d, d + 1) if several else None,
            # With a single token, the first mix is part of the projection.
            mix=taken(f"{j}.mix", d, d * (1 + several) + 1) if several or j > 0 else None,
            expand=taken(f"{j}.expand", hidden, d + 1),
            contract=taken(f"{j}.contract", d, d + 1 + hidden),
            eps=(_number(first, 0), _number(second, 0)),
        )
        for j, (first, second) in enumerate(fields["eps"])
    )
    offsets, head = taken("offsets", d, tokens), taken("head", classes, d + 1)
    geometric = fields["geometric"] is True
    made = FoldedTransformer(project, offsets, blocks, head, n_heads, geometric)
    return made.astype(project.dtype)  # one dtype, column-major for products with vectors
