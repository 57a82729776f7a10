"""``spdtokens evaluate``, ``protocols`` and ``methods``."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from spdtokens.cli.app import AsJson, command, listed, numbers, show

if TYPE_CHECKING:
    from spdtokens.datasets import Selection
    from spdtokens.evaluation.answer import Evaluation

DEFAULT_METHODS = "token-log-euclidean,token-bures-wasserstein,token-euclidean,ts-lr"


class Recipes(Enum):
    """Training recipes of the networks other than the token transformer."""

    PUBLISHED = "published"
    COMMON = "common"


@command()
def evaluate(
    dataset: Annotated[str, typer.Option()],
    dataset_option: list[str] | None = None,
    protocol: str = "session-transfer",
    method: str = DEFAULT_METHODS,
    paradigm: str | None = None,
    stimulus_hz: str | None = None,
    window: str | None = None,
    classes: str | None = None,
    where: list[str] | None = None,
    channels: str | None = None,
    resample: float | None = None,
    subjects: str | None = None,
    seeds: Annotated[int, typer.Option(min=1, max=10)] = 5,
    target_access: str = "train",
    alignment: str = "none",
    domain: str = "session",
    folds: int | None = None,
    test_subjects: str | None = None,
    metric: str | None = None,
    preset: str = "standard",
    recipe: Recipes = Recipes.PUBLISHED,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    bands: str = "auto",
    estimator: str = "auto",
    device: str = "auto",
    as_json: AsJson = False,
) -> None:
    """Evaluate methods on a data set: train and test scores, chance level, and p-values.

    Parameters
    ----------
    dataset : str
        Name of a data set (see `spdtokens datasets`), folder of .npz files, or -epo.fif file.
    dataset_option : str, default=none
        Option for loading the data set, KEY=VALUE, such as segments=4, folder=/path or unit=uV.
        Can be repeated.
    protocol : str
        Train/test split, see `spdtokens protocols`.
    method : str, default=token-log-euclidean, token-bures-wasserstein, token-euclidean, ts-lr
        Comma-separated method names, see `spdtokens methods`.
    window : str, default=as stated by the data set
        Part of the trial to decode: start and end in seconds after the cue, such as 0.5,4.
    classes : str, default=all
        Comma-separated classes to keep.
    where : str, default=all trials
        Keep only trials whose metadata match NAME=VALUE, such as imagined=1. Can be repeated.
    seeds : int
        Number of random seeds per network and fold.
    target_access : str
        Target data available before testing: train (none), unlabeled_20p, unlabeled_50p,
        unlabeled_full, labeled_20p, labeled_50p or online. See `spdtokens protocols`.
    alignment : str
        Domain alignment: none, euclidean, recentre, recentre-balanced, rescale or rotate.
    domain : str
        Unit that is aligned: session or subject.
    folds : int, default=5
        Number of folds of the protocols blocks, k-fold and subjects-k-fold.
    test_subjects : str
        Comma-separated subjects to test with the protocol between-subjects, which trains on all
        others.
    metric : str, default=roc_auc for ERP, balanced_accuracy for unequal classes, else accuracy
        Metric: accuracy, balanced_accuracy, kappa, roc_auc, f1 or itr.
    preset : str
        Token networks: standard or, smaller, standard-small; paper or paper-small for exactly the
        paper's covariances as well, in microvolts.
    recipe : str
        Training recipe of the other networks: as published, or the paper's for all (common).
    epochs : int, default=that of the recipe
        Number of training epochs of networks.
    bands : str
        Frequency bands: auto, the name of a preset, or pairs in Hz such as 8-13,13-30.
    estimator : str
        Covariance estimator: auto, sample, oas, lwf, ..., or erp and xdawn for ERP.
    device : str
        Device for networks: auto, cpu or cuda. Other methods run on the CPU.
    """
    chosen = selection(paradigm, stimulus_hz, window, classes, where, channels, resample)
    from spdtokens.classifiers.methods import Settings, get_method
    from spdtokens.classifiers.nn import STABILITY_SEEDS
    from spdtokens.classifiers.nn.recipe import TrainingBars
    from spdtokens.evaluation.answer import answer
    from spdtokens.evaluation.plan import Choice, Question, Source
    from spdtokens.evaluation.summary import summary_table
    from spdtokens.preprocessing.bands import resolve_bands

    if bands[:1].isdigit():
        resolve_bands(bands)  # data sets of covariance matrices do not use them
    settings = Settings(bands, estimator, preset, recipe=recipe.value, epochs=epochs, device=device)
    # --device applies to the networks among the methods.
    names = listed(method)
    networks = [name for name in names if get_method(name).has_seed] or names
    elsewhere = replace(settings, device="auto")
    given = {"folds": folds, "test_subjects": listed(test_subjects) or None}
    options = {name: value for name, value in given.items() if value is not None}
    question = Question(
        dataset=dataset,
        choices=tuple(Choice(n, settings if n in networks else elsewhere) for n in names),
        protocol=protocol,
        protocol_options=options,
        access=target_access,
        alignment=alignment,
        domain=domain,
        selection=chosen,
        subjects=tuple(listed(subjects)),
        seeds=STABILITY_SEEDS[:seeds],
        dataset_options=dataset_options(dataset_option),
    )
    source = Source()
    with TrainingBars() as bars:
        found = answer(
            question,
            source,
            metric=metric,
            bar=lambda name, total: bars.add(f"Evaluating {name}", total),
        )
    name = source.dataset_of(question).name
    results = {"results": [row.values() for row in found.rows]}
    show(as_json, results, verdict(found), summary_table(found.rows, question, name))


def dataset_options(pairs: list[str] | None) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; numbers, true and false become values, the rest is text."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, sign, text = (part.strip() for part in pair.partition("="))
        if not (key and sign and text) or key in found:
            raise typer.BadParameter(
                "--dataset-option must be KEY=VALUE such as segments=4, each KEY once, got "
                f"{pair!r}."
            )
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
        if not isinstance(found[key], int | float | str) or found[key] != found[key]:
            found[key] = text  # null, lists, NaN
    return found


def verdict(found: Evaluation, method: str | None = None) -> Text:
    """Say whether a method, the best by default, beats chance and differs from the next best."""
    from spdtokens._tables import p_value
    from spdtokens.evaluation.metrics import METRICS
    from spdtokens.evaluation.summary import compare_methods, score_said

    rows = sorted(found.rows, key=lambda row: (row.method == method, row.score), reverse=True)
    if not rows:
        return Text("No runs.")
    best, *others = rows
    above = "above" if best.score > best.chance_bound else "not significantly above"
    if isnan(best.chance_bound):
        above = "not tested against"
    text = Text(
        f"{'Best method: ' if others and method is None else ''}{best.method}, "
        f"{METRICS[best.metric].title} {score_said(best.score, best.metric)}, {above} chance "
        f"({score_said(best.chance, best.metric)}).",
        style="bold",
    )
    if best.leaky:
        text.append(f" The score is leaky: {best.leaky}.", style="red")
    for other in others[:1]:
        pairs = [pair.values() for pair in compare_methods(found.results, best.metric, best.method)]
        (pair,) = (pair for pair in pairs if pair["method"] == other.method)
        p, shown = pair["p_holm"], p_value(pair["p_holm"])
        shown = shown.replace("<", "< ") if "<" in shown else f"= {shown}"
        relation = "Next best" if method is None else "For comparison"
        text.append(f" {relation}: {other.method}, {score_said(other.score, best.metric)}, ")
        if p is None:
            text.append(f"not compared ({pair['no_p_because']}).")
        else:
            differs = "significantly worse" if other.score < best.score else "significantly better"
            text.append(differs if p < 0.05 else "no significant difference")
            text.append(f" (p {shown}, Holm-corrected).")
    return text


def selection(
    paradigm: str | None,
    stimulus_hz: str | None,
    window: str | None,
    classes: str | None,
    where: list[str] | None,
    channels: str | None,
    resample: float | None,
) -> Selection:
    """Parse the options that select trials."""
    edges = numbers(window, "--window")
    if window is not None and len(edges) != 2:
        raise typer.BadParameter(f"--window must be two numbers such as 0.5,4, got {window!r}.")
    frequencies = numbers(stimulus_hz, "--stimulus-hz")
    pairs = [tuple(pair.split("=", 1)) for pair in where or ()]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        raise typer.BadParameter(f"--where must be NAME=VALUE such as imagined=1, got {where}.")
    from spdtokens.datasets import Selection

    return Selection(
        paradigm=paradigm,
        stimulus_hz=frequencies,
        window=(edges[0], edges[1]) if edges else None,
        classes=tuple(listed(classes)),
        where=tuple((name, value) for name, value in pairs),
        channels=tuple(listed(channels)),
        resample=resample,
    )


@command()
def protocols(as_json: AsJson = False) -> None:
    """List the protocols (train/test splits) and the levels of target access."""
    from spdtokens.evaluation.protocols import ACCESS, PROTOCOLS, access_table, protocols_table

    rows = [
        {"name": p.name, "train": p.train, "test": p.test, "options": dict(p.options)}
        for p in PROTOCOLS.values()
    ]
    access = [{"name": a.name, "description": a.description} for a in ACCESS.values()]
    show(as_json, {"protocols": rows, "access": access}, protocols_table(), access_table())


@command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: input, number of parameters, reference."""
    from spdtokens.classifiers.methods import methods_rows, methods_table

    rows = methods_rows()
    show(as_json, {"methods": rows}, methods_table(rows, Console().width))
