"""Tokens of a data set as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spdtokens._files import written_whole
from spdtokens.data.base import DataError, Dataset
from spdtokens.data.cache import TokenCache
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import BandSpec
from spdtokens.spd import get_embedding


def tokenizer_for(dataset: Dataset, embedding: str, bands: BandSpec) -> Tokenizer:
    """A tokenizer with the data set's rate, clock, window and stimulus frequencies."""
    if dataset.is_covariance:
        return Tokenizer(embedding)
    return Tokenizer(
        embedding,
        sfreq=dataset.sfreq,
        tmin=dataset.tmin,
        windows=[dataset.window],
        bands=bands,
        stimulus_frequencies=dataset.stimulus_frequencies,
    )


def write_tokens(
    dataset: Dataset,
    subjects: tuple[str, ...],
    folder: Path,
    embedding: str,
    bands: str,
    cache: TokenCache,
) -> Iterator[Path]:
    """Write one ``.npz`` a recording, with tokens, y, run, group, classes and token_names.

    Raises
    ------
    DataError
        For an embedding that is fitted: which trials are training trials is not known here.
    """
    if get_embedding(embedding).needs_fit:
        raise DataError(
            f"{embedding} is fitted on training trials, and files of all trials have none set "
            "apart. Use spdtokens.Tokenizer inside your cross-validation instead."
        )
    for subject in subjects:
        for session in dataset.sessions(subject):
            recording = dataset.load(subject, session)
            tokenizer = tokenizer_for(dataset, embedding, bands).fit(recording.X[:1])
            tokens = cache.transform(tokenizer, recording.X)
            path = folder / f"sub-{subject}_ses-{session}_tokens.npz"
            with written_whole(path) as temporary:
                np.savez(
                    temporary,
                    tokens=tokens,
                    y=recording.y,
                    run=recording.run,
                    group=recording.group,
                    classes=np.array(dataset.classes),
                    token_names=np.array(tokenizer.token_names_),
                )
            yield path
