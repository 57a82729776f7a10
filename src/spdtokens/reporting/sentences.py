"""The results of a section in sentences."""

from __future__ import annotations

import numpy as np

from spdtokens._tables import counted, p_value
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS
from spdtokens.evaluation.summary import TESTS, Row, chance_said, compare_methods, score_said
from spdtokens.reporting.report import Facts
from spdtokens.reporting.tables import gap_text, listed, winner

ALPHA = 0.05


def opening(facts: Facts) -> str:
    """Say what was decoded, from whom, how it was tested, which method won, and against chance."""
    if not facts.rows:
        return "No runs yet."
    row, question = facts.rows[0], facts.answer.question
    protocol = PROTOCOLS[question.protocol]
    folds = protocol.checked(question.protocol_options).get("folds", "k")
    tested = protocol.test.replace(" k ", f" {folds} ")
    channels = f"{counted(len(facts.ch_names), 'channel')} of " if facts.ch_names else ""
    decoded = (
        f"{len(facts.classes)} classes ({listed(facts.classes, 8)}) were decoded from {channels}"
        f"{counted(row.n_subjects, 'subject')} of {facts.dataset}. Training data: "
        f"{protocol.train}. Test data: {tested}, {counted(row.n_test, 'trial')} in total."
    )
    if not np.isfinite([row.score for row in facts.rows]).any():
        name = METRICS[facts.metric].title
        return f"{decoded} No {name} could be computed: does a test set lack a class?"
    return f"{decoded} {_won(facts)} {_above_chance(facts)}"


def sentences(facts: Facts) -> list[str]:
    """Say what is missing, what is leaky, how far the winner leads, and how much it overfits."""
    if not facts.rows:
        return []
    found = [_missing(facts), _leaks(facts)]
    if np.isfinite([row.score for row in facts.rows]).any():
        found += [*_ahead(facts), _overfitting(facts)]
    return [sentence for sentence in (*found, _access(facts)) if sentence]


def _missing(facts: Facts) -> str:
    left = facts.planned - len(facts.runs)
    if left <= 0:
        return ""
    text = f"Unfinished: {left} of {counted(facts.planned, 'run')} are missing."
    if facts.units.paired and facts.units.test.isna().any(axis=None):
        text += f" Methods have different {facts.units.over}: scores cannot be compared yet."
    return text


def _leaks(facts: Facts) -> str:
    leaky = [row for row in facts.rows if row.leaky]
    if not leaky:
        return ""
    why = "; ".join(dict.fromkeys(row.leaky for row in leaky))
    return f"Leaky: {why}. Scores are optimistic: {listed([row.method for row in leaky])}."


def _won(facts: Facts) -> str:
    best, metric = winner(facts.rows), facts.metric
    spread = ""
    if best.std_over:
        n = getattr(best, f"n_{best.std_over}")
        spread = f" (standard deviation {gap_text(best.std, metric)} over {n} {best.std_over})"
    equal = [r.method for r in facts.rows if r.score == best.score and r.leaky == best.leaky]
    name = METRICS[metric].title
    if len(equal) > 1:
        text, spread = f"{listed(equal)} share the highest test {name}: ", ""
    elif len(facts.rows) == 1:
        text = f"{best.method} reaches a test {name} of "
    else:
        text = f"{best.method} has the highest test {name} of {len(facts.rows)} methods: "
    return f"{text}{score_said(best.score, metric)}{spread}."


def _ahead(facts: Facts) -> list[str]:
    """How far the winner is ahead of the next method and of the reference."""
    best, reference = winner(facts.rows), facts.rows[0]
    others = [r for r in facts.rows if r is not best and bool(r.leaky) == bool(best.leaky)]
    if not others:
        return []
    second = max(others, key=lambda r: r.score if np.isfinite(r.score) else -np.inf)
    asked = [second, *([reference] if reference not in (best, second) else [])]
    return [_lead(facts, best, r) for r in asked if r in others and r.score != best.score]


def _lead(facts: Facts, best: Row, other: Row) -> str:
    reference = facts.rows[0]
    role = ", the reference" if other is reference else ""
    lead = gap_text(best.score - other.score, facts.metric)
    text = f"{best.method} is {lead} ahead of {other.method}{role}"
    if reference in (best, other):
        row = other if best is reference else best
        comparison, p, family = row.comparison, row.p_holm, "Holm-corrected"
    else:
        pairs = compare_methods(facts.answer.results, facts.metric)
        two = {best.method, other.method}
        pair = next(pair for pair in pairs if {pair.method, pair.reference} == two)
        # Which two lead is known only from the scores: any pair might have been compared.
        family = f"Holm-corrected over all {len(pairs)} pairs"
        comparison, p = pair.comparison, pair.p_holm
    assert comparison is not None  # only the first method has none
    if not np.isfinite(p):
        return f"{text}; no significance test: {comparison.why_not}."
    verdict = "significant" if p < ALPHA else "not significant"
    flips = comparison.test in ("permutation", "trial_permutation")
    # The least p there is: all signs alike, and all of them flipped.
    limit = (
        "; too few for any difference to be" if flips and 2 ** (1 - comparison.n) >= ALPHA else ""
    )
    return (
        f"{text}: {verdict} (p {'' if p < 0.001 else '= '}{p_value(p)}, {family}; "
        f"{TESTS[comparison.test]}, n = {comparison.n}{limit})."
    )


def _above_chance(facts: Facts) -> str:
    known = [r for r in facts.rows if np.isfinite(r.chance_bound) and np.isfinite(r.score)]
    if not known:
        return f"No chance bound is known for {METRICS[facts.metric].title} here."
    below = [r.method for r in known if not r.score > r.chance_bound]
    if not below:
        who = {1: "It is", 2: "Both methods are"}.get(len(known), f"All {len(known)} methods are")
        text = f"{who} above chance."
    elif len(below) == len(known):
        text = "Nothing is above chance."
    else:
        text = f"Not above chance: {listed(below)}; all others are."
    return f"{text} {chance_said(known[0])}"


def _overfitting(facts: Facts) -> str:
    known = [r for r in facts.rows if np.isfinite(r.train_score - r.score)]
    if not known:
        return ""
    best = winner(facts.rows)
    worst = max(known, key=lambda r: r.train_score - r.score)
    told = [
        f"{row.method} scores {score_said(row.train_score, facts.metric)} on its training trials, "
        f"{gap_text(row.train_score - row.score, facts.metric)} "
        f"{'above' if row.train_score >= row.score else 'below'} its test trials{most}."
        for row, most in ((best, ""), (worst, ", the largest gap"))
        if row in known and (row is best or worst is not best)
    ]
    return " ".join(told)


def _access(facts: Facts) -> str:
    question = facts.answer.question
    access = ACCESS[question.access]
    seen = "Nothing of the target is used before it is tested"
    if access.share or access.online:
        seen = f"Used of the target: {access.description}"
    if question.alignment != "none":
        seen += f"; aligned by {question.alignment}, one reference per {question.domain}"
    clean = "" if any(r.leaky for r in facts.rows) else " No score is marked leaky."
    return f"{seen}.{clean}"
