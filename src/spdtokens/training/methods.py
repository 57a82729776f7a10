"""Every method of the comparison, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from sklearn.base import BaseEstimator

from spdtokens.data import Dataset
from spdtokens.models import SPDTokenTransformer, TransformerConfig, classical
from spdtokens.models.networks import NETWORKS, TrialShape
from spdtokens.signal import Tokenizer
from spdtokens.spd import EMBEDDINGS, token_dim
from spdtokens.training.method import (
    HEAD_CHANGES,
    Build,
    Method,
    MethodError,
    RecipeName,
    Settings,
    Together,
)
from spdtokens.training.network import TokenModel
from spdtokens.training.network_classifier import NetworkClassifier
from spdtokens.training.recipes import published_recipe
from spdtokens.training.recommended import recommended_tokens
from spdtokens.training.spd_classifier import RECOMMENDED, SPDTokenClassifier

__all__ = ["METHODS", "Method", "MethodError", "RecipeName", "Settings", "Together", "get_method"]


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
            {"needs_signals": True, "own_covariances": True, "takes_minutes": True},
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
        tokenizer=partial(Tokenizer, network.embedding, unit_free=True),
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
                tokenizer=partial(Tokenizer, embedding, unit_free=True),
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


def _recommended() -> Method:
    def tokens(dataset: Dataset) -> dict[str, Any]:
        return recommended_tokens(dataset.paradigm, dataset.window, dataset.stimulus_frequencies)

    def build(options: dict[str, Any], settings: Settings) -> SPDTokenClassifier:
        changes = {k: v for k, v in settings.changes.items() if k in HEAD_CHANGES}
        return SPDTokenClassifier(**options, **changes)

    return Method(
        RECOMMENDED,
        "token discriminant",
        "this package",
        "tokens",
        build,
        own_tokens=tokens,
        weighs=True,
    )


METHODS: dict[str, Method] = {
    method.name: method for method in (_recommended(), *_tokens(), *_classical(), *_networks())
}
