"""The Markov reward process: what it accepts, what it refuses and with which words, what it keeps."""

import dataclasses
import re

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gainbias import MarkovRewardProcess
from gainbias.model.checks import clip_rounding

TWO = np.array([[0.9, 0.1], [0.5, 0.5]])
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"]


def exactly(message):
    return f"^{re.escape(message)}$"


def random_chain(rng, n, density=0.5):
    weights = rng.random((n, n)) * (rng.random((n, n)) < density)
    weights[np.arange(n), rng.integers(n, size=n)] += 0.1
    return weights / weights.sum(axis=1, keepdims=True)


@st.composite
def chains(draw):
    n = draw(st.integers(1, 6))
    weights = draw(hnp.arrays(np.float64, (n, n), elements=st.sampled_from([0.0, 0.0, 1e-9, 0.3, 1.0, 7.0])))
    weights[np.arange(n), draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))] += 1.0
    return weights / weights.sum(axis=1, keepdims=True)


class TestWhatItKeeps:
    def test_dense_input_stays_dense_and_is_copied(self):
        transitions, rewards = TWO.copy(), np.array([1.0, 2.0])
        process = MarkovRewardProcess(transitions, rewards)
        transitions[0, 0], rewards[0] = 7.0, 7.0
        np.testing.assert_array_equal(process.transitions, TWO)
        np.testing.assert_array_equal(process.csr.toarray(), TWO)
        np.testing.assert_array_equal(process.rewards, [1.0, 2.0])

    def test_sparse_input_stays_sparse_and_is_copied(self):
        transitions = sparse.csr_array(TWO)
        process = MarkovRewardProcess(transitions, [1.0, 2.0])
        transitions.data[:] = 7.0
        assert isinstance(process.transitions, sparse.csr_array)
        np.testing.assert_array_equal(process.transitions.toarray(), TWO)

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_everything_is_read_only(self, make):
        process = MarkovRewardProcess(make(TWO), make(np.ones((2, 2))))
        parts = [process.rewards, process.reward_entries, process.structure.class_of, process.class_periods]
        for matrix in (process.transitions, process.csr, process.transition_rewards):
            is_sparse = sparse.issparse(matrix)
            parts += [matrix.data, matrix.indices, matrix.indptr] if is_sparse else [matrix]
        for part in parts:
            with pytest.raises(ValueError, match="read-only"):
                part[...] = 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            process.rewards = np.zeros(2)

    @pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
    @pytest.mark.parametrize("form", FORMATS)
    def test_every_sparse_format(self, form, container):
        process = MarkovRewardProcess(container(TWO).asformat(form), [0, 1])
        assert process.fingerprint == MarkovRewardProcess(TWO, [0, 1]).fingerprint

    @pytest.mark.parametrize(
        "dtype", ["int8", "uint16", "int64", "bool", ">i4", "float16", "f4", ">f4", ">f8", "g"]
    )
    def test_every_real_type_and_byte_order(self, dtype):
        swap = np.array([[0, 1], [1, 0]]).astype(dtype)
        process = MarkovRewardProcess(swap, np.array([0, 1]).astype(dtype))
        assert process.transitions.dtype == process.rewards.dtype == np.dtype("=f8")
        assert process.fingerprint == MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0]).fingerprint

    def test_memory_layout_does_not_matter(self):
        wide = np.zeros((4, 4))
        wide[::2, ::2] = TWO
        long = np.array([1.0, 9.0, 2.0, 9.0])
        for transitions in (wide[::2, ::2], np.asfortranarray(TWO)):
            process = MarkovRewardProcess(transitions, long[::2])
            assert process.fingerprint == MarkovRewardProcess(TWO, [1.0, 2.0]).fingerprint

    def test_float32_rows_are_judged_by_their_own_rounding(self):
        thirds = np.full((3, 3), 1 / 3, dtype=np.float32)
        assert abs(thirds.astype(float).sum(axis=1)[0] - 1) > 1e-8
        process = MarkovRewardProcess(thirds, np.zeros(3))
        np.testing.assert_allclose(process.transitions.sum(axis=1), 1, rtol=1e-15)

    def test_duplicate_entries_are_summed_and_stored_zeros_dropped(self):
        rows, columns, values = [0, 0, 0, 0, 1], [0, 1, 1, 0, 1], [0.5, 0.25, 0.25, 0.0, 1.0]
        coo = sparse.coo_array((values, (rows, columns)), shape=(2, 2))
        csr = sparse.csr_array((values, columns, [0, 4, 5]), shape=(2, 2))
        for given_matrix in (coo, csr):
            process = MarkovRewardProcess(given_matrix, [0, 1])
            np.testing.assert_array_equal(process.csr.toarray(), [[0.5, 0.5], [0, 1]])
            assert process.csr.nnz == 3
            assert process.csr.has_canonical_format

    def test_long_indices_become_short(self):
        given_matrix = sparse.csr_array(TWO)
        given_matrix.indices = given_matrix.indices.astype(np.int64)
        given_matrix.indptr = given_matrix.indptr.astype(np.int64)
        process = MarkovRewardProcess(given_matrix, [0, 1])
        assert process.csr.indices.dtype == process.csr.indptr.dtype == np.int32

    def test_one_state(self):
        process = MarkovRewardProcess([[1.0]], [3.0])
        assert process.num_states == 1
        assert process.is_ergodic
        assert repr(process).startswith("MarkovRewardProcess(1 state, 1 transition, dense")

    def test_labels(self):
        assert MarkovRewardProcess(TWO, [0, 1], labels=["up", "down"]).labels == ("up", "down")
        assert MarkovRewardProcess(TWO, [0, 1]).labels is None


class TestRowSums:
    def test_rounding_is_left_alone(self):
        row = np.full(10, 0.1)
        row[0] += 4e-16
        transitions = np.tile(row, (10, 1))
        np.testing.assert_array_equal(MarkovRewardProcess(transitions, np.zeros(10)).transitions, transitions)

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_within_1e_8_is_scaled_with_ratios_kept(self, make):
        transitions = np.array([[0.5, 0.3, 0.2], [1e-12, 0.4, 0.6], [0, 0, 1]])
        off = transitions * np.array([[1 + 9e-9], [1 - 9e-9], [1]])
        kept = MarkovRewardProcess(make(off), np.zeros(3)).csr.toarray()
        np.testing.assert_allclose(kept.sum(axis=1), 1, rtol=0, atol=4e-16)
        np.testing.assert_allclose(kept[:2] / kept[:2, 1:2], off[:2] / off[:2, 1:2], rtol=4e-16)
        np.testing.assert_array_equal(kept[2], off[2])

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize(
        ("error", "found"), [(1e-5, "1.00001"), (-1e-3, "0.999"), (1.1e-8, "1.000000011")]
    )
    def test_further_off_is_an_error_that_names_the_row(self, make, error, found):
        off = TWO * np.array([[1.0], [1.0 + error]])
        message = (
            f"row 1 of transitions sums to {found}, must be 1 within 1e-08: "
            "normalise it or pass renormalise=True"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess(make(off), [0, 1])

    def test_renormalise_accepts_counts(self):
        process = MarkovRewardProcess([[9, 1], [2, 2]], [0, 1], renormalise=True)
        np.testing.assert_array_equal(process.transitions, TWO)

    def test_several_wrong_rows_are_counted(self):
        with pytest.raises(
            ValueError, match=r"row 0 of transitions sums to 2, must be 1 .* \(as must 1 more\)"
        ):
            MarkovRewardProcess([[1, 1], [1, 3]], [0, 1])

    def test_column_stochastic_input_is_recognised(self):
        with pytest.raises(ValueError, match="columns sum to 1, so perhaps the transpose was meant"):
            MarkovRewardProcess(TWO.T, [0, 1])

    @pytest.mark.parametrize("renormalise", [False, True])
    def test_a_row_of_zeros_cannot_be_normalised(self, renormalise):
        with pytest.raises(
            ValueError, match="row 1 of transitions sums to 0, must be 1 and cannot be normalised"
        ):
            MarkovRewardProcess([[0.5, 0.5], [0, 0]], [0, 1], renormalise=renormalise)

    def test_a_row_that_overflows_cannot_be_normalised(self):
        with pytest.raises(
            ValueError, match="row 0 of transitions sums to inf, must be 1 and cannot be normalised"
        ):
            MarkovRewardProcess([[1e308, 1e308], [0, 1]], [0, 1], renormalise=True)

    def test_building_again_changes_nothing(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            once = MarkovRewardProcess(random_chain(rng, 30) * (1 + 5e-9), np.zeros(30))
            again = MarkovRewardProcess(once.transitions, np.zeros(30))
            assert again.fingerprint == once.fingerprint


class TestNegativeRounding:
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.coo_matrix])
    def test_what_nine_tenths_and_one_tenth_leave(self, make):
        up, down = 0.9, 0.1
        stay = 1 - up - down
        assert -1e-16 < stay < 0.0
        process = MarkovRewardProcess(make(np.array([[stay, up, down], [0.5, 0.5, 0], [1, 0, 0]])), [0, 1, 2])
        np.testing.assert_array_equal(process.csr.toarray()[0], [0.0, up, down])
        assert process.csr.nnz == 5

    def test_a_long_row(self):
        rng = np.random.default_rng(0)
        found = 0
        for _ in range(30):
            chain = random_chain(rng, 300)
            chain[0] *= 1 / chain[0, 1:].sum()
            chain[0, 0] = 1.0
            for value in chain[0, 1:]:
                chain[0, 0] -= value
            found += chain[0, 0] < -1e-16
            kept = MarkovRewardProcess(chain, np.zeros(300)).transitions[0]
            assert kept[0] == max(chain[0, 0], 0.0)
            np.testing.assert_allclose(kept[1:], chain[0, 1:], rtol=1e-12)
        assert found > 3

    def test_single_precision_has_its_own_rounding(self):
        row = np.array([-6e-8, 0.3, 0.7])
        chain = np.array([row, [0.5, 0.25, 0.25], [0, 0, 1]])
        kept = MarkovRewardProcess(chain.astype(np.float32), np.zeros(3)).transitions[0]
        np.testing.assert_allclose(kept, [0.0, 0.3, 0.7], rtol=1e-6)
        assert kept.sum() == pytest.approx(1.0, abs=4e-16)
        with pytest.raises(ValueError, match=r"row 0 of transitions has the negative entry -6e-08 in column"):
            MarkovRewardProcess(chain, np.zeros(3))

    def test_counts_have_the_rounding_of_their_size(self):
        process = MarkovRewardProcess([[3e6, -1e-9, 1e6], [1, 1, 0], [1, 0, 1]], [0, 1, 2], renormalise=True)
        np.testing.assert_array_equal(process.transitions[0], [0.75, 0.0, 0.25])
        with pytest.raises(ValueError, match=r"row 0 of transitions has the negative entry -1e-09 in column"):
            MarkovRewardProcess([[3.0, -1e-9, 1.0], [1, 1, 0], [1, 0, 1]], [0, 1, 2], renormalise=True)

    @pytest.mark.parametrize("kind", ["random", "equal", "one large"])
    @pytest.mark.parametrize("m", [3, 40, 156, 1500, 5000])
    def test_what_sums_of_any_length_leave_is_accepted(self, m, kind):
        """The rest after a running sum, of entries that were divided by another one."""
        rng = np.random.default_rng(m)
        rest = 0.0
        for _ in range(40):
            chances = rng.random(m - 1) if kind == "random" else np.full(m - 1, rng.random())
            chances[0] *= 1000 * m if kind == "one large" else 1
            chances /= np.cumsum(chances)[-1]
            rest = min(rest, *(1.0 - np.cumsum(part)[-1] for part in (chances, chances[::-1])))
        assert rest < 0.0 or m == 3
        row = sparse.csr_array(np.append(chances, rest)[np.newaxis])
        assert clip_rounding(row).size == 0
        assert rest > -m * np.finfo(float).eps

    def test_the_limit_does_not_hide_what_is_meant(self):
        """A row of 2000 entries leaves 4e-13 at most: -1e-12 is a mistake."""
        for entry, is_kept in ((-4e-13, False), (-5e-13, True), (-1e-12, True)):
            row = np.append(np.full(1999, 1 / 1999), entry)
            assert (clip_rounding(sparse.csr_array(row[np.newaxis])).size > 0) is is_kept

    @pytest.mark.parametrize("entry", [-1e-15, -1e-12, -1e-8])
    def test_more_is_an_error(self, entry):
        MarkovRewardProcess([[-8e-16, 0.5, 0.5], [1, 0, 0], [0, 0, 1]], [0, 0, 0])
        with pytest.raises(ValueError, match="which is more than rounding, and probabilities must be at lea"):
            MarkovRewardProcess([[entry, 0.5, 0.5], [1, 0, 0], [0, 0, 1]], [0, 0, 0])


class TestWrongInput:
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.coo_matrix])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, make, value):
        wrong = make(np.array([[0.5, 0.5], [1.0, value]]))
        message = f"transitions[1, 1] is {value}, every entry must be a finite number"
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess(wrong, [0, 1])

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_negative(self, make):
        message = (
            "row 1 of transitions has the negative entry -0.25 in column 1, "
            "which is more than rounding, and probabilities must be at least 0: correct it"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess(make(np.array([[0.5, 0.5], [1.25, -0.25]])), [0, 1])

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_not_square(self, make):
        with pytest.raises(
            ValueError, match=r"transitions must be a square matrix \(n, n\), found shape \(2, 3\)"
        ):
            MarkovRewardProcess(make(np.ones((2, 3)) / 3), [0, 1])

    @pytest.mark.parametrize("wrong", [np.ones(3), np.ones((2, 2, 2)), 1.0])
    def test_not_a_matrix(self, wrong):
        with pytest.raises(ValueError, match=r"transitions must be a matrix, found shape \("):
            MarkovRewardProcess(wrong, [0, 1])

    @pytest.mark.parametrize("wrong", [np.zeros((0, 0)), sparse.csr_array((0, 0))])
    def test_empty(self, wrong):
        with pytest.raises(ValueError, match="transitions is empty, a process needs at least one state"):
            MarkovRewardProcess(wrong, [])

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_complex(self, make):
        with pytest.raises(ValueError, match=r"transitions is complex \(complex128\), must be real"):
            MarkovRewardProcess(make(TWO.astype(complex)), [0, 1])

    @pytest.mark.parametrize(("wrong", "dtype"), [(TWO.astype(object), "object"), ([["a"]], "<U1")])
    def test_no_numbers(self, wrong, dtype):
        with pytest.raises(ValueError, match=f"transitions has dtype {dtype}, must be numbers"):
            MarkovRewardProcess(wrong, [0, 1])

    def test_ragged(self):
        with pytest.raises(ValueError, match="transitions must be a rectangular array of numbers"):
            MarkovRewardProcess([[1.0], [0.5, 0.5]], [0, 1])

    def test_masked(self):
        with pytest.raises(ValueError, match="transitions is a masked array: fill or remove"):
            MarkovRewardProcess(np.ma.masked_equal(TWO, 0.1), [0, 1])

    def test_sparse_index_out_of_range(self):
        broken = sparse.csr_array(TWO)
        broken.indices[0] = 5
        with pytest.raises(ValueError, match="indices"):
            MarkovRewardProcess(broken, [0, 1])

    @pytest.mark.parametrize(
        "wrong", [np.zeros(3), np.zeros((2, 3)), np.zeros((2, 1)), 1.0, sparse.csr_array((2, 3))]
    )
    def test_rewards_of_the_wrong_shape(self, wrong):
        message = (
            "rewards must have shape (2,), one for each state, or (2, 2), one for each transition, "
            f"found shape {np.shape(wrong) if not sparse.issparse(wrong) else wrong.shape}"
        )
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess(TWO, wrong)

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_rewards_not_finite(self, make):
        with pytest.raises(ValueError, match=r"rewards\[1\] is nan, every entry must be a finite number"):
            MarkovRewardProcess(TWO, [0.0, np.nan])
        with pytest.raises(ValueError, match=r"rewards\[0, 1\] is -inf, every entry must be a finite number"):
            MarkovRewardProcess(TWO, make(np.array([[0.0, -np.inf], [0.0, 0.0]])))

    def test_labels(self):
        with pytest.raises(ValueError, match="labels must have one label for each of the 2 states, found 3"):
            MarkovRewardProcess(TWO, [0, 1], labels=["a", "b", "c"])
        with pytest.raises(ValueError, match="one label per state, found the string 'ab'"):
            MarkovRewardProcess(TWO, [0, 1], labels="ab")
        with pytest.raises(ValueError, match=r"labels must be a sequence with one label per state, found 5$"):
            MarkovRewardProcess(TWO, [0, 1], labels=5)


class TestTransitionRewards:
    REWARDS = np.array([[1.0, -2.0], [100.0, 4.0]])

    @pytest.mark.parametrize("make_rewards", [np.asarray, sparse.csr_array, sparse.coo_matrix])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_kept_and_reduced_to_their_expectation(self, make, make_rewards):
        transitions = np.array([[0.9, 0.1], [0.0, 1.0]])
        process = MarkovRewardProcess(make(transitions), make_rewards(self.REWARDS))
        np.testing.assert_allclose(process.rewards, [0.7, 4.0], rtol=1e-15)
        kept = process.transition_rewards
        np.testing.assert_array_equal(kept.toarray() if sparse.issparse(kept) else kept, self.REWARDS)
        np.testing.assert_array_equal(process.reward_entries, [1.0, -2.0, 4.0])
        assert process.max_abs_reward == 4.0  # 100 is never drawn

    def test_a_reward_that_is_not_stored_is_zero(self):
        rewards = sparse.csr_array(([5.0], ([1], [0])), shape=(2, 2))
        process = MarkovRewardProcess(TWO, rewards)
        np.testing.assert_array_equal(process.reward_entries, [0.0, 0.0, 5.0, 0.0])
        assert MarkovRewardProcess(TWO, sparse.csr_array((2, 2))).max_abs_reward == 0.0

    def test_large_sparse_rewards(self):
        n = 200_000  # a dense (n, n) array would take 320 GB
        ring = sparse.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
        process = MarkovRewardProcess(ring, 3.0 * ring)
        assert np.all(process.rewards == 3.0)
        assert process.max_abs_reward == 3.0
        assert len(process.fingerprint) == 32
        assert "200000 transitions, sparse, density 5e-06" in repr(process)

    def test_rewards_of_states_bound_themselves(self):
        process = MarkovRewardProcess(TWO, [-3.0, 1.0])
        assert process.max_abs_reward == 3.0
        assert process.transition_rewards is None
        assert process.reward_entries is None

    def test_a_sparse_vector_is_a_vector(self):
        rewards = sparse.coo_array(([2.0], ([1],)), shape=(2,))
        np.testing.assert_array_equal(MarkovRewardProcess(TWO, rewards).rewards, [0.0, 2.0])

    def test_one_state(self):
        assert MarkovRewardProcess([[1.0]], [[3.0]]).transition_rewards is not None
        assert MarkovRewardProcess([[1.0]], [3.0]).transition_rewards is None


class TestFingerprint:
    @given(chains(), st.sampled_from(FORMATS), st.booleans(), st.floats(-5e-9, 5e-9))
    def test_dense_and_sparse_agree(self, transitions, form, on_transitions, error):
        n = transitions.shape[0]
        rewards = np.linspace(-1, 2, n * n).reshape(n, n) if on_transitions else np.linspace(-1, 2, n)
        off = transitions * (1 + error)
        dense = MarkovRewardProcess(off, rewards)
        sparse_rewards = sparse.csc_array(rewards) if on_transitions else rewards
        other = MarkovRewardProcess(sparse.csr_array(off).asformat(form), sparse_rewards)
        np.testing.assert_array_equal(dense.transitions, other.transitions.toarray())
        np.testing.assert_array_equal(dense.rewards, other.rewards)
        assert dense.fingerprint == other.fingerprint
        assert dense.max_abs_reward == other.max_abs_reward

    def test_dense_and_sparse_agree_on_long_rows(self):
        rng = np.random.default_rng(3)
        transitions, rewards = random_chain(rng, 300) * (1 + 5e-9), rng.normal(size=(300, 300))
        dense = MarkovRewardProcess(transitions, rewards)
        assert dense.fingerprint == MarkovRewardProcess(sparse.coo_array(transitions), rewards).fingerprint

    def test_what_matters_changes_it(self):
        swap, stay = [[0, 1], [1, 0]], [[1, 0], [0, 1]]
        nudged = TWO + np.array([[0, 0], [2**-50, -(2**-50)]])
        processes = [
            MarkovRewardProcess(TWO, [1, 2]),
            MarkovRewardProcess(nudged, [1, 2]),
            MarkovRewardProcess(TWO, [1, 2 + 1e-15]),
            MarkovRewardProcess(TWO, [[1, 1], [2, 2]]),
            MarkovRewardProcess(TWO, [[1, 1], [3, 1]]),
            MarkovRewardProcess(swap, [1, 2]),
            MarkovRewardProcess(stay, [1, 2]),
            MarkovRewardProcess.from_rates([[-1, 1], [1, -1]], [1, 2]),
            MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [0.5, 1]),
        ]
        assert len({process.fingerprint for process in processes}) == len(processes)

    def test_what_does_not_matter_does_not(self):
        base = MarkovRewardProcess(TWO, [0.0, 1.0]).fingerprint
        assert MarkovRewardProcess(TWO, [-0.0, 1.0], labels=["up", "down"]).fingerprint == base
        never = np.array([[0.0, 1.0], [0.0, 1.0]])
        one, two = ([[5.0, 1.0], [0.0, 2.0]], [[7.0, 1.0], [9.0, 2.0]])
        assert MarkovRewardProcess(never, one).fingerprint == MarkovRewardProcess(never, two).fingerprint

    def test_it_is_the_same_on_every_machine(self):
        assert MarkovRewardProcess(TWO, [0.0, 1.0]).fingerprint == "5cddce06f23399b24993a5e1aa5a33cf"


class TestRepr:
    def test_it_tells_only_what_is_known(self):
        process = MarkovRewardProcess(sparse.csr_array(TWO), [0.0, 1.5])
        start = "MarkovRewardProcess(2 states, 4 transitions, sparse, density 1, rewards from 0 to 1.5"
        assert repr(process) == start + ")"
        assert process.is_irreducible
        assert repr(process) == start + ", irreducible)"
        assert process.is_ergodic
        assert repr(process) == start + ", irreducible, period 1)"

    def test_reducible(self):
        process = MarkovRewardProcess([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0])
        assert not process.is_unichain
        assert "2 recurrent classes, 1 transient state)" in repr(process)

    def test_rates(self):
        assert "4 steps per unit of time" in repr(MarkovRewardProcess.from_rates([[-2, 2], [3, -3]], [0, 1]))


class TestRestriction:
    ROWS = np.array([[0.5, 0, 0.5, 0], [0.25, 0.25, 0.25, 0.25], [0.75, 0, 0.25, 0], [0, 0, 0, 1]])

    def test_it_is_the_process_on_those_states(self):
        for rewards in (np.arange(4.0), np.arange(16.0).reshape(4, 4)):
            whole = MarkovRewardProcess(self.ROWS, rewards, labels=list("abcd"))
            part = whole.restricted_to([0, 2])
            inside = np.ix_([0, 2], [0, 2])
            alone = MarkovRewardProcess(
                self.ROWS[inside], rewards[[0, 2]] if rewards.ndim == 1 else rewards[inside]
            )
            assert part.fingerprint == alone.fingerprint
            assert part.labels == ("a", "c")
            assert part.is_ergodic

    def test_rewards_keep_what_was_rounded_off(self):
        policy = np.full((4, 3), 1 / 3)
        for shape in ((4, 3), (4, 3, 4)):
            rewards = np.random.default_rng(0).standard_normal(shape)
            whole = MarkovRewardProcess.from_mdp(np.stack([self.ROWS] * 3, axis=1), rewards, policy)
            part = whole.restricted_to([0, 2])
            for mine, theirs in zip(part.expected.rewards, whole.expected.rewards, strict=True):
                np.testing.assert_array_equal(mine, theirs[[0, 2]])
            np.testing.assert_array_equal(part.expected.doubt, whole.expected.doubt[[0, 2]])
            if len(shape) == 3:
                np.testing.assert_array_equal(
                    part.doubled_entries.high, whole.doubled_entries.high[[0, 1, 6, 7]]
                )
                np.testing.assert_array_equal(
                    part.doubled_entries.rest, whole.doubled_entries.rest[[0, 1, 6, 7]]
                )

    def test_the_unit_of_time_stays(self):
        whole = MarkovRewardProcess.from_rates([[-2, 2, 0], [3, -3, 0], [1, 1, -2]], [0, 1, 2])
        assert whole.restricted_to([0, 1]).rate == whole.rate

    @pytest.mark.parametrize(
        ("states", "message"),
        [
            ([], "states must be one or more numbers of states in ascending order"),
            ([2, 0], "states must be one or more numbers of states in ascending order"),
            ([-1, 0], "states must be between 0 and 3"),
            ([0, 4], "states must be between 0 and 3"),
            ([0, 1], "a transition leads from state 0 out of the states that were given"),
            ([1, 3], "a transition leads from state 1 out of the states that were given"),
        ],
    )
    def test_what_is_not_closed_is_refused(self, states, message):
        with pytest.raises(ValueError, match=exactly(message)):
            MarkovRewardProcess(self.ROWS, np.zeros(4)).restricted_to(states)
