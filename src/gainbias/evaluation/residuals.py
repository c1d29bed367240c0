"""What the features cannot express, seen in the TD errors of a stretch of the data.

With the exact bias the TD errors r - g + V(s') - V(s) cannot be predicted from anything that came before.
Values from features that miss something leave errors that can be. How much of their variance is predictable
is the square of the Bellman residual, relative to the whole. It is found by regression on the errors before
and on the value at hand, so what it finds is a lower bound. The regression must prove itself on data that it
was not fitted to: where few rare rewards make up most of the variance, any fit looks good on its own data.
"""

from __future__ import annotations

import numpy as np

from gainbias.evaluation.stream.stream import Transitions
from gainbias.features.matrix import FloatArray

LAGS = 4
"""So many earlier errors are regressed on."""

LEVELS = 16
"""The value at hand is cut into so many levels of equal weight."""

FEWEST = 2_000
"""From fewer steps nothing is concluded."""

FOLDS = 4
"""The stretch is cut into so many parts; each is predicted from the others."""

ROUNDING = 1e-9
"""Errors this small, relative to rewards and values, are none."""

SURE = 5.0
"""A share below so many of its standard errors is taken for chance."""


def predictable_share(
    stretch: list[Transitions], weights: FloatArray, gain: float, reward_variance: float
) -> float:
    """Return the share of the variance of TD errors that was predictable; nan if that cannot be said.

    Parameters
    ----------
    stretch : list of Transitions
        Steps that follow each other within a batch.
    weights : (d,) array
    gain : float
    reward_variance : float
        Of the whole run. What the stretch has less of it, because events are rare, counts as unpredictable:
        values that expect such events are a little off, always to the same side, while there is none.

    Returns
    -------
    float
        Between 0 and 1; 0 if nothing was found, or nothing that could not be chance; nan for too few steps,
        or weights that are not numbers.
    """
    parts = [part for batch in stretch for part in _regression(batch, weights, gain)]
    if sum(len(errors) for errors, _, _ in parts) < FEWEST or not np.isfinite(weights).all():
        return float("nan")
    errors, before, value = (np.concatenate([part[k] for part in parts]) for k in range(3))
    saved, whole = _saved_by_predicting(errors, np.column_stack([before, _levels(value)]))
    rewards = np.concatenate([batch.rewards for batch in stretch])
    rounding = ROUNDING * max(np.abs(rewards).max(), np.abs(value).max())
    if not (saved.sum() > SURE * saved.std() * np.sqrt(len(saved)) and whole.mean() > rounding**2):
        return 0.0
    unseen = max(0.0, reward_variance - float(rewards.var()))
    return float(saved.mean() / (whole.mean() + unseen))


def _saved_by_predicting(errors: FloatArray, regressors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much prediction makes the square of each error smaller, and that square; both (m,).

    Errors are predicted from the other folds, and counted from the mean there.
    """
    fold = np.arange(len(errors)) * FOLDS // len(errors)
    saved, whole = np.empty_like(errors), np.empty_like(errors)
    for own in (fold == k for k in range(FOLDS)):
        fitted = np.linalg.lstsq(regressors[~own], errors[~own], rcond=None)[0]
        whole[own] = (errors[own] - errors[~own].mean()) ** 2
        saved[own] = whole[own] - (errors[own] - regressors[own] @ fitted) ** 2
    return saved, whole


def _levels(value: FloatArray) -> FloatArray:
    """Return indicators of the level of each value, (m, levels)."""
    edges = np.unique(np.quantile(value, np.linspace(0.0, 1.0, LEVELS + 1)[1:-1]))
    return np.eye(len(edges) + 1)[np.searchsorted(edges, value)]


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
