"""Which numbers parameters may be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """Numbers from `least` to `most`; the ends belong to it only where that is said.

    Examples
    --------
    >>> 0.0 in Interval(0.0, 1.0, with_least=True), str(Interval(0.0, 1.0, with_least=True))
    (True, 'at least 0 and below 1')
    """

    least: float
    most: float
    with_least: bool = False
    with_most: bool = False

    def __contains__(self, number: float) -> bool:
        above = number >= self.least if self.with_least else number > self.least
        return above and (number <= self.most if self.with_most else number < self.most)

    def __str__(self) -> str:
        low = f"{'at least' if self.with_least else 'above'} {self.least:g}"
        if self.most == np.inf:
            return low + (", infinity allowed" if self.with_most else " and finite")
        return f"{low} and {'at most' if self.with_most else 'below'} {self.most:g}"


POSITIVE = Interval(0.0, np.inf)
NOT_NEGATIVE = Interval(0.0, np.inf, with_least=True)
RADIUS = Interval(0.0, np.inf, with_most=True)
FRACTION = Interval(0.0, 1.0, with_least=True)
