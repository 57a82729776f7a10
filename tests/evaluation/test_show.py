from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from spdtokens.evaluation.plan import Question
from spdtokens.evaluation.show import as_json, summary_table
from spdtokens.evaluation.summary import Row, summarise
from tests.evaluation.test_summary import runs

QUESTION = Question("d", (), "blocks", access="online", alignment="recentre")
LEAK = "segments of one trial are in more than one part of the split"


def shown(rows: list[Row], *, styled: bool = False) -> str:
    console = Console(width=200, force_terminal=styled, color_system="standard" if styled else None)
    with console.capture() as capture:
        console.print(summary_table(rows, QUESTION, "my [data]"))
    return " ".join(capture.get().split())


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    scores = rng.random((3, 2, 2))
    return summarise(
        {"first": runs(0.2 * scores), "se[x]ond": runs(0.8 + 0.2 * scores)}, "accuracy"
    )


def test_table() -> None:
    text = shown(rows())
    assert "my [data]: blocks, target access online, recentre by session" in text
    for row in rows():
        cells = (
            f"{row.method} {100 * row.train_score:.1f} {100 * row.score:.1f} {100 * row.std:.1f}"
        )
        assert f"{cells} 50.0 60 12" in text
    assert "se[x]ond" in text  # brackets of a name are not markup
    assert (
        "Accuracy in percent: mean over seeds, then folds, then subjects (2 seeds, 6 folds" in text
    )
    assert "3 subjects; 30 training trials per run, n test trials). ± standard deviation" in text
    assert "p against first by a sign-flip permutation test over subjects, Holm-corrected" in text
    bound = 100 * rows()[0].chance_bound
    assert f"Chance level 50.0 % (95th percentile for n = 60: {bound:.1f} %)." in text
    assert " .250 " in text  # of 8 sign flips, the observed one and its mirror image
    assert "leaky" not in text.lower()


def test_what_was_counted_and_why_there_is_no_p_are_told() -> None:
    found = [
        replace(rows()[0], n_independent=12),
        replace(rows()[1], p_holm=float("nan"), no_p_because="of a reason"),
    ]
    text = shown(found)
    assert "n = 12 independent of 60 test trials" in text
    assert "No p for se[x]ond: of a reason." in text
    assert "p against" not in text
    balanced = [replace(row, metric="balanced_accuracy", majority=0.75) for row in rows()]
    assert "classes are unequal (largest: 75 % of test trials)" in shown(balanced)


def test_what_is_no_better_than_guessing_is_dim() -> None:
    text = shown(rows(), styled=True)
    low, high = (f"{100 * row.score:.1f}" for row in rows())
    assert f"\x1b[2m{low}" in text
    assert f"\x1b[1m{high}" in text
    unknown = [replace(row, chance_bound=float("nan")) for row in rows()]
    assert f"\x1b[2m{low}" not in shown(unknown, styled=True)  # where it cannot be said


def test_a_leak_is_marked_everywhere() -> None:
    marked = [rows()[0], replace(rows()[1], leaky=LEAK)]
    text = shown(marked)
    assert "se[x]ond leaky" in text
    assert "first leaky" not in text
    assert f"Leaky: {LEAK}; these scores flatter." in text
    assert [row["leaky"] for row in as_json(marked)["results"]] == [None, LEAK]


@pytest.mark.parametrize(
    ("metric", "value", "cell", "title"),
    [
        ("roc_auc", 0.8126, ".813", "ROC AUC: mean"),
        ("kappa", -0.05, "-.050", "Cohen's kappa: mean"),
        ("itr", 1.25, "1.250", "Bits per trial: mean"),
        ("f1", 0.5, "50.0", "F1 in percent: mean"),
    ],
)
def test_numbers_of_other_metrics(metric: str, value: float, cell: str, title: str) -> None:
    text = shown([replace(rows()[0], metric=metric, score=value)])
    assert f" {cell} " in text
    assert title in text


def test_json_is_plain() -> None:
    again = json.loads(json.dumps(as_json(rows()), allow_nan=False))
    assert again == as_json(rows())
    assert again["results"][1]["p_value"] == pytest.approx(0.25)
    assert shown([]).endswith("No runs.")


def test_one_seed_fold_and_subject_are_not_plural() -> None:
    (row,) = summarise({"only": runs(np.full((1, 1, 1), 0.5))}, "accuracy")
    assert "(1 seed, 1 fold, 1 subject;" in shown([row])
