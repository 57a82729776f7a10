"""Methods of the comparison by name: functions from a data set to an estimator.

The registry is plain values: libraries are imported when a method is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from spdtokens._extras import how_to_install, is_installed
from spdtokens._tables import table
from spdtokens.classifiers.nn.networks import NETWORKS, SHAPES, SPD, Input
from spdtokens.errors import MethodError

if TYPE_CHECKING:
    from rich.table import Table
    from sklearn.base import BaseEstimator

    from spdtokens.classifiers.decoder import DecodingPipeline
    from spdtokens.datasets import Dataset
    from spdtokens.preprocessing.bands import BandSpec

RecipeName = Literal["published", "common"]
RECOMMENDED = "recommended"
_SMALL = {"d_model": 64, "n_layers": 4, "n_heads": 4, "d_ff": 128, "batch_size": 32}
#: Parameters of the token transformer by preset: the paper's for BCI2a and BCIcha, and for MAMEM.
PRESETS: dict[str, dict[str, Any]] = {
    "standard": {},
    "standard-small": _SMALL,
    "paper": {},
    "paper-small": _SMALL,
}
#: Presets with the paper's covariances as well: 1e-6 on the diagonal and eigenvalues of at least
#: 1e-12, both in square microvolts. The others do not depend on the unit of the signals.
EXACT = ("paper", "paper-small")
#: Fraction of training trials held out if a recipe needs validation and the protocol has none.
HELD_BACK = 0.125
#: Parameters of ``recommended`` that can be changed, of the filter bank and of the classifier.
FILTERBANK_CHANGES = ("windows", "delays", "cross_fit", "decimate", "n_filters", "filtering")
CLASSIFIER_CHANGES = ("embedding", "isometric", "ridge", "gains")
CHANGES = (*FILTERBANK_CHANGES, *CLASSIFIER_CHANGES)
#: Embeddings of the token transformers; a test compares them with the registry.
EMBEDDINGS = (
    "bures_wasserstein",
    "log_euclidean",
    "euclidean",
    "cholesky",
    "log_cholesky",
    "affine_invariant",
    "whitened_root",
    "principal_correlation",
)


@dataclass(frozen=True)
class Settings:
    """Settings of methods that are selected by name.

    Parameters
    ----------
    bands : str or sequence of pairs, default='auto'
        Frequency bands, as in :class:`spdtokens.FilterBankCovariances`. ``'auto'`` for the bands of
        the method or of the paradigm.
    estimator : str, default='auto'
        Covariance estimator, as in :class:`spdtokens.FilterBankCovariances`. ``'auto'`` for the
        sample covariance with networks, and for OAS shrinkage, or Xdawn with event-related
        potentials, with classical methods.
    preset : {'standard', 'standard-small', 'paper', 'paper-small'}, default='standard'
        Preset of the token networks: the paper's network for BCI2a and BCIcha, or the smaller one
        for MAMEM. With ``'paper'`` and ``'paper-small'`` covariances and tokens are exactly the
        paper's, in square microvolts, which requires the unit of the signals. The other two do not
        depend on it.
    changes : mapping, default={}
        Parameters of the token transformer, such as ``{"n_layers": 2}``, or of ``recommended``: any
        of ``spdtokens.classifiers.methods.CHANGES``.
    recipe : {'published', 'common'}, default='published'
        Training recipe of the other networks.
    epochs : int, default=None
        Number of epochs. None for those of preset and recipe.
    device : str, default='auto'
        Device of networks, such as ``'cpu'`` or ``'cuda'``.

    See Also
    --------
    Method.make : Make the estimator with these settings.

    Examples
    --------
    >>> from spdtokens.classifiers.methods import Settings
    >>> Settings(preset="standard-small", epochs=10).transformer()["n_layers"]
    4
    """

    bands: BandSpec = "auto"
    estimator: str = "auto"
    preset: str = "standard"
    changes: Mapping[str, Any] = field(default_factory=dict)
    recipe: RecipeName = "published"
    epochs: int | None = None
    device: str = "auto"

    def transformer(self) -> dict[str, Any]:
        """Return the parameters of the token transformer.

        Returns
        -------
        dict
            Parameters that differ from the defaults of
            :class:`spdtokens.TokenTransformerClassifier`.

        Raises
        ------
        UserError
            If the preset or a parameter is unknown, or a value is out of range.
        """
        from spdtokens.classifiers.transformer import TokenTransformerClassifier

        if self.preset not in PRESETS:
            raise MethodError(
                f"There is no preset {self.preset!r}. There are: {', '.join(PRESETS)}."
            )
        given = PRESETS[self.preset] | {"epochs": self.epochs} | dict(self.changes)
        given = {name: value for name, value in given.items() if value is not None}
        known = TokenTransformerClassifier().get_params(deep=False)
        unknown = [name for name in given if name not in known]
        if unknown:
            raise MethodError(
                f"The token transformer has no parameter {unknown[0]!r}. It has: "
                f"{', '.join(known)}."
            )
        model = TokenTransformerClassifier(**given)
        model._config()
        if model._recipe().needs_validation and model.validation is None:
            given["validation"] = HELD_BACK
        return given


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Parameters
    ----------
    name, family, reference : str
        Name, group in tables, and publication.
    input : {'raw', 'covariance', 'tokens'}
        Input of the classifier.
    steps : callable
        Maps the options of the first step (None for a data set of matrices) and the settings to the
        estimator.
    has_seed : bool, default=False
        Whether the result depends on a random seed.
    needs_signals : bool, default=False
        Whether covariance matrices are not sufficient as input.
    only_for : str, default=None
        The only paradigm it applies to.
    bands : str, default=None
        Default bands for all paradigms but SSVEP, where bands are around the stimulus frequencies.
        None for those of the paradigm.
    own_covariances : bool, default=False
        Whether it computes covariances of its own kind from signals.
    takes_minutes : bool, default=False
        Whether a deterministic run takes so long that it is stored separately.
    extra : str, default=None
        Optional dependency of spdtokens that it requires.
    counts : tuple of int, default=None
        Number of parameters at ``SHAPES``, the shapes of the paper's data sets, with the paper's
        network for each and one token per trial. None if there is no fixed number.
    own_bands : sequence of pairs, default=None
        Bands that belong to the method, whatever the settings say.

    See Also
    --------
    get_method : Get a method by name.

    Examples
    --------
    >>> from spdtokens.classifiers.methods import get_method
    >>> get_method("ts-lr").family
    'classical'
    """

    name: str
    family: str
    reference: str
    input: Input
    steps: Callable[[dict[str, Any] | None, Settings], BaseEstimator]
    has_seed: bool = False
    needs_signals: bool = False
    only_for: str | None = None
    bands: str | None = None
    own_covariances: bool = False
    takes_minutes: bool = False
    extra: str | None = None
    counts: tuple[int, ...] | None = None
    own_bands: BandSpec | None = None

    @property
    def installed(self) -> bool:
        """Whether its optional dependency is installed."""
        return is_installed(self.extra)

    def why_not(self, dataset: Dataset) -> str | None:
        """Return the reason why the method cannot be used with a data set.

        Parameters
        ----------
        dataset : Dataset
            The data set.

        Returns
        -------
        str or None
            The reason; None if the method can be used.
        """
        if self.needs_signals and dataset.is_covariance:
            return f"{self.name} needs signals, but {dataset.name} contains covariance matrices"
        if self.only_for not in (None, dataset.paradigm):
            return f"{self.name} applies only to {self.only_for}, not to {dataset.name}"
        if self.extra is not None and not self.installed:
            return f"{self.name} is not installed (run {how_to_install(self.extra)})"
        return None

    def make(self, dataset: Dataset, settings: Settings | None = None) -> BaseEstimator:
        """Make the estimator for the trials of a data set.

        Parameters
        ----------
        dataset : Dataset
            The data set.
        settings : Settings, default=None
            Settings. None for the defaults.

        Returns
        -------
        BaseEstimator
            The estimator, not fitted.

        Raises
        ------
        MethodError
            If the method does not apply to the data set, or its optional dependency is not
            installed.
        """
        settings = settings or Settings()
        reason = self.why_not(dataset)
        if reason is not None:
            raise MethodError(f"{reason[0].upper()}{reason[1:]}.")
        made = self.steps(self._options(dataset, settings), settings)
        if "classifier__mirror_labels" in made.get_params():
            mirror, pairs = mirrored(dataset.ch_names, dataset.classes)
            made.set_params(classifier__mirror=mirror, classifier__mirror_labels=pairs)
        return self._exact(made, dataset) if settings.preset in EXACT else made

    def _exact(self, estimator: BaseEstimator, dataset: Dataset) -> BaseEstimator:
        """Let the token networks embed as the paper does, in square microvolts."""
        from spdtokens.geometry import TokenEmbedding

        embedding = estimator.get_params().get("classifier__embedding")
        if self.name == RECOMMENDED or not isinstance(embedding, str):
            return estimator
        if dataset.unit_in_volts is None:
            raise MethodError(
                f"The preset 'paper' adds 1e-6 square microvolts to covariances, but the unit of "
                f"{dataset.name} is unknown. State it: --dataset-option unit=uV "
                "(dataset_options={'unit': 'uV'} or from_arrays(..., unit='uV') in Python, "
                "unit_in_volts=1e-6 in an .npz file), or "
                "use preset 'standard', which does not depend on the unit."
            )
        exact = TokenEmbedding(embedding, floor="paper", unit_in_volts=dataset.unit_in_volts)
        return estimator.set_params(classifier__embedding=exact)

    def bands_cut(self, dataset: Dataset, settings: Settings) -> list[str]:
        """Return the changes of default bands that the sampling rate requires.

        Parameters
        ----------
        dataset : Dataset
            The data set.
        settings : Settings
            Settings.

        Returns
        -------
        list of str
            Changes such as ``'4-40 Hz cut to above 4 Hz'``.
        """
        return [] if dataset.is_covariance else self._bands(dataset, settings)[1]

    def _options(self, dataset: Dataset, settings: Settings) -> dict[str, Any] | None:
        """Options of the first step; None for a data set of matrices."""
        from spdtokens.classifiers.decoder import filterbank_options
        from spdtokens.preprocessing.bands import OF_STIMULI

        recommended = self.name == RECOMMENDED
        unknown = [name for name in settings.changes if name not in CHANGES]
        if recommended and unknown:
            raise MethodError(
                f"{self.name} has no parameter {unknown[0]!r}. It has: {', '.join(CHANGES)}."
            )
        if dataset.is_covariance:
            return None
        bands = self._bands(dataset, settings)[0]
        options: dict[str, Any] = {"sfreq": dataset.sfreq, "tmin": dataset.tmin}
        options |= {"bands": bands, "windows": [dataset.window]}
        if self.own_bands is not None:
            from spdtokens.datasets.select import BEGINS

            begin, end = dataset.window
            if begin == BEGINS.get(dataset.paradigm):  # rhythms respond late, potentials at once
                begin = max(dataset.tmin, 0.0)
            return options | {"potentials": (begin, end)}
        if self.input == "raw":
            return options
        if recommended:
            own = filterbank_options(dataset.paradigm, dataset.window, dataset.stimulus_hz)
            options |= own | {"bands": bands}
        if bands in OF_STIMULI:
            options["stimulus_hz"] = dataset.stimulus_hz
        options["estimator"] = self._estimator(dataset, settings, options.get("estimator"))
        if options["estimator"] == "paper":
            options["unit_in_volts"] = dataset.unit_in_volts
        if recommended:
            changes = settings.changes.items()
            options |= {name: value for name, value in changes if name in FILTERBANK_CHANGES}
        return options

    def _estimator(self, dataset: Dataset, settings: Settings, own: str | None) -> str:
        """Covariance estimator: the user's, else the method's, else the default of its family."""
        from spdtokens.preprocessing.covariance import ESTIMATORS, PROTOTYPES

        if settings.estimator != "auto":
            known = (*ESTIMATORS, "paper", *PROTOTYPES)
            if settings.estimator not in known:
                raise MethodError(
                    f"estimator must be one of auto, {', '.join(known)}, got "
                    f"{settings.estimator!r}."
                )
            return settings.estimator
        if own is not None:
            return own
        if self.family != "classical":
            return "paper" if settings.preset in EXACT else "sample"
        return "xdawn" if dataset.paradigm == "erp" and self.bands is None else "oas"

    def _bands(self, dataset: Dataset, settings: Settings) -> tuple[BandSpec, list[str]]:
        """The user's bands, else the default ones restricted to the sampling rate."""
        from spdtokens.preprocessing.bands import cut_bands, resolve_bands

        begin, end = dataset.window
        if self.own_bands is not None:
            assert dataset.sfreq is not None
            bands, notes = cut_bands(self.own_bands, dataset.sfreq, end - begin)
            if settings.bands != "auto":
                notes = [f"bands {settings.bands} not used, the method has its own", *notes]
            return bands, notes
        if settings.bands != "auto":
            resolve_bands(settings.bands, dataset.stimulus_hz, end - begin)
            return settings.bands, []
        assert dataset.sfreq is not None
        bands = self._default_bands(dataset)
        return cut_bands(bands, dataset.sfreq, end - begin, dataset.stimulus_hz)

    def _default_bands(self, dataset: Dataset) -> BandSpec:
        """Bands if the user specifies none.

        These are the method's own (around the stimuli for SSVEP), or else those of the paradigm:
        1-24 Hz for event-related potentials (unfiltered if the data already are filtered); for
        classical methods 8-30 Hz for motor imagery or an unknown paradigm, and the stimuli for
        SSVEP; for ``recommended`` those of :func:`make_decoder`; for networks 4-40 Hz.
        """
        from spdtokens.classifiers.decoder import POTENTIALS, RHYTHMS, filterbank_options
        from spdtokens.preprocessing.bands import DEFAULT

        stimulus = dataset.paradigm == "ssvep" and dataset.stimulus_hz
        if self.bands is not None:
            return "stimulus" if stimulus else self.bands
        if dataset.paradigm == "erp":
            return "none" if None not in dataset.filtered else POTENTIALS
        if self.name == RECOMMENDED:
            options = filterbank_options(dataset.paradigm, None, dataset.stimulus_hz)
            bands: BandSpec = options["bands"]
            return bands
        if self.family == "classical" and stimulus and not self.own_covariances:
            return "stimulus"
        if self.family == "classical" and dataset.paradigm in ("motor imagery", "other"):
            return RHYTHMS  # for an unknown paradigm as in recommended
        return DEFAULT


def get_method(name: str) -> Method:
    """Get a method by name.

    Parameters
    ----------
    name : str
        Name, such as ``'recommended'``, ``'ts-lr'`` or ``'token-log-euclidean'``;
        ``spdtokens methods`` lists all.

    Returns
    -------
    Method
        The method.

    Raises
    ------
    MethodError
        If there is no such method. The message lists all names.

    See Also
    --------
    spdtokens.evaluate : Compare methods by name.

    Examples
    --------
    >>> from spdtokens import load_dataset
    >>> from spdtokens.classifiers.methods import get_method
    >>> get_method("ts-lr").make(load_dataset("sim-mi"))["classifier"]
    LogisticRegression(max_iter=2000)
    """
    if name not in METHODS and name.startswith("token-"):
        _enter_new_embeddings()
    if name not in METHODS:
        near = get_close_matches(name, METHODS, 1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise MethodError(f"There is no method {name!r}. {hint}There are: {', '.join(METHODS)}.")
    return METHODS[name]


def _enter_new_embeddings() -> None:
    """Add methods for embeddings that were added to the registry."""
    from spdtokens.geometry.embeddings import EMBEDDINGS as REGISTERED

    for embedding in REGISTERED.keys() - {*EMBEDDINGS}:
        for bands in (None, "paper3"):
            method = _transformer(embedding, bands)
            METHODS[method.name] = method


# Estimators from the options of the first step (None for matrices) and the settings.


def _decoder(
    options: dict[str, Any] | None, classifier: BaseEstimator, raw: bool = False
) -> DecodingPipeline:
    from spdtokens.classifiers.decoder import DecodingPipeline
    from spdtokens.preprocessing import FilterBankCovariances, StandardTrials

    steps: list[tuple[str, BaseEstimator]] = []
    if options is not None:
        name, first = ("trials", StandardTrials) if raw else ("filterbank", FilterBankCovariances)
        steps.append((name, first(**options)))
    return DecodingPipeline([*steps, ("classifier", classifier)])


def _recommended(options: dict[str, Any] | None, settings: Settings) -> BaseEstimator:
    from spdtokens.classifiers.discriminant import TokenDiscriminantClassifier
    from spdtokens.geometry import TokenEmbedding
    from spdtokens.preprocessing.covariance import PROTOTYPES

    changes = {k: v for k, v in settings.changes.items() if k in CLASSIFIER_CHANGES}
    if changes.pop("isometric", False):
        names = changes.get("embedding", "auto")
        changes["embedding"] = TokenEmbedding(names, isometric=True, unit_free=True)
    if options is not None and options["estimator"] in PROTOTYPES:
        changes.setdefault("gains", None)  # rows are not channels
    return _decoder(options, TokenDiscriminantClassifier(**changes))


def _transformer(embedding: str, bands: str | None) -> Method:
    def steps(options: dict[str, Any] | None, settings: Settings) -> BaseEstimator:
        from spdtokens.classifiers.transformer import TokenTransformerClassifier

        more = settings.transformer() | {"device": settings.device}
        return _decoder(options, TokenTransformerClassifier(embedding, **more))

    return Method(
        f"token-{embedding.replace('_', '-')}{'-multiband' if bands else ''}",
        "token transformer",
        "Chen et al. 2026",
        "tokens",
        steps,
        has_seed=True,
        needs_signals=bands is not None,
        bands=bands,
        counts=(828292, 999938, 136773),
    )


def _adversarial(options: dict[str, Any] | None, settings: Settings) -> BaseEstimator:
    from spdtokens.classifiers.adversarial import AdversarialTokenClassifier

    more = settings.transformer() | {"device": settings.device}
    return _decoder(options, AdversarialTokenClassifier(**more))


#: Bands of the spatial filters: slow potentials, whose means over time are used as well; theta; mu;
#: low and high beta.
FILTER_BANDS = [(0.3, 8.0), (4.0, 8.0), (8.0, 13.0), (13.0, 20.0), (20.0, 32.0)]
#: Words in the names of classes that do not change when a trial is mirrored.
SYMMETRIC = ("both", "feet", "tongue", "rest")
#: Length and step of their windows in seconds.
FILTER_WINDOW, FILTER_STEP = 1.0, 0.5
#: Means per window.
FILTER_MEANS = 4


def _spatial_filters(
    options: dict[str, Any] | None, settings: Settings, potentials: bool = True
) -> BaseEstimator:
    from spdtokens.classifiers.decoder import DecodingPipeline, Recentring
    from spdtokens.classifiers.filters import SpatialFilterClassifier
    from spdtokens.preprocessing import FilterBankCovariances

    steps: list[tuple[str, BaseEstimator]] = []
    shared: dict[str, Any] = {}
    if options is not None:
        options = dict(options)
        late, early = options["windows"][0], options.pop("potentials")
        start, stop = early if potentials else late
        windows = sliding(start, stop, FILTER_WINDOW, FILTER_STEP)
        shared = {"n_windows": len(windows), "n_means": FILTER_MEANS if potentials else 0}
        options = options | {"windows": windows, "n_means": shared["n_means"]}
        # The floor of the power keeps directions without signal from being amplified.
        filterbank = FilterBankCovariances(**options, regularisation=0.01, dtype="float32")
        steps.append(("filterbank", filterbank))
    more: dict[str, Any] = {} if settings.epochs is None else {"epochs": settings.epochs}
    overlap: dict[str, Any] = (
        {"means_step": round(FILTER_WINDOW / FILTER_STEP)} if len(steps) else {}
    )
    classifier = SpatialFilterClassifier(**shared, **overlap, device=settings.device, **more)
    return DecodingPipeline(
        [*steps, ("recentring", Recentring(**shared)), ("classifier", classifier)]
    )


def sliding(start: float, stop: float, length: float, step: float) -> list[tuple[float, float]]:
    """Return windows of equal length; one window if there is no time for two."""
    n = int((stop - start - length) / step + 1e-9) + 1
    if n < 2:
        return [(start, stop)]
    return [(start + i * step, start + i * step + length) for i in range(n)]


#: Names of the 10-20 system and its extensions, in lower case: place, side, half-way.
_ELECTRODE = re.compile(
    "(a|m|n|fp|nfp|af|afp|aff|f|ffc|fft|ft|ftt|fc|fcc|t|c|ttp|ccp|tp|tpp|cp|cpp|p|ppo|po|poo|o|oi|i)"
    r"(z|[1-9]\d?)(h?)"
)


def mirrored(
    ch_names: Sequence[str], classes: Sequence[str]
) -> tuple[list[int] | None, list[tuple[int, int]]]:
    """Find the channel on the other side of the head, and the class of the other side.

    Parameters
    ----------
    ch_names : sequence of str
        Channel names. In the 10-20 system those on the left end with odd numbers, those on the
        right with the next even number.
    classes : sequence of str
        Class names, such as ``'left_fist'`` and ``'right_fist'``.

    Returns
    -------
    mirror : list of int, or None
        Index of the counterpart of each channel, its own for one on the midline. None if a channel
        has no counterpart or no name of the 10-20 system, ``'left'`` is in the name of a class
        without a counterpart, or no class is named after a side and not all after both.
    pairs : list of pair of int
        Numbers of the classes that are exchanged.
    """
    known = {name.lower(): i for i, name in enumerate(ch_names)}
    mirror = []
    for name in known:
        found = _ELECTRODE.fullmatch(name)
        if found is None:
            return None, []
        root, number, half = found.groups()
        side = 0 if number == "z" else int(number)
        other = f"{root}{side + 1 if side % 2 else side - 1}{half}" if side else name
        if other not in known:
            return None, []
        mirror.append(known[other])
    names = [name.lower() for name in classes]
    pairs = []
    for i, name in enumerate(names):
        if "left" in name:
            other = name.replace("left", "right")
            if other not in names:
                return None, []
            pairs.append((i, names.index(other)))
    # Names such as 769 may stand for a side.
    symmetric = all(any(word in name for word in SYMMETRIC) for name in names)
    return (mirror, pairs) if pairs or symmetric else (None, [])


def _mlp(options: dict[str, Any] | None, settings: Settings) -> BaseEstimator:
    from spdtokens.classifiers.transformer import TokenMLPClassifier

    more: dict[str, Any] = {} if settings.epochs is None else {"epochs": settings.epochs}
    return _decoder(options, TokenMLPClassifier(device=settings.device, **more))


def _classical(name: str, reference: str, **more: Any) -> Method:
    def steps(options: dict[str, Any] | None, _settings: Settings) -> BaseEstimator:
        from spdtokens.classifiers.classical import PIPELINES

        return PIPELINES[name](options)

    return Method(name, "classical", reference, "covariance", steps, **more)


def _network(name: str) -> Method:
    network = NETWORKS[name]
    raw = network.input == "raw"

    def steps(options: dict[str, Any] | None, settings: Settings) -> BaseEstimator:
        from spdtokens.classifiers.networks import NetworkClassifier

        classifier = NetworkClassifier(
            name,
            sfreq=options["sfreq"] if raw and options else None,
            recipe=settings.recipe,
            epochs=settings.epochs,
            device=settings.device,
        )
        return _decoder(options, classifier, raw)

    return Method(
        name,
        network.family,
        network.reference,
        network.input,
        steps,
        has_seed=True,
        needs_signals=raw,
        extra=network.extra,
        counts=network.counts,
    )


_BARACHANT = "Barachant et al. 2012"
_SPD_NETWORKS = [name for name, network in NETWORKS.items() if network.family == SPD]
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(RECOMMENDED, "token discriminant", "this package", "tokens", _recommended),
        *(_transformer(embedding, bands) for bands in (None, "paper3") for embedding in EMBEDDINGS),
        Method(
            "token-adversarial",
            "token transformer",
            "Ganin et al. 2016, on the paper's network",
            "tokens",
            _adversarial,
            has_seed=True,
            counts=(828292, 999938, 136773),
        ),
        Method(
            "spatial-filters",
            "spatial filters",
            "this package",
            "covariance",
            _spatial_filters,
            has_seed=True,
            own_bands=FILTER_BANDS,
        ),
        Method(
            "spatial-filters-power",
            "spatial filters",
            "this package",
            "covariance",
            partial(_spatial_filters, potentials=False),
            has_seed=True,
            own_bands=FILTER_BANDS[1:],
        ),
        _classical("mdm", _BARACHANT),
        _classical("fgmdm", "Barachant et al. 2010"),
        _classical("ts-lr", _BARACHANT),
        _classical("ts-svm", "Barachant et al. 2013"),
        _classical("ts-lda", _BARACHANT),
        _classical(
            "fb-ts-lr",
            "Ang et al. 2008, in the tangent space",
            needs_signals=True,
            bands="filterbank",
        ),
        _classical(
            "xdawn-ts-lr",
            "Barachant and Congedo 2014",
            needs_signals=True,
            only_for="erp",
            own_covariances=True,
        ),
        _classical(
            "acm-ts-svm",
            "Carrara and Papadopoulo 2024",
            needs_signals=True,
            own_covariances=True,
            takes_minutes=True,
        ),
        *map(_network, _SPD_NETWORKS),
        Method(
            "spd-token-mlp",
            SPD,
            "the paper's ablation",
            "tokens",
            _mlp,
            has_seed=True,
            counts=(827084, 998321, 799805),
        ),
        *(_network(name) for name in NETWORKS if name not in _SPD_NETWORKS),
    )
}


#: Width of a terminal, in characters, that leaves room for references.
WIDE = 120


def methods_rows() -> list[dict[str, Any]]:
    """One row per method; parameter counts are None where there is no fixed number."""
    names = ("name", "family", "input", "only_for", "needs_signals", "reference", "extra")
    return [
        {name: getattr(method, name) for name in names}
        | {
            "parameters": dict(zip(SHAPES, method.counts or (None,) * 3, strict=True)),
            "installed": method.installed,
        }
        for method in METHODS.values()
    ]


def methods_table(rows: list[dict[str, Any]], width: int) -> Table:
    """Table of methods for a terminal of a given width."""
    from rich.text import Text

    caption = "Number of parameters for the shapes of the paper's data sets; - if it is not fixed."
    for row in rows:
        if row["extra"]:
            how = f"not installed: {how_to_install(row['extra'])}"
            state = "installed" if row["installed"] else how
            caption += f" {row['name']} requires the extra {row['extra']}, which is {state}."
    columns = ["name", "input", *(f">{name}" for name in SHAPES)]
    if width >= WIDE:
        columns.append("reference~")
    else:
        caption += " References: --json, or a wider terminal."
    lines: list[list[Any] | None] = []
    for row, before in zip(rows, [None, *rows], strict=False):
        if before is None or row["family"] != before["family"]:
            lines += [None, [Text(row["family"], "italic")]]
        counts = ["-" if n is None else f"{n:,}" for n in row["parameters"].values()]
        cells = [row["name"], row["input"], *counts, row["reference"]]
        lines.append(cells[: len(columns)])
    return table(columns, lines, "Methods", caption, padding=(0, 1, 0, 0))
