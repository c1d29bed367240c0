"""What the features cannot express, seen in the TD errors of a stretch of the data.

With the exact bias the TD errors r - g + V(s') - V(s) cannot be predicted from anything that came before.
Values from features that miss something leave errors that can be. How much of their variance is predictable
is the square of the Bellman residual, relative to the whole. It is found by regression on the errors before
and on the value or state at hand, so what it finds is a lower bound.
"""

from __future__ import annotations

import numpy as np

from gainbias.evaluation.stream import Transitions
from gainbias.features.matrix import FloatArray

LAGS = 4
"""So many earlier errors are regressed on."""

LEVELS = 16
"""The value at hand is cut into so many levels of equal weight."""

FEWEST = 2_000
"""From fewer steps nothing is concluded."""


def predictable_share(stretch: list[Transitions], weights: FloatArray, gain: float) -> float:
    """Return the share of the variance of TD errors that was predictable; nan for too few steps.

    Parameters
    ----------
    stretch : list of Transitions
        Steps that follow each other within a batch.
    weights : (d,) array
    gain : float

    Returns
    -------
    float
        Between 0 and 1; 0 if nothing was found. Corrected for the number of regressors.
    """
    parts = [part for batch in stretch for part in _regression(batch, weights, gain)]
    if sum(len(errors) for errors, _, _ in parts) < FEWEST:
        return float("nan")
    errors, before, value = (np.concatenate([part[k] for part in parts]) for k in range(3))
    levels = np.unique(np.quantile(value, np.linspace(0.0, 1.0, LEVELS + 1)[1:-1]))
    level = np.searchsorted(levels, value)
    counts = np.bincount(level, minlength=len(levels) + 1)
    regressors = np.column_stack([before, np.eye(len(levels) + 1)[level][:, counts > 0]])
    total = errors - errors.mean()
    if not total @ total > 0.0:
        return 0.0
    left = errors - regressors @ np.linalg.lstsq(regressors, errors, rcond=None)[0]
    count, used = regressors.shape
    return float(np.clip(1.0 - (left @ left) / (total @ total) * (count - 1) / (count - used), 0.0, 1.0))


def _regression(
    batch: Transitions, weights: FloatArray, gain: float
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return for each segment the errors, the `LAGS` errors before each, and the value at hand."""
    values = weights if batch.rows is None else batch.rows @ weights
    errors = batch.rewards - gain + values[batch.after] - values[batch.here]
    at_hand = values[batch.here]
    ends = np.flatnonzero(np.diff(batch.segments)) + 1
    parts = []
    for own, value in zip(np.split(errors, ends), np.split(at_hand, ends), strict=True):
        if len(own) > LAGS:
            before = np.lib.stride_tricks.sliding_window_view(own, LAGS)[:-1]
            parts.append((own[LAGS:], before, value[LAGS:]))
    return parts
