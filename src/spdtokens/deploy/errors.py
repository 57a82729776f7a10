"""What cannot be done with a model or a recording."""

from __future__ import annotations

from spdtokens._errors import UserError


class DeployError(UserError):
    """A model or recording that cannot be used as asked; names the culprit and the remedy."""
