"""The paper's numbers as data: against paper.tex where it is, and against arithmetic that holds."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from spdtokens.errors import PaperError
from spdtokens.paper.tables import TABLES, Cell, paper_table

# The paper itself is not part of the package: it lies beside the repository, where it lies at all.
TEX = Path(__file__).parents[3] / "shared" / "paper" / "paper.tex"
needs_tex = pytest.mark.skipif(not TEX.is_file(), reason=f"{TEX} is not there")
TABULAR = [name for name in TABLES if paper_table(name).label.startswith("tab:")]


def tex_tables() -> dict[str, str]:
    """Body of every tabular of the paper by the label of its table."""
    found = {}
    for table in re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", TEX.read_text(), re.DOTALL):
        label = re.search(r"\\label\{(tab:\w+)\}", table)
        body = re.search(r"\\midrule(.*)\\bottomrule", table, re.DOTALL)
        assert label is not None
        assert body is not None
        found[label[1]] = body[1]
    return found


def numbers(text: str) -> Counter[str]:
    """Digits as printed, without signs: 2,936.62, 99.60, 100."""
    return Counter(re.findall(r"\d[\d,]*(?:\.\d+)?", text))


def body_text(body: str) -> str:
    """LaTeX without what is no cell: citations, headings that span the table, column counts."""
    body = re.sub(r"\\cite\{[^}]*\}|\\multicolumn\{\d+\}\{\w+\}", "", body)
    return re.sub(r"\\midrule|\\bottomrule", "", body)


@needs_tex
def test_there_is_a_file_for_every_table_of_the_paper() -> None:
    assert {paper_table(name).label for name in TABULAR} == set(tex_tables())


@needs_tex
@pytest.mark.parametrize("name", TABULAR)
def test_every_number_is_the_papers_and_every_number_of_the_paper_is_here(name: str) -> None:
    table = paper_table(name)
    ours = sum((numbers(cell.text) for cell in table.cells()), Counter())
    assert ours == numbers(body_text(tex_tables()[table.label]))


@needs_tex
@pytest.mark.parametrize("name", TABULAR)
def test_bold_type_is_the_papers(name: str) -> None:
    table = paper_table(name)
    bold = " ".join(re.findall(r"\\textbf\{([^}]*)\}", tex_tables()[table.label]))
    ours = sum((numbers(cell.text) for cell in table.cells() if cell.bold), Counter())
    assert ours == numbers(bold)


@needs_tex
def test_numbers_of_the_text_stand_in_their_section() -> None:
    tex = TEX.read_text()
    borders = r"\\section|\\begin\{abstract\}|\\end\{abstract\}"
    starts = [match.start() for match in re.finditer(borders, tex)]
    for key, section, value, _ in paper_table("text").rows:
        label = r"\begin{abstract}" if section.text == "abstract" else f"\\label{{{section.text}}}"
        at = tex.index(label)
        begin = max(start for start in starts if start <= at)
        end = min((start for start in starts if start > at), default=len(tex))
        # [124,562) is two numbers, 1,500 is one.
        part = numbers(tex[begin:end]) + Counter(re.findall(r"\d+(?:\.\d+)?", tex[begin:end]))
        if "in words" in paper_table("text").cell(key.text, "What").text:
            assert "Seven subjects show improvement" in tex[begin:end]
            continue
        for number in numbers(value.text):
            assert part[number], f"{key.text}: {number} is not in {section.text}"


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole(name: str) -> None:
    table = paper_table(name)
    assert table.title
    assert len(table.units) == len(table.columns) == len(set(table.columns))
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(set(table.names)) == len(table.rows)


def test_cells() -> None:
    cell = Cell.read("**2,936.62 +- 0.50**")
    assert cell.bold
    assert cell.numbers == (Decimal("2936.62"), Decimal("0.50"))
    assert str(cell.spread) == "0.50"
    assert Cell.read("[24.38-35.24]").numbers == (Decimal("24.38"), Decimal("35.24"))
    assert Cell.read("-0.55pp").number == Decimal("-0.55")
    assert Cell.read("26.42M").amount == 26_420_000
    assert not Cell.read("****").bold
    for text, what in (("99.60", "spread"), ("yes", "number")):
        with pytest.raises(PaperError, match=text):
            getattr(Cell.read(text), what)


def test_unknown_names_are_told() -> None:
    with pytest.raises(PaperError, match="figures"):
        paper_table("figures")
    for row, column, culprit in (("Depth 3", "BCI2a (S1)", "Depth 3"), ("Depth 2", "X", "X")):
        with pytest.raises(PaperError, match=culprit):
            paper_table("depth").cell(row, column)


def test_a_change_leaves_the_table_itself_alone() -> None:
    table = paper_table("depth")
    other = table.changed("Depth 2", "BCI2a Best", "1.00%")
    assert other.cell("Depth 2", "BCI2a Best").number == 1
    assert table.cell("Depth 2", "BCI2a Best").number == Decimal("94.84")
