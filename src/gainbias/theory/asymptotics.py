"""How errors shrink in the long run: covariances of sqrt(t) times the error, and the cost in transitions.

Near its limit an algorithm is a linear equation with noise of long-run covariance C (see `linearise`).
Write B for its matrix A with rows scaled by the step sizes of the entries of x, times t.

- Step sizes a / t: the covariance solves (B - I/2) S + S (B - I/2)^T = C', C' being C with rows and columns
  scaled in the same way. All rates of B must exceed 1/2; otherwise errors shrink more slowly than t^-1/2.
- Averages of the weights over steps with slowly shrinking step sizes: A^-1 C A^-T, whatever the step sizes
  (Polyak and Ruppert). Means with steps 1/t enter with the weight of their history.
- Least squares, the sample's own version of the equation: all noise counts once. Along a chain no covariance
  is smaller. Independent transitions contain more information: the mean of V(s') - V(s) is known to be 0
  while its sample mean is not. Differential-td, whose gain is the mean of r + V(s') - V(s), uses that. So
  does least squares with a weight on the mean of the values, but not without one (TD(0) outside the
  constants).

The noise of an algorithm at its limit, and its long-run covariance.

At the limit the change of x in a step, divided by the step size, has mean 0: it is noise. It is a sum of
pieces l (u + v): a vector l that depends on the state of one chain, times numbers u and v that depend on the
transitions of the first and of the second chain. Along chains, the noise of different steps is correlated,
and

    C = E[e_0 e_0^T] + sum over k >= 1 of (E[e_0 e_k^T] + E[e_k e_0^T])

needs the sum over k >= 0 of E[e_k | first states], which solves a Poisson equation. For a function of the
states of both chains that has mean 0 over either of them, the sum of P^k F P^kT is computed by doubling.

Algorithms close to their limit: a linear equation with noise, also where means multiply weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.fields import average_features, td_field
from gainbias.algorithms.registry import ALGORITHMS, as_algorithm
from gainbias.engine.lanes import make_lanes
from gainbias.engine.paths import Sampling
from gainbias.engine.run import as_first_weights, check_problem
from gainbias.engine.schedules import Harmonic
from gainbias.engine.trace import Kind, Norm, Scale
from gainbias.model.problem import Problem
from gainbias.tasks.task import Task
from gainbias.theory.curve.enumeration import check_sampling
from gainbias.theory.curve.moments import HERE, OTHER, StepPlan
from gainbias.theory.curve.system import Probe, affine_field, weights_limit
from gainbias.theory.curve.terms import (
    RowSource,
    SampleField,
    bound_field,
    chain_source,
    mean_source,
    read_terms,
    unit_rows,
)
from gainbias.types import Floats

MOST_SERIES_DOUBLINGS = 60
SERIES_TOLERANCE = 1e-15


@dataclass(frozen=True, eq=False)
class NoisePiece:
    """One piece of the noise.

    Attributes
    ----------
    chain : {0, 1}
        The chain whose state decides the vector.
    vectors : (states of that chain, k) array
    numbers : list of (transitions of a chain,) arrays
        For the first and for the second chain.
    """

    chain: int
    vectors: Floats
    numbers: tuple[Floats, Floats]


class Noise:
    """A sum of pieces.

    Parameters
    ----------
    sources : pair of Source
        The two chains; a chain of a single state replaces one that is not used.
    pieces : list of Piece
    """

    def __init__(self, sources: tuple[RowSource, RowSource], pieces: list[NoisePiece]) -> None:
        self.sources, self.pieces = sources, pieces

    def covariance(self, sampling: Sampling) -> Floats:
        """Return the long-run covariance, (k, k)."""
        now = self._same_step
        if sampling == "iid":
            return now
        later = self._later_steps()
        return np.asarray(now + later + later.T)

    @cached_property
    def _means(self) -> list[tuple[Floats, Floats]]:
        """Mean numbers of each piece given the state of each chain."""
        return [
            (self.sources[0].mean_of(piece.numbers[0]), self.sources[1].mean_of(piece.numbers[1]))
            for piece in self.pieces
        ]

    @property
    def _same_step(self) -> Floats:
        size = self.pieces[0].vectors.shape[1]
        total = np.zeros((size, size))
        for p, one in enumerate(self.pieces):
            for q, two in enumerate(self.pieces):
                products = [
                    source.mean_of(one.numbers[c] * two.numbers[c]) for c, source in enumerate(self.sources)
                ]
                total += self._pair(p, q, products)
        return total

    def _pair(self, p: int, q: int, products: list[Floats]) -> Floats:
        """Return the mean of piece p times piece q, given mean products of their numbers."""
        one, two = self.pieces[p], self.pieces[q]
        mine, yours = self._means[p], self._means[q]
        law, other = self.sources[one.chain].law, self.sources[1 - one.chain].law
        c, o = one.chain, 1 - one.chain
        if one.chain == two.chain:
            weight = products[c] + mine[c] * (other @ yours[o]) + yours[c] * (other @ mine[o])
            weight = law * (weight + other @ products[o])
            return np.asarray((one.vectors.T * weight) @ two.vectors)
        left, right = law @ one.vectors, other @ two.vectors
        total = np.outer((law * products[c]) @ one.vectors, right)
        total += np.outer(left, (other * products[o]) @ two.vectors)
        total += np.outer((law * mine[c]) @ one.vectors, (other * yours[o]) @ two.vectors)
        total += np.outer((law * yours[c]) @ one.vectors, (other * mine[o]) @ two.vectors)
        return total

    def _later_steps(self) -> Floats:
        """Return the sum over k >= 1 of E[e_0 e_k^T]."""
        ahead = self._ahead()
        total = np.zeros((ahead.shape[2],) * 2)
        alone = [np.einsum("j,ijk->ik", self.sources[1].law, ahead), None]
        alone[1] = np.einsum("i,ijk->jk", self.sources[0].law, ahead)
        for piece in self.pieces:
            c, o = piece.chain, 1 - piece.chain
            mine, other = self.sources[c], self.sources[o]
            arrived = mine.arrivals(np.ones(mine.transitions.nnz), piece.vectors)
            total += mine.arrivals(piece.numbers[c], piece.vectors).T @ alone[c]
            number = other.arrivals(piece.numbers[o], np.ones((other.size, 1)))[:, 0]
            pairs = ahead if c == 0 else ahead.transpose(1, 0, 2)
            total += np.einsum("ik,j,ijm->km", arrived, number, pairs, optimize=True)
        return total

    def _ahead(self) -> Floats:
        """Return the sum over k >= 0 of E[e_k | states], (n, n', k)."""
        first, second = self.sources
        mean = np.zeros((first.size, second.size, self.pieces[0].vectors.shape[1]))
        for piece, (mine, yours) in zip(self.pieces, self._means, strict=True):
            vectors = piece.vectors[:, None] if piece.chain == 0 else piece.vectors[None, :]
            mean += vectors * (mine[:, None] + yours[None, :])[:, :, None]
        of_first = np.einsum("j,ijk->ik", second.law, mean)
        of_second = np.einsum("i,ijk->jk", first.law, mean)
        mean -= of_first[:, None] + of_second[None]
        mean += first.law @ of_first
        both = _doubled(first, second, mean)
        return np.asarray(both + first.deviation(of_first)[:, None] + second.deviation(of_second)[None])


def _doubled(first: RowSource, second: RowSource, values: Floats) -> Floats:
    """Return the sum over k of P^k F P'^kT, for F of mean 0 over either chain: (n, n', k)."""
    one = first.transitions.toarray() - first.law
    two = second.transitions.toarray() - second.law
    total = values.transpose(2, 0, 1)
    for _ in range(MOST_SERIES_DOUBLINGS):
        more = one @ total @ two.T
        total = total + more
        if np.abs(more).max() <= SERIES_TOLERANCE * np.abs(total).max():
            return np.asarray(total.transpose(1, 2, 0))
        one, two = one @ one, two @ two
    raise ValueError(
        "noise along these chains has no long-run covariance: the process is periodic, or nearly so; use "
        "sampling='iid', or make it aperiodic"
    )


@dataclass(frozen=True, eq=False)
class Linear:
    """Near the limit, x changes in a step by alpha (noise - A (x - limit)); running means by their own steps.

    x consists of the affine fields, with the weights first, and of running means of features and rewards
    that multiply them, if there are any.

    Attributes
    ----------
    matrix : (k, k) array
        A; the rows of running means are those of means with their own steps.
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
        The algorithm, the problem, and the parameters as the algorithm's NamedTuple.
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
    frozen = algorithm.declared.sample_field is None
    field = affine_field(algorithm, params, frozen)
    names = ("weights",) if frozen else algorithm.declared.affine
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
    plan = StepPlan(coefficients, sources[:chains], unit_rows(origin, size - len(limit)))
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
        mean = StepPlan(coefficients, sources[:chains], unit_rows(origin, size - len(limit))).mean[:-1]
        origin[len(limit) :] = -np.linalg.lstsq(mean[:, len(limit) : -1], mean[:, -1])[0]
    return origin


def _sources(problem: Problem, origin: Floats, chains: int, frozen: bool) -> tuple[RowSource, RowSource]:
    """Return both chains; the mean also replaces a second chain that is not used."""
    first = chain_source(problem, origin, problem.solution.stationary)
    return first, first if chains == 2 and not frozen else mean_source(problem, origin)


def _pieces(plan: StepPlan, sources: tuple[RowSource, RowSource]) -> list[NoisePiece]:
    """Return the noise of the affine fields: minus each left times its right side at the limit."""
    found = []
    for i, chain in enumerate(plan.chain_of):
        table = plan.tables[i]
        vectors = np.broadcast_to(table, (sources[chain].size, table.shape[-1]))[:, :-1]
        numbers = [_numbers(plan, c, i, source) for c, source in enumerate(sources)]
        found.append(NoisePiece(chain, -vectors, (numbers[0], numbers[1])))
    return found


def _numbers(plan: StepPlan, chain: int, i: int, source: RowSource) -> Floats:
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
    problem: Problem, plan: StepPlan, coefficients: Floats, limit: Floats, pieces: list[NoisePiece]
) -> tuple[Floats, list[NoisePiece]]:
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
    wide = [NoisePiece(p.chain, np.pad(p.vectors, ((0, 0), (0, d + 1))), p.numbers) for p in pieces]
    ones, none = np.ones(first.transitions.nnz), np.zeros(second.transitions.nnz)
    features, rewards = np.zeros((2, first.size, 2 * d + 1))
    features[:, d : 2 * d] = first.rows[:, :d] - average_features(problem)
    rewards[:, -1] = 1.0
    wide.append(NoisePiece(HERE, features, (ones, none)))
    wide.append(NoisePiece(HERE, rewards, (first.rewards - gain, none)))
    return matrix, wide


NEGLIGIBLE_NOISE = 1e-10
"""Singular values and noise this small, relative to the largest, count as 0."""


def asymptotic_covariance(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    step_size: Harmonic | None = None,
    *,
    params: Mapping[str, float] | None = None,
    sampling: Sampling = "markov",
    tail_average: float = 0.0,
    initial_weights: Floats | None = None,
) -> Floats:
    """Return the limit of t times the covariance of the weights after t steps.

    Parameters
    ----------
    algorithm : str or Algorithm
        One with an affine step, or `single-chain`, `relative-td`, `centred-td`, `almost-sure-td`, or `lstd`.
    problem : Problem or Task
        Process and features.
    step_size : Harmonic, optional
        Step sizes a / (t + c0). Without them, the weights are averaged over steps whose sizes shrink more
        slowly than 1/t, such as ``Polynomial(a, c0, 0.7)``. `lstd` has neither.
    params : mapping, optional
        Parameters by name.
    sampling : {"markov", "iid"}
        How transitions are drawn.
    tail_average : float
        Share of the steps that an average leaves out at the beginning.
    initial_weights : (d,) array, optional
        First weights, on which the limit may depend.

    Returns
    -------
    (d, d) array
        If the limit is a line, chance moves the weights along it forever; that direction is left out.

    Raises
    ------
    ValueError
        If a is too small: errors then shrink more slowly than t^-1/2, and the message says how large a
        must be.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.asymptotic_covariance("double-chain", problem, gb.Harmonic(4, 10), sampling="iid").round(3)
    array([[1.667]])
    >>> gb.asymptotic_covariance("double-chain", problem, sampling="iid").round(3)
    array([[1.25]])
    >>> gb.asymptotic_covariance("lstd", problem, sampling="iid").round(3)
    array([[0.688]])
    """
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    check_problem(chosen, problem)
    check_sampling(sampling)
    own = chosen.params(**make_lanes(chosen, 0, 1.0, params or {})[0].params)
    if chosen.name == "lstd":
        return _of_lstd(problem, own, sampling)
    first = as_first_weights(problem, initial_weights)
    linear = linearise(chosen, problem, own, first, sampling)
    if step_size is None:
        return _averaged(chosen, linear, _fraction(tail_average))
    if not isinstance(step_size, Harmonic):
        raise ValueError(
            f"step_size must be gb.Harmonic(a, c0), or None for averaged weights, found {step_size!r}"
        )
    if tail_average:
        raise ValueError("averages are for step sizes that shrink more slowly than 1/t: leave out step_size")
    return _with_harmonic_steps(chosen, own, linear, step_size.a)


def efficiency(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    step_size: Harmonic | None = None,
    *,
    kind: Kind = "centred",
    norm: Norm = "stationary",
    params: Mapping[str, float] | None = None,
    sampling: Sampling = "markov",
    tail_average: float = 0.0,
) -> float:
    """Return how many times as many transitions as least squares an algorithm needs for the same small error.

    The reference depends on what is estimated, not on the algorithm. If features span the constant values,
    all undiscounted algorithms have the same limit up to a constant. All are compared with plain `lstd`,
    with ``mean_weight=1``, in the error of the same `kind`: equal errors have equal efficiencies, and larger
    errors larger ones. Otherwise algorithms with different limits estimate different things. Each is then
    compared with `lstd` of the `mean_weight` that has its limit, such as 0 for td-lambda and 1 for
    single-chain; discounted-td always with discounted least squares.

    Along a chain 1 is the best for the errors "centred" and "quotient", to which a constant does not matter.
    In the "full" error, however transitions are drawn, differential-td and projected-td can score less than
    1: they settle on a different constant than least squares, which gives values the mean 0, and chance
    moves their constant less. They estimate a different number there, not the same one better. With
    independent transitions some can need fewer in all errors: differential-td, and, where features span the
    constants, also td-lambda. Double-chain methods count two transitions for each step.

    Parameters
    ----------
    algorithm, problem, step_size, params, sampling, tail_average
        As for `asymptotic_covariance`.
    kind, norm
        Which error of the values is compared (see `Trace.errors`), relative to the algorithm's own limit. If
        the limit is a line, "full" means nothing.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), gb.Tabular())
    >>> for name in ("single-chain", "double-chain-symmetric", "double-chain"):
    ...     print(name, round(gb.efficiency(name, problem), 2))
    single-chain 1.0
    double-chain-symmetric 199.42
    double-chain 204.42
    """
    chosen = as_algorithm(algorithm)
    problem = problem.problem if isinstance(problem, Task) else problem
    own = chosen.params(**make_lanes(chosen, 0, 1.0, params or {})[0].params)
    if chosen.declared.limit_is_line and problem.ones_in_span and kind == "full":
        raise ValueError(
            f"the limit of {chosen.name} on these features is a line: use kind='centred' or 'quotient'"
        )
    options: dict[str, Any] = {"params": params, "sampling": sampling, "tail_average": tail_average}
    found = asymptotic_covariance(chosen, problem, step_size, **options)
    best = least_covariance(chosen, problem, own, sampling)
    form = Scale(chosen, problem, own, np.zeros(problem.num_features)).form(kind, norm)
    return float(chosen.chains * np.vdot(form, found) / np.vdot(form, best))


def least_covariance(algorithm: Algorithm, problem: Problem, params: Any, sampling: Sampling) -> Floats:
    """Return the covariance, per transition, of least squares for the limit of an algorithm.

    If features span the constants, the mean weight of an equation determines only the constant, or leaves
    it open if it is 0: then least squares has the paper's weight, 1, for all.
    """
    if algorithm.declared.discounted:
        limit = weights_limit(algorithm, problem, params, np.zeros(problem.num_features))
        field = affine_field(algorithm, params)
        linear = linear_field(problem, field, limit, len(limit), 1, sampling, frozen=False)
        return _solved(linear.matrix, linear.covariance)
    if algorithm.name == "lstd":
        _of_lstd(problem, params, sampling)  # refuses a trace
        weight = params.mean_weight
    else:
        weight = _mean_weight(algorithm, problem, params)
    return _least_squares(problem, 1.0 if problem.ones_in_span else weight, sampling)


def _mean_weight(algorithm: Algorithm, problem: Problem, params: Any) -> float:
    """Return the mean weight with which least squares solves the mean equation of an algorithm."""
    if algorithm.declared.mean_field is None:
        raise ValueError(f"{algorithm.name} declares no mean_field, so its equation is not known")
    mean = problem.features.adjoint(problem.solution.stationary)
    matrix = algorithm.declared.mean_field(problem, params).matrix
    beyond = matrix - td_field(problem).matrix
    kappa = float(mean @ beyond @ mean / (mean @ mean) ** 2) if mean.any() else 0.0
    if np.abs(beyond - kappa * np.outer(mean, mean)).max() > NEGLIGIBLE_NOISE * np.abs(matrix).max():
        raise ValueError(f"least squares for the mean equation of {algorithm.name} is not known")
    return kappa if abs(kappa) > NEGLIGIBLE_NOISE else 0.0


def _of_lstd(problem: Problem, params: Any, sampling: Sampling) -> Floats:
    if params.trace_decay > 0.0:
        raise ValueError("the covariance of lstd is known without a trace: use trace_decay=0")
    return _least_squares(problem, params.mean_weight, sampling)


def _least_squares(problem: Problem, mean_weight: float, sampling: Sampling) -> Floats:
    """Return the covariance of (A + kappa w w^T) theta = b, with sample means for A, w and b."""
    relative = ALGORITHMS["relative-td"]
    params = relative.params(mean_weight)
    limit = weights_limit(relative, problem, params, np.zeros(problem.num_features))
    field = bound_field(relative.declared.frozen_field, params)
    linear = linear_field(problem, field, limit, len(limit), 2, sampling, frozen=True)
    # At the end all means include all transitions, so their noise counts once.
    return _covariance(_with_means_in(linear, 1.0, 1.0, 1.0))


def _averaged(algorithm: Algorithm, linear: Linear, fraction: float) -> Floats:
    """Return the covariance of averaged weights."""
    kept = 1.0 - fraction
    if algorithm.declared.sample_field is not None or algorithm.declared.mean_ratio is not None:
        # Steps of means are a multiple of those of the weights, and that multiple does not matter.
        return _covariance(linear) / kept
    lost = fraction * np.log(fraction) if fraction > 0.0 else 0.0
    crossed = (kept + lost) / kept**2
    return _covariance(_with_means_in(linear, 1.0 / kept, crossed, 2.0 * crossed))


def _with_harmonic_steps(algorithm: Algorithm, params: Any, linear: Linear, a: float) -> Floats:
    """Return the covariance with steps a / t."""
    scale = np.full(len(linear.matrix), a)
    if len(scale) > linear.num_fields:
        ratio = algorithm.declared.mean_ratio
        scale[linear.num_fields :] = 1.0 if ratio is None else a * ratio(params)

    def solved(matrix: Floats, noise: Floats) -> Floats:
        rates = linalg.eigvals(matrix).real
        if rates.min() <= 0.5:
            needed = 0.5 * a / rates.min() if rates.min() > 0.0 else np.inf
            raise ValueError(
                f"with steps {a:g} / t the slowest part of the error shrinks like "
                f"t^-{max(rates.min(), 0.0):.3g}, more slowly than t^-1/2, so there is no covariance: use a "
                f"above {needed:.4g}"
            )
        shifted = matrix - 0.5 * np.eye(len(matrix))
        return np.asarray(linalg.solve_continuous_lyapunov(shifted, noise))

    scaled = replace(
        linear,
        matrix=scale[:, None] * linear.matrix,
        covariance=np.outer(scale, scale) * linear.covariance,
        same_step=np.outer(scale, scale) * linear.same_step,
    )
    return np.asarray(linear.read @ _reduced(scaled, solved) @ linear.read.T)


def _reduced(linear: Linear, solved: Any) -> Floats:
    """Solve for the covariance of x, without directions that never change or have no effect."""
    matrix, noise, now = linear.matrix, linear.covariance, linear.same_step
    left, sizes, right = linalg.svd(matrix)
    null = sizes <= NEGLIGIBLE_NOISE * sizes[0]
    if not null.any():
        return np.asarray(solved(matrix, noise))
    still = left[:, null]
    invariant = np.abs(still.T @ now @ still).max() <= NEGLIGIBLE_NOISE * np.abs(now).max()
    basis = linalg.null_space(still.T if invariant else right[null])
    whole = solved(basis.T @ matrix @ basis, basis.T @ noise @ basis)
    return np.asarray(basis @ whole @ basis.T)


def _solved(matrix: Floats, noise: Floats) -> Floats:
    """Return A^-1 C A^-T."""
    half = linalg.solve(matrix, noise)
    return np.asarray(linalg.solve(matrix, half.T))


def _with_means_in(linear: Linear, own: float, crossed: float, means: float) -> Linear:
    """Return the equation of the fields alone, with the weighted noise of the means added to theirs."""
    m = linear.num_fields
    noise, pull = linear.covariance, linear.matrix[:m, m:]
    cross = noise[:m, m:] @ pull.T
    total = own * noise[:m, :m] - crossed * (cross + cross.T) + means * pull @ noise[m:, m:] @ pull.T
    return Linear(linear.matrix[:m, :m], total, linear.same_step[:m, :m], m, linear.read[:, :m])


def _covariance(linear: Linear) -> Floats:
    """Return the covariance of the reported weights whose noise counts once."""
    return np.asarray(linear.read @ _reduced(linear, _solved) @ linear.read.T)


def _fraction(share: float) -> float:
    if not 0.0 <= share < 1.0:
        raise ValueError(f"tail_average must be at least 0 and below 1, found {share!r}")
    return float(share)
