"""How the series of a sweep are told apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from gainbias.report.figures.style import OKABE_ITO, Dashes, Look, look_of

OTHERS: tuple[tuple[Dashes, str], ...] = (
    ("-", "o"),
    ((0.0, (4.0, 1.5)), "s"),
    ((0.0, (1.0, 1.5)), "D"),
    ((0.0, (5.0, 1.5, 1.0, 1.5)), "v"),
)
"""Dashes and marks of further series of an algorithm."""


def looks_of(series: Iterable[str]) -> dict[str, Look]:
    """Return a look for each series, which is named by its algorithm and what else it has.

    The first series of an algorithm looks as the algorithm does everywhere; others have its colour with other
    dashes and marks, and another colour only where these run out.

    Examples
    --------
    >>> looks = looks_of(["td-lambda, trace_decay 0", "td-lambda, trace_decay 0.9", "lstd"])
    >>> [look.colour for look in looks.values()]
    ['#000000', '#009E73', '#009E73']
    """
    looks: dict[str, Look] = {}
    for name in sorted(series):
        own = look_of(name.partition(",")[0])
        colours = [own.colour, *(colour for colour in OKABE_ITO if colour != own.colour)]
        others = (
            own._replace(colour=colour, dashes=dashes, marker=marker)
            for colour, (dashes, marker) in itertools.product(colours, OTHERS)
        )
        taken = {(look.colour, look.dashes) for look in looks.values()}
        free = (look for look in (own, *others) if (look.colour, look.dashes) not in taken)
        looks[name] = next(free, own)
    return looks
