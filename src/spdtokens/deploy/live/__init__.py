"""Live streams: chunks of signal in, decisions out.

:class:`LiveDecoder` is the core, which knows nothing of Lab Streaming Layer (LSL) and needs none.
"""

from spdtokens.deploy.live.decoder import Decision, LiveDecoder
from spdtokens.deploy.live.errors import LiveError
from spdtokens.deploy.live.events import Event

__all__ = ["Decision", "Event", "LiveDecoder", "LiveError"]
