"""What went wrong, said so that it can be put right."""

from __future__ import annotations


class UserError(ValueError):
    """Input or settings that cannot be used; the message names the culprit and the remedy.

    The base of the errors of every room. The command line prints the message and nothing else.
    """
