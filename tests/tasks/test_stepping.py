"""Models found by stepping against the environments themselves."""

import mo_gymnasium
import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.gym.multi_objective import deep_sea, fruit_tree, resource_gathering, stepped_table
from tests.tasks.replay import replay_process, replay_table

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered:UserWarning")

MODELS = {
    "deep-sea-treasure-v0": (lambda: deep_sea("deep-sea-treasure"), {}, 72),
    "deep-sea-treasure-concave-v0": (lambda: deep_sea("deep-sea-treasure-concave"), {}, 72),
    "resource-gathering-v0": (resource_gathering, {}, 100),
    "fruit-tree-v0": (lambda: fruit_tree(5), {"depth": 5}, 63),
}


@pytest.fixture(params=MODELS)
def case(request):
    read, options, size = MODELS[request.param]
    return mo_gymnasium.make(request.param, **options), read(), size


def test_replay(case):
    env, model, size = case
    assert model.table.num_states == size
    seen = replay_table(env, model.table, num_steps=20_000, seed=5)
    assert len(seen) > 60  # many states and actions were tried


def test_the_source_is_recorded(case):
    env, model, _ = case
    assert model.source["environment"] == env.spec.id
    assert set(model.source) >= {"gymnasium", "mo-gymnasium"}


def test_a_treasure_is_terminal_and_pays_its_part_of_the_largest():
    model = deep_sea("deep-sea-treasure")
    table = gb.scalarise(model.table, model.weights)
    assert table.rewards.max() == pytest.approx(1.0, rel=1e-12)
    assert table.rewards.min() == 0.0
    assert len({table.labels[state] for state in table.successors[table.ended]}) == 10


class TestResourceGathering:
    model = resource_gathering()

    def test_the_chance_to_be_killed_is_found_to_the_last_bit(self):
        chances = np.unique(self.model.table.probabilities)
        assert chances.tolist() == [0.1, 0.9, 1.0]

    def test_replay_of_the_process_with_split_ends(self):
        table = gb.scalarise(self.model.table, self.model.weights)
        law = np.full(4, 0.25)
        process = gb.continuing(table, np.tile(law, (100, 1)))
        assert process.num_states == 96 + 9  # the enemies' cells with all flags, and home with empty hands

        class Summed:
            def __init__(self, env):
                self.env = env

            def reset(self, **options):
                return self.env.reset(**options)

            def step(self, action):
                observation, reward, *rest = self.env.step(action)
                return observation, float(reward.sum()), *rest

        env = Summed(mo_gymnasium.make("resource-gathering-v0").unwrapped)
        replay_process(env, process, law, num_steps=30_000, seed=6)

    def test_the_paper_s_states_are_all_cells_and_flags(self):
        table = gb.scalarise(self.model.table, self.model.weights)
        kept = gb.continuing(table, np.zeros(100, dtype=int), states="all", endings="restart")
        assert kept.num_states == 100


class Dice:
    """An environment with a step that is as random as asked for."""

    class action_space:
        n = 1

    def __init__(self, faces=2, rolls=1, random_start=False):
        self.faces, self.rolls, self.random_start = faces, rolls, random_start

    def reset(self):
        return [int(self.random_start and self.np_random.random() < 0.5)], {}

    def step(self, action):
        face = sum(int(self.faces * self.np_random.random()) for _ in range(self.rolls))
        return [face], [1.0], True, False, {}


class TestAssumptions:
    def test_two_faces(self):
        table = stepped_table(Dice(), lambda env, state: None)
        assert table.probabilities[:2].tolist() == [0.5, 0.5]

    @pytest.mark.parametrize(
        ("dice", "message"),
        [
            (Dice(faces=3), "a step of Dice has more than two outcomes"),
            (Dice(rolls=2), "a step of Dice uses 2 random numbers, not one"),
            (Dice(random_start=True), "episodes of Dice start at random"),
        ],
    )
    def test_what_cannot_be_found_is_refused(self, dice, message):
        with pytest.raises(ValueError, match=message):
            stepped_table(dice, lambda env, state: None)
