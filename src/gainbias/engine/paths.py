"""Sample paths of a process: one for each seed, the same for every algorithm, and cut into pieces at will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sparse

from gainbias.engine.sampling import AliasTable, Steps, alias_table, chosen, pick, walk
from gainbias.engine.seeds import stream
from gainbias.model.checks import FloatArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve.elimination.types import Ints
from gainbias.model.solve.solve import solve

Sampling = Literal["markov", "iid"]
Start = int | Literal["uniform", "stationary"]
PathName: TypeAlias = tuple[int, str]
"""A seed and the name of a chain."""

BLOCK = 4096
"""So many steps are drawn at once, unless more are asked for."""

APART = 16
"""Rows of arrays are so many numbers longer than they need: rows whose length is a power of two would compete
for the same places of the processor's cache, which doubles the time of eight paths."""

_TABLES: WeakKeyDictionary[MarkovRewardProcess, AliasTable] = WeakKeyDictionary()
"""Tables of the processes that still exist: a short run would take less time than its table."""


class Sampler:
    """The alias tables of a process, made once and shared by all its paths.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process. With rewards r(s, s') a transition pays what it is, otherwise R(s).
    stationary : function without arguments, optional
        Returns the stationary law, (n,), where that is known already.

    Examples
    --------
    >>> import gainbias as gb
    >>> sampler = Sampler(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0]))
    >>> paths = sampler.paths([7], start=0)
    >>> paths.take(4).here.tolist(), paths.take(3).here.tolist()
    ([[0, 1, 0, 1]], [[0, 1, 0]])
    """

    def __init__(self, mrp: MarkovRewardProcess, stationary: Callable[[], FloatArray] | None = None) -> None:
        self.mrp = mrp
        self._stationary = stationary or (lambda: solve(mrp).stationary)
        if mrp not in _TABLES:
            _TABLES[mrp] = alias_table(mrp.csr, mrp.rewards, mrp.reward_entries)
        self.table = _TABLES[mrp]

    @cached_property
    def law(self) -> AliasTable:
        """Table of the stationary law, with one row."""
        return alias_table(sparse.csr_array(self._stationary()[None, :]), np.zeros(1))

    def paths(
        self,
        seeds: Sequence[int],
        *,
        sampling: Sampling = "markov",
        start: Start = "uniform",
        chain: str | Sequence[str] = "first chain",
    ) -> Paths:
        """Return paths, one for each seed.

        Parameters
        ----------
        seeds : sequence of int
            Each names a path.
        sampling : {"markov", "iid"}
            Follow the chain, or draw the state of every transition afresh from the stationary law.
        start : int, "uniform" or "stationary"
            Where a path begins; it does not matter for "iid".
        chain : str or sequence of str
            Chains with different names are independent. With several names there are several paths for each
            seed: those of the first name for all seeds, then those of the second. Drawing them together
            takes less time.
        """
        if sampling not in ("markov", "iid"):
            raise ValueError(f"unknown sampling {sampling!r}: use 'markov' or 'iid'")
        chains = [chain] if isinstance(chain, str) else chain
        names = [(seed, name) for name in chains for seed in seeds]
        first = SavedPaths(self._first_states(names, start), np.zeros(len(names)), 0)
        return Paths(self, names, sampling, first)

    def _first_states(self, names: Sequence[PathName], start: Start) -> Ints:
        n = self.mrp.num_states
        if isinstance(start, int | np.integer) and not isinstance(start, bool):
            if not 0 <= start < n:
                raise ValueError(f"start must be a state from 0 to {n - 1}, found {start}")
            return np.full(len(names), start, np.int64)
        uniforms = np.array([stream(*name, "start").random() for name in names])
        if start == "uniform":
            return np.asarray(uniforms * n, dtype=np.int64)
        if start == "stationary":
            picked = [pick(self.law, 0, uniform) for uniform in uniforms]
            return np.array([chosen(self.law, 0, *slot) for slot in picked], dtype=np.int64)
        raise ValueError(f"start must be a state, 'uniform' or 'stationary', found {start!r}")


class SavedPaths(NamedTuple):
    """Where paths were: their states, the sums of their rewards, and how many steps they had made."""

    state: Ints
    total: FloatArray
    steps: int


class Paths:
    """Paths that go on where they stopped; made by `Sampler.paths`.

    They are drawn in blocks, each about as long as all before it together up to a limit: many short pieces
    then cost little more than a long one, and few steps are drawn in vain.

    Attributes
    ----------
    total : (paths,) array
        Sum of the rewards of each path so far.
    """

    def __init__(
        self, sampler: Sampler, names: Sequence[PathName], sampling: Sampling, saved: SavedPaths
    ) -> None:
        self._sampler, self._names, self._sampling = sampler, names, sampling
        self._law = sampler.table if sampling == "markov" else sampler.law
        self._numbers = 1 if sampling == "markov" else 2
        self._state, self.total, self._steps = saved
        self._end_state, self._end_total = saved.state.copy(), saved.total.copy()
        self._streams = [stream(*name, sampling) for name in names]
        for generator in self._streams:
            bits: Any = generator.bit_generator
            bits.advance(self._numbers * self._steps)
        self._block, self._at = self._draw(0), 0

    def take(self, count: int) -> Steps:
        """Return the next `count` transitions of every path, as (paths, count) arrays."""
        parts = []
        while count > 0:
            if self._at == self._block.here.shape[1]:
                ahead = min(self._steps, BLOCK - self._steps % BLOCK)
                self._block, self._at = self._draw(max(count, ahead)), 0
            part = Steps(*(array[:, self._at : self._at + count] for array in self._block))
            taken = part.here.shape[1]
            self._at, self._steps, count = self._at + taken, self._steps + taken, count - taken
            parts.append(part)
        steps = parts[0] if len(parts) == 1 else Steps(*map(np.hstack, zip(*parts, strict=True)))
        self._state, self.total = steps.next[:, -1], steps.total[:, -1]
        return steps

    def save(self) -> SavedPaths:
        """Return what is needed to draw the same transitions once more, from here."""
        return SavedPaths(self._state.astype(np.int64), self.total.copy(), self._steps)

    def replayed(self, saved: SavedPaths) -> Paths:
        """Return paths that go on from where these were when they were saved."""
        return Paths(self._sampler, self._names, self._sampling, saved)

    def _draw(self, count: int) -> Steps:
        shape = (2, len(self._names), count + APART)
        steps = Steps(*np.empty(shape, np.int32), *np.empty(shape))
        uniforms = np.empty((*shape[1:], self._numbers))
        for own, generator in zip(uniforms, self._streams, strict=True):
            generator.random(out=own[:count])
        # Whole arrays: numba would take slices of one row for another type, and compile a second time.
        walk(self._sampler.table, self._law, count, uniforms, self._end_state, self._end_total, steps)
        return Steps(*(array[:, :count] for array in steps))
