"""Numbers as readers see them; what is not known is a dash."""

from __future__ import annotations

import numpy as np

from spdtokens.evaluation.metrics import METRICS
from spdtokens.evaluation.summary import PERCENT

UNKNOWN = "-"
MINUS = "\N{MINUS SIGN}"


def score_text(value: float, metric: str) -> str:
    """A score for a table: shares in percent, without the sign."""
    if not np.isfinite(value):
        return UNKNOWN
    text = f"{100 * value:.1f}" if metric in PERCENT else f"{value:.3f}"
    return text.replace("-", MINUS)


def said(value: float, metric: str) -> str:
    """A score within a sentence."""
    return score_text(value, metric) + (" %" if metric in PERCENT else "")


def gap_text(value: float, metric: str) -> str:
    """A difference of scores within a sentence, without its sign."""
    points = " points" if metric in PERCENT else ""
    return score_text(abs(value), metric) + points


def difference_text(value: float, metric: str) -> str:
    """A difference of scores for a table, with its sign."""
    text = score_text(value, metric)
    return f"+{text}" if np.isfinite(value) and value > 0 else text


def p_text(value: float) -> str:
    """A p-value for a table."""
    if not np.isfinite(value):
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def p_said(value: float) -> str:
    """A p-value within a sentence."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def number_text(value: float, form: str = ".2f") -> str:
    """Any other number for a table."""
    return format(value, form).replace("-", MINUS) if np.isfinite(value) else UNKNOWN


def seconds_text(value: float) -> str:
    """Seconds to three figures, more where there are more."""
    if not np.isfinite(value):
        return UNKNOWN
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def metric_title(metric: str) -> str:
    """What the scores of a table are, with their unit."""
    return METRICS[metric].title + (" in %" if metric in PERCENT else "")


def sentence(text: str) -> str:
    """With a capital letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def listed(names: list[str], most: int = 6) -> str:
    """Names in a sentence; beyond ``most``, how many more there are."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} others"
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" and {names[-1]}"
