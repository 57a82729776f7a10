"""``spdtokens evaluate``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from spdtokens.cli.app import AsJson, Bands, DataName, OnlySubjects, app, errors_told, print_json


@app.command()
def evaluate(
    name: DataName,
    method: Annotated[
        list[str] | None,
        typer.Option(help="token-log-euclidean, ts-lr, ...; may be repeated."),
    ] = None,
    subject: OnlySubjects = None,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many of the paper's seeds.")] = 5,
    preset: Annotated[str, typer.Option(help="Network and recipe: paper, paper-small.")] = "paper",
    epochs: Annotated[int | None, typer.Option(min=1, help="Instead of the preset's.")] = None,
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
    from spdtokens.training.presets import resolve_preset
    from spdtokens.training.progress import TrainingBars

    default = ["token-log-euclidean", "token-bures-wasserstein", "token-euclidean", "ts-lr"]
    with errors_told():
        dataset = load_dataset(name)
        with TrainingBars() as bars:
            scores = session_transfer(
                dataset,
                method or default,
                preset=resolve_preset(preset, epochs=epochs),
                subjects=subject or (),
                seeds=STABILITY_SEEDS[:seeds],
                bands=bands,
                device=device,
                bar=bars.add,
            )
    if as_json:
        print_json(scores_as_json(scores, len(dataset.classes)))
    else:
        title = f"{dataset.name}: last session, trained on the ones before (preset {preset})"
        Console().print(scores_table(scores, len(dataset.classes), title))
