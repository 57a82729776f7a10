"""A decoder as a file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .claims import check_matrices, check_trials, is_tried, names
from .container import packed, unpacked
from .decoder import Decoder
from .errors import DecoderError
from .networks import Discriminant, Network, Transformers
from .signals import ESTIMATORS, Front, Prototype
from .tokens import AT_REFERENCE, EMBEDDINGS, FILTERED, PRINCIPAL, Tokens
from .transformer import FoldedBlock, FoldedTransformer, stored

#: Of the file; 2 if bands are decimated, which older versions do not know. Files of another number
#: are refused: what they mean may have changed.
FORMATS = (1, 2)
Arrays = Mapping[str, NDArray[Any]]
_BLOCK = ("attend", "mix", "expand", "contract")


def model_bytes(decoder: Decoder) -> bytes:
    """The contents of a model file."""
    arrays: dict[str, NDArray[Any]] = {}
    config = {
        "format": FORMATS[decoder.front is not None and decoder.front.decimated is not None],
        "classes": names(list(decoder.classes), "class"),
        "ch_names": names(list(decoder.ch_names), "channel"),
        "sfreq": decoder.sfreq,
        "tmin": decoder.tmin,
        "unit_in_volts": decoder.unit_in_volts,
        "shape": list(decoder.shape),
        "front": None
        if decoder.front is None
        else _front_out(decoder.front, arrays, len(decoder.ch_names), decoder.shape),
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
            decoder = _decoder(config, _Used(arrays))
            _try_out(decoder)
    except DecoderError as error:
        raise DecoderError(f"{path} does not describe a model that works: {error}") from error
    # Whatever else is wrong with what a file says shows as one of these.
    except (
        *(KeyError, IndexError, AttributeError, TypeError, ValueError),
        *(ArithmeticError, MemoryError),
    ) as error:
        raise DecoderError(
            f"{path} does not describe a model that works ({type(error).__name__}: {error}). "
            "Nothing of it was used; make it anew with `spdtokens train`."
        ) from error
    if onnx is None:
        return decoder
    from .onnx_network import OnnxNetwork, file_digest

    network = OnnxNetwork(
        Path(onnx), decoder.network, file_digest(path), decoder.classes, onnx_threads
    )
    return replace(decoder, network=network)


class _Used(dict[str, NDArray[Any]]):
    """Arrays of a file, all of which must be finite."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise DecoderError(f"its array {name!r} has values that are not numbers.")


def _decoder(config: dict[str, Any], arrays: Arrays) -> Decoder:
    classes, ch_names = names(config["classes"], "class"), names(config["ch_names"], "channel")
    shape = tuple(_count(n) for n in config["shape"])
    if len(classes) < 2 or len(shape) != 3 or shape[1] != shape[2]:
        raise DecoderError("it has fewer than two classes, or matrices that are not square.")
    tokens = _tokens_in(config["tokens"], arrays, shape)
    network = _network_in(config["network"], arrays)
    # What is told three times must agree before anything of that size is computed.
    d = shape[1]
    if network.shape != (shape[0] * len(tokens.embeddings), d * (d + 1) // 2, len(classes)):
        raise DecoderError("its parts do not fit together.")
    check_matrices(shape, network, sum(array.size for array in arrays.values()))
    front = config["front"]
    if front is not None:
        front = _front_in(front, arrays, len(ch_names), shape)
    sfreq, unit = (
        _number(config[k], positive=True, may_miss=True) for k in ("sfreq", "unit_in_volts")
    )
    recentring = _shaped(arrays["recentring"], shape) if config["recentred"] is True else None
    about, steps = config["about"], config.get("steps", [])  # which version 0.1 did not write
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise DecoderError("its steps are not those of a pipeline.")
    if (front is None) != (sfreq is None) or not isinstance(about, dict):
        raise DecoderError("it says neither of which signals nor of which matrices it is.")
    return Decoder(
        classes=classes,
        ch_names=ch_names,
        sfreq=sfreq,
        tmin=_number(config["tmin"]),  # type: ignore[arg-type]
        unit_in_volts=unit,
        front=front,
        tokens=tokens,
        network=network,
        shape=shape,
        recentring=recentring,
        about=about,
        steps=steps,
    )


def _try_out(decoder: Decoder) -> None:
    """Decode a made-up trial: what does not work shows now, not in the middle of a session.

    The shapes of all parts have been checked. Trials that are very long are not made up; the model
    is then tried out from the covariances on.
    """
    C = np.broadcast_to(np.eye(decoder.shape[-1]), (1, *decoder.shape))
    front, channels = decoder.front, len(decoder.ch_names)
    if front and is_tried(front.length, channels * (1 + len(front.delays)), decoder.shape):
        rng = np.random.default_rng(0)
        C = decoder.covariances(rng.standard_normal((1, channels, front.n_samples)))
    found = decoder.session().decide(C[0])
    if C.shape[1:] != decoder.shape or found.shape != (len(decoder.classes),):
        raise DecoderError("its parts do not fit together.")
    if not abs(found.sum() - 1) < 1e-3:
        raise DecoderError("its probabilities are none.")


def _front_out(
    front: Front, arrays: dict[str, NDArray[Any]], channels: int, shape: tuple[int, ...]
) -> dict[str, Any]:
    # What could not be read is not written.
    rows = channels * (1 + len(front.delays))
    check_trials(front.n_samples, front.length, front.filtering, front.sections, rows, shape)
    if front.other is not None:
        raise DecoderError(
            f"A model with estimator={front.covariance!r} cannot be saved: model files have "
            f"{', '.join(ESTIMATORS)}."
        )
    fields = asdict(front)
    del fields["other"]
    for i, sos in enumerate(front.sections):
        if sos is not None:
            arrays[f"filter.{i}"] = sos
    for i, prototype in enumerate(front.prototypes):
        arrays[f"prototype.{i}.averages"] = prototype.averages
        if prototype.filters is not None:
            arrays[f"prototype.{i}.filters"] = prototype.filters
    fields["sections"] = [sos is not None for sos in front.sections]
    fields["prototypes"] = [prototype.scale for prototype in front.prototypes]
    return fields


def _front_in(
    fields: dict[str, Any], arrays: Arrays, channels: int, shape: tuple[int, ...]
) -> Front:
    n = _count(fields["n_samples"])
    pad, length = _count(fields["pad"], 0), _count(fields["length"])
    filtering = _one_of(fields["filtering"], ("zero-phase", "causal"))
    least = n + 2 * pad if filtering == "zero-phase" else n
    if not (pad < n and least <= length <= 10 * n + 1000):
        raise DecoderError("its trials or filters have an impossible length.")
    decimated = fields.get("decimated")
    if decimated is not None:
        decimated = [_count(new) for new in decimated]
        if filtering == "causal" or len(decimated) != len(fields["sections"]):
            raise DecoderError("its decimated bands do not fit its filters.")
        if max(decimated) > length:
            raise DecoderError("its trials or filters have an impossible length.")
    slices = tuple((_count(a, 0), _count(b)) for a, b in fields["slices"])
    delays = tuple(_count(delay) for delay in fields["delays"])
    covariance = _one_of(fields["covariance"], ESTIMATORS)
    # Of one sample there is no sample covariance.
    least = 2 if covariance == "sample" else 1
    if any(not a + least <= b <= n for a, b in slices) or any(delay >= n for delay in delays):
        raise DecoderError("its windows or delays lie outside its trials.")
    sections = [
        _shaped(arrays[f"filter.{i}"], (None, 6)) if filtered is True else None
        for i, filtered in enumerate(fields["sections"])
    ]
    passes_offset = [passes is True for passes in fields["passes_offset"]]
    scales = [_number(scale, positive=True) for scale in fields["prototypes"]]
    rows = channels * (1 + len(delays))
    prototypes = tuple(
        _prototype(arrays, i, float(scale), rows, slices[i % len(slices)])
        for i, scale in enumerate(scales)
        if scale is not None
    )
    n_matrices = len(sections) * len(slices)
    if len(prototypes) != (n_matrices if covariance in ("erp", "xdawn") else 0):
        raise DecoderError("its class averages are not one a matrix.")
    sizes = {p.size(rows) for p in prototypes} or {rows}
    if n_matrices != shape[0] or sizes != {shape[1]} or len(passes_offset) != len(sections):
        raise DecoderError("its parts do not fit together.")
    check_trials(n, length, filtering, sections, rows, shape)
    return Front(
        n_samples=n,
        filtering=filtering,
        sections=sections,
        passes_offset=passes_offset,
        pad=pad,
        length=length,
        slices=slices,
        delays=delays,
        covariance=covariance,
        prototypes=prototypes,
        relative=_number(fields["relative"], least=0),  # type: ignore[arg-type]
        absolute=_number(fields["absolute"], least=0),  # type: ignore[arg-type]
        scale=_number(fields["scale"], positive=True),  # type: ignore[arg-type]
        decimated=decimated,
    )


def _prototype(
    arrays: Arrays, i: int, scale: float, rows: int, window: tuple[int, int]
) -> Prototype:
    averages = _shaped(arrays[f"prototype.{i}.averages"], (None, window[1] - window[0]))
    filters = arrays.get(f"prototype.{i}.filters")
    return Prototype(averages, None if filters is None else _shaped(filters, (None, rows)), scale)


def _tokens_out(tokens: Tokens, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    fields = asdict(tokens)
    for name in ("whiteners", "axes", "filters"):
        found = fields.pop(name)
        if found is not None:
            arrays[name] = np.asarray(found)
    return fields


def _tokens_in(fields: dict[str, Any], arrays: Arrays, shape: tuple[int, ...]) -> Tokens:
    embeddings = tuple(_one_of(name, EMBEDDINGS) for name in fields["embeddings"])
    seen = any(name in AT_REFERENCE for name in embeddings)
    along = PRINCIPAL in embeddings
    return Tokens(
        embeddings=embeddings,
        isometric=fields["isometric"] is True,
        relative=_number(fields["relative"], least=0),  # type: ignore[arg-type]
        absolute=_number(fields["absolute"], least=0),  # type: ignore[arg-type]
        scale=_number(fields["scale"], positive=True),  # type: ignore[arg-type]
        whiteners=_shaped(arrays["whiteners"], shape) if seen else None,
        axes=_shaped(arrays["axes"], shape) if along else None,
        filters=_filters_in(arrays["filters"], shape) if FILTERED in embeddings else None,
    )


def _filters_in(filters: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if not 1 <= _shaped(filters, (shape[0], None, shape[2])).shape[1] <= shape[2]:
        raise DecoderError(f"an array has shape {filters.shape}.")
    return filters


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
    eps = [tuple(_number(e, least=0) for e in pair) for pair in fields["eps"]]
    heads = _count(fields["n_heads"])
    members = tuple(
        _transformer(f"{i}.", eps, heads, fields["geometric"] is True, arrays)
        for i in range(_count(fields["members"]))
    )
    if len({(m.n_tokens, m.n_features, m.n_classes) for m in members}) > 1:
        raise DecoderError("its networks are not alike.")
    return Transformers(members, _number(fields["alpha"]))  # type: ignore[arg-type]


def _transformer(
    prefix: str, eps: list[Any], n_heads: int, geometric: bool, arrays: Arrays
) -> FoldedTransformer:
    dtype = arrays[prefix + "project"].dtype

    def taken(name: str, *shape: int | None) -> NDArray[Any]:
        array = _shaped(arrays[prefix + name], shape)
        if array.dtype != dtype:
            raise DecoderError("its numbers are of several kinds.")
        return stored(array, dtype)

    project = taken("project", None, None)
    d = len(project)
    offsets = taken("offsets", d, None)
    if d % n_heads:
        raise DecoderError("its width is no multiple of its heads.")
    several = offsets.shape[1] > 1
    hidden = len(arrays[f"{prefix}0.expand"])
    blocks = []
    for j, (first, second) in enumerate(eps):
        # The first mix of a single token is part of the projection.
        mixes = several or j > 0
        blocks.append(
            FoldedBlock(
                attend=taken(f"{j}.attend", 3 * d, d + 1) if several else None,
                mix=taken(f"{j}.mix", d, 2 * d + 1 if several else d + 1) if mixes else None,
                expand=taken(f"{j}.expand", hidden, d + 1),
                contract=taken(f"{j}.contract", d, d + 1 + hidden),
                eps=(first, second),
            )
        )
    head = taken("head", None, d + 1)
    return FoldedTransformer(project, offsets, tuple(blocks), head, n_heads, geometric)


def _one_of(value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise DecoderError(f"{value!r} is none of {', '.join(known)}.")
    return value


def _count(value: Any, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise DecoderError(f"{value!r} is no whole number from {least}.")
    return value


def _number(
    value: Any, *, least: float | None = None, positive: bool = False, may_miss: bool = False
) -> float | None:
    if value is None and may_miss:
        return None
    fits = type(value) in (int, float) and np.isfinite(value)
    if not fits or (least is not None and value < least) or (positive and value <= 0):
        raise DecoderError(f"{value!r} is not a number that can stand there.")
    return float(value)


def _shaped(array: NDArray[Any], shape: tuple[int | None, ...]) -> NDArray[Any]:
    wrong = any(want is not None and want != n for want, n in zip(shape, array.shape, strict=False))
    if array.ndim != len(shape) or wrong:
        raise DecoderError(f"an array has shape {array.shape}.")
    return array
