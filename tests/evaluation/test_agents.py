"""Agents, modules and vector environments of Stable-Baselines3 and PyTorch, by stand-ins and for real."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import gainbias as gb
from gainbias.evaluation.sources.policies import acting
from tests.evaluation import baselines
from tests.evaluation.baselines import (
    FAKE_TORCH,
    Agent,
    DummyVecEnv,
    Module,
    RecurrentAgent,
    Tensor,
    VecNormalize,
)
from tests.evaluation.chains import Queue, queue_process

NOTHING = np.random.default_rng(0)


class Scene(gymnasium.Env):
    """Observations of several parts; action 1 pays 1, and an episode ends or is cut after some steps."""

    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 255, (4, 4, 1), np.uint8), "speed": spaces.Box(-1.0, 1.0, (2,))}
    )
    action_space = spaces.Discrete(2)

    def __init__(self, ends=7, cut=0):
        self.ends, self.cut = ends, cut

    def look(self):
        image = self.np_random.integers(0, 256, (4, 4, 1), dtype=np.uint8)
        return {"image": image, "speed": self.np_random.uniform(-1, 1, 2).astype(np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.look(), {}

    def step(self, action):
        self.age += 1
        return self.look(), float(action), self.age == self.ends, self.age == self.cut, {}


class Ages(gymnasium.Env):
    """The observation is always 0; it pays for the step of the episode, and for action 1."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def __init__(self, length=7):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return 0, {}

    def step(self, action):
        self.age += 1
        return 0, float(action), self.age == self.length, False, {}


def notes_of(estimate):
    return "\n".join(estimate.diagnostics.notes)


class TestAgents:
    def test_the_observation_is_given_as_the_environment_made_it(self):
        agent = Agent(Scene.observation_space, Scene.action_space)
        estimate = gb.evaluate(Scene, agent, num_steps=800, on_termination="reward")
        assert estimate.gain == 1.0
        assert estimate.diagnostics.num_chains == 4
        vector = gymnasium.vector.SyncVectorEnv([Scene] * 3)
        assert gb.evaluate(vector, agent, num_steps=800, on_termination="reward").gain == 1.0

    def test_deterministic_is_a_choice_and_is_said(self):
        agent = Agent(spaces.Discrete(6), None)
        best = gb.evaluate(Queue, agent, num_steps=400)
        assert set(agent.asked) == {True}
        assert "takes its best action (deterministic=True)" in notes_of(best)
        agent.asked.clear()
        with pytest.raises(ValueError, match="deterministic must be True or False, found 'no'"):
            gb.evaluate(Queue, agent, num_steps=400, deterministic="no")
        assert "draws its actions" in notes_of(
            gb.evaluate(Queue, agent, num_steps=400, deterministic=np.False_)
        )
        drawn = gb.evaluate(Queue, agent, num_steps=400, deterministic=False)
        assert set(agent.asked) == {False}
        assert "draws its actions (deterministic=False)" in notes_of(drawn)
        assert "which the seed does not set" in notes_of(drawn)
        assert "deterministic" in drawn.to_dict()["diagnostics"]["notes"][0]

    @pytest.mark.parametrize("policy", ["random", np.ones(6, dtype=int), lambda seen: 1])
    def test_other_policies_have_no_such_choice(self, policy):
        with pytest.raises(ValueError, match="deterministic is for agents"):
            gb.evaluate(Queue, policy, num_steps=400, deterministic=True)

    def test_of_two_policies_it_is_for_the_agent(self):
        agent = Agent(spaces.Discrete(6), None)
        gb.compare(Queue, "random", agent, num_steps=400, deterministic=False)
        assert set(agent.asked) == {False}
        with pytest.raises(ValueError, match="deterministic is for agents"):
            gb.compare(Queue, "random", "random", num_steps=400, deterministic=False)

    def test_an_agent_without_that_argument(self):
        plain = type("Plain", (), {"predict": lambda self, seen: 1})()
        assert notes_of(gb.evaluate(Queue, plain, num_steps=400)) == ""
        with pytest.raises(ValueError, match="has no argument deterministic"):
            gb.evaluate(Queue, plain, num_steps=400, deterministic=True)

    def test_masks_that_were_not_given_are_spoken_of(self):
        class Masked(Agent):
            def predict(
                self, observation, state=None, episode_start=None, deterministic=False, action_masks=None
            ):
                return super().predict(observation, state, episode_start, deterministic)

        assert "action_masks" in notes_of(gb.evaluate(Queue, Masked(spaces.Discrete(6), None), num_steps=400))

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Ages,
            lambda: gymnasium.vector.SyncVectorEnv([lambda: Ages(7), lambda: Ages(5)]),
            lambda: gymnasium.vector.SyncVectorEnv(
                [lambda: Ages(7), lambda: Ages(5)], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
            ),
            lambda: DummyVecEnv([lambda: Ages(7), lambda: Ages(5)]),
        ],
    )
    def test_a_memory_is_kept_and_begins_anew_with_each_episode(self, make):
        env = make()
        estimate = gb.evaluate(env, RecurrentAgent(), num_steps=2_100, on_termination="reward")
        expected = 3 / 7 if env is Ages else (3 / 7 + 2 / 5) / 2  # steps 0, 3 and 6 of 7, 0 and 3 of 5
        assert estimate.gain == pytest.approx(expected, abs=3e-3)
        assert "was given its memory back" in notes_of(estimate)

    def test_a_memory_that_cannot_be_given_back(self):
        class Forgetful:
            def predict(self, observation):
                return 1, "a memory"

        with pytest.raises(ValueError, match="no arguments state and episode_start"):
            gb.evaluate(Queue, Forgetful(), num_steps=400)


class TestVectors:
    """`DummyVecEnv` and `VecNormalize`."""

    def test_the_chains_are_its_copies_and_the_answer_is_that_of_the_model(self):
        envs = DummyVecEnv([Queue] * 4)
        estimate = gb.evaluate(envs, np.ones(6, dtype=int), num_steps=8_000, on_termination="reward")
        low, high = estimate.gain_interval
        width = high - low
        assert low - width / 2 < gb.solve(queue_process()).gain < high + width / 2
        assert estimate.diagnostics.num_chains == 4
        again = gb.evaluate(lambda: DummyVecEnv([Queue] * 4), np.ones(6, dtype=int), num_steps=8_000)
        other = gb.evaluate(DummyVecEnv([Queue] * 4), np.ones(6, dtype=int), num_steps=8_000, seed=1)
        assert again.gain == estimate.gain != other.gain

    def test_cuts_lead_nowhere_and_ends_lead_back(self):
        estimate = gb.evaluate(
            DummyVecEnv([lambda: Scene(ends=0, cut=5)] * 2), lambda seen: [1, 1], num_steps=400
        )
        assert "cuts episodes" in notes_of(estimate)
        assert estimate.gain == 1.0  # no step of reward 0 leads back
        ends = gb.evaluate(DummyVecEnv([lambda: Scene(ends=5)] * 2), lambda seen: [1, 1], num_steps=600)
        assert ends.gain == pytest.approx(5 / 6, abs=0.01)
        assert "cuts episodes" not in notes_of(ends)

    def test_the_observation_at_a_cut_is_the_last_of_its_episode(self):
        class Counting(Ages):
            observation_space = spaces.Discrete(10)

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return 0, {}

            def step(self, action):
                super().step(action)
                return self.age, 0.0 + self.age, False, self.age == 5, {}

        from gainbias.evaluation.sources.environments import environment_stream

        stream = environment_stream(DummyVecEnv([Counting]), "random", batch_size=200)
        batch = next(stream.batches)
        assert (batch.after == batch.here + 1).all()
        assert batch.after.max() == 5
        stream.close()

    def test_rewards_are_not_normalised_and_nothing_is_learned_meanwhile(self):
        envs = VecNormalize(DummyVecEnv([Ages] * 2))
        estimate = gb.evaluate(envs, lambda seen: np.ones(2, int), num_steps=400, on_termination="reward")
        assert estimate.gain == 1.0
        assert envs.updates == 0
        assert "norm_reward=False" in notes_of(estimate)
        assert "training=False" in notes_of(estimate)
        assert (envs.norm_reward, envs.training) == (True, True)
        quiet = VecNormalize(DummyVecEnv([Ages] * 2), training=False, norm_reward=False)
        assert "VecNormalize" not in notes_of(gb.evaluate(quiet, lambda seen: np.ones(2, int), num_steps=400))

    def test_what_a_wrong_one_returns_is_said(self):
        envs = DummyVecEnv([Ages])
        envs.step = lambda actions: (0, 1.0, False)
        with pytest.raises(ValueError, match="step of the environment must return five values"):
            gb.evaluate(envs, "random", num_steps=400)


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, as far as it is needed."""
    monkeypatch.setitem(sys.modules, "torch", FAKE_TORCH)
    return FAKE_TORCH


@pytest.mark.usefixtures("torch")
class TestModules:
    def ask(self, module, seen=None, done=None, given=None, batched=False, **options):
        seen = spaces.Box(-1.0, 1.0, (2,)) if seen is None else seen
        done = spaces.Discrete(3, start=4) if done is None else done
        given = np.zeros(2, np.float32) if given is None else given
        notes = []
        act = acting(module, seen, done, np.random.default_rng(0), batched, notes=notes, **options)
        return act(given), notes

    def test_logits(self):
        module = Module(lambda seen: Tensor(np.tile([0.0, 5.0, 1.0], (len(seen.given), 1))))
        action, notes = self.ask(module)
        assert action == 5
        assert notes == [
            "the 3 outputs of the module are taken for logits: the largest is chosen (deterministic=True)"
        ]
        many, _ = self.ask(
            module, done=spaces.MultiDiscrete([3, 3], start=[4, 4]), given=np.zeros((2, 2)), batched=True
        )
        assert many.tolist() == [5, 5]

    def test_logits_are_drawn_by_their_softmax(self):
        logits = np.log([0.2, 0.5, 0.3])
        act = acting(
            Module(lambda seen: Tensor(logits[None])),
            spaces.Box(-1.0, 1.0, (2,)),
            spaces.Discrete(3),
            np.random.default_rng(0),
            deterministic=False,
            notes=(notes := []),
        )
        drawn = np.bincount([act(np.zeros(2)) for _ in range(4_000)], minlength=3) / 4_000
        assert np.abs(drawn - [0.2, 0.5, 0.3]).max() < 4 * np.sqrt(0.25 / 4_000)
        assert "an action is drawn by their softmax" in notes[0]

    def test_integers_and_boxes_are_actions(self):
        assert self.ask(Module(lambda seen: Tensor([6])))[0] == 6
        box = spaces.Box(-2.0, 2.0, (1,))
        action, notes = self.ask(Module(lambda seen: Tensor([[0.25]])), done=box)
        assert action.tolist() == [0.25]
        assert notes == []

    @pytest.mark.parametrize(
        ("space", "given", "kind"),
        [
            (spaces.Discrete(4), 2, np.int64),
            (spaces.Box(0, 255, (2, 2), np.uint8), np.zeros((2, 2), np.uint8), np.float32),
            (spaces.MultiBinary(3), np.ones(3, np.int8), np.float32),
            (spaces.MultiDiscrete([3, 4]), np.ones(2, np.int64), np.int64),
        ],
    )
    def test_what_it_is_given(self, space, given, kind):
        seen = []
        self.ask(Module(lambda tensor: seen.append(tensor) or Tensor([4])), seen=space, given=given)
        assert seen[0].shape == (1, *space.shape)
        assert seen[0].dtype is kind

    def test_parts_of_an_observation(self):
        seen = []
        module = Module(lambda tensors: seen.append(tensors) or Tensor([4]))
        self.ask(module, seen=Scene.observation_space, given=Scene.observation_space.sample())
        assert seen[0]["image"].shape == (1, 4, 4, 1)

    @pytest.mark.parametrize(
        ("output", "message"),
        [
            (lambda seen: Tensor([[1.0, 2.0]]), r"float64 of shape \(1, 2\), .* 3 logits or an integer"),
            (lambda seen: (Tensor([1]), Tensor([2])), "returned a tuple of 2, a tensor is expected"),
            (lambda seen: [4], "returned an object list"),
        ],
    )
    def test_nothing_is_guessed(self, output, message):
        with pytest.raises(ValueError, match=message):
            self.ask(Module(output))

    def test_training_mode_is_spoken_of(self):
        module = Module(lambda seen: Tensor([4]))
        module.training = True
        assert "call its method eval()" in self.ask(module)[1][0]

    def test_in_a_run(self):
        module = Module(lambda seen: Tensor(np.tile([0.0, 1.0], (len(seen.given), 1))))
        estimate = gb.evaluate(Ages(), module, num_steps=400, on_termination="reward")
        assert estimate.gain == 1.0
        assert estimate.diagnostics.num_chains == 4  # a module cannot look at the environment
        assert "taken for logits" in notes_of(estimate)
        with pytest.raises(ValueError, match="the policy failed in step 0: ValueError: the module returned"):
            gb.evaluate(Ages, Module(lambda seen: Tensor([[1.0]])), num_steps=400)

    def test_a_function_that_returns_tensors(self):
        estimate = gb.evaluate(Ages, lambda seen: Tensor(1), num_steps=400, on_termination="reward")
        assert estimate.gain == 1.0
        with pytest.raises(ValueError, match=r"the policy chose .*not an integer"):
            gb.evaluate(Ages, lambda seen: Tensor([0.5, 0.25]), num_steps=400)


def test_torch_is_not_imported():
    code = (
        "import sys, gainbias as gb; gb.evaluate('FrozenLake-v1', lambda seen: 1, num_steps=100); "
        "assert not {'torch', 'stable_baselines3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
class TestTheRealOnes:
    """What the stand-ins are for; skipped where the packages are not installed."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("stable_baselines3").common.utils.set_random_seed(0)
        pytest.importorskip("torch").set_num_threads(1)

    @pytest.mark.parametrize(
        ("name", "env"),
        [
            ("PPO", "CartPole-v1"),
            ("A2C", "CartPole-v1"),
            ("DQN", "CartPole-v1"),
            ("SAC", "Pendulum-v1"),
            ("TD3", "Pendulum-v1"),
            ("DDPG", "Pendulum-v1"),
        ],
    )
    def test_agents(self, name, env):
        import stable_baselines3

        agent = getattr(stable_baselines3, name)("MlpPolicy", env, seed=0, device="cpu")
        for options in ({}, {"deterministic": False}):
            estimate = gb.evaluate(env, agent, num_steps=200, **options)
            assert np.isfinite(estimate.gain)
            assert "deterministic=" in notes_of(estimate)
        assert np.isfinite(gb.evaluate(agent.get_env(), agent, num_steps=100).gain)

    @pytest.mark.parametrize("policy", ["MultiInputPolicy", "CnnPolicy"])
    def test_policies_of_pictures(self, policy):
        from stable_baselines3 import PPO
        from stable_baselines3.common.vec_env import DummyVecEnv as RealVecEnv

        class Large(Scene):
            picture = spaces.Box(0, 255, (36, 36, 1), np.uint8)
            observation_space = (
                picture
                if policy == "CnnPolicy"
                else spaces.Dict({"image": picture, "age": spaces.Discrete(8)})
            )

            def look(self):
                image = self.np_random.integers(0, 256, (36, 36, 1), dtype=np.uint8)
                return image if policy == "CnnPolicy" else {"image": image, "age": np.int64(self.age)}

        agent = PPO(policy, Large(), n_steps=8, batch_size=8, device="cpu")
        single = gb.evaluate(Large, agent, num_steps=100)
        assert single.diagnostics.num_chains == 4
        several = gb.evaluate(RealVecEnv([Large] * 2), agent, num_steps=100)
        for estimate in (single, several):
            assert np.isfinite(estimate.gain)

    def test_recurrent_agents(self):
        contrib = pytest.importorskip("sb3_contrib")
        agent = contrib.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
        for env in ("CartPole-v1", gymnasium.make_vec("CartPole-v1", 2), agent.get_env()):
            assert "memory back" in notes_of(gb.evaluate(env, agent, num_steps=200))

    def test_the_stand_ins_return_the_same_as_the_real_ones(self):
        from stable_baselines3.common import vec_env

        for make in (lambda: Queue(), lambda: Scene(ends=5, cut=3)):
            real, stand_in = vec_env.DummyVecEnv([make] * 2), DummyVecEnv([make] * 2)
            for envs in (real, stand_in):
                envs.seed(3)
            both = [envs.reset() for envs in (real, stand_in)]
            np.testing.assert_equal(*both)
            for _ in range(20):
                np.testing.assert_equal(*(envs.step(np.ones(2, int)) for envs in (real, stand_in)))

    def test_normalised_rewards(self):
        from stable_baselines3.common import vec_env

        envs = vec_env.VecNormalize(vec_env.DummyVecEnv([lambda: Scene()] * 2), norm_obs=False)
        estimate = gb.evaluate(envs, lambda seen: np.ones(2, int), num_steps=200, on_termination="reward")
        assert estimate.gain == 1.0
        assert (envs.norm_reward, envs.training) == (True, True)

    def test_modules(self):
        import torch

        network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()
        by_module = gb.evaluate("CartPole-v1", network, num_steps=400)
        by_function = gb.evaluate(
            "CartPole-v1", lambda seen: network(torch.as_tensor(seen)).argmax(), num_steps=400
        )
        assert by_module.gain == by_function.gain
        assert "taken for logits" in notes_of(by_module)
        assert np.isfinite(gb.evaluate("FrozenLake-v1", torch.nn.Embedding(16, 4), num_steps=400).gain)
        assert np.isfinite(gb.evaluate(gymnasium.make_vec("CartPole-v1", 2), network, num_steps=400).gain)


def test_the_stand_ins_name_their_versions():
    assert "2.9.2" in baselines.__doc__
    assert "2.13.0" in baselines.__doc__
