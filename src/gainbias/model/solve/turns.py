"""Turns: several methods work on one chain, one at a time, each for a slice of counted work.

`Turn` is a method that can be paused; `Meter` counts its work and pauses it; `next_turn` says which method
is next.

Each method has its own thread, but only one of them runs at a time: a thread works until its slice is used
up and then returns control to the thread that gave it the slice. Work is counted, never timed, so that the
same methods get the same slices on a busy machine and the answer has the same bits. Only a time limit reads a
clock.

Work is counted in *nominal seconds*: numbers of products, vectors and operations times the constants below,
which were measured once on one core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from math import inf, log10, sqrt
from typing import Generic, TypeVar

PER_CALL, PER_ENTRY, PER_STATE = 1e-5, 9e-10, 3e-10
"""Cost of a product: fixed, and for each stored transition; and of a pass over a vector, for each state."""

PER_SWEPT_ENTRY = 2.5e-9
"""Cost of a sweep that must go from state to state, for each stored transition."""

PER_OPERATION, PER_FACTOR = 5.5e-11, 5.5e-8
"""Cost of elimination for each operation, and for each number in the factors, for later solves."""

PER_ORDERED_STATE, PER_ORDERED_ENTRY = 6e-7, 1.2e-7
"""Cost of finding an order for an elimination, for each state and for each stored transition."""

PER_SEEN_STATE, PER_SEEN_ENTRY = 1e-7, 8e-8
"""Cost of predicting what an elimination costs, for each state and for each stored transition."""

FIRST_PRODUCTS = 16
"""The first slice of a method that only multiplies is worth this many products."""

TRIALS_TO_WAIT = 8.0
"""An untried method is tried when the best one seems to need this many times its trial."""

AFTER_A_TRIAL = 4.0
"""The limit for "cheap" grows by this factor once another method was tried without success."""

CHANCE = 32.0
"""A method gets another chance while this many times its work so far is less than others expect to need."""

DIGITS_OF_ONE = 78.0
"""Digits that a method must gain for one answer; if it must gain more, a chance is worth less."""


Result = TypeVar("Result")


class CancelledError(BaseException):
    """A paused method is not needed any more. No method may catch it."""


class Meter:
    """A count of the work and the progress of a method, which pauses the method when its slice is used up.

    Attributes
    ----------
    work, useful : float
        Work so far, in nominal seconds, and the part of it that should bring digits.
    products : int
        Matrix-vector products so far.
    digits : float
        Digits that all solves so far have gained together.
    planned : float or None
        Work that an elimination still has to do, once it is known.
    operations : float
        Operations that the elimination has planned.
    worth : float
        Work in which the others expect to finish.
    """

    def __init__(self) -> None:
        self.work = self.useful = self.digits = self.operations = 0.0
        self.products = 0
        self.planned: float | None = None
        self.worth = inf
        self._digits_before = 0.0
        self._allowed, self._until = inf, inf
        self._pause: Callable[[], None] | None = None

    def spend(self, work: float, products: int = 0, aside: bool = False) -> None:
        """Count work, and wait for the next slice if this one is used up; work `aside` gains no digits."""
        self.work += work
        self.useful += 0.0 if aside else work
        self.products += products
        if self.work >= self._allowed or (self._until < inf and time.monotonic() >= self._until):
            self._wait()

    def reach(self, residual: float) -> None:
        """Note the residual of the present solve, relative to its right side."""
        gained = -log10(min(max(residual, 1e-300), 1.0))
        self.digits = max(self.digits, self._digits_before + gained)

    def finish_solve(self) -> None:
        """Note that the present solve is done: the next one begins without any digits."""
        self._digits_before = self.digits

    def entries_that_pay(self, num_states: int) -> float:
        """Return the largest size of the factors with which elimination may be done before the others are."""
        return min(self.worth / PER_FACTOR, sqrt(self.worth / PER_OPERATION * num_states))

    def predict(self, ordering: float, operations: float, factor_entries: float) -> None:
        """Note what an elimination is likely to cost before it has an order, and wait until it is wanted."""
        self.operations = operations
        self.planned = ordering + PER_OPERATION * operations + PER_FACTOR * factor_entries
        self._wait()

    def plan(self, operations: float, factor_entries: int = 0) -> None:
        """Note what an elimination will cost, or will cost at least, and wait until it is wanted."""
        self.operations = operations
        self.planned = PER_OPERATION * operations + PER_FACTOR * factor_entries
        self._wait()

    def _wait(self) -> None:
        if self._pause is not None:
            self._pause()


class Turn(Generic[Result]):
    """A method that works in slices.

    Parameters
    ----------
    name : str
        Name of the method.
    method : callable
        Takes the meter and returns the result.
    trial : float
        Work after which the method's progress can be judged.
    digits : float
        Digits that all of its solves must gain together.
    at_once : float
        It is cheap, and continues before all others, if its planned work is at most this.
    """

    def __init__(
        self,
        name: str,
        method: Callable[[Meter], Result],
        trial: float,
        digits: float,
        at_once: float = 0.0,
    ) -> None:
        self.name, self.trial, self.digits, self.at_once = name, trial, digits, at_once
        self.meter = Meter()
        self.is_done = self.is_started = self.had_its_share = False
        self.expected = inf
        self._history = [(0.0, 0.0)]
        self._method = method
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._cancelled = False
        self._thread: threading.Thread | None = None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)

    @property
    def slice(self) -> float:
        """Work that it gets in its next turn: a trial first, and then half of what it had so far."""
        if self.meter.planned is not None:
            return inf
        return max(self.trial, 0.5 * self.meter.work)

    def advance(self, work: float, seconds: float = inf) -> None:
        """Let the method work until it is done or has used up `work`, or `seconds` have passed."""
        meter = self.meter
        meter._allowed = meter.work + work
        meter._until = time.monotonic() + seconds
        if self._thread is None and work == inf:
            self.is_started = True
            self._run()
        else:
            if self._thread is None:
                self.is_started = True
                meter._pause = self._hand_back
                context = copy_context()
                self._thread = threading.Thread(target=lambda: context.run(self._run), daemon=True)
                self._thread.start()
            else:
                self._go.release()
            self._back.acquire()
        self.had_its_share = seconds < inf and time.monotonic() >= meter._until
        if self.is_done:
            meter._allowed = meter._until = inf
            meter._pause = None
        if meter.planned is not None:
            self.expected = meter.planned
        elif meter.useful > self._history[-1][0]:
            self._history.append((meter.useful, meter.digits))
            # The rate of about the last half of the work: single solves may be short.
            since = max(past for past in self._history if past[0] <= 0.5 * meter.useful)
            spent, gained = meter.useful - since[0], meter.digits - since[1]
            left = max(self.digits - meter.digits, 0.0)
            self.expected = left * spent / gained if gained > 0.0 else inf

    def result(self) -> Result:
        """Return what the method returned, or raise what it raised, once."""
        # An error keeps references to everything its method worked on, so nothing must keep the error.
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error
        assert self._result is not None
        return self._result

    def cancel(self) -> None:
        """End the method where it is."""
        if self._thread is not None and self._thread.is_alive():
            self._cancelled = True
            self.meter._allowed = -inf
            self._go.release()
            self._thread.join()
        self.meter._pause = self._error = None

    def _run(self) -> None:
        try:
            self._result = self._method(self.meter)
        except BaseException as error:
            if self._thread is None and not isinstance(error, Exception):
                raise
            self._error = error
        finally:
            self.is_done = True
            self._back.release()

    def _hand_back(self) -> None:
        self._back.release()
        self._go.acquire()
        if self._cancelled:
            raise CancelledError


def next_turn(turns: Sequence[Turn[Result]]) -> Turn[Result]:
    """Return the method that should work next.

    An elimination that is known to be cheap is first, unless another method was tried and is quicker still.
    Otherwise it is the one that expects to finish first, at the rate of its last slices. That rate may
    mislead: some methods gain nothing for long and then everything at once. So no method is assumed to need
    more than a multiple of its work so far, until that is too much as well. Methods that were not tried yet
    are tried when the best one seems to take much longer than a trial, the shortest trial first.
    """
    started = [turn for turn in turns if turn.is_started]
    fresh = [turn for turn in turns if not turn.is_started]
    spent = sum(turn.meter.work for turn in started)
    best = min(started, key=_hoped, default=None)
    eliminations = [turn for turn in started if turn.meter.planned is not None]
    known = min(eliminations, key=_hoped, default=None)
    if known is not None:
        others = [turn for turn in started if turn.meter.planned is None]
        enough = known.at_once if not others else AFTER_A_TRIAL * known.at_once
        if _hoped(known) <= enough and all(turn.expected > known.expected for turn in others):
            return known
    if fresh:
        cheapest = min(fresh, key=lambda turn: turn.trial)
        if (
            best is None
            or best.expected > TRIALS_TO_WAIT * cheapest.trial
            or spent > 3 * TRIALS_TO_WAIT * cheapest.trial
        ):
            return cheapest
    assert best is not None
    # Others have worked for as long as elimination takes, and are not about to finish.
    if known is not None and spent > known.expected and best.expected > 0.25 * known.expected:
        return known
    return best


def _hoped(turn: Turn[Result]) -> float:
    """Return the work after which a method may be done; one that had its share of a time limit comes last."""
    if turn.had_its_share:
        return inf
    if turn.meter.planned is not None:
        return turn.expected
    return min(turn.expected, CHANCE * turn.meter.work * max(1.0, turn.digits / DIGITS_OF_ONE))
