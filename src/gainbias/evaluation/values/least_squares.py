"""Relative values from transitions by average-reward least squares, with intervals under Markov dependence.

With means over all transitions (s, r, s') of phi (phi - phi')^T = A, phi r = c, phi = m and r = g,

    theta = (A + m m^T)^-1 (c - g m),    V(x) = (phi(x) - m)^T theta

which tends to the paper's projected fixed point, with its values centred to have mean 0 under the stationary
law, as the bias has. The error of theta is that of a mean: M (theta - theta*) is the mean of

    u = phi (r - g - (phi - phi')^T theta) - (r - g) m - (phi - m) m^T theta - m phi^T theta

up to terms of second order, with M = A + m m^T. So the means of u over few long batches, multiplied by the
inverse of M, give the covariance of theta and of every V(x) (the sandwich formula), and Student's quantiles
the intervals. Only batch sums of one product are needed, from which u follows at any theta.

If a step takes a time t, the gain g is the ratio of the means of r and t, and g is replaced by g t: these are
the values of a semi-Markov process. They are centred to have mean 0 over time: n, the mean of phi t
divided by that of t, replaces m in V(x) and, times r - g t, in u.

The intervals are for the projected fixed point: how far the features are from expressing the bias is a
different question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy import linalg, stats

from gainbias.evaluation.gain.interval import stretched
from gainbias.evaluation.gain.spectrum import autocorrelation_time
from gainbias.evaluation.values.sums import Moments, MomentSums, dense
from gainbias.features.matrix import Matrix
from gainbias.types import Floats, Ints

ENOUGH_OBSERVATIONS = 20
"""Fewest visits, by the weight of the data, for a value to have an interval."""

UNSEEN_DIRECTION = 1e-10
"""Directions in which features vary less than this, relative to the largest, count as unseen."""

SMALLEST_SQUARE = 1e-240
"""Sums of squares of a feature below this, relative to the largest, are no longer accurate."""

MOST_DECOMPOSED = 500
"""Most features that are decomposed; with more, singular directions are damped, which is far faster."""

ENOUGH_TIMES = 500
"""A run of fewer autocorrelation times of its values than this is called too short."""

ENOUGH_STEPS = 2_000
"""So is one of fewer steps: rare events, and rewards that later compensate each other, need time to show."""

TIMES_PER_BATCH = 12
"""Batches are at least this many autocorrelation times long: their means are then nearly independent, and the
variance between them is about 4% too small."""

FEWEST_VALUE_BATCHES = 2
"""Batches of all chains together, however short the run is."""


@dataclass(frozen=True, eq=False)
class ValueEstimate:
    """Estimated relative values, linear in features, with their errors.

    Attributes
    ----------
    weights : (d,) array
        The weights theta.
    offset : float
        What is added to phi^T theta so that values have mean 0 in the long run.
    confidence : float
        Nominal coverage of the intervals.
    effective_sample_size : float
        Steps of all chains, in autocorrelation times of the values.
    weight_deviations, offset_deviations : (k, d) and (k,) arrays
        Weights and offset from each of the k batches, less the estimate.
    gram : (d, d) array
        Sum of phi phi^T over all steps; or its diagonal, (d,), if all other entries are 0.
    warnings : tuple of str
        Why intervals may be wrong; empty if no reason was found.
    """

    weights: Floats
    offset: float
    confidence: float
    effective_sample_size: float
    weight_deviations: Floats
    offset_deviations: Floats
    gram: Floats
    warnings: tuple[str, ...]

    @property
    def num_batches(self) -> int:
        """Batches behind the intervals."""
        return len(self.offset_deviations)

    def values(self, rows: Matrix) -> Floats:
        """Values of states with these features: (n,) for (n, d)."""
        return np.asarray(rows @ self.weights + self.offset)

    def intervals(self, rows: Matrix) -> Floats:
        """Confidence intervals of the values, (n, 2) for (n, d); infinite where too little was observed."""
        deviations = (rows @ self.weight_deviations.T).T + self.offset_deviations[:, None]
        ends = np.stack(skewed_interval(self.values(rows), deviations, self.confidence), axis=1)
        ends[self.observations(rows) < ENOUGH_OBSERVATIONS] = -np.inf, np.inf
        return ends

    def observations(self, rows: Matrix) -> Floats:
        """Number of visits that the data are worth at rows of features: (n,) for (n, d).

        The inverse of phi^T (sum of phi phi^T)^-1 phi: with one feature per state, the number of visits.
        """
        if self.gram.ndim == 1:
            shares = rows**2 @ (1.0 / np.maximum(self.gram, UNSEEN_DIRECTION))
        else:
            lengths, factor = self._factor
            scaled = linalg.solve_triangular(factor, dense(rows / lengths).T, lower=True)
            shares = (scaled**2).sum(axis=0)
        return np.asarray(1.0 / np.maximum(shares, 1e-300))

    def share_of_constant(self, features: Floats, steps: float) -> float:
        """Return the share of the constant 1 that features express, given their sum over `steps` steps."""
        if self.gram.ndim == 1:
            return 1.0
        lengths, factor = self._factor
        return float((linalg.solve_triangular(factor, features / lengths, lower=True) ** 2).sum() / steps)

    @cached_property
    def _factor(self) -> tuple[Floats, Floats]:
        """Lengths of the features, and the Cholesky factor of their correlations, lifted from singularity."""
        lengths = _lengths(np.diag(self.gram))
        correlations = self.gram / np.outer(lengths, lengths)
        correlations[np.diag_indices(len(lengths))] += UNSEEN_DIRECTION * len(lengths)
        return lengths, linalg.cholesky(correlations, lower=True)


def estimate_values(sums: MomentSums, transient: int = 0, confidence: float = 0.95) -> ValueEstimate:
    """Estimate relative values and their errors.

    Parameters
    ----------
    sums : ValueSums, SparseValueSums or TabularValueSums
        The transitions; at least four steps.
    transient : int
        Initial steps to leave out, rounded up to whole batches.
    confidence : float
        Nominal coverage of the intervals.

    Returns
    -------
    ValueEstimate

    Raises
    ------
    ValueError
        If too few steps are left, or features differ too much in size.

    Examples
    --------
    A chain that forgets its state at once: the value of a state is its reward less the gain.

    >>> from gainbias.evaluation.values.sums import ValueSums
    >>> states = np.random.default_rng(0).integers(0, 2, 20_001)
    >>> rows = np.eye(2)[states]
    >>> sums = ValueSums(2)
    >>> sums.add(rows[:-1], states[:-1], rows[1:])
    >>> estimate = estimate_values(sums)
    >>> estimate.values(np.eye(2)).round(1)
    array([-0.5,  0.5])
    >>> low, high = estimate.intervals(np.eye(2)).T
    >>> bool(low[1] < 0.5 < high[1]), estimate.warnings
    (True, ())
    """
    size = sums.batch_size
    skipped = -(-transient // size)
    batches = sums.batches(skipped)
    if len(batches) < FEWEST_VALUE_BATCHES:
        raise ValueError(
            f"intervals need at least {FEWEST_VALUE_BATCHES} batches, found {len(batches)} of {size} steps "
            f"after a transient of {transient}: run longer"
        )
    total, gram = sums.totals(skipped)
    if not total.duration > 0.0:
        raise ValueError("all steps together take no time")
    squares = gram if gram.ndim == 1 else np.diag(gram)
    if ((total.features != 0.0) & (squares < SMALLEST_SQUARE * squares.max())).any():
        raise ValueError(
            "features differ too much in size: scale them to within a factor of 1e100 of each other"
        )
    fit = _Fit.of(total.means, _lengths(squares))
    times = _independent_pieces(sums, transient, fit, gram)
    groups = _grouped(batches, times / sums.num_chains)
    weights, offsets = fit.deviations([sums.projected(group, fit.weights) for group in groups])
    return ValueEstimate(
        weights=fit.weights,
        offset=-float(fit.centre @ fit.weights),
        confidence=confidence,
        effective_sample_size=times,
        weight_deviations=weights,
        offset_deviations=offsets,
        gram=gram,
        warnings=tuple(too_short(times, int(total.steps), "values")),
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    """The solution of the least-squares equation, and how batches differ from it."""

    weights: Floats
    mean: Floats
    centre: Floats
    gain: float
    duration: float
    solved: Callable[[Floats], Floats]

    @classmethod
    def of(cls, means: Moments, lengths: Floats) -> _Fit:
        mean, gain = means.features, means.reward / means.duration
        solved = _inverse(dense(means.matrix) + np.outer(mean, mean), lengths)
        weights = solved(means.reward_features - gain * means.duration_features)
        centre = means.duration_features / means.duration
        return cls(weights, mean, centre, gain, means.duration, solved)

    def deviations(self, batches: list[Moments]) -> tuple[Floats, Floats]:
        """Return how weights, (k, d), and offset, (k,), would differ if only each batch's noise counted.

        Batches are given by their means, with the product of the matrix and the weights for the matrix.
        """
        theta, mean, centre, gain = self.weights, self.mean, self.centre, self.gain
        weights, offsets = [], []
        for own in batches:
            shift = own.features - mean
            moved = (own.duration_features - own.duration * centre) / self.duration
            surplus = own.reward - gain * own.duration
            noise = own.reward_features - gain * own.duration_features - surplus * centre
            noise = noise - own.matrix - own.features * (mean @ theta) - mean * (shift @ theta)
            weights.append(self.solved(noise))
            offsets.append(-centre @ weights[-1] - moved @ theta)
        return _centred(np.array(weights)), _centred(np.array(offsets))


def _inverse(matrix: Floats, lengths: Floats) -> Callable[[Floats], Floats]:
    """Return a function that multiplies by the inverse of a matrix; unseen directions get the weight 0."""
    scaled = matrix / np.outer(lengths, lengths)
    if len(matrix) <= MOST_DECOMPOSED:
        inverse = linalg.pinv(scaled, rtol=UNSEEN_DIRECTION) / np.outer(lengths, lengths)
        return lambda right: np.asarray(inverse @ right)
    used = np.flatnonzero(scaled.any(axis=1))
    if len(used) <= MOST_DECOMPOSED:  # most states of a table were never seen
        return _filled(_inverse(matrix[np.ix_(used, used)], lengths[used]), used, len(matrix))
    scaled[np.diag_indices(len(scaled))] += UNSEEN_DIRECTION * len(scaled) * np.abs(np.diag(scaled)).max()
    factors = linalg.lu_factor(scaled, overwrite_a=True)
    return lambda right: np.asarray(linalg.lu_solve(factors, right / lengths) / lengths)


def _filled(solved: Callable[[Floats], Floats], used: Ints, size: int) -> Callable[[Floats], Floats]:
    """Extend a function of the unknowns in use to all unknowns; the others are 0."""

    def solved_all(right: Floats) -> Floats:
        answer = np.zeros(size)
        answer[used] = solved(right[used])
        return answer

    return solved_all


def _centred(array: Floats) -> Floats:
    return np.asarray(array - array.mean(axis=0))


def _lengths(squares: Floats) -> Floats:
    """Return lengths of the columns of features, 1 for columns of zeros; scaling saves small features."""
    lengths = np.sqrt(squares)
    return np.where(lengths > 0.0, lengths, 1.0)


def _independent_pieces(sums: MomentSums, transient: int, fit: _Fit, gram: Floats) -> float:
    """Return the steps of all chains together, in autocorrelation times of the values."""
    fine, chains = sums.fine, sums.num_chains
    skipped = -(-transient // fine.size)
    series = fit.weights @ fine.complete[:, skipped:] / (fine.size * chains)
    squares = fit.weights**2 @ gram if gram.ndim == 1 else fit.weights @ gram @ fit.weights
    variance = max(float(squares / (chains * sums.steps) - (fit.mean @ fit.weights) ** 2), 0.0)
    time = autocorrelation_time(series[None]) * fine.size * chains * float(series.var())
    return (sums.steps - skipped * fine.size) * chains * variance / time if time > 0.0 else np.inf


def _grouped(batches: list[Moments], times: float) -> list[Moments]:
    """Add up neighbouring batches so that each has at least `TIMES_PER_BATCH` autocorrelation times."""
    count = len(batches)
    wanted = int(min(count, max(FEWEST_VALUE_BATCHES, times / TIMES_PER_BATCH)))
    length = -(-count // wanted)
    groups = max(count // length, FEWEST_VALUE_BATCHES)
    length = count // groups
    starts = range(count - groups * length, count, length)
    return [reduce(Moments.plus, batches[start : start + length]) for start in starts]


def skewed_interval(estimate: Floats | float, batches: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return Student's interval from independent batches, corrected for their skewness.

    The correction (Willink 2005, as in the procedure Skart of Tafazzoli et al. 2011) moves the interval
    towards the longer tail. It matters for rewards that are rare: there the plain interval is too short on
    that side.

    Parameters
    ----------
    estimate : (n,) array or float
        The means.
    batches : (k, n) or (k,) array
        Means over k batches of equal length, up to a constant; at least two.
    confidence : float
        Nominal coverage.

    Returns
    -------
    low, high : (n,) arrays or numbers

    Examples
    --------
    >>> low, high = skewed_interval(2.0, np.array([1.0, 2.0, 3.0]), 0.95)
    >>> round(float(low), 3), round(float(high), 3)
    (-0.484, 4.484)
    >>> low, high = skewed_interval(1.0, np.array([0.0, 0.0, 0.0, 4.0]), 0.95)
    >>> bool(high - 1.0 > 1.0 - low)
    True
    """
    k = len(batches)
    quantile = float(stats.t.ppf((1.0 + confidence) / 2.0, k - 1))
    deviations = batches - batches.mean(axis=0)
    spread = np.sqrt((deviations**2).sum(axis=0) / (k - 1))
    third = (deviations**3).sum(axis=0) * k / ((k - 1) * max(k - 2, 1))
    skewness = third / np.where(spread > 0.0, spread, 1.0) ** 3
    beta = skewness / (6.0 * np.sqrt(k))
    error = spread / np.sqrt(k)
    return estimate - error * stretched(quantile, beta), estimate - error * stretched(-quantile, beta)


def too_short(effective: float, steps: int, of: str) -> list[str]:
    """Return a warning if a run has too few autocorrelation times or steps."""
    if effective >= ENOUGH_TIMES and steps >= ENOUGH_STEPS:
        return []
    longer = max(ENOUGH_TIMES / max(effective, 1.0), ENOUGH_STEPS / steps)
    return [
        f"too short: {effective:.0f} autocorrelation times of the {of} in {steps} steps, and intervals can "
        f"be trusted from {ENOUGH_TIMES} and {ENOUGH_STEPS} on: run at least {longer:.1f} times as long"
    ]
