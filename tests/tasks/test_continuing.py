"""Episodes joined to a process: by hand, and with everything that can go wrong."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sparse

import gainbias as gb

WALK = gb.TransitionTable(
    [
        [[(0.5, 1, 0.0, False), (0.5, 2, 4.0, True)]],
        [[(1.0, 2, 2.0, True)]],
        [[(1.0, 2, 7.0, True)]],  # what a table says about a terminal state does not count
        [[(1.0, 0, 9.0, False)]],  # no episode comes here
    ],
    start=[0.75, 0.25, 0.0, 0.0],
    labels=list("abcd"),
)

SHARED = gb.TransitionTable(
    [
        [[(0.5, 1, 0.0, False), (0.5, 1, 4.0, True)]],  # state 1 may be an end, or not
        [[(1.0, 2, 2.0, True)]],
        [[(1.0, 2, 0.0, True)]],
    ],
    start=[1.0, 0.0, 0.0],
)


def choose(go, ended=False):
    """A state in which action 0 stays and action 1 goes to `go`."""
    return lambda state: [[(1.0, state, 0.0, False)], [(1.0, go, 1.0, ended)]]


class TestRestart:
    def test_terminal_states_lead_to_the_start_with_reward_0(self):
        process = gb.continuing(WALK, [0, 0, 0, 0])
        np.testing.assert_array_equal(
            process.transitions.toarray(), [[0.0, 0.5, 0.5], [0.0, 0.0, 1.0], [0.75, 0.25, 0.0]]
        )
        assert process.rewards.tolist() == [2.0, 2.0, 0.0]
        assert process.labels == ("a", "b", "c")
        # An episode has 2 steps from a half the time and 1 otherwise, or 1 from b, and one more to restart.
        length, reward = 0.75 * 1.5 + 0.25 * 1.0 + 1.0, 0.75 * 3.0 + 0.25 * 2.0
        assert gb.solve(process).gain == pytest.approx(reward / length, rel=1e-14)

    def test_all_states_of_the_table_can_be_kept(self):
        process = gb.continuing(WALK, [0, 0, 0, 0], states="all")
        assert process.labels == ("a", "b", "c", "d")
        assert process.transitions.toarray()[3].tolist() == [1.0, 0.0, 0.0, 0.0]
        assert process.rewards[3] == 9.0

    def test_rewards_are_those_of_transitions(self):
        process = gb.continuing(WALK, [0, 0, 0, 0])
        assert process.transition_rewards.toarray().tolist() == [[0, 0, 4.0], [0, 0, 2.0], [0, 0, 0]]

    def test_successors_that_appear_twice_are_summed(self):
        outcomes = [(0.25, 1, 1.0, False), (0.5, 0, 0.0, False), (0.25, 1, 3.0, False)]
        table = gb.TransitionTable([[outcomes], [[(1.0, 0, 0.0, False)]]], [1.0, 0.0])
        process = gb.continuing(table, [0, 0])
        assert process.transitions.toarray()[0].tolist() == [0.5, 0.5]
        assert process.transition_rewards.toarray()[0, 1] == 2.0

    def test_states_that_the_policy_never_reaches_can_be_left_out(self):
        table = gb.TransitionTable(
            [choose(1)(0), choose(2)(1), choose(3, ended=True)(2), [[(1.0, 3, 0.0, True)]] * 2],
            [1.0, 0.0, 0.0, 0.0],
        )
        policy = [1, 0, 1, 0]  # it never leaves state 1
        assert gb.continuing(table, policy).labels == (0, 1, 2, 3)
        visited = gb.continuing(table, policy, states="visited")
        assert visited.labels == (0, 1)
        assert visited.transitions.toarray().tolist() == [[0, 1], [0, 1]]


class TestSharedEndings:
    """An end in a state where episodes also go on."""

    def test_split_gives_the_end_a_state_of_its_own(self):
        process = gb.continuing(SHARED, [0, 0, 0])
        assert process.labels == (0, 1, 2, ("ended", 1))
        np.testing.assert_array_equal(
            process.transitions.toarray(),
            [[0, 0.5, 0, 0.5], [0, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0]],
        )
        assert gb.solve(process).gain == pytest.approx(3.0 / 2.5, rel=1e-14)  # 1 step + 1.5 to the restart

    def test_restart_keeps_the_states_and_saves_the_step(self):
        process = gb.continuing(SHARED, [0, 0, 0], endings="restart")
        assert process.labels == (0, 1, 2)
        np.testing.assert_array_equal(process.transitions.toarray(), [[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]])
        assert process.transition_rewards.toarray()[0, 0] == 4.0
        assert gb.solve(process).gain == pytest.approx(3.0 / 2.0, rel=1e-14)

    def test_an_end_in_the_start_state_is_shared(self):
        table = gb.TransitionTable([[[(1.0, 0, 1.0, True)]]], [1.0])
        assert gb.solve(gb.continuing(table, [0])).gain == 0.5
        assert gb.solve(gb.continuing(table, [0], endings="restart")).gain == 1.0

    def test_what_unreachable_states_do_makes_no_state_shared(self):
        outcomes = [[(1.0, 1, 1.0, True)]], [[(1.0, 1, 0.0, True)]], [[(1.0, 1, 0.0, False)]]
        process = gb.continuing(gb.TransitionTable(outcomes, [1.0, 0.0, 0.0]), [0, 0, 0], states="all")
        assert process.transitions.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


class TestPolicy:
    table = gb.TransitionTable([choose(1)(0), choose(0)(1)], [1.0, 0.0], labels=["left", "right"])

    @pytest.mark.parametrize(
        "policy",
        [
            [1, 0],
            np.array([[0.0, 1.0], [1.0, 0.0]]),
            lambda label: int(label == "left"),
        ],
    )
    def test_forms(self, policy):
        assert gb.continuing(self.table, policy).transitions.toarray().tolist() == [[0, 1], [0, 1]]

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ([1], r"integers of shape \(2,\).*found shape \(1,\)"),
            ([1.0, 0.0], "integers of shape.*dtype float64"),
            ([2, 0], "action 2 in state 0, actions must be between 0 and 1"),
            ([-1, 0], "action -1 in state 0"),
            ([[0.5, 0.4], [1.0, 0.0]], "row 0 of policy sums to 0.9"),
            (lambda label: label, "dtype <U5"),
        ],
    )
    def test_what_is_no_policy_is_refused(self, policy, message):
        with pytest.raises(ValueError, match=message):
            gb.continuing(self.table, policy)

    def test_choices_are_named(self):
        with pytest.raises(ValueError, match="states must be 'reachable', 'visited' or 'all', found 'some'"):
            gb.continuing(self.table, [0, 0], states="some")
        with pytest.raises(ValueError, match="endings must be 'split' or 'restart', found 'merge'"):
            gb.continuing(self.table, [0, 0], endings="merge")


class TestSize:
    def test_nothing_becomes_dense(self):
        size = 20_000  # a dense matrix would take 3.2 GB
        ring = [[[(1.0, (state + 1) % size, 1.0, state == size - 1)]] for state in range(size)]
        table = gb.TransitionTable(ring, np.eye(1, size, 5)[0])
        tracemalloc.start()
        process = gb.continuing(table, np.zeros(size, dtype=int))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sparse.issparse(process.transitions)
        assert peak < 50e6

    def test_too_many_restarts_are_refused(self, monkeypatch):
        monkeypatch.setattr("gainbias.tasks.gym.continuing.MOST_RESTARTS", 1)
        with pytest.raises(ValueError, match="1 ends lead to 2 start states each, more than 1 transitions"):
            gb.continuing(WALK, [0, 0, 0, 0])
