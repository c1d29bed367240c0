"""The choice of a method: all suitable ones take turns until one of them meets the tolerance.

`first_that_meets` is the choice; `candidates` lists the suitable methods and what a trial of each costs.
`turns` says whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import numpy as np

from gainbias.kernels import is_elsewhere
from gainbias.model.checks import CsrArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.aggregation import find_blocks, prepare_aggregation
from gainbias.model.solve.bounds import relative
from gainbias.model.solve.certificate import Certified
from gainbias.model.solve.elimination.solver import eliminate
from gainbias.model.solve.incomplete import prepare_incomplete, work_to_prepare
from gainbias.model.solve.iterative import prepare_krylov, prepare_power, product_work
from gainbias.model.solve.semi_markov import certified, rewards_in_time
from gainbias.model.solve.solution import Budget, ConvergenceError, MethodError, Solver
from gainbias.model.solve.turns import (
    FIRST_PRODUCTS,
    PER_OPERATION,
    PER_SEEN_ENTRY,
    PER_SEEN_STATE,
    Meter,
    Turn,
    next_turn,
)
from gainbias.progress import OutOfTimeError
from gainbias.types import Floats

METHODS = ("dense-gth", "sparse-gth", "incomplete-gth", "power", "krylov", "aggregation")
"""Names that a user may choose."""

ELIMINATIONS = ("dense-gth", "sparse-gth")
"""The methods whose errors are bounds; those of all others are estimates."""

DENSE_SOLVE_STATES = 500
"""Up to this size one dense block is as quick as anything."""

MOST_DENSE_STATES = 10_000
"""Up to this size one dense block takes about a minute, which is the last resort."""

LAW_DIGITS, ANSWER_DIGITS = 15.0, 63.0
"""Digits that a method must gain for the stationary law, and for an answer: seven solves of nine digits."""

CHEAP_PRODUCTS = 500
"""An elimination that costs no more than this many products is done before anything else is tried.

Methods that only multiply take some hundred products on the quickest chains and many thousand on slow
ones, and they estimate errors for which elimination has bounds.
"""

THIN_CHAIN_ENTRIES = 6
"""Chains with at most this many transitions a state may be narrow: elimination is looked at first."""

LARGEST_GAIN_ERROR = 0.1
"""An answer whose gain may be off by more than this part of the largest reward is of no use."""


Answers = tuple[Solver, list[Certified]]


@dataclass(frozen=True)
class Candidate:
    """A suitable method.

    Attributes
    ----------
    name : str
        Its name.
    prepare : callable
        Makes its solver.
    trial : float
        Work after which its progress can be judged; 0 if it is best done at once.
    cheap : float
        Work that is always worth it.
    """

    name: str
    prepare: Callable[[Budget], Solver]
    trial: float
    cheap: float = 0.0


def first_that_meets(
    mrp: MarkovRewardProcess,
    rewards: list[Floats],
    tol: float,
    method: str,
    budget: Budget,
    *,
    insist: bool = True,
    following: int = 0,
) -> tuple[Solver, list[Certified], tuple[str, ...]]:
    """Return the solver and the answers of the first method whose answers for all `rewards` meet `tol`.

    Parameters
    ----------
    insist : bool
        Whether to raise an error if no method meets `tol`. Otherwise the best answers are returned, unless
        none knows the gain: the caller must show their errors.
    following : int
        About the number of right sides that will be solved for afterwards. Elimination answers them at once.

    Returns
    -------
    Solver, list of Certified, tuple of str
        The solver, its answers, and what the methods did, in words, if there was more than one.

    Raises
    ------
    ConvergenceError
        If no answer is accepted.
    """
    wanted = LAW_DIGITS + ANSWER_DIGITS * (len(rewards) + following)
    turns = [
        Turn(one.name, partial(_answer, mrp, rewards, one.prepare, budget), one.trial, wanted, one.cheap)
        for one in candidates(mrp, method)
    ]
    tried: list[str] = []
    reached: list[Answers] = []
    is_late = False
    try:
        while turns:
            turn = next_turn(turns)
            _advance(turn, turns, budget)
            if not turn.is_done:
                continue
            turns.remove(turn)
            try:
                solver, answers = turn.result()
            except (MethodError, MemoryError) as reason:
                tried.append(f"{turn.name}: {reason}")
                continue
            except OutOfTimeError as reason:
                tried.append(f"{turn.name}: {reason}")
                is_late = True
                if budget.watch.remaining <= 0.0:
                    break
                continue
            worst = max(answers, key=lambda answer: answer.error_bound)
            if worst.error_bound <= tol:
                left = [_what_was_done(other) for other in turns if other.is_started]
                own = [_what_was_done(turn, chosen=True)] if left or tried else []
                return solver, answers, (*tried, *left, *own)
            tried.append(f"{turn.name}: reached an error bound of {worst.error_bound:.1e}{_cause(worst)}")
            reached.append((solver, answers))
    except BaseException:
        budget.watch.stop()
        raise
    finally:
        for turn in turns:
            turn.cancel()
    tried += [_what_was_left(turn) for turn in turns]
    best = None if insist else _best(reached, [rewards_in_time(mrp, vector) for vector in rewards])
    if best is None:
        raise ConvergenceError(_refusal(mrp, tol, method, tried, is_late))
    return *best, tuple(tried)


def _best(reached: list[Answers], rewards: list[Floats]) -> Answers | None:
    """Return the answers with the smallest error bound among those with a useful gain, or None."""

    def errors(found: Answers) -> tuple[float, float]:
        of_gain = (
            relative(float(answer.gain_error.max()), float(np.abs(vector).max()))
            for answer, vector in zip(found[1], rewards, strict=True)
        )
        return max(answer.error_bound for answer in found[1]), max(of_gain)

    useful = [found for found in reached if errors(found)[1] <= LARGEST_GAIN_ERROR]
    return min(useful, key=errors, default=None)


def _refusal(mrp: MarkovRewardProcess, tol: float, method: str, tried: list[str], is_late: bool) -> str:
    """Return the text of an error: what was tried, and what helps on this machine and in this case."""
    scale = "scale the rewards or leave out the rarest transitions, if numbers leave the range of floats"
    if mrp.mean_durations is not None:
        scale = f"choose another unit of time, {scale}"
    ways = {
        "let method='auto' choose": method != "auto",
        "raise time_limit": is_late,
        "raise max_memory": any(" GB" in line for line in tried),
        "install the 'solvers' extra": any("METIS is not installed" in line for line in tried),
        scale: any("error bound of inf" in line for line in tried),
        "merge states that hardly differ": True,
    }
    lines = "".join(f"\n  - {line}" for line in tried)
    return (
        f"no method met tol={tol:.1e} on {mrp.num_states:,} states with {mrp.csr.nnz:,} transitions. "
        f"Tried:{lines}\nWhat to do: {', or '.join(way for way, helps in ways.items() if helps)}."
    )


def _answer(
    mrp: MarkovRewardProcess,
    rewards: list[Floats],
    prepare: Callable[[Budget], Solver],
    budget: Budget,
    meter: Meter,
) -> Answers:
    budget.watch.check()
    solver = prepare(replace(budget, meter=meter))
    with np.errstate(over="ignore", invalid="ignore"):
        # What overflows makes the error bound infinite.
        return solver, [certified(mrp, r, solver) for r in rewards]


def _advance(turn: Turn[Answers], turns: list[Turn[Answers]], budget: Budget) -> None:
    """Give a method its next slice, and at most half of the remaining time if there are others."""
    others = [other for other in turns if other is not turn]
    if not others:
        turn.advance(inf)
        return
    turn.meter.worth = min(other.expected for other in others)
    work = turn.slice if turn.trial > 0.0 else inf
    seconds = 0.5 * budget.watch.remaining
    if work < inf:
        turn.advance(work, seconds)
    else:
        with budget.watch.limited_to(seconds):
            turn.advance(work)


def _what_was_done(turn: Turn[Answers], chosen: bool = False) -> str:
    """Return the work of a method in words."""
    meter, words = turn.meter, []
    if meter.products:
        words.append(f"{meter.products:,} products")
    if meter.planned is not None:
        at_all = "" if chosen else "planned only, "
        words.append(f"{at_all}{meter.operations:.1e} operations")
    if not chosen and meter.planned is None:
        words.append(f"{meter.digits:.0f} of {turn.digits:.0f} digits")
    end = "done after" if chosen else "left for a quicker one after" if meter.products else "not needed:"
    return f"{turn.name}: {end} {', '.join(words) or 'no products'}"


def _what_was_left(turn: Turn[Answers]) -> str:
    """Return how far a method was when time ran out, in words."""
    meter = turn.meter
    if meter.planned is not None:
        return f"{turn.name}: no time was left for {meter.operations:.1e} operations"
    if not turn.is_started:
        return f"{turn.name}: no time was left to try it"
    return f"{turn.name}: {meter.digits:.0f} of {turn.digits:.0f} digits after {meter.products:,} products"


def _cause(answer: Certified) -> str:
    if not answer.from_rewards > 0.5 * answer.error_bound:
        return ""
    return (
        ", because rewards are averaged whose level is large relative to the bias, and rows of transitions "
        "(or of a policy) sum to 1 only up to rounding: subtract the level from the rewards"
    )


def candidates(mrp: MarkovRewardProcess, method: str) -> list[Candidate]:
    """Return the suitable methods."""
    csr, structure, n = mrp.csr, mrp.structure, mrp.num_states
    recurrent = structure.recurrent[0]
    slice_of_products = FIRST_PRODUCTS * product_work(csr)
    prediction = PER_SEEN_STATE * n + PER_SEEN_ENTRY * csr.nnz
    if csr.nnz <= THIN_CHAIN_ENTRIES * n:
        prediction = min(prediction, 0.5 * slice_of_products)
    cheap = CHEAP_PRODUCTS * product_work(csr)
    dense = Candidate("dense-gth", lambda budget: eliminate(csr, structure, True, budget), prediction, cheap)
    gth = Candidate("sparse-gth", lambda budget: eliminate(csr, structure, False, budget), prediction, cheap)
    full = csr.nnz > 0.1 * float(n) ** 2
    direct = dense if n <= DENSE_SOLVE_STATES or full else gth
    power = Candidate(
        "power", lambda budget: prepare_power(csr, recurrent, mrp.period, budget), slice_of_products
    )
    krylov = Candidate("krylov", lambda budget: prepare_krylov(csr, recurrent, budget), slice_of_products)
    if is_elsewhere(csr.data):
        return [one for one in (power, krylov) if method in ("auto", one.name)]
    if method in ELIMINATIONS:
        return [dense if method == "dense-gth" else gth]
    if method == "auto" and n <= DENSE_SOLVE_STATES:
        # In another order, other products may leave the range of numbers.
        return [replace(dense, trial=0.0), gth]
    if method == "auto" and not mrp.is_unichain:
        return [direct]
    incomplete = Candidate(
        "incomplete-gth",
        lambda budget: prepare_incomplete(csr, recurrent, budget),
        work_to_prepare(csr) + 3 * slice_of_products,
    )
    of_use = method == "aggregation" or (method == "auto" and not full)
    blocks = find_blocks(csr) if of_use and mrp.is_irreducible else None
    aggregation = Candidate(
        "aggregation", lambda budget: prepare_aggregation(csr, blocks, _coarse_solver(budget), budget), 0.0
    )
    if method != "auto":
        return [one for one in (incomplete, power, krylov, aggregation) if one.name == method]
    chosen = [power, krylov, incomplete, direct]
    if blocks is not None:
        chosen.insert(0, aggregation)
    if direct is gth and n <= MOST_DENSE_STATES:
        chosen.append(replace(dense, trial=PER_OPERATION * n**3))
    return chosen


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
