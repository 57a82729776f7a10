"""Which channels and bands decide."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import Tensor, nn

from spdtokens.classifiers import TokenDiscriminantClassifier, TokenTransformerClassifier
from spdtokens.classifiers.nn import TrialTransformer, channel_saliency
from spdtokens.errors import ReportError
from spdtokens.geometry import Embedding
from spdtokens.geometry.embeddings import StackedEmbedding
from spdtokens.preprocessing.covariance import PROTOTYPES
from spdtokens.runtime.threads import one_thread

#: Classifiers through whose tokens gradients are taken.
Explained = TokenDiscriminantClassifier | TokenTransformerClassifier
#: Trials whose gradients are held in memory at a time.
AT_ONCE = 64


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
    C = channel_covariances(model, X)
    module = _Ensemble(token_classifier(model))
    classes = None if y is None else np.asarray(y)
    if classes is not None and classes.shape != (len(C),):
        raise ReportError(f"There are {len(C)} trials but labels of shape {classes.shape}.")
    total = np.zeros(C.shape[1] * C.shape[2])
    for start in range(0, len(C), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        gains = torch.ones(len(C[part]), len(total), 1, dtype=torch.float64)
        asked = None if classes is None else classes[part]
        found = channel_saliency(_Gains(module, C[part]), gains, asked, batch_size=AT_ONCE)
        total += found.sum(0)
    amplitudes = 0.5 * C.diagonal(dim1=-2, dim2=-1).log().flatten(1)
    total *= amplitudes.std(0, correction=0).numpy()
    if not (np.isfinite(total).all() and total.sum() > 0):
        raise ReportError(
            f"Nothing in these {len(C)} trials moves the scores of the model, so no channel "
            "decides. Pass several trials that differ, and a model that was trained."
        )
    return (total / total.sum()).reshape(C.shape[1:3])


def channel_covariances(model: BaseEstimator, X: ArrayLike) -> Tensor:
    """Covariances (n, m, channels, channels) that a fitted decoder makes of trials.

    As its classifier sees them: without a unit.

    Raises
    ------
    ReportError
        If rows of its matrices are not channels, or it is not a decoder of tokens.
    """
    classifier = token_classifier(model)
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


def token_classifier(model: BaseEstimator) -> Explained:
    """The classifier of a fitted decoder.

    Raises
    ------
    ReportError
        If there is none that can be explained.
    """
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


class _Ensemble(nn.Module):
    """Covariances (n, m, d, d) to the logarithms of a classifier's probabilities."""

    def __init__(self, classifier: Explained) -> None:
        super().__init__()
        assert classifier.embedding_ is not None
        embedding = classifier.embedding_.embedding_
        if isinstance(classifier, TokenDiscriminantClassifier):
            linear = _Linear(classifier.coef_, classifier.intercept_)
            self.members = nn.ModuleList([_Scores(embedding, linear)])
            return
        self.members = nn.ModuleList(
            TrialTransformer(
                classifier.n_features_in_,
                n_tokens=classifier.embedding_.n_tokens_,
                embedding=embedding,
                network=network,
            )
            if isinstance(embedding, Embedding)
            else _Scores(embedding, network)
            for network in classifier.networks_
        )

    def forward(self, C: Tensor) -> Tensor:
        """(n, classes); for one network its scores up to a constant, which changes no margin."""
        logs = torch.stack([member(C).log_softmax(-1) for member in self.members])
        return logs.logsumexp(0)


class _Linear(nn.Module):
    """Scores that are linear in all tokens of a trial."""

    def __init__(self, weight: NDArray[np.float64], bias: NDArray[np.float64]) -> None:
        super().__init__()
        self.weight, self.bias = torch.from_numpy(weight), torch.from_numpy(bias)

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens.flatten(1) @ self.weight.flatten(0, 1) + self.bias


class _Scores(nn.Module):
    """Covariances (n, m, d, d) to the scores of whatever takes their tokens."""

    def __init__(self, embedding: Embedding | StackedEmbedding, network: nn.Module) -> None:
        super().__init__()
        self.embedding, self.network = embedding, network

    def forward(self, C: Tensor) -> Tensor:
        scores: Tensor = self.network(self.embedding.to_token(C))
        return scores


class _Gains(nn.Module):
    """Scores as a function of the gains (n, tokens * d, 1) of all channels in all bands.

    At gains of 1 gradient times input is the derivative by the logarithm of the gain, so the
    saliency of these "trials of one sample" is that of channels within bands.
    """

    def __init__(self, module: nn.Module, C: Tensor) -> None:
        super().__init__()
        self.module, self.C = module, C

    def forward(self, gains: Tensor) -> Tensor:
        g = gains.view(self.C.shape[:-1])
        scores: Tensor = self.module(g[..., :, None] * self.C * g[..., None, :])
        return scores
