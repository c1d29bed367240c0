"""`Collection`: everything that one pass over a stream gathers for an estimate.

Rewards go into batches, transitions to the method that learns values. `Visits` counts moves between discrete
states, to see whether the chain falls apart.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gainbias.evaluation.gain.batches import BatchMeans, RatioMeans
from gainbias.evaluation.stream import Aligner, Interrupted, Stream, Transitions
from gainbias.evaluation.values.methods import ValueMethod
from gainbias.kernels import threads_at_work, working_beside
from gainbias.model.structure import find_structure
from gainbias.progress import Interruptions
from gainbias.types import Floats

MOST_MOVES = 2**22
"""How many different moves are counted at most, in 32 MB; with more, the structure is not judged."""

FEW_COUNTED_STATES = 1024
"""Up to how many states all moves are counted in a table, of 8 MB, which is faster."""

STEPS_TO_CALL_CLOSED = 100
"""Steps after which a set of states that was not left counts as closed."""

ROWS_OF_A_THREAD = 2**17
"""Steps that are taken in together for each thread, if there are several."""

KEPT_TRANSITIONS = 2**15
"""Number of the last transitions that are kept."""


class Collection:
    """Everything gathered from a stream so far.

    Parameters
    ----------
    stream : Stream
    make_method : callable
        Makes, for a number of chains, the method that learns their values.
    interruptions : Interruptions
    show : callable, optional
        Called with the number of steps now and then.
    hear : callable, optional
        Called with all rewards, (chains, count) at a time, and with durations of the same shape or None.

    Attributes
    ----------
    method : ValueMethod
        Learns the values.
    rewards : BatchMeans or RatioMeans
        Of all chains, cut to the same length; with durations, if the stream has them.
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
        hear: Callable[[Floats, Floats | None], None] | None = None,
    ) -> None:
        self.stream = stream
        self.method = make_method(stream.num_chains)
        self.rewards = self._no_rewards(stream.num_chains)
        observed = stream.observed
        self.visits = None if observed.states is None else Visits(observed.end + 1)
        self.stretch: deque[Transitions] = deque()
        self._aligner = Aligner(stream.num_chains)
        self._taken: list[list[Transitions]] = []
        self._interruptions, self._show, self._hear = interruptions, show, hear
        self._started = time.perf_counter()

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds spent on waiting for the source, and on everything else."""
        waited = self.stream.source.seconds
        return waited, max(0.0, time.perf_counter() - self._started - waited)

    def reach(self, steps: int | None) -> BatchMeans | RatioMeans:
        """Read until each chain has taken `steps` steps, or to the end (None); return the rewards."""
        together, rows = self._rows_together if steps is None else 1, 0
        try:
            while True:
                room = self._aligner.ready if steps is None else steps - self.rewards.steps
                count = min(self._aligner.ready, room)
                if count:
                    self._taken.append(self._aligner.take(count))
                    rows += count
                    if rows >= together:
                        self._absorb()
                        rows = 0
                if steps is not None and self.rewards.steps >= steps:
                    return self.rewards
                batch = self._next()
                if batch is None:
                    return self.rewards
                self._aligner.add(batch)
        finally:
            self._absorb()

    @property
    def _rows_together(self) -> int:
        """How many rows are taken in at once: enough for all threads, unless rows of features are kept."""
        few = self.stream.observed.rows is not None or threads_at_work() == 1
        return 1 if few else ROWS_OF_A_THREAD * threads_at_work()

    def _no_rewards(self, num_chains: int) -> BatchMeans | RatioMeans:
        return RatioMeans(num_chains) if self.stream.is_timed else BatchMeans(num_chains)

    def _next(self) -> Transitions | None:
        try:
            with self._interruptions.waiting():
                return next(self.stream.batches, None)
        except KeyboardInterrupt:
            raise Interrupted from None

    def _absorb(self) -> None:
        """Take in all that was taken from the stream."""
        taken, self._taken = self._taken, []
        if not taken:
            return
        if isinstance(self.rewards, BatchMeans):
            learned = taken
        else:
            learned = [[known for chain in chains if len(known := chain.known())] for chains in taken]
        with working_beside(partial(self._note, taken, learned)):
            for chain in itertools.chain.from_iterable(learned):
                self.method.add(chain)
        for chains in learned:
            self._keep(chains)
        if self._show is not None:
            self._show(self.rewards.steps)

    def _note(self, taken: list[list[Transitions]], learned: list[list[Transitions]]) -> None:
        """Add rewards, and count moves between states."""
        for chains in taken:
            self._add_rewards(chains)
        if self.visits is not None:
            for chain in itertools.chain.from_iterable(learned):
                self.visits.add(chain)

    def _add_rewards(self, chains: list[Transitions]) -> None:
        rewards, durations = np.stack([chain.rewards for chain in chains]), None
        if isinstance(self.rewards, BatchMeans):
            self.rewards.add(rewards)
        else:
            durations = np.stack([chain.durations for chain in chains if chain.durations is not None])
            self.rewards.add(rewards, durations)
        if self._hear is not None:
            self._hear(rewards, durations)

    def _keep(self, chains: list[Transitions]) -> None:
        """Keep the last transitions, equally many however the stream was cut."""
        self.stretch.extend(chains)
        while (excess := sum(map(len, self.stretch)) - KEPT_TRANSITIONS) > 0:
            oldest = self.stretch.popleft()
            if excess < len(oldest):
                self.stretch.appendleft(oldest.part(slice(excess, None)))


class Visits:
    """Counts of the moves between discrete states.

    Parameters
    ----------
    num_states : int

    Examples
    --------
    >>> visits = Visits(3)
    >>> here = np.array([0, 1] * 200)
    >>> visits.add(Transitions(np.ones(400), here, here[::-1], None, np.zeros(400, dtype=np.int64)))
    >>> visits.add(Transitions(np.ones(200), here[:200] * 0 + 2, here[:200] * 0 + 2, None, here[:200] * 0))
    >>> visits.warnings()[0]
    'the chain falls apart in the data: 2 recurrent classes: {0, 1}, {2}, ...'
    """

    def __init__(self, num_states: int) -> None:
        self._size = num_states
        every = np.arange(num_states**2 if num_states <= FEW_COUNTED_STATES else 0)
        self._moves: NDArray[np.int64] = every
        self._counts: NDArray[np.int64] = np.zeros(len(every), dtype=np.int64)

    def add(self, batch: Transitions) -> None:
        """Add transitions between states."""
        if len(self._moves) > MOST_MOVES:
            return
        given = batch.here * self._size + batch.after
        if self._size <= FEW_COUNTED_STATES:
            np.add.at(self._counts, given, 1)
            return
        moves, counts = np.unique(given, return_counts=True)
        known = np.isin(moves, self._moves)
        self._counts[np.searchsorted(self._moves, moves[known])] += counts[known]
        if not known.all():
            order = np.argsort(np.concatenate([self._moves, moves[~known]]), kind="stable")
            self._moves = np.concatenate([self._moves, moves[~known]])[order]
            self._counts = np.concatenate([self._counts, counts[~known]])[order]

    def warnings(self) -> list[str]:
        """Return a warning if sets of states were seen that do not lead to each other."""
        if len(self._moves) > MOST_MOVES:
            return []
        seen_moves, counts = self._moves[self._counts > 0], self._counts[self._counts > 0]
        here, after = np.divmod(seen_moves, self._size)
        seen = np.union1d(here, after)
        ends = np.searchsorted(seen, here), np.searchsorted(seen, after)
        graph = sparse.csr_array((np.ones(len(here)), ends), (len(seen), len(seen)))
        visits = np.bincount(ends[0], weights=counts, minlength=len(seen))
        classes = find_structure(graph).recurrent
        closed = [seen[states] for states in classes if visits[states].sum() >= STEPS_TO_CALL_CLOSED]
        if len(closed) < 2:
            return []
        shown = ", ".join(_in_words(states) for states in closed[:3])
        return [
            f"the chain falls apart in the data: {len(closed)} recurrent classes: {shown}, and no step leads "
            "from one to another, so the gain depends on the start, and values of different classes cannot "
            "be compared: evaluate each start by itself"
        ]


def _in_words(states: NDArray[np.int64]) -> str:
    few = ", ".join(map(str, states[:4].tolist()))
    return f"{{{few}{', ...' if len(states) > 4 else ''}}}"
