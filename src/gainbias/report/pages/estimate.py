"""The page of one evaluation: the gain, whether to trust it, how it settled down, and the values."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gainbias.evaluation.another.record import percent
from gainbias.evaluation.diagnostics import Diagnostics
from gainbias.evaluation.estimate import (
    Estimate,
    as_precise,
    in_percent,
    shortened,
    with_interval,
)
from gainbias.evaluation.gain.interval import worth_in_words
from gainbias.evaluation.observations import MOST_LISTED_OBSERVATIONS
from gainbias.evaluation.sources.spaces import plain_observation
from gainbias.evaluation.values.methods import NoLearning, NoValues
from gainbias.report.figures.estimates import (
    ValueView,
    gain_range,
    has_varied,
    settled,
    value_view,
)
from gainbias.report.figures.style import NEGATIVE, POSITIVE
from gainbias.report.pages.frame import (
    Entry,
    assembled,
    conclusion,
    dated,
    definitions,
    interval_of,
    known_number,
    known_steps,
    listed,
    paragraph,
    script_data,
    sortable_table,
    trust_of,
)
from gainbias.store import plain, write_whole

MOST_UNSEEN = 20
"""Observations at which no step began that are listed."""

MOST_ROWS = 200
"""A table of more observations than this shows only the best and the worst."""

UNSEEN, RARE = "nothing similar was seen", "too little was seen for an interval"
NO_STEP, TOO_RARE = "no step began there", "too little was seen"
"""For discrete observations: one that ends episodes may have been seen often."""

UNEXPLAINED = "lower bound on the unexplained share of the variance of TD errors"

LOOKED_FOR = "a drift, a level shift, a slow part, a period, rare events, heavy tails"

RELATIVE = (
    "The relative value of an observation is how much more than the gain the policy earns in all from there "
    "on. Its long-run mean is 0."
)

WIDTH_CHOICE = """\
<form class="controls" aria-label="What the map shows" hidden>
<label>Shown <select data-choice="shown">
<option value="value">relative value</option>
<option value="width">half-width of its interval</option>
</select></label>
</form>"""


def write_estimate_page(estimate: Estimate, path: Path, made: Mapping[str, str], subject: str = "") -> None:
    """Write the interactive page of an estimate.

    Parameters
    ----------
    estimate : Estimate
    path : Path
        The page.
    made : mapping of str to str
        How the estimate came about; the date and versions are added.
    subject : str
        What was evaluated, if that is known.
    """
    write_whole(path, estimate_html(estimate, dated(made), subject).encode())


def estimate_html(estimate: Estimate, made: Mapping[str, str], subject: str = "") -> str:
    """Return the interactive page of an estimate of a subject; ``made`` says how it came about."""
    shown = with_interval(estimate.gain, estimate.gain_interval, estimate.confidence, estimate.per)
    gain, interval = shown.replace(f" per {estimate.per}", "", 1).rsplit(", ", 1)
    facts, view = estimate.diagnostics, value_view(estimate)
    return assembled(
        "estimate.html",
        ["estimate.js"],
        title=escape(f"{subject}: gain {gain} per {estimate.per}" if subject else f"Gain {gain}"),
        trust=trust_of(facts.verdict),
        verdict=conclusion(facts.verdict, bool(facts.gain_warnings), facts.warnings, next_steps(estimate)),
        subject=escape(subject),
        what=escape(f"Average reward per {estimate.per} (gain)"),
        caption=escape(how_the_gain_is_drawn(estimate)),
        gain=escape(gain),
        interval=escape(interval_of(interval, facts.verdict)),
        about=escape(about(estimate)),
        notes=listed("Notes", facts.notes),
        values=_values_section(estimate, view),
        diagnostics=_diagnostics(estimate),
        made=definitions(made),
        data=script_data({"gain": _gain_data(estimate), "values": view and _value_data(view)}),
    )


def about(estimate: Estimate) -> str:
    """Return sentences on what the gain is, and on the data behind it."""
    if estimate.target is not None:
        overlap = estimate.target.overlap
        worth = worth_in_words(overlap.effective_sample_size, overlap.steps)
        return (
            f"Average reward per {estimate.per} in the long run of another policy than that of the log. The "
            f"{overlap.steps:,} steps of the log are worth {worth} of this policy."
        )
    return f"Average reward per {estimate.per} in the long run, from {estimate.diagnostics.data_in_words()}."


def next_steps(estimate: Estimate) -> list[str]:
    """Return what to do next, in words.

    Examples
    --------
    >>> import gainbias as gb
    >>> rewards = np.random.default_rng(0).normal(size=10_000)
    >>> for words in next_steps(gb.evaluate_log({"reward": rewards})):
    ...     print(words)
    Use the gain with its interval.
    For an interval half as wide, take 4 times as many steps: about 40,000.
    """
    facts = estimate.diagnostics
    if not facts.verdict.is_trusted:
        again = (
            facts.verdict.longer
            and f" A run that is long enough has about {_about(facts, facts.verdict.longer)} steps."
        )
        return [f"Do not report this interval.{again or ''}"]
    if np.isnan(facts.standard_error):
        return []
    use = "Use the gain with its interval."
    return [
        "Read the warnings: they put the gain in doubt." if facts.gain_warnings else use,
        f"For an interval half as wide, take 4 times as many steps: about {_about(facts, 4.0)}.",
    ]


def _about(facts: Diagnostics, times: float) -> str:
    return f"{float(f'{times * facts.num_transitions:.2g}'):,.0f}"


def how_the_gain_is_drawn(estimate: Estimate) -> str:
    """Return what the chart of the gain shows, in words."""
    percent = in_percent(estimate.confidence)
    looks = (
        "for all looks together"
        if _holds_together(estimate.diagnostics)
        else "at each length by itself, not for all looks together"
    )
    return f"Log axis. Band: {percent} interval {looks}. Runs that are too short to trust are left out."


def _holds_together(facts: Diagnostics) -> bool:
    return any("for all looks together" in note for note in facts.notes)


def how_the_interval_was_made(facts: Diagnostics) -> str:
    """Return from what the interval of the gain was computed, in words."""
    between = facts.num_chains - 1
    slow = facts.degrees - between
    if slow <= 0:
        return (
            f"the means of the {facts.num_chains} chains alone, with Student's t for {facts.degrees} degrees"
        )
    also, degrees = "", f"{slow}"
    if between:
        also, degrees = f", and the means of the {facts.num_chains} chains", f"{slow} + {between}"
    return (
        f"the {slow} lowest frequencies of the rewards, of all chains together{also}: Student's t with "
        f"{degrees} degrees of freedom, and a correction for skewness"
    )


def _values_section(estimate: Estimate, view: ValueView | None) -> str:
    if view is None:
        return paragraph(no_picture(estimate)) + _table(estimate)
    spoken = values(view)
    chart = f'<div id="values" class="chart" role="img" aria-label="{escape(spoken)}"></div>'
    hint = f'<p class="hint">{escape(how_to_read(view, estimate.confidence))}</p>'
    pictures = f"<div>{WIDTH_CHOICE * (view.form == 'map')}{chart * (len(view.seen) > 0)}{hint}</div>"
    return f'{paragraph(spoken)}<div class="values">{pictures}<div>{_table(estimate)}</div></div>'


def _table(estimate: Estimate) -> str:
    rows, left_out = value_rows(estimate)
    if not rows:
        return ""
    header = ["Observation", "Value", f"{in_percent(estimate.confidence)} interval"]
    table = sortable_table("Relative values", header, rows)
    return table + (f'<p class="hint">{escape(left_out)}</p>' if left_out else "")


def values(view: ValueView) -> str:
    """Return a sentence on the best and the worst of the values that are drawn and have intervals."""
    places = np.flatnonzero(view.known & np.isfinite(view.values))
    if not len(places):
        return "Too little was seen for an interval of any value."
    best, worst = places[np.argmax(view.values[places])], places[np.argmin(view.values[places])]
    return (
        f"Best: {_at(view, int(best))}. Worst: {_at(view, int(worst))}. Their intervals do not allow for the "
        "selection of these two."
    )


def _at(view: ValueView, place: int) -> str:
    seen = view.seen[place].tolist()
    shown = str(seen) if view.seen.dtype.kind == "i" else ", ".join(f"{x:.4g}" for x in np.ravel(seen))
    return f"{value_with_ends(view.values[place], *view.intervals[place])} at {shown}"


def how_to_read(view: ValueView, confidence: float) -> str:
    """Return what a chart of values shows, in words."""
    unknown = {
        "points": " For a grey point too little was seen for an interval.",
        "line": " Without a band, too little was seen for an interval.",
        "map": " Without a colour, too little was seen for an interval.",
        "extremes": " The worst and the best observations that have one are shown.",
    }
    is_partial = {"points": view.rare.any(), "extremes": True}.get(view.form, not view.known.all())
    partly = unknown[view.form] if is_partial else ""
    return f"{RELATIVE} Each has its own {in_percent(confidence)} interval.{partly}"


def no_picture(estimate: Estimate) -> str:
    """Return why values are not drawn, in words."""
    if isinstance(estimate.learned, NoValues):
        why = "; ".join(estimate.learned.warnings) or estimate.features.removeprefix("none: ")
        return f"There are no values here: {why}."
    if estimate.observed.limits.whole:
        return (
            f"There are more than {MOST_LISTED_OBSERVATIONS:,} different observations, too many to draw or "
            "list. Ask for values in Python: value(observation) and value_interval(observation) of the "
            "estimate."
        )
    return (
        "Values are drawn for observations of one or two numbers with bounds, or for discrete ones. Ask for "
        "others in Python: value(observation) and value_interval(observation) of the estimate."
    )


def value_rows(estimate: Estimate) -> tuple[list[list[Entry]], str]:
    """Return rows of a table of values, and what is left out; no rows for boxes, or without values."""
    limits, every = estimate.observed.limits, estimate.observed.every()
    if every is None or isinstance(estimate.learned, NoValues):
        return [], ""
    left_out = ""
    if len(every) > MOST_ROWS:
        worst, best = estimate.extreme_rows(MOST_ROWS // 2)
        first = {tuple(np.ravel(seen)) for seen, _ in best}
        listed = [seen for seen, _ in best]
        listed += [seen for seen, _ in worst[::-1] if tuple(np.ravel(seen)) not in first]
        left_out = (
            f"{len(listed)} of {len(every):,} observations: the best and the worst of those that were seen "
            f"often enough for an interval. The other {len(every) - len(listed):,} are left out."
        )
        every = np.array(listed, dtype=np.int64).reshape(len(listed), *every.shape[1:])
    names = [plain_observation(row, limits) for row in every]
    found = list(zip(names, estimate.value(every), estimate.value_interval(every), strict=True))
    if unseen := [shortened(name) for name, value, _ in found if np.isnan(value)]:
        more = f" and {len(unseen) - MOST_UNSEEN:,} more" if len(unseen) > MOST_UNSEEN else ""
        left_out = f"No step began at {', '.join(unseen[:MOST_UNSEEN])}{more}. {left_out}".strip()
    return [_row(*one) for one in found if not np.isnan(one[1])], left_out


def _row(seen: Any, value: float, ends: Any) -> list[Entry]:
    name = Entry(shortened(seen), seen if isinstance(seen, int) else None)
    if not np.isfinite(ends).all():
        return [name, Entry(_roughly(value), float(value)), Entry(TOO_RARE)]
    low, high = map(float, ends)
    shown, first, last = as_precise((value, low, high), high - low, sign="+")
    return [name, Entry(shown, float(value)), Entry(f"{first} to {last}", low)]


def _roughly(value: float) -> str:
    """Return a value that has no interval, with two digits."""
    return f"{float(f'{value:.2g}'):+g}"


def _diagnostics(estimate: Estimate) -> str:
    """Return how far to trust the gain, and how far the values."""
    parts = {"The gain": diagnostics_of_gain(estimate)}
    if estimate.diagnostics.algorithm != NoLearning.description:
        parts["The values"] = diagnostics_of_values(estimate)
    lists = (f"<div><h3>{title}</h3>{definitions(rows)}</div>" for title, rows in parts.items())
    return f'<div class="beside">{"".join(lists)}</div>'


def diagnostics_of_gain(estimate: Estimate) -> dict[str, str]:
    """Return the diagnostics of the gain in words, by their names."""
    facts = estimate.diagnostics
    place = "verdict" if facts.verdict.kind == "cut short" else "first warning"
    agreement = "not known" if np.isnan(facts.r_hat) else f"{facts.r_hat:.3f}"
    rows = {
        "Data": facts.data_in_words(),
        "Run": "complete" if facts.is_complete else f"cut short: the {place} says why",
        "Standard error": known_number(facts.standard_error),
        "Degrees of freedom": f"{facts.degrees:,}",
        "Autocorrelation time of rewards": known_steps(facts.autocorrelation_time),
        "Split R-hat": f"{agreement}; it would be 1 if all halves of all chains agreed",
    }
    if facts.verdict.kind == "steady":
        several = ", chains that disagree" * (facts.num_chains > 1)
        rows["Looked for, not found"] = (
            f"{LOOKED_FOR}{several}; fewer than 1 in 20 steady runs raise an alarm"
        )
    if estimate.target is not None:
        rows["Data"] = f"{estimate.target.overlap.steps:,} steps of the log"
        rows["Overlap"] = estimate.target.in_words()
    elif not np.isnan(facts.standard_error):
        rows["Interval"] = f"from {how_the_interval_was_made(facts)}"
    seconds = f"{facts.source_seconds:.3g} s for the data, {facts.library_seconds:.3g} s in this library"
    return rows | {"Time": seconds}


def diagnostics_of_values(estimate: Estimate) -> dict[str, str]:
    """Return the diagnostics of the values in words, by their names."""
    facts = estimate.diagnostics
    rows = {"Method": facts.algorithm, "Features": estimate.features}
    if isinstance(estimate.learned, NoValues):
        return rows
    share = facts.predictable_share
    in_span = {True: "can be expressed by the features", False: "cannot be expressed by the features"}
    return rows | {
        "Batches": f"{facts.value_batches:,}",
        "Autocorrelation time of values": known_steps(facts.mixing_time, ", the memory of the chain"),
        "Length for values": known_number(
            facts.value_effective_sample_size, " autocorrelation times of values"
        ),
        "Smallest curvature in the weights": "not computed" if facts.eta is None else known_number(facts.eta),
        "Constants": "not looked at" if facts.constant_in_span is None else in_span[facts.constant_in_span],
        "What the features miss": "not known" if np.isnan(share) else f"{UNEXPLAINED}: {percent(share)}%",
    }


def _gain_data(estimate: Estimate) -> dict[str, Any]:
    history = settled(estimate.history)
    varied = has_varied(history)
    known = varied & np.isfinite(history.high - history.low)
    parts = zip(history.gain, history.low, history.high, varied, strict=True)
    return {
        "x": history.transitions.tolist(),
        "y": plain(history.gain.tolist()),
        "low": plain(np.where(known, history.low, np.nan).tolist()),
        "high": plain(np.where(known, history.high, np.nan).tolist()),
        "texts": [
            number_with_ends(*part) if is_varied else without_interval(part[0]) for *part, is_varied in parts
        ],
        "last": plain(estimate.gain),
        "said": with_interval(estimate.gain, estimate.gain_interval, estimate.confidence).split(" per ")[0],
        "ends": f"{in_percent(estimate.confidence)} interval",
        "range": gain_range(estimate),
        "per": estimate.per,
        "colour": POSITIVE,
    }


def _value_data(view: ValueView) -> dict[str, Any]:
    known, is_whole = view.known, view.seen.dtype.kind == "i"
    unseen = NO_STEP if is_whole else UNSEEN
    low, high = np.where(known, view.intervals.T, np.nan)
    return {
        "form": view.form,
        "axes": [axis.tolist() for axis in view.axes],
        "whole": is_whole,
        "names": [str(seen) for seen in view.seen.tolist()] if view.form == "extremes" else [],
        "values": plain(view.values.tolist()),
        "low": plain(low.tolist()),
        "high": plain(high.tolist()),
        "texts": [
            value_with_ends(value, start, end, unseen)
            for value, (start, end) in zip(view.values, view.intervals, strict=True)
        ],
        "colours": [NEGATIVE, POSITIVE],
    }


def number_with_ends(middle: float, low: float, high: float) -> str:
    """Return a number and its interval, with as many digits as the interval justifies.

    Examples
    --------
    >>> number_with_ends(1.23456, 1.2, 1.29), number_with_ends(1.23456, -np.inf, np.inf)
    ('1.235 (1.200 to 1.290)', '1.234560 (-inf to inf)')
    """
    shown, first, last = as_precise((middle, low, high), high - low)
    return f"{shown} ({first} to {last})"


def without_interval(gain: float) -> str:
    """Return a gain that has no interval, and why.

    Examples
    --------
    >>> without_interval(0.0)
    '0; rewards did not vary, so there is no interval'
    """
    return f"{gain:.4g}; rewards did not vary, so there is no interval"


def value_with_ends(value: float, low: float, high: float, unseen: str = UNSEEN) -> str:
    """Return a value and its interval, or why there is none.

    Examples
    --------
    >>> value_with_ends(2.34567, 2.0, 2.6), value_with_ends(2.34567, -np.inf, np.inf)
    ('+2.35 (+2.00 to +2.60)', '+2.3, too little was seen for an interval')
    """
    if np.isnan(value):
        return unseen
    if not np.isfinite(high - low):
        return f"{_roughly(value)}, {RARE}"
    shown, first, last = as_precise((value, low, high), high - low, sign="+")
    return f"{shown} ({first} to {last})"
