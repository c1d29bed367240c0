"""Processes made from a decision process and a policy, or from continuous-time rates."""

import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st

from gainbias import AccuracyWarning, MarkovRewardProcess, solve
from gainbias.model.checks import EPSILON

KERNEL = np.array([[[1.0, 0.0], [0.25, 0.75]], [[0.5, 0.5], [0.0, 1.0]]])
RATES = np.array([[-2.0, 2.0, 0.0], [1.0, -4.0, 3.0], [0.0, 5.0, -5.0]])


def exactly(message):
    return f"^{re.escape(message)}$"


def random_decision_process(seed):
    rng = np.random.default_rng(seed)
    n, actions = rng.integers(1, 6, size=2)
    kernel = rng.random((n, actions, n)) * (rng.random((n, actions, n)) < 0.6)
    kernel[..., 0] += 0.1
    kernel /= kernel.sum(axis=2, keepdims=True)
    policy = rng.random((n, actions)) * (rng.random((n, actions)) < 0.7)
    policy[:, 0] += 0.1
    policy /= policy.sum(axis=1, keepdims=True)
    return kernel, rng.normal(size=(n, actions, n)), policy


def by_action(array, make=sparse.csr_array):
    return [make(array[:, action]) for action in range(array.shape[1])]


def exact_two_states(kernel, rewards, policy):
    """Gain, bias and R of two states by the definitions, in rationals; rewards are r(s, a, s')."""
    chance = [[Fraction(float(x)) for x in row] for row in policy]
    policies = [[x / sum(row) for x in row] for row in chance]
    step, earned = [[Fraction(0)] * 2 for _ in range(2)], [Fraction(0)] * 2
    for s, a, t in np.ndindex(2, kernel.shape[1], 2):
        weight = policies[s][a] * Fraction(float(kernel[s, a, t])) / sum(map(Fraction, kernel[s, a].tolist()))
        step[s][t] += weight
        earned[s] += weight * Fraction(float(rewards[s, a, t]))
    away, back = step[0][1], step[1][0]
    law = [back / (away + back), away / (away + back)]
    gain = law[0] * earned[0] + law[1] * earned[1]
    apart = (earned[1] - earned[0]) / (away + back)
    return gain, [-law[1] * apart, law[0] * apart], earned


class TestAveragesOfRewards:
    """Rewards that cancel, or are rare and huge, cost no digits when a policy averages them."""

    CANCEL = (np.array([[3.0, 1e17, -1e17], [4.0, 1e17, -1e17]]), [[0.5, 0.25, 0.25]] * 2)
    RARE = (np.array([[1.0, 1e22], [2.0, 1e22]]), [[1 - 1e-6, 1e-6]] * 2)
    LESS_RARE = (np.array([[1.0, 1e19], [2.0, 1e19]]), [[1 - 1e-6, 1e-6]] * 2)
    LEVEL = (np.array([[1e15 + 1, 1e15 + 2], [1e15 + 4, 1e15 + 5]]), [[0.75, 0.25], [0.125, 0.875]])

    @pytest.mark.parametrize("per_target", [False, True])
    @pytest.mark.parametrize("make", [np.asarray, by_action])
    @pytest.mark.parametrize("case", [CANCEL, RARE, LESS_RARE, LEVEL])
    def test_against_rationals(self, case, make, per_target):
        of_pairs, policy = case
        num_actions = of_pairs.shape[1]
        kernel = np.full((2, num_actions, 2), 0.5)
        rewards = np.repeat(of_pairs[:, :, np.newaxis], 2, axis=2)
        gain, bias, earned = exact_two_states(kernel, rewards, policy)
        given = make(rewards) if per_target else of_pairs
        process = MarkovRewardProcess.from_mdp(make(kernel), given, policy)
        np.testing.assert_allclose(process.rewards, np.array(earned, dtype=float), rtol=4e-16)
        solution = solve(process)
        assert solution.gain == pytest.approx(float(gain), rel=4e-16, abs=0.0)
        np.testing.assert_allclose(
            solution.bias, np.array(bias, dtype=float), rtol=max(solution.error_bound, 4e-16)
        )
        # Every step is drawn anew here, so that the variance is that of one step.
        variance = float((bias[1] - bias[0]) / 2) ** 2
        assert solution.asymptotic_variance == pytest.approx(variance, rel=1e-14)

    @pytest.mark.parametrize("seed", range(8))
    def test_what_is_not_known_is_in_the_bound(self, seed):
        """Rows of policies that sum to 1 up to rounding, and rewards of 20 decades."""
        rng = np.random.default_rng(seed)
        kernel, policy = rng.dirichlet(np.ones(2), size=(2, 4)), rng.dirichlet(np.ones(4), size=2)
        rewards = rng.normal(size=(2, 4, 2)) * 10.0 ** rng.uniform(0, 20, size=(2, 4, 2))
        rewards[:, 0] += 10.0 ** rng.uniform(0, 14)
        gain, bias, _ = exact_two_states(kernel, rewards, policy)
        solution = solve(MarkovRewardProcess.from_mdp(kernel, rewards, policy), tol=1.0)
        off = float(np.abs(solution.bias - np.array(bias, dtype=float)).max()) / float(np.ptp(solution.bias))
        # The transitions themselves are rounded once when they are averaged, which the bound is not about.
        assert off <= solution.error_bound + 4 * EPSILON + 1e-15
        assert (
            abs(solution.gain - float(gain))
            <= (solution.error_bound + 1e-15) * np.abs(solution.rewards).max()
        )

    @pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2)])
    def test_near_the_largest_number(self, shape):
        rewards = np.array([1.7e308, -1.7e308, 1e290]).reshape(1, 3, *[1] * (len(shape) - 2)) * np.ones(shape)
        process = MarkovRewardProcess.from_mdp(np.full((2, 3, 2), 0.5), rewards, [[0.25, 0.25, 0.5]] * 2)
        np.testing.assert_allclose(process.rewards, 5e289, rtol=1e-15)

    def test_a_level_that_a_policy_cannot_carry_is_told(self):
        policy = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
        assert sum(map(Fraction, policy[0])) != sum(map(Fraction, policy[1]))
        rewards = 1e16 + np.arange(6.0).reshape(2, 3)
        with pytest.warns(AccuracyWarning, match="the bias of 2 of 2 states may be off"):
            solution = solve(MarkovRewardProcess.from_mdp(np.full((2, 3, 2), 0.5), rewards, policy))
        assert "(or of a policy) sum to 1 only up to rounding: subtract" in solution.notes[0]
        assert solution.bias_error.max() > 0.1
        assert solution.gain == pytest.approx(1e16, rel=1e-15)

    def test_what_was_rounded_off_counts_in_the_fingerprint(self):
        kernel, policy = np.full((2, 2, 2), 0.5), [[1 - 1e-6, 1e-6]] * 2
        near, far = (
            MarkovRewardProcess.from_mdp(kernel, [[1.0, 1e22], [second, 1e22]], policy)
            for second in (1.0, 1.0625)
        )
        assert (near.rewards == far.rewards).all()
        assert near.fingerprint != far.fingerprint

    @pytest.mark.parametrize("factor", [1e-9, 1.0, 3e11])
    def test_rates_only_shift_the_exponent(self, factor):
        """Reward rates are divided by a power of 2, so that nothing of them is lost."""
        rates = factor * np.array([[-1.0, 1.0], [1.0, -1.0]])
        process = MarkovRewardProcess.from_rates(rates, [1e15 + 1, 1e15 + 2])
        np.testing.assert_array_equal(process.rewards * process.rate, [1e15 + 1, 1e15 + 2])
        np.testing.assert_allclose(solve(process).bias, [-0.25 / factor, 0.25 / factor], rtol=1e-14)


class TestFromMdp:
    @given(st.integers(0, 10**6))
    def test_against_the_definition(self, seed):
        kernel, rewards, policy = random_decision_process(seed)
        process = MarkovRewardProcess.from_mdp(kernel, rewards, policy)
        np.testing.assert_allclose(process.transitions, np.einsum("sa,sat->st", policy, kernel), atol=1e-15)
        expected = np.einsum("sa,sat,sat->s", policy, kernel, rewards)
        np.testing.assert_allclose(process.rewards, expected, atol=1e-14)
        earned = np.einsum("sa,sat,sat->st", policy, kernel, rewards)
        kept = process.transitions * process.transition_rewards
        np.testing.assert_allclose(kept, earned, atol=1e-14)

    @given(st.integers(0, 10**6))
    def test_lists_of_sparse_matrices_agree_with_dense(self, seed):
        kernel, rewards, policy = random_decision_process(seed)
        dense = MarkovRewardProcess.from_mdp(kernel, rewards, policy)
        for kernel_form, rewards_form in [
            (sparse.csr_array, sparse.coo_matrix),
            (sparse.csc_matrix, sparse.lil_array),
        ]:
            other = MarkovRewardProcess.from_mdp(
                by_action(kernel, kernel_form), by_action(rewards, rewards_form), policy
            )
            assert isinstance(other.transitions, sparse.csr_array)
            assert other.fingerprint == dense.fingerprint
        mixed = MarkovRewardProcess.from_mdp(by_action(kernel), rewards, policy)
        assert mixed.fingerprint == dense.fingerprint

    @given(st.integers(0, 10**6))
    def test_rewards_of_states_and_actions(self, seed):
        kernel, rewards, policy = random_decision_process(seed)
        pair_rewards, state_rewards = rewards[:, :, 0], rewards[:, 0, 0]
        of_pairs = MarkovRewardProcess.from_mdp(kernel, pair_rewards, policy)
        np.testing.assert_allclose(of_pairs.rewards, (policy * pair_rewards).sum(axis=1), atol=1e-15)
        of_states = MarkovRewardProcess.from_mdp(kernel, state_rewards, policy)
        np.testing.assert_array_equal(of_states.rewards, state_rewards)
        assert of_pairs.transition_rewards is of_states.transition_rewards is None

    def test_a_policy_of_actions_picks_rows(self):
        rewards = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
        process = MarkovRewardProcess.from_mdp(KERNEL, rewards, np.array([1, 0], dtype=np.uint8), ["a", "b"])
        np.testing.assert_array_equal(process.transitions, [[0.25, 0.75], [0.5, 0.5]])
        np.testing.assert_array_equal(process.transition_rewards, [[3.0, 4.0], [5.0, 6.0]])
        assert process.labels == ("a", "b")

    def test_rows_of_actions_never_taken_are_not_judged(self):
        kernel = KERNEL.copy()
        kernel[0, 0] = 0.0
        process = MarkovRewardProcess.from_mdp(kernel, [0.0, 1.0], [1, 0])
        np.testing.assert_array_equal(process.transitions, [[0.25, 0.75], [0.5, 0.5]])

    def test_rows_are_renormalised_before_they_are_averaged(self):
        counts = KERNEL * np.array([[[10.0], [4.0]], [[2.0], [1.0]]])
        policy = [[3.0, 1.0], [1.0, 1.0]]
        process = MarkovRewardProcess.from_mdp(counts, [0.0, 1.0], policy, renormalise=True)
        np.testing.assert_allclose(process.transitions, [[0.8125, 0.1875], [0.25, 0.75]], rtol=1e-15)

    def test_float32_is_judged_by_its_own_rounding(self):
        kernel = np.full((3, 2, 3), 1 / 3, dtype=np.float32)
        policy = np.full((3, 2), 0.5, dtype=np.float32)
        for form in (kernel, by_action(kernel)):
            process = MarkovRewardProcess.from_mdp(form, np.zeros(3), policy)
            np.testing.assert_allclose(process.csr.toarray(), 1 / 3, rtol=1e-15)

    def test_as_many_actions_as_states_is_not_ambiguous(self):
        process = MarkovRewardProcess.from_mdp(KERNEL, [[1.0, 2.0], [3.0, 4.0]], [1, 0])
        np.testing.assert_array_equal(process.rewards, [2.0, 3.0])

    @pytest.mark.parametrize("make", [np.asarray, by_action])
    def test_a_wrong_row_is_named_by_state_and_action(self, make):
        kernel = KERNEL.copy()
        kernel[1, 0] = [0.5, 0.4]
        message = (
            "kernel row for state 1, action 0 sums to 0.9, must be 1 within 1e-08: "
            "normalise it or pass renormalise=True"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_mdp(make(kernel), [0, 1], [0, 0])

    @pytest.mark.parametrize("make", [np.asarray, by_action])
    def test_negative_rounding_is_mended(self, make):
        rest = 1 - 0.9 - 0.1
        assert -1e-16 < rest < 0.0
        kernel = np.full((3, 3, 3), 1 / 3)
        kernel[0, 1] = [0.9, 0.1, rest]
        policy = np.full((3, 3), 1 / 3)
        policy[0], policy[2] = [rest, 0.9, 0.1], [0.1, rest, 0.9]
        process = MarkovRewardProcess.from_mdp(make(kernel), np.zeros(3), policy)
        expected = policy.clip(0.0)[:, :, np.newaxis] * kernel.clip(0.0)
        np.testing.assert_allclose(process.csr.toarray(), expected.sum(axis=1), rtol=1e-14)
        policy[0] = [-1e-9, 0.9, 0.1]
        with pytest.raises(ValueError, match=r"row 0 of policy has the negative entry -1e-09 in column 0"):
            MarkovRewardProcess.from_mdp(make(kernel), np.zeros(3), policy)

    def test_negative_and_not_finite_kernels(self):
        kernel = KERNEL.copy()
        kernel[0, 1] = [1.5, -0.5]
        with pytest.raises(
            ValueError, match=r"kernel row for state 0, action 1 has the negative entry -0\.5 in column 1"
        ):
            MarkovRewardProcess.from_mdp(kernel, [0, 1], [0, 0])
        kernel[0, 1, 1] = np.nan
        with pytest.raises(
            ValueError, match=r"kernel\[0, 1, 1\] is nan, every entry must be a finite number"
        ):
            MarkovRewardProcess.from_mdp(kernel, [0, 1], [0, 0])
        with pytest.raises(
            ValueError, match=r"kernel\[1\]\[0, 1\] is nan, every entry must be a finite number"
        ):
            MarkovRewardProcess.from_mdp(by_action(kernel), [0, 1], [0, 0])

    def test_kernels_of_the_wrong_shape(self):
        with pytest.raises(ValueError, match=r"kernel must have shape \(n, A, n\).*found shape \(2, 2\)$"):
            MarkovRewardProcess.from_mdp(KERNEL[0], [0, 1], [0, 0])
        with pytest.raises(
            ValueError, match=r"found shape \(3, 2, 2\); it looks like \(A, n, n\): pass np.moveaxis"
        ):
            MarkovRewardProcess.from_mdp(np.ones((3, 2, 2)) / 2, [0, 1], [0, 0])
        with pytest.raises(ValueError, match=r"found shape \(0, 1, 0\)"):
            MarkovRewardProcess.from_mdp(np.ones((0, 1, 0)), [], [])
        with pytest.raises(ValueError, match=r"found \(2, 2\) for action 0 and \(3, 3\) for action 1"):
            MarkovRewardProcess.from_mdp([sparse.eye_array(2), sparse.eye_array(3)], [0, 1], [0, 0])
        with pytest.raises(
            ValueError, match=r"kernel\[0\] must be a square matrix \(n, n\), found shape \(2, 3\)"
        ):
            MarkovRewardProcess.from_mdp([sparse.csr_array((2, 3))], [0, 1], [0, 0])

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ([0, 2], "policy[1] is 2, actions must be between 0 and 1"),
            ([-1, 0], "policy[0] is -1, actions must be between 0 and 1"),
            ([0.0, 1.0], "a policy of one action per state must be integers, found dtype float64"),
            ([[1.0, 0.0], [0.5, 0.4]], "row 1 of policy sums to 0.9, must be 1 within 1e-08: "
             "normalise it or pass renormalise=True"),
            ([[1.0, 0.0], [np.nan, 1.0]], "policy[1, 0] is nan, every entry must be a finite number"),
            ([0, 1, 1], "policy must have shape (2,), an action per state, or (2, 2), the probability of "
             "each action in each state, found shape (3,)"),
        ],
    )  # fmt: skip
    def test_wrong_policies(self, policy, message):
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_mdp(KERNEL, [0, 1], policy)

    @pytest.mark.parametrize(
        ("rewards", "shape"),
        [
            (np.zeros(3), "(3,)"),
            (np.zeros((2, 3)), "(2, 3)"),
            (np.zeros((3, 2, 3)), "(3, 2, 3)"),
            (0.0, "()"),
            ([sparse.csr_array((2, 2))], "(2, 1, 2)"),
        ],
    )
    def test_rewards_of_the_wrong_shape(self, rewards, shape):
        message = (
            "rewards must have shape (2,), (2, 2) or (2, 2, 2), states by actions by next states, "
            f"found shape {shape}"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_mdp(KERNEL, rewards, [0, 0])

    def test_a_large_sparse_decision_process(self):
        n = 50_000  # a dense (n, n) array would take 20 GB
        forward = sparse.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
        process = MarkovRewardProcess.from_mdp(
            [forward, sparse.eye_array(n)], np.zeros(n), np.full((n, 2), 0.5)
        )
        assert process.csr.nnz == 2 * n
        assert process.is_ergodic


class TestFromRates:
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.dia_matrix])
    def test_uniformised(self, make):
        process = MarkovRewardProcess.from_rates(make(RATES), [1.0, 2.0, 3.0], labels=["a", "b", "c"])
        assert process.rate == 8.0
        np.testing.assert_array_equal(process.csr.toarray(), np.eye(3) + RATES / 8)
        np.testing.assert_array_equal(process.rewards, [0.125, 0.25, 0.375])
        assert process.labels == ("a", "b", "c")
        assert sparse.issparse(process.transitions) == sparse.issparse(make(RATES))

    @given(st.lists(st.floats(1e-9, 1e9), min_size=2, max_size=5))
    def test_rates_keep_their_ratios_and_the_chain_is_aperiodic(self, rates):
        n = len(rates)
        generator = np.zeros((n, n))
        generator[np.arange(n), (np.arange(n) + 1) % n] = rates
        generator[np.arange(n), np.arange(n)] = np.negative(rates)
        process = MarkovRewardProcess.from_rates(generator, np.zeros(n))
        jumps = process.transitions[np.arange(n), (np.arange(n) + 1) % n]
        np.testing.assert_array_equal(jumps * process.rate, rates)
        assert max(rates) < process.rate <= 2 * max(rates)
        assert process.is_ergodic

    def test_a_power_of_two_is_not_its_own_rate(self):
        process = MarkovRewardProcess.from_rates([[-4, 4], [4, -4]], [0, 1])
        assert process.rate == 8.0
        assert process.period == 1

    def test_the_diagonal_is_checked_and_not_used(self):
        rates = RATES + np.diag([1e-9, 0, 0])
        process = MarkovRewardProcess.from_rates(rates, np.zeros(3))
        np.testing.assert_array_equal(process.transitions, np.eye(3) + RATES / 8)

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_negative_rounding_is_mended(self, make):
        rest = 100.0 - 90.2 - 9.8
        assert -1e-14 < rest < 0.0
        process = MarkovRewardProcess.from_rates(
            make(np.array([[-100.0, 100.0, rest], [90.2, -100.0, 9.8], [1.0, 1.0, -2.0]])), np.zeros(3)
        )
        assert process.csr[0, 2] == 0.0
        assert process.csr[0, 1] * process.rate == 100.0
        with pytest.raises(
            ValueError, match=r"generator\[0, 2\] is -1e-10, the rate from one state to another"
        ):
            MarkovRewardProcess.from_rates([[-100, 100, -1e-10], [90, -100, 10], [1, 1, -2]], np.zeros(3))

    def test_rates_in_single_precision(self):
        rates = np.array([[-0.3, 0.1, 0.2], [0.7, -0.8, 0.1], [-1e-8, 0.3, -0.3]], dtype=np.float32)
        assert abs(rates.astype(np.float64).sum(axis=1)).max() > 1e-8
        process = MarkovRewardProcess.from_rates(rates, np.zeros(3))
        expected = rates.clip(0) + np.diag(process.rate + rates.diagonal())
        np.testing.assert_allclose(process.csr.toarray() * process.rate, expected, rtol=1e-6)
        with pytest.raises(ValueError, match=r"generator\[2, 0\] is -9.99\d*e-09, the rate from one state"):
            MarkovRewardProcess.from_rates(rates.astype(np.float64), np.zeros(3))

    def test_no_jumps(self):
        process = MarkovRewardProcess.from_rates([[0.0]], [3.0])
        assert (process.rate, process.rewards[0]) == (1.0, 3.0)
        assert process.transitions == [[1.0]]

    def test_wrong_generators(self):
        message = (
            "row 1 of generator sums to 1, must be 0 within 1e-08 of its rates: "
            "generator[1, 1] must be -4, found -3"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_rates(RATES + np.diag([0, 1, 0]), np.zeros(3))
        with pytest.raises(ValueError, match="row 0 of generator sums to 3, must be 0"):
            MarkovRewardProcess.from_rates([[3.0]], [1.0])
        message = "generator[0, 1] is -2.0, the rate from one state to another must be at least 0"
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_rates(-RATES, np.zeros(3))
        with pytest.raises(
            ValueError, match=r"generator must be a square matrix \(n, n\), found shape \(2, 3\)"
        ):
            MarkovRewardProcess.from_rates(RATES[:2], np.zeros(3))
        with pytest.raises(ValueError, match=r"generator\[0, 0\] is nan"):
            MarkovRewardProcess.from_rates([[np.nan]], [0.0])

    @pytest.mark.parametrize("fastest", [2.0**1023, 1.7e308])
    def test_rates_too_large_to_be_rounded_up(self, fastest):
        message = (
            f"the rates of row 1 of generator sum to {fastest:g}, must be below 8.98847e+307: "
            "measure time in a smaller unit"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_rates([[-1.0, 1.0], [fastest, -fastest]], [0.0, 1.0])

    def test_rates_whose_sum_is_infinite(self):
        rates = [[-1e308, 1e308, 1e308], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
        with pytest.raises(ValueError, match="the rates of row 0 of generator sum to inf, must be below"):
            MarkovRewardProcess.from_rates(rates, np.zeros(3))

    def test_rates_too_far_apart(self):
        message = (
            "generator[0, 1] is 1e-200, which double precision cannot hold relative to the fastest rates, "
            "about 1.5309e+200: leave it out, or leave out the states that are so fast"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_rates([[-1e-200, 1e-200], [1e200, -1e200]], [0.0, 1.0])

    @pytest.mark.parametrize(
        ("rate", "reward", "size", "unit"),
        [
            (1e-320, -1.0, "large", "larger"),
            (1e300, 1e-10, "small", "smaller"),
            (1e300, 1e-100, "small", "smaller"),
        ],
    )
    def test_reward_rates_out_of_range(self, rate, reward, size, unit):
        message = (
            rf"^reward_rates\[1\] is {reward!r}, too {size} relative .*: measure rewards in a {unit} unit$"
        )
        with pytest.raises(ValueError, match=message):
            MarkovRewardProcess.from_rates([[-rate, rate], [rate, -rate]], [0.0, reward])

    @pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((3, 3))])
    def test_wrong_reward_rates(self, wrong):
        message = (
            "reward_rates must have one entry for each of the 3 states, shape (3,), "
            f"found shape {wrong.shape}"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess.from_rates(RATES, wrong)
