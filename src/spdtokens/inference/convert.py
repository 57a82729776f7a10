"""From a fitted pipeline to a decoder, which needs neither scikit-learn nor torch, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens.classifiers import (
    DecodingPipeline,
    Recentring,
    TokenDiscriminantClassifier,
    TokenTransformerClassifier,
)
from spdtokens.errors import DeployError
from spdtokens.evaluation.estimators import CLASS, FUNCTION, build, describe
from spdtokens.geometry import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.runtime import Decoder, load_model
from spdtokens.runtime.networks import Discriminant, Network, Transformers
from spdtokens.runtime.tokens import EMBEDDINGS


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
        steps=[describe(step) for step in (filterbank, recentring, classifier) if step is not None],
    )


def load_pipeline(path: str | Path) -> DecodingPipeline:
    """Read a model file as a fitted scikit-learn pipeline.

    Parameters
    ----------
    path : str or Path
        A model file, ``.spdt``, of version 0.2 or later.

    Returns
    -------
    DecodingPipeline
        Its predictions are those of the model. Of a token transformer, the torch modules and the
        curves of its training are not in the file.

    Raises
    ------
    DeployError
        If the file was written by version 0.1, which did not keep the parameters, or names other
        classes than those of the model it holds: no module is imported because a file says so.

    See Also
    --------
    load_model : The same as a decoder, without scikit-learn and torch.
    """
    decoder = load_model(path)
    if not decoder.steps:
        raise DeployError(
            f"{path} was written by spdtokens 0.1 and does not hold the parameters of a pipeline. "
            "Use load_model, which predicts the same, or train again."
        )
    _check_steps(path, decoder)
    steps = [(_name(step), build(step)) for step in decoder.steps]
    for _, step in steps:
        _restore(step, decoder)
    return DecodingPipeline(steps)


def _check_steps(path: str | Path, decoder: Decoder) -> None:
    """Refuse steps that are not those of the model, and any class but an embedding within them."""
    discriminant = isinstance(decoder.network, Discriminant)
    wanted = [
        *([FilterBankCovariances] if decoder.front is not None else []),
        *([Recentring] if decoder.recentring is not None else []),
        TokenDiscriminantClassifier if discriminant else TokenTransformerClassifier,
    ]
    found = [step.get(CLASS) for step in decoder.steps]
    inner = {
        kind
        for step in decoder.steps
        for key, value in step.items()
        if key != CLASS
        for kind in _classes_in(value)
    }
    if found != [f"spdtokens.{cls.__name__}" for cls in wanted] or inner - {_EMBEDDING}:
        raise DeployError(f"The steps that {path} names are not those of the model it holds.")


_EMBEDDING = f"spdtokens.{TokenEmbedding.__name__}"


def _classes_in(value: Any) -> Iterator[Any]:
    """Every class and function that a plain value names."""
    if isinstance(value, Mapping):
        yield from (value[key] for key in (CLASS, FUNCTION) if key in value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _classes_in(item)


def _name(step: Mapping[str, Any]) -> str:
    """Of a step in a pipeline."""
    names = {"FilterBankCovariances": "filterbank", "Recentring": "recentring"}
    return names.get(str(step.get("class")).rpartition(".")[2], "classifier")


def _restore(step: BaseEstimator, decoder: Decoder) -> None:
    """Put what was learnt back into an estimator."""
    if isinstance(step, FilterBankCovariances):
        assert decoder.front is not None
        step._planned(np.zeros((1, len(decoder.ch_names), decoder.n_samples)))
        step.front_ = decoder.front
        return
    step.n_features_in_ = decoder.shape[-1]
    if isinstance(step, Recentring):
        assert decoder.recentring is not None
        step.reference_ = decoder.recentring
        return
    step.classes_ = np.array(decoder.classes)
    step.embedding_ = TokenEmbedding.of_tokens(decoder.tokens, *decoder.shape[:2])
    if isinstance(step, TokenDiscriminantClassifier):
        assert isinstance(decoder.network, Discriminant)
        step.coef_, step.intercept_ = decoder.network.weight, decoder.network.bias
    else:
        step.network_ = decoder.network


def _in_float32(network: Network) -> Network:
    """Transformers in single precision: half the file, and twice as fast."""
    if not isinstance(network, Transformers):
        return network
    members = [member.astype(np.float32) for member in network.members]
    return replace(network, members=members)
