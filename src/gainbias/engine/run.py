"""`run`: one algorithm on one problem, in any number of lanes.

First the function itself and how its work is divided among threads; then the checks of its arguments: of
the problem, the checkpoints, and a user's algorithm, whose mistakes are explained in words.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Literal

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, read_state
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import (
    Group,
    Lanes,
    StepSize,
    make_groups,
    make_lanes,
    warn_of_large_steps,
)
from gainbias.engine.paths import Markov, Sampler, Sampling, Start, split_sampling
from gainbias.engine.schedules import Constant, Harmonic, Schedule
from gainbias.engine.trace import Outcome, Trace
from gainbias.engine.work import CheckpointRecord, Checkpoints, RunPlan, Work
from gainbias.features.rows import LANES
from gainbias.kernels import count_threads
from gainbias.model.checks import float_array
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.progress import Watch
from gainbias.tasks.task import Task
from gainbias.types import Floats, Ints, is_count, is_integer, is_real

MOST_CHECKPOINTS = 100_000
"""More checkpoints than anybody can look at."""

MOST_EXACT_STEPS = 2**53
"""Larger numbers of steps are no longer exact as floating-point numbers."""

SEEDS_TOGETHER = 4
"""The paths of this many seeds are drawn in turns, which hides memory latency."""

WORK_OF_A_THREAD, WORK_OF_A_STEP = 2**26, 512
"""A thread is started for this much work at least: some milliseconds, many times what its start takes. A step
counts as the numbers in its state, and this many more."""

STEPS_OF_A_RUN = 100_000
"""Steps of a run if neither the user nor the paper gives a number."""

STEP_SIZE_OF_A_RUN = Harmonic(150, 1000)
"""Step sizes if neither the user, nor the algorithm, nor the paper gives any."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Codes that change the colour of text in a terminal."""


def run(
    algorithm: Algorithm | str,
    problem: Problem | Task,
    num_steps: int | None = None,
    step_size: StepSize | Sequence[StepSize] | None = None,
    *,
    seeds: int | Iterable[int] = 0,
    params: Mapping[str, float | Sequence[float]] | None = None,
    sampling: Sampling | Markov = "markov",
    checkpoints: int | Iterable[int] | Checkpoints = 200,
    tail_average: float | None = None,
    initial_weights: Floats | None = None,
    threads: int | None = None,
    device: Literal["cpu", "gpu"] = "cpu",
) -> Trace:
    """Run an algorithm on a problem and return what it learned.

    There is a lane for each combination of seed, step size and parameters. One seed is one sample path: the
    same for every algorithm, step size, parameter and machine.

    Parameters
    ----------
    algorithm : str or Algorithm
        An id of `ALGORITHMS`, or your own algorithm.
    problem : Problem or Task
        Process and features, or a task, whose problem is used.
    num_steps : int, optional
        Steps of each lane; otherwise those of the paper for its tasks, and 100,000 elsewhere.
    step_size : schedule, float, array, or a list of them, optional
        A list makes lanes; a float is constant; a NumPy array has a step size for each step. Otherwise that
        of `usual_step_size`: the algorithm's own, or that of the paper.
    seeds : int or iterable of int
        One path each.
    params : mapping, optional
        Parameters by name; lists make lanes of all combinations.
    sampling : "markov", "iid" or Markov
        Follow the chain from a state drawn uniformly, or draw the state of each transition afresh from the
        stationary law. ``gb.Markov(start=0)`` follows the chain from a state of your choice.
    checkpoints : int, iterable of int, or Checkpoints
        How many, evenly spaced on a logarithmic scale, or the numbers of steps themselves.
        ``gb.Checkpoints(200, keep="errors")`` keeps less than all weights, if those would be too large.
    tail_average : float, optional
        Report the average of the weights after this fraction of the steps (before it, the weights), a
        Polyak-Ruppert average. 0.25 is a good choice.
    initial_weights : (d,) array, optional
        First weights, otherwise zeros.
    threads : int, optional
        How many threads work at once, at most; the number changes no result. By default all cores, or as
        many as GAINBIAS_THREADS in the environment says. Short runs use fewer.
    device : "cpu" or "gpu"
        Where lanes run. The page "On a GPU" says what a GPU needs, when it pays off and what has been
        checked.

    Returns
    -------
    Trace
        Ctrl-C ends the run early: unfinished lanes have the outcome "interrupted".

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> problem = gb.Problem(mrp, gb.Tabular())
    >>> trace = gb.run("td-lambda", problem, 10_000, gb.Harmonic(10, 100), seeds=range(2))
    >>> trace
    Trace(td-lambda, 2 lanes, 10000 steps: 2 finished)
    >>> bool(np.all(abs(trace.gain[:, -1] - 0.5) < 0.05))
    True
    """
    chosen = as_algorithm(algorithm)
    num_steps = usual_steps(problem) if num_steps is None else num_steps
    step_size = usual_step_size(chosen, problem) if step_size is None else step_size
    problem = problem.problem if isinstance(problem, Task) else problem
    check_problem(chosen, problem)
    _check_device(device, tail_average, threads)
    lanes = make_lanes(chosen, seeds, step_size, params or {})
    warn_of_large_steps(chosen, lanes, problem)
    _warn_of_idle_traces(chosen, lanes, sampling)
    first = as_first_weights(problem, initial_weights)
    way, start = split_sampling(sampling)
    looks = checkpoints if isinstance(checkpoints, Checkpoints) else Checkpoints(checkpoints)
    plan = RunPlan(
        algorithm=chosen,
        problem=problem,
        seeds=lanes.seeds,
        sampler=Sampler(problem.mrp, lambda: problem.solution.stationary),
        sampling=way,
        start=start,
        first_weights=first,
        checkpoints=as_checkpoints(looks.steps, num_steps),
        average_from=_average_from(tail_average, num_steps),
    )
    for schedule in lanes.schedules:
        schedule.values(num_steps - 1, num_steps)  # an array that is too short is refused now
    record = CheckpointRecord(plan, lanes, looks.keep, by_lane=device == "cpu")
    steps_done = _work_through(plan, record, lanes, threads, device)
    record.leave_out(steps_done)
    return Trace(
        chosen,
        problem,
        lanes,
        plan.checkpoints,
        record.kept,
        record.weights,
        record.values,
        record.gain * problem.mrp.rate if problem.mrp.rate else record.gain,
        _outcomes(record, steps_done, num_steps),
        first,
        record.errors,
        _settings(problem, num_steps, way, start, tail_average),
    )


def usual_steps(problem: Problem | Task) -> int:
    """Return the default number of steps: that of the paper for its tasks, else 100,000.

    Examples
    --------
    >>> import gainbias as gb
    >>> usual_steps(gb.task("random-walk-50")), usual_steps(gb.task("inventory"))
    (150000, 100000)
    """
    paper = problem.paper if isinstance(problem, Task) else None
    return paper.num_steps if paper else STEPS_OF_A_RUN


def usual_step_size(algorithm: Algorithm | None, problem: Problem | Task) -> Schedule | None:
    """Return the default step size: the algorithm's own, else that of the paper for its tasks.

    Parameters
    ----------
    algorithm : Algorithm, optional
    problem : Problem or Task

    Returns
    -------
    Schedule or None
        None for an algorithm without step sizes; 150 / (t + 1000) where neither says more.

    Examples
    --------
    >>> import gainbias as gb
    >>> usual_step_size(gb.ALGORITHMS["vrtd"], gb.task("inventory"))
    Constant(a=0.5)
    >>> usual_step_size(gb.ALGORITHMS["td-lambda"], gb.task("inventory"))
    Harmonic(a=150, c0=1000)
    """
    if algorithm and algorithm.declared.step_free:
        return None
    if algorithm and algorithm.declared.constant_step is not None:
        return Constant(algorithm.declared.constant_step)
    paper = problem.paper if isinstance(problem, Task) else None
    return Harmonic(paper.step_numerator, paper.step_offset) if paper else STEP_SIZE_OF_A_RUN


def _work_through(
    plan: RunPlan, record: CheckpointRecord, lanes: Lanes, threads: int | None, device: str
) -> Ints:
    """Run all lanes, in groups and threads or on a GPU; return for each how many steps it took."""
    numbers = check_form(plan, make_groups(plan.algorithm, lanes[:LANES], plan.form)[0])
    if device == "gpu":
        from gainbias.engine.device import run_on_device

        with compile_errors_in_words(plan.algorithm):
            return run_on_device(plan, record, lanes)
    groups = make_groups(plan.algorithm, lanes, plan.form)
    count = _useful_threads(count_threads(threads), int(plan.checkpoints[-1]) * len(groups), numbers)
    pieces = [Work(plan, record, part) for part in _shares(groups, count)]
    assert plan.first_paths is not None  # made before threads need it
    stop, total = threading.Event(), len(pieces) * int(plan.checkpoints[-1])
    with Watch() as watch, ThreadPoolExecutor(count) as pool:
        running: set[Future[None]] = set()
        try:
            running = {pool.submit(piece.run, stop) for piece in pieces}
            while running:
                # Not for each piece that ends: there may be thousands, and all are checked each time.
                done, running = wait(running, timeout=0.1, return_when=FIRST_EXCEPTION)
                for future in done:
                    with compile_errors_in_words(plan.algorithm):
                        future.result()
                watch.show(f"running {plan.algorithm.name}", sum(piece.steps_done for piece in pieces), total)
        except KeyboardInterrupt:
            stop.set()
        except BaseException:
            stop.set()
            raise
    steps_done = np.empty(len(lanes), np.int64)
    for piece in pieces:
        steps_done[[place for group in piece.groups for place in group.places]] = piece.steps_done
    return steps_done


def _useful_threads(most: int, steps: int, numbers: int) -> int:
    """Return how many threads have enough to do, given the steps of all groups and the numbers in a state."""
    return max(1, min(most, steps * (numbers + WORK_OF_A_STEP) // WORK_OF_A_THREAD))


def _shares(groups: list[Group], threads: int) -> list[list[Group]]:
    """Cut the groups, sorted by seed, into pieces of few seeds, and enough of them for all threads."""
    size = max(1, min(SEEDS_TOGETHER * LANES, -(-len(groups) // threads)))
    by_seed = [list(same) for _, same in itertools.groupby(groups, key=lambda group: group.lanes[0].seed)]
    if len(by_seed) < threads:
        return [part[i : i + size] for part in by_seed for i in range(0, len(part), size)]
    rounds = -(-len(by_seed) // (threads * SEEDS_TOGETHER))
    pieces = min(len(by_seed), threads * rounds)  # equally many for each thread, so that all end together
    ends = [len(by_seed) * k // pieces for k in range(pieces + 1)]
    return [
        list(itertools.chain.from_iterable(by_seed[begin:end])) for begin, end in itertools.pairwise(ends)
    ]


def _outcomes(record: CheckpointRecord, steps_done: Ints, num_steps: int) -> list[Outcome]:
    """Return how lanes ended; those with equally many steps share a record."""
    made = {steps: _outcome_of(steps, num_steps) for steps in np.unique(steps_done).tolist()}
    outcomes = [made[steps] for steps in steps_done.tolist()]
    for place, step in record.diverged.items():
        outcomes[place] = Outcome("diverged", step)
    return outcomes


def _outcome_of(steps: int, num_steps: int) -> Outcome:
    return Outcome("finished" if steps == num_steps else "interrupted", steps)


def _check_device(device: str, tail_average: float | None, threads: int | None) -> None:
    if device not in ("cpu", "gpu"):
        raise ValueError(f"device must be 'cpu' or 'gpu', found {device!r}")
    if device == "gpu" and tail_average is not None:
        raise ValueError("tail_average is not computed on a GPU: leave it out, or use device='cpu'")
    if device == "gpu" and threads is not None:
        raise ValueError("threads are those of the processor: leave them out, or use device='cpu'")


def check_form(plan: RunPlan, group: Group) -> int:
    """Check state and output of an algorithm's form for one of its groups; return the size of a state.

    Raises
    ------
    ValueError
        If the step is not a plain function, or kernels and outputs cannot work with the state.
    """
    name, form = plan.algorithm.name, plan.form
    if plan.algorithm.chains not in (1, 2):
        raise ValueError(f"{name} samples {plan.algorithm.chains!r} chains: there may be 1 or 2")
    if not inspect.isfunction(form.step):
        kind = type(form.step).__name__
        raise ValueError(f"the step of {name} must be a plain Python function, found {kind}")
    setting = plan.setting(group.width)
    state = form.init(setting, group.params(plan.algorithm, form.laned))
    if not (isinstance(state, tuple) and hasattr(state, "_fields")):
        found = type(state).__name__
        raise ValueError(f"the state of {name} must be a NamedTuple of arrays, found {found}")
    for field, array in zip(state._fields, state, strict=True):
        whole = isinstance(array, np.ndarray) and array.dtype in (np.float64, np.int64)
        if not whole:
            kind = getattr(array, "dtype", type(array).__name__)
            raise ValueError(
                f"{field!r} in the state of {name} must be an array of float64 or int64, found {kind}"
            )
        if form.laned and (array.ndim == 0 or array.shape[-1] != group.width):
            raise ValueError(
                f"{field!r} in the state of {name} must have the lanes as its last axis, {group.width} of "
                f"them, found shape {array.shape}"
            )
    shape = getattr(getattr(state, "weights", None), "shape", None)
    if form.output is read_state and shape != setting.weights.shape:
        found = "no such field" if shape is None else f"shape {shape}"
        raise ValueError(
            f"the state of {name} must have a field 'weights' of shape {setting.weights.shape}, found "
            f"{found}; or give the form an output"
        )
    return sum(array.size for array in state)


@contextlib.contextmanager
def compile_errors_in_words(algorithm: Algorithm) -> Iterator[None]:
    """Turn a compiler error into one that says what to do."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("numba"):
            raise
        plain = COLOUR.sub("", str(error))  # numba colours its messages where colorama is installed
        lines = [line.strip() for line in plain.splitlines() if line.strip()]
        cause = next(
            (line for line in lines if line.startswith(("Unknown", "Untyped", "NameError"))), lines[0]
        )
        raise ValueError(
            f"the step of {algorithm.name} does not compile: {cause}. A step uses scalar loops over arrays, "
            "allocates nothing, and calls only functions marked with gainbias.kernels.inlined. The whole "
            "message of the compiler is above"
        ) from error


def check_problem(algorithm: Algorithm, problem: Problem) -> None:
    """Refuse a problem on which an algorithm does not exist, or warn if it does not converge there."""
    if not isinstance(problem, Problem):
        hint = (
            ": write gb.Problem(mrp, gb.Tabular()), or your features"
            if isinstance(problem, MarkovRewardProcess)
            else ""
        )
        raise ValueError(f"problem must be a gb.Problem, found {type(problem).__name__}{hint}")
    if algorithm.declared.tabular_only and problem.features.kind != "tabular":
        raise ValueError(
            f"{algorithm.name} exists for tabular features only, found {problem.features.kind} ones: use "
            "gb.Problem(mrp, gb.Tabular())"
        )
    if algorithm.declared.needs_ones_outside_span and problem.ones_in_span:
        warnings.warn(
            f"{algorithm.name} needs features that do not span the constant values, and these do: its "
            "equation has no unique solution",
            stacklevel=3,
        )


def _warn_of_idle_traces(algorithm: Algorithm, lanes: Lanes, sampling: Sampling | Markov) -> None:
    if sampling == "iid" and any(params.get("trace_decay", 0.0) > 0.0 for params in lanes.grid):
        warnings.warn(
            f"a trace of {algorithm.name} has no use with sampling='iid', where transitions do not follow "
            "each other: it adds noise, and the limit is that of trace_decay=0",
            stacklevel=3,
        )


def as_first_weights(problem: Problem, weights: Floats | None) -> Floats:
    """Return the first weights, (d,), by default zeros."""
    d = problem.num_features
    if weights is None:
        return np.zeros(d)
    checked = float_array(weights, "initial_weights")
    if checked.shape != (d,):
        raise ValueError(f"initial_weights must have shape ({d},), found {checked.shape}")
    return checked


def as_checkpoints(checkpoints: int | Iterable[int], num_steps: int) -> Ints:
    """Return numbers of steps, increasing; a number of them is spread on a logarithmic scale."""
    if not is_count(num_steps):
        raise ValueError(f"num_steps must be a positive integer, found {num_steps!r}")
    if num_steps > MOST_EXACT_STEPS:
        raise ValueError(
            f"num_steps must be at most 2**53, about 9e15, found about 2**{int(num_steps).bit_length()}"
        )
    if is_integer(checkpoints):
        if checkpoints < 1:
            raise ValueError(f"checkpoints must be at least 1, found {checkpoints}")
        count = min(int(checkpoints), MOST_CHECKPOINTS, num_steps)
        spaced = np.geomspace(1, num_steps, count) if count > 1 else np.array([num_steps])
        return np.unique(np.rint(spaced).astype(np.int64))
    steps = np.array(list(checkpoints)) if isinstance(checkpoints, Iterable) else np.empty(0)
    if (
        steps.size == 0
        or steps.ndim != 1
        or steps.dtype.kind not in "iu"
        or steps.min() < 0
        or steps.max() > num_steps
    ):
        raise ValueError(
            f"checkpoints must be a number, or numbers of steps from 0 to num_steps={num_steps}, found "
            f"{checkpoints!r}"
        )
    return np.unique(np.append(steps, num_steps)).astype(np.int64)


def _average_from(fraction: Any, num_steps: int) -> int | None:
    if fraction is None:
        return None
    if not is_real(fraction) or not 0.0 <= fraction < 1.0:
        raise ValueError(f"tail_average must be at least 0 and below 1, found {fraction!r}: 0.25 is usual")
    number_of_steps: int = round(fraction * num_steps)
    return number_of_steps


def _settings(
    problem: Problem, num_steps: int, sampling: str, start: Start, tail_average: float | None
) -> dict[str, Any]:
    return {
        "num_steps": int(num_steps),
        "sampling": sampling,
        "start": start if isinstance(start, str) else int(start),
        "tail_average": tail_average,
        "process": problem.mrp.fingerprint,
    }
