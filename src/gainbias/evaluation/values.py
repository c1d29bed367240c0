"""Relative values from transitions by average-reward least squares, with intervals under Markov dependence.

With means over all transitions (s, r, s') of phi (phi - phi')^T = A, phi r = c, phi = m and r = g,

    theta = (A + m m^T)^-1 (c - g m),    V(x) = (phi(x) - m)^T theta

which tends to the paper's projected fixed point, with its values centred to have mean 0 under the stationary
law, as the bias has. The error of theta is that of a mean: M (theta - theta*) is the mean of

    u = phi (r - g - (phi - phi')^T theta) - (r - g) m - (phi - m) m^T theta - m phi^T theta

up to terms of second order, with M = A + m m^T. So the means of u over few long batches, multiplied by the
inverse of M, give the covariance of theta and of every V(x) (the sandwich formula), and Student's quantiles
the intervals. All that is needed are batch sums of one product, from which u follows at any theta.

The intervals are for the projected fixed point: how far the features are from expressing the bias is another
question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from gainbias.evaluation.autocorrelation import autocorrelation_time
from gainbias.evaluation.intervals import FEWEST_BATCHES, TIMES_PER_BATCH, skewed_interval, too_short
from gainbias.evaluation.values_sums import ValueSums
from gainbias.features.matrix import FloatArray

ENOUGH_OBSERVATIONS = 20
"""Where the data weigh less than so many visits, a value has no interval."""

SINGULAR = 1e-10
"""Directions in which features vary less than this, relative to the largest, have not been seen."""


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
        What each of the k batches says about weights and offset, less the estimate.
    gram : (d, d) array
        Sum of phi phi^T over all steps.
    warnings : tuple of str
        Why intervals may be wrong; empty if nothing speaks against them.
    """

    weights: FloatArray
    offset: float
    confidence: float
    effective_sample_size: float
    weight_deviations: FloatArray
    offset_deviations: FloatArray
    gram: FloatArray
    warnings: tuple[str, ...]

    @property
    def num_batches(self) -> int:
        """Batches behind the intervals."""
        return len(self.offset_deviations)

    def values(self, features: ArrayLike) -> FloatArray:
        """Values of states with these features: (n,) for (n, d)."""
        return np.asarray(np.asarray(features) @ self.weights + self.offset)

    def intervals(self, features: ArrayLike) -> FloatArray:
        """Confidence intervals of the values, (n, 2) for (n, d); infinite where too little was observed."""
        rows = np.asarray(features, dtype=np.float64)
        deviations = self.weight_deviations @ rows.T + self.offset_deviations[:, None]
        ends = np.stack(skewed_interval(self.values(rows), deviations, self.confidence), axis=1)
        ends[self.observations(rows) < ENOUGH_OBSERVATIONS] = -np.inf, np.inf
        return ends

    def observations(self, features: ArrayLike) -> FloatArray:
        """How many visits the data weigh at these features: (n,) for (n, d).

        The inverse of phi^T (sum of phi phi^T)^-1 phi: the number of visits for one feature per state.
        """
        rows = np.asarray(features, dtype=np.float64)
        lengths = _lengths(self.gram)
        sizes, axes = linalg.eigh(self.gram / np.outer(lengths, lengths))
        shares = (rows / lengths @ axes) ** 2 / np.maximum(sizes, SINGULAR * sizes[-1])
        return np.asarray(1.0 / np.maximum(shares.sum(axis=1), 1e-300))


def estimate_values(sums: ValueSums, transient: int = 0, confidence: float = 0.95) -> ValueEstimate:
    """Estimate relative values and their errors.

    Parameters
    ----------
    sums : ValueSums
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
        If too few steps are left.

    Examples
    --------
    A chain that forgets its state at once: the value of a state is its reward less the gain.

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
    size = sums.products.size
    skipped = -(-transient // size)
    batches = sums.products.complete[..., skipped:]
    if batches.shape[-1] < FEWEST_BATCHES:
        raise ValueError(
            f"intervals need at least {FEWEST_BATCHES} batches, found {batches.shape[-1]} of {size} steps "
            f"after a transient of {transient}: run longer"
        )
    total, gram = sums.totals(skipped)
    fit = _Fit.of(total, _lengths(gram))
    times = _independent_pieces(sums, transient, fit, gram)
    grouped = _grouped(batches, times / sums.num_chains)
    weights, offsets = fit.deviations(grouped)
    steps = int(total[-1, -2])
    return ValueEstimate(
        weights=fit.weights,
        offset=-float(fit.mean @ fit.weights),
        confidence=confidence,
        effective_sample_size=times,
        weight_deviations=weights,
        offset_deviations=offsets,
        gram=gram,
        warnings=tuple(too_short(times, steps, "values")),
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    """The solution of the least-squares equation, and what is needed to see how batches differ from it."""

    weights: FloatArray
    mean: FloatArray
    gain: float
    inverse: FloatArray

    @classmethod
    def of(cls, total: FloatArray, lengths: FloatArray) -> _Fit:
        averages = total / total[-1, -2]
        matrix, mean, reward_features, gain = _parts(averages)
        scales = np.outer(lengths, lengths)
        matrix = matrix + np.outer(mean, mean)
        inverse = linalg.pinv(matrix / scales, rtol=SINGULAR) / scales
        return cls(inverse @ (reward_features - gain * mean), mean, float(gain), inverse)

    def deviations(self, batches: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how weights, (k, d), and offset, (k,), would differ if only each batch's noise counted."""
        theta, mean = self.weights, self.mean
        weights, offsets = [], []
        for batch in np.moveaxis(batches, -1, 0):
            matrix, own_mean, reward_features, own_gain = _parts(batch / batch[-1, -2])
            shift = own_mean - mean
            noise = reward_features - self.gain * own_mean - (own_gain - self.gain) * mean - matrix @ theta
            noise -= own_mean * (mean @ theta) + mean * (shift @ theta)
            weights.append(self.inverse @ noise)
            offsets.append(-mean @ weights[-1] - shift @ theta)
        return _centred(np.array(weights)), _centred(np.array(offsets))


def _parts(averages: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The means of phi (phi - phi')^T, phi, phi r and r."""
    return averages[:-1, :-2], averages[:-1, -2], averages[:-1, -1], averages[-1, -1]


def _centred(array: FloatArray) -> FloatArray:
    return np.asarray(array - array.mean(axis=0))


def _lengths(gram: FloatArray) -> FloatArray:
    """Lengths of the columns of the features, 1 for those that are 0: small features are no rare ones."""
    lengths = np.sqrt(np.diag(gram))
    return np.where(lengths > 0.0, lengths, 1.0)


def _independent_pieces(sums: ValueSums, transient: int, fit: _Fit, gram: FloatArray) -> float:
    """How many autocorrelation times of the values all chains made together."""
    fine, chains = sums.fine, sums.num_chains
    skipped = -(-transient // fine.size)
    series = fit.weights @ fine.complete[:, skipped:] / (fine.size * chains)
    second = fit.weights @ gram @ fit.weights / (chains * sums.steps)
    variance = max(float(second - (fit.mean @ fit.weights) ** 2), 0.0)
    time = autocorrelation_time(series[None]) * fine.size * chains * float(series.var())
    return (sums.steps - skipped * fine.size) * chains * variance / time if time > 0.0 else np.inf


def _grouped(batches: FloatArray, times: float) -> FloatArray:
    """Add up neighbouring batches so that each has at least `TIMES_PER_BATCH` autocorrelation times."""
    count = batches.shape[-1]
    wanted = int(min(count, max(FEWEST_BATCHES, times / TIMES_PER_BATCH)))
    length = -(-count // wanted)
    groups = max(count // length, FEWEST_BATCHES)
    length = count // groups
    last = batches[..., count - groups * length :]
    return np.asarray(last.reshape(*batches.shape[:-1], groups, length).sum(axis=-1))
