"""The one error of this folder, also where it was copied to a machine without spdtokens."""

from __future__ import annotations

try:
    from spdtokens.errors import DecoderError as DecoderError
except ImportError:

    class DecoderError(ValueError):  # type: ignore[no-redef]
        """A model file, or data that its model cannot be used with."""
