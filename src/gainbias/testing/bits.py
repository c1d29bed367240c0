"""Checks that compiled steps do what their Python form does, and that lanes do not see each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Form
from gainbias.engine.lanes import Group
from gainbias.engine.loop import Average, averaging_loop_of, loop_of
from gainbias.features.rows import LANES, rows_of
from gainbias.testing.cases import Case, all_params
from gainbias.testing.compare import close, same_bits
from gainbias.testing.drive import copied, first_weights, lanes_of, sampled_moves, setting_of

STEPS = 24


def compiled_equals_python(case: Case) -> str:
    """Compiled steps leave the same bits in the state as the Python form, alone and in company."""
    if not case.algorithm.bitwise:
        return _compare_forms(case, lambda found, told, what: close(found, told, 1e-12, what))
    return _compare_forms(case, same_bits)


def _compare_forms(case: Case, compare: Callable[[Any, Any, str], Any]) -> str:
    moves = sampled_moves(case, STEPS)
    for width in widths(case.form):
        group = _group(case, width)
        params = group.params(case.algorithm, case.form.laned)
        told = setting_of(case.problem, case.form, first_weights(case.problem), width)
        state = case.form.init(told, params)
        for average in _averages(case, state, params):
            found = _advanced(case, group, state, average, moves, compiled=True)
            expected = _advanced(case, group, state, average, moves, compiled=False)
            for name, one, other in zip(found._fields, found, expected, strict=True):
                averaged = ", averaging" if average else ""
                compare(one, other, f"{name}, {width} lanes{averaged}")
    return f"{STEPS} steps, {' and '.join(map(str, widths(case.form)))} lanes, plain and averaging"


def widths(form: Form) -> tuple[int, ...]:
    """Return how many lanes go together."""
    return (1, LANES) if form.laned else (1,)


def _group(case: Case, width: int) -> Group:
    """Return lanes of this case, and of the other parameters that are tried."""
    others = all_params(case.algorithm)
    return lanes_of([case.params, *(others[k % len(others)] for k in range(1, width))])


def _averages(case: Case, state: Any, params: Any) -> list[Average | None]:
    """Return the sums that are made in turn: none, of all weights, and of those that a step touches."""
    if case.form.own_average is not None:
        return [None]
    weights = state.weights.reshape(len(state.weights), -1)
    counted = [0, len(weights)] if case.form.touches_rows(params) else [0]
    clock = np.zeros(1, np.int64)
    return [None, *(Average(np.zeros_like(weights), np.zeros(k, np.int64), clock) for k in counted)]


def _advanced(
    case: Case, group: Group, state: Any, average: Average | None, moves: Any, compiled: bool
) -> Any:
    """Return the state after a path; where weights are averaged, with their total instead of them."""
    form, rows = case.form, rows_of(case.problem.features)
    params = group.params(case.algorithm, form.laned)
    sizes = group.step_sizes(0, STEPS, form.laned)
    state = copied(state)
    loop: Any = loop_of(form.step) if average is None else averaging_loop_of(form.step)
    advance = loop if compiled else getattr(loop, "py_func", loop)
    with np.errstate(all="ignore"):
        if average is None:
            advance(state, params, rows, moves, sizes)
            return state
        average = copied(average)
        weights = state.weights.reshape(len(state.weights), -1)
        advance(state, average, weights, params, rows, moves, sizes)
    return state._replace(weights=average.total)
