"""Exact gain, bias and stationary law: choose a method, check what it gives, hand over if it falls short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, overload

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from gainbias.model.aggregation import find_blocks, prepare_aggregation
from gainbias.model.certificate import Certified, solve_and_certify
from gainbias.model.checks import CsrArray, FloatArray, float_vector, frozen
from gainbias.model.elimination.ordering import FillError
from gainbias.model.elimination.solver import eliminate
from gainbias.model.iterative import prepare_krylov, prepare_power, steps_to_forget
from gainbias.model.method import Budget, MethodError, Solver, available_memory
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solution import ConvergenceError, MultichainSolution, Solution, asymptotic_variance
from gainbias.progress import OutOfTimeError, Watch

METHODS = ("dense-gth", "sparse-gth", "power", "krylov", "aggregation")
# Up to this size one dense block is as quick as anything.
DENSE_STATES = 500
# A chain that forgets within this many steps is not worth a factorisation.
FEW_STEPS = 400
# What an elimination may cost before methods that only multiply are tried first.
AFFORDABLE_FLOPS, AFFORDABLE_FLOPS_PER_STATE = 1e9, 3e5

Rewards = Mapping[str, ArrayLike]


@overload
def solve(
    mrp: MarkovRewardProcess, tol: float = ..., method: str = ..., *, time_limit: float | None = ...,
    max_memory: float | None = ..., extra_rewards: Rewards | None = ..., multichain: Literal[False] = ...,
) -> Solution: ...  # fmt: skip
@overload
def solve(
    mrp: MarkovRewardProcess, tol: float = ..., method: str = ..., *, time_limit: float | None = ...,
    max_memory: float | None = ..., extra_rewards: None = ..., multichain: Literal[True],
) -> MultichainSolution: ...  # fmt: skip
def solve(
    mrp: MarkovRewardProcess,
    tol: float = 1e-10,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    max_memory: float | None = None,
    extra_rewards: Rewards | None = None,
    multichain: bool = False,
) -> Solution | MultichainSolution:
    """Return the stationary law, the gain and the bias of a process, with an estimate of their error that meets `tol`.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process; transient states and periods are welcome.
    tol : float
        Largest accepted `Solution.error_bound`.
    method : str
        "auto", or one of "dense-gth" and "sparse-gth" (elimination without subtraction), "power", "krylov", "aggregation".
    time_limit : float, optional
        Seconds.
    max_memory : float, optional
        Bytes that the method may use; what is free on the machine by default.
    extra_rewards : mapping of str to (n,) array, optional
        Further reward vectors to answer with the same factorisation.
    multichain : bool
        Accept several recurrent classes and answer per state.

    Returns
    -------
    Solution or MultichainSolution

    Raises
    ------
    ConvergenceError
        If the tolerance was not met; the message says what was tried, what was reached and what to do.
    ValueError
        If the input is wrong, or there are several recurrent classes and `multichain` is False.

    Examples
    --------
    >>> import gainbias as gb
    >>> solution = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0]))
    >>> print(f"{solution.gain:.6f} by {solution.method}")
    1.500000 by dense-gth
    """
    _check_arguments(mrp, tol, method, time_limit, max_memory, multichain)
    extra = {
        name: float_vector(r, mrp.num_states, f"extra_rewards[{name!r}]")
        for name, r in (extra_rewards or {}).items()
    }
    budget = Budget(0.9 * available_memory() if max_memory is None else max_memory, Watch(time_limit))
    solver, answers, tried = _first_that_meets(mrp, {"": mrp.rewards, **extra}, tol, method, budget)
    if solver is None:
        raise ConvergenceError(_failure(mrp, tol, tried))
    notes = (*tried, *solver.notes)
    if multichain:
        return _multichain(mrp, answers[""], solver, notes)
    others = {name: _solution(mrp, r, answers[name], solver, notes) for name, r in extra.items()}
    return replace(_solution(mrp, mrp.rewards, answers[""], solver, notes), extra=others)


def _first_that_meets(
    mrp: MarkovRewardProcess, rewards: Mapping[str, FloatArray], tol: float, method: str, budget: Budget
) -> tuple[Solver | None, dict[str, Certified], list[str]]:
    """Try methods until the answers for all `rewards` meet `tol`; return what was tried before in words."""
    tried: list[str] = []
    for name, prepare in _candidates(mrp, method, budget):
        try:
            budget.watch.check()
            solver = prepare()
            answers = {key: solve_and_certify(mrp.csr, vector, solver) for key, vector in rewards.items()}
        except (MethodError, FillError, MemoryError) as reason:
            tried.append(f"{name}: {reason}")
            continue
        except OutOfTimeError as reason:
            tried.append(f"{name}: {reason}")
            break
        worst = max(answer.error_bound for answer in answers.values())
        if worst <= tol:
            return solver, answers, tried
        tried.append(f"{name}: reached an error bound of {worst:.1e}")
    return None, {}, tried


def _candidates(
    mrp: MarkovRewardProcess, method: str, budget: Budget
) -> Iterator[tuple[str, Callable[[], Solver]]]:
    """Yield methods with what prepares them, the likely best first."""
    csr, structure, n = mrp.csr, mrp.structure, mrp.num_states
    dense = ("dense-gth", partial(eliminate, csr, structure, True, budget))
    affordable = replace(budget, max_flops=AFFORDABLE_FLOPS + AFFORDABLE_FLOPS_PER_STATE * n)
    gth = ("sparse-gth", partial(eliminate, csr, structure, False, budget))
    power = ("power", lambda: prepare_power(csr, mrp.period, budget))
    krylov = ("krylov", lambda: prepare_krylov(csr, budget))
    aggregation = (
        "aggregation",
        lambda: prepare_aggregation(csr, find_blocks(csr), _coarse_solver(budget), budget),
    )
    if method != "auto":
        yield next(one for one in (dense, gth, power, krylov, aggregation) if one[0] == method)
        return
    full = csr.nnz > 0.1 * float(n) ** 2
    direct = dense if n <= DENSE_STATES or full else gth
    if n <= DENSE_STATES or not mrp.is_unichain:
        yield direct
        return
    quick = steps_to_forget(csr, mrp.period) <= FEW_STEPS
    if quick:
        yield power
    if mrp.is_irreducible and not full and find_blocks(csr) is not None:
        yield aggregation
    if not full:
        yield "sparse-gth", partial(eliminate, csr, structure, False, affordable)
    yield krylov
    yield direct
    if not quick:
        yield power


def _coarse_solver(budget: Budget) -> Callable[[CsrArray], Solver]:
    """Return a function that makes a solver for a chain of blocks, chosen as for any other chain."""

    def prepare(chain: CsrArray) -> Solver:
        coarse = MarkovRewardProcess(chain, np.zeros(chain.shape[0]))
        probe = np.random.default_rng(0).standard_normal(chain.shape[0])
        solver, _, tried = _first_that_meets(coarse, {"": probe}, 1e-9, "auto", budget)
        if solver is None:
            raise MethodError("the chain of blocks was not solved: " + "; ".join(tried))
        return solver

    return prepare


def _solution(
    mrp: MarkovRewardProcess, rewards: FloatArray, answer: Certified, solver: Solver, notes: tuple[str, ...]
) -> Solution:
    gain = float(answer.gain[0])
    return Solution(
        mrp=mrp,
        stationary=frozen(solver.stationary),
        gain=gain if mrp.rate is None else gain * mrp.rate,
        bias=frozen(answer.bias),
        asymptotic_variance=asymptotic_variance(mrp, rewards, gain, solver.stationary, answer.bias),
        error_bound=answer.error_bound,
        residual=answer.residual,
        method=solver.method,
        iterations=solver.iterations,
        notes=notes,
    )


def _multichain(
    mrp: MarkovRewardProcess, answer: Certified, solver: Solver, notes: tuple[str, ...]
) -> MultichainSolution:
    recurrent = mrp.structure.recurrent
    members = np.concatenate(recurrent)
    start = np.concatenate([[0], np.cumsum([len(states) for states in recurrent])])
    laws = sparse.csr_array((solver.stationary[members], members, start), (len(recurrent), mrp.num_states))
    per_time = 1.0 if mrp.rate is None else mrp.rate
    return MultichainSolution(
        mrp=mrp,
        structure=mrp.structure,
        stationary=laws,
        class_gains=per_time * answer.gain[members[start[:-1]]],
        gain=per_time * answer.gain,
        bias=answer.bias,
        error_bound=answer.error_bound,
        residual=answer.residual,
        method=solver.method,
        notes=notes,
    )


def _check_arguments(
    mrp: MarkovRewardProcess,
    tol: float,
    method: str,
    time_limit: float | None,
    max_memory: float | None,
    multichain: bool,
) -> None:
    if not isinstance(mrp, MarkovRewardProcess):
        raise ValueError(
            f"solve takes a MarkovRewardProcess, not {type(mrp).__name__}: make one from transitions and rewards"
        )
    if not 0.0 < tol < np.inf:
        raise ValueError(f"tol must be positive, got {tol!r}")
    if method != "auto" and method not in METHODS:
        raise ValueError(f"unknown method {method!r}: use 'auto' or one of {', '.join(map(repr, METHODS))}")
    for name, limit in (("time_limit", time_limit), ("max_memory", max_memory)):
        if limit is not None and not limit > 0.0:
            raise ValueError(f"{name} must be positive, got {limit!r}")
    if not (multichain or mrp.is_unichain):
        raise ValueError(
            f"the process has {mrp.structure.describe_recurrent()}, so its gain depends on where it starts: "
            "solve(mrp, multichain=True) gives gain and bias for each state, or make the process communicate"
        )
    if not mrp.is_unichain and method in ("power", "krylov", "aggregation"):
        raise ValueError(
            f"method {method!r} needs a single recurrent class: use 'auto', 'dense-gth' or 'sparse-gth'"
        )


def _failure(mrp: MarkovRewardProcess, tol: float, tried: list[str]) -> str:
    lines = (
        "".join(f"\n  - {line}" for line in tried)
        or "\n  - nothing: the time limit had passed before a method could start"
    )
    return (
        f"no method met tol={tol:.1e} on {mrp.num_states:,} states with {mrp.csr.nnz:,} transitions. Tried:{lines}\n"
        "What to do: raise tol, time_limit or max_memory; install the 'solvers' extra; or merge states that hardly differ."
    )


def poisson_solver(mrp: MarkovRewardProcess, tol: float = 1e-10, method: str = "auto") -> Poisson:
    """Return the chain of a process, ready to be solved for many right sides.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        A process with one recurrent class; its rewards do not matter.
    tol : float
        Largest accepted error bound, tried out on a random right side.
    method : str
        As in `solve`.

    Returns
    -------
    Poisson

    Examples
    --------
    >>> import numpy as np, gainbias as gb
    >>> poisson = poisson_solver(gb.MarkovRewardProcess([[0.5, 0.5], [0.5, 0.5]], [0.0, 0.0]))
    >>> poisson.solve(np.array([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """
    _check_arguments(mrp, tol, method, None, None, multichain=False)
    probe = np.random.default_rng(0).standard_normal(mrp.num_states)
    solver, _, tried = _first_that_meets(
        mrp, {"": probe}, tol, method, Budget(0.9 * available_memory(), Watch())
    )
    if solver is None:
        raise ConvergenceError(_failure(mrp, tol, tried))
    return Poisson(mrp, solver)


@dataclass(frozen=True)
class Poisson:
    """The Poisson equation ``x - P x = f - average(f)`` of a chain, factorised."""

    mrp: MarkovRewardProcess
    solver: Solver

    @property
    def stationary(self) -> FloatArray:
        """Stationary law, (n,)."""
        return self.solver.stationary

    def solve(self, right: FloatArray) -> FloatArray:
        """Return x with ``x - P x = right - average(right)`` and average 0, for (n,) or (n, k) right sides."""
        if right.ndim == 2:
            return np.stack([self.solve(column) for column in right.T], axis=1)
        return solve_and_certify(self.mrp.csr, right, self.solver).bias
