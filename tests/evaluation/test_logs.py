"""Logs of every form: the same transitions from all, and what is wrong said with the row."""

import re
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import gymnasium
import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import dataset, parquet

import gainbias as gb
from gainbias.evaluation.sources import readers
from gainbias.evaluation.sources.environments import environment_stream
from gainbias.evaluation.sources.logs import log_stream
from tests.evaluation.chains import Walk, check_against, column, queue_process

LOG = {
    "state": np.array([2, 1, 3, 0, 1, 4]),
    "reward": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "next": np.array([1, 3, 9, 1, 4, 2]),
    "terminated": np.array([False, False, True, False, False, False]),
    "truncated": np.array([False, False, False, False, False, True]),
    "episode": np.array([0, 0, 0, 1, 1, 1]),
    "step": np.array([0, 1, 2, 0, 1, 2]),
}
MOVES = [(2, 1, 1.0, 0), (1, 3, 2.0, 0), (3, 5, 3.0, 0), (5, 0, 0.0, 0), (0, 1, 4.0, 0), (1, 4, 5.0, 0)]


def moves(stream):
    batches = list(stream)
    columns = [column(batches, name).tolist() for name in ("here", "after", "rewards", "segments")]
    return list(zip(*columns, strict=True))


def only(*names):
    return {name: LOG[name] for name in names}


def changed(**columns):
    return LOG | {name: np.asarray(values) for name, values in columns.items()}


class TestForms:
    @pytest.mark.parametrize("size", [1, 2, 4, 100])
    def test_all_give_the_same(self, size, tmp_path):
        frame = pandas.DataFrame(LOG)
        table = pyarrow.table(LOG)
        path = tmp_path / "log.parquet"
        parquet.write_table(table, path, row_group_size=4)
        shared = SimpleNamespace(__arrow_c_stream__=table.__arrow_c_stream__)
        for log in (LOG, frame, table, path, str(path), dataset.dataset(path), shared):
            assert moves(log_stream(log, batch_size=size)) == [*MOVES, (4, 2, 6.0, 0)]

    def test_without_next_states(self):
        log = only("state", "reward", "terminated")
        assert moves(log_stream(log)) == MOVES
        assert moves(log_stream((LOG["state"], LOG["reward"]))) == [
            (int(here), int(after), float(reward), 0)
            for here, after, reward in zip(LOG["state"], LOG["state"][1:], LOG["reward"], strict=False)
        ]

    def test_ends_at_once(self):
        found = moves(log_stream(LOG, on_termination="reward"))
        assert found[2:4] == [(3, 0, 3.0, 0), (0, 1, 4.0, 0)]

    def test_an_end_in_the_last_row(self):
        ends = np.array([False] * 5 + [True])
        found = moves(log_stream(only("state", "reward") | {"terminated": ends}))
        assert found[-1] == (4, 5, 6.0, 0)

    def test_several_columns_make_a_state(self):
        frame = pandas.DataFrame({"x": [0.0, 1.0, 2.0], "v": [3.0, 4.0, 5.0], "r": [1, 2, 3]})
        for log in (frame, pyarrow.Table.from_pandas(frame)):
            stream = log_stream(log, state=("x", "v"), reward="r", features=lambda seen: seen)
            [batch] = stream
            assert (batch.after_rows * stream.observed.scale).tolist() == [[1.0, 4.0], [2.0, 5.0]]

    @pytest.mark.parametrize("kind", [pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.float64(), 2)])
    def test_lists_are_states(self, kind):
        states = pyarrow.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], kind)
        stream = log_stream(pyarrow.table({"obs": states, "reward": [1, 2, 3]}), features=lambda seen: seen)
        [batch] = stream
        assert (batch.here_rows * stream.observed.scale).tolist() == [[0.0, 1.0], [2.0, 3.0]]

    def test_episodes_of_a_dataset(self):
        minari = pytest.importorskip("minari")

        def episode(number, states, ended):
            last = np.arange(len(states) - 1) == len(states) - 2
            return minari.EpisodeData(
                id=number,
                observations=np.array(states),
                actions=np.zeros(len(states) - 1),
                infos={},
                rewards=np.arange(1.0, len(states)),
                terminations=last & ended,
                truncations=last & ~np.bool_(ended),
            )

        episodes = [episode(0, [0, 1, 2], True), episode(1, [0, 2, 1], False), episode(2, [1, 1], True)]
        log = SimpleNamespace(
            observation_space=gymnasium.spaces.Discrete(3), iterate_episodes=lambda: iter(episodes)
        )
        for size in (1, 4, 100):
            found = moves(log_stream(log, batch_size=size))
            assert found == [
                (0, 1, 1.0, 0),
                (1, 3, 2.0, 0),
                (3, 0, 0.0, 0),
                (0, 2, 1.0, 0),
                (2, 1, 2.0, 0),
                (1, 3, 1.0, 1),
            ]
        episodes[1].rewards[1] = np.nan
        with pytest.raises(
            ValueError, match="episode 1 of the dataset: reward 1 is nan, not a finite number"
        ):
            list(log_stream(log))

    @pytest.mark.filterwarnings("ignore::UserWarning")  # Minari misses a description, and an environment
    def test_a_dataset_on_disk(self, tmp_path, monkeypatch):
        minari = pytest.importorskip("minari")
        from minari.data_collector import EpisodeBuffer

        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        episodes = [
            EpisodeBuffer(
                id=number,
                observations=states,
                actions=[0] * (len(states) - 1),
                rewards=[float(state) for state in states[1:]],
                terminations=[False] * (len(states) - 2) + [number == 0],
                truncations=[False] * (len(states) - 2) + [number == 1],
            )
            for number, states in enumerate(([0, 1, 2], [2, 0, 1, 1]))
        ]
        spaces = {
            "observation_space": gymnasium.spaces.Discrete(3),
            "action_space": gymnasium.spaces.Discrete(1),
        }
        minari.create_dataset_from_buffers("toy/toy-v0", buffer=episodes, data_format="arrow", **spaces)
        found = moves(log_stream(minari.load_dataset("toy/toy-v0")))
        assert found == [
            (0, 1, 1.0, 0),
            (1, 3, 2.0, 0),
            (3, 2, 0.0, 0),
            (2, 0, 0.0, 0),
            (0, 1, 1.0, 0),
            (1, 1, 1.0, 0),
        ]

    def test_the_model_of_a_queue(self):
        process = queue_process()
        rng = np.random.default_rng(4)
        states = [0]
        for _ in range(30_000):
            states.append(rng.choice(process.num_states, p=process.transitions[states[-1]]))
        rewards = [process.transition_rewards[a, b] for a, b in pairwise(states)]
        check_against(
            process, list(log_stream((np.array(states), np.array([*rewards, 0.0])), batch_size=999))
        )

    def test_a_log_of_an_environment_is_its_stream(self):
        stream = environment_stream(Walk(), "random", batch_size=300)
        live = next(stream.batches)
        stay = live.here != 5
        log = {"state": live.here[stay], "reward": live.rewards[stay], "terminated": live.after[stay] == 5}
        found = moves(log_stream(log, num_states=5))
        expected = list(zip(live.here.tolist(), live.after.tolist(), live.rewards.tolist(), strict=True))
        assert [move[:3] for move in found][: len(expected) - 2] == expected[: len(expected) - 2]


class TestBreaks:
    def test_a_new_episode_without_an_end_is_a_break(self):
        stream = log_stream(only("state", "reward", "episode"))
        assert moves(stream) == [(2, 1, 1.0, 0), (1, 3, 2.0, 0), (0, 1, 4.0, 1), (1, 4, 5.0, 1)]
        assert "is left out, because the log does not say where it led" in stream.notes[0]

    def test_with_next_states_no_row_is_lost(self):
        log = changed(terminated=np.zeros(6, dtype=bool))
        found = moves(log_stream(log, num_states=10))
        assert found[2:4] == [(3, 9, 3.0, 0), (0, 1, 4.0, 1)]
        assert len(found) == 6

    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"next": [1, 3, 9, 1, 2, 2]}, "its next state is 2, the row after it is at 4"),
            ({"step": [0, 1, 2, 0, 1, 3]}, "its step is 1, the row after it has 3"),
        ],
    )
    def test_gaps(self, size, columns, words):
        with pytest.raises(ValueError, match=f"row 4 of the log: {words}.*gaps='break'"):
            list(log_stream(changed(**columns), batch_size=size))
        stream = log_stream(changed(**columns), batch_size=size, gaps="break")
        found = moves(stream)
        assert [move[3] for move in found] == [0] * 6 + [1]
        assert any("the first after row 4" in note for note in stream.notes)

    def test_shuffled(self):
        rng = np.random.default_rng(0)
        states = rng.integers(0, 5, 101)
        log = {"state": states[:-1], "reward": np.ones(100), "next": states[1:]}
        order = rng.permutation(100)
        assert len(moves(log_stream(log))) == 100
        with pytest.raises(ValueError, match=r"row \d of the log: .*not in order of time"):
            list(log_stream({name: values[order] for name, values in log.items()}))

    @pytest.mark.parametrize("size", [1, 2, 100])
    def test_an_episode_that_comes_back(self, size):
        log = only("state", "reward") | {"episode": np.array([0, 0, 1, 1, 0, 0])}
        found = []
        with pytest.raises(ValueError, match="row 4 of the log: episode 0, which began in row 0, comes back"):
            found.extend(map(len, log_stream(log, batch_size=size)))
        assert sum(found) == 2
        assert len(moves(log_stream(log, batch_size=size, gaps="break"))) == 3

    def test_rounding_is_no_gap(self):
        states = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        rounded = states.astype(np.float32).astype(np.float64)
        log = {"state": states[:2], "reward": np.ones(2), "next": rounded[1:]}
        [batch] = log_stream(log)
        assert len(batch) == 2


class TestStatesThatNoRowBeginsIn:
    def test_they_are_states(self):
        """Without `num_states`; where an episode ends, the next state is not looked at."""
        log = {"state": [0, 1, 0, 1], "reward": np.ones(4), "next": [1, 5, 1, 9], "terminated": [0, 0, 0, 1]}
        found = moves(log_stream(log, gaps="break"))
        assert {after for _, after, _, _ in found} == {1, 5, 6}  # 6 stands for the end
        with pytest.raises(ValueError, match="row 1 of the log: the next state is 5, outside the space from"):
            moves(log_stream(log, gaps="break", num_states=2))


class TestFlaws:
    @pytest.mark.parametrize("size", [1, 2, 100])
    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"reward": [1, 2, 3, np.nan, 5, 6]}, "row 3 of the log: the reward is nan, not a finite number"),
            ({"reward": [1, 2, 3, np.inf, 5, 6]}, "row 3 of the log: the reward is inf"),
            ({"state": [2, 1, 3, -1, 1, 4]}, "row 3 of the log: the state is -1, outside the space"),
            ({"next": [1, 3, 9, -1, 4, 2]}, "row 3 of the log: the next state is -1, outside the space"),
        ],
    )
    def test_said_with_the_row_and_nothing_before_is_lost(self, size, columns, message):
        found = []
        with pytest.raises(ValueError, match=message):
            found.extend(map(len, log_stream(changed(**columns), batch_size=size, gaps="break")))
        assert sum(found) == 2  # the end in row 2 waits for row 3

    @pytest.mark.parametrize("size", [1, 2, 100])
    @pytest.mark.parametrize("role", ["reward", "terminated", "step", "next"])
    @pytest.mark.parametrize("odd", ["x", None, pandas.NA])
    def test_an_element_of_a_wrong_kind(self, size, role, odd):
        column = LOG[role].astype(object)
        assert moves(log_stream(changed(**{role: column}), batch_size=size)) == [*MOVES, (4, 2, 6.0, 0)]
        column[4] = odd
        found = []
        with pytest.raises(
            ValueError, match=f"row 4 of the log: the {role} is {re.escape(repr(odd))}, must be"
        ):
            found.extend(map(len, log_stream(changed(**{role: column}), batch_size=size, gaps="break")))
        assert sum(found) >= 3

    def test_a_next_state_behind_an_end_does_not_matter(self):
        log = changed(next=np.array([1, 3, np.nan, 1, 4, 2]))
        assert moves(log_stream(log)) == [*MOVES, (4, 2, 6.0, 0)]

    def test_missing_numbers(self):
        log = pyarrow.table({"state": [0, 1, None, 1], "reward": [1.0, 1.0, 1.0, 1.0]})
        with pytest.raises(ValueError, match="row 2 of the log: the state is nan"):
            list(log_stream(log))
        log = pyarrow.table({"state": [0, 1, 0, 1], "reward": [1.0, None, 1.0, 1.0]})
        with pytest.raises(ValueError, match="row 1 of the log: the reward is nan"):
            list(log_stream(log))

    @pytest.mark.parametrize(
        ("log", "options", "message"),
        [
            (changed(reward=list("abcdef")), {}, "row 0 of the log: the reward is .*'a'.*must be numbers"),
            (
                changed(reward=np.array([1, 2, "x", 3, 4, 5], dtype=object)),
                {},
                "row 2 of the log: the reward is 'x'",
            ),
            (
                changed(terminated=[0, 1, 2, 0, 0, 0]),
                {},
                "row 2 of the log: the terminated is .*true or false",
            ),
            (
                changed(terminated=np.array([False, pandas.NA, *[False] * 4], dtype=object)),
                {},
                "row 1 of the log: the terminated is <NA>, must be true or false",
            ),
            (changed(state=list("abcdef")), {}, "numbers, found 'a' in row 0: number .*pandas.factorize"),
            (changed(reward=np.ones((6, 2))), {}, "rewards are vectors of length 2: choose a weight"),
            (changed(next=np.ones((6, 2))), {}, r"next states have shape \(2,\), states have \(\)"),
            (changed(reward=np.ones(5)), {}, "must have the same length"),
            ({name: values[:1] for name, values in LOG.items()}, {}, "at least two rows, found 1"),
            ({name: values[:0] for name, values in LOG.items()}, {}, "the log is empty"),
            (changed(), {"num_states": 3}, "row 1 of the log: the next state is 3, outside"),
            (changed(), {"reward": "profit"}, "no column 'profit', it has state, reward"),
            (only("state"), {}, r"the log has no column of rewards \(reward\), it has state: say"),
            (
                changed(obs=LOG["state"]),
                {},
                "columns state, obs may all be the state: say state=... which is",
            ),
            (
                changed(next_obs=LOG["next"]),
                {},
                "may all be the next: say columns={'next_state': ...} which is",
            ),
            (changed(), {"gaps": "skip"}, "gaps must be"),
            (changed(), {"on_termination": "stop"}, "on_termination must be"),
            ((1, 2, 3, 4), {}, "found 4 parts"),
            (7, {}, "a log must be .*found int"),
            ("nowhere.parquet", {}, "there is no file nowhere.parquet"),
            (__file__, {}, r"test_logs.py cannot be read: known are CSV \(.csv, .tsv"),
            ("none.csv", {}, "there is no file none.csv"),
            (pyarrow.table(LOG).to_reader(), {}, "read only once"),
            (only("state", "reward") | {"episode": np.arange(6)}, {}, "no row of the log leads to another"),
        ],
    )
    def test_named(self, log, options, message):
        with pytest.raises(ValueError, match=message):
            list(log_stream(log, **options))

    def test_lists_of_different_lengths(self):
        log = pyarrow.table({"obs": [[0.0], [1.0, 2.0], [3.0]], "reward": [1, 2, 3]})
        with pytest.raises(ValueError, match="lists of different lengths, from 1 to 2"):
            log_stream(log)


MEASURE = """
import resource, sys
from gainbias.evaluation.sources.logs import log_stream
peaks = []
for path in sys.argv[1:]:
    count = sum(len(batch) for batch in log_stream(path, features=lambda seen: seen))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(count, peaks[1] - peaks[0])
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(tmp_path):
    """After a short file, one that is 50 times as long takes hardly more memory."""
    rng = np.random.default_rng(0)
    states = pyarrow.FixedSizeListArray.from_arrays(rng.uniform(size=8 * 100_000), 8)
    part = pyarrow.table({"state": states, "reward": rng.uniform(size=100_000)})
    for name, repeats in (("short", 1), ("long", 50)):
        with parquet.ParquetWriter(tmp_path / name, part.schema, compression="none") as writer:
            for _ in range(repeats):
                writer.write_table(part)
    assert (tmp_path / "long").stat().st_size > 150e6
    names = [str(tmp_path / name) for name in ("short", "long")]
    command = [sys.executable, "-c", MEASURE, *names]
    count, growth = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(count) == 50 * 100_000 - 1
    unit = 1024 if sys.platform == "linux" else 1
    assert int(growth) * unit < 60e6


class TestOddLogs:
    states = np.random.default_rng(0).integers(0, 3, 3_000)
    rewards = 1.0 * states

    def test_columns_with_numbers_for_names(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({0: self.states, 1: self.rewards})
        assert gb.evaluate_log(frame, state="0", reward="1").gain == pytest.approx(1.0, abs=0.1)

    def test_columns_that_are_there_twice(self):
        pandas = pytest.importorskip("pandas")
        columns = np.stack([self.states, self.states, self.states], axis=1)
        frame = pandas.DataFrame(columns, columns=["state", "state", "reward"])
        with pytest.raises(ValueError, match="several columns 'state'"):
            gb.evaluate_log(frame)

    @pytest.mark.parametrize("count", [-2, 2.5])
    def test_a_number_of_states_that_is_none(self, count):
        with pytest.raises(ValueError, match="num_states must be a positive integer"):
            gb.evaluate_log((self.states, self.rewards), num_states=count)

    def test_masked_rewards_are_missing(self):
        masked = np.ma.masked_array(self.rewards, mask=np.arange(3_000) == 2_500)
        estimate = gb.evaluate_log((self.states, masked))
        assert "row 2500 of the log: the reward is nan" in estimate.diagnostics.warnings[0]

    def test_a_state_that_is_missing_in_a_later_part(self, tmp_path):
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        states = np.tile(self.states, 30).tolist()
        states[70_000] = None
        table = pyarrow.table({"state": states, "reward": np.tile(self.rewards, 30)})
        parquet.write_table(table, tmp_path / "log.parquet")
        estimate = gb.evaluate_log(tmp_path / "log.parquet")
        assert "row 70000 of the log: the state is nan" in estimate.diagnostics.warnings[0]
        assert estimate.features.startswith("tabular")
        assert estimate.diagnostics.num_transitions == 69_999

    def test_a_file_that_is_damaged_in_a_later_part(self, tmp_path):
        path = tmp_path / "log.parquet"
        states = np.random.default_rng(1).integers(0, 3, 200_000)
        table = pyarrow.table({"state": states, "reward": 1.0 * states})
        parquet.write_table(table, path, row_group_size=50_000, use_dictionary=False)
        with parquet.ParquetFile(path) as file:
            place = file.metadata.row_group(2).column(0).data_page_offset
        content = bytearray(path.read_bytes())
        content[place + 100 : place + 1_100] = b"\xff" * 1_000
        path.write_bytes(content)
        estimate = gb.evaluate_log(path)
        assert "row 65536, or one after it, cannot be read" in estimate.diagnostics.warnings[0]
        assert estimate.diagnostics.num_transitions == 65_535

    def test_a_column_that_may_mark_ends(self):
        log = {"state": self.states, "reward": self.rewards, "done": np.arange(3_000) % 10 == 9}
        notes = gb.evaluate_log(log).diagnostics.notes
        [note] = [note for note in notes if "is not read" in note]
        assert note.startswith(
            "column done is not read: if it marks ends of episodes say columns={'terminated': 'done'}"
        )
        told = gb.evaluate_log(log, columns={"terminated": "done"}).diagnostics
        assert not any("is not read" in note for note in told.notes)
        assert told.num_transitions == 3_299

    def test_a_record_and_a_mapping_name_the_same_columns(self):
        log = {"state": self.states, "reward": self.rewards, "run": np.arange(3_000) // 100}
        found = [
            gb.evaluate_log(log, columns=columns)
            for columns in ({"episode": "run"}, gb.Columns(episode="run"))
        ]
        assert found[0].diagnostics.num_transitions == 2_970
        assert found[0].gain == found[1].gain

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"epsiode": "run"}, "columns: unknown key 'epsiode': did you mean 'episode'"),
            ({"state": "x"}, "state is an argument of its own: leave it out of columns, and say state="),
            ({"episode": "run"}, "the log has no column 'run', it has state, reward"),
            ("run", "columns must be a mapping or gainbias.Columns, found 'run'"),
        ],
    )
    def test_wrong_columns(self, columns, message):
        with pytest.raises(ValueError, match=message):
            gb.evaluate_log((self.states, self.rewards), columns=columns)

    def test_a_list_of_columns_makes_a_state(self):
        log = {"a": self.states, "b": self.rewards, "reward": self.rewards}
        found = [gb.evaluate_log(log, state=names).gain for names in (["a", "b"], ("a", "b"))]
        assert found[0] == found[1]

    def test_features_that_fail_later(self):
        states = np.tile(self.states, 30)
        states[70_000] = 3
        estimate = gb.evaluate_log((states, 1.0 * states), features=lambda seen: np.eye(3)[seen])
        assert "the features failed: IndexError" in estimate.diagnostics.warnings[0]
        assert estimate.diagnostics.num_transitions == 65_535


class TestCsv:
    @pytest.mark.parametrize("name", ["log.csv", "LOG.CSV", "log.csv.gz"])
    @pytest.mark.parametrize("size", [2, 1000])
    def test_a_file_has_the_transitions_of_its_table(self, name, size, tmp_path):
        pandas.DataFrame(LOG).to_csv(tmp_path / name, index=False, compression="infer")
        for path in (tmp_path / name, str(tmp_path / name)):
            [known], found = log_stream(LOG), list(log_stream(path, batch_size=size))
            assert np.concatenate([batch.rewards for batch in found]).tolist() == known.rewards.tolist()
            assert np.concatenate([batch.here for batch in found]).tolist() == known.here.tolist()

    def test_the_answer_is_that_of_the_table(self, tmp_path):
        rng = np.random.default_rng(0)
        frame = pandas.DataFrame({"x": rng.integers(0, 3, 500), "paid": rng.integers(0, 9, 500)})
        frame.to_csv(tmp_path / "log.csv", index=False)
        named = {"state": "x", "reward": "paid"}
        assert gb.evaluate_log(tmp_path / "log.csv", **named).gain == gb.evaluate_log(frame, **named).gain

    @pytest.mark.parametrize("wrong", ["1", "1,2,3"])
    @pytest.mark.parametrize("place", [0, 1, 700, 2_999])
    def test_rows_before_one_with_another_number_of_fields_count(self, wrong, place, tmp_path, monkeypatch):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2_000)
        rows = [f"{k % 3},{k % 7}" for k in range(3_000)]
        rows[place] = wrong
        rows.insert(place // 2, "")  # an empty line is no row
        (tmp_path / "log.csv").write_text("state,reward\n" + "\n".join([*rows, "1,2,3"]))
        message = (
            f"row {place} has another number of fields \\({len(wrong.split(','))}\\) than the head \\(2\\)"
        )
        if place < 2:
            with pytest.raises(ValueError, match=message):
                gb.evaluate_log(tmp_path / "log.csv")
        else:
            known = gb.evaluate_log({"state": np.arange(place) % 3, "reward": np.arange(place) % 7})
            found = gb.evaluate_log(tmp_path / "log.csv")
            assert re.search(message, found.diagnostics.warnings[0])
            assert found.diagnostics.num_transitions == known.diagnostics.num_transitions
            assert found.gain == known.gain
