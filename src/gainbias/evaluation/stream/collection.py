"""Reading a stream: rewards, values and what is needed to judge them, all in one pass."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from gainbias.evaluation.gain.batches import BatchMeans
from gainbias.evaluation.stream.alignment import Aligner
from gainbias.evaluation.stream.stream import Interrupted, Stream, Transitions
from gainbias.evaluation.stream.visits import Visits
from gainbias.evaluation.values.methods import ValueMethod
from gainbias.features.matrix import FloatArray
from gainbias.interruptions import Interruptions

STRETCH = 2**15
"""So many of the last transitions are kept."""


class Collection:
    """What has been read of a stream so far.

    Parameters
    ----------
    stream : Stream
    make_method : callable
        From a number of chains to what learns their values.
    interruptions : Interruptions
    show : callable, optional
        Called with the number of steps now and then.
    hear : callable, optional
        Called with all rewards, (chains, count) at a time.

    Attributes
    ----------
    method : ValueMethod
        Learns the values.
    rewards : BatchMeans
        Of all chains, cut to the same length.
    visits : Visits or None
        Moves between states, if observations are discrete.
    stretch : deque of Transitions
        The last transitions of all chains.
    """

    def __init__(
        self,
        stream: Stream,
        make_method: Callable[[int], ValueMethod],
        interruptions: Interruptions,
        show: Callable[[int], None] | None = None,
        hear: Callable[[FloatArray], None] | None = None,
    ) -> None:
        self.stream, self._make_method = stream, make_method
        self.method = make_method(stream.num_chains)
        self.rewards = BatchMeans(stream.num_chains)
        observed = stream.observed
        self.visits = None if observed.states is None else Visits(observed.end + 1)
        self.stretch: deque[Transitions] = deque()
        self._aligner = Aligner(stream.num_chains)
        self._interruptions, self._show, self._hear = interruptions, show, hear
        self._started = time.perf_counter()

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds spent on waiting for the source, and on everything else."""
        waited = self.stream.source.seconds
        return waited, max(0.0, time.perf_counter() - self._started - waited)

    def reach(self, steps: int | None) -> BatchMeans:
        """Read on until each chain has made so many steps, or to the end, and return the rewards."""
        while True:
            room = self._aligner.ready if steps is None else steps - self.rewards.steps
            count = min(self._aligner.ready, room)
            if count:
                self._take(count)
                if self._show is not None:
                    self._show(self.rewards.steps)
            if steps is not None and self.rewards.steps >= steps:
                return self.rewards
            batch = self._next()
            if batch is None:
                return self.rewards
            self._aligner.add(batch)

    def settle(self) -> None:
        """When nothing more will come, and some chains have not begun, make do with the others."""
        if self.rewards.steps:
            return
        count = self._aligner.keep_longest()
        if count < self.stream.num_chains and self._aligner.ready:
            self.stream.notes.append(f"only {count} of {self.stream.num_chains} chains had begun")
            self.method, self.rewards = self._make_method(count), BatchMeans(count)
            self._take(self._aligner.ready)

    def _next(self) -> Transitions | None:
        try:
            with self._interruptions.waiting():
                return next(self.stream.batches, None)
        except KeyboardInterrupt:
            raise Interrupted from None

    def _take(self, count: int) -> None:
        chains = self._aligner.take(count)
        rewards = np.stack([chain.rewards for chain in chains])
        self.rewards.add(rewards)
        if self._hear is not None:
            self._hear(rewards)
        for chain in chains:
            self.method.add(chain)
            if self.visits is not None:
                self.visits.add(chain)
        self.stretch.extend(chains)
        while sum(map(len, self.stretch)) - len(self.stretch[0]) >= STRETCH:
            self.stretch.popleft()
