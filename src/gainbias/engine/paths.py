"""Sample paths of a process: one for each seed, the same for every algorithm, and cut into pieces at will."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sparse

from gainbias.engine.sampling import AliasTable, Steps, alias_table, walk
from gainbias.engine.seeds import stream
from gainbias.model.elimination.types import Ints
from gainbias.model.process import MarkovRewardProcess
from gainbias.model.solve import solve

Sampling = Literal["markov", "iid"]
Start = int | Literal["uniform", "stationary"]


class Sampler:
    """The alias tables of a process, made once and shared by all its paths.

    Parameters
    ----------
    mrp : MarkovRewardProcess
        The process. With rewards r(s, s') a transition pays what it is, otherwise R(s).

    Examples
    --------
    >>> import gainbias as gb
    >>> sampler = Sampler(gb.MarkovRewardProcess([[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0]))
    >>> paths = sampler.paths([7], start=0)
    >>> paths.take(4).here.tolist(), paths.take(3).here.tolist()
    ([[0, 1, 0, 1]], [[0, 1, 0]])
    """

    def __init__(self, mrp: MarkovRewardProcess) -> None:
        self.mrp = mrp
        self.table = alias_table(mrp.csr, mrp.rewards, mrp.reward_entries)

    @cached_property
    def law(self) -> AliasTable:
        """Table of the stationary law, with one row."""
        stationary = solve(self.mrp).stationary
        return alias_table(sparse.csr_array(stationary[None, :]), np.zeros(1))

    def paths(
        self,
        seeds: Sequence[int],
        *,
        sampling: Sampling = "markov",
        start: Start = "uniform",
        chain: str = "first chain",
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
        chain : str
            Chains with different names are independent.
        """
        if sampling not in ("markov", "iid"):
            raise ValueError(f"unknown sampling {sampling!r}: use 'markov' or 'iid'")
        return Paths(self, seeds, sampling, self._first_states(seeds, start, chain), chain)

    def _first_states(self, seeds: Sequence[int], start: Start, chain: str) -> Ints:
        n = self.mrp.num_states
        if isinstance(start, int | np.integer) and not isinstance(start, bool):
            if not 0 <= start < n:
                raise ValueError(f"start must be a state from 0 to {n - 1}, found {start}")
            return np.full(len(seeds), start, np.int64)
        uniforms = np.array([stream(seed, chain, "start").random() for seed in seeds])
        if start == "uniform":
            return np.asarray(uniforms * n, dtype=np.int64)
        if start == "stationary":
            place = uniforms * self.law.start[1]
            slot = place.astype(np.int64)
            below = place - slot < self.law.threshold[slot]
            return np.asarray(np.where(below, self.law.own[slot], self.law.other[slot]), dtype=np.int64)
        raise ValueError(f"start must be a state, 'uniform' or 'stationary', found {start!r}")


class SavedPaths(NamedTuple):
    """Where paths were: states of the chains and of their streams of random numbers."""

    state: Ints
    streams: list[Any]


class Paths:
    """Paths that go on where they stopped; made by `Sampler.paths`."""

    def __init__(
        self, sampler: Sampler, seeds: Sequence[int], sampling: Sampling, first: Ints, chain: str
    ) -> None:
        self._sampler = sampler
        self._sampling = sampling
        self._state = first
        self._streams = [stream(seed, chain, sampling) for seed in seeds]

    def take(self, count: int) -> Steps:
        """Return the next `count` transitions of every path, as (paths, count) arrays."""
        shape = (len(self._streams), count)
        steps = Steps(np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(shape))
        numbers = 1 if self._sampling == "markov" else 2
        uniforms = np.stack([generator.random((count, numbers)) for generator in self._streams])
        law = self._sampler.table if self._sampling == "markov" else self._sampler.law
        walk(self._sampler.table, law, uniforms, self._state, steps)
        return steps

    def save(self) -> SavedPaths:
        """Return what is needed to draw the same transitions once more, from here."""
        return SavedPaths(self._state.copy(), [stream.bit_generator.state for stream in self._streams])

    def replayed(self, saved: SavedPaths) -> Paths:
        """Return paths that go on from where these were when they were saved."""
        paths = copy.copy(self)
        paths._state = saved.state.copy()
        paths._streams = []
        for state in saved.streams:
            generator = np.random.PCG64()
            generator.state = state
            paths._streams.append(np.random.Generator(generator))
        return paths
