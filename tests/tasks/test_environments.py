"""Gymnasium's tables against the environments that carry them, and every way to ask for them."""

import sys
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import gainbias as gb
from gainbias.extras import optional
from gainbias.tasks.gym.installed import installed_id
from tests.tasks.replay import replay_process, replay_table

IDS = ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"]
UNIFORM_LAKE = np.full((16, 4), 0.25)


@pytest.fixture(params=IDS)
def env(request):
    made = gymnasium.make(request.param)
    yield made
    made.close()


class TestReplay:
    def test_tables(self, env):
        replay_table(env, gb.gymnasium_table(env), num_steps=20_000, seed=1)

    def test_a_slippery_cliff_and_a_rainy_day(self):
        for name, options in [("CliffWalking-v1", {"is_slippery": True}), ("Taxi-v4", {"is_rainy": True})]:
            made = gymnasium.make(name, **options)
            replay_table(made, gb.gymnasium_table(made), num_steps=20_000, seed=2)

    def test_processes(self, env):
        law = np.full(env.action_space.n, 1.0 / env.action_space.n)
        process = gb.from_gymnasium(env, np.tile(law, (env.observation_space.n, 1)))
        endless = env.unwrapped  # without the time limit, which would cut episodes in the middle
        replay_process(endless, process, law, num_steps=20_000, seed=3, rewards_by_transition=False)

    def test_the_gain_is_the_mean_reward(self):
        made = gymnasium.make("FrozenLake-v1").unwrapped
        process = gb.from_gymnasium(made, UNIFORM_LAKE)
        solution = gb.solve(process)
        mean = replay_process(made, process, np.full(4, 0.25), num_steps=40_000, seed=4)
        assert abs(mean - solution.gain) < 4 * np.sqrt(solution.asymptotic_variance / 40_000)

    def test_a_wrong_table_is_noticed(self):
        made = gymnasium.make("FrozenLake-v1")
        steady = gb.gymnasium_table(gymnasium.make("FrozenLake-v1", is_slippery=False))
        with pytest.raises(AssertionError):
            replay_table(made, steady, num_steps=1_000, seed=0)
        table = made.unwrapped.P
        table[0][0] = [(0.5, 0, 0, False), (0.5, 4, 0, False)]  # in truth 2/3 and 1/3
        with pytest.raises(AssertionError):
            replay_table(gymnasium.make("FrozenLake-v1"), gb.gymnasium_table(made), num_steps=20_000, seed=0)


class TestStates:
    @pytest.mark.parametrize(
        ("name", "reachable", "size"),
        [("FrozenLake-v1", 16, 16), ("CliffWalking-v1", 38, 48), ("Taxi-v4", 404, 500)],
    )
    def test_reachable_or_all(self, name, reachable, size):
        policy = np.zeros(size, dtype=int)
        process = gb.from_gymnasium(name, policy)
        assert process.num_states == reachable
        assert gb.from_gymnasium(name, policy, states="all").num_states == size
        assert set(process.labels) <= set(range(size))

    def test_duplicate_successors_are_summed(self):
        # In a corner of the lake two of the three slips stay where they are.
        process = gb.from_gymnasium("FrozenLake-v1", np.zeros(16, dtype=int))
        assert process.csr[0, 0] == pytest.approx(2 / 3, rel=1e-15)

    def test_a_deterministic_walk_by_hand(self):
        # Up, 11 times right, down: 13 steps that cost 1, and one to restart.
        policy = np.full(48, 1)
        policy[36], policy[35] = 0, 2
        process = gb.from_gymnasium("CliffWalking-v1", policy, states="visited")
        assert process.num_states == 14
        assert gb.solve(process).gain == pytest.approx(-13 / 14, rel=1e-14)

    def test_policies_may_be_functions(self):
        by_table = gb.from_gymnasium("FrozenLake-v1", np.arange(16) % 4)
        by_function = gb.from_gymnasium("FrozenLake-v1", lambda observation: observation % 4)
        assert by_table.fingerprint == by_function.fingerprint


class TestTimeLimits:
    def test_truncation_is_no_termination(self):
        short = gymnasium.make("FrozenLake-v1", max_episode_steps=2)
        long = gymnasium.make("FrozenLake-v1")
        processes = [gb.from_gymnasium(made, UNIFORM_LAKE) for made in (short, long, long.unwrapped)]
        assert len({process.fingerprint for process in processes}) == 1


class TestIds:
    @pytest.mark.parametrize(
        ("wanted", "what"),
        [
            ("FrozenLake-v2", r"no environment 'FrozenLake-v2', only FrozenLake-v1: say which version"),
            ("Taxi-v3", r"no environment 'Taxi-v3', only Taxi-v4: say .* or 'Taxi' for the newest"),
            ("CliffWalking-v01", "only CliffWalking-v1"),
            ("CliffWalking-v\u00b2", "no environment 'CliffWalking-v\u00b2'"),
            ("frozenlake-v1", "did you mean 'FrozenLake-v1'"),
            ("Nowhere/Lake-v1", "nothing is registered under Nowhere/: import the package that does it"),
            ("gymnasium:FrozenLake-v2", "only FrozenLake-v1"),
            ("no_such_package:FrozenLake-v1", "'no_such_package' cannot be imported"),
            (":FrozenLake-v1", "cannot be imported"),
        ],
    )
    @pytest.mark.parametrize(
        "use",
        [
            installed_id,
            gb.gymnasium_table,
            lambda name: gb.from_gymnasium(name, [0] * 16),
            lambda name: gb.evaluate(name, "random", num_steps=100),
            lambda name: gb.compare(name, "random", "random", num_steps=100),
        ],
    )
    def test_an_id_that_does_not_exist_is_never_another_one(self, use, wanted, what):
        with pytest.raises(ValueError, match=what):
            use(wanted)

    @pytest.mark.parametrize("name", ["FrozenLake", "gymnasium:FrozenLake-v1", "gymnasium:FrozenLake"])
    def test_ids_as_gymnasium_reads_them(self, name):
        assert gb.gymnasium_table(name).fingerprint == gb.gymnasium_table("FrozenLake-v1").fingerprint
        estimate = gb.evaluate(name, "random", num_steps=4_000)
        assert estimate.gain == gb.evaluate("FrozenLake-v1", "random", num_steps=4_000).gain
        notes = " ".join(estimate.diagnostics.notes)
        assert ("the newest, " in notes) == (not name.endswith("-v1"))

    def test_the_newest_of_several(self, monkeypatch):
        registry = {f"Boat-v{k}": SimpleNamespace(version=k) for k in (2, 10, 9)}
        registry["Boat-v3-Large"] = SimpleNamespace(version=None)
        monkeypatch.setattr(gymnasium, "registry", registry)
        assert [installed_id(name) for name in ("Boat", "Boat-v9")] == ["Boat-v10", "Boat-v9"]
        with pytest.raises(ValueError, match=r"no environment 'Boat-v1', only Boat-v2, Boat-v9, Boat-v10:"):
            installed_id("Boat-v1")

    def test_unknown_ids(self):
        with pytest.raises(ValueError, match=r"no environment 'FrozenLoke-v1': did you mean 'FrozenLake-v1'"):
            gb.gymnasium_table("FrozenLoke-v1")


class TestRefusals:
    def test_environments_without_a_table(self):
        with pytest.raises(ValueError, match="CartPoleEnv has no attribute 'P'"):
            gb.gymnasium_table("CartPole-v1")

    def test_what_is_no_environment(self):
        with pytest.raises(ValueError, match="must be a gymnasium environment or its id, found int"):
            gb.gymnasium_table(3)

    def test_wrappers_that_may_change_the_model(self):
        wrapped = gymnasium.wrappers.TransformReward(
            gymnasium.make("FrozenLake-v1"), lambda reward: 2 * reward
        )
        with pytest.raises(ValueError, match="the wrapper TransformReward may change"):
            gb.from_gymnasium(wrapped, UNIFORM_LAKE)
        harmless = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("FrozenLake-v1"))
        assert gb.from_gymnasium(harmless, UNIFORM_LAKE).num_states == 16

    def test_a_passenger_who_changes_his_mind(self):
        with pytest.raises(ValueError, match="fickle_passenger=True"):
            gb.gymnasium_table(gymnasium.make("Taxi-v4", fickle_passenger=True))

    @pytest.mark.parametrize(("module", "extra"), [("gymnasium", "gym"), ("mo_gymnasium", "mo")])
    def test_a_missing_extra_is_named(self, monkeypatch, module, extra):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            ImportError, match=rf"{module.replace('_', '-')}.*pip install 'gainbias\[{extra}\]'"
        ):
            optional(module)

    def test_nothing_is_imported_or_warned_about_without_need(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gb.gymnasium_table("Taxi-v4")
