"""Small stand-ins for Stable-Baselines3 and PyTorch, which are not installed with the tests.

They have the attributes and signatures of stable-baselines3 2.9.2 (`DummyVecEnv`, `VecNormalize`,
`BasePolicy.predict`), sb3-contrib 2.9.2 (`RecurrentActorCriticPolicy.predict`) and torch 2.13.0, rebuilt from
their sources as far as `gainbias` touches them. `test_agents` runs the same tests on the real ones where they
are installed.
"""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
from gymnasium import spaces


class DummyVecEnv:
    """Four values from step, one from reset, and resets within the step, as in stable-baselines3 2.9.2."""

    def __init__(self, env_fns):
        self.envs = [make() for make in env_fns]
        self.num_envs = len(env_fns)
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.metadata = {"render_modes": []}
        self.render_mode = None
        self._seeds = [None] * self.num_envs

    def seed(self, seed=None):
        self._seeds = [seed + idx for idx in range(self.num_envs)]
        return self._seeds

    def reset(self):
        seen = [env.reset(seed=seed)[0] for env, seed in zip(self.envs, self._seeds, strict=True)]
        self._seeds = [None] * self.num_envs
        return self._stacked(seen)

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        seen, rewards, dones, infos = [], np.zeros(self.num_envs, np.float32), [], []
        for k, env in enumerate(self.envs):
            obs, rewards[k], terminated, truncated, info = env.step(self.actions[k])
            info["TimeLimit.truncated"] = truncated and not terminated
            dones.append(terminated or truncated)
            if dones[-1]:
                info["terminal_observation"] = obs
                obs, _ = env.reset()
            seen.append(obs)
            infos.append(info)
        return self._stacked(seen), np.copy(rewards), np.array(dones), deepcopy(infos)

    def close(self):
        for env in self.envs:
            env.close()

    def _stacked(self, seen):
        if isinstance(self.observation_space, spaces.Dict):
            return {key: np.stack([one[key] for one in seen]) for key in self.observation_space.spaces}
        return np.stack(seen)


class VecNormalize:
    """Divides rewards by a number, and learns it while `training`, as in stable-baselines3 2.9.2."""

    def __init__(self, venv, training=True, norm_reward=True):
        self.venv, self.training, self.norm_reward = venv, training, norm_reward
        self.num_envs, self.metadata = venv.num_envs, venv.metadata
        self.observation_space, self.action_space = venv.observation_space, venv.action_space
        self.updates = 0

    def seed(self, seed=None):
        return self.venv.seed(seed)

    def reset(self):
        return self.venv.reset()

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions):
        self.venv.step_async(actions)

    def step_wait(self):
        obs, rewards, dones, infos = self.venv.step_wait()
        self.updates += self.training
        return obs, (rewards / 100.0 if self.norm_reward else rewards).astype(np.float32), dones, infos

    def close(self):
        self.venv.close()


class Agent:
    """An agent whose method predict has the signature of stable-baselines3 2.9.2, and its care for shapes.

    It takes action 1, and where `deterministic` is false it draws.
    """

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space
        self.asked, self.rng = [], np.random.default_rng(0)

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        if isinstance(observation, tuple):
            raise ValueError("You have passed a tuple to the predict() function instead of a Numpy array")
        self.asked.append(deterministic)
        key = next(iter(self.observation_space)) if isinstance(observation, dict) else None
        part = observation if key is None else observation[key]
        space = self.observation_space if key is None else self.observation_space[key]
        shape, expected = np.shape(part), space.shape
        if shape not in (expected, (len(part) if shape else 0, *expected)):
            raise ValueError(f"Error: Unexpected observation shape {shape}")
        vectorized = shape != expected
        count = len(part) if vectorized else 1
        actions = np.ones(count, np.int64) if deterministic else self.rng.integers(0, 2, count)
        return (actions if vectorized else actions.squeeze(axis=0)), state


class RecurrentAgent:
    """An agent with a memory, as in sb3-contrib 2.9.2: action 1 in every third step of an episode."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        vectorized = np.ndim(observation) == 1  # observations are discrete
        count = len(observation) if vectorized else 1
        if state is None:
            state = (np.zeros(count), np.zeros(count))
        if episode_start is None:
            episode_start = np.array([False] * count)
        assert np.shape(episode_start) == (count,)
        age = np.where(episode_start, 0.0, state[0])
        actions = (age % 3 == 0).astype(np.int64)
        memory = (age + 1.0, state[1])
        return (actions if vectorized else actions.squeeze(axis=0)), memory


class Tensor:
    """Numbers that NumPy does not take by itself, with the methods of torch 2.13.0 that lead to it."""

    def __init__(self, given, dtype=None):
        self.given = np.asarray(given, dtype=dtype)
        self.device = "cpu"

    @property
    def dtype(self):
        return self.given.dtype.type

    @property
    def shape(self):
        return self.given.shape

    def is_floating_point(self):
        return self.given.dtype.kind == "f"

    def detach(self):
        return Tensor(self.given)

    def cpu(self):
        return self

    def numpy(self):
        return self.given

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class Module:
    """A module of PyTorch: `forward` is from tensors to a tensor, and it has weights and a mode."""

    def __init__(self, forward, weights=(0.0,)):
        self.forward, self.training = forward, False
        self.weights = [Tensor(weights, np.float32)]

    def parameters(self):
        return iter(self.weights)

    def __call__(self, *arguments):
        assert FAKE_TORCH.gradients == 0, "torch.no_grad() is missing"
        return self.forward(*arguments)


class _NoGrad:
    def __enter__(self):
        FAKE_TORCH.gradients = 0

    def __exit__(self, *error):
        FAKE_TORCH.gradients = 1


FAKE_TORCH = SimpleNamespace(
    nn=SimpleNamespace(Module=Module),
    no_grad=_NoGrad,
    as_tensor=lambda given, dtype=None, device=None: Tensor(given, dtype),
    float32=np.float32,
    int64=np.int64,
    gradients=1,
)
"""In the place of torch in `sys.modules`."""
