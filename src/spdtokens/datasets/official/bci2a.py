"""BCI Competition IV data set 2a: four-class motor imagery, nine subjects, two sessions.

It is available in three layouts: the GDF files of the competition with their label files, the
MATLAB files of BNCI Horizon, and the trials preprocessed by the authors of MAtt. The first two
contain the same recordings and give the same trials.

The paper crops samples [124, 562) of MAtt's trials and states 250 Hz. MAtt's trials begin 0.5 s
before the cue and have 125 Hz, so these 438 samples are 0.5 to 4.0 s after the cue, the usual
window. At 250 Hz they would be 1.75 s from the cue on. The option ``crop`` chooses:

- ``"matt"`` (default): 0.5 to 4.0 s after the cue.
- ``"paper-250"``: as the paper states, -0.004 to 1.748 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spdtokens.datasets.base import Dataset, Recording, reading
from spdtokens.datasets.official._files import (
    Files,
    OfficialSource,
    cut,
    expect,
    index_of,
    mat_shapes,
    matching,
    matt_samples,
    matt_trials,
    read_mat,
    whole_numbers,
)
from spdtokens.errors import DataError

Crop = Literal["matt", "paper-250"]
#: Signal (22, samples) of all runs, and per trial: cue, label, run ("1" to "6"), artifact.
Session = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

CLASSES = ("left hand", "right hand", "feet", "tongue")
_MONTAGE = "Fz FC3 FC1 FCz FC2 FC4 C5 C3 C1 Cz C2 C4 C6 CP3 CP1 CPz CP2 CP4 P1 Pz P2 POz"
CHANNELS = tuple(_MONTAGE.split())
SFREQ, N_CHANNELS = 250.0, 25  # 22 EEG, then 3 EOG
TRIALS, RUNS = 288, 6
INTERVAL = (-0.5, 4.5)
WINDOWS: dict[str, tuple[float, float]] = {"matt": (0.5, 4.0), "paper-250": (-0.004, 1.748)}
# Union of the windows: every trial must cover it, so that trials do not depend on the crop.
NEEDED = (-0.004, 4.0)
# MAtt's files: names of trials and labels, samples used in the paper, sampling rate by crop.
MATT_NAMES = {"T": ("x_train", "y_train"), "E": ("x_test", "y_test")}
MATT_CROP = (124, 562)
MATT_SFREQ = {"matt": 125.0, "paper-250": 250.0}


def load_bci2a(folder: Path | None = None, *, crop: Crop = "matt") -> Dataset:
    """Load BCI Competition IV data set 2a from its published files.

    Parameters
    ----------
    folder : Path or None, default=None
        Folder of the files; if None, ``$SPDTOKENS_DATA/bci2a`` or ``~/spdtokens_data/bci2a``. If it
        contains several layouts, GDF files are preferred to those of BNCI, and these to MAtt's.
    crop : {'matt', 'paper-250'}, default='matt'
        Part of a trial to decode, see the module.
    """
    expect(crop in WINDOWS, f"crop must be one of {', '.join(WINDOWS)}, got {crop!r}.")
    place, layout, files = SOURCE.find(folder)
    description, sfreq, window = SOURCE.description, SFREQ, WINDOWS[crop]
    if layout == "matt":
        (_, session), path = min(files.items())
        n_samples = matt_samples(path, MATT_NAMES[session][0])
        expect(
            n_samples >= MATT_CROP[1],
            f"{path}: trials must have at least {MATT_CROP[1]} samples, got {n_samples}.",
        )
        description += " (trials preprocessed by MAtt)"
        sfreq = MATT_SFREQ[crop]
        window = (INTERVAL[0] + MATT_CROP[0] / sfreq, INTERVAL[0] + MATT_CROP[1] / sfreq)

    def read(subject: str, session: str) -> Recording:
        path = files[subject, session]
        if layout == "matt":
            X, y = matt_trials(path, MATT_NAMES[session], 288, len(CHANNELS), len(CLASSES))
            return Recording(subject, session, X, y, np.full(288, "1"), np.arange(288))
        label_name = f"A0{subject}{session}.mat"
        parts = _read_gdf(path, place, label_name) if layout == "gdf" else _read_bnci(path)
        signal, cue, y, run, artifact = parts
        runs, counts = np.unique(run, return_counts=True)
        expect(
            len(y) == len(cue) == len(artifact) == TRIALS
            and (len(runs), *set(counts)) == (RUNS, TRIALS // RUNS),
            f"{path} must have {RUNS} runs of {TRIALS // RUNS} trials, got {len(cue)} cues, "
            f"{len(y)} labels and {len(artifact)} artifact flags in {len(runs)} runs. The file is "
            "truncated or was edited.",
        )
        X, group, onset = cut(signal, cue, SFREQ, INTERVAL, NEEDED, path)
        about = {"onset": onset, "artifact": artifact}
        return Recording(subject, session, X, y, run, group, about)

    return Dataset(
        name=SOURCE.name,
        description=description,
        paradigm="motor imagery",
        classes=CLASSES,
        ch_names=CHANNELS,
        sfreq=sfreq,
        tmin=INTERVAL[0],
        window=window,
        index=index_of(files, "TE"),
        read=read,
        # By the amplifier, according to the description of the competition.
        filtered=(None, None) if layout == "matt" else (0.5, 100.0),
        unit_in_volts={"gdf": 1.0, "bnci": 1e-6}.get(layout),
    )


def _bnci_files(folder: Path) -> Files:
    """Find the MATLAB files; the label files of the competition have the same names."""
    found = matching(folder, r"A0([1-9])([TE])\.mat", "TE")
    return {key: path for key, path in found.items() if not _is_label_file(path)}


def _is_label_file(path: Path) -> bool:
    """Return whether this is a label file of the competition; False if it is damaged."""
    try:
        return "classlabel" in mat_shapes(path)
    except DataError:
        return False


def _read_bnci(path: Path) -> Session:
    """Read the runs in the cell array ``data``; the first ones, of eye movements, have no trials.

    ``trial`` is the first sample of each trial, counted from one; the cue follows 2 s later.
    """
    runs: list[Session] = []
    before = 0
    with reading(path):
        for run in np.atleast_1d(read_mat(path, "data")[0]):
            shape = np.shape(run.X)
            expect(
                float(run.fs) == SFREQ and len(shape) == 2 and shape[1] == N_CHANNELS,
                f"{path}: a run must have shape (samples, {N_CHANNELS}), 22 EEG and 3 EOG "
                f"channels, at {SFREQ:g} Hz, got shape {shape} at {run.fs} Hz.",
            )
            cue = before + whole_numbers(run.trial, "'trial'", path) - 1 + round(2 * SFREQ)
            if not cue.size:
                continue
            y = whole_numbers(run.y, "'y'", path, (1, len(CLASSES))) - 1
            artifact = whole_numbers(run.artifacts, "'artifacts'", path).astype(bool)
            signal = np.asarray(run.X, dtype=float)[:, : len(CHANNELS)].T
            runs.append((signal, cue, y, np.full(len(cue), str(len(runs) + 1)), artifact))
            before += len(run.X)
    expect(bool(runs), f"{path}: no run has trials.")
    signals, *others = zip(*runs, strict=True)
    cue, y, numbers, artifact = (np.concatenate(part) for part in others)
    return np.concatenate(signals, axis=1), cue, y, numbers, artifact


# Events of the GDF files; 783 is a cue of unknown class.
RUN_START, TRIAL_START, UNKNOWN_CUE, REJECTED = "32766", "768", "783", "1023"
CUES = ("769", "770", "771", "772")


def _read_gdf(path: Path, folder: Path, label_name: str) -> Session:
    """Read signals and events of a session, and labels from its label file if there is one."""
    import mne

    with reading(path):
        raw = mne.io.read_raw_gdf(path, verbose="error")
        signal = raw.get_data(picks=list(range(len(raw.ch_names)))[: len(CHANNELS)])
    names, sfreq = list(raw.ch_names), raw.info["sfreq"]
    # Most EEG channels are just called EEG.
    expect(
        sfreq == SFREQ and [name[:3] for name in names] == ["EEG"] * 22 + ["EOG"] * 3,
        f"{path} must have 22 EEG and 3 EOG channels at {SFREQ:g} Hz, got {', '.join(names)} at "
        f"{sfreq:g} Hz.",
    )
    codes = np.array([str(code) for code in raw.annotations.description])
    at = np.round(raw.annotations.onset * SFREQ).astype(np.int64)
    order = np.argsort(at, kind="stable")
    codes, at = codes[order], at[order]
    is_cue = np.isin(codes, [*CUES, UNKNOWN_CUE])
    cue, starts = at[is_cue], at[codes == RUN_START]
    # Runs of eye movements have no trials and may be missing: only runs with trials are counted.
    _, run = np.unique(np.searchsorted(starts, cue, side="right"), return_inverse=True)
    rejected = np.isin(at[codes == TRIAL_START], at[codes == REJECTED])
    y = _gdf_labels(codes[is_cue], path, folder, label_name)
    return signal, cue, y, (run + 1).astype(str), rejected


def _gdf_labels(codes: NDArray[Any], path: Path, folder: Path, name: str) -> NDArray[np.int64]:
    """Return the labels of the label file, or of the cues if there is none."""
    known = np.array([CUES.index(c) if c in CUES else -1 for c in codes], dtype=np.int64)
    # The files of BNCI have the same names.
    found = [*folder.glob(name), *sorted(folder.glob(f"*/{name}"))]
    label_file = next((p for p in found if _is_label_file(p)), None)
    if label_file is None:
        broken = f" ({found[0]} has no variable 'classlabel')" if found else ""
        expect(
            bool((known >= 0).all()),
            f"{path} has no labels, and the label file {name} of the competition (variable "
            f"'classlabel') is missing{broken}. Copy it to the folder of the GDF file.",
        )
        return known
    values = read_mat(label_file, "classlabel")[0]
    labels = whole_numbers(values, "'classlabel'", label_file, (1, len(CLASSES))) - 1
    expect(
        len(labels) == len(known) and bool(((known < 0) | (known == labels[: len(known)])).all()),
        f"The labels of {label_file} and {path} differ: {len(labels)} labels, {len(known)} cues.",
    )
    return labels


SOURCE = OfficialSource(
    name="bci2a",
    description=(
        "BCI Competition IV 2a: motor imagery of left hand, right hand, feet, tongue; 9 subjects, "
        "sessions T and E of 288 trials, 22 channels, 250 Hz"
    ),
    how_to_get=(
        "Expected: A01T.gdf, A01E.gdf, ... of BCI Competition IV data set 2a (bbci.de) with "
        "the label files A01E.mat, ... (archive 'true labels' of the same site); or A01T.mat, "
        "A01E.mat, ... of BNCI Horizon 2020, data set 001-2014 (bnci-horizon-2020.eu); or MAtt's "
        "BCIC_S01_T.mat, BCIC_S01_E.mat, ..."
    ),
    load=load_bci2a,
    layouts={
        "gdf": lambda folder: matching(folder, r"A0([1-9])([TE])\.gdf", "TE"),
        "bnci": _bnci_files,
        "matt": lambda folder: matching(folder, r"BCIC_S(0[1-9])_([TE])\.mat", "TE"),
    },
)
