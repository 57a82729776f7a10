"""Rules that decide a statement of the paper: functions from results to a verdict with evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdtokens._tables import counted
from spdtokens.paper.claims.settings import our_value
from spdtokens.paper.findings import Finding
from spdtokens.paper.reproduce import ScoreTable
from spdtokens.reporting.tables import score_text

#: Verdicts of the audit that are about the printed statement as it stands.
AS_PRINTED = {"holds": "holds", "undecided": "undecided"}
#: Times that differ by less than this factor are called similar.
SIMILAR = 1.25


@dataclass(frozen=True)
class Results:
    """Everything that rules look at.

    Attributes
    ----------
    scores : dict of str to ScoreTable
        Tables of accuracies by name.
    costs : dict of str to dict
        Rows of the table of computational cost by method.
    attention : sequence of dict
        Rows of the cost of geometric attention with one token, for which the paper prints ratios.
    figures : dict of str to str
        Descriptions of the figures by name.
    audit, theory : dict of str to dict
        Findings by name.
    """

    scores: Mapping[str, ScoreTable] = field(default_factory=dict)
    costs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    attention: Sequence[Mapping[str, Any]] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    audit: Mapping[str, Finding] = field(default_factory=dict)
    theory: Mapping[str, Finding] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Verdict of one rule.

    Attributes
    ----------
    verdict : str
        ``'holds'``, ``'fails'``, ``'partly'``, ``'undecided'``, ``'not tested'``, or empty for
        evidence that does not decide.
    evidence : str
        Numbers in words.
    """

    verdict: str
    evidence: str


Rule = Callable[..., Part]
#: All rules by name; the arguments after the results are those of the statement.
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a rule under the name of its function."""
    RULES[function.__name__] = function
    return function


def joined(verdicts: Iterable[str]) -> str:
    """Join the verdicts of the parts of a statement; parts without verdict do not count.

    >>> joined(["holds", ""]), joined(["holds", "fails"]), joined(["holds", "not tested"])
    ('holds', 'partly', 'not tested')
    """
    found = {verdict for verdict in verdicts if verdict} or {"not tested"}
    if "not tested" in found:
        return "not tested"
    return found.pop() if len(found) == 1 else "partly"


# Accuracies


@dataclass(frozen=True)
class Score:
    """A cell of a table of accuracies.

    Attributes
    ----------
    name : str
        Row and column.
    train, test, std, printed : float
        Accuracies from 0 to 1, NaN if missing.
    error : float
        Standard error of the test score, over subjects, or over seeds for one subject.
    simulated : bool
        Whether the data are simulated.
    """

    name: str
    train: float
    test: float
    std: float
    printed: float
    error: float
    simulated: bool


def look_up(results: Results, path: str) -> Score | None:
    """Return a cell by its path ``'table / row / column'``, or None without results for it."""
    table, row, column = path.split(" / ")
    if table not in results.scores:
        return None
    found = results.scores[table]
    frame = found.frame
    at = frame[(frame["row"] == row) & (frame["column"] == column)].dropna(subset=["test"])
    if at.empty:
        return None
    cell = at.iloc[0]
    # The standard deviation is over subjects, or over seeds if there is one subject.
    runs = found.runs[(found.runs["row"] == row) & (found.runs["column"] == column)]
    n_subjects = runs["subject"].nunique()
    error = float(cell["std"]) / math.sqrt(n_subjects if n_subjects > 1 else len(runs))
    values = {key: float(cell[key]) for key in ("train", "test", "std", "printed")}
    simulated = found.extent.data == "sim"
    return Score(f"{row}, {column}", **values, error=error, simulated=simulated)


def _percent(value: float) -> str:
    return score_text(value, "accuracy")


def _signed(value: float) -> str:
    return score_text(value, "accuracy", "+")


def _data(score: Score) -> str:
    return " (simulated data)" if score.simulated else ""


def _missing(*paths: str) -> Part:
    tables = dict.fromkeys(path.split(" / ")[0] for path in paths)
    return Part("not tested", f"no results of {', '.join(tables)}")


def _compared(difference: float, error: float) -> str:
    """Return whether a difference is above, below or within its standard error."""
    if not math.isfinite(error):
        return "undecided"
    return "holds" if difference > error else "fails" if difference < -error else "undecided"


@rule
def above(results: Results, path: str, *others: str) -> Part:
    """Require a test score above others by more than the standard error of the difference.

    Parameters
    ----------
    results : Results
        All results.
    path : str
        The cell that should be higher.
    *others : str
        Cells that should be lower.
    """
    high = look_up(results, path)
    found = {other: look_up(results, other) for other in others}
    if high is None:
        return _missing(path, *others)
    verdicts, parts = [], []
    for other, low in found.items():
        if low is None:
            verdicts.append("not tested")
            parts.append(_missing(other).evidence)
            continue
        error = math.hypot(high.error, low.error)
        verdicts.append(_compared(high.test - low.test, error))
        gap = f"{_signed(high.test - low.test)} \N{PLUS-MINUS SIGN} {_percent(error)}"
        parts.append(f"{gap} points over {low.name} ({_percent(low.test)})")
    scores = f"{high.name}: test {_percent(high.test)}, train {_percent(high.train)}{_data(high)}"
    return Part(joined(verdicts), f"{scores}; {', '.join(parts)}")


@rule
def alike(results: Results, path: str, other: str) -> Part:
    """Require two test scores that differ by less than two standard errors.

    Parameters
    ----------
    results : Results
        All results.
    path, other : str
        The cells.
    """
    one, two = look_up(results, path), look_up(results, other)
    if one is None or two is None:
        return _missing(path, other)
    gap, error = one.test - two.test, math.hypot(one.error, two.error)
    verdict = "holds" if abs(gap) < 2 * error else "fails"
    return Part(
        verdict if math.isfinite(error) else "undecided",
        f"{one.name} {_percent(one.test)}, {two.name} {_percent(two.test)}: {_signed(gap)} "
        f"\N{PLUS-MINUS SIGN} {_percent(error)} points{_data(one)}",
    )


@rule
def between(results: Results, path: str, low: float, high: float) -> Part:
    """Require a test score in a range, with its standard error.

    Parameters
    ----------
    results : Results
        All results.
    path : str
        The cell.
    low, high : float
        Limits in percent.
    """
    one = look_up(results, path)
    if one is None:
        return _missing(path)
    slack = one.error if math.isfinite(one.error) else 0.0
    inside = low / 100 - slack <= one.test <= high / 100 + slack
    text = f"{one.name}: test {_percent(one.test)}, range {low:g} to {high:g}{_data(one)}"
    return Part("holds" if inside else "fails", text)


@rule
def steadier(results: Results, path: str, other: str, share: float = 0.0) -> Part:
    """Require a smaller standard deviation.

    Parameters
    ----------
    results : Results
        All results.
    path, other : str
        The cell that should have the smaller one, and the other.
    share : float, default=0.0
        Share in percent by which it should be smaller.
    """
    one, two = look_up(results, path), look_up(results, other)
    if one is None or two is None or not (math.isfinite(one.std) and two.std > 0):
        return _missing(path, other)
    reduced = 1 - one.std / two.std
    verdict = "holds" if reduced > 0 and reduced >= share / 100 else "fails"
    if 0 < reduced < share / 100:
        verdict = "partly"
    return Part(
        verdict,
        f"standard deviation {_percent(one.std)} ({one.name}) against {_percent(two.std)} "
        f"({two.name}), {100 * reduced:.0f} % less{_data(one)}",
    )


@rule
def gain(results: Results, table: str, column: str, other: str) -> Part:
    """Require a higher test score in one column than in another, paired over subjects.

    Parameters
    ----------
    results : Results
        All results.
    table : str
        A table with one row per subject.
    column, other : str
        The column that should be higher, and the other.
    """
    if table not in results.scores:
        return _missing(table)
    frame = results.scores[table].frame
    rows = frame[~frame["row"].str.startswith("Overall")]
    pairs = rows.pivot(index="row", columns="column", values="test")[[column, other]].dropna()
    if len(pairs) < 2:
        return Part("not tested", f"{table} has fewer than two subjects")
    gaps = (pairs[column] - pairs[other]).to_numpy()
    error = float(gaps.std(ddof=1) / math.sqrt(len(gaps)))
    data = " (simulated data)" if results.scores[table].extent.data == "sim" else ""
    return Part(
        _compared(float(gaps.mean()), error),
        f"{column} over {other}: {_signed(float(gaps.mean()))} \N{PLUS-MINUS SIGN} "
        f"{_percent(error)} points on test trials, {int((gaps > 0).sum())} of "
        f"{counted(len(gaps), 'subject')} gain{data}",
    )


@rule
def printed(results: Results, table: str, *paths: str) -> Part:
    """Compare printed values with train and test scores; decides for the paper's data only.

    Parameters
    ----------
    results : Results
        All results.
    table : str
        Name of a table.
    *paths : str
        ``'row / column'`` of the cells; all with a printed value by default.
    """
    if table not in results.scores:
        return _missing(table)
    found = results.scores[table]
    frame = found.frame
    if paths:
        frame = frame[(frame["row"] + " / " + frame["column"]).isin(paths)]
    frame = frame[frame["nearer"] != ""]
    if frame.empty:
        return _missing(table)
    nearer = frame["nearer"].value_counts()
    n_train, n_test = (int(nearer.get(key, 0)) for key in ("train", "test"))
    simulated = found.extent.data == "sim"
    off = {key: (frame[key] - frame["printed"]).abs().mean() for key in ("train", "test")}
    text = (
        f"printed values are nearer to our train score in {n_train} of "
        f"{counted(len(frame), 'cell')}, to our test score in {n_test} (mean distance "
        f"{_percent(off['train'])} and {_percent(off['test'])} points)"
    )
    verdict = "holds" if n_test > n_train else "fails" if n_train > n_test else "undecided"
    return Part("" if simulated else verdict, text + " (simulated data)" * simulated)


# Costs, figures, findings and settings


@rule
def similar(results: Results, method: str, other: str, *keys: str) -> Part:
    """Require costs that differ by less than a quarter.

    Parameters
    ----------
    results : Results
        All results.
    method, other : str
        Names of the methods.
    *keys : str
        Columns of the cost, which are added.
    """
    if not {method, other} <= set(results.costs):
        return Part("not tested", "no results of efficiency")
    one, two = (sum(results.costs[name][key] for key in keys) for name in (method, other))
    verdict = "holds" if max(one, two) < SIMILAR * min(one, two) else "fails"
    what = " + ".join(key.replace("_", " ") for key in keys)
    return Part(verdict, f"{what}: {one:.3g} ({method}), {two:.3g} ({other})")


@rule
def lowest(results: Results, method: str, key: str) -> Part:
    """Require the lowest cost of all networks.

    Parameters
    ----------
    results : Results
        All results.
    method, key : str
        Name of the method, and the column of the cost.
    """
    known = {name: row[key] for name, row in results.costs.items() if row.get(key) is not None}
    if method not in known:
        return Part("not tested", "no results of efficiency")
    least = min(known, key=lambda name: known[name])
    return Part(
        "holds" if known[method] <= known[least] else "fails",
        f"{key.replace('_', ' ')}: {known[method]:.3g} ({method}), least {known[least]:.3g} "
        f"({least}), of {counted(len(known), 'network')} on this CPU",
    )


@rule
def attention_cost(results: Results, factor: float) -> Part:
    """Require relative costs of geometric attention in every block that are near the printed ones.

    Parameters
    ----------
    results : Results
        All results.
    factor : float
        How far ours may be off, as a factor.
    """
    if not results.attention:
        return Part("not tested", "no results of efficiency")
    verdicts, texts = [], []
    for row in results.attention:
        *_, ours = row["ratio"].values()
        printed = row["printed_ratio"]
        off = max(ours / printed, printed / ours)
        verdicts.append("holds" if off <= factor else "fails")
        texts.append(f"{row['channels']} channels {ours:.1f}x, printed {printed:.1f}x")
    return Part(joined(verdicts), f"ours on a CPU, the paper's on a GPU: {'; '.join(texts)}")


@rule
def drawn(results: Results, name: str) -> Part:
    """Require a figure.

    Parameters
    ----------
    results : Results
        All results.
    name : str
        Name of the figure.
    """
    if name not in results.figures:
        return Part("not tested", f"no figure {name}")
    return Part("holds", f"drawn: {results.figures[name]}")


@rule
def shown(results: Results, name: str) -> Part:
    """Add the description of a figure to the evidence, without a verdict.

    Parameters
    ----------
    results : Results
        All results.
    name : str
        Name of the figure.
    """
    return Part("", drawn(results, name).evidence)


@rule
def ends_lower(results: Results, name: str, line: str, other: str) -> Part:
    """Require a line of a figure that ends lower than another in every panel with both.

    Parameters
    ----------
    results : Results
        All results.
    name : str
        Name of the figure, whose description has the last value of every line.
    line, other : str
        Labels of the lines.
    """
    if name not in results.figures:
        return Part("not tested", f"no figure {name}")
    text = results.figures[name]
    lows, highs = (
        [float(x) for x in re.findall(rf"{re.escape(label)} ends at ([\d.e+-]*\d)", text)]
        for label in (line, other)
    )
    if not lows or len(lows) != len(highs):
        return Part("not tested", f"{name} does not have both {line} and {other}")
    verdicts = ["holds" if a < b else "fails" for a, b in zip(lows, highs, strict=True)]
    return Part(joined(verdicts), f"{name}: {text}")


@rule
def theory(results: Results, *names: str) -> Part:
    """Require claims of the theory to hold as printed.

    Parameters
    ----------
    results : Results
        All results.
    *names : str
        Names of the claims.
    """
    return _findings("theory", results.theory, names, "evidence")


@rule
def audit(results: Results, *names: str) -> Part:
    """Require checks of the printed numbers to hold.

    Parameters
    ----------
    results : Results
        All results.
    *names : str
        Names of the checks.
    """
    return _findings("audit", results.audit, names, "arithmetic")


@rule
def noted(results: Results, *names: str) -> Part:
    """Add checks of the printed numbers to the evidence, without a verdict.

    Parameters
    ----------
    results : Results
        All results.
    *names : str
        Names of the checks.
    """
    return Part("", audit(results, *names).evidence)


def _findings(kind: str, known: Mapping[str, Finding], names: Sequence[str], key: str) -> Part:
    if missing := [name for name in names if name not in known]:
        return Part("not tested", f"no results of {kind} {', '.join(missing)}")
    found = {name: known[name] for name in names}
    verdicts = [AS_PRINTED.get(one["verdict"], "fails") for one in found.values()]
    # Evidence of what does not hold, or of the only finding; the others by name.
    fine = [name for name, one in found.items() if one["verdict"] == "holds" and len(found) > 1]
    parts = [f"{kind} {', '.join(fine)}: as printed"] if fine else []
    parts += [
        f"{kind} {name} ({one['verdict']}): {one[key]}"
        for name, one in found.items()
        if name not in fine
    ]
    return Part(joined(verdicts), sentences(parts))


def sentences(parts: Iterable[str]) -> str:
    """Join distinct parts of the evidence as sentences, without the last full stop."""
    return ". ".join(part[:1].upper() + part[1:].rstrip(".") for part in dict.fromkeys(parts))


@rule
def setting(_results: Results, name: str, expected: Any) -> Part:
    """Require a value of our preset, recipe, protocol or data set, read from the objects.

    Parameters
    ----------
    name : str
        Name of the value, see :func:`spdtokens.paper.claims.settings.our_value`.
    expected : Any
        The paper's value.
    """
    ours = our_value(name)
    if isinstance(ours, float):
        same = math.isclose(ours, expected)
    else:
        same = (list(ours) if isinstance(ours, tuple) else ours) == expected
    preset, dot, parameter = name.partition(".")
    text = f"preset {preset}, {parameter}" if dot else f"our {name}"
    return Part("holds" if same else "fails", f"{text}: {_told(ours)}")


def _told(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_told, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
