"""Checks of what must matter (parameters, step sizes) and what must not (names of states, units)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from gainbias.algorithms.fields import dense_features
from gainbias.features import Tabular
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.testing.drive import Case, Rig, all_params, first_weights, follow, sampled_moves, setting_of
from gainbias.testing.fields import law_of
from gainbias.testing.report import Skip, close, same_bits
from gainbias.types import Ints

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
