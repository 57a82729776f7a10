"""What went wrong, said so that it can be put right."""

from __future__ import annotations

try:
    from spdtokens._errors import UserError
except ImportError:  # this folder was copied to a machine without spdtokens
    UserError = ValueError  # type: ignore[assignment,misc]


class DecoderError(UserError):
    """A model or data it cannot be used with; the message names the culprit and the remedy."""
