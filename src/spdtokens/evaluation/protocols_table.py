"""Protocols and target access for people."""

from __future__ import annotations

from rich import box
from rich.table import Table

from spdtokens.evaluation.access import ACCESS
from spdtokens.evaluation.protocols import PROTOCOLS


def protocols_table() -> Table:
    """Who is trained on, who is tested."""
    table = Table(title="Protocols", box=box.SIMPLE)
    for header in ("name", "trained on", "tested", "options"):
        table.add_column(header, no_wrap=header == "name")
    for protocol in PROTOCOLS.values():
        options = ", ".join(f"{name} = {value}" for name, value in protocol.options.items())
        table.add_row(f"[bold]{protocol.name}[/]", protocol.train, protocol.test, options.lower())
    return table


def access_table() -> Table:
    """What may be seen of the target beside its training trials."""
    table = Table(
        title="Target access",
        caption="What may be seen of the subject or session that is tested, beside its trials that "
        "are trained on.",
        box=box.SIMPLE,
    )
    table.add_column("name", no_wrap=True)
    table.add_column("seen")
    for access in ACCESS.values():
        table.add_row(f"[bold]{access.name}[/]", access.description)
    return table
