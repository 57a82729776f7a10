"""Explanations of fitted models: channel importance and attention between bands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import Tensor

from spdtokens._channels import plain_name
from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.classifiers.nn.saliency import gain_gradient
from spdtokens.classifiers.nn.transformer import SPDTokenTransformer, geometric_bias
from spdtokens.classifiers.transformer import TokenTransformerClassifier
from spdtokens.errors import ReportError
from spdtokens.preprocessing.covariance import PROTOTYPES
from spdtokens.preprocessing.montage import MONTAGES
from spdtokens.runtime.threads import one_thread

if TYPE_CHECKING:
    import mne

__all__ = ["band_attention", "channel_importance", "electrode_info"]

#: Classifiers that can be explained.
Explained = TokenDiscriminantClassifier | TokenTransformerClassifier
#: Number of trials per backward pass.
AT_ONCE = 64


@one_thread()
def channel_importance(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""Compute the importance of each channel in each band for the scores of a classifier.

    The importance is the first-order change of a class score when the amplitude of a channel in a
    band changes by its standard deviation over trials, as an absolute value averaged over trials:

    .. math:: I_{tc} \propto \sigma_{tc} \operatorname{mean}_n
              \left|\, \partial s_n / \partial \log g_{tc} \,\right|
              = \sigma_{tc} \operatorname{mean}_n
              \Big|\, 2 \sum_j C_{tcj}\, \partial s_n / \partial C_{tcj} \Big|

    where :math:`g_{tc}` multiplies channel :math:`c` within token :math:`t` (a band, or a band and
    window), that is row and column :math:`c` of its covariance :math:`C_t`; :math:`\sigma_{tc}` is
    the standard deviation over trials of :math:`\tfrac12 \log C_{tcc}`; and :math:`s` is the
    logarithm of a class probability minus the mean over classes. Gradients are exact. The result
    does not depend on units or on the scale of channels.

    Parameters
    ----------
    model : estimator
        Fitted decoder, or fitted token classifier of matrices.
    X : array
        Two or more trials, or covariance matrices, as in ``predict``. Prefer trials that the model
        was not trained on: a network may respond differently to trials it has memorised.
    y : array of int, shape (n,), default=None
        Class numbers, from 0, whose scores are explained. By default the predicted classes.

    Returns
    -------
    ndarray, shape (n_matrices, n_channels)
        Importance, one row per band, or per band and window. Sums to 1. Trials near the decision
        boundary, whose scores change easily, have the largest weight.

    Raises
    ------
    ReportError
        If the rows of the covariances are not channels, or the scores do not depend on ``X``.
    ModelError
        If ``y`` is not one class number per trial.

    See Also
    --------
    band_attention : Attention weights between bands.
    spdtokens.classifiers.nn.channel_saliency : Saliency per trial of a torch module.

    Notes
    -----
    Without :math:`\sigma` bands would be hard to distinguish: all tokens share the same weights, so
    a network also responds to bands without information.

    Importance shows what the model uses, not where a source is: a channel that only cancels the
    noise of another is important too [1]_. With geometric attention, the distances between the
    matrices of a trial are treated as constants.

    References
    ----------
    .. [1] S. Haufe et al., "On the interpretation of weight vectors of linear models in
       multivariate neuroimaging", NeuroImage 87, 2014. https://doi.org/10.1016/j.neuroimage.2013.10.067

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenDiscriminantClassifier
    >>> from spdtokens.classifiers.explain import channel_importance
    >>> signals = np.random.default_rng(0).standard_normal((40, 3, 100))
    >>> y = np.arange(40) % 2
    >>> signals[y == 1, 2] *= 2
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> model = TokenDiscriminantClassifier().fit(C, y)
    >>> int(channel_importance(model, C)[0].argmax())
    2
    """
    C, classifier = _covariances(model, X), _classifier(model)
    gradient = gain_gradient(partial(_log_probabilities, classifier), C, y, AT_ONCE)
    total = gradient.abs().sum(0)
    total *= (0.5 * C.diagonal(dim1=-2, dim2=-1).log()).std(0, correction=0)
    if not (bool(total.isfinite().all()) and total.sum() > 0):
        raise ReportError(
            f"The scores of the model do not depend on these {len(C)} trials. Pass two or more "
            "different trials, and a trained model."
        )
    return np.asarray((total / total.sum()).numpy())


def band_attention(model: BaseEstimator, X: ArrayLike) -> NDArray[np.float64]:
    """Compute the mean attention weights between the tokens (bands) of trials.

    Parameters
    ----------
    model : estimator
        Fitted decoder or :class:`~spdtokens.TokenTransformerClassifier`, with several tokens per
        trial.
    X : array
        Trials, or covariance matrices, as in ``predict``.

    Returns
    -------
    ndarray, shape (n_tokens, n_tokens)
        Mean over trials, layers, heads and the networks of an ensemble. Rows attend to columns and
        sum to 1. Uniform attention gives ``1 / n_tokens`` everywhere.

    Raises
    ------
    ReportError
        If trials have one token, which can only attend to itself, or the model is not a
        transformer.

    See Also
    --------
    channel_importance : Importance of channels and bands.

    Notes
    -----
    Attention shows where values come from, not how much they matter for the class.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenTransformerClassifier
    >>> from spdtokens.classifiers.explain import band_attention
    >>> signals = np.random.default_rng(0).standard_normal((40, 2, 3, 100))
    >>> C = signals @ signals.swapaxes(2, 3) / 100
    >>> model = TokenTransformerClassifier(d_model=8, n_layers=1, n_heads=2, epochs=1)
    >>> band_attention(model.fit(C, np.arange(40) % 2), C).shape
    (2, 2)
    """
    C, classifier = _covariances(model, X), _classifier(model)
    if not isinstance(classifier, TokenTransformerClassifier):
        raise ReportError(
            f"{type(classifier).__name__} is not a transformer and has no attention weights."
        )
    networks = classifier.networks_
    total = np.zeros((networks[0].n_tokens,) * 2)
    if networks[0].n_tokens == 1:
        raise ReportError(
            "Trials have one token, which can only attend to itself. Use several bands or windows."
        )
    with torch.inference_mode():
        for part in C.split(AT_ONCE):
            tokens, bias = _network_inputs(classifier, part)
            for network in networks:
                weights = network.attention_weights(tokens, bias)
                total += weights.mean((1, 2)).sum(0).numpy()
    return total / (len(C) * len(networks))


def electrode_info(ch_names: Sequence[str]) -> tuple[mne.Info, list[int]]:
    """Return the positions of channels with names of the 10-05 system.

    Parameters
    ----------
    ch_names : sequence of str
        Channel names, in upper or lower case. Names outside the 10-05 system are ignored.

    Returns
    -------
    info : mne.Info
        Channels with a position, for :func:`mne.viz.plot_topomap`.
    places : list of int
        Their indices in ``ch_names``. If two names have the same position (T3 and T7), only the
        first is kept.

    See Also
    --------
    channel_importance : Importance to plot at these positions.

    Examples
    --------
    >>> from spdtokens.classifiers.explain import electrode_info
    >>> info, places = electrode_info(["C3", "EOG", "cz"])
    >>> info.ch_names, places
    (['C3', 'cz'], [0, 2])
    """
    import mne  # here, because it takes a second

    name = next(name for name in MONTAGES if name in mne.channels.get_builtin_montages())
    montage = mne.channels.make_standard_montage(name)
    known = {plain_name(name): name for name in montage.ch_names}
    positions = montage.get_positions()["ch_pos"]
    places: list[int] = []
    spelled: dict[str, str] = {}
    taken: set[bytes] = set()
    for place, name in enumerate(ch_names):
        standard = known.get(plain_name(name), "")
        at = np.asarray(positions.get(standard)).tobytes()
        if standard and at not in taken:
            taken.add(at)
            places.append(place)
            spelled[standard] = name
    info = mne.create_info(list(spelled), 1000.0, "eeg")
    if places:
        info.set_montage(montage, verbose=False)
        mne.rename_channels(info, spelled)
    return info, places


def _covariances(model: BaseEstimator, X: ArrayLike) -> Tensor:
    """Return scaled covariances (n, n_matrices, n_channels, n_channels) of trials."""
    classifier = _classifier(model)
    before = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    for step in before:
        estimator, delays = getattr(step, "estimator", None), getattr(step, "delays", ())
        if estimator in PROTOTYPES:
            raise ReportError(
                f"With estimator={estimator!r} most rows of a matrix are class averages, not "
                "channels. Use estimator='sample' to explain channels."
            )
        if delays:
            raise ReportError(
                f"With delays={delays} a matrix has several rows per channel. Remove delays to "
                "explain channels."
            )
        X = step.transform(X)
    assert classifier.embedding_ is not None
    return torch.from_numpy(classifier.embedding_.scaled(classifier.embedding_.checked(X)))


def _classifier(model: BaseEstimator) -> Explained:
    """Return the classifier of a fitted decoder, if it can be explained."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, Explained) or last.embedding_ is None:
        raise ReportError(
            "Only TokenDiscriminantClassifier and TokenTransformerClassifier over matrices can be "
            f"explained, got {type(last).__name__}."
        )
    if isinstance(last, TokenTransformerClassifier) and not hasattr(last, "networks_"):
        raise ReportError(
            "This transformer was read from a model file, which does not contain the torch modules "
            "that gradients need. Explain the model before saving it."
        )
    return last


def _network_inputs(classifier: Explained, C: Tensor) -> tuple[Tensor, Tensor | None]:
    """Compute tokens of covariances (n, n_matrices, d, d), and the bias of geometric attention."""
    assert classifier.embedding_ is not None
    tokens = classifier.embedding_.embedding_.to_token(C)
    if getattr(classifier, "attention", "standard") == "standard" or C.shape[1] == 1:
        return tokens, None
    return tokens, geometric_bias(C, classifier.alpha).double()


def _log_probabilities(classifier: Explained, C: Tensor) -> Tensor:
    """Compute log probabilities (n, n_classes) up to a constant per trial."""
    tokens, bias = _network_inputs(classifier, C)
    if isinstance(classifier, TokenDiscriminantClassifier):
        weight, offset = map(torch.from_numpy, (classifier.coef_, classifier.intercept_))
        return tokens.flatten(1) @ weight.flatten(0, 1) + offset
    members: list[SPDTokenTransformer] = classifier.networks_
    return torch.stack([m(tokens, bias).log_softmax(-1) for m in members]).logsumexp(0)
