"""Specification and result of a run."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

import spdtokens
from spdtokens._code import digest_of


@dataclass(frozen=True)
class RunSpec:
    """What determines a run, as plain values.

    Attributes
    ----------
    dataset : str
        Name or path, as in :func:`spdtokens.load_dataset`.
    selection : mapping
        Values of a :class:`~spdtokens.datasets.Selection`.
    subjects : tuple of str
        Subjects whose trials the protocol splits: the test subject, or all.
    protocol, protocol_options, access, alignment, domain
        As in :class:`~spdtokens.evaluation.Question`.
    subject, fold : str
        Test subject, or a title of several, and name of the fold.
    method : str
        Name of the method, or title of an estimator.
    about : mapping
        Settings of a named method, and which of its default bands were cut. Not part of the key.
    estimator : mapping
        Class and parameters: see :func:`~spdtokens.evaluation.estimators.describe`.
    seed : int or None
        None for a deterministic method.
    data_hash : str
        Digest of the recordings that the fold takes trials from.
    dataset_options : mapping, default={}
        Options for loading the data set. Not part of the key: what they change in the trials is in
        ``data_hash``.
    samples : tuple of int, default=None
        First sample and one past the last that the estimator is given of each trial; None for an
        estimator that cuts the window itself, whose parameters tell.
    """

    dataset: str
    selection: Mapping[str, Any]
    subjects: tuple[str, ...]
    protocol: str
    protocol_options: Mapping[str, Any]
    access: str
    alignment: str
    domain: str
    subject: str
    fold: str
    method: str
    about: Mapping[str, Any]
    estimator: Mapping[str, Any]
    seed: int | None
    data_hash: str
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[int, int] | None = None

    @cached_property
    def key(self) -> str:
        """Digest of everything that determines the run.

        The data set and selection enter by content, not by name; the method by the parameters of
        its estimator; the domain only if trials are aligned.
        """
        idle = ["dataset", "dataset_options", "selection", "subjects", "method", "about"]
        return self._digest([*idle, "domain"] if self.alignment == "none" else idle)

    @cached_property
    def family(self) -> str:
        """Digest of all but subject, fold and seed. Runs of a family can be trained together."""
        return self._digest(["subject", "fold", "seed", "data_hash", "subjects", "method", "about"])

    def _digest(self, idle: Iterable[str]) -> str:
        values = {name: value for name, value in asdict(self).items() if name not in idle}
        if self.samples is None:
            del values["samples"]
        return hashlib.blake2b(as_text(values).encode(), digest_size=16).hexdigest()

    def values(self) -> dict[str, Any]:
        """Return plain values to store or send."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Make a specification from :meth:`values`."""
        return cls(**{**values, "subjects": tuple(values["subjects"])})


def as_text(values: Any) -> str:
    """Return the canonical JSON text of plain values."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class RunResult:
    """Result of one run: scores and predictions of one method, subject, fold and seed.

    Runs of a protocol such as ``between-subjects`` have test trials of several subjects.

    Parameters
    ----------
    spec : RunSpec
        Specification of the run: ``spec.subject``, ``spec.fold``, ``spec.seed``, ...
    ids : ndarray of str, shape (n,)
        Names of the test trials, ``'subject/session/number'``.
    y : ndarray of int, shape (n,)
        True classes of the test trials.
    probabilities : ndarray, shape (n, n_classes)
        Class probabilities of the test trials; for methods without probabilities, a softmax of
        their decision values.
    train, validation, test : dict of str to float
        All metrics of each set; ``validation`` is empty if there are no validation trials.
    sizes : dict of str to int
        Number of trials of each set. Labelled calibration trials are trained on and count both as
        ``'train'`` and ``'calibration'``.
    curves : dict of str to ndarray, shape (n_epochs,), default={}
        Training curves; empty for methods without epochs.
    epoch : int or None, default=None
        The epoch, from 1, whose weights were kept.
    leaky : str, default=''
        Why the score is optimistic; empty if it is not.
    seconds : float, default=0.0
        Time to prepare, train and predict; shared equally by runs that are trained together.
    memory : float, default=0.0
        Peak memory of the process so far, in MB.
    origin : dict of str to str, default={}
        Versions, git revision, digest of the code, machine and time.
    stretch, chain : ndarray of int, shape (n,), default=None
        The same number for test trials that depend on each other, such as overlapping ones. Found
        when runs are summarised, and not stored.

    See Also
    --------
    spdtokens.evaluation.Evaluation.predictions : Predictions of all runs in one DataFrame.

    Examples
    --------
    >>> from spdtokens import evaluate
    >>> run = evaluate("sim-mi", "mdm", subjects=1).results["mdm"][0]
    >>> run.spec.subject, run.probabilities.shape, run.sizes["train"]
    ('1', (288, 4), 288)
    """

    spec: RunSpec
    ids: NDArray[np.str_]
    y: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    train: Mapping[str, float]
    validation: Mapping[str, float]
    test: Mapping[str, float]
    sizes: Mapping[str, int]
    curves: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    epoch: int | None = None
    leaky: str = ""
    seconds: float = 0.0
    memory: float = 0.0
    origin: Mapping[str, str] = field(default_factory=dict)
    stretch: NDArray[np.int64] | None = None
    chain: NDArray[np.int64] | None = None


#: Subpackages whose code can change a result: those that evaluations import.
ROOMS = ("runtime", "geometry", "preprocessing", "datasets", "classifiers", "evaluation")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pyriemann", "mne", "spd_learn")


@cache
def code_digest() -> str:
    """Return the digest of the code that results depend on."""
    return digest_of(ROOMS)


@cache
def git_revision() -> str:
    """Return the git revision of the checkout, with a + if it was changed; empty if none."""
    home = Path(spdtokens.__file__).parent
    try:
        where = _git(home, "rev-parse", "--show-toplevel")
        if Path(where, "src", "spdtokens").resolve() != home.resolve():
            return ""  # an installed package within another repository
        changed = bool(_git(home, "status", "--porcelain", "--untracked-files=no"))
        return _git(home, "rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(where: Path, *arguments: str) -> str:
    command = ["git", "-C", str(where), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


@cache
def _versions() -> dict[str, str]:
    found = {"spdtokens": spdtokens.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    kernels = {library.get("architecture", "") for library in threadpool_info()}
    return found | {"blas": ", ".join(sorted(kernels - {""}))}


def origin() -> dict[str, str]:
    """Return versions, revision, code, machine and time of a result computed now."""
    return {
        **_versions(),
        "code": code_digest(),
        "git": git_revision(),
        "machine": platform.machine(),
        "system": platform.system(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def differing(origins: Iterable[Mapping[str, str]]) -> str:
    """Describe how the origins of runs differ, with counts; empty if they do not.

    Everything that can change a result is compared: code, versions, machine, and the kernel of the
    linear algebra, which depends on the processor.
    """
    origins = list(origins)
    keys = dict.fromkeys(key for origin in origins for key in origin if key not in ("time", "git"))
    counts = {key: Counter(origin.get(key, "unknown") for origin in origins) for key in keys}
    return "; ".join(
        f"{key} " + ", ".join(f"{value or 'unknown'} ({n})" for value, n in found.items())
        for key, found in counts.items()
        if len(found) > 1
    )


def peak_memory() -> float:
    """Return the peak memory of this process in MB; NaN if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0**2 if sys.platform == "darwin" else 1024.0)
