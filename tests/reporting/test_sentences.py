from __future__ import annotations

from dataclasses import replace

import pytest

from spdtokens.evaluation.statistics import holm, permutation
from spdtokens.evaluation.summary import unit_scores
from spdtokens.reporting.sentences import sentences
from tests.reporting.helpers import made_facts, made_run, many


def by_subject(**right: list[float]) -> dict[str, list]:
    return {
        name: [made_run(name, str(s), right=r, trained=1.0) for s, r in enumerate(row)]
        for name, row in right.items()
    }


def test_who_won_by_how_much_and_whether_significantly() -> None:
    results = by_subject(
        first=[0.6, 0.5, 0.6, 0.7, 0.6, 0.5, 0.6, 0.5],
        second=[0.9, 0.8, 0.9, 1.0, 0.8, 0.8, 0.9, 0.9],
    )
    told = " ".join(sentences(made_facts(results)))
    _, scores = unit_scores(results, "accuracy")
    p = permutation(scores["second"], scores["first"]).p_value
    assert p == pytest.approx(2 / 2**8)
    assert "second has the highest test accuracy of 2 methods: 87.5 %" in told
    assert "over 8 subjects), 320 test trials" in told
    assert (
        "30.0 points ahead of first, the reference: significant over 8 subjects (p = 0.008" in told
    )
    assert "Both methods are above chance. Chance level 50.0 % (95th percentile" in told
    assert "second scores 100.0 %, 12.5 points above its test trials" in told
    assert "Farthest apart is first: 100.0 % on training trials, 57.5 % on test trials" in told
    assert "No score is marked leaky" in told
    assert "Unfinished" not in told


def test_two_that_lead_by_chance_are_corrected_for_all_pairs() -> None:
    results = by_subject(
        first=[0.5, 0.5, 0.6, 0.5, 0.5, 0.5, 0.6, 0.5],
        second=[0.9, 0.8, 0.9, 1.0, 0.8, 0.8, 0.9, 0.9],
        third=[0.8, 0.7, 0.8, 0.9, 0.7, 0.8, 0.8, 0.9],
    )
    told = " ".join(sentences(made_facts(results)))
    _, s = unit_scores(results, "accuracy")
    pairs = [("first", "second"), ("first", "third"), ("second", "third")]
    p = holm([permutation(s[a], s[b]).p_value for a, b in pairs])[2]
    assert "ahead of third: significant over 8 subjects" in told
    assert f"(p = {p:.3f}, Holm-corrected over all 3 pairs)" in told
    assert "ahead of first, the reference: significant" in told


def test_too_few_subjects_are_told_of() -> None:
    results = by_subject(first=[0.5, 0.5, 0.6], second=[0.9, 0.8, 0.9])
    told = " ".join(sentences(made_facts(results)))
    assert "not significant over 3 subjects (p = 0.250" in told
    assert "with 3 no difference can be" in told


def test_ties_share() -> None:
    told = " ".join(sentences(made_facts(by_subject(a=[0.8, 0.7], b=[0.8, 0.7]))))
    assert "a and b share the highest test accuracy: 75.0 %" in told
    assert "ahead" not in told


def test_nothing_above_chance_and_some() -> None:
    told = " ".join(sentences(made_facts(by_subject(a=[0.5, 0.5], b=[0.45, 0.5]))))
    assert "Nothing is above chance" in told
    told = " ".join(sentences(made_facts(by_subject(a=[0.5, 0.5], b=[0.9, 0.9]))))
    assert "Not above chance: a; all others are" in told


def test_leaks_and_gaps_come_first_and_a_leaky_score_does_not_win() -> None:
    why = "segments of one trial on both sides"
    results = by_subject(honest=[0.8, 0.7])
    results["leaky"] = [made_run("leaky", str(s), right=1.0, leaky=why) for s in (0, 1)]
    told = sentences(made_facts(results, more=2))
    assert told[0] == "Unfinished: 2 of 6 runs are missing."
    assert told[1].startswith(f"Leaky: {why}.")
    assert "honest has the highest" in told[2]
    assert "No score is marked" not in " ".join(told)


def test_what_was_seen_of_the_target() -> None:
    facts = made_facts(many(), access="unlabeled_full", alignment="recentre")
    assert "all scored trials at once" in sentences(facts)[-1]
    assert "aligned by recentre, one reference a session" in sentences(facts)[-1]
    assert "Nothing is seen" in sentences(made_facts(many()))[-1]


def test_no_runs_and_one_method() -> None:
    assert sentences(made_facts({"a": []})) == ["No runs yet."]
    told = " ".join(sentences(made_facts({"a": [made_run("a", right=0.9)]})))
    assert "a reaches a test accuracy of 90.0 %, 40 test trials" in told
    assert "It is above chance" in told


def test_a_method_that_lacks_a_subject_cannot_be_tested() -> None:
    results = by_subject(a=[0.8, 0.7, 0.8], b=[0.6, 0.5])
    told = " ".join(sentences(made_facts(results)))
    assert "whether that is significant cannot be tested" in told


def test_what_a_difference_is_tested_over_is_told() -> None:
    results = {"a": [made_run("a", right=0.5)], "b": [made_run("b", right=0.9)]}
    assert "over the 40 trials of one test session (p" in " ".join(sentences(made_facts(results)))
    results = {
        name: [made_run(name, fold=f, right=r) for f, r in zip("xyz", row, strict=True)]
        for name, row in {"a": [0.5, 0.5, 0.6], "b": [0.9, 0.8, 0.9]}.items()
    }
    assert "over 3 folds of one subject (p" in " ".join(sentences(made_facts(results)))


def test_methods_on_different_subjects_are_not_compared() -> None:
    results = by_subject(a=[0.8, 0.7, 0.8], b=[0.6, 0.5])
    told = sentences(made_facts(results, more=1))
    assert "Not every method has the same subjects" in told[0]


def test_no_score_at_all() -> None:
    told = sentences(made_facts({"a": [replace(made_run("a"), test={})]}))
    assert told[0] == "No accuracy could be computed: does a test set lack a class?"


def test_leaders_are_compared_where_the_reference_cannot_be() -> None:
    results = by_subject(short=[0.5, 0.5], a=[0.9, 0.9, 0.8], b=[0.8, 0.8, 0.7])
    told = " ".join(sentences(made_facts(results)))
    assert "10.0 points ahead of b: not significant over 3 subjects" in told
    assert "ahead of short, the reference; whether that is significant cannot be tested" in told
