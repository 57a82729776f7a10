"""The figures of what decides, with their words."""

from __future__ import annotations

import numpy as np

from spdtokens._tables import counted
from spdtokens.classifiers.explain import electrode_info
from spdtokens.evaluation.metrics import METRICS
from spdtokens.reporting.decisions import MOST, Decision, Unexplained, told
from spdtokens.reporting.facts import Facts
from spdtokens.reporting.maps import LEAST, importance_figure
from spdtokens.reporting.numbers import said
from spdtokens.reporting.picture import Group, Picture
from spdtokens.reporting.small import heat_map

#: Probabilities that differ by less are the same but for rounding.
ROUNDING = 1e-9
#: Channels whose shares are told in words.
NAMED = 5


def what_decides(facts: Facts) -> Group | None:
    """Channels and bands that decide, and attention between bands; None if no one looked."""
    if not facts.decisions:
        return None
    pictures = []
    for one in facts.decisions:
        if isinstance(one, Decision):
            pictures.append(_importance(one, facts))
            if one.attention is not None:
                pictures.append(_attention(one, one.attention))
    return Group("What decides", tuple(pictures), _note(facts))


def _note(facts: Facts) -> str:
    text = ""
    if any(isinstance(one, Decision) for one in facts.decisions):
        found = len(electrode_info(facts.ch_names)[1])
        channels = counted(len(facts.ch_names), "channel")
        text = (
            "A share tells how far the score of the predicted class moves when the amplitude of a "
            "channel within a band moves as far as it does from trial to trial (exact gradient, "
            "mean of sizes over test trials; all shares of a model are 100 %). It tells what the "
            "model uses, not where in the brain that comes from. "
            f"Electrode positions are known by name for {found} of {channels}"
            + ("." if found >= LEAST else ": too few for a map.")
            + f" Of the best token methods, {MOST} at most, one model was trained again for this "
            "page: that of the subject whose score is in the middle."
        )
        if facts.answer.question.alignment != "none":
            text += (
                f" Trials were aligned ({facts.answer.question.alignment}) before the model saw "
                "them, which mixes channels a little: shares are of channels after that."
            )
    failed = [one for one in facts.decisions if isinstance(one, Unexplained)]
    told_why = [f"{one.method} could not be looked into: {one.reason}" for one in failed]
    return " ".join([text, *told_why]).strip()


def _importance(one: Decision, facts: Facts) -> Picture:
    ch_names, metric = facts.ch_names, facts.metric
    score = said(one.run.test.get(metric, np.nan), metric)
    figure = importance_figure(one.importance, one.names, ch_names)
    total = one.importance.sum(0)
    order = np.argsort(-total, kind="stable")[:NAMED]
    channels = ", ".join(f"{ch_names[i]} {100 * total[i]:.0f} %" for i in order)
    bands = ""
    if len(one.names) > 1:
        shares = one.importance.sum(1)
        pairs = zip(one.names, shares, strict=True)
        bands = " Bands: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in pairs) + "."
    return Picture(
        figure,
        f"Share of each channel in the decisions of {one.method}. Largest: {channels}.{bands}",
        f"{one.method}: share of each channel, mean over {counted(len(one.run.y), 'test trial')} "
        f"of {told(one.run)} (test {METRICS[metric].title} {score}). {_check(one)}",
    )


def _check(one: Decision) -> str:
    """Whether the model is that of the study, in words."""
    n = len(one.run.y)
    if one.changed:
        return (
            f"Not quite the study's model: trained again, it predicts another class for "
            f"{one.changed} of {n} test trials. The study ran on another machine or by other code."
        )
    if one.apart > ROUNDING:
        return (
            f"All {n} predicted classes are those of the study, probabilities differ by up to "
            f"{one.apart:.1g}: it ran on another machine or by other code."
        )
    return f"It is the study's model: all {n} predictions are those that are stored."


def _attention(one: Decision, weights: np.ndarray) -> Picture:
    received = weights.mean(0)
    order = np.argsort(-received, kind="stable")
    most = ", ".join(f"{one.names[i]} {100 * received[i]:.0f} %" for i in order[:NAMED])
    even = 100 / len(weights)
    bands = all(name.endswith(" Hz") for name in one.names)
    figure = heat_map(
        weights,
        [name.removesuffix(" Hz") if bands else name for name in one.names],
        across="is attended to" + (", Hz" if bands else ""),
        down="attends" + (", Hz" if bands else ""),
        full=float(weights.max()),
    )
    return Picture(
        figure,
        f"Attention between the bands of {one.method}. Received on average: {most}; without any "
        f"preference {even:.0f} %.",
        f"{one.method}: attention in percent, mean over heads, layers and test trials of the same "
        f"model. Rows attend to columns; without any preference every number would be {even:.0f}.",
    )
