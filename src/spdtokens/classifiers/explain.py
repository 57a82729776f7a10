"""What a fitted model looks at: which channels and bands decide, and what attends to what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import Tensor

from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.classifiers.nn.transformer import SPDTokenTransformer, geometric_bias
from spdtokens.classifiers.nn.trial import gradient_times_input
from spdtokens.classifiers.transformer import TokenTransformerClassifier
from spdtokens.errors import ReportError
from spdtokens.preprocessing.covariance import PROTOTYPES
from spdtokens.runtime.threads import one_thread

if TYPE_CHECKING:
    import mne

__all__ = ["band_attention", "channel_importance", "electrode_info"]

#: Classifiers through whose tokens gradients are taken.
Explained = TokenDiscriminantClassifier | TokenTransformerClassifier
#: Trials whose gradients are held in memory at a time.
AT_ONCE = 64
#: The finest standard there is: 10-20 and 10-10 names are among its names. MNE renamed it in 1.13.
MONTAGES = ("colin27_1005", "standard_1005")


@one_thread()
def channel_importance(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""What share each channel has, in each band, in the scores of a fitted classifier.

    How far a class score moves when a channel's amplitude within a band moves as far as it does
    from trial to trial, to first order, in size and averaged over trials:

    .. math:: I_{tc} \propto \sigma_{tc} \operatorname{mean}_n
              \left|\, \partial s_n / \partial \log g_{tc} \,\right|
              = \sigma_{tc} \operatorname{mean}_n
              \Big|\, 2 \sum_j C_{tcj}\, \partial s_n / \partial C_{tcj} \Big|

    where :math:`g_{tc}` multiplies channel :math:`c` within token :math:`t` (a band, or a band and
    window), so row and column :math:`c` of its covariance :math:`C_t`; :math:`\sigma_{tc}` is the
    standard deviation over trials of :math:`\tfrac12 \log C_{tcc}`; and :math:`s` is the logarithm
    of a class's probability less the mean over classes: for one network its score. The gradient is
    exact. Logarithms have no unit, so neither units nor the sizes of channels matter.

    Parameters
    ----------
    model : estimator
        A fitted decoder, or a token classifier of matrices.
    X : array
        Two or more trials, or covariances, as the model predicts. Better those it was not trained
        on: to trials it knows by heart a network may respond in other ways.
    y : array of int, shape (n,), optional
        Numbers, from 0, of the classes whose scores are asked about; by default those predicted.

    Returns
    -------
    importance : ndarray, shape (matrices, channels)
        One row a band, or band and window.
        Sums to 1. Trials whose scores move easily, those near the border of classes, weigh most.

    Raises
    ------
    ReportError
        If rows of the covariances are no channels, or nothing moves the scores.

    Notes
    -----
    Without :math:`\sigma` bands could hardly be told apart: all tokens go through the same weights,
    so a network hears even those that never say anything.

    Importance tells what the model uses, not where a source is: a channel that only cancels noise
    of another is used too (Haufe et al. 2014). With geometric attention the distances between a
    trial's matrices count as constants.
    """
    C, classifier = _covariances(model, X), _classifier(model)
    classes = None if y is None else torch.as_tensor(np.asarray(y))
    if classes is not None and classes.shape != (len(C),):
        raise ReportError(f"There are {len(C)} trials but labels of shape {tuple(classes.shape)}.")
    total = torch.zeros(C.shape[1:3], dtype=torch.float64)
    for start in range(0, len(C), AT_ONCE):
        part = C[start : start + AT_ONCE]

        def of_gains(g: Tensor, part: Tensor = part) -> Tensor:
            return _log_probabilities(classifier, g[..., :, None] * part * g[..., None, :])

        asked = None if classes is None else classes[start : start + AT_ONCE]
        # At gains of 1 this is the derivative by their logarithms.
        ones = torch.ones(part.shape[:-1], dtype=torch.float64)
        total += gradient_times_input(of_gains, ones, asked).abs().sum(0)
    total *= (0.5 * C.diagonal(dim1=-2, dim2=-1).log()).std(0, correction=0)
    if not (bool(total.isfinite().all()) and total.sum() > 0):
        raise ReportError(
            f"Nothing in these {len(C)} trials moves the scores of the model, so no channel "
            "decides. Pass several trials that differ, and a model that was trained."
        )
    return np.asarray((total / total.sum()).numpy())


def band_attention(model: BaseEstimator, X: ArrayLike) -> NDArray[np.float64]:
    """Mean attention weights between the tokens (bands) of trials.

    Parameters
    ----------
    model : estimator
        A fitted decoder or :class:`TokenTransformerClassifier`, with several tokens per trial.
    X : array
        Trials, or covariances, as the model predicts.

    Returns
    -------
    weights : ndarray, shape (tokens, tokens)
        Mean over trials, layers, heads and the networks of an ensemble. Rows attend to columns and
        sum to 1; without any preference all entries would be ``1 / tokens``.

    Raises
    ------
    ReportError
        If a trial has one token, which can only attend to itself, or there is no transformer.

    Notes
    -----
    Attention tells where values are taken from, not how much they matter to the class; for that see
    :func:`channel_importance`.
    """
    C, classifier = _covariances(model, X), _classifier(model)
    if not isinstance(classifier, TokenTransformerClassifier):
        raise ReportError(
            f"{type(classifier).__name__} is not a transformer: its tokens do not attend."
        )
    networks = classifier.networks_
    total = np.zeros((networks[0].n_tokens,) * 2)
    if networks[0].n_tokens == 1:
        raise ReportError(
            "A trial has one token, which can only attend to itself. Use several bands or windows."
        )
    with torch.inference_mode():
        for part in C.split(AT_ONCE):
            tokens, bias = _network_inputs(classifier, part)
            for network in networks:
                weights = network.attention_weights(tokens, bias)
                total += weights.mean((1, 2)).sum(0).numpy()
    return total / (len(C) * len(networks))


def electrode_info(ch_names: Sequence[str]) -> tuple[mne.Info, list[int]]:
    """Positions of the channels whose names are those of the 10-05 system, however spelled.

    Parameters
    ----------
    ch_names : sequence of str

    Returns
    -------
    info : mne.Info
        Of the channels found, for :func:`mne.viz.plot_topomap`.
    places : list of int
        Their places in ``ch_names``. Of two names for one position (T3 and T7) the first counts.
    """
    import mne  # here, as it takes a second

    from spdtokens.datasets.select import plain_name  # here, as data sets import much

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
    """Covariances (n, m, channels, channels) of trials, as the classifier sees them: no unit."""
    classifier = _classifier(model)
    before = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    for step in before:
        estimator, delays = getattr(step, "estimator", None), getattr(step, "delays", ())
        if estimator in PROTOTYPES:
            raise ReportError(
                f"With estimator={estimator!r} most rows of a matrix belong to class averages and "
                "not to channels. Use estimator='sample' to see channels."
            )
        if delays:
            raise ReportError(
                f"With delays={delays} a matrix has several rows for each channel, one of them the "
                "channel's past. Use no delays to see channels."
            )
        X = step.transform(X)
    assert classifier.embedding_ is not None
    return torch.from_numpy(classifier.embedding_.scaled(classifier.embedding_.checked(X)))


def _classifier(model: BaseEstimator) -> Explained:
    """The classifier of a fitted decoder, if it can be explained."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not isinstance(last, Explained) or last.embedding_ is None:
        raise ReportError(
            "Only token classifiers over matrices can be explained (TokenDiscriminantClassifier, "
            f"TokenTransformerClassifier), not {type(last).__name__}."
        )
    if isinstance(last, TokenTransformerClassifier) and not hasattr(last, "networks_"):
        raise ReportError(
            "This transformer was read from a model file, which does not hold the torch modules "
            "that gradients are taken through. Explain the model before it is saved."
        )
    return last


def _network_inputs(classifier: Explained, C: Tensor) -> tuple[Tensor, Tensor | None]:
    """Tokens of covariances (n, m, d, d), and the bias of geometric attention if there is one."""
    assert classifier.embedding_ is not None
    tokens = classifier.embedding_.embedding_.to_token(C)
    if getattr(classifier, "attention", "standard") == "standard" or C.shape[1] == 1:
        return tokens, None
    return tokens, geometric_bias(C, classifier.alpha).double()


def _log_probabilities(classifier: Explained, C: Tensor) -> Tensor:
    """(n, classes), up to a constant per trial, which changes no margin."""
    tokens, bias = _network_inputs(classifier, C)
    if isinstance(classifier, TokenDiscriminantClassifier):
        weight, offset = map(torch.from_numpy, (classifier.coef_, classifier.intercept_))
        return tokens.flatten(1) @ weight.flatten(0, 1) + offset
    members: list[SPDTokenTransformer] = classifier.networks_
    return torch.stack([m(tokens, bias).log_softmax(-1) for m in members]).logsumexp(0)
