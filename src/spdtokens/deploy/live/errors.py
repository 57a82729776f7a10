"""What can go wrong with a live stream and be put right by the user."""

from __future__ import annotations

from spdtokens._errors import UserError
from spdtokens._extras import how_to_install, is_installed


class LiveError(UserError):
    """A stream that cannot be decoded; the message names the culprit and the remedy."""


def need_lsl() -> None:
    """Refuse to go on without mne-lsl.

    Raises
    ------
    LiveError
    """
    if not is_installed("live"):
        raise LiveError(
            f"Live streams need mne-lsl, which is not installed: {how_to_install('live')}"
        )
