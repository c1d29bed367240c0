"""Answers on a terminal, in the order of the verbs.

`show_...` puts an answer into tables; the answer is what ``--json`` prints. If the answer is not a record of
the package, `..._summary` makes one of a few plain numbers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from gainbias.cli.screen import Screen, printable, tell
from gainbias.engine.trace import Trace
from gainbias.evaluation.compare import doubt_in_words, saving_in_words
from gainbias.evaluation.estimate import in_percent, with_interval
from gainbias.evaluation.gain.interval import worth_in_words
from gainbias.evaluation.series_estimate import level_in_words, number_in_words, quantile_in_words
from gainbias.evaluation.values.methods import NoLearning
from gainbias.experiments.claims.claim import ClaimResult, notice_and_origin
from gainbias.model.solve.solution import Solution
from gainbias.model.solve.variance import knows_no_variance
from gainbias.report.claims import part_cells

EXTREMES = 3
"""How many of the lowest and highest biases are shown."""

LABELS = {"index.html": "page", "verdicts.md": "verdicts"}
"""What files of a report are called, if not by their names."""

WHY_TOO_LARGE = {
    "Gamma_1": ", which has (tau_mix + c0)^(2 rho_0 a) in it: try a smaller a, as in --step-size 1,1000"
}
"""Why constants of formulas can be larger than any float, and what can be done."""

MOST_FAILURES = 10
"""Failures that are shown at most; all are in the manifest."""


def show_demo(answer: dict[str, Any]) -> None:
    """Show the questions about a small queue, each answer beside the exact one, and where the page is."""
    table = Table(Column("data and question"), "answer", "exact", show_lines=True)
    for one in answer["answers"]:
        asked = f"{one['have']}. {one['question']}"
        table.add_row(escape(asked[:1].upper() + asked[1:]), escape(one["answer"]), one["shown_exact"])
    Screen().print(table, Text(f"open {answer['page']} in a browser", overflow="fold"))


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
    Screen().print(table)


def show_tasks(tasks: list[dict[str, Any]]) -> None:
    """Show each task with its size and its settings."""
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
    Screen().print(table)


def solution_summary(solution: Solution, seconds: float, subject: str) -> dict[str, Any]:
    """Return the source of a process, its gain, the method, errors and the extremes of the bias."""
    order = np.argsort(solution.bias, kind="stable")
    labels = solution.mrp.labels

    def entry(state: int) -> dict[str, Any]:
        name = {} if labels is None else {"label": str(labels[state])}
        bias, error = float(solution.bias[state]), float(solution.bias_error[state])
        return {"state": state, **name, "bias": bias, "bias_error": error}

    is_unknown = knows_no_variance(solution.mrp)
    return {
        "subject": subject,
        "gain": solution.gain,
        "gain_error": solution.gain_error,
        "bias_error": float(solution.bias_error.max()),
        "stationary_error_total": solution.stationary_error_total,
        "asymptotic_variance": None if is_unknown else solution.asymptotic_variance,
        "asymptotic_variance_error": None if is_unknown else float(solution.asymptotic_variance_error),
        **({} if solution.mrp.durations is None else {"per": "unit of time"}),
        "method": solution.method,
        "error_bound": solution.error_bound,
        "residual": solution.residual,
        "iterations": solution.iterations,
        "num_states": solution.mrp.num_states,
        "seconds": seconds,
        "fingerprint": solution.mrp.fingerprint,
        "notes": list(solution.notes),
        "lowest_bias": [entry(int(state)) for state in order[:EXTREMES]],
        "highest_bias": [entry(int(state)) for state in order[::-1][:EXTREMES]],
    }


def show_solution(answer: dict[str, Any]) -> None:
    """Show gain, method and the extremes of the bias, with their errors."""
    facts = Table(show_header=False, title="Solution")
    facts.add_row("task", escape(answer["subject"]))
    per = f" per {answer['per']}" if "per" in answer else ""
    facts.add_row("gain", f"{answer['gain']:.12g}{per}")
    facts.add_row("error of the gain", f"{answer['gain_error']:.1e}")
    facts.add_row("method", answer["method"])
    facts.add_row("error bound", f"{answer['error_bound']:.1e}")
    facts.add_row("states", str(answer["num_states"]))
    facts.add_row("seconds", f"{answer['seconds']:.3g}")
    extremes = Table("state", "bias", "error", title="Lowest and highest bias")
    shown: set[int] = set()
    for name in ("lowest_bias", "highest_bias"):
        for entry in answer[name]:
            if entry["state"] not in shown:
                shown.add(entry["state"])
                label, error = escape(entry.get("label", str(entry["state"]))), f"{entry['bias_error']:.1e}"
                extremes.add_row(label, f"{entry['bias']:.12g}", error)
        extremes.add_section()
    Screen().print(facts, extremes)
    for note in answer["notes"]:  # also after --quiet: a missed tolerance is a warning
        tell(f"note: {note}")


def trace_summary(trace: Trace, seconds: float) -> dict[str, Any]:
    """Return gain and errors of each lane at the last checkpoint it reached, beside the exact answer."""
    errors = {kind: trace.errors(kind) for kind in ("full", "centred", "quotient")}
    reached = [_last_reached(trace, place) for place in range(len(trace.lanes))]
    bias = trace.problem.solution.bias
    lanes = [
        {
            "seed": lane.seed,
            "step_size": "none" if trace.algorithm.declared.step_free else str(lane.step_size),
            **lane.params,
            "outcome": outcome.status,
            "outcome_step": outcome.step,
            "checkpoint": int(trace.steps[last]) if trace.steps[last] <= outcome.step else None,
            "gain": float(trace.gain[place, last]),
            **{f"error_{kind}": float(values[place, last]) for kind, values in errors.items()},
        }
        for place, (lane, outcome, last) in enumerate(zip(trace.lanes, trace.outcomes, reached, strict=True))
    ]
    made = max(outcome.step for outcome in trace.outcomes)
    is_cut = any(outcome.status == "interrupted" for outcome in trace.outcomes)
    steps_made = made if is_cut else int(trace.steps[-1])
    return {
        "algorithm": trace.algorithm.name,
        **trace.settings,
        "steps_made": steps_made,
        "transitions": steps_made * trace.algorithm.chains,
        "exact_gain": trace.problem.solution.gain,
        "exact_values": {"lowest": float(bias.min()), "highest": float(bias.max())},
        "bias_norm": float(np.linalg.norm(bias)),
        "seconds": seconds,
        "lanes": lanes,
    }


def _last_reached(trace: Trace, place: int) -> int:
    """Return the last checkpoint; for a lane that was interrupted, the last one before that."""
    if trace.outcomes[place].status != "interrupted":
        return len(trace.steps) - 1
    reached = np.flatnonzero(trace.steps <= trace.outcomes[place].step)
    return int(reached[-1]) if reached.size else 0


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
    console = Screen()
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


def show_bound(bound: dict[str, Any]) -> None:
    """Show the bound, whether it is certified, its conditions and its constants."""
    facts = Table(show_header=False)
    facts.add_row("theorem", escape(bound["theorem"]))
    facts.add_row("bounded", escape(bound["quantity"]))
    facts.add_row("formula", escape(bound["formula"]))
    facts.add_row("value", escape(_value(bound)))
    if bound["certified"] and bound["theorem_value"] > bound["value"]:
        facts.add_row("by the theorem", escape(_by_the_theorem(bound)))
    if math.isfinite(start := bound["trivial"]["without_steps"]):
        facts.add_row("at the start", f"{start:.6g}, with theta_0 = 0")
    if bound["certified"]:
        facts.add_row("informative", escape("yes" if bound["informative"] else f"NO: it {bound['note']}"))
    console = Screen()
    console.print(facts, _conditions(bound["conditions"]), _constants(bound["constants"]))


def show_sample_complexities(answer: dict[str, Any]) -> None:
    """Show the comparison table as numbers, and why numbers are missing."""
    title = f"Transitions for a squared error of {answer['epsilon']:g}, {answer['sampling']}"
    table = Table(title=escape(title))
    for heading in ("first author", "algorithm", "order"):
        table.add_column(heading, no_wrap=True)
    for heading in ("as a number", "certified", "enough in the end"):
        table.add_column(heading, justify="right")
    notes: dict[str, None] = {}
    for row in answer["rows"]:
        notes.update(dict.fromkeys(row["notes"]))
        marks = "".join(f" [{list(notes).index(note) + 1}]" for note in row["notes"])
        numbers = [row[name] for name in ("order_value", "certified", "in_the_end")]
        told = ["-" if number is None else f"{number:.2g}" for number in numbers]
        author = row["reference"].split(":")[0].split(",")[0]
        table.add_row(*map(escape, (author, row["algorithm"] + marks, row["order"], *told)))
    conditions = ", ".join(f"{name} = {value:.3g}" for name, value in answer["condition_numbers"].items())
    console = Screen()
    console.print(table)
    console.print(escape(f"{conditions} (discount {answer['discount']:g})"))
    console.print(
        "The order has no constants and is no guarantee. What is certified holds by a theorem. What is "
        "enough in the end is exact for steps a / (t + c0) with a = 2 / the slowest rate, as the error "
        "becomes small."
    )
    for number, note in enumerate(notes, 1):
        console.print(escape(f"[{number}] {note}"))


def _value(bound: dict[str, Any]) -> str:
    """Return the value, and where it comes from if not from the theorem."""
    if not bound["certified"]:
        return "not certified"
    if bound["theorem_value"] > bound["value"]:
        return f"{bound['value']:.6g}: {bound['trivial']['anyway_because']}"
    return f"{bound['value']:.6g}"


def _by_the_theorem(bound: dict[str, Any]) -> str:
    """Return what the formula gives; if it is infinite, with the constants that make it so."""
    if bound["theorem_value"] != math.inf:
        return f"{bound['theorem_value']:.6g}"
    infinite = [name for name, constant in bound["constants"].items() if math.isinf(constant)]
    reasons = [name + WHY_TOO_LARGE.get(name, "") for name in infinite if name in bound["formula"]]
    return f"inf, because of {' and '.join(reasons)}" if reasons else "inf: larger than any float"


def _conditions(conditions: list[dict[str, Any]]) -> Table:
    columns = ("condition", "found", "limit", "holds", "what would satisfy it")
    table = Table(Column(columns[0], overflow="fold"), *columns[1:], title="Conditions")
    for condition in conditions:
        table.add_row(
            escape(condition["formula"]),
            f"{condition['value']:.6g}",
            f"{condition['limit']:.6g}",
            "yes" if condition["holds"] else "NO",
            "" if condition["holds"] else escape(condition["remedy"]),
        )
    return table


def _constants(constants: dict[str, float]) -> Table:
    table = Table("constant", "value", title="Constants")
    for name, value in constants.items():
        table.add_row(escape(name), f"{value:.6g}")
    return table


def show_estimate(answer: dict[str, Any]) -> None:
    """Show the gain, the best and the worst observations, the quality of the data, and the warnings."""
    facts = answer["diagnostics"]
    table = Table(show_header=False, title="Estimate")
    shown = with_interval(answer["gain"], answer["gain_interval"], answer["confidence"], answer["per"])
    table.add_row("gain", escape(shown))
    table.add_row("verdict", facts["verdict"]["kind"])
    learns = facts["algorithm"] != NoLearning.description
    if learns:
        table.add_row("features", escape(answer["features"]))
        table.add_row("method", escape(facts["algorithm"]))
    used = f"{facts['num_transitions']:,} transitions, chains: {facts['num_chains']}"
    cut = f", first {facts['transient']:,} steps of each left out" if facts["transient"] else ""
    table.add_row("data", used + cut)
    _add_worth(table, facts, facts["num_transitions"], "rewards")
    if "target" in answer:  # another policy than the one that made the log
        table.add_row("overlap", answer["target"]["words"])
    if learns or facts["num_chains"] > 1:
        table.add_row("split R-hat", _shown(facts["r_hat"], ".4f"))
    table.add_row(
        "seconds", f"{facts['source_seconds']:.3g} to get the data, {facts['library_seconds']:.3g} to compute"
    )
    console = Screen()
    console.print(table)
    if answer["best"]:
        console.print(_extremes(answer))
    console.say(facts["warnings"], facts["notes"])


def show_series(answer: dict[str, Any]) -> None:
    """Show the verdict on a series, its mean or ratio, its quantiles, and the warnings."""
    facts, confidence = answer["diagnostics"], answer["confidence"]
    table = Table(show_header=False, title="Series")
    table.add_row("verdict", escape(answer["verdict"]["words"]))
    mean = "ratio" if answer["is_ratio"] else "mean"
    table.add_row(mean, number_in_words(answer["mean"], answer["interval"], confidence))
    for one in answer["quantiles"]:
        table.add_row(
            level_in_words(one["level"]),
            quantile_in_words(one["value"], one["interval"], one["exceedances"], confidence),
        )
    cut = f", first {answer['warm_up']:,} left out" if answer["warm_up"] else ""
    table.add_row("data", f"{facts['num_numbers']:,} numbers, chains: {facts['num_chains']}{cut}")
    _add_worth(table, facts, facts["num_numbers"], "numbers")
    names = [mean, *(level_in_words(one["level"]) for one in answer["quantiles"])]
    for name, length in zip(names, answer.get("lengths", ()), strict=False):
        table.add_row(f"length for {name}", escape(length["words"]))
    console = Screen()
    console.print(table)
    shown = [words for words in facts["warnings"] if words != answer["verdict"]["words"]]
    console.say(shown, facts["notes"])


def show_groups(answer: dict[str, Any]) -> None:
    """Show a row for each group of a column: its numbers, mean or ratio, quantiles and verdict."""
    first = next(iter(answer.values()))
    levels, name = [one["level"] for one in first["quantiles"]], "ratio" if first["is_ratio"] else "mean"
    table = Table("group", "numbers", name, *map(level_in_words, levels), "verdict", title="Series")
    for name, one in answer.items():
        quantiles = [
            quantile_in_words(found["value"], found["interval"], found["exceedances"])
            for found in one["quantiles"]
        ]
        mean = number_in_words(one["mean"], one["interval"])
        numbers = f"{one['diagnostics']['num_numbers']:,}"
        table.add_row(escape(name), numbers, mean, *quantiles, one["verdict"]["kind"])
    console = Screen()
    console.print(table)
    for name, one in answer.items():
        facts = one["diagnostics"]
        console.say([f"{name}: {words}" for words in facts["warnings"]], [])
    console.say([], next(iter(answer.values()))["diagnostics"]["notes"])


def _extremes(answer: dict[str, Any]) -> Table:
    """Return a table of the best observations, best first, then of the worst, worst first."""
    interval = f"{in_percent(answer['confidence'])} interval"
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


def _add_worth(table: Table, facts: dict[str, Any], count: int, of_what: str) -> None:
    """Add how many independent numbers the data are worth, if there is an interval."""
    if facts["standard_error"] is not None:  # JSON has None for what is not known, and for infinity
        worth = worth_in_words(facts["effective_sample_size"] or math.inf, count)
        table.add_row("effective sample", f"{worth} independent {of_what}")


def _shown(number: float | None, form: str) -> str:
    return "infinite" if number is None else format(number, form)


def show_comparison(answer: dict[str, Any]) -> None:
    """Show the difference, both gains and what pairing saved."""
    table = Table(show_header=False, title="Comparison, first less second")
    per = answer["first"]["per"]
    shown = with_interval(answer["difference"], answer["interval"], answer["confidence"], per)
    table.add_row("difference of gains", escape(shown))
    verdict = answer["verdict"]
    table.add_row("verdict", verdict + doubt_in_words(verdict, answer["doubts"]))
    for name in ("first", "second"):
        own = answer[name]
        shown = with_interval(own["gain"], own["gain_interval"], own["confidence"], per)
        table.add_row(f"gain of the {name}", escape(shown))
        if "target" in own:
            table.add_row(f"overlap of the {name}", own["target"]["words"])
    table.add_row("pairing", saving_in_words(answer["saving"], answer["difference"]))
    console = Screen()
    console.print(table)
    console.say(_all_warnings(answer), answer["notes"])


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


def show_claims(answer: list[dict[str, Any]]) -> None:
    """Show each claim with its verdict; if this is not the full test, say so above and below."""
    results = [ClaimResult.from_dict(stored) for stored in answer]
    told, console = notice_and_origin(results), Screen()
    if told:
        console.print(Text(told, style="bold"))
    _show_claims(console, results)
    if told:
        console.print(Text(told, style="bold"))


def _show_claims(console: Screen, results: list[ClaimResult]) -> None:
    """Show for each claim its figures, its verdict and the reason."""
    for result in results:
        table = Table(
            Column("measured", overflow="fold"),
            "figure",
            "interval",
            "what it is",
            "claimed",
            "verdict",
            title=escape(result.id),
        )
        for part in result.parts:
            table.add_row(*map(escape, part_cells(result.id, part)))
        console.print(table)
        console.print(
            f"[bold]{result.verdict.upper()}[/bold]: {escape(result.text)}",
            escape(result.reason),
            "",
        )
    summary = Table("claim", "verdict", title="Verdicts")
    for result in results:
        summary.add_row(result.id, result.verdict)
    console.print(summary)


def show_study(answer: dict[str, Any]) -> None:
    """Show how much of the study was run, and where its report is."""
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
    Screen().print(table)


def show_sweep(answer: dict[str, Any]) -> None:
    """Show how much of a sweep was run, what failed, and where its report is."""
    table = Table(show_header=False, title="Sweep")
    stored = f", of which {answer['reused']:,} had been stored before" if answer["reused"] else ""
    table.add_row("units", f"{answer['units']:,}{stored}")
    if answer["damaged"]:
        table.add_row("damaged", f"{answer['damaged']:,} stored units, computed again")
    table.add_row("lanes", f"{answer['lanes']:,}, of which {answer['diverged_lanes']:,} diverged")
    table.add_row("time", f"runs {duration(answer['seconds'])}, report {duration(answer['report_seconds'])}")
    for name, path in answer["written"].items():
        table.add_row(name, Text(path, overflow="fold"))
    console = Screen()
    console.print(table)
    _show_failures(console, answer["failures"])
    for label in answer["diverged_units"][:MOST_FAILURES]:
        console.print(f"[bold]DIVERGED[/bold] {escape(label)}: in every lane")


def show_calibration(answer: dict[str, Any]) -> None:
    """Show the size of a study, and how long it will take."""
    table = Table(show_header=False, title="Dry run")
    for name, words in (("units", "units"), ("lanes", "lanes"), ("lane_steps", "steps of lanes")):
        table.add_row(words, f"{answer[name]:,}")
    table.add_row("steps of sample paths", f"{answer['steps']:,}")
    table.add_row("time here", f"{duration(answer['seconds'])} with {answer['workers']} workers")
    table.add_row("tables, report", f"about {duration(answer['reporting'])}, afterwards")
    table.add_row("compilation", f"{duration(answer['compiling'])}, once")
    table.add_row("calibrated on", f"{answer['tried']} of {answer['kinds']} pairs of task and algorithm")
    Screen().print(table)


def show_status(answer: dict[str, Any]) -> None:
    """Show how far a sweep is, and what failed."""
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
    table.add_row("begun with gainbias", escape(printable(answer["code"])))
    console = Screen()
    console.print(table)
    _show_failures(console, answer["failures"])


def show_verification(answer: dict[str, Any]) -> None:
    """Show whether stored units gave the same numbers again."""
    table = Table(show_header=False, title="Verification")
    table.add_row("computed again", f"{answer['checked']:,}")
    table.add_row("same bits", f"{answer['identical']:,}")
    table.add_row("equal to 1e-9", f"{answer['close']:,}")
    table.add_row("different", f"{len(answer['different']):,}")
    table.add_row("damaged or missing", f"{len(answer['damaged']):,}")
    expected = "the same bits" if answer["exact"] else "equal to 1e-9: other sources or other machines"
    table.add_row("expected", expected)
    console = Screen()
    console.print(table)
    for label in answer["different"]:
        console.print(f"[bold]DIFFERENT[/bold] {escape(printable(label))}")
    for words in answer["damaged"][:MOST_FAILURES]:
        console.print(f"[bold]DAMAGED[/bold] {escape(printable(words))}")
    if answer["damaged"]:
        console.print("--resume repairs what is damaged or missing; remove what is in its way")
    for path in answer["foreign"][:MOST_FAILURES]:
        console.print(f"none of the study's, or not all of it, and left alone: {escape(printable(path))}")


def _show_failures(console: Screen, failures: list[dict[str, str]]) -> None:
    if not failures:
        return
    table = Table(Column("failed", overflow="fold"), Column("because", overflow="fold"))
    for failure in failures[:MOST_FAILURES]:
        table.add_row(*(escape(printable(failure[part])) for part in ("what", "error")))
    console.print(table)
    if len(failures) > MOST_FAILURES:
        console.print(f"and {len(failures) - MOST_FAILURES:,} more; --resume tries them again")


def show_page(answer: dict[str, Any]) -> None:
    """Show where the interactive page is."""
    size = f"{answer['bytes'] / 1e6:.1f} MB"
    Screen().print(Text(f"{answer['page']}: {size}, opens in a browser", overflow="fold"))


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
    for name, text in _state(answer["threads"], answer["kernels"], answer["gpu"]).items():
        state.add_row(name, escape(text))
    Screen().print(base, optional, state)


def _state(threads: dict[str, Any], kernels: dict[str, Any], gpu: dict[str, Any]) -> dict[str, str]:
    """Return threads, kernels and the GPU in words."""
    limit = threads["linear_algebra"]
    stored = f"{kernels['stored']} in {kernels['folder']}, {kernels['megabytes']:g} MB; may be deleted"
    nowhere = "not kept: each process compiles what it needs"
    return {
        "processor": f"{threads['processor']}, cores: {threads['cores']}",
        "linear algebra": f"threads: {limit}" if limit else "as many threads as there are cores",
        "kernels": "compiled" if kernels["compiled"] else "not compiled, and slow: NUMBA_DISABLE_JIT is set",
        "compiled before": stored if kernels["folder"] else nowhere,
        "GPU": gpu["missing"] or f"{gpu['device']}; {gpu['free_gigabytes']:g} GB free",
    }


def duration(seconds: float) -> str:
    """Return a time in a convenient unit.

    Examples
    --------
    >>> duration(0.25), duration(90), duration(10_000), duration(1e6)
    ('0.25 s', '90 s', '2.78 h', '11.6 days')
    """
    for unit, length, most in (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172800.0)):
        if seconds < most:
            return f"{seconds / length:.2g} {unit}" if seconds < 10 else f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86400:.3g} days"
