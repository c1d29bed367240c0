"""`plot`: an estimate, a trace or a curve as a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gainbias.engine.errors import Kind
from gainbias.engine.trace import Trace
from gainbias.evaluation.estimate import Estimate
from gainbias.report.figures.style import FAINT, INK, Size, drawing, look_of, new_figure
from gainbias.report.figures.values import gain_range, has_varied, value_view
from gainbias.report.figures.values_drawing import draw_values
from gainbias.report.names import algorithm_title, distinct_texts
from gainbias.theory.curve.curve import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = Size(width=7.0, columns=2, legend_columns=4, panel_height=2.6, letters=8.0)
BAND = 0.2
"""How dark a band is."""


def plot(what: Estimate | Trace | Curve, *, ax: Any = None, kind: Kind = "centred") -> Any:
    """Draw an estimate, a trace or a curve.

    Parameters
    ----------
    what : Estimate, Trace or Curve
        The gain over time with its band, and the values of observations of one or two numbers; or the
        errors of all lanes of a run; or the root mean squared error of an exact curve.
    ax : matplotlib.axes.Axes, optional
        Draw there instead of in a new figure: several traces and curves may share one. Of an estimate only
        the gain is then drawn.
    kind : {"centred", "full", "quotient"}
        Which error of a trace or curve, see `Trace.errors`.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import gainbias as gb
    >>> estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=5_000)
    >>> figure = gb.plot(estimate)
    >>> [panel.get_title(loc="left") for panel in figure.axes]
    ['Gain per step', 'Relative values, with intervals']
    """
    if not isinstance(what, Estimate | Trace | Curve):
        raise ValueError(f"an Estimate, a Trace or a Curve can be drawn, found {type(what).__name__}")
    with drawing(SIZE):
        if ax is None:
            return _in_a_new_figure(what, kind)
        _draw(what, ax, kind)
        return ax.figure


def _in_a_new_figure(what: Estimate | Trace | Curve, kind: Kind) -> Figure:
    view = value_view(what) if isinstance(what, Estimate) else None
    if view is None:
        figure = new_figure(0.6 * SIZE.width, SIZE.panel_height)
        _draw(what, figure.subplots(), kind)
        return figure
    figure = new_figure(SIZE.width, SIZE.panel_height)
    left, right = figure.subplots(1, 2)
    _draw(what, left, kind)
    draw_values(view, right)
    return figure


def _draw(what: Any, panel: Axes, kind: Kind) -> None:
    drawers: dict[type, Callable[..., None]] = {Estimate: _draw_gain, Trace: _draw_trace, Curve: _draw_curve}
    drawers[type(what)](what, panel, kind)


def _draw_gain(estimate: Estimate, panel: Axes, _: Kind) -> None:
    """Draw the gain over time."""
    history, colour = estimate.history, look_of("single-chain").colour
    low, high = estimate.gain_interval
    panel.fill_between(
        history.transitions, history.low, history.high, where=has_varied(history).tolist(), color=colour,
        alpha=BAND, linewidth=0, label=f"{estimate.confidence:.0%} interval",
    )  # fmt: skip
    panel.plot(history.transitions, history.gain, color=colour, linewidth=1.3, label="estimate")
    if len(history.gain) == 1:  # no line and no band can be seen
        panel.plot(history.transitions, history.gain, "o", color=colour)
        panel.vlines(history.transitions, low, high, color=colour)
    panel.axhline(estimate.gain, color=FAINT, linewidth=0.8, zorder=0)
    span = gain_range(estimate)
    if span is not None:
        panel.set_ylim(*span)
    panel.set_xscale("log")
    panel.set_title("Gain per step")
    panel.set_xlabel("transitions")
    panel.legend(loc="upper right")


def _draw_trace(trace: Trace, panel: Axes, kind: Kind) -> None:
    """Draw all lanes; those of one step size and one set of parameters have one colour."""
    errors, seen = trace.errors(kind), trace.transitions > 0
    texts = {
        name: distinct_texts(lane.params[name] for lane in trace.lanes) for name in trace.lanes[0].params
    }
    groups: dict[str, int] = {}
    for lane, error in zip(trace.lanes, errors, strict=True):
        params = "".join(f", {name} {texts[name][value]}" for name, value in lane.params.items())
        name = f"{algorithm_title(trace.algorithm.name)}, {lane.step_size}{params}"
        first = name not in groups
        colour = groups.setdefault(name, len(groups))
        drawn = seen & np.isfinite(error)
        panel.plot(
            trace.transitions[drawn], error[drawn], color=_colour(trace.algorithm.name, colour),
            linewidth=0.9, label=name if first else None,
        )  # fmt: skip
    _finish(panel, kind)


def _draw_curve(curve: Curve, panel: Axes, kind: Kind) -> None:
    error, seen = curve.errors(kind), curve.transitions > 0
    drawn = seen & np.isfinite(error)
    how = "exact" if curve.standard_error is None else f"mean of {curve.settings['lanes']} runs"
    panel.plot(
        curve.transitions[drawn], error[drawn], color=INK, linewidth=1.1, linestyle=(0.0, (4.0, 1.5)),
        label=f"{algorithm_title(curve.algorithm.name)}, {curve.settings['step_size']}, {how}",
    )  # fmt: skip
    _finish(panel, kind)


def _finish(panel: Axes, kind: Kind) -> None:
    panel.set(xscale="log", yscale="log", xlabel="transitions")
    panel.set_ylabel(f"error of the values ({kind})")
    panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))  # above: lines may be anywhere


def _colour(algorithm: str, number: int) -> str:
    """Return the colour of an algorithm for its first group of lanes, then further ones."""
    further = [look_of(name).colour for name in ("double-chain", "td-lambda", "implicit-td", "relative-td")]
    colours = [look_of(algorithm).colour, *(one for one in further if one != look_of(algorithm).colour)]
    return colours[number % len(colours)]
