"""One reader for all tables, files and folders: the same rows, whatever they are stored in."""

import gzip
import json
import re

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.evaluation.sources import readers
from gainbias.evaluation.sources.readers import table_of
from gainbias.evaluation.stream import BrokenStream

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

ROLES = {name: name for name in ("state", "reward", "at", "who")}


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "state": rng.integers(0, 3, 3_000),
            "reward": rng.normal(size=3_000),
            "at": pandas.date_range("2024-01-01", periods=3_000, freq="min"),
            "who": np.where(rng.random(3_000) < 0.5, "a", "b"),
        }
    )


@pytest.fixture(params=[2**20, 2**12], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(readers, "BLOCK_OF_BYTES", request.param)


class Shared:
    """A table that shares itself as an Arrow stream, and can do nothing else, as those of polars."""

    def __init__(self, frame):
        self.table = pyarrow.table(frame)
        self.columns = list(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def stored(frame, folder, kind):
    path = folder / f"log.{kind}"
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind.startswith("jsonl"):
        frame.to_json(path, orient="records", lines=True, date_format="iso", double_precision=15)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "folder":
        path.mkdir()
        for part in range(12):
            frame[250 * part : 250 * (part + 1)].to_parquet(path / f"part-{part}.parquet")
        (path / "_SUCCESS").touch()
        (path / ".part.crc").touch()
        for name in ("_metadata.parquet", ".hidden.parquet"):
            (path / name).write_text("not to be read")
    else:
        return {"pandas": frame, "arrow": pyarrow.table(frame), "shared": Shared(frame)}[kind]
    return path


KINDS = ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "folder", "pandas", "arrow", "shared"]


@pytest.mark.parametrize("kind", KINDS)
class TestAllKinds:
    def test_rows_are_the_same(self, frame, tmp_path, kind, blocks):
        table = table_of(stored(frame, tmp_path, kind), 400)
        chunks = list(table.chunks(ROLES))
        assert table.names == list(frame)
        assert table.times == ["at"]
        assert max(len(chunk["state"]) for chunk in chunks) <= 400
        for name in ROLES:
            found = np.concatenate([chunk[name] for chunk in chunks])
            if name == "reward":
                assert found == pytest.approx(frame[name].to_numpy(), rel=1e-12)
            else:
                assert found.tolist() == frame[name].to_numpy().astype(found.dtype).tolist()
        assert chunks[0]["state"].dtype.kind == "i"

    def test_answers_are_the_same(self, frame, tmp_path, kind):
        source = stored(frame, tmp_path, kind)
        assert gb.evaluate_log(source).gain == pytest.approx(gb.evaluate_log(frame).gain, rel=1e-12)
        known = gb.evaluate_series(frame, (0.5,), column="reward", group="who")
        found = gb.evaluate_series(source, (0.5,), column="reward", group="who")
        for name in ("a", "b"):
            assert found[name].interval == pytest.approx(known[name].interval, rel=1e-9)


class TestPandas:
    def test_an_index_of_dates(self, frame):
        """It is no column of numbers, and the order of rows counts."""
        indexed = frame.set_index("at")
        assert gb.evaluate_log(indexed).gain == gb.evaluate_log(frame).gain
        assert table_of(indexed, 10).times == ["at"]
        whole, part = gb.evaluate_series(frame["reward"]), gb.evaluate_series(indexed["reward"])
        assert part.interval == whole.interval
        assert gb.evaluate_series(indexed, column="reward").interval == whole.interval


class TestTables:
    def test_polars(self, frame):
        polars = pytest.importorskip("polars")
        table = polars.DataFrame({name: frame[name].to_numpy() for name in ("state", "reward")})
        table = table.with_columns(polars.Series("who", frame["who"].tolist(), dtype=polars.Categorical))
        assert gb.evaluate_log(table).gain == gb.evaluate_log(frame).gain
        known = gb.evaluate_series(frame, (), column="reward", group="who")
        found = gb.evaluate_series(table, (), column="reward", group="who")
        assert found["a"].interval == known["a"].interval
        assert gb.evaluate_series(table["reward"], ()).mean == gb.evaluate_series(frame["reward"], ()).mean
        with pytest.raises(ValueError, match=r"LazyFrame has not been read yet: pass table.collect\(\)"):
            gb.evaluate_log(table.lazy())

    def test_categories(self):
        words = pyarrow.array(["b", None, "a", "b"]).dictionary_encode()
        [chunk] = table_of(pyarrow.table({"who": words}), 10).chunks({"who": "who"})
        assert chunk["who"].tolist() == ["b", None, "a", "b"]

    def test_a_column_that_changes_its_kind_later(self, tmp_path, monkeypatch):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 64)
        rows = [{"x": k, "y": k} for k in range(40)] + [{"x": k + 0.5, "y": f"t{k}"} for k in range(40)]
        (tmp_path / "x.csv").write_text("x,y\n" + "".join(f"{row['x']},{row['y']}\n" for row in rows))
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
        for name in ("x.csv", "x.jsonl"):
            chunks = list(table_of(tmp_path / name, 100).chunks({"x": "x", "y": "y"}))
            assert (chunks[0]["x"].dtype.kind, chunks[-1]["x"].dtype.kind) == ("i", "f")
            assert np.concatenate([chunk["x"] for chunk in chunks]).tolist() == [row["x"] for row in rows]
            found = gb.evaluate_series(tmp_path / name, (), column="y")
            [reason, *_] = found.diagnostics.warnings
            assert reason.endswith(
                "row 40: y is the text 't0', not a number (the first row of data is row 0)"
            )

    def test_spaces_around_numbers(self, tmp_path):
        (tmp_path / "x.csv").write_text("state,reward\n" + "1, 2.5\n0 ,1.5\n" * 20)
        assert gb.evaluate_log(tmp_path / "x.csv").gain == pytest.approx(2.0, abs=0.03)

    def test_a_key_that_is_missing_in_a_row(self, tmp_path):
        rows = [{"state": k % 2, "reward": 1.0} for k in range(30)]
        del rows[20]["reward"]
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
        [reason, *_] = gb.evaluate_log(tmp_path / "x.jsonl").diagnostics.warnings
        assert "row 20 of the log: the reward is nan" in reason

    def test_groups_of_a_csv_file_are_texts(self, tmp_path):
        (tmp_path / "x.csv").write_text("x,g\n" + "1,007\n3,12\n" * 10)
        assert list(gb.evaluate_series(tmp_path / "x.csv", (), column="x", group="g")) == ["007", "12"]

    def test_lists_are_no_numbers(self, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"x": [1, 2]}\n' * 20)
        with pytest.raises(ValueError, match="x holds lists, a number in each row is needed"):
            gb.evaluate_series(tmp_path / "x.jsonl")

    @pytest.mark.parametrize("end", ["", ".250", "Z", ".250Z", "+00:00"])
    def test_times_in_json(self, tmp_path, end):
        rows = [{"reward": 1.0, "at": f"2024-01-01T00:{k:02}:00{end}"} for k in range(60)]
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
        table = table_of(tmp_path / "x.jsonl", 100)
        assert table.times == ["at"]
        [chunk] = table.chunks({"at": "at"})
        assert (np.diff(chunk["at"]) == np.timedelta64(60, "s")).all()

    def test_states_of_several_numbers_in_json(self, tmp_path):
        rows = [{"state": [k % 2, k % 3], "reward": 1.0 * (k % 5)} for k in range(60)]
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
        assert gb.evaluate_log(tmp_path / "x.jsonl").gain == pytest.approx(2.0, abs=0.1)


class TestWrongFiles:
    @pytest.mark.parametrize("kind", ["csv.gz", "jsonl.gz"])
    def test_a_file_that_was_cut(self, tmp_path, kind, monkeypatch):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2**12)
        rng = np.random.default_rng(0)
        long = pandas.DataFrame({"state": rng.integers(0, 3, 20_000), "reward": rng.random(20_000)})
        path = stored(long, tmp_path, kind)
        path.write_bytes(path.read_bytes()[:-20_000])
        found = gb.evaluate_log(path)
        assert "or one after it, cannot be read" in found.diagnostics.warnings[0]
        assert 1_000 < found.diagnostics.num_transitions < 20_000

    def test_something_else(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(b"state,reward\n1,\xff\xfe\n")
        (tmp_path / "x.csv.gz").write_bytes(b"state,reward\n1,2\n")
        (tmp_path / "x.jsonl.gz").write_bytes(b"{}")
        (tmp_path / "x.jsonl").write_text("{'state': 1}\n")
        (tmp_path / "y.jsonl.gz").write_bytes(gzip.compress(b""))
        for name, message in (
            ("x.csv", "cannot be read|not a CSV file|must be numbers"),
            ("x.csv.gz", "x.csv.gz is not a CSV file that can be read"),
            ("x.jsonl.gz", "x.jsonl.gz cannot be read"),
            ("x.jsonl", "row 0 is not JSON"),
            ("y.jsonl.gz", "is empty"),
        ):
            with pytest.raises(ValueError, match=message):
                gb.evaluate_log(tmp_path / name)

    def test_rows_before_a_wrong_line_of_json_count(self, tmp_path, blocks, monkeypatch):
        if readers.BLOCK_OF_BYTES < 2**20:
            monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2**8)
        lines = [json.dumps({"state": k % 2, "reward": 1.0}) for k in range(40)]
        (tmp_path / "x.jsonl").write_text("\n".join([*lines, "[1, 2]", *lines]))
        with pytest.raises(BrokenStream, match="row 40 is not an object with named columns"):
            list(table_of(tmp_path / "x.jsonl", 100).chunks({"reward": "reward"}))
        assert gb.evaluate_log(tmp_path / "x.jsonl").diagnostics.num_transitions == 39


class TestFolders:
    def test_numbers_in_names_are_compared_as_numbers(self, frame, tmp_path):
        path = stored(frame, tmp_path, "folder")  # part-10 comes behind part-9
        chunks = table_of(path, 10_000).chunks({"at": "at"})
        times = np.concatenate([chunk["at"] for chunk in chunks])
        assert (times[1:] > times[:-1]).all()

    def test_names_of_folders_are_columns(self, frame, tmp_path):
        for day in range(12):
            (tmp_path / f"day={day}" / "site=North%20Sea").mkdir(parents=True)
            part = frame[250 * day : 250 * (day + 1)]
            part.to_parquet(tmp_path / f"day={day}" / "site=North%20Sea" / "0.parquet")
        found = gb.evaluate_series(tmp_path, (), column="reward", group="day")
        assert list(found) == list(range(12))
        assert found[3].mean == pytest.approx(frame["reward"][750:1000].mean())
        assert list(gb.evaluate_series(tmp_path, (), column="reward", group="site")) == ["North Sea"]
        by_day = gb.evaluate_log(tmp_path, columns={"episode": "day"})
        assert by_day.diagnostics.num_transitions == 3_000 - 12

    def test_on_the_command_line(self, frame, tmp_path, capsys):
        path = str(stored(frame, tmp_path, "folder"))
        assert cli.main(["evaluate", path, "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(gb.evaluate_log(frame).gain)
        assert cli.main(["evaluate", path, "--column", "reward", "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["mean"] == gb.evaluate_series(frame["reward"]).mean
        assert cli.main(["evaluate", str(tmp_path / "log.folder"), "--policy", "random"]) == cli.WRONG_INPUT

    def test_one_without_parquet(self, tmp_path):
        with pytest.raises(ValueError, match=r"has no Parquet file \(.parquet\), found nothing"):
            gb.evaluate_log(tmp_path)
        (tmp_path / "x.csv").touch()
        with pytest.raises(ValueError, match=r"found x\.csv"):
            gb.evaluate_series(tmp_path, column="x")

    def test_a_file_without_a_column_is_named(self, frame, tmp_path):
        path = stored(frame, tmp_path, "folder")
        frame[["state"]].to_parquet(path / "part-7.parquet")
        found = gb.evaluate_log(path)
        assert found.diagnostics.num_transitions == 7 * 250 - 1
        assert "part-7.parquet has no column 'reward'" in found.diagnostics.warnings[0]

    @pytest.mark.parametrize("zoned", ["part-7", "the others"])
    def test_times_with_a_zone_beside_others_without(self, frame, tmp_path, zoned):
        path = stored(frame, tmp_path, "folder")
        for file in path.glob("part-*.parquet"):
            part = pandas.read_parquet(file)
            at = pandas.date_range(
                f"2024-01-{1 + int(file.stem[5:]):02}", periods=len(part), freq="min", unit="us"
            )
            has_zone = (file.stem == "part-7") == (zoned == "part-7")
            part.assign(at=at.tz_localize("Europe/Paris") if has_zone else at).to_parquet(file)
        found = gb.evaluate_log(path, time="at")
        assert found.diagnostics.num_transitions == 7 * 250 - 1
        words = "a time zone, and none" if zoned == "part-7" else "no time zone, and one"
        expected = rf"row 1750, .* column 'at' of .*part-7.parquet has {words} in .*part-0.parquet"
        assert re.search(expected, found.diagnostics.warnings[0])
        assert gb.evaluate_log(path).diagnostics.num_transitions == 3_000 - 1  # nobody asks for the column

    def test_a_damaged_file_is_named_by_its_row(self, frame, tmp_path):
        path = stored(frame, tmp_path, "folder")
        (path / "part-7.parquet").write_bytes(b"PAR1 and nothing else")
        found = gb.evaluate_log(path)
        assert found.diagnostics.num_transitions == 7 * 250 - 1
        assert "row 1750, or one after it, cannot be read" in found.diagnostics.warnings[0]


class TestTextsInCSV:
    """A CSV file is text: what is wrong is the cell that cannot be read, wherever it stands."""

    @staticmethod
    def lines(role, place, cell="oops", rows=300):
        """Return the rows of a log with a wrong cell in one of them."""
        found = []
        for row in range(rows):
            entries = {
                "state": row % 3,
                "reward": row / 8,
                "next": (row + 1) % 3,
                "terminated": row % 3 == 2,
                "step": row,
                "at": row / 4,
                "note": '"a\nb"' if row % 7 == 0 else "plain",
            }
            found.append(
                ",".join(str(cell if row == place and role == one else entries[one]) for one in entries)
            )
        return ["state,reward,next,terminated,step,at,note", *found]

    @pytest.mark.parametrize("size", [2**20, 2**9], ids=["one block", "many blocks"])
    @pytest.mark.parametrize("place", [0, 1, 150, 299])
    @pytest.mark.parametrize("role", ["state", "reward", "next", "terminated", "step", "at"])
    def test_the_row_of_a_wrong_cell_is_named(self, tmp_path, monkeypatch, role, place, size):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", size)
        (tmp_path / "x.csv").write_text("\n\n".join(self.lines(role, place)))  # between rows an empty line
        time = "at" if role == "at" else None
        words = (
            f"row {place} of the log: the {'time' if time else role.replace('next', 'next state')} is 'oops'"
        )
        words = "found 'oops' in row 0" if (role, place) == ("state", 0) else words
        if place > 1:
            said = gb.evaluate_log(tmp_path / "x.csv", time=time).diagnostics.warnings[0]
        else:
            with pytest.raises(ValueError, match="oops") as found:
                gb.evaluate_log(tmp_path / "x.csv", time=time)
            said = str(found.value)
        assert words in said.replace("the next is", "the next state is")
        assert "(the first row of data is row 0)" in said

    @pytest.mark.parametrize("place", [0, 150])
    @pytest.mark.parametrize("size", [2**20, 2**9], ids=["one block", "many blocks"])
    def test_rows_before_a_wrong_cell_are_read_as_without_it(self, tmp_path, monkeypatch, place, size):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", size)
        (tmp_path / "x.csv").write_text("\n".join(self.lines("reward", place + 100)))
        (tmp_path / "y.csv").write_text("\n".join(self.lines("", 0)[: place + 101]))
        cut, short = (gb.evaluate_log(tmp_path / name) for name in ("x.csv", "y.csv"))
        assert not cut.diagnostics.is_complete
        assert (cut.gain, cut.features) == (short.gain, short.features)

    def test_what_is_wrong_first_is_named(self, tmp_path):
        lines = self.lines("reward", 150)
        lines[101] = lines[101].replace(f"{100 % 3},", "blue,", 1)
        (tmp_path / "x.csv").write_text("\n".join(lines))
        [said, *_] = gb.evaluate_log(tmp_path / "x.csv").diagnostics.warnings
        assert "row 100 of the log: the state is 'blue'" in said

    def test_a_missing_next_state_where_an_episode_ends_is_not_wrong(self, tmp_path):
        lines = self.lines("reward", 150)
        lines[3] = lines[3].replace("2,0.25,0,True", "2,0.25,,True")
        (tmp_path / "x.csv").write_text("\n".join(lines))
        [said, *_] = gb.evaluate_log(tmp_path / "x.csv").diagnostics.warnings
        assert "row 150 of the log: the reward is 'oops'" in said

    def test_states_that_are_words(self, tmp_path):
        (tmp_path / "x.csv").write_text("state,reward\n" + "red,1\nblue,2\n" * 20)
        words = r"states must be integers or numbers, found 'red' in row 0 \(the first row of data is row 0\)"
        with pytest.raises(ValueError, match=f"{words}: number other things"):
            gb.evaluate_log(tmp_path / "x.csv")

    @pytest.mark.parametrize("cell", ["inf", "oops", ""])
    def test_a_state_behind_a_wrong_one_counts(self, tmp_path, monkeypatch, cell):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2**9)
        rows = [f"{row % 3},{row % 5}" for row in range(400)]
        rows[200], rows[300] = f"{cell},1", "8,1"
        (tmp_path / "x.csv").write_text("\n".join(["state,reward", *rows]))
        found = gb.evaluate_log(tmp_path / "x.csv")
        assert "row 200 of the log: the state is" in found.diagnostics.warnings[0]
        assert found.features.startswith("tabular: a state for each of 9")

    @pytest.mark.parametrize(("head", "place"), [("ms\n", 0), ("ms\n", 17), ("", 17)])
    def test_a_row_with_another_number_of_fields(self, tmp_path, head, place):
        rows = [f"{row}.5\n\n" for row in range(40)]
        rows[place] = "1.5,3\n"
        (tmp_path / "x.csv").write_text(head + "".join(rows))
        with pytest.raises(BrokenStream, match=f"^row {place} has another number of fields"):
            list(table_of(tmp_path / "x.csv", 100).chunks({"number": "ms" if head else "number"}))

    def test_a_damaged_parquet_file(self, tmp_path):
        (tmp_path / "x.parquet").write_text("state,reward\n")
        with pytest.raises(ValueError, match=r"x.parquet is not a Parquet file that can be read: "):
            gb.evaluate_log(tmp_path / "x.parquet")
