"""Values by least squares and their intervals, against plain twins and exact answers."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from benchmarks.error_bars import Chain, birth_death
from gainbias.evaluation.values import least_squares, sums
from gainbias.evaluation.values.least_squares import ENOUGH_OBSERVATIONS, estimate_values
from gainbias.evaluation.values.sums import (
    MOST_LEAST_SQUARES_FEATURES,
    VALUE_BATCHES,
    Moments,
    SparseValueSums,
    TableValueSums,
    TabularValueSums,
    ValueSums,
    add_steps,
    add_steps_at_once,
)


def added(rows, run):
    return together(rows, [run])


def together(rows, runs, is_timed=False):
    """Sums of several runs as chains; with durations that depend on the state and on chance."""
    here, after, reward, _ = (np.concatenate(part) for part in zip(*runs, strict=True))
    added_up = ValueSums(rows.shape[1], len(runs))
    chance = np.random.default_rng(7).gamma(2.0, size=here.shape)
    added_up.add(rows[here], reward, rows[after], (1.0 + here % 3) * chance if is_timed else None)
    return added_up


def only_run(chain, steps, seed=0):
    return next(chain.runs(1, steps, seed))


def plain_values(rows, here, reward, after):
    """The equation of the module, written down once more: centred values of all states, and weights."""
    phi, mean, gain = rows[here], rows[here].mean(axis=0), reward.mean()
    matrix = phi.T @ (phi - rows[after]) / len(here) + np.outer(mean, mean)
    weights = np.linalg.solve(matrix, phi.T @ (reward - gain) / len(here))
    return (rows - mean) @ weights, weights


def values_of(rows, total):
    """The same from added_up, with durations."""
    matrix, mean, reward_features, duration_features, reward, duration, _ = total.means
    right = reward_features - reward / duration * duration_features
    weights = np.linalg.solve(matrix + np.outer(mean, mean), right)
    return (rows - duration_features / duration) @ weights


@pytest.fixture(scope="module")
def walk():
    return Chain.named("random-walk-50")


class TestSums:
    @pytest.mark.parametrize("seed", range(3))
    def test_how_the_stream_is_cut_changes_no_bit(self, walk, seed):
        run, rng = only_run(walk, 20_000, seed), np.random.default_rng(seed)
        pieces = ValueSums(walk.rows.shape[1])
        for begin, end in pairwise([0, *np.sort(rng.integers(0, 20_000, 20)), 20_000]):
            piece = slice(begin, end)
            here, after = run.here[0, piece], run.next[0, piece]
            pieces.add(walk.rows[here], run.reward[0, piece], walk.rows[after])
        one, other = estimate_values(added(walk.rows, run)), estimate_values(pieces)
        assert one.weights.tobytes() == other.weights.tobytes()
        assert one.intervals(walk.rows).tobytes() == other.intervals(walk.rows).tobytes()

    def test_chains_together_are_their_sum(self, walk):
        runs = list(walk.runs(2, 3000, 0))
        both = together(walk.rows, runs)
        here, after, reward, _ = (np.concatenate(part, axis=1)[0] for part in zip(*runs, strict=True))
        values, _ = plain_values(walk.rows, here, reward, after)
        assert estimate_values(both).values(walk.rows) == pytest.approx(values, abs=1e-10)

    def test_bad_input_is_named(self):
        with pytest.raises(
            ValueError,
            match=f"1 to {MOST_LEAST_SQUARES_FEATURES} features, found {MOST_LEAST_SQUARES_FEATURES + 1}",
        ):
            ValueSums(MOST_LEAST_SQUARES_FEATURES + 1)
        added_up = ValueSums(2)
        rows = np.ones((3, 2))
        with pytest.raises(ValueError, match=r"features must have 1 chain\(s\) of rows of 2 number\(s\)"):
            added_up.add(np.ones((3, 4)), np.ones(3), rows)
        with pytest.raises(ValueError, match="equal lengths, found 3, 2 and 3"):
            added_up.add(rows, np.ones(2), rows)
        with pytest.raises(ValueError, match="rewards must be finite: look at chain 0, step 1"):
            added_up.add(rows, [0.0, np.inf, 0.0], rows)
        assert added_up.steps == 0
        with pytest.raises(ValueError, match="at least 2 batches, found 0"):
            estimate_values(added_up)


class TestEstimate:
    @pytest.mark.parametrize("name", ["random-walk-50", "river-swim", "mm1k-admission"])
    @pytest.mark.parametrize("steps", [997, 40_000])
    def test_values_are_those_of_the_equation(self, name, steps):
        chain = Chain.named(name)
        run = only_run(chain, steps)
        estimate = estimate_values(added(chain.rows, run))
        values, weights = plain_values(chain.rows, run.here[0], run.reward[0], run.next[0])
        assert estimate.values(chain.rows) == pytest.approx(values, abs=1e-8)
        assert estimate.weights == pytest.approx(weights, abs=1e-8)

    @pytest.mark.parametrize("is_timed", [True, False])
    @pytest.mark.parametrize("spans_constants", [True, False])
    def test_deviations_are_derivatives_by_the_weights_of_batches(self, walk, spans_constants, is_timed):
        rows = walk.rows if spans_constants else np.linspace(1.0, 2.0, len(walk.rows))[:, None]
        added_up = together(rows, [only_run(walk, 16_384)], is_timed)
        batches, (total, _) = added_up.batches(0), added_up.totals(0)
        estimate, share = estimate_values(added_up), 1e-6
        deviations = estimate.weight_deviations @ rows.T + estimate.offset_deviations[:, None]
        assert walk.problem.ones_in_span
        assert estimate.num_batches == len(batches) == 16
        for own, batch in zip(deviations, batches, strict=True):
            more, less = (
                values_of(rows, Moments(*(a + sign * b for a, b in zip(total, batch, strict=True))))
                for sign in (share, -share)
            )
            assert own == pytest.approx(16 * (more - less) / (2 * share), abs=1e-6)

    def test_standard_errors_are_the_spread_of_many_runs(self, walk):
        estimates = [estimate_values(added(walk.rows, run)) for run in walk.runs(200, 4000, 0)]
        spread = np.std([estimate.values(walk.rows) for estimate in estimates], axis=0)
        widths = np.mean([np.ptp(estimate.intervals(walk.rows), axis=1) for estimate in estimates], axis=0)
        # Two quantiles of Student's law with 15 to 30 degrees of freedom; the spread has an error of 5%.
        assert widths / spread == pytest.approx(4.2, rel=0.2)

    def test_features_that_span_no_constant_are_centred_too(self):
        process = birth_death(6)
        rows = np.arange(1.0, 7.0)[:, None]
        chain = Chain("no constant", gb.Problem(process, rows))
        low, high = estimate_values(added(rows, only_run(chain, 300_000))).intervals(rows).T
        assert not chain.problem.ones_in_span
        middle, half = (low + high) / 2, (high - low) / 2
        assert (np.abs(middle - chain.values) < 3 * half).all()
        assert (np.abs(middle - chain.problem.values) > 10 * half).all()

    def test_a_state_that_was_hardly_seen_has_no_interval(self):
        states = np.random.default_rng(0).integers(0, 3, 5000)
        states[100:103] = 3
        rows = np.eye(5)
        added_up = ValueSums(5)
        added_up.add(rows[states[:-1]], states[:-1], rows[states[1:]])
        estimate = estimate_values(added_up)
        counts = np.bincount(states[:-1], minlength=5)
        assert estimate.observations(rows)[:4] == pytest.approx(counts[:4])
        assert counts[3] < ENOUGH_OBSERVATIONS
        assert np.isfinite(estimate.intervals(rows)).all(axis=1).tolist() == [True] * 3 + [False] * 2

    def test_features_given_twice_change_no_value(self, walk):
        run = only_run(walk, 5000)
        twice = np.hstack([walk.rows, walk.rows[:, :1]])
        one, other = estimate_values(added(walk.rows, run)), estimate_values(added(twice, run))
        assert other.values(twice) == pytest.approx(one.values(walk.rows), abs=1e-7)
        assert other.intervals(twice) == pytest.approx(one.intervals(walk.rows), abs=1e-7)

    def test_scaled_features_change_no_value(self, walk):
        run, scale = only_run(walk, 5000), np.logspace(-6, 6, walk.rows.shape[1])
        one = estimate_values(added(walk.rows, run))
        other = estimate_values(added(walk.rows * scale, run))
        assert other.intervals(walk.rows * scale) == pytest.approx(one.intervals(walk.rows), abs=1e-6)

    def test_the_transient_is_left_out(self, walk):
        run = only_run(walk, 20_000)
        added_up = ValueSums(walk.rows.shape[1])
        strange = run.reward.copy()
        strange[0, :1000] += 100.0 * (run.here[0, :1000] % 2)
        added_up.add(walk.rows[run.here], strange, walk.rows[run.next])
        cut = -(-1000 // added_up.batch_size) * added_up.batch_size
        values, _ = plain_values(walk.rows, run.here[0, cut:], run.reward[0, cut:], run.next[0, cut:])
        assert estimate_values(added_up, transient=1000).values(walk.rows) == pytest.approx(values, abs=1e-9)
        assert np.abs(estimate_values(added_up).values(walk.rows) - values).max() > 0.1

    def test_a_short_run_is_flagged_by_the_time_of_its_values(self):
        chain = Chain.named("mm1k-admission")  # its values remember 60 times longer than its rewards
        short, long = (only_run(chain, int(times * chain.slowest_time)) for times in (200, 1500))
        flagged = estimate_values(added(chain.rows, short))
        assert "times of the values" in flagged.warnings[0]
        assert flagged.num_batches <= 200 / 12 * 1.25
        estimate = estimate_values(added(chain.rows, long))
        assert not estimate.warnings
        assert VALUE_BATCHES / 2 <= estimate.num_batches < VALUE_BATCHES
        assert estimate.effective_sample_size == pytest.approx(1500, rel=0.25)

    @pytest.mark.parametrize(("times", "fewest", "most"), [(400, 16, 31), (50, 2, 6)])
    def test_many_chains_have_as_many_times(self, times, fewest, most):
        chain = Chain.named("mm1k-admission")
        added_up = together(chain.rows, list(chain.runs(4, int(times * chain.slowest_time), 0)))
        estimate = estimate_values(added_up)
        assert estimate.effective_sample_size == pytest.approx(4 * times, rel=0.3)
        assert fewest <= estimate.num_batches <= most


class TestSparse:
    @pytest.mark.parametrize("name", ["random-walk-50", "machine-replacement"])
    @pytest.mark.parametrize("num_chains", [1, 3])
    def test_the_same_as_dense(self, name, num_chains):
        chain = Chain.named(name)
        runs = list(chain.runs(num_chains, 20_000, 0))
        rows = sparse.csr_array(chain.rows)
        here, after, reward, _ = (np.concatenate(part) for part in zip(*runs, strict=True))
        added_up = SparseValueSums(chain.rows.shape[1], num_chains)
        for begin, end in pairwise([0, 1, 700, 701, 9_000, 20_000]):
            part = slice(begin, end)
            added_up.add(rows[here[:, part].ravel()], reward[:, part], rows[after[:, part].ravel()])
        assert added_up.steps == 20_000
        sparsely, densely = estimate_values(added_up), estimate_values(together(chain.rows, runs))
        assert sparsely.weights == pytest.approx(densely.weights, abs=1e-9)
        assert sparsely.intervals(rows) == pytest.approx(densely.intervals(chain.rows), abs=1e-7)
        assert sparsely.observations(rows) == pytest.approx(densely.observations(chain.rows), rel=1e-6)
        assert sparsely.effective_sample_size == pytest.approx(densely.effective_sample_size, rel=0.1)

    @pytest.mark.parametrize("few", [0, 128])
    @pytest.mark.parametrize("num_chains", [1, 3])
    def test_tabular_ones_too(self, few, num_chains, monkeypatch):
        monkeypatch.setattr(sums, "FEW_SUMMED_STATES", few)
        chain = Chain.named("machine-replacement")  # not reversible
        runs = list(chain.runs(num_chains, 20_000, 0))
        here, after, reward, _ = (np.concatenate(part) for part in zip(*runs, strict=True))
        added_up = TabularValueSums(chain.rows.shape[1], num_chains)
        for begin, end in pairwise([0, 1, 700, 701, 9_000, 20_000]):
            part = slice(begin, end)
            added_up.add(here[:, part], reward[:, part], after[:, part])
        table, densely = estimate_values(added_up), estimate_values(together(np.eye(len(chain.rows)), runs))
        rows = sparse.eye_array(len(chain.rows), format="csr")
        assert table.weights == pytest.approx(densely.weights, abs=1e-9)
        assert table.intervals(rows) == pytest.approx(densely.intervals(rows.toarray()), abs=1e-7)
        assert table.observations(rows) == pytest.approx(densely.observations(rows.toarray()), rel=1e-6)

    @pytest.mark.parametrize("is_timed", [False, True])
    def test_a_table_of_few_states_is_that_of_many(self, is_timed, monkeypatch):
        rng = np.random.default_rng(0)
        here, after = rng.integers(0, 7, (2, 9_000))
        rewards, lasted = rng.normal(size=9_000), rng.gamma(2.0, size=9_000)
        made = []
        for few in (128, 0):
            monkeypatch.setattr(sums, "FEW_SUMMED_STATES", few)
            table = TabularValueSums(7)
            for part in np.array_split(np.arange(9_000), 5):
                table.add(here[part], rewards[part], after[part], lasted[part] if is_timed else None)
            moments, squares = table.totals(0)
            matrix = moments.matrix if few else moments.matrix.toarray()
            made.append([np.asarray(part).tobytes() for part in (matrix, *moments[1:], squares)])
        assert made[0] == made[1]
        assert moments.duration == pytest.approx(lasted.sum() if is_timed else 9_000)

    @pytest.mark.kernels
    @pytest.mark.parametrize("is_timed", [False, True])
    def test_steps_are_added_one_by_one_and_at_once(self, is_timed):
        rng = np.random.default_rng(1)
        here, after = rng.integers(0, 4, (2, 200))
        rewards, lasted = rng.normal(size=200), rng.gamma(2.0, size=200 if is_timed else 0)
        rewards[rng.random(200) < 0.5] = -0.0
        made = []
        for add in (add_steps, getattr(add_steps, "py_func", add_steps), add_steps_at_once):
            tables = np.zeros((5, 5)), np.zeros(5), np.zeros(5)
            add(here, after, rewards, lasted, *tables)
            made.append([table.tobytes() for table in tables])
        assert made[0] == made[1] == made[2]
        assert tables[0][2, 3] == np.count_nonzero((here == 2) & (after == 3))
        assert tables[1][2] == pytest.approx(rewards[here == 2].sum())
        assert tables[2][2] == pytest.approx(lasted[here == 2].sum() if is_timed else 0.0)

    @pytest.mark.parametrize("few", [0, 128])
    @pytest.mark.parametrize("is_timed", [False, True])
    @pytest.mark.parametrize("num_chains", [1, 3])
    def test_features_in_a_table_are_like_dense_ones(self, few, is_timed, num_chains, monkeypatch):
        monkeypatch.setattr(sums, "FEW_SUMMED_STATES", few)
        monkeypatch.setattr(sums, "STATES_PER_STEP", 2)  # features are added up both ways
        chain = Chain.named("machine-replacement")
        table = np.random.default_rng(0).normal(size=(len(chain.rows), 5))
        here, after, reward, _ = (
            np.concatenate(p) for p in zip(*chain.runs(num_chains, 9_000, 0), strict=True)
        )
        lasted = 1.0 + here if is_timed else None
        found, totals = [], []
        for added_up in (TableValueSums(table, num_chains), ValueSums(5, num_chains)):
            for begin, end in pairwise([0, 1, 700, 701, 9_000]):
                part = np.s_[:, begin:end]
                states = [table[here[part]], table[after[part]]] if len(found) else [here[part], after[part]]
                added_up.add(states[0], reward[part], states[1], None if lasted is None else lasted[part])
            found.append(estimate_values(added_up, transient=100))
            totals.append([added_up.totals(skipped) for skipped in (0, 2, 0)])
        for (moments, squares), (others, of_others) in zip(*totals, strict=True):
            assert np.asarray(moments.matrix) == pytest.approx(others.matrix, abs=1e-6)
            assert moments.reward_features == pytest.approx(others.reward_features, abs=1e-6)
            assert squares == pytest.approx(of_others, abs=1e-6)
        counted, densely = found
        assert np.isfinite(densely.intervals(table)).all()
        assert counted.weights == pytest.approx(densely.weights, abs=1e-9)
        assert counted.offset == pytest.approx(densely.offset, abs=1e-9)
        assert counted.intervals(table) == pytest.approx(densely.intervals(table), abs=1e-8)
        assert counted.observations(table) == pytest.approx(densely.observations(table), rel=1e-9)
        assert counted.effective_sample_size == pytest.approx(densely.effective_sample_size, rel=1e-9)

    def test_pieces_end_where_batches_become_longer(self):
        table = TabularValueSums(3)
        rng = np.random.default_rng(0)
        for _ in range(60):
            here, after = rng.integers(0, 3, (2, rng.integers(1, 500)))
            table.add(here, here, after)
            assert table.batch_size == sums._size_after(table.fine.steps, sums.VALUE_BATCHES)
            assert table.fine.size == sums._size_after(table.fine.steps, table.fine.capacity)
        assert table.batch_size == 512

    def test_many_features_are_solved_the_other_way(self, walk, monkeypatch):
        run = only_run(walk, 5000)
        twice = np.hstack([walk.rows, walk.rows[:, :1], np.zeros_like(walk.rows[:, :1])])
        one = estimate_values(added(twice, run))
        monkeypatch.setattr(least_squares, "MOST_DECOMPOSED", 2)
        other = estimate_values(added(twice, run))
        assert other.values(twice) == pytest.approx(one.values(twice), abs=1e-6)
        assert other.intervals(twice) == pytest.approx(one.intervals(twice), abs=1e-6)

    def test_what_was_never_seen_weighs_nothing(self):
        states = np.random.default_rng(0).integers(0, 3, 5000)
        rows = sparse.eye_array(4, format="csr")
        added_up, table = SparseValueSums(4), TabularValueSums(4)
        added_up.add(rows[states[:-1]], states[:-1], rows[states[1:]])
        table.add(states[:-1], states[:-1], states[1:])
        for found in (added_up, table):
            assert (estimate_values(found).observations(rows) < 1e-6).tolist() == [False] * 3 + [True]
