"""Several recurrent classes: against exact fractions, against each class alone, and at scale."""

import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg as linalg
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.doubled import Doubled, Expected
from gainbias.model.solve import leaking, multichain, semi_markov
from gainbias.model.solve.certificate import Certified, solve_and_certify
from gainbias.model.solve.solution import MethodError
from tests.oracles.exact import distance, exact_answer, rational_answer

ITERATING = ["incomplete-gth", "power", "krylov"]


def weights(rng, sizes=(3, 1, 4), transient=4, decades=0.0):
    """Weights of a chain with classes of these sizes and with transient states that reach all of them."""
    n = sum(sizes) + transient
    rows = rng.random((n, n)) * 10.0 ** -(decades * rng.random((n, n)))
    keep = np.zeros((n, n), bool)
    keep[n - transient :] = True
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        keep[end - size : end, end - size : end] = True
    order = rng.permutation(n)
    return np.where(keep, rows, 0.0)[order][:, order]


def plain(rng, **shape):
    rows = weights(rng, **shape)
    return gb.MarkovRewardProcess(rows, rng.standard_normal(len(rows)), renormalise=True)


def slow(rng):
    return plain(rng, decades=6.0)


def without_transient_states(rng):
    return plain(rng, transient=0)


def rewards_of_moves(rng):
    rows = weights(rng)
    return gb.MarkovRewardProcess(rows, 1e3 + rng.standard_normal(rows.shape), renormalise=True)


def averaged_over_actions(rng):
    rows = weights(rng)
    kernel = np.stack([rows, rows * rng.random(rows.shape)], axis=1)
    policy = rng.dirichlet([1.0, 1.0], len(rows))
    rewards = 1e3 + rng.standard_normal((len(rows), 2))
    return gb.MarkovRewardProcess.from_mdp(kernel, rewards, policy, renormalise=True)


def continuous_time(rng):
    rates = weights(rng) * (1 - np.eye(12))
    return gb.MarkovRewardProcess.from_rates(rates - np.diag(rates.sum(axis=1)), rng.standard_normal(12))


KINDS = [plain, slow, without_transient_states, rewards_of_moves, continuous_time]


def assert_exact(found):
    """Check that each number is as near to the exact one as it says, and that its error is useful."""
    mrp, unit = found.mrp, found.mrp.rate or 1.0
    exact = exact_answer(mrp)
    law = np.asarray(found.stationary.sum(axis=0)).ravel()
    assert np.all(distance(found.gain, exact.gain, unit) <= found.gain_error)
    assert np.all(distance(found.bias, exact.bias) <= found.bias_error)
    assert np.all(distance(law, exact.law) <= found.stationary_error)
    assert found.error_bound < 1e-10
    assert found.residual < 1e-14
    if mrp.rate is None:
        for c, states in enumerate(found.classes):
            truth = exact_answer(mrp.restricted_to(states)).variance
            off = distance(found.class_asymptotic_variances[c : c + 1], [truth])
            assert off <= found.class_asymptotic_variance_errors[c]


def in_parts(monkeypatch, largest=0):
    """Let classes above this size be solved one by one, and chains of any size be taken apart."""
    monkeypatch.setattr(multichain, "DENSE_SOLVE_STATES", largest)


@pytest.mark.parametrize("largest", [0, 3, 500])
@pytest.mark.parametrize("make", KINDS)
def test_every_number_is_within_its_bound(make, largest, monkeypatch):
    in_parts(monkeypatch, largest)
    for seed in range(6):
        found = gb.solve(make(np.random.default_rng(seed)), multichain=True)
        assert_exact(found)
        assert found.method == "dense-gth"


@pytest.mark.parametrize("method", [*ITERATING, "sparse-gth"])
@pytest.mark.parametrize("make", [plain, without_transient_states, rewards_of_moves, continuous_time])
def test_a_method_that_is_asked_for_solves_each_class(make, method, monkeypatch):
    in_parts(monkeypatch)
    for seed in range(3):
        found = gb.solve(make(np.random.default_rng(seed)), method=method, multichain=True)
        assert method in found.method
        assert_exact(found)


def test_methods_that_iterate_need_not_take_classes_of_one_state():
    found = gb.solve(gb.MarkovRewardProcess(np.eye(3), [1.0, 2.0, 3.0]), method="power", multichain=True)
    assert found.class_gains.tolist() == [1.0, 2.0, 3.0]
    assert found.class_asymptotic_variances.tolist() == [0.0] * 3


def test_aggregation_solves_each_class():
    block = np.kron(np.eye(4), np.full((3, 3), 1 / 3)) + 1e-6
    rows = sparse.block_diag([block, block]).tocsr()
    rewards = np.cos(np.arange(24.0))
    mrp = gb.MarkovRewardProcess(rows, rewards, renormalise=True)
    found = gb.solve(mrp, method="aggregation", multichain=True)
    assert found.method == "aggregation"
    assert_exact(found)


@pytest.mark.parametrize("largest", [0, 3, 500])
def test_rewards_that_a_policy_averages_keep_their_digits(largest, monkeypatch):
    in_parts(monkeypatch, largest)
    mrp = averaged_over_actions(np.random.default_rng(0))
    apart = gb.solve(mrp, multichain=True)
    in_parts(monkeypatch, 500)
    whole = gb.solve(mrp, multichain=True)
    assert np.all(np.abs(apart.gain - whole.gain) <= apart.gain_error + whole.gain_error)
    assert np.all(np.abs(apart.bias - whole.bias) <= apart.bias_error + whole.bias_error)
    assert apart.bias_error.max() < 1e-11


@pytest.mark.parametrize("largest", [0, 500])
@pytest.mark.parametrize("make", [plain, rewards_of_moves, continuous_time])
def test_extra_rewards_and_variances_are_those_of_each_alone(make, largest, monkeypatch):
    in_parts(monkeypatch, largest)
    mrp = make(np.random.default_rng(3))
    other = np.cos(np.arange(mrp.num_states))
    found = gb.solve(mrp, multichain=True, extra_rewards={"": other, "zero": np.zeros(mrp.num_states)})
    extra = found.extra[""]
    np.testing.assert_array_equal(extra.rewards * (mrp.rate or 1.0), other)
    np.testing.assert_array_equal(found.extra["zero"].gain, 0.0)
    np.testing.assert_array_equal(found.extra["zero"].class_asymptotic_variances, 0.0)
    assert found.rewards is mrp.rewards
    for c, states in enumerate(found.classes):
        alone = gb.solve(mrp.restricted_to(states), extra_rewards={"": other[states]})
        for mine, one in ((found, alone), (extra, alone.extra[""])):
            error = mine.class_asymptotic_variance_errors[c] + one.asymptotic_variance_error
            assert abs(mine.class_asymptotic_variances[c] - one.asymptotic_variance) <= error
            assert mine.class_gains[c] == pytest.approx(one.gain, rel=1e-14, abs=1e-14)
            np.testing.assert_allclose(mine.bias[states], one.bias, rtol=0, atol=1e-11)
    left = extra.bias + extra.gain / (mrp.rate or 1.0) - mrp.csr @ extra.bias - extra.rewards
    assert np.abs(left).max() < 1e-13


@pytest.mark.parametrize("method", ["dense-gth", "sparse-gth"])
@pytest.mark.parametrize("levels", [(1e9, 1e9), (1e9, -1e8), (1e9, 0.0)])
def test_a_large_level_in_each_class(levels, method):
    """All states of a class have the same gain: an ulp between them is a tenth of what rewards differ by."""
    rng = np.random.default_rng(3)
    parts = [rng.dirichlet(np.ones(n), n) for n in (20, 15)]
    rewards = [level + 1e-6 * rng.standard_normal(len(p)) for level, p in zip(levels, parts, strict=True)]
    chain = linalg.block_diag(*parts)
    found = gb.solve(
        gb.MarkovRewardProcess(chain, np.concatenate(rewards)), multichain=True, method=method, tol=1e-6
    )
    classes = zip(parts, rewards, np.split(found.bias, [20]), np.split(found.bias_error, [20]), strict=True)
    for k, (part, own, bias, error) in enumerate(classes):
        exact = rational_answer(part, own)
        assert (np.abs(bias - exact.bias) <= error).all()
        assert error.max() <= 1e-7 * np.ptp(exact.bias)
        variance = found.class_asymptotic_variances[k]
        assert variance == pytest.approx(exact.asymptotic_variance, rel=1e-9)


def test_a_bias_that_is_not_known_leaves_transient_states_unknown(monkeypatch):
    in_parts(monkeypatch)

    def certify(*given):
        answer = solve_and_certify(*given)
        is_worse = len(answer.bias) == 4
        bad = np.full(len(answer.bias), np.inf if is_worse else 0.0)
        return replace(answer, bias_error=answer.bias_error + bad, error_bound=bad[0])

    mrp = plain(np.random.default_rng(0))
    monkeypatch.setattr(semi_markov, "solve_and_certify", certify)
    with pytest.warns(gb.AccuracyWarning, match="the bias of 8 of 12 states"):
        found = gb.solve(mrp, multichain=True)
    assert np.isinf(found.bias_error[found.structure.transient]).all()
    assert np.all(distance(found.gain, exact_answer(mrp).gain) <= found.gain_error)


def test_a_tolerance_that_is_missed_brings_the_best_answer(monkeypatch):
    in_parts(monkeypatch)
    monkeypatch.setattr(multichain, "NOT_MUCH_WORSE", 0.0)
    with pytest.warns(gb.AccuracyWarning, match=r"^tol=1\.0e-18 is not met"):
        found = gb.solve(plain(np.random.default_rng(0)), tol=1e-18, multichain=True)
    assert_exact(found)


def test_a_class_that_no_method_solves_is_named():
    mrp = plain(np.random.default_rng(0))
    first = int(mrp.structure.recurrent[0][0])
    with pytest.raises(
        gb.ConvergenceError, match=rf"^recurrent class of state {first}, \d states: no method"
    ):
        gb.solve(mrp, method="aggregation", multichain=True)


def walk_against_the_wind(length, ratio):
    """Transient states that mostly move away from the two classes at the ends, where nothing is earned."""
    rows = np.zeros((length + 2, length + 2))
    rows[0, 0] = rows[-1, -1] = 1.0
    for i in range(1, length + 1):
        up = ratio if i <= length // 2 else 1.0
        rows[i, i + 1], rows[i, i - 1] = up / (1.0 + ratio), (1.0 + ratio - up) / (1.0 + ratio)
    rewards = np.append(np.linspace(0.0, 1.0, length + 1), 0.0)
    return gb.MarkovRewardProcess(rows, rewards, renormalise=True)


def assert_known(found, mrp):
    exact = exact_answer(mrp)
    assert (distance(found.gain, exact.gain) <= found.gain_error).all()
    assert (distance(found.bias, exact.bias) <= found.bias_error).all()


def test_transient_states_that_are_left_after_1e40_jumps(monkeypatch):
    """Twice the digits do not resolve them, and the bounds of elimination itself are taken."""
    in_parts(monkeypatch)
    mrp = walk_against_the_wind(80, 10.0)
    found = gb.solve(mrp, multichain=True)
    assert not found.gain.any()
    assert not found.gain_error.any()
    assert found.error_bound <= 1e-10
    assert_known(found, mrp)
    two = gb.MarkovRewardProcess(mrp.transitions, np.arange(82.0))
    with pytest.warns(gb.AccuracyWarning, match=r"the bias of 80 of 82 states"):
        found = gb.solve(two, multichain=True)
    assert found.gain_error.max() <= 1e-10
    assert_known(found, two)


def test_costs_until_the_chain_ends():
    """States that absorb and earn nothing: the bias is the expected total of what is earned before."""
    rng = np.random.default_rng(0)
    rows = sparse.block_array(
        [[sparse.eye_array(900), None], [rng.random((300, 900)), rng.random((300, 300))]]
    )
    rewards = np.append(np.zeros(900), rng.random(300))
    found = gb.solve(gb.MarkovRewardProcess(rows.tocsr(), rewards, renormalise=True), multichain=True)
    assert not found.gain.any()
    assert not found.gain_error.any()
    assert found.error_bound < 1e-15
    inner = found.mrp.csr[900:, 900:].toarray()
    np.testing.assert_allclose(
        found.bias[900:], np.linalg.solve(np.eye(300) - inner, rewards[900:]), rtol=1e-12
    )
    nothing = gb.solve(gb.MarkovRewardProcess(found.mrp.csr, np.zeros(1200)), multichain=True)
    assert not nothing.bias.any()
    assert nothing.error_bound == 0.0


def expander(size, seed, degree=4):
    """A doubly stochastic random graph."""
    rng, states = np.random.default_rng(seed), np.arange(size)
    steps = [sparse.csr_array((np.full(size, 1 / degree), (states, rng.permutation(size))), (size, size))]
    while len(steps) < degree:
        steps.append(sparse.csr_array((steps[0].data, (states, rng.permutation(size))), (size, size)))
    return sparse.csr_array(sum(steps))


def expanders(size, transient, seed=0):
    """Two expanders, and in front of them a third one that the chain leaves after a hundred steps."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 2 * size, transient)
    exits = sparse.csr_array(
        (np.full(transient, 1 / 128), (np.arange(transient), ends)), (transient, 2 * size)
    )
    classes = [expander(size, 1), expander(size, 2)]
    blocks = [[classes[0], None, None], [None, classes[1], None]]
    blocks.append([exits[:, :size], exits[:, size:], expander(transient, 3) * (127 / 128)])
    return gb.MarkovRewardProcess(
        sparse.block_array(blocks).tocsr(), rng.standard_normal(2 * size + transient)
    )


def test_methods_that_iterate_agree_with_elimination(monkeypatch):
    """Without memory for an elimination, classes and transient states are iterated."""
    mrp = expanders(600, 600)
    found = gb.solve(mrp, multichain=True, max_memory=1e4)
    assert "transient states: krylov" in found.notes[-1]
    monkeypatch.setattr(multichain, "DENSE_SOLVE_STATES", 10_000)
    whole = gb.solve(mrp, multichain=True, method="sparse-gth")
    assert whole.method == "sparse-gth"
    assert found.method != "sparse-gth"
    assert np.all(np.abs(found.gain - whole.gain) <= found.gain_error + whole.gain_error)
    assert np.all(np.abs(found.bias - whole.bias) <= found.bias_error + whole.bias_error)
    assert found.error_bound < 1e-12


def test_time_that_runs_out_in_the_transient_part(monkeypatch):
    mrp = expanders(600, 600)
    plain_chain = leaking.LeakingChain.solve_for

    def late(chain, *given):
        raise multichain.OutOfTimeError("the time limit of 1 s has passed")

    monkeypatch.setattr(leaking.LeakingChain, "solve_for", late)
    with pytest.raises(gb.ConvergenceError, match="classes are solved, the transient states are not: the"):
        gb.solve(mrp, multichain=True)
    monkeypatch.setattr(leaking.LeakingChain, "solve_for", plain_chain)
    with pytest.raises(gb.ConvergenceError, match=r"^recurrent class of state 0, [^$]* raise time_limit"):
        gb.solve(mrp, multichain=True, time_limit=1e-9)


def in_processor_time(mrp):
    began = time.process_time()
    found = gb.solve(mrp, multichain=True)
    return found, time.process_time() - began


def test_ten_thousand_classes_cost_what_their_states_cost():
    rng, count = np.random.default_rng(0), 10_000
    start = 3 * (np.arange(3 * count) // 3)
    columns = (start[:, np.newaxis] + np.arange(3)).ravel()
    rows = sparse.csr_array(
        (rng.dirichlet(np.ones(3), 3 * count).ravel(), columns, 3 * np.arange(3 * count + 1))
    )
    mrp = gb.MarkovRewardProcess(rows, rng.standard_normal(3 * count), renormalise=True)
    gb.solve(mrp.restricted_to(np.arange(3000)), multichain=True)
    found, seconds = in_processor_time(mrp)
    assert seconds < 1.0
    assert found.error_bound < 1e-14
    for c in (0, 4711, 9999):
        alone = gb.solve(mrp.restricted_to(found.classes[c]))
        assert found.class_gains[c] == pytest.approx(alone.gain, rel=1e-13)
        assert found.class_asymptotic_variances[c] == pytest.approx(alone.asymptotic_variance, rel=1e-12)


def test_small_classes_are_eliminated_in_groups_of_limited_size(monkeypatch):
    monkeypatch.setattr(multichain, "MOST_TOGETHER", 9)
    in_parts(monkeypatch, 4)
    mrp = plain(np.random.default_rng(5), sizes=(3, 2, 4, 1, 3, 2), transient=3)
    found = gb.solve(mrp, multichain=True)
    assert sum("small recurrent classes" in note for note in found.notes) == 2
    assert_exact(found)


def test_notes_name_ten_classes_at_most():
    found = gb.solve(plain(np.random.default_rng(5), sizes=(2,) * 13), method="power", multichain=True)
    assert found.notes[10] == "and 3 more classes"
    assert found.notes[11].startswith("4 transient states: dense-gth")


@pytest.mark.slow
def test_two_large_expanders_cost_about_what_each_costs():
    mrp = expanders(30_000, 30_000)
    found, seconds = in_processor_time(mrp)
    assert seconds < 5.0
    assert found.error_bound < 1e-14
    for states in found.classes:
        alone = gb.solve(mrp.restricted_to(states))
        assert abs(found.gain[states[0]] - alone.gain) <= found.gain_error[states[0]] + alone.gain_error
        np.testing.assert_allclose(found.bias[states], alone.bias, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_a_long_transient_tail_in_front_of_an_expander():
    size, tail = 30_000, 30_000
    chain = sparse.diags_array([np.full(tail, 0.5), np.full(tail - 1, 0.5)], offsets=[0, 1])
    last = sparse.csr_array(([0.5], ([tail - 1], [0])), (tail, size))
    rows = sparse.block_array([[expander(size, 1), None], [last, chain]]).tocsr()
    mrp = gb.MarkovRewardProcess(rows, np.random.default_rng(0).standard_normal(size + tail))
    found, seconds = in_processor_time(mrp)
    assert seconds < 15.0
    assert found.error_bound < 1e-12
    left = found.bias + found.gain - mrp.csr @ found.bias - mrp.rewards
    assert np.abs(left).max() < 1e-11


class TestErrorsOnTransientStates:
    """Errors of the classes are carried on to the states that lead to them."""

    def test_from_the_class_that_is_known_least(self, monkeypatch):
        """The gain of both classes is the same number: no equation is solved, and its error stays."""
        monkeypatch.setattr(multichain, "DENSE_SOLVE_STATES", 0)
        rng = np.random.default_rng(0)
        chain = np.zeros((8, 8))
        chain[:3, :3] = chain[3:6, 3:6] = rng.dirichlet(np.ones(3), 3)
        chain[6:] = rng.dirichlet(np.ones(8), 2)
        rewards = np.r_[np.tile([0.1, 0.7, 0.3], 2), 5.0, 6.0]
        found = gb.solve(gb.MarkovRewardProcess(chain, rewards), multichain=True)
        assert found.gain[0] == found.gain[3] == found.gain[7]
        assert 0.0 < found.gain_error[:6].max() == found.gain_error[6] / multichain.MARGIN

    def test_through_the_equations_with_a_margin(self, monkeypatch):
        """A margin of 2 doubles what enters."""
        rng = np.random.default_rng(1)
        chain = np.zeros((6, 6))
        chain[:4, :4] = np.diag(np.ones(4))
        chain[4:] = rng.dirichlet(np.ones(6), 2)
        mrp = gb.MarkovRewardProcess(chain, np.arange(6.0))
        outside, error = np.array([1.0, 2, 3, 4, 0, 0]), np.array([0.5, 0.25, 0.125, 1.0, 0, 0])
        ends = np.linalg.solve(np.eye(2) - chain[4:, 4:], chain[4:, :4])

        def solved(margin, doubt):
            monkeypatch.setattr(multichain, "MARGIN", margin)
            return leaking.with_leaking_chain(
                mrp.csr,
                np.array([4, 5]),
                lambda one: multichain._solved(
                    one, mrp.csr[[4, 5]], Doubled(np.zeros(2)), outside, error, doubt
                ),
                what="a test",
            )

        for margin in (1.0, 2.0):
            x, off = solved(margin, 0.0)
            np.testing.assert_allclose(x.high, ends @ outside[:4], rtol=1e-14)
            np.testing.assert_allclose(off, margin * (ends @ error[:4]), rtol=1e-12)
            more = np.linalg.solve(np.eye(2) - chain[4:, 4:], [3.0, 5.0])
            np.testing.assert_allclose(solved(margin, np.array([3.0, 5.0]))[1] - off, more, rtol=1e-12)

    def test_in_an_answer(self, monkeypatch):
        """Errors of the classes that are seen, and units of rounding that are seen too."""
        margin, eps = 1.5, 2.0**-6
        monkeypatch.setattr(multichain, "MARGIN", margin)
        monkeypatch.setattr(multichain, "EPSILON", eps)
        rng = np.random.default_rng(2)
        chain = np.zeros((6, 6))
        chain[:4, :4] = np.kron(np.eye(2), np.full((2, 2), 0.5))
        chain[4:] = rng.dirichlet(np.ones(6), 2)
        rewards = np.array([1.0, 3.0, 2.0, 8.0, -50.0, -70.0])
        mrp = gb.MarkovRewardProcess(chain, rewards)
        exact = gb.solve(mrp, multichain=True)
        outside = np.r_[np.ones(4), 0.0, 0.0]
        off_gain, off_bias = rng.random((2, 6)) * outside
        known = Certified(exact.gain * outside, exact.bias * outside, off_gain, off_bias, 0.0, 0.0)
        doubt = np.array([0.0, 0.0, 0.0, 0.0, 0.25, -0.5])
        expected = Expected(Doubled(rewards), doubt)
        monkeypatch.setattr(multichain, "expected_of", lambda mrp, rewards: expected)
        found = leaking.with_leaking_chain(
            mrp.csr,
            np.array([4, 5]),
            lambda one: multichain._extended(mrp, one, mrp.csr[[4, 5]], rewards, known),
            what="a test",
        )
        np.testing.assert_allclose(found.gain, exact.gain, rtol=1e-14)
        np.testing.assert_allclose(found.bias, exact.bias, rtol=1e-13)
        inverse = np.linalg.inv(np.eye(2) - chain[4:, 4:])
        gain_error = inverse @ chain[4:, :4] @ off_gain[:4] * margin
        np.testing.assert_allclose(found.gain_error[4:], gain_error * margin, rtol=1e-12)
        entering = chain[4:, :4] @ off_bias[:4] * margin
        rounded = 4 * eps**2 * (np.abs(rewards) + np.abs(exact.gain))[4:]
        bias_error = inverse @ (gain_error + np.abs(doubt[4:]) + rounded + entering)
        np.testing.assert_allclose(found.bias_error[4:], bias_error * margin, rtol=1e-12)
        np.testing.assert_array_equal(found.gain_error[:4], off_gain[:4])
        np.testing.assert_array_equal(found.bias_error[:4], off_bias[:4])


@pytest.mark.filterwarnings("ignore::gainbias.AccuracyWarning")
def test_the_worst_of_several_rewards_is_what_was_reached(monkeypatch):
    monkeypatch.setattr(multichain, "DENSE_SOLVE_STATES", 0)
    monkeypatch.setattr(multichain, "NOT_MUCH_WORSE", 0.0)
    plain_way, said = multichain.with_leaking_chain, []

    def listened(csr, states, work, **options):
        def heard(chain):
            try:
                return work(chain)
            except MethodError as reason:
                said.append(str(reason))
                raise

        return plain_way(csr, states, heard, **options)

    monkeypatch.setattr(multichain, "with_leaking_chain", listened)
    mrp = plain(np.random.default_rng(0))
    level = np.where(np.arange(12) == mrp.structure.transient[0], 1e9, 1.0)
    found = gb.solve(mrp, tol=1e-300, multichain=True, extra_rewards={"level": level})
    bounds = [found.error_bound, found.extra["level"].error_bound]
    assert said == [f"reached an error bound of {max(bounds):.1e}"]
    assert f"{min(bounds):.1e}" != f"{max(bounds):.1e}"
