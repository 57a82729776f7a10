"""Data sets and their checks as tables."""

from __future__ import annotations

from rich import box
from rich.markup import escape
from rich.table import Table

from spdtokens._tables import counted
from spdtokens.datasets.base import Dataset
from spdtokens.datasets.check import RecordingCheck
from spdtokens.datasets.registry import Listing


def datasets_table(listings: list[Listing]) -> Table:
    """What there is, whether it is here, how to get it."""
    table = Table(title="Data sets", box=box.SIMPLE, show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("here", justify="center")
    table.add_column("what it holds", ratio=4)
    table.add_column("how to get it", ratio=5)
    for listing in listings:
        table.add_row(
            f"[bold]{escape(listing.name)}[/]",
            "[green]yes[/]" if listing.here else "no",
            escape(listing.description),
            escape(listing.how_to_get),
        )
    return table


def describe(dataset: Dataset) -> str:
    """The data set in a few lines."""
    fewest, most = (f(len(s) for s in dataset.index.values()) for f in (min, max))
    each = ("" if fewest == most else f"{fewest}-") + counted(most, "session")
    lines = [
        f"{dataset.name}: {dataset.description}",
        f"{counted(len(dataset.subjects), 'subject')}, {each} each, {dataset.paradigm}",
        f"classes: {', '.join(dataset.classes)}",
        f"{counted(len(dataset.ch_names), 'channel')}: {', '.join(dataset.ch_names)}",
    ]
    if dataset.is_covariance:
        lines.append("covariance matrices, no signals")
    else:
        left, right = dataset.window
        lines.append(
            f"{dataset.sfreq:g} samples a second, trials from {dataset.tmin:g} s, "
            f"to decode: {left:g} to {right:g} s"
        )
    if dataset.stimulus_hz:
        lines.append(f"stimuli at {', '.join(f'{f:g}' for f in dataset.stimulus_hz)} Hz")
    low, high = dataset.filtered
    if low or high:
        lines.append(f"already filtered: {low or 0:g} to {high or float('inf'):g} Hz")
    return "\n".join(lines)


def check_table(checks: list[RecordingCheck], unit_in_volts: float | None) -> Table:
    """One row a recording, problems in words."""
    good = sum(not check.problems for check in checks)
    table = Table(
        title="Recordings", box=box.SIMPLE, caption=f"{good} of {len(checks)} without remarks"
    )
    for name, justify in (
        ("subject", "left"),
        ("session", "left"),
        ("trials", "right"),
        ("channels x samples", "right"),
        ("trials a class", "left"),
        ("rms", "right"),
        ("rank", "right"),
        ("remarks", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for check in checks:
        rms = f"{check.rms:.3g}"
        if unit_in_volts is not None:
            rms = f"{check.rms * unit_in_volts * 1e6:.3g} uV"
        table.add_row(
            check.subject,
            check.session,
            str(check.trials),
            f"{check.shape[0]} x {check.shape[1]}",
            ", ".join(str(n) for n in check.classes.values()),
            rms,
            str(check.rank),
            "[yellow]" + escape("; ".join(check.problems)) + "[/]" if check.problems else "-",
        )
    return table
