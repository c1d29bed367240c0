"""A piece of the work of a run: the groups of a few seeds, from their first step to their last.

`RunPlan` is what all lanes of a run share, `CheckpointRecord` what is written down, `Member` one group on its
way, and `Work` a piece: it draws transitions, lets its members make their steps, writes down checkpoints, and
finds the step at which a lane diverged.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from gainbias.algorithms.algorithm import Algorithm, Form, Move, Output, Setting
from gainbias.engine.lanes import Group, Lane
from gainbias.engine.loop import Memory, Running, loop_of
from gainbias.engine.paths import Paths, SampledSteps, Sampler, Sampling, Start
from gainbias.engine.trace import Kind, Norm, Scale, Target
from gainbias.features.matrix import column_lengths
from gainbias.features.rows import Rows, rows_of
from gainbias.model.problem import Problem
from gainbias.types import Floats, Ints

Keep = Literal["weights", "errors"] | Sequence[int]

MOST_RECORD_BYTES = 4 * 2**30
"""The most memory that the weights of all checkpoints may take."""

KERNEL_STRETCH = 4096
"""Steps between two returns from the kernel, at most."""

OFTEN_CHECKED = 100_000
"""States with more numbers are looked through for divergence at checkpoints only."""


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What is run: everything that is the same for all lanes."""

    algorithm: Algorithm
    problem: Problem
    sampler: Sampler
    sampling: Sampling
    start: Start
    first_weights: Floats
    checkpoints: Ints
    average_from: int | None

    @cached_property
    def form(self) -> Form:
        """How the algorithm is computed for these features."""
        return self.algorithm.form_for(self.problem.features.kind)

    @cached_property
    def rows(self) -> Rows:
        """Rows of the features, as kernels read them."""
        return rows_of(self.problem.features)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Iterate over stretches of steps, cut at checkpoints and where averaging begins."""
        last = int(self.checkpoints[-1])
        special = {*self.checkpoints.tolist(), 0 if self.average_from is None else self.average_from}
        cuts = heapq.merge(range(0, last, KERNEL_STRETCH), sorted(special))
        return itertools.pairwise(cut for cut, _ in itertools.groupby(cuts))

    def setting(self, width: int) -> Setting:
        """Return what the algorithm is told about a group of a width."""
        lanes = np.repeat(self.first_weights[:, None], width, axis=1)
        return Setting(
            weights=lanes if self.form.laned else self.first_weights,
            ones_weights=self.problem.ones_weights,
            max_abs_reward=self.problem.mrp.max_abs_reward,
            feature_lengths=column_lengths(self.problem.features),
        )

    def paths(self, seeds: list[int]) -> Paths:
        """Return the paths of the first chain, and then those of the second one if it is used."""
        names = ("first chain", "second chain")[: self.algorithm.chains]
        return self.sampler.paths(seeds, sampling=self.sampling, start=self.start, chain=names)

    def draw(self, paths: Paths, count: int) -> list[SampledSteps]:
        """Return the next `count` transitions of each chain."""
        steps = paths.take(count)
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
        All weights; or, where they would be too large, the usual errors, or the values of some states. The
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

    Parameters
    ----------
    plan : RunPlan
        What is run.
    lanes : list of Lane
        All lanes.
    keep : {"weights", "errors"} or sequence of int
        What to keep at every checkpoint.
    """

    def __init__(self, plan: RunPlan, lanes: list[Lane], keep: Keep) -> None:
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
        self.weights = np.full((count, len(self.kept), d), np.nan)
        self.gain = np.full((count, checkpoints), np.nan)
        self.diverged: dict[int, int] = {}
        self.values: Floats | None = None
        self.errors: dict[tuple[str, ...], Floats] = {}
        self._every = every
        self._plan = plan
        if isinstance(keep, str) and keep == "errors":
            self._prepare_errors(lanes, checkpoints)
        elif not isinstance(keep, str):
            self._prepare_values(keep, count, checkpoints)

    def put(self, places: list[int], checkpoint: int, output: Output) -> None:
        """Write down the output of some lanes at a checkpoint."""
        assert output.gain is not None
        together = places[-1] - places[0] == len(places) - 1
        rows: Any = slice(places[0], places[-1] + 1) if together else places
        self.gain[rows, checkpoint] = output.gain
        self.weights[rows, checkpoint if self._every else 0] = output.weights.T
        if self.values is not None:
            values = self._plan.problem.features.combine(output.weights)
            self.values[rows, checkpoint] = values[self._states].T
        for key, errors in self.errors.items():
            for k, place in enumerate(places):
                row = output.weights[None, :, k]
                errors[place, checkpoint] = self._scales[place].errors(row, *key)[0]  # type: ignore[arg-type]

    def _prepare_errors(self, lanes: list[Lane], checkpoints: int) -> None:
        plan, algorithm = self._plan, self._plan.algorithm
        self._scales = [
            Scale(algorithm, plan.problem, algorithm.params(**lane.params), plan.first_weights)
            for lane in lanes
        ]
        for kind in get_args(Kind):
            for target in get_args(Target)[:2]:
                for norm in get_args(Norm):
                    self.errors[kind, target, norm, "values"] = np.full((len(lanes), checkpoints), np.nan)

    def _prepare_values(self, states: Sequence[int], count: int, checkpoints: int) -> None:
        n = self._plan.problem.mrp.num_states
        self._states = np.asarray(states)
        if self._states.ndim != 1 or self._states.dtype.kind not in "iu" or self._states.size == 0:
            raise ValueError(f"keep must be 'weights', 'errors' or a list of states, found {states!r}")
        if not (self._states.min() >= 0 and self._states.max() < n):
            raise ValueError(f"states to keep must be from 0 to {n - 1}, found {states!r}")
        self.values = np.full((count, checkpoints, len(self._states)), np.nan)


class Member(Running):
    """A group on its way: its state, a saved copy of it, and which of its lanes are finite."""

    def __init__(self, plan: RunPlan, group: Group, path: int) -> None:
        self.plan, self.group, self.path = plan, group, path
        kind, params = plan.problem.features.kind, group.params(plan.algorithm, plan.form.laned)
        super().__init__(plan.form, kind, plan.setting(group.width), params)
        self.saved = self.memory.numbers.copy()
        self.alive = np.ones(len(group.lanes), bool)

    @property
    def is_large(self) -> bool:
        """Whether looking through the state takes long."""
        return self.saved.size > OFTEN_CHECKED

    @property
    def saved_state(self) -> Any:
        """A copy of the state that was saved last."""
        memory = Memory(self.state)
        memory.numbers[:] = self.saved
        return memory.state

    def save(self) -> None:
        """Save a copy of the state as it is now."""
        self.saved[:] = self.memory.numbers

    def output(self, steps: int, reward_total: float) -> Output:
        """Return weights, (d, lanes), and gain, (lanes,), after `steps` steps; NaN for diverged lanes."""
        weights, gain = self.answer()
        count = len(self.alive)
        if gain is None:
            gain = np.full(count, reward_total / steps if steps else 0.0)
        by_lane, gain = weights.reshape(len(weights), -1)[:, :count], gain[:count]
        if self.alive.all():
            return Output(by_lane, gain)
        return Output(np.where(self.alive, by_lane, np.nan), np.where(self.alive, gain, np.nan))

    def finite(self, state: Any) -> Any:
        """Return for each lane whether all numbers of a state are finite."""
        good = np.ones(self.group.width, bool)
        for array in state:
            if array.dtype.kind == "f":
                finite = np.isfinite(array)
                good &= (
                    finite.reshape(-1, self.group.width).all(axis=0) if self.plan.form.laned else finite.all()
                )
        return good[: len(self.alive)]


class Work:
    """A piece of work: the groups of a few seeds."""

    def __init__(self, plan: RunPlan, record: CheckpointRecord, groups: list[Group]) -> None:
        self.plan, self.record, self.groups = plan, record, groups
        self.steps_done = 0

    def run(self, stop: threading.Event) -> None:
        """Go through all stretches, until told to stop; states take memory only meanwhile."""
        seeds = list(dict.fromkeys(group.lanes[0].seed for group in self.groups))
        self.paths = self.plan.paths(seeds)
        self.members = [Member(self.plan, group, seeds.index(group.lanes[0].seed)) for group in self.groups]
        self._save()
        try:
            with np.errstate(all="ignore"):  # a step that is not compiled would warn where a kernel does not
                self._run(stop)
        finally:
            del self.members, self.paths

    def _run(self, stop: threading.Event) -> None:
        checkpoints = {int(step): c for c, step in enumerate(self.plan.checkpoints)}
        self._note(checkpoints)
        for first, last in self.plan.stretches():
            if stop.is_set():
                return
            if first == self.plan.average_from:
                for member in self.members:
                    member.begin_average()
            self._advance(first, last)
            self._look_for_divergence(at_checkpoint=last in checkpoints)
            self._note(checkpoints)

    def _advance(self, first: int, last: int) -> None:
        drawn = self.plan.draw(self.paths, last - first)
        sizes: dict[tuple[int, ...], Floats] = {}  # groups of different seeds mostly have the same
        for member in self.members:
            if member.alive.any():
                key = member.group.schedule_ids
                if key not in sizes:
                    sizes[key] = member.group.step_sizes(first, last, self.plan.form.laned)
                member.advance(self.plan.rows, moves_of(drawn, member.path), sizes[key])
        self.steps_done = last

    def _note(self, checkpoints: dict[int, int]) -> None:
        if self.steps_done in checkpoints:
            for member in self.members:
                output = member.output(self.steps_done, self.paths.total[member.path])
                self.record.put(member.group.places, checkpoints[self.steps_done], output)

    def _save(self) -> None:
        self._saved_at, self._saved_paths = self.steps_done, self.paths.save()
        for member in self.members:
            member.save()

    def _look_for_divergence(self, at_checkpoint: bool) -> None:
        if not at_checkpoint and any(member.is_large for member in self.members):
            return
        for member in self.members:
            if not member.memory.is_finite:
                fallen = member.alive & ~member.finite(member.state)
                for k in np.flatnonzero(fallen):
                    self.record.diverged[member.group.places[k]] = self._first_bad_step(member, int(k))
                member.alive &= ~fallen
        self._save()

    def _first_bad_step(self, member: Member, lane: int) -> int:
        """Return after how many steps a lane was no longer finite, by bisection over replays."""
        good, bad = self._saved_at, self.steps_done
        while bad - good > 1:
            middle = (good + bad) // 2
            state = self._replay(member, middle)
            good, bad = (middle, bad) if member.finite(state)[lane] else (good, middle)
        return bad

    def _replay(self, member: Member, until: int) -> Any:
        state, first, paths = member.saved_state, self._saved_at, self.paths.replayed(self._saved_paths)
        form, rows = self.plan.form, self.plan.rows
        while first < until:
            last = min(first + KERNEL_STRETCH, until)
            moves = moves_of(self.plan.draw(paths, last - first), member.path)
            sizes = member.group.step_sizes(first, last, form.laned)
            loop_of(form.step)(state, member.params, rows, moves, sizes)
            first = last
        return state


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
