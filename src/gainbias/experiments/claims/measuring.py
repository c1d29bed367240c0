"""What the claims share: chains to measure on, the mean of an update, and slopes with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from gainbias.algorithms.algorithm import NoParams, Sample
from gainbias.algorithms.registry import ALGORITHMS
from gainbias.experiments.claims.claim import LineFit, Range
from gainbias.experiments.statistics import Interval
from gainbias.features import Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats, Ints

CLAIM_CONFIDENCE = 0.95

WANTED_ERROR = 0.01
"""Wanted mean squared error."""

LONGEST_STEP = 0.125
"""No constant step size that is tried is larger."""

FORGETTING_TIMES = 20.0
"""Curves end after this many times 1 / (step size, slowest rate), when first errors are forgotten."""

FORGETTING_TIMES_OF_RUNS = 6.0
"""The same for runs, which take longer: a squared error has shrunk to e^-12."""

RUNS_OF_SINGLE_CHAIN = 64
"""Runs whose mean stands in for an exact curve, which single-chain does not have."""

READINGS = 400
"""Number of steps at which curves are read; between them their logarithms are straight lines."""

TAIL = 40
"""What stays of the errors of runs is their mean over this many readings in the last quarter."""

ErrorsOf = Callable[[float, Ints], Floats]
"""Mean squared errors with a constant step size, at numbers of steps."""


def random_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return transitions whose rows are drawn evenly among all laws: ergodic, fast, not reversible."""
    return rng.dirichlet(np.ones(num_states), num_states)


def reversible_chain(rng: np.random.Generator, num_states: int) -> Floats:
    """Return a random reversible chain: transitions in proportion to symmetric weights."""
    weights = rng.uniform(0.2, 1.0, (num_states, num_states))
    weights = weights + weights.T
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def rewarding(transitions: Floats, values: Floats, gain: float) -> MarkovRewardProcess:
    """Return the process with a given gain, and with given values for a bias, up to a constant."""
    return MarkovRewardProcess(transitions, gain + values - transitions @ values)


def slow_problem(rng: np.random.Generator, coupling: float) -> Problem:
    """Return two pairs of states between which the chain rarely moves: tabular, gain 1, |theta*| = 1.

    As the coupling falls, eta1 falls with it, and the mixing time grows. Rewards stay about 1 and the bias,
    which differs between the pairs, keeps its length. So nothing changes but the condition of the problem.
    """
    inside, between = np.zeros((4, 4)), np.zeros((4, 4))
    for pair, other in (([0, 1], [2, 3]), ([2, 3], [0, 1])):
        inside[np.ix_(pair, pair)] = rng.dirichlet(np.full(2, 4.0), 2)
        between[np.ix_(pair, other)] = rng.dirichlet(np.full(2, 4.0), 2)
    transitions = (1.0 - coupling) * inside + coupling * between
    values = np.array([1.0, 1.0, -1.0, -1.0]) + 0.3 * rng.normal(size=4)
    return _scaled(transitions, np.eye(4), values, tabular=True)


def short_problem(rng: np.random.Generator, length: float) -> Problem:
    """Return a fast chain, seen through a constant, a feature and a short one: gain 1, |theta*| = 1.

    As the feature becomes shorter, eta1 falls with its square, and the mixing time does not change.
    """
    transitions = random_chain(rng, 4)
    columns = np.column_stack([np.ones(4), rng.normal(size=4), length * rng.normal(size=4)])
    features = columns / np.linalg.norm(columns, axis=1).max()
    return _scaled(transitions, features, np.array([0.0, 0.5, 1.0]))


def _scaled(transitions: Floats, features: Floats, weights: Floats, tabular: bool = False) -> Problem:
    """Return the problem whose fixed point has the direction of weights, up to a constant, and length 1."""
    seen = Tabular() if tabular else features
    first = Problem(rewarding(transitions, features @ weights, 1.0), seen)
    size = float(np.linalg.norm(first.fixed_point))
    return Problem(rewarding(transitions, features @ weights / size, 1.0), seen)


SLOW_PREFIX = "slow"
"""Names of slow chains begin with this."""


def fast_and_slow(seed: int, quick: bool) -> Iterator[tuple[str, MarkovRewardProcess]]:
    """Yield named random chains, fast and slow in turn, ten of each or, for a quick look, two."""
    rng = np.random.default_rng(seed)
    for k in range(2 if quick else 10):
        n = int(rng.integers(2, 9))
        yield f"fast chain {k + 1}", MarkovRewardProcess(random_chain(rng, n), rng.normal(size=n))
        yield f"{SLOW_PREFIX} chain {k + 1}", slow_problem(rng, 10.0 ** rng.uniform(-3, -1)).mrp


SampleField = Callable[[Sample, NoParams, float], tuple[Floats, Floats] | None]


def double_chain_field() -> SampleField:
    """Return the step of double-chain for one sample."""
    field = ALGORITHMS["double-chain"].declared.sample_field
    assert field is not None
    return field


def mean_update(field: SampleField, problem: Problem) -> tuple[Floats, Floats]:
    """Return A and b of the mean update b - A theta, the second chain independent of the first.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> mean_update(double_chain_field(), problem)
    (array([[0.7]]), array([0.25]))
    """
    d, mu, transitions = problem.num_features, problem.solution.stationary, problem.mrp.csr.toarray()
    rows, rewards = problem.features.combine(np.eye(d)), problem.mrp.rewards
    matrix, force = np.zeros((d, d)), np.zeros(d)
    for (s, after, other), probability in np.ndenumerate(mu[:, None, None] * transitions[:, :, None] * mu):
        sample = Sample(
            rows[s], rows[after], float(rewards[s]), rows[other], rows[other], float(rewards[other])
        )
        made = field(sample, NoParams(), 1.0)
        assert made is not None
        matrix += probability * made[0]
        force += probability * made[1]
    return matrix, force


def median_and_range(values: Sequence[float]) -> Range:
    """Return the median of some numbers, with the smallest and the largest as the ends.

    Examples
    --------
    >>> median_and_range([3.0, 1.0, 2.5])
    Range(estimate=2.5, low=1.0, high=3.0)
    """
    return Range(float(np.median(values)), min(values), max(values))


def log_slope(x: ArrayLike, y: ArrayLike) -> LineFit:
    """Return the slope of log y on log x by least squares, with its 95 % interval.

    For exact curves the interval does not speak about chance, but about how far they are from a straight
    line.

    Examples
    --------
    >>> slope = log_slope([1, 10, 100], [3, 300, 30000])
    >>> round(slope.estimate, 6), round(slope.high - slope.low, 6)
    (2.0, 0.0)
    """
    across, up = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    if len(across) < 3:
        raise ValueError(f"the interval of a slope needs at least 3 points, found {len(across)}")
    weights = _weights(across)
    slope = float(up @ weights)
    missed = up - up.mean() - slope * (across - across.mean())
    error = np.sqrt((missed**2).sum() / (len(across) - 2) * (weights**2).sum())
    reach = float(student.ppf(0.5 + CLAIM_CONFIDENCE / 2, len(across) - 2) * error)
    return LineFit(slope, slope - reach, slope + reach)


def mean_slope(x: ArrayLike, samples: Floats) -> Interval:
    """Return the slope of log mean(samples) on log x, samples (runs, points), with an interval over runs.

    The interval is found by leaving out one run at a time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.array([10.0, 100.0, 1000.0])
    >>> slope = mean_slope(x, rng.chisquare(1, (500, 3)) / x)
    >>> slope.low < -1 < slope.high
    True
    """
    runs = len(samples)
    weights = _weights(np.log(np.asarray(x, dtype=float)))
    total = samples.sum(axis=0)
    slope = float(np.log(total) @ weights)
    without_one = np.log((total - samples) / (runs - 1)) @ weights
    error = np.sqrt((runs - 1) / runs * ((without_one - without_one.mean()) ** 2).sum())
    reach = float(student.ppf(0.5 + CLAIM_CONFIDENCE / 2, runs - 1) * error)
    return Interval(slope, slope - reach, slope + reach)


def _weights(across: Floats) -> Floats:
    centred = across - across.mean()
    return np.asarray(centred / (centred**2).sum())


def steps_for_error(
    errors_of: ErrorsOf, rate: float, *, by_runs: bool = False, at_least: int = 0
) -> tuple[float, float]:
    """Return T(epsilon), and the constant step size with which half of epsilon stays forever.

    Parameters
    ----------
    errors_of : callable (step_size, steps) -> (steps,) array
        Mean squared errors at numbers of steps.
    rate : float
        Slowest rate of the mean update: first errors are forgotten after some 1 / (step size rate) steps.
    by_runs : bool
        Whether errors are means over runs. What stays is then found to a tenth instead of a hundredth.
    at_least : int
        Steps that curves have anyway: where a chain moves more slowly than weights, it decides.

    Examples
    --------
    >>> def errors_of(step_size, steps):
    ...     return np.exp(-2.0 * step_size * steps) + step_size
    >>> steps, step_size = steps_for_error(errors_of, rate=1.0)
    >>> abs(step_size - 0.005) < 1e-4, bool(abs(steps / (np.log(200) / 0.01) - 1.0) < 0.01)
    (True, True)
    """
    step_size, close = LONGEST_STEP, 0.1 if by_runs else 0.01

    def last() -> int:
        times = FORGETTING_TIMES_OF_RUNS if by_runs else FORGETTING_TIMES
        return max(at_least, int(times / (step_size * rate)) + 1)

    for _ in range(40):
        tail = np.linspace(0.75 * last(), last(), TAIL).astype(np.int64) if by_runs else np.array([last()])
        with np.errstate(all="ignore"):  # steps that are too long may overflow
            stays = float(errors_of(step_size, tail).mean())
        wanted = 0.99 * WANTED_ERROR / (2.0 * stays) if np.isfinite(stays) and stays > 0.0 else 0.0
        if abs(wanted - 1.0) <= close or (wanted > 1.0 and step_size >= LONGEST_STEP):  # or even less stays
            steps = np.unique(np.geomspace(1, last(), READINGS).astype(np.int64))
            return _crossing(steps, errors_of(step_size, steps)), step_size
        # What stays grows with the step size, or with its square: this power serves both.
        step_size *= max(0.1, min(wanted**0.7, 2.0))
    raise RuntimeError(f"no step size leaves an error of {WANTED_ERROR / 2}")


def _crossing(steps: Ints, errors: Floats) -> float:
    """Return where errors fall below epsilon for good, by a straight line between the logarithms."""
    above = np.flatnonzero(errors > WANTED_ERROR)
    if not above.size:
        return float(steps[0])
    last = int(above[-1])
    if last == len(steps) - 1:
        raise RuntimeError(f"the error is above {WANTED_ERROR} at the end of the curve")
    high, low = np.log(errors[last : last + 2] / WANTED_ERROR)
    return float(steps[last] * (steps[last + 1] / steps[last]) ** (high / (high - low)))
