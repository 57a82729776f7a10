"""Packages of others that add embeddings, methods, data sets, protocols or figures by name."""

from __future__ import annotations

from functools import cache

from spdtokens.errors import UserError

#: Entry points of this group name modules that enter something in a registry: docs/extending.md.
GROUP = "spdtokens"


@cache
def load_plugins() -> None:
    """Import what installed packages name in their entry points."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            raise UserError(
                f"The plugin {entry.name!r} of {package} cannot be imported: {error!r}. Mend it, "
                f"or pip uninstall {package}."
            ) from error
