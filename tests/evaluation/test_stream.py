"""From paths to transitions, and from observations to features."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import sparse

import gainbias as gb
from gainbias.evaluation.observations import observation_map
from gainbias.evaluation.sources.spaces import Limits
from gainbias.evaluation.stream import Left, ObservedSteps, Path, joined

KINDS = some.lists(some.sampled_from([Left.BY_STEP, Left.BY_STEP, Left.BY_END, Left.BY_CUT]), min_size=2)


def path_of(kinds, chain=0):
    size = len(kinds)
    return Path(np.arange(size), np.arange(1.0, size + 1.0), np.array(kinds, dtype=np.int8), chain)


def plainly(kinds, on_termination):
    """The transitions one by one: (here, after, reward, segment), with None for the end."""
    found, segment = [], 0
    for row, kind in enumerate(kinds):
        last = row == len(kinds) - 1
        if kind == Left.BY_CUT:
            segment += 1
        elif kind == Left.BY_END and on_termination == "zero":
            found.append((row, None, row + 1.0, segment))
            if not last:
                found.append((None, row + 1, 0.0, segment))
        elif not last:
            found.append((row, row + 1, row + 1.0, segment))
    return found


def listed(all_steps):
    found = []
    for steps in all_steps:
        names = [*steps.observations.tolist(), None]
        columns = (steps.here, steps.after, steps.rewards, steps.segments)
        for here, after, reward, segment in zip(*columns, strict=True):
            found.append((names[here], names[after], float(reward), int(segment)))
    return found


class TestJoined:
    @given(kinds=KINDS, pieces=some.lists(some.integers(1, 5)), rule=some.sampled_from(["zero", "reward"]))
    def test_as_one_by_one_for_any_pieces(self, kinds, pieces, rule):
        path = path_of(kinds)
        edges = np.minimum(np.cumsum([0, *pieces, len(kinds)]), len(kinds))
        parts = [path.part(slice(a, b)) for a, b in pairwise(edges) if b > a]
        assert listed(joined(parts, rule, [])) == plainly(kinds, rule)

    def test_chains_are_kept_apart(self):
        kinds = [Left.BY_STEP, Left.BY_CUT, Left.BY_STEP, Left.BY_STEP]
        parts = [
            path_of(kinds, chain=chain).part(rows) for rows in (slice(0, 2), slice(2, 4)) for chain in (0, 1)
        ]
        all_steps = list(joined(parts, "zero", []))
        for chain in (0, 1):
            assert listed(steps for steps in all_steps if steps.chain == chain) == plainly(kinds, "zero")


def steps_over(observations):
    """One step, one end and the way back."""
    here, after = np.array([0, 1, 2]), np.array([1, 2, 0])
    return ObservedSteps(observations, here, after, np.ones(3), np.zeros(3, dtype=np.int64), 0)


def box(*pairs):
    low, high = np.array(pairs, dtype=float).T
    return Limits(low.shape, low, high, whole=False)


class TestObservations:
    def test_integers_are_states(self):
        limits = Limits((), np.array(3.0), np.array(5.0), whole=True)
        seen = observation_map(limits, "auto", np.array([3]), "zero")
        found = seen(steps_over(np.array([5, 3])))
        assert found.rows is None
        assert (found.here.tolist(), found.after.tolist()) == ([2, 0, 3], [0, 3, 2])
        assert seen.is_tabular
        assert seen.num_features == 4
        assert observation_map(limits, gb.Tabular(), np.array([3]), "reward").num_features == 3
        with pytest.raises(ValueError, match="no rows of features"):
            found.here_rows  # noqa: B018

    def test_several_integers_are_numbered(self):
        limits = Limits((2,), np.array([0.0, 1.0]), np.array([1.0, 3.0]), whole=True)
        every = np.array([[a, b] for a in (0, 1) for b in (1, 2, 3)])
        seen = observation_map(limits, "auto", every, "zero")
        assert seen.states(every).tolist() == list(range(6))
        huge = Limits((40,), np.zeros(40), np.ones(40), whole=True)
        numbered = observation_map(huge, "auto", np.zeros((1, 40)), "zero")
        assert numbered.states(np.eye(40)[[3, 7, 3]]).tolist() == [0, 1, 0]
        with pytest.raises(ValueError, match=r"different observations.*pass features"):
            observation_map(huge, np.zeros((2, 1)), np.zeros((1, 40)), "zero")

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    def test_a_matrix(self, form):
        matrix = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 2.0]])
        limits = Limits((), np.array(0.0), np.array(2.0), whole=True)
        found = observation_map(limits, form(matrix), np.array([0]), "zero")(steps_over(np.array([2, 1])))
        after = found.after_rows
        after = after if isinstance(after, np.ndarray) else after.toarray()
        assert (after * 2.0).tolist() == [[0.5, 0.5], [0.0, 0.0], [0.0, 2.0]]
        with pytest.raises(ValueError, match="have 3 rows, one for each of 2"):
            observation_map(
                Limits((), np.array(0.0), np.array(1.0), True), form(matrix), np.array([0]), "zero"
            )
        with pytest.raises(ValueError, match="needs discrete observations"):
            observation_map(box((0, 1)), form(matrix), np.zeros((1, 1)), "zero")

    @pytest.mark.parametrize(
        ("dimensions", "words", "width"),
        [
            (1, "tile coding", 136),
            (2, "tile coding", 648),
            (3, "tile coding", 1372),
            (4, "polynomials of degree 3", 35),
            (17, "polynomials of degree 3", 1140),
            (30, "polynomials of degree 2", 496),
            (100, "polynomials of degree 1", 101),
        ],
    )
    def test_automatic(self, dimensions, words, width):
        observations = np.random.default_rng(0).uniform(size=(20, dimensions))
        seen = observation_map(box(*[(0, 1)] * dimensions), "auto", observations, "zero")
        assert seen.description.startswith(words)
        assert seen.num_features == width
        rows = seen.rows(observations)
        assert rows.shape == (20, width)
        assert "first" not in seen.description

    def test_bounds_that_are_missing_come_from_the_first_observations(self):
        first = np.array([[10.0, 0.2], [14.0, 0.3]])
        seen = observation_map(box((-np.inf, 3.4e38), (0, 1)), "auto", first, "zero")
        assert "bounds of 1 of 2 numbers taken from the first 2 observations" in seen.description
        rows = seen.rows(np.array([[8.0, 0.5], [7.9, 0.5], [16.0, 0.5], [99.0, 0.5], [9.5, 0.5]])).toarray()
        assert not np.array_equal(rows[0], rows[4])
        assert np.array_equal(rows[0], rows[1])
        assert np.array_equal(rows[2], rows[3])
        assert not np.array_equal(rows[0], rows[2])

    def test_numbers_that_never_change(self):
        first = np.full((5, 2), 3.0)
        assert observation_map(box((-np.inf, np.inf), (3, 3)), "auto", first, "zero").num_features == 648

    def test_too_many_numbers(self):
        with pytest.raises(ValueError, match="5000 numbers are too many"):
            observation_map(box(*[(0, 1)] * 5000), "auto", np.zeros((1, 5000)), "zero")

    def test_a_map_and_a_function(self):
        observations = np.array([[0.1], [0.9]])
        fourier = gb.FourierBasis(0.0, 1.0, order=2)
        for features in (fourier, lambda seen: fourier(seen), lambda seen: sparse.coo_array(fourier(seen))):
            found = observation_map(box((0, 1)), features, observations, "zero")(steps_over(observations))
            rows = found.after_rows
            rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
            assert rows == pytest.approx(np.vstack([fourier([0.9]), np.zeros(3), fourier([0.1])]))
        with pytest.raises(ValueError, match="made for 1 numbers, observations have 2"):
            observation_map(box((0, 1), (0, 1)), fourier, np.zeros((1, 2)), "zero")

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            (lambda seen: seen[0], r"must have shape \(3, d\), found \(1,\)"),
            (lambda seen: seen / 0.0, "finite"),
            (lambda seen: 1 / 0, "ZeroDivisionError"),
            (gb.Tabular(), "need discrete observations"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:divide by zero")
    def test_wrong_features(self, features, message):
        with pytest.raises(ValueError, match=message):
            observation_map(box((0, 1)), features, np.ones((3, 1)), "zero")

    def test_an_end_loses_nothing(self):
        """Relative values are the same whether the end has its own state or features that are all 0."""
        moves = np.array([[0.0, 0.6, 0.4], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])  # state 2 is the end
        rewards = np.array([1.0, 3.0, 0.0])
        law = gb.solve(gb.MarkovRewardProcess(moves, rewards)).stationary
        features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        weighted = features.T @ np.diag(law)
        weights = np.linalg.solve(
            weighted @ (np.eye(3) - moves) @ features, weighted @ (rewards - law @ rewards)
        )
        values = features @ weights
        bias = gb.solve(gb.MarkovRewardProcess(moves, rewards)).bias
        assert values - law @ values == pytest.approx(bias, abs=1e-12)
