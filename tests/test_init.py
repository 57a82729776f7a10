"""What ``import spdtokens`` gives."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spdtokens


def test_public_names_are_listed() -> None:
    """Before any of them is used, as completion in a notebook needs them."""
    code = "import spdtokens; print(*dir(spdtokens))"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert set(spdtokens.__all__) <= set(listed.stdout.split())
    assert all(hasattr(spdtokens, name) for name in spdtokens.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        spdtokens.nothing  # noqa: B018
