"""Tables say what every action does, and refuse what is no table."""

import numpy as np
import pytest

import gainbias as gb

LOOP = [[[(1.0, 0, 1.0, True)]]]


def test_outcomes_are_listed_by_state_and_action():
    outcomes = {
        0: {0: [(0.5, 0, 1, False), (0.5, 1, 2, True)], 1: [(1.0, 1, 0, False)]},
        1: {0: [(0.0, 0, 9, False), (1.0, 1, 3, True)], 1: [(1.0, 0, 4, False)]},
    }
    table = gb.TransitionTable(outcomes, [1, 0], labels=["a", "b"])
    assert table.pairs.tolist() == [0, 0, 1, 2, 3]  # the outcome of probability 0 is left out
    assert table.states.tolist() == [0, 0, 0, 1, 1]
    assert table.successors.tolist() == [0, 1, 1, 1, 0]
    assert table.rewards.tolist() == [1, 2, 0, 3, 4]
    assert table.ended.tolist() == [False, True, False, True, False]
    assert table.labels == ("a", "b")
    assert repr(table) == "TransitionTable(2 states, 2 actions, 5 outcomes)"


def test_a_table_cannot_be_changed():
    table = gb.TransitionTable(LOOP, [1.0])
    for name in ("pairs", "probabilities", "successors", "rewards", "ended", "start"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(table, name)[0] = 0


def test_the_fingerprint_depends_on_everything_but_labels():
    def outcomes(reward=1.0, ended=True):
        return [[[(1.0, 1, reward, ended)]], [[(1.0, 0, 0.0, False)]]]

    base = gb.TransitionTable(outcomes(), [1.0, 0.0])
    assert gb.TransitionTable(outcomes(), [1.0, 0.0], labels=["a", "b"]).fingerprint == base.fingerprint
    others = [
        gb.TransitionTable(outcomes(reward=2.0), [1.0, 0.0]),
        gb.TransitionTable(outcomes(ended=False), [1.0, 0.0]),
        gb.TransitionTable(outcomes(), [0.5, 0.5]),
    ]
    assert len({base.fingerprint, *(table.fingerprint for table in others)}) == 4


@pytest.mark.parametrize(
    ("outcomes", "start", "message"),
    [
        ([], [], "outcomes is empty, a table needs at least one state"),
        ({1: LOOP[0]}, [1.0], "outcomes has no entry 0: number states and actions from 0"),
        ([*LOOP, []], [1.0, 0.0], "state 0 has 1, state 1 has 0"),
        ([[[(1.0, 0, 1.0)]]], [1.0], "state 0, action 0 has 3 parts, must be"),
        (
            [[[(1.0, 1, 1.0, True)]]],
            [1.0],
            "leads to state 1, states must be between 0 and 0",
        ),
        ([[[(1.0, 0.5, 1.0, True)]]], [1.0], "next state of each outcome must be an integer"),
        ([[[(-1.0, 0, 1.0, True), (2.0, 0, 1.0, True)]]], [1.0], "probability -1, probabilities must be"),
        ([[[(0.9, 0, 1.0, True)]]], [1.0], "state 0, action 0 sum to 0.9, must be 1"),
        ([[[(1.0, 0, np.nan, True)]]], [1.0], "rewards of outcomes.* is nan, every entry must be"),
        ([[[(1.0, 0, [[1.0]], True)]]], [1.0], r"numbers or vectors, found arrays of shape \(1, 1\)"),
        (LOOP, [0.5], "start must be probabilities of sum 1, found the sum 0.5"),
        (LOOP, [0.5, 0.5], "start must have one entry for each of the 1 states"),
    ],
)
def test_what_is_no_table_is_refused(outcomes, start, message):
    with pytest.raises(ValueError, match=message):
        gb.TransitionTable(outcomes, start)


class TestScalarise:
    table = gb.TransitionTable([[[(0.5, 0, [3.0, -1.0], True), (0.5, 0, [0.0, 2.0], False)]]], [1.0])

    def test_rewards_are_weighted_sums_and_nothing_else_changes(self):
        plain = gb.scalarise(self.table, [2.0, 1.0])
        assert plain.rewards.tolist() == [5.0, 2.0]
        assert plain.successors is self.table.successors
        assert self.table.rewards.shape == (2, 2)

    def test_weights_must_fit(self):
        with pytest.raises(ValueError, match="one entry for each of the 2 components"):
            gb.scalarise(self.table, [1.0])

    def test_numbers_stay_numbers(self):
        with pytest.raises(ValueError, match="nothing to scalarise"):
            gb.scalarise(gb.TransitionTable(LOOP, [1.0]), [1.0])

    def test_vectors_must_be_scalarised_before_use(self):
        for use in (lambda: gb.continuing(self.table, [0]), lambda: gb.q_learning(self.table)):
            with pytest.raises(ValueError, match=r"vectors.*gb.scalarise first"):
                use()
