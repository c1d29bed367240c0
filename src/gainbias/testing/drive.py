"""What all checks share: algorithms on small problems, driven step by step, and comparisons of numbers.

A `Case` is an algorithm on one small problem with one setting of its parameters; all checks take one, and
raise `Skip` if they do not apply to it. `Rig` takes its steps by hand, uncompiled; `follow` runs it
compiled along a given path. `same_bits`, `close` and `within_errors` say how far two answers are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.algorithms.algorithm import Algorithm, Declared, Form, Move, ParameterRange, Setting
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.loop import NO_NOTES, loop_of
from gainbias.engine.paths import Sampler
from gainbias.engine.schedules import Harmonic
from gainbias.engine.work import moves_of
from gainbias.features import Tabular
from gainbias.features.rows import rows_of
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.curve.enumeration import MoveLaw, move_law
from gainbias.types import Floats

FEATURE_KINDS = ("dense", "constants", "sparse", "tabular")
"""Dense features that do not span the constants, dense ones that do, sparse ones that do not, and tabular."""

FEW, SEVERAL = 3, 8
"""Numbers of states: few if everything is enumerated, several if paths are compared."""

SEED = 101
"""With it the mean fields of the problems with few states pull strongly, so that short runs converge."""


class Skip(Exception):
    """A check does not apply, for the reason given."""


@dataclass(frozen=True)
class Case:
    """An algorithm on one problem, with one setting of its parameters.

    Attributes
    ----------
    algorithm : Algorithm
    kind : str
        One of `FEATURE_KINDS`.
    problem : Problem
    params : NamedTuple of float
        Parameters of the algorithm.
    """

    algorithm: Algorithm
    kind: str
    problem: Problem
    params: Any

    @property
    def declared(self) -> Declared:
        """The facts that the algorithm declares."""
        return self.algorithm.declared

    @property
    def form(self) -> Form:
        """How the algorithm is computed here."""
        return self.algorithm.form_for(self.problem.features.kind)

    @property
    def changed(self) -> dict[str, float]:
        """Parameters that differ from their defaults."""
        default = self.algorithm.params._field_defaults
        return {name: value for name, value in self.params._asdict().items() if value != default.get(name)}

    @property
    def on_a_line(self) -> bool:
        """Whether the limit is known up to a constant value only."""
        return self.declared.limit_is_line and self.problem.ones_in_span

    @property
    def radius(self) -> float:
        """The smallest parameter that may be infinite: a bound beyond which something is cut off."""
        bounds = self.algorithm.bounds
        radii = (getattr(self.params, name) for name in bounds if is_radius(bounds[name]))
        return min(radii, default=np.inf)

    def need(self, *facts: str) -> None:
        """Skip the check unless the algorithm states these facts."""
        for fact in facts:
            if getattr(self.declared, fact) is None:
                raise Skip(f"it declares no {fact}")

    def need_no_radius(self) -> None:
        """Skip the check if a radius is finite."""
        if np.isfinite(self.radius):
            raise Skip("a finite radius")

    def need_plain_form(self) -> None:
        """Skip the check if these features have a form of their own."""
        if self.form is not self.algorithm.form:
            raise Skip("a form of its own, which kinds_of_features_agree compares with the plain one")

    def need_a_limit(self) -> None:
        """Skip the check if the algorithm is not claimed to converge here."""
        self.need("limit")
        self.need_no_radius()
        assert self.declared.limit is not None
        if self.declared.limit(self.problem, self.params, np.zeros(self.problem.num_features)) is None:
            raise Skip("no limit stated for these parameters")
        if self.declared.needs_ones_outside_span and self.problem.ones_in_span:
            raise Skip("it needs features that do not span the constants")


def is_radius(allowed: ParameterRange) -> bool:
    """Whether a parameter of this range may be infinite."""
    return allowed.with_most and allowed.most == np.inf


def all_params(algorithm: Algorithm) -> list[Any]:
    """Return the parameters that are tried: the usual ones, one changed at a time, and all of them changed.

    The usual ones are the defaults, or those that the algorithm declares for trials. Only those with bounds
    are changed.

    Examples
    --------
    >>> import gainbias as gb
    >>> all_params(gb.ALGORITHMS["differential-td"])
    [Params(gain_ratio=1.0), Params(gain_ratio=2.0)]
    """
    usual = {**algorithm.params._field_defaults, **algorithm.declared.trial_params}
    missing = [name for name in algorithm.params._fields if name not in usual]
    if missing:
        raise ValueError(
            f"{algorithm.name} cannot be tried without a value of its parameter {missing[0]!r}: give it a "
            "default, or name one in trial_params"
        )
    changed = {name: other_value(each, usual[name]) for name, each in algorithm.bounds.items()}
    singles = [{name: value} for name, value in changed.items()]
    together = [changed] if len(changed) > 1 else []
    return [algorithm.params(**{**usual, **changes}) for changes in [{}, *singles, *together]]


def other_value(allowed: ParameterRange, usual: float) -> float:
    """Return a number of a range that differs from the usual one.

    Examples
    --------
    >>> other_value(ParameterRange(0.0, 1.0), 0.1), other_value(ParameterRange(0.0, np.inf), 1.0)
    (0.5, 2.0)
    """
    if is_radius(allowed):
        return 0.25  # weights and means of features reach it on the problems below
    if np.isfinite(allowed.most):
        middle = 0.5 * (allowed.least + allowed.most)
        return middle if middle != usual else 0.5 * (middle + allowed.most)
    return 2.0 * usual if usual > 0.0 else 1.0


@cache
def small_problem(kind: str, num_states: int) -> Problem:
    """Return a small problem: two or three successors for each state, and rewards of transitions.

    Examples
    --------
    >>> small_problem("constants", 3)
    Problem(3 states, 2 dense features)
    """
    rng = np.random.default_rng(SEED)
    successors = 2 if num_states == FEW else 3
    transitions = np.zeros((num_states, num_states))
    for state in range(num_states):
        after = (state + np.array([0, 1, 3])[:successors]) % num_states
        transitions[state, after] = rng.dirichlet(np.full(successors, 4.0))
    rewards = rng.uniform(-0.5, 2.0, (num_states, num_states))
    process = MarkovRewardProcess(transitions, rewards)
    if kind == "tabular":
        return Problem(process, Tabular())
    matrix = _features(kind, num_states, rng)
    matrix /= np.linalg.norm(matrix, axis=1).max()
    return Problem(process, sparse.csr_array(matrix) if kind == "sparse" else matrix)


def _features(kind: str, num_states: int, rng: np.random.Generator) -> Floats:
    d = 2 if num_states == FEW else 4
    matrix = rng.uniform(-1.0, 1.0, (num_states, d))
    if kind == "constants":
        # Weights (1, 2, 1, 1, ...) give every state the same value.
        matrix[:, 1] = 0.5 * (1.0 - matrix[:, 0] - matrix[:, 2:].sum(axis=1))
    if kind == "sparse":
        matrix[np.arange(num_states)[:, None] % d == np.arange(d)] = 0.0
        matrix[-1] = 0.0
        matrix[-1, 0] = 1.0
    return matrix


class Rig:
    """One lane of an algorithm whose steps are taken by hand, uncompiled.

    Parameters
    ----------
    case : Case
        What is tried.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.testing.drive import small_problem
    >>> algorithm = gb.ALGORITHMS["double-chain"]
    >>> rig = Rig(Case(algorithm, "tabular", small_problem("tabular", 3), algorithm.params()))
    >>> state = rig.begin(np.zeros(3))
    >>> rig.step(state, Move(0, 1, 1.0, 2, 0, 0.0), 0.5)
    >>> rig.output(state)
    array([ 0.5,  0. , -0.5])
    """

    def __init__(self, case: Case) -> None:
        self.form, self.problem = case.form, case.problem
        self.rows = rows_of(case.problem.features)
        self.params = lanes_of([case.params]).params(case.algorithm, self.form.laned)

    def begin(self, weights: Floats, **fields: Any) -> Any:
        """Return a first state with these weights, (d,), and with these fields changed."""
        self.setting = setting_of(self.problem, self.form, weights, 1)
        state = self.form.init(self.setting, self.params)
        for name, value in fields.items():
            array = getattr(state, name)
            array[...] = np.reshape(value, array.shape)
        return state

    def step(self, state: Any, move: Move, step_size: float) -> None:
        """Change a state by one step of the algorithm."""
        size = np.array([step_size]) if self.form.laned else step_size
        self.form.step(state, self.params, self.rows, move, size)

    def read(self, state: Any, fields: Sequence[str]) -> Floats:
        """Return fields of a state, one after the other, as a vector."""
        return np.concatenate([getattr(state, name).ravel() for name in fields])

    def output(self, state: Any) -> Floats:
        """Return the weights, (d,), that a state stands for."""
        return self.form.output(state, self.params, self.setting).weights.reshape(-1)


def setting_of(problem: Problem, form: Form, weights: Floats, width: int) -> Setting:
    """Return what an algorithm is told before its first step, with first weights of shape (d,)."""
    lanes = np.repeat(weights[:, None], width, axis=1)
    first = lanes if form.laned else weights.copy()
    return Setting(first, problem.ones_weights, problem.mrp.max_abs_reward)


def sampled_moves(case: Case, num_steps: int, seed: int = 0) -> Move:
    """Return the moves of a sampled path."""
    sampler = Sampler(case.problem.mrp)
    names = ("first chain", "second chain")[: case.algorithm.chains]
    return moves_of([sampler.paths([seed], chain=name).take(num_steps) for name in names], 0)


def law_of(case: Case) -> MoveLaw:
    """Return all moves of the stationary chain."""
    return move_law(case.problem, case.algorithm.chains)


def first_weights(problem: Problem) -> Floats:
    """Return weights of different sizes and signs."""
    return np.asarray(0.5 * np.cos(np.arange(1.0, problem.num_features + 1.0)))


def copied(state: Any) -> Any:
    """Return a copy of a NamedTuple of arrays."""
    return type(state)(*(array.copy() for array in state))


def follow(case: Case, moves: Move, setting: Setting | None = None, scale: float = 1.0) -> Floats:
    """Let one compiled lane follow a path, with scaled step sizes, and return its last weights, (d,)."""
    form, group = case.form, lanes_of([case.params])
    params = group.params(case.algorithm, form.laned)
    told = setting or setting_of(case.problem, form, first_weights(case.problem), 1)
    state = form.init(told, params)
    sizes = scale * group.step_sizes(0, len(moves.here), form.laned)
    loop_of(form.step)(state, params, rows_of(case.problem.features), moves, sizes, NO_NOTES)
    weights: Floats = form.output(state, params, told).weights.reshape(-1)
    return weights


def lanes_of(params: Sequence[Any]) -> Group:
    """Return lanes with these parameters and with different step sizes."""
    lanes = [Lane(0, Harmonic(4.0 + k, 16.0), each._asdict()) for k, each in enumerate(params)]
    return Group(lanes, list(range(len(lanes))), len(lanes))


def same_bits(found: Any, expected: Any, what: str) -> None:
    """Demand that two arrays have the same bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.tobytes() != expected.tobytes():
        raise AssertionError(f"{what}: not the same bits, {_difference(found, expected):.2e} apart")


def close(found: Any, expected: Any, tolerance: float, what: str) -> str:
    """Demand that two arrays agree, relative to the largest number or 1, and say how well they do."""
    found, expected = np.asarray(found), np.asarray(expected)
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    difference = _difference(found, expected) / size
    if not difference <= tolerance:
        raise AssertionError(f"{what}: {difference:.2e} apart, {tolerance:.0e} is allowed")
    return f"{what}: {difference:.1e} apart"


def within_errors(found: Floats, expected: Floats, error: Floats, what: str, most: float = 4.0) -> str:
    """Demand that means are within a few standard errors, and say how far the farthest one is.

    A number without any spread must be exact up to rounding.
    """
    room = most * error + 1e-12 * np.maximum(1.0, np.abs(expected))
    farthest = float((np.abs(found - expected) / room).max()) * most
    if not farthest <= most:
        raise AssertionError(f"{what}: {farthest:.1f} standard errors off, {most:g} are allowed")
    return f"{what}: at most {farthest:.1f} standard errors off"


def _difference(found: Any, expected: Any) -> float:
    if found.shape != expected.shape:
        return np.inf
    with np.errstate(invalid="ignore"):
        return float(np.abs(found - expected).max(initial=0.0))
