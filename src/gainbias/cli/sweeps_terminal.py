"""Answers about sweeps on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

MOST_FAILURES = 10
"""So many are shown; all are in the manifest."""


def show_estimate(answer: dict[str, Any]) -> None:
    """Show how much a study is, and how long it will take."""
    table = Table(show_header=False, title="Dry run")
    for name, words in (("units", "units"), ("lanes", "lanes"), ("lane_steps", "steps of lanes")):
        table.add_row(words, f"{answer[name]:,}")
    table.add_row("steps of sample paths", f"{answer['steps']:,}")
    table.add_row("time here", f"{duration(answer['seconds'])} with {answer['workers']} workers")
    table.add_row("compilation", f"{duration(answer['compiling'])}, once")
    table.add_row("calibrated on", f"{answer['tried']} of {answer['kinds']} pairs of task and algorithm")
    Console().print(table)


def show_sweep(answer: dict[str, Any]) -> None:
    """Show what was run, what failed, and where to begin to read."""
    table = Table(show_header=False, title="Sweep")
    stored = f", of which {answer['reused']:,} had been stored before" if answer["reused"] else ""
    table.add_row("units", f"{answer['units']:,}{stored}")
    if answer["damaged"]:
        table.add_row("damaged", f"{answer['damaged']:,} stored units, computed again")
    table.add_row("lanes", f"{answer['lanes']:,}, of which {answer['diverged_lanes']:,} diverged")
    table.add_row("time", f"runs {duration(answer['seconds'])}, report {duration(answer['report_seconds'])}")
    for name, path in answer["written"].items():
        table.add_row(name, Text(path, overflow="fold"))
    console = Console()
    console.print(table)
    _show_failures(console, answer["failures"])
    for label in answer["diverged_units"][:MOST_FAILURES]:
        console.print(f"[bold]DIVERGED[/bold] {escape(label)}: in every lane")


def show_status(answer: dict[str, Any]) -> None:
    """Show how far a sweep is."""
    table = Table(show_header=False, title="Status")
    table.add_row("state", answer["state"])
    table.add_row("units", f"{answer['done']:,} of {answer['units']:,} done")
    table.add_row("failed", f"{answer['failed']:,}")
    table.add_row("damaged", f"{answer['damaged']:,}, to be computed again")
    if answer["damaged_files"]:
        table.add_row("cut short", ", ".join(answer["damaged_files"]))
    quiet = answer["quiet_seconds"]
    table.add_row("last stored", "nothing yet" if quiet is None else f"{duration(quiet)} ago")
    words = {"none": "none yet", "earlier": "from before this resume", "current": "of this study"}
    table.add_row("tables", words[answer["tables"]])
    table.add_row("begun with gainbias", answer["code"])
    console = Console()
    console.print(table)
    _show_failures(console, answer["failures"])


def show_verification(answer: dict[str, Any]) -> None:
    """Show whether units could be computed again."""
    table = Table(show_header=False, title="Verification")
    table.add_row("computed again", f"{answer['checked']:,}")
    table.add_row("same bits", f"{answer['identical']:,}")
    table.add_row("equal to 1e-9", f"{answer['close']:,}")
    table.add_row("different", f"{len(answer['different']):,}")
    table.add_row("damaged or missing", f"{len(answer['damaged']):,}")
    expected = "the same bits" if answer["exact"] else "equal to 1e-9: other sources or other machines"
    table.add_row("expected", expected)
    console = Console()
    console.print(table)
    for label in answer["different"]:
        console.print(f"[bold]DIFFERENT[/bold] {escape(label)}")
    for words in answer["damaged"][:MOST_FAILURES]:
        console.print(f"[bold]DAMAGED[/bold] {escape(words)}; --resume mends it")


def _show_failures(console: Console, failures: list[dict[str, str]]) -> None:
    if not failures:
        return
    table = Table(Column("failed", overflow="fold"), Column("because", overflow="fold"))
    for failure in failures[:MOST_FAILURES]:
        table.add_row(escape(failure["what"]), escape(failure["error"]))
    console.print(table)
    if len(failures) > MOST_FAILURES:
        console.print(f"and {len(failures) - MOST_FAILURES:,} more; --resume tries them again")


def duration(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> duration(0.25), duration(90), duration(10_000), duration(1e6)
    ('0.25 s', '90 s', '2.78 h', '11.6 days')
    """
    for unit, length, most in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172800.0)):
        if seconds < most:
            return f"{seconds / length:.2g} {unit}" if seconds < 10 else f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86400:.3g} days"
