"""What is read on the way: chains cut to one length, the past of the gain, TD errors, Ctrl-C."""

import signal

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from benchmarks.error_bars import Chain
from gainbias.evaluation import collection
from gainbias.evaluation.collection import Visits
from gainbias.evaluation.diagnostics import FEWEST_RESIDUALS, FOLDS, predictable_share, saved_by_predicting
from gainbias.evaluation.estimate import gain_history
from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.gain.interval import estimate_gain
from gainbias.evaluation.stream import Aligner, Transitions
from gainbias.progress import Interruptions, Watch
from tests.evaluation.chains import Queue


def batch(values, chain=0, rows=None):
    """Steps whose numbers tell where they come from."""
    steps = np.asarray(values)
    return Transitions(1.0 * steps, steps, steps + 1, rows, np.zeros_like(steps), chain)


class TestAligner:
    def test_nothing_is_lost_or_moved(self):
        rng = np.random.default_rng(0)
        aligner, given, taken = Aligner(3), [0, 0, 0], [[], [], []]
        for _ in range(200):
            chain = int(rng.integers(3))
            size = int(rng.integers(1, 6))
            aligner.add(batch(np.arange(given[chain], given[chain] + size), chain))
            given[chain] += size
            count = int(rng.integers(0, aligner.ready + 1))
            for part in aligner.take(count) if count else []:
                taken[part.chain].extend(part.here.tolist())
        assert len({len(part) for part in taken}) == 1
        assert all(part == list(range(len(part))) for part in taken)
        assert aligner.ready == min(given) - len(taken[0])

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_rows_of_batches_that_are_joined(self, form):
        aligner = Aligner(1)
        for start in (0.0, 10.0):
            rows = form(start + np.arange(1.0, 4.0)[:, None])
            aligner.add(batch([0, 1], rows=rows))
        [joined] = aligner.take(4)
        for seen, expected in ((joined.here_rows, [1, 2, 11, 12]), (joined.after_rows, [2, 3, 12, 13])):
            rows = seen if isinstance(seen, np.ndarray) else seen.toarray()
            assert rows.ravel().tolist() == expected


class TestHistory:
    def test_each_point_is_an_estimate_of_what_there_was(self):
        rewards = np.random.default_rng(0).normal(size=(2, 8192))
        history = gain_history(BatchMeans.of(rewards), 0.9)
        assert history.transitions[-1] == 2 * 8192
        assert (np.diff(history.transitions) > 0).all()
        for place in (5, -4, -1):
            steps = int(history.transitions[place]) // 2
            earlier = estimate_gain(BatchMeans.of(rewards[:, :steps]), 0.9)
            assert history.gain[place] == pytest.approx(earlier.gain, abs=1e-12)
            width = history.high[place] - history.low[place]
            assert width == pytest.approx(2 * earlier.half_width, rel=0.5)

    def test_of_a_few_steps(self):
        rewards = BatchMeans.of([1.0, 2.0, 2.0, 1.0])
        assert gain_history(rewards, 0.95).gain[-1] == estimate_gain(rewards).gain == 1.5


class TestPredictableShare:
    def steps(self, chain, rows):
        run = next(chain.runs(1, 20_000, 0))
        here, after = run.here[0].astype(np.int64), run.next[0].astype(np.int64)
        return Transitions(run.reward[0], here, after, rows, np.zeros(len(here), dtype=np.int64))

    @pytest.mark.parametrize("name", ["mm1k-admission", "river-swim", "birth-death"])
    def test_the_exact_bias_leaves_nothing(self, name):
        chain = Chain.named(name)
        solution = chain.problem.solution
        stretch = [self.steps(chain, np.eye(len(solution.bias)))]
        assert predictable_share(stretch, solution.bias, solution.gain, 0.0) < 0.01

    @pytest.mark.parametrize("rows", [None, np.eye(2)])
    def test_few_rare_rewards_are_not_taken_for_a_pattern(self, rows):
        """A state that comes 20 times in a run, by chance, with a reward one time in three."""
        rare, segments = 20 / 8_000, np.zeros(8_000, dtype=np.int64)
        bias = np.array([-rare / 3, (1.0 - rare) / 3])
        for seed in range(100):
            rng = np.random.default_rng(seed)
            states = (rng.random(8_001) < rare).astype(np.int64)
            rewards = 1.0 * (states[:-1] * rng.random(8_000) < 1 / 3) * states[:-1]
            steps = Transitions(rewards, states[:-1], states[1:], rows, segments)
            assert predictable_share([steps], bias, rare / 3, 0.0) == 0.0

    def test_an_event_that_the_stretch_happens_to_miss(self):
        """While it does not come, errors are -g in one state of two, and 0 in the other."""
        states = np.random.default_rng(0).integers(0, 2, 8_001)
        gain, bias = 1e-3 / 2, np.array([0.0, 1e-3])
        steps = Transitions(np.zeros(8_000), states[:-1], states[1:], None, np.zeros(8_000, dtype=np.int64))
        assert predictable_share([steps], bias, gain, 0.0) > 0.3
        assert predictable_share([steps], bias, gain, gain * (1.0 - gain)) < 0.002

    def test_it_is_at_most_the_share_of_the_bellman_residual(self):
        chain = Chain.named("birth-death")
        solution, mrp = chain.problem.solution, chain.problem.mrp
        values = np.where(np.arange(20) < 10, solution.bias[:10].mean(), solution.bias[10:].mean())
        moves = mrp.csr.toarray()
        errors = mrp.rewards[:, None] - solution.gain + values[None, :] - values[:, None]
        residual = (moves * errors).sum(axis=1)
        law = solution.stationary
        whole = law @ (moves * errors**2).sum(axis=1) - (law @ residual) ** 2
        exact = (law @ residual**2 - (law @ residual) ** 2) / whole
        found = predictable_share([self.steps(chain, np.eye(20))], values, solution.gain, 0.0)
        assert 0.1 < found < exact + 0.02

    def test_too_few_steps_tell_nothing(self):
        steps = batch(np.arange(FEWEST_RESIDUALS))
        assert np.isnan(predictable_share([steps], np.zeros(FEWEST_RESIDUALS + 1), 0.0, 0.0))

    @pytest.mark.parametrize("size", [2_000, 2_003])
    def test_each_fold_is_predicted_from_the_others(self, size):
        rng = np.random.default_rng(0)
        levels = np.eye(3)[rng.integers(0, 3, size)]
        regressors = np.column_stack([rng.normal(size=(size, 2)), levels, levels[:, :1]])
        errors = 5.0 + regressors @ rng.normal(size=6) + rng.normal(size=size)
        saved, whole = saved_by_predicting(errors, regressors)
        fold = np.arange(size) * FOLDS // size
        for own in (fold == k for k in range(FOLDS)):
            fitted = np.linalg.lstsq(regressors[~own], errors[~own], rcond=None)[0]
            square = (errors[own] - errors[~own].mean()) ** 2
            assert whole[own] == pytest.approx(square, rel=1e-9)
            assert saved[own] == pytest.approx(
                square - (errors[own] - regressors[own] @ fitted) ** 2, abs=1e-9
            )

    def test_segments_are_not_joined(self):
        """Errors that depend on the one before, except across cuts."""
        rng = np.random.default_rng(0)
        signs = np.repeat(rng.choice([-1.0, 1.0], 5_000), 5)
        here = np.zeros(25_000, dtype=np.int64)
        segments = np.repeat(np.arange(5_000), 5)
        joined = predictable_share([Transitions(signs, here, here, None, here)], np.zeros(1), 0.0, 0.0)
        apart = predictable_share([Transitions(signs, here, here, None, segments)], np.zeros(1), 0.0, 0.0)
        assert apart == pytest.approx(1.0)
        assert joined < 0.8


class TestVisits:
    @pytest.mark.parametrize("few", [0, 512])
    def test_counted_and_sorted_moves_say_the_same(self, few, monkeypatch):
        monkeypatch.setattr(collection, "FEW_COUNTED_STATES", few)
        rng = np.random.default_rng(0)
        found = Visits(40)
        for shift in (0, 20, 0):
            states = shift + rng.integers(0, 10, 300)
            found.add(Transitions(np.ones(299), states[:-1], states[1:], None, np.zeros(299, dtype=np.int64)))
        assert "2 recurrent classes: {0, 1, 2, 3, ...}, {20, 21, 22, 23, ...}" in found.warnings()[0]

    def test_a_path_that_ends_somewhere_new_is_whole(self):
        found = Visits(4)
        states = np.array([0, 1] * 200 + [2, 3])
        for part in (states, states[:300]):
            here, after = part[:-1], part[1:]
            found.add(Transitions(1.0 * here, here, after, None, np.zeros_like(here)))
        assert found.warnings() == []

    def test_too_many_moves_are_not_followed(self, monkeypatch):
        monkeypatch.setattr(collection, "MOST_MOVES", 10)
        monkeypatch.setattr(collection, "FEW_COUNTED_STATES", 1)
        found = Visits(2_000)
        for start in (0, 1_000):
            here = start + np.arange(500)
            found.add(Transitions(1.0 * here, here, here, None, np.zeros_like(here)))
        assert found.warnings() == []


class TestInterruptions:
    def test_heard_at_the_next_wait(self):
        with Interruptions() as interruptions:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt), interruptions.waiting():
                pass

    def test_heard_at_once_while_waiting_and_the_second_time(self):
        with Interruptions() as interruptions:
            with pytest.raises(KeyboardInterrupt), interruptions.waiting():
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


def test_the_bar_shows_the_estimate_and_what_is_left(monkeypatch):
    shown = []

    def show(self, words, done=0.0, total=None):
        shown.append((words, done, total))

    monkeypatch.setattr(Watch, "show", show)
    gb.evaluate(Queue, np.ones(6, dtype=int), target_half_width=0.05)
    words, done, total = shown[-1]
    assert "gain -0.0" in words
    assert " +- 0.0" in words
    assert done == total
    early = next(total for words, _, total in shown if "gain" in words)
    assert 0.2 * total < early < 5 * total
