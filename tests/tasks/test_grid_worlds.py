"""Grid worlds: the rules of their maps, and shortest paths by hand."""

import pytest

import gainbias as gb
from gainbias.tasks.gym.grid_worlds import BARRIER, EMPTY, TWO_ROOMS, grid_table

LEFT, DOWN, RIGHT, UP, STAY = range(5)


def outcome(table, cell, action):
    """Where an action leads, what it pays and whether it ends the episode."""
    (row,) = (table.pairs == table.labels.index(cell) * 5 + action).nonzero()[0]
    return table.labels[table.successors[row]], table.rewards[row], bool(table.ended[row])


class TestRules:
    table = grid_table(
        """
        .>G
        gv.
        """
    )

    @pytest.mark.parametrize(
        ("cell", "action", "expected"),
        [
            ((0, 0), RIGHT, ((0, 1), 0.0, False)),
            ((0, 0), LEFT, ((0, 0), 0.0, False)),
            ((0, 0), UP, ((0, 0), 0.0, False)),
            ((1, 2), DOWN, ((1, 2), 0.0, False)),
            ((0, 1), RIGHT, ((0, 2), 0.0, False)),
            ((0, 1), LEFT, ((0, 1), 0.0, False)),
            ((0, 1), STAY, ((0, 1), 0.0, False)),
            ((1, 1), UP, ((1, 1), 0.0, False)),
            ((0, 2), STAY, ((0, 2), 1.0, True)),
            ((0, 2), DOWN, ((1, 2), 0.0, False)),
            ((1, 0), STAY, ((1, 0), 0.1, True)),
        ],
    )
    def test_outcomes(self, cell, action, expected):
        assert outcome(self.table, cell, action) == expected

    def test_start(self):
        table = grid_table(TWO_ROOMS, (1, 5))
        assert [table.labels[state] for state in table.start.nonzero()[0]] == [(1, 5)]


@pytest.mark.parametrize(
    ("grid", "start", "steps"),
    [
        (BARRIER, (0, 0), 9),  # around the wall to (2, 4), in by the door, and stay
        (EMPTY, (0, 0), 19),
        (TWO_ROOMS, (1, 5), 7),
    ],
    ids=["barrier", "empty", "two rooms"],
)
def test_learned_policies_take_the_shortest_path(grid, start, steps):
    table = grid_table(grid, start)
    learned = gb.q_learning(table, episodes=300, exploration=1.0, max_steps=100_000)
    chain = gb.continuing(table, learned.actions, states="visited", endings="restart")
    assert gb.solve(chain).gain == pytest.approx(1.0 / steps, rel=1e-12)
