"""Lanes on a GPU: `run_on_device` does on the GPU what `engine/work.py` does on the processor.

A stretch of steps is a few launches: step sizes are computed, each thread draws one sample path, and then
each thread takes one lane along its path, so that lanes of a seed share it. Short states are copied into the
thread's own memory for that time. At checkpoints the lanes store their weights, from which errors are
computed on the GPU: only what is kept comes back. Lanes that do not fit into memory together are run in
pieces. The step at which a lane diverged is found by bisection, from a copy of how its stretch began.

The sample paths are those of `engine/paths.py`, bit for bit: the same streams and the same alias tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Move, read_state
from gainbias.engine.lanes import Lanes
from gainbias.engine.paths import AliasTable, chosen, pick
from gainbias.engine.schedules import Constant, Harmonic, side_by_side
from gainbias.engine.streams import next_uniform, stream_states
from gainbias.engine.work import LONGEST_STRETCH, CheckpointRecord, RunPlan
from gainbias.features.rows import DenseRows, values
from gainbias.kernels.gpu import (
    DeviceForms,
    LanePart,
    around_lane,
    copy_over,
    empty_there,
    fetch_into,
    fetched,
    free_memory,
    lane_number,
    lane_views,
    launch,
    memory_errors_in_words,
    part_of,
    sent,
    what_is_missing,
)
from gainbias.progress import Watch
from gainbias.types import Floats, Ints

MOST_STRETCH_BYTES = 2**34
"""The most GPU memory for the paths and step sizes of a stretch, and for its notes."""

STRETCH_SHARE = 4
"""Neither takes more than the free memory divided by this; states take at most half of it."""

LEAST_STRETCH = 64
"""There is always room for this many steps, or for the whole run: a stretch takes a few launches."""

MOST_LANE_STEPS = 2**34
"""Steps of all lanes in a stretch, at most, so that Ctrl-C is heard within a second or so."""

MOST_OWN_NUMBERS = 512
"""States with more numbers are not copied into the thread's own memory."""

SHORT_STATE, FEW_REGISTERS = 32, 128
"""A thread with at most 32 numbers in its state gets at most 128 registers: two for each number, and as many
for the rest. More threads then work at once. A longer state would be spilled to memory."""

MOST_CLOSE, CACHED_BLOCK = 96, 160
"""Vectors of more than 96 features are kept in memory instead of registers. Lanes then run in larger blocks:
fewer of them run at a time, and their vectors stay in the cache. docs/gpu.md has the figures."""

MANY_LANES, MANY_TO_A_PATH = 2**15, 8
"""The least lanes that go in larger blocks, in all and for each path."""

FOR_EVER = 2**62
"""More steps than any stretch has."""

ERRORS, ROOM_FOR_VALUES = 12, 2
"""Errors that are measured for a lane: six for each of two targets; the rows before them are for values."""

NO_SQUARES: tuple[float, ...] = (0.0,) * 6
"""Sums of squares before the first state."""


class DrawnMoves(NamedTuple):
    """Transitions of a stretch: (steps, paths) arrays."""

    here: Ints
    after: Ints
    reward: Floats


class Noted(NamedTuple):
    """What is stored at the checkpoints of a stretch: (k, d, lanes), (k, lanes) and (k, paths)."""

    weights: Floats
    gain: Floats
    totals: Floats


class Journey(NamedTuple):
    """The data of lanes: arrays (steps, paths) and (steps, schedules), and for each lane the index in these.

    `shift` is the offset of the paths of a second chain. A lane takes the steps from `begin` on, up to `end`
    or `length`. After each number of steps in `after` it stores what it has learned.
    """

    moves: Any
    shift: int
    path: Ints
    sizes: Floats
    schedule: Ints
    begin: Ints
    end: Ints
    length: int
    after: Ints
    noted: Any


class Learned(NamedTuple):
    """Weights of one lane at one checkpoint."""

    weights: Floats


class Yardstick(NamedTuple):
    """The data for measuring errors.

    Attributes
    ----------
    law : (n,) array
        The stationary law.
    aims : (targets, n) array
        Target values: the bias, and those of the paper's fixed point.
    means : (2, d) array
        Vectors that give the mean value under the law, and the plain mean.
    aim_means : (targets, 2) array
        These means of the targets.
    """

    law: Floats
    aims: Floats
    means: Floats
    aim_means: Floats


def fill_sizes(ratios: Floats, first: int, count: int, sizes: Floats) -> None:
    """Write step sizes ``a / (b t + c)`` for the schedule of this thread; the ratios a, b, c are rows."""
    k = lane_number()
    if k < len(ratios):
        for t in range(count):
            sizes[t, k] = ratios[k, 0] / (ratios[k, 1] * float(first + t) + ratios[k, 2])


def draw_moves(
    table: AliasTable,
    law: AliasTable,
    afresh: int,
    streams: Any,
    at: Ints,
    totals: Floats,
    moves: Any,
    count: int,
    after: Ints,
    noted: Floats,
) -> None:
    """Continue the path of this thread for some steps; with `afresh` each one starts afresh from the law.

    The sum of its rewards is stored after each number of steps in `after`.
    """
    path = lane_number()
    if path >= len(at):
        return
    here, total, number = at[path], totals[path], 0
    for t in range(count):
        if afresh > 0:
            slot, below = pick(law, 0, next_uniform(streams, path))
            here = chosen(law, 0, slot, below)
        slot, below = pick(table, here, next_uniform(streams, path))
        then = chosen(table, here, slot, below)
        reward = table.reward[here] if len(table.paid) == 0 else table.paid[slot, int(below)]
        moves.here[t, path], moves.after[t, path], moves.reward[t, path] = here, then, reward
        total += reward
        here = then
        if number < len(after) and after[number] == t + 1:
            noted[number, path] = total
            number += 1
    at[path], totals[path] = here, total


@cache
def kernel_of(function: Callable[..., None]) -> Any:
    """Return a function that does the work of one thread, as a kernel."""
    return DeviceForms([]).kernel(function)


class Shapes(NamedTuple):
    """What a kernel for lanes is compiled for; the lengths of a lane's arrays are constants in it.

    Attributes
    ----------
    parts : tuple of LanePart
        Of the state of one lane.
    num_features : int
        Number of features d; 0 stands for any.
    notes : bool
        Whether what a lane has learned can be read from its state.
    """

    parts: tuple[LanePart, ...]
    num_features: int
    notes: bool

    @property
    def size(self) -> int:
        """Number of entries in the state of a lane."""
        return sum(math.prod(part.shape) for part in self.parts)


@cache
def lane_kernel(
    step: Callable[..., None], laned: bool, state: type, params: type, rows: type, shapes: Shapes
) -> Any:
    """Return a kernel in which each thread takes one lane along its path.

    Its arguments are states and parameters with a last axis for lanes, rows, a `Journey`, and two arrays of
    integers: lanes that are not finite afterwards get a 0 in the first, and then the second is set to 0, too.
    """
    forms = DeviceForms([rows, state])
    params_of = lane_views(params, laned)
    fields: Any = getattr(state, "_fields", ())
    has_gain, notes = "gain" in fields, shapes.notes

    def note(own: Any, noted: Any, number: int, lane: int) -> None:
        for j in range(noted.weights.shape[1]):
            noted.weights[number, j, lane] = own.weights[j, 0] if laned else own.weights[j]
        if has_gain:
            noted.gain[number, lane] = own.gain[0]

    def go(own: Any, lane: int, rest: Any) -> None:
        params, rows, journey = rest
        lane_params = params_of(params, lane)
        moves, sizes, path, schedule = (
            journey.moves,
            journey.sizes,
            journey.path[lane],
            journey.schedule[lane],
        )
        other, begin, end = path + journey.shift, journey.begin[lane], journey.end[lane]
        end = min(end, journey.length)
        for number in range(len(journey.after) + 1):
            until = end if number == len(journey.after) else min(end, journey.after[number])
            for t in range(begin, until):
                move = Move(
                    moves.here[t, path],
                    moves.after[t, path],
                    moves.reward[t, path],
                    moves.here[t, other],
                    moves.after[t, other],
                    moves.reward[t, other],
                )
                if laned:
                    step(own, lane_params, rows, move, sizes[t, schedule : schedule + 1])
                else:
                    step(own, lane_params, rows, move, sizes[t, schedule])
            if notes and number < len(journey.after):
                note(own, journey.noted, number, lane)
            begin = until

    is_wide = _has_width(rows, shapes.num_features)
    along = around_lane(go, state, shapes.parts, laned, shapes.size <= MOST_OWN_NUMBERS)

    def advance(states: Any, params: Any, rows: Any, journey: Any, good: Ints, all_good: Ints) -> None:
        lane = lane_number()
        if lane >= len(good) or journey.begin[lane] >= journey.end[lane]:
            return
        if is_wide(rows) and not along(states, lane, (params, rows, journey)):
            good[lane] = all_good[0] = 0

    return forms.kernel(advance, FEW_REGISTERS if shapes.size <= SHORT_STATE else None)


def _has_width(rows: type, num_features: int) -> Callable[[Any], bool]:
    """Return a function that asserts a known fact: after it the compiler knows the length of dense rows."""

    def dense(rows: Any) -> bool:
        return bool(rows.matrix.shape[1] == num_features)

    def other(rows: Any) -> bool:
        return True

    return dense if rows is DenseRows and num_features > 0 else other


def with_squares(
    squares: tuple[float, ...], missed: float, share: float, law_mean: float, mean: float
) -> tuple[float, ...]:
    """Return sums of squares, with one more state: of plain values, and of values less each mean."""
    centred, quotient = missed - law_mean, missed - mean
    return (
        squares[0] + missed * missed,
        squares[1] + share * (missed * missed),
        squares[2] + centred * centred,
        squares[3] + share * (centred * centred),
        squares[4] + quotient * quotient,
        squares[5] + share * (quotient * quotient),
    )


@cache
def error_kernel(rows: type, num_features: int) -> Any:
    """Return a kernel that measures errors of weights, (d, lanes), in the order of a `CheckpointRecord`."""
    forms = DeviceForms([rows])

    def measure_one(own: Any, place: int, rest: Any) -> None:
        rows, stick, out = rest
        law_mean = mean = 0.0
        for j in range(own.weights.shape[0]):
            law_mean += stick.means[0, j] * own.weights[j, 0]
            mean += stick.means[1, j] * own.weights[j, 0]
        bias = paper = NO_SQUARES
        here, after = out[0, place : place + 1], out[1, place : place + 1]
        for first in range(0, len(stick.law), 2):
            values(rows, first, min(first + 1, len(stick.law) - 1), own.weights, here, after)
            for s in range(first, min(first + 2, len(stick.law))):
                value, share = here[0] if s == first else after[0], stick.law[s]
                bias = with_squares(
                    bias, value - stick.aims[0, s], share,
                    law_mean - stick.aim_means[0, 0], mean - stick.aim_means[0, 1],
                )  # fmt: skip
                paper = with_squares(
                    paper, value - stick.aims[1, s], share,
                    law_mean - stick.aim_means[1, 0], mean - stick.aim_means[1, 1],
                )  # fmt: skip
        for kind in range(3):
            for norm in range(2):
                row = ROOM_FOR_VALUES + 4 * kind + norm
                out[row, place] = math.sqrt(bias[2 * kind + norm])
                out[row + 2, place] = math.sqrt(paper[2 * kind + norm])

    parts, is_wide = (LanePart((num_features, 1), True),), _has_width(rows, num_features)
    along = around_lane(measure_one, Learned, parts, True, num_features <= MOST_OWN_NUMBERS)

    def measure(learned: Any, rows: Any, stick: Any, out: Floats) -> None:
        place = lane_number()
        if place < out.shape[1] and is_wide(rows):
            along(learned, place, (rows, stick, out))

    return forms.kernel(measure)


def keep_lanes(source: Floats, target: Floats, kept: Ints) -> None:
    """Copy the lane of this thread, (m, lanes), if it must be kept."""
    lane = lane_number()
    if lane < len(kept) and kept[lane] > 0:
        for i in range(source.shape[0]):
            target[i, lane] = source[i, lane]


def run_on_device(plan: RunPlan, record: CheckpointRecord, lanes: Lanes) -> Ints:
    """Run all lanes on the GPU, and return for each how many steps it took; Ctrl-C ends the run early."""
    missing = what_is_missing()
    if missing:
        raise ValueError(f"device='gpu' does not work here, because {missing}")
    steps_done, total = np.zeros(len(lanes), int), int(plan.checkpoints[-1]) * len(lanes)
    with Watch() as watch, np.errstate(all="ignore"), memory_errors_in_words():
        before = 0
        try:
            for places, room in pieces_of(plan, lanes):
                work = DeviceLanes(plan, record, lanes[places], places, room)
                for last in work.stretches():
                    steps_done[places] = last
                    watch.show(f"running {plan.algorithm.name}", before + last * len(places), total)
                before = int(steps_done.sum())
        except KeyboardInterrupt:
            pass
    return steps_done


class DeviceRoom(NamedTuple):
    """How much memory of the GPU a piece of lanes leaves: for paths and step sizes, and for notes."""

    stretch: int
    notes: int


def pieces_of(plan: RunPlan, lanes: Lanes) -> Iterator[tuple[Ints, DeviceRoom]]:
    """Yield the numbers of lanes that run together, and the memory they leave.

    They have states of one type, and take no more memory than is free.
    """
    free = free_memory() * 9 // 10 // plan.beside
    tables = [plan.sampler.table, *([plan.sampler.law] if plan.sampling == "iid" else [])]
    fixed = sum(_bytes_of(part) for part in [plan.rows, *tables]) + 32 * plan.problem.mrp.num_states
    for places, state in _by_state(plan, lanes):
        path = plan.algorithm.chains * (64 + 16 * LEAST_STRETCH) + 8 * LEAST_STRETCH
        each = 3 * state + 8 * len(lanes.grid[0]) + 80 + path + _bytes_of_a_note(plan)
        most = (free - fixed) // each
        if most < 1:
            raise ValueError(
                f"one lane of {plan.algorithm.name} on this problem needs {(fixed + each) / 2**30:.3g} GB of "
                f"the GPU's memory, and {free / 2**30:.3g} GB are free: use device='cpu'"
            )
        pieces = -(-len(places) // most)
        for piece in np.array_split(places, pieces):
            left = (free - fixed - each * len(piece)) // STRETCH_SHARE
            yield piece, DeviceRoom(min(MOST_STRETCH_BYTES, left), min(MOST_STRETCH_BYTES, left))


def _by_state(plan: RunPlan, lanes: Lanes) -> Iterator[tuple[Ints, int]]:
    """Yield the numbers of lanes whose states have one type, and how many bytes each has."""
    if plan.form.laned:
        yield np.arange(len(lanes)), _bytes_of(_first_state(plan, lanes[:1]))
        return
    states = [plan.form.init(plan.setting(1), plan.algorithm.params(**params)) for params in lanes.grid]
    for kind in dict.fromkeys(map(type, states)):
        is_of_kind = np.array([type(state) is kind for state in states])
        size = max(_bytes_of(state) for state in states if type(state) is kind)
        yield np.flatnonzero(is_of_kind[lanes.grid_numbers]), size


def _bytes_of_a_note(plan: RunPlan) -> int:
    return 8 * (plan.problem.num_features + 2 + plan.algorithm.chains + ERRORS)


def _first_state(plan: RunPlan, lanes: Lanes) -> Any:
    """Return the state of lanes before their first step; its arrays have a last axis for lanes."""
    if plan.form.laned:
        return plan.form.init(plan.setting(len(lanes)), _params_of(plan, lanes))
    used, own = np.unique(lanes.grid_numbers, return_inverse=True)
    states = [plan.form.init(plan.setting(1), plan.algorithm.params(**lanes.grid[k])) for k in used]
    return type(states[0])(
        *(np.take(np.stack(arrays, axis=-1), own, axis=-1) for arrays in zip(*states, strict=True))
    )


def _params_of(plan: RunPlan, lanes: Lanes) -> Any:
    """Return the parameters of lanes, each an array (lanes,)."""
    kind, own = plan.algorithm.params, lanes.grid_numbers
    return kind(*(np.array([params[name] for params in lanes.grid])[own] for name in kind._fields))


class DeviceLanes:
    """Lanes of a run that are on the GPU together.

    Parameters
    ----------
    plan, record
        As for `run_on_device`.
    lanes : Lanes
    places : (lanes,) int array
        Their numbers in the list of all lanes.
    room : DeviceRoom
        Memory that they may take besides their states.
    """

    def __init__(
        self, plan: RunPlan, record: CheckpointRecord, lanes: Lanes, places: Ints, room: DeviceRoom
    ) -> None:
        self.plan, self.record, self.lanes, self.places, self.room = plan, record, lanes, places, room
        used, self._paths_here = np.unique(lanes.seed_numbers, return_inverse=True)
        self._seeds, self._schedules = [lanes.seeds[k] for k in used], lanes.schedules
        self._notes_itself = plan.form.output is read_state
        self._fell_at = np.full(len(lanes), FOR_EVER)
        self._params_here = _params_of(plan, lanes)
        self._first = _first_state(plan, lanes)
        self._states, self._saved = sent_record(self._first), sent_record(self._first)
        self._params, self._rows = sent_record(self._params_here), plan.rows_there or sent_record(plan.rows)
        self._good, self._all_good = sent(np.ones(len(lanes), np.int64)), sent(np.ones(1, np.int64))
        self._zeros, self._ends = sent(np.zeros(len(lanes), np.int64)), sent(np.full(len(lanes), FOR_EVER))
        self._send_paths()
        kinds: list[Any] = [type(self._first), plan.algorithm.params, type(plan.rows)]
        self._kernel = lane_kernel(plan.form.step, plan.form.laned, *kinds, self._shapes)

    def stretches(self) -> Iterator[int]:
        """Work through stretches of steps, and yield after each the number of steps done."""
        if self.plan.checkpoints[0] == 0:
            self._keep(slice(0, 1), *self._told(0))
        first, end = 0, int(self.plan.checkpoints[-1])
        while first < end:
            last = min(end, first + self._longest)
            noted = self.plan.noted(first, last)
            if noted.stop - noted.start > self._most_notes or (
                noted.stop > noted.start and not self._notes_itself
            ):
                last = int(self.plan.checkpoints[noted.start + self._most_notes - 1])
            self._advance(first, last)
            yield last
            first = last

    def _advance(self, first: int, last: int) -> None:
        """Take the steps of a stretch, find the lanes that diverged, and keep what was stored."""
        count, noted = last - first, self.plan.noted(first, last)
        after = sent(self.plan.checkpoints[noted] - first)
        is_iid = int(self.plan.sampling == "iid")
        self._find_sizes(first, last)
        launch(
            kernel_of(draw_moves), self._num_paths, self._table, self._law, is_iid, self._streams, self._at,
            self._totals, self._moves, count, after, self._noted.totals,
        )  # fmt: skip
        for saved, array in zip(self._saved, self._states, strict=True):
            copy_over(saved, array)
        self._go_on(self._states, self._zeros, self._ends, count, after, self._good)
        if fetched(self._all_good)[0] == 0:
            self._find_fallen(first, count)
        if noted.start < noted.stop:
            self._keep(noted, *(self._read_notes(noted) if self._notes_itself else self._told(last)))

    def _find_sizes(self, first: int, last: int) -> None:
        if self._ratios is None:
            self._sizes = sent(side_by_side(self._schedules, first, last))
        else:
            launch(
                kernel_of(fill_sizes), len(self._schedules), self._ratios, first, last - first, self._sizes
            )

    def _go_on(self, states: Any, begin: Any, end: Any, count: int, after: Any, good: Any) -> None:
        shift = len(self._seeds) if self.plan.algorithm.chains == 2 else 0
        journey = Journey(
            self._moves, shift, self._paths, self._sizes, self._schedule_numbers, begin, end, count, after,
            self._noted,
        )  # fmt: skip
        launch(
            self._kernel, len(self.lanes), states, self._params, self._rows, journey, good, self._all_good,
            block=self._block,
        )  # fmt: skip

    def _find_fallen(self, first: int, count: int) -> None:
        """Find the step at which further lanes diverged, and stop these."""
        fallen = np.flatnonzero((fetched(self._good) == 0) & (self._fell_at == FOR_EVER))
        self._fell_at[fallen] = first + self._first_bad_steps(fallen, count)
        for lane in fallen:
            self.record.diverged[int(self.places[lane])] = int(self._fell_at[lane])
        copy_over(self._ends, np.where(self._fell_at == FOR_EVER, FOR_EVER, 0))
        copy_over(self._all_good, np.ones(1, np.int64))

    def _first_bad_steps(self, fallen: Ints, count: int) -> Ints:
        """Return after how many steps of the stretch each of these lanes was no longer finite."""
        scratch, none = sent_record(self._first), sent(np.zeros(0, np.int64))
        good, bad = np.zeros(len(self.lanes), np.int64), np.zeros(len(self.lanes), np.int64)
        bad[fallen] = count
        while (bad - good > 1).any():
            middle = (good + bad) // 2
            fine = sent(np.ones(len(self.lanes), np.int64))
            for array, saved in zip(scratch, self._saved, strict=True):
                copy_over(array, saved)
            self._go_on(scratch, sent(good), sent(middle), count, none, fine)
            is_fine = fetched(fine) > 0
            good, bad = np.where(is_fine, middle, good), np.where(is_fine, bad, middle)
            for array, saved in zip(scratch, self._saved, strict=True):
                if array.size > 0:
                    launch(kernel_of(keep_lanes), len(self.lanes), _by_lane(array), _by_lane(saved), fine)
        return bad[fallen]

    def _read_notes(self, noted: slice) -> tuple[list[Any], Floats]:
        """Return the weights that lanes stored, k times (d, lanes) on the device, and gains, (k, lanes)."""
        count, steps = noted.stop - noted.start, self.plan.checkpoints[noted]
        weights = [self._noted.weights[k] for k in range(count)]
        if "gain" in self._first._fields:
            return weights, fetched(self._noted.gain[:count])
        return weights, self._mean_rewards(fetched(self._noted.totals[:count]), steps)

    def _mean_rewards(self, totals: Floats, steps: Ints) -> Floats:
        return np.take(totals / np.maximum(steps, 1)[:, None], self._paths_here, axis=1)

    def _told(self, step: int) -> tuple[list[Any], Floats]:
        """Return the same for the present, after some steps, from the algorithm's own output."""
        form, count = self.plan.form, len(self.lanes)
        state = type(self._first)(*(fetched(array) for array in self._states))
        if form.laned:
            output = form.output(state, self._params_here, self.plan.setting(count))
            weights, gain = output.weights, output.gain
        else:
            params, told = self.plan.algorithm.params, self.plan.setting_of
            said = [
                form.output(
                    type(state)(*(array[..., k] for array in state)), params(**lane.params), told(lane)
                )
                for k, lane in enumerate(self.lanes)
            ]
            weights = np.stack([output.weights for output in said], axis=-1).reshape(-1, count)
            gain = None if said[0].gain is None else np.array([output.gain for output in said]).reshape(count)
        if gain is None:
            gain = self._mean_rewards(fetched(self._totals)[None], np.array([step]))[0]
        return [sent(np.ascontiguousarray(weights))], gain[None]

    def _keep(self, noted: slice, told: list[Any], gains: Floats) -> None:
        """Store the output of lanes at checkpoints, except for lanes that had diverged by then."""
        record, checkpoints, rows = self.record, range(noted.start, noted.stop), type(self.plan.rows)
        for checkpoint, weights, gain in zip(checkpoints, told, gains, strict=True):
            fallen = np.flatnonzero(self._fell_at <= self.plan.checkpoints[checkpoint])
            self._write(record.gain[:, checkpoint], gain, fallen, np.nan)
            if record.keeps_all or checkpoint == checkpoints[-1]:
                own = record.weights[:, checkpoint if record.keeps_all else 0]
                self._fetch(own, weights, fallen, np.nan)
            if record.values is not None:
                here = fetched(weights)
                here[:, fallen] = np.nan
                record.put_values(self.places, checkpoint, here)
            if record.errors:
                kernel: Any = error_kernel(rows, self.plan.problem.num_features)  # type: ignore[arg-type]
                learned = Learned(weights)
                launch(kernel, len(self.lanes), learned, self._rows, self._yardstick, self._errors)
                for number, errors in enumerate(record.errors.values(), ROOM_FOR_VALUES):
                    self._fetch(errors[:, checkpoint], self._errors[number], fallen, np.inf)

    def _fetch(self, target: Floats, there: Any, fallen: Ints, missing: float) -> None:
        """Copy (..., lanes) from the device to its place in an array (all lanes, ...)."""
        if len(self.lanes) == len(target):
            fetch_into(target.T, there)
            target[fallen] = missing
        else:
            self._write(target, fetched(there), fallen, missing)

    def _write(self, target: Floats, found: Floats, fallen: Ints, missing: float) -> None:
        target[self.places] = found.T
        target[self.places[fallen]] = missing

    def _send_paths(self) -> None:
        plan, seeds = self.plan, self._seeds
        chains = ("first chain", "second chain")[: plan.algorithm.chains]
        streams = [stream_states(seeds, chain, plan.sampling) for chain in chains]
        self._streams = sent(np.concatenate(streams, axis=1))
        self._at = sent(plan.sampler.first_states(seeds, chains, plan.start))
        self._totals = sent(np.zeros(self._num_paths))
        self._table = plan.table_there or sent_record(plan.sampler.table)
        self._law = sent_record(plan.sampler.law) if plan.sampling == "iid" else self._table
        self._paths = sent(self._paths_here)
        self._schedule_numbers = sent(self.lanes.schedule_numbers)
        shape = self._longest, self._num_paths
        self._moves = DrawnMoves(*(empty_there(shape, kind) for kind in (np.int32, np.int32, np.float64)))
        most, count = self._most_notes, len(self.lanes)
        self._noted = Noted(
            empty_there((most, plan.problem.num_features if self._notes_itself else 0, count), np.float64),
            empty_there((most, count), np.float64),
            empty_there((most, self._num_paths), np.float64),
        )
        simple = [one.ratio for one in self._schedules if isinstance(one, Constant | Harmonic)]
        self._ratios = sent(np.array(simple)) if len(simple) == len(self._schedules) else None
        if self._ratios is not None:
            self._sizes = empty_there((self._longest, len(simple)), np.float64)

    @property
    def _num_paths(self) -> int:
        return len(self._seeds) * self.plan.algorithm.chains

    @cached_property
    def _longest(self) -> int:
        """How many steps there are in a stretch, at most."""
        of_a_step = 16 * self._num_paths + 8 * len(self._schedules)
        longest = min(LONGEST_STRETCH, self.room.stretch // of_a_step, MOST_LANE_STEPS // len(self.lanes))
        return min(max(LEAST_STRETCH, longest), int(self.plan.checkpoints[-1]))

    @cached_property
    def _most_notes(self) -> int:
        """How many checkpoints there are in a stretch, at most: one, at its end, if the host is needed."""
        if not self._notes_itself:
            return 1
        fitting = self.room.notes // (_bytes_of_a_note(self.plan) * len(self.lanes))
        return max(1, min(fitting, len(self.plan.checkpoints)))

    @cached_property
    def _yardstick(self) -> Any:
        problem = self.plan.problem
        law, combine = problem.solution.stationary, problem.features.adjoint
        laws = np.array([law, np.full(len(law), 1.0 / len(law))])
        aims = np.array([problem.solution.bias, problem.values])
        return sent_record(Yardstick(law, aims, np.array([combine(one) for one in laws]), aims @ laws.T))

    @cached_property
    def _errors(self) -> Any:
        return empty_there((ROOM_FOR_VALUES + ERRORS, len(self.lanes)), np.float64)

    @property
    def _block(self) -> int | None:
        """How many lanes run together in a block; None for the usual number."""
        lanes = len(self.lanes)
        is_many = lanes >= max(MANY_LANES, MANY_TO_A_PATH * len(self._seeds))
        return CACHED_BLOCK if is_many and self.plan.problem.num_features > MOST_CLOSE else None

    @property
    def _shapes(self) -> Shapes:
        laned, any_width = self.plan.form.laned, self.plan.any_width
        parts = tuple(part_of(array, laned, any_width) for array in self._first)
        return Shapes(parts, 0 if any_width else self.plan.problem.num_features, self._notes_itself)


def sent_record(record: Any) -> Any:
    """Return a NamedTuple with its arrays on the device."""
    return type(record)(*(sent(part) if isinstance(part, np.ndarray) else part for part in record))


def _by_lane(array: Any) -> Any:
    """Return an array of the device as (m, lanes)."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _bytes_of(record: Any) -> int:
    return sum(part.nbytes for part in record if isinstance(part, np.ndarray))
