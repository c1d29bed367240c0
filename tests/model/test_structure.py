"""Classes, transient states and periods, against brute force on small graphs."""

import math
import time

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gainbias import MarkovRewardProcess


@st.composite
def digraphs(draw):
    """Adjacency matrices in which every state has a successor."""
    n = draw(st.integers(1, 8))
    edges = draw(hnp.arrays(np.bool_, (n, n), elements=st.sampled_from([False, False, False, True])))
    edges[np.arange(n), draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))] = True
    return edges


def process_on(edges):
    n = edges.shape[0]
    return MarkovRewardProcess(edges, np.zeros(n), renormalise=True)


def reachable(edges):
    """Which states can be reached from which in any number of steps, by matrix powers."""
    n = edges.shape[0]
    return np.linalg.matrix_power(np.eye(n, dtype=int) + edges, n) > 0


def return_times(edges, state, most):
    power, times = np.eye(edges.shape[0], dtype=bool), []
    for step in range(1, most + 1):
        power = (power.astype(int) @ edges) > 0
        if power[state, state]:
            times.append(step)
    return times


def cycle(n):
    return np.roll(np.eye(n), 1, axis=1)


class TestAgainstBruteForce:
    @given(digraphs())
    def test_classes(self, edges):
        structure, reach = process_on(edges).structure, reachable(edges)
        together = reach & reach.T
        np.testing.assert_array_equal(structure.class_of[:, None] == structure.class_of, together)
        assert structure.num_classes == len({tuple(row) for row in together})
        smallest = [int(np.argmax(structure.class_of == k)) for k in range(structure.num_classes)]
        assert smallest == sorted(smallest)

    @given(digraphs())
    def test_recurrent_and_transient(self, edges):
        structure, reach = process_on(edges).structure, reachable(edges)
        returns = np.all(~reach | reach.T, axis=1)  # whatever it reaches leads back
        np.testing.assert_array_equal(structure.transient, np.flatnonzero(~returns))
        expected = sorted({tuple(np.flatnonzero(reach[s]).tolist()) for s in np.flatnonzero(returns)})
        assert [tuple(states.tolist()) for states in structure.recurrent] == expected

    @given(digraphs())
    def test_periods(self, edges):
        process, n = process_on(edges), edges.shape[0]
        expected = [
            math.gcd(*return_times(edges, states[0], 3 * n)) for states in process.structure.recurrent
        ]
        assert process.class_periods.tolist() == expected

    @given(digraphs())
    def test_words(self, edges):
        process, reach = process_on(edges), reachable(edges)
        closed = {tuple(reach[s]) for s in range(len(edges)) if np.all(~reach[s] | reach[:, s])}
        assert process.is_irreducible == bool(reach.all())
        assert process.is_unichain == (len(closed) == 1)
        aperiodic = bool(np.all(np.linalg.matrix_power(process.transitions, 100) > 0))
        assert process.is_ergodic == aperiodic

    @given(digraphs())
    def test_sparse_gives_the_same(self, edges):
        sparse_process = MarkovRewardProcess(
            sparse.coo_array(edges.astype(float)), np.zeros(len(edges)), renormalise=True
        )
        dense = process_on(edges).structure
        np.testing.assert_array_equal(sparse_process.structure.class_of, dense.class_of)
        np.testing.assert_array_equal(sparse_process.structure.transient, dense.transient)


class TestNamed:
    @pytest.mark.parametrize("n", [1, 2, 3, 12])
    def test_a_cycle_is_irreducible_and_periodic(self, n):
        process = MarkovRewardProcess(cycle(n), np.zeros(n))
        assert process.is_irreducible
        assert process.is_unichain
        assert process.period == n
        assert process.is_ergodic == (n == 1)

    def test_a_periodic_chain_with_a_transient_tail(self):
        transitions = np.zeros((4, 4))
        transitions[0, 1] = transitions[1, 2] = transitions[2, 3] = transitions[3, 2] = 1
        process = MarkovRewardProcess(transitions, np.zeros(4))
        assert process.is_unichain
        assert not process.is_irreducible
        assert not process.is_ergodic
        assert process.period == 2
        np.testing.assert_array_equal(process.structure.transient, [0, 1])

    def test_an_aperiodic_class_with_a_tail_is_not_ergodic(self):
        process = MarkovRewardProcess([[0.5, 0.5], [0, 1]], [0, 0])
        assert process.period == 1
        assert not process.is_ergodic

    def test_several_classes_have_no_single_period(self):
        blocks = sparse.block_diag([cycle(2), cycle(6), cycle(1), cycle(3)])
        process = MarkovRewardProcess(blocks, np.zeros(12))
        np.testing.assert_array_equal(process.class_periods, [2, 6, 1, 3])
        assert not process.is_unichain
        assert not process.is_ergodic
        with pytest.raises(
            ValueError,
            match=r"the process has 4 recurrent classes: \{0, 1\}, \{2, 3, 4, 5, 6, ... 6 states\}, \{8\}, "
            r"and 1 more, so it has no single period: class_periods has one for each",
        ):
            _ = process.period

    def test_classes_are_numbered_by_their_smallest_state(self):
        transitions = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0.5, 0.5]])
        structure = MarkovRewardProcess(transitions, np.zeros(4)).structure
        np.testing.assert_array_equal(structure.class_of, [0, 1, 0, 2])
        assert [states.tolist() for states in structure.recurrent] == [[0, 2], [1]]
        assert structure.transient.tolist() == [3]


class TestAtScale:
    """Each of these takes about a second; a Python loop over states or a search per class takes minutes."""

    N = 1_000_000

    @pytest.mark.parametrize("period", [1, 4])
    def test_a_million_states(self, period):
        rng = np.random.default_rng(0)
        rows = np.repeat(np.arange(self.N), 5)
        columns = rng.integers(self.N // period, size=5 * self.N) * period + (rows + 1) % period
        columns[::5] = (np.arange(self.N) + 1) % self.N
        transitions = sparse.csr_array((np.full(5 * self.N, 0.2), (rows, columns)), shape=(self.N, self.N))
        start = time.process_time()
        process = MarkovRewardProcess(transitions, np.zeros(self.N))
        assert process.is_irreducible
        assert process.period == period
        assert time.process_time() - start < 20

    def test_a_long_ring(self):
        ring = sparse.csr_array(
            (np.ones(self.N), (np.arange(self.N), (np.arange(self.N) + 1) % self.N)), shape=(self.N, self.N)
        )
        assert MarkovRewardProcess(ring, np.zeros(self.N)).period == self.N

    def test_many_classes(self):
        pairs = self.N // 10
        flip = np.arange(2 * pairs).reshape(-1, 2)[:, ::-1].ravel()
        swap = sparse.csr_array(
            (np.ones(2 * pairs), (np.arange(2 * pairs), flip)), shape=(2 * pairs, 2 * pairs)
        )
        start = time.process_time()
        process = MarkovRewardProcess(swap, np.zeros(2 * pairs))
        assert len(process.structure.recurrent) == pairs
        assert np.all(process.class_periods == 2)
        assert time.process_time() - start < 10
