"""From own recordings to a model: look, cross-validate honestly, train on all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spdtokens
from spdtokens._tables import counted
from spdtokens.classifiers import DecodingPipeline, Recentring
from spdtokens.classifiers.methods import Settings, get_method
from spdtokens.datasets import Dataset, Selection, load_dataset, select
from spdtokens.datasets.files import parse_events
from spdtokens.errors import DeployError
from spdtokens.evaluation.answer import Bar, Evaluation, answer
from spdtokens.evaluation.estimators import with_seed
from spdtokens.evaluation.plan import Choice, Question, Source, domains
from spdtokens.evaluation.summary import Row
from spdtokens.evaluation.trials import Trials
from spdtokens.inference.convert import as_decoder, save_model
from spdtokens.reporting.page import write_page
from spdtokens.reporting.report import report_of
from spdtokens.runtime import Decoder
from spdtokens.runtime.model_file import names

#: Method of a preset, in the words of ``spdtokens methods``.
METHODS = {"recommended": "recommended", "paper": "token-log-euclidean"}
#: What it is compared with: the usual good choice.
COMPARED = "ts-lr"
BLOCKS = 5
#: What a model file keeps of its evaluation.
SCORES = ("metric", "score", "std", "std_over", "train_score", "chance", "chance_bound", "n_test")


@dataclass(frozen=True)
class Trained:
    """A model trained on all trials, and how it did on trials it had not seen.

    Attributes
    ----------
    decoder : Decoder
    evaluation : Evaluation
        Cross-validated, before: the model's method first, then :data:`COMPARED`.
    dataset : Dataset
    source : Source
        Of the evaluation.
    pipeline : DecodingPipeline
        The model as a scikit-learn estimator; ``decoder`` is what is saved of it.
    """

    decoder: Decoder
    evaluation: Evaluation
    dataset: Dataset
    source: Source
    pipeline: DecodingPipeline

    @property
    def row(self) -> Row:
        """The model's own line of the evaluation."""
        return self.evaluation.rows[0]

    @property
    def above_chance(self) -> bool:
        """Whether guessing is unlikely (once in 20 times) to reach the score."""
        return bool(self.row.score > self.row.chance_bound)

    def save(self, path: str | Path) -> None:
        """Write the model file, whole or not at all."""
        save_model(self.decoder, path)

    def report(self, path: str | Path, command: str = "spdtokens.train(...)") -> None:
        """Write the evaluation, and which channels and bands decide, as one HTML file.

        Parameters
        ----------
        path : str or Path
        command : str
            That made it, for the reader.
        """
        name = self.dataset.name
        page = report_of(self.evaluation, self.source, name=name, commands=[command])
        write_page(page, Path(path))


def _dataset(
    data: str | Path | Dataset,
    subjects: str | int | Sequence[str | int],
    selection: Selection,
    cutting: Mapping[str, Any],
) -> Dataset:
    """Recordings as a data set of which every trial is decoded as it was cut."""
    if isinstance(data, Dataset):
        if cutting:
            raise DeployError(f"{next(iter(cutting))} is for files; the data set is in memory.")
        dataset = data
    else:
        dataset = load_dataset(data, **cutting)
    if {"tmin", "tmax"} & set(cutting) and not dataset.is_covariance:
        # The user's times are meant: nothing is left out for the paradigm's sake.
        selection = replace(selection, window=dataset.window)
    chosen = select(dataset, selection)
    return replace(chosen, index={name: chosen.index[name] for name in chosen.chosen(subjects)})


def _best_protocol(dataset: Dataset, trials: Trials) -> tuple[str, dict[str, Any]]:
    """The most honest protocol that the data allow: other people, sessions, runs, or blocks."""
    if len(dataset.subjects) > 1:
        return "leave-one-subject-out", {}
    if len(dataset.sessions(dataset.subjects[0])) > 1:
        return "leave-one-session-out", {}
    if len(np.unique(trials.table.run)) > 1:
        return "leave-one-run-out", {}
    counts = np.bincount(trials.table.y, minlength=len(dataset.classes))
    if counts.min() < 2:
        raise DeployError(
            f"{dataset.name} has {counted(int(counts.min()), 'trial')} of "
            f"{dataset.classes[counts.argmin()]}; it takes two at least to train on one and test "
            "another, and dozens for a model of use."
        )
    return "blocks", {"folds": min(BLOCKS, int(counts.min()))}


def train(
    data: str | Path | Dataset,
    *,
    paradigm: str | None = None,
    stimulus_hz: Sequence[float] = (),
    subjects: str | int | Sequence[str | int] = (),
    preset: str = "recommended",
    recentre: bool = False,
    filtering: str = "zero-phase",
    bar: Bar = lambda _text, _total: None,
    tell: Callable[[Dataset, Trials], None] = lambda _dataset, _trials: None,
    **cutting: Any,
) -> Trained:
    """Train a model on own recordings, after measuring how well that works.

    Parameters
    ----------
    data : str, Path or Dataset
        A file or folder of recordings (``.edf``, ``.bdf``, ``.gdf``, ``.vhdr``, ``.set``,
        ``.fif``), epochs (``-epo.fif``) or ``.npz``; or any data set.
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, optional
        What was recorded: decides which tokens are made. Rhythms, as in imagery, by default.
    stimulus_hz : sequence of float
        Flicker frequencies of SSVEP.
    subjects : str, int, or sequence of these
        Only these; all by default.
    preset : {'recommended', 'paper'}
    recentre : bool
        Bring sessions together by their means, and follow the mean of a new session while it is
        decoded. For a model that is to be used on other people, or on other days with a drift.
    filtering : {'zero-phase', 'causal'}
        Of a trial by itself: a decision knows nothing of what comes after the trial either way.
    bar : callable
        Shows progress: see :func:`spdtokens.evaluate`.
    tell : callable
        Given the data set and its trials, before anything is trained.
    **cutting
        How trials are cut out of recordings: ``events`` (``'left=769,right=770'``), ``tmin`` and
        ``tmax`` in seconds after the event, ``label_from``, ``channels``. See
        :class:`~spdtokens.datasets.cutting.Cutting`.

    Returns
    -------
    Trained

    Raises
    ------
    UserError
        For files that cannot be read or do not hold what is asked for, before anything is trained.

    Examples
    --------
    >>> from spdtokens import train
    >>> trained = train("sim-mi", subjects=["1"])
    >>> trained.above_chance
    True
    """
    if preset not in METHODS:
        raise DeployError(f"There is no preset {preset!r}. There are: {', '.join(METHODS)}.")
    settings = Settings()
    if filtering != "zero-phase":
        if preset != "recommended":
            raise DeployError("filtering can be chosen for preset 'recommended' only.")
        settings = replace(settings, changes={"filtering": filtering})
    cutting = {name: value for name, value in cutting.items() if value not in (None, ())}
    if isinstance(cutting.get("events"), str):
        cutting["events"] = parse_events(cutting["events"])
    selection = Selection(paradigm=paradigm, stimulus_hz=tuple(stimulus_hz))
    dataset = _dataset(data, subjects, selection, cutting)
    # The model file would refuse them, but only after all the work.
    names(list(dataset.classes), "class")
    names(list(dataset.ch_names), "channel")
    source = Source({dataset.name: dataset})
    trials = source.trials(dataset.name, Selection(), dataset.subjects)
    pipeline = get_method(METHODS[preset]).make(dataset, settings)
    if recentre:
        if getattr(pipeline.steps[0][1], "needs_labels", False):
            raise DeployError(
                "Potentials are decoded beside class averages, which recentring would not fit: "
                "leave recentre out."
            )
        pipeline.steps.insert(-1, ("recentring", Recentring()))
    protocol, protocol_options = _best_protocol(dataset, trials)
    question = Question(
        dataset=dataset.name,
        choices=(Choice(METHODS[preset], settings), Choice(COMPARED)),
        protocol=protocol,
        protocol_options=protocol_options,
        access="online" if recentre else "train",
        alignment="recentre" if recentre else "none",
        seeds=(0,),
    )
    tell(dataset, trials)
    evaluation = answer(question, source, bar=bar)
    every = np.arange(len(trials.table))
    X, groups = trials.signals(every), trials.table.group
    given: dict[str, Any] = {}
    if len(np.unique(groups)) < len(groups):
        given["groups"] = groups
    if recentre:
        given["domains"] = domains(trials.table, every, "session")
    pipeline = with_seed(pipeline, 0).fit(X, trials.table.y, **given)
    about = {**_about(dataset, trials, X, cutting), "preset": preset, "protocol": protocol}
    about["evaluation"] = {name: evaluation.rows[0].values()[name] for name in SCORES}
    decoder = as_decoder(
        pipeline,
        ch_names=tuple(dataset.ch_names),
        classes=tuple(dataset.classes[code] for code in pipeline.classes_),
        unit_in_volts=dataset.unit_in_volts,
        about=about,
    )
    return Trained(decoder, evaluation, dataset, source, pipeline)


def _about(
    dataset: Dataset, trials: Trials, X: NDArray[Any], cutting: Mapping[str, Any]
) -> dict[str, Any]:
    """What a model file tells of its making."""
    counts = np.bincount(trials.table.y, minlength=len(dataset.classes))
    return {
        "made_by": f"spdtokens {spdtokens.__version__}",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": dataset.name,
        "data_hash": trials.hash_of(np.arange(len(trials.table))),
        "paradigm": dataset.paradigm,
        "trials": dict(zip(dataset.classes, counts.tolist(), strict=True)),
        "events": cutting.get("events") or {name: name for name in dataset.classes},
        "label_from": cutting.get("label_from"),
        # In the unit of the signals: recordings in another unit are known by it.
        "amplitude": None if dataset.is_covariance else float(np.median(X.std(-1))),
    }
