"""Convert fitted pipelines to decoders, which only need NumPy, and model files to pipelines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from spdtokens._channels import plain_name
from spdtokens._files import written_whole
from spdtokens.classifiers import (
    AdversarialTokenClassifier,
    DecodingPipeline,
    Recentring,
    SpatialFilterClassifier,
    TokenDiscriminantClassifier,
    TokenTransformerClassifier,
)
from spdtokens.errors import DeployError
from spdtokens.evaluation.estimators import CLASS, FUNCTION, build, describe
from spdtokens.geometry import TokenEmbedding
from spdtokens.preprocessing import FilterBankCovariances, MontageInterpolator
from spdtokens.preprocessing.montage import electrode_positions, interpolation_matrix
from spdtokens.runtime import Decoder, load_model, model_bytes
from spdtokens.runtime.networks import Discriminant, SpatialFilters, Transformers
from spdtokens.runtime.tokens import EMBEDDINGS, Reference, Tokens


def as_decoder(
    pipeline: BaseEstimator,
    *,
    ch_names: tuple[str, ...],
    classes: tuple[str, ...] | None = None,
    unit_in_volts: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> Decoder:
    """Convert a fitted pipeline to a decoder, which only needs NumPy.

    The decoder runs the same code as the pipeline and returns the same probabilities. Transformers
    are converted to single precision.

    Parameters
    ----------
    pipeline : Pipeline or estimator
        A fitted :class:`~spdtokens.TokenDiscriminantClassifier` or
        :class:`~spdtokens.TokenTransformerClassifier`, or a fitted pipeline that ends in one. The
        pipeline may begin with :class:`~spdtokens.FilterBankCovariances` (without it, the model
        decodes covariance matrices), followed by
        :class:`~spdtokens.MontageInterpolator` and :class:`~spdtokens.Recentring`.
    ch_names : tuple of str
        Channel names of the trials.
    classes : tuple of str, default=None
        Class names, in the order of ``pipeline.classes_``. If None, ``pipeline.classes_`` as text.
    unit_in_volts : float, default=None
        Unit of the signals in volts, e.g. 1e-6 for microvolts. If None, it is unknown.
    about : mapping, default=None
        Description of the model to store in the model file; must be valid JSON.

    Returns
    -------
    Decoder
        The model.

    Raises
    ------
    DeployError
        If the pipeline contains another step or an embedding that a model file cannot store.

    See Also
    --------
    save_model : Write a pipeline to a model file.
    spdtokens.inference.live.LiveDecoder : Decode a stream with a decoder.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> from spdtokens.inference import as_decoder
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> decoder = as_decoder(pipeline, ch_names=("C3", "Cz", "C4"), classes=("left", "right"))
    >>> bool(np.allclose(decoder.predict_proba(X), pipeline.predict_proba(X)))
    True
    """
    steps = [step for _, step in pipeline.steps] if isinstance(pipeline, Pipeline) else [pipeline]
    filterbank = steps.pop(0) if isinstance(steps[0], FilterBankCovariances) else None
    interpolator = steps.pop(0) if isinstance(steps[0], MontageInterpolator) else None
    recentring = steps.pop(0) if isinstance(steps[0], Recentring) else None
    classifier = steps[0]
    if len(steps) > 1 or not isinstance(
        classifier,
        TokenDiscriminantClassifier | TokenTransformerClassifier | SpatialFilterClassifier,
    ):
        names = ", ".join(type(step).__name__ for step in steps)
        raise DeployError(
            "pipeline must be FilterBankCovariances, MontageInterpolator and Recentring (all "
            "optional), then TokenDiscriminantClassifier, TokenTransformerClassifier or "
            f"SpatialFilterClassifier, got {names}."
        )
    tokens, n_matrices = _tokens_of(classifier)
    network = classifier.network_
    if isinstance(network, Transformers):  # single precision: half the size, twice as fast
        network = replace(network, members=[m.astype(np.float32) for m in network.members])
    elif isinstance(network, SpatialFilters):
        network = network.astype(np.float32)
    d = classifier.n_features_in_
    return Decoder(
        classes=tuple(map(str, classifier.classes_)) if classes is None else classes,
        ch_names=ch_names,
        sfreq=None if filterbank is None else float(filterbank.sfreq),
        tmin=0.0 if filterbank is None else float(filterbank.tmin),
        unit_in_volts=unit_in_volts,
        front=None if filterbank is None else filterbank.front_,
        tokens=tokens,
        network=network,
        shape=(n_matrices, d, d),
        recentring=None if recentring is None else recentring.reference_,
        reference=Reference() if recentring is None else recentring.rule(),
        interpolation=None if interpolator is None else interpolator.matrix_,
        proportions=None if recentring is None else recentring.proportions_,
        start=1 if recentring is None else recentring.start_,
        about=about or {},
        steps=[
            describe(step)
            for step in (filterbank, interpolator, recentring, classifier)
            if step is not None
        ],
    )


def with_channels(decoder: Decoder, ch_names: Sequence[str]) -> Decoder:
    """Apply a model to other channels, from which its own are interpolated.

    Covariances are computed from the given channels and then interpolated by spherical splines. The
    result can be saved, and needs only NumPy.

    Parameters
    ----------
    decoder : Decoder
        A model.
    ch_names : sequence of str
        Channels of the trials to decode. Those without a standard position, such as EOG, are left
        out unless the model has them.

    Returns
    -------
    Decoder
        The model for the channels in its attribute ``ch_names``.

    Raises
    ------
    DeployError
        If the channels of the model are already interpolated, or its covariances contain class
        averages or delays (ERP).
    SignalError
        If too few channels of the model are near a given channel, see
        :func:`~spdtokens.preprocessing.coverage`.

    See Also
    --------
    predict : Decode files, with ``interpolate=True``.
    spdtokens.preprocessing.interpolation_matrix : The linear map.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> from spdtokens.inference import as_decoder, with_channels
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> decoder = as_decoder(pipeline, ch_names=("C3", "Cz", "C4"))
    >>> other = with_channels(decoder, ["EOG", "C3", "C1", "C2", "C4"])
    >>> other.ch_names
    ('C3', 'C1', 'C2', 'C4')
    >>> other.predict_proba(X[:, [0, 1, 1, 2]]).shape
    (20, 2)
    """
    front = decoder.front
    if front is not None and (front.prototypes or front.delays):
        raise DeployError(
            "Channels cannot be interpolated for ERP, whose covariances contain class averages or "
            "delays. Record the channels of the model, or train a model on those that you have."
        )
    if decoder.interpolation is not None:
        raise DeployError(
            "The channels of this model are already interpolated. Use the original model file."
        )
    own = {plain_name(name) for name in decoder.ch_names}
    placed = np.isfinite(electrode_positions(ch_names)[:, 0])
    given = tuple(
        name for name, at in zip(ch_names, placed, strict=True) if at or plain_name(name) in own
    )
    interpolator = MontageInterpolator(tuple(decoder.ch_names), given)
    steps = list(decoder.steps)
    if steps:  # files of version 0.1 have none
        steps.insert(front is not None, describe(interpolator))
    return replace(
        decoder,
        ch_names=given,
        interpolation=interpolation_matrix(decoder.ch_names, given),
        steps=steps,
    )


def _tokens_of(classifier: Any) -> tuple[Tokens, int]:
    """Computation of the tokens of a classifier, and number of matrices per trial."""
    if isinstance(classifier, SpatialFilterClassifier):
        # Its tokens are the upper triangles; the filters are in the network.
        return Tokens(("euclidean",), False, 0.0, 0.0, 1.0), classifier.n_matrices_
    embedding = classifier.embedding_
    if embedding is None or embedding.tokens_ is None:
        found = "embedding=None" if embedding is None else ", ".join(embedding.names)
        raise DeployError(f"embedding must be one of {', '.join(EMBEDDINGS)}, got {found}.")
    return embedding.tokens_, embedding.n_matrices_


def save_model(model: Decoder | BaseEstimator, path: str | Path, **about: Any) -> None:
    """Write a model file (``.spdt``).

    An existing file is replaced only when the new one is complete.

    Parameters
    ----------
    model : Decoder, Pipeline or estimator
        A decoder, or a fitted pipeline or classifier, see :func:`as_decoder`.
    path : str or Path
        The file to write; must end in ``.spdt``.
    **about : dict
        For a pipeline or classifier: ``ch_names`` (required), ``classes``, ``unit_in_volts`` and
        ``about``, see :func:`as_decoder`.

    Raises
    ------
    DeployError
        If the path has another suffix, or the pipeline cannot be stored.
    DecoderError
        If names are not printable and unique, or the covariance estimator is not available in the
        runtime.
    OSError
        If the file cannot be written.

    See Also
    --------
    load_model : Load a model file as a decoder.
    load_pipeline : Load a model file as a scikit-learn pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_model, make_decoder, save_model
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(pipeline, f"{folder}/model.spdt", ch_names=("C3", "Cz", "C4"))
    ...     decoder = load_model(f"{folder}/model.spdt")
    >>> decoder.ch_names
    ('C3', 'Cz', 'C4')
    """
    path = Path(path)
    if path.suffix != ".spdt":
        raise DeployError(f"path must end in .spdt, got {path}.")
    decoder = model if isinstance(model, Decoder) else as_decoder(model, **about)
    contents = model_bytes(decoder)
    with written_whole(path) as temporary:
        temporary.write_bytes(contents)


def load_pipeline(path: str | Path) -> DecodingPipeline:
    """Load a model file as a fitted scikit-learn pipeline.

    Its predictions are those of the model. For a transformer, the torch modules and the training
    history are not available.

    Parameters
    ----------
    path : str or Path
        A model file (``.spdt``) written by version 0.2 or later.

    Returns
    -------
    DecodingPipeline
        The fitted pipeline.

    Raises
    ------
    DeployError
        If the file was written by version 0.1, which did not store parameters, or names classes
        other than those of the model. No module is imported because a file names it.
    DecoderError
        If the file is not a valid model file.

    See Also
    --------
    load_model : Load a model file as a decoder, without scikit-learn and torch.
    save_model : Write a model file.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_pipeline, make_decoder, save_model
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 200))
    >>> pipeline = make_decoder("mi", sfreq=100).fit(X, [0, 1] * 10)
    >>> with TemporaryDirectory() as folder:
    ...     save_model(pipeline, f"{folder}/model.spdt", ch_names=("C3", "Cz", "C4"))
    ...     loaded = load_pipeline(f"{folder}/model.spdt")
    >>> bool(np.allclose(loaded.predict_proba(X), pipeline.predict_proba(X)))
    True
    """
    decoder = load_model(path)
    if not decoder.steps:
        raise DeployError(
            f"{path} was written by spdtokens 0.1, which did not store the parameters of the "
            "pipeline. Use load_model, which returns the same predictions, or train again."
        )
    names = _check_steps(path, decoder)
    steps = [build(step) for step in decoder.steps]
    for step in steps:
        _restore(step, decoder)
    return DecodingPipeline(list(zip(names, steps, strict=True)))


def _check_steps(path: str | Path, decoder: Decoder) -> list[str]:
    """Return names of the steps; refuse steps and classes that are not those of the model."""
    kinds = {
        Discriminant: TokenDiscriminantClassifier,
        SpatialFilters: SpatialFilterClassifier,
        Transformers: TokenTransformerClassifier,
    }
    wanted = {
        "filterbank": FilterBankCovariances if decoder.front is not None else None,
        "interpolator": MontageInterpolator if decoder.interpolation is not None else None,
        "recentring": Recentring if decoder.recentring is not None else None,
        "classifier": kinds[type(decoder.network)],
    }
    adversarial = f"spdtokens.{AdversarialTokenClassifier.__name__}"
    if isinstance(decoder.network, Transformers) and decoder.steps[-1].get(CLASS) == adversarial:
        wanted["classifier"] = AdversarialTokenClassifier  # the same network, trained otherwise
    classes = {name: f"spdtokens.{cls.__name__}" for name, cls in wanted.items() if cls}
    known = [*classes.values(), f"spdtokens.{TokenEmbedding.__name__}"]
    named: list[Any] = []  # all classes and functions, at any depth
    json.loads(
        json.dumps(list(decoder.steps)),
        object_hook=lambda d: named.extend(d[key] for key in (CLASS, FUNCTION) if key in d),
    )
    found = [step.get(CLASS) for step in decoder.steps]
    if found != list(classes.values()) or any(name not in known for name in named):
        raise DeployError(
            f"The steps in {path} do not match its model. Use load_model, or train again."
        )
    return list(classes)


def _restore(step: Any, decoder: Decoder) -> None:
    """Set the fitted attributes of an estimator."""
    if isinstance(step, FilterBankCovariances):
        assert decoder.front is not None
        step._planned(np.zeros((1, len(decoder.ch_names), decoder.n_samples)))
        step.front_ = decoder.front
        return
    if isinstance(step, MontageInterpolator):
        assert decoder.interpolation is not None
        step.matrix_, step.n_features_in_ = decoder.interpolation, len(decoder.ch_names)
        return
    step.n_features_in_ = decoder.shape[-1]
    if isinstance(step, Recentring):
        assert decoder.recentring is not None
        step.reference_, step.n_matrices_ = decoder.recentring, decoder.shape[0]
        step.proportions_, step.start_ = decoder.proportions, decoder.start
        return
    step.classes_ = np.array(decoder.classes)
    if isinstance(decoder.network, SpatialFilters):
        step.network_, step.n_matrices_ = decoder.network, decoder.shape[0]
        return
    step.embedding_ = TokenEmbedding.of_tokens(decoder.tokens, *decoder.shape[:2])
    if isinstance(decoder.network, Discriminant):
        step.coef_, step.intercept_ = decoder.network.weight, decoder.network.bias
    else:
        step.network_ = decoder.network
