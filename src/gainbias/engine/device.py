"""Lanes on a GPU: `run_on_device` does there what `engine/work.py` does on the processor.

A stretch of steps is two launches: `draw_moves` lets each thread draw one sample path, and then each thread
takes one lane along its path, so that lanes of a seed share it. Stretches end at checkpoints, where only the
weights, the gains and which lanes are finite come back. Step sizes are computed on the processor, once for
each schedule. The step at which a lane diverged is found by bisection: its stretch is repeated from a copy.

The sample paths are those of `engine/paths.py`, bit for bit: the same PCG64 streams, advanced by
`next_uniform` in whole numbers of 64 bits, and the same alias tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from gainbias.algorithms.algorithm import Move, Output, read_state
from gainbias.engine.lanes import Lane
from gainbias.engine.paths import AliasTable, chosen, pick, stream
from gainbias.engine.schedules import side_by_side
from gainbias.engine.work import LONGEST_STRETCH, CheckpointRecord, RunPlan
from gainbias.kernels.gpu import (
    DeviceForms,
    copy_over,
    fetched,
    free_memory,
    lane_number,
    lane_views,
    launch,
    sent,
    what_is_missing,
)
from gainbias.progress import Watch
from gainbias.types import Bools, Floats, Ints

MOST_STRETCH_BYTES = 2**30
"""The most memory of a GPU that the paths and step sizes of a stretch take."""

STRETCH_SHARE = 4
"""Nor do they take more than the free memory divided by this."""

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
MASK_ROTATION, BITS = np.uint64(63), np.uint64(64)
ELEVEN, ROTATION_AT = np.uint64(11), np.uint64(58)
UNIFORM_SPACING = 1.0 / 9007199254740992.0


def high_product(a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two numbers of 64 bits."""
    a0, a1, b0, b1 = a & LOW, a >> HALF, b & LOW, b >> HALF
    low, first, second = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> HALF) + (first & LOW) + (second & LOW)
    return a1 * b1 + (first >> HALF) + (second >> HALF) + (middle >> HALF)


def next_uniform(stream: Any, lane: int) -> float:
    """Return the next number from [0, 1) of a lane; its stream is (state high, low, increment high, low)."""
    high, low = stream[0, lane], stream[1, lane]
    new_low = low * MULTIPLIER_LOW
    new_high = high_product(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    sum_low = new_low + stream[3, lane]
    carry = np.uint64(1) if sum_low < new_low else np.uint64(0)
    new_high = new_high + stream[2, lane] + carry
    stream[0, lane], stream[1, lane] = new_high, sum_low
    mixed, turn = new_high ^ sum_low, new_high >> ROTATION_AT
    word = (mixed >> turn) | (mixed << ((BITS - turn) & MASK_ROTATION))
    return float(word >> ELEVEN) * UNIFORM_SPACING


def stream_words(generator: np.random.Generator) -> list[int]:
    """Return state and increment of a PCG64 as four numbers of 64 bits."""
    inner: Any = generator.bit_generator.state["state"]
    mask = 2**64 - 1
    return [inner["state"] >> 64, inner["state"] & mask, inner["inc"] >> 64, inner["inc"] & mask]


class DrawnMoves(NamedTuple):
    """Transitions of a stretch: (steps, paths) arrays."""

    here: Ints
    after: Ints
    reward: Floats


def draw_moves(
    table: AliasTable,
    law: AliasTable,
    afresh: int,
    streams: Any,
    at: Ints,
    totals: Floats,
    moves: Any,
    count: int,
) -> None:
    """Let the path of this thread go on for some steps; with `afresh` each begins at a state of the law."""
    path = lane_number()
    if path >= len(at):
        return
    here, total = at[path], totals[path]
    for t in range(count):
        if afresh > 0:
            slot, below = pick(law, 0, next_uniform(streams, path))
            here = chosen(law, 0, slot, below)
        slot, below = pick(table, here, next_uniform(streams, path))
        after = chosen(table, here, slot, below)
        reward = table.reward[here] if len(table.paid) == 0 else table.paid[slot, int(below)]
        moves.here[t, path], moves.after[t, path], moves.reward[t, path] = here, after, reward
        total += reward
        here = after
    at[path], totals[path] = here, total


def mark_unfinite(numbers: Floats, good: Ints) -> None:
    """Write 0 for the lane of this thread if some of its numbers, (m, lanes), are not finite."""
    lane = lane_number()
    if lane < len(good):
        for i in range(numbers.shape[0]):
            if not math.isfinite(numbers[i, lane]):
                good[lane] = 0


@cache
def path_kernel() -> Any:
    """Return `draw_moves` as a kernel."""
    return DeviceForms([]).kernel(draw_moves)


@cache
def finite_kernel() -> Any:
    """Return `mark_unfinite` as a kernel."""
    return DeviceForms([]).kernel(mark_unfinite)


@cache
def lane_kernel(step: Callable[..., None], laned: bool, state: type, params: type, rows: type) -> Any:
    """Return a kernel in which each thread takes one lane along its path.

    Its arguments are state and parameters with a last axis for lanes, the rows, moves, how much further the
    paths of a second chain are, the path of each lane, step sizes (steps, schedules), the schedule of each
    lane, and how many steps it makes.
    """
    forms = DeviceForms([rows, state])
    make, number = forms.of(step), forms.of(lane_number)
    state_of, params_of = forms.of(lane_views(state, laned)), forms.of(lane_views(params, laned))

    def advance(
        states: Any,
        params: Any,
        rows: Any,
        moves: Any,
        shift: int,
        paths: Ints,
        sizes: Floats,
        schedules: Ints,
        lengths: Ints,
    ) -> None:
        lane = number()
        if lane >= len(paths):
            return
        state, own = state_of(states, lane), params_of(params, lane)
        path, schedule = paths[lane], schedules[lane]
        other = path + shift
        for t in range(lengths[lane]):
            move = Move(
                moves.here[t, path],
                moves.after[t, path],
                moves.reward[t, path],
                moves.here[t, other],
                moves.after[t, other],
                moves.reward[t, other],
            )
            if laned:
                make(state, own, rows, move, sizes[t, schedule : schedule + 1])
            else:
                make(state, own, rows, move, sizes[t, schedule])

    return forms.kernel(advance)


def run_on_device(plan: RunPlan, record: CheckpointRecord, lanes: list[Lane]) -> list[int]:
    """Run all lanes on the GPU, and return for each how many steps it made; Ctrl-C ends it early."""
    missing = what_is_missing()
    if missing:
        raise ValueError(f"device='gpu' does not work here, because {missing}")
    work, total = DeviceLanes(plan, record, lanes), int(plan.checkpoints[-1])
    with Watch() as watch, np.errstate(all="ignore"):
        try:
            work.note_first()
            for first, last in work.stretches():
                work.advance(first, last)
                watch.show(f"running {plan.algorithm.name}", last, total)
        except KeyboardInterrupt:
            pass
    return [work.steps_done] * len(lanes)


class DeviceLanes:
    """All lanes of a run, on the GPU.

    Attributes
    ----------
    steps_done : int
    """

    def __init__(self, plan: RunPlan, record: CheckpointRecord, lanes: list[Lane]) -> None:
        self.plan, self.record, self.lanes, self.steps_done = plan, record, lanes, 0
        self._seeds = list(dict.fromkeys(lane.seed for lane in lanes))
        self._schedules = list({id(lane.step_size): lane.step_size for lane in lanes}.values())
        self._alive = np.ones(len(lanes), bool)
        self._refuse_too_large()
        self._first = self._first_state()
        self._states, self._saved, self._scratch = (self._sent_state() for _ in range(3))
        self._params = _on_device(self._params_of_all)
        self._rows = _on_device(plan.rows)
        self._send_paths()
        kinds: list[Any] = [type(self._first), plan.algorithm.params, type(plan.rows)]
        self._kernel = lane_kernel(plan.form.step, plan.form.laned, *kinds)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Iterate over stretches of steps, cut at checkpoints and by the room for paths."""
        first, longest = 0, self._longest
        for checkpoint in self.plan.checkpoints.tolist():
            while first < checkpoint:
                last = min(checkpoint, first + longest)
                yield first, last
                first = last

    def note_first(self) -> None:
        """Write down the state before the first step, if that is asked for."""
        if self.plan.checkpoints[0] == 0:
            self._note(0)

    def advance(self, first: int, last: int) -> None:
        """Make the steps of a stretch, look which lanes diverged, and note the checkpoint at its end."""
        count = last - first
        launch(
            path_kernel(), self._num_paths, self._table, self._law, int(self.plan.sampling == "iid"),
            self._streams, self._at, self._totals, self._moves, count,
        )  # fmt: skip
        sizes = sent(side_by_side(self._schedules, first, last))
        for saved, array in zip(self._saved, self._states, strict=True):
            copy_over(saved, array)
        self._go_on(self._states, sizes, np.where(self._alive, count, 0))
        fallen = self._alive & ~self._finite(self._states)
        if fallen.any():
            bad = self._first_bad_steps(fallen, sizes, count)
            for place in np.flatnonzero(fallen):
                self.record.diverged[int(place)] = first + int(bad[place])
            self._alive &= ~fallen
        self.steps_done = last
        noted = self.plan.noted(first, last)
        if noted.start < noted.stop:
            self._note(noted.start)

    def _go_on(self, states: Any, sizes: Any, lengths: Ints) -> None:
        shift = len(self._seeds) if self.plan.algorithm.chains == 2 else 0
        launch(
            self._kernel, len(self.lanes), states, self._params, self._rows, self._moves, shift,
            self._paths, sizes, self._schedule_numbers, sent(lengths.astype(np.int64)),
        )  # fmt: skip

    def _finite(self, states: Any) -> Bools:
        good = sent(np.ones(len(self.lanes), np.int64))
        for array in states:
            height = math.prod(array.shape) // len(self.lanes)
            if array.dtype.kind == "f" and height > 0:
                launch(finite_kernel(), len(self.lanes), array.reshape(height, len(self.lanes)), good)
        return np.asarray(fetched(good) > 0)

    def _first_bad_steps(self, fallen: Bools, sizes: Any, count: int) -> Ints:
        """Return after how many steps of the stretch each of these lanes was no longer finite."""
        good, bad = np.zeros(len(fallen), np.int64), np.where(fallen, count, 0)
        while (bad - good > 1).any():
            middle = (good + bad) // 2
            for scratch, saved in zip(self._scratch, self._saved, strict=True):
                copy_over(scratch, saved)
            self._go_on(self._scratch, sizes, middle)
            finite = self._finite(self._scratch)
            good, bad = np.where(finite, middle, good), np.where(finite, bad, middle)
        return bad

    def _note(self, checkpoint: int) -> None:
        step, told = self.plan.checkpoints[checkpoint], self._told()
        weights, gain = told.weights, told.gain
        if gain is None:
            gain = fetched(self._totals)[fetched(self._paths)] / max(step, 1)
        if not self._alive.all():
            weights, gain = np.where(self._alive, weights, np.nan), np.where(self._alive, gain, np.nan)
        everywhere = list(range(len(self.lanes)))
        self.record.put(everywhere, slice(checkpoint, checkpoint + 1), Output(weights[None], gain[None]))

    def _told(self) -> Output:
        """Return what the algorithm says of all lanes: weights (d, lanes), and gain (lanes,) or None."""
        form, count = self.plan.form, len(self.lanes)
        asked = [
            name
            for name in self._first._fields
            if form.output is not read_state or name in ("weights", "gain")
        ]
        state = self._first._replace(**{name: fetched(getattr(self._states, name)) for name in asked})
        if form.laned:
            return form.output(state, self._params_of_all, self.plan.setting(count))
        said = [
            form.output(
                type(state)(*(array[..., k] for array in state)),
                self.plan.algorithm.params(**self.lanes[k].params),
                self.plan.setting(1),
            )
            for k in range(count)
        ]
        gains = [output.gain for output in said if output.gain is not None]
        weights = np.stack([output.weights for output in said], axis=-1)
        return Output(weights.reshape(-1, count), np.array(gains).reshape(count) if gains else None)

    @cached_property
    def _params_of_all(self) -> Any:
        algorithm = self.plan.algorithm
        names = algorithm.params._fields
        return algorithm.params(
            **{name: np.array([lane.params[name] for lane in self.lanes]) for name in names}
        )

    def _state_of(self, lane: Lane) -> Any:
        algorithm, laned = self.plan.algorithm, self.plan.form.laned
        params = {name: np.array([number]) if laned else number for name, number in lane.params.items()}
        return self.plan.form.init(self.plan.setting(1), algorithm.params(**params))

    def _first_state(self) -> Any:
        if self.plan.form.laned:
            return self.plan.form.init(self.plan.setting(len(self.lanes)), self._params_of_all)
        states = [self._state_of(lane) for lane in self.lanes]
        return type(states[0])(*(np.stack(arrays, axis=-1) for arrays in zip(*states, strict=True)))

    def _sent_state(self) -> Any:
        return _on_device(self._first)

    def _send_paths(self) -> None:
        plan, seeds = self.plan, self._seeds
        chains = ("first chain", "second chain")[: plan.algorithm.chains]
        streams = [stream(seed, chain, plan.sampling) for chain in chains for seed in seeds]
        self._streams = sent(np.array([stream_words(one) for one in streams], np.uint64).T.copy())
        self._at, self._totals = sent(plan.paths(seeds).save().state), sent(np.zeros(len(streams)))
        self._table = _on_device(plan.sampler.table)
        self._law = _on_device(plan.sampler.law) if plan.sampling == "iid" else self._table
        places = {seed: number for number, seed in enumerate(seeds)}
        numbers = {id(schedule): number for number, schedule in enumerate(self._schedules)}
        self._paths = sent(np.array([places[lane.seed] for lane in self.lanes]))
        self._schedule_numbers = sent(np.array([numbers[id(lane.step_size)] for lane in self.lanes]))
        shape = min(self._longest, int(plan.checkpoints[-1])), len(streams)
        empty = DrawnMoves(np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(shape))
        self._moves = _on_device(empty)

    @property
    def _num_paths(self) -> int:
        return len(self._seeds) * self.plan.algorithm.chains

    @cached_property
    def _longest(self) -> int:
        """How many steps there are in a stretch, at most."""
        room = min(MOST_STRETCH_BYTES, self._free // STRETCH_SHARE)
        return max(1, min(LONGEST_STRETCH, room // self._bytes_of_a_step))

    @property
    def _bytes_of_a_step(self) -> int:
        return 16 * self._num_paths + 8 * len(self._schedules)

    def _refuse_too_large(self) -> None:
        self._free = free_memory()
        state, count = self._state_of(self.lanes[0]), len(self.lanes)
        tables = [self.plan.sampler.table, *([self.plan.sampler.law] if self.plan.sampling == "iid" else [])]
        fixed = sum(_bytes_of(part) for part in [self.plan.rows, *tables])
        each = 3 * _bytes_of(state) + 8 * (len(self.lanes[0].params) + 5)
        needed = fixed + count * each + 48 * self._num_paths + self._longest * self._bytes_of_a_step
        if needed > self._free:
            raise ValueError(
                f"{count} lanes of {self.plan.algorithm.name} on this problem need {needed / 2**30:.3g} GB "
                f"of the GPU's memory, and {self._free / 2**30:.3g} GB are free: run fewer seeds, "
                "step sizes or parameters at once, or use device='cpu'"
            )


def _on_device(record: Any) -> Any:
    """Return a NamedTuple with its arrays on the device."""
    return type(record)(*(sent(part) if isinstance(part, np.ndarray) else part for part in record))


def _bytes_of(record: Any) -> int:
    return sum(part.nbytes for part in record if isinstance(part, np.ndarray))
