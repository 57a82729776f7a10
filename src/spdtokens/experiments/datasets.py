"""The ``[[datasets]]`` of a study file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spdtokens.datasets import Selection
from spdtokens.datasets.official import OFFICIAL
from spdtokens.datasets.registry import DATASETS
from spdtokens.datasets.select import PARADIGMS
from spdtokens.experiments.reading import (
    CHANNELS,
    FACTS,
    NAMES,
    NUMBER,
    NUMBERS,
    PAIR,
    TEXT,
    Table,
    nearest,
)


def read_dataset(table: Table, folder: Path) -> dict[str, Any]:
    """What a question asks of its data; what is wrong is added to the table's problems."""
    selected = {
        "paradigm": TEXT,
        "stimulus_hz": NUMBERS,
        "window": PAIR,
        "classes": NAMES,
        "where": FACTS,
        "channels": CHANNELS,
        "resample": NUMBER,
    }
    table.only(("name", "subjects", *selected))
    table.needs("name")
    values = {
        key: table.get(key, kind)
        for key, kind in selected.items()
        if key in table.values and key != "paradigm"
    }
    values["paradigm"] = table.choice("paradigm", PARADIGMS)
    begin, end = values.get("window") or (0, 1)
    if begin >= end:
        table.wrong(f"the window ends at {end:g} s, before it begins at {begin:g} s.")
    if any(f <= 0 for f in values.get("stimulus_hz") or ()):
        table.wrong("stimulus_hz are frequencies above 0.")
    if (rate := values.get("resample")) is not None and rate <= 0:
        table.wrong(f"resample must be a rate above 0 Hz, got {rate:g}.")
    classes = [str(label) for label in values.get("classes") or ()]
    if classes and (len(set(classes)) < len(classes) or len(classes) < 2):
        table.wrong(f"name two or more different classes, not {', '.join(classes)}.")
    subjects = [str(subject) for subject in table.get("subjects", NAMES, [])]
    for subject in sorted({s for s in subjects if subjects.count(s) > 1}):
        table.wrong(f"subject {subject!r} is named twice.")
    given = {key: value for key, value in values.items() if value is not None}
    if "resample" in given:
        given["resample"] = float(given["resample"])
    for key in ("window", "stimulus_hz"):
        if key in given:
            given[key] = [float(value) for value in given[key]]  # 4 and 4.0 are one selection
    if classes:
        given["classes"] = classes
    return {
        "dataset": _data_name(table, folder),
        "selection": Selection.of(given),
        "subjects": tuple(subjects),
    }


def _data_name(table: Table, folder: Path) -> str:
    """A known name as it is; a path from the file's folder, in full."""
    name: str = table.get("name", TEXT, "")
    known = (*DATASETS, *OFFICIAL)
    if not name or name in known or name.startswith("moabb:"):
        return name
    try:
        return str((folder / Path(name).expanduser()).resolve(strict=True))
    except (OSError, RuntimeError):  # the latter: no such user, or a loop of links
        near = nearest(name, known)
        hint = f" Did you mean {near!r}?" if near else ""
        table.wrong(f"there is no data set {name!r}, and no file or folder {folder / name}.{hint}")
        return name
