"""How the series of a sweep are told apart."""

from __future__ import annotations

from collections.abc import Iterable

from gainbias.report.style import Look

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
DASHES = ("-", (0.0, (4.0, 1.5)), (0.0, (1.0, 1.5)), (0.0, (5.0, 1.5, 1.0, 1.5)))
MARKERS = "osD^vPX"


def looks_of(series: Iterable[str]) -> dict[str, Look]:
    """Return a look for each series: colours first, then also dashes.

    Examples
    --------
    >>> looks = looks_of(["lstd", "td-lambda"])
    >>> looks["lstd"].colour, looks["td-lambda"].colour
    ('#0072B2', '#D55E00')
    """
    return {
        name: Look(
            COLOURS[place % len(COLOURS)],
            MARKERS[place % len(MARKERS)],
            DASHES[place // len(COLOURS) % len(DASHES)],  # type: ignore[arg-type]
        )
        for place, name in enumerate(series)
    }
