"""The study: units and their ids, the same bytes however it was run, resuming, refusing."""

import itertools
import json
import platform
from datetime import datetime
from pathlib import Path

import gymnasium
import numpy as np
import pandas
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.engine.stacked import LaneFound, StackedRun
from gainbias.experiments.claims.registry import check_claims
from gainbias.experiments.provenance import code_version
from gainbias.experiments.reproduce import (
    PAPER_METHODS,
    PROTOCOLS,
    VARIANCE_REDUCED,
    Instance,
    plan,
    task_by_task,
)
from gainbias.experiments.results import Results
from gainbias.experiments.units import packed
from gainbias.kernels import gpu
from gainbias.progress import Watch
from tests.experiments.cluster import cluster
from tests.experiments.small import run_small, table_bytes


def test_the_table_holds_what_runs_give(results: Results) -> None:
    runs = results.frame("runs")
    task = gb.task("frozen-lake", seed=1, protocol="inferred")
    steps = 150_000 // 200
    trace = gb.run(
        "single-chain", task.problem, steps, gb.Harmonic(150, 1000), seeds=1, checkpoints=[steps // 2]
    )
    row = runs.query(
        "protocol == 'inferred' and task == 'frozen-lake' and run == 1 and algorithm == 'single-chain' "
        "and kind == 'full' and target == 'paper' and step == @steps"
    )
    assert row.error.tolist() == [trace.errors("full", target="paper")[0, -1]]
    assert row.gain.tolist() == [trace.gain[0, -1]]


def test_maps_hold_what_runs_give(results: Results) -> None:
    """Of the first instance of the task that has a map, all estimates at all checkpoints, and the bias."""
    states, values = results.frame("states"), results.frame("values")
    assert set(states.task) == set(values.task) == {"frozen-lake"}
    task = gb.task("frozen-lake", seed=0, protocol="fair")
    own = states.query("protocol == 'fair'")
    assert own.bias.tolist() == task.problem.solution.bias.tolist()
    assert own[["row", "column"]].to_numpy().tolist() == [[k // 4, k % 4] for k in range(16)]
    steps = 150_000 // 200
    trace = gb.run("single-chain", task.problem, steps, gb.Harmonic(150, 1000), seeds=0, checkpoints=[steps])
    row = values.query("protocol == 'fair' and algorithm == 'single-chain' and step == @steps")
    expected = task.problem.features.combine(trace.weights[0, -1]).astype(np.float32)
    assert row["values"].item().tolist() == expected.tolist()
    runs = results.frame("runs").query("task == 'frozen-lake' and run == 0")
    keys = ["protocol", "algorithm", "step"]
    assert len(values) == len(values.drop_duplicates(keys)) == len(runs.drop_duplicates(keys))


def test_every_cell_is_there_once(results: Results) -> None:
    runs = results.frame("runs")
    key = ["protocol", "task", "algorithm", "run", "step", "kind", "target", "norm"]
    assert not runs.duplicated(key).any()
    counts = runs.groupby("protocol").algorithm.nunique()
    assert counts.to_dict() == {"literal": 7, "inferred": 7, "fair": 8}
    assert runs.groupby("protocol").run.nunique().to_dict() == {"literal": 3, "inferred": 3, "fair": 2}
    assert np.isfinite(runs.error).all()
    full = runs.query("step == step.max()")
    halves = set(runs.step)
    assert all(step // 2 in halves or (step + 1) // 2 in halves for step in set(full.step))
    conditions = results.frame("conditions")
    assert len(conditions) == 2 * (3 + 3 + 2)
    assert (conditions.eta1 > 0).all()


def test_methods_are_run_as_their_record_says() -> None:
    """After so many steps variance-reduced TD has answered, even with the chain thinned."""
    steps, task = 150_000 // 3, gb.task("random-walk-50", seed=0, protocol="fair")
    assert VARIANCE_REDUCED[1].params == {**VARIANCE_REDUCED[0].params, "skip": 1.0}
    runs = pandas.DataFrame(Instance("fair", "random-walk-50", 0, shorten=3).compute()["runs"])
    for method in (*VARIANCE_REDUCED, PAPER_METHODS[1]):
        size = method.step_size or gb.Harmonic(150, 1000)
        trace = gb.run(method.algorithm, task.problem, steps, size, seeds=0, params=method.params)
        row = runs.query(
            "algorithm == @method.name and kind == 'quotient' and target == 'bias' and norm == 'euclidean' "
            "and step == @steps"
        )
        assert row.error.tolist() == [trace.errors("quotient")[0, -1]]


def test_condition_numbers_are_of_the_first_instances_only(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gainbias.experiments.reproduce.CONDITION_RUNS", 1)
    results = run_small(tmp_path / "results", tasks=["random-walk-50"], protocols=["fair"])
    assert results.frame("conditions").run.tolist() == [0]
    assert results.frame("instances").run.tolist() == [0, 1]


class TestManifest:
    def test_how_it_was_run(self, results: Results) -> None:
        manifest = results.manifest
        assert (manifest["units"], manifest["reused"], manifest["shorten"]) == (16, 0, 200)
        assert manifest["packages"]["numpy"] == np.__version__
        assert manifest["packages"]["gymnasium"] == gymnasium.__version__
        assert (manifest["command"], manifest["settings"]) == ("gainbias.reproduce", {})
        assert manifest["python"] == platform.python_version()
        assert manifest["code"] == code_version()
        clock = [datetime.fromisoformat(manifest[when]) for when in ("started", "finished")]
        assert 0 <= (clock[1] - clock[0]).total_seconds() - manifest["seconds"] + 1 <= 2
        assert manifest["condition_instances"] == 10

    def test_seeds_and_parameters_of_each_protocol(self, results: Results) -> None:
        protocols = results.manifest["protocols"]
        assert {name: entry["seeds"] for name, entry in protocols.items()} == {
            "literal": [0, 1, 2],
            "inferred": [0, 1, 2],
            "fair": [0, 1],
        }
        methods = protocols["fair"]["methods"]
        assert list(methods) == [method.name for method in PROTOCOLS["fair"].methods]
        assert methods["vrtd"]["step_size"] == 0.5
        assert methods["vrtd"]["params"]["skip"] == 4.0
        assert methods["td-lambda"]["step_size"] == "the paper's, a / (t + c0)"
        assert methods["single-chain"]["params"]["weights_radius"] is None  # infinite

    def test_source_and_fingerprint_of_each_instance(self, results: Results) -> None:
        entry = results.manifest["tasks"]["frozen-lake"]
        assert entry["source"]["environment"] == "FrozenLake-v1"
        assert entry["source"]["gymnasium"] == gymnasium.__version__
        assert "process" not in entry["source"]  # each instance has its own policy, so its own process
        assert entry["settings"]["epsilon"] == 0.1
        for protocol, seeds in (("inferred", 3), ("fair", 2)):
            made = [gb.task("frozen-lake", seed=seed, protocol=protocol) for seed in range(seeds)]
            assert entry["fingerprints"][protocol] == {str(task.seed): task.fingerprint for task in made}


class TestSettings:
    def test_they_change_the_tasks_that_have_them(self, results: Results, tmp_path: Path) -> None:
        changed = run_small(tmp_path / "changed", settings={"epsilon": 0.2}, protocols=["literal"])
        assert changed.manifest["settings"] == {"epsilon": 0.2}
        assert changed.manifest["tasks"]["frozen-lake"]["settings"]["epsilon"] == 0.2
        assert "epsilon" not in changed.manifest["tasks"]["random-walk-50"]["settings"]
        instances = changed.frame("instances")
        assert instances.set_index("task").epsilon.to_dict() == {"frozen-lake": 0.2, "random-walk-50": 0.0}
        key = ["task", "algorithm", "run", "kind", "target", "norm", "step"]
        before = results.frame("runs").query("protocol == 'literal'").set_index(key).error
        after = changed.frame("runs").set_index(key).error
        assert (after["random-walk-50"] == before["random-walk-50"]).all()
        last = after["frozen-lake"].xs(750, level="step") != before["frozen-lake"].xs(750, level="step")
        assert last.all()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"epsilom": 0.1}, "unknown setting 'epsilom': did you mean 'epsilon'?"),
            ({"seed": 3}, "unknown setting 'seed'"),
            ({"epsilon": 1.5}, r"frozen-lake refuses .*: epsilon must be at least 0 and below 1, found 1.5"),
            ({"epsilon": 1.0}, "epsilon must be at least 0 and below 1, found 1.0"),
            ({"epsilon": -0.1}, "epsilon must be at least 0 and below 1, found -0.1"),
            ({"epsilon": "much"}, r"frozen-lake refuses the settings \{'epsilon': 'much'\}"),
            ({"num_features": 17}, r"frozen-lake refuses .* 16, the number of states, found 17"),
        ],
    )
    def test_what_a_task_refuses_is_refused_before_work_begins(
        self, settings, message, tmp_path: Path, monkeypatch
    ) -> None:
        monkeypatch.setattr(Instance, "compute", lambda self: pytest.fail("work has begun"))
        with pytest.raises(ValueError, match=message):
            run_small(tmp_path / "results", settings=settings)
        assert not (tmp_path / "results").exists()

    def test_a_setting_that_no_chosen_task_has_is_unknown(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="unknown setting 'epsilon': known are num_features"):
            run_small(tmp_path / "results", tasks=["random-walk-50"], settings={"epsilon": 0.1})


def test_the_bar_names_what_runs(tmp_path: Path, monkeypatch) -> None:
    shown, running = [], []
    monkeypatch.setattr(Watch, "show", lambda self, *words: shown.append(words))
    compute = Instance.compute
    monkeypatch.setattr(Instance, "compute", lambda self: running.append(shown[-1][0]) or compute(self))
    run_small(tmp_path / "results", protocols=["fair"], instances=1)
    assert running == ["fair: random-walk-50 0", "fair: frozen-lake 0"]
    assert [words[1] for words in shown if words[2] == 2] == [0, 1, 2]


@pytest.mark.slow
def test_workers_change_no_byte(results: Results, tmp_path: Path) -> None:
    assert table_bytes(run_small(tmp_path / "two", workers=2)) == table_bytes(results)


def test_a_damaged_record_is_computed_again(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    (folder / "units").mkdir(parents=True)
    for name in ("study.json", "units/segment-000000.log"):
        (folder / name).write_bytes((results.folder / name).read_bytes())
    segment = folder / "units/segment-000000.log"
    whole = bytearray(segment.read_bytes())
    whole[len(whole) // 3] ^= 1
    segment.write_bytes(whole[:-100])
    assert table_bytes(run_small(folder, resume=True)) == table_bytes(results)
    assert len(Results(folder).log.segments()) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ["frozen-lak"]}, "unknown task of the paper 'frozen-lak': did you mean 'frozen-lake'"),
        ({"protocols": ["unfair"]}, "unknown protocol 'unfair': did you mean 'fair'"),
        ({"protocols": []}, "there is nothing to run"),
        ({"tasks": "frozen-lake"}, "tasks must be a list of ids, found 'frozen-lake'"),
        ({"protocols": "fair"}, "protocols must be a list of ids, found 'fair'"),
        ({"tasks": [3]}, "unknown task of the paper 3: known are random-walk-50"),
        ({"instances": 0}, "instances must be an integer of at least 1, found 0"),
        ({"instances": 2.5}, "instances must be an integer of at least 1, found 2.5"),
        ({"instances": "3"}, "instances must be an integer of at least 1, found '3'"),
        ({"shorten": 0}, "shorten must be an integer of at least 1 and at most 150000, found 0"),
        ({"shorten": 2.5}, "shorten must be an integer of at least 1 and at most 150000, found 2.5"),
        ({"shorten": 150_001}, "shorten must be an integer .* at most 150000, found 150001"),
        ({"workers": 0}, "workers must be an integer of at least 1, found 0"),
        ({"workers": 1.5}, "workers must be an integer of at least 1, found 1.5"),
        ({"settings": {"epsilon": object()}}, "settings must be numbers, words and lists of these by name"),
        ({"settings": [1]}, r"settings must be numbers, words and lists of these by name, found \[1\]"),
        ({"overwrite": True, "resume": True}, "overwrite starts afresh and resume continues: choose one"),
    ],
)
def test_bad_input(change, message, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run_small(tmp_path / "results", **change)
    assert not (tmp_path / "results").exists()


def test_what_is_named_twice_is_run_once() -> None:
    once = plan(["fair"], ["random-walk-50"], 2, 1, {})
    assert plan(["fair", "fair"], ["random-walk-50", "random-walk-50"], 2, 1, {}) == once


def test_ids_depend_on_everything_that_matters() -> None:
    units = plan(["literal", "fair"], ["random-walk-50"], 2, 1, {})
    units += [
        Instance("fair", "random-walk-50", 0, shorten=2),
        Instance("fair", "random-walk-50", 0, 1, {"epsilon": 0.5}),
    ]
    assert len({unit.id for unit in units}) == len(units)
    assert Instance("fair", "taxi", 3).id == Instance("fair", "taxi", 3).id


@pytest.mark.slow
def test_a_cluster_gives_the_same_bytes(results: Results, tmp_path: Path, capsys) -> None:
    names = ["splitting", "reward-estimate"]
    with cluster(tmp_path) as dask:
        where = ["--engine", "dask", "--address", dask.address, "--wait", "2min"]
        same = ["--task", "random-walk-50", "--task", "frozen-lake", "--instances", "2", "--shorten", "200"]
        assert cli.main(["reproduce", "--output", str(tmp_path / "results"), *same, *where]) == cli.DONE
        assert table_bytes(Results(tmp_path / "results")) == table_bytes(results)
        capsys.readouterr()
        assert cli.main(["claims", *names, "--quick", *where, "--json"]) == cli.DONE
    found = json.loads(capsys.readouterr().out)
    here = json.dumps([one.to_dict() for one in check_claims(names, quick=True, workers=1)])
    assert [one | {"command": ""} for one in found] == [one | {"command": ""} for one in json.loads(here)]


class TestOnGpu:
    def test_without_one_it_is_refused_before_work(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(gpu, "is_simulated", lambda: False)
        monkeypatch.setattr(gpu, "find_spec", lambda name: None)
        with pytest.raises(ValueError, match=r"not work here, because numba-cuda is not.*gainbias\[gpu\]"):
            run_small(tmp_path / "results", device="gpu")
        with pytest.raises(ValueError, match="device must be 'cpu' or 'gpu', found 'tpu'"):
            run_small(tmp_path / "results", device="tpu")
        where = {"engine": "dask", "address": "tcp://127.0.0.1:8786", "workers": None}
        with pytest.raises(ValueError, match="'gpu' is that of this machine: leave engine 'dask' out"):
            run_small(tmp_path / "results", device="gpu", **where)
        assert (
            cli.main(["reproduce", "--output", str(tmp_path / "results"), "--device", "gpu"])
            == cli.WRONG_INPUT
        )
        assert not (tmp_path / "results").exists()

    def test_instances_of_a_task_follow_each_other(self) -> None:
        units = plan(["literal", "fair"], ["frozen-lake", "random-walk-50"], 2, 1, {})
        turns = task_by_task(units)
        places = [(unit.protocol, unit.task, unit.run) for unit in turns]
        tasks = itertools.product([("literal", 3), ("fair", 2)], ["frozen-lake", "random-walk-50"])
        assert places == [(name, task, run) for (name, runs), task in tasks for run in range(runs)]
        assert len({str(unit.companions) for unit in turns}) == 4

    def test_what_lanes_find_makes_the_same_tables(self) -> None:
        """A lane tells weights, gain and outcome; the rest of its trace is made again."""
        unit = Instance("fair", "random-walk-50", 0, shorten=3000)
        made, traces = unit.begin()
        assert list(traces) == ["lstd"]
        methods, found = [one for one in PROTOCOLS["fair"].methods if one.goes_on_gpu], {}
        for method in methods:
            size = method.step_size or gb.Harmonic(150, 1000)
            given = StackedRun(method.algorithm, 50, size, method.params, [1, 2, 3, 4, 6, 9, 12, 18, 25, 35])
            _, num_steps, size, params, checkpoints = given
            options = {"seeds": 0, "params": params, "checkpoints": checkpoints}
            trace = gb.run(method.algorithm, made.problem, num_steps, size, **options)
            lane = trace.weights[0], trace.gain[0], trace.outcomes[0]
            found[method.name] = LaneFound(given, 0, *lane)
            assert np.array_equal(found[method.name].trace(made.problem).steps, trace.steps)
        assert packed(unit.finish((made, traces), found)) == packed(unit.compute())
