"""Which n can give a printed accuracy, against brute force; and anyone's table of accuracies."""

from __future__ import annotations

import json
import re
import shlex
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.errors import PaperError
from spdtokens.paper.audit import CHECKS, Paper
from spdtokens.paper.audit.check import SPLITS, Split
from spdtokens.paper.audit.granularity import (
    Reported,
    audit_report,
    chance_to_fit,
    number_that_fit,
    read_report,
    sizes_that_fit,
    smallest_of_each_family,
    subject_values,
)

#: How programs round, and whether digits were cut off instead.
MODES = {False: (ROUND_HALF_UP, ROUND_HALF_DOWN, ROUND_HALF_EVEN), True: (ROUND_DOWN,)}


def printed(share: Fraction, whole: int, decimals: int, mode: str) -> Decimal:
    """A fraction as a program with that rounding prints it, exactly."""
    scaled = share * whole * 10**decimals
    floor, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    # One digit behind the point is enough to decide, once ties are told from the rest.
    digit = "5" if half == 0 else "7" if half > 0 else "2"
    if rest == 0:
        digit = "0"
    return Decimal(f"{floor}.{digit}").quantize(Decimal(1), rounding=mode).scaleb(-decimals)


@pytest.mark.parametrize("cut", MODES)
@pytest.mark.parametrize(
    ("seeds", "whole", "decimals"), [(1, 100, 1), (3, 100, 0), (5, 100, 1), (2, 1, 2)]
)
def test_counts_are_those_of_brute_force(cut: bool, seeds: int, whole: int, decimals: int) -> None:
    for n in (1, 7, 8, 16, 40, 200):
        total = n * seeds
        made: dict[Decimal, set[int]] = {}
        for k in range(total + 1):
            for rounding in MODES[cut]:
                value = printed(Fraction(k, total), whole, decimals, rounding)
                made.setdefault(value, set()).add(k)
        for step in range(whole * 10**decimals + 1):
            value = Decimal(step).scaleb(-decimals)
            reported = Reported(value, seeds, whole)
            assert set(reported.counts(n, cut=cut)) == made.get(value, set()), (value, n)
            assert reported.fits(n, cut=cut) == (value in made)


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.data)
def test_the_papers_values_fit_one_size_only(split: Split) -> None:
    values = [value for group in subject_values(Paper(), split).values() for value in group]
    assert len(values) == {"BCI2a": 23, "BCIcha": 46, "MAMEM": 25}[split.data]  # docs/audit.md
    # Single seeds alone and means alone say the same.
    for some in (values, [v for v in values if v.seeds == 1], [v for v in values if v.seeds == 5]):
        assert sizes_that_fit(some, 400) == [split.train]


def test_a_multiple_fits_too_and_is_of_the_family() -> None:
    values = [Reported(Decimal("98.81")), Reported(Decimal("76.59"))]
    sizes = sizes_that_fit(values, 800)
    assert {252, 504, 756} <= set(sizes)
    assert 504 not in smallest_of_each_family(sizes)
    assert smallest_of_each_family([2, 3, 4, 5, 9, 25]) == [2, 3, 5]


def test_share_and_chance() -> None:
    values = [Reported(Decimal("50.00")), Reported(Decimal("33.33")), Reported(Decimal("100.00"))]
    assert [number_that_fit(values, n) for n in (2, 6)] == [2, 3]
    # Two values of 10,000 printable ones, of which 6 trials give 6; 100.00 always fits.
    assert chance_to_fit(values, 6) == pytest.approx((6 / 10_000) ** 2)
    assert chance_to_fit(values * 2, 6) == chance_to_fit(values, 6)
    assert chance_to_fit(values, 20_000) == 1


def made(folder: Path, text: str) -> Path:
    path = folder / "reported.csv"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


def test_impossible_values_and_what_explains_them(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "value,n,seeds,label\n98.81,288,,one\n91.51,288,5,mean\n95.63%,288,1,\n50.00,288,1,half\n"
        "71.30,2000,5,many",
    )
    result = audit_report(read_report(path))
    assert [row["possible"] for row in result["values"]] == [False, False, False, True, True]
    assert [row["label"] for row in result["values"]] == ["one", "mean", "line 4", "half", "many"]
    # As many trials print any value.
    assert [row["informative"] for row in result["values"]] == [True] * 4 + [False]
    group = result["groups"][0]
    assert group["impossible"] == 3
    assert group["sizes_that_fit_all"] == [252]


def test_shares_semicolons_blank_lines_and_groups(tmp_path: Path) -> None:
    path = made(tmp_path, "value;group\n\n0.5;a\n0.333;b\n1;b\n")
    rows = read_report(path)
    assert [row.line for row in rows] == [3, 4, 5]
    assert {row.reported.whole for row in rows} == {1}
    result = audit_report(rows, max_n=10)
    assert [row["possible"] for row in result["values"]] == [None] * 3
    assert [group["group"] for group in result["groups"]] == ["a", "b"]
    assert result["groups"][1]["sizes_that_fit_all"] == [3, 6, 9]
    assert result["groups"][1]["smallest"] == [3]
    assert result["groups"][1]["all_fit_from"] == 1000


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("", "reported.csv"),
        ("value,label\n98.81,M\udcfcller\n", "reported.csv"),  # not UTF-8
        ("value,n\n", "reported.csv"),
        ("accuracy,n\n98.81,288\n", "line 1.*accuracy"),
        ("value,trials\n98.81,288\n", "line 1.*trials"),
        ("value,value\n98.81,1\n", "line 2.*value, value"),
        ("value,n\n98.81,288\n98,81,288\n", "line 3: 3 entries"),
        ("value,n\nabout 90,288\n", "line 2: value .*'about 90'"),
        ("value,n\nnan,288\n", "line 2: value .*'nan'"),
        ("value,n\n98.81,many\n", "line 2: n .*'many'"),
        (f"value,n\n98.81,{'9' * 5000}\n", "line 2: n .*'999"),
        ("value,n\n1E-9999999,288\n", "line 2: value .*'1E-9999999'"),
        (f"value,label\n98.81,{'x' * 200_000}\n", "line 2"),
        ("value,n\n98.81,0\n", "line 2: n .*'0'"),
        ("value,n,seeds\n98.81,288,2.5\n", "line 2: seeds .*'2.5'"),
        ("value,n\n101.2,288\n", "line 2: value .*'101.2'"),
        ("value,n\n-0.2,288\n", "line 2: value .*'-0.2'"),
        ("value,n\n98.81,288\n0.98,288\n", "line 3: value .*0.98"),
    ],
)
def test_bad_files_are_told_with_line_and_culprit(tmp_path: Path, text: str, culprit: str) -> None:
    with pytest.raises(PaperError, match=culprit):
        read_report(made(tmp_path, text))
    with pytest.raises(PaperError, match=r"nothing\.csv"):
        read_report(tmp_path / "nothing.csv")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_command_on_a_file(tmp_path: Path) -> None:
    path = made(tmp_path, "value,n,label\n98.81,288,[bold]S2\n71.3,4000,\n71.3,,\n")
    shown = call(path).stdout
    assert all(text in shown for text in ("[bold]S2", "84", "yes, as any value", "no n claimed"))
    path = made(tmp_path, "value,n\n98.81,288\n")
    found = json.loads(call(path, "--json", "--max-n", 90, "--out", tmp_path / "new").stdout)
    assert found["groups"][0]["sizes_that_fit_all"] == [84]
    assert json.loads((tmp_path / "new" / "report.json").read_text()) == found
    assert call(path, "--out", path).exit_code == 2
    bad = call(made(tmp_path, "value\nx\n"))
    assert bad.exit_code == 1
    assert "line 2: value" in bad.stderr


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    example, command, shown = (
        re.search(pattern, page, re.DOTALL)
        for pattern in (
            r"```csv\n(.*?)```",
            r"```sh\nspdtokens audit (reported\.csv.*?)\n",
            r"```text\n(.*?)```",
        )
    )
    path = made(tmp_path, example[1])
    result = call(*shlex.split(command[1].replace("reported.csv", str(path))))
    assert result.exit_code == 0, result.output
    printed = [line.strip() for line in result.stdout.splitlines()]
    assert {line.strip() for line in shown[1].splitlines() if line.strip()} <= set(printed)
    assert f"{len(CHECKS)} checks" in page
