"""Values of our presets, recipes, protocols and data sets, to compare with the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from spdtokens.classifiers import TokenTransformerClassifier
from spdtokens.classifiers.methods import METHODS, Settings, get_method
from spdtokens.classifiers.nn import SPDTokenTransformer
from spdtokens.classifiers.nn.recipe import COMMON, SEEDS, STABILITY_SEEDS
from spdtokens.datasets import Recording, from_arrays, load_dataset
from spdtokens.datasets.official import bci2a, bcicha
from spdtokens.evaluation.protocols import get_protocol
from spdtokens.evaluation.trials import Trials
from spdtokens.geometry import TokenEmbedding, token_dim
from spdtokens.paper.reproduce import EXPERIMENTS, Extent
from spdtokens.paper.reproduce.experiments import BCI2A, BCICHA, MAMEM, ROLES, Role
from spdtokens.paper.reproduce.tables import MEASURED
from spdtokens.paper.tables import TABLES
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.preprocessing.bands import resolve_bands

#: Functions that read a value, by name.
FACTS: dict[str, Callable[[], Any]] = {}


def fact(function: Callable[[], Any]) -> Callable[[], Any]:
    """Register a function; its name with spaces is that of the value."""
    FACTS[function.__name__.replace("_", " ").strip()] = cache(function)
    return function


def our_value(name: str) -> Any:
    """Return a value of ours.

    Parameters
    ----------
    name : str
        One of :data:`FACTS`, or ``'PRESET.PARAMETER'`` for a parameter of the token transformer.

    Examples
    --------
    >>> our_value("paper.n_layers"), our_value("crop")
    (6, (124, 562, 438))
    """
    if name in FACTS:
        return FACTS[name]()
    preset, _, parameter = name.partition(".")
    return network(preset).get_params(deep=False)[parameter]


def network(preset: str) -> TokenTransformerClassifier:
    """Return the token transformer of a preset."""
    return TokenTransformerClassifier(**Settings(preset=preset).transformer())


def _epochs(name: str) -> tuple[int, ...]:
    """Return the epochs of the token transformers of an experiment."""
    cells = EXPERIMENTS[name].cells()
    made = (TokenTransformerClassifier(**cell.choice.settings.transformer()) for cell in cells)
    return tuple(sorted({one.epochs for one in made}))


def _channels(role: Role) -> int:
    return len(load_dataset(role.sim).ch_names)


def _counted(role: Role) -> int:
    """Count parameters as the paper does: without positions and the affine part of BN-Embed."""
    dataset = load_dataset(role.sim)
    inputs = token_dim(len(dataset.ch_names))
    config = network(role.preset)._config()
    made = SPDTokenTransformer(inputs, 1, len(dataset.classes), config)
    left_out = ("positions", "bn_embed")
    return sum(w.numel() for key, w in made.named_parameters() if not key.startswith(left_out))


def _split(protocol: str, n: int, sessions: tuple[str, ...] = ("1",)) -> tuple[int, ...]:
    """Return the sizes of the parts of n trials per session."""
    roots = np.random.default_rng(0).standard_normal((len(sessions), n, 2, 3))
    one = from_arrays(roots[0] @ roots[0].swapaxes(1, 2), np.arange(n) % 2)
    recording = one.load("1", "1")

    def read(_subject: str, session: str) -> Recording:
        R = roots[sessions.index(session)]
        return replace(recording, session=session, X=R @ R.swapaxes(1, 2))

    trials = Trials(replace(one, index={"1": sessions}, read=read))
    (fold,) = get_protocol(protocol).folds(trials.table, "1")
    return tuple(len(rows) for rows in fold.parts().values() if len(rows))


def _trial() -> Any:
    return np.random.default_rng(0).standard_normal((1, 4, 50))


@fact
def _optimizer() -> str:
    recipe = network("paper")._recipe()
    usual = (recipe.weight_decay, recipe.betas) == (0, (0.9, 0.999))
    return "Adam" if usual else "Adam with other settings"


@fact
def _recipe_of_the_others() -> tuple[Any, ...]:
    made = BCI2A.settings()
    return made.recipe, COMMON.epochs, COMMON.batch_size, COMMON.learning_rate


@fact
def _seeds() -> tuple[int, ...]:
    return SEEDS


@fact
def _seeds_of_a_table() -> int:
    return Extent().seeds


@fact
def _stability_seeds() -> tuple[int, ...]:
    return STABILITY_SEEDS


@fact
def _epochs_of_the_main_tables() -> tuple[int, ...]:
    names = ("all-subjects", "geometry", "multiband", "geometric-attention")
    return tuple(sorted({n for name in names for n in _epochs(name)}))


@fact
def _epochs_of_the_ablations() -> tuple[int, ...]:
    return tuple(sorted({n for name in ("bn-embed", "depth", "heads") for n in _epochs(name)}))


@fact
def _kept_epoch() -> tuple[Any, ...]:
    made = network("paper")
    return made.keep, made.patience is None


@fact
def _parameters() -> int:
    return _counted(BCI2A)


@fact
def _parameters_of_the_small_network() -> int:
    return _counted(MAMEM)


@fact
def _entries_of_tokens() -> tuple[int, ...]:
    return tuple(token_dim(_channels(role)) for role in (BCI2A, BCICHA, MAMEM))


@fact
def _learnable_positions() -> bool:
    return SPDTokenTransformer(253, 3, 4, network("paper")._config()).positions.requires_grad


@fact
def _added_to_the_diagonal() -> float:
    X = _trial()
    C = FilterBankCovariances(
        100.0, bands="none", estimator="paper", unit_in_volts=1e-6
    ).fit_transform(X)
    return round(float(np.ravel(C)[0] - np.cov(X[0])[0, 0]), 12)


@fact
def _divisor_of_the_covariance() -> str:
    X = _trial()
    made = FilterBankCovariances(100.0, bands="none", estimator="paper", unit_in_volts=1e-6)
    off = made.fit_transform(X).reshape(4, 4) - 1e-6 * np.eye(4)
    return "T - 1" if np.allclose(off, np.cov(X[0]), rtol=1e-12) else "other"


@fact
def _least_eigenvalue() -> float:
    tiny = np.diag([1.0, 1e-14])[None]
    made = TokenEmbedding("log_euclidean", floor="paper", unit_in_volts=1e-6).fit(tiny)
    return float(np.exp(np.ravel(made.tokens(tiny))[-1]))


@fact
def _crop() -> tuple[int, ...]:
    first, last = bci2a.MATT_CROP
    return first, last, last - first


@fact
def _subjects_of_bcicha() -> tuple[int, ...]:
    return bcicha.SUBJECTS


@fact
def _split_of_288_trials() -> tuple[int, ...]:
    return _split("paper-sessions", 288, ("T", "E"))


@fact
def _split_of_340_trials() -> tuple[int, ...]:
    return _split("paper-shuffled", 340)


@fact
def _split_of_500_trials() -> tuple[int, ...]:
    return _split("paper-shuffled", 500)


@fact
def _bands_of_one_token() -> tuple[str, ...]:
    return tuple(str(resolve_bands(role.settings().bands)[0]) for role in ROLES)


@fact
def _bands_of_three_tokens() -> tuple[str, ...]:
    return tuple(map(str, resolve_bands(BCI2A.settings(multiband=True).bands)))


@fact
def _sizes_of_the_simulated_data() -> tuple[int, ...]:
    """Return subjects, channels, classes and sampling rate of the three data sets."""
    sets = [load_dataset(role.sim) for role in ROLES]
    return tuple(
        value
        for one in sets
        for value in (len(one.subjects), len(one.ch_names), len(one.classes), int(one.sfreq or 0))
    )


@fact
def _baselines() -> tuple[str, ...]:
    wanted = ("mdm", "fgmdm", "ts-lr", "spdnet", "spdtransnet", "matt", "spd-token-mlp")
    return tuple(name for name in wanted if name in METHODS)


@fact
def _raw_networks() -> tuple[str, ...]:
    wanted = ("atcnet", "eegnet", "shallownet", "deepnet", "eeg-conformer")
    return tuple(name for name in wanted if name in METHODS)


@fact
def _further_embeddings() -> tuple[str, ...]:
    wanted = ("cholesky", "affine-invariant")
    return tuple(name for name in wanted if get_method(f"token-{name}").input == "tokens")


@fact
def _shared_by_the_embeddings() -> bool:
    """Whether the three token transformers differ in nothing but the embedding."""
    made = []
    for name in ("token-log-euclidean", "token-bures-wasserstein", "token-euclidean"):
        estimator = get_method(name).make(load_dataset(BCI2A.sim), BCI2A.settings())
        found = {k: v for k, v in estimator.get_params().items() if "embedding" not in k}
        made.append({key: repr(value) for key, value in found.items() if "__" in key})
    return made[0] == made[1] == made[2]


@fact
def _tables_that_cannot_be_made() -> tuple[str, ...]:
    """Return tables of the paper without an experiment; the rest of ``TABLES`` is from its text."""
    return tuple(n for n in TABLES if n not in (*EXPERIMENTS, *MEASURED, "datasets", "text"))


@fact
def _protocol_across_subjects() -> str:
    cells = EXPERIMENTS["cross-subject"].cells()
    return ", ".join(sorted({cell.protocol for cell in cells}))
