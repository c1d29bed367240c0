"""Answers as tables on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from gainbias.cli.sweeps_terminal import duration


def show_solution(answer: dict[str, Any]) -> None:
    """Show gain, method and the extremes of the bias."""
    facts = Table(show_header=False, title="Solution")
    facts.add_row("task", escape(answer["subject"]))
    facts.add_row("gain", f"{answer['gain']:.12g}")
    facts.add_row("method", answer["method"])
    facts.add_row("error bound", f"{answer['error_bound']:.1e}")
    facts.add_row("states", str(answer["num_states"]))
    facts.add_row("seconds", f"{answer['seconds']:.3g}")
    extremes = Table("state", "bias", title="Lowest and highest bias")
    shown: set[int] = set()
    for name in ("lowest_bias", "highest_bias"):
        for entry in answer[name]:
            if entry["state"] not in shown:
                shown.add(entry["state"])
                extremes.add_row(escape(entry.get("label", str(entry["state"]))), f"{entry['bias']:.12g}")
        extremes.add_section()
    console = Console()
    console.print(facts, extremes)
    for note in answer["notes"]:
        console.print(note, markup=False)


def show_algorithms(algorithms: list[dict[str, Any]]) -> None:
    """Show what each algorithm converges to, and its row in the paper."""
    table = Table(
        Column("id", no_wrap=True),
        "converges to",
        "uses",
        "row in the paper's Table 1",
        Column("parameters", overflow="fold"),
        show_lines=True,
    )
    for entry in algorithms:
        parameters = ", ".join(f"{name}={default}" for name, default in entry["parameters"].items())
        source = entry["table_row"] or ("ours" if entry["ours"] else "-")
        table.add_row(
            entry["id"], entry["converges_to"], str(entry["transitions_per_step"]), source, parameters
        )
    Console().print(table)


def show_health(answer: dict[str, Any]) -> None:
    """Show versions, optional parts that are missing, threads and compiled kernels."""
    base = Table("part", "version", title="Needed")
    for name, version in answer["versions"].items():
        base.add_row(name, version)
    optional = Table("extra", "part", "version", title="Optional")
    for extra, parts in answer["extras"].items():
        for name, found in parts.items():
            optional.add_row(extra, name, found or escape(f"missing: pip install 'gainbias[{extra}]'"))
    state = Table(show_header=False, title="This machine")
    for name, text in _state(answer["threads"], answer["kernels"]).items():
        state.add_row(name, escape(text))
    Console().print(base, optional, state)


def _state(threads: dict[str, Any], kernels: dict[str, Any]) -> dict[str, str]:
    """Return threads and kernels in words."""
    limit = threads["linear_algebra"]
    stored = f"{kernels['stored']} in {kernels['folder']}, {kernels['megabytes']:g} MB; may be deleted"
    nowhere = "not kept: each process compiles what it needs"
    return {
        "processor": f"{threads['processor']}, cores: {threads['cores']}",
        "linear algebra": f"threads: {limit}" if limit else "as many threads as there are cores",
        "kernels": "compiled" if kernels["compiled"] else "not compiled, and slow: NUMBA_DISABLE_JIT is set",
        "compiled before": stored if kernels["folder"] else nowhere,
    }


def show_tasks(tasks: list[dict[str, Any]]) -> None:
    """Show what each task is."""
    settings_column = Column("settings", overflow="fold")
    table = Table(
        Column("id", no_wrap=True), "paper", "states", "what it is", settings_column, show_lines=True
    )
    for entry in tasks:
        settings = ", ".join(f"{name}={value}" for name, value in entry["settings"].items())
        is_in_the_paper = "yes" if entry["in_the_paper"] else ""
        table.add_row(
            entry["id"], is_in_the_paper, str(entry["num_states"]), escape(entry["summary"]), escape(settings)
        )
    Console().print(table)


def show_trace(answer: dict[str, Any]) -> None:
    """Show what each lane learned, and the exact values, by which errors can be judged."""
    made, planned = answer["steps_made"], answer["num_steps"]
    steps = f"{made}" if made == planned else f"{made} of {planned}"
    title = f"{answer['algorithm']}: {steps} steps, {answer['transitions']} transitions"
    sizes = {lane["step_size"] for lane in answer["lanes"]}
    if len(sizes) == 1:
        title += f", step size {min(sizes)}"
    own = [] if len(sizes) == 1 else ["step size"]
    table = Table("seed", *own, "gain", "centred error", "full error", "outcome", title=escape(title))
    for lane in answer["lanes"]:
        size = [lane["step_size"]] if own else []
        errors = (f"{lane[f'error_{kind}']:.4g}" for kind in ("centred", "full"))
        table.add_row(str(lane["seed"]), *size, f"{lane['gain']:.6g}", *errors, _ended(lane))
    low, high = answer["exact_values"]["lowest"], answer["exact_values"]["highest"]
    console = Console()
    console.print(table)
    console.print(f"exact gain {answer['exact_gain']:.12g}; errors are distances to the exact bias")
    console.print(
        f"the exact values spread over {high - low:.4g}, from {low:.4g} to {high:.4g}; the norm of the bias, "
        f"which is the error of weights 0, is {answer['bias_norm']:.4g}"
    )


def _ended(lane: dict[str, Any]) -> str:
    if lane["outcome"] == "finished":
        return "finished"
    is_cut = lane["outcome"] == "interrupted" and lane["checkpoint"]
    shown = f", shown at {lane['checkpoint']}" if is_cut else ""
    return f"{lane['outcome']} at {lane['outcome_step']}{shown}"


LABELS = {"index.html": "page", "verdicts.md": "verdicts"}
"""What files of a report are called, where it is not their name."""


def show_study(answer: dict[str, Any]) -> None:
    """Show how much was run, and where to begin to read."""
    report = Path(answer["folder"], "report")
    table = Table(show_header=False, title="Study")
    each = ", ".join(
        f"{name} {len(protocol['seeds']) * len(answer['tasks'])}"
        for name, protocol in answer["protocols"].items()
    )
    stored = f"; {answer['reused']} had been stored before" if answer["reused"] else ""
    table.add_row("instances", f"{answer['units']}: {each}{stored}")
    for told in answer.get("shortened", ()):
        table.add_row("beware", told)
    table.add_row("time", f"runs {duration(answer['seconds'])}, report {duration(answer['report_seconds'])}")
    for name in ("index.html", "verdicts.md", "tables", "figures", "scores"):
        table.add_row(LABELS.get(name, name), Text(str(report / name), overflow="fold"))
    Console().print(table)


def show_page(answer: dict[str, Any]) -> None:
    """Show where the interactive page is."""
    size = f"{answer['bytes'] / 1e6:.1f} MB"
    Console().print(Text(f"{answer['page']}: {size}, opens in a browser", overflow="fold"))
