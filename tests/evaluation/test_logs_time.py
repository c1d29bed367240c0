"""Columns of times and durations in logs that nobody named: unused, and spoken of if they matter."""

import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import csv, dataset, parquet

import gainbias as gb
from gainbias.evaluation.sources.logs import log_stream

ROWS = 3_000
RNG = np.random.default_rng(0)
BASE = {"state": RNG.integers(0, 3, ROWS), "reward": RNG.normal(size=ROWS)}
GAPS = RNG.exponential(size=ROWS)
POISSON = np.cumsum(GAPS)
START = np.datetime64("2024-01-01T00:00:00")


def even(seconds, count=ROWS):
    return START + (np.arange(count) * seconds * 1e6).astype("timedelta64[us]")


def found(log, **how):
    """Return warnings and notes about time."""
    stream = log_stream(log, **how)
    for _ in stream:
        pass
    stream.close()
    return stream.warnings, [note for note in stream.notes if "looks like times" in note]


def spoken_of(log):
    """Return all warnings and notes but the one on the policy."""
    stream = log_stream(log)
    for _ in stream:
        pass
    return stream.warnings + stream.notes


def mm1(events, seed=1):
    """Log of an M/M/1 queue with load 0.8 by its events, in which the mean length is 4."""
    rng = np.random.default_rng(seed)
    lengths, durations, length = np.empty(events, dtype=np.int64), np.empty(events), 0
    for k in range(events):
        lengths[k] = length
        rate = 0.8 + (length > 0)
        durations[k] = rng.exponential(1 / rate)
        length += 1 if rng.random() < 0.8 / rate else -1
    return {
        "state": lengths,
        "reward": 1.0 * lengths,
        "duration": durations,
        "time": np.cumsum(durations) - durations,
    }


class TestEventLog:
    def test_a_queue_by_its_events(self):
        log = mm1(60_000)
        by_time = np.average(log["reward"], weights=log["duration"])
        estimate = gb.evaluate_log(log)
        assert not estimate.gain_interval[0] < by_time < estimate.gain_interval[1]
        words = [word for word in estimate.diagnostics.warnings if "not per unit of time" in word]
        assert ["'duration'" in words[0], "'time'" in words[1], len(words)] == [True, True, 2]
        assert set(words) <= set(estimate.diagnostics.gain_warnings)
        assert all(word in repr(estimate) for word in words)

    @pytest.mark.parametrize("rows", [1, 7, 1000, 10**6])
    def test_however_it_is_read(self, rows, tmp_path):
        log = BASE | {
            "duration": GAPS,
            "time": POISSON,
            "date": START + (1e6 * POISSON).astype("timedelta64[us]"),
        }
        table = pyarrow.table(log)
        parquet.write_table(table, tmp_path / "log.parquet", row_group_size=700)
        csv.write_csv(table, tmp_path / "log.csv")
        shared = SimpleNamespace(__arrow_c_stream__=table.__arrow_c_stream__)
        forms = [
            log,
            pandas.DataFrame(log),
            table,
            tmp_path / "log.parquet",
            dataset.dataset(tmp_path / "log.parquet"),
            shared,
            csv.read_csv(tmp_path / "log.csv"),
            pandas.read_csv(tmp_path / "log.csv"),
        ]
        for form in forms:
            warnings, notes = found(form, batch_size=rows)
            assert [word.split("'")[1] for word in warnings] == ["duration", "time", "date"]
            assert notes == []

    def test_in_a_shell(self, tmp_path, capsys):
        from gainbias import cli

        pandas.DataFrame(BASE | {"timestamp": POISSON}).to_csv(tmp_path / "log.csv", index=False)
        assert cli.main(["evaluate", str(tmp_path / "log.csv")]) == cli.DONE
        assert "is per row, not per unit of time" in " ".join(capsys.readouterr().err.split())

    def test_memory_does_not_grow(self):
        def peak(count):
            log = {
                "state": np.zeros(count, dtype=int),
                "reward": np.ones(count),
                "time": np.arange(count) ** 1.5,
            }
            stream = log_stream(log, num_states=1, batch_size=1000)
            tracemalloc.start()
            for _ in stream:
                pass
            highest = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert len(stream.warnings) == 1
            return highest

        assert peak(200_000) < 1.5 * peak(20_000)


class TestUnevenTimes:
    @pytest.mark.parametrize(
        ("name", "column"),
        [
            ("t", POISSON),
            ("eventTime", (1e3 * POISSON).astype(np.int64)),
            ("created_at", START + (1e9 * POISSON).astype("timedelta64[ns]")),
            ("time_ns", 1_700_000_000 * 10**9 + (1e9 * POISSON).astype(np.int64)),
            ("at", 1.7e9 + POISSON),
            ("anything", START + (1e3 * POISSON).astype("timedelta64[ms]")),
            ("anything", (1e3 * GAPS).astype("timedelta64[ms]")),
            ("when", np.floor(POISSON)),  # rounded, but not even
            ("time", np.cumsum(RNG.integers(1, 3, ROWS))),  # 1 or 2, at random
            ("elapsed", GAPS),
            ("elapsed", POISSON),
            ("time", GAPS),  # durations under the name of times
            ("sojourn_time", RNG.choice([1.0, 5.0], ROWS)),
            ("dt", np.where(np.arange(ROWS) % 2, 1, 2)),
            ("delta_t", RNG.gamma(100.0, 1.0, ROWS)),  # within about 10%
            ("timestamp", [str(one) for one in START + (1e6 * POISSON).astype("timedelta64[us]")]),
            ("timestamp", [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=one) for one in POISSON]),
            ("event_ts", POISSON),
            ("tsNs", 1_700_000_000 * 10**9 + (1e9 * POISSON).astype(np.int64)),
            ("unix", 1.7e9 + POISSON),
            ("dt_s", GAPS),
            ("t_ms", 1e3 * POISSON),
            ("utc", 1.7e9 + POISSON),
            ("epoch", 1.7e9 + POISSON),
            ("epoch", (1.7e9 + POISSON).astype(np.int64)),  # many are equal
            ("epoch_ms", POISSON),
            ("created", POISSON),
            ("start", POISSON),
            ("end", POISSON + GAPS.max()),
            ("hour", POISSON),
            ("eventtime", POISSON),
            ("unixtime", 1.7e9 + POISSON),
            ("simtime", GAPS),
            ("timestampms", 1e3 * POISSON),
            ("elapsedSec", POISSON),
            ("tstamp", POISSON),
            ("wallclock", POISSON),
            ("sec", POISSON),
            ("nanoseconds", 1_700_000_000 * 10**9 + (1e9 * POISSON).astype(np.int64)),
            ("∆t (s)", GAPS),
            ("Arrival", POISSON),
            ("t_start", POISSON),
            ("ticks", POISSON),
            ("dt", [Decimal(f"{one:.6f}") for one in GAPS]),
            ("period", pandas.PeriodIndex(START + POISSON.astype("timedelta64[s]"), freq="s")),
            ("time", np.append(np.arange(ROWS - 1_000), ROWS - 1_000 + POISSON[:1_000])),  # late in the log
        ],
    )
    def test_a_warning(self, name, column):
        warnings, notes = found(BASE | {name: column}, batch_size=500)
        [warning] = warnings
        assert warning.startswith(
            f"rows are not evenly spaced in time by column {name!r}, which is not used: the answer is per "
            "row, not per unit of time, unless you say "
        )
        is_duration = name in ("dt", "dt_s", "delta_t", "sojourn_time") or column is GAPS
        is_duration |= getattr(column, "dtype", np.dtype(int)).kind == "m"
        assert warning.endswith(f" {'duration' if is_duration else 'time'}={name!r}")
        assert notes == []

    def test_the_index_of_a_table(self):
        index = pandas.DatetimeIndex(START + (1e9 * POISSON).astype("timedelta64[ns]"))
        warnings, _ = found(pandas.DataFrame(BASE, index=index))
        assert "by column '(index)'" in warnings[0]
        warnings, _ = found(pandas.DataFrame(BASE, index=index.tz_localize("Europe/Berlin")))
        assert "by column '(index)'" in warnings[0]
        assert found(pandas.DataFrame(BASE)) == ([], [])

    @pytest.mark.parametrize("level", ["time", "event_ts", "start"])
    @pytest.mark.parametrize("times", [POISSON, START + (1e9 * POISSON).astype("timedelta64[ns]")])
    def test_a_level_of_the_index_of_a_table(self, level, times):
        frame = pandas.DataFrame(BASE | {level: times, "machine": np.zeros(ROWS, dtype=int)})
        for levels in ([level], ["machine", level], [level, "machine"]):
            warnings, notes = found(frame.set_index(levels))
            assert f"by column {level!r}" in warnings[0]
            assert (len(warnings), notes) == (1, [])
        unnamed = frame.set_index(["machine", level]).rename_axis([None, None])
        assert len(found(unnamed)[0]) == (times.dtype.kind == "M")
        assert found(frame.assign(time=POISSON).set_index("time", drop=False)) != ([], [])

    @pytest.mark.parametrize("kind", ["decimal128(12, 6)", "dictionary", "date"])
    def test_types_of_arrow(self, kind, tmp_path):
        if kind == "dictionary":
            texts = [str(one) for one in START + POISSON.astype("timedelta64[s]")]
            column = pyarrow.array(texts).dictionary_encode()
        elif kind == "date":
            column = pyarrow.array((START + POISSON.astype("timedelta64[D]")).astype("datetime64[D]"))
        else:
            column = pyarrow.array([Decimal(f"{one:.6f}") for one in POISSON], pyarrow.decimal128(12, 6))
        table = pyarrow.table(BASE | {"time": column})
        parquet.write_table(table, tmp_path / "log.parquet")
        for form in (table, tmp_path / "log.parquet", table.to_pandas()):
            assert "by column 'time'" in found(form)[0][0]

    @pytest.mark.parametrize("missing", [None, float("nan"), pandas.NaT, pandas.NA])
    @pytest.mark.parametrize("kind", ["texts", "datetimes", "durations"])
    def test_dates_as_texts_and_objects_under_any_name(self, kind, missing):
        """Tables that pandas reads from CSV have texts."""
        column = {
            "texts": [f"{one}" for one in START + (1e6 * POISSON).astype("timedelta64[us]")],
            "datetimes": [datetime(2024, 1, 1) + timedelta(seconds=one) for one in POISSON],
            "durations": [timedelta(seconds=one) for one in GAPS],
        }[kind]
        for log in (BASE | {"x": column}, pandas.DataFrame(BASE).assign(x=column)):
            assert "by column 'x'" in found(log)[0][0]
        assert "by column 'x'" in found(BASE | {"x": [missing, *column[1:]]})[0][0]

    @pytest.mark.parametrize("name", ["interval", "wait", "gap", "gap_ms"])
    def test_names_that_may_mean_durations_get_an_if(self, name):
        stream = log_stream(BASE | {name: GAPS})
        for _ in stream:
            pass
        assert stream.warnings == []
        [note] = [note for note in stream.notes if repr(name) in note]
        assert "if it has the time from one row to the next, which varies" in note


class TestEvenTimes:
    @pytest.mark.parametrize(
        ("name", "column"),
        [
            ("t", np.arange(ROWS)),
            ("time", 0.1 * np.arange(ROWS)),
            ("time", np.cumsum(np.full(ROWS, 0.1))),
            ("time", 1.7e9 + 0.02 * np.arange(ROWS)),
            ("time", 1e-7 * np.arange(ROWS)),
            ("time", np.floor(1.5 * np.arange(ROWS))),  # rounded
            ("time", np.rint(0.7 * np.arange(ROWS)).astype(np.int64)),
            ("time", np.round(np.arange(ROWS) / 3.0, 1)),
            ("date", even(3600.0).astype("datetime64[D]")),  # 24 rows a day
            ("timestamp", even(1.7).astype("datetime64[s]")),
            ("timestamp", even(0.001)),
            (
                "timestamp",
                np.arange("1800-01", "2050-01", dtype="datetime64[M]").astype("datetime64[D]")[:ROWS],
            ),
            ("time", np.arange(ROWS) + RNG.normal(0.0, 0.01, ROWS)),  # it trembles
            ("time", np.arange(ROWS) % 24),  # hours of a day
            ("time", np.full(ROWS, 7.0)),
            ("duration", np.full(ROWS, 0.1)),
            ("duration", np.where(np.arange(ROWS) % 2, 0.3, 0.1 + 0.2)),
            ("elapsed", np.full(ROWS, timedelta(seconds=3))),
            ("time", ["morning", "noon", "night"] * (ROWS // 3)),
            ("time", [None] * ROWS),
        ],
    )
    def test_only_a_note(self, name, column):
        column = column if len(column) == ROWS else np.resize(column, ROWS)
        for size in (500, 10**6):
            warnings, notes = found(BASE | {name: column}, batch_size=size)
            assert warnings == []
            assert notes == [
                f"column {name!r} looks like times or durations, and is not used: every row counts as one "
                "step"
            ]

    @pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
    @pytest.mark.parametrize("spacing", ["1h", "1D"])
    def test_daylight_saving(self, zone, spacing):
        times = pandas.date_range("2024-01-01", periods=ROWS, freq=spacing, tz=zone)
        for column in (times, times.tz_localize(None), times.tz_convert("UTC")):
            warnings, notes = found(pandas.DataFrame(BASE).assign(time=column))
            assert (warnings, len(notes)) == ([], 1)

    @pytest.mark.parametrize("ends", ["episode", "terminated", "truncated"])
    @pytest.mark.parametrize("size", [13, 10**6])
    def test_between_episodes_time_may_pass(self, ends, size):
        number = np.arange(ROWS) // 10
        jumps = np.cumsum(RNG.exponential(1e3, ROWS // 10))[number]
        columns = {"episode": number, "terminated": np.arange(ROWS) % 10 == 9}
        columns["truncated"] = columns["terminated"]
        for times in (np.arange(ROWS) + jumps, np.arange(ROWS) % 10):
            log = BASE | {"time": times, ends: columns[ends]}
            warnings, notes = found(log, batch_size=size)
            assert (warnings, len(notes)) == ([], 1)
        assert found(BASE | {"time": np.arange(ROWS) + jumps})[0]

    def test_a_few_rows_that_are_missing(self):
        times = np.delete(np.arange(ROWS + 5), [100, 700, 701, 1500, 2000])
        warnings, notes = found(BASE | {"time": times})
        assert (warnings, len(notes)) == ([], 1)


class TestColumnsThatAreNoTimes:
    def test_used_ones(self):
        log = BASE | {"time": POISSON, "duration": GAPS, "t": np.arange(ROWS)}
        warnings, notes = found(log, state=("time", "duration"), reward="reward", step="t", num_states=3)
        assert (warnings, notes) == ([], [])
        warnings, notes = found(log, reward="duration")
        assert [word.split("'")[1] for word in warnings + notes] == ["time", "t"]

    @pytest.mark.parametrize(
        "name",
        ["timeout", "sentiment", "x", "attempt", "update", "estimate", "state_t1", "timeouts", "dose", "Ω"],
    )
    def test_other_names(self, name):
        assert found(BASE | {name: POISSON}) == ([], [])

    @pytest.mark.parametrize(
        "name", ["waiting", "gap_to_leader", "end_effector", "interval_id", "t_min", "ends", "starting_x"]
    )
    def test_words_in_names_of_features(self, name):
        for column in (POISSON, GAPS):
            assert spoken_of(BASE | {name: column}) == []

    @pytest.mark.parametrize(
        ("name", "column"),
        [
            ("end", RNG.random(ROWS) < 0.1),
            ("time", (RNG.random(ROWS) < 0.1).tolist()),
            ("time", np.array([True, False, None] * (ROWS // 3), dtype=object)),
            ("end", 1 * (RNG.random(ROWS) < 0.1)),
            ("start", RNG.normal(size=ROWS)),
            ("start", np.arange(ROWS)),
            ("ticks", np.arange(ROWS)),
            ("arrivals", RNG.poisson(2.0, ROWS)),
            ("epoch", np.arange(ROWS) // 100),
            ("epoch", np.cumsum(RNG.random(ROWS) < 0.3)),
            ("hour", np.arange(ROWS) % 24),
            ("gap", RNG.normal(size=ROWS)),
            ("x", [f"{one}" for one in np.cumsum(RNG.poisson(2.0, ROWS))]),
            ("x", [f"{20240101 + one}" for one in np.cumsum(RNG.poisson(0.01, ROWS))]),
            ("x", ["a-b", "2024-01-01T00:00"] * (ROWS // 2)),
            ("x", [pandas.NA] * ROWS),
            ("interval", np.full(ROWS, 0.5)),
        ],
    )
    def test_numbers_that_are_no_times(self, name, column):
        assert spoken_of(BASE | {name: column}) == []
        assert spoken_of(pandas.DataFrame(BASE | {name: column})) == []

    @pytest.mark.parametrize("odd", [0.1, np.ones(3), np.ones((ROWS, 2)), "0.1 s", None])
    def test_facts_beside_the_columns(self, odd):
        """A mapping may have a number that is no column."""
        assert found(BASE | {"dt": odd}) == ([], [])
        assert gb.evaluate_log(BASE | {"dt": odd}).diagnostics.num_transitions == ROWS - 1

    def test_columns_that_cannot_be_read_as_times(self):
        table = pyarrow.table(BASE | {"time": [[1.0, 2.0]] * ROWS})
        assert found(table) == ([], [])
        missing = np.where(np.arange(ROWS) % 3, np.nan, np.arange(ROWS))
        warnings, notes = found(BASE | {"time": missing})
        assert (warnings, len(notes)) == ([], 1)
        few = np.where(np.arange(ROWS) % 100, POISSON, np.nan)
        assert len(found(BASE | {"time": few})[0]) == 1

    def test_a_column_that_is_there_twice(self):
        frame = pandas.DataFrame(BASE).assign(time=POISSON, other=GAPS)
        frame.columns = ["state", "reward", "time", "time"]
        assert found(frame) == ([], [])
