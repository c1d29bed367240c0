"""Many problems side by side on a GPU, with one lane for each: `run_stacked`.

A GPU is of use for thousands of lanes, and a study of many instances has one for each problem. So these are
stacked: their chains one after the other, like the blocks of one large chain, and their features below each
other. A path that begins in a block stays there. Paths have the same random numbers as alone, and their
states differ by the number of the first one of the block, so that a lane has the same bits as alone.

Kernels are compiled for any number of features, so that the problems of all sizes share them: compiling one
takes longer than the steps of a thousand lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Setting, read_state
from gainbias.algorithms.registry import as_algorithm
from gainbias.engine.lanes import Lane, StepSize, make_lanes
from gainbias.engine.paths import AliasTable, Sampler, Start
from gainbias.engine.run import as_checkpoints, as_first_weights
from gainbias.engine.streams import first_uniforms, stream_states
from gainbias.engine.trace import Outcome, Trace
from gainbias.engine.work import CheckpointRecord, RunPlan
from gainbias.features.rows import DenseRows, Rows, rows_of
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints

NONE = np.empty((0, 2))
"""What transitions pay where the states alone decide."""

BYTES_OF_A_TRANSITION = 20
"""In an alias table."""

MOST_BYTES_STACKED = 2**30
"""Bytes of the alias tables in a stack, at most; more problems take turns."""


class StackedRun(NamedTuple):
    """How an algorithm is run on each problem, in the words of `run`.

    Its first state may depend on nothing but the first weights, which are zeros.
    """

    algorithm: str
    num_steps: int
    step_size: StepSize
    params: Mapping[str, float]
    checkpoints: Sequence[int]


class LaneFound(NamedTuple):
    """What the lane of one problem found: all that a `Trace` has and the problem has not.

    Attributes
    ----------
    run : StackedRun
    seed : int
    weights : (checkpoints, d) array
    gain : (checkpoints,) array
    outcome : Outcome
    """

    run: StackedRun
    seed: int
    weights: Floats
    gain: Floats
    outcome: Outcome

    def trace(self, problem: Problem) -> Trace:
        """Return what `gainbias.run` would have returned."""
        algorithm, steps = as_algorithm(self.run.algorithm), steps_of(self.run)
        lanes = make_lanes(algorithm, self.seed, self.run.step_size, self.run.params)
        first, kept = as_first_weights(problem, None), np.arange(len(steps))
        found = self.weights[None], None, self.gain[None], [self.outcome]
        return Trace(algorithm, problem, lanes, steps, kept, *found, first)


def steps_of(run: StackedRun) -> Ints:
    """Return the numbers of steps at checkpoints."""
    return as_checkpoints(run.checkpoints, run.num_steps)


def run_stacked(
    runs: Sequence[StackedRun], problems: Sequence[Problem], seeds: Sequence[int]
) -> list[tuple[LaneFound, ...]]:
    """Make several runs on each of several problems on a GPU, along one path on each problem.

    The runs are made side by side, each in a thread of its own: a lane for each problem is too few for a GPU.

    Parameters
    ----------
    runs : sequence of StackedRun
    problems : sequence of Problem
        With dense features, the same number of them in each.
    seeds : sequence of int
        Of the paths; they differ.

    Returns
    -------
    list of tuple of LaneFound
        For each problem what each run found, bit for bit as `gainbias.run` does.
    """
    from gainbias.kernels.gpu import several_queues

    found: list[tuple[LaneFound, ...]] = []
    for some in in_pieces(problems):
        with several_queues(), ThreadPoolExecutor(len(runs)) as pool:
            stack = Stack(problems[some], seeds[some])
            each = pool.map(one_stacked, runs, repeat(stack), repeat(len(runs)))
            found += zip(*each, strict=True)
    return found


def in_pieces(problems: Sequence[Problem]) -> Iterator[slice]:
    """Yield which problems are stacked together, one after the other."""
    begin, size = 0, 0
    for number, problem in enumerate(problems):
        own = BYTES_OF_A_TRANSITION * problem.mrp.csr.nnz
        if number > begin and size + own > MOST_BYTES_STACKED:
            yield slice(begin, number)
            begin, size = number, 0
        size += own
    yield slice(begin, len(problems))


def one_stacked(run: StackedRun, stack: Stack, beside: int) -> list[LaneFound]:
    """Make one of several runs that are made side by side."""
    from gainbias.engine.device import run_on_device
    from gainbias.kernels.gpu import own_queue

    algorithm = as_algorithm(run.algorithm)
    lanes = make_lanes(algorithm, stack.seeds, run.step_size, run.params)
    plan = StackedPlan(
        algorithm=algorithm,
        problem=stack.problems[0],
        seeds=lanes.seeds,
        sampler=stack.sampler,
        sampling="markov",
        start="uniform",
        first_weights=as_first_weights(stack.problems[0], None),
        checkpoints=steps_of(run),
        average_from=None,
        stack=stack,
        beside=beside,
    )
    if plan.form.laned and plan.form.output is not read_state:
        raise ValueError(f"{algorithm.name} reads its answer off all lanes at once, which no stack can do")
    record = CheckpointRecord(plan, lanes, "weights", by_lane=False)
    with own_queue():
        run_on_device(plan, record, lanes)
    outcomes = {place: Outcome("diverged", step) for place, step in record.diverged.items()}
    finished = Outcome("finished", run.num_steps)
    return [
        LaneFound(run, seed, weights.copy(), gain.copy(), outcomes.get(place, finished))
        for place, (seed, weights, gain) in enumerate(
            zip(lanes.seeds, record.weights, record.gain, strict=True)
        )
    ]


class Stack:
    """Some problems, stacked, and the seeds of their paths; all runs share what is sent to the GPU.

    Attributes
    ----------
    problems : sequence of Problem
    seeds : list of int
    sampler : StackedSampler
    rows : DenseRows
        Rows of the features of all problems.
    rows_there, table_there
        The rows and the table of the sampler on the GPU.
    """

    def __init__(self, problems: Sequence[Problem], seeds: Sequence[int]) -> None:
        from gainbias.engine.device import sent_record

        self.problems, self.seeds = problems, list(seeds)
        self.sampler = StackedSampler(problems, seeds)
        rows = [rows_of(problem.features) for problem in problems]
        self.rows = DenseRows(np.concatenate([one.matrix for one in rows if isinstance(one, DenseRows)]))
        self.rows_there, self.table_there = sent_record(self.rows), sent_record(self.sampler.table)


@dataclass(frozen=True, eq=False)
class StackedPlan(RunPlan):
    """What is run on a stack; `problem` is the first of its problems, for what all share."""

    stack: Stack
    beside: int

    any_width = True

    @cached_property
    def rows(self) -> Rows:
        """Rows of the features of all problems."""
        return self.stack.rows

    @property
    def rows_there(self) -> Any:
        """The rows on the GPU."""
        return self.stack.rows_there

    @property
    def table_there(self) -> Any:
        """The table of the sampler on the GPU."""
        return self.stack.table_there

    def setting_of(self, lane: Lane) -> Setting:
        """Return what the algorithm is told about the problem of a lane."""
        return self._settings[lane.seed]

    @cached_property
    def _settings(self) -> dict[int, Setting]:
        own = zip(self.seeds, self.stack.problems, strict=True)
        return {seed: self.setting(1, problem) for seed, problem in own}


class StackedSampler(Sampler):
    """The alias tables of several processes as one, and where the path of each seed begins.

    Parameters
    ----------
    problems : sequence of Problem
    seeds : sequence of int
        Of the path on each.
    """

    def __init__(self, problems: Sequence[Problem], seeds: Sequence[int]) -> None:
        tables = [Sampler(problem.mrp).table for problem in problems]
        self.table = stacked_table(tables)
        self._counts = np.array([len(table.reward) for table in tables])
        self._begins = np.cumsum(self._counts) - self._counts
        self._numbers = {seed: number for number, seed in enumerate(seeds)}

    def first_states(self, seeds: Sequence[int], chains: Sequence[str], start: Start) -> Ints:
        """Return where paths begin, each drawn uniformly from its own block."""
        own = np.array([self._numbers[seed] for seed in seeds] * len(chains))
        uniforms = np.concatenate([first_uniforms(stream_states(seeds, name, "start")) for name in chains])
        states: Ints = self._begins[own] + np.asarray(uniforms * self._counts[own], dtype=np.int64)
        return states


def stacked_table(tables: Sequence[AliasTable]) -> AliasTable:
    """Return alias tables one after the other, as that of one chain.

    Examples
    --------
    >>> import gainbias as gb
    >>> table = Sampler(gb.MarkovRewardProcess([[0, 1], [1, 0]], [3.0, 5.0])).table
    >>> both = stacked_table([table, table])
    >>> both.start.tolist(), both.own.tolist(), both.reward.tolist()
    ([0, 1, 2, 3, 4], [1, 0, 3, 2], [3.0, 5.0, 3.0, 5.0])
    """
    states = np.cumsum([0, *(len(table.reward) for table in tables)])
    slots = np.cumsum([0, *(len(table.slot) for table in tables)])
    slot = np.concatenate([table.slot for table in tables])
    slot["other"] += np.repeat(states[:-1], np.diff(slots))
    starts = [first + table.start[:-1].astype(np.int64) for first, table in zip(slots, tables, strict=False)]
    return AliasTable(
        np.concatenate([*starts, slots[-1:]]),
        slot,
        np.concatenate([table.threshold for table in tables]),
        np.concatenate(
            [own_of(table) + np.int32(first) for first, table in zip(states, tables, strict=False)]
        ),
        np.concatenate([table.reward for table in tables]),
        np.concatenate([paid_of(table) for table in tables] if any(len(t.paid) for t in tables) else [NONE]),
    )


def own_of(table: AliasTable) -> Ints:
    """Return the own successor of each slot, also where every row lists all states."""
    count = len(table.reward)
    return table.own if len(table.own) else np.tile(np.arange(count, dtype=np.int32), count)


def paid_of(table: AliasTable) -> Floats:
    """Return what the transitions of each slot pay, also where the state alone decides."""
    if len(table.paid):
        return table.paid
    return np.repeat(np.repeat(table.reward, np.diff(table.start))[:, None], 2, axis=1)
