"""`plot`: a figure of any result, alone or several together.

Results that may share a figure form a family: runs and exact curves, estimates, series, comparisons,
solutions, bounds. One estimate or series is drawn as `estimates` and `series` draw it; several are a row of
intervals each.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gainbias.algorithms.registry import short_title
from gainbias.engine.trace import Kind, Scale, Trace
from gainbias.evaluation.compare import Comparison
from gainbias.evaluation.estimate import Estimate, in_percent
from gainbias.evaluation.series_estimate import SeriesEstimate
from gainbias.experiments.statistics import tail_of
from gainbias.model.solve.solution import MultichainSolution, Solution
from gainbias.report.figures.estimates import draw_gain, draw_values, value_view
from gainbias.report.figures.series import draw_reason, draw_series, series_view
from gainbias.report.figures.style import (
    FAINT,
    INK,
    MARKS,
    OKABE_ITO,
    POSITIVE,
    Size,
    drawing,
    look_of,
    use_few_ticks,
)
from gainbias.report.text import distinct_texts
from gainbias.theory.bounds.record import WEIGHTS_ERROR, Bound
from gainbias.theory.curve.curve import Curve
from gainbias.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SIZE = Size(width=7.0, columns=2, legend_columns=4, panel_height=2.6, letters=8.0)

SHADE = 0.2
"""How dark a band is."""

ROOM_BELOW = 5.0
"""Errors are shown down to the smallest one of a line over this."""

SAME_LIMIT = 0.01
"""Limits whose errors differ by less than this share have one line."""

LINE_OF_LEGEND, ROW, LINES_OF_A_ROW = 0.17, 0.26, 2
"""Inches for an entry of a legend and for a row, and how many lines of its name a row has room for."""

LETTERS_OF_A_NAME, LETTERS_OF_A_ROW = 56, 30
"""A longer name is broken into lines, in a legend and beside a row."""

MOST_MARKED, MOST_STATES = 60, 4_000
"""A solution of more states than the first is a line; of more than the second, only some are drawn."""

DRAWN_TOGETHER: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("runs", (Trace, Curve)),
    ("estimates", (Estimate,)),
    ("series", (SeriesEstimate,)),
    ("comparisons", (Comparison,)),
    ("solutions", (Solution, MultichainSolution)),
    ("bounds", (Bound,)),
)


def plot(what: Any, *, ax: Axes | None = None, kind: Kind = "centred") -> Any:
    """Draw one result or several of a kind: runs, curves, estimates, series, comparisons, solutions, bounds.

    Parameters
    ----------
    what : result, list or dict of results
        `Trace` and `Curve`: errors against transitions. Lanes that differ only in their seed are one line,
        their root mean square, with a band for the middle 80% of them; traces and curves may be mixed. Thin
        dashed lines are errors at limits, such as what the features cannot express.
        `Estimate`: the gain over time with its band, and the values of observations of one or two numbers.
        `SeriesEstimate`: the batch means with the findings, and the reason for the verdict.
        Several of either, also the groups of a `GroupedSeries`: their intervals, one below the other.
        `Comparison`: differences with their intervals. `Solution`: bias and share of time of each state, or
        bias and gain of several classes. `Bound`: what is guaranteed, compared with what is known without it.
        The keys of a dict are names.
    ax : matplotlib.axes.Axes, optional
        Draw there instead of in a new figure. Results that need two panels then have only the first.
    kind : {"centred", "full", "quotient"}
        Which error of traces and curves, see `Trace.errors`.

    Returns
    -------
    matplotlib.axes.Axes
        The first panel. All of them are ``.figure.axes``, and ``.figure.savefig(path)`` writes the figure.

    Examples
    --------
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=5_000)
    >>> axes = gb.plot(estimate)
    >>> [panel.get_title(loc="left") for panel in axes.figure.axes]
    ['Gain per step', 'Relative values, with intervals']
    >>> gb.plot({"first": estimate, "again": estimate}).get_xlabel()
    'gain per step'
    """
    items = _named(what)
    panels = _panels(items, kind)
    with drawing(SIZE):
        if ax is not None:
            panels[0](ax)
            _add_legend(ax, "best")
            return ax
        return _in_a_new_figure(panels, _height(items))


@dataclass(frozen=True)
class Named:
    """A result with its name, which is empty where a user gave none."""

    name: str
    result: Any

    def called(self, otherwise: str, letters: int = LETTERS_OF_A_NAME) -> str:
        """Return its name, or another where it has none, broken into lines."""
        return "\n".join(textwrap.wrap(self.name or otherwise, letters)) or " "


Draw = Callable[["Axes"], None]


def _named(what: Any) -> list[Named]:
    """Return the results to be drawn, and refuse those that cannot be."""
    if isinstance(what, Mapping):
        items = [Named(str(name), result) for name, result in what.items()]
    elif isinstance(what, list | tuple):
        items = [Named("", result) for result in what]
    else:
        items = [Named("", what)]
    if not items:
        raise ValueError("there is nothing to draw: pass a result, or a list or a dict of results")
    found = [_family(item.result) for item in items]
    if len(set(found)) > 1:
        raise ValueError(f"{' and '.join(dict.fromkeys(found))} do not share a figure: plot each of them")
    units = {item.result.per for item in items if isinstance(item.result, Estimate | Comparison)}
    if len(units) > 1:
        raise ValueError(f"gains per {' and per '.join(sorted(units))} do not share an axis: plot them apart")
    return items


def _family(result: Any) -> str:
    for family, kinds in DRAWN_TOGETHER:
        if isinstance(result, kinds):
            return family
    known = ", ".join(kind.__name__ for _, kinds in DRAWN_TOGETHER for kind in kinds)
    raise ValueError(f"results can be drawn ({known}), found {type(result).__name__}")


def _panels(items: Sequence[Named], kind: Kind) -> list[Draw]:
    """Return what draws each panel, the first one first."""
    family, first = _family(items[0].result), items[0].result
    if family == "runs":
        return [lambda panel: draw_errors(items, kind, panel)]
    if family == "solutions":
        return [lambda panel: _draw_bias(items, panel), lambda panel: _draw_shares(items, panel)]
    if family == "bounds":
        return [lambda panel: _draw_bounds(items, panel)]
    if family == "comparisons":
        return [lambda panel: draw_rows(_differences(items), panel)]
    if len(items) > 1:
        return [lambda panel: draw_rows(_means(items), panel)]
    return _panels_of_series(first) if family == "series" else _panels_of_estimate(first)


def _panels_of_estimate(estimate: Estimate) -> list[Draw]:
    view = value_view(estimate)
    beside: list[Draw] = [] if view is None else [lambda panel: draw_values(view, panel)]
    return [lambda panel: draw_gain(estimate, panel), *beside]


def _panels_of_series(estimate: SeriesEstimate) -> list[Draw]:
    view = series_view(estimate)
    if view is None:
        return [lambda panel: None]
    beside: list[Draw] = []
    if (reason := view.reason) is not None:
        beside = [lambda panel: draw_reason(reason, panel)]
    return [lambda panel: draw_series(estimate, view, panel), *beside]


def _height(items: Sequence[Named]) -> float:
    """Return the height of a figure without its legend: rows need no more than their names."""
    family = _family(items[0].result)
    has_rows = family in ("comparisons", "bounds") or (family in ("estimates", "series") and len(items) > 1)
    if not has_rows:
        return SIZE.panel_height
    lines = max(item.called("", LETTERS_OF_A_ROW).count("\n") + 1 for item in items)
    return 0.9 + ROW * len(items) * max(1.0, lines / LINES_OF_A_ROW)


def _in_a_new_figure(panels: Sequence[Draw], height: float) -> Axes:
    """Return the first panel of a figure that has room for everything drawn."""
    import matplotlib.pyplot as plt

    width = SIZE.width if len(panels) > 1 else 0.6 * SIZE.width
    figure = plt.figure(figsize=(width, SIZE.panel_height), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for draw, panel in zip(panels, axes, strict=True):
        draw(panel)
    lines = sum(_add_legend(panel, "outside") for panel in axes)
    figure.set_figheight(height + LINE_OF_LEGEND * lines)
    figure.draw_without_rendering()  # lays it out in our letters, whatever a user's own settings are
    first: Axes = axes[0]
    return first


def _add_legend(panel: Axes, place: str) -> int:
    """Add a legend of what has a name, and return its lines; one outside is never cut off in a file."""
    handles, labels = panel.get_legend_handles_labels()
    if not labels or panel.get_legend() is not None:
        return 0
    if place == "outside":
        _figure_of(panel).legend(handles, labels, loc="outside lower left", ncols=1)
    else:
        panel.legend(loc="best")
    return sum(label.count("\n") + 1 for label in labels)


def _figure_of(panel: Axes) -> Figure:
    figure: Any = panel.figure
    return figure  # type: ignore[no-any-return]


def draw_errors(items: Sequence[Named], kind: Kind, panel: Axes) -> None:
    """Draw the errors of traces, a line and a band for each step size, and of exact curves."""
    used: list[str] = []
    limits: list[DrawnLimit] = []
    for item in items:
        draw = _draw_trace if isinstance(item.result, Trace) else _draw_curve
        limits += draw(item, kind, panel, used)
    panel.set(xscale="log", yscale="log", xlabel="transitions")
    _keep_lines_in_view(panel)
    _draw_limits(limits, panel)
    use_few_ticks(panel)
    panel.set_ylabel(f"error of the values ({kind})")


def _keep_lines_in_view(panel: Axes) -> None:
    """End an axis of errors a little below the lines: runs that happen to pass 0 reach far down."""
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in panel.lines])
    drawn = values[values > 0.0]
    if len(drawn):
        least, most = panel.get_ylim()
        panel.set_ylim(max(least, drawn.min() / ROOM_BELOW), most)


class DrawnLimit(NamedTuple):
    """The error at which a line ends, with the colour of the line and the name of its result."""

    error: float
    colour: str
    name: str


def _draw_limits(limits: Sequence[DrawnLimit], panel: Axes) -> None:
    """Draw a thin line for each error at a limit that is in view, and only one for those that agree."""
    low, high = panel.get_ylim()
    shared: dict[float, list[DrawnLimit]] = {}
    for one in limits:
        if low < one.error < high:  # which nan is not
            known = next(
                (error for error in shared if math.isclose(error, one.error, rel_tol=SAME_LIMIT)), one.error
            )
            shared.setdefault(known, []).append(one)
    for error, own in shared.items():
        names = ", ".join(dict.fromkeys(one.name for one in own))
        label = "error at the limit" + (f" of {names}" if len(own) < len(limits) else "")
        colour = own[0].colour if len(own) == 1 else FAINT
        label = Named(label, None).called("")
        panel.axhline(error, color=colour, linewidth=0.8, linestyle=(0.0, (3.0, 2.0)), label=label)


def _draw_trace(item: Named, kind: Kind, panel: Axes, used: list[str]) -> list[DrawnLimit]:
    """Draw a line for each step size and set of parameters: the root mean square over its lanes.

    Return the limit of each.
    """
    trace: Trace = item.result
    ends, limits = trace.errors_at_limits(kind), []
    errors, seen = trace.errors(kind), trace.transitions > 0
    for label, places in _groups(trace, item).items():
        own = np.sort(errors[places][:, seen], axis=0)
        x, colour = trace.transitions[seen], _next_colour(trace.algorithm.name, used)
        limits.append(
            DrawnLimit(float(ends[places[0]]), colour, item.name or short_title(trace.algorithm.name))
        )
        drawn = np.isfinite(own).all(axis=0)
        lost = int((~np.isfinite(own[:, -1])).sum()) if own.size else 0
        with np.errstate(over="ignore"):
            middle = np.sqrt((own**2).mean(axis=0))
        said = f" ({lost} of {len(places)} diverged)" if lost else ""
        panel.plot(x[drawn], middle[drawn], color=colour, linewidth=1.2, label=f"{label}{said}")
        if len(places) > 1:
            edge = tail_of(len(places))
            low, high = own[edge], own[-1 - edge]
            panel.fill_between(x[drawn], low[drawn], high[drawn], color=colour, alpha=SHADE, linewidth=0)
    return limits


def _groups(trace: Trace, item: Named) -> dict[str, list[int]]:
    """Return the lanes that differ only in their seed, by what they have in common."""
    texts = {
        name: distinct_texts(lane.params[name] for lane in trace.lanes)
        for name, usual in trace.algorithm.params()._asdict().items()
        if any(lane.params[name] != usual for lane in trace.lanes)
    }
    groups: dict[str, list[int]] = {}
    for place, lane in enumerate(trace.lanes):
        params = "".join(f", {name} {texts[name][lane.params[name]]}" for name in texts)
        groups.setdefault(f"{lane.step_size}{params}", []).append(place)
    if item.name and len(groups) == 1:
        return {item.called(""): next(iter(groups.values()))}
    title = item.name or short_title(trace.algorithm.name)
    return {Named("", None).called(f"{title}, {name}"): places for name, places in groups.items()}


def _draw_curve(item: Named, kind: Kind, panel: Axes, used: list[str]) -> list[DrawnLimit]:
    """Draw an exact curve, and return its limit."""
    curve: Curve = item.result
    error, seen = curve.errors(kind), curve.transitions > 0
    drawn = seen & np.isfinite(error)
    how = "exact" if curve.standard_error is None else f"mean of {curve.settings['lanes']} runs"
    colour = INK if INK not in used else _next_colour(curve.algorithm.name, used)
    used.append(colour)
    label = item.called(f"{short_title(curve.algorithm.name)}, {curve.settings['step_size']}, {how}")
    dashes = (0.0, (4.0, 1.5))
    panel.plot(
        curve.transitions[drawn], error[drawn], color=colour, linewidth=1.1, linestyle=dashes, label=label
    )
    scale = Scale(curve.algorithm, curve.problem, curve.params, curve.first_weights)
    name = item.name or short_title(curve.algorithm.name)
    return [DrawnLimit(scale.at_the_limit(kind), colour, name)]


def _next_colour(algorithm: str, used: list[str]) -> str:
    """Return the colour of an algorithm, or another one where it is taken."""
    choices = [look_of(algorithm).colour, *OKABE_ITO]
    free = [colour for colour in choices if colour not in used]
    used.append(free[0] if free else choices[len(used) % len(choices)])
    return used[-1]


@dataclass(frozen=True)
class OneInterval:
    """A number with its interval, whether it may be trusted, and a remark."""

    name: str
    value: float
    interval: tuple[float, float] | None
    is_trusted: bool
    words: str = ""


@dataclass(frozen=True)
class Intervals:
    """Intervals below each other: what they measure, and where "no difference" is, if that has a line."""

    rows: Sequence[OneInterval]
    title: str
    zero: bool = False


def _means(items: Sequence[Named]) -> Intervals:
    """Return the gains of estimates, or the means of series."""
    rows = []
    for place, item in enumerate(items, 1):
        one = item.result
        facts = one.diagnostics
        verdict = one.verdict if isinstance(one, SeriesEstimate) else facts.verdict
        value, interval = (
            (one.mean, one.interval) if isinstance(one, SeriesEstimate) else (one.gain, one.gain_interval)
        )
        words = "" if verdict.is_trusted else verdict.kind
        name = item.called(str(place), LETTERS_OF_A_ROW)
        rows.append(OneInterval(name, value, interval, verdict.is_trusted, words))
    first = items[0].result
    what = first.name if isinstance(first, SeriesEstimate) else f"gain per {first.per}"
    levels = {in_percent(item.result.confidence) for item in items}
    return Intervals(rows, f"{what}|{' and '.join(sorted(levels))} intervals")


def _differences(items: Sequence[Named]) -> Intervals:
    rows = []
    for place, item in enumerate(items, 1):
        one: Comparison = item.result
        otherwise = "first - second" if len(items) == 1 else f"{place}: first - second"
        words = "in doubt" if one.doubts else ""
        name = item.called(otherwise, LETTERS_OF_A_ROW)
        rows.append(OneInterval(name, one.difference, one.interval, not one.doubts, words))
    levels = {in_percent(item.result.confidence) for item in items}
    title = f"difference of gains per {items[0].result.per}|{' and '.join(sorted(levels))} intervals"
    return Intervals(rows, title, zero=True)


def draw_rows(found: Intervals, panel: Axes) -> None:
    """Draw intervals, the first on top; one that may not be trusted is hollow and grey."""
    label, title = found.title.split("|")
    for height, row in zip(range(len(found.rows), 0, -1), found.rows, strict=True):
        colour = POSITIVE if row.is_trusted else FAINT
        if row.interval is not None and np.isfinite(row.interval).all():
            panel.plot(row.interval, [height, height], color=colour, linewidth=1.6, solid_capstyle="butt")
        fill = colour if row.is_trusted else "none"
        panel.plot([row.value], [height], "o", color=colour, markerfacecolor=fill, markersize=4.5)
    _name_rows([row.name for row in found.rows], panel)
    panel.margins(x=0.08)
    for height, row in zip(range(len(found.rows), 0, -1), found.rows, strict=True):
        if words := row.words or ("no interval" if row.interval is None else ""):
            _say_above(words, row.value, height, panel)
    if found.zero:
        panel.axvline(0.0, color=INK, linewidth=0.8, linestyle=(0.0, (4.0, 1.5)), zorder=0)
    panel.set_xlabel(label)
    panel.set_title(title)


def _name_rows(names: Sequence[str], panel: Axes) -> None:
    """Name the rows of a panel, the first on top."""
    panel.set_yticks(range(len(names), 0, -1), names)
    panel.set_ylim(0.4, len(names) + 0.8)
    panel.tick_params(axis="y", length=0)


def _say_above(words: str, at: float, height: int, panel: Axes) -> None:
    """Say something above a point of a row, towards the middle of the panel, where there is room."""
    low, high = panel.get_xlim()
    middle = math.sqrt(low * high) if panel.get_xscale() == "log" else (low + high) / 2.0
    side = "left" if at < middle else "right"
    panel.annotate(words, (at, height), (0.0, 7.0), textcoords="offset points", ha=side, color=INK)


def _draw_bias(items: Sequence[Named], panel: Axes) -> None:
    for place, item in enumerate(items):
        _draw_states(item, item.result.bias, item.result.bias_error, place, panel, len(items))
    panel.axhline(0.0, color=FAINT, linewidth=0.8, zorder=0)
    panel.set_title("Bias")
    _name_states(items, panel)


def _draw_shares(items: Sequence[Named], panel: Axes) -> None:
    """Draw the share of time of each state; of several classes the gain from each state."""
    has_classes = any(isinstance(item.result, MultichainSolution) for item in items)
    for place, item in enumerate(items):
        one = item.result
        many = np.full(one.mrp.num_states, one.gain) if has_classes else one.stationary
        error = np.full(len(many), one.gain_error) if has_classes else one.stationary_error
        _draw_states(Named(" ", one), many, error, place, panel, 0)
    _name_states(items, panel)
    panel.set_title("Gain from each state" if has_classes else "Share of time in each state")
    if not has_classes:
        panel.set_ylim(0.0, panel.get_ylim()[1] * ROOM_ABOVE)


def _draw_states(item: Named, numbers: Floats, error: Floats, place: int, panel: Axes, count: int) -> None:
    """Draw a number of each state with its error."""
    states = len(numbers)
    stride = -(-states // MOST_STATES)
    x = np.arange(0, states, stride)
    colour = OKABE_ITO[place % len(OKABE_ITO)]
    drawn, reach = numbers[x], np.where(np.isfinite(error[x]), error[x], 0.0)
    label = item.called(f"solution {place + 1}") if count > 1 else None
    form = MARKS[place % len(MARKS)] if states <= MOST_MARKED else "-"
    panel.plot(x, drawn, form, color=colour, markersize=3.5, linewidth=1.0, label=label)
    if states <= MOST_MARKED:
        panel.errorbar(x, drawn, yerr=reach, fmt="none", color=colour, linewidth=1.0)
    else:
        panel.fill_between(x, drawn - reach, drawn + reach, color=colour, alpha=SHADE, linewidth=0)


ROOM_ABOVE = 1.05
"""How far above the largest share its axis ends: a mark has a size."""

MOST_NAMED_STATES = 12
"""More states than this are numbered, not named."""


def _name_states(items: Sequence[Named], panel: Axes) -> None:
    """Write the names of few states, or count the states, along the axis."""
    states = max(item.result.mrp.num_states for item in items)
    labels = items[0].result.mrp.labels
    if labels is not None and len(labels) == states <= MOST_NAMED_STATES:
        names = [str(name) for name in labels]
        panel.set_xticks(range(states), names, rotation=90 if max(map(len, names)) > 5 else 0)
    else:
        panel.locator_params(axis="x", integer=True)
    stride = -(-states // MOST_STATES)
    panel.set_xlabel("state" if stride == 1 else f"state (one of {stride:,} is drawn)")


def _draw_bounds(items: Sequence[Named], panel: Axes) -> None:
    """Draw each bound beside the error before the first step; an uninformative one is hollow."""
    heights = range(len(items), 0, -1)
    names, notes = [], []
    for place, (height, item) in enumerate(zip(heights, items, strict=True), 1):
        bound: Bound = item.result
        number = f"{place}: " if len(items) > 1 else ""
        names.append(item.called(f"{number}{bound.theorem}", LETTERS_OF_A_ROW))
        without = bound.trivial.without_steps
        if np.isfinite(without) and without > 0.0:
            label = "before the first step" if height == len(items) else None
            panel.plot([without], [height], "|", color=INK, markersize=9, label=label)
        if bound.certified and bound.value > 0.0:
            fill = POSITIVE if bound.informative else "none"
            panel.plot([bound.value], [height], "o", color=POSITIVE, markerfacecolor=fill, markersize=5)
        note = "" if bound.informative else "says nothing" if bound.certified else "not certified"
        notes.append((note, bound.value if bound.certified else without, height))
    _name_rows(names, panel)
    panel.set_xscale("log")
    panel.margins(x=0.15)
    use_few_ticks(panel)
    for note, at, height in notes:
        if note and np.isfinite(at):
            _say_above(note, at, height, panel)
    if panel.get_legend_handles_labels()[1]:
        panel.legend(loc="best", frameon=True)
    panel.set_xlabel(items[0].result.quantity.replace(WEIGHTS_ERROR, r"$E\,|\theta_T - \theta^*|^2$"))
    panel.set_title("What is guaranteed")
