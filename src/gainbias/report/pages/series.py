"""The page of a series, or of several by group: the mean, the verdict, what to do next, and why.

`write_series_page` writes it. `next_steps` and `questions` have its words: what to do about a verdict, and
the questions about the series, with the answers and the limits for an alarm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from gainbias.evaluation.estimate import in_percent
from gainbias.evaluation.gain.quantiles import QuantileEstimate
from gainbias.evaluation.gain.spectrum import SURE_OF_DISAGREEMENT, season_length, slow_amplitudes
from gainbias.evaluation.gain.verdict import (
    ENOUGH_ENTRIES,
    EVENTS_OF_HEAVY_TAILS,
    FEWEST_EVENTS,
    LATE_CUT,
    MANY_PERIODS,
    SURE_OF_DRIFT,
    SURE_OF_SHIFT,
    SURE_OF_SLOW,
    Verdict,
    events_behind,
    has_infinite_variance,
    is_end_of_a_tail,
)
from gainbias.evaluation.series_estimate import (
    GroupedSeries,
    SeriesEstimate,
    level_in_words,
    number_in_words,
    quantile_in_words,
)
from gainbias.report.figures.series import AXES, Reason, SeriesView, axis_of, judged_means, series_view
from gainbias.report.figures.style import NEGATIVE, OKABE_ITO, POSITIVE
from gainbias.report.pages.frame import (
    NUMBER,
    assembled,
    colour_of,
    concluded,
    conclusion,
    dated,
    definitions,
    framed_table,
    interval_of,
    known_number,
    known_steps,
    listed,
    paragraph,
    script_data,
    short,
    trust_of,
)
from gainbias.store import write_whole

MUCH_WIDER = 4.0
"""An interval this many times as long as Student's quantile times the standard error has another source."""

MOST_NAMED = 10
"""Groups that are named at the head of a page."""

DRAWN_DIGITS = 4
"""Digits of what is drawn, relative to its spread."""

REASON_IN_WORDS = {
    "waves": (
        "A series is a sum of cosines: the slowest makes one half cycle from the beginning to the end. In a "
        "steady series the squares of the slow ones, its periodogram, are all about equal. A point is such a "
        "square, relative to the level that the interval rests on (dashed). The line is the mean over "
        "neighbours, and the interval comes from the frequencies that are shaded. Where the line still rises "
        "to the left, there is something slow that the run has hardly seen."
    ),
    "period": "The mean at each place of a period, over all periods.",
    "tail": (
        "A point shows the share of batch means that are further than this from the median. Along the dashed "
        "line the variance would just be infinite: points that stay above it fall off too slowly for an "
        "interval of the mean."
    ),
}

SLOW, DRIFT, SHIFT = "a slow part", "a drift", "a level shift"
APART, RARE, ENDLESS = "chains that disagree", "few rare events", "a variance that looks infinite"
TURNS, LATE, FEW = "a period seen only a few times", "a late end of the warm-up", "few numbers"
"""What an alarm of a test says, in words."""

TESTS = {
    SLOW: "log-likelihood ratio (Whittle's, of the periodogram): a slow part against none",
    DRIFT: "log-likelihood ratio (Whittle's): a straight line against none",
    SHIFT: "log-likelihood ratio (Whittle's): one step at the best place against none",
    APART: "F test of the means of the chains",
    RARE: "count of numbers over excess kurtosis, and whether the largest end a tail of index 2",
    ENDLESS: "index of a generalized Pareto law, fitted to the excesses (Zhang and Stephens)",
    TURNS: "strongest frequency of the periodogram against its neighbours, chance below 1e-6",
    LATE: "MSER (White) on ranks, and whether the beginning differs",
    FEW: "count",
}
"""What each test is."""

OWN_TESTS: dict[str, tuple[str, ...]] = {
    "too short": (SLOW, TURNS, LATE, FEW),
    "drifting": (DRIFT,),
    "level shift": (SHIFT,),
    "chains disagree": (APART,),
    "rare events": (RARE,),
    "heavy tails": (ENDLESS, RARE),
}
"""The tests that a verdict itself is about."""

BETWEEN_CHAINS = (
    "Here the level comes from the means of the chains. The points lie below it: the chains are further "
    "apart than the frequencies within them can explain."
)


def write_series_page(
    found: SeriesEstimate | GroupedSeries, path: Path, made: Mapping[str, str], subject: str = ""
) -> None:
    """Write the interactive page of a series, or of several by group.

    Parameters
    ----------
    found : SeriesEstimate or GroupedSeries
    path : Path
        The page.
    made : mapping of str to str
        How the estimate came about; the date and versions are added.
    subject : str
        What the numbers are about, to stand above the answer.
    """
    write_whole(path, series_html(found, dated(made), subject).encode())


def series_html(found: SeriesEstimate | GroupedSeries, made: Mapping[str, str], subject: str = "") -> str:
    """Return the interactive page of a series or of groups; ``made`` says how it came about."""
    parts = _of_groups(found, subject) if isinstance(found, GroupedSeries) else _of_one(found, subject)
    estimates = list(found.values()) if isinstance(found, GroupedSeries) else [found]
    return assembled(
        "series.html",
        ["series.js"],
        **parts,
        origin=escape(": ".join(next(iter(made.items())))),
        made=definitions(made),
        data=script_data({"series": [_data(one) for one in estimates], "found": NEGATIVE}),
    )


def _subject(words: str) -> str:
    return f'<p class="subject">{escape(words)}</p>' if words else ""


def how_made(estimate: SeriesEstimate) -> str:
    """Return in one line how the interval of a mean was made; empty if there is none.

    Examples
    --------
    >>> import gainbias as gb
    >>> how_made(gb.evaluate_series(np.random.default_rng(0).normal(size=10_000)))
    'mean ± t(12) standard errors from the 12 lowest frequencies; corrected for slow parts and skewness'
    """
    view = series_view(estimate)
    if estimate.interval is None or view is None:
        return ""
    chains, width = len(estimate.batch_means), estimate.interval[1] - estimate.interval[0]
    degrees = 0 if view.waves is None else view.waves.degrees
    student = float(stats.t.ppf((1.0 + estimate.confidence) / 2.0, degrees)) if degrees else 0.0
    if student * estimate.diagnostics.standard_error < width / MUCH_WIDER:
        return f"{estimate.name} ± one batch: neighbours cancel each other, and it is not known better"
    source = f"the {slow_amplitudes(judged_means(estimate))[1]} lowest frequencies"
    if estimate.verdict.kind == "chains disagree":
        source = "the means of the chains alone"
    elif chains > 1:
        source += f" of each of {chains} chains, and their means"
    return (
        f"{estimate.name} ± t({degrees}) standard errors from {source}; corrected for slow parts and skewness"
    )


def _of_one(estimate: SeriesEstimate, subject: str) -> dict[str, str]:
    value, _, interval = number_in_words(estimate.mean, estimate.interval, estimate.confidence).partition(
        ", "
    )
    name = estimate.name.capitalize()
    return {
        "title": escape(f"{subject}: {estimate.name} {value}" if subject else f"{name} {value}"),
        "subject": _subject(subject),
        "verdict": _conclusion(estimate),
        "trust": trust_of(estimate.verdict),
        "headline": f"<span>{name}</span> {escape(value)}",
        "interval": escape(interval_of(interval, estimate.verdict)),
        "how": _hint(words) if (words := how_made(estimate)) else "",
        "about": f"From {escape(estimate.data_in_words())}.",
        "body": _section(estimate, 0, level=2),
    }


def _of_groups(found: GroupedSeries, subject: str) -> dict[str, str]:
    doubted = [
        f"{name} ({one.verdict.kind}{', with warnings' * one.verdict.is_trusted})"
        for name, one in found.items()
        if not one.verdict.is_trusted or doubts(one)
    ]
    words = f"{len(found) - len(doubted)} of {len(found)} series can be trusted"
    if doubted:
        others = f" and {len(doubted) - MOST_NAMED:,} more" if len(doubted) > MOST_NAMED else ""
        words += f"; not {', '.join(doubted[:MOST_NAMED])}{others}"
    total = sum(one.diagnostics.num_numbers for one in found.values())
    unfolded = [_group(str(name), one, place) for place, (name, one) in enumerate(found.items())]
    return {
        "title": escape(f"{subject}: {len(found)} series" if subject else f"{len(found)} series"),
        "subject": _subject(subject),
        "how": "",
        "verdict": concluded(
            words, "failed" if doubted else "held", ["Open a series below: it says why, and what to do."]
        ),
        "trust": "",
        "headline": f"{len(found)} <span>series</span>",
        "interval": "",
        "about": f"From {total:,} numbers.",
        "body": _table_of_groups(found) + "<h2>Each by itself</h2>" + "".join(unfolded),
    }


def _table_of_groups(found: GroupedSeries) -> str:
    levels = next(iter(found.values())).levels
    header = ["Group", "Numbers", "Mean", *(level_in_words(one.level) for one in levels), "Verdict"]
    rows = []
    for place, (row, one) in enumerate(zip(found.rows(), found.values(), strict=True)):
        numbers = [one.diagnostics.num_numbers, one.mean, *(quantile.value for quantile in one.levels)]
        name, *texts, _ = row.values()
        cells = [
            f"<td{_sorted_by(number)}{NUMBER}>{escape(text)}</td>"
            for text, number in zip(texts, numbers, strict=True)
        ]
        link = f'<th scope="row"><a href="#group={place}">{escape(name)}</a></th>'
        rows.append(f"{link}{''.join(cells)}<td>{_badge(one)}</td>")
    return framed_table("sortable", "All series, with intervals", header, rows, range(1, len(header) - 1))


def _sorted_by(number: float) -> str:
    return "" if math.isnan(number) else f' data-number="{number:.10g}"'


def _badge(estimate: SeriesEstimate) -> str:
    colour = colour_of(estimate.verdict, bool(doubts(estimate)))
    return f'<span class="verdict {colour}">{estimate.verdict.kind}</span>'


def _group(name: str, estimate: SeriesEstimate, place: int) -> str:
    mean = number_in_words(estimate.mean, estimate.interval, estimate.confidence)
    return (
        f'<details data-group="{place}"><summary>{escape(name)}: {escape(mean)} {_badge(estimate)}</summary>'
        f"{_conclusion(estimate)}{_section(estimate, place, level=3)}</details>"
    )


def _conclusion(estimate: SeriesEstimate) -> str:
    doubted = doubts(estimate)  # what is wrong with a quantile stands beside it
    return conclusion(
        estimate.verdict,
        bool(doubted),
        doubted,
        next_steps(estimate),
        also_found(estimate, series_view(estimate)),
    )


def also_found(estimate: SeriesEstimate, view: SeriesView | None) -> str:
    """Return which tests gave an alarm besides those of the verdict; empty if none, or if it is trusted."""
    verdict = estimate.verdict
    if verdict.is_trusted or view is None:
        return ""
    own = OWN_TESTS.get(verdict.kind, ())
    found = [one.found for one in questions(estimate, view) if one.is_alarm and one.found not in own]
    if not found:
        return ""
    words = f"Other tests found {' and '.join(filter(None, (', '.join(found[:-1]), found[-1])))}"
    if verdict.kind == "too short" and {DRIFT, SHIFT} & set(found):
        return f"{words}: the series may never settle, and then no length helps."
    return f"{words}."


def doubts(estimate: SeriesEstimate) -> list[str]:
    """Return the warnings, without the verdict, that put the mean in doubt; others are about quantiles."""
    known = {f"{level_in_words(one.level)}: {one.words}" for one in estimate.levels}
    return [words for words in estimate.diagnostics.warnings if words not in known | {estimate.verdict.words}]


def _section(estimate: SeriesEstimate, place: int, level: int) -> str:
    """Return everything about one series except its verdict and its mean."""
    view = series_view(estimate)
    shown = reason = paragraph("There are too few numbers to draw.")
    if view is not None:
        spoken = f"{_point(estimate, view)}, from the first to the last: {estimate.verdict.words}"
        shown = _chart("means", place, spoken) + _hint(how_to_read(estimate, view))
        reason = paragraph("Too few numbers, or none that differ: no test was made.")
    if view is not None and view.reason is not None:
        words = REASON_IN_WORDS[view.reason.form]
        if estimate.verdict.kind == "chains disagree":
            words += f" {BETWEEN_CHAINS}"
        if view.reason.form == "tail" and (estimate.is_ratio or estimate.is_over_time):
            words += f" Here each batch stands for how far it moves the {estimate.name}."
        reason = (
            _chart("reason", place, words)
            + _hint(words)
            + _asked(questions(estimate, view), estimate.verdict)
        )
    parts = {
        "Quantiles": _quantiles(estimate),
        "The series": shown,
        "Why this verdict": reason,
        "In numbers": definitions(facts_of(estimate, view)),
    }
    notes = (words for words in estimate.diagnostics.notes if words != estimate.verdict.words)
    first, second, *others = (
        f"<div><h{level}>{title}</h{level}>{content}</div>" if content else ""
        for title, content in parts.items()
    )
    first_screen = f'<div class="first-screen">{first}{second}</div>' if first else second
    return first_screen + "".join(others) + listed("Notes", notes, level)


def _chart(shows: str, place: int, spoken: str) -> str:
    return (
        f'<div class="chart" data-shows="{shows}" data-series="{place}" role="img" '
        f'aria-label="{escape(spoken)}"></div>'
    )


def _hint(words: str) -> str:
    return f'<p class="hint">{escape(words)}</p>'


def how_to_read(estimate: SeriesEstimate, view: SeriesView) -> str:
    """Return what the chart of a series shows, in words."""
    point = _point(estimate, view)
    words = ["Each number is a point." if point == "Number" else f"A point is the {point.lower()}."]
    words.append("The horizontal axis counts rows, not time." if estimate.is_over_time else "")
    if estimate.interval is None:
        words.append(f"The horizontal line is the {estimate.name}.")
    else:
        words.append(
            f"The horizontal line is the {estimate.name}, the band around it is its "
            f"{in_percent(estimate.confidence)} interval."
        )
    if estimate.found_warm_up:
        words.append("The shaded part was left out, because it differs from the rest.")
    elif view.warm_up:
        words.append(f"The first {view.warm_up:,} numbers were to be left out: they are shaded, not drawn.")
    found = {
        "level shift": "The other two lines are the means before and after the level shift.",
        "drifting": "The sloping line is the drift.",
        "chains disagree": "The thick lines are the means of the chains.",
    }
    words.append(found.get(estimate.verdict.kind, ""))
    left = estimate.diagnostics.num_chains - len(view.lines)
    words.append(f"{left:,} more chains are not drawn." if left else "")
    return " ".join(filter(None, words))


def _point(estimate: SeriesEstimate, view: SeriesView) -> str:
    """Return what a point in the chart of a series is."""
    if estimate.is_ratio:
        return f"Ratio plus its shift by {f'{view.size:,} numbers' if view.size > 1 else 'each number'}"
    if view.size == 1:
        return "Number"
    return (
        f"Mean over the time of {view.size:,} rows"
        if estimate.is_over_time
        else f"Mean over {view.size:,} numbers"
    )


def _quantiles(estimate: SeriesEstimate) -> str:
    if not estimate.levels:
        return ""
    names = [level_in_words(one.level) + " (median)" * (one.level == 0.5) for one in estimate.levels]
    rows = [
        f'<th scope="row">{name}</th>{_row(one)}' for name, one in zip(names, estimate.levels, strict=True)
    ]
    interval = f"{in_percent(estimate.confidence)} interval"
    header = ["Level", "Value", interval, "Independent numbers beyond"]
    caption = f"Each with its own {interval}"
    return framed_table("quantiles", caption, header, rows, range(1, len(header)))


def _row(one: QuantileEstimate) -> str:
    if one.interval is None:
        value = quantile_in_words(one.value, None, one.exceedances).removesuffix(" (none)")
        return f'<td{NUMBER}>{value}</td><td colspan="2">no interval: {escape(one.words)}</td>'
    value, _, ends = number_in_words(one.value, one.interval).rstrip(")").partition(" (")
    numbers = [value, ends, f"about {_rounded(one.exceedances)}"]
    return "".join(f"<td{NUMBER}>{escape(number)}</td>" for number in numbers)


class Question(NamedTuple):
    """A question about a series, the measurement, the limit for an alarm, whether there is one, of what."""

    asked: str
    measured: str
    alarm: str
    is_alarm: bool
    found: str


def questions(estimate: SeriesEstimate, view: SeriesView) -> list[Question]:
    """Return the questions about a series, with the answers; nothing if there were too few numbers."""
    tested, waves, size = judged_means(estimate), view.waves, estimate.batch_size
    if waves is None:
        return []
    facts = estimate.diagnostics
    count, length = facts.num_numbers, tested.shape[1] * size
    events, period = events_behind(tested), season_length(tested)
    if estimate.verdict.kind == "periodic" and estimate.verdict.at is not None:
        period = estimate.verdict.at / size  # it may be shorter than a batch
    if estimate.is_over_time and not any(
        words.startswith("periodic") for words in (*facts.notes, *facts.warnings)
    ):
        period = 0.0  # rows that alternate are no period in time
    periods = tested.shape[1] / period if period else math.inf
    is_asked = events < EVENTS_OF_HEAVY_TAILS
    looks_infinite = is_asked and has_infinite_variance(tested)
    is_named = any(words.startswith(("heavy tails", "rare events")) for words in facts.warnings)
    is_infinite = looks_infinite and is_named
    left_out = estimate.found_warm_up / (view.end - view.warm_up + estimate.found_warm_up)
    shift_at = view.warm_up + round(waves.shift_at * length)
    found = [
        Question(
            "Is the series too short for its slowest part?",
            f"{waves.too_short:.1f}",
            f"above {SURE_OF_SLOW:g}",
            waves.too_short > SURE_OF_SLOW,
            SLOW,
        ),
        Question(
            "Does the level drift?",
            f"{waves.drifts:.1f}",
            f"above {SURE_OF_DRIFT:g}",
            waves.drifts > SURE_OF_DRIFT,
            DRIFT,
        ),
        Question(
            "Does the level shift?",
            f"{waves.shifts:.1f}, at best about step {_rounded(shift_at)}",
            f"above {SURE_OF_SHIFT:g}",
            waves.shifts > SURE_OF_SHIFT,
            SHIFT,
        ),
        Question(
            "Do the chains agree?",
            f"chance of means this far apart: {waves.disagreement:.2g}",
            f"below {SURE_OF_DISAGREEMENT:g}",
            waves.disagreement < SURE_OF_DISAGREEMENT,
            APART,
        ),
        Question(
            "How many rare events make up the variance?",
            "no rare events"
            if math.isinf(events)
            else f"about {_rounded(events) if events >= 10 else f'{events:.1f}'}",
            f"below {FEWEST_EVENTS:g}",
            events < FEWEST_EVENTS and not is_end_of_a_tail(tested),
            RARE,
        ),
        Question(
            "Does the variance look infinite?",
            _about_the_variance(is_asked, is_infinite, looks_infinite),
            "yes",
            is_infinite,
            ENDLESS,
        ),
        Question(
            "Is there a period?",
            f"about every {period * size:,.4g} steps, {periods:,.0f} times" if period else "no",
            f"fewer than {MANY_PERIODS:g} times",
            periods < MANY_PERIODS,
            TURNS,
        ),
        Question(
            "How much was left out as warm-up?",
            f"{left_out:.0%}" if left_out else "nothing",
            f"more than {LATE_CUT:.0%}",
            left_out > LATE_CUT,
            LATE,
        ),
        Question(
            "How many numbers are there?",
            f"{count:,}",
            f"below {ENOUGH_ENTRIES}",
            count < ENOUGH_ENTRIES,
            FEW,
        ),
    ]
    return [one for one in found if len(tested) > 1 or one.asked != "Do the chains agree?"]


def _about_the_variance(is_asked: bool, is_infinite: bool, looks_infinite: bool) -> str:
    if not is_asked:
        return "not asked: no rare events"
    if is_infinite or not looks_infinite:
        return "yes" if is_infinite else "no"
    return "no: the columns of the ratio show that its tail ends"


def _asked(found: list[Question], verdict: Verdict) -> str:
    rows = []
    for one in found:
        measured = escape(one.measured)
        if one.is_alarm and not verdict.is_trusted:
            measured = f'<span class="verdict failed">{measured}</span>'
        rows.append(
            f'<th scope="row">{escape(one.asked)}</th><td>{measured}</td><td>{escape(one.alarm)}</td>'
            f"<td>{escape(TESTS[one.found])}</td>"
        )
    table = framed_table("asked", "Tests of the series", ["Question", "Measured", "Alarm", "Test"], rows)
    return table + _hint(
        "For a steady series that is long enough, each test raises a false alarm in at most about one run of "
        "100, and all together in fewer than 5 of 100. The most serious alarm is the verdict."
    )


def facts_of(estimate: SeriesEstimate, view: SeriesView | None) -> dict[str, str]:
    """Return the diagnostics of a series in words, by their names."""
    facts = estimate.diagnostics
    return {
        "Data": estimate.data_in_words(),
        "Read": "all rows" if facts.is_complete else "cut short: the verdict says why",
        "Standard error": known_number(facts.standard_error),
        "Degrees of freedom": f"{view.waves.degrees}" if view is not None and view.waves else "none",
        "Autocorrelation time": known_steps(facts.autocorrelation_time),
        "Batches": _batches(estimate),
    }


def _batches(estimate: SeriesEstimate) -> str:
    chains, count = estimate.batch_means.shape
    numbers = "1 number" if estimate.batch_size == 1 else f"{estimate.batch_size:,} numbers"
    return f"{count:,} batches of {numbers}" + (" for each chain" if chains > 1 else "")


def next_steps(estimate: SeriesEstimate) -> list[str]:
    """Return what to do next, in words.

    Examples
    --------
    >>> import gainbias as gb
    >>> noise = np.random.default_rng(0).normal(size=10_000)
    >>> for words in next_steps(gb.evaluate_series(noise, 0.5)):
    ...     print(words)
    Use the mean with its interval.
    For an interval half as wide, collect 4 times as many numbers: about 40,000.
    """
    verdict = estimate.verdict
    steps = _about_the_mean(estimate)
    if refused := [level_in_words(one.level) for one in estimate.levels if one.interval is None]:
        steps.append(
            f"Do not report {', '.join(refused)} as known: the table of quantiles says what is missing."
        )
    if verdict.kind == "heavy tails" and len(refused) < len(estimate.levels):
        steps.append("Report the quantiles: their intervals need no variance.")
    return steps


def _about_the_mean(estimate: SeriesEstimate) -> list[str]:
    verdict, count = estimate.verdict, estimate.diagnostics.num_numbers
    name, at = estimate.name, round(verdict.at or 0.0)
    if verdict.is_trusted:
        use = f"Use the {name} with its interval."
        steps = [
            f"Read the warnings: they put the {name} in doubt." if doubts(estimate) else use,
            f"For an interval half as wide, collect 4 times as many numbers: about {_rounded(4 * count)}.",
        ]
        if verdict.kind == "warming up":
            steps.append(f"Leave out the same number from similar runs: skip={at}.")
        return steps
    if verdict.longer is not None:
        steps = [
            f"Do not report this interval. A run that is long enough for the {name} has "
            f"about {_rounded(verdict.longer * count)} numbers."
        ]
        if verdict.kind == "too short":
            steps.append(
                "If that run is too short again by as much, the series may wander like a random walk: then "
                "no length helps."
            )
        return steps
    advice = {
        "drifting": [
            f"Do not report one {name}: it depends on when you stop.",
            "Find out what grows or shrinks: a queue that fills, a cache, a leak, a load that changes.",
            "If only the beginning drifts, leave it out with skip.",
        ],
        "level shift": [
            f"Find out what changed about step {at:,}.",
            f"Evaluate the numbers before it and after it by themselves: x[:{at}] and x[{at}:].",
        ],
        "chains disagree": [
            "Evaluate each chain by itself, and look for differences between them: the start, the machine, "
            "the load.",
            "If they should be alike, run all of them much longer.",
        ],
        "cut short": [
            "Correct what is wrong there, and evaluate again.",
            f"Until then do not report this {name}: it is from what came before, and leaves out the rest.",
        ],
        "heavy tails": [f"Do not report an interval of the {name}. A longer run does not help."],
        "constant": [
            "Check that this is the right column, and that the run was long enough for anything to happen."
        ],
    }
    return advice.get(verdict.kind, ["Collect more numbers."])


def _rounded(count: float) -> str:
    """Return a count with two significant digits."""
    return f"{float(f'{count:.1e}'):,.0f}"


def _data(estimate: SeriesEstimate) -> dict[str, Any] | None:
    view = series_view(estimate)
    if view is None:
        return None
    decimals = _decimals(float(np.ptp(view.lines)))
    interval = estimate.interval
    return {
        "means": {
            "steps": view.steps.tolist(),
            "lines": [_rounded_list(line, decimals) for line in view.lines],
            "warmUp": view.warm_up,
            "end": view.end,
            "mean": None if math.isnan(estimate.mean) else estimate.mean,
            "interval": None if interval is None else list(interval),
            "segments": [
                {"steps": part.steps, "levels": part.levels, "chain": part.chain} for part in view.segments
            ],
            "shiftAt": view.shift_at,
            "name": _point(estimate, view),
            "counts": axis_of(estimate),
            "colours": OKABE_ITO if len(view.lines) > 1 else [POSITIVE],
        },
        "reason": None if view.reason is None else _reason_data(view.reason),
    }


def _reason_data(reason: Reason) -> dict[str, Any]:
    is_period = reason.form == "period"  # whose level may be far from zero
    decimals = _decimals(float(np.ptp(reason.up)))
    return {
        "form": reason.form,
        "across": [short(number) for number in reason.across],
        "up": _rounded_list(reason.up, decimals) if is_period else [short(number) for number in reason.up],
        "smooth": [[short(number) for number in line] for line in reason.smooth],
        "used": reason.used,
        "least": reason.least,
        "titles": [title[0].upper() + title[1:] for title in AXES[reason.form]],
        "colour": POSITIVE,
    }


def _decimals(spread: float) -> int:
    return DRAWN_DIGITS - math.floor(math.log10(spread)) if spread > 0.0 else 2 * DRAWN_DIGITS


def _rounded_list(values: Any, decimals: int) -> list[float]:
    return [float(value) for value in np.round(values, decimals)]
