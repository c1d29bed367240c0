"""Lists of records, as simulators keep them, and what load generators write."""

import datetime
import gzip
import json
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import gainbias as gb
from gainbias import cli
from gainbias.evaluation.sources.readers import table_of
from tests.evaluation.requests import aiperf_record, guidellm_report, guidellm_request, vllm_result

Visit = namedtuple("Visit", ["arrived", "waited"])
CiwRecord = namedtuple(
    "Record",
    "id_number customer_class original_customer_class node arrival_date waiting_time service_start_date "
    "service_time service_end_date time_blocked exit_date destination queue_size_at_arrival "
    "queue_size_at_departure server_id record_type",
)
"""As in ciw/data_record.py of Ciw 3.2.7."""


@dataclass
class Stay:
    arrived: float
    waited: float


def ciw_record(number, arrival, wait, service=1.0):
    start = arrival + wait
    times = (arrival, wait, start, service, start + service, 0.0, start + service)
    return CiwRecord(number, "Customer", "Customer", 1, *times, -1, 0, 0, 1, "service")


def waits(count=400):
    return np.random.default_rng(0).exponential(size=count)


class TestLists:
    @pytest.mark.parametrize(
        "make",
        [Visit, Stay, lambda arrived, waited: {"arrived": arrived, "waited": waited}],
        ids=["named tuple", "data class", "dictionary"],
    )
    def test_a_field_is_a_column(self, make):
        records = [make(float(k), wait) for k, wait in enumerate(waits())]
        found, known = gb.evaluate_series(records, column="waited"), gb.evaluate_series(waits())
        assert (found.mean, found.interval) == (known.mean, known.interval)
        assert gb.evaluate_log(records, reward="waited").gain == pytest.approx(waits().mean())

    def test_pairs_have_a_time_and_a_value(self):
        pairs = [(0.1 * k, wait) for k, wait in enumerate(waits())]
        assert gb.evaluate_series(pairs, column="value").mean == gb.evaluate_series(waits()).mean
        assert gb.evaluate_log(pairs, reward="value").gain == pytest.approx(waits().mean())
        with pytest.raises(ValueError, match=r"say which column is meant, column=...: there are time, value"):
            gb.evaluate_series(pairs)

    def test_dates_are_times(self):
        day = datetime.datetime(2024, 1, 1)
        records = [{"at": day + datetime.timedelta(hours=k), "x": k} for k in range(20)]
        assert table_of(records, 100).times == ["at"]

    def test_chains_stay_chains(self):
        chains = [tuple(waits()), tuple(1.0 + waits())]
        assert gb.evaluate_series(chains, ()).diagnostics.num_chains == 2

    def test_groups_and_ratios(self):
        records = [{"ms": wait, "items": 2, "server": "ab"[k % 2]} for k, wait in enumerate(waits())]
        found = gb.evaluate_series(records, (), column="ms", ratio_to="items", group="server")
        assert list(found) == ["a", "b"]
        assert found["a"].mean == pytest.approx(waits()[::2].mean() / 2)

    @pytest.mark.parametrize(
        ("row", "wrong", "message"),
        [
            (7, {"a": 1}, "record 7 has no b: it is {'a': 1}, and the first one is {'a': 0, 'b': 0}"),
            (7, 3.5, "record 7 has no b: it is 3.5, and"),
        ],
    )
    def test_a_record_of_another_kind_is_named(self, row, wrong, message):
        records = [{"a": k, "b": k} for k in range(20)]
        records[row] = wrong
        with pytest.raises(ValueError, match=message):
            gb.evaluate_series(records, column="b")

    def test_a_pair_that_is_none_is_named(self):
        pairs = [(k, k) for k in range(20)]
        pairs[9] = (9, 9, 9)
        with pytest.raises(ValueError, match=r"record 9 has no value: it is \(9, 9, 9\)"):
            gb.evaluate_series(pairs, column="value")

    def test_a_missing_number_is_named_and_the_rest_before_it_counts(self):
        records = [Visit(k, None if k == 50 else 1.0 * (k % 7)) for k in range(80)]
        found = gb.evaluate_series(records, column="waited")
        assert found.diagnostics.warnings[0] == "cut short after 50 numbers: row 50: waited is missing"

    def test_records_of_ciw_come_in_the_order_of_arrivals(self):
        records = [ciw_record(k, float(k), wait) for k, wait in enumerate(waits())]
        shuffled = [records[k] for k in np.random.default_rng(1).permutation(len(records))]
        found, known = gb.evaluate_series(shuffled, column="waiting_time"), gb.evaluate_series(waits())
        assert found.interval == known.interval
        assert found.diagnostics.notes[0].startswith("records of Ciw were put in the order of arrival_date")
        assert not gb.evaluate_series(records, column="waiting_time").diagnostics.notes
        notes = gb.evaluate_log(shuffled, reward="waiting_time").diagnostics.notes
        assert any("put in the order of arrival_date" in note for note in notes)


class TestNumberInSystem:
    def test_a_count_by_hand(self):
        log = gb.number_in_system([3.0, 0.0, 1.0, 3.0], [4.0, 3.0, 1.0, np.nan])
        assert log["time"].tolist() == [0.0, 1.0, 3.0, 4.0]
        assert log["count"].tolist() == [1, 1, 2, 1]  # at 1 somebody came and left at once

    def test_times_keep_their_unit_and_digits(self):
        now = 1_700_000_000 * 10**9
        log = gb.number_in_system(np.array([now, now + 1, now + 2]), np.array([now + 5, now + 6, now + 7]))
        assert (log["time"] - now).tolist() == [0, 1, 2, 5, 6, 7]
        assert log["count"].tolist() == [1, 2, 3, 2, 1, 0]
        log = gb.number_in_system(np.array([1, 2], "m8[s]"), np.array([3_000, 1_500 + 500], "m8[ms]"))
        assert log["time"].tolist() == np.array([1, 2, 3], "m8[s]").astype("m8[ms]").tolist()
        dates = np.array(["2024-01-01", "2024-01-02"], "M8[D]")
        assert gb.number_in_system(dates, [None, None])["count"].tolist() == [1, 2]

    def test_little(self):
        """The area below the count is the sum of all stays."""
        rng = np.random.default_rng(2)
        came = rng.random(1_000) * 100.0
        left = came + rng.exponential(size=1_000)
        log = gb.number_in_system(came, left)
        assert (np.diff(log["time"]) > 0.0).all()
        assert log["count"][-1] == 0
        area = (log["count"][:-1] * np.diff(log["time"])).sum()
        assert area == pytest.approx((left - came).sum())
        middle = 50.0
        there = ((came <= middle) & (left > middle)).sum()
        assert log["count"][np.searchsorted(log["time"], middle, side="right") - 1] == there

    def test_dates(self):
        day = datetime.datetime(2024, 1, 1)
        hours = [day + datetime.timedelta(hours=k) for k in range(3)]
        for came in (hours, np.array(hours, dtype="M8[us]")):
            log = gb.number_in_system(came, [hours[2], hours[2], None])
            assert log["count"].tolist() == [1, 2, 1]
            assert log["time"].astype("M8[h]").tolist() == hours

    def test_pandas(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"came": pandas.date_range("2024-01-01", periods=3, freq="h")})
        frame["left"] = [*frame["came"][1:], pandas.NaT]
        assert gb.number_in_system(frame["came"], frame["left"])["count"].tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("came", "left", "message"),
        [
            ([0.0, 2.0], [1.0, 1.0], "row 1: the departure 1.0 is before the arrival 2.0"),
            ([0.0, None], [1.0, 1.0], "row 1: the arrival is missing"),
            ([0.0, 1.0], [1.0], "there are 2 arrivals and 1 departures"),
            (["a"], [1.0], "arrivals must be numbers, or dates and times"),
            ([[0.0]], [[1.0]], "arrivals must be a column of times"),
            ([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)], [None], "without a time zone"),
            (np.array(["2024-01-01"], dtype="M8[s]"), [3.0], "must both be numbers, or both dates"),
        ],
    )
    def test_wrong_times_are_named(self, came, left, message):
        with pytest.raises(ValueError, match=message):
            gb.number_in_system(came, left)


REQUESTS = [(100.0 + 0.5 * k, 0.1 + 0.001 * (k % 13), 0.02 + 0.001 * (k % 5), 2 + k % 4) for k in range(60)]
"""Start, time to the first token, time between tokens and number of tokens of each request."""


def written(path, writer, requests=REQUESTS, **given):
    """Write requests as a load generator would, in another order than that of their starts."""
    mixed = [requests[k] for k in np.random.default_rng(3).permutation(len(requests))]
    if writer == "aiperf":
        path = path / "profile_export.jsonl"
        records = [aiperf_record(k, *one, **given) for k, one in enumerate(mixed)]
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    elif writer == "guidellm":
        path = path / "benchmarks.json"
        path.write_text(json.dumps(guidellm_report([guidellm_request(*one) for one in mixed], **given)))
    else:
        path = path / "vllm-2.0qps-model-20261116-120000.json"
        path.write_text(json.dumps(vllm_result(mixed, **given)))
    return path


class TestRequests:
    @pytest.mark.parametrize("writer", ["vllm", "guidellm", "aiperf"])
    def test_columns_are_those_of_the_requests(self, tmp_path, writer):
        found = gb.read_requests(written(tmp_path, writer))
        start, ttft, itl, tokens = map(np.array, zip(*REQUESTS, strict=True))
        assert found["start"] == pytest.approx(start)
        assert found["ttft"] == pytest.approx(ttft)
        assert found["itl"] == pytest.approx(itl)
        assert found["output_tokens"].tolist() == tokens.tolist()
        assert set(found["input_tokens"]) == {20.0}
        assert found["delay"] == pytest.approx(0.01)
        behind = 0.01 if writer == "guidellm" else 0.0  # its answers end after the last token
        assert found["latency"] == pytest.approx(ttft + itl * (tokens - 1) + behind)
        assert (found.writer.split()[0], found.num_failed, found.notes) == (writer, 0, [])

    @pytest.mark.parametrize("writer", ["vllm", "guidellm", "aiperf"])
    def test_a_path_is_evaluated(self, tmp_path, writer):
        path = written(tmp_path, writer)
        found = gb.evaluate_series(path, (), column="ttft")
        assert found.mean == pytest.approx(np.mean([one[1] for one in REQUESTS]))
        assert gb.evaluate_log(path, reward="ttft").gain == pytest.approx(found.mean)

    def test_on_the_command_line(self, tmp_path, capsys):
        path = written(tmp_path, "guidellm")
        assert cli.main(["evaluate", str(path), "--column", "ttft", "--json"]) == cli.DONE
        assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(np.mean([o[1] for o in REQUESTS]))

    def test_an_old_result_of_vllm_has_no_starts(self, tmp_path):
        found = gb.read_requests(written(tmp_path, "vllm", is_old=True))
        assert list(found) == ["latency", "ttft", "itl", "input_tokens", "output_tokens"]
        assert np.sort(found["latency"]) == pytest.approx(
            sorted(ttft + itl * (tokens - 1) for _, ttft, itl, tokens in REQUESTS)
        )

    def test_compressed(self, tmp_path):
        plain = written(tmp_path, "aiperf")
        (tmp_path / "other.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
        found = gb.read_requests(tmp_path / "other.jsonl.gz")
        assert found["ttft"].tolist() == gb.read_requests(plain)["ttft"].tolist()

    def test_units_of_aiperf(self, tmp_path):
        found = gb.read_requests(written(tmp_path, "aiperf", unit="ns"))
        assert found["ttft"] == pytest.approx([one[1] for one in REQUESTS])

    def test_failed_requests_are_left_out_and_spoken_of(self, tmp_path):
        found = gb.read_requests(written(tmp_path, "vllm", errors={3, 4}))
        assert (len(found["ttft"]), found.num_failed, min(found["ttft"]) > 0.0) == (58, 2, True)
        assert found.notes == ["2 of 60 requests failed and are left out"]
        silent = vllm_result(REQUESTS, errors={3})
        silent["errors"][3] = ""  # failed, and nothing was said: there is no token
        (tmp_path / "silent.json").write_text(json.dumps(silent))
        assert gb.read_requests(tmp_path / "silent.json").num_failed == 1
        assert gb.read_requests(written(tmp_path, "guidellm", errored=3)).num_failed == 3
        records = [aiperf_record(k, *one) for k, one in enumerate(REQUESTS)]
        records[5] = aiperf_record(5, *REQUESTS[5], error="gone")
        records[6]["metadata"]["was_cancelled"] = True
        records[0] = aiperf_record(0, *REQUESTS[0], phase="warmup")
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
        found = gb.read_requests(tmp_path / "a.jsonl")
        assert (len(found["ttft"]), found.num_failed) == (57, 2)
        assert found.notes[0] == "1 of 60 requests are of the warm-up and are left out"
        notes = gb.evaluate_series(tmp_path / "a.jsonl", (), column="ttft").diagnostics.notes
        assert notes[:2] == tuple(found.notes)

    @pytest.mark.parametrize("writer", ["vllm", "guidellm", "aiperf"])
    def test_one_token_has_no_time_between_tokens(self, tmp_path, writer):
        requests = [*REQUESTS[:40], *((*one[:3], 1) for one in REQUESTS[40:])]
        path = written(tmp_path, writer, requests)
        assert np.isnan(gb.read_requests(path)["itl"]).sum() == 20
        found = gb.evaluate_series(path, (), column="itl")
        assert found.diagnostics.num_numbers + found.warm_up == 40
        assert "20 of 60 requests have no itl and are left out" in found.diagnostics.notes
        assert gb.evaluate_series(path, (), column="ttft").diagnostics.num_numbers == 60

    def test_a_sample_of_guidellm_is_spoken_of(self, tmp_path):
        [note] = gb.read_requests(written(tmp_path, "guidellm", made=1_000)).notes
        assert note.startswith("the file has 60 of 1,000 requests, a random sample")

    def test_several_benchmarks_are_not_mixed(self, tmp_path):
        parts = [[guidellm_request(*one) for one in some] for some in (REQUESTS[:20], REQUESTS[20:])]
        (tmp_path / "g.json").write_text(json.dumps(guidellm_report(*parts)))
        documents = [vllm_result(REQUESTS[:20]), vllm_result(REQUESTS[20:])]
        (tmp_path / "v.json").write_text("\n".join(map(json.dumps, documents)))  # with --append-result
        for path in (tmp_path / "g.json", tmp_path / "v.json"):
            with pytest.raises(ValueError, match=r"several benchmarks.*say group='benchmark', or choose one"):
                gb.evaluate_series(path, column="ttft")
            found = gb.evaluate_series(path, (), column="ttft", group="benchmark")
            assert [one.diagnostics.num_numbers for one in found.values()] == [20, 40]
            second = gb.read_requests(path, benchmark=1)
            assert second["ttft"] == pytest.approx([one[1] for one in REQUESTS[20:]])
            with pytest.raises(ValueError, match="benchmark must be from 0 to 1, found 2"):
                gb.read_requests(path, benchmark=2)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"p99": 3, "rps": 2}, "found an object with 'p99', 'rps'. Known are the files of vllm"),
            ({str(k): k for k in range(20)}, "'6', '7' and more"),
            ([1, 2], "found a list"),
            ({"completed": 3, "request_throughput": 1.0}, "only totals.*--save-detailed"),
            ({"ttfts": [0.1], "output_lens": [1]}, "has ttfts but no itls"),
            ({"ttfts": [0.1, 0.2], "itls": [[]]}, "itls must be a list with a number for each of 2"),
            ({"ttfts": [0.1, "x"], "itls": [[], []]}, "request 1 cannot be read"),
            (
                {"ttfts": [0.0], "itls": [[]], "errors": ["gone"]},
                r"no request that was answered \(1 failed\)",
            ),
            ({"benchmarks": []}, "has no benchmark"),
            ({"benchmarks": [{"requests": {}}]}, "benchmark 0 has no requests"),
            ({"benchmarks": [{"requests": {"successful": [{}]}}]}, "request 0 has no 'request_start_time'"),
        ],
    )
    def test_what_is_not_known_is_named(self, tmp_path, content, message):
        (tmp_path / "result.json").write_text(json.dumps(content))
        for read in (gb.read_requests, lambda path: gb.evaluate_series(path, column="ttft")):
            with pytest.raises(ValueError, match=message):
                read(tmp_path / "result.json")

    @pytest.mark.parametrize(
        ("text", "message"),
        [("", "is empty"), ('{"ttfts": [0.1', "is not JSON that can be read"), ("exec()", "is not JSON")],
    )
    def test_what_is_no_json_is_named(self, tmp_path, text, message):
        (tmp_path / "result.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            gb.read_requests(tmp_path / "result.json")
        with pytest.raises(ValueError, match="there is no file"):
            gb.read_requests(tmp_path / "none.json")

    def test_a_line_of_aiperf_that_is_not_whole_is_named(self, tmp_path):
        records = [aiperf_record(k, *one) for k, one in enumerate(REQUESTS)]
        records[7]["metrics"]["time_to_first_token"]["unit"] = "hours"
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
        with pytest.raises(ValueError, match="request 7 cannot be read: time_to_first_token is in 'hours'"):
            gb.read_requests(tmp_path / "a.jsonl")
        del records[7]["metadata"]["request_start_ns"]
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
        with pytest.raises(ValueError, match="request 7 has no 'request_start_ns'"):
            gb.read_requests(tmp_path / "a.jsonl")


def test_simulations_of_ciw():
    """The package itself: fields are as above, and its records are read."""
    ciw = pytest.importorskip("ciw")
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(0.5)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[1],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(2_000)
    records = simulation.get_all_records(include_incomplete=True)
    assert records[0]._fields == CiwRecord._fields
    done = [one for one in records if one.record_type == "service"]
    found = gb.evaluate_series(done, (), column="waiting_time")
    assert found.mean == pytest.approx(np.mean([one.waiting_time for one in done][found.warm_up :]), rel=0.5)
    log = gb.number_in_system([one.arrival_date for one in records], [one.exit_date for one in records])
    assert log["count"].min() >= 0
    inside = sum(node.number_of_individuals for node in simulation.transitive_nodes)
    assert log["count"][-1] == inside


def test_a_table_that_is_only_planned_is_refused():
    planned = SimpleNamespace(collect_schema=None)
    for evaluate in (gb.evaluate_log, lambda table: gb.evaluate_series(table, column="x")):
        with pytest.raises(ValueError, match=r"has not been read yet: pass table.collect\(\)"):
            evaluate(planned)
