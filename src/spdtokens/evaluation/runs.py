"""A run: everything that determines it, and everything that came of it."""

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
        Name or path, as :func:`spdtokens.load_dataset` takes it.
    selection : mapping
        Values of a :class:`~spdtokens.datasets.Selection`.
    subjects : tuple of str
        Whose trials the protocol splits: the tested one, or all.
    protocol : str
    protocol_options : mapping
    access : str
        What may be seen of the target.
    alignment, domain : str
        How trials are aligned, and what shares a reference: ``'subject'`` or ``'session'``.
    subject, fold : str
        Who is tested, and on which part.
    method : str
        Name of the method, or its title where an estimator was given.
    about : mapping
        How the estimator came about, as far as it was made from a name: the settings, and what was
        cut of its default bands. Determines nothing.
    estimator : mapping
        Class and parameters: see :func:`~spdtokens.evaluation.estimators.describe`.
    seed : int or None
        None for a method without chance in it.
    data_hash : str
        Digest of the recordings the fold takes trials from.
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

    @cached_property
    def key(self) -> str:
        """Digest of all that determines the run.

        The data set and what was selected of it count by content, not by name; the method by its
        estimator's parameters; domains only where trials are aligned.
        """
        idle = ["dataset", "selection", "subjects", "method", "about"]
        return self._digest([*idle, "domain"] if self.alignment == "none" else idle)

    @cached_property
    def family(self) -> str:
        """Digest of all but subject, fold and seed: runs of one family can be trained together."""
        return self._digest(["subject", "fold", "seed", "data_hash", "subjects", "method", "about"])

    def _digest(self, idle: Iterable[str]) -> str:
        values = {name: value for name, value in asdict(self).items() if name not in idle}
        return hashlib.blake2b(as_text(values).encode(), digest_size=16).hexdigest()

    def values(self) -> dict[str, Any]:
        """As plain values, to be stored or sent."""
        return asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From what :meth:`values` gave."""
        return cls(**{**values, "subjects": tuple(values["subjects"])})


def as_text(values: Any) -> str:
    """The one JSON text of plain values."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class RunResult:
    """What came of a run.

    Attributes
    ----------
    spec : RunSpec
    ids : ndarray of str, shape (n,)
        Every test trial, in the order of the arrays below.
    y : ndarray of int, shape (n,)
    probabilities : ndarray, shape (n, classes)
        Of methods that give none, a softmax of their decision values. In double precision, since
        some methods' probabilities differ by 1e-7 only.
    train, validation, test : dict of str to float
        Every metric by name; ``validation`` is empty where no trials validated.
    sizes : dict of str to int
        Trials of each part. Labelled trials of the target are trained on, so they count as
        ``train`` and as ``calibration``; what a recipe holds back of them as ``validation``.
    curves : dict of str to ndarray, shape (epochs,)
        Empty for methods that have none.
    epoch : int or None
        The epoch, from 1, that was kept.
    leaky : str
        Why the score flatters; empty for an honest one.
    seconds : float
        To prepare, train and predict; runs done together share it equally.
    memory : float
        Peak of the process so far, in MB.
    origin : dict of str to str
        Versions, git revision, digest of the code, machine and time.
    stretch, chain : ndarray of int, shape (n,), or None
        Which test trials depend on each other: see
        :func:`~spdtokens.evaluation.trials.dependence`. Found in the recordings when runs are
        summarised, and not stored; None before.
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


# Where a result comes from: versions, revision, code, machine, time.

#: Rooms whose code can change a result: those that evaluations import.
ROOMS = ("runtime", "geometry", "preprocessing", "datasets", "classifiers", "evaluation")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pyriemann", "mne", "spd_learn")


@cache
def code_digest() -> str:
    """Digest of the code that results depend on."""
    return digest_of(ROOMS)


@cache
def git_revision() -> str:
    """Revision of the checkout this package lies in, with a + if changed; empty if none."""
    home = Path(spdtokens.__file__).parent
    try:
        where = _git(home, "rev-parse", "--show-toplevel")
        if Path(where, "src", "spdtokens").resolve() != home.resolve():
            return ""  # a repository of somebody else around an installed package
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
    """Of a result made now, in this process."""
    return {
        **_versions(),
        "code": code_digest(),
        "git": git_revision(),
        "machine": platform.machine(),
        "system": platform.system(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def differing(origins: Iterable[Mapping[str, str]]) -> str:
    """What runs do not share of their origin, with counts; empty if they share all that matters.

    Whatever can change a result counts: code, versions, machine and the kernel of the linear
    algebra, which depends on the processor.
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
    """Largest memory this process has had so far, in MB; NaN where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0**2 if sys.platform == "darwin" else 1024.0)
