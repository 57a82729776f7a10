"""BCI Competition IV data set 2a: four-class motor imagery, nine subjects, two sessions.

Three kinds of files hold it: the competition's GDF files with their label files, the BNCI Horizon
MATLAB files, and the trials that the authors of MAtt made ready. The first two are the same
recordings, and give the same trials.

What the paper decodes. It crops samples [124, 562) of MAtt's trials and states 250 Hz. Those 438
samples are 3.5 s only at the 125 Hz to which MAtt's trials were brought; with trials that start
0.5 s before the cue that is 0.5 to 4.0 s after it, the usual window. At 250 Hz the same samples
would be 1.75 s right from the cue. ``crop`` chooses the reading:

- ``"matt"`` (default): 0.5 to 4.0 s after the cue.
- ``"paper-250"``: the paper at its word, -0.004 to 1.748 s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from spdtokens.datasets.base import Dataset, Recording
from spdtokens.datasets.official import bci2a_bnci, bci2a_gdf, matt
from spdtokens.datasets.official._places import check_layout, first_layout, matching
from spdtokens.datasets.official._reading import cut, expect, first_samples, overlap_groups
from spdtokens.datasets.official.bci2a_session import CHANNELS, CLASSES, SFREQ, Session

NAME = "bci2a"
AVAILABLE = (
    "BCI Competition IV 2a: motor imagery of left hand, right hand, feet, tongue; 9 subjects, "
    "sessions T and E of 288 trials, 22 channels, 250 Hz"
)
HOW_TO_GET = (
    "Expected: A01T.gdf, A01E.gdf, ... of BCI Competition IV data set 2a (bbci.de) with "
    "the label files A01E.mat, ... (archive 'true labels' of the same site); or A01T.mat, "
    "A01E.mat, ... of BNCI Horizon 2020, data set 001-2014 (bnci-horizon-2020.eu); or MAtt's "
    "BCIC_S01_T.mat, BCIC_S01_E.mat, ..."
)
Crop = Literal["matt", "paper-250"]
WINDOWS: dict[str, tuple[float, float]] = {"matt": (0.5, 4.0), "paper-250": (-0.004, 1.748)}
INTERVAL = (-0.5, 4.5)
TRIALS, RUNS = 288, 6
FILE = r"A0([1-9])([TE])\."


def _gdf_files(folder: Path) -> dict[tuple[str, ...], Path]:
    found = matching(folder, FILE + "gdf")
    return {(subject, session.upper()): path for (subject, session), path in found.items()}


LAYOUTS: dict[str, Callable[[Path], bool]] = {
    "gdf": lambda folder: bool(_gdf_files(folder)),
    "bnci": lambda folder: bool(bci2a_bnci.files(folder)),
    "matt": lambda folder: bool(matching(folder, matt.BCI2A)),
}


def load_bci2a(
    folder: Path | None = None, *, crop: Crop = "matt", layout: str | None = None
) -> Dataset:
    """BCI Competition IV data set 2a from official files.

    Parameters
    ----------
    folder : Path, optional
        Where the files are; else ``$SPDTOKENS_DATA/bci2a``, else ``~/spdtokens_data/bci2a``.
    crop : {'matt', 'paper-250'}
        The part of a trial to decode; see the module.
    layout : {'gdf', 'bnci', 'matt'}, optional
        Kind of files to read, if a folder holds several.
    """
    expect(crop in WINDOWS, f"bci2a has no crop {crop!r}. There are: {', '.join(WINDOWS)}.")
    check_layout(NAME, layout, LAYOUTS)
    layouts = {layout: LAYOUTS[layout]} if layout else LAYOUTS
    place, layout = first_layout(NAME, folder, layouts, HOW_TO_GET)
    if layout == "matt":
        return matt.bci2a(place, NAME, AVAILABLE, CLASSES, CHANNELS, crop)
    files = _gdf_files(place) if layout == "gdf" else bci2a_bnci.files(place)

    def read(subject: str, session: str) -> Recording:
        return _trials(subject, session, read_session(place, layout, subject, session))

    subjects = sorted({subject for subject, _ in files})
    return Dataset(
        name=NAME,
        description=AVAILABLE,
        paradigm="motor imagery",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=SFREQ,
        tmin=INTERVAL[0],
        window=WINDOWS[crop],
        index={s: tuple(session for session in "TE" if (s, session) in files) for s in subjects},
        read=read,
        filtered=(0.5, 100.0),  # by the amplifier, says the competition's description
        unit_in_volts=1.0 if layout == "gdf" else 1e-6,
    )


def read_session(folder: Path, layout: str, subject: str, session: str) -> Session:
    """Continuous signals and events of a session, checked for the 6 runs of 48 trials."""
    if layout == "gdf":
        found = bci2a_gdf.read(_gdf_files(folder)[subject, session], folder, subject, session)
    else:
        found = bci2a_bnci.read(bci2a_bnci.files(folder)[subject, session])
    runs, counts = np.unique(found.run, return_counts=True)
    expect(
        len(found.y) == TRIALS and len(runs) == RUNS and set(counts) == {TRIALS // RUNS},
        f"{found.path}: expected {RUNS} runs of {TRIALS // RUNS} trials, found {len(found.y)} "
        f"trials in {len(runs)} runs of {counts.tolist()}. The file is cut short or was edited.",
    )
    return found


def _trials(subject: str, session: str, found: Session) -> Recording:
    # The longest window in use decides what must be there, so that a crop changes no trial.
    window = (min(w[0] for w in WINDOWS.values()), max(w[1] for w in WINDOWS.values()))
    return Recording(
        subject=subject,
        session=session,
        X=cut(found.signal, found.cue, SFREQ, INTERVAL, window, found.path),
        y=found.y,
        run=found.run,
        group=overlap_groups(found.cue, SFREQ, window),
        about={"onset": first_samples(found.cue, SFREQ, INTERVAL), "artifact": found.artifact},
    )
