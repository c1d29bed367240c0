"""All tasks: their sizes and sources, the paper's numbers, and that only the seed is random."""

import csv
import importlib
import json
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.registry import NORMALISATION

DATA = Path(gb.__file__).parent / "tasks" / "data"
SIZES = {
    "random-walk-50": (50, 5),
    "random-walk-100": (100, 20),
    "random-walk-1000": (1000, 100),
    "frozen-lake": (16, 10),
    "cliff-walking": (48, 20),
    "taxi": (500, 100),
    "grid-world-5x5": (25, 10),
    "grid-world-10x10": (100, 40),
    "grid-world-2x11": (22, 10),
    "deep-sea": (72, 20),
    "deep-sea-concave": (72, 20),
    "resource-gathering": (100, 50),
    "fruit-tree-5": (63, 50),
    "fruit-tree-6": (127, 50),
    "fruit-tree-7": (255, 50),
}
OTHER_SIZES = {
    "mm1k-admission": (8, 8),
    "access-control": (44, 44),
    "river-swim": (6, 6),
    "boyan-chain": (13, 4),
    "two-loop": (9, 9),
    "machine-replacement": (12, 12),
    "inventory": (21, 21),
    "garnet": (30, 8),
    "garet": (30, 8),
}


@pytest.fixture(params=SIZES)
def name(request):
    return request.param


class TestTasks:
    def test_the_ids_are_those_of_the_paper_in_its_order_and_then_the_others(self):
        assert list(gb.TASKS) == [*SIZES, *OTHER_SIZES]
        assert [name for name, recipe in gb.TASKS.items() if recipe.paper] == list(SIZES)

    def test_problems_are_ergodic_and_of_the_right_size(self, name):
        task = gb.task(name)
        assert (task.problem.mrp.num_states, task.problem.num_features) == SIZES[name]
        assert gb.TASKS[name].num_states == SIZES[name][0]
        assert task.problem.mrp.is_ergodic
        assert (task.problem.mrp.transitions > 0.0).all()
        assert task.problem.features.max_row_norm <= 1.0 + 1e-12
        assert repr(task) == "Task({}, {} states, {} features, seed 0, literal)".format(name, *SIZES[name])

    def test_literal_features_express_the_bias_exactly(self, name):
        problem = gb.task(name).problem
        assert problem.ones_in_span
        bias = problem.solution.bias
        np.testing.assert_allclose(problem.values, bias, atol=1e-7 * np.ptp(bias))

    def test_inferred_features_do_not(self, name):
        problem = gb.task(name, protocol="inferred").problem
        np.testing.assert_allclose(problem.features.row_norms, 1.0, rtol=1e-12)
        assert not problem.ones_in_span
        assert np.abs(problem.values - problem.solution.bias).max() > 1e-4 * np.ptp(problem.solution.bias)

    def test_rewards_are_those_before_smoothing(self, name):
        settings = gb.TASKS[name].settings
        if "epsilon" in settings:
            first, second = (gb.task(name, epsilon=epsilon).problem.mrp for epsilon in (0.3, 0.6))
            np.testing.assert_array_equal(first.rewards, second.rewards)
            assert np.ptp(first.rewards) > 0.0

    def test_all_are_made_quickly(self):
        gb.task("grid-world-5x5")  # kernels are compiled on first use, and kept on disk
        start = time.perf_counter()
        for name in gb.TASKS:
            gb.task(name, seed=11)
        assert time.perf_counter() - start < 20.0

    def test_protocols_share_the_chain(self):
        tasks = [gb.task("deep-sea", seed=4, protocol=protocol) for protocol in NORMALISATION]
        assert len({task.problem.mrp.fingerprint for task in tasks}) == 1
        literal, inferred, fair = (task.fingerprint for task in tasks)
        assert literal == fair != inferred


@pytest.mark.parametrize("name", OTHER_SIZES)
class TestOtherTasks:
    def test_sizes_are_those_of_the_listing(self, name):
        problem = gb.task(name).problem
        assert (problem.mrp.num_states, problem.num_features) == OTHER_SIZES[name]
        assert gb.TASKS[name].num_states == OTHER_SIZES[name][0]
        assert problem.mrp.is_irreducible
        assert problem.features.max_row_norm <= 1.0 + 1e-12

    def test_plain_numpy_gives_the_same_gain_and_bias(self, name):
        problem = gb.task(name, seed=1).problem
        chain, rewards = problem.mrp.csr.toarray(), problem.mrp.rewards
        size = rewards.size
        system = np.block([[np.eye(size) - chain, np.ones((size, 1))], [problem.solution.stationary, 0.0]])
        *bias, gain = np.linalg.solve(system, [*rewards, 0.0])
        assert problem.solution.gain == pytest.approx(gain, abs=1e-10)
        np.testing.assert_allclose(problem.solution.bias, bias, atol=1e-9 * max(1.0, np.ptp(bias)))
        law = problem.solution.stationary
        np.testing.assert_allclose(law @ chain, law, atol=1e-14)
        assert law.sum() == pytest.approx(1.0)

    def test_their_own_features_or_the_papers(self, name):
        paper = gb.task(name, num_features=4, protocol="inferred").problem.features
        assert paper.num_features == 4
        np.testing.assert_allclose(paper.row_norms, 1.0, rtol=1e-12)
        assert gb.task(name, protocol="fair").fingerprint == gb.task(name).fingerprint
        if gb.TASKS[name].features is not None:
            assert gb.TASKS[name].settings["num_features"] is None
            with pytest.raises(ValueError, match=f"{name} has features of its own, .* set num_features"):
                gb.task(name, protocol="inferred")

    def test_every_setting_has_an_effect(self, name):
        changes = {
            "num_features": 3,
            "num_servers": 12,
            "priorities": [1.0, 2.0, 4.0, 9.0],
            "least_free": [9, 4, 1, 1],
            "num_states": 9,
            "branching": 3,
        }
        base = {"swim": 0.5} if name == "river-swim" else {}  # who always swims gets no small reward
        for setting, default in gb.TASKS[name].settings.items():
            if setting != "capacity":  # it only limits the threshold
                if setting not in changes:
                    changes[setting] = default // 2 if isinstance(default, int) else 0.75 * default
                changed = gb.task(name, **{**base, setting: changes[setting]})
                assert changed.fingerprint != gb.task(name, **base).fingerprint, setting

    def test_settings_and_source_are_plain(self, name):
        task = gb.task(name)
        json.dumps([task.settings, task.source])
        assert task.settings == gb.TASKS[name].settings
        assert task.paper is None
        assert "Bridging the Gap" not in task.citation
        assert gb.TASKS[name].summary.endswith(".")
        assert pickle.loads(pickle.dumps(task)).fingerprint == task.fingerprint  # noqa: S301


class TestSources:
    def test_environments_and_versions_are_recorded(self):
        assert gb.task("taxi").source["environment"] == "Taxi-v4"
        assert gb.task("cliff-walking").source["environment"] == "CliffWalking-v1"
        source = gb.task("resource-gathering").source
        assert {"environment", "gymnasium", "mo-gymnasium", "table", "process", "weights"} == set(source)
        json.dumps(source)

    def test_every_choice_is_recorded(self):
        task = gb.task("taxi", epsilon=0.25, episodes=9_000)
        assert task.settings == {**gb.TASKS["taxi"].settings, "epsilon": 0.25, "episodes": 9_000}
        json.dumps(task.settings)

    def test_each_task_has_a_citation_and_a_summary(self, name):
        recipe = gb.TASKS[name]
        assert "Bridging the Gap" in recipe.citation
        assert recipe.summary.endswith(".")

    def test_tasks_travel(self):
        task = gb.task("frozen-lake")
        assert pickle.loads(pickle.dumps(task)).fingerprint == task.fingerprint  # noqa: S301


class TestSeeds:
    def test_same_seed_same_task_other_seed_other_task(self, name):
        first, same, other = (gb.task(name, seed=seed) for seed in (3, 3, 4))
        assert first.fingerprint == same.fingerprint != other.fingerprint

    def test_the_policy_may_have_its_own_seed(self):
        chains = [gb.task("frozen-lake", seed=seed, policy_seed=7) for seed in (0, 1)]
        assert len({task.problem.mrp.fingerprint for task in chains}) == 1
        assert len({task.fingerprint for task in chains}) == 2

    def test_fingerprints_are_the_same_in_every_process(self):
        names = ["random-walk-50", "frozen-lake", "grid-world-2x11", "resource-gathering"]
        program = f"import gainbias as gb; print(*(gb.task(name, seed=2).fingerprint for name in {names}))"
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert printed.stdout.split() == [gb.task(name, seed=2).fingerprint for name in names]


class TestPolicies:
    """Policies are sensible: they do what the task is about."""

    def test_the_lake_is_crossed(self):
        table = gb.gymnasium_table("FrozenLake-v1")
        for seed in range(5):
            actions = gb.q_learning(table, seed=seed).actions
            solution = gb.solve(gb.continuing(table, actions, states="visited"))
            ends = np.isin(solution.mrp.labels, (5, 7, 11, 12, 15))
            assert solution.gain / solution.stationary[ends].sum() > 0.5  # 0.82 is best, 0.014 is chance

    def test_the_cliff_is_passed_on_the_shortest_way(self):
        table = gb.gymnasium_table("CliffWalking-v1")
        actions = gb.q_learning(table, episodes=1_000).actions
        assert gb.solve(gb.continuing(table, actions, states="visited")).gain == pytest.approx(-13 / 14)

    @pytest.mark.parametrize(
        ("name", "setting", "gain"),
        [
            ("deep-sea", {}, 1.0 / 20),  # the largest treasure after 19 steps, and one to restart
            ("deep-sea-concave", {}, 1.0 / 20),
            ("grid-world-10x10", {}, 1.0 / 19),
        ],
    )
    def test_the_goal_is_reached_by_the_shortest_way(self, name, setting, gain):
        # With hardly any smoothing the gain is that of the bare policy.
        assert gb.task(name, epsilon=1e-9).problem.solution.gain == pytest.approx(gain, rel=1e-5)

    def test_policies_that_need_not_end_are_refused(self):
        with pytest.raises(ValueError, match=r"learned with seed 0 from 1 episodes may go on forever"):
            gb.task("taxi", episodes=1)


class TestScalarisation:
    def test_weights_can_be_chosen(self):
        task = gb.task("deep-sea", weights=[1.0, -0.01])
        assert task.source["weights"] == (1.0, -0.01)
        assert task.problem.mrp.fingerprint != gb.task("deep-sea").problem.mrp.fingerprint

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1.0], "one entry for each of the 2 components"),
            (5, "weights must be a list of numbers, found 5"),
            ("ab", "weights must be a list of numbers, found 'ab'"),
            (["a", 1.0], "each entry of weights must be a finite number, found 'a'"),
        ],
    )
    def test_weights_must_fit(self, weights, message):
        with pytest.raises(ValueError, match=message):
            gb.task("deep-sea", weights=weights)


class TestPaperNumbers:
    def test_they_are_those_of_the_tables(self, name):
        paper = gb.TASKS[name].paper
        parameters = {row["task"]: row for row in self.rows("parameters")}[name]
        assert paper.num_features == SIZES[name][1] == int(parameters["d"])
        assert paper.num_steps == int(parameters["steps"])
        assert (paper.step_numerator, paper.step_offset) == (float(parameters["step_numerator"]), 1000.0)
        assert (paper.epsilon or "") == (float(parameters["epsilon"]) if parameters["epsilon"] else "")
        assert gb.TASKS[name].settings.get("epsilon") == paper.epsilon
        assert set(paper.condition_numbers) == {"eta1", "eta2", "eta3"}
        assert list(paper.distances) == ["double-chain", "single-chain", "td-lambda", "implicit-td"]

    def test_some_by_hand(self):
        lake, tree = gb.TASKS["frozen-lake"].paper, gb.TASKS["fruit-tree-7"].paper
        assert lake.condition_numbers == {"eta1": 4.81e-4, "eta2": 4.26e-4, "eta3": 5.20e-5}
        assert tree.distances["double-chain"] == (0.86, 0.17)
        assert (tree.num_steps, tree.step_numerator, tree.epsilon) == (300_000, 300.0, 0.2)

    def test_the_algorithms_are_ours(self):
        for row in self.rows("distances"):
            assert row["algorithm"] in gb.ALGORITHMS

    @staticmethod
    def rows(table):
        with (DATA / f"{table}.csv").open(newline="") as file:
            return list(csv.DictReader(file))


class TestWrongInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"name": "frozenlake"}, "unknown task 'frozenlake': did you mean 'frozen-lake'"),
            ({"name": 5}, "unknown task 5: the ids are random-walk-50"),
            ({"seed": -1}, "seed must be an integer that is not negative, found -1"),
            ({"seed": 0.5}, "seed must be an integer"),
            ({"protocol": "honest"}, "protocol must be one of literal, inferred, fair, found 'honest'"),
            ({"epsilo": 0.1}, "frozen-lake has no setting 'epsilo', its settings are num_features, epsilon"),
            ({"epsilon": 1.0}, "epsilon must be at least 0 and below 1"),
            ({"epsilon": -0.1}, "epsilon must be at least 0 and below 1, found -0.1"),
            ({"epsilon": "x"}, "epsilon must be at least 0 and below 1, found 'x'"),
            ({"epsilon": None}, "epsilon must be at least 0 and below 1, found None"),
            ({"epsilon": float("nan")}, "epsilon must be at least 0 and below 1, found nan"),
            ({"epsilon": {}}, "epsilon must be a number, a word or a list of these, found {}"),
            ({"num_features": 17}, "and 16, the number of states, found 17"),
            ({"num_features": 1}, "num_features must be an integer between 2, the ones and the bias, and 16"),
            ({"num_features": 4.0}, "num_features must be an integer .* found 4.0"),
            ({"num_features": "x"}, "num_features must be an integer .* found 'x'"),
            ({"num_features": None}, "num_features must be an integer .* found None"),
            ({"episodes": 0}, "episodes must be an integer of at least 1"),
            ({"episodes": True}, "episodes must be an integer of at least 1, found True"),
            ({"learning_rate": "x"}, "learning_rate must be above 0 and at most 1, found 'x'"),
            ({"initial_value": "x"}, "initial_value must be a finite number, found 'x'"),
            ({"policy_seed": -3}, "policy_seed must be an integer that is not negative, found -3"),
            ({"episodes": 10**20}, "episodes must be an integer .* at most 9223372036854775807, found 1000"),
            ({"name": ["taxi"]}, r"unknown task \['taxi'\]: did you mean 'taxi'"),
            ({"protocol": ["fair"]}, r"protocol must be one of literal, inferred, fair, found \['fair'\]"),
        ],
    )
    def test_is_named(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            gb.task(**{"name": "frozen-lake", **arguments})

    def test_a_truth_value_is_no_number_after_an_equal_one(self):
        gb.task("frozen-lake", exploration=1)
        with pytest.raises(ValueError, match="exploration must be at least 0 and at most 1, found True"):
            gb.task("frozen-lake", exploration=True)

    def test_equal_keys_of_other_types_are_checked_too(self):
        gb.task("garnet", branching=10)
        with pytest.raises(ValueError, match="branching must be an integer"):
            gb.task("garnet", branching=10.0)

    def test_settings_of_numpy_are_taken(self):
        task = gb.task("access-control", least_free=np.array([9, 4, 1, 1]), num_servers=np.int64(10))
        assert task.settings["least_free"] == (9, 4, 1, 1)
        assert type(task.settings["num_servers"]) is int

    def test_tasks_can_be_listed_without_gymnasium(self):
        program = (
            "import sys; sys.modules['gymnasium'] = sys.modules['mo_gymnasium'] = None\n"
            "import gainbias as gb\n"
            "print(len(gb.TASKS), gb.task('random-walk-50').problem.num_features)\n"
            "for name in ('taxi', 'deep-sea'):\n"
            "    try: gb.task(name)\n"
            "    except ImportError as error: print(error)\n"
        )
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert printed.stdout.splitlines() == [
            "24 5",
            "this needs gymnasium: pip install 'gainbias[gym]'",
            "this needs mo-gymnasium: pip install 'gainbias[mo]'",
        ]

    def test_the_data_is_packaged(self):
        files = importlib.resources.files("gainbias.tasks").joinpath("data")
        assert sorted(file.name for file in files.iterdir()) == [
            "condition_numbers.csv",
            "distances.csv",
            "parameters.csv",
        ]


def test_a_recipe_without_the_setting_of_features_has_its_own(monkeypatch):
    recipe = gb.TASKS["two-loop"]
    settings = {name: value for name, value in recipe.settings.items() if name != "num_features"}
    monkeypatch.setitem(gb.TASKS, "bare", replace(recipe, name="bare", settings=settings))
    assert gb.task("bare").problem.solution.gain == gb.task("two-loop").problem.solution.gain
