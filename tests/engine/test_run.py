"""Runs: lanes, shared paths, results that depend on the seed alone, divergence, interruption."""

import sys
import threading
import warnings

import numpy as np
import pytest

import gainbias as gb
from gainbias.engine import run as run_module
from gainbias.engine import work
from gainbias.engine.lanes import make_groups, make_lanes
from gainbias.engine.loop import Running, add_weights
from gainbias.engine.paths import Sampler

from . import problems

pytestmark = pytest.mark.kernels
STEPS = 300


def weights(problem: gb.Problem, algorithm: str = "td-lambda", **options: object) -> np.ndarray:
    options = {"step_size": gb.Harmonic(2, 10), "seeds": range(3), **options}
    return gb.run(algorithm, problem, STEPS, **options).weights[:, -1]  # type: ignore[arg-type]


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("algorithm", ["double-chain", "td-lambda"])
def test_chunks_checkpoints_and_threads_change_no_bit(make, algorithm, monkeypatch) -> None:
    problem = make()
    sizes = [0.05, gb.Harmonic(2, 10), gb.Polynomial(0.5, 3, 0.7)]
    options = {"algorithm": algorithm, "step_size": sizes, "seeds": range(5)}
    expected = weights(problem, **options, threads=1)
    for threads in (2, 8):
        np.testing.assert_array_equal(weights(problem, **options, threads=threads), expected)
    np.testing.assert_array_equal(weights(problem, **options, checkpoints=[1, 7, 8, 299]), expected)
    monkeypatch.setattr(work, "KERNEL_STRETCH", 13)
    np.testing.assert_array_equal(weights(problem, **options), expected)


KEPT = {"weights": "weights", "errors": "errors", "states": [0, 2]}


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("tail_average", [None, 0.25])
@pytest.mark.parametrize("algorithm", ["td-lambda", "lstd", "single-chain", "vrtd", "projected-td"])
def test_what_is_noted_at_checkpoints_is_the_same_in_stretches_of_any_length(
    algorithm, tail_average, keep, monkeypatch
) -> None:
    """In the usual stretches all is noted within one; in the others some are cut at each checkpoint."""
    checkpoints = gb.Checkpoints([0, 1, 5, 6, 74, 75, 76, 200, 299], keep=keep)
    options = {"step_size": [0.05, 0.1, 0.15], "checkpoints": checkpoints, "tail_average": tail_average}
    problem = problems.sparse_features()
    expected = gb.run(algorithm, problem, STEPS, seeds=[1, 2], **options)
    for name, number in (("KERNEL_STRETCH", 7), ("LONGEST_STRETCH", 20), ("NOTED_NUMBERS", 1)):
        monkeypatch.setattr(work, name, number)
    found = gb.run(algorithm, problem, STEPS, seeds=[1, 2], **options)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.gain, expected.gain)
    for kind, errors in expected.stored_errors.items():
        np.testing.assert_array_equal(found.stored_errors[kind], errors)
    if expected.values is not None:
        np.testing.assert_array_equal(found.values, expected.values)


def test_a_run_returns_to_python_once_a_stretch(monkeypatch) -> None:
    """Between two calls of a kernel threads wait for each other: checkpoints must not be a reason."""
    lengths, advance = [], Running.advance

    def counted(self, rows, moves, *rest):
        lengths.append(len(moves.here))
        advance(self, rows, moves, *rest)

    monkeypatch.setattr(Running, "advance", counted)
    monkeypatch.setattr(work, "KERNEL_STRETCH", 64)
    trace = gb.run("double-chain", problems.dense(), 480, 0.1, checkpoints=200)
    assert len(trace.steps) > 50
    assert lengths == [64, 64, 128, 224]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [(100, [16384, 16384, 32768, 65536, 65536]), (2**12, [8192] * 5), (2**20, [4096] * 5)],
)
def test_stretches_grow_and_are_shorter_for_large_states(numbers, expected) -> None:
    problem = problems.dense()
    plan = work.RunPlan(
        algorithm=gb.ALGORITHMS["td-lambda"],
        problem=problem,
        seeds=[0],
        sampler=Sampler(problem.mrp),
        sampling="markov",
        start=0,
        first_weights=np.zeros(problem.num_features),
        checkpoints=np.array([300_000]),
        average_from=None,
    )
    assert [last - first for first, last in plan.stretches(numbers)][:5] == expected


@pytest.mark.parametrize(
    ("seeds", "threads", "expected"),
    [(64, 16, [4] * 16), (64, 7, [3] * 20 + [4]), (64, 2, [4] * 16), (5, 2, [2, 3]), (3, 8, [1] * 3)],
)
def test_all_threads_have_about_the_same_number_of_seeds(seeds, threads, expected) -> None:
    algorithm = gb.ALGORITHMS["td-lambda"]
    lanes = make_lanes(algorithm, range(seeds), 0.1, {})
    shares = run_module._shares(make_groups(algorithm, lanes, algorithm.form), threads)
    assert sorted(len(share) for share in shares) == expected
    assert [group.lanes[0].seed for share in shares for group in share] == list(range(seeds))


@pytest.mark.parametrize("tail_average", [None, 0.25])
def test_a_lane_is_the_same_alone_and_in_company(tail_average) -> None:
    sizes = [0.02 * k for k in range(1, 12)]
    problem = problems.dense()
    together = weights(problem, step_size=sizes, seeds=[4, 5], tail_average=tail_average)
    for place, (seed, size) in enumerate((seed, size) for seed in (4, 5) for size in sizes):
        alone = weights(problem, step_size=size, seeds=seed, tail_average=tail_average)
        np.testing.assert_array_equal(together[place], alone[0])


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_the_last_lanes_of_a_group_are_themselves(count) -> None:
    """Some groups have empty places, and some have none."""
    sizes = [0.05 * k for k in range(1, count + 1)]
    together = weights(problems.dense(), step_size=sizes, seeds=4)
    for place in (0, count - 2, count - 1):
        np.testing.assert_array_equal(
            together[place], weights(problems.dense(), step_size=sizes[place], seeds=4)[0]
        )


def test_lanes_of_two_kinds_that_take_turns_keep_their_places() -> None:
    """Lanes with a trace and lanes without one form separate groups."""
    ratios, decays = [0.5, 1.0, 2.0], [0.0, 0.5]
    mixed = weights(problems.dense(), seeds=4, params={"gain_ratio": ratios, "trace_decay": decays})
    for k, decay in enumerate(decays):
        alone = weights(problems.dense(), seeds=4, params={"gain_ratio": ratios, "trace_decay": decay})
        np.testing.assert_array_equal(mixed[k::2], alone)


def test_seeds_name_paths() -> None:
    problem = problems.dense()
    both = weights(problem, seeds=[3, 9])
    np.testing.assert_array_equal(both, weights(problem, seeds=[9, 3])[::-1])
    assert np.abs(both[0] - both[1]).max() > 1e-3


@pytest.mark.parametrize("sampling", ["markov", "iid"])
def test_all_algorithms_see_the_path_of_the_sampler(sampling) -> None:
    problem = problems.tabular()
    steps = Sampler(problem.mrp).paths([5], sampling=sampling).take(STEPS)
    for algorithm in ("double-chain", "discounted-td"):  # neither has its own gain: the mean is reported
        trace = gb.run(algorithm, problem, STEPS, 0.1, seeds=5, sampling=sampling, checkpoints=[7, STEPS])
        assert trace.gain[0, 0] == pytest.approx(steps.reward[0, :7].mean(), abs=1e-15)
        assert trace.gain[0, 1] == pytest.approx(steps.reward[0].mean(), abs=1e-14)


def test_the_second_chain_is_independent_of_the_first() -> None:
    plan_problem = problems.tabular()
    sampler = Sampler(plan_problem.mrp)
    first = sampler.paths([0], chain="first chain").take(20_000).here[0]
    second = sampler.paths([0], chain="second chain").take(20_000).here[0]
    n = plan_problem.mrp.num_states
    joint = np.zeros((n, n))
    np.add.at(joint, (first, second), 1.0 / len(first))
    law = plan_problem.solution.stationary
    # Mixing is fast: 4 standard errors of independent draws, doubled for the remaining dependence in time.
    allowed = 8 * np.sqrt(np.outer(law, law) / len(first))
    assert (np.abs(joint - np.outer(law, law)) < allowed).all()
    assert np.abs(np.diag(np.bincount(first) / len(first)) - joint).max() > allowed.max()


def test_one_sample_used_twice_lands_elsewhere(monkeypatch) -> None:
    problem = problems.dense()
    options = {"step_size": gb.Harmonic(40, 200), "seeds": range(8), "sampling": "iid"}
    right = gb.run("double-chain", problem, 40_000, **options)
    taken = work.moves_of

    def once(drawn, path):
        return taken(drawn[:1], path)

    monkeypatch.setattr(work, "moves_of", once)
    wrong = gb.run("double-chain", problem, 40_000, **options)
    distance = [t.errors(target="paper", space="weights")[:, -1].mean() for t in (right, wrong)]
    assert distance[1] > 5 * distance[0]


@pytest.mark.parametrize("make", problems.ALL.values(), ids=problems.ALL)
@pytest.mark.parametrize("params", [{}, {"trace_decay": 0.6}])
def test_tail_average_is_the_mean_of_the_weights_after_each_step(make, params) -> None:
    problem, length = make(), 60
    every = gb.run(
        "td-lambda", problem, length, 0.1, seeds=[2], params=params, checkpoints=range(1, length + 1)
    )
    averaged = gb.run(
        "td-lambda", problem, length, 0.1, seeds=[2], params=params, tail_average=0.25, checkpoints=[10, 40]
    )
    np.testing.assert_array_equal(averaged.weights[0, 0], every.weights[0, 9])
    np.testing.assert_allclose(averaged.weights[0, 1], every.weights[0, 15:40].mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(averaged.weights[0, 2], every.weights[0, 15:].mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("start", [3, "uniform", "stationary"])
def test_start(start) -> None:
    trace = gb.run("discounted-td", problems.tabular(), 1, 0.1, seeds=range(40), sampling=gb.Markov(start))
    visited = {int(np.flatnonzero(row)[0]) for row in trace.weights[:, -1] if row.any()}
    assert visited <= {3} if start == 3 else len(visited) > 3


class TestDivergence:
    def test_the_step_is_the_first_that_is_not_finite(self) -> None:
        problem = problems.dense()
        with pytest.warns(UserWarning, match="overshoot"):
            trace = gb.run("td-lambda", problem, 6000, [4.0, 0.1], seeds=[0, 1], checkpoints=5)
        assert [outcome.status for outcome in trace.outcomes] == ["diverged", "finished"] * 2
        for lane in (0, 2):
            step = trace.outcomes[lane].step
            with pytest.warns(UserWarning, match="overshoot"):
                close = gb.run("td-lambda", problem, step, 4.0, seeds=lane // 2, checkpoints=[step - 1, step])
            assert np.isfinite(close.weights[0, -2]).all()
            assert not np.isfinite(close.weights[0, -1]).all()
            assert close.outcomes[0] == gb.Outcome("diverged", step)
            later = trace.steps >= step
            assert later.any()
            assert np.isinf(trace.errors()[lane, later]).all()
            assert np.isfinite(trace.errors()[lane, ~later]).all()

    def test_checkpoints_before_it_in_the_same_stretch_keep_what_they_were(self, monkeypatch) -> None:
        checkpoints = [1, 10, 100, 400, 500, 600, 1000]
        for problem, algorithm in ((problems.dense(), "td-lambda"), (problems.tabular(), "differential-td")):
            traces = []
            for stretch in (4096, 3):
                monkeypatch.setattr(work, "KERNEL_STRETCH", stretch)
                monkeypatch.setattr(work, "LONGEST_STRETCH", stretch)
                with pytest.warns(UserWarning, match="overshoot"):
                    traces.append(gb.run(algorithm, problem, 1000, [5.0, 0.1, 9.0], checkpoints=checkpoints))
            together, apart = traces
            assert [outcome.status for outcome in together.outcomes] == ["diverged", "finished", "diverged"]
            assert together.outcomes == apart.outcomes
            for lane, outcome in enumerate(together.outcomes):
                fallen = together.steps >= outcome.step if outcome.status == "diverged" else np.zeros(7, bool)
                assert np.isnan(together.weights[lane, fallen]).all()
                assert np.isfinite(together.weights[lane, ~fallen]).all()
            np.testing.assert_array_equal(together.weights, apart.weights)
            np.testing.assert_array_equal(together.gain, apart.gain)

    def test_others_are_not_touched(self) -> None:
        sizes = [0.1, 4.0, 0.2, 0.3]
        with pytest.warns(UserWarning, match="overshoot"):
            mixed = gb.run("td-lambda", problems.dense(), 6000, sizes)
        calm = gb.run("td-lambda", problems.dense(), 6000, [0.1, 0.2, 0.3])
        np.testing.assert_array_equal(np.delete(mixed.weights, 1, axis=0), calm.weights)

    def test_what_comes_back_is_not_shown(self, monkeypatch) -> None:
        """A lane that has diverged stays so, even if it is finite later."""
        advance = Running.advance

        def recovering(self, rows, moves, sizes, after, kept, *rest):
            good = advance(self, rows, moves, sizes, after, kept, *rest)
            if self.alive.all():
                return good
            np.nan_to_num(kept, copy=False)
            np.nan_to_num(self.memory.numbers, copy=False)
            return True

        monkeypatch.setattr(Running, "advance", recovering)
        monkeypatch.setattr(work, "KERNEL_STRETCH", 1000)
        with pytest.warns(UserWarning, match="overshoot"):
            trace = gb.run("td-lambda", problems.dense(), 6000, [4.0, 0.1, 0.2], checkpoints=20)
        assert [outcome.status for outcome in trace.outcomes] == ["diverged", "finished", "finished"]
        later = trace.steps >= trace.outcomes[0].step
        assert np.isnan(trace.weights[0, later]).all()
        assert np.isfinite(trace.weights[1:]).all()

    @pytest.mark.parametrize("make", [problems.sparse_features, problems.tabular])
    def test_large_states_are_searched_between_checkpoints(self, make, monkeypatch) -> None:
        with pytest.warns(UserWarning, match="overshoot"):
            expected = gb.run("td-lambda", make(), 20_000, 5.0, checkpoints=[20_000]).outcomes
        assert expected[0].status == "diverged"
        monkeypatch.setattr(work, "OFTEN_CHECKED", 0)
        with pytest.warns(UserWarning, match="overshoot"):
            assert gb.run("td-lambda", make(), 20_000, 5.0, checkpoints=[20_000]).outcomes == expected


def test_ctrl_c_returns_what_was_computed(monkeypatch) -> None:
    monkeypatch.setattr(work, "KERNEL_STRETCH", 4096)
    problem = problems.dense()
    started = threading.Event()
    whole = gb.run("td-lambda", problem, 100_000, 0.1, checkpoints=[1000, 50_000])
    assert np.isfinite(whole.errors()).all()

    def interrupt(self, *_: object) -> None:
        started.wait(5)
        raise KeyboardInterrupt

    stretches = work.RunPlan.stretches

    def slow(self, numbers):
        for number, stretch in enumerate(stretches(self, numbers)):
            if number == 3:
                started.set()
                threading.Event().wait(0.3)
            yield stretch

    monkeypatch.setattr(run_module.Watch, "show", interrupt)
    monkeypatch.setattr(work.RunPlan, "stretches", slow)
    part = gb.run("td-lambda", problem, 100_000, 0.1, checkpoints=[1000, 50_000])
    outcome = part.outcomes[0]
    assert outcome.status == "interrupted"
    assert 1000 <= outcome.step < 50_000
    np.testing.assert_array_equal(part.weights[0, 0], whole.weights[0, 0])
    assert np.isnan(part.weights[0, 1:]).all()
    assert np.isnan(part.errors()[0, 1:]).all()
    assert "1 interrupted" in repr(part)
    assert part.to_dict()["lanes"][0]["weights"] == part.weights[0, 0].tolist()


@pytest.mark.parametrize(("keep", "weights"), [("weights", [0, 2, 3]), ("errors", [0, 1, 1])])
@pytest.mark.parametrize("by_lane", [True, False])
def test_what_was_not_reached_is_missing(monkeypatch, keep, weights, by_lane) -> None:
    found, record_of = [], run_module.CheckpointRecord

    def made(plan, lanes, keep, **_):
        found.append(record_of(plan, lanes, keep, by_lane))
        return found[-1]

    monkeypatch.setattr(run_module, "CheckpointRecord", made)
    looks = gb.Checkpoints([0, 5, 10], keep=keep)
    gb.run("td-lambda", problems.dense(), 10, 0.1, seeds=range(3), checkpoints=looks)
    [record] = found
    assert np.isfinite(record.weights).all()
    record.leave_out(np.array([0, 7, 10]))
    for array in (record.gain, *record.errors.values()):
        assert np.isfinite(array).sum(axis=1).tolist() == [0, 2, 3]
    assert np.isfinite(record.weights).all(axis=2).sum(axis=1).tolist() == weights


def test_some_lanes_are_those_of_the_list() -> None:
    grid = {"trace_decay": [0.0, 0.5], "gain_ratio": [1.0, 2.0, 3.0]}
    lanes = make_lanes(gb.ALGORITHMS["td-lambda"], [5, 9], [0.1, 0.2], grid)
    every = [(lane.seed, lane.step_size, lane.params) for lane in lanes]
    assert len(every) == len(lanes) == 24
    assert len({(seed, str(size), *params.values()) for seed, size, params in every}) == 24
    assert [lane.seed for lane in lanes] == [5] * 12 + [9] * 12
    some = lanes[np.array([23, 4, 11])]
    for lane, place in zip(some, (23, 4, 11), strict=True):
        assert (lane.seed, lane.step_size, lane.params) == every[place]
    assert [lane.params for lane in lanes[-2:]] == [params for _, _, params in every[-2:]]
    for lane, seed, size, params in zip(
        some, some.seed_numbers, some.schedule_numbers, some.grid_numbers, strict=True
    ):
        assert lane.seed == lanes.seeds[seed]
        assert lane.step_size is lanes.schedules[size]
        assert lane.params is lanes.grid[params]


def test_companions_with_other_parameters_change_no_bit_of_an_average() -> None:
    for make in (problems.tabular, problems.sparse_features, problems.dense):
        options = {"num_steps": STEPS, "step_size": 0.1, "tail_average": 0.25, "problem": make()}
        mixed = gb.run("td-lambda", params={"trace_decay": [0.0, 0.5, 0.2]}, **options)
        alone = gb.run("td-lambda", params={"trace_decay": 0.0}, **options)
        np.testing.assert_array_equal(mixed.weights[0], alone.weights[0])


@pytest.mark.parametrize("algorithm", ["discounted-td", "implicit-td", "td-lambda", "double-chain"])
def test_large_is_not_diverged(algorithm) -> None:
    first = np.full(3, 1e200)
    trace = gb.run(algorithm, problems.dense(), 50, 0.01, initial_weights=first)
    assert trace.outcomes[0].status == "finished"
    assert np.isfinite(trace.weights).all()


def test_independent_transitions_leave_no_trace() -> None:
    problem = problems.without_ones()
    with pytest.warns(UserWarning, match="a trace of lstd has no use with sampling='iid'"):
        trace = gb.run("lstd", problem, 100_000, params={"trace_decay": 0.9}, sampling="iid", checkpoints=1)
    own = trace.errors(target="own")[0, -1]
    followed = gb.ALGORITHMS["lstd"].declared.limit(problem, trace.params(trace.lanes[0]), np.zeros(3))
    assert own < 0.2 * np.linalg.norm(problem.features.combine(trace.weights[0, -1] - followed))


@pytest.mark.parametrize(
    ("threads", "environment", "cores", "expected"),
    [(None, None, 5, 5), (None, "3", 5, 3), (None, None, None, 1), (2, "3", 5, 2)],
)
def test_number_of_threads(threads, environment, cores, expected, monkeypatch) -> None:
    """An argument decides, then the environment, then the machine, whose cores may be unknown."""
    asked = []

    class Pool(run_module.ThreadPoolExecutor):
        def __init__(self, max_workers: int) -> None:
            asked.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr(run_module, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(run_module, "WORK_OF_A_THREAD", 1)
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.delenv("GAINBIAS_THREADS", raising=False)
    if environment is not None:
        monkeypatch.setenv("GAINBIAS_THREADS", environment)
    gb.run("td-lambda", problems.dense(), 5, 0.1, threads=threads)
    assert asked == [expected]


@pytest.mark.parametrize(
    ("steps", "seeds", "expected"), [(10, 64, 1), (3000, 64, 2), (10_000, 64, 6), (100_000, 64, 16)]
)
def test_short_runs_start_few_threads(steps, seeds, expected) -> None:
    """Threads that wait for each other take longer than one alone."""
    assert run_module._useful_threads(16, steps * seeds, 200) == expected


def test_checkpoints_are_at_the_same_steps_whatever_is_kept() -> None:
    plain = gb.run("td-lambda", problems.dense(), 1000, 0.1)
    errors = gb.run("td-lambda", problems.dense(), 1000, 0.1, checkpoints=gb.Checkpoints(keep="errors"))
    np.testing.assert_array_equal(errors.steps, plain.steps)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_the_weights_of_all_lanes_are_summed(width) -> None:
    added, total = np.arange(1.0, 3.0 * width + 1.0).reshape(3, width), np.ones((3, width))
    add_weights(added, total)
    np.testing.assert_array_equal(total, 1.0 + added)


class TestLanes:
    def test_order_and_labels(self) -> None:
        trace = gb.run(
            "td-lambda",
            problems.dense(),
            10,
            [0.1, gb.Harmonic(1, 10)],
            seeds=[5, 6],
            params={"trace_decay": [0.0, 0.5]},
        )
        found = [(lane.seed, str(lane.step_size), lane.params["trace_decay"]) for lane in trace.lanes]
        sizes = ["Constant(a=0.1)", "Harmonic(a=1, c0=10)"]
        assert found == [(s, size, decay) for s in (5, 6) for size in sizes for decay in (0.0, 0.5)]
        assert all(lane.params["gain_ratio"] == 1.0 for lane in trace.lanes)

    def test_an_array_is_one_step_size_for_each_step(self) -> None:
        sizes = 2.0 / (np.arange(STEPS) + 10)
        listed = weights(problems.dense(), step_size=sizes)
        np.testing.assert_array_equal(listed, weights(problems.dense()))

    def test_integers_are_numbers_as_far_as_floats_go(self) -> None:
        largest = int(sys.float_info.max)
        [lane] = make_lanes(gb.ALGORITHMS["td-lambda"], 0, 0.1, {"gain_ratio": largest})
        assert lane.params["gain_ratio"] == sys.float_info.max
        for beyond in (2**1024, -(2**1024)):
            with pytest.raises(ValueError, match="must be a number above 0 and finite"):
                make_lanes(gb.ALGORITHMS["td-lambda"], 0, 0.1, {"gain_ratio": beyond})

    def test_first_weights(self) -> None:
        first = np.array([1.0, -2.0, 3.0])
        trace = gb.run("td-lambda", problems.dense(), 5, 0.1, initial_weights=first, checkpoints=[0, 5])
        np.testing.assert_array_equal(trace.weights[0, 0], first)


BAD = [
    ({"algorithm": "dubble-chain"}, "unknown algorithm 'dubble-chain': did you mean 'double-chain'"),
    ({"algorithm": 3}, "algorithm must be an id"),
    ({"params": {"trace_deca": 0.5}}, "td-lambda has no parameter 'trace_deca': did you mean 'trace_decay'"),
    ({"params": {"trace_decay": 1.0}}, "must be a number at least 0 and below 1, found 1.0"),
    ({"params": {"gain_ratio": [1.0, np.nan]}}, "'gain_ratio' of td-lambda must be a number above 0"),
    ({"params": {"gain_ratio": "large"}}, "found 'large'"),
    ({"params": {"gain_ratio": []}}, "there are no lanes"),
    ({"step_size": -0.1}, "step_size must be positive and finite, found -0.1"),
    ({"step_size": np.inf}, "step_size must be positive and finite, found inf"),
    ({"step_size": [0.1, np.nan]}, "must be positive and finite, found nan"),
    ({"step_size": np.array([0.1, -0.1] * 50)}, "found -0.1 at step 1"),
    ({"step_size": np.full(50, 0.1)}, "50 step sizes were given, but there are 100 steps"),
    ({"step_size": []}, "there are no lanes"),
    ({"seeds": []}, "there are no lanes"),
    ({"seeds": 2.0}, "seeds must be integers that are not negative, found 2.0"),
    ({"seeds": None}, "seeds must be integers that are not negative, found None"),
    ({"checkpoints": 10.0}, "checkpoints must be a number, or numbers of steps"),
    ({"checkpoints": True}, "checkpoints must be a number, or numbers of steps"),
    ({"checkpoints": [[1, 2]]}, "checkpoints must be a number, or numbers of steps"),
    ({"tail_average": "late"}, "tail_average must be at least 0 and below 1, found 'late'"),
    ({"params": {1: 2}}, "td-lambda has no parameter 1"),
    ({"params": {"gain_ratio": 10**400}}, "must be a number above 0 and finite"),
    ({"seeds": [1, 1]}, "seeds must differ"),
    ({"seeds": [-1]}, "seeds must be integers that are not negative, found -1"),
    ({"seeds": [0.5]}, "seeds must be integers that are not negative, found 0.5"),
    ({"sampling": "idd"}, "unknown sampling 'idd': use 'markov' or 'iid'"),
    ({"sampling": gb.Markov(99)}, "start must be a state from 0 to 7, found 99"),
    ({"sampling": gb.Markov("zero")}, "start must be a state, 'uniform' or 'stationary'"),
    ({"num_steps": 0}, "num_steps must be a positive integer, found 0"),
    ({"num_steps": 1.5}, "num_steps must be a positive integer, found 1.5"),
    ({"checkpoints": 0}, "checkpoints must be at least 1"),
    ({"checkpoints": [1, 200]}, "numbers of steps from 0 to num_steps=100"),
    ({"threads": 0}, "threads must be a positive integer"),
    ({"tail_average": 1.0}, "tail_average must be at least 0 and below 1, found 1.0"),
    ({"initial_weights": np.zeros(7)}, r"initial_weights must have shape \(3,\), found \(7,\)"),
    (
        {"checkpoints": gb.Checkpoints(9, "everything")},
        "keep must be 'weights', 'errors' or a list of states",
    ),
    ({"checkpoints": gb.Checkpoints(9, [0, 8])}, "states to keep must be from 0 to 7"),
    ({"problem": problems.process()}, r"problem must be a gb.Problem, found MarkovRewardProcess: write"),
    ({"algorithm": "almost-sure-td"}, "almost-sure-td exists for tabular features only, found dense"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input_is_refused_in_words(change, message) -> None:
    call = {"algorithm": "td-lambda", "problem": problems.dense(), "num_steps": 100, "step_size": 0.1}
    with pytest.raises(ValueError, match=message):
        gb.run(**{**call, **change})


def test_features_of_another_problem_are_refused() -> None:
    features = problems.dense(n=9).features
    with pytest.raises(ValueError, match="features must have one row for each of the 8 states, found 9 rows"):
        gb.Problem(problems.process(n=8), features)


def test_a_large_first_step_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="the first step size 1.5 times the largest squared row norm"):
        gb.run("td-lambda", problems.tabular(), 3, 1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gb.run("td-lambda", problems.tabular(), 3, 1.0)


@pytest.mark.parametrize(("algorithm", "size"), [("lstd", None), ("lspe", None), ("adaptive-td", 1.5)])
def test_without_steps_that_could_be_large_there_is_no_warning(algorithm, size) -> None:
    assert gb.run(algorithm, problems.tabular(), 3, size).outcomes[0].status == "finished"


def test_needs_ones_outside_span_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="needs features that do not span the constant values"):
        run_module.check_problem(
            gb.Algorithm(
                name="x",
                form=gb.ALGORITHMS["td-lambda"].form,
                declared=gb.Declared(needs_ones_outside_span=True),
            ),
            problems.dense(),
        )
