"""Measured speed as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from spdtokens._tables import counted


def train_tables(result: dict[str, Any]) -> Iterator[Table]:
    """What ``bench train`` found: the comparison, geometric attention, growth."""
    table = Table(
        title=f"Training at the shape of BCI2a (252 trials, 22 channels, batch "
        f"{result['batch_size']}), {counted(result['threads'], 'thread')}",
        caption="milliseconds for an epoch of one run, median of "
        f"{result['rounds']} rounds; megabytes: state kept / growth of the process, each run",
    )
    for name in ("tokens", "runs", "obvious", "cached", "spdtokens"):
        table.add_column(name, justify="right")
    for name in ("vs obvious", "vs cached", "MB a run"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["comparisons"]:
        times, memory = row["milliseconds_per_run_epoch"], row["memory"]
        table.add_row(
            str(row["tokens"]),
            str(row["runs"]),
            *(f"{times[name]:.1f}" for name in ("obvious", "cached", "spdtokens")),
            f"{row['speedup_vs_obvious']:.1f}x",
            f"{row['speedup_vs_cached']:.1f}x",
            f"{memory['state_megabytes']:.0f} / {memory['peak_megabytes']:.0f}",
        )
    yield table

    table = Table(
        title="Geometric attention, 3 tokens: seconds for 50 epochs of one run",
        caption="distances included; the paper: 1.8 to 87 times as long",
    )
    for name in ("channels", "standard", "geometric", "ratio"):
        table.add_column(name, justify="right")
    for row in result["geometric_attention"]:
        table.add_row(
            str(row["channels"]),
            f"{row['seconds_standard']:.2f}",
            f"{row['seconds_geometric']:.2f}",
            f"{row['ratio']:.2f}",
        )
    yield table

    table = Table(title="How the cost grows")
    for name in ("varied", "runs", "trials", "channels", "tokens"):
        table.add_column(name, justify="left" if name == "varied" else "right")
    table.add_column("ms per run-epoch", justify="right")
    table.add_column("µs per trial", justify="right")
    for row in result["growth"]:
        table.add_row(
            row["varied"],
            *(str(row[name]) for name in ("runs", "trials", "channels", "tokens")),
            f"{row['milliseconds_per_run_epoch']:.1f}",
            f"{row['microseconds_per_trial']:.0f}",
        )
    yield table


def methods_cost_table(rows: list[dict[str, Any]], batch: int) -> Table:
    """What ``bench methods`` found."""
    table = Table(
        title=f"Cost at 22 channels, 438 samples, 4 classes; milliseconds for {batch} trials",
        caption="MFLOP a trial counts matrix products and convolutions, not eigendecompositions. "
        "MB train: weights, gradients, Adam's moments, activations. score: the paper's efficiency, "
        "1000 / (parameters x MB x ms), which rewards smallness three times.",
    )
    table.add_column("method", no_wrap=True)
    columns = (
        ("params", "parameters", ",.0f"),
        ("MB", "size_megabytes", ".2f"),
        ("MFLOP", "flops_per_trial", ".2f"),
        ("fwd", "forward_milliseconds", ".1f"),
        ("bwd", "backward_milliseconds", ".1f"),
        ("MB train", "training_megabytes", ".0f"),
        ("trials/s", "trials_per_second", ",.0f"),
        ("score", "paper_efficiency", ".2g"),
    )
    for name, _, _ in columns:
        table.add_column(name, justify="right")
    for row in rows:
        cells = []
        for _, key, spec in columns:
            value = row[key]
            if value is not None and key == "flops_per_trial":
                value = value / 1e6
            cells.append("-" if value is None else format(value, spec))
        table.add_row(row["name"], *cells)
    return table


def study_table(found: dict[str, Any]) -> Table:
    """What ``bench study`` found."""
    table = Table(
        title=f"{found['runs']} runs ({found['subjects']} subjects, {found['seeds']} seeds, 3 "
        f"embeddings, {found['epochs']} epochs), {counted(found['threads'], 'thread')}",
        caption="From signals to stored scores. The obvious loop is extrapolated from "
        f"{found['obvious_is_extrapolated_from_epochs']} epochs measured in the same process, and "
        "gets covariances, scores and storing for nothing.",
    )
    for name in ("", "minutes", f"hours for {found['projected_runs']} runs", "peak memory"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row(
        "study",
        f"{found['seconds'] / 60:.1f}",
        f"{found['projected_hours']:.2f}",
        f"{found['peak_megabytes']:.0f} MB",
    )
    table.add_row(
        "obvious loop",
        f"{found['obvious_seconds'] / 60:.1f}",
        f"{found['projected_obvious_hours']:.2f}",
        "",
    )
    table.add_section()
    table.add_row("speedup", f"{found['speedup']:.1f}x", "", "")
    return table


def recommended_table(found: dict[str, Any]) -> Table:
    """What ``bench recommended`` found."""
    table = Table(
        title=f"{found['trials']} trials, 22 channels x 438 samples, "
        + counted(found["threads"], "thread"),
        caption="From raw trials, filters included. Ratio: the preset's time over the peer's, "
        f"below 1 it is faster; of single trials the median of {found['rounds']} rounds.",
    )
    for name in ("method", "train, s", "ratio", "one trial, ms", "ratio"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, seconds in found["train_seconds"].items():
        ratios = [found[key].get(name) for key in ("train_ratio", "decode_ratio")]
        train, decode = ("" if ratio is None else f"{ratio:.2g}" for ratio in ratios)
        milliseconds = found["decode_milliseconds"][name]
        table.add_row(name, f"{seconds:.2f}", train, f"{milliseconds:.2f}", decode)
    return table


def latency_table(result: dict[str, Any]) -> Table:
    """What ``bench latency`` found."""
    table = Table(
        title="One trial, covariance to class probabilities: milliseconds of "
        f"{result['calls']} single calls, one thread",
        caption="99 %: one call in a hundred takes longer. The paper states "
        f"{result['paper']} for a forward pass.",
    )
    for name in ("trial", "way", "median", "99 %", "faster by"):
        table.add_column(name, justify="left" if name in ("trial", "way") else "right")
    for row in result["rows"]:
        for name, times in row["milliseconds"].items():
            speedup = row["speedup"].get(name)
            table.add_row(
                f"{row['channels']} channels, {counted(row['tokens'], 'token')}",
                name,
                f"{times['median']:.3f}",
                f"{times['p99']:.3f}",
                f"{speedup:.1f}x" if speedup else "",
            )
        table.add_section()
    return table


def live_table(found: dict[str, Any]) -> Table:
    """What ``bench live`` found."""
    table = Table(
        title=f"Last sample of a window to its decision: milliseconds; {found['channels']} "
        f"channels, {found['sfreq']:g} Hz, windows of {found['window_seconds']:g} s, one thread",
        caption="core: window to probabilities; recentring learns from each. over LSL: another "
        "process pushes the last sample, to the decision being published. 99 %: one in a hundred "
        "takes longer. ratio: our median over the peer's, which does not recentre. Goal: "
        f"{found['goal_milliseconds']:g} ms.",
    )
    for name in ("way", "core", "99 %", "ratio", "over LSL", "99 %", "ratio"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name in found["core"]:
        cells = []
        for place in ("core", "loopback"):
            times, ratio = found[place][name], found[f"{place}_ratio"].get(name)
            cells += [f"{times['median']:.2f}", f"{times['p99']:.2f}"]
            cells.append("" if ratio is None else f"{ratio:.2f}")
        table.add_row(name, *cells)
    return table


def threads_table(found: dict[str, Any]) -> Table:
    """What ``bench threads`` found."""
    n = found["threads"]
    table = Table(
        title=f"{n} threads against one: milliseconds, median of {found['rounds']} rounds",
        caption=f"ratio: time with {n} threads over time with one, within rounds; below 1, threads "
        "win. Small work is done by one thread in both columns.",
    )
    for name in ("call", "1 thread", f"{n} threads", "ratio"):
        table.add_column(name, justify="left" if name == "call" else "right")
    for row in found["rows"]:
        times = row["milliseconds"]
        table.add_row(
            row["case"], f"{times['one']:.1f}", f"{times['several']:.1f}", f"{row['ratio']:.2f}"
        )
    return table
