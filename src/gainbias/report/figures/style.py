"""One look for all figures.

Sizes for print, colours that all readers tell apart, few numbers along axes, and files without dates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#222222", "#b0b0b0"


Dashes = Literal["-"] | tuple[float, tuple[float, ...]]
"""A solid line, or an offset and the lengths of dashes and gaps in widths of the line."""


class LineStyle(NamedTuple):
    """How an algorithm is drawn: thin dashed lines lie on thick solid ones, so that none hides another."""

    colour: str
    marker: str
    dashes: Dashes = "-"
    width: float = 1.3


OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
"""Colours that nearly all readers tell apart; relatives share one, and differ in marks and dashes."""

MARKS = "os^DvPX"
"""Marks that go with these colours, one for each, so that a print without colours can be read."""

POSITIVE, NEGATIVE = OKABE_ITO[:2]
"""Colours of values above and below 0."""

ALGORITHM_STYLES = {
    "double-chain": LineStyle("#D55E00", "s"),
    "single-chain": LineStyle("#0072B2", "o"),
    "td-lambda": LineStyle("#009E73", "^", (0.0, (4.0, 1.5)), 1.0),
    "implicit-td": LineStyle("#E69F00", "D", (0.0, (1.0, 1.5)), 1.2),
    "relative-td": LineStyle("#CC79A7", "v", (0.0, (5.0, 1.5, 1.0, 1.5)), 1.0),
    "centred-td": LineStyle("#E69F00", "H"),
    "vrtd": LineStyle("#56B4E9", "P", (0.0, (2.0, 1.0)), 1.0),
    "vrtd-all-data": LineStyle("#56B4E9", "p", "-", 1.0),
    "lstd": LineStyle("#000000", "X", (0.0, (5.0, 2.5)), 0.8),
    "double-chain-symmetric": LineStyle("#D55E00", "d", (0.0, (4.0, 1.5)), 1.0),
    "double-chain-centred": LineStyle("#D55E00", "h", (0.0, (1.0, 1.5)), 1.2),
    "projected-td": LineStyle("#009E73", "<", (0.0, (1.0, 1.5)), 1.0),
    "differential-td": LineStyle("#CC79A7", ">", (0.0, (2.0, 1.0)), 1.0),
    "discounted-td": LineStyle("#999999", "8"),
    "lspe": LineStyle("#000000", "+", (0.0, (1.0, 1.5)), 0.8),
    "almost-sure-td": LineStyle("#56B4E9", "*", (0.0, (5.0, 1.5, 1.0, 1.5)), 1.0),
    "adaptive-td": LineStyle("#0072B2", "x", (0.0, (2.0, 1.0)), 1.0),
}
OTHER = LineStyle("#999999", ".")
"""How an algorithm without its own look is drawn."""


class Size(NamedTuple):
    """Width in inches, panels and legend entries side by side, height of a panel, points of letters."""

    width: float
    columns: int
    legend_columns: int
    panel_height: float
    letters: float


SIZES = {"two-column": Size(7.0, 3, 4, 1.52, 7.5), "one-column": Size(3.35, 2, 2, 1.03, 6.0)}
"""For one and two columns of a paper; both leave room for a caption on a page."""

FORMATS = ("png", "svg", "pdf")
NO_DATES = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata that would make two files of the same figure differ."""


def look_of(algorithm: str) -> LineStyle:
    """Return how an algorithm is drawn.

    Examples
    --------
    >>> look_of("single-chain").colour
    '#0072B2'
    """
    return ALGORITHM_STYLES.get(algorithm, OTHER)


@contextmanager
def drawing(size: Size) -> Iterator[None]:
    """Use our matplotlib settings in a ``with`` block, whatever the user's are."""
    try:
        import matplotlib
        from cycler import cycler
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'gainbias[report]'") from error

    settings: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": size.letters,
        "mathtext.fontset": "dejavusans",
        "axes.edgecolor": INK,
        "axes.prop_cycle": cycler(color=OKABE_ITO),
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": size.letters,
        "axes.titlepad": 3.0,
        "axes.titley": 1.0,  # where it would be put anyway, after a search that takes a tenth of the time
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": 0.87 * size.letters,
        "ytick.labelsize": 0.87 * size.letters,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.major.pad": 1.5,
        "ytick.major.pad": 1.5,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "figure.dpi": 100,
        "savefig.dpi": 300,
        "pdf.fonttype": 42,  # letters as an embedded font, which journals ask for
        "svg.fonttype": "path",  # letters as shapes: the same on every machine
        "svg.hashsalt": "gainbias",
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; call it while `drawing`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


MOST_TICKS = 4
"""Most numbers along an axis."""


def few_ticks(low: float, high: float) -> list[float]:
    """Return two to four round numbers on a logarithmic axis.

    Examples
    --------
    >>> few_ticks(0.3, 1.1), few_ticks(8, 300_000), few_ticks(0.42, 0.47), few_ticks(0.1542, 0.1552)
    ([0.3, 1.0], [100.0, 10000.0], [0.43, 0.45, 0.47], [0.1544, 0.1547, 0.155])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    subdivided = {step: [k / step for k in range(step, 10 * step)] for step in (1, 2, 10)}
    finer = ([1.0], [1.0, 3.0], [1.0, 2.0, 5.0], *subdivided.values())
    for digits in finer:
        ticks = [float(f"{digit:g}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 2:
            break
    else:  # the ends are so close together that the scale is nearly linear
        step = 10.0 ** math.floor(math.log10((high - low) / 2.0))
        places = range(math.ceil(low / step), math.floor(high / step) + 1)
        ticks = [float(f"{place * step:.12g}") for place in places]
    stride = math.ceil(len(ticks) / MOST_TICKS)
    return ticks[stride - 1 :: stride] if stride > 1 else ticks


def tick_text(value: float) -> str:
    """Return a tick's number, as a power of ten if it is far from one.

    Examples
    --------
    >>> tick_text(0.02), tick_text(1000.0), tick_text(100000.0)
    ('0.02', '1000', '$10^{5}$')
    """
    return f"{value:g}" if 0.001 <= value < 10_000 else power_of_ten(value)


def use_few_ticks(panel: Axes) -> None:
    """Number a few places of each logarithmic axis of a panel, also where it is shorter than a decade."""
    for axis in (panel.xaxis, panel.yaxis):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            ticks = few_ticks(low, high)
            axis.set_ticks(ticks, texts_of(ticks))
    panel.minorticks_off()  # to place them would take half of the time


def texts_of(ticks: Sequence[float]) -> list[str]:
    r"""Return the numbers of an axis, all as powers of ten if one of them is, and that loses no digits.

    Examples
    --------
    >>> texts_of([100.0, 1000.0]), texts_of([100.0, 10000.0])
    (['100', '1000'], ['$10^{2}$', '$10^{4}$'])
    """
    texts = [tick_text(tick) for tick in ticks]
    is_mixed = any(text.startswith("$") for text in texts)
    is_short = all(float(f"{tick:.0e}") == tick for tick in ticks)
    return [power_of_ten(tick) for tick in ticks] if is_mixed and is_short else texts


def power_of_ten(value: float) -> str:
    r"""Return a tick's number as a power of ten.

    Examples
    --------
    >>> power_of_ten(100.0), power_of_ten(30000.0)
    ('$10^{2}$', '$3\\cdot 10^{4}$')
    """
    digits, power = f"{value:.0e}".split("e")
    return f"$10^{{{int(power)}}}$" if digits == "1" else rf"${digits}\cdot 10^{{{int(power)}}}$"


def save_figure(figure: Figure, stem: str | Path, size: Size, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure, the same bytes each time.

    Files with these names are replaced, and missing folders are made.

    Parameters
    ----------
    figure : Figure
    stem : path
        Path without its ending.
    size : Size
        That the figure was drawn with.
    formats : sequence of str

    Returns
    -------
    list of Path
        The files, one for each format.
    """
    paths = []
    with drawing(size):
        for form in formats:
            path = Path(f"{stem}.{form}")
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, format=form, metadata=NO_DATES[form])
            paths.append(path)
    return paths
