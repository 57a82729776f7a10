"""Validate the docstrings of everything that the API reference lists, with numpydoc's checks.

``python docs/_docstrings.py [ROOM]`` prints one line per finding and exits with 1 if there is any.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

API = Path(__file__).parent / "api"
#: Extended summaries, where the first line begins, and descriptions in See Also.
LEFT_OUT = {"ES01", "GL01", "SA04"}
#: Examples and See Also are asked of classes and functions; a class shows its methods.
OF_WHOLE_OBJECTS = {"EX01", "SA01"}


def public_names() -> Iterator[str]:
    """Full names of all entries of the API reference."""
    for page in sorted(API.glob("*.rst")):
        module = ""
        inside = False
        for line in page.read_text().splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif line.startswith(".. autosummary::"):
                inside = True
            elif line and not line.startswith(" "):
                inside = False
            elif inside and line.strip() and not line.strip().startswith(":"):
                yield f"{module}.{line.strip()}"


def find(name: str) -> Any:
    """The object of a full name."""
    home, *parts = name.split(".")
    found: Any = import_module(home)
    for part in parts:
        if not hasattr(found, part):
            import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def findings(name: str) -> Iterator[str]:
    """What is wrong with the docstring of an object, and of the public methods a class defines."""
    value = find(name)
    # numpydoc imports by dotted path: that of the definition.
    home = f"{value.__module__}.{value.__qualname__}"
    parts = {name: (home, value, LEFT_OUT)}
    if inspect.isclass(value):
        for key, member in vars(value).items():
            if not key.startswith("_") and (
                inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
            ):
                found = (f"{home}.{key}", getattr(value, key), LEFT_OUT | OF_WHOLE_OBJECTS)
                parts[f"{name}.{key}"] = found
    for title, (path, part, left_out) in parts.items():
        for code, text in validate(path)["errors"]:
            if code not in left_out:
                yield f"{title}: {code} {text}"
        yield from (f"{title}: {text}" for text in own_findings(part))


def own_findings(value: Any) -> Iterator[str]:
    """Optional parameters without their default, and references without a DOI or an address."""
    text = NumpyDocString(inspect.getdoc(value) or "")
    try:
        signature = inspect.signature(value)
    except ValueError:  # an exception class without parameters of its own
        return
    given = signature.parameters.values()
    optional = {part.name for part in given if part.default is not part.empty}
    for parameter in text["Parameters"]:
        names = set(parameter.name.replace(",", " ").split())
        if names & optional and not re.search("default|optional", parameter.type):
            yield f"parameter {parameter.name} has no default in its type"
    for entry in re.split(r"\n(?=\.\. \[)", "\n".join(text["References"])):
        if entry.strip() and not re.search(r"doi|10\.\d{4}/|https?://|arXiv", entry):
            yield f"reference without a DOI: {entry.strip()[:60]}"


def main(part: str = "spdtokens") -> int:
    """Print all findings of names that contain ``part``."""
    found = [
        line
        for name in dict.fromkeys(public_names())
        if part in find(name).__module__
        for line in findings(name)
    ]
    print("\n".join([*found, f"{len(found)} findings"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
