"""Isolate LSL streams of tests from other streams on this machine and network."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

from spdtokens.runtime import model_bytes
from tests.inference.helpers import made

# liblsl reads its settings once, on first use, so they are set here.
# Multicast that does not leave the machine (with the scope "machine" only the last of several
# outlets would be seen), also where there is no network; and streams of this process only.
_FOLDER = tempfile.TemporaryDirectory(prefix="spdtokens-lsl-")
_FILE = Path(_FOLDER.name) / "lsl_api.cfg"
_FILE.write_text(
    "[multicast]\nResolveScope = link\nTTLOverride = 0\n"
    f"[lab]\nKnownPeers = {{127.0.0.1}}\nSessionID = spdtokens-test-{os.getpid()}\n"
    "[log]\nlevel = -2\n"
)
os.environ["LSLAPICFG"] = str(_FILE)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a stream name that no other test uses."""
    return re.sub(r"\W", "-", f"{request.node.name}-{os.getpid()}").strip("-")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write a small model file."""
    path = tmp_path / "model.spdt"
    path.write_bytes(model_bytes(made("imagery").decoder))
    return path
