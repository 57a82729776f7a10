"""The command line: parse, call, print."""

from spdtokens.cli import bench, data, evaluate, study, theory  # noqa: F401  (add commands)
from spdtokens.cli.app import app

__all__ = ["app"]
