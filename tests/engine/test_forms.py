"""Mistakes in a user's algorithm are explained in plain words."""

from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import gainbias as gb
from gainbias import axpy, dot
from gainbias.engine.run import compile_errors_in_words

from . import problems


class State(NamedTuple):
    weights: Any


class Other(NamedTuple):
    values: Any


def init(setting: Any, params: Any) -> State:
    return State(setting.weights.copy())


def step(state: Any, params: Any, rows: Any, move: Any, step_size: Any) -> None:
    state.weights[0] += step_size


def allocating(state: Any, params: Any, rows: Any, move: Any, step_size: Any) -> None:
    state.weights[:] = np.linalg.inv(undefined_name)  # type: ignore[name-defined]  # noqa: F821


def run(form: gb.Form, **facts: Any) -> gb.Trace:
    return gb.run(gb.Algorithm(name="mine", form=form, **facts), problems.dense(), 5, 0.1)


@pytest.mark.parametrize(
    ("form", "facts", "message"),
    [
        (gb.Form(init, partial(step)), {}, "the step of mine must be a plain Python function, found partial"),
        (gb.Form(init, step), {"chains": 3}, "mine samples 3 chains: there may be 1 or 2"),
        (gb.Form(lambda s, p: (s.weights,), step), {}, "must be a NamedTuple of arrays, found tuple"),
        (gb.Form(lambda s, p: State(0.5), step), {}, "must be an array of float64 or int64, found float"),
        (gb.Form(lambda s, p: State(s.weights.astype(np.float32)), step), {}, "found float32"),
        (gb.Form(lambda s, p: Other(s.weights.copy()), step), {}, "found no such field"),
        (gb.Form(lambda s, p: State(np.zeros(2)), step), {}, r"of shape \(3,\), found shape \(2,\)"),
        (
            gb.Form(lambda s, p: State(np.zeros(3)), step, laned=True),
            {},
            "must have the lanes as its last axis",
        ),
    ],
)
def test_mistakes(form: gb.Form, facts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(form, **facts)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_step_that_does_not_compile() -> None:
    with pytest.raises(ValueError, match=r"the step of mine does not compile: .*calls only functions marked"):
        run(gb.Form(init, allocating))


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("one line", "one line"),
        ("\nfirst\nsecond", "first"),
        ("\x1b[1m\x1b[0m\n\x1b[1mfirst\x1b[0m\nsecond", "first"),
        ("Failed in nopython mode\n  Untyped global name 'x'\nmore", "Untyped global name 'x'"),
    ],
)
def test_what_the_compiler_says_is_cut_to_its_cause(said: str, cause: str) -> None:
    with (
        pytest.raises(ValueError, match=f"the step of mine does not compile: {cause}. A step uses"),
        compile_errors_in_words(gb.Algorithm(name="mine", form=gb.Form(init, step))),
    ):
        raise numba.core.errors.TypingError(said)


def test_errors_that_are_not_the_compilers_stay_as_they_are() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        compile_errors_in_words(gb.Algorithm(name="mine", form=gb.Form(init, step))),
    ):
        raise ZeroDivisionError


def test_a_right_one_runs() -> None:
    assert run(gb.Form(init, step)).weights[0, -1, 0] == pytest.approx(0.5)


def by_name(state: Any, params: Any, rows: Any, move: Any, step_size: Any) -> None:
    axpy(rows, move.here, step_size * (move.reward - dot(rows, move.here, state.weights)), state.weights)


def by_module(state: Any, params: Any, rows: Any, move: Any, step_size: Any) -> None:
    gb.axpy(
        rows, move.here, step_size * (move.reward - gb.dot(rows, move.here, state.weights)), state.weights
    )


def test_a_step_may_use_the_public_operations_on_rows() -> None:
    first, second = run(gb.Form(init, by_name)), run(gb.Form(init, by_module))
    assert np.any(first.weights[0, -1] != 0.0)
    np.testing.assert_array_equal(first.weights, second.weights)
