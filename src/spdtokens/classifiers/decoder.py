"""Decoders: filter bank, optional recentring, and classifier as one scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import accuracy_score
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spdtokens.classifiers.base import addressed, as_decisions, encode, takes
from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
from spdtokens.errors import ModelError, SignalError
from spdtokens.geometry.alignment import mean_reference, riemannian_mean, running_references
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
from spdtokens.runtime.balance import running_balance, start_count
from spdtokens.runtime.threads import one_thread
from spdtokens.runtime.tokens import Reference, congruence

if TYPE_CHECKING:
    from spdtokens.datasets.base import Paradigm

Array = NDArray[np.float64]
#: Default bands of oscillations and of event-related potentials.
RHYTHMS, POTENTIALS = [(8.0, 30.0)], [(1.0, 24.0)]
#: Seconds: about one period of the alpha rhythm, so that filters of the signal and its delayed copy
#: can cancel it.
DELAY = 0.1
#: Cross-fitting folds of Xdawn filters and averages.
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
        Motor imagery, event-related potentials, steady-state visual evoked potentials, or other,
        which is decoded from oscillations like motor imagery.
    sfreq : float, default=None
        Sampling rate in Hz. None if the input is covariance matrices instead of signals.
    tmin : float, default=0.0
        Time of the first sample of a trial in seconds, as in MNE.
    window : pair of float, default=None
        Start and end of the part to decode, in seconds on the time axis of ``tmin``. None for the
        whole trial.
    stimulus_hz : sequence of float, default=()
        Stimulus frequencies in Hz, required for ``'ssvep'``.

    Returns
    -------
    DecodingPipeline
        Pipeline with the steps ``filterbank`` (:class:`FilterBankCovariances`) and ``classifier``
        (:class:`TokenDiscriminantClassifier`), not fitted.

    Raises
    ------
    ModelError
        If ``sfreq`` or ``window`` is invalid, or the stimulus frequencies of SSVEP are missing.
    DataError
        If the paradigm is unknown.

    See Also
    --------
    evaluate : Estimate the score of a decoder without leakage.
    train : Train a decoder on recordings and save it.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import make_decoder
    >>> decoder = make_decoder("mi", sfreq=250, tmin=-0.5, window=(0.5, 2.0))
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 625))
    >>> decoder.fit(X, np.arange(20) % 2).predict_proba(X).shape
    (20, 2)
    >>> decoder.set_params(filterbank__bands="8-13,13-30", classifier__ridge=0.04)["classifier"]
    TokenDiscriminantClassifier(ridge=0.04)
    """
    from spdtokens.datasets.select import get_paradigm  # slow to import

    kind = get_paradigm(paradigm)
    if sfreq is not None and not (isinstance(sfreq, int | float | np.number) and sfreq > 0):
        raise ModelError(f"sfreq must be > 0 Hz, got {sfreq!r}.")
    if window is not None and np.shape(window) != (2,):
        raise ModelError(
            f"window must be (start, end) in seconds, such as (0.5, 4), got {window!r}."
        )
    gains: dict[str, Any] = {"gains": None} if kind == "erp" else {}  # rows are not channels
    classifier = TokenDiscriminantClassifier(**gains)
    if sfreq is None:
        return DecodingPipeline([("classifier", classifier)])
    options = filterbank_options(kind, window, stimulus_hz)
    if options["bands"] != "ssvep":  # those are restricted in fit, where the window is known
        seconds = 1.0 if window is None else window[1] - window[0]
        options["bands"] = default_bands(options["bands"], sfreq, seconds)
    filterbank = FilterBankCovariances(sfreq, tmin=tmin, stimulus_hz=tuple(stimulus_hz), **options)
    return DecodingPipeline([("filterbank", filterbank), ("classifier", classifier)])


def filterbank_options(
    paradigm: Paradigm, window: Window | None, stimulus_hz: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the options of :class:`FilterBankCovariances` for a paradigm.

    ``docs/recommended.md`` explains the choices.

    Parameters
    ----------
    paradigm : {'motor imagery', 'erp', 'ssvep', 'other'}
        Paradigm.
    window : pair of float or None
        Start and end of the part to decode, in seconds. None for the whole trial.
    stimulus_hz : sequence of float, default=()
        Stimulus frequencies in Hz, required for SSVEP.

    Returns
    -------
    dict
        Options ``bands``, ``windows``, ``estimator`` and others.

    Raises
    ------
    ModelError
        If the stimulus frequencies of SSVEP are missing.
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
                "SSVEP requires the flicker frequencies in Hz: pass stimulus_hz=(13, 17), or "
                "--stimulus-hz 13,17."
            )
        bands = "ssvep"
    # Many stimuli have many narrow bands.
    return {"bands": bands, "windows": windows, "estimator": "oas", "decimate": bands == "ssvep"}


def _last_has(name: str) -> Callable[[Any], bool]:
    """Check that the last step has a method; pipelines without it do not have it either."""
    return lambda pipeline: hasattr(pipeline._final_estimator, name)


class DecodingPipeline(Pipeline):
    """Pipeline of scikit-learn that passes fit parameters to all steps that take them.

    ``fit(X, y, groups=..., sample_weight=...)`` passes each parameter to the steps whose ``fit``
    has it. As in any pipeline, ``classifier__sample_weight=...`` addresses one step. With
    scikit-learn's metadata routing, parameters go to the steps that request them: our estimators
    request ``groups`` and ``domains``, and ``sample_weight`` after
    ``set_fit_request(sample_weight=True)``.

    If labels are used to compute the matrices (Xdawn), the temperature of the classifier is fitted
    to trials whose matrices were computed without their labels.

    Parameters
    ----------
    steps : list of (str, estimator)
        Steps of the pipeline, as in scikit-learn.
    transform_input : list of str, default=None
        Fit parameters that are transformed by the steps before their consumer, as in scikit-learn.
    memory : str or joblib.Memory, default=None
        Cache of fitted transformers and of the matrices of training trials.
    verbose : bool, default=False
        Print the time of each step.

    See Also
    --------
    make_decoder : Make the recommended pipeline for a paradigm.
    Recentring : Step between filter bank and classifier, for several sessions or subjects.

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
        ("groups", "sample_weight", "domains", "validation", "unlabeled"), UNUSED
    )

    def __sklearn_tags__(self) -> Tags:
        """Declare the input of the first step, and whether a step requires labels."""
        tags = super().__sklearn_tags__()
        try:
            steps = [get_tags(step) for _, step in self.steps if step not in (None, "passthrough")]
        except (ValueError, AttributeError, TypeError):
            return tags  # `fit` raises an error for such steps
        if steps:
            tags.input_tags = steps[0].input_tags
            tags.target_tags.required = any(step.target_tags.required for step in steps)
        return tags

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        unlabeled: tuple[ArrayLike, ArrayLike] | None = None,
        **params: Any,
    ) -> Self:
        """Fit all steps.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials, or other input of the first step.
        y : array, shape (n,), default=None
            Labels.
        groups : array, shape (n,), default=None
            Trials of a group are never split within the training trials.
        sample_weight : array, shape (n,), default=None
            Weights of trials. None for equal weights.
        domains : array, shape (n,), default=None
            Session or subject of each trial, for :class:`Recentring` and
            :class:`AdversarialTokenClassifier`.
        validation : tuple of array, default=None
            Trials and labels by which a network selects its epoch.
        unlabeled : tuple of array, default=None
            Trials without labels and their domains, for :class:`AdversarialTokenClassifier`.
        **params : dict
            Parameters of single steps, as ``step__name``.

        Returns
        -------
        self
            The fitted pipeline.

        Raises
        ------
        ModelError
            If no step takes a parameter.
        """
        given: dict[str, Any] = {"groups": groups, "sample_weight": sample_weight}
        given["domains"] = domains
        for key, pair in (("validation", validation), ("unlabeled", unlabeled)):
            if pair is not None:
                # A function, as it needs the fitted steps before.
                given[key] = lambda pair=pair: (self._before(pair[0]), pair[1])
        (name, first), (_, classifier) = self.steps[0], self.steps[-1]
        if getattr(first, "needs_labels", False) and takes(classifier, "refit"):
            together = params.get(f"{name}__groups", groups)
            given["refit"] = lambda folds: self._refitted(X, y, folds, together, domains)
        given = {key: value for key, value in given.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            params |= given  # scikit-learn passes them to the steps that request them
        else:
            params |= addressed(self, given)
        super().fit(X, y, **params)
        return self

    def _before(self, X: ArrayLike) -> Any:
        """Input of the last step for trials ``X``."""
        return self[:-1].transform(X) if len(self.steps) > 1 else X

    def _refitted(
        self,
        X: ArrayLike,
        y: ArrayLike | None,
        folds: Folds,
        groups: ArrayLike | None,
        domains: ArrayLike | None,
    ) -> Iterator[Array]:
        """Input of the last step for the training trials; earlier steps are fitted to each fold."""
        # Looked up here: the step is fitted now, and a cache may have replaced it.
        (_, first), *between = self.steps[:-1]
        for C in first.refitted(X, y, folds, groups):
            for _, step in between:
                if step not in (None, "passthrough"):
                    own = {"domains": domains} if takes(step, "domains") else {}
                    C = clone(step).fit_transform(C, **own)  # without labels
            yield C

    @property
    def _balancing(self) -> Recentring | None:
        """The fitted step that says how to correct decisions for unbalanced classes, if any."""
        steps = [step for _, step in self.steps if isinstance(step, Recentring) and step.balanced]
        if not steps:
            return None
        check_is_fitted(steps[0])
        return steps[0]

    # Decisions are corrected after the last step, so everything that depends on them is here.

    @available_if(_last_has("predict_proba"))
    def predict_proba(self, X: ArrayLike, **params: Any) -> Any:
        """Predict class probabilities.

        Parameters
        ----------
        X : array
            Trials; with :class:`Recentring`, those of one recording in temporal order.
        **params : dict
            Parameters of the steps, as in scikit-learn.

        Returns
        -------
        ndarray, shape (n, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        found = super().predict_proba(X, **params)
        step = self._balancing
        if step is None:
            return found
        assert step.proportions_ is not None
        return running_balance(found, step.proportions_, step.start_)

    @available_if(_last_has("decision_function"))
    def decision_function(self, X: ArrayLike, **params: Any) -> Any:
        """Compute the scores of the last step, or logarithms of corrected probabilities.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`predict_proba`.
        **params : dict
            Parameters of the steps, as in scikit-learn.

        Returns
        -------
        ndarray, shape (n, n_classes), or (n,) for two classes
            Scores.
        """
        if self._balancing is None:
            return super().decision_function(X, **params)
        found = self.predict_proba(X, **params)
        return as_decisions(np.log(np.maximum(found, np.finfo(np.float64).tiny)))

    @available_if(_last_has("predict"))
    def predict(self, X: ArrayLike, **params: Any) -> Any:
        """Predict the class of each trial.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`predict_proba`.
        **params : dict
            Parameters of the steps, as in scikit-learn.

        Returns
        -------
        ndarray, shape (n,)
            Classes.
        """
        if self._balancing is None:
            return super().predict(X, **params)
        return self.classes_[self.predict_proba(X, **params).argmax(1)]

    @available_if(_last_has("score"))
    def score(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> float:
        """Compute the accuracy, or the score of a last step that is not a classifier.

        Parameters
        ----------
        X : array
            Trials, as for :meth:`predict_proba`.
        y : array, shape (n,), default=None
            Labels.
        sample_weight : array, shape (n,), default=None
            Weights of trials. None for equal weights.
        **params : dict
            Parameters of the steps, as in scikit-learn.

        Returns
        -------
        float
            The score.
        """
        if self._balancing is None:
            return float(super().score(X, y, sample_weight, **params))
        found = self.predict(X, **params)
        return float(accuracy_score(y, found, sample_weight=sample_weight))

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any:
        """Fit all steps and predict the training trials.

        Parameters
        ----------
        X : array, shape (n, n_channels, n_samples)
            Training trials, or other input of the first step.
        y : array, shape (n,), default=None
            Labels.
        **params : dict
            Parameters of :meth:`fit`.

        Returns
        -------
        ndarray, shape (n,)
            Predicted classes.
        """
        return self.fit(X, y, **params).predict(X)


class Recentring(ArrayOutputMixin, BaseEstimator):
    """Recentre SPD matrices of each session or subject at the identity.

    Training trials are whitened by the mean of their domain (session or subject) [1]_ [2]_.
    Trials of a new recording are whitened, in temporal order, by a running mean. It starts at the
    mean of the training domains and moves towards each trial, so that no trial depends on later
    ones.

    Parameters
    ----------
    metric : {'riemann', 'euclid'}, default='riemann'
        Metric of the mean.
    n_windows : int, default=1
        Number of consecutive matrices of a trial that share a reference: the windows of a band,
        as :class:`FilterBankCovariances` orders them. The reference is then that of whole trials,
        so that the time course within trials is preserved.
    shrinkage : float, default=0.0
        Weight, in [0, 1), of a multiple of the identity with the same trace, in the reference. It
        keeps directions with little power, which are noise, from being amplified to the power of
        all others.
    n_means : int, default=0
        Number of first rows of each matrix that are means over time (``n_means`` of
        :class:`FilterBankCovariances`). They are not recentred.
    balanced : bool, default=False
        Whether a :class:`DecodingPipeline` with this step corrects its decisions on a new recording
        in which some classes are more frequent than in training. The mean of such a recording lies
        near the frequent class. Requires labels in ``fit``.

    Attributes
    ----------
    reference_ : ndarray, shape (n_matrices / n_windows, d, d)
        Riemannian mean of the means of the training domains; d channels.
    proportions_ : ndarray, shape (n_classes,), or None
        Share of each class among the training trials, if ``balanced``.
    start_ : int
        Number of trials that the start of the running mean counts for: 1, or if ``balanced`` 3, or
        10 after training on a single domain.
    n_features_in_ : int
        Number of rows of a matrix.

    See Also
    --------
    DecodingPipeline : Pass ``domains`` to its ``fit``.
    pyriemann.transfer.TLCenter : The same for known domains.

    References
    ----------
    .. [1] P. Zanini, M. Congedo, C. Jutten, S. Said and Y. Berthoumieu, "Transfer learning: a
       Riemannian geometry framework with applications to brain-computer interfaces", IEEE Trans.
       Biomed. Eng. 65, 1107-1116, 2018. https://doi.org/10.1109/TBME.2017.2742541
    .. [2] H. He and D. Wu, "Transfer learning for brain-computer interfaces: a Euclidean space data
       alignment approach", IEEE Trans. Biomed. Eng. 67, 399-410, 2020.
       https://doi.org/10.1109/TBME.2019.2913914

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import Recentring
    >>> C = np.stack([s * np.eye(2) for s in (1.0, 4.0, 10.0, 40.0)])
    >>> Recentring().fit_transform(C, domains=["a", "a", "b", "b"])[:, 0, 0].round(3)
    array([0.5, 2. , 0.5, 2. ])
    """

    __metadata_request__fit: ClassVar = {"domains": True}

    def __init__(
        self,
        *,
        metric: Literal["riemann", "euclid"] = "riemann",
        n_windows: int = 1,
        shrinkage: float = 0.0,
        n_means: int = 0,
        balanced: bool = False,
    ) -> None:
        self.metric = metric
        self.n_windows = n_windows
        self.shrinkage = shrinkage
        self.n_means = n_means
        self.balanced = balanced

    def __sklearn_tags__(self) -> Tags:
        """Declare three-dimensional input."""
        return matrix_tags(super().__sklearn_tags__())

    def rule(self, n_matrices: int | None = None) -> Reference:
        """Return how references are computed and applied, from checked parameters.

        Parameters
        ----------
        n_matrices : int, default=None
            Number of matrices per trial, if known.

        Returns
        -------
        Reference
            The computation in NumPy, as saved in model files.

        Raises
        ------
        ModelError
            If a parameter is out of range.
        """
        if self.metric not in ("riemann", "euclid"):
            raise ModelError(f"metric must be 'riemann' or 'euclid', got {self.metric!r}.")
        if not 0 <= self.shrinkage < 1:
            raise ModelError(f"shrinkage must be in [0, 1), got {self.shrinkage!r}.")
        if self.n_windows < 1 or (n_matrices is not None and n_matrices % self.n_windows):
            known = "" if n_matrices is None else f", a divisor of {n_matrices} matrices per trial"
            raise ModelError(f"n_windows must be an integer >= 1{known}, got {self.n_windows!r}.")
        if self.n_means < 0:
            raise ModelError(f"n_means must be >= 0, got {self.n_means!r}.")
        return Reference(self.metric, int(self.n_windows), float(self.shrinkage), int(self.n_means))

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, domains: ArrayLike | None = None
    ) -> Self:
        """Compute the mean of the training domains.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of training trials.
        y : array, shape (n,), default=None
            Labels, used only if ``balanced``.
        domains : array, shape (n,), default=None
            Session or subject of each trial. None for a single domain.

        Returns
        -------
        self
            The fitted transformer.
        """
        self.fit_transform(X, y, domains)
        return self

    @one_thread()
    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Array:
        """Recentre training matrices, each domain by its own mean.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of training trials.
        y : array, shape (n,), default=None
            Labels, used only if ``balanced``.
        domains : array, shape (n,), default=None
            Session or subject of each trial. None for a single domain.

        Returns
        -------
        ndarray, shape (n, d, d) or (n, n_matrices, d, d)
            Recentred matrices.
        """
        C = as_matrices(X, single=True)
        rule = self.rule(C.shape[1])
        if self.n_means >= C.shape[-1]:
            raise ModelError(
                f"n_means must be less than the {C.shape[-1]} rows of a matrix, got "
                f"{self.n_means!r}."
            )
        self.n_features_in_, self.n_matrices_ = C.shape[-1], C.shape[1]
        of = np.zeros(len(C), dtype=int) if domains is None else np.asarray(domains)
        if of.shape != (len(C),):
            raise SignalError(f"domains must have one entry per trial, {len(C)}, got {of.shape}.")
        names = np.unique(of)
        moved, means = np.empty_like(C), []
        for name in names:
            own = C[of == name]
            means.append(mean_reference(rule.over_windows(own).astype(np.float64), self.metric))
            moved[of == name] = congruence(own, rule.whitener(means[-1]).astype(C.dtype))
        self.reference_ = riemannian_mean(np.stack(means))
        self.proportions_, self.start_ = None, 1
        if self.balanced:
            if y is None:
                raise ModelError(
                    "Recentring(balanced=True) needs labels, to know the proportions of the "
                    "classes. Pass y to fit, or remove balanced."
                )
            self.proportions_ = np.bincount(encode(y, len(C))[1]) / len(C)
            self.start_ = start_count(len(names))
        return moved.reshape(np.shape(X))

    @one_thread()
    def transform(self, X: ArrayLike) -> Array:
        """Recentre the trials of one new recording, in temporal order.

        Parameters
        ----------
        X : array, shape (n, d, d) or (n, n_matrices, d, d)
            SPD matrices of one recording.

        Returns
        -------
        ndarray, shape (n, d, d) or (n, n_matrices, d, d)
            Recentred matrices. Each depends only on the trials before it.
        """
        check_is_fitted(self)
        C = as_matrices(X, single=True)
        rows = self.n_features_in_
        wanted = (self.n_matrices_, rows, rows)
        if C.shape[1:] != wanted:
            raise SignalError(
                f"X must have matrices of shape {wanted} per trial, as in fit, got {C.shape[1:]}."
            )
        rule = self.rule()
        references = running_references(C.astype(np.float64), self.reference_, self.start_, rule)
        return congruence(C, rule.whitener(references).astype(C.dtype)).reshape(np.shape(X))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the matrices.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the input matrices. None for ``'matrix 0'``, ``'matrix 1'``, ...

        Returns
        -------
        ndarray of str, shape (n_matrices,)
            The same names.
        """
        check_is_fitted(self)
        return names_of_matrices(input_features, self.n_matrices_)
