"""A piece of the work of a run: the groups of a few seeds, from their first step to their last.

`RunPlan` is what all lanes of a run share, `CheckpointRecord` what is stored, `Member` one group in progress,
and `Work` a piece: it draws transitions, lets its members take their steps, stores checkpoints, and finds the
step at which a lane diverged.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Form, Move, Output, Setting
from gainbias.engine.lanes import Group, Lane, Lanes
from gainbias.engine.loop import NO_NOTES, Memory, Running, loop_of
from gainbias.engine.paths import Paths, SampledSteps, Sampler, Sampling, SavedPaths, Start
from gainbias.engine.trace import Kind, Norm, Scale, Target
from gainbias.features.matrix import column_lengths
from gainbias.features.rows import Rows, rows_of
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints

Keep = Literal["weights", "errors"] | Sequence[int]

MOST_RECORD_BYTES = 4 * 2**30
"""The most memory that the weights of all checkpoints may take."""

KERNEL_STRETCH = 2**14
"""Steps of the first stretch. A stretch is about as long as all before it together, up to a limit: between
two of them threads run one at a time, but most lanes that diverge do so early. For large states it is a
quarter as long."""

LONGEST_STRETCH = 2**16
"""No stretch has more steps."""

STRETCH_NUMBERS = 2**25
"""Steps of a stretch times numbers in a state, at most, so that Ctrl-C is heard within a second or so."""

NOTED_NUMBERS = 2**20
"""Most numbers that are stored between two returns from the kernel, unless one state has more."""

OFTEN_CHECKED = 100_000
"""States with more numbers are checked for divergence only at checkpoints."""


@dataclass(frozen=True, eq=False)
class RunPlan:
    """The plan of a run: everything that is the same for all lanes."""

    algorithm: Algorithm
    problem: Problem
    seeds: list[int]
    sampler: Sampler
    sampling: Sampling
    start: Start
    first_weights: Floats
    checkpoints: Ints
    average_from: int | None

    any_width = False
    """Whether kernels for a GPU are to be compiled for any number of features."""

    beside = 1
    """How many runs share the memory of a GPU."""

    @cached_property
    def form(self) -> Form:
        """How the algorithm is computed for these features."""
        return self.algorithm.form_for(self.problem.features.kind)

    @cached_property
    def rows(self) -> Rows:
        """Rows of the features, as kernels read them."""
        return rows_of(self.problem.features)

    @property
    def rows_there(self) -> Any:
        """The rows on a GPU, if they are there already."""
        return None

    @property
    def table_there(self) -> Any:
        """The table of the sampler on a GPU, if it is there already."""
        return None

    def stretches(self, numbers: int) -> Iterator[tuple[int, int]]:
        """Iterate over stretches of steps of states with some numbers, cut where averaging begins."""
        first, last = 0, int(self.checkpoints[-1])
        shortest, longest = self.stretch_lengths(numbers)
        most_notes = max(1, NOTED_NUMBERS // numbers)
        while first < last:
            end = min(first + max(shortest, min(first, longest)), last)
            noted = self.noted(first, end)
            if noted.stop - noted.start > most_notes:
                end = int(self.checkpoints[noted.start + most_notes - 1])
            if self.average_from is not None and first < self.average_from:
                end = min(end, self.average_from)
            yield first, end
            first = end

    def stretch_lengths(self, numbers: int) -> tuple[int, int]:
        """Return how many steps the first stretch and the longest may have, given the numbers in a state."""
        longest = min(LONGEST_STRETCH, STRETCH_NUMBERS // numbers)
        shortest = min(KERNEL_STRETCH, max(longest, KERNEL_STRETCH // 4))
        return shortest, max(shortest, longest)

    def noted(self, first: int, last: int) -> slice:
        """Return which checkpoints come after step `first`, and not after step `last`."""
        return slice(bisect_right(self._steps, first), bisect_right(self._steps, last))

    @cached_property
    def _steps(self) -> list[int]:
        steps: list[int] = self.checkpoints.tolist()
        return steps

    def setting(self, width: int, problem: Problem | None = None) -> Setting:
        """Return what the algorithm is told about a group of a width, on the own problem or another one."""
        lanes, other = np.repeat(self.first_weights[:, None], width, axis=1), problem or self.problem
        return Setting(
            weights=lanes if self.form.laned else self.first_weights,
            ones_weights=other.ones_weights,
            max_abs_reward=other.mrp.max_abs_reward,
            feature_lengths=self._feature_lengths if problem is None else column_lengths(problem.features),
        )

    def setting_of(self, lane: Lane) -> Setting:
        """Return what the algorithm is told about a single lane."""
        return self.setting(1)

    @cached_property
    def _feature_lengths(self) -> Floats:
        return column_lengths(self.problem.features)

    def paths(self, seeds: list[int]) -> Paths:
        """Return the paths of the first chain, and then those of the second one if it is used."""
        own = np.array([self._seed_numbers[seed] for seed in seeds])
        chains = np.arange(self.algorithm.chains)[:, None]
        return self.first_paths.some((chains * len(self.seeds) + own).ravel())

    @cached_property
    def first_paths(self) -> Paths:
        """Where the paths of all seeds begin; this is faster for all at once than in parts."""
        names = ("first chain", "second chain")[: self.algorithm.chains]
        return self.sampler.paths(self.seeds, sampling=self.sampling, start=self.start, chain=names)

    @cached_property
    def _seed_numbers(self) -> dict[int, int]:
        return {seed: number for number, seed in enumerate(self.seeds)}

    def draw(self, paths: Paths, count: int, room: int) -> list[SampledSteps]:
        """Return the next `count` transitions of each chain, in place of the previous ones."""
        steps = paths.take(count, room=room)
        if self.algorithm.chains == 1:
            return [steps]
        seeds = len(steps.here) // 2
        return [
            SampledSteps(*(array[:seeds] for array in steps)),
            SampledSteps(*(array[seeds:] for array in steps)),
        ]


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a run, and what is kept at them.

    Parameters
    ----------
    steps : int or iterable of int
        How many, evenly spaced on a logarithmic scale, or the numbers of steps themselves.
    keep : {"weights", "errors"} or sequence of int
        All weights; or, if they would be too large, the usual errors, or the values of some states. The
        last weights are always kept.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0, 1], [1, 0]], [3.0, 5.0]), gb.Tabular())
    >>> trace = gb.run("td-lambda", problem, 100, 0.1, checkpoints=gb.Checkpoints(9, keep="errors"))
    >>> trace.weights.shape
    (1, 1, 2)
    """

    steps: int | Iterable[int] = 200
    keep: Keep = "weights"


class CheckpointRecord:
    """The checkpoints of all lanes; threads write into different parts of it.

    Its memory is not cleared beforehand. At the end, `leave_out` marks what no lane reached.

    Parameters
    ----------
    plan : RunPlan
        What is run.
    lanes : Lanes
        All lanes.
    keep : {"weights", "errors"} or sequence of int
        What to keep at every checkpoint.
    by_lane : bool
        Whether the numbers of one lane are together in memory, or else one number of all lanes.
    """

    def __init__(self, plan: RunPlan, lanes: Lanes, keep: Keep, by_lane: bool = True) -> None:
        count, checkpoints, d = len(lanes), len(plan.checkpoints), plan.problem.num_features
        every = isinstance(keep, str) and keep == "weights"
        if isinstance(keep, str) and keep not in ("weights", "errors"):
            raise ValueError(f"keep must be 'weights', 'errors' or a list of states, found {keep!r}")
        if every and 8 * count * checkpoints * d > MOST_RECORD_BYTES:
            raise ValueError(
                f"the weights of {count} lanes at {checkpoints} checkpoints with {d} features would take "
                f"{8 * count * checkpoints * d / 2**30:.1f} GB: use "
                "gb.Checkpoints(keep='errors'), keep=[some states], or fewer checkpoints"
            )
        self.kept = np.arange(checkpoints) if every else np.array([checkpoints - 1])
        self.keeps_all = every
        self._plan, self._by_lane = plan, by_lane
        self.weights = self._room(count, len(self.kept), d)
        self.gain = self._room(count, checkpoints)
        self.diverged: dict[int, int] = {}
        self.values: Floats | None = None
        self.errors: dict[tuple[str, ...], Floats] = {}
        if isinstance(keep, str) and keep == "errors":
            self._prepare_errors(lanes, checkpoints)
        elif not isinstance(keep, str):
            self._prepare_values(keep, count, checkpoints)

    def put(self, places: list[int], checkpoints: slice, output: Output) -> None:
        """Store weights, (checkpoints, d, lanes), and gain, (checkpoints, lanes), of some lanes."""
        assert output.gain is not None
        first, last = places[0], places[-1]
        rows: Any = slice(first, last + 1) if last - first == len(places) - 1 else np.array(places)
        self.gain[rows, checkpoints] = output.gain.T
        if self.keeps_all:
            self.weights[rows, checkpoints] = output.weights.transpose(2, 0, 1)
        else:
            self.weights[rows, 0] = output.weights[-1].T
        if self.values is not None or self.errors:
            for checkpoint, weights in zip(
                range(checkpoints.start, checkpoints.stop), output.weights, strict=True
            ):
                self.put_values(rows, checkpoint, weights)
                for key, errors in self.errors.items():
                    for k, place in enumerate(places):
                        row = weights[None, :, k]
                        errors[place, checkpoint] = self._scale.errors(row, *key)[0]  # type: ignore[arg-type]

    def put_values(self, rows: Any, checkpoint: int, weights: Floats) -> None:
        """Store the values of states, if they are kept, from the weights of some lanes, (d, lanes)."""
        if self.values is not None:
            self.values[rows, checkpoint] = self._plan.problem.features.combine(weights)[self._states].T

    def leave_out(self, steps_done: Ints) -> None:
        """Put NaN at checkpoints beyond the steps that lanes, (lanes,), have done."""
        reached = np.searchsorted(self._plan.checkpoints, steps_done, side="right")
        reached[steps_done == 0] = 0
        for first in np.unique(reached[reached < len(self._plan.checkpoints)]):
            lanes = np.flatnonzero(reached == first)
            for array in (self.gain, self.values, *self.errors.values()):
                if array is not None:
                    array[lanes, first:] = np.nan
            if self.keeps_all or first == 0:
                self.weights[lanes, first:] = np.nan

    def _room(self, count: int, *of_a_lane: int) -> Floats:
        """Return an uninitialised array (lanes, ...)."""
        if self._by_lane:
            return np.empty((count, *of_a_lane))
        return np.moveaxis(np.empty((*of_a_lane, count)), -1, 0)

    def _prepare_errors(self, lanes: Lanes, checkpoints: int) -> None:
        plan, algorithm = self._plan, self._plan.algorithm
        params = algorithm.params(**lanes[0].params)  # no kept target depends on these
        self._scale = Scale(algorithm, plan.problem, params, plan.first_weights)
        for kind in get_args(Kind):
            for target in get_args(Target)[:2]:
                for norm in get_args(Norm):
                    self.errors[kind, target, norm, "values"] = self._room(len(lanes), checkpoints)

    def _prepare_values(self, states: Sequence[int], count: int, checkpoints: int) -> None:
        n = self._plan.problem.mrp.num_states
        self._states = np.asarray(states)
        if self._states.ndim != 1 or self._states.dtype.kind not in "iu" or self._states.size == 0:
            raise ValueError(f"keep must be 'weights', 'errors' or a list of states, found {states!r}")
        if not (self._states.min() >= 0 and self._states.max() < n):
            raise ValueError(f"states to keep must be from 0 to {n - 1}, found {states!r}")
        self.values = self._room(count, checkpoints, len(self._states))


class Member(Running):
    """A group in progress: its state, a saved copy of it, and which of its lanes are finite."""

    def __init__(self, plan: RunPlan, group: Group, path: int) -> None:
        self.plan, self.group, self.path = plan, group, path
        kind, params = plan.problem.features.kind, group.params(plan.algorithm, plan.form.laned)
        super().__init__(plan.form, kind, plan.setting(group.width), params)
        self.saved = self.memory.numbers.copy()
        self.alive = np.ones(len(group.lanes), bool)

    def now(self) -> Floats:
        """Return the memories as they are, (1, numbers), for `outputs`."""
        return np.concatenate(self.memories)[None]

    def outputs(self, kept: Floats, steps: Ints, reward_totals: Floats) -> Output:
        """Return weights, (k, d, lanes), and gain, (k, lanes), for each row of memories, (k, numbers).

        Parameters
        ----------
        kept : (k, numbers) array
            The memories at that time.
        steps : (k,) int array
            After how many steps.
        reward_totals : (k,) array
            The sum of the path's rewards by then.
        """
        count, since = len(self.group.lanes), self.plan.average_from
        averaged = [None if since is None or self.averaged is None else int(step) - since for step in steps]
        weights, gain = self.answers(kept, averaged)
        if gain is None:
            gain = np.repeat((reward_totals / np.maximum(steps, 1))[:, None], count, axis=1)
        return Output(_by_place(weights, 2)[..., :count], _by_place(gain, 1)[..., :count])

    def finite(self, numbers: Floats) -> Any:
        """Return for each lane whether all numbers of a state, given as its memory, are finite."""
        good = np.ones(self.group.width, bool)
        for array in self.memory.read(numbers):
            if array.dtype.kind == "f":
                finite = np.isfinite(array)
                good &= (
                    finite.reshape(-1, self.group.width).all(axis=0) if self.plan.form.laned else finite.all()
                )
        return good[: len(self.alive)]


def _by_place(array: Floats, first_axes: int) -> Floats:
    """Return an array with a last axis for lanes, even for a single lane."""
    return array.reshape(*array.shape[:first_axes], -1)


class Work:
    """A piece of work: the groups of a few seeds."""

    def __init__(self, plan: RunPlan, record: CheckpointRecord, groups: list[Group]) -> None:
        self.plan, self.record, self.groups = plan, record, groups
        self.steps_done = 0

    def run(self, stop: threading.Event) -> None:
        """Go through all stretches, until told to stop; states take memory only during that time."""
        seeds = list(dict.fromkeys(group.lanes[0].seed for group in self.groups))
        self.paths = self.plan.paths(seeds)
        self.members = [Member(self.plan, group, seeds.index(group.lanes[0].seed)) for group in self.groups]
        self._room, self._is_new = np.empty(0), True
        self._numbers = max(member.saved.size for member in self.members)
        try:
            with np.errstate(all="ignore"):  # an uncompiled step would give warnings that a kernel does not
                self._run(stop)
        finally:
            del self.members, self.paths, self._room

    def _run(self, stop: threading.Event) -> None:
        if self.plan.checkpoints[0] == 0:
            for member in self.members:
                self.record.put(
                    member.group.places,
                    slice(0, 1),
                    member.outputs(member.now(), np.zeros(1, int), np.zeros(1)),
                )
        for first, last in self.plan.stretches(self._numbers):
            if stop.is_set():
                return
            if first == self.plan.average_from:
                for member in self.members:
                    member.begin_average()
            self._advance(first, last)

    def _advance(self, first: int, last: int) -> None:
        is_new = self._is_new  # what was before is finite, and replays begin here
        if is_new:
            self._saved_at, self._saved_paths = first, self.paths.save()
        drawn = self.plan.draw(self.paths, last - first, self._most_steps)
        noted = self.plan.noted(first, last)
        steps = self.plan.checkpoints[noted]
        after = steps - first
        sizes: dict[tuple[int, ...], Floats] = {}  # groups of different seeds mostly have the same
        looked = noted.start < noted.stop or self._numbers <= OFTEN_CHECKED
        self.steps_done, self._is_new = last, looked
        for member in self.members:
            if member.alive.any():
                key = member.group.schedule_ids
                if key not in sizes:
                    sizes[key] = member.group.step_sizes(first, last, self.plan.form.laned)
                kept = self._room_for(len(steps), sum(map(len, member.memories)))
                good = member.advance(
                    self.plan.rows,
                    moves_of(drawn, member.path),
                    sizes[key],
                    after,
                    kept,
                    member.saved if is_new else NO_NOTES.before,
                    member.memory.num_floats if looked else 0,
                )
                fine = not looked or (good and member.alive.all())
                alive = None if fine else self._looked_through(member, kept, steps)
                if len(steps):
                    totals = drawn[0].total[member.path, after - 1]
                    output = _without(alive, member.outputs(kept, steps, totals))
                    self.record.put(member.group.places, noted, output)
            elif len(steps):
                self.record.put(member.group.places, noted, self._nothing(member, len(steps)))

    @property
    def _most_steps(self) -> int:
        """Steps of the longest stretch."""
        return min(self.plan.stretch_lengths(self._numbers)[1], int(self.plan.checkpoints[-1]))

    def _room_for(self, rows: int, numbers: int) -> Floats:
        if self._room.size < rows * numbers:
            self._room = np.empty(rows * numbers)
        return self._room[: rows * numbers].reshape(rows, numbers)

    def _nothing(self, member: Member, rows: int) -> Output:
        lanes = len(member.alive)
        return Output(
            np.full((rows, self.plan.problem.num_features, lanes), np.nan), np.full((rows, lanes), np.nan)
        )

    def _looked_through(self, member: Member, kept: Floats, steps: Ints) -> Any:
        """Find lanes that diverged; return which were finite at each checkpoint."""
        alive = np.empty((len(steps), len(member.alive)), bool)
        for number, step in enumerate([*steps.tolist(), self.steps_done]):
            numbers = kept[number, : member.saved.size] if number < len(steps) else member.memory.numbers
            fallen = member.alive & ~member.finite(numbers)
            for k in np.flatnonzero(fallen):
                self.record.diverged[member.group.places[k]] = self._first_bad_step(member, int(k), step)
            member.alive &= ~fallen
            if number < len(steps):
                alive[number] = member.alive
        return alive

    def _first_bad_step(self, member: Member, lane: int, bad: int) -> int:
        """Return after how many steps a lane was no longer finite, by bisection over replays."""
        good, numbers, paths = self._saved_at, member.saved, self._saved_paths
        while bad - good > 1:
            middle = (good + bad) // 2
            then, paths_then = self._replayed(member, numbers, paths, good, middle)
            if member.finite(then)[lane]:
                good, numbers, paths = middle, then, paths_then
            else:
                bad = middle
        return bad

    def _replayed(
        self, member: Member, numbers: Floats, saved: SavedPaths, first: int, last: int
    ) -> tuple[Floats, SavedPaths]:
        """Return memory and paths after step `last`, given those after step `first`."""
        form, paths, memory = self.plan.form, self.paths.replayed(saved), Memory(member.state)
        memory.numbers[:] = numbers
        while first < last:
            end = min(first + LONGEST_STRETCH, last)
            moves = moves_of(self.plan.draw(paths, end - first, self._most_steps), member.path)
            sizes = member.group.step_sizes(first, end, form.laned)
            loop_of(form.step)(memory.state, member.params, self.plan.rows, moves, sizes, NO_NOTES)
            first = end
        return memory.numbers, paths.save()


def _without(alive: Any, output: Output) -> Output:
    """Return an output with NaN for lanes that were no longer finite."""
    if alive is None:
        return output
    assert output.gain is not None
    return Output(np.where(alive[:, None], output.weights, np.nan), np.where(alive, output.gain, np.nan))


def moves_of(drawn: list[SampledSteps], path: int) -> Move:
    """Return the moves of one path; without a second chain, its places repeat the first."""
    first, second = drawn[0], drawn[-1]
    return Move(
        first.here[path],
        first.next[path],
        first.reward[path],
        second.here[path],
        second.next[path],
        second.reward[path],
    )
