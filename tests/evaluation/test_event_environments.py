"""Environments whose steps say how long they took: gain per unit of time, values, comparisons and looks."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import gainbias as gb
from benchmarks import event_coverage
from gainbias import cli
from gainbias.evaluation.gain.batches import BatchMeans, RatioDifference, RatioMeans
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.evaluation.sources.environments import environment_stream
from tests.evaluation.baselines import DummyVecEnv
from tests.evaluation.test_event_logs import TRUTH


class Jumps(gymnasium.Env):
    """The process of four states; action 1 makes a step take half the time, for a price."""

    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)

    def __init__(self, key="dt", wrong=None, length=None):
        self.key, self.wrong, self.length = key, wrong or {}, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = 0, getattr(self, "steps", 0)
        return self.state, {}

    def step(self, hurries):
        lasted = self.np_random.gamma(2.0, TRUTH.lasting[self.state] / 2.0) * (0.5 if hurries else 1.0)
        reward = TRUTH.paid[self.state] + TRUTH.rate[self.state] * lasted - 2.0 * hurries
        self.state = int(np.searchsorted(TRUTH.moves[self.state].cumsum(), self.np_random.random()))
        info = {self.key: self.wrong.get(self.steps, lasted), "other": 1}
        self.steps += 1
        is_cut = self.length is not None and self.steps % self.length == 0
        return self.state, reward, False, is_cut, info


def still(state):
    return 0


def test_gain_and_values_per_unit_of_time():
    estimate = gb.evaluate(Jumps, still, duration="dt", num_steps=20_000)
    low, high = estimate.gain_interval
    assert low < TRUTH.gain < high
    assert estimate.per == "unit of 'dt'"
    assert estimate.diagnostics.num_chains == 4
    low, high = estimate.value_interval(np.arange(4)).T
    assert (np.abs((low + high) / 2.0 - TRUTH.values) < 1.6 * (high - low) / 2.0).all()
    assert gb.evaluate(Jumps, still, num_steps=2_000).per == "step"


def test_a_vector_environment_says_the_same():
    def total(envs, **how):
        stream = environment_stream(envs, lambda seen: np.zeros(len(seen), dtype=int), duration="dt", **how)
        batches = [next(stream.batches) for _ in range(4)]
        stream.close()
        return sum(batch.durations.sum() for batch in batches), sum(map(len, batches))

    made = gymnasium.vector.SyncVectorEnv([Jumps, Jumps])
    lasted, steps = total(made, batch_size=1_000)
    powers = [np.linalg.matrix_power(TRUTH.moves, k)[0] @ TRUTH.lasting for k in (0, 1, 2, 3, 4, 200)]
    assert lasted / steps == pytest.approx(powers[-1], abs=0.15)
    for mode in gymnasium.vector.AutoresetMode:
        if mode == gymnasium.vector.AutoresetMode.DISABLED:
            continue
        envs = gymnasium.vector.SyncVectorEnv([lambda: Jumps(length=5)] * 2, autoreset_mode=mode)
        lasted, steps = total(envs, batch_size=1_000)
        assert lasted / steps == pytest.approx(np.mean(powers[:5]), abs=0.15)  # it starts anew every 5 steps


def test_vector_environments_of_stable_baselines():
    def still_all(seen):
        return np.zeros(len(seen), dtype=int)

    estimate = gb.evaluate(lambda: DummyVecEnv([Jumps] * 3), still_all, duration="dt", num_steps=9_000)
    assert estimate.gain_interval[0] < TRUTH.gain < estimate.gain_interval[1]
    with pytest.raises(ValueError, match="step 0 of copy 0 does not say how long it took"):
        gb.evaluate(DummyVecEnv([lambda: Jumps("seconds")] * 2), still_all, duration="dt")


@pytest.mark.parametrize("copies", [1, 2])
def test_cuts_take_no_time(copies):
    stream = environment_stream(lambda: Jumps(length=3), still, duration="dt", batch_size=50, copies=copies)
    batch = next(stream.batches)
    stream.close()
    assert (batch.durations > 0.0).all()
    assert len(np.unique(batch.segments)) > 10


class TestWrong:
    def cut_short(self, **how):
        estimate = gb.evaluate(lambda: Jumps(**how), still, duration="dt", num_steps=4_000, chains=1)
        assert estimate.diagnostics.num_transitions == 99
        return estimate.diagnostics.warnings[0]

    def test_a_duration_that_is_wrong(self):
        for wrong, words in ((-1.0, "-1.0, it must be"), (np.nan, "nan"), ("long", "'long'"), (None, "None")):
            assert f"the duration of step 100 is {words}" in self.cut_short(wrong={100: wrong})
        vector = self.cut_short(wrong={100: np.ones(2)})
        assert "the duration of step 100 is array([1., 1.]), not a number" in vector
        assert "the duration of step 100 is -1.0" in self.cut_short(wrong={100: -1.0}, length=None)

    def test_none_at_all(self):
        words = "step 0 does not say how long it took: its dictionary has no 'dt', it has 'seconds', 'other'"
        with pytest.raises(ValueError, match=words):
            gb.evaluate(lambda: Jumps("seconds"), still, duration="dt")
        envs = gymnasium.vector.SyncVectorEnv([lambda: Jumps("seconds")] * 2)
        with pytest.raises(ValueError, match="step 0 of copy 0 does not say how long it took"):
            gb.evaluate(envs, "random", duration="dt")
        with pytest.raises(ValueError, match="durations, add up to 0"):
            gb.evaluate(lambda: Jumps(wrong=dict.fromkeys(range(999), 0)), still, duration="dt", num_steps=99)

    def test_in_a_vector_environment(self):
        envs = gymnasium.vector.SyncVectorEnv([lambda: Jumps(wrong={100: -1.0})] * 2)
        estimate = gb.evaluate(envs, "random", duration="dt", num_steps=4_000)
        assert "the duration of step 100 of copy 0 is -1.0" in estimate.diagnostics.warnings[0]


def test_compare():
    comparison = gb.compare(Jumps, still, lambda state: 1, duration="dt", num_steps=20_000)
    assert comparison.per == comparison.to_dict()["per"] == "unit of 'dt'"
    assert comparison.difference == pytest.approx(comparison.first.gain - comparison.second.gain)
    law = np.linalg.matrix_power(TRUTH.moves, 200)[0]
    hurried = law @ (TRUTH.paid + TRUTH.rate * TRUTH.lasting / 2.0 - 2.0) / (law @ TRUTH.lasting / 2.0)
    low, high = comparison.interval
    assert low < TRUTH.gain - hurried < high
    assert "per unit of 'dt', 95% interval" in repr(comparison)
    same = gb.compare(Jumps, still, still, duration="dt", num_steps=2_000)
    assert np.isnan(same.interval).all()
    assert same.difference == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_the_error_of_a_difference_is_that_of_independent_runs(seed):
    rng = np.random.default_rng(seed)
    runs = [(rng.normal(1.0, 1.0, 20_000), rng.exponential(size=20_000)) for _ in range(2)]
    means = [RatioMeans(), RatioMeans()]
    for one, run in zip(means, runs, strict=True):
        one.add(*run)
    apart = [estimate_gain(one) for one in means]
    together = estimate_gain(RatioDifference(*means))
    assert together.gain == pytest.approx(apart[0].gain - apart[1].gain)
    exact = np.sqrt(2 * (1.0 + 1.0) / 20_000)  # each is r - d in a step
    assert together.standard_error == pytest.approx(exact, rel=0.5)
    plain = estimate_gain(BatchMeans.of((runs[0][0] - runs[0][1]) - (runs[1][0] - runs[1][1])))
    assert together.standard_error == pytest.approx(plain.standard_error, rel=0.05)


def test_until_it_is_narrow_enough_and_looks():
    estimate = gb.evaluate(Jumps, still, duration="dt", target_half_width=0.1, num_steps=100_000)
    low, high = estimate.gain_interval
    assert high - low <= 0.2
    assert low < TRUTH.gain < high
    looked = gb.evaluate(Jumps, still, duration="dt", anytime=True, num_steps=12_000)
    assert any("holds for all looks together" in note for note in looked.diagnostics.notes)
    assert looked.gain_interval[0] < TRUTH.gain < looked.gain_interval[1]


def test_in_a_shell(capsys):
    words = [
        "evaluate",
        "tests.evaluation.test_event_environments:Jumps",
        "--policy",
        "random",
        "--steps",
        "2000",
    ]
    assert cli.main([*words, "--duration", "dt", "--json"]) == cli.DONE
    assert json.loads(capsys.readouterr().out)["per"] == "unit of 'dt'"
    words = ["compare", *words[1:], "--policy", "tests.evaluation.test_event_environments:still"]
    assert cli.main([*words, "--duration", "dt"]) == cli.DONE
    assert "per unit of 'dt'" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["gamma", "mm1", "dependent"])
def test_the_benchmark_has_one_process_for_logs_and_environments(name):
    process = event_coverage.EVENT_PROCESSES[name]
    env = event_coverage.Events(process, 200)
    first, _ = env.reset(seed=3)
    steps = [env.step(0) for _ in range(200)]
    log = process.log(np.random.default_rng(np.random.PCG64(3)), 201)
    lasted = np.diff(log["at"])
    assert [info["dt"] for *_, info in steps] == pytest.approx(lasted)
    paid = np.broadcast_to(log.get("reward", 0.0), 201)[:-1] + log["rate"][:-1] * lasted
    assert [reward for _, reward, *_ in steps] == pytest.approx(paid)
    assert [first, *(state for state, *_ in steps)] == np.broadcast_to(log.get("state", 0), 201).tolist()
    assert event_coverage.estimated(name, 2_000, 0, "environment").per == "unit of 'dt'"
