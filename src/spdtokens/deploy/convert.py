"""From a fitted pipeline to a decoder, which needs neither scikit-learn nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens.classifiers import (
    Recentring,
    TokenDiscriminantClassifier,
    TokenTransformerClassifier,
)
from spdtokens.deploy.errors import DeployError
from spdtokens.runtime import Decoder
from spdtokens.runtime.networks import Network, Transformers
from spdtokens.runtime.tokens import EMBEDDINGS
from spdtokens.signal import FilterBankCovariances


def as_decoder(
    pipeline: BaseEstimator,
    *,
    ch_names: tuple[str, ...],
    classes: tuple[str, ...] | None = None,
    unit_in_volts: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Decoder:
    """The decoder that predicts what a fitted pipeline predicts, by the same code.

    Parameters
    ----------
    pipeline : Pipeline
        :class:`FilterBankCovariances` (unless the input is matrices), :class:`Recentring` (if it is
        to follow a recording), and :class:`TokenDiscriminantClassifier` or
        :class:`TokenTransformerClassifier`, fitted.
    ch_names : tuple of str
        Names of the channels.
    classes : tuple of str, optional
        Names of ``pipeline.classes_``; these as text by default.
    unit_in_volts : float, optional
        Of the signals.
    about : mapping, optional
        Kept in the model file as JSON.

    Raises
    ------
    DeployError
        For a step that a model file cannot hold.
    """
    steps = [step for _, step in pipeline.steps] if isinstance(pipeline, Pipeline) else [pipeline]
    filterbank = steps.pop(0) if isinstance(steps[0], FilterBankCovariances) else None
    recentring = steps.pop(0) if isinstance(steps[0], Recentring) else None
    classifier = steps[0]
    if len(steps) > 1 or not isinstance(
        classifier, TokenDiscriminantClassifier | TokenTransformerClassifier
    ):
        names = ", ".join(type(step).__name__ for step in steps)
        raise DeployError(
            "A model file holds FilterBankCovariances, Recentring, and then "
            f"TokenDiscriminantClassifier or TokenTransformerClassifier, got {names}."
        )
    embedding = classifier.embedding_
    if embedding is None:
        raise DeployError("A model file holds matrices to classes; embedding=None has no matrices.")
    if embedding.tokens_ is None:
        raise DeployError(
            f"A model file has the embeddings {', '.join(EMBEDDINGS)}; got "
            f"{', '.join(embedding.names)}."
        )
    d = embedding.n_features_in_
    return Decoder(
        classes=tuple(map(str, classifier.classes_)) if classes is None else classes,
        ch_names=ch_names,
        sfreq=None if filterbank is None else float(filterbank.sfreq),
        tmin=0.0 if filterbank is None else float(filterbank.tmin),
        unit_in_volts=unit_in_volts,
        front=None if filterbank is None else filterbank.front_,
        tokens=embedding.tokens_,
        network=_in_float32(classifier.network_),
        shape=(embedding.n_matrices_, d, d),
        recentring=None if recentring is None else recentring.reference_,
        about=about or {},
    )


def _in_float32(network: Network) -> Network:
    """Transformers in single precision: half the file, and twice as fast."""
    if not isinstance(network, Transformers):
        return network
    members = [member.astype(np.float32) for member in network.members]
    return replace(network, members=members)
