"""Every method of the comparison, by name, behind one interface.

A method makes a scikit-learn classifier for a data set. It takes raw trials (n, channels, samples),
or covariance matrices where the data set holds only these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from sklearn.base import BaseEstimator

from spdtokens._errors import UserError
from spdtokens._extras import how_to_install, is_installed
from spdtokens.data import Dataset
from spdtokens.data.export import tokenizer_for
from spdtokens.models import SPDTokenTransformer, TransformerConfig, classical
from spdtokens.models.networks import NETWORKS, Input, TrialShape
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import BandSpec
from spdtokens.spd import EMBEDDINGS, token_dim
from spdtokens.training.network import TokenModel
from spdtokens.training.network_classifier import NetworkClassifier
from spdtokens.training.presets import Preset, resolve_preset
from spdtokens.training.recipe import Recipe
from spdtokens.training.recipes import published_recipe
from spdtokens.training.spd_classifier import SPDTokenClassifier

RecipeName = Literal["published", "common"]


class MethodError(UserError):
    """A method that does not exist or does not apply; the message says what does."""


@dataclass(frozen=True)
class Settings:
    """How methods are to be made.

    Attributes
    ----------
    bands : str
        For methods that do not bring their own; ``'auto'`` for what suits the paradigm, see
        :meth:`Method.bands_for`.
    preset : str
        Of the token transformers.
    changes : mapping
        Values of the preset to replace: ``{"n_layers": 2}``.
    recipe : {'published', 'common'}
        Of the other networks.
    epochs : int, optional
        Instead of those of preset and recipe.
    seed : int
    device : str
    """

    bands: BandSpec = "auto"
    preset: str = "paper"
    changes: Mapping[str, Any] = field(default_factory=dict)
    recipe: RecipeName = "published"
    epochs: int | None = None
    seed: int = 42
    device: str = "auto"

    def resolved_preset(self) -> Preset:
        """Network and recipe of the token transformers."""
        return resolve_preset(self.preset, **{"epochs": self.epochs, **self.changes})


@dataclass(frozen=True)
class Together:
    """What the batched engine needs to train runs of a method.

    Attributes
    ----------
    tokenizer : callable
        Makes a tokenizer of covariances, to be fitted on training trials.
    build : callable
        From the shape of trials to the network.
    recipe : Recipe
    alpha : float, optional
        Of geometric attention; None without.
    """

    tokenizer: Callable[[], Tokenizer]
    build: Callable[[TrialShape], TokenModel]
    recipe: Recipe
    alpha: float | None = None


#: From the tokenizer's options for a data set, and the settings, to a classifier.
Build = Callable[[dict[str, Any], Settings], BaseEstimator]


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name, family, reference : str
    input : {'raw', 'covariance', 'tokens'}
        What its classifier works on, in the end.
    build : callable
    has_seed : bool
        Whether chance plays a part.
    needs_signals : bool
        Whether covariance matrices are not enough.
    only_for : str, optional
        The one paradigm it is made for.
    bands : str, optional
        Its own, for all paradigms but SSVEP, whose bands are around the stimuli.
    own_covariances : bool
        Whether it makes covariances of its own kind from signals.
    extra : str, optional
        Ours, without which it does not run.
    parameters : callable, optional
        From the shape of trials, and the configuration of token transformers, to the number of
        weights.
    together : callable, optional
        How many runs of it are trained as one batch, where the engine can.
    """

    name: str
    family: str
    reference: str
    input: Input
    build: Build
    has_seed: bool = False
    needs_signals: bool = False
    only_for: str | None = None
    bands: str | None = None
    own_covariances: bool = False
    extra: str | None = None
    parameters: Callable[[TrialShape, TransformerConfig], int] | None = None
    together: Callable[[Settings], Together] | None = None

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

    def classifier(self, dataset: Dataset, settings: Settings) -> BaseEstimator:
        """A classifier, not fitted, for the trials of a data set.

        Raises
        ------
        MethodError
            If the method does not apply, or its extra is not installed.
        """
        reason = self.why_not(dataset)
        if reason is not None:
            raise MethodError(f"{reason[0].upper()}{reason[1:]}.")
        return self.build(self.options(dataset, settings), settings)

    def options(self, dataset: Dataset, settings: Settings) -> dict[str, Any]:
        """What the tokenizer must know of a data set, and how covariances are estimated."""
        tokenizer = tokenizer_for(dataset, "log_euclidean", self.bands_for(dataset, settings))
        names = ("sfreq", "bands", "windows", "tmin", "stimulus_frequencies")
        options = {name: getattr(tokenizer, name) for name in names}
        if self.family == "classical" and not dataset.is_covariance:
            # What users of pyRiemann would choose: shrinkage, and prototypes for potentials.
            prototypes = dataset.paradigm == "erp" and self.bands is None
            options["covariance"] = "xdawn" if prototypes else "oas"
        return options

    def bands_for(self, dataset: Dataset, settings: Settings) -> BandSpec:
        """Bands for a data set.

        The user's; else the method's own, around the stimuli for SSVEP; else those of the paradigm:
        for potentials 1-24 Hz (nothing, if already filtered); for classical methods 8-30 Hz of
        motor imagery and the stimuli of SSVEP; for networks, one token a trial, 4-40 Hz.
        """
        stimulus = dataset.paradigm == "ssvep" and dataset.stimulus_frequencies
        if self.bands is not None:
            return "stimulus" if stimulus else self.bands
        if settings.bands != "auto":
            return settings.bands
        if dataset.paradigm == "erp":
            return "none" if None not in dataset.filtered else [(1.0, 24.0)]
        if self.family == "classical" and stimulus and not self.own_covariances:
            return "stimulus"
        if self.family == "classical" and dataset.paradigm == "motor imagery":
            return [(8.0, 30.0)]
        return "broadband"

    def covariance_options(self, dataset: Dataset, settings: Settings) -> dict[str, Any] | None:
        """Options of the covariances that are all it works on; None if it needs more.

        Such covariances are of each trial alone, so they can be computed once for all folds.
        """
        if self.input == "raw" or self.own_covariances:
            return None
        options = self.options(dataset, settings)
        return None if options.get("covariance") == "xdawn" else options

    def configuration(self, dataset: Dataset, settings: Settings) -> dict[str, Any]:
        """Everything but the data that determines a run, as plain values."""
        values: dict[str, Any] = {} if dataset.is_covariance else self.options(dataset, settings)
        if not isinstance(values.get("bands", ""), str):
            values["bands"] = [list(pair) for pair in values["bands"]]
        if self.has_seed:
            values["device"] = settings.device
        if self.family == "token transformer":
            preset = settings.resolved_preset()
            values |= {"network": asdict(preset.config), "recipe": asdict(preset.recipe)}
        elif self.has_seed:
            common = settings.recipe == "common"
            recipe = published_recipe(
                self.name, len(dataset.ch_names), common=common, epochs=settings.epochs
            )
            values["recipe"] = asdict(recipe)
        return values


def get_method(name: str) -> Method:
    """A method by name.

    Raises
    ------
    MethodError
        Listing all names.
    """
    if name not in METHODS:
        raise MethodError(f"There is no method {name!r}. There are: {', '.join(METHODS)}.")
    return METHODS[name]


def _classical() -> list[Method]:
    barachant = "Barachant et al. 2012"
    rows: list[tuple[str, Callable[..., BaseEstimator], str, dict[str, Any]]] = [
        ("mdm", classical.mdm, barachant, {}),
        ("fgmdm", classical.fgmdm, "Barachant et al. 2010", {}),
        ("ts-lr", classical.ts_lr, barachant, {}),
        ("ts-svm", classical.ts_svm, "Barachant et al. 2013", {}),
        ("ts-lda", classical.ts_lda, barachant, {}),
        (
            "fb-ts-lr",
            classical.fb_ts_lr,
            "Ang et al. 2008, in the tangent space",
            {"needs_signals": True, "bands": "filterbank"},
        ),
        (
            "xdawn-ts-lr",
            classical.xdawn_ts_lr,
            "Barachant and Congedo 2014",
            {"needs_signals": True, "only_for": "erp", "own_covariances": True},
        ),
        (
            "acm-ts-svm",
            classical.acm_ts_svm,
            "Carrara and Papadopoulo 2024",
            {"needs_signals": True, "own_covariances": True},
        ),
    ]
    return [
        Method(name, "classical", reference, "covariance", _pipeline(make), **more)
        for name, make, reference, more in rows
    ]


def _pipeline(make: Callable[..., BaseEstimator]) -> Build:
    return lambda options, _settings: make(**options)


def _networks() -> list[Method]:
    def build(name: str) -> Build:
        return lambda options, settings: NetworkClassifier(
            name,
            **options,
            recipe=settings.recipe,
            epochs=settings.epochs,
            random_state=settings.seed,
            device=settings.device,
        )

    def count(name: str) -> Callable[[TrialShape, TransformerConfig], int]:
        build_network = NETWORKS[name].build
        return lambda shape, _config: sum(p.numel() for p in build_network(shape).parameters())

    return [
        Method(
            network.name,
            network.family,
            network.reference,
            network.input,
            build(network.name),
            has_seed=True,
            needs_signals=network.input == "raw",
            extra=network.extra,
            parameters=count(network.name),
            together=_mlp_together if network.name == "spd-token-mlp" else None,
        )
        for network in NETWORKS.values()
    ]


def _mlp_together(settings: Settings) -> Together:
    network = NETWORKS["spd-token-mlp"]
    common = settings.recipe == "common"
    return Together(
        tokenizer=lambda: Tokenizer(network.embedding, unit_free=True),
        build=cast(Callable[[TrialShape], TokenModel], network.build),
        recipe=published_recipe(network.name, 0, common=common, epochs=settings.epochs),
    )


def _tokens() -> list[Method]:
    def build(embedding: str) -> Build:
        return lambda options, settings: SPDTokenClassifier(
            embedding,
            **options,
            preset=settings.preset,
            **{"epochs": settings.epochs, **settings.changes},
            random_state=settings.seed,
            device=settings.device,
        )

    def network(shape: TrialShape, config: TransformerConfig) -> SPDTokenTransformer:
        features = token_dim(shape.n_chans)
        return SPDTokenTransformer(features, shape.n_tokens, shape.n_outputs, config)

    def count(shape: TrialShape, config: TransformerConfig) -> int:
        return sum(p.numel() for p in network(shape, config).parameters())

    def together(embedding: str) -> Callable[[Settings], Together]:
        def parts(settings: Settings) -> Together:
            preset = settings.resolved_preset()
            return Together(
                tokenizer=lambda: Tokenizer(embedding, unit_free=True),
                build=lambda shape: network(shape, preset.config),
                recipe=preset.recipe,
                alpha=preset.config.alpha if preset.config.attention == "geometric" else None,
            )

        return parts

    return [
        Method(
            f"token-{embedding.replace('_', '-')}{'-multiband' if bands else ''}",
            "token transformer",
            "Chen et al. 2026",
            "tokens",
            build(embedding),
            has_seed=True,
            needs_signals=bands is not None,
            bands=bands,
            parameters=count,
            together=together(embedding),
        )
        for bands in (None, "paper3")
        for embedding in EMBEDDINGS
    ]


METHODS: dict[str, Method] = {
    method.name: method for method in (*_tokens(), *_classical(), *_networks())
}
