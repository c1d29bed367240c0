"""Logs whose rows last for some time: gain per unit of time and semi-Markov values."""

import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import csv, dataset, parquet

import gainbias as gb
from gainbias import cli
from gainbias.evaluation.gain.batches import RatioMeans
from gainbias.evaluation.sources import readers
from gainbias.evaluation.sources.logs import log_stream
from gainbias.evaluation.sources.times import RowClock
from tests.evaluation.test_logs_time import mm1

START = np.datetime64("2024-01-01T00:00:00")
SMALL = {
    "at": np.array([0.0, 2.0, 3.0, 7.0, 8.0, 8.0, 9.5]),
    "state": np.array([0, 1, 2, 1, 0, 1, 0]),
    "reward": np.array([1.0, 0.0, 5.0, 0.0, 2.0, 4.0, 100.0]),
    "rate": np.array([0.0, 1.0, 2.0, 1.0, 0.0, 7.0, 50.0]),
}
PAID = 1.0 + (0.0 + 1.0) + (5.0 + 8.0) + (0.0 + 1.0) + 2.0 + 4.0
"""Of all rows but the last, in 9.5 units of time; the one before lasts for 1.5 units at rate 7."""
GAIN = (PAID + 7.0 * 1.5) / 9.5


def evaluated(log=SMALL, **how):
    return gb.evaluate_log(log, **({"time": "at", "reward_rate": "rate"} | how))


def dated(unit="s", scale=3_600, **changes):
    times = START + (SMALL["at"] * scale).astype(np.int64).astype(f"timedelta64[{unit}]")
    return SMALL | {"at": times} | changes


class SemiMarkov:
    """A process of four states with all that is true of it."""

    moves = np.array([[0.1, 0.6, 0.3, 0.0], [0.5, 0.0, 0.2, 0.3], [0.0, 0.4, 0.2, 0.4], [0.7, 0.1, 0.1, 0.1]])
    lasting = np.array([0.5, 2.0, 1.0, 4.0])
    paid = np.array([1.0, -1.0, 3.0, 0.0])
    rate = np.array([0.0, 2.0, -1.0, 0.5])

    def __init__(self):
        size = len(self.paid)
        equations = np.vstack([self.moves.T - np.eye(size), np.ones(size)])
        law = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
        total = self.paid + self.rate * self.lasting
        self.gain = law @ total / (law @ self.lasting)
        values = np.linalg.lstsq(np.eye(size) - self.moves, total - self.gain * self.lasting, rcond=None)[0]
        self.values = values - (law * self.lasting) @ values / (law @ self.lasting)

    def log(self, rows, seed=0):
        rng = np.random.default_rng(seed)
        cumulated, chance = self.moves.cumsum(axis=1), rng.random(rows)
        states = np.zeros(rows, dtype=np.int64)
        for k in range(1, rows):
            states[k] = np.searchsorted(cumulated[states[k - 1]], chance[k])
        durations = rng.gamma(2.0, self.lasting[states] / 2.0)
        return {
            "state": states,
            "reward": self.paid[states],
            "rate": self.rate[states],
            "dt": durations,
            "at": np.cumsum(durations) - durations,
        }


TRUTH = SemiMarkov()


class TestHowRewardsAreRead:
    """A log cannot say whether a column has sums or levels, so every answer says how it was read."""

    SUMS = "column reward was counted once per row; if it is a level that holds until the next row"
    LEVELS = "column rate was read as a level that holds for as long as the row lasts: the gain is its mean"
    BOTH = "column reward was counted once per row, column rate for as long as the row lasts"

    @pytest.mark.parametrize("clock", [{"time": "at"}, {"duration": "dt"}])
    @pytest.mark.parametrize(
        ("rewards", "said"),
        [({"reward": "reward"}, SUMS), ({}, SUMS), ({"reward_rate": "rate"}, BOTH)],
    )
    def test_in_every_form_of_the_answer(self, tmp_path, clock, rewards, said):
        log = TRUTH.log(3_000)
        for columns in (log, {name: column for name, column in log.items() if name != "state"}):
            estimate = gb.evaluate_log(columns, **clock, **rewards)
            notes = [line for line in repr(estimate).splitlines() if line.startswith("note")]
            assert notes[0].startswith(f"note      {said}")
            assert estimate.to_dict()["diagnostics"]["notes"][0].startswith(said)
            gb.write_page(estimate, tmp_path / "page.html", overwrite=True)
            assert said in (tmp_path / "page.html").read_text()

    def test_levels_alone(self):
        log = {name: column for name, column in TRUTH.log(3_000).items() if name != "reward"}
        estimate = gb.evaluate_log(log, time="at", reward_rate="rate")
        assert estimate.diagnostics.notes[0].startswith(self.LEVELS)

    def test_of_another_policy(self):
        log = TRUTH.log(3_000)
        log |= {"a": np.random.default_rng(0).integers(0, 2, 3_000)}
        answer = gb.evaluate_log(log, time="at", action="a", policy="random")
        assert any(note.startswith(self.SUMS) for note in answer.diagnostics.notes)

    def test_without_times_there_is_nothing_to_say(self):
        assert "once per row" not in repr(gb.evaluate_log(TRUTH.log(3_000)))


class TestByHand:
    def test_a_row_lasts_until_the_next(self):
        estimate = evaluated()
        assert estimate.gain == pytest.approx(GAIN, rel=1e-14)
        assert estimate.per == "unit of 'at'"
        assert estimate.diagnostics.num_transitions == 6
        assert estimate.diagnostics.duration == 9.5
        assert any(
            "the last row, or that of each trajectory, is not counted" in x
            for x in estimate.diagnostics.notes
        )
        assert "row 4 has zero duration: only what it pays at once counts" in estimate.diagnostics.notes

    def test_until_the_end(self):
        estimate = evaluated(end=11.5)
        assert estimate.gain == pytest.approx((PAID + 10.5 + 100.0 + 100.0) / 11.5, rel=1e-14)
        assert estimate.diagnostics.num_transitions == 7
        assert not any("not counted" in note for note in estimate.diagnostics.notes)
        [first] = log_stream(SMALL, time="at", reward_rate="rate")
        batches = list(log_stream(SMALL, time="at", reward_rate="rate", end=11.5))
        assert [batch.after.tolist() for batch in batches] == [first.after.tolist(), [-1]]
        assert batches[1].durations.tolist() == [2.0]

    def test_by_durations_all_rows_count(self):
        durations = np.append(np.diff(SMALL["at"]), 2.0)
        log = {name: column for name, column in SMALL.items() if name != "at"} | {"dt": durations}
        estimate = evaluated(log, time=None, duration="dt")
        assert estimate.gain == pytest.approx(evaluated(end=11.5).gain, rel=1e-14)
        assert estimate.per == "unit of 'dt'"
        without = evaluated(log | {"dt": np.append(durations[:-1], np.nan)}, time=None, duration="dt")
        assert without.gain == pytest.approx(GAIN, rel=1e-14)

    def test_rates_or_rewards_alone(self):
        rates = {name: SMALL[name] for name in ("at", "state", "rate")}
        assert evaluated(rates).gain == pytest.approx((1.0 + 8.0 + 1.0 + 10.5) / 9.5)
        assert evaluated(rates | {"reward": rates.pop("rate")}, reward_rate="reward").gain == pytest.approx(
            (1.0 + 8.0 + 1.0 + 10.5) / 9.5
        )
        assert evaluated(reward_rate=None).gain == pytest.approx(12.0 / 9.5)

    def test_equal_durations_are_the_plain_answer(self):
        rng = np.random.default_rng(0)
        states = rng.integers(0, 3, 5_000)
        log = {"state": states, "reward": rng.normal(size=5_000) + states, "at": 2.0 * np.arange(5_000)}
        timed, plain = gb.evaluate_log(log, time="at"), gb.evaluate_log(log)
        assert 2.0 * timed.gain == pytest.approx(plain.gain, rel=1e-13)
        assert 2.0 * np.array(timed.gain_interval) == pytest.approx(plain.gain_interval, rel=1e-10)
        assert timed.value([0, 1, 2]) == pytest.approx(plain.value([0, 1, 2]), rel=1e-10)
        assert timed.value_interval([0, 1, 2]) == pytest.approx(plain.value_interval([0, 1, 2]), rel=1e-8)
        assert timed.diagnostics.autocorrelation_time == pytest.approx(plain.diagnostics.autocorrelation_time)
        assert timed.diagnostics.r_hat == pytest.approx(plain.diagnostics.r_hat)

    @pytest.mark.parametrize("size", [1, 2, 3, 100])
    def test_however_it_is_read(self, size, tmp_path):
        table = pyarrow.table(SMALL)
        parquet.write_table(table, tmp_path / "log.parquet", row_group_size=2)
        csv.write_csv(table, tmp_path / "log.csv")
        shared = SimpleNamespace(__arrow_c_stream__=table.__arrow_c_stream__)
        frame = pandas.DataFrame(SMALL)
        forms = [SMALL, frame, table, tmp_path / "log.parquet", tmp_path / "log.csv", shared]
        forms += [dataset.dataset(tmp_path / "log.parquet"), frame.set_index("at")]
        for form in forms:
            for end, counted in ((None, 9.5), (12.0, 12.0)):
                stream = log_stream(form, time="at", reward_rate="rate", end=end, batch_size=size)
                batches = list(stream)
                assert sum(batch.durations.sum() for batch in batches) == counted
                assert sum(batch.rewards.sum() for batch in batches) == PAID + 10.5 + (
                    0 if end is None else 225
                )
                assert stream.per == "unit of 'at'"


class TestUnits:
    @pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
    def test_dates_are_per_hour(self, unit):
        log = dated(unit, 3_600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit])
        estimate = evaluated(log)
        assert estimate.per == "hour"
        assert estimate.gain == pytest.approx(GAIN, rel=1e-14)
        assert evaluated(log, per="day", reward_rate=None).gain == pytest.approx(24.0 * 12.0 / 9.5)
        assert evaluated(log, per="minute").per == "minute"
        assert evaluated(log, per="week", reward_rate="rate", reward=None).per == "week"

    def test_a_rate_is_per_the_unit_of_the_answer(self):
        rates = {name: column for name, column in dated().items() if name != "reward"}
        gains = [evaluated(rates, per=per).gain for per in ("second", "hour", "day")]
        assert gains == pytest.approx([gains[0]] * 3)

    def test_all_forms_of_dates(self):
        moments = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=hours) for hours in SMALL["at"]]
        zone = timezone(timedelta(hours=5))
        naive = [moment.replace(tzinfo=None) for moment in moments]
        forms = [
            moments,
            naive,
            [moment.astimezone(zone) for moment in moments],
            [moment.isoformat() for moment in moments],
            [moment.isoformat() for moment in naive],
            [moment.astimezone(zone if k % 2 else UTC).isoformat() for k, moment in enumerate(moments)],
            pandas.Series(moments),
            pandas.Series(moments).dt.tz_convert("Europe/Berlin"),
            pandas.Series(naive),
            pandas.Series(moments).astype("timestamp[us, tz=UTC][pyarrow]"),
            pandas.Series(naive).astype("timestamp[us][pyarrow]"),
            pyarrow.array(moments),
        ]
        for form in forms:
            log = {name: list(column) for name, column in SMALL.items()} | {"at": form}
            assert evaluated(log).gain == pytest.approx(GAIN, rel=1e-14)
            timed = gb.evaluate_series(SMALL["rate"], (), time=form)
            assert timed.mean == pytest.approx(20.5 / 9.5, rel=1e-14)
        days = SMALL | {"at": START.astype("M8[D]") + np.arange(7)}
        assert evaluated(days, reward_rate=None).gain == pytest.approx(12.0 / (6 * 24))

    def test_durations_of_time(self):
        lasting = (3_600 * np.append(np.diff(SMALL["at"]), 2.0)).astype(np.int64).astype("m8[s]")
        for form in (lasting, list(lasting.astype("m8[us]").astype(object)), pandas.Series(lasting)):
            log = {name: SMALL[name] for name in ("state", "reward", "rate")} | {"dt": form}
            estimate = evaluated(log, time=None, duration="dt")
            assert (estimate.per, estimate.gain) == ("hour", pytest.approx(evaluated(end=11.5).gain))

    def test_numbers_of_units(self):
        seconds = SMALL | {"at": 3_600 * SMALL["at"]}
        estimate = evaluated(seconds, per=3_600)
        assert (estimate.per, estimate.gain) == ("3600 units of 'at'", pytest.approx(GAIN))
        nanoseconds = SMALL | {"at": 1_700_000_000 * 10**9 + (10**9 * SMALL["at"]).astype(np.int64)}
        assert evaluated(nanoseconds, per=10**9).gain == pytest.approx(GAIN, rel=1e-14)

    def test_an_index_of_dates(self):
        frame = pandas.DataFrame(dated()).set_index("at").rename_axis(None)
        assert evaluated(frame, time="(index)").gain == pytest.approx(GAIN)
        assert evaluated(frame.tz_localize("Asia/Tokyo"), time="(index)").gain == pytest.approx(GAIN)

    def test_levels_of_an_index_are_columns(self):
        times = np.tile(SMALL["at"], 2)
        frame = pandas.DataFrame({"reward": np.tile(SMALL["reward"], 2), "rate": np.tile(SMALL["rate"], 2)})
        for name, how in (("episode", {}), ("run", {"columns": {"episode": "run"}})):
            index = pandas.MultiIndex.from_arrays([np.repeat([1, 2], 7), times], names=[name, "at"])
            estimate = evaluated(frame.set_index(index), **how)
            assert (estimate.gain, estimate.diagnostics.num_transitions) == (pytest.approx(GAIN), 12)

    def test_the_end_is_a_date(self):
        whole = evaluated(end=11.5).gain
        end = START + np.timedelta64(11 * 3600 + 1800, "s")
        for form in (end, end.item(), str(end), pandas.Timestamp(end)):
            assert evaluated(dated(), end=form).gain == pytest.approx(whole)
        zoned = pandas.DataFrame(dated()).assign(at=lambda table: table["at"].dt.tz_localize("UTC"))
        assert evaluated(zoned, end="2024-01-01T12:30:00+01:00").gain == pytest.approx(whole)
        with pytest.raises(ValueError, match="column 'at' has a time zone, and end has none"):
            evaluated(zoned, end="2024-01-01T11:30:00")
        with pytest.raises(ValueError, match="column 'at' has no time zone, and end has one"):
            evaluated(dated(), end="2024-01-01T11:30:00Z")

    @pytest.mark.parametrize("end", ["csv", "jsonl"])
    def test_parts_of_a_file_may_have_other_units(self, end, tmp_path, monkeypatch):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2_000)
        hours = np.cumsum(np.random.default_rng(0).integers(1, 100, 300)) / 3_600
        hours[150:] += 0.25 / 3_600  # from here on there are fractions of a second
        rates = np.random.default_rng(1).random(300)
        for zone in (None, UTC):
            start = datetime(2024, 1, 1, tzinfo=zone)
            times = [(start + timedelta(hours=hour)).isoformat() for hour in hours]
            assert len(times[0]) < len(times[-1])
            table = pandas.DataFrame({"at": times, "rate": rates})
            path = tmp_path / f"log.{end}"
            table.to_csv(path, index=False) if end == "csv" else table.to_json(
                path, orient="records", lines=True
            )
            expected = rates[:-1] @ np.diff(hours) / (hours[-1] - hours[0])
            assert evaluated(path).gain == pytest.approx(expected, rel=1e-9)

    def test_files_of_a_folder_may_have_other_units(self, tmp_path):
        for part, unit in enumerate(("us", "ns", "s")):
            rows = slice(2 * part, 2 * part + 2 + (part == 2))
            table = {name: column[rows] for name, column in dated().items()}
            table["at"] = table["at"].astype(f"M8[{unit}]")
            parquet.write_table(pyarrow.table(table), tmp_path / f"{part}.parquet")
        assert evaluated(tmp_path).gain == pytest.approx(GAIN, rel=1e-14)

    def test_later_parts_of_a_file_of_another_kind(self, tmp_path, monkeypatch):
        monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2_000)
        dates = [f"2024-01-01T00:{k // 60:02}:{k % 60:02}" for k in range(600)]
        for odd, words in (("7", "is '7', of another kind"), ("2024-01-02T00:00:00Z", "has a time zone")):
            times = dates[:300] + [odd] * 300
            pandas.DataFrame({"at": times, "rate": 1.0}).to_csv(tmp_path / "log.csv", index=False)
            [broken, *_] = evaluated(tmp_path / "log.csv").diagnostics.warnings
            assert words in broken
            assert "row 300 of the log" in broken

    def test_json_lines_keep_time_zones(self, tmp_path):
        path = tmp_path / "log.jsonl"
        texts = [f"{moment}+02:00" for moment in dated()["at"]]

        def written(times):
            rows = [{"at": time, "rate": rate} for time, rate in zip(times, SMALL["rate"], strict=True)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            return path

        paid = GAIN * 9.5 - 12.0 + 50.0 * 2.0
        assert evaluated(written(texts), end="2024-01-01T11:30:00+02:00").gain == pytest.approx(paid / 11.5)
        with pytest.raises(ValueError, match="has a time zone, and end has none"):
            evaluated(path, end="2024-01-01T11:30:00")
        _, warning, _ = warned(written([*texts[:5], *dated()["at"][5:].astype(str)]))
        assert "row 5 of the log: the time '2024-01-01T08:00:00' has no time zone" in warning

    def test_an_end_within_a_second(self):
        late = dated() | {"reward": np.zeros(7)}
        end = START + np.timedelta64(int(9.5 * 3_600_000) + 900, "ms")
        paid = GAIN * 9.5 - 12.0 + 50.0 * 0.9 / 3_600
        assert evaluated(late, end=end).gain == pytest.approx(paid / (9.5 + 0.9 / 3_600), rel=1e-12)

    def test_periods_count_from_their_start(self):
        periods = pandas.PeriodIndex(pandas.to_datetime(dated()["at"]), freq="min")
        assert evaluated(pandas.DataFrame(SMALL | {"at": periods})).gain == pytest.approx(GAIN)

    def test_the_unit_is_named_everywhere(self, tmp_path, capsys):
        log = TRUTH.log(3_000)
        log["at"] = START + (3.6e6 * log["at"]).astype("m8[ms]")
        pandas.DataFrame(log).to_csv(tmp_path / "log.csv", index=False)
        words = [
            "evaluate",
            str(tmp_path / "log.csv"),
            "--time",
            "at",
            "--reward-rate",
            "rate",
            "--per",
            "day",
        ]
        assert (
            cli.main([*words, "--save", str(tmp_path / "a.npz"), "--page", str(tmp_path / "a.html")])
            == cli.DONE
        )
        assert " per day, 95% interval" in capsys.readouterr().out
        assert cli.main([*words, "--json"]) == cli.DONE
        answer = json.loads(capsys.readouterr().out)
        assert answer["per"] == "day"
        again = gb.load_estimate(tmp_path / "a.npz")
        assert (again.per, again.gain) == ("day", answer["gain"])
        assert " per day, 95%" in repr(again)
        page = (tmp_path / "a.html").read_text()
        assert "Average reward per day in the long run" in page
        assert '"per":"day"' in page.replace('": "', '":"')
        assert gb.plot(again).get_title(loc="left") == "Gain per day"
        assert again.steps_for(again.diagnostics.standard_error).steps > 3_000

    def test_dates_and_numbers_far_away(self):
        far = np.array(
            ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "9999-01-01"], "M8[us]"
        )
        days = float((far[-1] - far[0]) / np.timedelta64(1, "D"))
        for zoned in (pandas.Series(far).dt.tz_localize("UTC"), pandas.Series(far)):
            log = {"at": zoned, "reward": np.ones(6)}
            assert evaluated(log, reward_rate=None, per="day").gain == pytest.approx(5.0 / days)
        whole = np.array([-(2**63), 2**62, 2**62 + 2**61, 2**63 - 2**60, 2**63 - 2**59, 2**63 - 1])
        log = {"at": whole, "reward": np.ones(6)}
        assert evaluated(log, reward_rate=None).gain == pytest.approx(5.0 / 2.0**64)
        log = {"at": np.arange(6, dtype=np.uint64) * 2**61, "reward": np.ones(6)}
        assert evaluated(log, reward_rate=None).gain == pytest.approx(1.0 / 2.0**61)

    def test_masked_dates_are_missing(self):
        masked = np.ma.masked_array(dated()["at"], np.arange(7) == 5)
        estimate, warning, _ = warned(SMALL | {"at": masked})
        assert (estimate.per, "row 5 of the log: the time is missing" in warning) == ("hour", True)
        found = gb.evaluate_series(SMALL["rate"], (), time=masked)
        assert "row 5: the time is missing" in found.diagnostics.warnings[0]


class TestTrajectories:
    def test_time_starts_anew_in_each(self):
        log = {name: np.tile(column, 3) for name, column in SMALL.items()} | {
            "episode": np.repeat([1, 2, 3], 7)
        }
        stream = log_stream(log, time="at", reward_rate="rate")
        [batch] = stream
        assert (batch.durations.sum(), batch.rewards.sum()) == (3 * 9.5, 3 * (PAID + 10.5))
        assert np.unique(batch.segments).tolist() == [0, 1, 2]
        ended = gb.evaluate_log(log, time="at", reward_rate="rate", end=11.5)
        assert ended.gain == pytest.approx(evaluated(end=11.5).gain)
        assert ended.diagnostics.num_transitions == 21
        batches = list(log_stream(log, time="at", reward_rate="rate", end=11.5))
        assert sum(batch.durations.sum() for batch in batches) == 3 * 11.5
        assert [batch.segments.tolist() for batch in batches] == [[0] * 7 + [1] * 7 + [2] * 6, [2]]

    def test_an_end_is_not_that_of_trajectories_before_it(self):
        log = {name: np.concatenate([column, column]) for name, column in SMALL.items()}
        log |= {"episode": np.repeat([1, 2], 7), "at": np.append(SMALL["at"], SMALL["at"] + 20.0)}
        batches = list(log_stream(log, time="at", reward_rate="rate", end=31.5))
        assert sum(batch.durations.sum() for batch in batches) == 9.5 + 11.5

    def test_ends_of_episodes_take_no_time(self):
        log = {"state": [0, 1, 0, 1, 0, 1], "reward": [0.0, 3.0] * 3, "at": [0.0, 1.0, 4.0, 5.0, 8.0, 9.0]}
        log["terminated"] = [False, True] * 3
        [batch] = log_stream(log, time="at")
        assert batch.durations.tolist() == [1.0, 3.0, 0.0, 1.0, 3.0, 0.0, 1.0]
        assert batch.after.tolist() == [1, 2, 0, 1, 2, 0, 1]
        assert gb.evaluate_log(log, time="at").gain == pytest.approx(6.0 / 9.0)

    def test_an_end_behind_which_the_clock_starts_anew(self):
        log = {"state": [0, 1] * 6, "reward": [0.0, 3.0] * 6, "at": [0.0, 1.0, 4.0, 5.0, 8.0, 9.0] * 2}
        log["terminated"] = [False] * 5 + [True] + [False] * 6
        estimate = gb.evaluate_log(log, time="at")
        assert (
            "row 5 of the log: it ends an episode (terminated), and the clock restarts after it"
            in (estimate.diagnostics.warnings[0])
        )
        assert estimate.gain == pytest.approx(6.0 / 8.0)
        log = log | {"dt": [1.0, 3.0] * 6}
        assert gb.evaluate_log(log, duration="dt").gain == pytest.approx(18.0 / 24.0)

    @pytest.mark.parametrize("has_next", [True, False])
    def test_cuts(self, has_next):
        log = SMALL | {"truncated": np.array([0, 0, 1, 0, 0, 0, 0], dtype=bool)}
        if has_next:
            log["next"] = np.append(SMALL["state"][1:], 2)
            log["next"][2] = 0
        batches = list(log_stream(log, time="at", reward_rate="rate"))
        assert sum(batch.durations.sum() for batch in batches) == 9.5 - 4.0
        log["dt"] = np.append(np.diff(SMALL["at"]), 2.0)
        batches = list(log_stream(log, duration="dt", reward_rate="rate"))
        assert sum(batch.durations.sum() for batch in batches) == 11.5
        known = np.concatenate([batch.known().durations for batch in batches])
        assert known.sum() == (11.5 if has_next else 11.5 - 4.0 - 2.0)


class TestProcesses:
    def test_what_is_true_is_what_the_exact_model_says(self):
        process = gb.MarkovRewardProcess(
            TRUTH.moves, TRUTH.paid, durations=TRUTH.lasting, reward_rates=TRUTH.rate
        )
        solution = gb.solve(process)
        assert solution.gain == pytest.approx(TRUTH.gain, rel=1e-12)
        assert solution.bias == pytest.approx(TRUTH.values, abs=1e-12)

    @pytest.mark.parametrize(
        "algorithm", ["lstd", "single-chain", "differential-td", "relative-td", "centred-td", "td-lambda"]
    )
    def test_values_are_semi_markov(self, algorithm):
        log = TRUTH.log(20_000 if algorithm == "lstd" else 10_000)
        estimate = gb.evaluate_log(log, duration="dt", reward_rate="rate", algorithm=algorithm)
        assert estimate.gain_interval[0] < TRUTH.gain < estimate.gain_interval[1]
        low, high = estimate.value_interval(np.arange(4)).T
        middle, width = (low + high) / 2.0, (high - low) / 2.0
        assert (np.abs(middle - TRUTH.values) < 1.6 * width).all()  # one of four may miss by a little
        assert width.max() < 0.6
        assert estimate.diagnostics.predictable_share < 0.02
        by_rows = gb.evaluate_log(log, algorithm=algorithm)
        assert np.abs(by_rows.value(np.arange(4)) - TRUTH.values).max() > 0.5

    def test_features_of_every_kind_give_the_same_values(self):
        log = TRUTH.log(5_000)
        how = {"duration": "dt", "reward_rate": "rate"}
        tabular = gb.evaluate_log(log, **how)
        dense = gb.evaluate_log(log, features=np.eye(4), **how)
        wide = gb.evaluate_log(log, features=lambda seen: np.eye(4)[seen], **how)
        for other in (dense, wide):
            assert other.value(np.arange(4)) == pytest.approx(tabular.value(np.arange(4)), abs=1e-9)
            assert other.value_interval(np.arange(4)) == pytest.approx(
                tabular.value_interval(np.arange(4)), abs=1e-8
            )

    def test_other_learners_are_refused(self):
        log = TRUTH.log(3_000)
        for algorithm in ("double-chain", "implicit-td", "discounted-td", "lspe"):
            with pytest.raises(ValueError, match=f"{algorithm} cannot use durations.*single-chain"):
                gb.evaluate_log(log, duration="dt", algorithm=algorithm)

    def test_a_queue_has_its_mean_length_over_time(self):
        log = mm1(60_000)
        log["length"] = log.pop("reward")
        by_time = np.average(log["length"][:-1], weights=log["duration"][:-1])
        estimate = gb.evaluate_log(log, time="time", reward_rate="length")
        assert estimate.gain == pytest.approx(by_time, rel=1e-12)
        low, high = estimate.gain_interval
        assert low < 4.0 < high
        assert not low < log["length"].mean() < high or log["length"].mean() - estimate.gain > 0.3
        assert np.isfinite(estimate.history.gain).all()
        assert estimate.history.gain[-1] == estimate.gain

    def test_the_shift_by_cuts_is_per_unit_of_time(self):
        from gainbias.evaluation.diagnostics import shift_by_cuts
        from gainbias.evaluation.stream import Transitions

        steps = np.arange(6)
        cut = Transitions(np.zeros(6), steps % 3, steps % 3 + 1, None, steps // 3, 0, np.full(6, 2.0))
        assert shift_by_cuts([cut] * 5, np.array([9.0, 5.0, 2.0, 0.0])) == 0.75

    def test_the_variance_is_that_of_a_step_however_long_batches_are(self):
        rng = np.random.default_rng(0)
        rewards, durations = rng.normal(5.0, 1.0, 40_000), rng.exponential(2.0, 40_000)
        means = RatioMeans()
        for part in np.array_split(np.arange(40_000), 7):
            means.add(rewards[part], durations[part])
        ratio = rewards.sum() / durations.sum()
        plain = (rewards - ratio * durations) / durations.mean()
        assert means.sums.size == 8
        assert means.mean == pytest.approx(ratio, rel=1e-12)
        assert means.variance_after(0) == pytest.approx(np.mean(plain**2), rel=1e-9)
        whole = plain[: len(plain) // 8 * 8].reshape(-1, 8)
        found, squares = means.about(ratio)
        assert found[0] == pytest.approx(whole.mean(axis=1), abs=1e-10)
        assert squares[0] == pytest.approx((whole**2).mean(axis=1), abs=1e-9)

    def test_memory_does_not_grow(self):
        def peak(count):
            log = {
                "state": np.zeros(count, dtype=int),
                "reward": np.ones(count),
                "at": np.arange(count) ** 1.5,
            }
            stream = log_stream(log, num_states=1, time="at", batch_size=1000)
            tracemalloc.start()
            for _ in stream:
                pass
            highest = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return highest

        assert peak(200_000) < 1.5 * peak(20_000)


def warned(log, **how):
    """Return the estimate, its first warning, and the transitions behind it."""
    estimate = evaluated(log, **how)
    assert not estimate.diagnostics.is_complete
    return estimate, estimate.diagnostics.warnings[0], estimate.diagnostics.num_transitions


class TestBadInput:
    def test_times_are_named(self):
        with pytest.raises(ValueError, match="time must be the name of a column, found ndarray"):
            evaluated(time=SMALL["at"])

    def test_ends_of_episodes_without_states(self):
        rewards, ends = np.random.default_rng(0).random(400), np.arange(400) % 50 == 49
        log = {"reward": rewards, "terminated": ends, "at": np.arange(400.0)}
        assert evaluated(log, reward_rate=None, end=400.0).gain == pytest.approx(rewards.mean())
        steps = gb.evaluate_log({"reward": rewards, "terminated": ends})  # an end takes an extra step
        assert steps.gain == pytest.approx(rewards.sum() / 408.0, rel=1e-2)

    def changed(self, place, value):
        times = SMALL["at"].copy()
        times[place] = value
        return SMALL | {"at": times}

    def test_out_of_order(self):
        log = self.changed(5, 7.5)
        estimate, words, made = warned(log)
        assert "row 4 of the log: the time of the row after it is earlier than its own" in words
        assert "gaps='break'" in words
        assert (made, estimate.diagnostics.duration) == (4, 8.0)
        broken = evaluated(log, gaps="break")
        assert broken.diagnostics.duration == 8.0 + 2.0
        assert any("gaps in the log, the first after row 4" in note for note in broken.diagnostics.notes)

    def test_missing(self):
        for log in (
            self.changed(5, np.nan),
            dated(at=np.where(np.arange(7) == 5, np.datetime64("NaT"), dated()["at"])),
            SMALL | {"at": [*map(str, dated()["at"][:5]), None, str(dated()["at"][6])]},
        ):
            estimate, words, made = warned(log)
            assert "row 5 of the log: the time is missing" in words
            assert (made, estimate.diagnostics.duration) == (4, 8.0)
        with pytest.raises(ValueError, match="row 0 of the log: the time is missing"):
            evaluated(self.changed(0, np.nan))

    def test_no_times(self):
        def mixed(entry):
            texts = [*map(str, dated()["at"][:5]), entry, str(dated()["at"][6])]
            return SMALL | {"at": np.array(texts, dtype=object)}

        for wrong in ("soon", True):
            assert f"row 5 of the log: the time is {wrong!r}, which is not a time" in warned(mixed(wrong))[1]
        words = warned(mixed(17.5))[1]
        assert "row 5 of the log: the time is 17.5, of another kind than those before it" in words
        with pytest.raises(ValueError, match="column 'at' must have times or durations, found bool"):
            evaluated(SMALL | {"at": SMALL["at"] > 1.0})

    def test_mixed_zones(self):
        times = [f"{one}+02:00" for one in dated()["at"]]
        times[5] = times[5][:-6]
        words = warned(SMALL | {"at": times})[1]
        assert (
            "row 5 of the log: the time '2024-01-01T08:00:00' has no time zone, unlike those before it"
            in words
        )

    @pytest.mark.parametrize("wrong", [-1.0, np.nan, 1e101])
    def test_durations(self, wrong):
        durations = np.append(np.diff(SMALL["at"]), 2.0)
        log = {name: SMALL[name] for name in ("state", "reward", "rate")} | {"dt": durations}
        log["dt"] = np.where(np.arange(7) == 5, wrong, durations)
        words = warned(log, time=None, duration="dt")[1]
        assert "row 5 of the log: the duration is" in words
        reasons = {
            -1.0: "-1.0, and must not be negative",
            1e101: "1e+101, beyond 1e+100: choose another unit",
        }
        assert reasons.get(wrong, "missing") in words

    def test_no_time_at_all(self):
        with pytest.raises(ValueError, match="durations, add up to 0"):
            evaluated(SMALL | {"at": np.ones(7)})

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    @pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e-120])
    def test_hardly_any_time(self, unit):
        """Squares of such durations are 0."""
        rng = np.random.default_rng(0)
        log = {"reward": rng.normal(size=900), "dt": unit * rng.integers(1, 4, 900)}
        with pytest.raises(ValueError, match=r"too near 0, .* choose a unit"):
            gb.evaluate_log(log, duration="dt")
        over_time = gb.evaluate_series(log["reward"], 0.5, duration=log["dt"])
        assert over_time.interval is None
        assert "too near zero: there is no mean over time" in over_time.verdict.words
        low, high = over_time.quantiles[0.5].interval
        assert low < 0.0 < high
        longer = gb.evaluate_log(log | {"dt": log["dt"] / unit * 1e-90}, duration="dt")
        assert longer.gain_interval[0] < 0.0 < longer.gain_interval[1]

    def test_arguments_that_do_not_fit(self):
        with pytest.raises(ValueError, match="time and duration both say how long a row lasts"):
            evaluated(duration="at")
        with pytest.raises(ValueError, match="reward_rate needs times: say which column has them, time="):
            evaluated(time=None)
        with pytest.raises(ValueError, match="per needs times"):
            evaluated(time=None, reward_rate=None, per="hour")
        with pytest.raises(ValueError, match="end is for a column of times"):
            evaluated(time=None, reward_rate=None, end=3.0)
        with pytest.raises(ValueError, match="no column 'when' for time, it has at, state, reward, rate"):
            evaluated(time="when")
        with pytest.raises(ValueError, match="no column 'pace', it has"):
            evaluated(reward_rate="pace")
        with pytest.raises(
            ValueError, match=r"per must be a number of the units of column 'at'.*found 'hour'"
        ):
            evaluated(per="hour")
        for wrong in (0.0, -1.0, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="per must be a number of the units"):
                evaluated(per=wrong)
        with pytest.raises(ValueError, match=r"one of microsecond, .*, week, found 'fortnight'"):
            evaluated(dated(), per="fortnight")
        with pytest.raises(ValueError, match=r"must be a unit of time for the dates .*found 60"):
            evaluated(dated(), per=60)
        with pytest.raises(ValueError, match="has dates, not durations: say time='at'"):
            evaluated(dated(), time=None, duration="at")
        with pytest.raises(ValueError, match="end must be a number, like column 'at', found 'noon'"):
            evaluated(end="noon")
        with pytest.raises(ValueError, match="end must be a date, like column 'at', found 7"):
            evaluated(dated(), end=7)
        with pytest.raises(ValueError, match="time is an argument of its own"):
            evaluated(time=None, columns={"time": "at"})

    def test_an_end_before_the_last_row(self):
        estimate, words, made = warned(SMALL, end=9.0)
        assert "row 6 of the log: its time is after the given end" in words
        assert (made, estimate.gain) == (5, pytest.approx(PAID / 8.0 - 4.0 / 8.0))

    def test_a_rate_that_is_no_number(self):
        words = warned(SMALL | {"rate": np.where(np.arange(7) == 5, np.nan, SMALL["rate"])})[1]
        assert "row 5 of the log: the reward rate is nan, not a finite number" in words
        with pytest.raises(ValueError, match="row 0 of the log: the reward rate is 'low', must be numbers"):
            evaluated(SMALL | {"rate": ["low"] * 7})

    def test_a_clock_that_jumps(self):
        log = TRUTH.log(3_000)
        late = log | {"at": log["at"] + np.where(np.arange(3_000) > 1_000, 1e6, 0.0)}
        words = [word for word in evaluated(late).diagnostics.warnings if "did the clock jump?" in word]
        assert words[0].startswith("row 1000 lasts 1e+06 units of 'at', longer than all other 2,998 rows")
        assert words[0] in evaluated(late).diagnostics.gain_warnings
        assert not any("clock jump" in word for word in evaluated(log).diagnostics.warnings)

    @pytest.mark.parametrize("parts", [[300], [150, 150], [100, 51, 149], [151, 149]])
    @pytest.mark.parametrize("second", [7, 149, 152, 299])
    def test_a_row_that_lasts_far_longer_than_any_other(self, second, parts):
        def said(longest):
            durations = np.ones(300)
            durations[[150, second]] = longest, 3.0
            clock, warnings, begin = RowClock("duration", "dt"), [], 0
            for count in parts:
                numbers, _ = clock.read(durations[begin : begin + count])
                clock.count(numbers, np.ones(count, dtype=bool), begin)
                begin += count
            clock.speak([], warnings)
            return warnings

        assert said(60.0) == [
            "row 150 lasts 60 units of 'dt', and no other longer than 3 units of 'dt': did the clock jump?"
        ]
        assert said(59.0) == []
        assert said(302.0)[0].startswith("row 150 lasts 302 units of 'dt', longer than all other 299 rows")

    def test_why_it_was_cut_short_is_said_where_there_is_no_answer(self):
        log = {"reward": np.ones(8), "at": [1.0] * 6 + [np.nan, 2.0]}
        with pytest.raises(
            ValueError, match=r"add up to 0; cut short .* row 6 of the log: the time is missing"
        ):
            gb.evaluate_log(log, time="at")

    @pytest.mark.parametrize("name", ["episode", "episode_id", "trajectory", "trajectory_id"])
    def test_trajectories_are_told_apart_by_usual_names(self, name):
        log = {"at": [0.0, 1.0, 3.0, 0.0, 2.0, 5.0], "reward": [1.0, 2.0, 90.0, 3.0, 4.0, 90.0]}
        estimate = gb.evaluate_log(log | {name: [1, 1, 1, 2, 2, 2]}, time="at")
        assert estimate.gain == pytest.approx((1.0 + 2.0 + 3.0 + 4.0) / (3.0 + 5.0))

    def test_a_dataset_of_minari(self):
        with pytest.raises(ValueError, match="a Minari dataset has no column of times"):
            gb.evaluate_log(SimpleNamespace(iterate_episodes=None), time="at")

    def test_in_a_shell(self, tmp_path, capsys):
        pandas.DataFrame(SMALL).to_csv(tmp_path / "log.csv", index=False)
        log = str(tmp_path / "log.csv")
        assert (
            cli.main(["evaluate", log, "--time", "at", "--reward-rate", "rate", "--end", "11.5", "--json"])
            == 0
        )
        assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(evaluated(end=11.5).gain)
        assert cli.main(["evaluate", log, "--time", "at", "--per", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["per"] == "2 units of 'at'"
        assert cli.main(["evaluate", log, "--reward-rate", "rate"]) == cli.WRONG_INPUT
        assert "reward_rate needs times" in capsys.readouterr().err
        assert (
            cli.main(["evaluate", "FrozenLake-v1", "--policy", "random", "--time", "at"]) == cli.WRONG_INPUT
        )
        assert "FrozenLake-v1 is an environment: leave out --time" in capsys.readouterr().err


class TestSeries:
    x = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0])
    at = np.array([0.0, 2.0, 3.0, 7.0, 8.0, 8.0, 9.5])

    def test_a_number_counts_for_as_long_as_it_holds(self):
        mean = (3.0 * 2 + 1.0 + 4.0 * 4 + 1.0 + 9.0 * 1.5) / 9.5
        dates = START + (3_600 * self.at).astype(np.int64).astype("m8[s]")
        frame = pandas.DataFrame({"x": self.x, "at": dates})
        zoned = frame.assign(at=frame["at"].dt.tz_localize("Asia/Tokyo"))
        by_name = {"column": "x", "time": "at"}
        for series, how in (
            (self.x, {"time": self.at}),
            (self.x[:-1], {"duration": np.diff(self.at)}),
            ({"x": self.x, "at": self.at}, {"column": "x", "time": "at"}),
            (frame, {"column": "x", "time": "at"}),
            (zoned, {"column": "x", "time": "at"}),
            (frame.set_index("at"), {"column": "x", "time": "at"}),
            (pyarrow.table(zoned), {"column": "x", "time": "at"}),
            ([{"x": x, "at": at} for x, at in zip(self.x, dates.tolist(), strict=True)], by_name),
            (self.x, {"time": dates}),
            (self.x, {"time": dates.tolist()}),
            (self.x, {"time": dates.astype(str)}),
            (self.x, {"time": 1_700_000_000 * 10**9 + (100 * self.at).astype(np.int64)}),
            (np.stack([self.x, self.x]), {"time": np.stack([self.at, self.at + 5.0])}),
        ):
            found = gb.evaluate_series(series, (0.1, 0.4, 0.6, 0.9), **how)
            assert found.mean == pytest.approx(mean, rel=1e-14)
            assert [one.value for one in found.levels] == [1.0, 3.0, 4.0, 9.0]
            assert not found.is_ratio
            assert "mean and quantiles are over time" in found.diagnostics.notes[0]

    def test_dates_of_a_file_in_several_units(self, tmp_path):
        for part, unit in enumerate(("ns", "s")):
            dates = START + (3_600 * self.at[4 * part :][:4]).astype(np.int64).astype("m8[s]")
            table = pyarrow.table({"x": self.x[4 * part :][:4], "at": dates.astype(f"M8[{unit}]")})
            parquet.write_table(table, tmp_path / f"{part}.parquet")
        found = gb.evaluate_series(tmp_path, (), column="x", time="at")
        assert found.mean == pytest.approx(37.5 / 9.5, rel=1e-14)

    @pytest.mark.parametrize("rows", [1, 2, 3])
    def test_however_it_is_read(self, rows, tmp_path, monkeypatch):
        from gainbias.evaluation.sources import numbers

        table = pyarrow.table(
            {"x": np.tile(self.x, 2), "at": np.tile(self.at, 2), "who": ["a"] * 7 + ["b"] * 7}
        )
        monkeypatch.setattr(numbers, "ROWS", rows)
        csv.write_csv(table, tmp_path / "log.csv")
        for form in (table, tmp_path / "log.csv"):
            found = gb.evaluate_series(form, (0.5,), column="x", time="at", group="who")
            alone = gb.evaluate_series(self.x, (0.5,), time=self.at)
            for one in found.values():
                assert (one.mean, one.quantiles[0.5].value) == (alone.mean, alone.quantiles[0.5].value)

    def test_equal_times_are_the_plain_answer(self):
        x = np.random.default_rng(0).exponential(size=5_001)
        timed = gb.evaluate_series(x, time=np.arange(5_001.0))
        plain = gb.evaluate_series(x[:-1])
        assert timed.mean == pytest.approx(plain.mean)
        assert timed.interval == pytest.approx(plain.interval)
        for level, one in plain.quantiles.items():
            assert timed.quantiles[level].value == one.value
            assert timed.quantiles[level].interval == pytest.approx(one.interval, rel=0.02)

    def test_quantiles_of_a_queue(self):
        log = mm1(60_000, seed=3)
        found = gb.evaluate_series(log["reward"], (0.5, 0.9), time=log["time"])
        assert found.interval[0] < 4.0 < found.interval[1]
        for level in (0.5, 0.9):  # the law is geometric: at least n with probability 0.8 ** n
            exact = np.ceil(np.log(1.0 - level) / np.log(0.8)) - 1.0
            low, high = found.quantiles[level].interval
            assert low <= exact <= high

    def test_bad_input(self, tmp_path, capsys):
        at = np.where(np.arange(7) == 5, 7.5, self.at)
        found = gb.evaluate_series(self.x, (0.5,), time=at)
        assert found.diagnostics.warnings[0] == (
            "cut short after 4 numbers: row 5: the time is earlier than the one before, by 0.5 units of "
            "'time': sort the rows by 'time'; if these are several series, tell them apart, group=..."
        )
        chains, even = np.tile(self.x, (2, 1)), np.ones((2, 7))
        for how, what in (
            ({"time": np.where(np.arange(7) == 5, 2.0, np.arange(7.0)) * even}, "by 2 units of 'time'"),
            ({"duration": np.where(np.arange(7) == 5, -1.0, 1.0) * even}, "row 5: the duration is negative"),
        ):
            assert what in gb.evaluate_series(chains, (0.5,), **how).verdict.words
        found = gb.evaluate_series(self.x, (0.5,), duration=np.where(np.arange(7) == 5, -1.0, 1.0))
        assert (
            "cut short after 5 numbers: row 5: the duration is -1.0, and must not be"
            in found.diagnostics.warnings[0]
        )
        found = gb.evaluate_series(self.x, (0.5,), time=np.where(np.arange(7) == 5, np.nan, self.at))
        assert "row 5: the time is missing" in found.diagnostics.warnings[0]
        with pytest.raises(ValueError, match="time and duration both say how long a number holds"):
            gb.evaluate_series(self.x, time=self.at, duration=self.at)
        with pytest.raises(ValueError, match="a ratio is not over time"):
            gb.evaluate_series(self.x, time=self.at, ratio_to=self.at)
        nothing = gb.evaluate_series(self.x, (0.5,), time=np.ones(7))
        assert "durations sum to zero: there is no mean over time" in nothing.diagnostics.warnings[0]
        pandas.DataFrame({"x": self.x, "at": self.at}).to_csv(tmp_path / "log.csv", index=False)
        words = ["evaluate", str(tmp_path / "log.csv"), "--column", "x"]
        assert cli.main([*words, "--time", "at", "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(37.5 / 9.5)
        assert cli.main([*words, "--reward-rate", "at"]) == cli.WRONG_INPUT
        assert "leave out --reward-rate" in capsys.readouterr().err


class TestScales:
    """However large or small the unit is: the same answer in another unit, or a refusal."""

    RNG = np.random.default_rng(0)
    STATES, ACTIONS = RNG.integers(0, 3, 4_000), RNG.integers(0, 2, 4_000)
    LASTED = RNG.exponential(1.0 + STATES)
    PAID = STATES + LASTED
    ASKED: ClassVar = {
        "own": {},
        "counted": {"action": "a", "policy": [0, 1, 0]},
        "features": {"action": "a", "policy": [0, 1, 0], "features": np.eye(3)},
    }

    def found(self, asked, pay=1.0, time=1.0):
        log = {"state": self.STATES, "a": self.ACTIONS, "reward": pay * self.PAID, "dt": time * self.LASTED}
        return gb.evaluate_log(log, duration="dt", **self.ASKED[asked])

    @pytest.mark.parametrize("asked", ASKED)
    @pytest.mark.parametrize(
        ("pay", "time"), [(1e-90, 1.0), (1e90, 1.0), (1.0, 1e-90), (1.0, 1e90), (1e60, 1e30)]
    )
    def test_the_same_answer_in_another_unit(self, asked, pay, time):
        usual, other = self.found(asked), self.found(asked, pay, time)
        unit = pay / time
        assert other.gain / unit == pytest.approx(usual.gain, rel=1e-9)
        assert np.array(other.gain_interval) / unit == pytest.approx(np.array(usual.gain_interval), rel=1e-6)
        assert other.value(0) / pay == pytest.approx(usual.value(0), rel=1e-6)
        assert other.diagnostics.warnings == usual.diagnostics.warnings

    @pytest.mark.parametrize("asked", ASKED)
    def test_what_cannot_be_squared_is_refused(self, asked):
        with pytest.raises(
            ValueError, match=r"durations, are too near 0, 1.95e-300 on average: choose a unit"
        ):
            self.found(asked, time=1e-300)
        with pytest.raises(
            ValueError, match=r"gain per unit of time, is \d.*e\+180, beyond 1e\+100: choose another"
        ):
            self.found(asked, pay=1e90, time=1e-90)

    @pytest.mark.parametrize("asked", ASKED)
    def test_numbers_that_are_too_small_have_no_interval_and_say_so(self, asked):
        found = self.found(asked, pay=1e-300)
        assert np.isnan(found.gain_interval).all()
        [words] = found.diagnostics.gain_warnings
        assert "their squares are lost" in words
