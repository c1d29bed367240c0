"""Every number of a solution against exact fractions: none is outside its bound, and bounds are of use."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.model.doubled import Doubled
from gainbias.model.solve import bounds, residual
from gainbias.model.solve.elimination import law
from tests.oracles.compare import Measured, measured
from tests.oracles.exact import distance, exact_answer
from tests.oracles.zoo import specimen

EPS = float(np.finfo(float).eps)


KINDS = [
    *("dense", "birth and death over 6 decades", "birth and death over 20 decades"),
    *("birth and death over 80 decades", "entries of forty decades", "nearly decomposable"),
    *("ring with drift", "transient tail", "periodic", "rewards of moves", "continuous time"),
    *("several classes", "large level"),
]


def measured_of(kind: str, seed: int, method: str = "auto") -> dict[str, Measured]:
    return measured(*specimen(kind, seed), method)


def outside(kind: str, seeds: range, method: str = "auto") -> list[tuple[int, str]]:
    """The seeds and quantities whose error is larger than their bound."""
    return [
        (seed, name)
        for seed in seeds
        for name, found in measured_of(kind, seed, method).items()
        if not (found.error <= found.bound).all()
    ]


@pytest.mark.parametrize("method", ["auto", "sparse-gth"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_outside_its_bound(kind: str, method: str) -> None:
    assert outside(kind, range(15), method) == []


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_of_use(kind: str) -> None:
    """Where the true error is more than rounding, the bound is mostly a few times as large."""
    found = [measured_of(kind, seed) for seed in range(100, 112)]
    for name, most in (("gain", 10.0), ("bias", 200.0), ("stationary", 100.0), ("variance", 1e5)):
        parts = [one[name][:3] for one in found if name in one]
        error, bound, size = (
            (np.concatenate(columns) for columns in zip(*parts, strict=True)) if parts else EMPTY
        )
        seen = error > EPS * size
        assert np.median(np.append(bound[seen] / error[seen], 1.0)) <= most
        if name in ("gain", "stationary"):
            assert (bound <= 1e-12 * size).all()


EMPTY = (np.empty(0), np.empty(0), np.empty(0))


@pytest.mark.parametrize("method", ["power", "krylov"])
@pytest.mark.parametrize("kind", ["dense", "periodic", "rewards of moves", "large level", "transient tail"])
def test_methods_that_iterate(kind: str, method: str) -> None:
    """The gain has a bound that holds, the others estimates."""
    for seed in range(8):
        found = measured_of(kind, seed, method)
        for name, one in found.items():
            assert (one.error <= one.bound).all(), (seed, name)
        assert found["stationary in total"].bound < 1e-11


class TestTheTestsNotice:
    """What makes a bound too small is found by the chains above."""

    def test_half_a_bound(self) -> None:
        """Bounds are so tight that half of them would be wrong."""
        halves = {"gain": 0, "bias": 0, "stationary": 0}
        for seed in range(15):
            for name, found in measured_of("dense", seed).items():
                if name in halves:
                    halves[name] += int((found.error > 0.5 * found.bound).sum())
        assert min(halves.values()) >= 3

    def test_a_residual_in_single_digits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No number falls outside, because the rest of the residual stays in the bound: it is of no use."""

        def plain(rows, rewards, gain, bias):
            source = np.repeat(np.arange(len(rewards)), np.diff(rows.indptr))
            steps = rows.data * (bias.high[rows.indices] - bias.high[source])
            value = rewards - gain.high + np.bincount(source, steps, len(rewards))
            return residual.Residual(value, np.zeros(len(value)))

        def typical() -> float:
            found = [measured_of("nearly decomposable", k)["bias"][:3] for k in range(12)]
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
        assert outside(kind, range(15))

    def test_a_law_that_is_not_measured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        measure = law.measure_law

        def forgets(*given):
            return measure(*given)._replace(given_error=measure(*given).error)

        monkeypatch.setattr("gainbias.model.solve.elimination.solver.measure_law", forgets)
        assert {name for _, name in outside("dense", range(15))} == {"stationary"}

    def test_the_last_rounding(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The answer has more digits inside than it can carry out."""
        monkeypatch.setattr(bounds, "distance", lambda values, doubled: np.zeros(len(values)))
        assert {"gain", "bias"} <= {name for _, name in outside("dense", range(15))}

    def test_the_error_of_the_gain_in_the_bias(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sums = bounds._summed
        monkeypatch.setattr(bounds, "_summed", lambda right, solver: 0.0 * sums(right, solver))
        monkeypatch.setattr(bounds, "POOR", 0.0)
        assert {"bias"} <= {name for _, name in outside("birth and death over 80 decades", range(30))}

    def test_the_mean_of_the_bias(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bounds, "_mean_of_signed", lambda values, solver: np.zeros(solver.num_classes))
        assert "bias" in {name for _, name in outside("dense", range(15))}

    @pytest.mark.parametrize("kind", ["birth and death over 80 decades", "birth and death over 6 decades"])
    def test_the_rounding_of_an_elimination(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            "gainbias.model.solve.elimination.solver.elimination_rounding", lambda *given: 0.0
        )
        monkeypatch.setattr(law, "EPSILON", 0.0)
        assert outside(kind, range(30))


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


def test_variance_of_rewards_of_moves_with_a_large_level() -> None:
    """Rows sum to 1 up to rounding only, and what that leaves open about the level meets the bias."""
    outside_of_bounds = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        moves = 10.0 ** rng.uniform(2, 6) + rng.standard_normal((3, 3))
        mrp = gb.MarkovRewardProcess(rng.random((3, 3)), moves, renormalise=True)
        found, exact = gb.solve(mrp), exact_answer(mrp).variance
        assert exact is not None
        if not distance(found.asymptotic_variance, [exact]) <= found.asymptotic_variance_error:
            outside_of_bounds.append(seed)
    assert outside_of_bounds == []


def two_wells(n: int, back: float) -> gb.MarkovRewardProcess:
    """A walk that drifts to the nearer one of two ends; it is as often at one of them as at the other."""
    inward = np.full(n // 2 - 1, back)
    outward = np.full(n // 2 - 1, 0.9 - back)
    up, down = np.r_[inward, back, outward], np.r_[outward, back, inward]
    chain = np.diag(up, 1) + np.diag(down, -1)
    rewards = (np.arange(n) < n // 2) * 1.0
    return gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), rewards)


@pytest.mark.filterwarnings("ignore::gainbias.AccuracyWarning")
@pytest.mark.parametrize("method", ["auto", "sparse-gth"])
@pytest.mark.parametrize("n", [100, 320, 336, 400])
def test_wells_with_a_barrier_below_the_smallest_number(n: int, method: str) -> None:
    """The barrier is crossed once in 1e98 to 1e390 steps."""
    found = gb.solve(two_wells(n, 0.01), method=method)
    assert abs(found.gain - 0.5) <= found.gain_error <= 1e-12
    assert found.stationary_error_total <= 1e-12


@pytest.mark.parametrize(("n", "method"), [(320, "dense-gth"), (600, "dense-gth"), (600, "auto")])
def test_wells_of_which_nothing_is_known_are_refused(n: int, method: str) -> None:
    """From the left one, a dense elimination loses the way to the right one; 1e-586 is lost in any order."""
    with pytest.raises(gb.ConvergenceError, match="leave out the rarest transitions"):
        gb.solve(two_wells(n, 0.01), method=method)


def test_rare_states_of_a_queue_below_the_smallest_number_cost_nothing() -> None:
    up, down = np.full(899, 0.2), np.full(899, 0.6)
    chain = np.diag(up, 1) + np.diag(down, -1)
    queue = gb.MarkovRewardProcess(chain + np.diag(1 - chain.sum(axis=1)), np.minimum(np.arange(900.0), 5))
    found = gb.solve(queue, method="sparse-gth")
    assert found.stationary[-1] == 0.0
    assert found.error_bound <= 1e-14
    assert found.stationary_error_total <= 1e-14


@pytest.mark.filterwarnings("ignore::gainbias.AccuracyWarning")
def test_a_probability_that_is_lost_in_a_product_is_found_in_another_order() -> None:
    """The last state has a probability of 8e-30, but two transitions to it multiply to less than 1e-308."""
    up, down = [1.7e-206, 1.0e-250, 7.8e-199], [5.2e-107, 1.2e-246, 2.6e-273]
    chain = np.diag(up, 1) + np.diag(down, -1)
    mrp = gb.MarkovRewardProcess(chain + np.eye(4), [1.0, 2.0, 3.0, 5.0])
    with pytest.raises(gb.ConvergenceError):
        gb.solve(mrp, method="dense-gth")
    found, exact = gb.solve(mrp), exact_answer(mrp)
    assert found.method == "sparse-gth"
    assert (distance(found.stationary, exact.law) <= found.stationary_error).all()
    assert (found.stationary_error <= 1e-14 * found.stationary).all()
    assert distance(found.gain, exact.gain[:1]) <= found.gain_error <= 1e-14


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e-300])
def test_a_variance_below_the_smallest_number_is_not_known(size: float) -> None:
    found = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [size, 4 * size]))
    assert found.asymptotic_variance_error > 0.0
    assert (
        gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [size, size])).asymptotic_variance_error
        == 0.0
    )
