"""What a few runs on several tasks can tell: robust summaries with intervals.

Scores are arrays of shape (runs, tasks), one for each algorithm, as rliable uses them; the definitions are
those of its paper (Agarwal et al.: Deep Reinforcement Learning at the Edge of the Statistical Precipice,
NeurIPS 2021). A score may be infinite (a run that diverged) but not NaN. Everything random takes ``rng``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from gainbias.types import Floats

Better = Literal["lower", "higher"]
Rng = int | np.random.Generator | None

BATCH_ENTRIES = 2**22
"""Most entries of resampled arrays that are in memory at once."""


class Interval(NamedTuple):
    """An estimate and the ends of its confidence interval; numbers, or arrays of one shape.

    Examples
    --------
    >>> Interval(0.5, 0.4, 0.6).low
    0.4
    """

    estimate: Any
    low: Any
    high: Any


def interquartile_mean(scores: ArrayLike) -> Any:
    """Return the mean of the middle half of all runs on all tasks.

    Parameters
    ----------
    scores : (..., runs, tasks) array
        A quarter of the numbers, rounded down, is cut at either end.

    Returns
    -------
    (...) array, or a number

    Examples
    --------
    >>> interquartile_mean([[1, 2], [3, 100]])
    2.5
    """
    scores = _checked(scores)
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = ordered.shape[-1] // 4
    return _plain(ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1))


def probability_of_improvement(scores: ArrayLike, others: ArrayLike, better: Better = "lower") -> Any:
    """Return the probability that a run of one algorithm is better than a run of another, on a random task.

    All pairs of runs are compared; equal scores count one half; tasks have equal weights.

    Parameters
    ----------
    scores : (..., runs, tasks) array
        Of the algorithm that should be better.
    others : (..., other runs, tasks) array
        Of the other one, on the same tasks in the same order.
    better : {"lower", "higher"}
        Errors are better when lower.

    Returns
    -------
    (...) array, or a number

    Examples
    --------
    >>> probability_of_improvement([[1.0], [3.0]], [[2.0], [3.0]])  # wins 2, draws 1, loses 1
    0.625
    """
    scores, others = _checked(scores), _checked(others)
    if scores.shape[-1] != others.shape[-1]:
        raise ValueError(
            f"both algorithms must have the same tasks, found {scores.shape[-1]} and {others.shape[-1]}"
        )
    ours, theirs = scores[..., :, None, :], others[..., None, :, :]
    wins = ours < theirs if _lower_is_better(better) else ours > theirs
    return _plain((wins + 0.5 * (ours == theirs)).mean(axis=(-3, -2, -1)))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike, better: Better = "lower") -> Floats:
    """Return the share of runs that reach each threshold; tasks have equal weights.

    Parameters
    ----------
    scores : (..., runs, tasks) array
    thresholds : (m,) array
    better : {"lower", "higher"}
        "lower" counts the runs at or below a threshold, "higher" those above it, as rliable does.

    Returns
    -------
    (..., m) array

    Examples
    --------
    >>> performance_profile([[0.1, 0.4], [0.2, 0.3]], [0.05, 0.2, 0.4]).tolist()
    [0.0, 0.5, 1.0]
    """
    scores = _checked(scores)
    scores = scores.reshape(*scores.shape[:-2], 1, -1)
    levels = np.asarray(thresholds, dtype=np.float64)[:, None]
    return np.asarray((scores <= levels if _lower_is_better(better) else scores > levels).mean(axis=-1))


def bootstrap_interval(
    statistic: Callable[..., Any],
    *samples: ArrayLike,
    rng: Rng = None,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Return a statistic and its percentile interval under a bootstrap stratified by task.

    In every sample, and separately in every task, runs are drawn again with replacement. So the interval
    is about other runs on the same tasks, not about other tasks. With few runs it is too short: with 3
    normal runs on each of 15 tasks a 95% interval of the interquartile mean covers the truth in 87%.

    Parameters
    ----------
    statistic : callable
        Takes arrays of shape (..., runs, tasks), as many as there are samples, and returns (..., m) or (...).
    *samples : (runs, tasks) arrays
        One for each algorithm, with the same tasks; runs are drawn independently in each.
    rng : int, Generator or None
    resamples : int
    confidence : float
        Between 0 and 1.

    Returns
    -------
    Interval
        Of numbers, or of arrays of shape (m,).

    Examples
    --------
    >>> scores = np.arange(20.0).reshape(10, 2)
    >>> bootstrap_interval(interquartile_mean, scores, rng=0, resamples=500)
    Interval(estimate=9.5, low=6.3, high=12.8)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    if resamples < 2:
        raise ValueError(f"resamples must be 2 or more, found {resamples}")
    arrays = [_checked(sample) for sample in samples]
    rng = np.random.default_rng(rng)
    # A statistic of several samples compares pairs of runs: leave room for that.
    entries = int(np.prod([len(array) for array in arrays])) * arrays[0].shape[1]
    batch = max(1, BATCH_ENTRIES // entries)
    sizes = [min(batch, resamples - done) for done in range(0, resamples, batch)]
    drawn = [statistic(*(_resampled(array, size, rng) for array in arrays)) for size in sizes]
    ordered = np.sort(np.concatenate(drawn), axis=0)
    # Quantiles without interpolation, which two infinite values do not allow.
    left = int(np.floor((1 - confidence) / 2 * (resamples - 1)))
    return Interval(statistic(*arrays), _plain(ordered[left]), _plain(ordered[-1 - left]))


def proportion_interval(held: float, of: int, confidence: float = 0.95) -> Interval:
    """Return a share and its Clopper-Pearson interval, whose coverage is at least the confidence.

    Parameters
    ----------
    held : float
        How many of the trials succeeded; halves (draws) are allowed.
    of : int
        How many trials there were.
    confidence : float
        Between 0 and 1.

    Examples
    --------
    >>> share = proportion_interval(3, 3)
    >>> share.estimate, round(share.low, 3), share.high
    (1.0, 0.292, 1.0)
    """
    if not (of > 0 and 0 <= held <= of):
        raise ValueError(f"must have 0 <= held <= of and of > 0, found held = {held} and of = {of}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, found {confidence}")
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, held, of - held + 1)) if held > 0 else 0.0
    high = float(beta.ppf(1 - tail, held + 1, of - held)) if held < of else 1.0
    return Interval(held / of, low, high)


def scores_by_algorithm(table: Any, score: str = "error") -> dict[str, Floats]:
    """Return the arrays that the functions above, and rliable, take.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns ``algorithm``, ``task``, ``run`` and the score: one row for each. Runs must be independent:
        for a sweep with several paths on an instance, take the mean over the paths, so that each instance is
        one run.
    score : str
        Name of the column. rliable prefers high scores: give it errors with the sign changed.

    Returns
    -------
    dict of (runs, tasks) arrays
        By algorithm; tasks in the order of their first row, runs in ascending order.

    Examples
    --------
    >>> import pandas
    >>> table = pandas.DataFrame({"algorithm": "td-lambda", "task": ["a", "b"], "run": 0, "error": [1.0, 2]})
    >>> scores_by_algorithm(table)
    {'td-lambda': array([[1., 2.]])}
    """
    if table.duplicated(["algorithm", "task", "run"]).any():
        raise ValueError(
            "an algorithm, task and run must have one score: choose one step, kind, target and norm"
        )
    tasks = list(dict.fromkeys(table["task"]))
    scores = {}
    for algorithm, rows in table.groupby("algorithm", sort=False):
        wide = rows.pivot(index="run", columns="task", values=score).reindex(columns=tasks)
        if wide.isna().to_numpy().any():
            run, task = wide.isna().stack().idxmax()
            raise ValueError(f"{algorithm} has no score on task {task}, run {run}: every task needs all runs")
        scores[str(algorithm)] = wide.to_numpy(dtype=np.float64)
    return scores


def _resampled(scores: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Draw runs with replacement, separately for each task: (count, runs, tasks)."""
    runs, tasks = scores.shape
    return np.asarray(scores[rng.integers(runs, size=(count, runs, tasks)), np.arange(tasks)])


def _checked(scores: ArrayLike) -> Floats:
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"scores must have the shape (runs, tasks), found {array.shape}")
    if np.isnan(array).any():
        raise ValueError("scores must not be NaN: leave out runs that were interrupted")
    return array


def _lower_is_better(better: Better) -> bool:
    if better not in ("lower", "higher"):
        raise ValueError(f"better must be 'lower' or 'higher', found {better!r}")
    return better == "lower"


def _plain(numbers: Any) -> Any:
    """Return a Python number for an array without axes."""
    return float(numbers) if np.ndim(numbers) == 0 else np.asarray(numbers)


def tail_of(runs: int) -> int:
    """Return how many runs on either side lie outside the middle 80%.

    Examples
    --------
    >>> tail_of(3), tail_of(30)
    (0, 2)
    """
    return math.floor(0.1 * (runs - 1))
