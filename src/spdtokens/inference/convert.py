"""From a fitted pipeline to a decoder, which needs neither scikit-learn nor torch, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens._files import written_whole
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
from spdtokens.runtime import Decoder, load_model, model_bytes
from spdtokens.runtime.networks import Discriminant, Transformers
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
    if embedding is None or embedding.tokens_ is None:
        found = "embedding=None" if embedding is None else ", ".join(embedding.names)
        raise DeployError(f"A model file has the embeddings {', '.join(EMBEDDINGS)}; got {found}.")
    network = classifier.network_
    if isinstance(network, Transformers):  # in single precision: half the file, twice as fast
        network = replace(network, members=[m.astype(np.float32) for m in network.members])
    d = embedding.n_features_in_
    return Decoder(
        classes=tuple(map(str, classifier.classes_)) if classes is None else classes,
        ch_names=ch_names,
        sfreq=None if filterbank is None else float(filterbank.sfreq),
        tmin=0.0 if filterbank is None else float(filterbank.tmin),
        unit_in_volts=unit_in_volts,
        front=None if filterbank is None else filterbank.front_,
        tokens=embedding.tokens_,
        network=network,
        shape=(embedding.n_matrices_, d, d),
        recentring=None if recentring is None else recentring.reference_,
        about=about or {},
        steps=[describe(step) for step in (filterbank, recentring, classifier) if step is not None],
    )


def save_model(model: Decoder | BaseEstimator, path: str | Path, **about: Any) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    model : Decoder or estimator
        A fitted decoder as :func:`make_decoder` makes it, or what :func:`load_model` returned.
    path : str or Path
        Ends in ``.spdt``.
    **about
        Of an estimator: ``ch_names``, which must be given, ``classes`` and ``unit_in_volts``, see
        :func:`as_decoder`.
    """
    path = Path(path)
    if path.suffix != ".spdt":
        raise DeployError(f"{path} must end in .spdt, as model files do.")
    decoder = model if isinstance(model, Decoder) else as_decoder(model, **about)
    contents = model_bytes(decoder)
    with written_whole(path) as temporary:
        temporary.write_bytes(contents)


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
    names = _check_steps(path, decoder)
    steps = [build(step) for step in decoder.steps]
    for step in steps:
        _restore(step, decoder)
    return DecodingPipeline(list(zip(names, steps, strict=True)))


def _check_steps(path: str | Path, decoder: Decoder) -> list[str]:
    """Names for the steps; refuse all that are not the model's, and classes within them."""
    discriminant = isinstance(decoder.network, Discriminant)
    wanted = {
        "filterbank": FilterBankCovariances if decoder.front is not None else None,
        "recentring": Recentring if decoder.recentring is not None else None,
        "classifier": TokenDiscriminantClassifier if discriminant else TokenTransformerClassifier,
    }
    classes = {name: f"spdtokens.{cls.__name__}" for name, cls in wanted.items() if cls}
    known = [*classes.values(), f"spdtokens.{TokenEmbedding.__name__}"]
    named: list[Any] = []  # whatever is called a class or a function, however deep
    json.loads(
        json.dumps(list(decoder.steps)),
        object_hook=lambda d: named.extend(d[key] for key in (CLASS, FUNCTION) if key in d),
    )
    found = [step.get(CLASS) for step in decoder.steps]
    if found != list(classes.values()) or any(name not in known for name in named):
        raise DeployError(f"The steps that {path} names are not those of the model it holds.")
    return list(classes)


def _restore(step: Any, decoder: Decoder) -> None:
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
    if isinstance(decoder.network, Discriminant):
        step.coef_, step.intercept_ = decoder.network.weight, decoder.network.bias
    else:
        step.network_ = decoder.network
