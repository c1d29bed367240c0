"""`evaluate_series`: means, ratios and quantiles of columns from anywhere, and what is wrong with them."""

import gzip
import json
import re

import numpy as np
import pytest
from scipy import stats

import gainbias as gb
from gainbias.evaluation import series
from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans
from gainbias.evaluation.gain.interval import estimate_gain, stretched
from gainbias.evaluation.gain.quantiles import (
    BinnedNumbers,
    OrderedNumbers,
    RandomSample,
    estimate_quantile,
)
from gainbias.evaluation.gain.spectrum import slow_waves
from gainbias.evaluation.sources import numbers as sources
from gainbias.evaluation.sources import readers
from tests.oracles.series import PROCESSES, autoregression

LEVELS = (0.5, 0.95, 0.99)


def lognormal(length: int = 6000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(size=length)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few thousand rows are too large to be held, and come in several blocks."""
    monkeypatch.setattr(series, "HELD", 1_000)
    monkeypatch.setattr(readers, "BLOCK_OF_BYTES", 2**12)
    monkeypatch.setattr(sources, "ROWS", 700)


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    return pandas.DataFrame(
        {"ms": lognormal(), "items": rng.integers(1, 5, 6000), "server": np.tile(["a", "b", "a"], 2000)}
    )


def stored(frame, folder, kind: str) -> str:
    path = str(folder / f"latencies.{kind}")
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind.startswith("jsonl"):
        text = frame.to_json(orient="records", lines=True, double_precision=15)
        with (gzip.open if kind.endswith("gz") else open)(path, "wt") as file:
            file.write(text)
    else:
        frame.to_parquet(path)
    return path


class TestAnswers:
    def test_mean_is_that_of_the_one_procedure(self):
        x = autoregression(np.random.default_rng(0), 5000, 1, 0.9)[0]
        found, gain = gb.evaluate_series(x), estimate_gain(BatchMeans.of(x))
        assert (found.mean, found.interval, found.verdict) == (gain.gain, gain.interval, gain.verdict)
        assert found.warm_up == gain.transient
        assert found.diagnostics.warnings[: len(gain.warnings)] == gain.warnings

    def test_quantiles_are_order_statistics(self):
        x = lognormal(1001)
        found = gb.evaluate_series(x, [0.25, 0.5])
        assert [one.value for one in found.levels] == np.quantile(
            x, [0.25, 0.5], method="inverted_cdf"
        ).tolist()
        assert list(found.quantiles) == [0.25, 0.5]
        for one in found.levels:
            assert one.interval[0] in x
            assert one.interval[0] < one.value < one.interval[1]

    @pytest.mark.parametrize("confidence", [0.8, 0.95])
    def test_intervals_are_the_furthest_of_binomial_symmetric_and_skewed_ranks(self, confidence):
        n = 20_000
        ranks = stats.rankdata(autoregression(np.random.default_rng(3), n, 1, 0.9)[0])
        found = gb.evaluate_series(ranks, (0.5, 0.95), confidence=confidence).quantiles
        for level, one in found.items():
            below = (ranks <= level * n)[: n // 4 * 4].reshape(1, -1, 4).mean(axis=2)
            waves = slow_waves(below)
            worth = level * (1 - level) * n / (4 * waves.long_run_variance)
            reach = stats.t.ppf((1 + confidence) / 2, waves.degrees)
            symmetric = level + np.array([-reach, reach]) * np.sqrt(level * (1 - level) / worth)
            skewed = stats.binom.ppf(stats.norm.cdf([-reach, reach]), int(worth), level) / int(worth)
            edges = np.linspace(0, below.shape[1], 65).astype(int)
            groups = np.array([part.mean() for part in np.split(below[0], edges[1:-1])])
            bend = np.asarray(stats.skew(groups, bias=False) / 8.0 / 6.0)  # of a mean of 64
            willink = level + (symmetric[1] - level) / reach * abs(stretched(reach, bend))
            assert one.interval[1] == np.ceil(n * max(symmetric[1], willink))
            low = min(symmetric[0], skewed[0])
            assert one.interval[0] == pytest.approx(n * low, abs=1.5 * n / worth)  # one of the independent

    def test_a_quantile_with_clusters_too_unequal_beyond_it_is_refused(self):
        """Two clusters are over a quarter of what is beyond it, and a third may come."""
        rng, x = np.random.default_rng(0), np.random.default_rng(1).random(40_000)
        for place, size in zip(100 * rng.permutation(400)[:152], [10] * 150 + [300] * 2, strict=True):
            x[place : place + size] = 2.0 + rng.random(size)
        found = gb.evaluate_series(x, 0.95).quantiles[0.95]
        assert found.exceedances > 20
        assert found.interval is None
        assert "such unequal clusters" in found.words
        assert found.longer == 2.0

    def test_steps_are_those_of_the_given_series(self):
        """What was skipped and what is a warm-up counts: `x[:at]` is the part before a level shift."""
        x = np.random.default_rng(0).normal(size=6000)
        x[4000:] += 1.0
        verdict = gb.evaluate_series(x, (), skip=2000).verdict
        assert verdict.kind == "level shift"
        assert verdict.at == pytest.approx(4000, abs=200)
        assert f"about step {verdict.at:,}" in verdict.words
        running = gb.RunningMean(skip=2000)
        running.update(x)
        assert f"about step {verdict.at:,}" in running.warnings[0]
        wider = np.random.default_rng(0).normal(size=8000)
        wider[5000:] *= 1.5
        found = gb.evaluate_series(wider, 0.95, skip=2000).quantiles[0.95]
        assert re.search(r"about step (4,9|5,0)\d\d the level changes", found.words)

    def test_a_ratio_is_called_a_ratio(self):
        x = np.random.default_rng(0).random(2000)
        found = gb.evaluate_series({"a": x, "b": 2.0 * x + 1.0}, (), column="a", ratio_to="b")
        assert (found.is_ratio, found.name, found.to_dict()["is_ratio"]) == (True, "ratio", True)
        assert gb.evaluate_series(x).to_dict()["is_ratio"] is False
        table = {"a": x, "b": x + 1.0, "g": ["u", "v"] * 1000}
        rows = gb.evaluate_series(table, (), column="a", ratio_to="b", group="g").rows()
        assert "ratio" in rows[0]
        assert "mean" not in rows[0]

    def test_a_quantile_may_change_where_the_mean_does_not(self):
        x = np.random.default_rng(0).normal(size=8000)
        x[5000:] *= 1.5
        found = gb.evaluate_series(x)
        assert found.quantiles[0.5].interval is not None
        assert found.quantiles[0.95].interval is None
        assert "there, level shift: about step 5" in found.quantiles[0.95].words
        assert found.diagnostics.warnings[-1].startswith("p9")

    def test_dependence_widens_intervals(self):
        slow = autoregression(np.random.default_rng(0), 20_000, 1, 0.9)[0]
        mixed = np.random.default_rng(1).permutation(slow)

        def width(x, level):
            low, high = gb.evaluate_series(x).quantiles[level].interval
            return high - low

        for level in (0.5, 0.95):
            assert width(slow, level) > 1.5 * width(mixed, level)

    def test_few_exceedances_are_refused_with_a_factor(self):
        found = gb.evaluate_series(lognormal(600)).quantiles
        assert found[0.5].interval is not None
        assert found[0.99].interval is None
        assert 3 < found[0.99].exceedances < 12
        assert "run about" in found[0.99].words
        dependent = autoregression(np.random.default_rng(0), 4000, 1, 0.99)[0]
        assert (
            gb.evaluate_series(dependent, 0.95).quantiles[0.95].interval is None
        )  # 200 exceed it, in clusters

    def test_discrete_numbers_may_have_a_quantile_without_doubt(self):
        digits = np.random.default_rng(0).integers(10, size=5000)
        found = gb.evaluate_series(digits, (0.5, 0.55, 0.99)).quantiles
        assert found[0.99].interval == (9.0, 9.0)
        assert found[0.55].interval == (5.0, 5.0)
        assert found[0.5].interval == (4.0, 5.0)  # half of the numbers are up to 4, or a little less

    def test_ratio_of_sums(self, frame):
        found = gb.evaluate_series(frame, (), column="ms", ratio_to="items")
        assert found.mean == pytest.approx(frame["ms"].sum() / frame["items"].sum())
        assert found.interval == estimate_gain(RatioMeans.of(frame["ms"], frame["items"])).interval
        assert found.quantiles == {}

    def test_groups_are_evaluated_by_themselves(self, frame):
        found = gb.evaluate_series(frame, column="ms", group="server")
        assert list(found) == ["a", "b"]
        for name in found:
            alone = gb.evaluate_series(frame["ms"][frame["server"] == name])
            assert found[name].to_dict() == alone.to_dict()
        assert "4,000" in repr(found)
        assert set(found.to_dict()) == {"a", "b"}

    def test_groups_print_their_warnings(self):
        numbers, names = lognormal(2000), np.array(["a", "b"] * 1000, dtype=object)
        names[1000] = None
        both = repr(gb.evaluate_series(numbers, (), group=names))
        assert both.count("cut short after 1,000 numbers: row 1000") == 1
        names[900:1000] = [f"g{number}" for number in range(100)]
        lines = repr(gb.evaluate_series(numbers[:1000], (), group=names[:1000])).splitlines()
        assert lines[103] == "warning   g0: too short: 1 number, and an interval needs at least 4"
        assert lines[-1] == "warning   and 88 more: see diagnostics.warnings of each group"
        calm = repr(gb.evaluate_series(lognormal(2000), (), group=np.tile(["a", "b"], 1000)))
        assert len(calm.splitlines()) == 3

    def test_skip_leaves_out_a_known_warm_up_and_looks_for_no_other(self):
        x = lognormal() + 50.0 * np.exp(-np.arange(6000) / 100)
        searched, skipped = gb.evaluate_series(x), gb.evaluate_series(x, skip=100)
        assert searched.warm_up > 100
        assert skipped.warm_up == 100
        assert skipped.mean == pytest.approx(x[100:].mean())
        assert skipped.quantiles[0.5].value == np.quantile(x[100:], 0.5, method="inverted_cdf")
        assert searched.quantiles[0.5].value == np.quantile(x[searched.warm_up :], 0.5, method="inverted_cdf")

    def test_chains(self):
        x = np.random.default_rng(0).normal(size=(4, 2000))
        found = gb.evaluate_series(x)
        assert found.diagnostics.num_chains == 4
        assert found.diagnostics.num_numbers == 8000
        assert found.quantiles[0.95].interval[0] < 1.645 < found.quantiles[0.95].interval[1]
        apart = gb.evaluate_series(x + np.arange(4)[:, None])
        assert apart.verdict.kind == "chains disagree"
        assert apart.quantiles[0.5].interval is None

    def test_saved_and_loaded(self, tmp_path):
        found = gb.evaluate_series(lognormal(300))
        found.save(tmp_path / "new" / "series.npz")
        again = gb.load_series(tmp_path / "new" / "series.npz")
        assert repr(again) == repr(found)
        assert (again.batch_means == found.batch_means).all()
        with pytest.raises(ValueError, match="already"):
            found.save(tmp_path / "new" / "series.npz")
        over_time = gb.evaluate_series(lognormal(300), duration=lognormal(300, seed=1))
        over_time.save(tmp_path / "time.npz")
        assert (gb.load_series(tmp_path / "time.npz").durations == over_time.durations).all()
        with pytest.raises(ValueError, match="no estimate of gainbias"):
            gb.load_estimate(tmp_path / "new" / "series.npz")

    def test_a_confidence_is_not_rounded(self):
        assert "99.9% interval" in repr(gb.evaluate_series(lognormal(2000), (), confidence=0.999))

    def test_digits_follow_the_width_of_the_interval_and_a_single_number_is_in_full(self):
        counts = 1_234_567.0 + np.random.default_rng(0).integers(0, 2, 5_000) * 3.0
        lines = str(gb.evaluate_series(counts, (0.2, 0.99))).splitlines()
        assert lines[1] == "p20       1234567, 95% interval 1234567 to 1234567"
        assert lines[2] == "p99       1234570, 95% interval 1234570 to 1234570"
        assert str(gb.evaluate_series(np.full(500, 1e9), ())).startswith(
            "mean      1000000000, no interval\n"
        )

    def test_numbers_are_worth_something_only_with_an_interval_and_to_two_digits(self):
        assert re.search(
            r"numbers, worth about \d,\d00 independent", str(gb.evaluate_series(lognormal(), ()))
        )
        constant = gb.evaluate_series(np.zeros(2_000), ())
        assert constant.data_in_words() == "2,000 numbers"
        assert constant.diagnostics.effective_sample_size == 2_000  # JSON goes on having a number

    @pytest.mark.parametrize("length", [1_000, 2_001, 20_000])
    @pytest.mark.parametrize("noise", [0.0, 0.01])
    def test_numbers_that_alternate_have_no_slow_part_at_a_quantile(self, length, noise):
        rng = np.random.default_rng(3)
        found = gb.evaluate_series(2.0 - np.cos(np.pi * np.arange(length)) + noise * rng.normal(size=length))
        assert found.verdict.kind == "periodic"
        assert not any("slow part" in one.words for one in found.levels), str(found)
        low, high = found.quantiles[0.5].interval
        assert low == pytest.approx(1.0, abs=0.05)
        assert high == pytest.approx(3.0, abs=0.05)

    @pytest.mark.parametrize("seed", range(12))
    def test_no_length_is_advised_if_the_variance_looks_infinite(self, seed):
        found = gb.evaluate_series(np.random.default_rng(seed).standard_cauchy(2_000), ())
        assert found.verdict.longer is None, found.verdict.words
        assert found.steps_for(0.1).steps is None

    @pytest.mark.parametrize("seed", range(4))
    def test_a_random_walk_is_told_that_no_length_may_help(self, seed):
        words = str(gb.evaluate_series(np.cumsum(np.random.default_rng(seed).normal(size=3_000)), ()))
        assert "as a random walk does, no length helps" in words

    def test_a_count_that_is_not_enough_does_not_look_like_enough(self):
        for seed in range(40):
            rng = np.random.default_rng(seed)
            walk = autoregression(rng, 4_000, 1, 0.95)[0]
            for one in gb.evaluate_series(walk, (0.5, 0.9, 0.95, 0.97, 0.98, 0.99)).levels:
                if words := re.search("about (.*?)(?: by its.*)?, and (.*) are needed", one.words):
                    assert float(words[1]) < float(words[2]), one.words

    def test_ten_periods_are_enough_however_the_last_one_ends(self):
        for seed in range(16):
            rng = np.random.default_rng(seed)
            season = np.sin(2.0 * np.pi * (np.arange(240) / 24.0 + rng.uniform()))
            found = gb.evaluate_series(season + rng.normal(0.0, 0.3, 240), ()).verdict
            assert (found.kind, found.is_trusted) == ("periodic", True), found.words

    def test_a_clear_pattern_that_was_seen_few_times_is_named_beside_the_slow_part(self):
        x = np.sin(2.0 * np.pi * np.arange(252) / 24.0 + 1.0)
        found = gb.evaluate_series(x + 0.05 * np.random.default_rng(0).normal(size=252), ())
        assert found.verdict.kind == "too short"
        assert "the slow part may be the pattern that repeats after about 24." in found.verdict.words

    def test_words(self):
        shown = repr(gb.evaluate_series(lognormal(600), confidence=0.9))
        assert "90% interval" in shown
        assert "p99       " in shown
        assert "no interval: too few independent numbers" in shown
        assert shown.count("too few independent numbers") == 1  # the row says it, and no warning again
        assert json.dumps(gb.evaluate_series(np.ones(50)).to_dict(), allow_nan=False)


class TestSources:
    @pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow", "mapping"])
    def test_all_give_the_same(self, frame, tmp_path, kind):
        if kind == "arrow":
            source = pytest.importorskip("pyarrow").table(frame)
        else:
            source = dict(frame) if kind == "mapping" else stored(frame, tmp_path, kind)
        expected = gb.evaluate_series(frame, column="ms", ratio_to="items", group="server")
        found = gb.evaluate_series(source, column="ms", ratio_to="items", group="server")
        for name in ("a", "b"):
            assert found[name].mean == pytest.approx(expected[name].mean, rel=1e-12)
            assert found[name].interval == pytest.approx(expected[name].interval, rel=1e-9)
            assert found[name].quantiles[0.95].interval == pytest.approx(
                expected[name].quantiles[0.95].interval
            )

    @pytest.mark.parametrize("kind", ["csv", "mapping"])
    def test_a_column_of_times_that_is_not_used_has_a_note(self, frame, tmp_path, kind):
        timed = frame.assign(at=np.cumsum(frame["items"]))
        source = dict(timed) if kind == "mapping" else stored(timed, tmp_path, kind)
        notes = gb.evaluate_series(source, column="ms").diagnostics.notes
        assert [note for note in notes if "'at'" in note] == [
            "column 'at' looks like times, and is not used: every row counts once; "
            "time='at' gives a mean over time"
        ]
        over_time = gb.evaluate_series(source, column="ms", time="at", quantiles=())
        assert not any("is not used" in note for note in over_time.diagnostics.notes)

    @pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
    def test_large_files_take_two_readings(self, frame, tmp_path, kind, small_blocks, monkeypatch):
        exact = gb.evaluate_series(frame, column="ms", group="server")
        found = gb.evaluate_series(stored(frame, tmp_path, kind), column="ms", group="server")
        monkeypatch.setattr(series, "SAMPLES_OF_GROUPS", 0)
        monkeypatch.setattr(series, "FEWEST_OF_A_SAMPLE", 500)
        rough = gb.evaluate_series(stored(frame, tmp_path, kind), column="ms", group="server")
        for name in ("a", "b"):
            assert "too many numbers to keep in memory" in rough[name].diagnostics.notes[-1]
            assert found[name].mean == pytest.approx(exact[name].mean)
            for level in (0.5, 0.95):
                best, one = exact[name].quantiles[level].interval, rough[name].quantiles[level].interval
                width = best[1] - best[0]
                assert best[0] - width < one[0] <= best[0] + 0.2 * width
                assert best[1] - 0.2 * width <= one[1] < best[1] + width
                assert rough[name].quantiles[level].value == pytest.approx(
                    exact[name].quantiles[level].value, abs=0.3 * width
                )

    def test_a_warm_up_is_left_out_in_the_second_reading(self, tmp_path, small_blocks):
        pandas = pytest.importorskip("pandas")
        x = np.random.default_rng(0).integers(10, size=6000) + np.where(np.arange(6000) < 500, 100, 0)
        pandas.DataFrame({"x": x}).to_csv(tmp_path / "x.csv", index=False)
        found = gb.evaluate_series(tmp_path / "x.csv", (0.55, 0.99))
        assert 500 <= found.warm_up < 510
        assert found.quantiles[0.55].interval == (5.0, 5.0)  # of numbers that repeat, all is exact
        assert found.quantiles[0.99].value == 9.0

    def test_a_wrong_row_behind_the_first_block(self, frame, tmp_path, small_blocks):
        frame["ms"] = frame["ms"].astype(object)
        frame.loc[5000, "ms"] = "slow"
        for kind in ("csv", "jsonl"):
            found = gb.evaluate_series(stored(frame, tmp_path, kind), column="ms")
            [reason, *_] = found.diagnostics.warnings
            assert reason == (
                "cut short after 5,000 numbers: row 5000: ms is the text 'slow', not a number "
                "(the first row of data is row 0)"
            )
            assert found.diagnostics.num_numbers == 5000 - found.warm_up
            assert found.quantiles[0.5].interval is not None

    def test_json_groups_may_be_numbers(self, tmp_path):
        rows = [{"x": k % 7, "g": k % 2} for k in range(100)]
        (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
        assert list(gb.evaluate_series(tmp_path / "x.jsonl", column="x", group="g")) == [0, 1]

    def test_the_only_column_needs_no_name(self, tmp_path):
        (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(str, lognormal(100))))
        assert gb.evaluate_series(tmp_path / "x.csv", ()).mean == pytest.approx(lognormal(100).mean())

    def test_a_file_that_changes_while_it_is_read(self, tmp_path, small_blocks, monkeypatch):
        path = tmp_path / "x.csv"
        path.write_text("x\n" + "1\n2\n" * 1000)
        counted = series._counted

        def changed(*given):
            path.write_text("x\n1\n2\n")
            return counted(*given)

        monkeypatch.setattr(series, "_counted", changed)
        with pytest.raises(ValueError, match="changed while it was read"):
            gb.evaluate_series(path)


class TestWrongInput:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"quantiles": (0.5, 95)}, "between 0 and 1, found 95: say 0.95 for 95%"),
            ({"quantiles": 0.0}, "between 0 and 1, found 0.0"),
            ({"quantiles": (float("nan"),)}, "between 0 and 1, found nan"),
            ({"quantiles": "half"}, "between 0 and 1, found 'half'"),
            ({"quantiles": None}, "between 0 and 1, found None"),
            ({"confidence": 95}, "confidence must be between 0 and 1"),
            ({"skip": -1}, "skip must be"),
            ({"skip": 1000}, "at least 4 numbers after the first 1,000, found 0"),
            ({"column": "ms"}, "names a column of a table or file"),
            ({"ratio_to": "ms"}, "there is no table"),
            ({"ratio_to": np.ones(3)}, r"ratio_to has shape \(3,\)"),
        ],
    )
    def test_arguments(self, given, message):
        with pytest.raises(ValueError, match=message):
            gb.evaluate_series(lognormal(200), **given)

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            ([], "at least 4 numbers, found 0"),
            ([1.0], "at least 4 numbers, found 1"),
            (np.zeros((50, 2)), "found 2 of each chain: these are 50 chains, and a chain is a row"),
            (np.zeros((2, 3, 4)), r"shape \(n,\) or \(chains, n\)"),
            ([[1.0, 2.0], [3.0]], "equal lengths"),
            (np.array(["2020-01-01"] * 9, dtype="M8[s]"), "found times"),
            (iter([1.0]), "found list_iterator"),
            ({"a": [1.0], "b": [2.0]}, "say which column is meant, column=...: there are a, b"),
            ([1.0, np.nan, 2.0], "row 1: the number is nan or missing"),
            ("none.csv", "there is no file none.csv"),
        ],
    )
    def test_data_without_an_answer(self, x, message):
        with pytest.raises(ValueError, match=message):
            gb.evaluate_series(x)

    @pytest.mark.filterwarnings("error::RuntimeWarning")
    @pytest.mark.parametrize("unit", [1e-310, 1e-200, 1e-110])
    def test_numbers_whose_squares_are_lost_are_not_called_constant(self, unit):
        found = gb.evaluate_series(unit * lognormal(900), 0.5)
        assert found.interval is None
        assert "their squares are lost" in found.verdict.words
        assert found.quantiles[0.5].interval is not None
        assert gb.evaluate_series(1e-90 * lognormal(900), ()).interval is not None
        assert gb.evaluate_series(1e90 * lognormal(900), ()).interval is not None

    @pytest.mark.parametrize(
        ("wrong", "what"),
        [
            (np.nan, "nan or missing"),
            (np.inf, "inf, not a finite number"),
            (-1e101, "-1e+101, beyond 1e+100: choose another unit"),
            pytest.param(10**400, "inf, not a finite number", id="huge"),
            (None, "missing"),
            ("12 ms", "the text '12 ms', not a number"),
            ("1_000", "the text '1_000', not a number"),
            ([1.0], "[1.0] (list), not a number"),
        ],
    )
    def test_a_wrong_row_is_named_and_the_rest_before_it_counts(self, wrong, what):
        x = lognormal(500).astype(object)
        x[400] = wrong
        x[450] = "later"
        found = gb.evaluate_series(x if isinstance(wrong, str | list | int | None) else x[:450].astype(float))
        assert not found.diagnostics.is_complete
        [reason, *_] = found.diagnostics.warnings
        assert reason == f"cut short after 400 numbers: row 400: the number is {what}"
        assert found.mean == gb.evaluate_series(lognormal(500)[:400]).mean

    @pytest.mark.parametrize("row", ["text", "missing", "time"])
    def test_an_answer_from_a_part_says_so_first(self, tmp_path, row):
        """What came before is steady, but nobody knows what the rest would have said."""
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"at": np.arange(4000.0), "x": lognormal(4000)}, dtype=object)
        table.loc[2000, "at" if row == "time" else "x"] = {"text": "abc", "missing": None, "time": 1.0}[row]
        table.to_csv(tmp_path / "x.csv", index=False)
        found = gb.evaluate_series(tmp_path / "x.csv", (0.5,), column="x", time="at")
        assert (found.verdict.kind, found.verdict.is_trusted) == ("cut short", False)
        assert found.verdict.words.startswith("cut short after ")
        assert "row 2000: " in found.verdict.words
        assert found.diagnostics.warnings == (found.verdict.words,)
        assert found.verdict.words in repr(found)
        assert found.steps_for(1e-3).steps is None
        assert found.steps_for(1e-3, level=0.5).steps is None

    def test_a_group_that_was_cut_short_says_so(self):
        x, groups = lognormal(4000), np.tile(["a", "b"], 2000)
        x[3000] = np.nan
        found = gb.evaluate_series(x, (), group=groups)
        assert [one.verdict.kind for one in found.values()] == ["cut short", "steady"]

    def test_a_log_that_was_cut_short_says_so_first(self):
        rng = np.random.default_rng(0)
        log = {"state": rng.integers(0, 2, 9000), "a": rng.integers(0, 2, 9000), "reward": lognormal(9000)}
        log["reward"][8000] = np.nan
        for found in (gb.evaluate_log(log), gb.evaluate_log(log, action="a", policy=[1, 1])):
            facts = found.diagnostics
            assert (facts.verdict.kind, facts.verdict.is_trusted) == ("cut short", False)
            assert facts.warnings[0] == facts.gain_warnings[0] == facts.verdict.words
            assert "verdict   cut short" in repr(found)

    def test_complex_numbers_do_not_lose_a_part(self):
        with pytest.raises(ValueError, match=r"row 0: the number is .*1\+0j.*not a number"):
            gb.evaluate_series(np.ones(50, dtype=complex))

    def test_a_wrong_row_of_one_chain(self):
        x = np.random.default_rng(0).normal(size=(3, 500))
        x[2, 300] = np.inf
        found = gb.evaluate_series(x)
        assert found.diagnostics.warnings[0].startswith("cut short after 900 numbers: row 300 of chain 2")

    def test_numbers_stored_as_text_are_read_and_spoken_of(self):
        x = lognormal(300)
        found = gb.evaluate_series([repr(float(number)) for number in x])
        assert found.mean == gb.evaluate_series(x).mean
        assert found.diagnostics.notes == ("the number: this column holds text: it was read as numbers",)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("empty.csv", "", "is empty"),
            ("head.csv", "ms\n", "at least 4 numbers, found 0"),
            ("one.csv", "ms\n3\n", "at least 4 numbers, found 1"),
            ("decimal.csv", 'ms\n"1,5"\n2\n', "row 0: ms is the text '1,5', not a number"),
            ("empty.jsonl", "\n", "is empty"),
            ("list.jsonl", "[1, 2]\n", "row 0 is not an object"),
            ("other.csv", "s\n1\n2\n", "there is no column 'ms'"),
            ("bare.csv", "15\n2\n3\n", "the first line of the file is '15', and a name is needed there"),
            ("bare.csv", "1.5\n2\n3\n", "there is no column 'ms'"),
            (
                "semicolon.csv",
                "ms;k\n1;2\n",
                "header of the file is 'ms;k': columns must be separated by commas",
            ),
        ],
    )
    def test_files_without_an_answer(self, tmp_path, name, text, message):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            gb.evaluate_series(tmp_path / name, column="ms")

    def test_a_column_may_be_called_a_number(self, tmp_path):
        (tmp_path / "years.csv").write_text("2020\n1\n2\n3\n4\n")
        with pytest.raises(ValueError, match="say column='2020'"):
            gb.evaluate_series(tmp_path / "years.csv")
        assert gb.evaluate_series(tmp_path / "years.csv", column="2020").mean == 2.5

    def test_a_missing_cell(self, tmp_path):
        (tmp_path / "x.csv").write_text("ms,n\n" + "1,1\n2,1\n" * 20 + ",1\n2,1\n")
        found = gb.evaluate_series(tmp_path / "x.csv", column="ms")
        assert found.diagnostics.warnings[0] == (
            "cut short after 40 numbers: row 40: ms is nan or missing (the first row of data is row 0)"
        )
        assert found.diagnostics.notes == ()

    def test_a_broken_line_of_json(self, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"x": 1}\n{"x": 2}\n' * 20 + '{"x": \n{"x": 2}\n')
        found = gb.evaluate_series(tmp_path / "x.jsonl")
        assert found.diagnostics.num_numbers == 40
        assert "row 40 is not JSON" in found.diagnostics.warnings[0]

    def test_a_group_of_one(self):
        found = gb.evaluate_series(
            {"x": [1.0, 3.0] * 25 + [7.5], "g": ["a"] * 50 + ["b"]}, column="x", group="g"
        )
        alone = found["b"]
        assert (alone.mean, alone.interval, alone.quantiles[0.5].value) == (7.5, None, 7.5)
        assert alone.verdict.kind == "too short"
        assert "1 number," in alone.diagnostics.warnings[0]
        assert found["a"].mean == 2.0

    @pytest.mark.parametrize("kind", ["memory", "csv", "jsonl", "parquet", "sampled"])
    def test_a_wrong_number_ends_its_own_group_alone(self, tmp_path, kind, monkeypatch):
        numbers = lognormal(900)
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"x": numbers, "g": np.tile(["a", "b", "c"], 300)})
        table.loc[[303, 310], "x"] = np.nan  # of a, after 101 numbers, and of b, after 103
        if kind == "sampled":
            monkeypatch.setattr(series, "HELD", 100)
        source = table if kind == "memory" else stored(table, tmp_path, "csv" if kind == "sampled" else kind)
        found = gb.evaluate_series(source, (0.5,), column="x", group="g")
        counts = {name: one.diagnostics.num_numbers for name, one in found.items()}
        assert counts == {"a": 101, "b": 103, "c": 300}
        assert found["b"].diagnostics.warnings[0].startswith("cut short after 103 numbers: row 310: x is")
        assert [one.diagnostics.is_complete for one in found.values()] == [False, False, True]
        assert found["c"].mean == pytest.approx(numbers[2::3].mean())
        assert found["c"].quantiles[0.5].interval is not None

    def test_a_group_without_a_number_is_named(self):
        groups = np.tile(["a", "b"], 50)
        found = gb.evaluate_series(np.append(np.nan, lognormal(99)), (), group=groups)
        assert (
            found["a"].diagnostics.warnings[0]
            == "cut short after 0 numbers: row 0: the number is nan or missing"
        )
        assert (found["a"].diagnostics.num_numbers, found["b"].diagnostics.num_numbers) == (0, 50)
        with pytest.raises(ValueError, match="row 0: the number is nan or missing"):
            gb.evaluate_series(np.full(100, np.nan), (), group=groups)

    def test_a_clock_that_goes_back_ends_its_own_group_alone(self):
        at = np.repeat(np.arange(50.0), 2)
        at[40] = -1.0
        found = gb.evaluate_series(lognormal(100), (), time=at, group=np.tile(["a", "b"], 50))
        assert "row 40: the time is earlier" in found["a"].diagnostics.warnings[0]
        assert (found["a"].diagnostics.num_numbers, found["b"].diagnostics.num_numbers) == (19, 49)

    def test_a_list_among_numbers_and_the_other_way_round(self):
        with pytest.raises(ValueError, match="row 2 is a list, and those before it are numbers"):
            gb.evaluate_series([1.0, 2.0, [3.0], 4.0])
        with pytest.raises(ValueError, match="row 1 is a number, and those before it are lists"):
            gb.evaluate_series([[1.0, 2.0], 3.0])

    def test_a_file_that_is_not_in_utf_8(self, tmp_path):
        (tmp_path / "x.csv").write_text("x\n1\n2\n3\n4\n5\n", encoding="utf-16")
        with pytest.raises(ValueError, match="is not in UTF-8, as CSV must be: save it in UTF-8"):
            gb.evaluate_series(tmp_path / "x.csv")

    def test_a_missing_group(self):
        groups = np.array(["a"] * 50 + [None] + ["a"] * 9, dtype=object)
        found = gb.evaluate_series(lognormal(60), group=groups)
        assert found["a"].diagnostics.warnings[0] == "cut short after 50 numbers: row 50: group is missing"

    def test_too_many_groups(self, monkeypatch):
        monkeypatch.setattr(series, "MOST_GROUPS", 5)
        with pytest.raises(ValueError, match="more than 5 groups: is group the right column"):
            gb.evaluate_series(lognormal(60), group=np.arange(60))

    def test_a_denominator_that_crosses_zero(self):
        rng = np.random.default_rng(0)
        top, bottom = rng.normal(size=2000) + 5, rng.normal(size=2000) + 2
        first = int(np.flatnonzero(bottom < 0)[0])
        found = gb.evaluate_series(top, (), ratio_to=bottom)
        assert found.interval[0] < 2.5 < found.interval[1]
        assert f"change their sign, first in row {first}:" in found.diagnostics.warnings[-1]
        crossing = gb.evaluate_series(top, (), ratio_to=bottom - bottom.mean() + 0.01)
        assert crossing.interval is None
        assert "standard errors away from zero" in crossing.diagnostics.warnings[0]
        nothing = gb.evaluate_series(top, (0.5,), ratio_to=np.zeros(2000))
        assert np.isnan(nothing.mean)
        assert "sum to zero" in nothing.diagnostics.warnings[0]
        assert nothing.quantiles[0.5].interval is not None

    def test_numbers_that_never_change(self):
        found = gb.evaluate_series(np.full(500, 3.0))
        assert (found.mean, found.interval, found.verdict.kind) == (3.0, None, "constant")
        assert found.quantiles[0.5].interval is None
        late = gb.evaluate_series(np.append(lognormal(3000), np.full(9001, 0.1)), ())
        assert late.verdict.words.startswith("after the first 3,000 steps the numbers never change")

    def test_numbers_that_change_by_rounding_alone_are_not_said_to_never_change(self):
        found = gb.evaluate_series(1e15 + lognormal(9000), 0.5)
        assert (found.interval, found.verdict.kind) == (None, "constant")
        assert "the rounding of numbers so large" in found.verdict.words
        ratio = gb.evaluate_series(0.1 * lognormal(900), (), ratio_to=lognormal(900))
        assert "never change" in ratio.verdict.words

    @pytest.mark.parametrize("unit", [1e-30, 1e-14, 1e30])
    def test_no_interval_looks_as_if_it_had_no_width(self, unit):
        shown = repr(gb.evaluate_series(unit * lognormal(900), 0.5)).splitlines()
        waits = gb.RunningMean(first_look=100)
        waits.update(1e12 + lognormal(900))
        for line in (*shown[:2], repr(waits).splitlines()[0]):
            ends = re.search(r"(\S+), 95% interval (\S+) to ([^\s,]+)", line).groups()
            value, low, high = map(float, ends)
            assert low < value < high


class TestQuantiles:
    def test_shares_in_batches(self):
        numbers = OrderedNumbers(np.array([[1.0, 2.0, 2.0, 3.0]]))
        upto, below = (numbers.passed(0.5, equal=equal) for equal in (True, False))
        assert (upto.share, upto.size, upto.batches.tolist()) == (0.75, 1, [[1.0, 1.0, 1.0, 0.0]])
        assert (below.share, below.batches.tolist()) == (0.25, [[1.0, 0.0, 0.0, 0.0]])
        many = OrderedNumbers(np.tile([1.0, 2.0], (3, 10_000))).passed(0.5, equal=True)
        assert (many.size, many.batches.shape) == (4, (3, 5000))
        assert (many.batches == 0.5).all()

    def test_shares_of_a_stream_are_those_of_all_numbers_in_memory(self):
        """Numbers that repeat: those equal to the quantile are counted or not."""
        x = np.random.default_rng(0).integers(0, 6, 2_000).astype(float)
        ordered = OrderedNumbers(x[None])
        binned = BinnedNumbers(np.concatenate([[-1.0], np.sort(x), [6.0]]), LEVELS)
        for part in np.array_split(x, 3):
            binned.add(part)
        for level in LEVELS:
            for equal in (True, False):
                one, other = binned.passed(level, equal), ordered.passed(level, equal)
                assert one.share == pytest.approx(other.share, rel=1e-12)
                assert one.size == other.size
                np.testing.assert_array_equal(one.batches, other.batches)

    def test_an_interval_reaches_at_least_one_rank_to_either_side(self):
        """Numbers that alternate are worth so much that their quantile would have no error at all."""
        rng, level = np.random.default_rng(0), 0.501
        sign = np.tile([-1.0, 1.0], 50)
        sign[[20, 21, 64, 65]] *= -1.0
        x = sign * (1.0 + rng.random(100))
        found = estimate_quantile(OrderedNumbers(x[None]), level, confidence=0.5)
        assert (found.interval[0], found.value, found.interval[1]) == tuple(np.sort(x)[49:52])

    def test_bins_bracket_what_sorting_finds(self):
        x = np.round(lognormal(20_000), 2)
        sample = RandomSample()
        for part in np.array_split(x, 7):
            sample.add(part, capacity=2000)
        binned = BinnedNumbers(sample.after(0), LEVELS)
        for part in np.array_split(x, 3):
            binned.add(part)
        ordered = OrderedNumbers(x[None])
        ranks = np.array([1.0, 17.0, 10_000.0, 19_000.0, 20_000.0])
        for rank in ranks:
            low, high = binned.around(rank, rank)
            assert low <= ordered.values(np.array([rank]))[0] <= high
            assert low <= binned.values(np.array([rank]))[0] <= high
        assert binned.count == ordered.count
        assert 0.0 < binned.largest_bin < 0.01

    def test_samples_do_not_depend_on_pieces(self):
        x, kept = lognormal(10_000), []
        for pieces in (1, 13):
            sample = RandomSample()
            for part in np.array_split(x, pieces):
                sample.add(part, capacity=500)
            kept.append(sample.after(2000))
        assert (kept[0] == kept[1]).all()
        assert np.isin(kept[0][1:-1], x[2000:]).all()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "steps"), [("normal", 4000), ("ar0.9", 20_000), ("waiting-0.5", 30_000), ("garch", 20_000)]
    )
    def test_coverage(self, name, steps):
        process = PROCESSES[name]
        rng, runs = np.random.default_rng(11), 200
        hits = {level: [] for level in LEVELS}
        for row in process.generate(rng, steps, runs):
            numbers = OrderedNumbers(row[None])
            for level in LEVELS:
                found = estimate_quantile(numbers, level).interval
                if found is not None:
                    hits[level].append(found[0] <= process.quantiles[level] <= found[1])
        for found in hits.values():
            assert len(found) > 0.9 * runs
            assert 0.905 <= np.mean(found) <= 0.995  # 95% of 200, with three standard errors


class TestLogsWithoutStates:
    def test_the_gain_alone(self):
        x = lognormal(3000)
        found = gb.evaluate_log({"reward": x})
        expected = estimate_gain(BatchMeans.of(x))
        assert found.gain == pytest.approx(expected.gain)
        assert found.gain_interval == pytest.approx(expected.interval)
        assert found.diagnostics.num_transitions == 3000 - expected.transient
        assert np.isnan(found.value(0))
        assert found.diagnostics.warnings == ()
        assert "there is a gain but no values of states" in found.diagnostics.notes[0]
        assert len(found.diagnostics.notes) == 1

    def test_with_a_named_column_and_episodes(self):
        log = {"paid": lognormal(400), "episode": np.arange(400) // 50}
        found = gb.evaluate_log(log, reward="paid")
        assert found.diagnostics.num_transitions == 400
        with pytest.raises(ValueError, match="no column of rewards"):
            gb.evaluate_log(log)  # nor rewards
        with pytest.raises(ValueError, match="no column 'place'"):
            gb.evaluate_log(log, reward="paid", state="place")

    def test_a_wrong_row(self):
        x = lognormal(400)
        x[300] = np.nan
        found = gb.evaluate_log({"reward": x})
        assert found.diagnostics.num_transitions == 299
        assert "row 300 of the log: the reward is nan" in found.diagnostics.warnings[0]
