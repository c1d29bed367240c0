"""States keep their numbers, types and shapes in one piece of memory."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from gainbias.engine.loop import LINE, Memory


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
    memory = Memory(state())  # its integer -1 has the bits of a float that is no number
    assert memory.is_finite
    getattr(memory.state, name)[place] = bad
    assert not memory.is_finite
