"""The stationary law of an elimination, measured: a better one, and how far both may be off.

`measure_law` starts from a law that elimination found. One state of each recurrent class is its root; M is
diag(row sums) - P on the other states, and its inverse has no negative entry. With the root's probability
held, the law is off by ``r M^-1``, where r is what flows into each state less what flows out of it, computed
with twice the digits. That is one more solve. The remaining error is at most ``|r'| M^-1`` with the
residual r' of the corrected law, entry by entry: that is another solve.

On a chain that hardly moves between its parts this bound explodes, but the law does not: elimination is
accurate entry by entry, whatever the chain (O'Cinneide 1993). So the smaller of both bounds is used.

All of this holds for numbers with all digits. What smaller ones lose is bounded like this. Let u be half the
smallest number, 2^-1075, by which a product that is too small to have all digits is rounded, and let N be the
smallest number with all digits, 2^-1022 = 2^53 u. T(s) is the expected number of steps from s to a root.

*In a solve* with a side of entries up to 1, at most n products are added to each entry of what is handed on,
or of what is found. The first are side entries that are off by n u; so is the exit of a state times the
second. Each entry of a side counts in the solution for s as often as the chain is in its state on the way to
the root: x(s) is off by at most 2 n u T(s), which is less than N T(s). Transposed, an entry of a side may
lead to T visits of any state with the largest T, so that each of the n entries of x is off by at most
2 n^2 u (1 + T), less than 4 N (1 + T) up to 1e8 states. Sides are scaled to about 1 first; that of the law
is the row of the root times 2^900, because no state is visited more than 1e9 times as often as the root.

*While states are eliminated*, what is left is at any time the chain seen only at its later states, and a
product that is too small is a transition of it from i to j whose chance is off by u: i is left too rarely or
too often by that. Call it an event when the two chains differ for this reason. Each visit of i is seen in at
most n chains, and up to n products are added to its row in each, so that a visit brings an event with a
chance of at most n^2 u; and as long as there was none, both chains are in the same place. From s, an event
happens before the root with a chance q of at most n^2 u T(s), and as T can be that of either chain it may be
the one that was computed. What follows an event changes a sum x(s) by at most the largest of its class, in
either chain. So where q is less than a half, the true largest sum is at most twice the computed one, and x(s)
is off by at most 2 q times the computed one. Visits between two visits of the root are sums, too: relative to
the length of the cycle the law is off by at most 2 q. With 4 N T in place of q all factors are covered.
`loses_products` tells whether any such product was too small. If none was, there is nothing to add.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gainbias.kernels import bare_kernel, by_blocks, constant, share_blocks
from gainbias.model.checks import EPSILON
from gainbias.model.doubled import Doubled
from gainbias.model.solve.elimination.numeric import Fronts, Sparse
from gainbias.model.solve.residual import balance_residual, class_sums
from gainbias.model.solve.vectors import class_totals, columns_of, largest_of
from gainbias.types import Floats, Ints

SMALLEST_NORMAL = float(np.finfo(np.float64).smallest_normal)
"""Probabilities below this have no digits."""

FRONTS_TOGETHER = 4096
"""Number of fronts whose factors one thread looks through at a time."""


class Law(NamedTuple):
    """A stationary law with twice the digits.

    Attributes
    ----------
    values : Doubled
        Probabilities, (n,); those of each recurrent class sum to one.
    error : (n,) array
        Bound on the absolute error of each.
    given_error : (n,) array
        Bound on the absolute error of each probability that elimination found.
    """

    values: Doubled
    error: Floats
    given_error: Floats


def elimination_rounding(fronts: Fronts, values: Floats) -> float:
    """Return a bound on the relative error of each number that non-negative solves with these factors give.

    Eliminating a state that leads to s others and is entered from r replaces what remains of the chain by one
    whose r rows are off by at most s + 4 roundings, relatively: s in the sum of what leaves, and 4 for a
    share, its product, and two additions. A stationary probability is a sum of products of one entry from
    each row over another such sum, so it moves by at most twice that for each of the r rows. The two
    triangular solves add at most 8 roundings for each state.
    """
    # EPSILON is two roundings.
    count, widest = len(fronts.first) - 1, int(np.diff(fronts.first).max(initial=0))
    counts = share_blocks(
        lambda begin, end: count_disturbances(fronts, values, begin, end, np.empty((2, widest))),
        count,
        FRONTS_TOGETHER,
    )
    # These are whole numbers, so that their order does not matter.
    return EPSILON * (sum(counts) + 4.0 * len(fronts.order))


@bare_kernel
def count_disturbances(fronts: Fronts, values: Floats, begin: int, end: int, room: Floats) -> float:
    """Return the sum of r (s + 4) over states, counting the entries of the factors that are not 0.

    The states are those of the fronts `begin` to ``end - 1``. There is `room` for two numbers for each state
    of the widest one, (2, widest).
    """
    first, start, offset = fronts.first, fronts.start, fronts.offset
    total = 0.0
    for f in range(begin, end):
        wide = first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        leads, entered = room[0], room[1]
        place = offset[f]
        for p in range(wide):
            leads[p] = entered[p] = 0.0
        for p in range(wide):
            for j in range(size):
                if values[place] != 0.0:
                    if j < p:
                        entered[j] += 1.0
                    elif j > p:
                        leads[p] += 1.0
                place += 1
        for _ in range(rest):
            for p in range(wide):
                if values[place] != 0.0:
                    entered[p] += 1.0
                place += 1
        for p in range(wide):
            total += entered[p] * (leads[p] + 4.0)
    return total


def loses_products(fronts: Fronts, values: Floats, leak: Floats) -> bool:
    """Return whether a product inside the elimination may have been too small for all of its digits.

    Parameters
    ----------
    fronts, values
        The factors.
    leak : (n,) array
        Probability of leaving the eliminated states, by position; it is overwritten.
    """
    return find_lost_product(fronts, values, leak, np.empty((2, np.diff(fronts.first).max(initial=0))))


@bare_kernel
def find_lost_product(fronts: Fronts, values: Floats, leak: Floats, room: Floats) -> bool:
    """Do the work of `loses_products`, with `room` for two numbers for each state of the widest front."""
    first, start, boundary, offset = fronts.first, fronts.start, fronts.boundary, fronts.offset
    for f in range(len(first) - 1):
        begin, wide = first[f], first[f + 1] - first[f]
        rest = start[f + 1] - start[f]
        size = wide + rest
        share, onward = room[0], room[1]
        for p in range(wide):
            share[p] = onward[p] = np.inf
        for i in range(size):
            row = offset[f] + (i * size if i < wide else wide * size + (i - wide) * wide)
            at = begin + i if i < wide else boundary[start[f] + i - wide]
            for p in range(min(i, wide)):
                if values[row + p] != 0.0:
                    share[p] = min(share[p], values[row + p])
                    leak[at] += values[row + p] * leak[begin + p]
            if i < wide:
                for j in range(i + 1, size):
                    if values[row + j] != 0.0:
                        onward[i] = min(onward[i], values[row + j])
                if leak[at] != 0.0:
                    onward[i] = min(onward[i], leak[at])
        for p in range(wide):
            if min(share[p], onward[p], share[p] * onward[p]) < SMALLEST_NORMAL:
                return True
    return False


def measure_law(
    rows: Sparse,
    stationary: Floats,
    class_of: Ints,
    roots: Ints,
    solve: Callable[[Floats], Floats],
    rounding: float,
    floor: float = SMALLEST_NORMAL,
    unseen: float = 0.0,
) -> Law:
    """Return a law with twice the digits, with bounds on its error and on that of the law that is given.

    Parameters
    ----------
    rows : Sparse
        Transitions.
    stationary : (n,) array
        The law that elimination found.
    class_of : (n,) int array
        Recurrent class of each state, -1 if it has none.
    roots : (classes,) int array
        The state of each class that was kept.
    solve : callable
        From r, (n,), to ``r M^-1``, which is 0 at the roots.
    rounding : float
        Bound on the relative error of what `solve` returns for a side without negative entries.
    floor : float
        Bound on what products too small to be numbers add to the error of each given probability.
    unseen : float
        Bound on what they add to what `solve` returns, for a side with entries up to 1.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _measured(rows, stationary, class_of, roots, solve, rounding, floor, unseen)


def _measured(
    rows: Sparse,
    stationary: Floats,
    class_of: Ints,
    roots: Ints,
    solve: Callable[[Floats], Floats],
    rounding: float,
    floor: float,
    unseen: float,
) -> Law:
    ones = Doubled(constant(1.0, len(stationary)))
    columns = columns_of(rows)

    def at_recurrent(class_of: Ints, values: Floats) -> Floats:
        return np.where(class_of >= 0, values, 0.0)

    moved = by_blocks(
        at_recurrent, class_of, solve(balance_residual(rows, columns, Doubled(stationary)).value)
    )
    better = Doubled(stationary).plus(moved)
    most = balance_residual(rows, columns, better).most
    unseen_left = 2.0 * unseen * largest_of(most)

    def with_rounding(class_of: Ints, values: Floats, moved: Floats) -> Floats:
        inside = at_recurrent(class_of, values * (1.0 + 2.0 * rounding) + unseen_left)
        return inside + 8.0 * EPSILON * np.abs(moved)

    left = by_blocks(with_rounding, class_of, solve(most), moved)
    # Both are relative to the root's probability so far: now the classes are made to sum to one again.
    total = class_sums(class_of, len(roots), stationary, ones)
    more = class_sums(class_of, len(roots), moved, ones)
    beyond = (total.value - 1.0) + more.value
    open_ = class_totals(class_of, len(roots), left)
    open_ += total.rounding + more.rounding + 2.0 * EPSILON * np.abs(beyond)
    known = rounding + 0.5 * (len(stationary) + 4.0) * EPSILON

    def corrected(class_of: Ints, stationary: Floats, moved: Floats, left: Floats) -> tuple[Floats, ...]:
        inside = class_of >= 0
        beyond_at, open_at = (np.where(inside, values[class_of], 0.0) for values in (beyond, open_))
        sum_at_least = np.maximum(1.0 + beyond_at - open_at, 0.0)
        correction = (moved - stationary * beyond_at) / (1.0 + beyond_at)
        error = (left + (stationary + np.abs(correction)) * open_at) / sum_at_least
        error += 8.0 * EPSILON * (np.abs(moved) + stationary * np.abs(beyond_at)) + floor
        sure = stationary * (known / (1.0 - known) if known < 0.5 else np.inf) + floor
        # If the correction is less accurate than the law itself, the law is kept.
        is_better = inside & (error < sure)
        correction = np.where(is_better, correction, 0.0)
        error = np.where(inside, np.where(is_better, error, sure), 0.0)
        given_error = np.where(inside, np.fmin(np.abs(correction) * (1.0 + 4.0 * EPSILON) + error, sure), 0.0)
        return correction, error, given_error

    out = np.empty((3, len(stationary)))
    correction, error, given_error = by_blocks(corrected, class_of, stationary, moved, left, out=out)
    return Law(Doubled(stationary).plus(correction), error, given_error)
