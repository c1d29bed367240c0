"""Lanes on a GPU: each thread takes one lane from its first step to a checkpoint, drawing its own path.

The sample paths are those of `engine/paths.py`, bit for bit: the same PCG64 streams, advanced by `next_uniform`
in whole numbers of 64 bits, and the same alias tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Form, Move
from gainbias.engine.paths import AliasTable, chosen, pick
from gainbias.features.rows import Rows
from gainbias.kernels.gpu import DeviceForms, lane_number
from gainbias.types import Floats

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
MASK_ROTATION, BITS = np.uint64(63), np.uint64(64)
ELEVEN, ROTATION_AT = np.uint64(11), np.uint64(58)
SPACING = 1.0 / 9007199254740992.0


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
    return float(word >> ELEVEN) * SPACING


def stream_words(generator: np.random.Generator) -> list[int]:
    """Return state and increment of a PCG64 as four numbers of 64 bits."""
    inner: Any = generator.bit_generator.state["state"]
    mask = 2**64 - 1
    return [inner["state"] >> 64, inner["state"] & mask, inner["inc"] >> 64, inner["inc"] & mask]


def draw(table: AliasTable, stream: Any, at: Any, lane: int) -> tuple[int, int, float]:
    """Return the next transition of a lane along its chain: state, next state and reward."""
    here = at[lane]
    slot, below = pick(table, here, next_uniform(stream, lane))
    after = chosen(table, here, slot, below)
    reward = table.reward[here] if len(table.paid) == 0 else table.paid[slot, int(below)]
    at[lane] = after
    return here, after, reward


def views_of(kind: type, slice_text: str) -> Callable[..., Any]:
    """Return a function that views one lane of a NamedTuple of arrays whose last axis is that of lanes."""
    names = getattr(kind, "_fields", ())
    parts = ", ".join(f"arrays.{name}[{slice_text}]" for name in names)
    return eval(f"lambda arrays, lane: Kind({parts})", {"Kind": kind})  # noqa: S307


def kernel_for(form: Form, state_class: type, params_class: type, rows: Rows, chains: int) -> Callable[..., Any]:
    """Return the body of a kernel that lets each lane go on for some steps; compile it with `cuda.jit`.

    Its arguments are state and parameters with a last axis for lanes, rows, the table, streams (4, lanes) and
    states of each chain, step sizes a / (b t + c) as a (3, lanes) array, the first step and their number.
    """
    forms = DeviceForms([type(rows), state_class])
    step, transition = forms.of(form.step), forms.of(draw)
    cut = "..., lane : lane + 1" if form.laned else "..., lane"
    param_cut = "lane : lane + 1" if form.laned else "lane"
    state_of = forms.of(views_of(state_class, cut))
    params_of = forms.of(views_of(params_class, param_cut))
    number = forms.of(lane_number)
    two, laned = chains == 2, form.laned

    def advance(
        states: Any, params: Any, rows: Any, table: Any, streams: Any, at: Any, others: Any, other_at: Any,
        ratios: Floats, sizes: Floats, first: int, count: int,
    ) -> None:
        lane = number()
        if lane >= ratios.shape[1]:
            return
        state, own = state_of(states, lane), params_of(params, lane)
        for t in range(first, first + count):
            size = ratios[0, lane] / (ratios[1, lane] * float(t) + ratios[2, lane])
            here, after, reward = transition(table, streams, at, lane)
            if two:
                other, other_after, other_reward = transition(table, others, other_at, lane)
                move = Move(here, after, reward, other, other_after, other_reward)
            else:
                move = Move(here, after, reward, here, after, reward)
            if laned:
                sizes[lane] = size
                step(state, own, rows, move, sizes[lane : lane + 1])
            else:
                step(state, own, rows, move, size)

    return advance
