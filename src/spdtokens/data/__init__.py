"""Where trials come from: simulated, official files, MOABB, the user's own."""

from spdtokens.data.base import DataError, Dataset, Recording
from spdtokens.data.own import from_arrays
from spdtokens.data.registry import list_datasets, load_dataset
from spdtokens.data.select import Selection, select

__all__ = [
    "DataError",
    "Dataset",
    "Recording",
    "Selection",
    "from_arrays",
    "list_datasets",
    "load_dataset",
    "select",
]
