"""The yardsticks of the coverage study, against what is known about them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import coverage
from benchmarks.coverage_methods import (
    METHODS,
    Outcome,
    effective_size,
    order_statistics,
    r_hat,
    ratio,
    split,
    statistical_inefficiency,
)
from tests.oracles.series import PROCESSES, autoregression

OTHERS = [name for name in METHODS if name != "gainbias"]


def noise(length: int = 2000, runs: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((runs, length))


@pytest.mark.parametrize("name", OTHERS)
def test_intervals_cover_the_mean_and_the_quantiles_of_independent_numbers(name: str) -> None:
    found = [METHODS[name](row) for row in noise(3000, 120)]
    assert np.mean([low <= 0 <= high for low, high in (one.interval for one in found)]) > 0.9
    assert np.mean([one.flagged for one in found]) <= 0.05
    half_width = np.mean([one.interval[1] - one.interval[0] for one in found]) / 2
    assert half_width == pytest.approx(1.96 / np.sqrt(3000), rel=0.1)
    if found[0].quantiles:
        low, high = np.transpose([one.quantiles[0.5] for one in found])
        assert np.mean((low <= 0) & (high >= 0)) > 0.88


def test_effective_sizes_are_those_of_an_autoregression() -> None:
    """The integrated time of AR(.9) is 19; of AR(-.5) it is a third."""
    slow, swinging = (autoregression(np.random.default_rng(1), 200_000, 1, phi) for phi in (0.9, -0.5))
    assert effective_size(split(slow)) == pytest.approx(200_000 / 19, rel=0.1)
    assert statistical_inefficiency(slow[0]) == pytest.approx(19, rel=0.1)
    assert effective_size(split(swinging)) == pytest.approx(3 * 200_000, rel=0.1)


def test_effective_size_and_split_see_chains_that_disagree() -> None:
    chains = noise(1000, 4) + np.array([[0.0], [0.0], [0.0], [3.0]])
    assert effective_size(chains) < 50
    assert r_hat(chains) > 1.5
    assert METHODS["arviz-mcse"](chains).flagged


def test_newey_west_by_hand() -> None:
    """Four lags at 100 numbers; a series of alternating signs has Bartlett sums that can be written down."""
    x = np.tile([1.0, -1.0], 50)
    sums = 100 + 2 * sum((1 - lag / 5) * (-1) ** lag * (100 - lag) for lag in range(1, 5))
    low, high = METHODS["hac"](x).interval
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(sums) / 100)


def test_equilibration_cuts_a_warm_up() -> None:
    x = noise(5000)[0]
    x[:1000] += 10.0
    low, high = METHODS["pymbar"](x).interval
    assert low < 0 < high < 0.2


def test_order_statistics_refuse_what_the_sample_cannot_bound() -> None:
    found = order_statistics(np.arange(100.0))
    assert found[0.99] is None
    assert found[0.5] == (39.0, 60.0)


@pytest.mark.parametrize("name", OTHERS)
def test_constant_series_raise_nothing(name: str) -> None:
    assert METHODS[name](np.ones(300)).interval == pytest.approx((1.0, 1.0))


def test_ratios_are_linearised() -> None:
    x, y = noise(3000)[0] + 6, noise(3000, seed=1)[0] + 3
    low, high = ratio("independent", x, y).interval
    assert (low + high) / 2 == pytest.approx(x.mean() / y.mean())
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(1 + 4) / 3 / np.sqrt(3000), rel=0.05)


def test_lengths_go_from_too_short_to_ample() -> None:
    assert coverage.lengths(PROCESSES["ar0.9"]) == [200, 300, 600, 1000, 2000, 4000, 10_000, 20_000]
    assert coverage.lengths(PROCESSES["disasters"])[-3:] == [50_000, 200_000, 400_000]
    for process in PROCESSES.values():
        ladder = coverage.lengths(process)
        assert ladder == sorted(set(ladder))
        assert not any(steps % process.chains for steps in ladder)


def test_our_method_is_flagged_by_its_verdict() -> None:
    x = noise(5000)[0]
    found = METHODS["gainbias"](x)
    assert (found.flagged, found.verdict) == (False, "steady")
    assert found.interval[0] < 0.0 < found.interval[1]
    assert found.quantiles[0.95][0] < 1.645 < found.quantiles[0.95][1]
    assert METHODS["gainbias"](x[:300]).quantiles[0.99] is None
    assert METHODS["gainbias"](x + np.linspace(0, 2, 5000)).flagged
    low, high = ratio("gainbias", x + 6, noise(5000, seed=1)[0] + 3).interval
    assert low < 2 < high


def test_results_count_refusals_as_flagged_and_can_be_repeated() -> None:
    process = PROCESSES["normal"]
    answers = [
        coverage.judged(process, Outcome((-1.0, 1.0), False, {0.95: (1.0, 2.0), 0.99: None}), 0.1),
        coverage.judged(process, Outcome((0.5, 1.0), True, {0.95: (2.0, 3.0), 0.99: (2.0, 3.0)}), 0.1),
        coverage.judged(process, Outcome(None, False, {}), 0.1),
    ]
    row = coverage.summary(process, 400, answers)
    assert (row["coverage"], row["unflagged"], row["flagged"], row["refused"]) == (0.5, 1.0, 0.6667, 0.3333)
    assert row["quantiles"]["0.95"] == {"coverage": 0.5, "unflagged": 1.0, "given": 0.6667}
    assert row["quantiles"]["0.99"] == {"coverage": 1.0, "unflagged": None, "given": 0.3333}
    assert row["width"] == pytest.approx(0.625 / (1.96 / 20), abs=1e-3)
    task = coverage.Task("semi-markov", 300, 0, 3, ("independent", "pymbar"))
    first, second = coverage.work(task), coverage.work(task)
    assert [a.half_width for a in first["pymbar"]] == [a.half_width for a in second["pymbar"]]


def test_the_table_of_the_documentation_has_the_stored_figures() -> None:
    stored = json.loads(coverage.STORED.read_text(encoding="utf-8"))
    page, once = coverage.PAGE.read_text(encoding="utf-8"), coverage.results_of(coverage.STORED_ONCE)
    assert coverage.page_with(page, stored, once) == page
    assert coverage.table(stored) in page
    stored[4]["methods"]["gainbias"]["unflagged"] += 0.01
    assert coverage.table(stored) not in page
    assert coverage.page_with(page, stored, once) != page


def test_held_out_results_have_a_table_of_their_own(tmp_path: Path) -> None:
    """With made-up figures: the processes themselves are run once, and not here."""

    def entry(name: str, times: float, expected: str, flagged: float) -> dict[str, Any]:
        answer = {"unflagged": 0.876, "flagged": flagged, "quantiles": {}, "runs": 7}
        facts = {"process": name, "steps": int(10 * times), "times": times, "events": None}
        return facts | {"expected": expected, "methods": {"gainbias": answer}}

    once = [entry("work-and-time", 200.0, "steady", 0.012), entry("student-1.5", 200.0, "heavy tails", 0.34)]
    once.append(entry("student-1.5", 400.0, "heavy tails", 0.45))
    once[-1]["methods"]["gainbias"]["unflagged"] = None
    page, stored = coverage.PAGE.read_text(encoding="utf-8"), coverage.results_of(coverage.STORED)
    shown = coverage.page_with(page, stored, once)
    kept, held = shown.partition(coverage.BEGIN_ONCE)[::2]
    assert kept == page.partition(coverage.BEGIN_ONCE)[0]
    assert "| work-and-time | 2,000 | 87.6 | 1.2 |" in held.partition(coverage.END_ONCE)[0]
    assert "| student-1.5 | heavy tails | - | 2,000: 34.0 (87.6), 4,000: 45.0 |" in held
    assert "work-and-time" not in kept
    assert "They were not measured yet." in coverage.page_with(shown, stored, [])


def test_held_out_results_and_others_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    elsewhere = tmp_path / "found.json"
    assert coverage.misplaced(["normal"], None) == coverage.misplaced(["normal"], coverage.STORED) == ""
    assert coverage.misplaced(["student-3"], coverage.STORED_ONCE) == ""
    assert coverage.misplaced(["student-3"], elsewhere) == coverage.misplaced(["normal"], elsewhere) == ""
    assert "once: say with --output" in coverage.misplaced(["student-3"], None)
    assert coverage.misplaced(["student-3"], coverage.STORED) == "coverage.json is not for student-3"
    assert coverage.misplaced(["normal"], coverage.STORED_ONCE) == "coverage_held_out.json is not for normal"
    elsewhere.write_text(json.dumps([{"process": "student-3", "steps": 200, "methods": {}}]))
    stored = coverage.STORED.read_bytes()
    for given, message in (
        (["--held-out"], "say with --output"),
        (["--held-out", "--output", str(coverage.STORED)], "coverage.json is not for"),
        (["--merge", str(elsewhere), "--output", str(coverage.STORED)], "is not for student-3"),
        (["--held-out", "--only", "normal"], "no such process: normal; there are arma-complex"),
    ):
        with pytest.raises(SystemExit):
            coverage.main(given)
        assert message in capsys.readouterr().err
    assert coverage.STORED.read_bytes() == stored


def test_results_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    for workers in "12":
        given = ["--runs", "4", "--workers", workers, "--output", str(tmp_path / workers)]
        coverage.main([*given, "--only", "normal", "digits", "--methods", "independent"])
    one, two = (coverage.results_of(tmp_path / workers) for workers in "12")
    for entry in (*one, *two):
        assert entry["methods"]["independent"].pop("seconds") >= 0.0
    assert one == two
    assert [entry["steps"] for entry in one if entry["process"] == "digits"] == [200, 400, 1000, 2000]
    assert {entry["methods"]["independent"]["runs"] for entry in one} == {4}


def test_stored_results_stay_where_nothing_new_was_found() -> None:
    def entry(name: str, steps: int, **methods: int) -> dict[str, object]:
        return {"process": name, "steps": steps, "methods": methods}

    stored = [entry("ar0.9", 200, hac=1, gainbias=1), entry("ar0.9", 300, gainbias=1)]
    found = [entry("ar0.9", 300, hac=2), entry("ar0.9", 200, hac=2), entry("waiting-0.5", 200, hac=2)]
    assert coverage.merged(stored, found) == [
        entry("waiting-0.5", 200, hac=2),
        entry("ar0.9", 200, hac=2, gainbias=1),
        entry("ar0.9", 300, gainbias=1, hac=2),
    ]
    assert stored[0]["methods"] == {"hac": 1, "gainbias": 1}


def test_methods_are_compared_at_the_shortest_length_that_is_long_enough() -> None:
    assert coverage.shown_length(PROCESSES["ar0.9"]) == [2000]
    assert coverage.shown_length(PROCESSES["disasters"]) == [200_000]
    assert coverage.shown_length(PROCESSES["pareto-1.5"]) == coverage.shown_length(PROCESSES["trend"]) == []


def test_a_quantile_that_few_runs_have_is_not_shown() -> None:
    row = {"quantiles": {"0.95": {"coverage": 0.9, "given": 0.5}, "0.99": {"coverage": 0.1, "given": 0.4}}}
    assert [coverage.by_most(row, level) for level in (0.5, 0.95, 0.99)] == [None, 0.9, None]
