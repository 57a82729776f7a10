"""What tests of several rooms use."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from spdtokens.cli import app


def run(*args: object, code: int = 0, columns: int = 160, **env: str) -> Result:
    """Run a command; an error is never a traceback."""
    runner = CliRunner(env={"COLUMNS": str(columns), **env})
    result = runner.invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def run_json(*args: object, **options: Any) -> Any:
    """What a command prints with ``--json``, which is all of standard output."""
    return json.loads(run(*args, "--json", **options).stdout)


def unboxed(text: str) -> str:
    """The text of a box of typer's, in one line."""
    return " ".join(text.replace("│", " ").split())
