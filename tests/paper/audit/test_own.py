"""Anyone's table of accuracies."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from matplotlib.lines import Line2D
from typer.testing import CliRunner

from spdtokens.cli import app
from spdtokens.errors import ReportError
from spdtokens.paper import audit
from spdtokens.paper.audit.figure import granularity_figure
from spdtokens.paper.audit.own import audit_report, read_report

runner = CliRunner()
ROOT = Path(__file__).parents[3]


def made(folder: Path, text: str) -> Path:
    path = folder / "reported.csv"
    path.write_text(text)
    return path


def test_impossible_values_and_what_explains_them(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        "value,n,seeds,label\n98.81,288,,one\n91.51,288,5,mean\n95.63%,288,1,\n50.00,288,1,half\n",
    )
    result = audit_report(read_report(path))
    assert [row["possible"] for row in result["values"]] == [False, False, False, True]
    assert [row["label"] for row in result["values"]] == ["one", "mean", "line 4", "half"]
    (group,) = result["groups"]
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


def test_many_trials_print_anything(tmp_path: Path) -> None:
    path = made(tmp_path, "value,n,seeds\n71.3,400,5\n71.3,40,5\n")
    first, second = audit_report(read_report(path))["values"]
    assert not first["informative"]
    assert first["possible"]
    assert second["informative"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs a header"),
        ("value,n\n", "a header and no values"),
        ("accuracy,n\n98.81,288\n", "line 1: the header has no column 'value', only accuracy, n"),
        ("value,trials\n98.81,288\n", "line 1: unknown column 'trials'. Columns are value, n"),
        ("value,value\n98.81,1\n", "line 1: a column stands twice"),
        ("value,n\n98.81,288\n98,81,288\n", "line 3: 3 entries for 2 columns"),
        ("value,n\nabout 90,288\n", "line 2: 'about 90' is not a number"),
        ("value,n\nnan,288\n", "line 2: 'nan' is not a number"),
        ("value,n\n98.81,many\n", "line 2: n is a whole number of at least 1, not 'many'"),
        (f"value,n\n98.81,{'9' * 5000}\n", "line 2: n is a whole number"),
        ("value,n\n1E-99999,288\n", "line 2: '1E-99999' is not a number"),
        ("value,n\n1E-9999999,288\n", "line 2: '1E-9999999' is not a number"),
        (f"value,label\n98.81,{'x' * 200_000}\n", "line 2 cannot be read as CSV"),
        ("value,n\n98.81,0\n", "line 2: n is a whole number of at least 1, not '0'"),
        ("value,n,seeds\n98.81,288,2.5\n", "line 2: seeds is a whole number"),
        ("value,n\n101.2,288\n", "line 2: 101.2 is no accuracy; they lie between 0 and 100"),
        ("value,n\n-0.2,288\n", "line 2: -0.2 is no accuracy"),
        ("value,n\n98.81,288\n0.98,288\n", "line 3: 0.98 beside values in percent. Write 98.00"),
    ],
)
def test_bad_files_are_told_with_line_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ReportError, match=re.escape(message)):
        read_report(made(tmp_path, text))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="There is no file"):
        read_report(tmp_path / "nothing.csv")
    with pytest.raises(ReportError, match="is a folder"):
        read_report(tmp_path)
    path = tmp_path / "latin.csv"
    path.write_bytes("value,label\n98.81,Müller\n".encode("latin-1"))
    with pytest.raises(ReportError, match="not UTF-8"):
        read_report(path)


class TestCommand:
    def test_a_file(self, tmp_path: Path) -> None:
        path = made(tmp_path, "value,n,label\n98.81,288,[bold]S2\n")
        result = runner.invoke(app, ["audit", str(path)], env={"COLUMNS": "100"})
        assert result.exit_code == 0, result.output
        assert "[bold]S2" in result.stdout
        assert "84" in result.stdout

    def test_a_file_as_json(self, tmp_path: Path) -> None:
        path = made(tmp_path, "value,n\n98.81,288\n")
        call = ["audit", str(path), "--json", "--max-n", "90", "--out", str(tmp_path / "new")]
        result = runner.invoke(app, call)
        found = json.loads(result.stdout)
        assert found["groups"][0]["sizes_that_fit_all"] == [84]
        assert json.loads((tmp_path / "new" / "report.json").read_text()) == found

    def test_a_bad_file_is_told_in_a_line(self, tmp_path: Path) -> None:
        result = runner.invoke(app, ["audit", str(made(tmp_path, "value\nx\n"))])
        assert result.exit_code == 1
        assert "line 2: 'x' is not a number" in result.stderr

    def test_out_must_be_a_folder(self, tmp_path: Path) -> None:
        path = made(tmp_path, "value\n98.81\n")
        result = runner.invoke(app, ["audit", str(path), "--out", str(path)])
        assert result.exit_code == 2

    def test_the_paper(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        few = [check for check in audit.CHECKS if check.id in ("granularity-bci2a", "gains")]
        monkeypatch.setattr(audit, "CHECKS", few)
        result = runner.invoke(app, ["audit", "--json", "--out", str(tmp_path)])
        checks = json.loads(result.stdout)["checks"]
        assert [check["id"] for check in checks] == ["granularity-bci2a", "gains"]
        assert {"id", "printed", "expected", "verdict"} <= set(checks[0])
        assert (tmp_path / "granularity.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((tmp_path / "audit.json").read_text())["checks"] == checks
        table = runner.invoke(app, ["audit"], env={"COLUMNS": "100"})
        assert "1 holds, 1 fits training size" in table.stdout
        assert max(map(len, table.stdout.splitlines())) <= 100


def test_the_figure_marks_training_and_test_sizes() -> None:
    marks = {}
    for axes in granularity_figure().axes:
        for line in axes.get_children():
            if isinstance(line, Line2D) and line.get_gid():
                x, y = line.get_data()
                marks[int(x[0])] = (str(line.get_gid()), float(y[0]))
    assert {n for n, (gid, share) in marks.items() if gid == "train" and share == 1} == {
        252,
        237,
        350,
    }
    assert {n for n, (gid, share) in marks.items() if gid.startswith("test") and share < 0.2} == {
        288,
        51,
        52,
        75,
    }


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "audit.md").read_text()
    example = re.search(r"```csv\n(.*?)```", page, re.DOTALL)
    command = re.search(r"```sh\nspdtokens (audit reported\.csv.*?)\n", page)
    assert example is not None
    assert command is not None
    path = made(tmp_path, example[1])
    call = shlex.split(command[1].replace("reported.csv", str(path)))
    result = runner.invoke(app, call, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    told = [line.strip() for line in shown[1].splitlines() if line.strip()]
    printed = [line.strip() for line in result.stdout.splitlines()]
    assert all(line in printed for line in told)
    assert f"{len(audit.CHECKS)} checks" in page
