"""Tokens of a data set as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.pipeline import Pipeline, make_pipeline

from spdtokens._files import written_whole
from spdtokens.datasets.base import Dataset
from spdtokens.datasets.cache import TokenCache
from spdtokens.errors import DataError
from spdtokens.geometry import get_embedding
from spdtokens.geometry.tokens import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import BandSpec


def tokens_of(dataset: Dataset, embedding: str, bands: BandSpec) -> Pipeline:
    """From trials of a data set, with its rate, clock and window, to tokens."""
    tokens = TokenEmbedding(embedding)
    if dataset.is_covariance:
        return make_pipeline(tokens)
    assert dataset.sfreq is not None
    filterbank = FilterBankCovariances(
        dataset.sfreq,
        tmin=dataset.tmin,
        windows=[dataset.window],
        bands=bands,
        stimulus_hz=dataset.stimulus_hz,
    )
    return make_pipeline(filterbank, tokens)


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
            "apart. Use spdtokens.TokenEmbedding inside your cross-validation instead."
        )
    for subject in subjects:
        for session in dataset.sessions(subject):
            recording = dataset.load(subject, session)
            steps = tokens_of(dataset, embedding, bands).fit(recording.X[:1])
            names = ["matrix 0"] if dataset.is_covariance else steps[0].matrix_names_
            flat = cache.transform(steps, recording.X)
            tokens = flat.reshape(len(flat), len(names), -1)
            path = folder / f"sub-{subject}_ses-{session}_tokens.npz"
            with written_whole(path) as temporary:
                np.savez(
                    temporary,
                    tokens=tokens,
                    y=recording.y,
                    run=recording.run,
                    group=recording.group,
                    classes=np.array(dataset.classes),
                    token_names=np.array(names),
                )
            yield path
