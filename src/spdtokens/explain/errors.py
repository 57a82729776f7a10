"""Why a model is not explained."""

from __future__ import annotations

from spdtokens._errors import UserError


class ExplainError(UserError):
    """A model that cannot be explained; the message names culprit and remedy."""
