"""Regularised linear discriminant analysis of tokens, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from spdtokens._labels import as_groups
from spdtokens.classifiers.base import EmbeddingSpec, TokenClassifier, as_decisions
from spdtokens.errors import ModelError
from spdtokens.geometry.tokens import TokenEmbedding
from spdtokens.preprocessing.covariance import folds_in_time
from spdtokens.preprocessing.filterbank import Folds
from spdtokens.runtime.networks import Discriminant
from spdtokens.runtime.threads import one_thread
from spdtokens.runtime.tokens import FILTERED

#: The best of 0.004, 0.012, 0.04 and 0.12 over parts of training sessions and simulated sessions.
RIDGE = 0.012
#: Candidates of ``ridge='auto'``, half a decade apart.
RIDGES = tuple(float(f"{RIDGE * 10 ** (k / 2):.2g}") for k in range(-4, 3))
#: Folds that weight the ridges and fit the temperature of the scores.
FOLDS = 5
#: Bootstrap samples of held-out trials.
DRAWS = 1000
#: Standard errors that are added to the held-out log loss of ridges below the usual one.
HANDICAP = 2.0

#: Tokens of every matrix: three relative to the mean of the training trials, one of class filters.
EMBEDDINGS = ("affine_invariant", "whitened_root", "principal_correlation", "class_filters")
#: With few trials.
WITHOUT_LABELS = EMBEDDINGS[:-1]
#: Change of gains between recordings, of all channels together and of each channel (standard
#: deviations of logarithms). Twice as much did as well on development data. Test scores of BCI2a
#: were used in this choice, see docs/recommended.md.
GAINS = (0.05, 0.03)

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


class TokenDiscriminantClassifier(TokenClassifier):
    r"""Classify SPD matrices by regularised linear discriminant analysis of their tokens.

    This is the classifier of the preset ``recommended``. It has a closed form. Let :math:`t` be the
    tokens of a trial, each divided by one number so that all have the same total variance,
    :math:`m_k` the class means and :math:`S` the covariance within classes [1]_. Scores and
    probabilities are

    .. math:: s_k = m_k^\top W t - \tfrac12 m_k^\top W m_k, \qquad
              W = (S + D + \lambda \operatorname{tr}(S)\, I)^{-1}, \qquad
              p = \operatorname{softmax}(\beta s)

    with the ridge :math:`\lambda`, the covariance :math:`D` of tokens under changes of channel
    gains, and the inverse temperature :math:`\beta`. The latter is fitted to held-out training
    trials, so that the probabilities are calibrated [2]_. All classes have the same weight.

    By default the scores are averaged over seven ridges. The weight of a ridge is the probability
    that it has the least log loss, estimated by the Bayesian bootstrap of held-out training trials
    [3]_: five folds of consecutive trials. Two standard errors are added to the loss of ridges
    below the usual one, because folds of one session do not contain the next one, for which a small
    ridge is a risk. The usual one is the nearest to 0.012 times the share of the variance within
    classes that is also there between consecutive trials of a class. In one session this is nearly
    all variance, in pooled sessions that differ a small part of it. The average is one linear
    classifier.

    Parameters
    ----------
    embedding : str, sequence of str, TokenEmbedding or None, default='auto'
        Embeddings, see :class:`TokenEmbedding`. ``'auto'`` uses ``'affine_invariant'``,
        ``'whitened_root'``, ``'principal_correlation'`` and, if there are more trials than rows of
        a matrix, ``'class_filters'``. ``TokenEmbedding('auto', ...)`` does the same with other
        options. None if the input is tokens, (n, features) or (n, tokens, features).
    ridge : float or 'auto', default='auto'
        Fraction of the total variance within classes that is added to the variance in every
        direction. ``'auto'`` averages over seven values from 0.00012 to 0.12, weighted by held-out
        trials.
    gains : 'auto', pair of float or None, default='auto'
        Expected changes between recordings of the common gain of all channels and of the gain of
        each channel, as standard deviations of logarithms. Directions in which they move tokens get
        less weight. ``'auto'`` is ``(0.05, 0.03)``, or None if there are no more trials than rows
        of a matrix. None disables it, for matrices whose rows are not channels.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Sorted classes.
    embedding_ : TokenEmbedding or None
        Fitted first layer.
    coef_ : ndarray, shape (n_tokens, n_features, n_classes)
        Weights of the tokens.
    intercept_ : ndarray, shape (n_classes,)
        Intercepts.
    ridge_ : float
        Ridge with the largest weight.
    ridge_weights_ : dict of float to float
        Weight of each ridge. They sum to 1. Without held-out trials the usual one has weight 1.
    held_out_loss_ : dict of float to float
        Log loss of held-out training trials by ridge, each with its own temperature; NaN if a class
        has a single trial (group).
    n_features_in_ : int
        Number of rows of a matrix.

    See Also
    --------
    make_decoder : Make a decoder of signals with this classifier.
    TokenTransformerClassifier : The paper's network on the same tokens.
    pyriemann.classification.TSClassifier : Tangent space and any classifier.

    References
    ----------
    .. [1] J. H. Friedman, "Regularized discriminant analysis", J. Am. Stat. Assoc. 84, 165-175,
       1989. https://doi.org/10.1080/01621459.1989.10478752
    .. [2] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017. https://doi.org/10.48550/arXiv.1706.04599
    .. [3] Y. Yao, A. Vehtari, D. Simpson and A. Gelman, "Using stacking to average Bayesian
       predictive distributions", Bayesian Anal. 13, 917-1007, 2018.
       https://doi.org/10.1214/17-BA1091

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import TokenDiscriminantClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 30)
    >>> signals = rng.standard_normal((60, 3, 100))
    >>> signals[y == 1, 0] *= 1.5
    >>> C = signals @ signals.swapaxes(1, 2) / 100
    >>> TokenDiscriminantClassifier().fit(C[::2], y[::2]).score(C[1::2], y[1::2]) > 0.9
    True
    """

    # Under scikit-learn's metadata routing.
    __metadata_request__fit: ClassVar = {"groups": True, "refit": True}

    coef_: Array
    intercept_: Array

    def __init__(
        self,
        embedding: EmbeddingSpec = "auto",
        *,
        ridge: float | Literal["auto"] = "auto",
        gains: Literal["auto"] | tuple[float, float] | None = "auto",
    ) -> None:
        self.embedding = embedding
        self.ridge = ridge
        self.gains = gains

    @one_thread()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        refit: Callable[[Folds], Iterable[Array]] | None = None,
    ) -> Self:
        """Fit the embedding, the discriminant and the temperature.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of training trials.
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), default=None
            Trials of a group, such as segments of one long trial, are never split between the folds
            that weight the ridges and fit the temperature, nor in the bootstrap.
        sample_weight : array, shape (n,), default=None
            Weights of trials; trials of weight 0 are ignored. The embedding and the gain changes
            are fitted without weights. None for equal weights.
        refit : callable, default=None
            For matrices that were computed with labels: maps folds (pairs of training and test
            indices) to the matrices of all trials, one array per fold, computed from the labels of
            its training part. :class:`DecodingPipeline` passes it.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ModelError
            If labels, weights, groups or a parameter are invalid.
        NotSPDError
            If a matrix is not SPD.
        """
        C, codes = self._checked_for_fit(X, y)
        if sample_weight is not None:
            kept = np.flatnonzero(_shares(sample_weight, codes))
            groups = as_groups(groups, len(codes))
            sample_weight = np.asarray(sample_weight, dtype=np.float64)[kept]
            C, codes = C[kept], codes[kept]
            groups = None if groups is None else groups[kept]
            if refit is not None:
                refit = partial(_refit_among, kept, refit)
        # With no more trials than rows, class filters can separate any training trials, and every
        # direction of gain changes is one less to separate classes by.
        few = len(C) <= C.shape[-1]
        embedding = self._embedding(few)
        self.embedding_ = None if embedding is None else embedding.fit_matrices(C, codes)
        tokens = self._tokens_of(C)
        n_tokens = tokens.shape[1]
        refitted = np.zeros(n_tokens, dtype=bool)
        refits: Iterable[Refit] = ()
        drift = None
        if self.embedding_ is not None:
            gains = self._gains(few)
            again = [n for n in self.embedding_.names if refit is not None or n == FILTERED]
            seen = self.embedding_.scaled(C)
            middle = self.embedding_.reference_
            middle = seen.mean(0) if middle is None else middle
            drift = None if gains is None else gain_drift(self.embedding_, middle, *gains)
            refitted = np.repeat(
                [name in again for name in self.embedding_.names], self.embedding_.n_matrices_
            )
            if again:
                refits = self._refits(again, seen, codes, groups, refit, middle, gains)
        fitted = fit_discriminant(
            tokens,
            codes,
            sample_weight,
            self.ridge,
            drift,
            groups=groups,
            refitted=refitted,
            refits=refits,
        )
        self.coef_, self.intercept_, self.ridge_ = fitted.weight, fitted.bias, fitted.ridge
        self.held_out_loss_, self.ridge_weights_ = fitted.losses, fitted.ridge_weights
        return self

    def _embedding(self, few: bool = False) -> TokenEmbedding | None:
        names = WITHOUT_LABELS if few else EMBEDDINGS
        if isinstance(self.embedding, str) and self.embedding == "auto":
            return TokenEmbedding(names, unit_free=True)
        if isinstance(self.embedding, TokenEmbedding) and self.embedding.names == ("auto",):
            return TokenEmbedding(**self.embedding.get_params() | {"embedding": names})
        return super()._embedding()

    def _gains(self, few: bool) -> tuple[float, float] | None:
        if isinstance(self.gains, str) and self.gains == "auto":
            return None if few else GAINS
        if self.gains is None:
            return None
        if len(self.gains) != 2 or not all(gain >= 0 for gain in self.gains):
            raise ModelError(f"gains must be two numbers >= 0, got {self.gains!r}.")
        overall, single = self.gains
        return (float(overall), float(single)) if max(self.gains) > 0 else None

    def _refits(
        self,
        names: list[str],
        C: Array,
        codes: Codes,
        groups: ArrayLike | None,
        refit: Callable[[Folds], Iterable[Array]] | None,
        middle: Array,
        gains: tuple[float, float] | None,
    ) -> Iterator[Refit]:
        """Tokens that depend only on labels of the training part of a fold, for every fold."""
        assert self.embedding_ is not None
        options = self.embedding_.get_params() | {"embedding": names, "unit_free": False}
        folds = folds_in_time(codes, FOLDS, groups)
        matrices = repeat(C) if refit is None else map(self.embedding_.scaled, refit(folds))
        for (train, test), made in zip(folds, matrices, strict=False):
            embedding = TokenEmbedding(**options).fit_matrices(made[train], codes[train])
            drift = None if gains is None else gain_drift(embedding, middle, *gains)
            yield Refit(train, test, embedding.of_matrices(made), drift)

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> Array:
        """Predict class probabilities.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        C = self._checked(X)
        return self.network_.probabilities(self._tokens_of(C), C)

    @one_thread()
    def decision_function(self, X: ArrayLike) -> Array:
        """Compute scores, which are linear in the tokens.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices.

        Returns
        -------
        ndarray, shape (n, n_classes), or (n,) for two classes
            Scores; their softmax is :meth:`predict_proba`.
        """
        tokens = self._tokens_of(self._checked(X))
        return as_decisions(self.network_.scores(tokens))

    @property
    def network_(self) -> Discriminant:
        """The computation in NumPy, as saved in model files."""
        return Discriminant(self.coef_, self.intercept_)


def _refit_among(
    kept: Codes, refit: Callable[[Folds], Iterable[Array]], folds: Folds
) -> Iterable[Array]:
    """What ``refit`` gives for the trials ``kept``, from folds of these."""
    return (C[kept] for C in refit([(kept[train], kept[test]) for train, test in folds]))


def gain_drift(embedding: TokenEmbedding, middle: Array, gain: float, channel_gain: float) -> Array:
    """Compute the change of tokens under a change of gains.

    Parameters
    ----------
    embedding : TokenEmbedding
        Fitted embedding.
    middle : ndarray, shape (n_matrices, d, d)
        Reference matrices, scaled as the embedding expects.
    gain, channel_gain : float
        Change of the logarithm of all gains, and of the gain of each row.

    Returns
    -------
    ndarray, shape (1 + d, n_tokens, n_features)
        Changes of the tokens.
    """
    d = middle.shape[-1]
    logs = np.vstack([np.full(d, gain), channel_gain * np.eye(d)])
    factors = np.exp(logs[:, None, :, None] + logs[:, None, None, :])
    moved = np.concatenate([factors * middle, middle[None]]) * embedding.scale_
    tokens = embedding.of_matrices(moved)
    return tokens[:-1] - tokens[-1:]


def fit_discriminant(
    tokens: Array,
    codes: Codes,
    sample_weight: ArrayLike | None = None,
    ridge: float | Literal["auto"] = "auto",
    drift: Array | None = None,
    *,
    groups: ArrayLike | None = None,
    refitted: NDArray[np.bool_] | None = None,
    refits: Iterable[Refit] = (),
) -> Fitted:
    """Fit a ridge-regularised linear discriminant to tokens.

    Each token is divided by one number, so that its total variance is 1. Features within a token
    keep their proportions, which are those of the geometry; standardising each feature would
    amplify noise. All classes have the same weight. Scores are multiplied by the inverse
    temperature, which is fitted to held-out training trials, so that probabilities are calibrated.

    Parameters
    ----------
    tokens : ndarray, shape (n, n_tokens, n_features)
        Tokens of the training trials.
    codes : ndarray of int, shape (n,)
        Classes 0, 1, ..., each with at least one trial.
    sample_weight : array, shape (n,), default=None
        Weights of trials. None for equal weights.
    ridge : float or 'auto', default='auto'
        Fraction of the total variance within classes that is added to the variance in every
        direction. ``'auto'`` averages over ``RIDGES``, weighted by held-out trials.
    drift : ndarray, shape (k, n_tokens, n_features), default=None
        Expected changes of tokens in new recordings. Their outer products are added to the
        covariance within classes.
    groups : array, shape (n,), default=None
        Trials of a group are never split between the five folds that weight the ridges and fit the
        temperature, nor in the bootstrap.
    refitted : ndarray of bool, shape (n_tokens,), default=None
        Tokens that depend on labels. None for no such token.
    refits : iterable of Refit, default=()
        If there are such tokens: the folds, with these tokens computed without labels of the test
        part.

    Returns
    -------
    Fitted
        Weights, intercepts, main ridge, and log loss of held-out trials and weight by ridge.

    Raises
    ------
    ModelError
        If the ridge is not positive, there is not one weight per trial, or the weights of a class
        are all 0.

    See Also
    --------
    spdtokens.TokenDiscriminantClassifier : Classifier of SPD matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens.classifiers.discriminant import fit_discriminant
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(40) % 2
    >>> tokens = rng.standard_normal((40, 1, 6)) + 2 * codes[:, None, None]
    >>> fitted = fit_discriminant(tokens, codes)
    >>> scores = np.tensordot(tokens, fitted.weight, 2) + fitted.bias
    >>> bool((scores.argmax(1) == codes).mean() > 0.9)
    True
    """
    ridges = _candidates(ridge)
    n, n_tokens, _ = tokens.shape
    share = _shares(sample_weight, codes)
    if refitted is None:
        refitted = np.zeros(n_tokens, dtype=bool)
    if not refitted.any():
        none = None if drift is None else drift[:, :0]
        folds = folds_in_time(codes, FOLDS, groups)
        refits = (Refit(*fold, tokens[:, :0], none) for fold in folds)
    fixed, own = (
        _Scaled(tokens[:, some], None if drift is None else drift[:, some], share)
        for some in (~refitted, refitted)
    )
    problem = _Problem(fixed.rows, codes, share, own.rows.shape[1])
    split = len(fixed.used)
    scores = np.full((len(ridges), n, codes.max() + 1), np.nan)
    for train, test, replaced, replaced_drift in refits:
        kept = np.zeros(n)
        kept[train] = share[train] / share[train].sum()
        rows = _Scaled(replaced, replaced_drift, kept).rows
        for found, (V, constant) in zip(
            scores, problem.solve(train, test, rows, ridges), strict=True
        ):
            found[test] = fixed.rows[test] @ V[:split] + rows[test] @ V[split:] + constant
    held_out = [_HeldOut(found, codes, share) for found in scores]
    rows = fixed.rows[:n] if split else own.rows[:n]
    usual = int(np.argmin(np.abs(np.log(ridges) - np.log(RIDGE * _local(rows, codes, share)))))
    shares = _ridge_weights(held_out, usual, as_groups(groups, n))
    used = np.flatnonzero(shares)
    mixed = np.array([shares[k] * held_out[k].factor for k in used])
    if len(used) > 1:
        # The temperature of the average. That of a single ridge is known.
        mixed *= _HeldOut(np.tensordot(mixed, scores[used], 1), codes, share).factor
    everything = np.arange(n)
    solved = problem.solve(everything, everything[:0], own.rows, [ridges[k] for k in used])
    weighted = [(factor * V, factor * c) for factor, (V, c) in zip(mixed, solved, strict=True)]
    W, offset = (np.sum(part, axis=0) for part in zip(*weighted, strict=True))
    weight = np.zeros((*tokens.shape[1:], codes.max() + 1))
    weight[~refitted] = fixed.unscaled(W[:split])
    weight[refitted] = own.unscaled(W[split:])
    bias = offset - np.tensordot(np.tensordot(share, tokens, 1), weight, 2)
    losses = {r: found.loss for r, found in zip(ridges, held_out, strict=True)}
    by_ridge = dict(zip(ridges, shares.tolist(), strict=True))
    return Fitted(weight, bias, ridges[int(shares.argmax())], losses, by_ridge)


class Fitted(NamedTuple):
    """Fitted discriminant.

    Attributes
    ----------
    weight : ndarray, shape (n_tokens, n_features, n_classes)
        Weights of the tokens.
    bias : ndarray, shape (n_classes,)
        Intercepts.
    ridge : float
        Ridge with the largest weight.
    losses : dict of float to float
        Log loss of held-out trials by ridge, each with its own temperature; NaN without such
        trials.
    ridge_weights : dict of float to float
        Weight of each ridge.
    """

    weight: Array
    bias: Array
    ridge: float
    losses: dict[float, float]
    ridge_weights: dict[float, float]


class Refit(NamedTuple):
    """Fold of the training trials, with label-dependent tokens fitted to its training part.

    Attributes
    ----------
    train, test : ndarray of int
        Indices of the training and the test part.
    tokens : ndarray, shape (n, n_refitted, n_features)
        Label-dependent tokens of all trials, fitted to ``train``.
    drift : ndarray, shape (k, n_refitted, n_features), or None
        Their expected changes in new recordings.
    """

    train: Codes
    test: Codes
    tokens: Array
    drift: Array | None


class _Scaled:
    """Tokens and drift as rows, every token centred and with unit total variance.

    Attributes
    ----------
    rows : ndarray, shape (n + k, n_used)
        Rows without constant features.
    """

    def __init__(self, tokens: Array, drift: Array | None, share: Array) -> None:
        self.shape = tokens.shape[1:]
        centre = np.tensordot(share, tokens, 1)
        n = len(tokens)
        rows = np.empty((n + (0 if drift is None else len(drift)), *self.shape))
        np.subtract(tokens, centre, out=rows[:n])
        if drift is not None:
            rows[n:] = drift
        spread = np.sqrt(np.einsum("n,ntf,ntf->t", share, rows[:n], rows[:n]))
        # A token that varies by rounding errors only carries no information.
        still = spread <= 1e-12 * np.linalg.norm(centre, axis=1)
        unit = np.where(still, np.inf, spread)
        rows /= unit[:, None]
        rows = rows.reshape(len(rows), -1)
        self.used = np.flatnonzero(rows.any(0))
        self.unit = np.repeat(unit, self.shape[1])[self.used]
        self.rows = rows if len(self.used) == rows.shape[1] else rows[:, self.used]

    def unscaled(self, W: Array) -> Array:
        """Weights (tokens, features, classes) of tokens, from weights (used, classes) of rows."""
        weight = np.zeros((int(np.prod(self.shape)), W.shape[1]))
        weight[self.used] = W / self.unit[:, None]
        return weight.reshape(*self.shape, W.shape[1])


class _Problem:
    """Discriminants of subsets of trials, with products of rows computed once.

    Parameters
    ----------
    fixed : ndarray, shape (n + k, n_features)
        Features that are the same in every fold, of trials and then of drift.
    codes, share : ndarray, shape (n,)
        Classes and normalised weights of trials.
    n_own : int
        Approximate number of further features.
    """

    def __init__(self, fixed: Array, codes: Codes, share: Array, n_own: int) -> None:
        self.fixed, self.codes, self.share = fixed, codes, share
        n = len(codes)
        # The smaller of the Gram matrix of trials and the scatter matrix of features.
        self.dual = len(fixed) <= fixed.shape[1] + n_own
        trials = fixed[:n]
        self.products = fixed @ fixed.T if self.dual else (trials * share[:, None]).T @ trials

    def solve(
        self, train: Codes, test: Codes, own: Array, ridges: Sequence[float]
    ) -> Iterator[tuple[Array, Array]]:
        """Weights (features, classes) and offsets (classes,) of the trials ``train`` by ridge.

        Parameters
        ----------
        train, test : ndarray of int
            Trials; together all that ``train`` was taken from.
        own : ndarray, shape (n + k, n_own)
            Features of this fold.
        ridges : sequence of float
            Ridges.
        """
        n = len(self.codes)
        share = self.share[train] / self.share[train].sum()
        member = np.eye(int(self.codes.max()) + 1)[self.codes[train]]
        # Weights of trials in the mean of each class.
        P = member * share[:, None]
        prior = P.sum(0)
        P /= prior
        if self.dual:
            rows = np.concatenate([train, np.arange(n, len(self.fixed))])
            gram = self.products[np.ix_(rows, rows)] + own[rows] @ own[rows].T
            spread = np.zeros((len(self.fixed), P.shape[1]))
            for coefficients, offset in _by_trials(gram, self.codes[train], share, P, ridges):
                spread[rows] = coefficients
                yield np.concatenate([self.fixed.T @ spread, own.T @ spread]), offset
            return
        left = self.fixed[test]
        scatter = self.products - (left * self.share[test][:, None]).T @ left
        weighted = own[train] * share[:, None]
        cross = self.fixed[train].T @ weighted
        S = np.block(
            [[scatter / self.share[train].sum(), cross], [cross.T, own[train].T @ weighted]]
        )
        means = np.concatenate([P.T @ self.fixed[train], P.T @ own[train]], axis=1)
        drift = np.concatenate([self.fixed[n:], own[n:]], axis=1)
        total = np.trace(S)
        S -= (means.T * prior) @ means
        within = np.trace(S)
        S += drift.T @ drift
        for ridge in ridges:
            added = _added(ridge, within, total)
            W = solve(S + added * np.eye(len(S)), means.T, assume_a="pos")
            yield W, -0.5 * (means.T * W).sum(0)


def _by_trials(
    gram: Array, codes: Codes, share: Array, P: Array, ridges: Sequence[float]
) -> Iterator[tuple[Array, Array]]:
    """The dual solution by ridge: weights are these coefficients of the rows, times the rows."""
    n, root = len(codes), np.sqrt(share)[:, None]

    def within(M: Array) -> Array:
        """Replace rows of trials by their weighted deviations from the class means."""
        return np.concatenate([root * (M[:n] - (P.T @ M[:n])[codes]), M[n:]])

    to_means = gram[:, :n] @ P
    Z = within(within(gram).T)
    deviations = within(to_means)
    total = float(share @ np.diag(gram)[:n])
    for ridge in ridges:
        added = _added(ridge, np.trace(Z[:n, :n]), total)
        inner = solve(Z + added * np.eye(len(Z)), deviations, assume_a="pos")
        back = root * inner[:n]
        by_class = np.eye(P.shape[1])[codes].T @ back
        coefficients = np.concatenate([P - back + P @ by_class, -inner[n:]]) / added
        yield coefficients, -0.5 * (to_means * coefficients).sum(0)


def _added(ridge: float, within: float, total: float) -> float:
    # If all trials equal their class mean there is no covariance: any ridge gives the nearest mean.
    return ridge * float(within) if within > 1e-12 * total else 1.0


def _candidates(ridge: Any) -> tuple[float, ...]:
    """Ridges to average over."""
    if isinstance(ridge, str) and ridge == "auto":
        return RIDGES
    if isinstance(ridge, str) or not ridge > 0:
        raise ModelError(f"ridge must be > 0 or 'auto', got {ridge!r}.")
    return (float(ridge),)


def _shares(sample_weight: ArrayLike | None, codes: Codes) -> Array:
    """Normalise weights (n,) to a sum of 1."""
    n = len(codes)
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not np.isfinite(weight).all() or weight.min() < 0:
        raise ModelError(
            f"sample_weight must be {n} finite numbers >= 0, one per trial, got an array of shape "
            f"{weight.shape} with minimum {weight.min(initial=0):g}."
        )
    if np.bincount(codes, weight).min() <= 0:
        raise ModelError(
            "sample_weight must not be zero for all trials of a class: drop the class instead."
        )
    return np.asarray(weight / weight.sum())


class _HeldOut:
    """Calibration of held-out scores (n, classes); NaN rows are ignored.

    Attributes
    ----------
    known : ndarray of bool, shape (n,)
        Trials with scores.
    factor : float
        Factor of the scores with the least log loss.
    weight, losses : ndarray, shape (n_known,)
        Weight and log loss of each trial.
    loss : float
        Log loss; NaN without trials.
    """

    def __init__(self, scores: Array, codes: Codes, share: Array) -> None:
        self.known = known = np.isfinite(scores).all(1)
        scores, codes, share = scores[known], codes[known], share[known]
        # Classes have the same weight here too. Smoothed targets, as if each class had two more
        # trials, one right and one wrong (Platt 1999), because no trial is certain.
        counts = np.bincount(codes, minlength=scores.shape[1])
        weight = share / np.bincount(codes, share)[codes]
        wrong = 1 / (counts + 2) / (len(counts) - 1)
        target = np.repeat(wrong[codes][:, None], len(counts), axis=1)
        target[np.arange(len(codes)), codes] = (counts[codes] + 1) / (counts[codes] + 2)

        def losses(log_factor: float) -> Array:
            logs = log_softmax(np.exp(log_factor) * scores, axis=1)
            return np.asarray(-(target * logs).sum(1))

        self.weight = weight / weight.sum()
        self.factor, self.losses, self.loss = 1.0, np.zeros(0), float("nan")
        if len(scores):
            found = minimize_scalar(lambda x: weight @ losses(x), bounds=(-12, 6), method="bounded")
            self.factor, self.losses = float(np.exp(found.x)), losses(found.x)
            self.loss = float(self.weight @ self.losses)


def _local(rows: Array, codes: Codes, share: Array) -> float:
    """Share of the variance within classes that is also there between consecutive trials."""
    member = np.eye(codes.max() + 1)[codes]
    P = member * share[:, None]
    within = rows - ((P / P.sum(0)).T @ rows)[codes]
    total = share @ np.einsum("nf,nf->n", within, within)
    local = []
    for k in range(member.shape[1]):
        steps = np.diff(within[codes == k], axis=0)
        local.append(share[codes == k][1:] @ np.einsum("nf,nf->n", steps, steps) / 2)
    return float(np.clip(sum(local) / total, 1e-3, 1.0)) if total > 0 else 1.0


def _ridge_weights(held_out: Sequence[_HeldOut], usual: int, groups: NDArray[Any] | None) -> Array:
    """Share of bootstrap samples of trials (groups) in which a ridge has the least log loss."""
    shares = np.zeros(len(held_out))
    weight = held_out[0].weight
    if len(held_out) == 1 or not len(weight):
        shares[usual] = 1.0
        return shares
    losses = np.stack([weight * found.losses for found in held_out], axis=1)
    if groups is not None:
        _, parts = np.unique(groups[held_out[0].known], return_inverse=True)
        losses = np.stack([np.bincount(parts, column) for column in losses.T], axis=1)
        weight = np.bincount(parts, weight)
    apart = losses - losses[:, [usual]]
    error = np.sqrt(((apart - weight[:, None] * apart.sum(0)) ** 2).sum(0))
    error[usual:] = 0.0
    losses += HANDICAP * weight[:, None] * error
    rng = np.random.default_rng(0)
    for _ in range(DRAWS):
        shares[np.argmin(rng.exponential(size=len(losses)) @ losses)] += 1
    return shares / DRAWS
