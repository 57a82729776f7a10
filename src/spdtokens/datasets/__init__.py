"""Data sets: simulated, published files, MOABB and your own recordings."""

from spdtokens.datasets.base import Dataset, Recording, from_arrays
from spdtokens.datasets.registry import DATASETS, list_datasets, load_dataset
from spdtokens.datasets.select import Selection, select

__all__ = [
    "DATASETS",
    "Dataset",
    "Recording",
    "Selection",
    "from_arrays",
    "list_datasets",
    "load_dataset",
    "select",
]
