"""A long log is evaluated by several threads, with the same answer for any number of them."""

import threading

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from gainbias.evaluation import reading
from gainbias.evaluation.collection import KEPT_TRANSITIONS
from gainbias.evaluation.sources import logs
from gainbias.store import plain

ROWS = 300_000
"""Five chunks of rows; threads share the sums of three of them, or of all."""


def columns(rows=ROWS):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 30, rows)
    states[1:] = np.where(rng.random(rows - 1) < 0.6, states[:-1], states[1:])
    return states, np.sin(states) + rng.normal(size=rows)


def question(kind):
    states, rewards = columns()
    rng = np.random.default_rng(1)
    ends = rng.random(ROWS) < 1e-3
    cut, following = rng.random(ROWS) < 0.01, np.append(states[1:], 0)
    following[cut] = 3
    one = sparse.eye_array(30, format="csr")
    angles = np.stack([np.cos(states), np.sin(states)], axis=1)
    return {
        "states": (((states, rewards),), {}),
        "many states": (((states * 10, rewards),), {}),
        "a table of features": (((states, rewards),), {"features": rng.normal(size=(30, 7))}),
        "sparse features": (
            ((states, rewards),),
            {"features": sparse.hstack([one, one[::-1]], format="csr")},
        ),
        "a map": (((angles, rewards),), {"features": gb.FourierBasis([-1.0, -1.0], [1.0, 1.0], order=3)}),
        "a function": (((angles, rewards),), {"features": lambda seen: np.column_stack([seen, seen**2])}),
        "episodes": (({"state": states, "reward": rewards, "terminated": ends},), {}),
        "next states": (
            ({"state": states, "reward": rewards, "next": following, "truncated": cut},),
            {},
        ),
        "times": (({"state": states, "reward": rewards, "lasted": 1.0 + states},), {"duration": "lasted"}),
        "learned step by step": (((states[:140_000], rewards[:140_000]),), {"algorithm": "centred-td"}),
    }[kind]


def answer(estimate):
    """Everything in an answer, except how long it took."""
    found = estimate.to_dict()
    for name in ("source_seconds", "library_seconds"):
        del found["diagnostics"][name]
    every = estimate.observed.every()
    values = [] if every is None else estimate.value_interval(every).tolist()
    return found, plain(values)


KINDS = (
    "states", "many states", "a table of features", "sparse features", "a map", "a function", "episodes",
    "next states", "times", "learned step by step",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_for_any_number_of_threads(kind):
    given, more = question(kind)
    alone = answer(gb.evaluate_log(*given, **more, threads=1))
    assert len(alone[0]["weights"]) > 1
    for threads in (2, 3, 7):
        assert answer(gb.evaluate_log(*given, **more, threads=threads)) == alone


def test_a_table_is_evaluated_with_the_same_bits_by_three_threads():
    given, more = question("a table of features")
    one, three = (gb.evaluate_log(*given, **more, threads=threads) for threads in (1, 3))
    assert one.weights.tobytes() == three.weights.tobytes()
    assert one.gain_interval == three.gain_interval


class TestWhatGoesWrong:
    @pytest.mark.parametrize("row", [70_000, 131_072, ROWS - 1])
    def test_a_wrong_row_is_found_by_any_number_of_threads(self, row):
        states, rewards = columns()
        rewards[row] = np.nan
        one, three = (gb.evaluate_log((states, rewards), threads=threads) for threads in (1, 3))
        assert f"row {row} of the log: the reward is nan, not a finite number" in one.diagnostics.warnings[0]
        assert three.diagnostics.warnings == one.diagnostics.warnings
        assert three.diagnostics.num_transitions == one.diagnostics.num_transitions == row - 1
        assert three.gain == one.gain

    def test_so_is_a_wrong_state(self):
        states, rewards = columns()
        states[200_000] = -1
        one, three = (gb.evaluate_log((states, rewards), threads=threads) for threads in (1, 3))
        assert "row 200000 of the log: the state is -1, outside" in one.diagnostics.warnings[0]
        assert three.diagnostics.warnings == one.diagnostics.warnings

    def test_a_map_that_fails_in_a_thread(self, monkeypatch):
        made = gb.FourierBasis.__call__

        def failing(self, seen):
            if seen.max() > 2.0:
                raise KeyError("too far")
            return made(self, seen)

        monkeypatch.setattr(gb.FourierBasis, "__call__", failing)
        places, rewards = np.random.default_rng(0).random((2, ROWS))
        places[150_000] = 3.0
        basis = gb.FourierBasis([0.0], [4.0], order=2)
        found = [
            gb.evaluate_log((places[:, None], rewards), features=basis, threads=threads) for threads in (1, 3)
        ]
        assert "the features failed: KeyError: 'too far'" in found[0].diagnostics.warnings[0]
        assert found[1].diagnostics.warnings == found[0].diagnostics.warnings
        assert found[1].diagnostics.num_transitions == found[0].diagnostics.num_transitions

    def test_a_function_of_the_user_is_called_by_one_thread(self):
        states, rewards = columns()
        callers = set()

        def features(seen):
            callers.add(threading.get_ident())
            return np.column_stack([seen, seen**2])

        gb.evaluate_log((np.sin(states)[:, None], rewards), features=features, threads=3)
        assert callers == {threading.get_ident()}

    @pytest.mark.parametrize("number", [0, -1, 1.5, True])
    def test_a_number_of_threads_is_positive(self, number):
        with pytest.raises(ValueError, match="threads must be a positive integer"):
            gb.evaluate_log(([0, 1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0]), threads=number)


class TestWhatIsMadeLater:
    def test_a_history_is_made_when_it_is_looked_at(self, monkeypatch):
        asked = []
        made = reading.gain_history
        monkeypatch.setattr(reading, "gain_history", lambda *given: asked.append(1) or made(*given))
        estimate = gb.evaluate_log(columns(5_000))
        assert "gain" in repr(estimate)
        assert asked == []
        assert estimate.history.gain[-1] == estimate.gain
        assert estimate.history.transitions[-1] == 4_999
        assert asked == [1]

    def test_the_stretch_that_is_looked_through_does_not_depend_on_chunks(self, monkeypatch):
        states, rewards = columns(KEPT_TRANSITIONS + 20_000)
        rewards[10_000:] += np.sin(np.arange(len(rewards) - 10_000))
        found = []
        for size in (65_536, 5_000):
            monkeypatch.setitem(logs.log_stream.__kwdefaults__, "batch_size", size)
            found.append(gb.evaluate_log((states, rewards)).diagnostics.predictable_share)
        assert found[0] > 0.05
        assert found[1] == pytest.approx(
            found[0], rel=1e-3
        )  # errors before the first of a batch are not known
