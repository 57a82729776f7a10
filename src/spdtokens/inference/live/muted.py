"""Keep liblsl from writing into the view."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def liblsl_muted() -> Iterator[TextIO]:
    """Give standard error as it was, and let nobody else write to it meanwhile.

    liblsl tells of lost connections on standard error, from its own threads and in the middle of
    the view. What matters of it we tell ourselves.
    """
    try:
        ours = sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:  # someone has put something else in its place, and sees what we write there
        yield sys.stderr
        return
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        with os.fdopen(os.dup(saved), "w", encoding=sys.stderr.encoding, buffering=1) as before:
            yield before
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
