"""Data sets by name or path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spdtokens.data.base import DataError, Dataset
from spdtokens.data.cutting import Cutting
from spdtokens.data.mne_files import RAW, from_mne_files, is_mne_file
from spdtokens.data.official import OFFICIAL, load_moabb
from spdtokens.data.own import from_npz_file, from_npz_folder
from spdtokens.data.simulated import SIMULATED


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
        Listing(name, make().description, True, "made on demand")
        for name, make in SIMULATED.items()
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


def load_dataset(name_or_path: str | Path, **options: Any) -> Dataset:
    """Data set by name, or from the user's own files.

    Parameters
    ----------
    name_or_path : str or Path
        ``'sim-mi'``, ``'sim-erp'``, ``'sim-ssvep'``; ``'bci2a'``, ``'bcicha'``, ``'mamem'`` from
        files on disk; ``'moabb:NAME'``; a folder of ``.npz`` files, or one such file; MNE epochs
        (``-epo.fif``) or recordings in any format MNE reads, a file or a folder of them.
    **options
        Passed to the loader, such as ``folder`` for the official sets; of own files those of
        :class:`~spdtokens.data.cutting.Cutting`: ``events``, ``tmin``, ``tmax``, ``label_from``,
        ``channels``.
    """
    if not isinstance(name_or_path, str | Path):
        raise DataError(
            f"A data set is given by name or path, got {type(name_or_path).__name__}. For arrays "
            "use spdtokens.data.from_arrays(X, y, sfreq=250), without sfreq for covariances."
        )
    name = str(name_or_path)
    makers: dict[str, Callable[..., Dataset]] = {**SIMULATED}
    makers |= {known: source.load for known, source in OFFICIAL.items()}
    if name in makers:
        return makers[name](**options)
    if name.startswith("moabb:"):
        return load_moabb(name.removeprefix("moabb:"), **options)
    path = Path(name_or_path)
    if path.is_dir() and not any(is_mne_file(file) for file in path.iterdir()):
        return from_npz_folder(path, **options)
    if path.is_dir() or (path.is_file() and is_mne_file(path)):
        return from_mne_files(path, Cutting(**options))
    if path.is_file() and path.suffix == ".npz":
        return from_npz_file(path, Cutting(**options))
    if path.is_file():
        raise DataError(
            f"{path}: a file of this kind is not a data set. Give .npz, MNE epochs (-epo.fif) or a "
            f"recording ({', '.join(RAW)}), or a folder of them."
        )
    raise DataError(
        f"There is no data set {name!r}, and no such folder or file. Known by name: "
        f"{', '.join(makers)}, moabb:NAME."
    )
