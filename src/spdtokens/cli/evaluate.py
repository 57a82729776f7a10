"""``spdtokens evaluate``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer
from rich.console import Console

from spdtokens.cli.app import AsJson, Bands, DataName, OnlySubjects, app, errors_told, print_json


class Recipes(Enum):
    """Recipes of the networks we compare with."""

    PUBLISHED = "published"
    COMMON = "common"


@app.command()
def evaluate(
    name: DataName,
    method: Annotated[
        list[str] | None,
        typer.Option(help="One of `spdtokens methods`; may be repeated."),
    ] = None,
    subject: OnlySubjects = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many of the paper's seeds.")] = 5,
    preset: Annotated[str, typer.Option(help="Network and recipe: paper, paper-small.")] = "paper",
    recipe: Annotated[
        Recipes, typer.Option(help="Of other networks: their own, or the paper's for all.")
    ] = Recipes.PUBLISHED,
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the recipe's.")] = None,
    bands: Bands = "broadband",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Train on each subject's earlier sessions, test on the last; train beside test."""
    from spdtokens.data import load_dataset
    from spdtokens.evaluation import session_transfer
    from spdtokens.evaluation.show import as_json as scores_as_json
    from spdtokens.evaluation.show import scores_table
    from spdtokens.training import STABILITY_SEEDS
    from spdtokens.training.methods import Settings
    from spdtokens.training.progress import TrainingBars

    default = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    with errors_told():
        dataset = load_dataset(name)
        with TrainingBars() as bars:
            scores = session_transfer(
                dataset,
                method or default,
                settings=Settings(
                    bands=bands,
                    preset=preset,
                    recipe=recipe.value,
                    epochs=epochs,
                    device=device,
                ),
                subjects=subject or (),
                seeds=STABILITY_SEEDS[:seeds],
                bar=bars.add,
            )
    if as_json:
        print_json(scores_as_json(scores, len(dataset.classes)))
    else:
        title = f"{dataset.name}: last session, trained on the ones before (preset {preset})"
        Console().print(scores_table(scores, len(dataset.classes), title))


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods: what they take, their size on the paper's data sets, their source."""
    from spdtokens.evaluation.methods_table import methods_rows, methods_table

    rows = methods_rows()
    if as_json:
        print_json({"methods": rows})
    else:
        console = Console()
        console.print(methods_table(rows, console.width))
