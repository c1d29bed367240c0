"""Algorithms close to their limit: a linear equation with noise, also where means multiply weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.fields import average_features
from gainbias.engine.paths import Sampling
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem
from gainbias.theory.curve.independent import HERE, OTHER, Plan
from gainbias.theory.curve.sources import Source, chain_source, mean_source, unit_rows
from gainbias.theory.curve.system import Probe, affine_field, weights_limit
from gainbias.theory.curve.terms import SampleField, read_terms
from gainbias.theory.noise import Noise, Piece


@dataclass(frozen=True, eq=False)
class Linear:
    """Near the limit, x changes in a step by alpha (noise - A (x - limit)); running means by their own steps.

    x is put together of the affine fields, of which the weights come first, and of running means of features
    and rewards that multiply them, if there are any.

    Attributes
    ----------
    matrix : (k, k) array
        A; the rows of running means are those of means with steps of their own.
    covariance : (k, k) array
        Long-run covariance of the noise.
    same_step : (k, k) array
        Covariance of the noise of one step.
    num_fields : int
        How many entries of x are affine fields.
    read : (d, k) array
        The reported weights as a function of x.
    """

    matrix: Floats
    covariance: Floats
    same_step: Floats
    num_fields: int
    read: Floats


def linearise(
    algorithm: Algorithm, problem: Problem, params: Any, first: Floats, sampling: Sampling
) -> Linear:
    """Return an algorithm at its limit.

    Parameters
    ----------
    algorithm, problem, params
        The algorithm, on what, and its parameters as its NamedTuple.
    first : (d,) array
        First weights, on which the limit may depend.
    sampling : {"markov", "iid"}
        How samples are drawn.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> algorithm = gb.ALGORITHMS["double-chain"]
    >>> linear = linearise(algorithm, problem, algorithm.params(), np.zeros(1), "iid")
    >>> linear.matrix, linear.covariance.round(4)
    (array([[0.5]]), array([[0.3125]]))
    """
    frozen = algorithm.sample_field is None
    field = affine_field(algorithm, params, frozen)
    names = ("weights",) if frozen else algorithm.affine
    probe = Probe(algorithm, problem, params, first, names)
    limit = weights_limit(algorithm, problem, params, first)
    chains = 2 if frozen else algorithm.chains
    linear = linear_field(problem, field, limit, len(probe.first), chains, sampling, frozen)
    read = np.zeros((problem.num_features, len(linear.matrix)))
    read[:, : len(probe.first)] = probe.read()
    return replace(linear, read=read)


def linear_field(
    problem: Problem,
    field: SampleField,
    limit: Floats,
    size: int,
    chains: int,
    sampling: Sampling,
    frozen: bool,
) -> Linear:
    """Return a field of a given number of entries at the limit of its weights."""
    terms = read_terms(problem, field, size, chains)
    if terms is None:
        raise ValueError("a field that is not a sum of products of rows of the features has no known noise")
    coefficients = terms.at(0.0)
    origin = _whole_limit(problem, coefficients, limit, size, chains, frozen)
    sources = _sources(problem, origin, chains, frozen)
    plan = Plan(coefficients, sources[:chains], unit_rows(origin, size - len(limit)))
    matrix, pieces = plan.mean[:-1, :-1], _pieces(plan, sources)
    if frozen:
        matrix, pieces = _with_means(problem, plan, coefficients, limit, pieces)
    noise = Noise(sources, pieces)
    read = np.eye(problem.num_features, len(matrix))
    return Linear(matrix, noise.covariance(sampling), noise.covariance("iid"), size, read)


def _whole_limit(
    problem: Problem, coefficients: Floats, limit: Floats, size: int, chains: int, frozen: bool
) -> Floats:
    """Return the limit of all affine fields: those after the weights make the mean update 0."""
    origin = np.zeros(size)
    origin[: len(limit)] = limit
    if size > len(limit):
        sources = _sources(problem, origin, chains, frozen)
        mean = Plan(coefficients, sources[:chains], unit_rows(origin, size - len(limit))).mean[:-1]
        origin[len(limit) :] = -np.linalg.lstsq(mean[:, len(limit) : -1], mean[:, -1])[0]
    return origin


def _sources(problem: Problem, origin: Floats, chains: int, frozen: bool) -> tuple[Source, Source]:
    """Return both chains; the mean also stands in for a second chain that is not used."""
    first = chain_source(problem, origin, problem.solution.stationary)
    return first, first if chains == 2 and not frozen else mean_source(problem, origin)


def _pieces(plan: Plan, sources: tuple[Source, Source]) -> list[Piece]:
    """Return the noise of the affine fields: minus each left times its right side at the limit."""
    found = []
    for i, chain in enumerate(plan.chain_of):
        table = plan.tables[i]
        vectors = np.broadcast_to(table, (sources[chain].size, table.shape[-1]))[:, :-1]
        numbers = [_numbers(plan, c, i, source) for c, source in enumerate(sources)]
        found.append(Piece(chain, -vectors, (numbers[0], numbers[1])))
    return found


def _numbers(plan: Plan, chain: int, i: int, source: Source) -> Floats:
    """Return the last entry of a right side, its value at the limit, for each transition of a chain."""
    table = source.transitions
    if chain >= len(plan.parts):
        return np.zeros(table.nnz)
    state = np.repeat(np.arange(source.size), np.diff(table.indptr))
    part = np.broadcast_to(plan.parts[chain], (source.size, *plan.parts[chain].shape[1:]))[state, i]
    values = source.rows[:, -1]
    total = part[:, 0] * values[state] + part[:, 1] * values[table.indices] + part[:, 2] * source.rewards
    if part.shape[1] > 3:
        total = total + part[:, 3:] @ plan.units[:, -1]
    return np.asarray(total)


def _with_means(
    problem: Problem, plan: Plan, coefficients: Floats, limit: Floats, pieces: list[Piece]
) -> tuple[Floats, list[Piece]]:
    """Add the running means of features and rewards to x: what they do to the weights, and their noise."""
    d, gain = len(limit), problem.solution.gain_per_step
    own = coefficients[0]
    matrix = np.eye(2 * d + 1)
    matrix[:d, :d] = plan.mean[:-1, :-1]
    matrix[:d, d:] = 0.0
    for i, left in enumerate(plan.lefts):
        at_limit = sum(
            float(source.law @ right[i, :, -1])
            for source, right in zip(plan.sources, plan.rights, strict=True)
        )
        if left == OTHER:
            matrix[:d, d : 2 * d] += at_limit * np.eye(d)
        mean = plan.left_mean[i][:-1]
        matrix[:d, d : 2 * d] += own[left, OTHER] * np.outer(mean, limit)
        matrix[:d, -1] += own[left, -1] * mean
    first, second = plan.sources
    wide = [Piece(p.chain, np.pad(p.vectors, ((0, 0), (0, d + 1))), p.numbers) for p in pieces]
    ones, none = np.ones(first.transitions.nnz), np.zeros(second.transitions.nnz)
    features, rewards = np.zeros((2, first.size, 2 * d + 1))
    features[:, d : 2 * d] = first.rows[:, :d] - average_features(problem)
    rewards[:, -1] = 1.0
    wide.append(Piece(HERE, features, (ones, none)))
    wide.append(Piece(HERE, rewards, (first.rewards - gain, none)))
    return matrix, wide
