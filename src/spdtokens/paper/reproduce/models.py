"""Trained models of the paper's main experiment, as model files with cards."""

from __future__ import annotations

from pathlib import Path

from spdtokens._files import written_whole
from spdtokens.classifiers.nn.recipe import SEEDS
from spdtokens.evaluation.estimators import with_seed
from spdtokens.evaluation.execute import open_fold
from spdtokens.evaluation.runs import RunResult, origin
from spdtokens.experiments.store import RunStore
from spdtokens.inference import as_decoder, save_model
from spdtokens.paper.reproduce.experiments import Cell
from spdtokens.paper.reproduce.run import Reproduction

#: Tables whose models are saved: the Log-Euclidean transformer, subject by subject.
TABLES = ("subjects-bci2a", "subjects-bcicha", "subjects-mamem")
FOLDER = "models"
_CARD = """\
# {title}

Log-Euclidean token transformer of Chen et al. (2026), preset `paper`, trained by
`{command} --save-models` (spdtokens {version}, {time}).

- Data: {data}, subject {subject}; protocol `{protocol}`, {n_train} training trials, seed {seed}.
- Input: {channels} channels at {sfreq:g} Hz, {tmin:g} to {tmax:g} s after the cue, in {unit}.
- Channels: {names}.
- Classes: {classes}.
- Accuracy on its training trials: {train:.1f} %.
- **Accuracy on {n_test} held-out trials: {test:.1f} %** (chance level {chance:.1f} %).
- Use: `spdtokens.load_model("{file}")`, `spdtokens predict {file} RECORDING`.
- Limits: decodes this subject only. {limit}
"""


def save_models(reproduction: Reproduction, store: RunStore, folder: Path) -> list[Path]:
    """Train the models of the first seed again and write them with their scores.

    Parameters
    ----------
    reproduction : Reproduction
        Tables, of which those in ``TABLES`` have models.
    store : RunStore
        Store with the runs of the tables.
    folder : Path
        Folder to write ``models/NAME.spdt`` and ``models/NAME.md`` to.

    Returns
    -------
    list of Path
        The files.
    """
    target = folder / FOLDER
    written: list[Path] = []
    for name in TABLES:
        for cell, question in reproduction.cells.get(name, ()):
            if cell.subject is None:
                continue
            (spec,) = (s for s in reproduction.specs(question) if s.seed == SEEDS[0])
            for run in store.results([spec.key], reproduction.planned.code):
                target.mkdir(parents=True, exist_ok=True)
                path = target / f"{cell.role.name.lower()}-{cell.subject}.spdt"
                written += _saved(reproduction, cell, run, path)
    return written


def _saved(reproduction: Reproduction, cell: Cell, run: RunResult, path: Path) -> list[Path]:
    spec, source = run.spec, reproduction.source
    fold, trials = open_fold(spec, source)
    dataset, y = trials.dataset, trials.table.y
    pipeline = with_seed(source.estimator(spec), spec.seed)
    pipeline.fit(trials.signals(fold.train), y[fold.train])
    scores = {"train": run.train["accuracy"], "test": run.test["accuracy"]}
    about = {**origin(), "data": dataset.name, "subject": spec.subject, "evaluation": scores}
    decoder = as_decoder(
        pipeline,
        ch_names=tuple(dataset.ch_names),
        classes=tuple(dataset.classes),
        unit_in_volts=dataset.unit_in_volts,
        about=about,
    )
    save_model(decoder, path)
    simulated = reproduction.extent.data == "sim"
    text = _CARD.format(
        title=f"{cell.role.name}, {cell.subject}",
        command=reproduction.extent.command(f"subjects-{cell.role.name.lower()}"),
        version=about["spdtokens"],
        time=about["time"],
        data=dataset.description if simulated else dataset.name,
        subject=spec.subject,
        protocol=spec.protocol,
        n_train=run.sizes["train"],
        n_test=run.sizes["test"],
        seed=spec.seed,
        channels=len(dataset.ch_names),
        names=", ".join(dataset.ch_names),
        sfreq=dataset.sfreq,
        tmin=dataset.window[0],
        tmax=dataset.window[1],
        unit="volts" if dataset.unit_in_volts == 1.0 else f"{dataset.unit_in_volts:g} V",
        classes=", ".join(dataset.classes),
        train=100 * scores["train"],
        test=100 * scores["test"],
        chance=100 / len(dataset.classes),
        file=path.name,
        limit="It was trained on simulated signals: for tests only."
        if simulated
        else "Scores of other sessions and people are not known.",
    )
    card = path.with_suffix(".md")
    with written_whole(card) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return [path, card]
