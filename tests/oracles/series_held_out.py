"""Random series of other kinds, to be used once: when the method for series is finished.

Whoever works on that method does not look at what it does here. What is mended because of one of these
belongs into `tests/oracles/series.py`, and others take its place here. All conventions are those of that
module.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter
from scipy.special import gamma as gamma_function
from scipy.special import log_ndtr, ndtr
from scipy.stats import gamma, norm, poisson, t

import gainbias as gb

from .series import (
    LEVELS,
    Floats,
    Process,
    Random,
    autoregression,
    autoregression_variance,
    changing,
    independent,
    named,
    normal_mixture,
    normal_quantiles,
    reflected,
    roots,
    seasonal,
    two_states,
    two_states_variance,
)


def complex_roots(radius: float = 0.97, angle: float = 0.3, moving: float = 0.5) -> Process:
    """Gaussian ARMA(2, 1) that swings: correlations are damped waves. Its variance is a sum of squares."""
    numerator, denominator = [1.0, moving], [1.0, -2 * radius * np.cos(angle), radius**2]
    inner = lfilter([1.0], denominator, np.eye(1, 4000)[0])
    variance, next_covariance = float(inner @ inner), float(inner[1:] @ inner[:-1])
    pair = np.linalg.cholesky([[variance, next_covariance], [next_covariance, variance]])

    def generate(rng: Random, length: int, runs: int) -> Floats:
        last, before = pair @ rng.standard_normal((2, runs))  # the autoregressive part before the first step
        memory = np.stack([-denominator[1] * last - denominator[2] * before, -denominator[2] * last], axis=1)
        shocks = rng.standard_normal((runs, length))
        part, _ = lfilter([1.0], denominator, shocks, axis=1, zi=memory)
        return part + moving * np.concatenate([last[:, None], part[:, :-1]], axis=1)

    deviation = float(np.sqrt((1 + moving**2) * variance + 2 * moving * next_covariance))
    return Process(
        "arma-complex",
        "autoregression",
        generate,
        mean=0.0,
        quantiles=normal_quantiles(deviation),
        relaxation=1 / (1 - radius),
        long_run_variance=(sum(numerator) / sum(denominator)) ** 2,
    )


def gamma_service(load: float = 0.7, shape: float = 0.5) -> Process:
    """Waiting times in a queue with Poisson arrivals and Gamma service of mean 1.

    The stationary wait is a geometric number of residual services (Pollaczek and Khinchine). Its quantiles
    come from the transform, inverted by the Euler summation of Abate and Whitt (1995), right to 1e-7.
    """
    mean = load * (1 + 1 / shape) / (2 * (1 - load))

    def transform(s: complex) -> complex:
        return (1 - load) / (s - load * (1 - (1 + s / shape) ** -shape))

    def cdf(x: float) -> float:
        real = np.array([transform((24.0 + 2j * np.pi * k) / (2 * x)).real for k in range(41)])
        terms = np.exp(12.0) / x * real * (-1.0) ** np.arange(41)
        terms[0] /= 2
        binomial = np.array([1, 11, 55, 165, 330, 462, 462, 330, 165, 55, 11, 1]) / 2**11
        return float(binomial @ np.cumsum(terms)[-12:])

    def moment(tilt: float) -> float:
        return float((1 - tilt / shape) ** -shape * load / (load + tilt))

    def generate(rng: Random, length: int, runs: int) -> Floats:
        services = rng.geometric(1 - load, runs) - 1
        residuals = rng.gamma(shape + 1, 1 / shape, services.sum()) * rng.random(services.sum())
        first = np.bincount(np.repeat(np.arange(runs), services), residuals, runs)
        steps = (runs, length - 1)
        return reflected(first, rng.gamma(shape, 1 / shape, steps) - rng.exponential(1 / load, steps))

    return Process(
        "waiting-gamma",
        "queue",
        generate,
        mean=mean,
        quantiles=roots(cdf, 1e-3, 200.0),
        relaxation=1 / (1 - minimize_scalar(moment, bounds=(0, 0.999 * shape), method="bounded").fun),
        long_run_variance=None,
    )


def moving_average(window: int = 50) -> Process:
    """Mean of the last exponential numbers: Gamma."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        sums = np.cumsum(rng.standard_exponential((runs, length + window)), axis=1)
        return (sums[:, window:] - sums[:, :-window]) / window

    return Process(
        "moving-average",
        "moving average",
        generate,
        mean=1.0,
        quantiles={level: float(gamma.ppf(level, window) / window) for level in LEVELS},
        relaxation=float(window),
        long_run_variance=1.0,
    )


def threshold(below: float = 0.95, above: float = 0.3, nodes: int = 80) -> Process:
    """Autoregression with one factor below 0 and another above.

    The chain on Gauss-Legendre nodes on either side of 0, weighted by the transition density (Nystroem),
    has its law, its second eigenvalue and its long-run variance to ten digits.
    """
    points, weights = np.polynomial.legendre.leggauss(nodes)
    places = np.concatenate([12.5 * (points - 1), 4.5 * (points + 1)])  # [-25, 0] and [0, 9]
    widths = np.concatenate([12.5 * weights, 4.5 * weights])
    means = np.where(places < 0, below, above) * places
    transitions = norm.pdf(places - means[:, None]) * widths
    transitions /= transitions.sum(axis=1, keepdims=True)
    solution = gb.solve(gb.MarkovRewardProcess(transitions, places))
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(transitions)))
    unused = 2400

    def generate(rng: Random, length: int, runs: int) -> Floats:
        values = rng.standard_normal((length + unused, runs))
        last = np.zeros(runs)
        for row in values:
            row += np.where(last < 0, below, above) * last
            last = row
        return np.ascontiguousarray(values[unused:].T)

    return Process(
        "threshold-ar",
        "autoregression",
        generate,
        mean=solution.gain,
        quantiles=roots(lambda x: float(solution.stationary @ ndtr(x - means)), -25.0, 9.0),
        relaxation=float(1 / (1 - eigenvalues[-2])),
        long_run_variance=solution.asymptotic_variance,
    )


def stretched(shape: float = 0.5, phi: float = 0.8) -> Process:
    """Weibull numbers with the dependence of an AR(1): heavier than exponential, all moments finite.

    The long-run variance is a sum over Hermite polynomials, of which an AR(1) damps the k-th by ``phi^k``.
    """

    def of_normal(z: Floats) -> Floats:
        return (-log_ndtr(-z)) ** (1 / shape)

    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    values = of_normal(nodes)
    polynomial, before, variance = nodes, np.ones_like(nodes), 0.0  # normalised polynomials of degree k
    for k in range(1, 60):
        share = float(weights @ (values * polynomial)) ** 2
        variance += share * (1 + phi**k) / (1 - phi**k)
        polynomial, before = (nodes * polynomial - np.sqrt(k) * before) / np.sqrt(k + 1), polynomial
    return Process(
        "weibull-ar",
        "autoregression",
        lambda rng, length, runs: of_normal(autoregression(rng, length, runs, phi)),
        mean=float(gamma_function(1 + 1 / shape)),
        quantiles={level: float((-np.log(1 - level)) ** (1 / shape)) for level in LEVELS},
        relaxation=1 / (1 - phi),
        long_run_variance=variance,
        tail="heavy with finite variance",
    )


def observed_chain(num_states: int = 40, up: float = 0.3, down: float = 0.32) -> Process:
    """A birth-death chain seen through a function that is neither monotone nor smooth."""
    states = np.arange(num_states)
    seen = np.where(states % 7 == 3, 5.0, 0.0) + np.maximum(states - 12.0, 0.0) ** 1.5
    law = (up / down) ** states
    law /= law.sum()
    moves = np.diag(np.full(num_states - 1, up), 1) + np.diag(np.full(num_states - 1, down), -1)
    transitions = moves + np.diag(1 - moves.sum(axis=1))
    order = np.argsort(seen)
    sums = np.cumsum(law[order])

    def generate(rng: Random, length: int, runs: int) -> Floats:
        state = rng.choice(num_states, runs, p=law)
        found = np.empty((length, runs))
        for row in found:
            row[:] = seen[state]
            drawn = rng.random(runs)
            state = np.clip(state + (drawn < up) - (drawn >= 1 - down), 0, num_states - 1)
        return np.ascontiguousarray(found.T)

    return Process(
        "observed-chain",
        "chain",
        generate,
        mean=float(law @ seen),
        quantiles={level: float(seen[order][np.searchsorted(sums, level)]) for level in LEVELS},
        relaxation=float(1 / (1 - np.sort(np.linalg.eigvals(transitions).real)[-2])),
        long_run_variance=gb.solve(gb.MarkovRewardProcess(transitions, seen)).asymptotic_variance,
        discrete=True,
    )


def three_levels(change: float = 0.004) -> Process:
    """Noise around one of three levels; now and then the level is drawn anew."""
    levels, chances = np.array([-1.0, 0.0, 2.0]), np.array([0.3, 0.6, 0.1])

    def generate(rng: Random, length: int, runs: int) -> Floats:
        anew = rng.random((runs, length)) < change
        anew[:, 0] = True
        last = np.maximum.accumulate(np.where(anew, np.arange(length), 0), axis=1)
        drawn = levels[np.searchsorted(np.cumsum(chances)[:2], rng.random((runs, length)))]
        return np.take_along_axis(drawn, last, axis=1) + rng.standard_normal((runs, length))

    variance = float(chances @ levels**2 - (chances @ levels) ** 2)
    return Process(
        "three-levels",
        "regime",
        generate,
        mean=float(chances @ levels),
        quantiles=normal_mixture(chances, levels),
        relaxation=1 / change,
        long_run_variance=variance * (2 - change) / change + 1,
    )


def weekly_counts() -> Process:
    """Poisson counts whose mean depends on the day of the week."""
    means = np.array([4.0, 5.0, 5.5, 5.0, 7.0, 1.5, 1.0])
    values = np.arange(60)
    sums = poisson.cdf(values[:, None], means).mean(axis=1)
    return Process(
        "weekly-counts",
        "season",
        lambda rng, length, runs: rng.poisson(seasonal(rng, length, runs, means)).astype(float),
        mean=float(means.mean()),
        quantiles={level: float(values[np.searchsorted(sums, level)]) for level in LEVELS},
        relaxation=7.0,
        long_run_variance=float(means.mean()),
        verdict="periodic",
        discrete=True,
    )


def student(degrees: float) -> Process:
    """Independent numbers of Student's law; the variance is finite for more than two degrees."""
    finite = degrees > 2
    return independent(
        f"student-{degrees:g}",
        lambda rng, shape: rng.standard_t(degrees, shape),
        mean=0.0,
        variance=degrees / (degrees - 2) if finite else None,
        quantiles={level: float(t.ppf(level, degrees)) for level in LEVELS},
        tail="heavy with finite variance" if finite else "infinite variance",
        verdict="steady" if finite else "heavy tails",
    )


def bursts(enter: float = 5e-4, leave: float = 0.2, cost: float = 20.0) -> Process:
    """Normal noise, and seldom a burst of losses: five steps on average."""
    share = enter / (enter + leave)
    return Process(
        "bursts",
        "rare events",
        lambda rng, length, runs: (
            rng.standard_normal((runs, length)) - cost * two_states(rng, length, runs, enter, leave)
        ),
        mean=-cost * share,
        quantiles=normal_mixture([1 - share, share], [0.0, -cost]),
        relaxation=1 / (enter + leave),
        long_run_variance=1 + cost**2 * two_states_variance(enter, leave),
        rare=1 / enter + 1 / leave,
    )


def work_and_time(phi: float = 0.9, deviation: float = 0.5) -> Process:
    """Pairs of work and time that rise and fall together: ``work = 2 * time + something with mean 1``.

    Times are exponentials of an AR(1), the rest is another AR(1); the ratio is ``2 + 1 / mean time``.
    """
    mean_time = float(np.exp(deviation**2 / 2))
    lags = deviation**2 * phi ** np.arange(1, 2000)
    time_variance = mean_time**2 * float(np.expm1(deviation**2) + 2 * np.expm1(lags).sum())

    def generate_pair(rng: Random, length: int, runs: int) -> tuple[Floats, Floats]:
        time = np.exp(autoregression(rng, length, runs, phi, deviation))
        return 2 * time + 1 + autoregression(rng, length, runs, phi), time

    return Process(
        "work-and-time",
        "ratio",
        None,
        mean=2 + 1 / mean_time,
        quantiles={},
        relaxation=1 / (1 - phi),
        long_run_variance=(autoregression_variance(phi) + time_variance / mean_time**2) / mean_time**2,
        generate_pair=generate_pair,
    )


def cooling(phi: float = 0.95, start: float = 12.0) -> Process:
    """An AR(1) that begins far from its mean."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        return autoregression(rng, length, runs, phi) + start * phi ** np.arange(length)

    return Process(
        "cooling",
        "not steady",
        generate,
        mean=0.0,
        quantiles=normal_quantiles(),
        relaxation=1 / (1 - phi),
        long_run_variance=autoregression_variance(phi),
        steady=False,
        verdict="warming up",
    )


def odd_one_out(chains: int = 3, apart: float = 0.3, phi: float = 0.5) -> Process:
    """Several chains, the last of which stays on a different level."""

    def generate(rng: Random, length: int, runs: int) -> Floats:
        each = length // chains
        values = autoregression(rng, each, runs * chains, phi).reshape(runs, chains, each)
        values[:, -1] += apart
        return values.reshape(runs, length)

    return Process(
        "odd-one-out",
        "not steady",
        generate,
        mean=None,
        quantiles={},
        relaxation=None,
        long_run_variance=None,
        steady=False,
        verdict="chains disagree",
        chains=chains,
    )


def bend(share: Floats) -> Floats:
    return 0.5 * share**2


def step_down(share: Floats) -> Floats:
    return np.where(share < 0.35, 0.25, 0.0)


MADE: tuple[Callable[[], Process], ...] = (
    complex_roots,
    gamma_service,
    moving_average,
    threshold,
    stretched,
    observed_chain,
    three_levels,
    weekly_counts,
    bursts,
    work_and_time,
    cooling,
    odd_one_out,
)
HELD_OUT = named(
    [
        *(make() for make in MADE),
        student(3.0),
        student(1.5),
        changing("bend", bend, "drifting"),
        changing("step-down", step_down, "level shift"),
    ]
)
