"""Decoders: filter bank, perhaps recentring, and classifier as one scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from spdtokens.classifiers.base import addressed, takes
from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.errors import ModelError, SignalError
from spdtokens.geometry.alignment import riemannian_mean, running_references
from spdtokens.geometry.tokens import (
    ArrayOutputMixin,
    as_matrices,
    matrix_tags,
    names_of_matrices,
)
from spdtokens.preprocessing.bands import (
    BandSpec,
    Window,
    WindowSpec,
    default_bands,
    resolve_windows,
)
from spdtokens.preprocessing.filterbank import FilterBankCovariances, Folds
from spdtokens.runtime.threads import one_thread
from spdtokens.runtime.tokens import congruence, inverse_root

if TYPE_CHECKING:
    from spdtokens.datasets.base import Paradigm

Array = NDArray[np.float64]
#: Bands of rhythms and of potentials, where nobody asks for others.
RHYTHMS, POTENTIALS = [(8.0, 30.0)], [(1.0, 24.0)]
#: Seconds: about a period of the alpha rhythm, so that spatial filters of the signal and its past
#: can cancel it.
DELAY = 0.1
#: Folds in which filters and averages are made for training trials they have not seen.
CROSS_FIT = 5


def make_decoder(
    paradigm: str = "mi",
    *,
    sfreq: float | None = None,
    tmin: float = 0.0,
    window: Window | None = None,
    stimulus_hz: Sequence[float] = (),
) -> DecodingPipeline:
    """Make the recommended decoder for a paradigm.

    Parameters
    ----------
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, default='mi'
        Motor imagery, event-related potentials, steady-state visual evoked potentials, or other
        (decoded as motor imagery: from rhythms).
    sfreq : float, default=None
        Sampling rate in Hz. None if the input is covariance matrices instead of signals.
    tmin : float, default=0.0
        Time of a trial's first sample in seconds, as in MNE.
    window : pair of float, default=None
        Part of a trial to decode, in seconds on the clock of ``tmin``; the whole trial by default.
    stimulus_hz : sequence of float, default=()
        Flicker frequencies in Hz, needed for ``'ssvep'``.

    Returns
    -------
    DecodingPipeline
        Steps ``filterbank`` (:class:`FilterBankCovariances`) and ``classifier``
        (:class:`TokenDiscriminantClassifier`), not fitted.

    Raises
    ------
    ModelError
        For an unknown paradigm, or SSVEP without its frequencies.

    See Also
    --------
    evaluate : Measure a decoder without leakage.
    train : Train a decoder on own recordings, and save it.

    Examples
    --------
    >>> from spdtokens import make_decoder
    >>> decoder = make_decoder("mi", sfreq=250, tmin=-0.5, window=(0.5, 4.0))
    >>> decoder.set_params(filterbank__bands="8-13,13-30", classifier__ridge=0.04)["classifier"]
    TokenDiscriminantClassifier(ridge=0.04)
    """
    from spdtokens.datasets.select import get_paradigm  # here, as data sets import much

    kind = get_paradigm(paradigm)
    if sfreq is not None and not (isinstance(sfreq, int | float | np.number) and sfreq > 0):
        raise ModelError(f"sfreq must be a rate above 0 Hz, got {sfreq!r}.")
    if window is not None and np.shape(window) != (2,):
        raise ModelError(f"window must be a pair in seconds such as (0.5, 4), got {window!r}.")
    gains: dict[str, Any] = {"gains": None} if kind == "erp" else {}  # rows are not channels
    classifier = TokenDiscriminantClassifier(**gains)
    if sfreq is None:
        return DecodingPipeline([("classifier", classifier)])
    options = filterbank_options(kind, window, stimulus_hz)
    if options["bands"] != "ssvep":  # which is cut when the window is known
        seconds = 1.0 if window is None else window[1] - window[0]
        options["bands"] = default_bands(options["bands"], sfreq, seconds)
    filterbank = FilterBankCovariances(sfreq, tmin=tmin, stimulus_hz=tuple(stimulus_hz), **options)
    return DecodingPipeline([("filterbank", filterbank), ("classifier", classifier)])


def filterbank_options(
    paradigm: Paradigm, window: Window | None, stimulus_hz: Sequence[float] = ()
) -> dict[str, Any]:
    """Options of :class:`FilterBankCovariances` that the paradigm decides.

    ``docs/recommended.md`` has the reasons, what each is worth, and what was tried besides.

    Parameters
    ----------
    paradigm : str
    window : pair of float, or None
    stimulus_hz : sequence of float
        In Hz, for SSVEP.
    """
    windows: WindowSpec | None = None if window is None else [window]
    if paradigm == "erp":
        return {
            "bands": POTENTIALS,
            "windows": "nested" if window is None else list(resolve_windows("nested", *window)),
            "estimator": "xdawn",
            "delays": (DELAY,),
            "cross_fit": CROSS_FIT,
        }
    bands: BandSpec = RHYTHMS
    if paradigm == "ssvep":
        if not len(stimulus_hz):
            raise ModelError(
                "SSVEP is decoded around its flicker frequencies, which are not known: pass them "
                "in Hz, such as stimulus_hz=(13, 17) or --stimulus-hz 13,17."
            )
        bands = "ssvep"
    # Bands around many stimuli are many, and narrow.
    return {"bands": bands, "windows": windows, "estimator": "oas", "decimate": bands == "ssvep"}


class DecodingPipeline(Pipeline):
    """A scikit-learn pipeline of our steps, which also share what ``fit`` is told of trials.

    ``fit(X, y, groups=..., sample_weight=...)`` hands each on to the steps that take it; as in any
    pipeline ``classifier__sample_weight=...`` addresses one step. With scikit-learn's metadata
    routing each goes to the steps that request it: ``groups`` and ``domains`` are requested by our
    estimators, ``sample_weight`` after ``set_fit_request(sample_weight=True)``.

    Where labels take part in making matrices (Xdawn), the classifier's temperature is fitted to
    trials for which they were made without their labels.

    Parameters
    ----------
    steps : list of (str, estimator)
    transform_input : list of str, default=None
    memory : str or joblib.Memory, default=None
        To cache the matrices of training trials.
    verbose : bool, default=False

    See Also
    --------
    make_decoder : Makes one for a paradigm.

    Examples
    --------
    >>> from spdtokens import DecodingPipeline, FilterBankCovariances, TokenTransformerClassifier
    >>> decoder = DecodingPipeline(
    ...     [
    ...         ("filterbank", FilterBankCovariances(250, bands="4-40")),
    ...         ("classifier", TokenTransformerClassifier(n_layers=2)),
    ...     ]
    ... )
    """

    # Under scikit-learn's metadata routing the steps request these, not the pipeline.
    __metadata_request__fit = dict.fromkeys(
        ("groups", "sample_weight", "domains", "validation"), UNUSED
    )

    def __sklearn_tags__(self) -> Tags:
        """Say what the first step takes, and whether a step needs labels."""
        tags = super().__sklearn_tags__()
        try:
            steps = [get_tags(step) for _, step in self.steps if step not in (None, "passthrough")]
        except (ValueError, AttributeError, TypeError):
            return tags  # `fit` refuses such steps, as in any pipeline
        if steps:
            tags.input_tags = steps[0].input_tags
            tags.target_tags.required = any(step.target_tags.required for step in steps)
        return tags

    # Of scikit-learn's own, only what is passed on is added.
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        **params: Any,
    ) -> Self:
        """Fit all steps.

        Parameters
        ----------
        X : array, shape (n, channels, samples), or what the first step takes
        y : array, shape (n,)
            Labels.
        groups : array, shape (n,), optional
            Trials of one group are never split within the training trials.
        sample_weight : array, shape (n,), optional
            How much trials count.
        domains : array, shape (n,), optional
            Session or person of each trial, for :class:`Recentring`.
        validation : tuple of array, optional
            Trials and labels that a network chooses its epoch by.
        **params
            Of single steps, as ``step__name``.

        Returns
        -------
        self

        Raises
        ------
        ModelError
            If no step takes what is passed.
        """
        given: dict[str, Any] = {"groups": groups, "sample_weight": sample_weight}
        given["domains"] = domains
        if validation is not None:
            held, labels = validation
            # Transformed when the steps before are fitted.
            given["validation"] = lambda: (self._before(held), labels)
        (name, first), (_, classifier) = self.steps[0], self.steps[-1]
        if getattr(first, "needs_labels", False) and takes(classifier, "refit"):
            together = params.get(f"{name}__groups", groups)
            given["refit"] = lambda folds: self._refitted(X, y, folds, together, domains)
        given = {key: value for key, value in given.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            params |= given  # scikit-learn hands each to the steps that request it
        else:
            params |= addressed(self, given)
        super().fit(X, y, **params)
        return self

    def _before(self, X: ArrayLike) -> Any:
        """What the last step is given of trials."""
        return self[:-1].transform(X) if len(self.steps) > 1 else X

    def _refitted(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        folds: Folds,
        groups: ArrayLike | None,
        domains: ArrayLike | None,
    ) -> Iterator[Array]:
        """What the last step would be given of the training trials, if fitted to a part of them."""
        # The first step is fitted by now, and a cache may have replaced it.
        (_, first), *between = self.steps[:-1]
        for C in first.refitted(X, y, folds, groups):
            for _, step in between:
                if step not in (None, "passthrough"):
                    own = {"domains": domains} if takes(step, "domains") else {}
                    C = clone(step).fit_transform(C, **own)  # without labels
            yield C

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any:
        """Fit, and predict the training trials."""
        return self.fit(X, y, **params).predict(X)


class Recentring(ArrayOutputMixin, BaseEstimator):
    """Recentre SPD matrices: see every trial from the mean of its own session or person.

    Training trials are whitened by the Riemannian mean of their domain. A new recording has no mean
    yet: its trials, in order of time, are whitened by a running mean, which starts at the middle of
    the training domains and follows the trials along geodesics.

    Attributes
    ----------
    reference_ : ndarray, shape (m, d, d)
        The middle of the training domains.
    n_features_in_ : int
        Rows of a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import Recentring
    >>> C = np.stack([s * np.eye(2) for s in (1.0, 4.0, 10.0, 40.0)])
    >>> Recentring().fit_transform(C, domains=["a", "a", "b", "b"])[:, 0, 0].round(3)
    array([0.5, 2. , 0.5, 2. ])
    """

    __metadata_request__fit: ClassVar = {"domains": True}

    def __sklearn_tags__(self) -> Tags:
        """Say that input is three-dimensional."""
        return matrix_tags(super().__sklearn_tags__())

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, domains: ArrayLike | None = None
    ) -> Self:
        """Find the middle of the domains of training matrices.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)
        y : ignored
        domains : array, shape (n,), optional
            Session or person of each trial; one for all by default.
        """
        self.fit_transform(X, y, domains)
        return self

    @one_thread()
    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,  # noqa: ARG002
        domains: ArrayLike | None = None,
    ) -> Array:
        """Recentre training matrices, each domain by its own mean.

        Parameters
        ----------
        X, y, domains
            As for :meth:`fit`.

        Returns
        -------
        C : ndarray, of the shape of ``X``
        """
        C = as_matrices(X)
        self.n_features_in_ = C.shape[-1]
        of = np.zeros(len(C), dtype=int) if domains is None else np.asarray(domains)
        if of.shape != (len(C),):
            raise SignalError(f"domains must have one entry per trial, {len(C)}, got {of.shape}.")
        names = np.unique(of)
        means = np.stack([riemannian_mean(C[of == name]) for name in names])
        moved = np.empty_like(C)
        for name, mean in zip(names, means, strict=True):
            moved[of == name] = congruence(C[of == name], inverse_root(mean))
        self.reference_ = riemannian_mean(means)
        return moved.reshape(np.shape(X))

    @one_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Recentre the trials of one new recording, in order of time.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, m, d, d)

        Returns
        -------
        C : ndarray, of the shape of ``X``
            Each trial is seen from those before it.
        """
        check_is_fitted(self)
        C = as_matrices(X)
        if C.shape[1:] != self.reference_.shape:
            raise SignalError(
                f"Fitted to matrices of shape {self.reference_.shape} per trial, got {C.shape[1:]}."
            )
        references = running_references(C, self.reference_, 1, "riemann")
        return congruence(C, inverse_root(references)).reshape(np.shape(X))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Names of the matrices, which are those of the input; ``'matrix 0'``, ... by default."""
        check_is_fitted(self)
        return names_of_matrices(input_features, len(self.reference_))
