"""How verdicts follow from intervals, and how results are kept."""

import json
import math

import numpy as np
import pytest

from gainbias.experiments.claims.claim import (
    Chart,
    Claim,
    Judgement,
    Line,
    about,
    at_least,
    at_most,
    shown,
    together,
    within,
)
from gainbias.experiments.claims.measuring import log_slope, mean_slope
from gainbias.experiments.claims.registry import check_claims
from gainbias.experiments.statistics import Interval

SURE, UNSURE = Interval(1.0, 0.9, 1.1), Interval(1.0, 0.0, 2.0)


def test_parts():
    assert [at_most("", SURE, limit).verdict for limit in (1.2, 1.0, 0.8)] == ["holds", "undecided", "fails"]
    assert [at_least("", SURE, limit).verdict for limit in (0.8, 1.0, 1.2)] == ["holds", "undecided", "fails"]
    assert [about("", SURE, x, 0.2).verdict for x in (1.0, 1.2, 2.0)] == ["holds", "undecided", "fails"]
    assert about("", UNSURE, 1.0, 0.2).verdict == "undecided"
    assert shown("", SURE).verdict is None


def test_what_is_not_a_number_decides_nothing():
    assert within(math.nan, math.nan, 0.0, 1.0) == "undecided"


def test_together():
    assert together(["holds", None]) == "holds"
    assert together(["holds", "undecided"]) == "undecided"
    assert together(["undecided", "fails"]) == "fails"
    with pytest.raises(ValueError, match="at least one figure with a verdict"):
        together([None])


def test_results_survive_json():
    chart = Chart("title", "x", "y", (Line("a", [1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]),))
    outcome = Judgement((at_most("figure", SURE, 2.0),), "because", (chart,))
    claim = Claim(
        "id", "text", "where", "how", "interval", lambda s, q: None, lambda d: outcome, ("finding-1",)
    )
    result = claim.measure()
    stored = json.loads(json.dumps(result.to_dict()))
    assert type(result).from_dict(stored) == result


def test_unknown_claims_are_named():
    with pytest.raises(ValueError, match="unknown claim 'one-limits': did you mean 'one-limit'"):
        check_claims(["one-limits"])


class TestSlopes:
    def test_intervals_cover_the_truth(self):
        """Of 200 intervals of 95 %, 178 to 199 hold the true slope, with a false alarm in about 1e-3."""
        rng, x = np.random.default_rng(0), np.geomspace(1, 100, 8)
        fits = [log_slope(x, x**-2 * np.exp(0.1 * rng.normal(size=8))) for _ in range(200)]
        assert 178 <= sum(fit.low <= -2 <= fit.high for fit in fits) <= 199
        means = [mean_slope(x, x**-1 * rng.exponential(size=(60, 8))) for _ in range(200)]
        assert 178 <= sum(fit.low <= -1 <= fit.high for fit in means) <= 199

    def test_two_points_have_no_interval(self):
        with pytest.raises(ValueError, match="at least 3 points"):
            log_slope([1, 2], [1, 2])
