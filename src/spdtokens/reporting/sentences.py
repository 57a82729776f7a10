"""What a table says, in sentences."""

from __future__ import annotations

import numpy as np

from spdtokens._tables import counted
from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.protocols import ACCESS
from spdtokens.evaluation.statistics import Comparison
from spdtokens.evaluation.summary import Row, chance_said, compare_methods
from spdtokens.reporting.report import Facts
from spdtokens.reporting.tables import gap_text, listed, p_text, said, winner

ALPHA = 0.05


def sentences(facts: Facts) -> list[str]:
    """What won, by how much, whether that can be chance, what was memorised, what flatters."""
    if not facts.rows:
        return ["No runs yet."]
    if not np.isfinite([row.score for row in facts.rows]).any():
        name = METRICS[facts.metric].title
        return [f"No {name} could be computed: does a test set lack a class?", _seen(facts)]
    return [
        sentence
        for sentence in (
            _missing(facts),
            _leaks(facts),
            _won(facts),
            *_ahead(facts),
            _above_chance(facts),
            _memorised(facts),
            _seen(facts),
        )
        if sentence
    ]


def _missing(facts: Facts) -> str:
    left = facts.planned - len(facts.runs)
    if left <= 0:
        return ""
    text = f"Unfinished: {left} of {counted(facts.planned, 'run')} are missing."
    units = facts.units
    if units.paired and units.test.isna().any(axis=None):
        text += f" Not every method has the same {units.over}: scores cannot be compared yet."
    return text


def _leaks(facts: Facts) -> str:
    leaky = [row for row in facts.rows if row.leaky]
    if not leaky:
        return ""
    why = "; ".join(dict.fromkeys(row.leaky for row in leaky))
    who = "Every score is" if len(leaky) == len(facts.rows) else "Scores are"
    return f"Leaky: {why}. {who} marked and flatter: {listed([row.method for row in leaky])}."


def _won(facts: Facts) -> str:
    best, metric = winner(facts.rows), facts.metric
    spread = ""
    if np.isfinite(best.std):
        n = {"subjects": best.n_subjects, "seeds": best.n_seeds, "folds": best.n_folds}
        over = best.std_over
        spread = f" (standard deviation {gap_text(best.std, metric)} over {n[over]} {over})"
    equal = [r.method for r in facts.rows if r.score == best.score and r.leaky == best.leaky]
    name, trials = METRICS[metric].title, counted(best.n_test, "test trial")
    if len(equal) > 1:
        text, spread = f"{listed(equal)} share the highest test {name}: ", ""
    elif len(facts.rows) == 1:
        text = f"{best.method} reaches a test {name} of "
    else:
        text = f"{best.method} has the highest test {name} of {len(facts.rows)} methods: "
    return f"{text}{said(best.score, metric)}{spread}, {trials}."


def _ahead(facts: Facts) -> list[str]:
    """How far the winner is ahead of the next and of the reference, and whether by chance."""
    best, reference = winner(facts.rows), facts.rows[0]
    others = [r for r in facts.rows if r is not best and bool(r.leaky) == bool(best.leaky)]
    if not others:
        return []
    second = max(others, key=lambda r: r.score if np.isfinite(r.score) else -np.inf)
    asked = [second, *([reference] if reference not in (best, second) else [])]
    return [_lead(facts, best, r) for r in asked if r in others and r.score != best.score]


def _lead(facts: Facts, best: Row, other: Row) -> str:
    lead = best.score - other.score
    reference = facts.rows[0]
    role = ", the reference" if other is reference else ""
    text = f"It is {gap_text(lead, facts.metric)} ahead of {other.method}{role}"
    if reference in (best, other):
        row = other if best is reference else best
        comparison, p, family = row.comparison, row.p_holm, "Holm-corrected"
    else:
        pairs = compare_methods(facts.answer.results, facts.metric)
        two = {best.method, other.method}
        pair = next(pair for pair in pairs if {pair.method, pair.reference} == two)
        # Which two lead is known only from the scores: every pair might have been asked about.
        family = f"Holm-corrected over all {len(pairs)} pairs"
        comparison, p = pair.comparison, pair.p_holm
    assert comparison is not None  # only the first method has none
    if not np.isfinite(p):
        return f"{text}; whether that is significant cannot be tested: {comparison.why_not}."
    verdict = "significant" if p < ALPHA else "not significant"
    equals = "p" if p < 0.001 else "p ="
    over, limit = _over(comparison), _limit(comparison)
    return f"{text}: {verdict} over {over} ({equals} {p_text(p)}, {family}{limit})."


def _over(comparison: Comparison) -> str:
    """What a difference was tested over, and so what it is a difference of."""
    n = comparison.n
    if comparison.test == "mcnemar":
        return f"the {n} trials of one test session"
    if comparison.test == "trial_permutation":
        return f"{n} independent trials, or chains of trials, of one test session"
    return f"{n} subjects" if comparison.test == "permutation" else f"{n} folds of one subject"


def _limit(comparison: Comparison) -> str:
    """A warning where so few units could not show any difference."""
    # The least p there is: all signs alike, and all of them flipped.
    if (
        comparison.test in ("permutation", "trial_permutation")
        and 2.0 ** (1 - comparison.n) >= ALPHA
    ):
        return f"; with {comparison.n} no difference can be"
    return ""


def _above_chance(facts: Facts) -> str:
    metric = facts.metric
    known = [r for r in facts.rows if np.isfinite(r.chance_bound) and np.isfinite(r.score)]
    if not known:
        return f"Whether {METRICS[metric].title} is above chance cannot be said here."
    below = [r for r in known if not r.score > r.chance_bound]
    level = chance_said(known[0])
    if not below:
        who = {1: "It is", 2: "Both methods are"}.get(len(known), f"All {len(known)} methods are")
        return f"{who} above chance. {level}"
    if len(below) == len(known):
        return f"Nothing is above chance. {level}"
    return f"Not above chance: {listed([r.method for r in below])}; all others are. {level}"


def _memorised(facts: Facts) -> str:
    known = [r for r in facts.rows if np.isfinite(r.train_score) and np.isfinite(r.score)]
    if not known:
        return ""
    metric, best = facts.metric, winner(facts.rows)
    worst = max(known, key=lambda r: r.train_score - r.score)
    text = ""
    if best in known:
        gap = best.train_score - best.score
        text = (
            f"On its training trials {best.method} scores {said(best.train_score, metric)}, "
            f"{gap_text(gap, metric)} {'above' if gap >= 0 else 'below'} its test trials."
        )
    if worst is not best:
        text += (
            f" Farthest apart is {worst.method}: {said(worst.train_score, metric)} on training "
            f"trials, {said(worst.score, metric)} on test trials."
        )
    return text.strip()


def _seen(facts: Facts) -> str:
    question = facts.answer.question
    access = ACCESS[question.access]
    seen = "Nothing is seen of the target before it is tested"
    if access.share or access.online:
        seen = f"Seen of the target: {access.description}"
    if question.alignment != "none":
        seen += f"; aligned by {question.alignment}, one reference a {question.domain}"
    honest = "" if any(r.leaky for r in facts.rows) else " No score is marked leaky."
    return f"{seen}.{honest}"
