"""Why a report is refused."""

from __future__ import annotations

from spdtokens._errors import UserError


class ReportError(UserError):
    """A report that cannot be made; the message names culprit and remedy."""
