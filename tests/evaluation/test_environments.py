"""Streams of environments: against exact models, seeded, cut, copied."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import gainbias as gb
from gainbias.evaluation.sources.environments import environment_stream
from tests.evaluation.chains import (
    Counter,
    Queue,
    Walk,
    check_against,
    column,
    queue_process,
    taken,
    walk_process,
)

ALWAYS = np.ones(Queue.capacity + 1, dtype=int)


class TestModels:
    def test_queue(self):
        batches = taken(environment_stream(Queue(), ALWAYS, on_termination="reward"), 40_000)
        check_against(queue_process(), batches)

    def test_a_wrong_model_is_noticed(self):
        batches = taken(environment_stream(Queue(), np.array([1, 1, 1, 1, 0, 0])), 10_000)
        with pytest.raises(AssertionError):
            check_against(queue_process(), batches)

    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_ends_in_an_observation_where_episodes_also_go_on(self, on_termination):
        batches = taken(environment_stream(Walk(), "random", on_termination=on_termination), 40_000)
        assert environment_stream(Walk(), "random", on_termination=on_termination).observed.num_features == (
            6 if on_termination == "zero" else 5
        )
        process = walk_process(on_termination)
        states = np.unique(column(batches, "here"))
        kept = gb.MarkovRewardProcess(
            process.transitions[np.ix_(states, states)],
            process.transition_rewards[np.ix_(states, states)],
        )
        for batch in batches:
            batch.here[:], batch.after[:] = (
                np.searchsorted(states, part) for part in (batch.here, batch.after)
            )
        check_against(kept, batches)

    def test_frozen_lake_has_the_gain_of_its_model(self):
        [*batches] = taken(environment_stream("FrozenLake-v1", np.full((16, 4), 0.25), seed=3), 60_000)
        solution = gb.solve(gb.from_gymnasium("FrozenLake-v1", np.full((16, 4), 0.25)))
        rewards = column(batches, "rewards")
        assert abs(rewards.mean() - solution.gain) < 4 * np.sqrt(solution.asymptotic_variance / len(rewards))
        assert 16 in column(batches, "here")

    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_steps_follow_each_other_inside_a_segment(self, on_termination):
        stream = environment_stream(Walk(cut=7), "random", on_termination=on_termination, batch_size=50)
        batches = taken(stream, 2_000)
        here, after, segments = (column(batches, name) for name in ("here", "after", "segments"))
        joined = segments[1:] == segments[:-1]
        assert (here[1:] == after[:-1])[joined].all()
        assert (here[1:][~joined] == 2).all()
        assert (np.diff(segments)[~joined] == 1).all()
        assert segments[-1] > 50


class TestTimeLimits:
    def test_taken_off_everywhere_and_put_back(self):
        for env in (
            gymnasium.wrappers.TimeLimit(Queue(), 3),
            gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(Queue(), 3)),
            lambda: gymnasium.wrappers.TimeLimit(Queue(), 3),
        ):
            stream = environment_stream(env, "random", batch_size=100)
            batches = taken(stream, 300)
            assert not column(batches, "segments").any()
            assert stream.notes == []
        wrapped = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(Queue(), 3))
        stream = environment_stream(wrapped, "random")
        assert isinstance(wrapped.env, Queue)
        stream.close()
        assert isinstance(wrapped.env, gymnasium.wrappers.TimeLimit)

    def test_an_id_has_none(self):
        batches = taken(environment_stream("Pendulum-v1", lambda observation: np.zeros(1)), 1_000)
        assert not column(batches, "segments").any()

    def test_what_cannot_be_taken_off_is_a_break_and_said(self):
        stream = environment_stream(Walk(cut=3), "random", batch_size=200)
        assert "cuts episodes" in stream.notes[0]
        both = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(Queue(), 3)] * 2)
        stream = environment_stream(both, "random", batch_size=200)
        assert "cuts episodes" in stream.notes[0]

    def test_the_last_step_before_a_cut_counts(self):
        [batch] = taken(environment_stream(Walk(cut=2), "random", seed=1, batch_size=400), 1)
        lengths = np.bincount(batch.segments)
        assert 2 in lengths


class TestSeeds:
    def test_same_seed_same_stream(self):
        for env in (Queue, Walk, lambda: SyncVectorEnv([Walk] * 2)):
            first, again, other = (
                column(taken(environment_stream(env, "random", seed=seed, batch_size=500), 500), "here")
                for seed in (5, 5, 6)
            )
            assert np.array_equal(first, again)
            assert not np.array_equal(first, other)

    def test_seeded_at_the_first_reset_only(self):
        env = Counter()
        taken(environment_stream(env, lambda observation: np.zeros(1), features=lambda seen: seen), 10)
        assert env.seeds[0] is not None
        episodic = Walk()
        seeds = []
        episodic.reset = lambda *, seed=None, options=None: (
            seeds.append(seed),
            Walk.reset(episodic, seed=seed),
        )[1]
        taken(environment_stream(episodic, "random"), 100)
        assert seeds[0] is not None
        assert set(seeds[1:]) == {None}

    def test_copies_are_independent(self):
        made = []

        def make():
            made.append(Counter())
            return made[-1]

        stream = environment_stream(make, "random", copies=3, features=lambda seen: seen, batch_size=20)
        batches = [next(stream.batches) for _ in range(6)]
        assert [batch.chain for batch in batches] == [0, 1, 2, 0, 1, 2]
        assert stream.num_chains == 3
        assert len({tuple(env.noise[:5]) for env in made}) == 3

    @pytest.mark.parametrize("env", [Queue(), "FrozenLake-v1", gymnasium.make("FrozenLake-v1")])
    def test_two_copies_of_anything(self, env):
        batches = taken(environment_stream(env, "random", copies=2, batch_size=200), 400)
        first, second = (column(batches, "here", chain)[:200] for chain in (0, 1))
        assert not np.array_equal(first, second)

    def test_what_cannot_be_copied(self):
        env = Queue()
        env.lock = (number for number in range(3))
        with pytest.raises(ValueError, match="pass a function that makes one"):
            environment_stream(env, "random", copies=2)
        with pytest.raises(ValueError, match="must make a new one"):
            environment_stream(lambda: env, "random", copies=2)


class TestVectors:
    @pytest.mark.parametrize("mode", list(AutoresetMode))
    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_every_way_to_reset_gives_the_path_of_a_single_environment(self, mode, on_termination):
        both = SyncVectorEnv([lambda: Walk(cut=5)] * 2, autoreset_mode=mode)
        stream = environment_stream(both, "random", on_termination=on_termination, batch_size=150)
        batches = taken(stream, 300)
        for chain in (0, 1):
            env = Walk(cut=5)
            seed = int(stream_seed()) + chain
            single = taken(_with_seed(env, seed, on_termination), 300)
            for name in ("here", "after", "rewards", "segments"):
                ours, theirs = column(batches, name, chain), column(single, name)
                assert np.array_equal(ours[:200], theirs[:200])

    def test_a_policy_sees_all_copies(self):
        both = SyncVectorEnv([Queue] * 3)
        batches = taken(environment_stream(both, lambda seen: (seen < 3).astype(int)), 4_000)
        assert max(column(batches, "after", chain).max() for chain in range(3)) == 3
        same = taken(environment_stream(SyncVectorEnv([Queue] * 3), np.array([1, 1, 1, 0, 0, 0])), 4_000)
        assert np.array_equal(column(batches, "here", 2), column(same, "here", 2))

    def test_flaws(self):
        def make(env):
            return SyncVectorEnv([Queue, env])

        for env, policy, message in (
            (Queue(), lambda seen: np.array([1]), "shape \\(1,\\) in step 0"),
            (Queue(), lambda seen: np.array([1, 2]), "chose 2, outside the space.*in step 0 of copy 1"),
            (Queue(), lambda seen: np.array([1, 0.5]), "chose 0.5, not an integer, in step 0 of copy 1"),
            (Queue(), lambda seen: 1 / 0, "policy failed in step 0, given observations of all copies"),
            (WithoutSeed(), "random", "failed at its reset before step 0: TypeError: .*'seed'"),
            (Flawed(40, reward=np.nan), "random", "reward of step 40 of copy 1 is nan"),
            (Flawed(40, observation=17), "random", "observation before step 41 of copy 1 is 17, outside"),
            (Flawed(40, error=RuntimeError("no")), "random", "failed in step 40: RuntimeError: no"),
        ):
            with pytest.raises(ValueError, match=message):
                taken(environment_stream(make(lambda env=env: env), policy, batch_size=30), 100)

    def test_a_later_reset_that_fails_loses_nothing(self):
        envs = SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.DISABLED)
        original, resets = envs.reset, iter(range(100))

        def reset(**how):
            if next(resets) == 3:
                raise RuntimeError("stuck")
            return original(**how)

        envs.reset = reset
        found = []
        with pytest.raises(ValueError, match=r"failed at its reset before step \d+: RuntimeError: stuck"):
            found.extend(map(len, environment_stream(envs, "random", batch_size=30)))
        assert sum(found) > 0

    def test_it_must_say_how_it_resets(self):
        both = SyncVectorEnv([Queue] * 2)
        del both.metadata["autoreset_mode"]
        with pytest.raises(ValueError, match="must say in metadata"):
            environment_stream(both, "random")
        with pytest.raises(ValueError, match="has 2 copies, 3 are needed"):
            environment_stream(SyncVectorEnv([Queue] * 2), "random", copies=3)


def stream_seed():
    from gainbias.engine.streams import stream

    return stream(0, "evaluate", "vector").integers(2**31, size=2)[0]


def _with_seed(env, seed, on_termination):
    """The stream of one environment under a seed of our choice."""
    original = env.reset
    env.reset = lambda *, seed_=seed, seed=None, options=None: original(seed=None if seed is None else seed_)
    return environment_stream(env, "random", on_termination=on_termination, batch_size=100)


class Flawed(Queue):
    """Does something wrong in one step."""

    def __init__(self, when, *, reward=None, observation=None, error=None, result=None):
        super().__init__()
        self.when, self.count = when, 0
        self.reward, self.observation, self.error, self.result = reward, observation, error, result

    def step(self, action):
        observation, reward, *rest = super().step(action)
        self.count += 1
        if self.count == self.when + 1:
            if self.error is not None:
                raise self.error
            if self.result is not None:
                return self.result
            reward = reward if self.reward is None else self.reward
            observation = observation if self.observation is None else self.observation
        return observation, reward, *rest


class WithoutSeed(Queue):
    """Written for an old version of gym."""

    def reset(self):
        return super().reset()


class TestFlaws:
    @pytest.mark.parametrize("when", [0, 5, 129])
    @pytest.mark.parametrize(
        ("flaw", "message"),
        [
            ({"reward": np.nan}, "the reward of step {} is nan, not a finite number"),
            ({"reward": None, "result": (0, None, False, False, {})}, "the reward of step {} is None"),
            ({"reward": np.array([1.0, 2.0])}, "reward of step {} is .*, a vector: choose a weight .* its 2"),
            ({"observation": 17}, r"observation before step {+1} is 17, outside the space from 0 to 5"),
            ({"observation": 1.5}, "observation before step {+1} is 1.5, not an integer"),
            ({"result": (0, 1.0, False, {})}, "five values, found 4 values in step {}: .*old version of gym"),
            ({"result": 3}, "five values, found int in step {}"),
            ({"error": RuntimeError("out of paper")}, "failed in step {}: RuntimeError: out of paper"),
        ],
    )
    def test_said_with_the_step_and_nothing_before_is_lost(self, when, flaw, message):
        expected = message.replace("{+1}", str(when + 1)).replace("{}", str(when))
        found = []
        with pytest.raises(ValueError, match=expected):
            found.extend(map(len, environment_stream(Flawed(when, **flaw), "random", batch_size=100)))
        assert max(0, when - 1) <= sum(found) <= when

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (lambda seen: 2, "the policy chose 2, outside the space from 0 to 1, in step 0"),
            (lambda seen: 0.5, "the policy chose 0.5, not an integer, in step 0"),
            (lambda seen: [1], "the policy chose \\[1\\], not an integer"),
            (lambda seen: 1 / 0, "the policy failed in step 0: ZeroDivisionError"),
        ],
    )
    def test_actions(self, policy, message):
        with pytest.raises(ValueError, match=message):
            environment_stream(Queue(), policy)

    def test_an_invalid_action_explains_the_error_of_the_environment(self):
        with pytest.raises(ValueError, match="the policy chose 9, outside the space") as caught:
            environment_stream("FrozenLake-v1", lambda seen: 9)
        assert isinstance(caught.value.__cause__, KeyError)

    @pytest.mark.parametrize(
        ("action", "message"),
        [
            (np.zeros(2), "of shape \\(2,\\), the space has shape \\(1,\\), in step 0"),
            (np.array([np.nan]), "chose \\[nan\\], not a finite number, in step 0"),
            (np.array([2.0]), "chose \\[2.\\], outside the space"),
            (np.array(["left"]), "numbers are expected, in step 0"),
        ],
    )
    def test_actions_in_a_box(self, action, message):
        with pytest.raises(ValueError, match=message):
            environment_stream(Counter(), lambda seen: action)

    def test_actions_of_other_spaces(self):
        env = Queue()
        env.action_space = spaces.Dict({"admit": spaces.Discrete(2)})
        env.step = lambda action: Queue.step(env, action["admit"])
        batches = taken(environment_stream(env, "random"), 100)
        assert column(batches, "here").max() > 0
        with pytest.raises(ValueError, match=r"the policy chose \{'admit': 2\}, not in Dict"):
            environment_stream(env, lambda seen: {"admit": 2})

    def test_boxes(self):
        env = Counter()
        env.observation_space = spaces.Box(0.0, 40.0, (2,))
        with pytest.raises(ValueError, match=r"before step 41 is \[41. 41.\], outside the space"):
            taken(environment_stream(env, "random", batch_size=100), 100)
        env.observation_space = spaces.Box(0.0, 1.0, (3,))
        with pytest.raises(
            ValueError, match=r"before step 0 is .* of shape \(2,\), the space has shape \(3,\)"
        ):
            environment_stream(env, "random")

    def test_reset(self):
        env = Queue()
        env.reset = lambda *, seed=None, options=None: 0
        with pytest.raises(ValueError, match=r"reset of the environment must return .* found int"):
            environment_stream(env, "random")

    def test_a_reset_that_fails(self):
        with pytest.raises(ValueError, match=r"failed at its reset before step 0: TypeError: .*'seed'"):
            environment_stream(WithoutSeed(), "random")

    @pytest.mark.parametrize("name", ["observation_space", "action_space"])
    @pytest.mark.parametrize("make", [lambda env: env, lambda env: SyncVectorEnv([lambda: env])])
    def test_without_a_space(self, name, make):
        env = make(Queue())
        missing = name if isinstance(env, Queue) else f"single_{name}"
        setattr(env, missing, None)
        with pytest.raises(ValueError, match=f"the environment has no {missing}"):
            environment_stream(env, lambda seen: 1)

    def test_fractions_are_no_actions(self):
        env = Queue()
        env.action_space = spaces.MultiDiscrete([2, 2])
        with pytest.raises(ValueError, match=r"the policy chose \[1.  0.5\], not an integer, in step 0"):
            environment_stream(env, lambda seen: np.array([1.0, 0.5]))

    def test_ending_at_once_for_ever(self):
        env = Queue()
        env.step = lambda action: (0, 1.0, True, False, {})
        stream = environment_stream(env, "random", batch_size=200)
        [batch] = taken(stream, 200)
        assert batch.rewards.mean() == pytest.approx(0.5, abs=0.01)
        assert "every episode ended at its first step" in stream.notes[0]
        env.step = lambda action: (0, 1.0, False, True, {})
        with pytest.raises(ValueError, match="every episode is cut"):
            taken(environment_stream(env, "random", batch_size=200), 200)

    @pytest.mark.parametrize(
        ("env", "options", "message"),
        [
            (3, {}, "env must be a gymnasium environment.*found int"),
            (lambda: 3, {}, "env must be a gymnasium environment.*found int"),
            ("CartPoll-v1", {}, "did you mean 'CartPole-v1'"),
            (Queue(), {"copies": 0}, "copies must be a positive integer"),
            (Queue(), {"batch_size": 1.5}, "batch_size must be a positive integer"),
            (Queue(), {"on_termination": "stop"}, "on_termination must be"),
            (Queue(), {"features": "best"}, "features must be 'auto'"),
        ],
    )
    def test_arguments(self, env, options, message):
        with pytest.raises(ValueError, match=message):
            environment_stream(env, "random", **options)

    def test_spaces_of_other_things(self):
        env = Queue()
        env.observation_space = spaces.Sequence(spaces.Discrete(2))  # of any length
        stream = environment_stream(env, "random")
        assert not stream.has_states
        assert "the answer is the gain alone, without values" in stream.notes[-1]
        assert "TransformObservation" in stream.notes[-1]
        with pytest.raises(ValueError, match="TransformObservation"):
            environment_stream(env, "random", features=lambda seen: seen)


class TestMemory:
    def test_arrays_that_change_later_are_copied(self):
        stream = environment_stream(Counter(), "random", features=lambda seen: seen, batch_size=9)
        batch = next(stream.batches)
        assert (batch.here_rows[:, 0] * stream.observed.scale).tolist() == list(range(8))
        assert (batch.after_rows[:, 0] * stream.observed.scale).tolist() == list(range(1, 9))

    def test_large_observations_come_in_small_batches(self):
        env = Counter()
        env.observation_space = spaces.Box(0, 255, (1000, 1000), np.uint8)
        env.seen = np.zeros((1000, 1000))
        stream = environment_stream(env, "random", features=lambda seen: seen[:, 0, :3])
        assert len(next(stream.batches)) < 8

    def test_what_was_made_is_closed(self):
        closed = []

        class Closing(Queue):
            def close(self):
                closed.append(self)

        taken(environment_stream(Closing, "random", copies=2), 10)
        assert len(closed) == 2
        taken(environment_stream(Closing(), "random"), 10)
        assert len(closed) == 2
        with pytest.raises(ValueError, match="chose 7"):
            environment_stream(Closing, lambda seen: 7)
        assert len(closed) == 3
