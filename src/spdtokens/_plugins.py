"""Plugins: packages that register embeddings, methods, data sets, protocols or figures."""

from __future__ import annotations

from functools import cache

from spdtokens.errors import UserError

#: Entry points of this group name modules that register something (docs/extending.md).
GROUP = "spdtokens"


@cache
def load_plugins() -> None:
    """Import the modules that installed packages name in their entry points."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else entry.value
            raise UserError(
                f"The plugin {entry.name!r} of {package} cannot be imported: {error!r}. Fix it, "
                f"or run: pip uninstall {package}"
            ) from error
