"""Data sets by name or path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdtokens._tables import table
from spdtokens.datasets.base import Dataset
from spdtokens.datasets.files import Cutting
from spdtokens.datasets.official import OFFICIAL, load_moabb
from spdtokens.datasets.recordings import RAW, from_files, is_mne_file
from spdtokens.datasets.select import COMMON, Selection, channel_names, select
from spdtokens.datasets.simulated import SIMULATED
from spdtokens.datasets.simulated_emg import sim_emg
from spdtokens.datasets.units import agreed_unit, volts_of
from spdtokens.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table


#: Functions that return a data set, by its name. Plugins add theirs.
DATASETS: dict[str, Callable[..., Dataset]] = {**SIMULATED, "sim-emg": sim_emg}
#: Options of every data set that is loaded by name.
FOR_ALL = ("channels", "resample", "unit")


@dataclass(frozen=True)
class Listing:
    """One row of ``spdtokens datasets``.

    Attributes
    ----------
    name : str
        Name to pass to :func:`load_dataset`.
    description : str
        What was recorded.
    here : bool
        Whether the data are on this machine.
    how_to_get : str
        Which files are expected, and where to get them.
    """

    name: str
    description: str
    here: bool
    how_to_get: str


def list_datasets() -> list[Listing]:
    """List the data sets known by name, whether they are on this machine, and how to get them.

    Returns
    -------
    list of Listing
        One per data set, with the attributes ``name``, ``description``, ``here`` and
        ``how_to_get``.

    See Also
    --------
    spdtokens.load_dataset : Load one of them.

    Examples
    --------
    >>> from spdtokens.datasets import list_datasets
    >>> [listing.name for listing in list_datasets()][:3]
    ['sim-mi', 'sim-erp', 'sim-ssvep']
    """
    simulated = [
        Listing(name, make().description, True, "included") for name, make in DATASETS.items()
    ]
    official = [
        Listing(source.name, source.description, source.is_present(None), source.how_to_get)
        for source in OFFICIAL.values()
    ]
    moabb = Listing(
        "moabb:NAME",
        "Any data set of MOABB by the name of its class, such as moabb:BNCI2014_001",
        find_spec("moabb") is not None,
        "pip install 'spdtokens[moabb]'; MOABB downloads the data on first use",
    )
    return [*simulated, *official, moabb]


def datasets_table(listings: Sequence[Listing]) -> Table:
    """Table of data sets: name, availability, description, source."""
    return table(
        ["name", "here", "description~", "how to get it~"],
        [(x.name, "yes" if x.here else "no", x.description, x.how_to_get) for x in listings],
        "Data sets",
        show_lines=True,
    )


def load_dataset(name_or_path: str | Path, **options: Any) -> Dataset:
    """Load a data set by name, or from files.

    Parameters
    ----------
    name_or_path : str or Path
        Name of a data set: ``'sim-mi'``, ``'sim-erp'``, ``'sim-ssvep'``, ``'sim-emg'`` (simulated),
        ``'bci2a'``, ``'bcicha'``, ``'mamem'`` (published files on disk) or ``'moabb:NAME'``. Or a
        file, or a folder of files: ``.npz`` trials, MNE epochs (``-epo.fif``), or recordings in a
        format that MNE reads (``.edf``, ``.bdf``, ``.gdf``, ``.vhdr``, ``.set``, ``.fif``).
    **options : dict
        For all data sets:

        - ``channels``: sequence of channel names, in this order, or ``'common'`` for the channels
          that all recordings have. Default: all EEG channels.
        - ``resample``: sampling rate in Hz, at most that of the recordings. Default: theirs.
        - ``unit``: ``'V'``, ``'mV'``, ``'uV'`` or ``'nV'``, unit of signals that do not state
          theirs; for covariances, that of the signals they were computed from. Default: unknown.

        For files:

        - ``events``: classes and their events, such as ``{"left": "769", "right": "770"}`` or
          ``"left=769,right=770"``. Default: every event that occurs at least five times is a class.
        - ``tmin``, ``tmax``: begin and end of a trial, in seconds after the event. Default: the
          whole epoch, or the duration of the annotations.
        - ``label_from``: source of the labels: ``'annotations'`` or a trigger channel of a
          recording, a metadata column of epochs, an array of an ``.npz`` file.

        Other options are passed to the loader of a named data set, such as ``folder`` for the
        published files or ``segments`` for ``'mamem'``.

    Returns
    -------
    Dataset
        Data set whose recordings are read on demand.

    Raises
    ------
    DataError
        If there is no such data set or file, if it has no such option, if a file cannot be read or
        lacks the events, if the files of a folder differ in channels, sampling rate or trial
        length, or if ``unit`` contradicts the unit that is stated.

    See Also
    --------
    spdtokens.datasets.list_datasets : Names of the data sets.
    spdtokens.datasets.from_arrays : Make a data set from arrays.
    spdtokens.datasets.select : Restrict a data set to some trials, classes or channels.

    Examples
    --------
    >>> from spdtokens import load_dataset
    >>> dataset = load_dataset("sim-mi", channels=["C3", "Cz", "C4"], resample=125)
    >>> dataset.classes
    ('left hand', 'right hand', 'feet', 'tongue')
    >>> dataset.ch_names, dataset.sfreq
    (('C3', 'Cz', 'C4'), 125)
    """
    if not isinstance(name_or_path, str | Path):
        raise DataError(
            f"name_or_path must be a str or a Path, got {type(name_or_path).__name__}. For arrays "
            "use spdtokens.datasets.from_arrays(X, y, sfreq=250), without sfreq for covariances."
        )
    name = str(name_or_path)
    loaders = dict(DATASETS)
    loaders |= {known: source.load for known, source in OFFICIAL.items()}
    if name.startswith("moabb:"):
        loaders[name] = partial(load_moabb, name.removeprefix("moabb:"))
    if name in loaders:
        return _named(name, loaders[name], options)
    path = Path(name_or_path)
    if path.exists():
        if path.is_dir() or is_mne_file(path) or path.suffix == ".npz":
            _check_options(name, options, [field.name for field in fields(Cutting)])
            return from_files(path, Cutting(**options))
        raise DataError(
            f"{path} must be .npz, MNE epochs (-epo.fif) or a recording ({', '.join(RAW)}), or a "
            "folder of them."
        )
    if path.suffix:
        raise DataError(f"There is no file {name}. Check the path.")
    raise DataError(
        f"There is no data set {name!r}, and no file or folder of that name. Data sets: "
        f"{', '.join(loaders)}, moabb:NAME."
    )


def _named(name: str, make: Callable[..., Dataset], options: dict[str, Any]) -> Dataset:
    """Call a loader, then select channels, rate and unit; it may select channels itself."""
    parameters = signature(make).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        _check_options(
            name, options, [*FOR_ALL, *(one for one in parameters if one not in FOR_ALL)]
        )
    channels = channel_names(options.pop("channels", ()))
    selection = Selection(channels=channels, resample=options.pop("resample", None))
    unit = volts_of(options.pop("unit", None))
    if channels and "channels" in parameters and channels != (COMMON,):
        options["channels"] = channels
    dataset = make(**options)
    unit = agreed_unit(dataset.unit_in_volts, unit, name)
    return select(replace(dataset, unit_in_volts=unit), selection)


def _check_options(name: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Refuse options that a loader does not have."""
    unknown = [option for option in options if option not in known]
    if unknown:
        raise DataError(
            f"{name} has no option {', '.join(map(repr, unknown))}. It has: {', '.join(known)}."
        )
