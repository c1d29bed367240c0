"""Intervals that hold for all looks together, runs that stop by them, and `RunningMean`."""

import numpy as np
import pytest
from scipy import signal, stats

import gainbias as gb
from benchmarks.anytime import LOOKS, look, show, summary, to_first_look
from benchmarks.error_bars import reaching
from gainbias.evaluation.gain.anytime import (
    FIRST_TIMES,
    ConfidenceSequence,
    first_bound,
    looks_until,
)
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import SKEWNESS_GROUPS, estimate_gain
from gainbias.store import DamagedError
from tests.evaluation.chains import Queue
from tests.oracles.series import PROCESSES


def autoregressive(rng, length, memory):
    """Gaussian series of variance 1 and autocorrelation time (1 + memory) / (1 - memory), from 0 on."""
    return signal.lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.normal(size=length))


class TestBounds:
    """The bounds of Brownian motion, without any estimate."""

    @staticmethod
    def leaving(bounds, rng, times):
        """Share of Brownian paths, begun at time 0, that leave the bounds at one of the times."""
        steps = np.diff(times, prepend=0.0)
        paths = np.cumsum(rng.normal(size=(4_000, len(times))) * np.sqrt(steps), axis=1)
        return np.mean((np.abs(paths) > bounds(times) * np.sqrt(times)).any(axis=1))

    @pytest.mark.parametrize("confidence", [0.8, 0.95])
    def test_they_hold_at_all_times_together(self, confidence):
        rng, times = np.random.default_rng(0), np.geomspace(1.0, 1e6, 500)
        bound = first_bound(confidence)
        left = self.leaving(lambda t: np.sqrt(bound**2 + np.log(t)), rng, times)
        # A path that is looked at now and then leaves a little less often than one that is always watched.
        assert 0.6 * (1 - confidence) < left < 1.1 * (1 - confidence)

    def test_bounds_for_one_time_do_not(self):
        rng, times = np.random.default_rng(0), np.geomspace(1.0, 50.0, LOOKS)
        assert self.leaving(lambda t: np.full(len(t), 1.96), rng, times) > 0.25

    def test_any_confidence(self):
        bounds = [first_bound(confidence) for confidence in (1e-6, 0.5, 0.95, 1 - 1e-9)]
        assert np.all(np.diff(bounds) > 0.0)
        chance = 2 * (stats.norm.sf(bounds[-1]) + bounds[-1] * stats.norm.pdf(bounds[-1]))
        assert chance == pytest.approx(1e-9, rel=1e-3)


class TestSequence:
    def test_all_looks_together(self):
        rng, misses, misses_once = np.random.default_rng(1), 0, 0
        for _ in range(40):
            sequence, rewards = ConfidenceSequence(first_look=100), BatchMeans()
            wrong, wrong_once = False, False
            for steps in (100 * np.geomspace(1, 50, 7)).astype(int):
                rewards.add(rng.normal(size=steps - rewards.steps))
                once = estimate_gain(rewards, find_warm_up=False)
                ours = sequence.widened(once, rewards)
                wrong |= not ours.interval[0] < 0.0 < ours.interval[1]
                wrong_once |= not once.interval[0] < 0.0 < once.interval[1]
            misses, misses_once = misses + wrong, misses_once + wrong_once
        assert misses <= 4  # more in 5% of tests, if 5% miss
        assert misses_once > 6  # and this test would notice

    def test_widths(self):
        rng, ratios = np.random.default_rng(0), []
        for _ in range(12):
            noise, sequence = rng.normal(size=102_400), ConfidenceSequence()
            rewards = to_first_look(sequence, noise)
            row = []
            for growth in (1, 2, 7, 25, 50):
                rewards.add(noise[rewards.steps : growth * sequence.first_look])
                once = estimate_gain(rewards, find_warm_up=False)
                ours = sequence.widened(once, rewards)
                assert ours.half_width >= once.half_width
                row.append((ours.half_width, once.half_width))
            ratios.append(row)
        ours, once = np.mean(ratios, axis=0).T
        assert (ours / once < 2.0).all()
        assert (ours / once)[:3].max() < 1.6

    def test_the_first_look_waits_for_long_memories(self):
        slow = autoregressive(np.random.default_rng(0), 2**18, 0.98)  # 99 steps
        sequence = ConfidenceSequence()
        rewards = to_first_look(sequence, slow)
        assert sequence.first_look in (2**15, 2**16, 2**17)
        assert rewards.steps == sequence.first_look
        assert estimate_gain(rewards).effective_sample_size >= FIRST_TIMES

    def test_chains(self):
        rewards = BatchMeans.of(np.random.default_rng(0).normal(size=(4, 5_000)))
        sequence = ConfidenceSequence(first_look=512)
        estimate = sequence.estimate(rewards)
        assert estimate.interval[0] < 0.0 < estimate.interval[1]
        assert estimate.degrees > estimate_gain(rewards).degrees
        bound = np.sqrt(first_bound(0.95) ** 2 + np.log(5_000 / 512))
        assert estimate.half_width == pytest.approx(bound / np.sqrt(20_000), rel=0.3)
        student = stats.t.isf(stats.norm.sf(bound), estimate.degrees)
        assert estimate.half_width == pytest.approx(student * estimate.standard_error, rel=0.03)
        assert "from step 512 of each chain on" in estimate.notes[-1]

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_a_long_tail_moves_both_ends(self, sign):
        """Willink's transformation, undone at both ends, gives back Student's quantile of the bound."""
        rewards = BatchMeans.of(sign * np.random.default_rng(0).pareto(3.0, 4_000))
        once = estimate_gain(rewards, find_warm_up=False)
        estimate = ConfidenceSequence(first_look=2_000).widened(once, rewards)
        groups = rewards.groups_after(0, SKEWNESS_GROUPS, once.gain).ravel()
        bend = stats.skew(groups, bias=False) / (6.0 * np.sqrt(len(groups)))
        assert sign * bend > 0.01
        reached = (once.gain - np.array(estimate.interval)) / estimate.standard_error
        undone = ((1.0 + 2.0 * bend * reached) ** 3 - 1.0) / (6.0 * bend) + bend
        bound = np.sqrt(first_bound(0.95) ** 2 + np.log(2.0))
        student = stats.t.isf(stats.norm.sf(bound), estimate.degrees)
        np.testing.assert_allclose(undone, [student, -student], rtol=1e-9)

    def test_a_slow_part_keeps_the_error_from_few_waves(self):
        """A hundredfold growth since an early first look: many waves would not see the slow part."""
        series = PROCESSES["slow-under-fast"].generate(np.random.default_rng(0), 100_000, 1)[0]
        rewards = BatchMeans.of(series)
        once = estimate_gain(rewards, find_warm_up=False)
        estimate = ConfidenceSequence(first_look=1_000).widened(once, rewards)
        assert estimate.standard_error == once.standard_error
        assert estimate.half_width > 1.5 * once.half_width

    def test_what_cannot_be_asked_for(self):
        with pytest.raises(ValueError, match="confidence must be between 0 and 1, found 95"):
            ConfidenceSequence(95)
        with pytest.raises(ValueError, match="first_look must be a number of steps, at least 100, found 3"):
            ConfidenceSequence(first_look=3)


class TestStopping:
    def test_it_stops_when_narrow_enough(self):
        rng = np.random.default_rng(0)
        more = reaching(lambda count: rng.normal(size=(2, count)), 2)
        looks = list(looks_until(more, 0.01, max_steps=10**6))
        assert [look.steps_left > 0 for look in looks] == [True] * (len(looks) - 1) + [False]
        assert looks[-1].estimate.half_width <= 0.01
        # With a known variance 51,000 steps of two chains would do.
        assert looks[-1].estimate.num_steps / 2 == pytest.approx(51_000, rel=0.5)

    def test_it_waits_for_the_first_look(self):
        series = autoregressive(np.random.default_rng(0), 10**6, 0.99)
        rest = iter(series)
        more = reaching(lambda count: [next(rest) for _ in range(count)])
        sequence = ConfidenceSequence()
        first, *_ = looks_until(more, 10.0, max_steps=10**6, sequence=sequence)
        assert first.steps_left == 0
        assert first.estimate.num_steps == sequence.first_look > 500 * 100

    def test_a_hair_too_wide_needs_at_least_one_step(self):
        def first_look(target):
            rng = np.random.default_rng(0)
            return next(looks_until(reaching(lambda count: rng.normal(size=count)), target, max_steps=10**5))

        width = first_look(1.0).estimate.half_width
        assert first_look(width).steps_left == 0
        assert first_look(width * (1.0 - 1e-9)).steps_left == 1

    def test_it_ends_at_most_there(self):
        drawn = []
        more = reaching(lambda count: drawn.append(count) or np.arange(count) % 7)
        *_, last = looks_until(more, 1e-9, max_steps=12_345)
        assert sum(drawn) == 12_345
        assert last.steps_left > 0

    def test_before_the_first_look_one_interval_for_one_look(self):
        rng = np.random.default_rng(0)
        more = reaching(lambda count: rng.normal(size=count))
        [only] = looks_until(more, 1e-9, max_steps=1_000)
        assert only.estimate.interval == estimate_gain(more(1_000)).interval

    def test_no_width_is_asked_for(self):
        with pytest.raises(ValueError, match="must be positive, found 0"):
            next(looks_until(reaching(np.zeros), 0.0, max_steps=10))


class TestEvaluating:
    POLICY = np.ones(6, dtype=int)

    def test_wider_and_told(self):
        plain = gb.evaluate(Queue, self.POLICY, num_steps=40_000)
        ours = gb.evaluate(Queue, self.POLICY, num_steps=40_000, anytime=True)
        assert ours.gain == plain.gain
        assert ours.gain_interval[0] < plain.gain_interval[0]
        assert ours.gain_interval[1] > plain.gain_interval[1]
        assert any("holds for all looks together" in note for note in ours.diagnostics.notes)
        assert ours.history.low[-1] == ours.gain_interval[0]
        assert np.isnan(ours.history.low[0])

    def test_no_interval_before_the_first_look(self):
        estimate = gb.evaluate(Queue, self.POLICY, num_steps=800, anytime=True)
        assert np.isnan(estimate.gain_interval).all()
        assert any(note.startswith("no interval yet") for note in estimate.diagnostics.notes)
        assert np.isfinite(estimate.value_interval(0)).all()

    def test_a_target_uses_them(self):
        estimate = gb.evaluate(Queue, self.POLICY, target_half_width=0.1)
        assert estimate.gain_interval[1] - estimate.gain_interval[0] <= 0.2
        assert any("holds for all looks together" in note for note in estimate.diagnostics.notes)


class TestRunningMean:
    def test_half_the_width_of_its_interval(self):
        running = gb.RunningMean()
        assert running.half_width == np.inf
        running.update(np.random.default_rng(0).normal(size=20_000))
        low, high = running.interval
        assert low < running.mean < high
        assert running.half_width == (high - low) / 2

    def test_the_same_bits_whoever_looks_and_stores(self, tmp_path):
        rng = np.random.default_rng(0)
        series = autoregressive(rng, 60_000, 0.8)
        whole, pieces = gb.RunningMean(skip=10), gb.RunningMean(skip=10)
        whole.update(series)
        cuts = np.sort(rng.integers(0, len(series), 8))
        for place, piece in enumerate(np.split(series, cuts)):
            pieces.update(piece)
            assert repr(pieces)  # a look
            pieces.save(tmp_path / f"{place}.npz")
            pieces = gb.RunningMean.load(tmp_path / f"{place}.npz")
        assert whole.first_look == pieces.first_look == 8192
        assert (whole.steps, whole.mean, whole.interval) == (pieces.steps, pieces.mean, pieces.interval)
        assert whole.interval[0] < 0.0 < whole.interval[1]
        numbers, arrays = whole._numbers.state()
        again, others = pieces._numbers.state()
        assert numbers == again
        assert all(np.array_equal(arrays[name], others[name]) for name in arrays)

    def test_what_is_left_out(self):
        running = gb.RunningMean(skip=3)
        running.update([100.0, 200.0])
        assert (running.steps, running.warnings, running.notes) == (0, (), ())
        assert np.isnan(running.mean)
        running.update([300.0, 1.0, 3.0])
        running.update(5)
        assert (running.steps, running.mean) == (3, 3.0)

    def test_the_first_look_that_was_asked_for(self):
        noise = np.random.default_rng(0).normal(size=1_000)
        running = gb.RunningMean(first_look=500)
        running.update(noise[:499])
        assert (running.interval, running.half_width) == (None, np.inf)
        assert running.notes == ("no interval yet: the first comes after 500 steps",)
        running.update(noise[499:])
        assert running.interval[0] < 0.0 < running.interval[1]
        assert "from step 500 on" in running.notes[-1]

    def test_it_says_what_it_sees(self):
        rng = np.random.default_rng(0)
        drifting = gb.RunningMean(first_look=1_000)
        drifting.update(rng.normal(size=20_000) + np.linspace(0.0, 1.0, 20_000))
        assert any("drift" in warning for warning in drifting.warnings)
        waiting = gb.RunningMean()
        waiting.update(np.cumsum(rng.normal(size=20_000)))
        assert waiting.interval is None
        assert waiting.warnings
        assert "see the warnings; after 32,768 steps it is asked again" in waiting.notes[-1]
        slow = gb.RunningMean(first_look=1_000)
        slow.update(rng.normal(size=20_000) + autoregressive(rng, 20_000, 0.9998))
        assert slow.interval is not None
        assert slow.warnings

    def test_numbers_that_never_change(self):
        running = gb.RunningMean(first_look=100)
        running.update(np.full(5_000, 0.1))
        assert running.interval is None
        assert any("never change" in warning for warning in running.warnings)
        assert "no interval" in repr(running)

    @pytest.mark.parametrize(
        ("numbers", "message"),
        [
            ([1.0, np.nan], "found nan at place 1 of these, after 2 earlier ones: none of these was added"),
            (np.array([np.inf]), "found inf at place 0"),
            (["1.0", "2.0"], "found shape .2,. and type <U3"),
            ([None], "type object"),
            ([[1.0]], "found shape .1, 1."),
            (1j, "type complex128"),
        ],
    )
    def test_what_are_no_numbers(self, numbers, message):
        running = gb.RunningMean()
        running.update([1, 2])
        with pytest.raises(ValueError, match=message):
            running.update(numbers)
        assert (running.steps, running.mean) == (2, 1.5)
        running.update([])
        assert running.steps == 2

    def test_what_cannot_be_asked_for(self):
        for skip in (-1, 1.5, "few", True):
            with pytest.raises(ValueError, match=f"skip must be a number of first .*, found {skip!r}"):
                gb.RunningMean(skip=skip)
        for first in (99, 100.5, "soon"):
            with pytest.raises(ValueError, match=f"first_look must be a number .* 100, found {first!r}"):
                gb.RunningMean(first_look=first)
        with pytest.raises(ValueError, match="confidence must be between 0 and 1, found '95%'"):
            gb.RunningMean("95%")

    def test_files(self, tmp_path):
        running, path = gb.RunningMean(), tmp_path / "running.npz"
        running.update(np.random.default_rng(0).normal(size=10**6))
        running.save(path)
        assert path.stat().st_size < 220_000
        with pytest.raises(ValueError, match="exists already"):
            running.save(path)
        running.save(path, overwrite=True)
        content = bytearray(path.read_bytes())
        content[5_000] ^= 1
        path.write_bytes(content)
        with pytest.raises(DamagedError, match="damaged"):
            gb.RunningMean.load(path)
        estimate = gb.evaluate_log({"state": [0, 1] * 500, "reward": [1.0, 3.0] * 500})
        estimate.save(tmp_path / "estimate.npz")
        with pytest.raises(ValueError, match="is no running mean of gainbias, which RunningMean"):
            gb.RunningMean.load(tmp_path / "estimate.npz")
        with pytest.raises(ValueError, match="there is no file"):
            gb.RunningMean.load(tmp_path / "nothing.npz")


@pytest.mark.slow
def test_the_study_of_many_looks():
    """A part of `benchmarks.anytime`: all intervals hold together, those for one look do not."""
    seen = [look("ar0.9", run, 50 * 2**14) for run in range(100)]
    row = summary("ar0.9", seen, 50 * 2**14)
    assert row["missed"] <= 0.09
    assert row["missed_once_30_looks"] > 0.2
    assert max(row["ratio"]) < 2.0
    assert "ar0.9" in show(row)
