"""Why an evaluation is refused."""

from __future__ import annotations

from spdtokens._errors import UserError


class EvaluationError(UserError):
    """An evaluation that cannot be done; the message names the culprit and the remedy."""


class LeakError(EvaluationError):
    """An evaluation that would see what it must not; the message has the trials' ids."""
