"""Tokens of whole data sets as files: ``spdtokens tokenize``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from spdtokens._files import written_whole
from spdtokens.datasets.base import Dataset
from spdtokens.errors import DataError
from spdtokens.geometry import get_embedding
from spdtokens.geometry.tokens import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances


def write_tokens(
    dataset: Dataset,
    subjects: tuple[str, ...],
    folder: Path,
    embedding: str,
    bands: str,
) -> Iterator[Path]:
    """Write one ``.npz`` per recording, with tokens, y, run, group, classes and token_names.

    Raises
    ------
    DataError
        If the embedding needs to be fitted, because training trials are not defined here.
    """
    if get_embedding(embedding).needs_fit:
        raise DataError(
            f"{embedding} must be fitted on training trials, and tokenize does not split trials. "
            "Use spdtokens.TokenEmbedding inside a cross-validation instead."
        )
    steps = make_pipeline(TokenEmbedding(embedding))
    if dataset.sfreq is not None:
        filterbank = FilterBankCovariances(
            dataset.sfreq,
            tmin=dataset.tmin,
            windows=[dataset.window],
            bands=bands,
            stimulus_hz=dataset.stimulus_hz,
        )
        steps = make_pipeline(filterbank, TokenEmbedding(embedding))
    for subject in subjects:
        for session in dataset.sessions(subject):
            recording = dataset.load(subject, session)
            steps.fit(recording.X[:1])
            names = ["matrix 0"] if dataset.is_covariance else steps[0].matrix_names_
            flat = steps.transform(recording.X)
            path = folder / f"sub-{subject}_ses-{session}_tokens.npz"
            with written_whole(path) as temporary:
                np.savez(
                    temporary,
                    tokens=flat.reshape(len(flat), len(names), -1),
                    y=recording.y,
                    run=recording.run,
                    group=recording.group,
                    classes=np.array(dataset.classes),
                    token_names=np.array(names),
                )
            yield path
