"""Every form of a policy."""

import numpy as np
import pytest
from gymnasium import spaces

from gainbias.evaluation.sources.policies import acting

THREE, TWO = spaces.Discrete(3, start=1), spaces.Discrete(2, start=5)
BOX = spaces.Box(-1.0, 1.0, (2,))


def act(policy, seen=THREE, done=TWO, batched=False):
    return acting(policy, seen, done, np.random.default_rng(1), batched)


class Agent:
    def __init__(self, state=None):
        self.state, self.asked = state, []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.asked.append(deterministic)
        return np.array(6), self.state

    def __call__(self, observation):
        raise AssertionError("an agent that can also be called is asked to predict")


class Plain:
    def predict(self, observation):
        return 5


class TestForms:
    def test_function(self):
        assert act(lambda seen: seen + 4)(1) == 5

    def test_array_of_actions(self):
        assert [act([5, 6, 5])(seen) for seen in (1, 2, 3)] == [5, 6, 5]
        many = act([5, 6, 5], done=spaces.MultiDiscrete([2, 2], start=[5, 5]), batched=True)
        assert many(np.array([2, 1])).tolist() == [6, 5]

    def test_array_of_probabilities(self):
        table = np.array([[0.3, 0.7], [1.0, 0.0], [0.0, 1.0]])
        for chooser in (
            act(table),
            lambda seen: act(table, done=spaces.MultiDiscrete([2], start=[5]), batched=True)(
                np.array([seen])
            )[0],
        ):
            assert {int(chooser(2)) for _ in range(50)} == {5}
            assert {int(chooser(3)) for _ in range(50)} == {6}
        chooser = act(table)
        share = np.mean([chooser(1) == 6 for _ in range(4_000)])
        assert abs(share - 0.7) < 4 * np.sqrt(0.21 / 4_000)

    def test_rounding_leaves_no_room_for_an_impossible_action(self):
        table = np.tile([0.1] * 3 + [0.7 - 1e-9, 0.0], (3, 1))
        high = type("High", (), {"random": staticmethod(lambda: np.nextafter(1.0, 0.0))})()
        assert acting(table, THREE, spaces.Discrete(5), high)(1) == 3

    def test_agent(self):
        agent = Agent()
        assert act(agent)(1) == 6
        assert agent.asked == [True]
        assert act(Agent(state=1))(1) == 6
        assert act(Plain())(1) == 5

    def test_random(self):
        TWO.seed(1)
        assert {int(act("random")(1)) for _ in range(50)} == {5, 6}


class TestErrors:
    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ("best", "policy must be 'random'"),
            ([5, 6], r"integers of shape \(3,\).*\(3, 2\).*found shape \(2,\)"),
            ([5.0, 6.0, 5.0], "dtype float64"),
            ([5, 7, 5], "takes action 7 at observation 2, actions must be between 5 and 6"),
            ([[0.5, 0.5], [0.5, 0.4], [1.0, 0.0]], "at observation 2 are .*sum to 1"),
            ([[0.5, 0.5], [1.5, -0.5], [1.0, 0.0]], "at observation 2 are"),
        ],
    )
    def test_named(self, policy, message):
        with pytest.raises(ValueError, match=message):
            act(policy)

    def test_arrays_are_for_discrete_spaces(self):
        with pytest.raises(ValueError, match="discrete observations only"):
            act([0, 1], seen=BOX)
        with pytest.raises(ValueError, match="discrete actions only"):
            act([0, 1, 0], done=BOX)
