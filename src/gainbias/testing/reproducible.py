"""Checks that a run depends on its seed, step sizes and parameters alone.

Compiled steps do what their Python form does, lanes do not see each other, and neither checkpoints nor
threads change a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Form
from gainbias.engine import work
from gainbias.engine.lanes import Group
from gainbias.engine.loop import Average, averaging_loop_of, loop_of
from gainbias.engine.run import run
from gainbias.engine.trace import Trace
from gainbias.features.rows import LANES, rows_of
from gainbias.testing.drive import (
    Case,
    Rig,
    all_params,
    copied,
    first_weights,
    lanes_of,
    sampled_moves,
    setting_of,
)
from gainbias.testing.report import Skip, close, same_bits

BIT_STEPS = 24


def compiled_equals_python(case: Case) -> str:
    """Compiled steps leave the same bits in the state as the Python form, alone and in company."""
    if not case.declared.bitwise:
        return _compare_forms(case, lambda found, told, what: close(found, told, 1e-12, what))
    return _compare_forms(case, same_bits)


def _compare_forms(case: Case, compare: Callable[[Any, Any, str], Any]) -> str:
    moves = sampled_moves(case, BIT_STEPS)
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
    return f"{BIT_STEPS} steps, {' and '.join(map(str, widths(case.form)))} lanes, plain and averaging"


def widths(form: Form) -> tuple[int, ...]:
    """Return the numbers of lanes that go together: 1, and as many as fit."""
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
    sizes = group.step_sizes(0, BIT_STEPS, form.laned)
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


RUN_STEPS = 60
TRIED_SEEDS = range(5)
STEP_SIZES = [0.05, 0.1, 0.2]


def state_is_its_own(case: Case) -> str:
    """The first state shares no memory with what the algorithm is told, nor do its fields with each other."""
    rig = Rig(case)
    state = rig.begin(first_weights(case.problem))
    told = [rig.setting.weights, case.problem.ones_weights, *state]
    for k, field in enumerate(state):
        for other in told[: 2 + k]:
            if other is not None and np.shares_memory(field, other):
                raise AssertionError(f"{state._fields[k]} shares memory with the setting or another field")
    return f"{len(state)} fields"


def cuts_change_no_bit(case: Case) -> str:
    """Checkpoints, and where the kernel is left and entered again, change no bit."""
    whole = _run(case, checkpoints=[RUN_STEPS])
    for checkpoints in ([7, 31], range(RUN_STEPS)):
        _same(_run(case, checkpoints=checkpoints), whole, "with more checkpoints")
    with _stretches_of(11):
        _same(_run(case, checkpoints=[RUN_STEPS]), whole, "in shorter stretches")
    return "3 ways to cut a run"


def threads_change_no_bit(case: Case) -> str:
    """The number of threads changes no bit."""
    one = _run(case, threads=1)
    for threads in (2, 8):
        _same(_run(case, threads=threads), one, f"with {threads} threads")
    return "1, 2 and 8 threads"


def company_changes_no_bit(case: Case) -> str:
    """A lane alone has the bits it has in company, whatever the parameters of the others."""
    columns = zip(*all_params(case.algorithm), strict=True)
    grid: Any = {name: list(dict.fromkeys(c)) for name, c in zip(case.params._fields, columns, strict=True)}
    together = _run(case, seeds=[3], step_size=STEP_SIZES, params=grid)
    chosen = range(0, len(together.lanes), max(1, len(together.lanes) // 12))
    for k in chosen:
        lane = together.lanes[k]
        alone = _run(case, seeds=[3], step_size=lane.step_size, params=lane.params)
        same_bits(alone.weights[0], together.weights[k], f"weights of lane {k} alone")
        same_bits(alone.gain[0], together.gain[k], f"gain of lane {k} alone")
    return f"{len(chosen)} lanes of {len(together.lanes)}"


def seeds_decide(case: Case) -> str:
    """The same seed gives the same bits, another seed others."""
    first = _run(case, seeds=[0, 1])
    _same(_run(case, seeds=[0, 1]), first, "in a second run")
    if np.array_equal(first.weights[0], first.weights[len(STEP_SIZES)], equal_nan=True):
        raise AssertionError("two seeds give the same weights")
    return "2 seeds, twice"


def averages_are_means(case: Case) -> str:
    """A tail average is the mean of the weights of the steps it covers."""
    plain = _run(case, checkpoints=range(RUN_STEPS + 1))
    averaged = _run(case, checkpoints=[RUN_STEPS], tail_average=0.25)
    covered = plain.weights[:, RUN_STEPS // 4 + 1 :]
    if np.array_equal(averaged.weights[:, -1], plain.weights[:, -1]) and np.ptp(covered, axis=1).any():
        raise Skip("its output is not made of the weights of its steps")
    rig = Rig(case)  # what is reported may be a part of the weights, and then it is that part of their mean
    means = [rig.output(rig.begin(mean)) for mean in covered.mean(axis=1)]
    return close(averaged.weights[:, -1], means, 1e-12, "tail average")


def _run(case: Case, **changes: Any) -> Trace:
    asked: dict[str, Any] = {
        "step_size": STEP_SIZES,
        "seeds": TRIED_SEEDS,
        "params": case.params._asdict(),
        "checkpoints": [RUN_STEPS],
        "initial_weights": first_weights(case.problem),
        "threads": 1,
    }
    return run(case.algorithm, case.problem, RUN_STEPS, **{**asked, **changes})


def _same(found: Trace, expected: Trace, what: str) -> None:
    same_bits(found.weights[:, -1], expected.weights[:, -1], f"weights {what}")
    same_bits(found.gain[:, -1], expected.gain[:, -1], f"gain {what}")


@contextmanager
def _stretches_of(steps: int) -> Iterator[None]:
    before = work.KERNEL_STRETCH
    work.KERNEL_STRETCH = steps
    try:
        yield
    finally:
        work.KERNEL_STRETCH = before
