"""States keep their numbers, types and shapes in one piece of memory."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from gainbias.algorithms.algorithm import Move
from gainbias.engine.loop import LINE, NO_NOTES, Memory, Notes, loop_of


class State(NamedTuple):
    count: Any
    weights: Any
    nothing: Any
    gain: Any


def state() -> State:
    return State(np.array([-1, 7]), np.arange(20.0).reshape(5, 4), np.empty((0, 4)), np.array([0.5]))


def test_a_state_is_copied_as_it_is() -> None:
    given = state()
    own = Memory(given).state
    for before, after in zip(given, own, strict=True):
        np.testing.assert_array_equal(before, after)
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
        assert after.flags.c_contiguous
        assert not np.shares_memory(before, after)


@pytest.mark.parametrize("_", range(8))
def test_arrays_begin_with_a_cache_line(_: int) -> None:
    own = Memory(state()).state
    for array in (own.count, own.weights, own.gain):
        assert array.ctypes.data % (8 * LINE) == 0


def test_all_numbers_are_saved() -> None:
    memory = Memory(state())
    saved = memory.numbers.copy()
    for array in memory.state:
        array += 1
    memory.numbers[:] = saved
    for before, after in zip(state(), memory.state, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "place"), [("weights", (4, 3)), ("gain", 0)])
def test_numbers_that_are_not_finite_are_seen(name: str, place: Any, bad: float) -> None:
    memory = Memory(state())  # as an integer its bits are -1, as a float they are nan
    assert memory.is_finite
    getattr(memory.state, name)[place] = bad
    assert not memory.is_finite


def jump(state, params, rows, move, step_size):
    """Count down to a weight that is not finite, and on."""
    state.weights[4, 3] = 1.0 / move.reward


@pytest.mark.parametrize(
    ("after", "floats", "expected"),
    [([1, 3], 24, True), ([1, 2], 24, False), ([1, 2], 0, True), ([1, 2], 19, True), ([], 24, True)],
)
def test_a_loop_says_whether_what_it_looked_at_was_finite(after, floats, expected) -> None:
    """The last weight, which is number 19, is infinite after two steps, and finite after one and three."""
    memory, places = Memory(state()), np.zeros(3, np.int64)
    rewards, sizes = np.array([1.0, 0.0, 1.0]), np.zeros(3)
    moves = Move(places, places, rewards, places, places, rewards)
    before, kept = np.zeros_like(memory.numbers), np.zeros((len(after), memory.numbers.size))
    saved = memory.numbers.copy()
    notes = Notes(np.array(after, np.int64), memory.numbers, NO_NOTES.more, kept, before, floats)
    for loop in (loop_of(jump), getattr(loop_of(jump), "py_func", loop_of(jump))):
        memory.numbers[:] = saved
        with np.errstate(divide="ignore"):
            assert loop(memory.state, (), (), moves, sizes, notes) is expected
        np.testing.assert_array_equal(before, saved)
        np.testing.assert_array_equal(memory.state.weights.ravel()[:19], np.arange(19.0))
