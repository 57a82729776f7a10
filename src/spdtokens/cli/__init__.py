"""The command line: parse, call, print."""

from spdtokens.cli import bench, data, evaluate, reproduce, study, theory  # noqa: F401
from spdtokens.cli.app import app

__all__ = ["app"]
