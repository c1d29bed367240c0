"""Every number of a solution against exact fractions: none is outside its bound, and bounds are of use."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import gainbias as gb
from gainbias.model.doubled import Doubled
from gainbias.model.solve import bounds, residual
from gainbias.model.solve.elimination import law
from tests.oracles.exact import distance, exact_answer

EPS = float(np.finfo(float).eps)
Made = Callable[[np.random.Generator], gb.MarkovRewardProcess]


def normalised(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=1, keepdims=True)


def process(weights: np.ndarray, rewards: np.ndarray) -> gb.MarkovRewardProcess:
    return gb.MarkovRewardProcess(normalised(weights), rewards)


def dense(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    n = rng.integers(2, 10)
    return process(rng.dirichlet(np.ones(n), n), rng.standard_normal(n))


def birth_death(decades: float, longest: int) -> Made:
    def make(rng: np.random.Generator) -> gb.MarkovRewardProcess:
        n = rng.integers(3, longest)
        up, down = (10 ** -rng.uniform(0, decades, n - 1) / 2 for _ in range(2))
        chain = np.diag(up, 1) + np.diag(down, -1)
        return gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), rng.standard_normal(n))

    return make


def entries_of_forty_decades(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    n = rng.integers(3, 8)
    rewards = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, n)
    return process(10.0 ** -rng.uniform(0, 40, (n, n)), rewards)


def nearly_decomposable(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    inside = np.kron(np.eye(3), rng.random((3, 3)) + 0.1)
    return process(inside + 10.0 ** -rng.uniform(3, 14) * rng.random((9, 9)), rng.standard_normal(9))


def ring_with_drift(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    n, forward, eye = rng.integers(3, 20), rng.uniform(0.1, 0.9), np.eye
    moves = forward * np.roll(eye(n), 1, axis=1) + (1 - forward) * np.roll(eye(n), -1, axis=1)
    return process(moves, rng.standard_normal(n))


def transient_tail(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    weights = np.triu(rng.random((8, 8))) * 10.0 ** -rng.uniform(0, 8, (8, 8))
    weights[5:, 5:] = rng.random((3, 3))
    return process(weights, rng.standard_normal(8))


def periodic(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    phase = np.arange(9) % 3
    weights = np.equal.outer((phase + 1) % 3, phase) * (rng.random((9, 9)) + 0.01)
    return process(weights, rng.standard_normal(9))


def rewards_of_moves(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    level = 10.0 ** rng.uniform(-2, 6) * rng.integers(0, 2)
    return process(rng.dirichlet(np.ones(6), 6), level + rng.standard_normal((6, 6)))


def continuous_time(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    rates = 10.0 ** rng.uniform(-8, 2, (6, 6)) * (1 - np.eye(6))
    return gb.MarkovRewardProcess.from_rates(rates - np.diag(rates.sum(axis=1)), rng.standard_normal(6))


def several_classes(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    weights = np.zeros((10, 10))
    weights[:3, :3], weights[3:6, 3:6] = rng.random((2, 3, 3))
    weights[6:] = rng.random((4, 10)) * 10.0 ** -rng.uniform(0, 6, (4, 10))
    return process(weights, rng.standard_normal(10))


def large_level(rng: np.random.Generator) -> gb.MarkovRewardProcess:
    return process(rng.dirichlet(np.ones(6), 6), 10.0 ** rng.uniform(0, 12) + rng.standard_normal(6))


KINDS: dict[str, Made] = {
    "birth and death over 6 decades": birth_death(6, 25),
    "birth and death over 20 decades": birth_death(20, 12),
    "birth and death over 80 decades": birth_death(80, 10),
    **{
        make.__name__: make
        for make in (
            dense,
            entries_of_forty_decades,
            nearly_decomposable,
            ring_with_drift,
            transient_tail,
            periodic,
            rewards_of_moves,
            continuous_time,
            several_classes,
            large_level,
        )
    },
}
Measured = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


def measured(mrp: gb.MarkovRewardProcess, method: str) -> Measured:
    """True error, bound and size of each gain, bias, probability and variance."""
    multichain = not mrp.is_unichain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gb.AccuracyWarning)
        found = gb.solve(mrp, method=method, multichain=multichain)  # type: ignore[call-overload]
    exact, unit = exact_answer(mrp), mrp.rate or 1.0
    probabilities = np.asarray(found.stationary.sum(axis=0)).ravel() if multichain else found.stationary
    gains = exact.gain if multichain else exact.gain[:1]
    largest = np.abs(mrp.rewards).max() * unit
    rows = {
        "gain": (distance(found.gain, gains, unit), found.gain_error, largest),
        "bias": (distance(found.bias, exact.bias), found.bias_error, np.abs(found.bias)),
        "stationary": (distance(probabilities, exact.law), found.stationary_error, probabilities),
    }
    if exact.variance is not None:
        value, error = found.variance_per_step, found.variance_per_step_error
        rows["variance"] = distance(value, [exact.variance]), error, abs(value)
    return {
        name: tuple(np.broadcast_arrays(*map(np.atleast_1d, parts)))  # type: ignore[misc]
        for name, parts in rows.items()
    }


def outside(make: Made, seeds: range, method: str = "auto") -> list[tuple[int, str]]:
    """The seeds and quantities whose error is larger than their bound."""
    return [
        (seed, name)
        for seed in seeds
        for name, (error, bound, _) in measured(make(np.random.default_rng(seed)), method).items()
        if not (error <= bound).all()
    ]


@pytest.mark.parametrize("method", ["auto", "sparse-gth"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_outside_its_bound(kind: str, method: str) -> None:
    assert outside(KINDS[kind], range(15), method) == []


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_of_use(kind: str) -> None:
    """Where the true error is more than rounding, the bound is mostly a few times as large."""
    found = [measured(KINDS[kind](np.random.default_rng(seed)), "auto") for seed in range(100, 112)]
    for name, most in (("gain", 10.0), ("bias", 200.0), ("stationary", 100.0), ("variance", 1e5)):
        parts = [one[name] for one in found if name in one]
        error, bound, size = (
            (np.concatenate(columns) for columns in zip(*parts, strict=True)) if parts else EMPTY
        )
        seen = error > EPS * size
        assert np.median(np.append(bound[seen] / error[seen], 1.0)) <= most
        if name in ("gain", "stationary"):
            assert (bound <= 1e-12 * size).all()


EMPTY = (np.empty(0), np.empty(0), np.empty(0))


@pytest.mark.parametrize("method", ["power", "krylov"])
@pytest.mark.parametrize("kind", ["dense", "periodic", "rewards_of_moves", "large_level", "transient_tail"])
def test_methods_that_iterate(kind: str, method: str) -> None:
    """The gain has a bound that holds, the others estimates."""
    for seed in range(8):
        mrp = KINDS[kind](np.random.default_rng(seed))
        for name, (error, bound, _) in measured(mrp, method).items():
            assert (error <= bound).all(), (seed, name)
        found = gb.solve(mrp, method=method)
        assert distance(found.stationary, exact_answer(mrp).law).sum() <= found.stationary_error_total < 1e-11


class TestTheTestsNotice:
    """What makes a bound too small is found by the chains above."""

    def test_half_a_bound(self) -> None:
        """Bounds are so tight that half of them would be wrong."""
        halves = {"gain": 0, "bias": 0, "stationary": 0}
        for seed in range(15):
            for name, (error, bound, _) in measured(dense(np.random.default_rng(seed)), "auto").items():
                if name in halves:
                    halves[name] += int((error > 0.5 * bound).sum())
        assert min(halves.values()) >= 3

    def test_a_residual_in_single_digits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No number falls outside, because the rest of the residual stays in the bound: it is of no use."""

        def plain(rows, rewards, gain, bias):
            source = np.repeat(np.arange(len(rewards)), np.diff(rows.indptr))
            steps = rows.data * (bias.high[rows.indices] - bias.high[source])
            value = rewards - gain.high + np.bincount(source, steps, len(rewards))
            return residual.Residual(value, np.zeros(len(value)))

        def typical() -> float:
            found = [
                measured(nearly_decomposable(np.random.default_rng(k)), "auto")["bias"] for k in range(12)
            ]
            error, bound, size = (np.concatenate(columns) for columns in zip(*found, strict=True))
            seen = error > EPS * size
            return float(np.median(bound[seen] / error[seen]))

        assert typical() < 5.0
        monkeypatch.setattr(bounds, "bounded_residual", plain)
        assert typical() > 100.0

    @pytest.mark.parametrize("kind", ["dense", "periodic", "birth and death over 20 decades"])
    def test_residuals_that_forget_their_rounding(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            residual, "_with_rounding", lambda value, *_: residual.Residual(value, np.zeros(len(value)))
        )
        assert outside(KINDS[kind], range(15))

    def test_a_law_that_is_not_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        measure = law.measure_law

        def forgets(*given):
            return measure(*given)._replace(given_error=measure(*given).error)

        monkeypatch.setattr("gainbias.model.solve.elimination.solver.measure_law", forgets)
        assert {name for _, name in outside(dense, range(15))} == {"stationary"}

    def test_the_last_rounding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The answer has more digits inside than it can carry out."""
        monkeypatch.setattr(bounds, "distance", lambda values, doubled: np.zeros(len(values)))
        assert {"gain", "bias"} <= {name for _, name in outside(dense, range(15))}

    def test_the_error_of_the_gain_in_the_bias(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sums = bounds._summed
        monkeypatch.setattr(bounds, "_summed", lambda right, solver: 0.0 * sums(right, solver))
        monkeypatch.setattr(bounds, "POOR", 0.0)
        assert {"bias"} <= {name for _, name in outside(KINDS["birth and death over 80 decades"], range(30))}

    def test_the_mean_of_the_bias(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bounds, "_mean_of_signed", lambda values, solver: np.zeros(solver.num_classes))
        assert "bias" in {name for _, name in outside(dense, range(15))}

    @pytest.mark.parametrize("kind", ["birth and death over 80 decades", "birth and death over 6 decades"])
    def test_the_rounding_of_an_elimination(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "gainbias.model.solve.elimination.solver.elimination_rounding", lambda *given: 0.0
        )
        monkeypatch.setattr(law, "EPS", 0.0)
        assert outside(KINDS[kind], range(30))


@pytest.mark.kernels
def test_each_class_has_its_own_errors() -> None:
    """A class that hardly moves has a huge bias; the error of the others does not know of it."""
    chain = np.zeros((4, 4))
    chain[:2, :2] = [[0.5, 0.5], [0.25, 0.75]]
    chain[2:, 2:] = [[1.0, 1e-20], [3e-20, 1.0]]
    found = gb.solve(gb.MarkovRewardProcess(chain, [1.0, 2.0, 3.0, 5.0]), multichain=True)
    assert found.bias_error[:2].max() < 1e-15
    assert 1e3 < found.bias_error[2:].max() < 1e5
    assert found.gain_error.max() < 1e-15


def test_a_bias_that_overflows_is_not_known() -> None:
    """The transient state waits 1e308 steps and more: its bias has no number, the others have all digits."""
    chain = [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [1e-308, 0.0, 1.0]]
    with pytest.warns(gb.AccuracyWarning, match="the bias of 1 of 3 states"):
        found = gb.solve(gb.MarkovRewardProcess(chain, [1.0, 2.0, 1e3]))
    assert np.isfinite(found.bias_error).tolist() == [True, True, False]
    assert found.bias_error[:2].max() < 1e-14
    assert found.gain_error < 1e-15


def test_twice_the_digits() -> None:
    one, other = Doubled(np.array([1.0]), np.array([1e-20])), Doubled(np.array([3e-17]), np.array([1e-34]))
    off = one.minus(other)
    assert off.high[0] == 1.0
    assert off.rest[0] == pytest.approx(1e-20 - 3e-17, rel=1e-15)


def two_wells(n: int, back: float) -> gb.MarkovRewardProcess:
    """A walk that drifts to the nearer one of two ends; it is as often at one of them as at the other."""
    inward = np.full(n // 2 - 1, back)
    outward = np.full(n // 2 - 1, 0.9 - back)
    up, down = np.r_[inward, back, outward], np.r_[outward, back, inward]
    chain = np.diag(up, 1) + np.diag(down, -1)
    rewards = (np.arange(n) < n // 2) * 1.0
    return gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), rewards)


@pytest.mark.parametrize("method", ["dense-gth", "sparse-gth"])
def test_wells_with_a_barrier_below_the_smallest_number_are_refused(method: str) -> None:
    low = gb.solve(two_wells(100, 0.01), method=method)
    assert abs(low.gain - 0.5) <= low.gain_error <= 1e-12
    with pytest.raises(gb.ConvergenceError, match="leave out the rarest transitions"):
        gb.solve(two_wells(340, 0.01), method=method)


def test_rare_states_of_a_queue_below_the_smallest_number_cost_nothing() -> None:
    up, down = np.full(899, 0.2), np.full(899, 0.6)
    chain = np.diag(up, 1) + np.diag(down, -1)
    queue = gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), np.minimum(np.arange(900.0), 5))
    found = gb.solve(queue, method="sparse-gth")
    assert found.stationary[-1] == 0.0
    assert found.error_bound <= 1e-14
    assert found.stationary_error_total <= 1e-14


def test_a_probability_that_is_lost_in_a_product_has_no_bound() -> None:
    """The last state has a probability of 8e-30, but two transitions to it multiply to less than 1e-308."""
    up, down = [1.7e-206, 1.0e-250, 7.8e-199], [5.2e-107, 1.2e-246, 2.6e-273]
    chain = np.diag(up, 1) + np.diag(down, -1)
    mrp = gb.MarkovRewardProcess(chain + np.eye(4), [1.0, 2.0, 3.0, 5.0])
    with pytest.raises(gb.ConvergenceError):
        gb.solve(mrp)


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e-300])
def test_a_variance_below_the_smallest_number_is_not_known(size: float) -> None:
    found = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [size, 4 * size]))
    assert found.asymptotic_variance_error > 0.0
    assert (
        gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [size, size])).asymptotic_variance_error
        == 0.0
    )
