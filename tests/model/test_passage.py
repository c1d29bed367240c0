"""Hitting times and probabilities: against rational numbers, closed forms, and what the structure decides."""

import math

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import gainbias as gb
from gainbias.model.doubled import Doubled
from gainbias.model.solve import leaking
from gainbias.model.solve.leaking import with_leaking_chain
from gainbias.model.solve.solution import Budget
from gainbias.progress import Watch
from tests.oracles.exact import assert_within, exact_probabilities, exact_times, fraction

TIGHT = Budget(max_memory=1.0, watch=Watch())


def process(transitions, rate_rewards=None, **options):
    size = np.shape(transitions)[0]
    if rate_rewards is not None:
        return gb.MarkovRewardProcess.from_rates(transitions, rate_rewards)
    return gb.MarkovRewardProcess(transitions, np.zeros(size), **options)


def random_rows(rng, size, decades, density=0.6):
    """Return positive weights over several decades, with a cycle through all states."""
    rows = 10.0 ** (-decades * rng.random((size, size))) * (rng.random((size, size)) < density)
    rows[np.arange(size), (np.arange(size) + 1) % size] += 10.0 ** (-decades * rng.random(size))
    np.fill_diagonal(rows, 0.0)
    return rows


def random_process(seed, decades=0.0, staying=True):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, int(rng.integers(2, 9)), decades)
    if not staying:
        return process(rows / rows.sum(axis=1, keepdims=True))
    rows /= 1.3 * rows.sum(axis=1).max()
    return process(rows + np.diag(1.0 - rows.sum(axis=1)))


def birth_death(births, deaths):
    """Return a process on 0..n with the given probabilities of going up and down."""
    size = len(births) + 1
    rows = np.zeros((size, size))
    rows[np.arange(size - 1), np.arange(1, size)] = births
    rows[np.arange(1, size), np.arange(size - 1)] = deaths
    return process(rows + np.diag(1.0 - rows.sum(axis=1)))


def assert_times_are_exact(mrp, targets):
    targets = list(targets)
    inside = [s for s in range(mrp.num_states) if s not in targets]
    times = gb.hitting_times(mrp, targets)
    mean, variance = exact_times(mrp, targets, inside)
    assert_within(times.mean[inside], times.mean_error[inside], mean)
    assert_within(times.variance[inside], times.variance_error[inside], variance, times.mean.max() ** 2)
    assert not times.mean[targets].any()
    assert not times.variance_error[targets].any()


class TestTimesAgainstRationalNumbers:
    @pytest.mark.parametrize("decades", [0.0, 3.0, 12.0, 25.0])
    @pytest.mark.parametrize("staying", [True, False])
    def test_random_chains(self, decades, staying):
        for seed in range(5):
            mrp = random_process(seed, decades, staying)
            assert_times_are_exact(mrp, [seed % mrp.num_states])

    def test_each_entry_has_its_digits_over_25_decades(self):
        for seed in range(10):
            times = gb.hitting_times(random_process(seed, 25.0), 0)
            assert np.all(times.mean_error[1:] <= 2e-16 * times.mean[1:])
            assert np.all(times.variance_error[1:] <= 1e-14 * times.variance[1:])

    def test_several_targets_and_transient_states(self):
        rng = np.random.default_rng(3)
        rows = random_rows(rng, 8, 2.0)
        rows[:5, 5:] *= rng.random((5, 3)) < 0.5
        rows[5:, :5] = 0.0
        assert_times_are_exact(process(rows, renormalise=True), [1, 6])

    @pytest.mark.parametrize("seed", range(4))
    def test_continuous_time(self, seed):
        rng = np.random.default_rng(seed)
        rates = random_rows(rng, 6, 20.0) * 7.3
        mrp = process(rates - np.diag(rates.sum(axis=1)), np.zeros(6))
        assert_times_are_exact(mrp, [2])

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def test_any_small_chain(self, data):
        size = data.draw(st.integers(2, 5))
        weights = st.one_of(st.just(0.0), st.floats(1e-12, 1.0))
        rows = np.array(data.draw(st.lists(weights, min_size=size**2, max_size=size**2))).reshape(size, size)
        rows[np.arange(size), (np.arange(size) + 1) % size] += 0.1
        mrp = process(rows, renormalise=True)
        targets = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size - 1))
        assert_times_are_exact(mrp, targets)


@pytest.mark.kernels
class TestClosedForms:
    def test_a_geometric_time(self):
        times = gb.hitting_times(process([[1 - 2.0**-40, 2.0**-40], [0.0, 1.0]]), 1)
        assert times.mean.tolist() == [2.0**40, 0.0]
        assert times.variance[0] == pytest.approx(2.0**80 - 2.0**40, rel=1e-15)

    def test_an_exponential_time(self):
        times = gb.hitting_times(process([[-0.3, 0.3], [0.0, 0.0]], [0.0, 0.0]), [1])
        assert times.mean[0] == pytest.approx(1 / 0.3, rel=1e-15)
        assert times.variance[0] == pytest.approx(1 / 0.09, rel=1e-15)

    def test_a_walk_with_a_certain_way_takes_a_certain_time(self):
        times = gb.hitting_times(process(np.roll(np.eye(50), 1, axis=1)), 0)
        assert times.mean.tolist() == [0.0, *range(49, 0, -1)]
        assert not times.variance.any()
        assert times.variance_error.max() < 1e-25

    def test_birth_and_death_down_to_the_ground(self):
        # From k to k - 1 it takes (sum over j >= k of the law at j) / (law at k times the way down from k).
        births, deaths = np.full(30, 0.25), np.full(30, 0.5)
        law = 0.5 ** np.arange(31)
        down = [law[k:].sum() / (law[k] * 0.5) for k in range(1, 31)]
        times = gb.hitting_times(birth_death(births, deaths), 0)
        assert times.mean[1:] == pytest.approx(np.cumsum(down), rel=1e-14)

    @pytest.mark.parametrize("up", [0.1, 0.3])
    def test_a_walk_against_the_wind(self, up):
        """From 0 to 20 against odds of 9 it takes about 1e20 steps, and digits of the bound."""
        mrp = birth_death(np.full(20, up), np.full(20, 1.0 - up))
        times = gb.hitting_times(mrp, 20)
        (mean, *_), (variance, *_) = exact_times(mrp, [20], range(20))
        assert abs(fraction(times.mean[0]) - mean) <= fraction(times.mean_error[0])
        assert abs(fraction(times.variance[0]) - variance) <= fraction(times.variance_error[0])
        assert times.mean_error[0] < 1e-9 * times.mean[0]

    @pytest.mark.parametrize(("size", "up"), [(20, 0.01), (50, 0.001), (99, 0.001)])
    def test_walks_too_long_for_a_residual(self, size, up):
        """From 1e40 to 1e297 steps: elimination has them right where no residual can tell."""
        mrp = birth_death(np.full(size, up), np.full(size, 1.0 - up))
        times = gb.hitting_times(mrp, size)
        mean, _ = exact_times(mrp, [size], range(size))
        for found, error, exact in zip(times.mean, times.mean_error, mean, strict=False):
            assert abs(fraction(found) - exact) <= fraction(error) <= fraction(1e-6) * exact

    def test_a_walk_of_1e450_steps_is_refused(self):
        with pytest.raises(gb.ConvergenceError, match="numbers leave the range of double precision"):
            gb.hitting_times(birth_death(np.full(150, 0.001), np.full(150, 0.999)), 150)

    def test_a_variance_may_leave_the_range_of_double_precision_alone(self):
        times = gb.hitting_times(process([[1.0, 1e-200], [0.0, 1.0]]), 1)
        assert times.mean[0] == pytest.approx(1e200, rel=1e-15)
        assert times.variance[0] == times.variance_error[0] == np.inf
        assert "nothing is known about the variance" in times.notes[-1]

    @pytest.mark.parametrize("up", [0.5, 0.4, 0.6, 0.1])
    def test_the_ruin_of_a_gambler(self, up):
        size = 20
        rows = np.diag(np.full(size, up), 1) + np.diag(np.full(size, 1.0 - up), -1)
        rows[0], rows[size] = np.eye(size + 1)[0], np.eye(size + 1)[size]
        ruin = gb.hitting_probabilities(process(rows), 0)
        odds = (fraction(1.0 - up)) / fraction(up)
        powers = [odds**k for k in range(size + 1)]
        all_of_them = sum(powers[:size], fraction(0))
        exact = [1 - sum(powers[:k], fraction(0)) / all_of_them for k in range(size + 1)]
        assert_within(ruin.probability, ruin.error, exact)
        assert (ruin.probability[0], ruin.probability[size]) == (1.0, 0.0)
        assert ruin.error[0] == ruin.error[size] == 0.0


class TestProbabilities:
    @pytest.mark.parametrize("seed", range(12))
    def test_random_chains_with_several_ends(self, seed):
        rng = np.random.default_rng(seed)
        rows = random_rows(rng, 9, float(rng.choice([0.0, 5.0, 20.0])))
        rows[6:] = np.eye(9)[6:]
        rows[:3, 6:] += 10.0 ** (-20.0 * rng.random((3, 3)))
        mrp = process(rows, renormalise=True)
        found = gb.hitting_probabilities(mrp, [7])
        exact = exact_probabilities(mrp, [7], range(6))
        assert_within(found.probability[:6], found.error[:6], exact)
        assert np.all(found.error[:6] <= 1e-15 * found.probability[:6])
        assert found.probability[6:].tolist() == [0.0, 1.0, 0.0]

    def test_they_sum_to_one_over_the_ends(self):
        rows = random_rows(np.random.default_rng(0), 8, 1.0)
        rows[6:] = np.eye(8)[6:]
        rows[0, 6:] = 1.0
        mrp = process(rows, renormalise=True)
        both = [gb.hitting_probabilities(mrp, end) for end in (6, 7)]
        total = both[0].probability + both[1].probability
        assert np.all(np.abs(total - 1.0) <= both[0].error + both[1].error + 3e-16)


@pytest.mark.kernels
class TestStructure:
    #      0 -> 1 <-> 2 -> 3 (absorbing), 0 -> 4 (absorbing), 5 -> 3
    CHAIN = np.array(
        [
            [0.0, 0.5, 0.0, 0.0, 0.5, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            [0.0, 0.5, 0.0, 0.5, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        ]
    )

    def test_what_is_not_certain_takes_for_ever(self):
        times = gb.hitting_times(process(self.CHAIN), 3)
        assert times.mean.tolist() == [np.inf, 4.0, 3.0, 0.0, np.inf, 1.0]
        assert times.variance.tolist() == [np.inf, 8.0, 8.0, 0.0, np.inf, 0.0]
        assert times.mean_error[[0, 4]].tolist() == times.variance_error[[0, 4]].tolist() == [0.0, 0.0]

    def test_probabilities_are_exactly_zero_or_one_where_it_is_certain(self):
        found = gb.hitting_probabilities(process(self.CHAIN), 3)
        assert found.probability.tolist() == [0.5, 1.0, 1.0, 1.0, 0.0, 1.0]
        assert found.error[1:].tolist() == [0.0] * 5

    def test_a_way_around_behind_the_target_does_not_count(self):
        """State 1 leads to 0 only through the target 2."""
        rows = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]
        assert gb.hitting_probabilities(process(rows), 2).probability.tolist() == [0.0, 1.0, 1.0]
        assert gb.hitting_times(process(rows), 2).mean.tolist() == [np.inf, 1.0, 0.0]

    def test_nothing_has_to_be_solved(self):
        never = gb.hitting_times(process(np.eye(3)), [0])
        assert (never.method, never.mean.tolist()) == ("structure", [0.0, np.inf, np.inf])
        assert gb.hitting_probabilities(process(np.eye(3)), [0]).method == "structure"

    def test_a_probability_of_1e_300_is_no_zero(self):
        rows = np.array([[1.0 - 2e-300, 1e-300, 1e-300], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        found = gb.hitting_probabilities(process(rows), 1)
        assert found.probability[0] == pytest.approx(0.5)
        assert gb.hitting_times(process(rows), [1, 2]).mean[0] == pytest.approx(5e299)


class TestTargets:
    LABELLED = process(np.full((3, 3), 1 / 3), labels=["a", "b", ("c", 1)])
    NUMBERED = process(np.full((3, 3), 1 / 3), labels=[10, 20, 1])
    PLAIN = process(np.full((3, 3), 1 / 3))

    @pytest.mark.parametrize("targets", [1, np.int64(1), [1], (1,), {1}, np.array([1]), [False, True, False]])
    def test_states_by_number_and_as_a_mask(self, targets):
        assert gb.hitting_times(self.PLAIN, targets).targets.tolist() == [False, True, False]

    def test_states_by_label(self):
        assert gb.hitting_times(self.LABELLED, "b").targets.tolist() == [False, True, False]
        assert gb.hitting_times(self.LABELLED, ("c", 1)).targets.tolist() == [False, False, True]
        assert gb.hitting_times(self.LABELLED, ["a", ("c", 1)]).targets.tolist() == [True, False, True]
        assert gb.hitting_times(self.LABELLED, 2).targets.tolist() == [False, False, True]

    def test_numbers_that_are_labels_are_labels(self):
        assert gb.hitting_times(self.NUMBERED, 1).targets.tolist() == [False, False, True]
        with pytest.raises(
            ValueError, match="targets holds 2, which is not the label of a state: the labels"
        ):
            gb.hitting_times(self.NUMBERED, 2)

    @pytest.mark.parametrize(
        ("targets", "message"),
        [
            (3, "targets holds 3, states are numbered from 0 to 2"),
            (-1, "targets holds -1, states are numbered from 0 to 2"),
            ([], "targets is empty: name at least one state"),
            ([False] * 3, "targets is empty"),
            ([0, 1, 2], "all 3 states are targets, so every hitting time is 0"),
            (math.nan, "must be numbers of states, whole and not bool, found nan"),
            (1.0, "must be numbers of states, whole and not bool, found 1.0"),
            (True, "or be a mask of 3 truth values, one for each state, found True"),
            ([True, False], "or be a mask of 3 truth values"),
            ([1, True], "whole and not bool, found True"),
            ("a", "found 'a': the process has no labels"),
            (None, "found None"),
            (np.eye(3), "targets must be a list of states, found an array of shape"),
        ],
    )
    def test_what_is_no_state_is_refused_in_words(self, targets, message):
        for function in (gb.hitting_times, gb.hitting_probabilities):
            with pytest.raises(ValueError, match=message):
                function(self.PLAIN, targets)

    def test_a_label_that_does_not_exist(self):
        with pytest.raises(
            ValueError, match="targets holds 'z', which is not the label of a state: the labels"
        ):
            gb.hitting_times(self.LABELLED, ["z"])

    def test_something_else_than_a_process(self):
        with pytest.raises(ValueError, match="hitting_times takes a MarkovRewardProcess, not ndarray"):
            gb.hitting_times(np.eye(2), 0)


class TestMethods:
    @staticmethod
    def expander(size=600):
        rng = np.random.default_rng(0)
        rows, columns = np.repeat(np.arange(size), 5), rng.integers(0, size, 5 * size)
        return process(
            sparse.csr_array((rng.random(5 * size), (rows, columns)), shape=(size, size)), renormalise=True
        )

    def test_a_method_that_iterates_has_bounds_that_hold(self):
        """Where no elimination fits, the same answer comes within the same kind of bound."""
        mrp = self.expander()
        direct = gb.hitting_times(mrp, 0)

        def work(chain):
            assert chain.method == "krylov"
            return chain.solve_for(Doubled(np.ones(len(chain.states))))

        inside = np.flatnonzero(np.isfinite(direct.mean) & ~direct.targets)
        x, error = with_leaking_chain(mrp.csr, inside, work, what="a test", budget=TIGHT)
        assert direct.method == "sparse-gth"
        assert np.all(
            np.abs(x.high - direct.mean)[inside] <= error + np.abs(x.rest[inside]) + direct.mean_error[inside]
        )
        assert error.max() < 1e-13 * x.high.max()

    @pytest.mark.parametrize("budget", [None, TIGHT], ids=["sparse-gth", "krylov"])
    @pytest.mark.parametrize("leak", [0.0, 1e-3])
    def test_a_majorant_is_above_the_solution(self, leak, budget):
        mrp = self.expander()
        wanted = np.random.default_rng(1).random(599) ** 8 + 1e-12
        found = with_leaking_chain(
            mrp.csr,
            np.arange(1, 600),
            lambda chain: chain.majorant(wanted),
            what="a test",
            leak=(leak, 0.0),
            scale=1.0 - leak,
            budget=budget,
        )
        inner = np.eye(599) - (1.0 - leak) * mrp.csr.toarray()[1:, 1:]
        assert np.all(found >= np.linalg.solve(inner, wanted) * (1.0 - 1e-10))

    def test_a_chain_that_no_method_solves(self):
        """A long walk without drift, and no memory: the message says what was tried and what to do."""
        size = 2_000
        rows = sparse.diags_array([np.full(size - 1, 0.5), np.full(size - 1, 0.5)], offsets=[1, -1]).tolil()
        rows[0, 0] = rows[size - 1, size - 1] = 0.5
        mrp = process(rows.tocsr())
        with pytest.raises(gb.ConvergenceError, match="no method found a useful digit of a test") as caught:
            with_leaking_chain(
                mrp.csr,
                np.arange(1, size),
                lambda chain: chain.solve_for(Doubled(np.ones(size - 1))),
                what="a test",
                budget=TIGHT,
            )
        assert "krylov: GMRES reached a residual" in str(caught.value)
        assert "What to do:" in str(caught.value)

    def test_a_solver_that_is_wrong_has_a_large_bound(self, monkeypatch):
        """The bound is measured: nothing about the factorisation is assumed."""
        mrp, plain = random_process(1), leaking.factorise_chain

        class Sloppy:
            def __init__(self, *args):
                self.factors = plain(*args)

            def solve(self, right):
                return self.factors.solve(right) * (1.0 + 0.01 * np.cos(np.arange(len(right))))

        monkeypatch.setattr(leaking, "factorise_chain", Sloppy)
        monkeypatch.setattr(leaking, "MOST_REFINEMENTS", 2)
        times = gb.hitting_times(mrp, 0)
        exact, _ = exact_times(mrp, [0], range(1, mrp.num_states))
        assert_within(times.mean[1:], times.mean_error[1:], exact)
        assert times.mean_error.max() > 1e-3
