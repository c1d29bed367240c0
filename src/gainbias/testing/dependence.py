"""Checks of what a run depends on, and what it must not depend on.

It depends on its seed, its step sizes and its parameters. It does not depend on being compiled, on
checkpoints, threads and other lanes: these change no bit. Nor does it depend on how the problem is
written: names of states, storage of features, and units and zero of the rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.algorithms.algorithm import Form
from gainbias.algorithms.fields import dense_features
from gainbias.engine import work
from gainbias.engine.lanes import Group
from gainbias.engine.loop import NO_NOTES, Average, averaging_loop_of, loop_of
from gainbias.engine.run import run
from gainbias.engine.trace import Trace
from gainbias.features import Tabular
from gainbias.features.rows import LANES, rows_of
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.testing.drive import (
    Case,
    Rig,
    Skip,
    all_params,
    close,
    copied,
    first_weights,
    follow,
    lanes_of,
    law_of,
    same_bits,
    sampled_moves,
    setting_of,
)
from gainbias.types import Ints

BIT_STEPS = 24


def compiled_equals_python(case: Case) -> str:
    """Compiled steps leave the same bits in the state as the Python form, alone and with other lanes."""
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
    """Return the numbers of lanes that run together: 1, and as many as fit."""
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
            advance(state, params, rows, moves, sizes, NO_NOTES)
            return state
        average = copied(average)
        weights = state.weights.reshape(len(state.weights), -1)
        advance(state, average, weights, params, rows, moves, sizes, NO_NOTES)
    return state._replace(weights=average.total)


RUN_STEPS = 60
TRIED_SEEDS = range(5)
STEP_SIZES = [0.05, 0.1, 0.2]


def state_is_its_own(case: Case) -> str:
    """The first state shares no memory with the algorithm's inputs, nor do its fields with each other."""
    rig = Rig(case)
    state = rig.begin(first_weights(case.problem))
    told = [rig.setting.weights, case.problem.ones_weights, *state]
    for k, field in enumerate(state):
        for other in told[: 2 + k]:
            if other is not None and np.shares_memory(field, other):
                raise AssertionError(f"{state._fields[k]} shares memory with the setting or another field")
    return f"{len(state)} fields"


def cuts_change_no_bit(case: Case) -> str:
    """Checkpoints, and the places where the kernel is left and entered again, change no bit."""
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
    """A lane has the same bits alone and together with others, whatever their parameters."""
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


INVARIANCE_STEPS = 150
SHIFT = 3.0
INVARIANCE_TOLERANCE = 1e-9


def shifted_rewards_keep_the_limit(case: Case) -> str:
    """A number added to all rewards changes neither the mean field, nor differences of limiting values."""
    case.need("limit")
    case.need_no_radius()
    if case.declared.discounted:
        raise Skip("it discounts rewards")
    algorithm, params, first = case.algorithm, case.params, first_weights(case.problem)
    assert algorithm.declared.limit is not None
    both = case.problem, _shifted(case.problem)
    if algorithm.declared.mean_field is not None:
        before, after = (algorithm.declared.mean_field(problem, params) for problem in both)
        close(after.matrix, before.matrix, INVARIANCE_TOLERANCE, "matrix A")
        close(after.vector, before.vector, INVARIANCE_TOLERANCE, "vector b")
    limits = [algorithm.declared.limit(problem, params, first) for problem in both]
    values = [case.problem.features.combine(limit) for limit in limits if limit is not None]
    if len(values) < 2:
        raise Skip("no limit stated for these parameters")
    differences = [each - each[0] for each in values]
    return close(differences[1], differences[0], INVARIANCE_TOLERANCE, "differences of values in the limit")


def shifted_rewards_keep_the_path(case: Case) -> str:
    """A number added to all rewards changes no weight on any path, if and only if that is declared."""
    moves = sampled_moves(case, INVARIANCE_STEPS)
    shifted = moves._replace(reward=moves.reward + SHIFT, other_reward=moves.other_reward + SHIFT)
    before, after = follow(case, moves), follow(case, shifted)
    if case.declared.shift_invariant:
        return close(after, before, INVARIANCE_TOLERANCE, "weights after a shift of the rewards")
    apart = float(np.abs(after - before).max())
    if not apart > 1e3 * INVARIANCE_TOLERANCE:
        raise AssertionError(f"declared False, but a shift moves no weight more than {apart:.1e}")
    return f"a shift by {SHIFT:g} moves the weights by {apart:.2g}, as declared"


def doubled_rewards_double_the_path(case: Case) -> str:
    """Twice the rewards and first weights give exactly twice the weights."""
    case.need_no_radius()
    moves = sampled_moves(case, INVARIANCE_STEPS)
    doubled = moves._replace(reward=2.0 * moves.reward, other_reward=2.0 * moves.other_reward)
    told = setting_of(case.problem, case.form, first_weights(case.problem), 1)
    more = replace(told, weights=2.0 * told.weights, max_abs_reward=2.0 * told.max_abs_reward)
    same_bits(follow(case, doubled, more), 2.0 * follow(case, moves, told), "weights for doubled rewards")
    return f"{INVARIANCE_STEPS} steps"


def names_of_states_do_not_matter(case: Case) -> str:
    """Other names of the same states change no bit; with tabular features they rename the weights."""
    n = case.problem.mrp.num_states
    new = np.random.default_rng(1).permutation(n)
    old = np.argsort(new)
    moves = sampled_moves(case, INVARIANCE_STEPS)
    states = {
        name: new[getattr(moves, name)].astype(np.int32) for name in ("here", "after", "other", "other_after")
    }
    renamed = moves._replace(**states)
    told = setting_of(case.problem, case.form, first_weights(case.problem), 1)
    if case.kind == "tabular":
        ones, first = case.problem.ones_weights, told.weights[old]
        found = follow(case, renamed, replace(told, weights=first, ones_weights=ones))[new]
        return close(found, follow(case, moves, told), INVARIANCE_TOLERANCE, "weights of renamed states")
    features = case.problem.features.matrix[old]
    other = replace(case, problem=Problem(_renamed(case.problem, old), features))
    same_bits(follow(other, renamed, told), follow(case, moves, told), "weights of renamed states")
    return f"{INVARIANCE_STEPS} steps"


def kinds_of_features_agree(case: Case) -> str:
    """The same matrix gives the same weights, whether it is stored as dense, sparse or tabular."""
    if case.declared.tabular_only:
        raise Skip("it exists for tabular features only")
    matrix = dense_features(case.problem)
    stored = Problem(case.problem.mrp, sparse.csr_array(matrix) if case.kind == "dense" else matrix)
    moves = sampled_moves(case, INVARIANCE_STEPS)
    told = setting_of(case.problem, case.form, first_weights(case.problem), 1)
    other = replace(case, problem=stored)
    told_otherwise = setting_of(case.problem, other.form, first_weights(case.problem), 1)
    found, expected = follow(case, moves, told), follow(other, moves, told_otherwise)
    return close(
        found, expected, INVARIANCE_TOLERANCE, f"weights for {case.kind} and {stored.features.kind} features"
    )


def parameters_matter(case: Case) -> str:
    """Another value of any parameter, such as a finite radius, changes the path."""
    if not case.algorithm.bounds:
        raise Skip("it has no parameters with bounds")
    moves = sampled_moves(case, INVARIANCE_STEPS)
    usual = follow(case, moves)
    for params in all_params(case.algorithm)[1:]:
        other = replace(case, params=params)
        if np.array_equal(follow(other, moves), usual):
            raise AssertionError(f"with {other.changed} the path is the same as without")
    return f"{len(case.algorithm.bounds)} parameters"


def step_sizes_matter(case: Case) -> str:
    """Smaller steps change the path, if and only if the algorithm is not declared to be free of them."""
    moves = sampled_moves(case, INVARIANCE_STEPS)
    apart = float(np.abs(follow(case, moves, scale=0.5) - follow(case, moves)).max())
    if case.declared.step_free != (apart == 0.0):
        raise AssertionError(f"half the step sizes move the weights by {apart:.2g}, against what is declared")
    return f"half the step sizes move the weights by {apart:.2g}"


def only_touched_rows_change(case: Case) -> str:
    """A step changes no weights but those of the rows it visits, if that is declared."""
    rig = Rig(case)
    if not case.form.touches_rows(rig.params):
        raise Skip("it does not declare touches_rows with these parameters")
    law, matrix = law_of(case), dense_features(case.problem)
    state = rig.begin(first_weights(case.problem))
    for k in range(len(law.probability)):
        move, before = law.move(k), state.weights.copy()
        rig.step(state, move, 0.5)
        changed = (state.weights != before).reshape(len(before), -1).any(axis=1)
        if (changed & (matrix[move.here] == 0.0) & (matrix[move.other] == 0.0)).any():
            raise AssertionError(f"the step {move} changes weights of other rows")
    return f"{len(law.probability)} moves"


def _shifted(problem: Problem) -> Problem:
    """Return the same problem with a number added to all rewards."""
    process = problem.mrp
    rewards = process.rewards if process.transition_rewards is None else process.transition_rewards
    changed = MarkovRewardProcess(process.csr, np.asarray(rewards) + SHIFT)
    return Problem(changed, Tabular() if problem.features.kind == "tabular" else problem.features)


def _renamed(problem: Problem, old: Ints) -> MarkovRewardProcess:
    """Return the process whose state k is what was called ``old[k]``; only its transitions matter here."""
    return MarkovRewardProcess(problem.mrp.csr[old][:, old], problem.mrp.rewards[old])
