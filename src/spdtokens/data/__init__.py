"""Where trials come from: simulated, official files, MOABB, the user's own."""

from spdtokens.data.base import DataError, Dataset, Recording

__all__ = ["DataError", "Dataset", "Recording"]
