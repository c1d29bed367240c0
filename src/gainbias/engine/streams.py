"""Streams of random numbers: which one belongs to a seed and some names, one at a time or many at once.

`stream` is a generator of NumPy. `stream_states` gives what many of them start from at once, because making
a generator takes a fifth of a millisecond. `next_uniform` draws from such a state inside kernels, so that no
thread returns to Python for random numbers. All of them give the same bits: those of NumPy's `SeedSequence`
(O'Neill's seed_seq, with a pool of four words) and of PCG64, whose 128 bits are two numbers of 64 here.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gainbias.kernels import high_product, inlined
from gainbias.types import Floats

Words = NDArray[np.uint64]
"""States of streams, (4, streams): high and low half of the state, and of the increment."""

LOW, HALF, BITS = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(64)
MULTIPLIER_HIGH, MULTIPLIER_LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
MASK_ROTATION, ROTATION_AT, ELEVEN = np.uint64(63), np.uint64(58), np.uint64(11)
UNIFORM_SPACING = 1.0 / 9007199254740992.0
MULTIPLIER, WHOLE = int(MULTIPLIER_HIGH) << 64 | int(MULTIPLIER_LOW), 2**128

FEW_SEEDS = 5
"""For fewer seeds NumPy's own `SeedSequence` is faster."""

POOL = 4
"""Words of 32 bits that a seed is mixed into."""

MASK = 2**32 - 1


def stream(seed: int, *names: str) -> np.random.Generator:
    """Return the random generator that belongs to a seed and some names.

    Parameters
    ----------
    seed : int
        Not negative.
    *names : str
        A path of names, such as ``"first chain"``.

    Returns
    -------
    numpy.random.Generator

    Examples
    --------
    >>> stream(7, "first chain").random() == stream(7, "first chain").random()
    True
    >>> stream(7, "first chain").random() == stream(7, "second chain").random()
    False
    """
    if not isinstance(seed, Real) or seed < 0 or seed != int(seed):
        raise ValueError(f"a seed must be an integer that is not negative, found {seed!r}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int(seed), spawn_key=_key(names))))


def stream_states(seeds: Sequence[int], *names: str | Sequence[str]) -> Words:
    """Return the states from which the streams of some seeds start, (4, seeds).

    Where a place has several names there are several streams for each seed, (4, names * seeds): those of the
    first name for all seeds, then those of the second.

    Examples
    --------
    >>> states = stream_states([7, 8], "first chain")
    >>> float(first_uniforms(states)[1]) == stream(8, "first chain").random()
    True
    """
    each_name = itertools.product(*([name] if isinstance(name, str) else name for name in names))
    keys = list(map(_key, each_name))
    with np.errstate(over="ignore"):
        if len(seeds) < FEW_SEEDS or max(seeds) >= 2 ** (32 * POOL):
            each = [np.random.SeedSequence(int(seed), spawn_key=key) for key in keys for seed in seeds]
            words = np.array([one.generate_state(POOL, np.uint64) for one in each]).T
        else:
            own = [np.tile(word, len(keys)) for word in _words(seeds)]
            words = np.array(_expanded(own, np.repeat(np.array(keys, np.uint32), len(seeds), axis=0).T))
        state_high, state_low, high, low = words
        increment = (high << np.uint64(1)) | (low >> np.uint64(63)), (low << np.uint64(1)) | np.uint64(1)
        high, low = _sum(state_high, state_low, *increment)
        state = _advanced(high, low, *increment)
    return np.array([*state, *increment])


def skipped(states: Words, count: int) -> Words:
    """Return streams that have drawn `count` more numbers, (4, streams).

    A state is multiplied and added to `count` times. Both are done at once, from powers that double
    (Brown 1994).

    Examples
    --------
    >>> states = stream_states([7], "start")
    >>> first_uniforms(skipped(states, 2)).tolist() == stream(7, "start").random(3)[2:].tolist()
    True
    """
    if count == 0:
        return states.copy()
    multiplier, added, factor, plus = 1, 0, MULTIPLIER, 1
    while count:
        if count % 2:
            multiplier, added = multiplier * factor % WHOLE, (added * factor + plus) % WHOLE
        factor, plus, count = factor * factor % WHOLE, (factor + 1) * plus % WHOLE, count // 2
    high, low, increment_high, increment_low = states.astype(object)
    moved = (multiplier * (high << 64 | low) + added * (increment_high << 64 | increment_low)) % WHOLE
    return np.array([moved >> 64, moved % 2**64, increment_high, increment_low]).astype(np.uint64)


def first_uniforms(states: Words) -> Floats:
    """Return the first number of each stream; the states advance.

    Examples
    --------
    >>> bool(first_uniforms(stream_states([7], "start"))[0] == stream(7, "start").random())
    True
    """
    with np.errstate(over="ignore"):
        states[:2] = _advanced(*states)
        return np.asarray(_word(states[0], states[1]) >> ELEVEN) * UNIFORM_SPACING


@inlined
def next_uniform(states: Any, lane: int) -> float:
    """Return the next number from [0, 1) of one stream, whose state advances, in kernels and on a GPU."""
    high, low = _advanced(states[0, lane], states[1, lane], states[2, lane], states[3, lane])
    states[0, lane], states[1, lane] = high, low
    return float(_word(high, low) >> ELEVEN) * UNIFORM_SPACING


@inlined
def _advanced(high: Any, low: Any, increment_high: Any, increment_low: Any) -> Any:
    """Return a state times the multiplier of PCG64, plus the increment."""
    new_high = high_product(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    return _sum(new_high, low * MULTIPLIER_LOW, increment_high, increment_low)


@inlined
def _sum(high: Any, low: Any, other_high: Any, other_low: Any) -> Any:
    """Return the sum of two numbers of 128 bits."""
    total = low + other_low
    return high + other_high + np.uint64(total < low), total


@inlined
def _word(high: Any, low: Any) -> Any:
    """Return the 64 bits that a state stands for: both halves mixed, and turned by the topmost bits."""
    mixed, turn = high ^ low, high >> ROTATION_AT
    return (mixed >> turn) | (mixed << ((BITS - turn) & MASK_ROTATION))


def _key(names: Sequence[str]) -> tuple[int, ...]:
    return tuple(zlib.crc32(name.encode()) for name in names)


def _words(seeds: Sequence[int]) -> list[NDArray[np.uint32]]:
    """Return the words of 32 bits of some seeds, the lowest first."""
    rest = np.array(seeds, np.uint64 if max(seeds) < 2**64 else object)
    words = []
    for _ in range(POOL):
        words.append((rest & MASK).astype(np.uint32))
        rest = rest >> 32
    return words


def _expanded(words: list[NDArray[np.uint32]], key: NDArray[np.uint32]) -> list[Words]:
    """Return four numbers of 64 bits for each seed and its key, (names, seeds), as NumPy's `SeedSequence`."""
    hashed = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [hashed(word) for word in words]
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                pool[target] = _mixed(pool[target], hashed(pool[source]))
    for name in key:
        for target in range(POOL):
            pool[target] = _mixed(pool[target], hashed(name))
    hashed = _Hash(0x8B51F9DD, 0x58F38DED)
    halves = [hashed(pool[place % POOL]).astype(np.uint64) for place in range(2 * POOL)]
    return [halves[k] | (halves[k + 1] << HALF) for k in range(0, 2 * POOL, 2)]


class _Hash:
    """The hash of a `SeedSequence`, whose constant changes from call to call."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant, self._multiplier = constant, multiplier

    def __call__(self, word: NDArray[np.uint32]) -> NDArray[np.uint32]:
        before, self._constant = self._constant, self._constant * self._multiplier & MASK
        mixed: NDArray[np.uint32] = (word ^ np.uint32(before)) * np.uint32(self._constant)
        return np.asarray(mixed ^ (mixed >> np.uint32(16)))


def _mixed(one: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
    both = np.uint32(0xCA01F9DD) * one - np.uint32(0x4973F715) * other
    return np.asarray(both ^ (both >> np.uint32(16)))
