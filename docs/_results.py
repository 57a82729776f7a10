"""Numbers of the pages: compute them (``run``), write them into the pages (``write``), ``check``.

``docs/results/plan.toml`` names the commands and the tables. What a command printed is stored as
``docs/results/NAME.json``; a page shows a table between ``<!-- results: NAME -->`` and
``<!-- /results -->``. Tables that ``spdtokens reproduce`` wrote are stored in
``docs/results/reproduce`` (simulated data) and ``docs/results/reproduce-s9`` (BCI2a subject 9):
``<!-- reproduced: FOLDER NAME -->`` shows one of them, ``<!-- claims -->`` the index of the paper,
``<!-- verdicts -->`` its predictions and contributions. No number between these marks is typed by
hand, and a test checks that pages and stored results agree.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import spdtokens
from spdtokens.paper.claims import SECTIONS, check_statements, results_of
from spdtokens.paper.findings import tally
from spdtokens.paper.reproduce.tables import IN_TERMINAL, PAPER_SPLIT, read_folder, score_table
from spdtokens.paper.reproduce.tables import PAPER as REPORTED

DOCS = Path(__file__).parent
ROOT = DOCS.parent
STORE = DOCS / "results"
PLAN = tomllib.loads((STORE / "plan.toml").read_text())
RECORDINGS = os.environ.get("SPDTOKENS_RECORDINGS", "../shared/data")
BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- /results -->)", re.DOTALL)
PAPER = re.compile(
    r"(<!-- (claims|verdicts|reproduced)(?:: ([\w-]+) ([\w-]+))? -->\n).*?(<!-- /\2 -->)", re.DOTALL
)
REPRODUCED = STORE / "reproduce"
#: Values of a row of `spdtokens evaluate --json` that tables show.
KEPT = (
    "method", "metric", "score", "std", "std_over", "train_score", "chance", "chance_bound",
    "n_test", "n_subjects", "n_folds", "n_seeds", "p_holm",
)  # fmt: skip


def run(names: list[str]) -> None:
    """Run commands, all or the named ones, and store what they print."""
    for name in names or PLAN["runs"]:
        words = shlex.split(PLAN["runs"][name]["command"].replace("DATA/", f"{RECORDINGS}/"))
        words[0] = str(Path(sys.executable).with_name("spdtokens"))
        print(name, flush=True)
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        rows = [{key: row[key] for key in KEPT} for row in json.loads(done.stdout)["results"]]
        stored = {
            "command": PLAN["runs"][name]["command"],
            "date": date.today().isoformat(),
            "version": spdtokens.__version__,
            "results": rows,
        }
        (STORE / f"{name}.json").write_text(json.dumps(stored, indent=1) + "\n")


def stored(name: str) -> dict[str, Any]:
    """What a command printed; refused if the plan has another command by now."""
    found: dict[str, Any] = json.loads((STORE / f"{name}.json").read_text())
    if found["command"] != PLAN["runs"][name]["command"]:
        raise SystemExit(f"results/{name}.json is of another command: make results RUNS={name}")
    return found


def table(name: str) -> str:
    """A Markdown table of stored results, and below it how they were measured."""
    plan = PLAN["tables"][name]
    runs = {key: stored(key) for key in plan["columns"]}
    rows = {key: {row["method"]: row for row in value["results"]} for key, value in runs.items()}
    titles = [PLAN["runs"][key]["title"] for key in runs]
    lines = [["", *titles], ["---"] * (len(titles) + 1)]
    for method, label in plan["rows"].items():
        lines.append([label, *(_cell(rows[key].get(method)) for key in runs)])
    firsts = [next(iter(found.values())) for found in rows.values()]
    lines.append(["chance level (95th percentile)", *map(_chance, firsts)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = [
        f"- {PLAN['runs'][key]['title']}: {PLAN['runs'][key]['about']}; {first['n_test']:,} test "
        f"trials. {value['date']}, version {value['version']}:\n  `{_shown(value['command'])}`"
        for (key, value), first in zip(runs.items(), firsts, strict=True)
    ]
    how = "Test score, standard deviation, and in brackets the score on the training trials."
    return f"\n{text}\n\n{how}\n\n" + "\n".join(notes) + "\n\n"


def _shown(command: str) -> str:
    return command.removesuffix(" --json")


def _number(value: float, row: dict[str, Any]) -> str:
    auc = row["metric"] == "roc_auc"
    return f"{value:.3f}".lstrip("0") if auc else f"{100 * value:.1f}"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    spread = f" ± {_number(row['std'], row)}" if row["std"] else ""
    return f"{_number(row['score'], row)}{spread} ({_number(row['train_score'], row)})"


def _chance(row: dict[str, Any]) -> str:
    return f"{_number(row['chance'], row)} ({_number(row['chance_bound'], row)})"


@cache
def statements() -> list[dict[str, Any]]:
    """Every statement of the paper with its verdict."""
    return list(check_statements(results_of(read_folder(REPRODUCED))))


def statements_table(found: list[dict[str, Any]]) -> str:
    """A Markdown table of statements."""
    lines = [["where", "the paper", "verdict", "evidence", "command"], ["---"] * 5]
    for one in found:
        texts = (one["where"], one["says"], f"**{one['verdict']}**", one["evidence"])
        lines.append([*map(_escaped, texts), f"`{one['command']}`"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def claims() -> str:
    """The index of the paper, one Markdown table per section."""
    parts = [f"{len(statements())} statements: {tally(statements())}."]
    for title, kinds in SECTIONS.items():
        mine = [one for one in statements() if one["kind"] in kinds]
        parts.append(f"## {title}\n\n{len(mine)}: {tally(mine)}.\n\n{statements_table(mine)}")
    return "\n" + "\n\n".join(parts) + "\n\n"


def verdicts() -> str:
    """The paper's predictions and contributions."""
    kinds = ("prediction", "contribution")
    return f"\n{statements_table([one for one in statements() if one['kind'] in kinds])}\n\n"


def reproduced(place: str, name: str) -> str:
    """A table of accuracies with both splits, as far as they are stored, and its command."""
    folder = read_folder(STORE / place)
    (found,) = (one for one in folder.scores if one.name == name)
    shown = score_table(found, IN_TERMINAL, paper_split=folder.beside(found))
    columns = ["row", "column", "train", "test", *PAPER_SPLIT, REPORTED]
    at = [shown.headers.index(column) for column in columns if column in shown.headers]
    lines = [[shown.headers[i] for i in at], ["---"] * len(at)]
    lines += [[row[i].text for i in at] for row in shown.rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    # Where the recordings are is the reader's business.
    command = re.sub(r"=\S*/([\w-]+)", r"=DATA/\1", found.command)
    note = re.sub(r"=\S*/([\w-]+)", r"=DATA/\1", shown.note)
    return f"\n{text}\n\n{note}\n`{command}`\n\n"


def _escaped(text: str) -> str:
    """Escape what Markdown would read as markup, except bold verdicts."""
    return re.sub(r"([\\`_\[\]<>|#~$]|(?<!\*)\*(?!\*))", r"\\\1", text)


def pages() -> dict[Path, str]:
    """Every page with results, as it should be."""
    found = {}
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        text = path.read_text()
        if BLOCK.search(text) or PAPER.search(text):
            text = BLOCK.sub(lambda m: m[1] + table(m[2]) + m[3], text)
            found[path] = PAPER.sub(lambda m: m[1] + _made(*m.groups()[1:4]) + m[5], text)
    return found


def _made(kind: str, place: str | None, name: str | None) -> str:
    if place and name:
        return reproduced(place, name)
    return {"claims": claims, "verdicts": verdicts}[kind]()


def figure_digest() -> str:
    """Digest of the numbers that the figure shows."""
    shown = [stored(key)["results"] for key in PLAN["figure"]["columns"]]
    return hashlib.sha256(json.dumps([shown, PLAN["figure"]]).encode()).hexdigest()[:16]


def draw() -> None:
    """Draw train against test: a pair of bars per data set and method."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plan = PLAN["figure"]
    plt.rcParams |= {"svg.hashsalt": "spdtokens", "svg.fonttype": "path", "font.size": 10}
    fig, axes = plt.subplots(1, len(plan["columns"]), figsize=(9, 2.9), sharey=True)
    for axis, key in zip(axes, plan["columns"], strict=True):
        found = {row["method"]: row for row in stored(key)["results"]}
        for x, (method, color) in enumerate(zip(plan["rows"], ("#D55E00", "#0072B2"), strict=True)):
            row = found[method]
            axis.bar(x - 0.2, 100 * row["train_score"], 0.38, color=color, alpha=0.3)
            axis.bar(x + 0.2, 100 * row["score"], 0.38, color=color)
            for shift, value in ((-0.2, row["train_score"]), (0.2, row["score"])):
                axis.text(x + shift, 100 * value + 1.5, f"{100 * value:.0f}", ha="center", size=9)
        axis.axhline(100 * row["chance"], color="#555555", lw=1, ls="--")
        axis.set_xticks([0, 1], ["paper's\ntransformer", "recommended"])
        axis.set_title(PLAN["runs"][key]["title"].replace("`", ""), size=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="accuracy, %", ylim=(0, 112))
    fig.text(0.5, 0.01, "pale: training trials; full: test trials; dashed: chance", ha="center")
    fig.tight_layout(rect=(0, 0.05, 1, 1))
    about = {"Date": None, "Description": figure_digest()}
    fig.savefig(DOCS / plan["file"], metadata=about)


def main(command: str = "check", *names: str) -> int:
    """Run, write or check."""
    if command == "run":
        run(list(names))
        return 0
    if command == "write":
        for path, text in pages().items():
            path.write_text(text)
        draw()
        return 0
    stale = [
        str(path.relative_to(ROOT)) for path, text in pages().items() if path.read_text() != text
    ]
    figure = DOCS / PLAN["figure"]["file"]
    if not figure.exists() or figure_digest() not in figure.read_text():
        stale.append(str(figure.relative_to(ROOT)))
    if stale:
        print(f"Not as stored: {', '.join(stale)}. `make results` writes them.")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
