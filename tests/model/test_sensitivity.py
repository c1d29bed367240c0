"""Derivatives of the gain: against differences of exact gains, in rational numbers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sparse
from flint import fmpq

import gainbias as gb
from tests.oracles.exact import as_float, dot, exact_answer, exact_chain, fraction, solve_exactly


def random_process(seed=0, size=5, **options):
    rng = np.random.default_rng(seed)
    rows = rng.random((size, size)) * (rng.random((size, size)) < 0.7) + np.roll(np.eye(size), 1, axis=1)
    return gb.MarkovRewardProcess(rows, rng.normal(size=size), renormalise=True, **options)


def random_change(seed, size=5):
    change = np.random.default_rng(seed).integers(-8, 9, size=(size, size)) / 8.0
    return change - np.diag(change.sum(axis=1))


def exact_gain_of(chain, rewards):
    n = len(chain)
    balance = [[int(i == j) - chain[i][j] for i in range(n)] for j in range(n)]
    balance[-1] = [fmpq(1)] * n
    (law,) = solve_exactly(balance, [fmpq(0)] * (n - 1) + [fmpq(1)])
    return dot(law, rewards)


def slope(mrp, change, earned=None):
    """Return the derivative of the exact gain by a difference over a step of 1e-20."""
    chain, step, n = exact_chain(mrp), fmpq(1, 10**20), mrp.num_states

    def gain(size):
        moved = [[chain[i][j] + size * fraction(change[i][j]) for j in range(n)] for i in range(n)]
        if earned is None:
            rewards = [fraction(r) for r in mrp.rewards]
        else:
            rewards = [dot(moved[i], [fraction(r) for r in earned[i]]) for i in range(n)]
        return exact_gain_of(moved, rewards)

    return as_float((gain(step) - gain(-step)) / (2 * step))


def exact_slope(mrp, change):
    """Return the derivative in fractions, by the exact law and bias; staying is what a row leaves."""
    exact, n = exact_answer(mrp), mrp.num_states
    change = change.toarray() if sparse.issparse(change) else np.asarray(change)
    earned = mrp.transition_rewards
    earned = earned.toarray() if sparse.issparse(earned) else earned
    total = fmpq(0)
    for i in range(n):
        for j in range(n):
            if i != j:
                gained = exact.bias[j] - exact.bias[i]
                if earned is not None:
                    gained += fraction(earned[i, j]) - fraction(earned[i, i])
                total += exact.law[i] * fraction(change[i, j]) * gained
    return total


@pytest.mark.parametrize("seed", range(6))
def test_along_any_change(seed):
    mrp, change = random_process(seed), random_change(seed)
    effects = gb.solve(mrp).sensitivity()
    wanted = slope(mrp, change)
    assert effects.along(change) == pytest.approx(wanted, rel=1e-12)
    assert effects.along(sparse.csr_array(change)) == pytest.approx(wanted, rel=1e-12)
    assert effects.along(np.zeros((5, 5))) == 0.0


def stiff(rng, n=8):
    rows = 10.0 ** -rng.uniform(0, 12, (n, n)) * (rng.random((n, n)) < 0.5) + np.roll(np.eye(n), 1, axis=1)
    return gb.MarkovRewardProcess(rows, rng.normal(size=n), renormalise=True)


def earning(rng, n=6):
    level = 10.0 ** rng.uniform(0, 5)
    return gb.MarkovRewardProcess(
        rng.dirichlet(np.ones(n), n), level + rng.normal(size=(n, n)), renormalise=True
    )


def in_time(rng, n=6):
    rates = 10.0 ** rng.uniform(-8, 4, (n, n))
    return gb.MarkovRewardProcess.from_rates(rates - np.diag(rates.sum(axis=1)), rng.normal(size=n))


@pytest.mark.parametrize("method", ["auto", "sparse-gth", "krylov"])
@pytest.mark.parametrize("make", [random_process, stiff, earning, in_time])
@pytest.mark.parametrize("seed", range(5))
def test_no_derivative_is_outside_its_error(make, seed, method):
    mrp = make(seed if make is random_process else np.random.default_rng(seed))
    n = mrp.num_states
    try:
        effects = gb.solve(mrp, method=method).sensitivity()
    except gb.ConvergenceError:
        assert method == "krylov"
        return
    change = random_change(seed, n)
    wanted, error = exact_slope(mrp, change), effects.along_error(change)
    assert abs(fraction(effects.along(change)) - wanted) <= fraction(error)
    if method != "krylov":
        assert error <= 1e-9 * np.abs(change).sum() * np.ptp(effects.bias) + 1e-13 * mrp.max_abs_reward
    found, off = effects.transitions(), effects.transitions_error()
    for s in range(n):
        for successor in found.indices[found.indptr[s] : found.indptr[s + 1]]:
            # In fractions: to this successor from all others in proportion, or to it from staying.
            alone = np.zeros((n, n))
            alone[s, successor] = 1.0
            wanted = exact_slope(mrp, alone)
            if mrp.rate is None:
                row = np.zeros((n, n))
                row[s] = mrp.csr[[s]].toarray()[0]
                wanted -= exact_slope(mrp, row)
            error = abs(fraction(found[s, successor]) - wanted)
            assert error <= fraction(off[s, successor])


def test_the_error_of_a_derivative_is_that_of_law_and_bias():
    """Where nothing is known of a bias, nothing is known of what leads there."""
    solution = gb.solve(random_process())
    off = solution.bias_error.copy()
    off[2] = np.inf
    effects = replace(solution.sensitivity(), bias_error=off)
    away, there = np.zeros((2, 5, 5))
    away[0, :2], there[0, [0, 2]] = (-1.0, 1.0), (-1.0, 1.0)
    assert effects.along_error(away) < 1e-14
    assert effects.along_error(there) == np.inf
    assert effects.along_error(np.zeros((5, 5))) == 0.0
    table = effects.largest(30)
    assert np.isinf(table["error"]).any()
    assert (table["error"] > 0.0).all()


def test_a_derivative_with_an_unknown_bias_is_no_number():
    solution = gb.solve(random_process())
    bias = solution.bias.copy()
    bias[:2] = np.inf, -np.inf
    effects = replace(solution.sensitivity(), bias=bias, bias_error=np.where(np.isinf(bias), np.inf, 0.0))
    assert np.isnan(effects.along(random_change(0)))
    assert effects.along_error(random_change(0)) == np.inf


def test_rewards():
    solution = gb.solve(random_process())
    assert solution.sensitivity().stationary is solution.stationary


@pytest.mark.parametrize("seed", range(3))
def test_rewards_of_transitions_move_with_the_transitions(seed):
    rng = np.random.default_rng(seed)
    earned = rng.normal(size=(5, 5))
    mrp = gb.MarkovRewardProcess(rng.random((5, 5)), earned, renormalise=True)
    change = random_change(seed)
    solution = gb.solve(mrp, extra_rewards={"plain": mrp.rewards})
    assert solution.sensitivity().along(change) == pytest.approx(slope(mrp, change, earned), rel=1e-11)
    assert solution.extra["plain"].sensitivity().along(change) == pytest.approx(slope(mrp, change), rel=1e-11)


def test_each_transition_at_the_expense_of_all_in_proportion():
    mrp = random_process(2)
    effects = gb.solve(mrp).sensitivity().transitions()
    assert np.array_equal(effects.indices, mrp.csr.indices)
    dense = mrp.transitions
    for s in range(5):
        for successor in np.flatnonzero(dense[s]):
            change = np.zeros((5, 5))
            change[s] = -dense[s]
            change[s, successor] += 1.0
            assert effects[s, successor] == pytest.approx(slope(mrp, change), rel=1e-12, abs=1e-15)
    # Scaling all probabilities of a row changes nothing, once they are normalised.
    assert np.asarray((effects * mrp.csr).sum(axis=1)) == pytest.approx(np.zeros(5), abs=1e-15)


def test_continuous_time_takes_changes_of_rates():
    rates = np.array([[-3.0, 1.0, 2.0], [0.5, -0.5, 0.0], [4.0, 1.0, -5.0]])
    reward = np.array([1.0, -2.0, 3.0])
    effects = gb.solve(gb.MarkovRewardProcess.from_rates(rates, reward)).sensitivity()
    change = np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, -1.0, -1.0]])

    def gain(size):
        return gb.solve(gb.MarkovRewardProcess.from_rates(rates + size * change, reward)).gain

    assert effects.along(change) == pytest.approx((gain(1e-5) - gain(-1e-5)) / 2e-5, rel=1e-8)
    single = effects.transitions().toarray()
    assert single[0, 1] == pytest.approx(effects.along([[-1, 1, 0], [0, 0, 0], [0, 0, 0]]))
    assert not single.diagonal().any()
    table = effects.largest(100)
    assert list(table.columns) == ["state", "successor", "rate", "effect", "error"]
    assert len(table) == 5
    assert sorted(table["rate"]) == pytest.approx([0.5, 1.0, 1.0, 2.0, 4.0])


def test_the_table_has_the_largest_first_with_labels():
    table = gb.solve(random_process(labels=list("abcde"))).sensitivity().largest(4)
    assert len(table) == 4
    assert set(table["state"]) <= set("abcde")
    assert np.all(np.diff(np.abs(table["effect"])) <= 0.0)


def test_agrees_with_the_bias_in_fractions():
    mrp, change = random_process(4), random_change(9)
    bias = exact_answer(mrp).bias
    step = [dot([fraction(c) for c in row], bias) for row in change]
    effects = gb.solve(mrp).sensitivity()
    assert effects.along(change) == pytest.approx(effects.stationary @ [as_float(x) for x in step], rel=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (np.eye(5), "row 0 of change sums to 1, must be 0: what is added to some transitions"),
        (np.zeros((4, 4)), r"change must have shape \(5, 5\), one row for each state, found \(4, 4\)"),
        (np.full((5, 5), np.nan), "every entry must be a finite number"),
        ("more", "change has dtype"),
    ],
)
def test_wrong_changes_are_refused_in_words(change, message):
    with pytest.raises(ValueError, match=message):
        gb.solve(random_process()).sensitivity().along(change)


def test_the_difference_of_two_chains_is_accepted():
    first, second = random_process(0), random_process(1)
    change = second.transitions - first.transitions
    effects = gb.solve(first).sensitivity()
    assert effects.along(change) == pytest.approx(
        slope(first, change - np.diag(change.sum(axis=1))), rel=1e-11
    )


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_wrong_counts_are_refused_in_words(count):
    with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
        gb.solve(random_process()).sensitivity().largest(count)


def test_the_table_has_ten_rows_unless_another_number_is_given():
    assert len(gb.solve(random_process()).sensitivity().largest()) == 10


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_row_that_sums_to_anything_else_than_0_is_refused(sign):
    change = np.zeros((5, 5))
    change[3, :2] = sign, -0.999 * sign
    with pytest.raises(ValueError, match=rf"row 3 of change sums to {sign * 0.001:g}, must be 0"):
        gb.solve(random_process()).sensitivity().along(change)
