"""The command line: parse, call, print."""

from spdtokens.cli import (  # noqa: F401  (they add their commands)
    audit,
    bench,
    data,
    deploy,
    evaluate,
    live,
    report,
    reproduce,
    study,
    theory,
)
from spdtokens.cli.app import app

__all__ = ["app"]
