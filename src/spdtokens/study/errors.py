"""Why a study is refused."""

from __future__ import annotations

from spdtokens._errors import UserError


class StudyError(UserError):
    """A study, or a store of runs, that cannot be used; the message names culprit and remedy."""
