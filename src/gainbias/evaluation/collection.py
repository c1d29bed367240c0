"""Reading a stream: rewards, values and what is needed to judge them, all in one pass."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from gainbias.evaluation.alignment import Aligner
from gainbias.evaluation.batches import BatchMeans
from gainbias.evaluation.interruptions import Interruptions
from gainbias.evaluation.methods import ValueMethod
from gainbias.evaluation.stream import Interrupted, Stream, Transitions
from gainbias.evaluation.visits import Visits
from gainbias.features.matrix import FloatArray

STRETCH = 2**15
"""So many of the last transitions are kept."""


class Collection:
    """What has been read of a stream so far.

    Parameters
    ----------
    stream : Stream
    method : ValueMethod
        Learns the values.
    interruptions : Interruptions
    show : callable, optional
        Called with the number of steps now and then.
    keep_rewards : bool
        Whether all rewards are kept, and not only their sums.

    Attributes
    ----------
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
        method: ValueMethod,
        interruptions: Interruptions,
        show: Callable[[int], None] | None = None,
        keep_rewards: bool = False,
    ) -> None:
        self.stream, self.method = stream, method
        self.rewards = BatchMeans(stream.num_chains)
        observed = stream.observed
        self.visits = None if observed.states is None else Visits(observed.end + 1)
        self.stretch: deque[Transitions] = deque()
        self._aligner = Aligner(stream.num_chains)
        self._interruptions, self._show = interruptions, show
        self._kept: list[FloatArray] | None = [] if keep_rewards else None
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

    def kept_rewards(self, steps: int) -> FloatArray:
        """Return the first rewards of all chains, (chains, steps)."""
        return np.concatenate(self._kept or [np.empty((self.rewards.num_chains, 0))], axis=1)[:, :steps]

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
        if self._kept is not None:
            self._kept.append(rewards)
        for chain in chains:
            self.method.add(chain)
            if self.visits is not None:
                self.visits.add(chain)
        self.stretch.extend(chains)
        while sum(map(len, self.stretch)) - len(self.stretch[0]) >= STRETCH:
            self.stretch.popleft()
