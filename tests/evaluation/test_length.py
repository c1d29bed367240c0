"""How long must I run for this half width? The answer is right, and it says so if no length helps."""

import numpy as np
import pytest
from scipy.signal import lfilter

import gainbias as gb
from gainbias.evaluation.gain.interval import length_for
from gainbias.evaluation.gain.verdict import Verdict

CORRELATION = 0.9


def autoregression(steps, seed):
    """A series with correlation 0.9 between neighbours, from its stationary law on."""
    noise = np.random.default_rng(seed).normal(size=steps)
    noise[0] /= np.sqrt(1.0 - CORRELATION**2)
    return lfilter([1.0], [1.0, -CORRELATION], noise)


def half_width_after(steps, seed, level):
    estimate = gb.evaluate_series(autoregression(steps, seed), level or ())
    interval = estimate.interval if level is None else estimate.quantiles[level].interval
    return np.nan if interval is None else (interval[1] - interval[0]) / 2.0


@pytest.mark.parametrize(("level", "target"), [(None, 0.1), (0.5, 0.12), (0.95, 0.15)])
def test_a_run_as_long_as_was_said_has_the_half_width(level, target):
    """Half widths differ by a fifth from run to run, so it is their median over runs that must be right."""
    ratios = []
    for seed in range(15):
        length = gb.evaluate_series(autoregression(10_000, seed), level or ()).steps_for(target, level)
        assert length.steps is None or length.steps > 10_000
        steps = length.steps or 10_000
        ratios.append(half_width_after(steps, 1_000 + seed, level) / target)
    assert abs(np.nanmedian(ratios) - 1.0) < 0.3
    assert np.mean(np.abs(np.array(ratios) - 1.0) < 0.5) >= 0.6


def test_lengths_differ_less_than_intervals_do():
    estimates = [gb.evaluate_series(autoregression(10_000, seed), ()) for seed in range(30)]
    kept = [one for one in estimates if one.verdict.is_trusted]
    own = np.log([one.interval[1] - one.interval[0] for one in kept])
    typical = np.log([one.diagnostics.typical_half_width for one in kept])
    assert len(kept) > 20
    assert typical.std() < 0.75 * own.std()
    assert abs(np.median(typical) - np.median(own - np.log(2.0))) < 0.2


def test_a_slow_part_under_fast_noise_is_not_forgotten():
    """It makes up a hundredth of the variance of a number, and nine tenths of that of the mean."""
    rng, steps, rate = np.random.default_rng(3), 200_000, 0.998
    slow = lfilter([np.sqrt(1.0 - rate**2)], [1.0, -rate], rng.normal(size=steps))
    estimate = gb.evaluate_series(rng.normal(size=steps) + 0.1 * slow, ())
    truth = 1.96 * np.sqrt((1.0 + 0.01 * (1.0 + rate) / (1.0 - rate)) / steps)
    assert estimate.diagnostics.typical_half_width == pytest.approx(truth, rel=0.3)


def test_a_warm_up_is_made_only_once():
    steady = Verdict("steady", True, "")
    whole = length_for(0.5, (0.0, 2.0), steady, used=1_000, left_out=300)
    assert whole.steps == 300 + 4 * 1_000
    assert whole.times == pytest.approx(4_300 / 1_300)


def test_a_run_that_is_long_enough_is_told_so():
    length = gb.evaluate_series(autoregression(10_000, 0)).steps_for(5.0)
    assert (length.steps, length.times) == (10_000, 1.0)
    assert length.words.startswith("the 10,000 steps are enough")


def test_what_is_too_short_must_be_as_long_as_the_verdict_says():
    estimate = gb.evaluate_series(autoregression(300, 0))
    assert estimate.verdict.kind == "too short"
    length = estimate.steps_for(1e3)
    assert length.steps >= 300 * estimate.verdict.longer * 0.999
    assert length.words.startswith("at least")


def test_no_length_helps_against_a_drift():
    drifting = gb.evaluate_series(np.random.default_rng(0).normal(size=5_000) + np.linspace(0.0, 3.0, 5_000))
    length = drifting.steps_for(0.1)
    assert (length.steps, length.times) == (None, None)
    assert drifting.verdict.words in length.words


def test_no_mean_with_heavy_tails_but_a_quantile():
    estimate = gb.evaluate_series(np.random.default_rng(1).pareto(1.1, 50_000))
    assert estimate.verdict.kind in ("heavy tails", "rare events")
    assert not estimate.steps_for(0.1).words.startswith("about")
    assert estimate.steps_for(0.001, level=0.5).words.startswith("about")


def test_a_quantile_without_an_interval_has_a_length_for_one():
    noise = np.random.default_rng(0).normal(size=900)
    estimate = gb.evaluate_series(noise)
    one = estimate.quantiles[0.99]
    assert one.interval is None
    length = estimate.steps_for(0.1, level=0.99)
    assert length.steps == pytest.approx(900 * one.longer, abs=1.0)
    assert "no interval yet" in length.words


def test_numbers_that_never_change_have_no_length():
    assert gb.evaluate_series(np.ones(1_000)).steps_for(0.1).steps is None


def test_a_gain_has_a_length():
    estimate = gb.evaluate_log({"reward": autoregression(10_000, 0)})
    low, high = estimate.gain_interval
    assert estimate.steps_for((high - low) / 4.0).steps == pytest.approx(40_000, rel=1e-6)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf"), "0.1", True])
def test_half_widths_are_positive_numbers(wrong):
    estimate = gb.evaluate_series(autoregression(1_000, 0))
    with pytest.raises(ValueError, match="half_width must be a positive number"):
        estimate.steps_for(wrong)


def test_only_levels_that_were_estimated_have_a_length():
    estimate = gb.evaluate_series(autoregression(1_000, 0))
    with pytest.raises(ValueError, match=r"0\.5, 0\.95, 0\.99, found 0\.9"):
        estimate.steps_for(0.1, level=0.9)


def test_a_length_survives_a_file(tmp_path):
    estimate = gb.evaluate_series(autoregression(10_000, 0))
    estimate.save(tmp_path / "series.npz")
    again = gb.load_series(tmp_path / "series.npz")
    assert again.steps_for(0.01) == estimate.steps_for(0.01)
    assert again.steps_for(0.01, level=0.95) == estimate.steps_for(0.01, level=0.95)
