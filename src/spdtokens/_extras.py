"""Optional dependencies (extras): whether they are installed, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

#: Packages that must be importable for an extra to count as installed.
PACKAGES = {
    "baselines": ("spd_learn",),
    "live": ("mne_lsl",),
    "onnx": ("onnx", "onnxruntime"),
}


def is_installed(extra: str | None) -> bool:
    """Return whether the packages of an extra can be imported; True for None."""
    return extra is None or all(find_spec(name) is not None for name in PACKAGES[extra])


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'spdtokens[{extra}]'"
