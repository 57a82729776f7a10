"""Train a model on your own recordings: cross-validate, then fit on all trials."""

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
from spdtokens.classifiers import DecodingPipeline, Recentring, SpatialFilterClassifier
from spdtokens.classifiers.filters import model_path
from spdtokens.classifiers.methods import Settings
from spdtokens.datasets import Dataset, Selection, load_dataset, select
from spdtokens.datasets.files import parse_events
from spdtokens.errors import DeployError
from spdtokens.evaluation.answer import Bar, Evaluation, answer
from spdtokens.evaluation.estimators import build, with_seed
from spdtokens.evaluation.plan import (
    Choice,
    Question,
    Source,
    domains,
    recentring_of,
    without_unit,
)
from spdtokens.evaluation.summary import Row
from spdtokens.evaluation.trials import Trials
from spdtokens.inference.convert import as_decoder, save_model
from spdtokens.preprocessing import FilterBankCovariances
from spdtokens.reporting.page import write_page
from spdtokens.reporting.report import report_of
from spdtokens.runtime import Decoder, load_model
from spdtokens.runtime.model_file import names

#: Method of each preset, see ``spdtokens methods``.
METHODS = {
    "recommended": "recommended",
    "standard": "token-log-euclidean",
    "paper": "token-log-euclidean",
    "spatial-filters": "spatial-filters",
    "spatial-filters-power": "spatial-filters-power",
}
#: People from which on groups of people are left out of the evaluation, instead of one.
MANY = 12
#: Baseline for comparison: tangent space and logistic regression.
COMPARED = "ts-lr"
BLOCKS = 5
#: Results of the evaluation that are stored in the model file.
SCORES = ("metric", "score", "std", "std_over", "train_score", "chance", "chance_bound", "n_test")


@dataclass(frozen=True, repr=False)
class Trained:
    """A model fitted on all trials, and its cross-validated evaluation.

    Parameters
    ----------
    decoder : Decoder
        The model.
    evaluation : Evaluation
        Cross-validation of the method, and then of the baseline ``ts-lr``.
    dataset : Dataset
        The training data.
    source : Source
        Source of the trials of the evaluation.
    pipeline : DecodingPipeline
        The model as a fitted scikit-learn pipeline; ``decoder`` is the part that is saved.

    See Also
    --------
    train : Returns a trained model.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from spdtokens import load_model, train
    >>> from spdtokens.datasets import from_arrays
    >>> X = np.random.default_rng(0).standard_normal((40, 3, 200))
    >>> trained = train(from_arrays(X, ["left", "right"] * 20, sfreq=100))
    >>> trained.row.n_test
    40
    >>> with TemporaryDirectory() as folder:
    ...     trained.save(f"{folder}/model.spdt")
    ...     decoder = load_model(f"{folder}/model.spdt")
    >>> decoder.classes
    ('left', 'right')
    """

    decoder: Decoder
    evaluation: Evaluation
    dataset: Dataset
    source: Source
    pipeline: DecodingPipeline

    def __repr__(self) -> str:
        row = self.row
        score = f"{row.metric} {row.score:.3f} (chance {row.chance:.3f})"
        return f"<Trained on {self.dataset.name}: {score}>"

    @property
    def row(self) -> Row:
        """Row of the method in the evaluation."""
        return self.evaluation.rows[0]

    @property
    def above_chance(self) -> bool:
        """Whether the score exceeds the 95th percentile of chance."""
        return bool(self.row.score > self.row.chance_bound)

    def save(self, path: str | Path) -> None:
        """Write the model file.

        Parameters
        ----------
        path : str or Path
            The file to write; must end in ``.spdt``.
        """
        save_model(self.decoder, path)

    def report(self, path: str | Path, command: str = "spdtokens.train(...)") -> None:
        """Write an HTML report with the evaluation and the most important channels and bands.

        Parameters
        ----------
        path : str or Path
            The file to write.
        command : str, default='spdtokens.train(...)'
            Command that trained the model, to be shown in the report.
        """
        name = f"{self.row.method}, trained on {self.dataset.name}"
        page = report_of(self.evaluation, self.source, name=name, commands=[command])
        write_page(page, Path(path))


def _dataset(
    data: str | Path | Dataset,
    subjects: str | int | Sequence[str | int],
    selection: Selection,
    cutting: Mapping[str, Any],
) -> Dataset:
    """Load recordings as a data set whose trials are decoded as they were cut."""
    if isinstance(data, Dataset):
        if cutting:
            raise DeployError(
                f"{next(iter(cutting))} applies to files only, but data is a Dataset in memory."
            )
        dataset = data
    else:
        dataset = load_dataset(data, **cutting)
    if {"tmin", "tmax"} & set(cutting) and not dataset.is_covariance:
        # Decode the times that the user chose, and not the window of the paradigm.
        selection = replace(selection, window=dataset.window)
    chosen = select(dataset, selection)
    return replace(chosen, index={name: chosen.index[name] for name in chosen.chosen(subjects)})


def _best_protocol(dataset: Dataset, trials: Trials) -> tuple[str, dict[str, Any]]:
    """Choose the strictest protocol: across subjects, sessions, runs, or blocks."""
    if len(dataset.subjects) >= MANY:
        return "subjects-k-fold", {"folds": BLOCKS}
    if len(dataset.subjects) > 1:
        return "leave-one-subject-out", {}
    if len(dataset.sessions(dataset.subjects[0])) > 1:
        return "leave-one-session-out", {}
    if len(np.unique(trials.table.run)) > 1:
        return "leave-one-run-out", {}
    counts = np.bincount(trials.table.y, minlength=len(dataset.classes))
    if counts.min() < 2:
        raise DeployError(
            f"{dataset.name} must have at least 2 trials per class, got "
            f"{counted(int(counts.min()), 'trial')} of class {dataset.classes[counts.argmin()]}. A "
            "useful model needs dozens."
        )
    return "blocks", {"folds": min(BLOCKS, int(counts.min()))}


def train(
    data: str | Path | Dataset,
    *,
    paradigm: str | None = None,
    stimulus_hz: Sequence[float] = (),
    subjects: str | int | Sequence[str | int] = (),
    classes: Sequence[str] = (),
    preset: str = "recommended",
    start_from: str | Path | None = None,
    recentre: bool = False,
    filtering: str = "zero-phase",
    bar: Bar = lambda _text, _total: None,
    tell: Callable[[Dataset, Trials], None] = lambda _dataset, _trials: None,
    **cutting: Any,
) -> Trained:
    """Train a model on recordings, after cross-validating it.

    The cross-validation uses the strictest protocol that the data allow: leave-one-subject-out
    (from 12 subjects on, five groups of subjects), leave-one-session-out, leave-one-run-out, or
    blocks of consecutive trials. The model is then fitted on all trials.

    Parameters
    ----------
    data : str, Path or Dataset
        A file or a folder of recordings (``.edf``, ``.bdf``, ``.gdf``, ``.vhdr``, ``.set``,
        ``.fif``), epochs (``-epo.fif``) or trials (``.npz``); the name of a data set; or a data set
        in memory.
    paradigm : {'mi', 'erp', 'ssvep', 'other'}, default=None
        Paradigm of the recordings, which determines the features. If None, that of the data set, or
        oscillations as in motor imagery.
    stimulus_hz : sequence of float, default=()
        Stimulation frequencies in Hz, for SSVEP.
    subjects : str, int, or sequence of these, default=()
        Subjects to use; empty for all.
    classes : sequence of str, default=()
        Classes to use, if the data have more; empty for all.
    preset : str, default='recommended'
        Decoding method: ``'recommended'``; the paper's network, independent of the unit of the
        signals (``'standard'``) or exactly the paper's, which needs the unit (``'paper'``); or for
        recordings of many people, to decode new ones, ``'spatial-filters'`` or
        ``'spatial-filters-power'``, see :class:`spdtokens.SpatialFilterClassifier`.
    start_from : str or Path, default=None
        Adapt a model with spatial filters to the recordings, instead of training one by ``preset``:
        the name of a model that ships with the package, such as ``'imagery-left-right'``, or a
        model file. The recordings must have its channels. Their classes are matched by name, or
        by ``left`` and ``right`` in the name.
    recentre : bool, default=False
        Whether to recentre each session, and to follow the mean of a new session while decoding it.
        Recommended for models that are used on other people or on other days. Not supported for
        ERP.
    filtering : {'zero-phase', 'causal'}, default='zero-phase'
        Filter applied to each trial separately. Neither uses samples after the trial.
    bar : callable, default=lambda text, total: None
        Progress bar, see :func:`spdtokens.evaluate`.
    tell : callable, default=lambda dataset, trials: None
        Called with the data set and its trials before the training.
    **cutting : dict
        How to cut trials out of recordings: ``events`` (e.g. ``'left=769,right=770'``), ``tmin``
        and ``tmax`` in seconds after the event, ``label_from``, ``channels``, ``resample``. See
        :class:`~spdtokens.datasets.files.Cutting`.

    Returns
    -------
    Trained
        The model and its evaluation.

    Raises
    ------
    UserError
        If a file cannot be read, or an option does not fit the data. Raised before the training.

    See Also
    --------
    spdtokens.predict : Apply a model to recordings.
    spdtokens.evaluate : Evaluate and compare methods.
    spdtokens.make_decoder : Build the pipeline of a paradigm.

    Examples
    --------
    >>> import numpy as np
    >>> from spdtokens import train
    >>> from spdtokens.datasets import from_arrays
    >>> X, y = np.random.default_rng(0).standard_normal((40, 3, 200)), np.arange(40) % 2
    >>> X[y == 1, 0] *= 2
    >>> trained = train(from_arrays(X, y, sfreq=100))  # or train("recordings/")
    >>> trained.above_chance
    True
    """
    if preset not in METHODS:
        raise DeployError(f"preset must be one of {', '.join(METHODS)}, got {preset!r}.")
    if start_from is not None and preset != "recommended":
        raise DeployError(f"Pass start_from or preset, not both, got preset={preset!r}.")
    settings = Settings(preset="paper") if preset == "paper" else Settings()
    if filtering != "zero-phase":
        if preset != "recommended":
            raise DeployError(
                f"filtering={filtering!r} requires preset='recommended', got preset={preset!r}."
            )
        settings = replace(settings, changes={"filtering": filtering})
    cutting = {name: value for name, value in cutting.items() if value not in (None, ())}
    if isinstance(cutting.get("events"), str):
        cutting["events"] = parse_events(cutting["events"])
    start = None if start_from is None else load_model(model_path(start_from))
    selection = Selection(
        paradigm=paradigm,
        stimulus_hz=tuple(stimulus_hz),
        classes=tuple(classes),
        channels=() if start is None else start.ch_names,
    )
    dataset = _dataset(data, subjects, selection, cutting)
    # Check names now: the model file would refuse them only after the training.
    names(dataset.classes, "class")
    names(dataset.ch_names, "channel")
    source = Source({dataset.name: dataset})
    trials = source.trials(dataset.name, Selection(), dataset.subjects)
    choice = Choice(METHODS[preset], settings)
    if start is not None:
        choice = Choice(started(start, str(start_from), dataset), label=f"{start_from}, adapted")
    pipeline = choice.make(dataset)
    if recentring_of(pipeline) is not None:
        recentre = True
    elif recentre:
        if getattr(pipeline.steps[0][1], "needs_labels", False):
            raise DeployError(
                "recentre is not supported for ERP, whose covariances contain class averages. "
                "Remove recentre."
            )
        pipeline = without_unit(pipeline)
        pipeline.steps.insert(-1, ("recentring", Recentring()))
    protocol, protocol_options = _best_protocol(dataset, trials)
    question = Question(
        dataset=dataset.name,
        choices=(choice, Choice(COMPARED)),
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
    if start_from is not None:
        about["start_from"] = Path(start_from).name
    about["evaluation"] = {name: evaluation.rows[0].values()[name] for name in SCORES}
    decoder = as_decoder(
        pipeline,
        ch_names=tuple(dataset.ch_names),
        classes=tuple(dataset.classes[code] for code in pipeline.classes_),
        unit_in_volts=dataset.unit_in_volts,
        about=about,
    )
    return Trained(decoder, evaluation, dataset, source, pipeline)


def started(start: Decoder, name: str, dataset: Dataset) -> DecodingPipeline:
    """Make the pipeline that adapts a model to a data set.

    Parameters
    ----------
    start : Decoder
        Model with spatial filters.
    name : str
        Its name or path.
    dataset : Dataset
        Data set with the channels of the model.

    Returns
    -------
    DecodingPipeline
        The pipeline, not fitted.

    Raises
    ------
    DeployError
        If the classes do not match those of the model.
    """
    codes = []
    for wanted in start.classes:
        sides = [side for side in ("left", "right") if side in wanted.lower()]
        found = [i for i, own in enumerate(dataset.classes) if own == wanted] or [
            i for i, own in enumerate(dataset.classes) if sides and sides[0] in own.lower()
        ]
        codes += found[:1]
    if sorted(codes) != list(range(len(dataset.classes))) or len(codes) != len(start.classes):
        raise DeployError(
            f"{name} decodes {', '.join(start.classes)}, but {dataset.name} has the classes "
            f"{', '.join(dataset.classes)}. Select or name them, such as "
            f"--events {start.classes[0]}=EVENT,{start.classes[-1]}=EVENT, or --classes."
        )
    steps = [build(step) for step in start.steps]
    if not isinstance(steps[-1], SpatialFilterClassifier):
        raise DeployError(
            f"start_from must be a model with spatial filters, got {name}. Train one on many "
            "people: spdtokens train FOLDER --preset spatial-filters."
        )
    steps[-1].set_params(start_from=name, start_labels=tuple(codes))
    if isinstance(steps[0], FilterBankCovariances):
        steps[0].set_params(sfreq=dataset.sfreq, tmin=dataset.tmin)
    kinds = ["filterbank"] * (len(steps) == 3) + ["recentring", "classifier"]
    return DecodingPipeline(list(zip(kinds, steps, strict=True)))


def _about(
    dataset: Dataset, trials: Trials, X: NDArray[Any], cutting: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe the training data, for the model file."""
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
        # In the unit of the signals, to recognise recordings in another unit.
        "amplitude": None if dataset.is_covariance else float(np.median(X.std(-1))),
    }
