"""An algorithm on a problem, as a recursion of moments.

Start reading in `make_system`. `affine_field` says why an algorithm has no such recursion, if it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Sample, Setting, read_state
from gainbias.engine.paths import Sampling, Start
from gainbias.features.matrix import column_lengths
from gainbias.model.problem import Problem
from gainbias.theory.curve.advance import Recursion
from gainbias.theory.curve.enumeration import Enumerated, first_law, move_law
from gainbias.theory.curve.moments import Along, Independent
from gainbias.theory.curve.terms import (
    Ingredients,
    SampleField,
    bound_field,
    chain_source,
    mean_source,
    read_terms,
    unit_rows,
)
from gainbias.types import Floats

MOST_MOMENT_BYTES = 4 * 2**30
"""Limit on the memory for the moments of all nodes and what is computed from them."""

UNIT_SAMPLE = Sample(np.ones(1), np.ones(1), 1.0, np.ones(1), np.ones(1), 1.0)
"""A transition with which to test whether fields exist at all."""

COPIES = {"iid": 50, "markov": 6}
"""Number of arrays of the size of the moments: a basis or the nodes of a block, or those of one step."""

MOST_LISTED_NUMBERS = 10**7
"""Limit on the numbers in the matrices of all moves, if these have to be listed."""


@dataclass(frozen=True, eq=False)
class System:
    """The affine fields x of an algorithm.

    Attributes
    ----------
    recursion : Recursion
        How their second moments about the origin change in a step.
    first : (m,) array
        Their first values.
    origin : (m,) array
        The point from which they are measured: the limit of the weights, 0 for other fields.
    read : (d, m) array
        The weights that the algorithm reports, as a function of x.
    """

    recursion: Recursion
    first: Floats
    origin: Floats
    read: Floats

    def of_weights(self, second: Floats, limit: Floats) -> tuple[Floats, Floats]:
        """Return means (..., d) and second moments (..., d, d) of reported weights about a limit.

        Moments that overflow are infinite, and means are then unknown.
        """
        away = (self.read @ self.origin - limit)[:, None]
        lift = np.block([[self.read, away], [np.zeros((1, self.read.shape[1])), np.ones((1, 1))]])
        with np.errstate(over="ignore", invalid="ignore"):
            seen = lift @ second @ lift.T
        lost = ~np.isfinite(seen).all(axis=(1, 2))
        seen[lost], seen[lost, :, -1] = np.inf, np.nan
        return seen[:, :-1, -1], seen[:, :-1, :-1]


def make_system(
    algorithm: Algorithm,
    problem: Problem,
    params: Any,
    first_weights: Floats,
    *,
    sampling: Sampling = "iid",
    start: Start = "uniform",
    frozen: bool = False,
    largest_step: float = 1.0,
    constant: bool = False,
) -> System:
    """Return the recursion of an algorithm's moments.

    Parameters
    ----------
    algorithm, problem, params
        The algorithm, the problem, and the parameters as the algorithm's NamedTuple.
    first_weights : (d,) array
        Weights before the first step.
    sampling, start
        As for `run`.
    frozen : bool
        Whether running means stay at their limits.
    largest_step : float
        No step size is larger.
    constant : bool
        Whether all step sizes are as large.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> algorithm = gb.ALGORITHMS["differential-td"]
    >>> make_system(algorithm, problem, algorithm.params(), np.zeros(1)).first
    array([0., 0.])
    """
    field = affine_field(algorithm, params, frozen)
    names = ("weights",) if frozen else algorithm.declared.affine
    probe = Probe(algorithm, problem, params, first_weights, names)
    origin = np.zeros_like(probe.first)
    origin[: problem.num_features] = weights_limit(algorithm, problem, params, first_weights)
    chains = 2 if frozen else algorithm.chains
    terms = read_terms(problem, field, len(origin), chains)
    law = first_law(problem, start)
    if terms is None:
        recursion: Recursion = _enumerated(algorithm, problem, field, origin, sampling, start, frozen)
        return System(recursion, probe.first, origin, probe.read())
    first = chain_source(problem, origin, law)
    second = None if chains == 1 else mean_source(problem, origin) if frozen else first
    nodes = 1 if sampling == "iid" else first.size * (1 if second is None else second.size)
    _check_memory(nodes, len(origin), sampling, chains)
    units = unit_rows(origin, len(origin) - problem.num_features)
    coefficients = terms.at if constant else terms.between(largest_step)
    made_of = Ingredients(coefficients, constant or not terms.depends_on_step, first, second, units)
    recursion = Independent(made_of) if sampling == "iid" else Along(made_of)
    return System(recursion, probe.first, origin, probe.read())


def weights_limit(algorithm: Algorithm, problem: Problem, params: Any, first_weights: Floats) -> Floats:
    """Return the weights that an algorithm converges to; where it states none, the paper's fixed point."""
    limit_of = algorithm.declared.limit
    limit = None if limit_of is None else limit_of(problem, params, first_weights)
    return problem.fixed_point if limit is None else limit


def has_exact_curve(algorithm: Algorithm, params: Any) -> bool:
    """Return whether steps of an algorithm with these parameters are affine in its weights.

    Examples
    --------
    >>> import gainbias as gb
    >>> td = gb.ALGORITHMS["td-lambda"]
    >>> has_exact_curve(td, td.params()), has_exact_curve(td, td.params(trace_decay=0.5))
    (True, False)
    """
    declared = algorithm.declared.sample_field
    return declared is not None and declared(UNIT_SAMPLE, params, 0.1) is not None


def affine_field(algorithm: Algorithm, params: Any, frozen: bool = False) -> SampleField:
    """Return the declared field, or raise an error that says why there is none and what to do."""
    declared = algorithm.declared.frozen_field if frozen else algorithm.declared.sample_field
    if declared is None:
        raise ValueError(_no_field(algorithm, frozen))
    if declared(UNIT_SAMPLE, params, 0.1) is None:
        guilty = [
            name
            for name, value in params._asdict().items()
            if declared(UNIT_SAMPLE, algorithm.params()._replace(**{name: value}), 0.1) is None
        ]
        advice = ", ".join(f"{name}={getattr(algorithm.params(), name):g}" for name in guilty)
        raise ValueError(
            f"with {', '.join(f'{name}={getattr(params, name):g}' for name in guilty)} a step of "
            f"{algorithm.name} is not affine in its weights, so its moments follow no recursion: use "
            f"{advice}, or exact_curve(..., lanes=1000) for the mean over 1,000 runs"
        )
    return bound_field(declared, params)


def _no_field(algorithm: Algorithm, frozen: bool) -> str:
    runs = "exact_curve(..., lanes=1000) for the mean over 1,000 runs, with its error"
    if frozen and algorithm.declared.sample_field is not None:
        return f"{algorithm.name} is affine in its weights as it is: leave out frozen=True"
    if algorithm.declared.frozen_field is not None:
        return (
            f"a step of {algorithm.name} multiplies its weights by running means, so no finite set of "
            f"moments follows a recursion: use {runs}, or frozen=True for the curve with these means at "
            "their limits"
        )
    return (
        f"{algorithm.name} declares no step that is affine in its weights, so its moments follow no "
        f"recursion: use {runs}"
    )


def _check_memory(nodes: int, size: int, sampling: Sampling, chains: int) -> None:
    need = COPIES[sampling] * 8 * nodes * (size + 1) ** 2
    if need > MOST_MOMENT_BYTES:
        pairs = "pair of states" if chains == 2 else "state"
        advice = "use sampling='iid', or fewer features" if sampling == "markov" else "use fewer features"
        raise ValueError(
            f"moments of {size} numbers for each of {nodes} {pairs if nodes > 1 else 'node'}s would take "
            f"{need / 2**30:.1f} GB, more than {MOST_MOMENT_BYTES / 2**30:g} GB: {advice}"
        )


def _enumerated(
    algorithm: Algorithm,
    problem: Problem,
    field: SampleField,
    origin: Floats,
    sampling: Sampling,
    start: Start,
    frozen: bool,
) -> Enumerated:
    moves = problem.mrp.csr.nnz**algorithm.chains
    if frozen or moves * (len(origin) + 1) ** 2 > MOST_LISTED_NUMBERS:
        raise ValueError(
            f"the sample_field of {algorithm.name} is not a sum of products of rows of the features, so all "
            f"{moves} moves would have to be listed, which is too many: use a smaller problem, or lanes=1000"
        )
    return Enumerated(problem, field, move_law(problem, algorithm.chains, sampling, start), origin)


class Probe:
    """The state of an algorithm before its first step, and what it reports of other states."""

    def __init__(
        self, algorithm: Algorithm, problem: Problem, params: Any, weights: Floats, names: tuple[str, ...]
    ) -> None:
        self.form, self.names = algorithm.form, names
        laned = self.form.laned
        lengths = column_lengths(problem.features)
        first = weights[:, None].copy() if laned else weights.copy()
        self.setting = Setting(first, problem.ones_weights, problem.mrp.max_abs_reward, lengths)
        self.params = type(params)(*(np.array([value]) for value in params)) if laned else params
        self.state = self.form.init(self.setting, self.params)
        self.first = np.concatenate([getattr(self.state, name).ravel() for name in names])

    def read(self) -> Floats:
        """Return the reported weights as a function of the affine fields, (d, m)."""
        d = len(self.setting.weights)
        if self.form.output is read_state:
            return np.eye(d, len(self.first))
        return np.array([self._output(unit) for unit in np.eye(len(self.first))]).T

    def _output(self, x: Floats) -> Floats:
        ends = np.cumsum([getattr(self.state, name).size for name in self.names])
        for name, part in zip(self.names, np.split(x, ends[:-1]), strict=True):
            array = getattr(self.state, name)
            array[...] = part.reshape(array.shape)
        weights: Floats = self.form.output(self.state, self.params, self.setting).weights
        return weights.reshape(-1).copy()  # they may be those of the state
