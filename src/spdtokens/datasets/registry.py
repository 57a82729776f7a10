"""Data sets by name or path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from spdtokens.errors import DataError

if TYPE_CHECKING:
    from rich.table import Table


#: Functions that make data sets, by the names of these; others are entered here.
DATASETS: dict[str, Callable[..., Dataset]] = {**SIMULATED}


@dataclass(frozen=True)
class Listing:
    """A line of ``spdtokens datasets``."""

    name: str
    description: str
    here: bool
    how_to_get: str


def list_datasets() -> list[Listing]:
    """All data sets known by name, whether they are on this machine, and how to get them."""
    simulated = [
        Listing(name, make().description, True, "made on demand") for name, make in DATASETS.items()
    ]
    official = [
        Listing(source.name, source.description, source.is_present(None), source.how_to_get)
        for source in OFFICIAL.values()
    ]
    moabb = Listing(
        "moabb:NAME",
        "any data set of MOABB by its class name, such as moabb:BNCI2014_001",
        find_spec("moabb") is not None,
        "pip install 'spdtokens[moabb]'; MOABB downloads the data when it is first used",
    )
    return [*simulated, *official, moabb]


def datasets_table(listings: Sequence[Listing]) -> Table:
    """What there is, whether it is here, how to get it."""
    return table(
        ["name", "here", "what it holds~", "how to get it~"],
        [(x.name, "yes" if x.here else "no", x.description, x.how_to_get) for x in listings],
        "Data sets",
        show_lines=True,
    )


def load_dataset(name_or_path: str | Path, **options: Any) -> Dataset:
    """Data set by name, or from the user's own files.

    Parameters
    ----------
    name_or_path : str or Path
        ``'sim-mi'``, ``'sim-erp'``, ``'sim-ssvep'``; ``'bci2a'``, ``'bcicha'``, ``'mamem'`` from
        files on disk; ``'moabb:NAME'``; a folder of ``.npz`` files, or one such file; MNE epochs
        (``-epo.fif``) or recordings in any format MNE reads, a file or a folder of them.
    **options
        ``channels`` (names in their order, or ``'common'`` for those that all recordings have) and
        ``resample`` (a rate in Hz); of own files the others of
        :class:`~spdtokens.datasets.files.Cutting`: ``events``, ``tmin``, ``tmax``,
        ``label_from``. Any other is passed to the loader, such as ``folder`` for the official sets.
    """
    if not isinstance(name_or_path, str | Path):
        raise DataError(
            f"A data set is given by name or path, got {type(name_or_path).__name__}. For arrays "
            "use spdtokens.datasets.from_arrays(X, y, sfreq=250), without sfreq for covariances."
        )
    name = str(name_or_path)
    makers = dict(DATASETS)
    makers |= {known: source.load for known, source in OFFICIAL.items()}
    if name.startswith("moabb:"):
        makers[name] = partial(load_moabb, name.removeprefix("moabb:"))
    if name in makers:
        return _named(makers[name], options)
    path = Path(name_or_path)
    if path.exists():
        # BIDS: a folder with dataset_description.json would be told apart here.
        if path.is_dir() or is_mne_file(path) or path.suffix == ".npz":
            return from_files(path, Cutting(**options))
        raise DataError(
            f"{path}: a file of this kind is not a data set. Give .npz, MNE epochs (-epo.fif) or a "
            f"recording ({', '.join(RAW)}), or a folder of them."
        )
    raise DataError(
        f"There is no data set {name!r}, and no such folder or file. Known by name: "
        f"{', '.join(makers)}, moabb:NAME."
    )


def _named(make: Callable[..., Dataset], options: dict[str, Any]) -> Dataset:
    """A data set that is known by name, its channels and rate chosen by us or its loader."""
    channels = channel_names(options.pop("channels", ()))
    selection = Selection(channels=channels, resample=options.pop("resample", None))
    if channels and "channels" in signature(make).parameters and channels != (COMMON,):
        options["channels"] = channels
    return select(make(**options), selection)
