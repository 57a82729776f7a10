"""Tables of a TOML file, read so that every mistake is told and not only the first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

#: Keys of the file's top, which TOML takes for a table's own if they come after it.
TOP = ("name", "seeds", "metric", "datasets", "methods", "protocols")


@dataclass(frozen=True)
class Kind:
    """What a value may be.

    Attributes
    ----------
    words : str
        To be read after "is".
    fits : callable
        Whether a value of TOML is one.
    """

    words: str
    fits: Callable[[Any], bool]


_LARGEST = sys.float_info.max


def _is_text(value: Any) -> bool:
    # Titles are printed, and names become paths: control characters would reach the terminal.
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _is_number(value: Any) -> bool:
    # A whole number may be too large for a float; NaN is in no interval.
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and -_LARGEST <= value <= _LARGEST


def _list_of(fits: Callable[[Any], bool], least: int = 1) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= least and all(map(fits, value))


def _is_pair(value: Any) -> bool:
    return _list_of(_is_number)(value) and len(value) == 2


def _is_name(value: Any) -> bool:
    return _is_text(value) or type(value) is int


TEXT = Kind("printable text in quotes", _is_text)
NUMBER = Kind("a number", _is_number)
NUMBERS = Kind("a list of numbers, such as [13, 17, 21]", _list_of(_is_number))
PAIR = Kind("a list of two numbers, such as [0.5, 4]", _is_pair)
WHOLE = Kind("a whole number of at least 1", lambda value: type(value) is int and value >= 1)
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
ANYTHING = Kind("anything", lambda _: True)
TABLE = Kind("a table", lambda value: isinstance(value, dict))
NAMES = Kind('a list of names, such as ["1", "2"]', _list_of(_is_name))
CHANNELS = Kind(
    '"common" or a list of different names, such as ["C3", "C4"]',
    lambda value: value == "common" or (_list_of(_is_name)(value) and len({*value}) == len(value)),
)
FACTS = Kind(
    'a table of names and values, such as {run = "1"}',
    lambda value: isinstance(value, dict) and bool(value) and all(map(_is_name, value.values())),
)
BANDS = Kind(
    "the name of a preset or a list of pairs in Hz, such as [[8, 13], [13, 30]]",
    lambda value: _is_text(value) or _list_of(_is_pair)(value),
)


class Table:
    """One table of the file.

    Parameters
    ----------
    values : mapping
    place : str
        Its name, as messages call it.
    problems : list of str
        To which whatever is found wrong is added.
    """

    def __init__(self, values: Mapping[str, Any], place: str, problems: list[str]) -> None:
        self.values, self.place, self.problems = values, place, problems
        self._meant: set[str] = set()

    def wrong(self, message: str) -> None:
        """Note a problem of this table."""
        self.problems.append(f"{self.place}: {message}")

    def only(self, known: Iterable[str]) -> None:
        """Note every key that is not known, with the nearest that is."""
        known = tuple(known)
        for key in self.values:
            if key in known:
                continue
            near = nearest(key, known)
            self._meant.add(near or "")
            hint = f" Did you mean {near!r}?" if near else f" It has: {', '.join(known)}."
            if key in TOP:
                hint = f" {key!r} belongs at the top of the file, before the first table."
            self.problems.append(f"{self.place} has no key {key!r}.{hint}")

    def get(self, key: str, kind: Kind, default: Any = None) -> Any:
        """The value of a key if it is there and of its kind, else the default."""
        if key not in self.values:
            return default
        value = self.values[key]
        if kind.fits(value):
            return value
        self.wrong(f"{key} is {kind.words}, not {shown(value)}.")
        return default

    def choice(self, key: str, known: Iterable[str], default: Any = None, what: str = "") -> Any:
        """The value of a key that is one of some names, else the default."""
        value, known = self.get(key, TEXT), tuple(known)
        if value is None or value in known:
            return value or default
        near = nearest(value, known)
        hint = f"Did you mean {near!r}?" if near else f"There are: {', '.join(known)}."
        self.wrong(f"there is no {what or key} {value!r}. {hint}")
        return default

    def needs(self, key: str) -> None:
        """Note that a key is missing, unless it is there in another spelling."""
        if key not in self.values and key not in self._meant:
            self.wrong(f"{key} is missing.")


def tables(top: Table, key: str) -> list[Table]:
    """Tables of an array such as ``[[methods]]``, or of its short form, a list of names."""
    if key not in top.values:
        top.needs(key)
        return []
    value = top.values[key]
    mixed = isinstance(value, list) and all(isinstance(v, dict) or _is_text(v) for v in value)
    if not mixed or not value:
        wanted = f"[[{key}]] tables, or a list of names such as {key} = [{_EXAMPLES[key]}]"
        top.wrong(f"{key} is {wanted}, not {shown(value)}.")
        return []
    return [
        Table(
            entry if isinstance(entry, dict) else {"name": entry},
            f"[[{key}]]" if len(value) == 1 else f"[[{key}]] {number}",
            top.problems,
        )
        for number, entry in enumerate(value, 1)
    ]


_EXAMPLES = {
    "datasets": '"sim-mi"',
    "methods": '"ts-lr", "mdm"',
    "protocols": '"session-transfer"',
}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    near = get_close_matches(word.lower(), tuple(known), 1)
    return near[0] if near else None


def shown(value: Any) -> str:
    """A value as the file has it, cut if long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = text if text.isprintable() else ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
