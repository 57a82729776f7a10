"""Where a result comes from: versions, revision, code, machine, time."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

import spdtokens
from spdtokens._code import digest_of

#: Rooms whose code can change a result: those that evaluations import.
ROOMS = ("runtime", "spd", "signal", "data", "models", "training", "classifiers", "evaluation")
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
