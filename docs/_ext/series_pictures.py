"""The picture on the page about columns of numbers: a level shift, and the slow waves that tell of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gainbias as gb
from docs._ext.pictures import save_pair


def write_series_pictures(source: Path) -> None:
    """Write the picture of a series whose level shifts."""
    save_pair(gb.plot(shifted()).figure, source / "_generated" / "pictures" / "series")


def shifted() -> gb.SeriesEstimate:
    """Return the estimate of 20,000 latencies that rise by a tenth after 12,000."""
    latencies = np.random.default_rng(0).gamma(4.0, 5.0, 20_000)
    latencies[12_000:] += 2.0
    return gb.evaluate_series(latencies)
