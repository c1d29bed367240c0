"""The choice of a method: the likely best first, and the next one if it falls short.

`first_that_meets` tries methods until one meets the tolerance; `candidates` orders them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from gainbias.model.checks import CsrArray
from gainbias.model.doubled import Expected
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.aggregation import find_blocks, prepare_aggregation
from gainbias.model.solve.bounds import relative
from gainbias.model.solve.certificate import Certified, solve_and_certify
from gainbias.model.solve.elimination.solver import eliminate
from gainbias.model.solve.iterative import prepare_krylov, prepare_power, steps_to_forget
from gainbias.model.solve.solution import Budget, ConvergenceError, MethodError, Solver
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats

METHODS = ("dense-gth", "sparse-gth", "power", "krylov", "aggregation")
"""Names that a user may ask for."""

DENSE_SOLVE_STATES = 500
"""Up to this size one dense block is as quick as anything."""

MOST_DENSE_STATES = 10_000
"""Up to this size one dense block takes about a minute, which is the last resort."""

FEW_POWER_STEPS = 400
"""A chain that forgets within this many steps is not worth a factorisation."""

LARGE_CHAIN = 200_000
"""From this size on products are so expensive that the fewer ones of `krylov` pay for its longer steps."""

AFFORDABLE_FLOPS, AFFORDABLE_FLOPS_PER_STATE = 1e9, 3e5
"""An elimination that costs more than this waits until methods that only multiply have been tried."""

LARGEST_GAIN_ERROR = 0.1
"""An answer whose gain may be off by more than this part of the largest reward is of no use."""


Prepare = Callable[[], Solver]


def first_that_meets(
    mrp: MarkovRewardProcess,
    rewards: Sequence[Floats],
    tol: float,
    method: str,
    budget: Budget,
    *,
    insist: bool = True,
) -> tuple[Solver, list[Certified], tuple[str, ...]]:
    """Return the solver and the answers of the first method whose answers for all `rewards` meet `tol`.

    Parameters
    ----------
    insist : bool
        Whether to raise an error if no method meets `tol`. Otherwise the best answers are returned, unless
        none knows the gain: the caller must show their errors.

    Returns
    -------
    Solver, list of Certified, tuple of str
        The solver, its answers, and the methods that were tried and fell short, in words.

    Raises
    ------
    ConvergenceError
        If no answer is accepted.
    """
    tried: list[str] = []
    reached: list[tuple[Solver, list[Certified]]] = []
    is_late = False
    for name, prepare in candidates(mrp, method, budget):
        try:
            budget.watch.check()
            solver = prepare()
            with np.errstate(over="ignore", invalid="ignore"):
                # What overflows makes the error bound infinite.
                answers = [solve_and_certify(mrp.csr, _expected(mrp, r), solver) for r in rewards]
        except (MethodError, MemoryError) as reason:
            tried.append(f"{name}: {reason}")
            continue
        except OutOfTimeError as reason:
            tried.append(f"{name}: {reason}")
            is_late = True
            break
        worst = max(answers, key=lambda answer: answer.error_bound)
        if worst.error_bound <= tol:
            return solver, answers, tuple(tried)
        tried.append(f"{name}: reached an error bound of {worst.error_bound:.1e}{_cause(worst)}")
        reached.append((solver, answers))
    best = None if insist else _best(reached, rewards)
    if best is None:
        raise ConvergenceError(_refusal(mrp, tol, method, tried, is_late))
    return *best, tuple(tried)


def _best(
    reached: list[tuple[Solver, list[Certified]]], rewards: Sequence[Floats]
) -> tuple[Solver, list[Certified]] | None:
    """Return the answers with the smallest error bound of those that know the gain, or None."""

    def errors(found: tuple[Solver, list[Certified]]) -> tuple[float, float]:
        of_gain = (
            relative(float(answer.gain_error.max()), float(np.abs(vector).max()))
            for answer, vector in zip(found[1], rewards, strict=True)
        )
        return max(answer.error_bound for answer in found[1]), max(of_gain)

    useful = [found for found in reached if errors(found)[1] <= LARGEST_GAIN_ERROR]
    return min(useful, key=errors, default=None)


def _refusal(mrp: MarkovRewardProcess, tol: float, method: str, tried: list[str], is_late: bool) -> str:
    """Return what an error says: what was tried, and what helps on this machine and in this case."""
    ways = {
        "let method='auto' choose": method != "auto",
        "raise time_limit": is_late,
        "raise max_memory": any(" GB" in line for line in tried),
        "install the 'solvers' extra": any("METIS is not installed" in line for line in tried),
        "merge states that hardly differ": True,
    }
    lines = "".join(f"\n  - {line}" for line in tried)
    return (
        f"no method met tol={tol:.1e} on {mrp.num_states:,} states with {mrp.csr.nnz:,} transitions. "
        f"Tried:{lines}\nWhat to do: {', or '.join(way for way, helps in ways.items() if helps)}."
    )


def _expected(mrp: MarkovRewardProcess, rewards: Floats) -> Floats | Expected:
    """Return rewards as they are, or with twice the digits if they are means of other rewards."""
    own = mrp.expected if rewards is mrp.rewards else None
    return rewards if own is None else own


def _cause(answer: Certified) -> str:
    if not answer.from_rewards > 0.5 * answer.error_bound:
        return ""
    return (
        ", because rewards are averaged whose level is large relative to the bias, and rows of transitions "
        "(or of a policy) sum to 1 only up to rounding: subtract the level from the rewards"
    )


def candidates(mrp: MarkovRewardProcess, method: str, budget: Budget) -> Iterator[tuple[str, Prepare]]:
    """Yield the name of each method and the function that prepares it, the likely best first."""
    csr, structure, n = mrp.csr, mrp.structure, mrp.num_states
    dense = ("dense-gth", partial(eliminate, csr, structure, True, budget))
    affordable = replace(budget, max_flops=AFFORDABLE_FLOPS + AFFORDABLE_FLOPS_PER_STATE * n)
    gth = ("sparse-gth", partial(eliminate, csr, structure, False, budget))
    power = ("power", lambda: prepare_power(csr, structure.recurrent[0], mrp.period, budget))
    krylov = ("krylov", lambda: prepare_krylov(csr, structure.recurrent[0], budget))
    blocks = cache(lambda: find_blocks(csr) if mrp.is_irreducible else None)
    aggregation = ("aggregation", lambda: prepare_aggregation(csr, blocks(), _coarse_solver(budget), budget))
    if method != "auto":
        yield next(one for one in (dense, gth, power, krylov, aggregation) if one[0] == method)
        return
    full = csr.nnz > 0.1 * float(n) ** 2
    direct = dense if n <= DENSE_SOLVE_STATES or full else gth
    if n <= DENSE_SOLVE_STATES or not mrp.is_unichain:
        yield direct
        return
    quick = steps_to_forget(csr, mrp.period) <= FEW_POWER_STEPS
    if quick and n >= LARGE_CHAIN:
        yield krylov
    if quick:
        yield power
    if not full and blocks() is not None:
        yield aggregation
    if not full:
        yield "sparse-gth", partial(eliminate, csr, structure, False, affordable)
    if not (quick and n >= LARGE_CHAIN):
        yield krylov
    yield direct
    if not quick:
        yield power
    if direct is gth and n <= MOST_DENSE_STATES:
        yield dense


def _coarse_solver(budget: Budget) -> Callable[[CsrArray], Solver]:
    """Return a function that makes a solver for a chain of blocks, chosen as for any other chain."""

    def prepare(chain: CsrArray) -> Solver:
        coarse = MarkovRewardProcess(chain, np.zeros(chain.shape[0]))
        probe = np.random.default_rng(0).standard_normal(chain.shape[0])
        try:
            return first_that_meets(coarse, [probe], 1e-9, "auto", budget)[0]
        except ConvergenceError as reason:
            raise MethodError(f"the chain of blocks was not solved: {reason}") from reason

    return prepare
