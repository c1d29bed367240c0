"""What is drawn of an estimate, as numbers: values in the form that fits them, and the range of the gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gainbias.evaluation.estimate import Estimate, every_observation
from gainbias.evaluation.history import History
from gainbias.evaluation.observations_automatic import BEYOND
from gainbias.evaluation.values.methods import NoValues
from gainbias.features.maps import FeatureMap
from gainbias.features.matrix import FloatArray

MOST_POINTS = 60
"""More discrete observations than this are not drawn one by one."""

SHOWN = 6
"""So many of the best and of the worst are."""

ALONG = 200
ACROSS = 60
"""Points along each axis of a box of one and of two numbers."""

LATE = 0.01
"""Where the gain was before this share of the transitions does not set the range of its chart."""

ROOM = 3.0
"""The chart of the gain reaches so many spreads to either side."""

ROUNDING = 1e-12
"""An interval that is narrower, relative to the largest number of a chart, has no width."""

Form = Literal["points", "line", "map", "extremes"]


@dataclass(frozen=True, eq=False)
class ValueView:
    """Values of the observations that are worth drawing.

    Attributes
    ----------
    form : {"points", "line", "map", "extremes"}
        Discrete observations one by one, a box of one number, two numbers, or the worst and the best.
    seen : (m, ...) array
        The observations; those of a map have the second number change fastest.
    axes : tuple of arrays
        Numbers along the axes: one of points and of a line, two of a map, none of extremes.
    values : (m,) array
        nan where nothing alike was observed.
    intervals : (m, 2) array
        Infinite where too little was observed.
    """

    form: Form
    seen: NDArray[Any]
    axes: tuple[NDArray[Any], ...]
    values: FloatArray
    intervals: FloatArray

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is an interval, (m,)."""
        return np.isfinite(self.intervals[:, 1] - self.intervals[:, 0])

    @property
    def rare(self) -> NDArray[np.bool_]:
        """Where there is a value without an interval, (m,)."""
        return ~self.known & np.isfinite(self.values)


def value_view(estimate: Estimate) -> ValueView | None:
    """Return the values that are drawn, or ``None``: for boxes of more than two numbers, or without bounds.

    Examples
    --------
    >>> import gainbias as gb
    >>> view = value_view(gb.evaluate_log({"state": [0, 1] * 500, "reward": [1.0, 3.0] * 500}))
    >>> view.form, view.axes[0].tolist(), view.values.shape, view.intervals.shape
    ('points', [0, 1], (2,), (2, 2))
    """
    if isinstance(estimate.learned, NoValues):
        return None
    limits = estimate.observed.limits
    size = int(np.prod(limits.shape))
    if limits.whole:
        every = every_observation(limits)
        if every is None:
            return None
        if size == 1 and len(every) <= MOST_POINTS:
            return _view(estimate, "points", every.ravel())
        if size != 2:
            return _extremes(estimate)
        axes = [np.arange(low, high + 1, dtype=np.int64) for low, high in _pairs(limits.low, limits.high)]
        return _view(estimate, "map", *axes)
    box = _box(estimate)
    if size > 2 or box is None:
        return None
    count = ALONG if size == 1 else ACROSS
    axes = [np.linspace(low, high, count) for low, high in _pairs(*box)]
    return _view(estimate, "line" if size == 1 else "map", *axes)


def _pairs(low: FloatArray, high: FloatArray) -> Any:
    return zip(low.ravel(), high.ravel(), strict=True)


def _box(estimate: Estimate) -> tuple[FloatArray, FloatArray] | None:
    """Return finite bounds of observations, from the feature map or from the space."""
    choice: Any = estimate.observed.choice
    box = choice if isinstance(choice, FeatureMap) else estimate.observed.limits
    low, high = np.asarray(box.low, dtype=np.float64).ravel(), np.asarray(box.high, dtype=np.float64).ravel()
    return (low, high) if (np.maximum(np.abs(low), np.abs(high)) < BEYOND).all() else None


def _view(estimate: Estimate, form: Form, *axes: NDArray[Any]) -> ValueView:
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    seen = grid.reshape(-1, *estimate.observed.limits.shape)
    return ValueView(form, seen, axes, estimate.value(seen), estimate.value_interval(seen))


def _extremes(estimate: Estimate) -> ValueView:
    """Return the worst, upwards, then the best."""
    worst, best = estimate.extremes(SHOWN)
    pairs = [*worst, *(pair for pair in best[::-1] if pair not in worst)]
    seen = np.array([place for place, _ in pairs], dtype=np.int64)
    seen = seen.reshape(len(pairs), *estimate.observed.limits.shape)
    values = np.array([value for _, value in pairs])
    return ValueView("extremes", seen, (), values, estimate.value_interval(seen))


def has_varied(history: History) -> NDArray[np.bool_]:
    """Return at which times the gain has an interval with a width, finite or not.

    One without width, but for rounding, is none: rewards did not vary, which does not say how far the gain
    may be.
    """
    widths = history.high - history.low
    scale = np.max(np.abs([history.gain, widths]), where=np.isfinite([history.gain, widths]), initial=0.0)
    return np.asarray(widths > ROUNDING * scale)


def gain_range(estimate: Estimate) -> tuple[float, float] | None:
    """Return the ends of an axis for the gain, as early bands may be far wider than what is worth seeing.

    ``None`` if the gain never changed, and no interval says how far it might.
    """
    history = estimate.history
    low, high = estimate.gain_interval
    late = history.transitions >= LATE * history.transitions[-1]
    widths = np.array([high - low, np.ptp(history.gain[late])])
    spread = ROOM * float(np.max(widths, where=np.isfinite(widths), initial=0.0))
    return (estimate.gain - spread, estimate.gain + spread) if spread > 0.0 else None
