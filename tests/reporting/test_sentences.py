from __future__ import annotations

from dataclasses import replace

import pytest

from spdtokens.evaluation.statistics import holm, permutation
from spdtokens.evaluation.summary import unit_scores
from spdtokens.reporting.report import Facts
from spdtokens.reporting.sentences import opening, sentences
from tests.reporting.helpers import CHANNELS, made_facts, made_run, many

LOW, HIGH = [0.6, 0.5, 0.6, 0.7, 0.6, 0.5, 0.6, 0.5], [0.9, 0.8, 0.9, 1.0, 0.8, 0.8, 0.9, 0.9]


def by_subject(**right: list[float]) -> dict[str, list]:
    return {
        name: [made_run(name, str(s), right=r, trained=1.0) for s, r in enumerate(row)]
        for name, row in right.items()
    }


def told(facts: Facts) -> str:
    return " ".join([opening(facts), *sentences(facts)])


def test_the_opening_says_what_was_decoded_and_who_won() -> None:
    facts = replace(made_facts(by_subject(first=LOW, second=HIGH)), ch_names=CHANNELS)
    text = opening(facts)
    assert text.startswith("2 classes (left and right) were decoded from 6 channels of 8 subjects")
    assert "320 trials" in text
    assert "second has the highest test accuracy of 2 methods: 87.5 %" in text
    assert "Both methods are above chance. Chance level 50.0 % (95th percentile" in text


def test_the_lead_is_tested_and_overfitting_told() -> None:
    results = by_subject(first=LOW, second=HIGH)
    text = told(made_facts(results))
    _, scores = unit_scores(results, "accuracy")
    p = permutation(scores["second"], scores["first"]).p_value
    assert f"30.0 points ahead of first, the reference: significant (p = {p:.3f}"[:-5] in text
    assert "over subjects, n = 8)" in text
    assert "second scores 100.0 % on its training trials, 12.5 points above" in text
    assert "first scores 100.0 % on its training trials, 42.5 points above" in text
    assert "No score is marked leaky" in text
    assert "Unfinished" not in text


def test_two_that_lead_by_chance_are_corrected_for_all_pairs() -> None:
    results = by_subject(first=LOW, second=HIGH, third=[x - 0.1 for x in HIGH[:7]] + [0.9])
    text = told(made_facts(results))
    _, s = unit_scores(results, "accuracy")
    pairs = [("first", "second"), ("first", "third"), ("second", "third")]
    p = holm([permutation(s[a], s[b]).p_value for a, b in pairs])[2]
    assert "ahead of third: significant" in text
    assert f"(p = {p:.3f}, Holm-corrected over all 3 pairs".replace("= 0", "= ") in text
    assert "ahead of first, the reference: significant" in text


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (
            {"a": [replace(made_run("a"), train={})], "b": [replace(made_run("b"), train={})]},
            "share the highest test accuracy",
        ),
        (by_subject(a=[0.5, 0.5, 0.6], b=[0.9, 0.8, 0.9]), "not significant (p = .250|too few"),
        (by_subject(a=[0.8, 0.7], b=[0.8, 0.7]), "a and b share the highest test accuracy: 75.0 %"),
        (by_subject(a=[0.5, 0.5], b=[0.45, 0.5]), "Nothing is above chance"),
        (by_subject(a=[0.5, 0.5], b=[0.9, 0.9]), "Not above chance: a; all others are"),
        (by_subject(a=[0.8, 0.7, 0.8], b=[0.6, 0.5]), "no significance test"),
        ({"a": []}, "No runs yet."),
        ({"a": [replace(made_run("a"), stretch=None)]}, "No chance bound"),
        ({"a": [made_run("a", right=0.9)]}, "a reaches a test accuracy of 90.0 %|It is above"),
        ({"a": [replace(made_run("a"), test={})]}, "No accuracy could be computed"),
        ({"a": [made_run("a", right=0.5)], "b": [made_run("b")]}, "McNemar|n = 40"),
        (
            {m: [made_run(m, fold=f, right=r) for f in "xyz"] for m, r in (("a", 0.5), ("b", 0.9))},
            "ahead of a, the reference",
        ),
        (
            by_subject(short=[0.5, 0.5], a=[0.9, 0.9, 0.8], b=[0.8, 0.8, 0.7]),
            "10.0 points ahead of b: not significant|ahead of short, the reference; no sign",
        ),
    ],
)
def test_what_is_said(results: dict, words: str) -> None:
    text = told(made_facts(results))
    assert all(word in text for word in words.split("|")), text


def test_leaks_and_gaps_come_first_and_a_leaky_score_does_not_win() -> None:
    why = "segments of one trial on both sides"
    results = by_subject(honest=[0.8, 0.7])
    results["leaky"] = [made_run("leaky", str(s), right=1.0, leaky=why) for s in (0, 1)]
    facts = made_facts(results, more=2)
    unfinished, leaky, *rest = sentences(facts)
    assert unfinished.startswith("Unfinished: 2 of 6 runs")
    assert leaky.startswith(f"Leaky: {why}.")
    assert "honest has the highest" in opening(facts)
    assert "No score is marked" not in " ".join(rest)
    apart = sentences(made_facts(by_subject(a=[0.8, 0.7, 0.8], b=[0.6, 0.5]), more=1))
    assert "different subjects" in apart[0]


def test_what_was_used_of_the_target() -> None:
    last = sentences(made_facts(many(), access="unlabeled_full", alignment="recentre"))[-1]
    assert "all scored trials at once" in last
    assert "aligned by recentre, one reference per session" in last
    assert "Nothing of the target is used" in sentences(made_facts(many()))[-1]
