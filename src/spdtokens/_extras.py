"""Our extras: whether they are installed, and how to get them."""

from __future__ import annotations

from importlib.util import find_spec

#: The packages by whose presence an extra is known to be installed.
PACKAGES = {
    "baselines": ("spd_learn",),
    "live": ("mne_lsl",),
    "onnx": ("onnx", "onnxruntime"),
}


def is_installed(extra: str | None) -> bool:
    """Whether what an extra brings can be imported; nothing to bring (None) always can."""
    return extra is None or all(find_spec(name) is not None for name in PACKAGES[extra])


def how_to_install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'spdtokens[{extra}]'"
