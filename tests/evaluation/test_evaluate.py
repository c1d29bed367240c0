"""`evaluate` and `evaluate_log`: against exact answers, and whatever goes wrong."""

import json
import os
import re
import signal
import threading
import time
from html import unescape

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from scipy import sparse

import gainbias as gb
from gainbias.cli.show import show_estimate
from gainbias.evaluation.stream import ENDS_ARE_STEPS
from gainbias.evaluation.values import methods
from tests.evaluation.chains import Queue, Walk, queue_process, walk_process
from tests.evaluation.test_environments import Flawed

ALWAYS = np.ones(Queue.capacity + 1, dtype=int)


def check_answer(estimate, process, states):
    """All intervals hold, widened to twice their width; and they are narrow."""
    exact = gb.solve(process)
    low, high = estimate.gain_interval
    assert abs(exact.gain - (low + high) / 2) <= high - low < 0.25 * np.sqrt(exact.asymptotic_variance)
    low, high = estimate.value_interval(states).T
    assert (np.abs(exact.bias[states] - (low + high) / 2) <= high - low).all()
    assert (high - low < 0.2 * np.ptp(exact.bias)).all()
    assert not estimate.diagnostics.warnings


class TestAnswers:
    def test_queue(self):
        estimate = gb.evaluate(Queue, ALWAYS)
        check_answer(estimate, queue_process(), np.arange(6))
        assert estimate.diagnostics.num_chains == 4
        assert estimate.diagnostics.num_transitions == 100_000
        assert estimate.diagnostics.constant_in_span
        assert estimate.diagnostics.predictable_share < 0.01
        law = gb.solve(queue_process()).stationary
        assert law @ estimate.value(np.arange(6)) == pytest.approx(0.0, abs=0.2)

    def test_what_a_start_costs_does_not_count(self):
        class Starting(Queue):
            def reset(self, **how):
                self.cost = 1000.0
                return super().reset(**how)

            def step(self, action):
                state, reward, *ends = super().step(action)
                reward, self.cost = reward - self.cost, 0.0
                return state, reward, *ends

        estimate = gb.evaluate(Starting, ALWAYS, num_steps=20_000, seed=3)
        low, high = estimate.gain_interval
        assert low < gb.solve(queue_process()).gain < high
        assert "left out, because the numbers were different" in " ".join(estimate.diagnostics.notes)
        estimate = gb.evaluate(Starting, ALWAYS, num_steps=5_000, seed=3, chains=1)
        assert "nothing like it came again" in " ".join(estimate.diagnostics.warnings)

    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_episodes(self, on_termination):
        estimate = gb.evaluate(Walk, "random", on_termination=on_termination)
        seen = np.array([1, 2, 3, 4])
        process = walk_process(on_termination)
        kept = [1, 2, 3, 4, 5] if on_termination == "zero" else [1, 2, 3, 4]
        cut = np.ix_(kept, kept)
        process = gb.MarkovRewardProcess(process.transitions[cut], process.transition_rewards[cut])
        exact = gb.solve(process)
        low, high = estimate.value_interval(seen).T
        assert (np.abs(exact.bias[:4] - (low + high) / 2) <= high - low).all()
        assert estimate.gain == pytest.approx(exact.gain, abs=4 * estimate.diagnostics.standard_error)
        assert np.isnan(estimate.value(0))

    @pytest.mark.parametrize("algorithm", ["auto", "single-chain"])
    def test_eta_is_that_of_the_model(self, algorithm):
        exact = gb.Problem(queue_process(), gb.Tabular()).condition_numbers.eta1
        estimate = gb.evaluate(Queue, ALWAYS, on_termination="reward", algorithm=algorithm)
        assert estimate.diagnostics.eta == pytest.approx(exact, rel=0.1)
        assert estimate.diagnostics.constant_in_span

    @pytest.mark.parametrize("algorithm", ["auto", "single-chain"])
    def test_features_that_never_change(self, algorithm):
        estimate = gb.evaluate(Queue, ALWAYS, features=np.ones((6, 1)), algorithm=algorithm, num_steps=8_000)
        assert any("the features are the same" in word for word in estimate.diagnostics.warnings)

    def test_a_feature_that_hardly_changes(self):
        seen, one, other = np.arange(6.0), np.ones(6), np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
        far, large = np.stack([one, seen + 1e6, other], axis=1), np.stack([1e6 * one, seen, other], axis=1)
        far, large, usual = (
            gb.evaluate(Queue, ALWAYS, features=rows, num_steps=40_000, on_termination="reward")
            for rows in (far, large, np.stack([one, seen, other], axis=1))
        )
        [words] = far.diagnostics.warnings
        assert words.startswith("feature 1 changes by less than 0.0001 of its size")
        assert not np.allclose(far.value(range(6)), usual.value(range(6)))
        assert not large.diagnostics.warnings
        assert large.value(range(6)) == pytest.approx(usual.value(range(6)))

    @pytest.mark.parametrize("size", [1e-200, 1e-160, 1e160, 1e200])
    def test_features_of_too_different_size(self, size):
        columns = np.eye(6)
        columns[3, 3] = size
        estimate = gb.evaluate(Queue, ALWAYS, features=columns, num_steps=8_000)
        assert "features differ too much in size" in estimate.diagnostics.warnings[-1]
        assert np.isnan(estimate.value(0))
        assert gb.evaluate(Queue, ALWAYS, num_steps=8_000).gain == estimate.gain

    def test_a_log_of_the_same_steps_gives_the_same_values(self):
        rng = np.random.default_rng(0)
        process = queue_process()
        states = [0]
        for draw in rng.random(50_000):
            states.append(int(np.searchsorted(np.cumsum(process.transitions[states[-1]]), draw)))
        states = np.array(states)
        rewards = process.transition_rewards[states[:-1], states[1:]]
        log = {"state": states[:-1], "reward": rewards, "next": states[1:]}
        estimate = gb.evaluate_log(log)
        check_answer(estimate, process, np.arange(6))
        assert "policy that made the log" in estimate.diagnostics.notes[0]

    def test_vector_environment_and_instance(self):
        estimate = gb.evaluate(SyncVectorEnv([Queue] * 3), ALWAYS, num_steps=60_000)
        assert estimate.diagnostics.num_chains == 3
        assert estimate.diagnostics.num_transitions == 60_000
        check_answer(estimate, queue_process(), np.arange(5))

    def test_same_seed_same_answer(self):
        first, again, other = (gb.evaluate(Queue, ALWAYS, num_steps=5_000, seed=seed) for seed in (1, 1, 2))
        assert first.gain == again.gain != other.gain
        assert first.weights.tobytes() == again.weights.tobytes()


class TestAlgorithms:
    @pytest.mark.parametrize("algorithm", ["single-chain", "double-chain", gb.ALGORITHMS["td-lambda"]])
    def test_any_algorithm_learns_the_values(self, algorithm, tmp_path):
        estimate = gb.evaluate(Queue, ALWAYS, algorithm=algorithm, num_steps=120_000)
        exact = gb.solve(queue_process()).bias
        values = estimate.value(np.arange(6))
        assert np.abs(values - exact).max() < 0.15 * np.ptp(exact)
        assert estimate.gain == gb.evaluate(Queue, ALWAYS, num_steps=120_000).gain
        name = algorithm if isinstance(algorithm, str) else algorithm.name
        assert estimate.diagnostics.algorithm.startswith(f"{name}, step size")
        estimate.save(tmp_path / "estimate.npz")
        assert gb.load_estimate(tmp_path / "estimate.npz").value(3) == estimate.value(3)

    def test_many_features_are_learned_step_by_step(self, monkeypatch):
        monkeypatch.setattr(methods, "MOST_SPARSE_FEATURES", 5)
        estimate = gb.evaluate(Queue, ALWAYS, num_steps=20_000)
        assert estimate.diagnostics.algorithm.startswith("centred-td, step size")
        with pytest.raises(ValueError, match="least squares is for at most 5 features of this kind, found 7"):
            gb.evaluate(Queue, ALWAYS, algorithm="lstd")

    def test_two_chains_for_double_chain(self):
        with pytest.raises(ValueError, match="double-chain needs 2 independent chains of data, found 1"):
            gb.evaluate(Queue(), lambda seen: 1, algorithm="double-chain")
        with pytest.raises(ValueError, match="double-chain needs 2 independent chains of data, found 1"):
            gb.evaluate_log(([0, 1, 0, 1, 0], [1.0] * 5), algorithm="double-chain")


class Constant(Queue):
    reward = 1.0

    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, self.reward, *rest


class TestRewardsThatNeverChange:
    @pytest.mark.parametrize("algorithm", ["auto", "single-chain"])
    def test_no_interval_anywhere(self, algorithm, tmp_path, capsys):
        estimate = gb.evaluate(Constant, ALWAYS, num_steps=8_000, algorithm=algorithm)
        assert estimate.gain == 1.0
        assert np.isnan(estimate.gain_interval).all()
        assert np.isinf(estimate.value_interval(np.arange(6))).all()
        assert np.isnan([estimate.history.low, estimate.history.high]).all()
        assert "gain      1 per step, no interval\n" in repr(estimate)
        answer = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
        assert answer["gain_interval"] == [None, None]
        assert answer["diagnostics"]["standard_error"] is None
        show_estimate(answer)
        assert "1 per step, no interval" in capsys.readouterr().out
        estimate.save(tmp_path / "estimate.npz")
        assert np.isnan(gb.load_estimate(tmp_path / "estimate.npz").gain_interval).all()
        gb.write_page(estimate, tmp_path / "page.html")
        assert "no interval" in (tmp_path / "page.html").read_text()

    @pytest.mark.parametrize("num_steps", [20, 8_000])
    def test_a_picture(self, num_steps, tmp_path):
        pytest.importorskip("matplotlib")
        gb.plot(gb.evaluate(Constant, ALWAYS, num_steps=num_steps)).figure.savefig(tmp_path / "figure.png")

    def test_a_reward_that_was_seen_once(self):
        """Seed 0 crosses the lake once in 800 steps, early; exactly 0.0016 are earned per step."""
        exact = gb.solve(gb.from_gymnasium("FrozenLake-v1", np.full((16, 4), 0.25))).gain
        for seed in range(12):
            estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=800, seed=seed)
            low, high = estimate.gain_interval
            assert estimate.diagnostics.transient == 0
            if estimate.gain > 0.0:
                assert low < exact < high
            else:
                assert np.isnan(low)
                assert "never change" in " ".join(estimate.diagnostics.warnings)

    def test_logs(self):
        states = np.arange(3_000) % 3
        constant = gb.evaluate_log((states, np.full(3_000, 0.7)))
        assert np.isnan(constant.gain_interval).all()
        assert any("no interval" in words for words in constant.diagnostics.gain_warnings)
        once = gb.evaluate_log((states, np.where(np.arange(3_000) == 10, 0.7, 0.0)))
        assert once.gain_interval[0] < once.gain < once.gain_interval[1]


class TestChains:
    def test_an_environment_and_a_function_are_one_chain(self):
        estimate = gb.evaluate(Queue(), lambda seen: 1, num_steps=3_000)
        assert estimate.diagnostics.num_chains == 1
        assert "one chain, because the policy may look" in estimate.diagnostics.notes[0]
        assert gb.evaluate(Queue(), lambda seen: 1, num_steps=3_000, chains=2).diagnostics.num_chains == 2

    def test_a_class_and_a_function_are_four(self):
        assert gb.evaluate(Queue, lambda seen: 1, num_steps=3_000).diagnostics.num_chains == 4

    def test_an_environment_and_an_array_are_four(self):
        assert gb.evaluate(Queue(), ALWAYS, num_steps=3_000).diagnostics.num_chains == 4

    def test_where_no_copy_can_be_made(self):
        env = Queue()
        env.lock = threading.Lock()
        estimate = gb.evaluate(env, ALWAYS, num_steps=3_000)
        assert estimate.diagnostics.num_chains == 1
        assert "one chain: Queue cannot be copied" in estimate.diagnostics.notes[0]
        with pytest.raises(ValueError, match="cannot be copied"):
            gb.evaluate(env, ALWAYS, num_steps=3_000, chains=2)


class TestStopping:
    def test_narrow_enough(self):
        estimate = gb.evaluate(Queue, ALWAYS, target_half_width=0.1)
        low, high = estimate.gain_interval
        assert high - low <= 0.2
        assert not estimate.diagnostics.warnings

    @pytest.mark.parametrize("env", [lambda env: env, lambda env: SyncVectorEnv([lambda: env])])
    def test_a_vector_environment_is_interrupted_too(self, env):
        class Interrupting(Queue):
            count = 0

            def step(self, action):
                self.count += 1
                if self.count == 3_000:
                    os.kill(os.getpid(), signal.SIGINT)
                return super().step(action)

        estimate = gb.evaluate(env(Interrupting()), ALWAYS, chains=1)
        assert 2_990 <= estimate.diagnostics.num_transitions <= 3_000
        assert "it was interrupted" in estimate.diagnostics.warnings[0]

    def test_the_steps_run_out_before_the_half_width_is_reached(self):
        estimate = gb.evaluate(Queue, ALWAYS, target_half_width=1e-4, num_steps=10_000)
        assert estimate.diagnostics.num_transitions == 10_000
        assert estimate.diagnostics.warnings[0].startswith("the steps ran out: the half width")
        env = Queue()
        env.step = lambda action: (0, 1.0, False, False, {})
        estimate = gb.evaluate(env, "random", target_half_width=1.0, num_steps=4_000)
        assert "the rewards never changed, so there is no interval yet" in estimate.diagnostics.warnings[0]
        assert "the numbers never change" in estimate.diagnostics.warnings[1]
        estimate = gb.evaluate(Queue, ALWAYS, target_half_width=100.0, num_steps=60)
        assert "narrow enough, but cannot be trusted yet" in estimate.diagnostics.warnings[0]

    def test_time_limit(self):
        estimate = gb.evaluate(Queue, ALWAYS, num_steps=10**9, time_limit=1.0)
        assert "the time limit of 1 s has passed" in estimate.diagnostics.warnings[0]
        assert 0 < estimate.diagnostics.num_transitions < 10**7
        assert not estimate.diagnostics.is_complete

    @pytest.mark.parametrize("make", [lambda env: env, lambda env: lambda: SyncVectorEnv([env])])
    def test_time_limit_of_a_slow_environment(self, make):
        class Slow(Queue):
            def step(self, action):
                time.sleep(0.003)
                return super().step(action)

        estimate = gb.evaluate(make(Slow), ALWAYS, chains=1, time_limit=0.6)
        assert 0 < estimate.diagnostics.num_transitions < 1_000  # less than a batch
        assert "the time limit of 0.6 s has passed" in estimate.diagnostics.warnings[0]

    def test_interrupted(self):
        class Interrupting(Queue):
            count = 0

            def step(self, action):
                self.count += 1
                if self.count == 5_000:
                    os.kill(os.getpid(), signal.SIGINT)
                return super().step(action)

        before = signal.getsignal(signal.SIGINT)
        estimate = gb.evaluate(Interrupting, ALWAYS, chains=1)
        assert 4_990 <= estimate.diagnostics.num_transitions <= 5_000
        assert "it was interrupted" in estimate.diagnostics.warnings[0]
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_class_makes_environments_that_no_policy_can_see(self):
        assert gb.evaluate(Queue, lambda seen: 1, num_steps=4_000).diagnostics.num_chains == 4
        assert gb.evaluate(Queue(), lambda seen: 1, num_steps=4_000).diagnostics.num_chains == 1

    def test_chains_of_a_slow_environment_advance_in_turns(self):
        class Slow(Queue):
            def step(self, action):
                time.sleep(0.001)
                return super().step(action)

        estimate = gb.evaluate(Slow, ALWAYS, time_limit=0.5)
        facts = estimate.diagnostics
        assert "time limit of 0.5 s" in facts.warnings[0]
        assert facts.num_chains == 4
        assert 64 <= facts.num_transitions <= 600
        same = gb.evaluate(Queue, ALWAYS, num_steps=facts.num_transitions)
        assert estimate.gain == same.gain

    def test_the_clock_is_looked_at_after_every_slow_step(self):
        class Slower(Queue):
            def step(self, action):
                time.sleep(0.15)
                return super().step(action)

        begun = time.monotonic()
        estimate = gb.evaluate(Slower, ALWAYS, time_limit=4.0)
        assert time.monotonic() - begun < 5.5
        assert 16 <= estimate.diagnostics.num_transitions <= 26

    def test_an_interrupt_stops_all_chains(self):
        taken = []

        class Interrupting(Queue):
            def step(self, action):
                taken.append(self)
                if len(taken) == 500:
                    os.kill(os.getpid(), signal.SIGINT)
                return super().step(action)

        estimate = gb.evaluate(Interrupting, ALWAYS)
        assert len(taken) <= 501
        assert estimate.diagnostics.num_transitions >= 500 * 15 / 16 - 4

    def test_interrupted_before_there_is_anything(self):
        class Impatient(Queue):
            def step(self, action):
                os.kill(os.getpid(), signal.SIGINT)
                return super().step(action)

        with pytest.raises(KeyboardInterrupt):
            gb.evaluate(Impatient, ALWAYS)


class TestCuts:
    def test_cuts_that_move_the_gain_are_spoken_of(self):
        """A short limit keeps the queue short: the gain of -0.05 looks like 1.1, with a tight interval."""
        limited = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Queue(), 10)] * 4)
        estimate = gb.evaluate(limited, ALWAYS, num_steps=40_000)
        [words] = [word for word in estimate.diagnostics.warnings if "moves the gain" in word]
        stated = float(re.search(r"by about ([+-][0-9.]+)", words)[1])
        exact = gb.solve(queue_process()).gain
        assert estimate.gain - exact == pytest.approx(stated, rel=0.5)
        assert estimate.gain_interval[0] > exact + 0.5

    def test_cuts_that_do_not_are_not(self):
        """A log that was stored in parts, each of which continues where the last one stopped."""
        rng = np.random.default_rng(0)
        for seed in range(20):
            walk = np.abs(np.cumsum(rng.choice([-1, 1], 3_000)) % 10 - 5)
            log = {"state": walk, "reward": 1.0 * walk, "episode": np.arange(3_000) // 50}
            warnings = gb.evaluate_log(log).diagnostics.warnings
            assert not any("moves the gain" in word for word in warnings), seed


class TestFlaws:
    @pytest.mark.parametrize(
        ("flaw", "message"),
        [
            ({"reward": np.nan}, "the reward of step 3000 is nan"),
            ({"reward": 1e200}, r"the reward of step 3000 is 1e\+200, outside"),
            ({"observation": 17}, "observation before step 3001 is 17"),
            ({"error": RuntimeError("no paper")}, "failed in step 3000: RuntimeError: no paper"),
        ],
    )
    def test_what_came_before_is_kept(self, flaw, message):
        estimate = gb.evaluate(Flawed(3_000, **flaw), ALWAYS, chains=1)
        first = estimate.diagnostics.warnings[0]
        assert re.search(f"^cut short after .*{message}", first)
        assert 2_990 < estimate.diagnostics.num_transitions <= 3_000
        with pytest.raises(ValueError, match=message.replace("3000", "1").replace("3001", "2")):
            gb.evaluate(Flawed(1, **flaw), ALWAYS, chains=1)

    def test_an_action_that_does_not_exist(self):
        count = iter(range(10**6))
        estimate = gb.evaluate(Queue(), lambda seen: 2 if next(count) == 2_500 else 1)
        assert "the policy chose 2, outside the space" in estimate.diagnostics.warnings[0]
        with pytest.raises(ValueError, match="the policy chose 2"):
            gb.evaluate(Queue(), lambda seen: 2)

    def test_the_gain_stands_where_no_values_could_be_learned(self, tmp_path):
        estimate, usual = (
            gb.evaluate(
                Queue, ALWAYS, num_steps=20_000, algorithm=gb.Learning("single-chain", step_size=size)
            )
            for size in (1000.0, "auto")
        )
        assert (estimate.gain, estimate.gain_interval) == (usual.gain, usual.gain_interval)
        [words] = estimate.diagnostics.warnings
        assert words.startswith("there are no values: single-chain diverged within")
        assert np.isnan(estimate.value(0))
        assert estimate.value_interval([0, 1]).tolist() == [[-np.inf, np.inf]] * 2
        assert "values    none" in repr(estimate)
        estimate.save(tmp_path / "estimate")
        again = gb.load_estimate(tmp_path / "estimate").to_dict()
        assert json.dumps(again, allow_nan=False) == json.dumps(estimate.to_dict(), allow_nan=False)
        assert again["weights"] == [None] * 7
        assert again["diagnostics"]["mixing_time"] is None
        assert len(gb.plot(estimate).figure.axes) == 1
        short = gb.evaluate(Queue, ALWAYS, num_steps=100, algorithm="single-chain")
        assert any("there are no values" in word for word in short.diagnostics.warnings)

    @pytest.mark.filterwarnings("ignore:.*precision lowered")
    def test_rewards_that_are_vectors(self):
        with pytest.raises(ValueError, match="a vector: choose a weight for each of its 2 numbers"):
            gb.evaluate(Flawed(0, reward=np.array([1.0, 2.0])), ALWAYS)
        pytest.importorskip("mo_gymnasium")
        with pytest.raises(ValueError, match="choose a weight for each of its 2 numbers"):
            gb.evaluate("mo_gymnasium:deep-sea-treasure-v0", "random", features=lambda seen: seen)

    def test_an_environment_that_ends_at_once_for_ever(self):
        class Over(Queue):
            def step(self, action):
                return 0, 1.0, True, False, {}

        estimate = gb.evaluate(Over, ALWAYS, num_steps=4_000)
        assert estimate.gain == pytest.approx(0.5, abs=1e-3)
        note, ends, period = estimate.diagnostics.notes  # rewards are 1, 0, 1, 0, ...
        assert ends == ENDS_ARE_STEPS
        assert "a period of about 2 steps" in period
        assert "every episode ended at its first step" in note

    def test_features_that_never_change(self):
        estimate = gb.evaluate(
            Queue, ALWAYS, features=np.ones((6, 1)), num_steps=20_000, on_termination="reward"
        )
        assert any("the same in all states" in warning for warning in estimate.diagnostics.warnings)
        assert estimate.value(3) == pytest.approx(0.0, abs=1e-9)

    def test_features_that_miss_something_are_spoken_of(self):
        rows = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
        estimate = gb.evaluate(Queue, ALWAYS, features=rows, on_termination="reward")
        assert estimate.diagnostics.predictable_share > 0.05
        assert any("projected fixed point" in note for note in estimate.diagnostics.notes)

    def test_a_chain_that_falls_apart(self, capsys):
        class Apart(gymnasium.Env):
            observation_space, action_space = spaces.Discrete(6), spaces.Discrete(2)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                self.side = 3 * int(self.np_random.integers(2))
                return self.side, {}

            def step(self, action):
                return self.side + int(self.np_random.integers(3)), float(self.side), False, False, {}

        estimate = gb.evaluate(Apart, "random", num_steps=20_000, chains=8)
        [words] = [warning for warning in estimate.diagnostics.warnings if "falls apart" in warning]
        assert "{0, 1, 2}, {3, 4, 5}" in words
        assert any("disagree" in warning for warning in estimate.diagnostics.warnings)
        assert estimate.diagnostics.r_hat == np.inf
        show_estimate(json.loads(json.dumps(estimate.to_dict(), allow_nan=False)))
        assert re.search("R-hat .* infinite", capsys.readouterr().out)
        assert not any("falls apart" in word for word in gb.evaluate(Queue, ALWAYS).diagnostics.warnings)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_steps": 0}, "num_steps must be a positive integer, found 0"),
            ({"chains": 1.5}, "chains must be a positive integer, found 1.5"),
            ({"confidence": 95}, "must be between 0 and 1, found 95: say 0.95 for 95%"),
            ({"confidence": "0.9"}, "confidence must be between 0 and 1, found '0.9'"),
            ({"time_limit": "1"}, "time_limit must be a number of seconds, found '1'"),
            ({"time_limit": -1.0}, "time_limit must be a number of seconds, found -1.0"),
            ({"target_half_width": -1.0}, "target_half_width must be a positive number, found -1.0"),
            ({"target_half_width": "0.1"}, "target_half_width must be a positive number, found '0.1'"),
            ({"seed": "a"}, "a seed must be an integer that is not negative, found 'a'"),
            ({"seed": None}, "a seed must be an integer that is not negative, found None"),
            ({"algorithm": "lsdt"}, "unknown algorithm 'lsdt': did you mean 'lstd'"),
            ({"algorithm": gb.Learning(step_size=0.1)}, "least squares has no step size"),
            ({"features": np.ones((7, 1))}, "features have 7 rows"),
            ({"on_termination": "stop"}, "on_termination must be"),
        ],
    )
    def test_wrong_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            gb.evaluate(Queue, ALWAYS, **options)

    @pytest.mark.parametrize(
        ("log", "message"),
        [
            (([0], [1.0]), "at least two rows"),
            (([0, 1], [1.0, 1.0]), "at least 4 transitions, found 1"),
            (([0, 1, 0, 1, 0], [1.0, np.nan, 1.0, 1.0, 1.0]), "row 1 of the log: the reward is nan"),
            ({"state": [0, 1], "reward": [[1.0, 2.0], [1.0, 2.0]]}, "rewards are vectors of length 2"),
        ],
    )
    def test_logs_of_which_nothing_can_be_made(self, log, message):
        with pytest.raises(ValueError, match=message):
            gb.evaluate_log(log)

    def test_a_log_that_goes_wrong_later(self):
        states = np.random.default_rng(0).integers(0, 3, 5_000)
        rewards = 1.0 * states
        rewards[4_000] = np.inf
        estimate = gb.evaluate_log((states, rewards))
        assert "row 4000 of the log: the reward is inf" in estimate.diagnostics.warnings[0]
        assert estimate.diagnostics.num_transitions == 3_999


class TestScale:
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda rows: lambda seen: rows[seen]])
    def test_features_of_any_scale_give_the_same_answer(self, scale, form):
        rows = np.stack([np.ones(6), np.arange(6.0), np.arange(6.0) ** 2], axis=1)
        one = gb.evaluate(Queue, ALWAYS, features=rows, num_steps=8_000)
        other = gb.evaluate(Queue, ALWAYS, features=form(scale * rows), num_steps=8_000)
        assert other.value(np.arange(6)) == pytest.approx(one.value(np.arange(6)), rel=1e-6, abs=1e-6)
        assert other.value_interval(2) == pytest.approx(one.value_interval(2), rel=1e-5)
        assert other.weights * scale == pytest.approx(one.weights, rel=1e-6, abs=1e-6)
        seen = other.observed.rows_at(np.arange(6))
        lengths = np.linalg.norm(seen if isinstance(seen, np.ndarray) else seen.toarray(), axis=1)
        assert 0.5 < lengths.max() <= 1.0


OF_EPISODES = {"state": [0, 1, 2, 3] * 500, "reward": [1.0] * 2_000, "terminated": [0, 0, 0, 1] * 500}


class TestEndsAreSaid:
    """Where an end of an episode is one more step, every form of the answer says so, with any features."""

    def said(self, estimate, tmp_path):
        gb.write_page(estimate, tmp_path / "page.html", overwrite=True)
        forms = (repr(estimate), "".join(estimate.to_dict()["diagnostics"]["notes"]))
        page = unescape((tmp_path / "page.html").read_text())
        [count] = {form.count(ENDS_ARE_STEPS) for form in (*forms, page)}
        return bool(count)

    @pytest.mark.parametrize("features", ["auto", np.arange(5.0)[:, None] + 1.0])
    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_of_an_environment(self, tmp_path, features, on_termination):
        estimate = gb.evaluate(
            Walk, "random", num_steps=4_000, features=features, on_termination=on_termination
        )
        assert self.said(estimate, tmp_path) == (on_termination == "zero")

    @pytest.mark.parametrize("left_out", [[], ["state"], ["terminated"]])
    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_of_a_log(self, tmp_path, left_out, on_termination):
        log = {name: column for name, column in OF_EPISODES.items() if name not in left_out}
        estimate = gb.evaluate_log(log, on_termination=on_termination)
        has_ends = on_termination == "zero" and left_out != ["terminated"]
        assert self.said(estimate, tmp_path) == has_ends
        assert estimate.gain == pytest.approx(0.8 if has_ends else 1.0, abs=1e-3)

    def test_of_another_policy(self, tmp_path):
        log = OF_EPISODES | {"a": np.random.default_rng(0).integers(0, 2, 2_000)}
        assert self.said(gb.evaluate_log(log, action="a", policy="random"), tmp_path)

    def test_no_time_passes_there(self, tmp_path):
        log = OF_EPISODES | {"dt": [1.0, 2.0] * 1_000}
        assert not self.said(gb.evaluate_log(log, duration="dt"), tmp_path)

    def test_without_ends_there_is_nothing_to_say(self, tmp_path):
        assert not self.said(gb.evaluate(Queue, ALWAYS, num_steps=2_000), tmp_path)

    def test_of_a_comparison(self):
        class Going(Walk):
            """Its first action goes on for ever."""

            def step(self, action):
                return (2, 0.0, False, False, {}) if action == 0 else super().step(action)

        stay, go = (lambda seen: 0), (lambda seen: 1)
        for policies, has_ends in (((stay, go), True), ((go, stay), True), ((stay, stay), False)):
            found = gb.compare(Going, *policies, num_steps=2_000)
            assert found.notes.count(ENDS_ARE_STEPS) == has_ends
            assert repr(found).count(ENDS_ARE_STEPS) == has_ends
            assert found.to_dict()["notes"].count(ENDS_ARE_STEPS) == has_ends

    def test_of_a_comparison_on_a_log(self):
        log = OF_EPISODES | {"a": np.random.default_rng(0).integers(0, 2, 2_000)}
        found = gb.compare_policies_on_log(log, [0] * 4, "random", action="a")
        assert found.notes.count(ENDS_ARE_STEPS) == 1
