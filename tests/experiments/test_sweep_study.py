"""Descriptions of sweeps: what they mean, and how a wrong one is refused."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gainbias as gb
from gainbias.experiments import study
from gainbias.experiments.study import as_study, read_study

EXAMPLE = Path(__file__).parents[2] / "examples" / "step-sizes.toml"
PLAIN = {"tasks": ["boyan-chain"], "algorithms": ["td-lambda"], "step_size": 0.1, "num_steps": 100}


def test_the_example_says_what_it_runs() -> None:
    study = read_study(EXAMPLE)
    assert (study.name, study.count_units()) == ("step-sizes", 3 * 4 * 10)
    lanes = {cell.algorithm: cell.lanes for cell in study.cells()}
    assert lanes == {"td-lambda": 12, "double-chain": 6, "single-chain": 6, "lstd": 1}
    assert study.count_lanes() == 3 * 10 * sum(lanes.values())
    settings = {cell.settings for cell in study.cells() if cell.task == "garnet"}
    assert settings == {(("num_states", 20),), (("num_states", 40),)}


def test_a_file_a_mapping_and_a_record_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('tasks = ["boyan-chain"]\nalgorithms = ["td-lambda"]\nstep_size = 0.1\nnum_steps = 100\n')
    from_file, from_mapping, record = read_study(file), as_study(PLAIN), gb.Study(**PLAIN)
    ids = [[cell.id for cell in study.cells()] for study in (from_file, from_mapping, record)]
    assert ids[0] == ids[1] == ids[2]
    assert gb.Study.from_dict(record.to_dict()) == gb.Study(**{**PLAIN, **record.to_dict()})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (0.1, ((0.1,),)),
        ([0.3, 0.1, 0.3], ((0.1,), (0.3,))),
        ({"log": [0.01, 1, 3]}, ((0.01,), (0.1,), (1.0,))),
        ({"linear": [1, 2, 3]}, ((1.0,), (1.5,), (2.0,))),
        ({"kind": "constant", "a": [1, 2]}, ((1.0,), (2.0,))),
        ({"kind": "harmonic", "a": {"log": [1, 100, 2]}, "c0": 5}, ((1.0, 5.0), (100.0, 5.0))),
        ({"kind": "polynomial", "a": 1, "c0": 2, "xi": [0.5, 0.7]}, ((1.0, 2.0, 0.5), (1.0, 2.0, 0.7))),
        ([0.5, {"kind": "harmonic", "a": 1, "c0": 2}], ((0.5,), (1.0, 2.0))),
        ("paper", "paper"),
    ],
)
def test_step_sizes(given, meant) -> None:
    assert study.step_sizes(given, "step_size") == meant


def test_the_papers_steps() -> None:
    study = gb.Study(
        tasks=["taxi", "frozen-lake"], algorithms=["double-chain"], step_size="paper", num_steps="paper"
    )
    for cell in study.cells():
        paper = gb.TASKS[cell.task].paper
        assert cell.num_steps == paper.num_steps
        assert cell.step_sizes == ((paper.step_numerator, paper.step_offset),)


def test_a_setting_that_is_a_list_is_one_value() -> None:
    study = gb.Study(**{**PLAIN, "tasks": [{"id": "access-control", "priorities": [1, 2, 4, 8]}]})
    assert {cell.settings for cell in study.cells()} == {(("priorities", (1, 2, 4, 8)),)}
    both = [{"id": "access-control", "priorities": [[1, 2, 4, 8], [1, 1, 1, 9]]}]
    assert len(gb.Study(**{**PLAIN, "tasks": both})._tasks) == 2


def test_paths_have_the_seed_of_their_instance_unless_seeds_are_given() -> None:
    pairs = {(cell.instance, cell.seed) for cell in gb.Study(**PLAIN, instances=3).cells()}
    assert pairs == {(0, 0), (1, 1), (2, 2)}
    pairs = {(cell.instance, cell.seed) for cell in gb.Study(**PLAIN, instances=[5, 7], seeds=2).cells()}
    assert pairs == {(5, 0), (5, 1), (7, 0), (7, 1)}


class TestIds:
    CELL = next(gb.Study(**PLAIN).cells())

    @pytest.mark.parametrize(
        "change",
        [
            {"task": "two-loop"},
            {"settings": (("num_states", 14),)},
            {"protocol": "fair"},
            {"instance": 1},
            {"seed": 1},
            {"algorithm": "double-chain"},
            {"step_sizes": ((0.2,),)},
            {"params": (("trace_decay", (0.5,)), ("gain_ratio", (1.0,)))},
            {"num_steps": 101},
            {"checkpoints": (50, 100)},
            {"sampling": "iid"},
            {"metrics": (("full", "bias", "euclidean"),)},
            {"exact": True},
            {"code": "another"},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_they_depend_on_everything_that_matters(self, change) -> None:
        assert replace(self.CELL, **change).id != self.CELL.id

    def test_every_field_is_among_these(self) -> None:
        marks = type(self).test_they_depend_on_everything_that_matters.pytestmark
        changed = set(itertools.chain(*marks[0].args[1]))
        assert changed | {"problem"} == set(self.CELL.__dataclass_fields__)  # the settings have its digest

    def test_extending_keeps_them(self) -> None:
        few = {cell.id for cell in gb.Study(**PLAIN, instances=3).cells()}
        more = {**PLAIN, "algorithms": ["double-chain", "td-lambda"], "tasks": ["two-loop", "boyan-chain"]}
        assert few < {cell.id for cell in gb.Study(**more, instances=5).cells()}

    def test_the_order_of_a_grid_does_not_matter(self) -> None:
        one, other = ({**PLAIN, "step_size": sizes} for sizes in ([0.1, 0.2], [0.2, 0.1, 0.2]))
        assert [cell.id for cell in gb.Study(**one).cells()] == [
            cell.id for cell in gb.Study(**other).cells()
        ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"taks": 1}, "taks: unknown key 'taks': did you mean 'tasks'?"),
        ({"tasks": []}, "tasks: the list is empty"),
        ({"tasks": "taxi"}, "tasks: must be a list, found 'taxi'"),
        ({"tasks": ["boyan-chian"]}, r"tasks\[0\]: unknown task 'boyan-chian': did you mean 'boyan-chain'?"),
        ({"tasks": [{"id": "garnat"}]}, r"tasks\[0\].id: unknown task 'garnat': did you mean 'garnet'?"),
        (
            {"tasks": [{"id": "garnet", "num_state": 3}]},
            r"tasks\[0\].num_state: .* did you mean 'num_states'?",
        ),
        ({"tasks": [{"id": "garnet", "num_states": []}]}, r"tasks\[0\].num_states: the list is empty"),
        ({"tasks": [3]}, r"tasks\[0\]: must be the id of a task, or a table with id and settings, found 3"),
        ({"algorithms": []}, "algorithms: the list is empty"),
        (
            {"algorithms": ["lstd", "td-lamda"]},
            r"algorithms\[1\]: unknown algorithm 'td-lamda': did you mean",
        ),
        ({"algorithms": [{"id": "td-lambda", "steps": 1}]}, r"algorithms\[0\].steps: unknown key"),
        (
            {"algorithms": ["lstd", {"id": "td-lambda", "step_size": -1}]},
            r"algorithms\[1\].step_size: a must be",
        ),
        (
            {"algorithms": [{"id": "lstd", "step_size": 1}]},
            r"algorithms\[0\].step_size: lstd has no step size",
        ),
        (
            {"algorithms": [{"id": "td-lambda", "params": {"trace_decya": 0}}]},
            r"algorithms\[0\].params.trace_decya: unknown parameter of td-lambda .* mean 'trace_decay'?",
        ),
        (
            {"algorithms": [{"id": "td-lambda", "params": {"trace_decay": 1.5}}]},
            r"algorithms\[0\].params.trace_decay: parameter 'trace_decay' of td-lambda must be a number",
        ),
        ({"algorithms": ["td-lambda", "td-lambda"]}, r"algorithms\[1\]: repeats lanes of td-lambda"),
        ({"algorithms": [3]}, r"algorithms\[0\]: must be the id of an algorithm"),
        ({"step_size": []}, "step_size: the list is empty"),
        ({"step_size": None}, r"algorithms\[0\]: td-lambda needs a step_size"),
        ({"step_size": "fast"}, "step_size: must be a number, a list of numbers, or a grid"),
        ({"step_size": {"log": [0, 1, 3]}}, "step_size.log: the ends of a log grid must be positive"),
        ({"step_size": {"log": [1, 2]}}, r"step_size.log: must be \[lowest, highest, how many\]"),
        ({"step_size": {"log": [1, 2, 0]}}, "step_size.log: the number of points must be an integer"),
        ({"step_size": {"lgo": [1, 2, 3]}}, "step_size.lgo: unknown key 'lgo'"),
        (
            {"step_size": {"kind": "harmonc", "a": 1}},
            "step_size.kind: unknown kind .* did you mean 'harmonic'?",
        ),
        (
            {"step_size": {"kind": "harmonic", "a": 1}},
            "step_size: harmonic step sizes need a and c0, found no c0",
        ),
        ({"step_size": [0.1, {"a": [True]}]}, r"step_size\[1\]: must be a number"),
        ({"step_size": "paper"}, "tasks: the paper has no steps for boyan-chain"),
        ({"num_steps": "paper"}, "tasks: the paper has no steps for boyan-chain"),
        ({"num_steps": 0}, 'num_steps: must be a positive integer or "paper", found 0'),
        ({"sampling": "markow"}, "sampling: unknown sampling 'markow': did you mean 'markov'?"),
        ({"instances": 0}, "instances: the number must be an integer of at least 1, found 0"),
        ({"instances": []}, "instances: the list is empty"),
        ({"seeds": [-1]}, "seeds: each entry must be an integer that is not negative, found -1"),
        ({"checkpoints": [200]}, "checkpoints: .* from 0 to num_steps=100"),
        ({"metrics": []}, "metrics: the list is empty"),
        ({"metrics": ["quotient", "centered"]}, r"metrics\[1\]: unknown word .* did you mean 'centred'?"),
        ({"protocol": "unfair"}, "protocol: unknown protocol 'unfair': did you mean 'fair'?"),
        ({"name": "a/b"}, "name: must be the name of a folder, printable and without / or"),
        ({"name": "a\x1b[2Jb"}, "name: must be the name of a folder, printable"),
        ({"name": "a\u202eb"}, "name: must be the name of a folder, printable"),
        ({"name": "\udcff"}, "name: must be the name of a folder, printable"),
        ({"name": ".."}, "name: must not begin with . or - nor end with ., nor a space, found '..'"),
        ({"name": "--resume"}, "name: must not begin with"),
        ({"name": "ö" * 101}, "name: must have at most 200 bytes, found 202"),
        ({"name": 5}, "name: must be the name of a folder, .* found 5"),
        (
            {"tasks": [{"id": "garnet", "num_states": {"log": [1, 2, 3]}}]},
            r"tasks\[0\].num_states: must be a num",
        ),
        ({"step_size": 10**400}, "step_size: int too large"),
        ({"step_size": [[[0.1]]]}, r"step_size\[0\]: must be a number"),
        ({"instances": [2**63]}, "instances: each entry must be an integer of at least 0 and at most"),
        ({"metrics": ["quotient centred"]}, r"metrics\[0\]: is either quotient or centred"),
    ],
)
def test_a_wrong_description_is_refused_at_its_key(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        gb.Study.from_dict({**PLAIN, **change})


def test_units_of_other_settings_have_other_labels() -> None:
    chosen = {"tasks": [{"id": "garnet", "num_states": [10, 20]}], "algorithms": ["lstd"], "num_steps": 9}
    labels = [cell.label for cell in gb.Study(**chosen).cells(first_only=True)]
    assert labels == [f"lstd on garnet (num_states={n}), instance 0, seed 0" for n in (10, 20)]


def test_a_grid_of_too_many_points_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match=r"step_size\.log: the number of points must be .* at most 100000"):
        gb.Study(tasks=["garnet"], algorithms=["td-lambda"], num_steps=9, step_size={"log": [0.1, 1, 10**11]})


def test_arrays_are_lists_and_infinity_is_kept() -> None:
    settings = {"id": "garnet", "num_states": np.array([10, 12])}
    method = {"id": "discounted-td", "params": {"radius": [1.0, math.inf]}}
    given = gb.Study(
        tasks=[settings], algorithms=[method], step_size=np.array([0.1, 0.2]), num_steps=np.int64(10)
    )
    read = json.loads(json.dumps(given.to_dict(), allow_nan=False))
    assert [cell.id for cell in gb.Study(**read).cells()] == [cell.id for cell in given.cells()]
    assert (given.count_units(), dict(next(given.cells()).params)["radius"]) == (20, (1.0, math.inf))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="algorithms: is missing"):
        gb.Study.from_dict({"tasks": ["taxi"]})


def test_a_syntax_error_is_refused_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('tasks = ["taxi"]\nnum_steps = 10\nstep_size = = 3\n')
    with pytest.raises(ValueError, match=r"study.toml is not TOML, .*line 3"):
        read_study(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*missing.toml: name a TOML file"):
        read_study(tmp_path / "missing.toml")
    with pytest.raises(ValueError, match="there is no file"):
        read_study(tmp_path)


def test_a_study_that_is_too_large_is_refused_before_it_is_planned() -> None:
    huge = {**PLAIN, "instances": 10_000, "seeds": 10_000}
    with pytest.raises(
        ValueError, match=r"has 100,000,000 units, more than 100,000: .* --max-units 100000000"
    ):
        as_study(huge)
    with pytest.raises(ValueError, match=r"has 1,000,000,000,000,000 units"):
        as_study({**PLAIN, "instances": 10**15})
