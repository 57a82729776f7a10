"""What a method of the comparison is: all stand behind one interface.

A method makes a scikit-learn classifier for a data set. It takes raw trials (n, channels, samples),
or covariance matrices where the data set holds only these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from sklearn.base import BaseEstimator

from spdtokens._errors import UserError
from spdtokens._extras import how_to_install, is_installed
from spdtokens.data import Dataset
from spdtokens.data.export import tokenizer_for
from spdtokens.models import TransformerConfig
from spdtokens.models.discriminant import RIDGE
from spdtokens.models.networks import Input, TrialShape
from spdtokens.signal import Tokenizer
from spdtokens.signal.bands import DEFAULT, BandSpec, cut_bands
from spdtokens.signal.covariance import ESTIMATORS, PROTOTYPES
from spdtokens.training.network import TokenModel
from spdtokens.training.presets import Preset, resolve_preset
from spdtokens.training.recipe import Recipe
from spdtokens.training.recipes import published_recipe
from spdtokens.training.recommended import EMBEDDINGS, GAINS, WITHOUT_LABELS

RecipeName = Literal["published", "common"]


#: What can be changed of ``recommended``: on the way to covariances, and after.
TOKEN_CHANGES = ("windows", "delays", "cross_fit", "decimate", "n_filters", "filtering")
HEAD_CHANGES = ("embedding", "isometric", "ridge", "gains")
CHANGES = (*TOKEN_CHANGES, *HEAD_CHANGES)


class MethodError(UserError):
    """A method that does not exist or does not apply; the message says what does."""


@dataclass(frozen=True)
class Settings:
    """How methods are to be made.

    Attributes
    ----------
    bands : str or sequence of pairs
        ``'auto'`` for the method's own or what suits the paradigm, see
        :meth:`Method.default_bands`; anything else replaces them.
    covariance : str
        Estimator, as in :class:`spdtokens.Tokenizer`; ``'auto'`` for the sample covariance of
        networks and OAS shrinkage, or Xdawn prototypes for potentials, of classical methods.
    preset : str
        Of the token transformers.
    changes : mapping
        Values of the preset to replace: ``{"n_layers": 2}``; of ``recommended`` any of
        ``CHANGES``.
    recipe : {'published', 'common'}
        Of the other networks.
    epochs : int, optional
        Instead of those of preset and recipe.
    seed : int
    device : str
    """

    bands: BandSpec = "auto"
    covariance: str = "auto"
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
        Makes a tokenizer, to be fitted on training trials; its options are those of trials, or
        none for covariances.
    build : callable
        From the shape of trials to the network.
    recipe : Recipe
    alpha : float, optional
        Of geometric attention; None without.
    """

    tokenizer: Callable[..., Tokenizer]
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
        Its own where the user names none, for all paradigms but SSVEP, whose bands are around the
        stimuli.
    own_covariances : bool
        Whether it makes covariances of its own kind from signals.
    own_tokens : callable, optional
        From a data set of signals to the options of the tokenizer it chooses itself.
    weighs : bool
        Whether it can be told to weigh trials, as those of the person who is decoded.
    takes_minutes : bool
        Whether a run without chance in it is so long that it is stored by itself.
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
    own_tokens: Callable[[Dataset], dict[str, Any]] | None = None
    weighs: bool = False
    takes_minutes: bool = False
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
        if self.input != "raw" and not dataset.is_covariance:
            own = {} if self.own_tokens is None else self.own_tokens(dataset)
            options |= {name: value for name, value in own.items() if name != "bands"}
            options["covariance"] = self.covariance_for(dataset, settings)
            if own:
                options |= self.changed(settings, TOKEN_CHANGES)
        return options

    def changed(self, settings: Settings, names: tuple[str, ...]) -> dict[str, Any]:
        """Of ``recommended``: the changes that have one of these names.

        Raises
        ------
        MethodError
            For a change it does not know.
        """
        unknown = [name for name in settings.changes if name not in CHANGES]
        if unknown:
            raise MethodError(f"{self.name} has no {unknown[0]!r}. It has: {', '.join(CHANGES)}.")
        return {name: value for name, value in settings.changes.items() if name in names}

    def covariance_for(self, dataset: Dataset, settings: Settings) -> str:
        """Estimator of covariances for a data set.

        The user's; else what users of pyRiemann would choose for classical methods, shrinkage, and
        prototypes for potentials; else the paper's.
        """
        if settings.covariance != "auto":
            known = (*ESTIMATORS, *PROTOTYPES)
            if settings.covariance not in known:
                raise MethodError(
                    f"There is no covariance {settings.covariance!r}. There are: auto, "
                    f"{', '.join(known)}."
                )
            return settings.covariance
        if self.own_tokens is not None:
            return str(self.own_tokens(dataset)["covariance"])
        if self.family != "classical":
            return "sample"
        return "xdawn" if dataset.paradigm == "erp" and self.bands is None else "oas"

    def bands_for(self, dataset: Dataset, settings: Settings) -> BandSpec:
        """Bands for a data set.

        The user's; else :meth:`default_bands`, as far as the sampling rate carries them.
        """
        return self._cut_bands(dataset, settings)[0]

    def _cut_bands(self, dataset: Dataset, settings: Settings) -> tuple[BandSpec, list[str]]:
        if settings.bands != "auto":
            return settings.bands, []
        bands = self.default_bands(dataset)
        if dataset.sfreq is None:
            return bands, []
        begin, end = dataset.window
        return cut_bands(bands, dataset.sfreq, end - begin, dataset.stimulus_frequencies)

    def default_bands(self, dataset: Dataset) -> BandSpec:
        """Bands where the user names none.

        The method's own, around the stimuli for SSVEP; else those of the paradigm: for potentials
        1-24 Hz (nothing, if already filtered); for classical methods 8-30 Hz of motor imagery, or
        where the paradigm is not known, and the stimuli of SSVEP; for ``recommended`` those it
        chooses; for networks, one token per trial, 4-40 Hz.
        """
        stimulus = dataset.paradigm == "ssvep" and dataset.stimulus_frequencies
        if self.bands is not None:
            return "stimulus" if stimulus else self.bands
        if dataset.paradigm == "erp":
            return "none" if None not in dataset.filtered else [(1.0, 24.0)]
        if self.own_tokens is not None:
            bands: BandSpec = self.own_tokens(dataset)["bands"]
            return bands
        if self.family == "classical" and stimulus and not self.own_covariances:
            return "stimulus"
        if self.family == "classical" and dataset.paradigm in ("motor imagery", "other"):
            return [(8.0, 30.0)]  # where nothing is known, rhythms, as recommended takes it
        return DEFAULT

    def covariance_options(self, dataset: Dataset, settings: Settings) -> dict[str, Any] | None:
        """Options of the covariances that are all it works on; None if it needs more.

        Such covariances are of each trial alone, so they can be computed once for all folds.
        """
        if self.input == "raw" or self.own_covariances:
            return None
        options = self.options(dataset, settings)
        # Prototypes are fitted to training trials.
        return None if options.get("covariance") in PROTOTYPES else options

    def configuration(self, dataset: Dataset, settings: Settings) -> dict[str, Any]:
        """Everything but the data that determines a run, as plain values."""
        values: dict[str, Any] = {} if dataset.is_covariance else self.options(dataset, settings)
        if not isinstance(values.get("bands", ""), str):
            values["bands"] = [list(pair) for pair in values["bands"]]
        cut = self._cut_bands(dataset, settings)[1]
        if cut:
            values["bands_cut"] = cut
        if self.own_tokens is not None:
            head: dict[str, Any] = {"embedding": EMBEDDINGS, "isometric": False, "ridge": RIDGE}
            head["gains"] = None if values.get("covariance") in PROTOTYPES else GAINS
            of_few = {"embedding": WITHOUT_LABELS, "gains": None}
            head["of few trials"] = {k: v for k, v in of_few.items() if k not in settings.changes}
            values |= head | self.changed(settings, HEAD_CHANGES)
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
