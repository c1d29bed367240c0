"""Exact gain, bias and stationary law of a process.

`solve` is what users call. `solve_to_tolerance` is for modules that derive further numbers from the answer.
`poisson_solver` is for other modules that need many right sides of one chain.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, overload

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike

from gainbias.kernels import count_threads, light_work, using_threads
from gainbias.model.checks import EPSILON, CsrArray, float_vector, frozen
from gainbias.model.process import MarkovRewardProcess, refuse_durations
from gainbias.model.solve.bounds import relative
from gainbias.model.solve.certificate import (
    Certified,
    solve_and_refine_once,
)
from gainbias.model.solve.choice import METHODS, first_that_meets
from gainbias.model.solve.multichain import InParts, solve_in_parts
from gainbias.model.solve.semi_markov import laws, rewards_in_time
from gainbias.model.solve.solution import (
    AccuracyWarning,
    Budget,
    MultichainSolution,
    Solution,
    Solver,
    available_memory,
)
from gainbias.model.solve.variance import Variance, asymptotic_variance, knows_no_variance
from gainbias.model.solve.vectors import here
from gainbias.progress import Watch
from gainbias.types import Floats

Rewards = Mapping[str, ArrayLike]

MOST_LIGHT_STATES, MOST_LIGHT_ENTRIES = 5_000, 300_000
"""Up to this size a chain is small: no kernel takes long on it, even if it is not compiled yet."""

USUAL_TOLERANCE = 1e-10
"""The tolerance unless another one is given."""

MANY_RIGHT_SIDES = 100
"""About how often a Poisson equation prepared for many right sides is solved."""


@overload
def solve(
    mrp: MarkovRewardProcess, tol: float = ..., method: str = ..., *, time_limit: float | None = ...,
    max_memory: float | None = ..., extra_rewards: Rewards | None = ..., multichain: Literal[False] = ...,
    threads: int | None = ..., device: Literal["cpu", "gpu"] = ...,
) -> Solution: ...  # fmt: skip
@overload
def solve(
    mrp: MarkovRewardProcess, tol: float = ..., method: str = ..., *, time_limit: float | None = ...,
    max_memory: float | None = ..., extra_rewards: Rewards | None = ..., multichain: Literal[True],
    threads: int | None = ..., device: Literal["cpu", "gpu"] = ...,
) -> MultichainSolution: ...  # fmt: skip
def solve(
    mrp: MarkovRewardProcess,
    tol: float = USUAL_TOLERANCE,
    method: str = "auto",
    *,
    time_limit: float | None = None,
    max_memory: float | None = None,
    extra_rewards: Rewards | None = None,
    multichain: bool = False,
    threads: int | None = None,
    device: Literal["cpu", "gpu"] = "cpu",
) -> Solution | MultichainSolution:
    """Return the stationary law, the gain and the bias of a process, each number with its error.

    If no method meets `tol`, the best answer is returned with an `AccuracyWarning` and a note that say
    which part misses it. It is refused only if the gain may be off by a tenth of ``max |R|``.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process; it may have transient states and a period.
    tol : float
        `Solution.error_bound` at which no better method is tried.
    method : str
        "auto", or one of "dense-gth" and "sparse-gth" (elimination without subtraction), "incomplete-gth",
        "power", "krylov", "aggregation". With several recurrent classes it is used for each of them; classes
        of up to 500 states are eliminated together unless you choose an iterative method.
    time_limit : float, optional
        Seconds.
    max_memory : float, optional
        Bytes that the method may use; by default nine tenths of the free memory.
    extra_rewards : mapping of str to (n,) array, optional
        Further reward vectors to answer with the same factorisation: expected rewards of a step from each
        state, to which `reward_rates` of a process with durations are not added (reward rates if the process
        was made by `from_rates`).
    multichain : bool
        Accept several recurrent classes and answer per state.
    threads : int, optional
        Number of threads for large chains: by default one for each core that this process may use, or the
        number in GAINBIAS_THREADS. The answer has the same bits with any number.
    device : "cpu" or "gpu"
        Where iterative methods run, with the same certificate. On an NVIDIA GPU the methods are "auto",
        "power" and "krylov", for one recurrent class; it needs ``pip install 'gainbias[gpu]'``.

    Returns
    -------
    Solution or MultichainSolution

    Raises
    ------
    ConvergenceError
        If the gain is not known; the message says what was tried, what was reached and what to do.
    ValueError
        If the input is wrong, or there are several recurrent classes and `multichain` is False.

    Examples
    --------
    >>> import gainbias as gb
    >>> solution = gb.solve(gb.MarkovRewardProcess([[0.9, 0.1], [0.5, 0.5]], [1.0, 4.0]))
    >>> print(f"{solution.gain:.6f} by {solution.method}")
    1.500000 by dense-gth
    """
    limits = time_limit, max_memory
    with using_threads(count_threads(threads)):
        _check_arguments(mrp, tol, method, time_limit, max_memory)
        if device != "cpu":
            _check_device(device, method, multichain)
        elif not multichain:
            _refuse_several_classes(mrp)
        if not isinstance(extra_rewards, Mapping | None):
            raise ValueError(
                "extra_rewards must be a mapping of names to vectors, as in {'cost': [...]}, found "
                f"{type(extra_rewards).__name__}"
            )
        answer, missed = _solved(
            mrp, tol, method, limits, extra_rewards, multichain=multichain, insist=False, device=device
        )
    for note in missed:
        warnings.warn(note, AccuracyWarning, stacklevel=2)
    return answer


def solve_to_tolerance(mrp: MarkovRewardProcess) -> Solution:
    """Return the answer of `solve`, or raise a ConvergenceError if it misses the tolerance.

    For numbers that are derived from the answer and have no errors of their own.
    """
    _check_arguments(mrp, USUAL_TOLERANCE, "auto", None, None)
    _refuse_several_classes(mrp)
    with using_threads(count_threads(None)):
        answer, _ = _solved(mrp, USUAL_TOLERANCE, "auto", (None, None), None, multichain=False, insist=True)
    assert isinstance(answer, Solution)
    return answer


def _solved(
    mrp: MarkovRewardProcess,
    tol: float,
    method: str,
    limits: tuple[float | None, float | None],
    extra_rewards: Rewards | None,
    *,
    multichain: bool,
    insist: bool,
    device: str = "cpu",
) -> tuple[Solution | MultichainSolution, tuple[str, ...]]:
    """Return the answer of `solve`, and what misses the tolerance, which is an error if `insist`."""
    time_limit, max_memory = limits
    extra = {
        name: float_vector(r, mrp.num_states, f"extra_rewards[{name!r}]")
        for name, r in (extra_rewards or {}).items()
    }
    per_step = {name: vector / (mrp.rate or 1.0) for name, vector in extra.items()}
    rewards: list[Floats] = [mrp.rewards, *per_step.values()]
    # Underflow is part of the bounds, even if the caller's NumPy settings report it.
    room: AbstractContextManager[None] = nullcontext()
    if device == "gpu":
        from gainbias.kernels.gpu_vectors import using_gpu_memory
        from gainbias.model.solve.on_gpu import GpuProcess

        room = using_gpu_memory()
    with light_work(_is_small(mrp)), Watch(time_limit) as watch, np.errstate(under="ignore"), room:
        budget = Budget(0.9 * available_memory() if max_memory is None else max_memory, watch)
        if multichain:
            parts = solve_in_parts(mrp, rewards, tol, method, budget)
            missed = tuple(_missed(mrp, rewards, parts.answers, tol, list(extra)))
            per_class, *further = _multichain_solutions(mrp, rewards, parts, (*parts.notes, *missed))
            return replace(per_class, extra=dict(zip(extra, further, strict=True))), missed
        place, vectors, where = cast(Any, mrp), rewards, tuple[str, ...]()
        if device == "gpu":
            place = GpuProcess(mrp, rewards, max_memory)
            _refuse_several_classes(mrp)
            vectors, where = [place.rewards, *map(place.rewards.like, rewards[1:])], place.notes
        solver, answers, tried = first_that_meets(place, vectors, tol, method, budget, insist=insist)
        missed = tuple(_missed(mrp, rewards, answers, tol, list(extra)))
        notes = (*where, *tried, *solver.notes, *missed)
        pairs = zip(vectors, answers, strict=True)
        found = [_solution(place, vector, answer, solver, notes) for vector, answer in pairs]
        own, *others = (
            replace(solution, mrp=mrp, rewards=vector)
            for solution, vector in zip(found, rewards, strict=True)
        )
    return replace(own, extra=dict(zip(extra, others, strict=True))), missed


def _is_small(mrp: MarkovRewardProcess) -> bool:
    return mrp.num_states <= MOST_LIGHT_STATES and mrp.csr.nnz <= MOST_LIGHT_ENTRIES


def _missed(
    mrp: MarkovRewardProcess, rewards: list[Floats], answers: list[Certified], tol: float, extra: list[str]
) -> Iterator[str]:
    """Yield in words which part of which answer misses the tolerance."""
    for name, vector, answer in zip(["", *extra], rewards, answers, strict=True):
        if answer.error_bound <= tol:
            continue
        bias, bias_error = here(answer.bias), here(answer.bias_error)
        finite = bias[np.isfinite(bias)]
        largest = float(np.abs(rewards_in_time(mrp, vector)).max())
        span = float(np.ptp(finite)) if finite.size else 0.0
        of_gain = relative(float(answer.gain_error.max()), largest)
        missed = bias_error > tol * span
        parts = []
        if of_gain > tol:
            parts.append(f"the gain may be off by {of_gain:.1e} of the largest reward")
        if missed.any():
            worst = int(np.argmax(bias_error))
            label = worst if mrp.labels is None else mrp.labels[worst]
            parts.append(
                f"the bias of {int(missed.sum()):,} of {mrp.num_states:,} states may be off by more than "
                f"that part of its span, at worst by {bias_error[worst]:.1e} in state {label}"
            )
        if not missed.any() or of_gain <= tol:
            known = (
                "the bias" if of_gain > tol else f"the gain, known to {of_gain:.1e} of the largest reward,"
            )
            parts.append(f"{known} meets it")
        of_what = f"extra_rewards[{name!r}]: " if name else ""
        yield f"{of_what}tol={tol:.1e} is not met: {'; '.join(parts)}"


def _solution(
    mrp: MarkovRewardProcess, rewards: Floats, answer: Certified, solver: Solver, notes: tuple[str, ...]
) -> Solution:
    variance: tuple[float, float] | None = None
    if not knows_no_variance(mrp):
        variance = _one_number(asymptotic_variance(mrp, rewards, answer, solver))
        if variance[1] > variance[0] > 0.0:
            note = f"asymptotic_variance has no certain digit: its error may be {variance[1]:.1e}"
            notes = (*notes, note)
    per_step = variance if mrp.durations is None else None
    if mrp.rate is not None:
        per_step = _one_number(asymptotic_variance(mrp, rewards, answer, solver, per_step=True))
    found = laws(mrp, rewards, answer, solver)
    stationary = frozen(here(found.stationary))
    is_same = found.embedded is found.stationary
    in_time, gain_error = _per_time(mrp, answer)
    return Solution(
        mrp=mrp,
        rewards=rewards,
        stationary=stationary,
        stationary_error=frozen(found.stationary_error),
        stationary_error_total=found.total,
        embedded=stationary if is_same else frozen(found.embedded),
        embedded_error=frozen(found.embedded_error),
        gain=float(in_time[0]),
        gain_error=float(gain_error[0]),
        bias=frozen(here(answer.bias)),
        bias_error=frozen(here(answer.bias_error)),
        _variance=variance,
        _step_variance=per_step,
        error_bound=answer.error_bound,
        residual=answer.residual,
        method=solver.method,
        iterations=solver.iterations,
        notes=notes,
    )


def _one_number(variance: Variance) -> tuple[float, float]:
    """Return the variance of the only class and its error."""
    return float(variance.value[0]), float(variance.error[0])


def _per_time(mrp: MarkovRewardProcess, answer: Certified) -> tuple[Floats, Floats]:
    """Return the gain from each state, per unit of time if the process has one, and its error."""
    if mrp.rate is None:
        return answer.gain, answer.gain_error
    gain = answer.gain * mrp.rate
    return gain, answer.gain_error * mrp.rate * (1.0 + EPSILON) + EPSILON * np.abs(gain)


def _multichain_solutions(
    mrp: MarkovRewardProcess, rewards: list[Floats], found: InParts, notes: tuple[str, ...]
) -> Iterator[MultichainSolution]:
    """Yield the solution for each reward vector."""
    recurrent = mrp.structure.recurrent
    members = np.concatenate(recurrent)
    start = np.concatenate([[0], np.cumsum([len(states) for states in recurrent])])

    def by_class(law: Floats) -> CsrArray:
        return sparse.csr_array((law[members], members, start), (len(recurrent), mrp.num_states))

    in_time = by_class(found.laws.stationary)
    in_steps = in_time if mrp.durations is None else by_class(found.laws.embedded)
    for vector, answer, variance in zip(rewards, found.answers, found.variances, strict=True):
        gain, gain_error = _per_time(mrp, answer)
        yield MultichainSolution(
            mrp=mrp,
            structure=mrp.structure,
            rewards=vector,
            stationary=in_time,
            stationary_error=found.laws.stationary_error,
            embedded=in_steps,
            embedded_error=found.laws.embedded_error,
            class_gains=gain[members[start[:-1]]],
            gain=gain,
            gain_error=gain_error,
            bias=answer.bias,
            bias_error=answer.bias_error,
            _class_variances=variance,
            error_bound=answer.error_bound,
            residual=answer.residual,
            method=found.method,
            notes=notes,
        )


def _check_arguments(
    mrp: MarkovRewardProcess,
    tol: float,
    method: str,
    time_limit: float | None,
    max_memory: float | None,
) -> None:
    if not isinstance(mrp, MarkovRewardProcess):
        raise ValueError(
            f"solve takes a MarkovRewardProcess, not {type(mrp).__name__}: "
            "make one with gb.MarkovRewardProcess(transitions, rewards)"
        )
    if method != "auto" and method not in METHODS:
        raise ValueError(f"unknown method {method!r}: use 'auto' or one of {', '.join(map(repr, METHODS))}")
    for name, value in (("tol", tol), ("time_limit", time_limit), ("max_memory", max_memory)):
        given = value is not None or name == "tol"
        if given and not (isinstance(value, int | float | np.number) and 0.0 < value < np.inf):
            raise ValueError(f"{name} must be a positive number, got {value!r}")


def _check_device(device: str, method: str, multichain: bool) -> None:
    if device != "gpu":
        raise ValueError(f"device must be 'cpu' or 'gpu', found {device!r}")
    if multichain:
        raise ValueError("multichain=True is for the processor: leave it out, or use device='cpu'")
    from gainbias.model.solve.on_gpu import refuse_method

    refuse_method(method)


def _refuse_several_classes(mrp: MarkovRewardProcess) -> None:
    if not mrp.is_unichain:
        raise ValueError(
            f"the process has {mrp.structure.describe_recurrent()}, so its gain depends on where it starts: "
            "solve(mrp, multichain=True) gives gain and bias for each state, or make the process irreducible"
        )


def poisson_solver(mrp: MarkovRewardProcess, tol: float = USUAL_TOLERANCE, method: str = "auto") -> Poisson:
    """Return the Poisson equation of a process, ready to be solved for many right sides.

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
    _check_arguments(mrp, tol, method, None, None)
    _refuse_several_classes(mrp)
    refuse_durations(mrp, "poisson_solver")
    probe = np.random.default_rng(0).standard_normal(mrp.num_states)
    with light_work(_is_small(mrp)), using_threads(count_threads(None)), Watch() as watch:
        budget = Budget(0.9 * available_memory(), watch)
        solver, _, _ = first_that_meets(mrp, [probe], tol, method, budget, following=MANY_RIGHT_SIDES)
    return Poisson(mrp, solver)


@dataclass(frozen=True)
class Poisson:
    """The Poisson equation ``x - P x = f - average(f)`` of a chain, factorised."""

    mrp: MarkovRewardProcess
    solver: Solver

    @property
    def stationary(self) -> Floats:
        """Stationary law, (n,)."""
        return self.solver.stationary

    def solve(self, right: Floats) -> Floats:
        """Return x with ``x - P x = right - average(right)`` and average 0.

        Parameters
        ----------
        right : (n,) or (n, k) array

        Returns
        -------
        array of the same shape
        """
        if right.ndim == 2:
            return np.stack([self.solve(column) for column in right.T], axis=1)
        with light_work(_is_small(self.mrp)):
            return solve_and_refine_once(self.mrp.csr, right, self.solver)
