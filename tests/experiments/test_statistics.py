"""Summaries of few runs: against hand-made cases, brute force and simulation."""

from itertools import product

import numpy as np
import pandas
import pytest
from scipy import stats

from gainbias.experiments.statistics import (
    bootstrap_interval,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    proportion_interval,
    scores_by_algorithm,
)

RNG = np.random.default_rng(0)


# Interquartile mean


def test_iqm_by_hand():
    # 8 numbers: the two smallest and the two largest go.
    assert interquartile_mean([[9, 1], [2, 8], [3, 7], [4, 1000]]) == (3 + 4 + 7 + 8) / 4


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (3, 15), (7, 5), (30, 15)])
def test_iqm_is_the_trimmed_mean_of_scipy(shape):
    scores = RNG.lognormal(size=shape)
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None), rel=1e-14)


def test_iqm_of_a_stack_is_that_of_each():
    stack = RNG.normal(size=(4, 2, 5, 3))
    expected = [[interquartile_mean(scores) for scores in pair] for pair in stack]
    np.testing.assert_array_equal(interquartile_mean(stack), expected)


def test_iqm_survives_a_quarter_of_diverged_runs_and_no_more():
    scores = np.ones((8, 1))
    scores[:2] = np.inf
    assert interquartile_mean(scores) == 1
    scores[2] = np.inf
    assert interquartile_mean(scores) == np.inf


# Probability of improvement


def test_improvement_by_hand():
    ours, theirs = [[1.0, 5.0], [2.0, 5.0]], [[2.0, 4.0], [3.0, 6.0], [0.0, 5.0]]
    first = (1 + 1 + 0 + 0.5 + 1 + 0) / 6  # 1 against 2, 3, 0; then 2 against 2, 3, 0
    second = (0 + 1 + 0.5) / 3
    assert probability_of_improvement(ours, theirs) == pytest.approx((first + second) / 2)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_improvement_is_mann_whitney_averaged_over_tasks(better):
    ours, theirs = RNG.integers(6, size=(5, 4)), RNG.integers(6, size=(7, 4))
    first, second = (theirs, ours) if better == "lower" else (ours, theirs)
    counts = [stats.mannwhitneyu(first[:, k], second[:, k]).statistic for k in range(4)]
    assert probability_of_improvement(ours, theirs, better) == pytest.approx(np.mean(counts) / 35)


def test_improvement_and_its_reverse_add_to_one():
    ours, theirs = RNG.integers(3, size=(4, 6)), RNG.integers(3, size=(5, 6))
    both = probability_of_improvement(ours, theirs) + probability_of_improvement(theirs, ours)
    assert both == pytest.approx(1)


def test_two_diverged_runs_are_a_draw():
    assert probability_of_improvement([[np.inf]], [[np.inf]]) == 0.5
    assert probability_of_improvement([[1.0]], [[np.inf]]) == 1


# Performance profiles


def test_profile_by_hand():
    scores = [[0.1, np.inf], [0.3, 0.2]]
    np.testing.assert_array_equal(performance_profile(scores, [0.0, 0.1, 0.2, 1.0]), [0, 0.25, 0.5, 0.75])
    np.testing.assert_array_equal(performance_profile(scores, [0.1, 1.0], better="higher"), [0.75, 0.25])


def test_profile_against_a_loop():
    stack, levels = RNG.normal(size=(3, 6, 4)), np.linspace(-2, 2, 9)
    slow = [[sum(x <= level for x in scores.flat) / 24 for level in levels] for scores in stack]
    np.testing.assert_allclose(performance_profile(stack, levels), slow)


# Bootstrap


def test_bootstrap_against_all_resamples():
    """Two tasks of two runs have sixteen resamples, all equally likely: their quantiles are known."""
    scores = np.array([[0.0, 10.0], [1.0, 30.0]])
    means = [
        np.mean([scores[a, 0], scores[b, 0], scores[c, 1], scores[d, 1]])
        for a, b, c, d in product(range(2), repeat=4)
    ]

    def mean(stack):
        return stack.mean(axis=(-2, -1))

    drawn = []
    bootstrap_interval(lambda stack: drawn.append(mean(stack)) or drawn[-1], scores, rng=1, resamples=8000)
    values, counts = np.unique(drawn[0], return_counts=True)
    expected_values, expected_counts = np.unique(means, return_counts=True)
    np.testing.assert_allclose(values, expected_values)
    shares = expected_counts / 16
    # Four standard errors for each of nine shares: a false alarm once in 2000 seeds.
    np.testing.assert_array_less(
        np.abs(counts / 8000 - shares), 4 * np.sqrt(shares * (1 - shares) / 8000) + 1e-12
    )
    interval = bootstrap_interval(mean, scores, rng=1, resamples=8000, confidence=0.8)
    below = [np.mean(np.array(means) < interval.low), np.mean(np.array(means) > interval.high)]
    assert max(below) <= 0.1
    assert interval.estimate == 10.25


def test_bootstrap_never_mixes_tasks():
    scores = np.array([[0.0, 100.0], [1.0, 101.0]])
    seen = []
    bootstrap_interval(lambda stack: seen.append(stack) or stack.mean(axis=(-2, -1)), scores, rng=0)
    assert seen[0][..., 0].max() <= 1
    assert seen[0][..., 1].min() >= 100


def test_bootstrap_draws_tasks_on_their_own():
    scores = np.array([[0.0, 0.0], [1.0, 1.0]])
    seen = []
    bootstrap_interval(lambda stack: seen.append(stack) or stack.mean(axis=(-2, -1)), scores, rng=0)
    first, second = seen[0][:, 0, 0], seen[0][:, 0, 1]
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(first))


def test_bootstrap_is_seeded():
    scores = RNG.normal(size=(6, 3))
    same = [bootstrap_interval(interquartile_mean, scores, rng=5, resamples=50) for _ in range(2)]
    assert same[0] == same[1]
    assert bootstrap_interval(interquartile_mean, scores, rng=6, resamples=50) != same[0]
    drawn = bootstrap_interval(interquartile_mean, scores, rng=np.random.default_rng(5), resamples=50)
    assert drawn == same[0]


def test_bootstrap_in_batches_keeps_its_size(monkeypatch):
    monkeypatch.setattr("gainbias.experiments.statistics.BATCH_ENTRIES", 100)
    sizes = []
    bootstrap_interval(
        lambda stack: sizes.append(stack.shape[0]) or stack.mean(axis=(-2, -1)),
        RNG.normal(size=(5, 3)),
        resamples=50,
    )
    assert sizes[:-1] == [6] * 8 + [2]  # the last call is the statistic of the scores themselves


def test_bootstrap_of_a_profile_is_a_band():
    scores, levels = RNG.exponential(size=(10, 4)), np.array([0.1, 1.0, 3.0])
    band = bootstrap_interval(lambda stack: performance_profile(stack, levels), scores, rng=0)
    assert band.low.shape == band.high.shape == band.estimate.shape == (3,)
    assert (band.low <= band.estimate).all()
    assert (band.estimate <= band.high).all()


def test_bootstrap_of_diverged_runs_has_an_infinite_end():
    scores = np.ones((6, 1))
    scores[0] = np.inf
    interval = bootstrap_interval(interquartile_mean, scores, rng=0)
    assert (interval.estimate, interval.low, interval.high) == (1, 1, np.inf)


@pytest.mark.slow
def test_bootstrap_covers():
    """Intervals of the mean of 20 runs on 3 tasks, 95%: the percentile bootstrap covers a little less."""
    rng, means = np.random.default_rng(7), np.array([0.0, 1.0, 5.0])
    studies, covered = 600, 0
    for _ in range(studies):
        scores = means + rng.normal(size=(20, 3))
        interval = bootstrap_interval(lambda x: x.mean(axis=(-2, -1)), scores, rng=rng, resamples=400)
        covered += interval.low <= 2.0 <= interval.high
    assert 0.90 < covered / studies < 0.975


@pytest.mark.slow
def test_bootstrap_of_three_runs_covers_less_than_it_says():
    rng, studies = np.random.default_rng(9), 600
    intervals = [
        bootstrap_interval(interquartile_mean, rng.normal(size=(3, 15)), rng=rng, resamples=400)
        for _ in range(studies)
    ]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
    assert abs(covered - 0.87) < 4 * np.sqrt(0.87 * 0.13 / studies)


@pytest.mark.slow
def test_bootstrap_of_improvement_covers():
    """Two samples from normal laws one unit apart: the chance to win is known."""
    rng, truth = np.random.default_rng(8), stats.norm.cdf(1 / np.sqrt(2))
    studies, covered = 300, 0
    for _ in range(studies):
        ours, theirs = rng.normal(size=(20, 2)), 1 + rng.normal(size=(20, 2))
        interval = bootstrap_interval(probability_of_improvement, ours, theirs, rng=rng, resamples=400)
        covered += interval.low <= truth <= interval.high
    assert 0.89 < covered / studies < 0.98


# Shares


def test_shares_by_hand():
    assert proportion_interval(0, 3).low == 0
    # All of n: the lower end solves p^n = 0.025.
    assert proportion_interval(3, 3).low == pytest.approx(0.025 ** (1 / 3))
    assert proportion_interval(0, 10, confidence=0.9).high == pytest.approx(1 - 0.05**0.1)


@pytest.mark.parametrize("held", range(8))
def test_shares_agree_with_scipy(held):
    expected = stats.binomtest(held, 7).proportion_ci(0.95, method="exact")
    found = proportion_interval(held, 7)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.5, 0.9])
def test_shares_cover_exactly(chance):
    """Sum the law of the count over those whose interval holds the truth: no simulation is needed."""
    counts = np.arange(31)
    held = [proportion_interval(k, 30) for k in counts]
    inside = np.array([interval.low <= chance <= interval.high for interval in held])
    assert stats.binom.pmf(counts, 30, chance)[inside].sum() >= 0.95


def test_shares_may_have_halves():
    assert proportion_interval(1, 4).low < proportion_interval(1.5, 4).low < proportion_interval(2, 4).low


# Arrays for rliable


def tidy():
    rows = [
        (algorithm, task, run, score)
        for score, (algorithm, task, run) in enumerate(product(["x", "a"], ["q", "b"], [2, 0, 1]))
    ]
    return pandas.DataFrame(rows, columns=["algorithm", "task", "run", "error"])


def test_arrays_keep_tasks_in_order_and_sort_runs():
    scores = scores_by_algorithm(tidy())
    assert list(scores) == ["x", "a"]
    np.testing.assert_array_equal(scores["x"], [[1, 4], [2, 5], [0, 3]])
    assert scores["a"].dtype == np.float64


def test_arrays_refuse_gaps_and_doubles():
    with pytest.raises(ValueError, match="a has no score on task b, run 1"):
        scores_by_algorithm(tidy().iloc[:-1])
    with pytest.raises(ValueError, match="must have one score"):
        scores_by_algorithm(pandas.concat([tidy(), tidy()]))


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interquartile_mean([1.0, 2.0]), r"shape \(runs, tasks\), found \(2,\)"),
        (lambda: interquartile_mean([[np.nan]]), "must not be NaN"),
        (lambda: interquartile_mean(np.ones((0, 3))), "found \\(0, 3\\)"),
        (lambda: probability_of_improvement([[1.0]], [[1.0, 2.0]]), "same tasks, found 1 and 2"),
        (lambda: performance_profile([[1.0]], [1.0], better="best"), "better must be"),
        (lambda: bootstrap_interval(interquartile_mean, [[1.0]], confidence=95), "confidence must be"),
        (lambda: bootstrap_interval(interquartile_mean, [[1.0]], resamples=1), "resamples must be"),
        (lambda: proportion_interval(4, 3), "held = 4 and of = 3"),
        (lambda: proportion_interval(0, 0), "of > 0"),
        (lambda: proportion_interval(1, 3, confidence=0), "confidence must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
