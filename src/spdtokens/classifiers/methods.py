"""Every method of the comparison, by name: a function from a data set to an estimator.

The registry is plain values: what a method needs is imported when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
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
#: By name, parameters of the token transformer that replace its defaults: the paper's for BCI2a and
#: BCIcha, and for MAMEM.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "paper-small": {"d_model": 64, "n_layers": 4, "n_heads": 4, "d_ff": 128, "batch_size": 32},
}
#: Share of training trials held back where a recipe needs validation and the protocol has none.
HELD_BACK = 0.125
#: What can be changed of ``recommended``: on the way to matrices, and after.
FILTERBANK_CHANGES = ("windows", "delays", "cross_fit", "decimate", "n_filters", "filtering")
CLASSIFIER_CHANGES = ("embedding", "isometric", "ridge", "gains")
CHANGES = (*FILTERBANK_CHANGES, *CLASSIFIER_CHANGES)
#: Embeddings of which there are token transformers; a test compares them with the registry.
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
    """What may be changed of methods by those who only name them.

    Attributes
    ----------
    bands : str or sequence of pairs
        ``'auto'`` for the method's own or what suits the paradigm; anything else replaces them.
    estimator : str
        Estimator, as in :class:`spdtokens.FilterBankCovariances`; ``'auto'`` for the sample
        covariance of networks and OAS shrinkage, or Xdawn for potentials, of classical methods.
    preset : str
        Of the token transformers: one of ``PRESETS``.
    changes : mapping
        Parameters of the token transformer: ``{"n_layers": 2}``; of ``recommended`` any of
        ``CHANGES``.
    recipe : {'published', 'common'}
        Of the other networks.
    epochs : int, optional
        Instead of those of preset and recipe.
    device : str
    """

    bands: BandSpec = "auto"
    estimator: str = "auto"
    preset: str = "paper"
    changes: Mapping[str, Any] = field(default_factory=dict)
    recipe: RecipeName = "published"
    epochs: int | None = None
    device: str = "auto"

    def transformer(self) -> dict[str, Any]:
        """Parameters of the token transformer, checked.

        Raises
        ------
        UserError
            For an unknown preset or parameter, or a value out of range.
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
                f"The token transformer has no {unknown[0]!r}. It has: {', '.join(known)}."
            )
        model = TokenTransformerClassifier(**given)
        model._config()
        if model._recipe().needs_validation and model.validation is None:
            given["validation"] = HELD_BACK
        return given


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name, family, reference : str
    input : {'raw', 'covariance', 'tokens'}
        What its classifier works on, in the end.
    steps : callable
        From the options of the first step (None for a data set of matrices) and the settings to the
        estimator.
    has_seed : bool
        Whether chance plays a part.
    needs_signals : bool
        Whether covariance matrices are not enough.
    only_for : str, optional
        The one paradigm it is made for.
    bands : str, optional
        Its own where the user names none, for all paradigms but SSVEP, whose bands are around the
        stimuli.
    own_covariances : bool
        Whether it makes covariances of its own kind from signals.
    takes_minutes : bool
        Whether a run without chance in it is so long that it is stored by itself.
    extra : str, optional
        Ours, without which it does not run.
    counts : tuple of int, optional
        Number of parameters at the shapes of the paper's data sets, ``SHAPES``: with the paper's
        network for each, one token per trial. None where there is no fixed number.
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

    @property
    def installed(self) -> bool:
        """Whether all that it needs is installed."""
        return is_installed(self.extra)

    def why_not(self, dataset: Dataset) -> str | None:
        """Why the method does not apply to a data set, or is not there; None if it can be used."""
        if self.needs_signals and dataset.is_covariance:
            return f"{self.name} needs signals, and {dataset.name} holds covariance matrices"
        if self.only_for not in (None, dataset.paradigm):
            return f"{self.name} is made for {self.only_for}, and {dataset.name} is not"
        if self.extra is not None and not self.installed:
            return f"{self.name} is not installed (it comes with {how_to_install(self.extra)})"
        return None

    def make(self, dataset: Dataset, settings: Settings | None = None) -> BaseEstimator:
        """The estimator for the trials of a data set, not fitted.

        Raises
        ------
        MethodError
            If the method does not apply, or its extra is not installed.
        """
        settings = settings or Settings()
        reason = self.why_not(dataset)
        if reason is not None:
            raise MethodError(f"{reason[0].upper()}{reason[1:]}.")
        return self.steps(self._options(dataset, settings), settings)

    def bands_cut(self, dataset: Dataset, settings: Settings) -> list[str]:
        """What the sampling rate cuts of bands that nobody asked for, in words."""
        return [] if dataset.is_covariance else self._bands(dataset, settings)[1]

    def _options(self, dataset: Dataset, settings: Settings) -> dict[str, Any] | None:
        """Options of the first step; None for a data set of matrices."""
        from spdtokens.classifiers.decoder import filterbank_options
        from spdtokens.preprocessing.bands import OF_STIMULI

        recommended = self.name == RECOMMENDED
        unknown = [name for name in settings.changes if name not in CHANGES]
        if recommended and unknown:
            raise MethodError(f"{self.name} has no {unknown[0]!r}. It has: {', '.join(CHANGES)}.")
        if dataset.is_covariance:
            return None
        bands = self._bands(dataset, settings)[0]
        options: dict[str, Any] = {"sfreq": dataset.sfreq, "tmin": dataset.tmin}
        options |= {"bands": bands, "windows": [dataset.window]}
        if self.input == "raw":
            return options
        if recommended:
            own = filterbank_options(dataset.paradigm, dataset.window, dataset.stimulus_hz)
            options |= own | {"bands": bands}
        if bands in OF_STIMULI:
            options["stimulus_hz"] = dataset.stimulus_hz
        options["estimator"] = self._estimator(dataset, settings, options.get("estimator"))
        if recommended:
            changes = settings.changes.items()
            options |= {name: value for name, value in changes if name in FILTERBANK_CHANGES}
        return options

    def _estimator(self, dataset: Dataset, settings: Settings, own: str | None) -> str:
        """The user's; else its own; else what users of pyRiemann would choose; else the paper's."""
        from spdtokens.preprocessing.covariance import ESTIMATORS, PROTOTYPES

        if settings.estimator != "auto":
            known = (*ESTIMATORS, *PROTOTYPES)
            if settings.estimator not in known:
                raise MethodError(
                    f"There is no estimator {settings.estimator!r}. There are: auto, "
                    f"{', '.join(known)}."
                )
            return settings.estimator
        if own is not None:
            return own
        if self.family != "classical":
            return "sample"
        return "xdawn" if dataset.paradigm == "erp" and self.bands is None else "oas"

    def _bands(self, dataset: Dataset, settings: Settings) -> tuple[BandSpec, list[str]]:
        """The user's bands; else the default ones, as far as the sampling rate carries them."""
        from spdtokens.preprocessing.bands import cut_bands, resolve_bands

        begin, end = dataset.window
        if settings.bands != "auto":
            resolve_bands(settings.bands, dataset.stimulus_hz, end - begin)
            return settings.bands, []
        assert dataset.sfreq is not None
        bands = self._default_bands(dataset)
        return cut_bands(bands, dataset.sfreq, end - begin, dataset.stimulus_hz)

    def _default_bands(self, dataset: Dataset) -> BandSpec:
        """Bands where the user names none.

        The method's own, around the stimuli for SSVEP; else those of the paradigm: for potentials
        1-24 Hz (nothing, if already filtered); for classical methods 8-30 Hz of motor imagery, or
        where the paradigm is not known, and the stimuli of SSVEP; for ``recommended`` those of
        :func:`make_decoder`; for networks, one token per trial, 4-40 Hz.
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
            return RHYTHMS  # where nothing is known, rhythms, as recommended takes it
        return DEFAULT


def get_method(name: str) -> Method:
    """A method by name.

    Raises
    ------
    MethodError
        Listing all names.
    """
    if name not in METHODS and name.startswith("token-"):
        _enter_new_embeddings()
    if name not in METHODS:
        near = get_close_matches(name, METHODS, 1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise MethodError(f"There is no method {name!r}. {hint}There are: {', '.join(METHODS)}.")
    return METHODS[name]


def _enter_new_embeddings() -> None:
    """Methods of embeddings that somebody entered in the registry."""
    from spdtokens.geometry.embeddings import EMBEDDINGS as REGISTERED

    for embedding in REGISTERED.keys() - {*EMBEDDINGS}:
        for bands in (None, "paper3"):
            method = _transformer(embedding, bands)
            METHODS[method.name] = method


# From the options of the first step (None for matrices) and the settings to estimators.


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


#: Characters of a terminal from which there is room for references.
WIDE = 120


def methods_rows() -> list[dict[str, Any]]:
    """What is known of every method; no number of parameters where there is no fixed one."""
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
    """The methods for a terminal of so many characters."""
    from rich.text import Text

    caption = "Parameters at the shapes of the paper's data sets; - where there is no fixed number."
    for row in rows:
        if row["extra"]:
            how = f"not installed: {how_to_install(row['extra'])}"
            state = "installed" if row["installed"] else how
            caption += f" {row['name']} comes with the extra {row['extra']}, which is {state}."
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
