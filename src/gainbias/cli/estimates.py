"""Estimates and comparisons as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import gainbias
from gainbias.evaluation.compare import doubt_in_words, saving_in_words
from gainbias.evaluation.estimate import Estimate, with_interval
from gainbias.store import check_free


def show_estimate(answer: dict[str, Any]) -> None:
    """Show the gain, the best and the worst observations, how good the data are, and what to beware of."""
    facts = answer["diagnostics"]
    table = Table(show_header=False, title="Estimate")
    table.add_row("gain", with_interval(answer["gain"], answer["gain_interval"], answer["confidence"]))
    table.add_row("features", escape(answer["features"]))
    table.add_row("method", escape(facts["algorithm"]))
    used = f"{facts['num_transitions']:,} transitions, chains: {facts['num_chains']}"
    cut = f", first {facts['transient']:,} steps of each left out" if facts["transient"] else ""
    table.add_row("data", used + cut)
    worth = _shown(facts["effective_sample_size"], ",.0f")
    table.add_row("effective sample", f"{worth} independent rewards")
    table.add_row("split R-hat", _shown(facts["r_hat"], ".4f"))
    table.add_row("seconds", f"{facts['source_seconds']:.3g} for data, {facts['library_seconds']:.3g} here")
    console = Console()
    console.print(table)
    if answer["best"]:
        console.print(_extremes(answer))
    _say(console, facts["warnings"], facts["notes"])


def show_comparison(answer: dict[str, Any]) -> None:
    """Show the difference, both gains and what pairing saved."""
    table = Table(show_header=False, title="Comparison, first less second")
    shown = with_interval(answer["difference"], answer["interval"], answer["confidence"])
    table.add_row("difference of gains", shown)
    verdict = answer["verdict"]
    table.add_row("verdict", verdict + doubt_in_words(verdict, answer["doubts"]))
    for name in ("first", "second"):
        own = answer[name]
        shown = with_interval(own["gain"], own["gain_interval"], own["confidence"])
        table.add_row(f"gain of the {name}", shown)
    table.add_row("pairing", saving_in_words(answer["saving"], answer["difference"]))
    console = Console()
    console.print(table)
    _say(console, _all_warnings(answer), answer["notes"])


def _all_warnings(answer: dict[str, Any]) -> list[str]:
    """Return the warnings of a comparison and of both its estimates, each once."""
    first, second = (answer[name]["diagnostics"]["warnings"] for name in ("first", "second"))
    both = [warning for warning in first if warning in second]
    own = [
        f"{name} policy: {warning}"
        for name, warnings in (("first", first), ("second", second))
        for warning in warnings
        if warning not in both
    ]
    shared = [f"both policies: {warning}" for warning in both]
    told = {f"{name} policy: {warning}" for warning in both for name in ("first", "second")}
    rest = [warning for warning in answer["warnings"] if warning not in told | set(own) | set(both)]
    return rest + shared + own


def _shown(number: float | None, form: str) -> str:
    return "infinite" if number is None else format(number, form)


def keep_estimate(estimate: Estimate, files: Mapping[str, Path], command: str, overwrite: bool) -> None:
    """Write an estimate to the files that are named: to be read again, as a figure, and as a page.

    Parameters
    ----------
    estimate : Estimate
    files : mapping of str to Path
        Of "estimate", "figure" and "page", those that are wanted; their folders are made.
    command : str
        What was typed, for the page.
    overwrite : bool
        Whether files that are there may be replaced.
    """
    for path in files.values():
        check_free(path, overwrite)
        path.parent.mkdir(parents=True, exist_ok=True)
    if "estimate" in files:
        estimate.save(files["estimate"], overwrite)
    if "figure" in files:
        gainbias.plot(estimate).savefig(files["figure"])
    if "page" in files:
        from gainbias.report.pages.estimates import write_estimate_page

        write_estimate_page(estimate, files["page"], {"Command": command})


def _extremes(answer: dict[str, Any]) -> Table:
    """Return a table of the best observations, best first, then of the worst, worst first."""
    interval = f"{answer['confidence']:.0%} interval"
    table = Table("observation", "value", interval, title="Best and worst observations")
    shown = []
    for name in ("best", "worst"):
        for entry in answer[name]:
            if entry not in shown:
                shown.append(entry)
                low, high = entry["interval"]
                ends = f"{low:+.4g} to {high:+.4g}"
                table.add_row(str(entry["observation"]), f"{entry['value']:+.4g}", ends)
        table.add_section()
    return table


def _say(console: Console, warnings: list[str], notes: list[str]) -> None:
    for kind, words in (("warning", warnings), ("note", notes)):
        for word in words:
            console.print(Text(f"{kind}: {word}"))
