"""Q-learning: against a twin that is written for reading, and against known values."""

import numpy as np
import pytest

import gainbias as gb

pytestmark = pytest.mark.kernels


def corridor(length, reward=1.0):
    """Go left or right from the left end; the step out at the right end pays."""
    last = length - 1
    left = [[(1.0, max(state - 1, 0), 0.0, False)] for state in range(length)]
    right = [[(1.0, state + 1, 0.0, False)] for state in range(last)] + [[(1.0, last, reward, True)]]
    return gb.TransitionTable(list(zip(left, right, strict=True)), np.eye(length)[0])


NOISY = gb.TransitionTable(
    [
        [[(0.3, 0, 0.0, False), (0.7, 1, 1.0, False)], [(1.0, 1, -1.0, True)]],
        [[(0.5, 0, 2.0, True), (0.5, 1, 0.0, False)], [(0.2, 0, 0.5, False), (0.8, 1, 0.0, False)]],
    ],
    start=[0.4, 0.6],
)


def naive_q_learning(table, episodes, learning_rate, discount, exploration, initial_value, max_steps, seed):
    """The same numbers by the plainest possible program."""
    rng = np.random.default_rng(seed)
    values = np.full((table.num_states, table.num_actions), initial_value)

    def draw(probabilities):
        if len(probabilities) == 1:
            return 0
        left = rng.random()
        for k, probability in enumerate(probabilities):
            left -= probability
            if left < 0.0:
                return k
        raise AssertionError("rounding")

    for _ in range(episodes):
        state = draw(table.start)
        for _ in range(max_steps):
            if rng.random() < exploration:
                action = int(table.num_actions * rng.random())
            else:
                best = np.flatnonzero(values[state] == values[state].max())
                action = best[int(best.size * rng.random())] if best.size > 1 else best[0]
            rows = np.flatnonzero(table.pairs == state * table.num_actions + action)
            row = rows[draw(table.probabilities[rows])]
            target = table.rewards[row]
            if not table.ended[row]:
                target += discount * values[table.successors[row]].max()
            values[state, action] += learning_rate * (target - values[state, action])
            state = table.successors[row]
            if table.ended[row]:
                break
    return values


@pytest.mark.parametrize("table", [corridor(4), NOISY], ids=["corridor", "noisy"])
@pytest.mark.parametrize("max_steps", [3, 50])
def test_bit_for_bit_as_the_naive_program(table, max_steps):
    settings = {
        "episodes": 30,
        "learning_rate": 0.3,
        "discount": 0.9,
        "exploration": 0.4,
        "initial_value": 0.25,
        "max_steps": max_steps,
        "seed": 7,
    }
    learned = gb.q_learning(table, **settings)
    expected = naive_q_learning(table, **settings)
    np.testing.assert_array_equal(learned.values, expected)
    np.testing.assert_array_equal(learned.actions, expected.argmax(axis=1))


def test_values_converge_to_discounted_returns():
    learned = gb.q_learning(corridor(4), episodes=400, exploration=1.0, discount=0.9)
    np.testing.assert_allclose(learned.values[:, 1], 0.9 ** np.arange(3, -1, -1), rtol=1e-3)
    assert learned.actions.tolist() == [1, 1, 1, 1]


def test_a_cut_is_no_end():
    # One state, always reward 1: the value is 1 / (1 - discount) though episodes are cut after 5 steps.
    table = gb.TransitionTable([[[(1.0, 0, 1.0, False)]]], [1.0])
    learned = gb.q_learning(table, episodes=200, max_steps=5, discount=0.5)
    assert learned.values[0, 0] == pytest.approx(2.0, rel=1e-3)
    assert (learned.num_steps, learned.ended_episodes, learned.always_ends) == (1000, 0, False)


def test_chance_decides_among_equal_values():
    # Without it, action 0 would always be taken, and the corridor would never be left.
    assert gb.q_learning(corridor(6), episodes=20, exploration=0.0, max_steps=1000).ended_episodes == 20


def test_the_first_of_equal_values_is_the_action_of_states_that_were_never_visited():
    table = gb.TransitionTable([[[(1.0, 1, 1.0, True)]] * 3, [[(1.0, 1, 0.0, True)]] * 3], [1.0, 0.0])
    assert gb.q_learning(table, episodes=5).actions[1] == 0


def test_seeds():
    first, same, other = (gb.q_learning(NOISY, episodes=50, seed=seed).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_whether_a_policy_always_ends():
    assert gb.q_learning(corridor(3), episodes=100).always_ends
    # Ending pays less than going on without end.
    trap = gb.TransitionTable([[[(1.0, 0, 1.0, False)], [(1.0, 0, 0.0, True)]]], [1.0])
    assert not gb.q_learning(trap, episodes=50, max_steps=20).always_ends


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"episodes": 0}, "episodes must be an integer of at least 1, found 0"),
        ({"episodes": 1.5}, "episodes must be an integer"),
        ({"max_steps": True}, "max_steps must be an integer"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and at most 1, found 0.0"),
        ({"discount": 1.1}, "discount must be at least 0 and at most 1, found 1.1"),
        ({"exploration": -0.1}, "exploration must be at least 0 and at most 1"),
        ({"initial_value": np.inf}, "initial_value must be a finite number"),
        ({"seed": -1}, "seed must be an integer that is not negative, found -1"),
    ],
)
def test_settings_are_checked(setting, message):
    with pytest.raises(ValueError, match=message):
        gb.q_learning(NOISY, **setting)
