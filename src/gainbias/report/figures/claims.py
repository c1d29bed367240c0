"""Charts of the paper's headline claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gainbias.experiments.claims.claim import Chart, Line
from gainbias.report.figures.style import FAINT, OKABE_ITO, SIZES, LineStyle, drawing, look_of, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HEIGHTS = {"two-column": 3.2, "one-column": 3.0}
"""Of charts, in inches; in one column the legend stands below."""

CLAIM_STYLES = [LineStyle(colour, marker) for colour, marker in zip(OKABE_ITO, "os^DvPX", strict=True)]
"""For lines that are not named after an algorithm."""


def draw_chart(chart: Chart, size: str = "two-column") -> Figure:
    """Draw a chart: predictions as faint lines, all else as marks, with intervals where there are any."""
    shape = SIZES[size]
    with drawing(shape):
        figure = new_figure(shape.width, HEIGHTS[size])
        axes = figure.add_subplot()
        measured = [line for line in chart.lines if not line.reference]
        for number, line in enumerate(measured):
            _draw(axes, line, number)
        for line in chart.lines:
            if line.reference:
                axes.plot(line.x, line.y, color=FAINT, linewidth=0.9, label=line.name, zorder=1)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y, xscale=chart.x_axis, yscale=chart.y_axis)
        if size == "two-column":
            figure.legend(loc="outside right upper", ncols=1)
        else:
            figure.legend(loc="outside lower center", ncols=shape.legend_columns)
    return figure


def _draw(axes: Any, line: Line, number: int) -> None:
    look = line_look(line, number)
    style = {"color": look.colour, "marker": look.marker, "markersize": 2.6, "label": line.name}
    joined = "-" if list(line.x) == sorted(line.x) else "none"
    if line.low:
        ends = [
            [y - low for y, low in zip(line.y, line.low, strict=True)],
            [high - y for y, high in zip(line.y, line.high, strict=True)],
        ]
        axes.errorbar(line.x, line.y, yerr=ends, linestyle="none", elinewidth=0.7, **style)
    else:
        axes.plot(line.x, line.y, linestyle=joined, linewidth=0.7, **style)


def line_look(line: Line, number: int) -> LineStyle:
    """Return how a line is drawn: like the algorithm that it is named after, or by its number."""
    known = look_of(line.name)
    return CLAIM_STYLES[number % len(CLAIM_STYLES)] if known is look_of("") else known
