"""Two policies side by side, against exact differences."""

import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import gainbias as gb
from gainbias.cli.show import show_comparison
from gainbias.evaluation.compare import _Pairing
from gainbias.evaluation.gain.batches import BatchMeans
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
        assert np.isnan(comparison.interval).all()
        assert comparison.saving == np.inf
        assert not comparison.is_clear
        assert comparison.verdict == "not clear which is better"
        assert comparison.warnings[-1].startswith(
            "both policies earned the same in every step, so there is no interval"
        )
        assert comparison.first.diagnostics.num_chains == comparison.second.diagnostics.num_chains == 1
        assert "both earned the same in every step" in repr(comparison)
        assert "+0.000000 per step, no interval: not clear" in repr(comparison)
        answer = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert answer["saving"] is None
        assert answer["interval"] == [None, None]

    def test_the_same_gain(self):
        comparison = gb.compare(Queue, "random", np.full((6, 2), 0.5), num_steps=20_000)
        assert comparison.interval[0] < 0.0 < comparison.interval[1]
        assert "not clear which is better" in repr(comparison)

    def test_to_dict(self):
        comparison = gb.compare(Queue, ALWAYS, UP_TO_FOUR, num_steps=4_000)
        answer = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert answer["difference"] == comparison.difference
        assert answer["first"]["gain"] == comparison.first.gain


class Cut(Queue):
    """The queue, cut by itself after so many steps, which nobody can take off."""

    most = 20

    def reset(self, **how):
        self.count = 0
        return super().reset(**how)

    def step(self, action):
        self.count += 1
        seen, reward, ended, _, facts = super().step(action)
        return seen, reward, ended, self.count >= self.most, facts


class Rarely(Queue):
    """Rewards are 1 with action 1, and otherwise 0; once a good while something is lost with action 1."""

    amount = 0.1
    chance = 0.0

    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, self.amount * action - 10.0 * action * (self.np_random.random() < self.chance), *rest


def parts_of(comparison):
    return [("first", comparison.first.diagnostics), ("second", comparison.second.diagnostics)]


class TestWarningsOfBoth:
    def test_cuts_inside_the_environment(self, capsys):
        comparison = gb.compare(Cut, ALWAYS, UP_TO_FOUR)
        assert not comparison.interval[0] < exact_difference() < comparison.interval[1]
        assert not comparison.is_clear
        for name in ("first", "second"):
            assert any(words.startswith(f"{name} policy: after each cut") for words in comparison.warnings)
        assert "which moves the difference by about" in comparison.warnings[-1]
        assert "the second is better, but mind the warnings" in repr(comparison)
        assert repr(comparison).count("warning  ") == len(comparison.warnings)
        answer = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
        assert answer["warnings"] == list(comparison.warnings)
        assert not answer["is_clear"]
        show_comparison(answer)
        shown = capsys.readouterr()
        assert "but mind the warnings" in " ".join(shown.out.split())
        assert shown.err.count("after each cut") == 3

    def test_cuts_that_move_the_difference_more_than_its_error_alone(self):
        """Each gain is too uncertain for its shift to show, the difference is not."""

        class Noisy(Cut):
            def step(self, action):
                seen, reward, *rest = super().step(action)
                return seen, reward + 450.0 * self.np_random.normal(), *rest

        comparison = gb.compare(Noisy, ALWAYS, UP_TO_FOUR, num_steps=40_000)
        assert not any(
            "after each cut" in words for _, facts in parts_of(comparison) for words in facts.warnings
        )
        assert any("which moves the difference by about" in words for words in comparison.doubts)
        assert not comparison.is_clear

    @pytest.mark.parametrize("num_steps", [1_000, 8_000])
    def test_every_warning_is_passed_on(self, num_steps):
        comparison = gb.compare(Queue, ALWAYS, np.zeros(6, dtype=int), num_steps=num_steps)
        expected = [
            f"{name} policy: {word}" for name, facts in parts_of(comparison) for word in facts.warnings
        ]
        assert expected
        assert list(comparison.warnings[: len(expected)]) == expected

    def test_chains_that_fall_apart(self):
        class Torn(Queue):
            def reset(self, **how):
                super().reset(**how)
                self.place = int(self.np_random.integers(2))
                return self.place, {}

            def step(self, action):
                return self.place, 10.0 * self.place + action + self.np_random.normal(), False, False, {}

        comparison = gb.compare(Torn, ALWAYS, 0 * ALWAYS, num_steps=20_000, seed=1)
        assert comparison.difference == pytest.approx(1.0, abs=0.1)
        assert any(words.startswith("first policy: the chain falls apart") for words in comparison.doubts)
        assert not comparison.is_clear

    def test_warnings_about_values_alone_are_no_doubts(self):
        comparison = gb.compare(Queue, ALWAYS, UP_TO_FOUR, features=np.ones((6, 1)), num_steps=50_000)
        assert "first policy: the features are the same" in comparison.warnings[0]
        assert comparison.doubts == ()
        assert comparison.is_clear
        assert "mind the warnings" not in repr(comparison)

    @pytest.mark.parametrize("amount", [0.1, 1e6 + 0.1])
    def test_a_difference_that_never_changes(self, amount):
        class Sure(Rarely):
            def step(self, action):
                seen, reward, *rest = super().step(action)
                return seen, reward + 3.0 * seen, *rest

        class Same(Sure):
            capacity = 0

        Same.amount = amount
        comparison = gb.compare(Same, [1], [0], num_steps=8_000)
        assert comparison.difference == pytest.approx(amount)
        assert np.isnan(comparison.interval).all()
        assert not comparison.is_clear
        assert "the difference was the same in every step" in comparison.warnings[-1]

    def test_a_rare_loss_is_part_of_the_difference(self):
        class Losing(Rarely):
            chance = 2e-4

        comparison = gb.compare(Losing, ALWAYS, 0 * ALWAYS, num_steps=20_000)
        low, high = comparison.interval
        assert comparison.difference < 0.1
        assert low < 0.1 - 10 * 2e-4 < high


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

    def test_the_second_policy_fails_when_all_chains_have_made_some_steps(self):
        count = iter(range(10**6))
        comparison = gb.compare(Queue, ALWAYS, lambda seen: 2 if next(count) == 1_500 else 1)
        assert comparison.warnings[0].startswith("second policy: cut short")
        assert comparison.first.diagnostics.num_chains == 4
        assert comparison.second.diagnostics.num_chains == 4
        assert comparison.difference == 0.0  # they did the same in the chain that both followed
        assert np.isnan(comparison.interval).all()

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
