"""Find phrases that read as if translated, and print what to write instead.

``python docs/_prose.py [PATH ...]`` scans src, docs, README.md and examples, or the given files and
folders. It prints one line per finding and exits with 1 if there is any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("README.md", "src", "docs", "examples")
SUFFIXES = (".md", ".py", ".rst", ".html", ".toml")
#: Made by Sphinx, or about wording.
LEFT_OUT = ("docs/api/generated", "docs/gallery", "docs/_prose.py")

UNITS = (
    "subject|session|trial|run|fold|seed|method|class|channel|band|token|matrix|recording|file|epoch|"
    "batch|second|minute|hour|day|training|weight|row|line|table|study|section|decision|window|stream"
)
COUNTED = (
    "lines?|rows?|bars?|figures?|folds?|tokens|sessions|samples|steps|trials|epochs|decisions|runs|"
    "numbers|seconds|milliseconds|matrices|times|parameters|weights|values|files|points|bits|words"
)
#: Regular expressions, in which a space stands for any white space, and what to write instead.
PHRASES = {
    rf"\b(?:one|two|three|{COUNTED}) an? (?:{UNITS})\b": "per",
    r"\bonce in \d+ times\b": "95th percentile",
    r"\banew\b": "again, from scratch",
    r"(?<!here[\s])\b(?:is|are) no (?!longer|more)[a-z]+": "is not a ..., has no ...",
    r"(?<!here[\s])\b(?:is|are) none\b": "there is none, has none",
    r"\b(?:is|are|was|were) (?:told|said)\b": "is reported, is printed",
    r"\btold (?:what|that|of|in|to|with)\b": "called with, reported",
    r"\btouch(?:es)? otherwise\b": "electrode impedance changes",
    r"\bso (?:many|much|long|large) (?:[a-z]+ )?as\b": "as many as, at most",
    r"\b(?:for|after|over|by|of|every) so (?:many|long)\b": "the number of ...",
    r"\bwith commas between\b": "comma-separated",
    r"\blistens? to\b": "is dominated by, depends on",
    r"\bran away\b": "diverged",
    r"\bOnly test tells\b": "Only the test score measures generalisation",
    r"\bis to be (?:its|the|a)\b": "is, must be",
    # Quoted, it is a value of reproduce --split.
    r"(?<![\"'`(|])\bhonest(?:ly)?\b": "without leakage, on held-out trials",
    r"\bof which the\b": "whose, where the",
    r"\bin which time is gone\b": "contains covariance matrices",
    r"\bmade alike\b": "made with the same code and libraries",
    r"\b(?:cannot|can not) be both\b": "contradict each other",
    r"\bis not \w+, but \S+ is\b": "must be ..., got ...",
    r"\bthe (?:first|second) edition\b": "version 0.1, version 0.2",
    r"\bgoes? on\b": "continues",
    r"\bthe obvious (?:loop|way|network)\b": "a plain loop",
    r"\bfor (?:nothing|ever)\b": "without cost, in a loop",
    r"\bput right\b": "correct",
    r"\bgets for\b": "has ... at no cost",
    r"\bbeside (?:train|test|it|each|its|them)\b": "next to, in addition to",
    r"\b(?:does|do) not tell\b": "does not state",
    r"\bif it does not say\b": "if it does not state it",
    r"^\W*(?:Of|Whose|Of which) (?!course)[a-z ]+\.$": "a full sentence with a verb",
}
PATTERNS = {
    re.compile(phrase.replace(" ", r"\s+"), re.MULTILINE): better
    for phrase, better in PHRASES.items()
}


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, phrase and better words of each finding in a file."""
    text = path.read_text(encoding="utf-8")
    for pattern, better in PATTERNS.items():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield line, " ".join(match[0].split()), better


def files(places: list[Path]) -> Iterator[Path]:
    """All files to scan."""
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            name = path.resolve().relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(LEFT_OUT):
                yield path


def main(*places: str) -> int:
    """Print all findings."""
    count = 0
    for path in files([Path(p) for p in places] or [ROOT / p for p in PLACES]):
        for line, phrase, better in sorted(findings(path)):
            count += 1
            print(f"{path.resolve().relative_to(ROOT)}:{line}: {phrase!r}: {better}")
    print(f"{count} findings")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
