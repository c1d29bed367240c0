"""Gain, its interval and its diagnostics, on series whose answers are known."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy import signal, stats

import gainbias as gb
from benchmarks.error_bars import Chain, birth_death, covers, stopped, study
from gainbias.evaluation.gain.batches import (
    CAPACITY,
    BatchMeans,
    BatchSums,
    RatioMeans,
    fill_pairs,
    fill_pairs_one_by_one,
)
from gainbias.evaluation.gain.interval import _transient_in_words, estimate_gain
from gainbias.evaluation.gain.spectrum import autocorrelation_time
from gainbias.evaluation.gain.verdict import ENOUGH_ENTRIES
from gainbias.evaluation.gain.warm_up import (
    FEWEST_ODD,
    _with_few_replaced,
    coincidence_length,
    dominant_start,
    split_r_hat,
    transient_length,
)
from gainbias.evaluation.values.least_squares import ENOUGH_STEPS, ENOUGH_TIMES, skewed_interval, too_short


def autoregressive(rng, shape, memory):
    """Stationary Gaussian series of variance 1, whose autocorrelation time is (1 + memory) / (1 - memory)."""
    noise = rng.normal(size=shape) * np.sqrt(1 - memory**2)
    noise[..., 0] /= np.sqrt(1 - memory**2)
    return signal.lfilter([1.0], [1.0, -memory], noise, axis=-1)


def cut_at_random(rng, length):
    """Pieces of very different lengths, some of them empty."""
    cuts = np.sort(np.append(rng.integers(0, length, 30), [0, 0, 1, length]))
    return [slice(a, b) for a, b in pairwise(cuts)]


class TestBatches:
    @pytest.mark.parametrize("length", [3, 37, 1000])
    def test_sums_are_those_of_equal_batches(self, length):
        values = np.random.default_rng(0).integers(-9, 9, (2, length)).astype(float)
        sums = BatchSums((2,), capacity=16)
        sums.add(values)
        count = sums.complete.shape[-1]
        assert count == length // sums.size
        assert count < 16 <= max(2 * count + 1, 16 if sums.size == 1 else 0)
        whole = values[:, : count * sums.size].reshape(2, count, sums.size).sum(axis=2)
        assert (sums.complete == whole).all()
        assert (sums.rest == values[:, count * sums.size :].sum(axis=1)).all()
        assert sums.rest_steps == length % sums.size

    @pytest.mark.parametrize("seed", range(5))
    def test_how_the_stream_is_cut_changes_no_bit(self, seed):
        rng = np.random.default_rng(seed)
        rewards = rng.normal(size=(3, 50_000)) + 1e3
        pieces = BatchMeans(3)
        for piece in cut_at_random(rng, 50_000):
            pieces.add(rewards[:, piece])
        whole = BatchMeans.of(rewards)
        assert whole.sums.complete.tobytes() == pieces.sums.complete.tobytes()
        assert whole.sums.rest.tobytes() == pieces.sums.rest.tobytes()
        assert estimate_gain(whole) == estimate_gain(pieces)

    @pytest.mark.parametrize("steps", [2, 8])
    def test_sums_over_several_steps_each_are_added_as_the_steps_are(self, steps):
        values = np.random.default_rng(steps).integers(-9, 9, (2, 4_000)).astype(float)
        whole, in_sums = (BatchSums((2,), capacity=64, first_size=8) for _ in range(2))
        whole.add(values)
        for piece in cut_at_random(np.random.default_rng(0), 4_000 // steps):
            in_sums.add(values.reshape(2, -1, steps).sum(axis=2)[:, piece], steps)
        assert (in_sums.size, in_sums.steps) == (whole.size, whole.steps)
        assert (in_sums.complete == whole.complete).all()
        assert (in_sums.rest == whole.rest).all()

    def test_merged_chains_are_chains_added_together(self):
        rewards = np.random.default_rng(0).normal(size=(3, 20_000))
        merged = BatchMeans.of(rewards[:1]).merge(BatchMeans.of(rewards[1:]))
        assert merged.num_chains == 3
        assert estimate_gain(merged) == estimate_gain(BatchMeans.of(rewards))

    def test_memory_does_not_grow(self):
        chunk = np.random.default_rng(0).normal(size=100_000)
        rewards = BatchMeans()
        rewards.add(chunk)
        tracemalloc.start()
        for _ in range(30):
            rewards.add(chunk)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rewards.steps == 3_100_000
        assert kept < 1e5
        assert CAPACITY / 2 <= rewards.sums.complete.shape[-1] < CAPACITY

    def test_a_large_constant_costs_no_digits(self):
        noise = np.random.default_rng(0).normal(size=30_000)
        plain, shifted = (estimate_gain(BatchMeans.of(noise + shift)) for shift in (0.0, 2.0**30))
        assert shifted.gain - 2.0**30 == pytest.approx(plain.gain, abs=1e-6)
        assert shifted.autocorrelation_time == pytest.approx(plain.autocorrelation_time, rel=1e-5)
        assert shifted.half_width == pytest.approx(plain.half_width, rel=1e-5)

    def test_bad_rewards_are_named(self):
        rewards = BatchMeans(2)
        rewards.add(np.zeros((2, 5)))
        with pytest.raises(ValueError, match="found nan in chain 1 at step 7"):
            rewards.add([[0.0, 0.0, 0.0], [0.0, 0.0, np.nan]])
        with pytest.raises(ValueError, match=r"shape \(2, count\), found \(1, 3\)"):
            rewards.add([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="equal lengths, found 5 and 1 steps"):
            rewards.merge(BatchMeans.of([1.0]))
        with pytest.raises(ValueError, match="at least 1, found 0"):
            BatchMeans(0)
        assert rewards.steps == 5


def two_series(rng, chains, length):
    """Numbers and durations, with zeros of both signs."""
    tops, bottoms = rng.normal(size=(chains, length)), rng.exponential(size=(chains, length))
    tops[:, rng.integers(0, length, length // 2)] = -0.0
    bottoms[:, rng.integers(0, length, length // 4)] = 0.0
    return tops, bottoms


def bytes_of(means):
    """All that is kept of two series."""
    sums = means.tops.sums, means.bottoms.sums, means._products
    arrays = [array for part in sums for array in (part.complete, part.rest)]
    heads = means.tops.head, means.bottoms.head
    return [array.tobytes() for array in (*arrays, *heads)], [(part.size, part.steps) for part in sums]


class TestBatchesOfTwoSeries:
    @pytest.mark.kernels
    @pytest.mark.parametrize(("chains", "begun"), [(1, 0), (1, 3), (3, 1), (40, 0)])
    def test_one_pass_gives_the_bits_of_five(self, chains, begun):
        rng = np.random.default_rng(begun)
        tops, bottoms = two_series(rng, chains, 70)
        origins = rng.normal(size=(2, chains)) * [[0.0], [1.0]]
        before, made = 7.0 if begun else 0.0, []
        for fill in (fill_pairs, getattr(fill_pairs, "py_func", fill_pairs), fill_pairs_one_by_one):
            kept = []
            for shape in ((2, chains), (2, chains), (chains,)):
                kept += [np.full((*shape, 30), 7.0), np.full(shape, before)]
            fill(tops, bottoms, *origins, *kept, 5, begun, 4)
            made.append([array.tobytes() for array in kept])
        assert made[0] == made[1] == made[2]
        x, y = tops - origins[0][:, None], bottoms - origins[1][:, None]
        for sums, rest, found in zip(kept[::2], kept[1::2], ([x, x * x], [y, y * y], x * y), strict=True):
            given = np.concatenate([np.zeros((*rest.shape, begun)), np.asarray(found)], axis=-1)
            given[..., 0] += before
            count = given.shape[-1] // 4
            whole = given[..., : 4 * count].reshape(*rest.shape, count, 4).sum(axis=-1)
            np.testing.assert_allclose(sums[..., 5 : 5 + count], whole, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(rest, given[..., 4 * count :].sum(axis=-1), rtol=1e-12, atol=1e-13)
            assert (sums[..., :5] == 7.0).all()
            assert (sums[..., 5 + count :] == 7.0).all()

    @pytest.mark.parametrize("chains", [1, 8])
    def test_how_both_are_cut_changes_no_bit(self, chains):
        rng = np.random.default_rng(chains)
        tops, bottoms = two_series(rng, chains, 50_000)
        pieces = RatioMeans(chains)
        for piece in cut_at_random(rng, 50_000):
            pieces.add(tops[:, piece], bottoms[:, piece])
        assert bytes_of(pieces) == bytes_of(RatioMeans.of(tops, bottoms))
        assert pieces.steps == 50_000

    def test_each_is_kept_as_if_it_were_alone(self):
        tops, bottoms = two_series(np.random.default_rng(0), 2, 20_000)
        means = RatioMeans.of(tops, bottoms)
        for part, alone in ((means.tops, BatchMeans.of(tops)), (means.bottoms, BatchMeans.of(bottoms))):
            assert part.sums.complete.tobytes() == alone.sums.complete.tobytes()
            assert part.sums.rest.tobytes() == alone.sums.rest.tobytes()
            assert part.head.tobytes() == alone.head.tobytes()
            assert (part.largest, part.steps) == (alone.largest, alone.steps)

    def test_the_kind_of_the_arrays_does_not_matter(self):
        rng = np.random.default_rng(0)
        tops, bottoms = rng.integers(-3, 4, (2, 9_000)), rng.random((2, 9_000)) < 0.5
        expected = bytes_of(RatioMeans.of(tops.astype(float), bottoms.astype(float)))
        locked = tops.astype(float)
        locked.flags.writeable = False
        for one in (
            tops,
            tops.astype(np.int8),
            np.asfortranarray(tops),
            np.repeat(tops, 2, axis=1)[:, ::2],
            locked,
        ):
            assert bytes_of(RatioMeans.of(one, bottoms)) == expected

    def test_nothing_is_added_if_one_of_both_is_wrong(self):
        tops, bottoms = two_series(np.random.default_rng(0), 1, 100)
        means = RatioMeans()
        means.add(tops[:, :40], bottoms[:, :40])
        with pytest.raises(ValueError, match="must be finite, found nan in chain 0 at step 41"):
            means.add([1.0, 1.0], [1.0, np.nan])
        means.add([], [])
        means.add(tops[:, 40:], bottoms[:, 40:])
        assert bytes_of(means) == bytes_of(RatioMeans.of(tops, bottoms))


class TestDiagnostics:
    @pytest.mark.parametrize(
        ("memory", "length"), [(0.0, 50_000), (0.9, 8_000), (0.9, 300_000), (0.99, 300_000)]
    )
    def test_autocorrelation_time_of_a_known_series(self, memory, length):
        known = (1 + memory) / (1 - memory)
        series = autoregressive(np.random.default_rng(1), (8, length), memory)
        times = [estimate_gain(BatchMeans.of(row)).autocorrelation_time for row in series]
        assert np.median(times) == pytest.approx(known, rel=0.15)

    def test_chains_that_disagree_are_correlated_for_ever(self):
        series = np.random.default_rng(0).normal(size=(4, 1000)) + np.array([[0.0], [3.0], [6.0], [9.0]])
        assert autocorrelation_time(series) > 500
        assert autocorrelation_time(series[:1]) < 2

    def test_autocorrelation_time_does_not_depend_on_the_unit(self):
        series = autoregressive(np.random.default_rng(0), (2, 500), 0.8)
        time = autocorrelation_time(series)
        assert time > 5
        assert autocorrelation_time(2.0**-40 * series) == autocorrelation_time(2.0**40 * series) == time

    @pytest.mark.parametrize("series", [np.ones((1, 1)), np.array([[1.0], [3.0]]), np.full((2, 9), 0.5)])
    def test_what_never_changes_has_no_memory(self, series):
        assert autocorrelation_time(series) == 1.0

    def test_how_much_longer_a_run_must_be_is_what_the_shorter_of_two_measures_asks_for(self):
        assert too_short(ENOUGH_TIMES, ENOUGH_STEPS, "rewards") == []
        assert too_short(ENOUGH_TIMES / 4, ENOUGH_STEPS, "rewards")[0].endswith("at least 4.0 times as long")
        assert too_short(ENOUGH_TIMES, ENOUGH_STEPS // 5, "rewards")[0].endswith("at least 5.0 times as long")

    def test_r_hat_knows_chains_in_different_places(self):
        series = np.random.default_rng(0).normal(size=(4, 1000))
        assert split_r_hat(series, series**2, 1) == pytest.approx(1.0, abs=0.01)
        apart = series + np.array([[0.0], [0.0], [0.0], [1.0]])
        assert split_r_hat(apart, apart**2, 1) > 1.05

    @pytest.mark.parametrize("steps", [2, 3, 4, 5])
    def test_r_hat_exists_from_four_steps_on(self, steps):
        r_hat = estimate_gain(BatchMeans.of(np.arange(float(steps)))).r_hat
        assert np.isnan(r_hat) == (steps < 4)

    @pytest.mark.parametrize("size", [7, 20, 101, 1000])
    @pytest.mark.parametrize("share", [0.001, 0.1])
    def test_few_entries_on_each_side_are_replaced_by_the_next(self, size, share):
        entries = np.random.default_rng(0).normal(size=(3, size))
        few = min(max(FEWEST_ODD, int(share * size)), (size - 1) // 2)
        ordered = np.sort(entries)
        expected = np.clip(entries, ordered[:, few, None], ordered[:, size - 1 - few, None])
        assert (_with_few_replaced(entries, share) == expected).all()

    def test_a_transient_is_cut_where_it_ends(self):
        rng = np.random.default_rng(0)
        series = autoregressive(rng, (1, 5000), 0.5)
        series[0, :300] += 6.0
        assert 280 <= transient_length(series) <= 320
        estimate = estimate_gain(BatchMeans.of(series))
        assert 280 <= estimate.transient <= 320
        assert estimate.num_steps == 5000 - estimate.transient
        assert covers(estimate, 0.0)
        assert not covers(estimate, float(series.mean()))

    @pytest.mark.parametrize(("digits", "is_seen"), [(9, True), (11, True), (14, False), (15, False)])
    def test_a_transient_in_late_digits_is_seen_as_far_as_it_is_no_rounding(self, digits, is_seen):
        series = autoregressive(np.random.default_rng(0), (1, 5000), 0.5)
        series[0, :300] += 6.0
        found = transient_length(1.0 + 10.0**-digits * series)
        assert 280 <= found <= 320 if is_seen else found == 0

    @pytest.mark.parametrize(("rounding", "cut"), [(0.0, 20), (0.5, 20), (1.0, 0), (1.5, 0)])
    def test_a_difference_up_to_the_rounding_counts_as_none(self, rounding, cut):
        series = np.append(np.ones(20), np.zeros(180))
        assert transient_length(series[None], rounding) == cut

    def test_rounding_is_measured_by_the_largest_entry(self):
        series = 1e-9 * np.random.default_rng(0).normal(size=(1, 1000))
        series[0, :200] += 6e-9
        assert 190 <= transient_length(series) <= 210
        series[0, 700] = 1e6
        assert transient_length(series) == 0

    @pytest.mark.parametrize(("length", "height"), [(300, 6.0), (300, 4.0), (200, 6.0)])
    def test_a_beginning_that_comes_again_later_is_no_transient(self, length, height):
        """One piece that is half as far away is enough, whatever the other pieces are."""
        series = 0.1 * np.random.default_rng(0).normal(size=(1, 6000))
        series[0, :300] += 6.0
        assert 280 <= transient_length(series) <= 320
        series[0, 3000 : 3000 + length] += height
        assert transient_length(series) == 0

    def test_a_burst_after_a_warm_up_is_not_cut_with_it(self):
        """A queue that starts full, drains, and fills again belongs to the answer from where it is empty."""
        for seed in range(3):
            series = np.random.default_rng(seed).normal(size=(1, 4000))
            series[0, :300] += 8.0
            series[0, 400:500] += 6.0
            assert 300 <= transient_length(series) <= 360

    def test_a_stationary_series_is_hardly_ever_cut(self):
        series = autoregressive(np.random.default_rng(0), (300, 1, 2000), 0.9)
        assert np.mean([transient_length(run) > 0 for run in series]) <= 0.02

    @pytest.mark.parametrize("place", [0, 40, 6_000, 14_000, 19_999])
    @pytest.mark.parametrize("length", [1, 20])
    def test_a_disaster_is_no_transient(self, place, length):
        rewards = np.random.default_rng(0).normal(1.0, 0.5, 20_000)
        rewards[place : place + length] = -1000.0
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert estimate.transient == 0
        assert estimate.gain == pytest.approx(rewards.mean(), rel=1e-12)
        assert covers(estimate, 1.0)
        assert estimate.interval[0] < 2 * rewards.mean() - 1.0  # twice as many disasters may be usual

    @pytest.mark.parametrize("sizes", [[-1e3], [1e6], [50.0, -30.0, 80.0]])
    @pytest.mark.parametrize("chains", [1, 4])
    def test_a_few_odd_rewards_do_not_hide_a_transient(self, sizes, chains):
        rng = np.random.default_rng(1)
        series = autoregressive(rng, (chains, 5000), 0.5)
        series[:, :300] += 6.0
        series[0, rng.integers(0, 5000, len(sizes))] += sizes
        assert 280 <= transient_length(series) <= 320

    @pytest.mark.parametrize("cycle", [[1.0], [0.0, 1.0], [-2.0, 7.0, 7.0, 0.0], [0.1, 0.2, 0.3]])
    @pytest.mark.parametrize(("length", "steps"), [(10, 5_000), (1_500, 5_000), (2_000, 50_000)])
    @pytest.mark.parametrize("chains", [1, 3])
    def test_a_warm_up_in_front_of_rewards_without_chance_is_cut(self, cycle, length, steps, chains):
        rewards = np.resize(cycle, (chains, steps))
        rewards[:, :length] = 100.0
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert length <= estimate.transient < length + 20
        assert estimate.gain == pytest.approx(np.mean(cycle), abs=20 / (steps - length))
        words = f"with them the mean is {rewards.mean():.5g} instead of {estimate.gain:.5g}"
        assert words in " ".join(estimate.notes)
        if len(cycle) > 1:
            assert estimate.half_width < 0.02
            assert estimate.warnings == ()
            assert estimate.verdict.kind == "warming up"
        else:
            assert not estimate.has_interval
            assert f"after the first {estimate.transient:,} steps the numbers never change" in " ".join(
                estimate.warnings
            )

    def test_one_step_is_a_step(self):
        rewards = np.full((3, 1_000), 0.25)
        rewards[:, 0] = 5.0
        [warning] = estimate_gain(BatchMeans.of(rewards)).warnings
        assert warning.startswith("after the first step the numbers never change")

    @pytest.mark.parametrize("place", [20, 60, 150])
    @pytest.mark.parametrize("length", [10, 40, 200])
    def test_an_early_event_is_not_taken_off_a_constant(self, place, length):
        """Before it all was as after it."""
        rewards = np.ones(1_000)
        rewards[place : place + length] = -50.0
        estimate = estimate_gain(BatchMeans.of(rewards))
        if length < 4 * place:
            assert estimate.transient == 0
            assert estimate.gain == pytest.approx(rewards.mean())

    @pytest.mark.parametrize(
        ("start", "spread"), [(100.0, 1e-8), (-1e9, 1e-3), (1e6, 1e-5), (2.0, 1e-9), (1e12, 3.0)]
    )
    @pytest.mark.parametrize("chains", [1, 4])
    def test_small_changes_behind_a_far_start_are_seen(self, start, spread, chains):
        noise = np.random.default_rng(0).normal(size=(chains, 50_000))
        rewards = 5.0 + spread * noise
        rewards[:, :2_000] = start
        estimate = estimate_gain(BatchMeans.of(rewards))
        kept = rewards[:, estimate.transient :]
        assert 2_000 <= estimate.transient < 2_100
        assert estimate.gain - 5.0 == pytest.approx(kept.mean() - 5.0, abs=0.1 * spread)
        # Twelve waves know the error to within a factor of two; the far start adds nothing to that.
        assert estimate.standard_error == pytest.approx(spread / np.sqrt(kept.size), rel=0.5)
        alone = estimate_gain(BatchMeans.of(spread * noise[:, estimate.transient :]), find_warm_up=False)
        assert estimate.standard_error == pytest.approx(alone.standard_error, rel=0.15)
        assert estimate.half_width == pytest.approx(2.1 * spread / np.sqrt(kept.size), rel=0.6)
        assert estimate.warnings == ()
        [note] = estimate.notes
        assert note.startswith(f"the first {estimate.transient:,} steps of each chain were left out")
        assert note.endswith("over 1,000 standard errors away")

    def test_a_transient_that_matters_is_spoken_of(self):
        series = autoregressive(np.random.default_rng(0), (1, 5000), 0.5)
        assert estimate_gain(BatchMeans.of(series)).notes == ()
        series[0, :300] += 6.0
        estimate = estimate_gain(BatchMeans.of(series))
        [note] = estimate.notes
        assert note.startswith(f"the first {estimate.transient} steps of each chain were left out")
        assert f"with them the mean is {series.mean():.5g} instead of {estimate.gain:.5g}" in note

    @pytest.mark.parametrize(
        ("errors", "told"), [(2.5, "2.5"), (1000.0, "1000.0"), (1000.5, "over 1,000"), (1e9, "over 1,000")]
    )
    def test_standard_errors_are_counted_up_to_a_thousand(self, errors, told):
        [note] = _transient_in_words(10, mean=5.0 + 0.5 * errors, gain=5.0, error=0.5)
        assert note.endswith(f", {told} standard errors away")

    @pytest.mark.parametrize("chains", [2, 3, 4, 6])
    @pytest.mark.parametrize(
        "paid", [[-1000.0], [0.0, 1e4], [30.0, -500.0, 20.0], [1e5, 1e4, 1e3, 1e2]], ids=str
    )
    def test_what_all_chains_pay_at_the_start_alone_is_cut(self, chains, paid):
        rewards = np.random.default_rng(5).integers(0, 2, (chains, 10_000)).astype(float)
        rewards[:, : len(paid)] += paid
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert len(paid) <= estimate.transient < len(paid) + 8
        assert covers(estimate, 0.5)
        assert estimate.half_width < 0.02
        assert "left out, because the numbers were different then" in estimate.notes[0]
        assert estimate.warnings == ()

    def test_it_is_cut_if_chains_pay_it_at_different_early_steps(self):
        rewards = np.random.default_rng(5).normal(size=(4, 10_000))
        rewards[np.arange(4), [0, 7, 21, 2]] -= 1000.0
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert 22 <= estimate.transient <= 24
        assert covers(estimate, 0.0)

    @pytest.mark.parametrize("places", [[0, 5000, 9000, 700], [0, 0, 0, 0, 5_000], [9_999, 9_999]])
    def test_what_comes_again_is_not_cut(self, places):
        rewards = np.random.default_rng(5).normal(size=(len(places), 10_000))
        rewards[np.arange(len(places)), places] -= 1000.0
        rewards[:, 6_000] -= 1000.0
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert estimate.transient == 0
        assert estimate.gain == pytest.approx(rewards.mean())

    def test_one_chain_has_no_coincidence_however_long_it_is(self):
        assert coincidence_length(np.append(1e6, np.zeros(400_000))[None]) == 0

    @pytest.mark.parametrize("chains", [2, 4])
    @pytest.mark.parametrize("kind", ["iid", "slow", "skewed", "rare", "few values"])
    def test_chance_alone_is_no_coincidence(self, kind, chains):
        rng, count = np.random.default_rng(11), 100
        shape = (count, chains, 500)
        series = {
            "iid": lambda: rng.normal(size=shape),
            "slow": lambda: autoregressive(rng, shape, 0.99),
            "skewed": lambda: rng.lognormal(0.0, 2.0, shape),
            "rare": lambda: 1.0 * (rng.random(shape) < 0.002),
            "few values": lambda: rng.integers(0, 3, shape).astype(float),
        }[kind]()
        assert sum(coincidence_length(run) > 0 for run in series) == 0

    @pytest.mark.parametrize(
        ("paid", "steps", "first"),
        [
            ([-1000.0], 40_000, "8 steps"),
            ([-1000.0], 4_000, "step"),
            ([1.0, 500.0], 4_000, "2 steps"),
            ([-70.0] * 5, 6_000, "5 steps"),
            (list(1e6 * 0.5 ** np.arange(16)), 20_000, "16 steps"),
        ],
    )
    def test_a_start_that_decides_the_answer_of_one_chain_is_warned_of(self, paid, steps, first):
        rewards = np.random.default_rng(5).integers(0, 2, steps).astype(float)
        rewards[: len(paid)] += paid
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert estimate.transient == 0
        assert covers(estimate, 0.5)
        *others, warning = estimate.warnings
        assert all(other.startswith("rare events: about 1 of them") for other in others)
        assert warning.startswith(f"the first {first} paid ")
        count = int(first.split()[0]) if first[0].isdigit() else 1
        assert f"paid {rewards[:count].mean():.5g} on average, and nothing like it came again" in warning
        assert warning.endswith(f"leave it out, and the mean is {rewards[count:].mean():.5g}")

    @pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**40])
    def test_a_dominant_start_does_not_depend_on_the_unit(self, unit):
        series = np.append([900.0, 300.0], np.tile([1.0, -1.0], 500))
        assert dominant_start(unit * series[None]) == 2

    def test_no_start_is_warned_of_without_reason(self):
        rng = np.random.default_rng(5)
        for series in (rng.normal(size=(200, 600)), rng.lognormal(0.0, 1.0, (200, 600))):
            assert sum(dominant_start(row[None]) > 0 for row in series) == 0
        assert dominant_start(np.ones((3, 50))) == dominant_start(np.arange(5.0)[None]) == 0

    def test_a_run_that_never_settles_is_flagged(self):
        ramp = np.linspace(0.0, 1.0, 5000) + 0.01 * np.random.default_rng(0).normal(size=5000)
        estimate = estimate_gain(BatchMeans.of(ramp))
        assert estimate.verdict.kind == "drifting"
        assert "still drift in the second half" in " ".join(estimate.warnings)


class TestInterval:
    def test_without_skewness_it_is_students(self):
        batches = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
        low, high = skewed_interval(7.0, batches, 0.9)
        expected = stats.t.interval(0.9, 4, 7.0, stats.sem(batches))
        assert (low, high) == pytest.approx(expected)

    def test_columns_are_independent(self):
        batches = np.random.default_rng(0).gamma(1.0, size=(20, 3))
        together = np.array(skewed_interval(batches.mean(axis=0), batches, 0.95))
        for column in range(3):
            alone = skewed_interval(batches[:, column].mean(), batches[:, column], 0.95)
            assert together[:, column] == pytest.approx(np.array(alone))

    def test_skewness_mends_the_coverage_of_rare_rewards(self):
        batches = np.random.default_rng(0).gamma(0.3, size=(20, 3000))
        low, high = skewed_interval(batches.mean(axis=0), batches, 0.95)
        plain = stats.t.interval(0.95, 19, batches.mean(axis=0), stats.sem(batches))
        # The standard error of a coverage is 0.005.
        assert np.mean((plain[0] <= 0.3) & (plain[1] >= 0.3)) < 0.90
        assert np.mean((low <= 0.3) & (high >= 0.3)) > 0.92

    def test_short_runs_are_flagged_and_wide(self):
        series = autoregressive(np.random.default_rng(0), (200, 200), 0.9)  # 20 relaxation times
        estimates = [estimate_gain(BatchMeans.of(row)) for row in series]
        assert np.mean([estimate.verdict.kind != "steady" for estimate in estimates]) > 0.8
        assert np.mean([covers(estimate, 0.0) for estimate in estimates]) > 0.88

    def test_a_long_run_is_not_flagged(self):
        series = autoregressive(np.random.default_rng(0), (20, 40_000), 0.9)
        assert not any(estimate_gain(BatchMeans.of(row)).is_flagged for row in series)

    def test_few_steps_are_too_few_however_independent(self):
        rewards = np.random.default_rng(0).normal(size=ENOUGH_ENTRIES)
        assert estimate_gain(BatchMeans.of(rewards)).verdict.kind == "steady"
        verdict = estimate_gain(BatchMeans.of(rewards[50:])).verdict
        assert (verdict.kind, verdict.longer) == ("too short", 2.0)
        assert verdict.words.endswith("run at least 2.0 times as long")

    @pytest.mark.parametrize("half", [1, 2])
    def test_chains_stuck_apart_give_a_wide_flagged_interval(self, half):
        noise = 0.1 * np.random.default_rng(0).normal(size=(2 * half, 10_000))
        estimate = estimate_gain(BatchMeans.of(np.repeat([0.0, 1.0], half)[:, None] + noise))
        assert estimate.degrees == 2 * half - 1
        assert estimate.half_width > 0.5
        assert estimate.verdict.kind == "chains disagree"

    @pytest.mark.parametrize(
        "rewards",
        [
            np.full(10_000, 0.1),
            np.zeros((4, 200)),
            np.where(np.arange(5_000) % 7 == 0, 0.1 + 0.2, 0.3),  # but for rounding
            1e9 + np.where(np.random.default_rng(0).random(5_000) < 0.5, 0.1 + 0.2, 0.3),
            np.full(3, -2.0),
        ],
    )
    def test_rewards_that_never_change_have_no_interval(self, rewards):
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert estimate.gain == pytest.approx(np.mean(rewards), rel=1e-15)
        assert np.isnan(estimate.interval).all()
        assert np.isnan([estimate.standard_error, estimate.half_width]).all()
        assert not estimate.has_interval
        assert estimate.autocorrelation_time == 1.0
        assert estimate.effective_sample_size == estimate.num_steps == rewards.size
        assert "the numbers never change, so there is no interval" in " ".join(estimate.warnings)
        assert "R-hat" not in " ".join(estimate.warnings)

    @pytest.mark.parametrize("place", [0, 1, 19, 100, 399, 799])
    @pytest.mark.parametrize("chains", [1, 4])
    def test_one_reward_of_many_is_never_left_out(self, place, chains):
        rewards = np.zeros(800)
        rewards[place] = 1.0
        estimate = estimate_gain(BatchMeans.of(rewards.reshape(chains, -1)))
        assert estimate.transient == 0
        assert estimate.gain == pytest.approx(1 / 800)
        low, high = estimate.interval
        # Such a run may come from any rate within what Poisson's law allows for one event.
        assert low < 0.1 / 800 < 5.0 / 800 < high
        assert "never change" not in " ".join(estimate.warnings)

    @pytest.mark.parametrize("length", [20_001, 20_003, 33_333])
    def test_an_event_behind_the_last_batch_counts(self, length):
        rewards = np.random.default_rng(0).normal(1.0, 0.5, length)
        usual = estimate_gain(BatchMeans.of(rewards))
        rewards[-1] = -1e4
        estimate = estimate_gain(BatchMeans.of(rewards))
        assert BatchMeans.of(rewards).sums.rest_steps > 0
        assert usual.half_width < 0.02
        assert covers(estimate, usual.gain)

    @pytest.mark.parametrize("cycle", [[0.0, 1.0], [0.0, 1.0, 0.0, 0.0, 3.0], [5.0, 5.0, 5.0, 5.0 + 1e-9]])
    @pytest.mark.parametrize("length", [40_000, 39_997, 1_000])
    def test_a_cycle_without_chance_is_known_closely_but_not_exactly(self, cycle, length):
        estimate = estimate_gain(BatchMeans.of(np.resize(cycle, length)))
        assert covers(estimate, float(np.mean(cycle)))
        assert 0.0 < estimate.half_width < 10 * np.std(cycle) / np.sqrt(length)

    def test_bad_settings_are_named(self):
        with pytest.raises(ValueError, match="at least 2 steps of each chain, found 1"):
            estimate_gain(BatchMeans.of([1.0]))
        with pytest.raises(ValueError, match="between 0 and 1, found 95"):
            estimate_gain(BatchMeans.of([1.0, 2.0]), confidence=95)


NAMED = ("mm1k-admission", "river-swim", "two-loop", "machine-replacement", "rare-reward")
SLOW = Chain("birth-death of 8", gb.Problem(birth_death(8), gb.Tabular()))


class TestRareEventsAndWarmUps:
    """Whether intervals hold where rewards are rare, or the start is far away."""

    def test_runs_that_saw_a_disaster(self):
        rng, hits = np.random.default_rng(7), []
        while len(hits) < 120:
            happened = rng.random(20_000) < 1e-4
            if happened.any():
                rewards = 1.0 + 0.5 * rng.normal(size=20_000) - 1000.0 * happened
                hits.append(covers(estimate_gain(BatchMeans.of(rewards)), 0.9))
        assert np.mean(hits) > 0.95

    @pytest.mark.parametrize(("memory", "start", "chains"), [(0.9, 50.0, 1), (0.99, 30.0, 1), (0.5, 1e3, 4)])
    def test_a_start_far_away(self, memory, start, chains):
        rng, hits, cuts = np.random.default_rng(3), [], []
        for _ in range(60):
            noise = rng.normal(size=(chains, 20_000)) * np.sqrt(1 - memory**2)
            noise[:, 0] = start
            estimate = estimate_gain(BatchMeans.of(signal.lfilter([1.0], [1.0, -memory], noise, axis=-1)))
            hits.append(covers(estimate, 0.0))
            cuts.append(estimate.transient > 0)
        assert np.mean(hits) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 60)
        assert np.mean(cuts) > 0.9

    def test_a_queue_that_starts_full(self):
        """Lengths of an M/M/1 queue by steps; from 50 customers it empties by 0.2 in each."""
        rng = np.random.default_rng(2)
        law = 0.5 ** np.arange(200.0)
        hits, cuts = [], []
        for _ in range(40):
            moves = rng.choice([1, -1, 0], p=[0.2, 0.4, 0.4], size=(5_000, 4))
            lengths = np.empty((5_000, 4))
            now = np.full(4, 50)
            for step, move in enumerate(moves):
                lengths[step] = now
                now = np.maximum(now + move, 0)
            estimate = estimate_gain(BatchMeans.of(lengths.T))
            hits.append(covers(estimate, law @ np.arange(200) / law.sum()))
            cuts.append(estimate.transient)
        assert np.mean(hits) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 40)
        assert 200 < np.median(cuts) < 500


@pytest.mark.slow
class TestCoverage:
    """Each coverage may be 4 standard errors from 0.95; the average over chains must keep its promise."""

    REPLICATIONS = 200
    SPREAD = 4 * np.sqrt(0.05 * 0.95 / REPLICATIONS)

    def test_intervals_of_gain_and_values_hold(self):
        gains, values = [], []
        for chain in [*map(Chain.named, NAMED), SLOW]:
            steps = max(int(600 * chain.slowest_time), ENOUGH_STEPS)
            found = study(chain, steps, self.REPLICATIONS, first_seed=10_000)
            gains.append(found.gain.mean())
            values.append(np.nanmean(found.values))
            assert abs(gains[-1] - 0.95) < self.SPREAD, chain.name
            assert abs(values[-1] - 0.95) < self.SPREAD, chain.name
        # Standard errors: 0.006 for gains, at most that for values.
        assert 0.93 < np.mean(gains) < 0.97
        assert 0.92 < np.mean(values) < 0.98

    def test_intervals_that_ignore_dependence_do_not_hold(self):
        chain = Chain.named("birth-death")
        rewards = [run.reward[0] for run in chain.runs(40, 20_000, 0)]
        hits = [abs(row.mean() - chain.problem.solution.gain) < 1.96 * stats.sem(row) for row in rewards]
        assert np.mean(hits) < 0.5

    def test_stopped_intervals_hold(self):
        coverage, share, _ = stopped(Chain.named("access-control"), 1000, self.REPLICATIONS)
        assert share == 1.0
        assert coverage > 0.95 - self.SPREAD
