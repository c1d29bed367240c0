"""Chains and rewards that once gave a wrong number with a small error bound, kept as tests."""

import re
import time

import numpy as np
import pytest
import scipy.sparse as sparse
from flint import arb, ctx

import gainbias as gb
from gainbias.model.checks import EPSILON as EPS
from gainbias.model.solve.elimination.numeric import Sparse
from gainbias.model.solve.elimination.solver import busiest_states
from tests.oracles.exact import distance, exact_answer, fraction, rational_answer


def stiff_birth_death(seed: int, n: int) -> tuple[gb.MarkovRewardProcess, np.ndarray, np.ndarray]:
    """Rates over six decades, at random: probabilities and values over hundreds of decades."""
    rng = np.random.default_rng(seed)
    up, down = (10 ** -rng.uniform(0, 6, n - 1) / 2 for _ in range(2))
    moves = sparse.diags_array([up, down], offsets=[1, -1])
    chain = sparse.csr_array(moves + sparse.diags_array(1 - moves.sum(axis=1)))
    return gb.MarkovRewardProcess(chain, rng.standard_normal(n)), up, down


def exact_birth_death(
    mrp: gb.MarkovRewardProcess, up: np.ndarray, down: np.ndarray
) -> tuple[list[arb], arb, list[arb]]:
    """Law, gain and bias to hundreds of digits: what flows up through each cut must balance."""
    ups, downs, rewards = ([arb(float(x)) for x in values] for values in (up, down, mrp.rewards))
    weights = [arb(1)]
    for u, d in zip(ups, downs, strict=True):
        weights.append(weights[-1] * u / d)
    total = sum(weights, arb(0))
    law = [w / total for w in weights]
    gain = sum((m * r for m, r in zip(law, rewards, strict=True)), arb(0))
    bias, flow = [arb(0)], arb(0)
    for i, u in enumerate(ups):
        flow += law[i] * (rewards[i] - gain)
        bias.append(bias[-1] - flow / (law[i] * u))
    mean = sum((m * w for m, w in zip(law, bias, strict=True)), arb(0))
    return law, gain, [w - mean for w in bias]


@pytest.mark.parametrize(("seed", "n"), [(142, 700), (246, 700), (521, 700), (55, 150), (1, 150), (2, 150)])
@pytest.mark.parametrize("method", ["auto", "sparse-gth"])
def test_stiff_birth_death_is_answered(seed: int, n: int, method: str) -> None:
    """Values over up to 50 decades, of which a residual with twice the digits sees 32: none is refused."""
    mrp, up, down = stiff_birth_death(seed, n)
    solution = gb.solve(mrp, method=method)
    before, ctx.prec = ctx.prec, 4000
    try:
        law, gain, bias = exact_birth_death(mrp, up, down)
        assert abs(arb(solution.gain) - gain) <= arb(solution.gain_error)
        for found, exact, errors in (
            (solution.stationary, law, solution.stationary_error),
            (solution.bias, bias, solution.bias_error),
        ):
            off = zip(found.tolist(), exact, errors.tolist(), strict=True)
            assert all(abs(arb(x) - y) <= arb(error) for x, y, error in off)
    finally:
        ctx.prec = before
    assert solution.gain_error <= 1e-11
    assert (solution.stationary_error <= 1e-11 * solution.stationary).all()
    assert (solution.bias_error <= 1e-10 * np.ptp(solution.bias)).all()


def test_one_small_correction_may_be_luck() -> None:
    """Refinement moves by 4e-2, 4e-18, 1e-4, 1e-4, ... of the span: the second is a cancellation."""
    tiny = 9.99999999999e-13
    chain = [
        [1, 1e-32, 1e-41, 0],
        [0, 0, 1e-29, 1],
        [9.99999999999e-33, 9.99999999999e-30, tiny, 0.999999999999],
        [1e-30, 0, 1, 1e-28],
    ]
    mrp = gb.MarkovRewardProcess(chain, [2.0, -2.0, 1.0, 3.0])
    with pytest.warns(gb.AccuracyWarning, match="the bias of 4 of 4 states may be off"):
        solution = gb.solve(mrp)
    exact = exact_answer(mrp)
    assert (distance(solution.bias, exact.bias) <= solution.bias_error).all()
    assert (solution.bias_error <= 1e-3 * np.ptp(solution.bias)).all()
    assert distance(solution.gain, exact.gain[:1])[0] <= solution.gain_error < 1e-16


def blocks_with_a_rare_way_between(num_blocks: int, rare: float) -> sparse.csr_array:
    """Two worlds, b and c, on a ring of blocks; a state that leads to both is all but never entered."""
    chain = sparse.lil_array((5 * num_blocks, 5 * num_blocks))
    for k in range(num_blocks):
        a, b1, b2, c1, c2 = range(5 * k, 5 * k + 5)
        chain[a, b1] = chain[a, c1] = 0.5
        for x, y, place, weight in ((b1, b2, 1, 1.0), (c1, c2, 3, 3.0)):
            chain[x, y] = chain[y, x] = chain[y, y] = 0.5
            for other in (k + 1, k - 1):
                chain[x, 5 * (other % num_blocks) + place] = 1e-4
            chain[x, a] = 1e-4 * rare * weight
            chain[x, x] = 0.5 - 2e-4 - 1e-4 * rare * weight
    return chain.tocsr()


@pytest.mark.parametrize("method", ["auto", "aggregation"])
def test_blocks_that_fall_apart_inside(method: str) -> None:
    chain = blocks_with_a_rare_way_between(120, 1e-13)
    mrp = gb.MarkovRewardProcess(chain, np.repeat(np.cos(np.arange(120)), 5))
    try:
        law = gb.solve(mrp, method=method).stationary.reshape(120, 5)
    except gb.ConvergenceError:
        assert method == "aggregation"
        return
    assert law[:, 1:3].sum() == pytest.approx(0.75, rel=1e-12)
    assert law[:, 3:].sum() == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(
    "method",
    [
        "dense-gth",
        "sparse-gth",
        # Its estimate may be larger than the tolerance where its error is not.
        pytest.param("incomplete-gth", marks=pytest.mark.filterwarnings("ignore::gainbias.AccuracyWarning")),
        "power",
        "krylov",
    ],
)
@pytest.mark.parametrize(("level", "size"), [(1e6, 1.0), (1.0, 1e-10), (1.0, 1e-13), (1.0, 1e-15)])
def test_rewards_that_vary_little_around_a_large_level(level: float, size: float, method: str) -> None:
    rng = np.random.default_rng(1)
    chain = rng.dirichlet(np.ones(5), 5)
    rewards = level + size * rng.standard_normal(5)
    exact = rational_answer(chain, rewards)
    solution = gb.solve(gb.MarkovRewardProcess(chain, rewards), method=method)
    assert np.abs(solution.bias - exact.bias).max() <= 1e-12 * np.ptp(exact.bias)


@pytest.mark.parametrize("method", ["dense-gth", "power"])
def test_constant_rewards_have_no_bias(method: str) -> None:
    chain = np.random.default_rng(1).dirichlet(np.ones(5), 5)
    assert not gb.solve(gb.MarkovRewardProcess(chain, np.full(5, 0.3)), method=method).bias.any()
    by_transition = gb.MarkovRewardProcess(chain, np.full((5, 5), 0.3))
    assert not gb.solve(by_transition, method=method).bias.any()


RARE = np.array([[0.5, 0.5 - 1e-12, 1e-12], [0.3, 0.7 - 1e-12, 1e-12], [1 - 1e-12, 0.0, 1e-12]])


@pytest.mark.parametrize("method", ["dense-gth", "sparse-gth", "incomplete-gth", "power", "krylov"])
def test_a_rare_huge_loss_hides_no_bias(method: str) -> None:
    rewards = np.array([[1e-7, 0.0, -1e9], [0.0, 2e-7, -1e9], [0.0, 0.0, -1e9]])
    exact = rational_answer(RARE, rewards)
    solution = gb.solve(gb.MarkovRewardProcess(RARE, rewards), method=method)
    np.testing.assert_allclose(solution.bias, [-7.03125e-8, 4.21875e-8, -1.765625e-7], rtol=1e-9)
    off = np.abs(solution.bias - exact.bias).max() / np.ptp(exact.bias)
    assert off <= solution.error_bound <= 1e-11
    assert solution.gain == pytest.approx(exact.gain, rel=1e-14)


@pytest.mark.parametrize("size", [1e-3, 1e6, 1e12])
@pytest.mark.parametrize("seed", range(6))
def test_the_error_bound_covers_rewards_of_transitions(size: float, seed: int) -> None:
    """A huge reward in one place or in all, up to where doubles leave no digit of the bias."""
    rng = np.random.default_rng(seed)
    chain = rng.dirichlet(np.ones(5), 5)
    chain[:, 4] *= 10.0 ** -rng.uniform(0, 14)
    chain /= chain.sum(axis=1, keepdims=True)
    rewards = rng.standard_normal((5, 5)) * 1e-3
    rewards += [size if seed % 2 else 0.0] * 4 + [size]
    exact = rational_answer(chain, rewards)
    solution = gb.solve(gb.MarkovRewardProcess(chain, rewards), tol=1e3)
    assert (np.abs(solution.bias - exact.bias) <= solution.bias_error + EPS * np.abs(exact.bias)).all()
    off = np.abs(solution.bias - exact.bias).max() / np.ptp(solution.bias)
    assert off <= solution.error_bound
    assert solution.error_bound < 1e-15 * max(size, 1.0) * 1e4


def test_a_level_that_swamps_the_rewards_of_transitions_is_told() -> None:
    """The gain is known to all digits, the bias to one or two: that is an answer, with a warning."""
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.ones(5), 5)
    rewards = 1e9 + 1e-6 * rng.standard_normal((5, 5))
    reason = r"reached an error bound of \d\.\de-0[12], because rewards are averaged whose level is large"
    with pytest.warns(
        gb.AccuracyWarning, match=r"the gain, known to \d\.\de-1[67] of the largest reward, meets"
    ):
        solution = gb.solve(gb.MarkovRewardProcess(chain, rewards))
    assert re.search(reason, solution.notes[0])
    exact = rational_answer(chain, rewards)
    assert (np.abs(solution.bias - exact.bias) <= solution.bias_error).all()
    assert solution.gain == pytest.approx(exact.gain, rel=1e-15)
    halves = gb.MarkovRewardProcess(np.full((2, 2), 0.5), 1e9 + 1e-6 * rng.standard_normal((2, 2)))
    exact = rational_answer(halves.transitions, halves.transition_rewards)
    np.testing.assert_allclose(gb.solve(halves).bias, exact.bias, rtol=1e-14)


def test_extra_rewards_keep_apart() -> None:
    mrp = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0])
    solution = gb.solve(mrp, extra_rewards={"": [100.0, 100.0]})
    assert solution.gain == pytest.approx(1.5)
    assert solution.extra[""].gain == pytest.approx(100.0)
    assert solution.extra[""].to_frame()["reward"].tolist() == [100.0, 100.0]
    rates = gb.MarkovRewardProcess.from_rates([[-1, 1], [3, -3]], [0.0, 2.0])
    solution = gb.solve(rates, extra_rewards={"same": [0.0, 2.0]})
    assert solution.extra["same"].gain == solution.gain
    assert solution.extra["same"].asymptotic_variance == solution.asymptotic_variance
    several = gb.solve(mrp, extra_rewards={"x": [100.0, 100.0]}, multichain=True)
    assert several.class_gains == pytest.approx([1.5])
    assert several.extra["x"].class_gains.tolist() == [100.0]


def test_small_probabilities_of_methods_that_iterate() -> None:
    n = 600
    chain = sparse.lil_array((n, n))
    for i in range(n):
        chain[i, min(i + 1, n - 1)] += 0.9
        chain[i, 0] += 0.1
    solution = gb.solve(gb.MarkovRewardProcess(chain.tocsr(), np.arange(n) % 3), method="power")
    exact = np.append(0.1 * 0.9 ** np.arange(n - 1), 0.9 ** (n - 1))
    np.testing.assert_allclose(solution.stationary, exact, rtol=1e-10)


@pytest.mark.parametrize("method", ["power", "krylov", "incomplete-gth"])
def test_transient_states_have_no_probability(method: str) -> None:
    chain = [[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.0, 0.6, 0.4]]
    assert gb.solve(gb.MarkovRewardProcess(chain, [1.0, 2.0, 3.0]), method=method).stationary[0] == 0.0


def test_variance_where_a_transient_bias_overflows() -> None:
    solution = gb.solve(gb.MarkovRewardProcess([[1.0, 0.0], [1e-170, 1.0]], [0.0, 1.0]))
    assert solution.asymptotic_variance == 0.0


def test_a_hub_does_not_hold_up_the_search_for_a_root() -> None:
    arms = 100_000
    ends = np.arange(1, arms + 1)
    rows = np.concatenate([np.zeros(arms, int), ends])
    columns = np.concatenate([ends, np.zeros(arms, int)])
    star = sparse.csr_array((np.append(np.full(arms, 1 / arms), np.ones(arms)), (rows, columns)))
    busiest_states(Sparse(star.indptr, star.indices, star.data), np.array([0, 2]), np.arange(2))
    started = time.monotonic()
    roots = busiest_states(
        Sparse(star.indptr, star.indices, star.data), np.array([0, arms + 1]), np.arange(arms + 1)
    )
    assert time.monotonic() - started < 5.0
    assert roots[0] == 0


def test_a_dense_front_can_be_stopped() -> None:
    chain = np.random.default_rng(0).dirichlet(np.ones(3000), 3000)
    mrp = gb.MarkovRewardProcess(chain, np.arange(3000))
    started = time.monotonic()
    with pytest.raises(gb.ConvergenceError, match=r"the time limit of 0\.2 s has passed"):
        gb.solve(mrp, method="dense-gth", time_limit=0.2)
    assert time.monotonic() - started < 3.0


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    gb.solve(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 2.0]))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["auto", "sparse-gth", "incomplete-gth", "krylov", "power"])
@pytest.mark.parametrize("size", [1e200, 1e300, 1e305, 1.5e308])
def test_rewards_near_the_largest_number(size: float, method: str) -> None:
    """Gain and bias have all of their digits, whatever the unit of the rewards is."""
    chain, rewards = np.random.default_rng(0).dirichlet(np.ones(6), 6), np.linspace(-0.5, 1.0, 6) * size
    mrp = gb.MarkovRewardProcess(chain, rewards)
    exact, found = exact_answer(mrp), gb.solve(mrp, method=method)
    assert abs(fraction(found.gain) - exact.gain[0]) <= fraction(found.gain_error) <= fraction(1e-15 * size)
    assert (distance(found.bias, exact.bias) <= found.bias_error).all()
    assert found.bias_error.max() <= 1e-12 * size
    assert found.asymptotic_variance_error == np.inf


def test_a_bias_beyond_the_largest_number_is_not_known() -> None:
    mrp = gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.7e308, -0.85e308])
    with pytest.warns(gb.AccuracyWarning, match="at worst by inf in state 1"):
        found = gb.solve(mrp)
    exact = exact_answer(mrp)
    assert abs(fraction(found.gain) - exact.gain[0]) <= fraction(found.gain_error) <= fraction(1e293)
    assert abs(fraction(found.bias[0]) - exact.bias[0]) <= fraction(found.bias_error[0])
    assert found.bias_error[1] == found.error_bound == np.inf


def test_small_rewards_beside_huge_ones_keep_their_digits() -> None:
    """A unit in which huge rewards are small would be one in which small ones are no numbers."""
    chain = np.kron(np.eye(2), [[0.9, 0.1], [0.5, 0.5]])
    found = gb.solve(gb.MarkovRewardProcess(chain, [1e300, 3e300, 1e-250, 4e-250]), multichain=True)
    assert abs(found.class_gains[1] - 1.5e-250) <= 1e-15 * 1.5e-250
