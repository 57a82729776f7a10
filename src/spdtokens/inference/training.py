"""From own recordings to a model: look, cross-validate honestly, train on all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import spdtokens
from spdtokens._files import output_file, written_whole
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
from spdtokens.inference.convert import as_decoder
from spdtokens.reporting.page import write_page
from spdtokens.reporting.report import report_of
from spdtokens.runtime import Decoder, model_bytes
from spdtokens.runtime.model_file import names

#: Method of a preset, in the words of ``spdtokens methods``.
METHODS = {"recommended": "recommended", "paper": "token-log-euclidean"}
#: What it is compared with: the usual good choice.
COMPARED = "ts-lr"
BLOCKS = 5


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


def save_model(model: Decoder | BaseEstimator, path: str | Path, **about: Any) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    model : Decoder or estimator
        A fitted decoder as :func:`make_decoder` makes it, or what :func:`load_model` returned.
    path : str or Path
        Ends in ``.spdt``.
    **about
        Of an estimator: ``ch_names``, which must be given, ``classes`` and ``unit_in_volts``, see
        :func:`~spdtokens.inference.convert.as_decoder`.
    """
    path = Path(path)
    check_model_path(path)
    decoder = model if isinstance(model, Decoder) else as_decoder(model, **about)
    contents = model_bytes(decoder)
    with written_whole(path) as temporary:
        temporary.write_bytes(contents)


def check_model_path(path: Path) -> None:
    """Refuse, before any work, a path that a model cannot be written to."""
    if path.suffix != ".spdt":
        raise DeployError(f"{path} does not end in .spdt, as model files do.")
    output_file(path)


def own_dataset(
    data: str | Path | Dataset,
    *,
    paradigm: str | None = None,
    stimulus_hz: Sequence[float] = (),
    subjects: str | int | Sequence[str | int] = (),
    **cutting: Any,
) -> Dataset:
    """Recordings as a data set of which every trial is decoded as it was cut.

    Parameters
    ----------
    data : str, Path or Dataset
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, optional
    stimulus_hz : sequence of float
    subjects : str, int, or sequence of these
        Only these.
    **cutting
        Of :class:`~spdtokens.datasets.files.Cutting`; ``events`` may be text.
    """
    given = {name: value for name, value in cutting.items() if value not in (None, ())}
    if isinstance(given.get("events"), str):
        given["events"] = parse_events(given["events"])
    if isinstance(data, Dataset):
        if given:
            raise DeployError(f"{next(iter(given))} is for files; the data set is in memory.")
        dataset = data
    else:
        dataset = load_dataset(data, **given)
    if given and ("tmin" in given or "tmax" in given) and not dataset.is_covariance:
        # The user's times are meant: nothing is left out for the paradigm's sake.
        window: tuple[float, float] | None = dataset.window
    else:
        window = None
    chosen = select(
        dataset, Selection(paradigm=paradigm, stimulus_hz=tuple(stimulus_hz), window=window)
    )
    return replace(chosen, index={name: chosen.index[name] for name in chosen.chosen(subjects)})


def best_protocol(dataset: Dataset, trials: Trials) -> tuple[str, dict[str, Any]]:
    """The most honest protocol that the data allow, with its options.

    Other people, if there are several; else other sessions, else other runs, else other parts of
    the only recording.
    """
    if len(dataset.subjects) > 1:
        return "leave-one-subject-out", {}
    if len(dataset.sessions(dataset.subjects[0])) > 1:
        return "leave-one-session-out", {}
    if len(np.unique(trials.table.run)) > 1:
        return "leave-one-run-out", {}
    fewest = int(np.bincount(trials.table.y, minlength=len(dataset.classes)).min())
    if fewest < 2:
        name = dataset.classes[int(np.bincount(trials.table.y).argmin())]
        raise DeployError(
            f"{dataset.name} has {counted(fewest, 'trial')} of {name}; it takes two at least to "
            "train on one and test another, and dozens for a model of use."
        )
    return "blocks", {"folds": min(BLOCKS, fewest)}


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
        :class:`~spdtokens.datasets.files.Cutting`.

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
    dataset = own_dataset(
        data, paradigm=paradigm, stimulus_hz=stimulus_hz, subjects=subjects, **cutting
    )
    # The model file would refuse them, but only after all the work.
    names(list(dataset.classes), "class")
    names(list(dataset.ch_names), "channel")
    source = Source({dataset.name: dataset})
    trials = source.trials(dataset.name, Selection(), dataset.subjects)
    settings = Settings()
    if filtering != "zero-phase":
        if preset != "recommended":
            raise DeployError("filtering can be chosen for preset 'recommended' only.")
        settings = replace(settings, changes={"filtering": filtering})
    decoder = get_method(METHODS[preset]).make(dataset, settings)
    if recentre and getattr(decoder.steps[0][1], "needs_labels", False):
        raise DeployError(
            "Potentials are decoded beside class averages, which recentring would not fit: leave "
            "recentre out."
        )
    protocol, protocol_options = best_protocol(dataset, trials)
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
    about = _about(dataset, trials, preset, evaluation, cutting)
    if recentre:
        decoder.steps.insert(-1, ("recentring", Recentring()))
    trained = _trained_on_all(with_seed(decoder, 0), trials)
    model = as_decoder(
        trained,
        ch_names=tuple(dataset.ch_names),
        classes=tuple(dataset.classes[code] for code in trained.classes_),
        unit_in_volts=dataset.unit_in_volts,
        about=about,
    )
    return Trained(model, evaluation, dataset, source, trained)


def _trained_on_all(decoder: DecodingPipeline, trials: Trials) -> DecodingPipeline:
    """The decoder, trained on every trial."""
    every = np.arange(len(trials.table))
    group = trials.table.group
    given: dict[str, Any] = {}
    if len(np.unique(group)) < len(group):
        given["groups"] = group
    if "recentring" in decoder.named_steps:
        given["domains"] = domains(trials.table, every, "session")
    return decoder.fit(trials.signals(every), trials.table.y, **given)


def _about(
    dataset: Dataset,
    trials: Trials,
    preset: str,
    evaluation: Evaluation,
    cutting: Mapping[str, Any],
) -> dict[str, Any]:
    row = evaluation.rows[0]
    X = trials.signals(np.arange(len(trials.table)))
    counts = np.bincount(trials.table.y, minlength=len(dataset.classes))
    events = cutting.get("events")
    if isinstance(events, str):
        events = parse_events(events)
    scores = (
        "metric",
        "score",
        "std",
        "std_over",
        "train_score",
        "chance",
        "chance_bound",
        "n_test",
    )
    return {
        "made_by": f"spdtokens {spdtokens.__version__}",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": dataset.name,
        "data_hash": trials.hash_of(np.arange(len(trials.table))),
        "paradigm": dataset.paradigm,
        "preset": preset,
        "trials": dict(zip(dataset.classes, counts.tolist(), strict=True)),
        "events": events or {name: name for name in dataset.classes},
        "label_from": cutting.get("label_from"),
        # Amplitude, in the unit of the signals: recordings in another unit are known by it.
        "amplitude": None if dataset.is_covariance else float(np.median(X.std(-1))),
        "protocol": evaluation.question.protocol,
        "evaluation": {name: row.values()[name] for name in scores},
    }
