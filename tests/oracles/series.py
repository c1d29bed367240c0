"""Random series with known means and quantiles: the judges of intervals for one column of numbers.

They were written down before the method that they judge, and stay as they are. A process whose parameters
turn out to be badly chosen gets a neighbour under another name.

Means, quantiles and long-run variances are closed forms, or come from sums, quadrature and root-finding that
are right to 1e-6 and better; none is simulated. A process is in its stationary law from the first step on,
unless `Process.steady` says otherwise: by an exact draw, or by leaving out a beginning of at least 200
relaxation times, after which e^-200 of the start is left. Seasons begin at a random phase, because nobody
knows when a measurement begins.

Relaxation time means one thing here: ``1 / (1 - r)``, where correlations of the slowest part end up
shrinking by the factor ``r`` each step. It is 1 for independent numbers, ``1 / (1 - |phi|)`` for
autoregressions, the period for seasons and the window for moving averages. (For a positive autoregression
the integrated time ``1 + 2 * sum of correlations`` is nearly twice that; for waiting times it is the same.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import ndtr
from scipy.stats import lognorm, norm

Floats = NDArray[np.float64]
Random = np.random.Generator
Generate = Callable[[Random, int, int], Floats]
GeneratePair = Callable[[Random, int, int], tuple[Floats, Floats]]

LEVELS = (0.5, 0.95, 0.99)
"""Quantiles that are known where a process has them."""


@dataclass(frozen=True, eq=False)
class Process:
    """A random series and what is known about it.

    Attributes
    ----------
    name, kind : str
        ``kind`` is a word for the family.
    generate : function ``(rng, length, runs) -> (runs, length) array``
        None for pairs.
    generate_pair : function ``(rng, length, runs) -> (x, y)``, two ``(runs, length)`` arrays
        For ratios of sums; `mean` is then the true ratio, and `long_run_variance` that of the ratio.
    mean : float or None
        In steady state; None if there is no such number.
    quantiles : dict
        From 0.5, 0.95 and 0.99 to the true quantile. A quantile that is missing is not unique or not known.
    relaxation : float or None
        In steps; see the head of this module. None if the length of the run sets the pace.
    rare : float or None
        Mean number of steps between independent rare events that matter for the mean.
    long_run_variance : float or None
        Limit of the length times the variance of the mean; None if it is infinite or there is none.
    tail : str
    steady : bool
        Whether all values have the same law.
    verdict : str
        What a good method says about a run that is long enough.
    discrete : bool
    chains : int
        A run is this many chains of equal length, one after the other.
    """

    name: str
    kind: str
    generate: Generate | None
    mean: float | None
    quantiles: dict[float, float]
    relaxation: float | None
    long_run_variance: float | None
    rare: float | None = None
    tail: Literal["light", "heavy with finite variance", "infinite variance"] = "light"
    steady: bool = True
    verdict: Literal[
        "steady", "drifting", "level shift", "warming up", "periodic", "chains disagree", "heavy tails"
    ] = "steady"
    discrete: bool = False
    chains: int = 1
    generate_pair: GeneratePair | None = field(default=None)


# ---------------------------------------------------------------- parts that several processes are made of


def autoregression(rng: Random, length: int, runs: int, phi: float, deviation: float = 1.0) -> Floats:
    """Gaussian AR(1) in steady state with this standard deviation."""
    shocks = rng.standard_normal((runs, length))
    shocks[:, 1:] *= np.sqrt(1 - phi**2)
    return lfilter([deviation], [1.0, -phi], shocks, axis=1)


def autoregression_variance(phi: float, deviation: float = 1.0) -> float:
    """Long-run variance of an AR(1)."""
    return deviation**2 * (1 + phi) / (1 - phi)


def two_states(rng: Random, length: int, runs: int, enter: float, leave: float) -> NDArray[np.bool_]:
    """Path of a stationary chain that enters and leaves state 1 with these chances.

    Every step sets the state to 1 (chance ``enter``), to 0 (chance ``leave``) or keeps it: the state is
    what was set last.
    """
    drawn = rng.random((runs, length))
    sets = (drawn < enter) | (drawn >= 1 - leave)
    to = drawn < enter
    sets[:, 0], to[:, 0] = True, rng.random(runs) < enter / (enter + leave)
    last = np.maximum.accumulate(np.where(sets, np.arange(length), 0), axis=1)
    return np.take_along_axis(to, last, axis=1)


def two_states_variance(enter: float, leave: float) -> float:
    """Long-run variance of the indicator of state 1."""
    share, kept = enter / (enter + leave), 1 - enter - leave
    return share * (1 - share) * (1 + kept) / (1 - kept)


def reflected(start: Floats, increments: Floats) -> Floats:
    """Return the walk that begins in ``start`` and is ``max(0, last + increment)`` from step to step."""
    sums = np.concatenate([np.zeros((len(start), 1)), np.cumsum(increments, axis=1)], axis=1)
    return sums - np.minimum(np.minimum.accumulate(sums, axis=1), -start[:, None])


def seasonal(rng: Random, length: int, runs: int, profile: Floats) -> Floats:
    """Repeat a profile from a random phase on."""
    phase = rng.integers(len(profile), size=(runs, 1))
    return profile[(phase + np.arange(length)) % len(profile)]


def roots(
    cdf: Callable[[float], float], low: float, high: float, levels: Iterable[float] = LEVELS
) -> dict[float, float]:
    """Quantiles of a continuous law from its distribution function, by bisection and secants."""
    return {
        level: float(brentq(lambda x, level=level: cdf(x) - level, low, high, xtol=1e-12, rtol=1e-14))
        for level in levels
    }


def normal_mixture(weights: ArrayLike, means: ArrayLike, deviation: float = 1.0) -> dict[float, float]:
    """Quantiles of a mixture of normal laws with one standard deviation."""
    weights, means = np.asarray(weights), np.asarray(means)
    return roots(
        lambda x: float(weights @ ndtr((x - means) / deviation)),
        float(means.min()) - 10 * deviation,
        float(means.max()) + 10 * deviation,
    )


def normal_quantiles(deviation: float = 1.0) -> dict[float, float]:
    """Quantiles of a centred normal law."""
    return {level: float(deviation * norm.ppf(level)) for level in LEVELS}


# ---------------------------------------------------------------------------------------------- queues


def waiting_times(load: float, start: float | None = None) -> Process:
    """Waiting times in an M/M/1 queue, mean service 1; in steady state or after a given first wait.

    The law has an atom ``1 - load`` at 0 and is exponential beyond. Long-run variance: Daley (1968).
    """

    def generate(rng: Random, length: int, runs: int) -> Floats:
        first = rng.exponential(1 / (1 - load), runs) * (rng.random(runs) < load)
        steps = (runs, length - 1)
        increments = rng.standard_exponential(steps) - rng.exponential(1 / load, steps)
        return reflected(first if start is None else np.full(runs, start), increments)

    return Process(
        f"waiting-{load:g}" if start is None else f"waiting-{load:g}-from-{start:g}",
        "queue",
        generate,
        mean=load / (1 - load),
        quantiles={level: max(0.0, float(np.log(load / (1 - level)) / (1 - load))) for level in LEVELS},
        relaxation=((1 + load) / (1 - load)) ** 2,
        long_run_variance=load * (2 + 5 * load - 4 * load**2 + load**3) / (1 - load) ** 4,
        steady=start is None,
        verdict="steady" if start is None else "warming up",
    )


def queue_length(arrival: float = 0.32, service: float = 0.4) -> Process:
    """Length of an unlimited queue with at most one arrival or departure in a step: geometric."""
    load = arrival / service

    def generate(rng: Random, length: int, runs: int) -> Floats:
        drawn = rng.random((runs, length - 1))
        moves = (drawn < arrival).astype(float) - (drawn >= 1 - service)
        return reflected(rng.geometric(1 - load, runs) - 1.0, moves)

    return Process(
        "queue-length",
        "queue",
        generate,
        mean=load / (1 - load),
        quantiles={level: float(np.ceil(np.log(1 - level) / np.log(load)) - 1) for level in LEVELS},
        relaxation=1 / (np.sqrt(service) - np.sqrt(arrival)) ** 2,
        long_run_variance=2 * load * (1 + load) / (service * (1 - load) ** 4) - load / (1 - load) ** 2,
        discrete=True,
    )


# -------------------------------------------------------------- hidden regimes, autoregressions, volatility


def hidden_regime(name: str, low: float, high: float, switch: float, noise: float) -> Process:
    """Noise around one of two levels, which change with a small chance."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        state = two_states(rng, length, runs, switch, switch)
        return np.where(state, high, low) + noise * rng.standard_normal((runs, length))

    return Process(
        name,
        "regime",
        generate,
        mean=(low + high) / 2,
        quantiles=normal_mixture([0.5, 0.5], [low, high], noise),
        relaxation=1 / (2 * switch),
        long_run_variance=(high - low) ** 2 * two_states_variance(switch, switch) + noise**2,
    )


def autoregressive(phi: float) -> Process:
    """Gaussian AR(1) of standard deviation 1."""
    return Process(
        f"ar{phi:g}",
        "autoregression",
        lambda rng, length, runs: autoregression(rng, length, runs, phi),
        mean=0.0,
        quantiles=normal_quantiles(),
        relaxation=1 / (1 - abs(phi)),
        long_run_variance=autoregression_variance(phi),
    )


def slow_under_fast(slow: float = 0.999, fast: float = 0.3, deviation: float = 0.2) -> Process:
    """A small slow autoregression added to a fast one of standard deviation 1."""
    return Process(
        "slow-under-fast",
        "autoregression",
        lambda rng, length, runs: (
            autoregression(rng, length, runs, slow, deviation) + autoregression(rng, length, runs, fast)
        ),
        mean=0.0,
        quantiles=normal_quantiles(np.sqrt(1 + deviation**2)),
        relaxation=1 / (1 - slow),
        long_run_variance=autoregression_variance(slow, deviation) + autoregression_variance(fast),
    )


def lognormal_autoregression(phi: float = 0.95) -> Process:
    """Exponential of an AR(1) of standard deviation 1; its covariances are ``e * (e^(phi^k) - 1)``."""
    lags = phi ** np.arange(1, 2000)
    return Process(
        "lognormal-ar",
        "autoregression",
        lambda rng, length, runs: np.exp(autoregression(rng, length, runs, phi)),
        mean=float(np.exp(0.5)),
        quantiles={level: float(np.exp(norm.ppf(level))) for level in LEVELS},
        relaxation=1 / (1 - phi),
        long_run_variance=float(np.e * (np.expm1(1.0) + 2 * np.expm1(lags).sum())),
        tail="heavy with finite variance",
    )


GARCH = (0.1, 0.1, 0.8)
"""Constant, weight of the last square and weight of the last variance: the stationary variance is 1."""

GARCH_QUANTILES = {0.5: 0.0, 0.95: 1.63464641, 0.99: 2.38429414}
"""What `garch_quantiles` returns."""


def volatility() -> Process:
    """GARCH(1, 1): uncorrelated numbers whose variance comes in waves; the fourth moment is finite."""
    constant, square, kept = GARCH
    unused = 2000

    def generate(rng: Random, length: int, runs: int) -> Floats:
        values = rng.standard_normal((length + unused, runs))
        variance = np.ones(runs)
        for row in values:
            row *= np.sqrt(variance)
            variance = constant + square * row**2 + kept * variance
        return np.ascontiguousarray(values[unused:].T)

    return Process(
        "garch",
        "volatility",
        generate,
        mean=0.0,
        quantiles=GARCH_QUANTILES,
        relaxation=1 / (1 - square - kept),
        long_run_variance=constant / (1 - square - kept),
        tail="heavy with finite variance",
    )


def garch_quantiles(points: int = 800, nodes: int = 121) -> dict[float, float]:
    """Quantiles of `volatility`, from the law of its variance.

    The distribution function G of the variance h solves ``G(y) = E G((y - constant) / (kept + square Z^2))``
    with Z normal. It is iterated to a fixed point as a cubic spline in log h, with the trapezoidal rule over
    Z. The law of the values is the mixture of normal laws over h, integrated by parts. Twice as many points
    and nodes move the quantiles by less than 1e-8.
    """
    constant, square, kept = GARCH
    grid = np.linspace(np.log(constant / (1 - kept)), np.log(1e4), points)
    z = np.linspace(-10, 10, nodes)
    weights = norm.pdf(z) * (z[1] - z[0])
    inside = (np.exp(grid)[:, None] - constant) / (kept + square * z**2)
    places = np.log(np.maximum(inside, np.exp(grid[0])))
    law = -np.expm1(2 * (np.exp(grid[0]) - np.exp(grid)))  # like the limit, 0 at the lower end
    for _ in range(400):
        before, law = law, CubicSpline(grid, law)(places) @ weights
        if np.abs(law - before).max() < 1e-13:
            break

    def cdf(x: float) -> float:
        scaled = x * np.exp(-grid / 2)
        below = CubicSpline(grid, law * norm.pdf(scaled) * scaled / 2)
        return float(ndtr(scaled[-1]) + below.integrate(grid[0], grid[-1]))

    positive = [level for level in LEVELS if level > 0.5]  # the law is symmetric
    return {0.5: 0.0} | roots(cdf, 1e-3, 50.0, positive)


# ------------------------------------------------------------------------------------ independent numbers


def independent(
    name: str,
    draw: Callable[[Random, tuple[int, int]], Floats],
    mean: float,
    variance: float | None,
    quantiles: dict[float, float],
    **more: object,
) -> Process:
    """Independent numbers with one law."""
    return Process(
        name,
        "independent",
        lambda rng, length, runs: draw(rng, (runs, length)).astype(float, copy=False),
        mean,
        quantiles,
        relaxation=1.0,
        long_run_variance=variance,
        **more,  # type: ignore[arg-type]
    )


def pareto(index: float) -> Process:
    """Pareto law on [1, infinity): the mean exists, the variance only if the index exceeds 2."""
    finite = index > 2
    return independent(
        f"pareto-{index:g}",
        lambda rng, shape: (1 - rng.random(shape)) ** (-1 / index),
        mean=index / (index - 1),
        variance=index / ((index - 1) ** 2 * (index - 2)) if finite else None,
        quantiles={level: float((1 - level) ** (-1 / index)) for level in LEVELS},
        tail="heavy with finite variance" if finite else "infinite variance",
        verdict="steady" if finite else "heavy tails",
    )


def disasters(name: str, chance: float, cost: float) -> Process:
    """Standard normal noise, and seldom a large loss."""
    return independent(
        name,
        lambda rng, shape: rng.standard_normal(shape) - cost * (rng.random(shape) < chance),
        mean=-chance * cost,
        variance=1 + cost**2 * chance * (1 - chance),
        quantiles=normal_mixture([1 - chance, chance], [0.0, -cost]),
        rare=1 / chance,
    )


# ------------------------------------------------------------------------ discrete, seasonal, two modes


def two_state_chain(enter: float = 0.01, leave: float = 0.03) -> Process:
    """Indicator of one state of a chain with two."""
    share = enter / (enter + leave)
    return Process(
        "two-state-chain",
        "chain",
        lambda rng, length, runs: two_states(rng, length, runs, enter, leave).astype(float),
        mean=share,
        quantiles={level: float(level > 1 - share) for level in LEVELS},
        relaxation=1 / (enter + leave),
        long_run_variance=two_states_variance(enter, leave),
        discrete=True,
    )


def season(name: str, profile: Floats, phi: float) -> Process:
    """A repeated profile and an AR(1) of standard deviation 1; the mean is that of whole periods."""
    return Process(
        name,
        "season",
        lambda rng, length, runs: (
            seasonal(rng, length, runs, profile) + autoregression(rng, length, runs, phi)
        ),
        mean=float(profile.mean()),
        quantiles=normal_mixture(np.full(len(profile), 1 / len(profile)), profile),
        relaxation=float(len(profile)),
        long_run_variance=autoregression_variance(phi),
        verdict="periodic",
    )


def hours() -> Floats:
    """Profile of a day around the level 10: a quiet night, a peak at noon and one in the evening."""
    hour = np.arange(24)
    shape = -2.0 * np.cos(2 * np.pi * hour / 24) + 1.5 * np.cos(4 * np.pi * (hour - 8) / 24)
    return 10.0 + shape - shape.mean()


def latencies(enter: float = 0.01, leave: float = 0.1) -> Process:
    """Latencies of requests: mostly around 10, and around 80 in spells of ten requests on average."""
    share, laws = enter / (enter + leave), (lognorm(0.2, scale=10.0), lognorm(0.4, scale=80.0))

    def generate(rng: Random, length: int, runs: int) -> Floats:
        slow = two_states(rng, length, runs, enter, leave)
        noise = rng.standard_normal((runs, length))
        return np.where(slow, 80.0 * np.exp(0.4 * noise), 10.0 * np.exp(0.2 * noise))

    (fast_mean, slow_mean), (fast_variance, slow_variance) = (
        [float(law.mean()) for law in laws],
        [float(law.var()) for law in laws],
    )
    return Process(
        "latencies",
        "mixture",
        generate,
        mean=(1 - share) * fast_mean + share * slow_mean,
        quantiles=roots(lambda x: (1 - share) * laws[0].cdf(x) + share * laws[1].cdf(x), 1e-3, 1e5),
        relaxation=1 / (enter + leave),
        long_run_variance=(1 - share) * fast_variance
        + share * slow_variance
        + (slow_mean - fast_mean) ** 2 * two_states_variance(enter, leave),
        rare=1 / enter + 1 / leave,
    )


# ------------------------------------------------------------------------------------------- not steady


def changing(
    name: str,
    path: Callable[[Floats], Floats],
    verdict: Literal["drifting", "level shift", "warming up"],
    mean: float | None = None,
) -> Process:
    """Standard normal noise around a level that is a function of the share of the run that is over."""
    return Process(
        name,
        "not steady",
        lambda rng, length, runs: path(np.arange(length) / length) + rng.standard_normal((runs, length)),
        mean=mean,
        quantiles={} if mean is None else normal_quantiles(),
        relaxation=None,
        long_run_variance=None if mean is None else 1.0,
        steady=False,
        verdict=verdict,
    )


def never_mixing(chains: int = 4, spread: float = 0.1) -> Process:
    """Several chains, each of which always keeps its own level: normal with this standard deviation."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        levels = spread * rng.standard_normal((runs, chains))
        return np.repeat(levels, length // chains, axis=1) + rng.standard_normal((runs, length))

    return Process(
        "never-mixing",
        "not steady",
        generate,
        mean=0.0,
        quantiles=normal_quantiles(np.sqrt(1 + spread**2)),
        relaxation=None,
        long_run_variance=None,
        steady=False,
        verdict="chains disagree",
        chains=chains,
    )


def random_walk() -> Process:
    """Sums of standard normal steps."""
    return Process(
        "random-walk",
        "not steady",
        lambda rng, length, runs: np.cumsum(rng.standard_normal((runs, length)), axis=1),
        mean=None,
        quantiles={},
        relaxation=None,
        long_run_variance=None,
        steady=False,
        verdict="drifting",
    )


def variance_shift(after: float = 2.0) -> Process:
    """Normal noise whose standard deviation changes half-way; its mean is steady and may be bounded."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        return rng.standard_normal((runs, length)) * np.where(2 * np.arange(length) < length, 1.0, after)

    return Process(
        "variance-shift",
        "not steady",
        generate,
        mean=0.0,
        quantiles={},
        relaxation=None,
        long_run_variance=(1 + after**2) / 2,
        steady=False,
    )


# ----------------------------------------------------------------------------------------------- ratios


def busy_cycles(load: float = 0.8) -> Process:
    """Sum of waiting times and number of customers in busy cycles of an M/M/1 queue: their mean wait.

    Customers who do not wait begin cycles, so the cycles of one path are independent. A cycle has
    ``1 / (1 - load)`` customers on average. The relaxation time is that of the queue, in cycles: cycles
    are independent, but a few long ones decide, and as many customers are needed as for the waiting times.
    """
    waits = waiting_times(load)
    assert waits.long_run_variance is not None
    assert waits.relaxation is not None

    def generate_pair(rng: Random, length: int, runs: int) -> tuple[Floats, Floats]:
        needed, rewards, sizes = length * runs, [np.empty(0)], [np.empty(0)]
        while sum(map(len, sizes)) < needed:
            customers = int(1.1 * needed / (1 - load)) + 1000
            increments = rng.standard_exponential(customers) - rng.exponential(1 / load, customers)
            path = reflected(np.zeros(1), increments[None])[0]
            begins = np.flatnonzero(path == 0)
            rewards.append(np.add.reduceat(path, begins)[:-1])
            sizes.append(np.diff(begins).astype(float))
        shape = (runs, length)
        return (
            np.concatenate(rewards)[:needed].reshape(shape),
            np.concatenate(sizes)[:needed].reshape(shape),
        )

    return Process(
        "busy-cycles",
        "ratio",
        None,
        mean=load / (1 - load),
        quantiles={},
        relaxation=waits.relaxation * (1 - load),
        long_run_variance=waits.long_run_variance * (1 - load),
        tail="heavy with finite variance",
        generate_pair=generate_pair,
    )


def semi_markov(enter: float = 0.1, leave: float = 0.2) -> Process:
    """Reward and time of the stays of a semi-Markov chain with two states; a row is a stay.

    Stays last Gamma(2) times with mean 2 in state 0 and exponential times with mean 5 in state 1; rewards
    are 3 and -1 per unit of time, and normal noise.
    """
    share = enter / (enter + leave)
    chances, times, spreads = np.array([1 - share, share]), np.array([2.0, 5.0]), np.array([2.0, 25.0])
    rates = np.array([3.0, -1.0])
    duration = float(chances @ times)
    ratio = float(chances @ (rates * times)) / duration
    (first, second), inside = (rates - ratio) * times, float(chances @ ((rates - ratio) ** 2 * spreads)) + 1.0

    def generate_pair(rng: Random, length: int, runs: int) -> tuple[Floats, Floats]:
        state = two_states(rng, length, runs, enter, leave)
        shape = (runs, length)
        time = np.where(state, rng.exponential(5.0, shape), rng.standard_gamma(2.0, shape))
        return np.where(state, -1.0, 3.0) * time + rng.standard_normal(shape), time

    return Process(
        "semi-markov",
        "ratio",
        None,
        mean=ratio,
        quantiles={},
        relaxation=1 / (enter + leave),
        long_run_variance=(inside + (first - second) ** 2 * two_states_variance(enter, leave)) / duration**2,
        generate_pair=generate_pair,
    )


def named(processes: Iterable[Process]) -> dict[str, Process]:
    """Processes by name; no name twice."""
    listed = list(processes)
    found = {process.name: process for process in listed}
    assert len(found) == len(listed)
    return found


PROCESSES = named(
    [
        *(waiting_times(load) for load in (0.5, 0.8, 0.9, 0.95)),
        queue_length(),
        hidden_regime("hidden-regime", -0.1, 0.1, 1e-3, 1.0),
        hidden_regime("visible-regime", 0.0, 1.0, 1e-2, 0.5),
        slow_under_fast(),
        *(autoregressive(phi) for phi in (0.9, 0.99, -0.7)),
        independent("normal", lambda rng, shape: rng.standard_normal(shape), 0.0, 1.0, normal_quantiles()),
        independent(
            "lognormal",
            lambda rng, shape: rng.lognormal(size=shape),
            mean=float(np.exp(0.5)),
            variance=float(np.e * np.expm1(1.0)),
            quantiles={level: float(np.exp(norm.ppf(level))) for level in LEVELS},
            tail="heavy with finite variance",
        ),
        lognormal_autoregression(),
        pareto(2.5),
        pareto(1.5),
        disasters("disasters", 1e-4, 1000.0),
        disasters("losses", 1e-3, 50.0),
        independent(
            "bernoulli",
            lambda rng, shape: rng.random(shape) < 0.02,
            mean=0.02,
            variance=0.02 * 0.98,
            quantiles={0.5: 0.0, 0.95: 0.0, 0.99: 1.0},
            rare=50.0,
            discrete=True,
        ),
        two_state_chain(),
        season("season-168", np.sin(2 * np.pi * np.arange(168) / 168), 0.5),
        season("season-24", hours(), 0.3),
        latencies(),
        volatility(),
        independent(
            "digits",  # every number from 4 to 5 is a median
            lambda rng, shape: rng.integers(10, size=shape),
            mean=4.5,
            variance=8.25,
            quantiles={0.95: 9.0, 0.99: 9.0},
            discrete=True,
        ),
        changing("trend", lambda share: 0.3 * share, "drifting"),
        changing("level-shift", lambda share: 0.2 * (share >= 0.6), "level shift"),
        changing("warm-up", lambda share: 3 * np.exp(-share / 0.02), "warming up", mean=0.0),
        waiting_times(0.9, start=200.0),
        never_mixing(),
        random_walk(),
        variance_shift(),
        busy_cycles(),
        semi_markov(),
    ]
)
