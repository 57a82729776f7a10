"""Names of version 0.1, kept until 0.3: modules, options, study keys, two estimators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from spdtokens.classifiers import DecodingPipeline

UNTIL = "0.3"
#: New names of packages, by their old names.
ROOMS = {
    "data": "datasets",
    "deploy": "inference",
    "explain": "classifiers.explain",
    "models": "classifiers.nn",
    "report": "reporting",
    "signal": "preprocessing",
    "spd": "geometry",
    "study": "experiments",
    "training": "classifiers.nn",
}
#: Modules that moved to another package, and errors that were renamed.
MODULES = {"training.methods": "classifiers.methods", "models.classical": "classifiers.classical"}
ERRORS = {
    "EstimatorError": "MethodError",
    "ExplainError": "ReportError",
    "TrainingError": "ModelError",
}
#: Options of commands, and keys of methods in study files.
OPTIONS = {("evaluate", "--covariance"): "--estimator"}
KEYS = {"covariance": "estimator"}


class OldRooms:
    """Import ``spdtokens.spd`` and other old names as the packages that replace them."""

    def find_spec(self, fullname: str, *others: object) -> ModuleSpec | None:  # noqa: ARG002
        package, _, rest = fullname.partition(".")
        old = package == "spdtokens" and rest.split(".")[0] in ROOMS
        return spec_from_loader(fullname, self) if old else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Create the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix("spdtokens.")
        room, _, rest = old.partition(".")
        new = "spdtokens." + (MODULES.get(old) or ".".join(filter(None, (ROOMS[room], rest))))
        try:
            now = import_module(new)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"spdtokens.{old} was removed: see docs/migration.md.", name=module.__name__
            ) from error

        def look_up(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            for home in (now, import_module("spdtokens.errors"), import_module("spdtokens")):
                if hasattr(home, ERRORS.get(name, name)):
                    return getattr(home, ERRORS.get(name, name))
            raise ImportError(f"spdtokens.{old}.{name} was removed: see docs/migration.md.")

        vars(module).update(__getattr__=look_up, __path__=[])
        _warn(module.__name__, new)


def _warn(old: str, new: str, stacklevel: int = 3) -> None:
    text = f"{old} is deprecated and will be removed in {UNTIL}: use {new} (docs/migration.md)."
    warnings.warn(text, FutureWarning, stacklevel=stacklevel)


#: Parameters of the filter bank that were renamed.
_FILTERBANK = {"stimulus_frequencies": "stimulus_hz", "covariance": "estimator"}
#: Parameters of the embedding, with their defaults in ``SPDTokenClassifier``.
_EMBEDDING = {"isometric": False, "floor": "relative", "unit_free": True}
#: Parameters that the preset ``recommended`` accepted and ignored.
_UNUSED = ("random_state", "device", "verbose", "ensemble")


def _renamed(options: dict[str, Any], estimator: str = "sample") -> dict[str, Any]:
    """Move the parameters of the filter bank out of ``options``."""
    from spdtokens.errors import ModelError
    from spdtokens.preprocessing import FilterBankCovariances

    known = FilterBankCovariances._get_param_names()
    names = {old: _FILTERBANK.get(old, old) for old in options}
    found = {new: options.pop(old) for old, new in names.items() if new in known}
    found = {name: value for name, value in found.items() if value is not None}
    if found.get("regularisation") == "paper":
        del found["regularisation"]
        if found.get("estimator", estimator) != "sample":
            raise ModelError(
                "regularisation='paper' requires the sample covariance: pass covariance='sample'."
            )
        found["estimator"] = "paper"
    return found


def __getattr__(name: str) -> Any:
    if name in globals():
        return globals()[name]
    if name != "_Tokens":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Defined here because the package imports this module, and must not import scikit-learn.
    from spdtokens.geometry import TokenEmbedding

    class _Tokens(TokenEmbedding):
        """Tokens of shape (n, tokens, features), as in version 0.1."""

        __qualname__ = name  # for pickle

        def fit_transform(self, X: Any, y: Any = None) -> Any:
            return self.fit(X, y).tokens(X)

        def transform(self, X: Any) -> Any:
            return self.tokens(X)

    globals()[name] = _Tokens
    return _Tokens


def Tokenizer(
    embedding: str | Sequence[str] = "log_euclidean", *, sfreq: float | None = None, **options: Any
) -> Pipeline:
    """Make a pipeline from trials to tokens of shape (n, tokens, features).

    .. deprecated:: 0.2
       Use :class:`spdtokens.FilterBankCovariances` and :class:`spdtokens.TokenEmbedding`.
    """
    _warn("Tokenizer", "FilterBankCovariances and TokenEmbedding in a pipeline")
    from sklearn.pipeline import Pipeline

    from spdtokens.preprocessing import FilterBankCovariances

    filterbank = _renamed(options)
    steps = [("tokens", __getattr__("_Tokens")(embedding, **options))]
    if sfreq is not None:
        steps.insert(0, ("filterbank", FilterBankCovariances(sfreq, **filterbank)))
    return Pipeline(steps)


def SPDTokenClassifier(
    embedding: str | Sequence[str] | None = None,
    *,
    sfreq: float | None = None,
    paradigm: str | None = None,
    preset: str = "recommended",
    **options: Any,
) -> DecodingPipeline:
    """Make a decoder from the parameters of version 0.1.

    .. deprecated:: 0.2
       Use :func:`spdtokens.make_decoder`, or :class:`spdtokens.FilterBankCovariances` followed by
       :class:`spdtokens.TokenTransformerClassifier`.
    """
    from spdtokens.classifiers import TokenTransformerClassifier
    from spdtokens.classifiers.decoder import DecodingPipeline, make_decoder
    from spdtokens.classifiers.methods import PRESETS, RECOMMENDED
    from spdtokens.errors import ModelError
    from spdtokens.geometry import TokenEmbedding
    from spdtokens.preprocessing import FilterBankCovariances

    _warn("SPDTokenClassifier", "make_decoder or TokenTransformerClassifier")
    if preset not in (RECOMMENDED, *PRESETS):
        raise ModelError(f"preset must be one of {(RECOMMENDED, *PRESETS)}, got {preset!r}.")
    recommended = preset == RECOMMENDED
    filterbank = _renamed(options, "oas" if recommended else "sample")
    options = {name: value for name, value in options.items() if value is not None}
    tokens = {name: options.pop(name, usual) for name, usual in _EMBEDDING.items()}
    if recommended:
        frequencies = filterbank.get("stimulus_hz", ())
        windows = filterbank.get("windows")
        decoder = make_decoder(
            paradigm or ("ssvep" if len(frequencies) else "mi"),
            sfreq=sfreq,
            tmin=filterbank.get("tmin", 0.0),
            window=windows[0] if windows and len(windows) == 1 else None,
            stimulus_hz=frequencies,
        )
        if sfreq is not None:
            decoder["filterbank"].set_params(**filterbank)
        options = {name: value for name, value in options.items() if name not in _UNUSED}
    else:
        first = [("filterbank", FilterBankCovariances(sfreq, **filterbank))] if sfreq else []
        classifier = TokenTransformerClassifier(**PRESETS[preset])
        decoder = DecodingPipeline([*first, ("classifier", classifier)])
    if tokens != _EMBEDDING:
        names = embedding or ("auto" if recommended else "log_euclidean")
        options["embedding"] = TokenEmbedding(names, **tokens)
    elif embedding is not None:
        options["embedding"] = embedding
    decoder["classifier"].set_params(**options)
    return decoder
