"""Two policies side by side, against exact differences."""

import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import gainbias as gb
from gainbias.evaluation.batches import BatchMeans
from gainbias.evaluation.compare import _Pairing
from tests.evaluation.chains import Queue, queue_process
from tests.evaluation.test_environments import Flawed

ALWAYS = np.ones(6, dtype=int)
UP_TO_FOUR = np.array([1, 1, 1, 1, 0, 0])


def exact_difference():
    """Who admits up to four customers never has a fifth."""
    whole = queue_process()
    moves, rewards = whole.transitions[:5, :5].copy(), whole.transition_rewards[:5, :5].copy()
    moves[4, 4] = 1.0 - moves[4, 3]
    rewards[4, 4] = -4.0
    return gb.solve(whole).gain - gb.solve(gb.MarkovRewardProcess(moves, rewards)).gain


class TestDifference:
    @pytest.mark.parametrize("env", [Queue, Queue(), lambda: SyncVectorEnv([Queue] * 2)])
    def test_the_exact_difference(self, env):
        comparison = gb.compare(env, ALWAYS, UP_TO_FOUR, num_steps=50_000)
        low, high = comparison.interval
        assert comparison.difference == pytest.approx(exact_difference(), abs=4 * comparison.standard_error)
        assert low < comparison.difference < high < 0.0
        assert comparison.is_clear
        assert comparison.difference == pytest.approx(comparison.first.gain - comparison.second.gain)
        assert "the second is better" in repr(comparison)

    def test_pairing_saves(self):
        """The spread over seeds, with and without common random numbers, shows the saving that is stated."""
        paired = [gb.compare(Queue, ALWAYS, UP_TO_FOUR, num_steps=8_000, seed=seed) for seed in range(12)]
        apart = [one.first.gain - other.second.gain for one, other in pairwise(paired)]
        ratio = np.var(apart) / np.var([one.difference for one in paired])
        stated = np.median([one.saving for one in paired])
        assert stated > 5.0
        assert stated / 4.0 < ratio < stated * 4.0
        assert f"{paired[0].saving:.3g} times the length" in repr(paired[0])

    def test_a_function_and_an_array_that_do_the_same(self):
        comparison = gb.compare(Queue(), lambda seen: 1, ALWAYS, num_steps=4_000)
        assert comparison.difference == 0.0
        assert comparison.interval == (0.0, 0.0)
        assert comparison.saving == np.inf
        assert not comparison.is_clear
        assert not comparison.warnings
        assert comparison.first.diagnostics.num_chains == comparison.second.diagnostics.num_chains == 1
        assert "both earned the same in every step" in repr(comparison)
        assert json.loads(json.dumps(comparison.to_dict(), allow_nan=False))["saving"] is None

    def test_the_same_gain(self):
        comparison = gb.compare(Queue, "random", np.full((6, 2), 0.5), num_steps=20_000)
        assert comparison.interval[0] < 0.0 < comparison.interval[1]
        assert "not clear which is better" in repr(comparison)

    def test_to_dict(self):
        comparison = gb.compare(Queue, ALWAYS, UP_TO_FOUR, num_steps=4_000)
        answer = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert answer["difference"] == comparison.difference
        assert answer["first"]["gain"] == comparison.first.gain


class TestPairing:
    def test_rewards_are_not_held_in_memory(self):
        rng = np.random.default_rng(0)
        first, second = (rng.normal(size=(2, 400_000)) for _ in range(2))
        tracemalloc.start()
        with _Pairing() as pairing:
            for part in np.split(first, 400, axis=1):
                pairing.keep(part)
            pairing.turn(2)
            for part in np.split(second, 100, axis=1):
                pairing.subtract(part)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < first.nbytes / 4
        exact = BatchMeans.of(first - second)
        assert pairing.differences.sums.complete.tobytes() == exact.sums.complete.tobytes()


class TestFlaws:
    def test_what_both_did_is_compared(self):
        comparison = gb.compare(Flawed(3_000, reward=np.nan), ALWAYS, UP_TO_FOUR, chains=1)
        assert comparison.warnings[0].startswith("first policy: cut short after 2,999 transitions")
        assert comparison.second.diagnostics.num_transitions == 2_999
        count = iter(range(10**6))
        comparison = gb.compare(Queue(), ALWAYS, lambda seen: 2 if next(count) == 2_500 else 1)
        assert comparison.warnings[0].startswith("second policy: cut short")

    def test_the_second_policy_fails_before_all_chains_have_begun(self):
        count = iter(range(10**6))
        comparison = gb.compare(Queue, ALWAYS, lambda seen: 2 if next(count) == 1_500 else 1)
        assert comparison.warnings[0].startswith("second policy: cut short")
        assert comparison.first.diagnostics.num_chains == 4
        assert comparison.second.diagnostics.num_chains == 1
        assert comparison.interval == (0.0, 0.0)  # they did the same in the chain that both followed

    def test_time_limit(self):
        comparison = gb.compare(Queue, ALWAYS, UP_TO_FOUR, num_steps=10**9, time_limit=1.5)
        assert "the time limit of 0.75 s has passed" in comparison.warnings[0]
        first, second = (one.diagnostics.num_transitions for one in (comparison.first, comparison.second))
        assert 0 < second <= first < 10**9

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="num_steps must be a positive integer, found -1"):
            gb.compare(Queue, ALWAYS, ALWAYS, num_steps=-1)
        with pytest.raises(ValueError, match="the policy takes action 3 at observation 0"):
            gb.compare(Queue, ALWAYS, [3] * 6)
