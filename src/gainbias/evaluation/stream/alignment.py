"""Batches of chains that take turns, cut so that all chains have the same length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from gainbias.evaluation.stream.stream import Transitions
from gainbias.features.matrix import Matrix


class Aligner:
    """Keeps what some chains are ahead of the others.

    Parameters
    ----------
    num_chains : int

    Examples
    --------
    >>> def batch(chain, states):
    ...     steps = np.array(states)
    ...     return Transitions(np.ones(len(steps)), steps, steps, None, np.zeros_like(steps), chain)
    >>> aligner = Aligner(2)
    >>> aligner.add(batch(0, [1, 2, 3]))
    >>> aligner.ready
    0
    >>> aligner.add(batch(1, [4, 5]))
    >>> [part.here.tolist() for part in aligner.take(aligner.ready)], aligner.ready
    ([[1, 2], [4, 5]], 0)
    """

    def __init__(self, num_chains: int) -> None:
        self._waiting: list[list[Transitions]] = [[] for _ in range(num_chains)]

    @property
    def ready(self) -> int:
        """Steps that every chain has."""
        return min(sum(map(len, batches)) for batches in self._waiting)

    def add(self, batch: Transitions) -> None:
        """Add the next batch of a chain."""
        self._waiting[batch.chain].append(batch)

    def keep_longest(self) -> int:
        """Forget the chains without which most steps are ready in all, number the others anew, count them."""
        lengths = np.array([sum(map(len, batches)) for batches in self._waiting])
        order = np.argsort(-lengths, kind="stable")
        count = 1 + int(np.argmax(lengths[order] * np.arange(1, len(order) + 1)))
        kept = sorted(order[:count].tolist())
        self._waiting = [
            [replace(batch, chain=number) for batch in self._waiting[chain]]
            for number, chain in enumerate(kept)
        ]
        return count

    def take(self, count: int) -> list[Transitions]:
        """Return the next steps of every chain, and forget them; at most `ready`."""
        taken = []
        for index, batches in enumerate(self._waiting):
            whole = _in_one(batches)
            taken.append(whole.part(slice(count)))
            rest = whole.part(slice(count, None))
            self._waiting[index] = [rest] if len(rest) else []
        return taken


def _in_one(batches: list[Transitions]) -> Transitions:
    """Return batches that follow each other as one."""
    if len(batches) == 1:
        return batches[0]
    offsets = np.zeros(len(batches), dtype=np.int64)
    rows = batches[0].rows
    if any(batch.rows is not rows for batch in batches):  # each has rows of its own
        parts = [batch.rows for batch in batches]
        offsets[1:] = np.cumsum([0 if part is None else part.shape[0] for part in parts[:-1]])
        rows = _stacked(parts)
    return Transitions(
        np.concatenate([batch.rewards for batch in batches]),
        np.concatenate([batch.here + shift for batch, shift in zip(batches, offsets, strict=True)]),
        np.concatenate([batch.after + shift for batch, shift in zip(batches, offsets, strict=True)]),
        rows,
        np.concatenate([batch.segments for batch in batches]),
        batches[0].chain,
    )


def _stacked(parts: list[Any]) -> Matrix:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sparse.csr_array(sparse.vstack(parts, format="csr"))
