"""The command line: parse, call, print."""

from spdtokens.cli import bench, data, evaluate, theory  # noqa: F401  (they add their commands)
from spdtokens.cli.app import app

__all__ = ["app"]
