"""Processes whose steps have durations: exact fractions, closed forms, uniformisation and a simulation."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from scipy import sparse, stats

import gainbias as gb
from gainbias.cli.verbs import main
from gainbias.engine.paths import Sampler
from gainbias.model.process import read_process
from gainbias.model.solve.semi_markov import earned_in_all
from gainbias.model.solve.solve import poisson_solver
from tests.oracles.exact import as_float, dot, exact_chain, fraction, solve_exactly

MANY = 240


def random_process(rng: np.random.Generator, *, slow: bool = True) -> gb.MarkovRewardProcess:
    """Return a process with all sorts of rewards and durations, some over many decades."""
    n = int(rng.integers(2, 8))
    chain = rng.random((n, n)) * (rng.random((n, n)) < 0.6)
    chain[np.arange(n), (np.arange(n) + 1) % n] += 0.1  # a ring makes it irreducible
    if slow and rng.random() < 0.3:
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
    if rng.random() < 0.05:
        rates, rewards = None, np.zeros(n)
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
            r + rate * t for r, rate, t in zip(mean(rewards, np.ndim(given) == 2), rates, tau, strict=True)
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
    total = sum(
        (abs(fraction(x) - y) for x, y in zip(found.stationary, exact.stationary, strict=True)), fmpq(0)
    )
    if total > fraction(found.stationary_error_total):
        yield "stationary_error_total"


@pytest.mark.parametrize("seed", range(8))
def test_no_number_is_outside_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(MANY // 8):
        mrp = random_process(rng)
        found = gb.solve(mrp)
        assert list(outside(found, Exact(mrp))) == [], mrp
        assert found.error_bound < 1e-10


@pytest.mark.parametrize("method", ["sparse-gth", "incomplete-gth", "power", "krylov"])
def test_every_method_keeps_its_word(method: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(8):
        mrp = random_process(rng, slow=False)
        assert list(outside(gb.solve(mrp, method=method), Exact(mrp))) == [], mrp


def several_classes(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    """Return a process with two or three recurrent classes and up to three transient states."""
    sizes = rng.integers(1, 5, rng.integers(2, 4))
    n = int(sizes.sum() + rng.integers(0, 4))
    chain = np.zeros((n, n))
    for begin, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        block = slice(begin, begin + size)
        chain[block, block] = rng.random((size, size)) * 10.0 ** rng.uniform(-4, 0, (size, size))
    chain[sizes.sum() :] = rng.random((n - sizes.sum(), n))
    order = rng.permutation(n)
    chain = (chain / chain.sum(axis=1, keepdims=True))[order][:, order]
    decades = rng.choice([0.0, 6.0])
    durations = 10.0 ** rng.uniform(-decades, decades, (n, n) if rng.random() < 0.5 else n)
    return gb.MarkovRewardProcess(
        sparse.csr_array(chain),
        rng.normal(size=(n, n) if rng.random() < 0.5 else n),
        durations=durations,
        reward_rates=rng.normal(size=n),
        duration_variances=durations**2,
    )


def exact_in_parts(mrp: gb.MarkovRewardProcess) -> dict[str, list[fmpq]]:
    """Return the answers of all classes, and what they make of the transient states."""
    n, inside = mrp.num_states, mrp.structure.transient.tolist()
    found = {name: [fmpq(0)] * n for name in ("gain", "bias", "stationary", "embedded")}
    found["variance"] = []
    for states in mrp.structure.recurrent:
        own = Exact(mrp.restricted_to(states))
        found["variance"].append(own.variance)
        for k, state in enumerate(states):
            found["gain"][state], found["bias"][state] = own.gain, own.bias[k]
            found["stationary"][state], found["embedded"][state] = own.stationary[k], own.embedded[k]
    if inside:
        chain = exact_chain(mrp)
        system = [[int(i == j) - chain[i][j] for j in inside] for i in inside]
        (gain,) = solve_exactly(system, [dot(chain[i], found["gain"]) for i in inside])
        for i, value in zip(inside, gain, strict=True):
            found["gain"][i] = value
        paid = mrp.rewards if mrp.transition_rewards is None else mrp.transition_rewards
        right = []
        for i in inside:
            slope = fraction(mrp.reward_rates[i]) - found["gain"][i]
            ahead = dot(chain[i], found["bias"])
            right.append(exact_mean(mrp, paid, i) + slope * exact_mean(mrp, mrp.durations, i) + ahead)
        (bias,) = solve_exactly(system, right)
        for i, value in zip(inside, bias, strict=True):
            found["bias"][i] = value
    return found


def exact_mean(mrp: gb.MarkovRewardProcess, values: Any, state: int) -> fmpq:
    """Return the mean of numbers of steps from a state."""
    if values.ndim == 1:
        return fraction(values[state])
    row = np.ravel(values[[state]].toarray() if sparse.issparse(values) else values[state])
    return dot(*([fraction(x) for x in numbers] for numbers in (mrp.csr.toarray()[state], row)))


@pytest.mark.parametrize("together", [True, False])
def test_several_classes(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not together:  # each class by itself, and the transient states afterwards
        monkeypatch.setattr("gainbias.model.solve.multichain.DENSE_SOLVE_STATES", 0)
    rng = np.random.default_rng(11)
    for _ in range(25):
        mrp = several_classes(rng)
        found, exact = gb.solve(mrp, multichain=True), exact_in_parts(mrp)
        variances = found.class_asymptotic_variances, found.class_asymptotic_variance_errors
        numbers = {
            "gain": (found.gain, found.gain_error),
            "bias": (found.bias, found.bias_error),
            "stationary": (found.stationary.sum(axis=0), found.stationary_error),
            "embedded": (found.embedded.sum(axis=0), found.embedded_error),
            "variance": variances,
        }
        for name, (values, errors) in numbers.items():
            for value, error, truth in zip(np.ravel(values), errors, exact[name], strict=True):
                assert abs(fraction(value) - truth) <= fraction(error), (name, mrp)
        assert found.error_bound < 1e-12


@pytest.mark.parametrize("seed", range(40))
def test_exponential_durations_are_rates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    rates = rng.random((n, n)) * 10.0 ** rng.uniform(-2, 2, (n, 1)) * (rng.random((n, n)) < 0.7)
    rates[np.arange(n), (np.arange(n) + 1) % n] += 0.1
    np.fill_diagonal(rates, 0.0)
    leaving, rewards = rates.sum(axis=1), rng.normal(size=n)
    one = gb.solve(gb.MarkovRewardProcess.from_rates(rates - np.diag(leaving), rewards))
    durations = 1.0 / leaving
    other = gb.solve(
        gb.MarkovRewardProcess(
            rates / leaving[:, None],
            np.zeros(n),
            durations=durations,
            reward_rates=rewards,
            duration_variances=durations**2,
        )
    )
    assert other.gain == pytest.approx(one.gain, rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(other.bias, one.bias, rtol=0.0, atol=1e-12 * np.ptp(one.bias))
    np.testing.assert_allclose(other.stationary, one.stationary, rtol=1e-12)
    assert other.asymptotic_variance == pytest.approx(one.asymptotic_variance, rel=1e-12)
    np.testing.assert_array_equal(one.embedded, one.stationary)


def service(kind: str, mean: float, spread: float, rate: float, most: int) -> tuple[np.ndarray, float]:
    """Return how likely each number of arrivals during a service is, and the mean square of its time."""
    square = mean**2 * (1.0 + spread**2)
    count = np.arange(most)
    if kind == "deterministic":
        return stats.poisson.pmf(count, rate * mean), mean**2
    if kind == "gamma":
        shape = 1.0 / spread**2
        return stats.nbinom.pmf(count, shape, shape / (shape + rate * mean)), square
    width = np.sqrt(np.log1p(spread**2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    times = mean * np.exp(width * nodes - 0.5 * width**2)
    return stats.poisson.pmf(count[:, None], rate * times) @ (weights / weights.sum()), square


@pytest.mark.parametrize("kind", ["deterministic", "gamma", "lognormal"])
def test_mean_number_in_a_queue(kind: str) -> None:
    """M/G/1 where it is left: steps are services, the first of a busy period after an idle time."""
    rate, mean, spread, n = 0.6, 1.1, 0.4, 120
    arrivals, square = service(kind, mean, spread, rate, n)
    chain = np.zeros((n, n))
    for state in range(n):
        first = max(state - 1, 0)
        chain[state, first:] = arrivals[: n - first]
    chain[:, -1] += 1.0 - chain.sum(axis=1)
    present = np.maximum(np.arange(n), 1.0)  # during the service, besides those who come
    durations = np.full(n, mean)
    durations[0] += 1.0 / rate
    number = present * mean + rate * square / 2.0
    found = gb.solve(gb.MarkovRewardProcess(chain, number, durations=durations))
    load = rate * mean
    assert found.gain == pytest.approx(load + rate**2 * square / (2.0 * (1.0 - load)), rel=1e-9)
    assert found.embedded[0] == pytest.approx(1.0 - load, rel=1e-9)
    # The same with what is paid in time: it is idle for 1 - load of the time, and a state is left so often.
    per_time = gb.solve(gb.MarkovRewardProcess(chain, np.ones(n), durations=durations))
    assert per_time.gain == pytest.approx(rate, rel=1e-9)


def test_alternating_renewal() -> None:
    up, down, up_variance, down_variance = 7.0, 3.0, 5.0, 2.0
    found = gb.solve(
        gb.MarkovRewardProcess(
            [[0.0, 1.0], [1.0, 0.0]],
            [0.0, 0.0],
            durations=[up, down],
            reward_rates=[1.0, 0.0],
            duration_variances=[up_variance, down_variance],
        )
    )
    assert found.gain == pytest.approx(up / (up + down), rel=1e-14)
    np.testing.assert_allclose(found.stationary, [0.7, 0.3], rtol=1e-14)
    np.testing.assert_allclose(found.embedded, [0.5, 0.5], rtol=1e-14)
    truth = (up_variance * down**2 + down_variance * up**2) / (up + down) ** 3
    assert found.asymptotic_variance == pytest.approx(truth, rel=1e-13)
    np.testing.assert_allclose(found.bias, [0.3 * 0.7 * 3.0, -0.7 * 0.7 * 3.0], rtol=1e-13)


@pytest.mark.parametrize(("births", "deaths"), [("machines", "one repairman"), ("arrivals", "three servers")])
def test_birth_and_death(births: str, deaths: str) -> None:
    """Machine repair, and M/M/3 with room for 40, against their product forms."""
    n = 9 if births == "machines" else 41
    state = np.arange(n)
    up = 0.3 * (n - 1 - state) if births == "machines" else np.where(state < n - 1, 2.0, 0.0)
    down = 1.0 * (state > 0) if deaths == "one repairman" else 1.0 * np.minimum(state, 3)
    law = np.cumprod(np.append(1.0, up[:-1] / down[1:]))
    law /= law.sum()
    total = up + down
    chain = np.diag(up[:-1] / total[:-1], 1) + np.diag(down[1:] / total[1:], -1)
    found = gb.solve(
        gb.MarkovRewardProcess(
            chain, np.zeros(n), durations=1.0 / total, reward_rates=state, duration_variances=total**-2.0
        )
    )
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1) - np.diag(total)
    other = gb.solve(gb.MarkovRewardProcess.from_rates(generator, state))
    assert found.gain == pytest.approx(law @ state, rel=1e-13)
    np.testing.assert_allclose(found.stationary, law, rtol=1e-12)
    np.testing.assert_allclose(found.bias, other.bias, atol=1e-12 * np.ptp(other.bias))
    assert found.asymptotic_variance == pytest.approx(other.asymptotic_variance, rel=1e-12)
    # Every second step of it leads up.
    jumps_up = gb.solve(found.mrp, extra_rewards={"up": up / total}).extra["up"]
    assert jumps_up.gain == pytest.approx(law @ up, rel=1e-13)


def test_asymptotic_variance_of_a_simulation() -> None:
    chain = np.array([[0.2, 0.5, 0.3], [0.6, 0.0, 0.4], [0.5, 0.5, 0.0]])
    rewards = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, -1.0], [0.5, 0.0, 0.0]])
    durations = np.array([[1.0, 2.0, 0.5], [0.3, 1.0, 3.0], [1.0, 0.2, 1.0]])
    rates, shape = np.array([2.0, -1.0, 0.5]), 0.8  # gamma times of this shape, dependent on the successor
    mrp = gb.MarkovRewardProcess(
        chain, rewards, durations=durations, reward_rates=rates, duration_variances=durations**2 / shape
    )
    found = gb.solve(mrp)
    rng = np.random.default_rng(3)
    lanes, horizon = 4000, 120.0
    state, now, earned, total = np.zeros(lanes, int), np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    while (runs := now < horizon).any():
        ahead = (rng.random(lanes)[:, None] > np.cumsum(chain[state], axis=1)).sum(axis=1)
        taken = rng.gamma(shape, durations[state, ahead] / shape)
        total += rates[state] * np.clip(horizon - now, 0.0, taken)
        total += np.where(now + taken < horizon, rewards[state, ahead], 0.0)
        earned += np.where(runs, rates[state] * taken + rewards[state, ahead], 0.0)
        now, state = np.where(runs, now + taken, now), np.where(runs, ahead, state)
    # Two percent is the error of a variance of 4000 numbers, and the ends of the interval add about as much.
    assert total.var() / horizon == pytest.approx(found.asymptotic_variance, rel=0.08)
    # Up to the end of the step that is going on then, what was earned is the gain and a change of the bias.
    left = earned - found.gain * now + found.bias[state] - found.bias[0]
    assert abs(left.mean()) < 4.0 * left.std() / lanes**0.5


def test_hitting_times_in_time() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        n = int(rng.integers(3, 7))
        chain = (
            rng.random((n, n)) * (rng.random((n, n)) < 0.7)
            + 0.05 * np.eye(n, k=1)
            + 0.01 * np.eye(n, k=1 - n)
        )
        chain /= chain.sum(axis=1, keepdims=True)
        durations = 10.0 ** rng.uniform(-4, 4, (n, n) if rng.random() < 0.5 else n)
        mrp = gb.MarkovRewardProcess(
            chain, np.zeros(n), durations=durations, duration_variances=2.0 * durations**2
        )
        found = gb.hitting_times(mrp, targets=0)
        exact, inside = exact_chain(mrp), range(1, n)
        stored = [[fraction(p) for p in row] for row in chain]
        times = [[fraction(x) for x in np.broadcast_to(row, n)] for row in durations]
        system = [[int(i == j) - exact[i][j] for j in inside] for i in inside]
        weights = [stored[i] if durations.ndim == 2 else exact[i] for i in range(n)]
        (mean,) = solve_exactly(system, [dot(weights[i], times[i]) for i in inside])
        mean = [fmpq(0), *mean]
        second = [
            dot(weights[i], [3 * t * t + 2 * t * h for t, h in zip(times[i], mean, strict=True)])
            for i in inside
        ]
        (square,) = solve_exactly(system, second)
        variance = [x - h * h for x, h in zip(square, mean[1:], strict=True)]
        for values, errors, truths in (
            (found.mean, found.mean_error, mean[1:]),
            (found.variance, found.variance_error, variance),
        ):
            for value, error, truth in zip(values[1:], errors[1:], truths, strict=True):
                assert abs(fraction(value) - truth) <= fraction(error) <= abs(truth) * fraction(1e-12)


def test_hitting_times_without_variances() -> None:
    mrp = gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [0.0, 0.0], durations=[3.0, 1.0])
    found = gb.hitting_times(mrp, targets=1)
    assert found.mean.tolist() == [6.0, 0.0]
    assert np.isnan(found.variance[0])
    assert found.variance_error[0] == np.inf
    assert "duration_variances" in found.notes[-1]
    assert gb.hitting_probabilities(mrp, targets=1).probability.tolist() == [1.0, 1.0]


def machine(**more: Any) -> gb.MarkovRewardProcess:
    return gb.MarkovRewardProcess(
        [[0.5, 0.5], [1.0, 0.0]], [1.0, 2.0], **{"durations": [2.0, 4.0], "reward_rates": [1.0, 0.0], **more}
    )


def test_variance_is_refused_without_variances_of_durations() -> None:
    found = gb.solve(machine())
    for name in ("asymptotic_variance", "asymptotic_variance_error"):
        with pytest.raises(ValueError, match="duration_variances"):
            getattr(found, name)
    with pytest.raises(ValueError, match="embedded_chain"):
        found.variance_per_step  # noqa: B018
    several = gb.solve(machine(), multichain=True)
    with pytest.raises(ValueError, match="duration_variances"):
        several.class_asymptotic_variances  # noqa: B018
    assert "asymptotic_variance" not in repr(found)
    assert [row.quantity for row in found.accuracy().rows] == ["gain", "bias", "stationary"]
    assert list(found.to_frame().columns) == [
        "stationary", "reward", "bias", "duration", "embedded", "reward_rate",
    ]  # fmt: skip
    # Means alone are enough for all else: mu = (2, 1) / 3, 3 and 2 are earned in 2 and 4 units of time.
    assert found.gain == pytest.approx((2 * 3 + 2) / (2 * 2 + 4), rel=1e-14)
    assert found.gain_per_step == pytest.approx(8 / 3, rel=1e-14)


def test_durations_that_leave_the_range_of_floats_are_refused_with_advice() -> None:
    mrp = gb.MarkovRewardProcess([[0.5, 0.5], [1.0, 0.0]], [1e9, 2e9], durations=[5e-324, 5e-324])
    with pytest.raises(gb.ConvergenceError, match="choose another unit of time, scale the rewards or"):
        gb.solve(mrp)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Problem", lambda mrp: gb.Problem(mrp, gb.Tabular())),
        ("mixing_time", lambda mrp: gb.mixing_time(mrp, 0.1)),
        ("mixing_time", lambda mrp: mrp.mixing_time(0.1)),
        ("mixing_time_bounds", lambda mrp: gb.mixing_time_bounds(mrp, 0.1)),
        ("mixing_constants", gb.mixing_constants),
        ("spectral_gap", gb.spectral_gap),
        ("second_eigenvalue_modulus", gb.second_eigenvalue_modulus),
        ("deviation", lambda mrp: gb.deviation(mrp, [1.0, 0.0])),
        ("deviation_matrix", gb.deviation_matrix),
        ("kemeny_constant", gb.kemeny_constant),
        ("discounted_values", lambda mrp: gb.discounted_values(mrp, 0.9)),
        ("finite_horizon_values", lambda mrp: gb.finite_horizon_values(mrp, 3)),
        ("sensitivity", lambda mrp: gb.solve(mrp).sensitivity()),
        ("accuracy", lambda mrp: gb.solve(mrp).accuracy(derived=True)),
        ("ergodic", lambda mrp: gb.ergodic(mrp, 0.1)),
        ("Sampler", Sampler),
        ("poisson_solver", poisson_solver),
    ],
)
def test_refused_by_name(name: str, call: Any) -> None:
    """What takes a Problem (runs, algorithms, bounds, curves, recommendations, sweeps) is refused with it."""
    with pytest.raises(ValueError, match=rf"^{name}.*embedded_chain\(\)"):
        call(machine())
    if name not in ("sensitivity", "accuracy"):
        call(machine().embedded_chain())


def test_embedded_chain() -> None:
    chain = machine(durations=[[2.0, 3.0], [4.0, 9.0]], reward_rates=[0.1, -0.2]).embedded_chain()
    assert chain.durations is chain.reward_rates is chain.duration_variances is None
    np.testing.assert_allclose(chain.rewards, [1.25, 1.2], rtol=1e-15)
    np.testing.assert_allclose(chain.transition_rewards, [[1.2, 1.3], [1.2, 0.0]], rtol=1e-15)
    assert gb.solve(chain).gain == pytest.approx(gb.solve(chain.restricted_to([0, 1])).gain, rel=1e-15)
    timed = machine()
    assert gb.solve(timed).gain_per_step == pytest.approx(gb.solve(timed.embedded_chain()).gain, rel=1e-14)
    np.testing.assert_allclose(gb.solve(timed).embedded, gb.solve(timed.embedded_chain()).stationary)
    with pytest.raises(ValueError, match="no durations"):
        chain.embedded_chain()


def test_policy_of_a_decision_process() -> None:
    """Durations of actions are averaged with twice the digits: compare with a process of exact means."""
    rng = np.random.default_rng(8)
    kernel = rng.dirichlet(np.ones(4), (4, 3))
    rewards, durations = rng.normal(size=(4, 3)), 10.0 ** rng.uniform(-3, 3, (4, 3))
    policy = rng.dirichlet(np.ones(3), 4)
    rates = rng.normal(size=4)
    mrp = gb.MarkovRewardProcess.from_mdp(kernel, rewards, policy, durations=durations, reward_rates=rates)
    found = gb.solve(mrp)
    chain = exact_chain(mrp)

    def averaged(values: np.ndarray, state: int) -> fmpq:
        return dot(*([fraction(x) for x in row[state]] for row in (policy, values)))

    system = [[int(i == j) - chain[j][i] for j in range(4)] for i in range(3)]
    (law,) = solve_exactly([*system, [fmpq(1)] * 4], [fmpq(0), fmpq(0), fmpq(0), fmpq(1)])
    tau = [averaged(durations, s) for s in range(4)]
    earned = [averaged(rewards, s) + fraction(rates[s]) * tau[s] for s in range(4)]
    gain = dot(law, earned) / dot(law, tau)
    assert abs(fraction(found.gain) - gain) <= fraction(found.gain_error) <= abs(gain) * fraction(1e-15)
    with pytest.raises(ValueError, match="duration_variances"):
        found.asymptotic_variance  # noqa: B018
    part = mrp.restricted_to(range(4))
    assert part.fingerprint == mrp.fingerprint
    assert gb.solve(part).gain == found.gain
    one = gb.MarkovRewardProcess.from_mdp(kernel, rewards, [0, 1, 2, 0], durations=durations[:, 0])
    np.testing.assert_array_equal(one.durations, durations[:, 0])
    with pytest.raises(ValueError, match=r"durations\[0, 1\] is 0.0"):
        gb.MarkovRewardProcess.from_mdp(
            kernel, rewards, policy, durations=np.where(np.eye(4, 3, k=1) > 0, 0.0, 1.0)
        )
    with pytest.raises(ValueError, match=r"durations must have shape \(4,\) or \(4, 3\)"):
        gb.MarkovRewardProcess.from_mdp(kernel, rewards, policy, durations=np.ones((3, 4)))


def test_fingerprint_and_restriction() -> None:
    plain = gb.MarkovRewardProcess([[0.5, 0.5], [1.0, 0.0]], [1.0, 2.0])
    processes = [
        plain,
        machine(),
        machine(durations=[2.0, 4.5]),
        machine(reward_rates=None),
        machine(reward_rates=[1.0, 0.5]),
        machine(duration_variances=[0.0, 0.0]),
        machine(duration_variances=[0.0, 1.0]),
        machine(durations=[[2.0, 2.0], [4.0, 4.0]]),
    ]
    assert len({process.fingerprint for process in processes}) == len(processes)
    assert machine().embedded_chain().fingerprint != plain.fingerprint
    assert plain.fingerprint == "e6c8dd9b4ca7ff46b14418ea7a3b333e"
    for process in processes:
        part = process.restricted_to([0, 1])
        assert part.fingerprint == process.fingerprint
        assert gb.solve(part).gain == gb.solve(process).gain


def test_constant_rates() -> None:
    """Every step brings its gain: the bias is 0, and so is the variance."""
    found = gb.solve(
        gb.MarkovRewardProcess(
            [[0.3, 0.7], [0.6, 0.4]],
            [0.0, 0.0],
            durations=[1e-6, 1e6],
            reward_rates=[0.7, 0.7],
            duration_variances=[1.0, 1.0],
        )
    )
    assert found.gain == 0.7
    assert found.bias.tolist() == [0.0, 0.0]
    assert found.bias_error.max() < 1e-20
    assert found.asymptotic_variance <= found.asymptotic_variance_error < 1e-20


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"durations": [2.0, 0.0]}, r"durations\[1\] is 0.0, must be positive"),
        ({"durations": [2.0, -1.0]}, r"durations\[1\] is -1.0, must be positive"),
        ({"durations": [2.0, np.inf]}, r"durations\[1\] is inf"),
        ({"durations": [2.0, np.nan]}, r"durations\[1\] is nan"),
        ({"durations": [[1.0, 0.0], [1.0, 0.0]]}, r"durations\[0, 1\] is 0.0, must be positive for a"),
        ({"durations": [1.0, 2.0, 3.0]}, r"durations must have shape \(2,\)"),
        ({"durations": sparse.csr_array([[1.0, 0.0], [1.0, 0.0]])}, r"durations\[0, 1\] is 0.0"),
        ({"durations": None}, "reward_rates needs durations"),
        ({"durations": None, "reward_rates": None, "duration_variances": [1, 1]}, "duration_variances needs"),
        ({"reward_rates": [1.0]}, r"reward_rates must have one entry for each of the 2 states"),
        ({"duration_variances": [1.0, -1.0]}, r"duration_variances\[1\] is -1.0, must be at least 0"),
        ({"duration_variances": [[1.0, 1.0], [1.0, 1.0]]}, "must have the shape of durations"),
    ],
)
def test_bad_input(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine(**more)


def test_durations_where_nothing_happens_do_not_count() -> None:
    assert machine(durations=[[2.0, 3.0], [4.0, 0.0]]).fingerprint == (
        machine(durations=sparse.csr_array([[2.0, 3.0], [4.0, -7.0]])).fingerprint
    )


def test_read_from_a_file(tmp_path: Any) -> None:
    mrp = machine(duration_variances=[1.0, 0.0])
    parts = {name: getattr(mrp, name) for name in ("durations", "reward_rates", "duration_variances")}
    np.savez(tmp_path / "machine.npz", transitions=mrp.transitions, rewards=mrp.rewards, **parts)
    assert read_process(str(tmp_path / "machine.npz")).fingerprint == mrp.fingerprint


def test_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.npz"
    np.savez(
        path, transitions=[[0.0, 1.0], [1.0, 0.0]], rewards=[0.0, 0.0], durations=[9, 1], reward_rates=[5, 0]
    )
    assert main(["solve", str(path)]) == 0
    assert "4.5 per unit of time" in capsys.readouterr().out
    assert main(["solve", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["gain"], answer["per"], answer["asymptotic_variance"]) == (4.5, "unit of time", None)


def test_what_a_step_earns_in_all():
    mrp = gb.MarkovRewardProcess(
        [[0.0, 1.0], [1.0, 0.0]], [1.0, 5.0], durations=[2.0, 4.0], reward_rates=[3.0, -1.0]
    )
    assert earned_in_all(mrp, mrp.rewards).tolist() == [7.0, 1.0]
    assert earned_in_all(mrp, np.array([1.0, 2.0])).tolist() == [1.0, 2.0]  # other rewards have no rates
    plain = mrp.embedded_chain()
    assert earned_in_all(plain, plain.rewards).tolist() == [7.0, 1.0]
