"""Processes whose steps have durations: exact fractions, closed forms, uniformisation and a simulation."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from scipy import sparse

import gainbias as gb
from tests.oracles.exact import as_float, dot, exact_chain, fraction, solve_exactly

MANY = 220


def random_process(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    """Return a process with all sorts of rewards and durations, some over many decades."""
    n = int(rng.integers(2, 8))
    chain = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    chain[np.arange(n), (np.arange(n) + 1) % n] += 0.1  # a ring makes it irreducible
    if rng.random() < 0.3:
        chain *= 10.0 ** rng.uniform(-8, 0, (n, n))
    chain /= chain.sum(axis=1, keepdims=True)
    if rng.random() < 0.3:  # states that are left for good
        chain = np.block([[chain, np.zeros((n, 2))], [rng.dirichlet(np.ones(n + 2), 2)]])
        n += 2
    decades = rng.choice([0.0, 3.0, 6.0])
    shape: Any = (n, n) if rng.random() < 0.5 else n
    durations = 10.0 ** rng.uniform(-decades, decades, shape)
    rewards = rng.normal(size=(n, n) if rng.random() < 0.5 else n) * 10.0 ** rng.integers(-3, 4)
    rates = rng.normal(size=n) if rng.random() < 0.7 else None
    if rng.random() < 0.1:
        rates, rewards = np.full(n, 0.7), np.zeros(n)  # every step brings its gain
    variances = durations**2 * rng.choice([0.0, 1.0, 3.0]) if rng.random() < 0.9 else None
    as_given = sparse.csr_array if rng.random() < 0.5 else np.asarray
    return gb.MarkovRewardProcess(
        as_given(chain), rewards, durations=durations, reward_rates=rates, duration_variances=variances
    )


class Exact:
    """Law of steps, fractions of time, gain, bias and variance in fractions, written from the definitions."""

    def __init__(self, mrp: gb.MarkovRewardProcess) -> None:
        n = mrp.num_states
        stored = [[fraction(p) for p in row] for row in mrp.csr.toarray()]
        chain = exact_chain(mrp)
        rates = [fraction(x) for x in (np.zeros(n) if mrp.reward_rates is None else mrp.reward_rates)]

        def of_moves(values: Any) -> list[list[fmpq]]:
            dense = values.toarray() if sparse.issparse(values) else np.asarray(values)
            return [[fraction(x) for x in np.broadcast_to(row, n)] for row in dense]

        given = mrp.rewards if mrp.transition_rewards is None else mrp.transition_rewards
        rewards, times = of_moves(given), of_moves(mrp.durations)

        def mean(values: list[list[fmpq]], is_of_moves: bool) -> list[fmpq]:
            # Numbers of transitions are averaged over rows as they are stored, as in the package.
            return [dot(row, own) if is_of_moves else own[0] for row, own in zip(stored, values, strict=True)]

        tau = mean(times, mrp.durations.ndim == 2)
        earned = [
            r + rate * t
            for r, rate, t in zip(mean(rewards, np.ndim(given) == 2), rates, tau, strict=True)
        ]
        system = [[int(i == j) - chain[j][i] for j in range(n)] for i in range(n - 1)]
        (self.embedded,) = solve_exactly([*system, [fmpq(1)] * n], [*[fmpq(0)] * (n - 1), fmpq(1)])
        length = dot(self.embedded, tau)
        self.stationary = [mu * t / length for mu, t in zip(self.embedded, tau, strict=True)]
        self.gain = dot(self.embedded, earned) / length
        excess = [c - self.gain * t for c, t in zip(earned, tau, strict=True)]
        last = int(np.argmax([as_float(mu) for mu in self.embedded]))  # its equation follows from the others
        system = [[int(i == j) - chain[i][j] for j in range(n)] for i in range(n)]
        system[last], excess[last] = self.stationary, fmpq(0)
        (self.bias,) = solve_exactly(system, excess)
        self.variance = None
        if mrp.duration_variances is not None:
            spread = of_moves(mrp.duration_variances)
            total = fmpq(0)
            for i in range(n):
                slope = rates[i] - self.gain
                moves = [r + slope * t + w for r, t, w in zip(rewards[i], times[i], self.bias, strict=True)]
                # Numbers of transitions that cannot happen play no part: the stored ones share what is left.
                weights = [p / sum(stored[i], fmpq(0)) for p in stored[i]]
                level = dot(weights, moves)
                total += self.embedded[i] * (
                    dot(weights, [(x - level) ** 2 for x in moves]) + slope**2 * dot(weights, spread[i])
                )
            self.variance = total / length


def outside(found: gb.Solution, exact: Exact) -> Iterator[str]:
    """Yield the numbers of a solution that are further off than their error says."""
    numbers = {
        "gain": ([found.gain], [found.gain_error], [exact.gain]),
        "bias": (found.bias, found.bias_error, exact.bias),
        "stationary": (found.stationary, found.stationary_error, exact.stationary),
        "embedded": (found.embedded, found.embedded_error, exact.embedded),
    }
    if exact.variance is not None:
        value, error = found.asymptotic_variance, found.asymptotic_variance_error
        numbers["variance"] = [value], [error], [exact.variance]
    for name, (values, errors, truths) in numbers.items():
        for value, error, truth in zip(values, errors, truths, strict=True):
            if not abs(fraction(value) - truth) <= fraction(error):
                yield f"{name}: {value} is off by {as_float(abs(fraction(value) - truth))}, said {error}"
    total = sum((abs(fraction(x) - y) for x, y in zip(found.stationary, exact.stationary, strict=True)), fmpq(0))
    if total > fraction(found.stationary_error_total):
        yield "stationary_error_total"


@pytest.mark.parametrize("seed", range(4))
def test_no_number_is_outside_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(MANY // 4):
        mrp = random_process(rng)
        found = gb.solve(mrp)
        assert list(outside(found, Exact(mrp))) == [], mrp
        assert found.error_bound < 1e-10
