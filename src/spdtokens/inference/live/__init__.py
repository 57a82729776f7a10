"""Live streams: chunks of signal in, decisions out.

:class:`LiveDecoder` is the core, which knows nothing of Lab Streaming Layer (LSL) and needs none.
"""

from spdtokens.errors import LiveError
from spdtokens.inference.live.decoder import Decision, LiveDecoder
from spdtokens.inference.live.events import Event

__all__ = ["Decision", "Event", "LiveDecoder", "LiveError"]
