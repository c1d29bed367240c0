"""The record of a bound, and the arithmetic that all theorems share.

`Bound` has the value of a bound, its constants by name and the conditions under which it holds; every theorem
ends in `conclude`, which makes one. `Decay` are step sizes a / (t + c0)^xi, with the functions that say how
large their offset c0 must be. At the end are quotients and powers that are infinite, not an error, when out
of range, and rounding to one side.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, NamedTuple

import numpy as np

from gainbias.notebook import Card, InNotebooks

WEIGHTS_ERROR = "E|theta_T - theta*|^2"
"""Expected squared Euclidean distance of the last weights from the fixed point."""

LIMIT_TOLERANCE = 1e-9
"""Relative error of limits: a value that must stay below one counts as equal if it is closer than this."""

OFFSET = "offset c0"
"""Name of the conditions that a larger c0 satisfies."""

MOST_TERMS = 1_000_000
"""Sums of more step sizes are bounded by an integral."""


@dataclass(frozen=True, repr=False)
class Bound(InNotebooks):
    """A guarantee that a theorem gives on one problem.

    Attributes
    ----------
    value : float
        The bound: the smaller of what the theorem gives and of what holds anyway (weights that are kept in a
        ball cannot be further from theta* than R + |theta*|). Not a number unless every condition holds.
    certified : bool
        Whether every condition holds, one of which is that the bound is a finite number.
    quantity : str
        What is bounded.
    formula : str
        The bound in symbols.
    constants : mapping of str to float
        Every constant of the theorem, by its name there. Above 1000 states "tau_mix (upper bound)" stands for
        the mixing time, which is not known then; the theorem holds with it, too.
    conditions : tuple of Condition
        What the theorem requires.
    theorem : str
        Which theorem it is, and in which form.
    theorem_value : float
        What the formula gives, also where it is larger than what holds anyway, or infinite.
    trivial : Trivial
        What is known without the theorem.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.bound("double-chain", problem, step_size=0.5, num_steps=1_000, sampling="iid")
    Bound(not certified: alpha <= eta / 18 fails with 0.5 against 0.0389)

    A bound that is no better than taking no step at all says nothing:

    >>> found = gb.bound("single-chain", problem, step_size=0.001, num_steps=10_000)
    >>> found.certified, found.informative, round(found.value, 4), round(found.theorem_value, 1)
    (True, False, 0.5102, 19.9)
    >>> found.note
    'says nothing: it is not below 0.127551, the error before the first step'
    """

    value: float
    certified: bool
    quantity: str
    formula: str
    constants: Mapping[str, float]
    conditions: tuple[Condition, ...]
    theorem: str
    theorem_value: float
    trivial: Trivial

    @property
    def informative(self) -> bool:
        """Whether the bound is certified and below what is known without the theorem.

        Two things are known without it: the error before the first step, |theta_0 - theta*|^2, for
        taking no step at all; and a bound that always holds, because weights are kept in a ball or, for
        averages of rewards, because the rewards are bounded: (r_max + |g|)^2.
        """
        return self.certified and self.value < min(self.trivial.without_steps, self.trivial.anyway)

    @property
    def note(self) -> str:
        """The reason why the bound says nothing; empty if it does say something."""
        if self.informative:
            return ""
        if not self.certified:
            return "says nothing: it is not certified"
        if self.trivial.without_steps <= self.trivial.anyway:
            return (
                f"says nothing: it is not below {self.trivial.without_steps:.6g}, the error before the first "
                "step"
            )
        return f"says nothing: it is not below {self.trivial.anyway:.6g}, {self.trivial.anyway_because}"

    @property
    def violated(self) -> tuple[Condition, ...]:
        """The conditions that do not hold."""
        return tuple(condition for condition in self.conditions if not condition.holds)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values."""
        return {
            **asdict(self),
            "constants": dict(self.constants),
            "conditions": [asdict(condition) for condition in self.conditions],
            "trivial": self.trivial._asdict(),
            "informative": self.informative,
            "note": self.note,
        }

    def __repr__(self) -> str:
        if self.certified:
            note = "" if self.informative else f", which {self.note}"
            return f"Bound({self.quantity} <= {self.value:.6g}{note})"
        reasons = "; ".join(
            f"{broken.formula} fails with {broken.value:.3g} against {broken.limit:.3g}"
            for broken in self.violated
        )
        return f"Bound(not certified: {reasons})"

    def _card(self) -> Card:
        said = "says something" if self.informative else self.note
        value = f"{self.value:.6g}" if self.certified else "none"
        what = f"at most {value}" if self.certified else value
        facts = {self.quantity: what, "": said, "theorem": self.theorem}
        rows = [
            {"condition": each.name, "holds": each.holds, "value": each.value, "limit": each.limit}
            for each in self.conditions
        ]
        return Card("Bound", facts, rows, self.informative)


@dataclass(frozen=True)
class Condition:
    """A condition that a theorem requires.

    Attributes
    ----------
    name : str
        What would have to change, in a few words.
    formula : str
        In symbols, such as ``alpha <= eta / 18``.
    value, limit : float
        The number that was found, and the one that it is compared with.
    holds : bool
        Whether it is met.
    remedy : str
        What would satisfy it.
    """

    name: str
    formula: str
    value: float
    limit: float
    holds: bool
    remedy: str


class Trivial(NamedTuple):
    """Bounds that are known without a theorem.

    Attributes
    ----------
    without_steps : float
        The error before the first step, which holds for taking no step at all.
    anyway : float
        A number that no error can exceed, because weights are kept in a ball or rewards are bounded; infinite
        where nothing bounds them.
    anyway_because : str
        Where `anyway` comes from, in words.
    """

    without_steps: float = math.inf
    anyway: float = math.inf
    anyway_because: str = ""


def conclude(
    theorem: str,
    formula: str,
    value: Callable[[], float],
    constants: Mapping[str, float],
    conditions: Sequence[Condition],
    trivial: Trivial,
    quantity: str = WEIGHTS_ERROR,
) -> Bound:
    """Return the bound, whose value is computed only if all conditions hold, and is never infinite."""
    plain = {name: float(constant) for name, constant in constants.items()}
    conditions = list(conditions)
    number = found = math.nan
    if all(condition.holds for condition in conditions):
        found = _computed(value)
        number = min(found, trivial.anyway)
        if math.isinf(number):
            conditions.append(_too_large(plain, formula))
            number = math.nan
    certified = all(condition.holds for condition in conditions)
    return Bound(number, certified, quantity, formula, plain, tuple(conditions), theorem, found, trivial)


def _computed(value: Callable[[], float]) -> float:
    """Return a value, infinite where it, or a part of it, is larger than any float."""
    try:
        number = float(value())
    except OverflowError:
        return math.inf
    return math.inf if math.isnan(number) else number


def _too_large(constants: Mapping[str, float], formula: str) -> Condition:
    """Return the failed condition that a bound is a finite number."""
    guilty = [name for name, value in constants.items() if math.isinf(value) and name in formula]
    remedy = f"steps for which {' and '.join(guilty)} is finite" if guilty else "smaller steps, or rewards"
    return Condition(
        "size of the bound", "bound <= largest float", math.inf, sys.float_info.max, False, remedy
    )


def at_most(
    name: str, formula: str, value: float, limit: float, remedy: str, strict: bool = False
) -> Condition:
    """Return the condition that a value is at most its limit, or below it."""
    holds = value < below(limit) if strict else value <= limit
    return Condition(name, formula, value, limit, holds, remedy)


def at_least(
    name: str, formula: str, value: float, limit: float, remedy: str, strict: bool = False
) -> Condition:
    """Return the condition that a value is at least its limit, or above it."""
    holds = value > -below(-limit) if strict else value >= limit
    return Condition(name, formula, value, limit, holds, remedy)


def below(limit: float) -> float:
    """Return the largest number that is told apart from a limit above it."""
    return limit - LIMIT_TOLERANCE * abs(limit) if math.isfinite(limit) else limit


@dataclass(frozen=True)
class Decay:
    """Decaying step sizes, alpha_t = a / (t + c0)^xi."""

    a: float
    c0: float
    xi: float

    def at(self, t: float) -> float:
        """Return alpha_t."""
        return float(self.a / (t + self.c0) ** self.xi)

    def between(self, first: float, last: float) -> float:
        """Return (last + c0)^(1 - xi) - (first + c0)^(1 - xi), for xi < 1."""
        start, exponent = first + self.c0, 1.0 - self.xi
        return power(start, exponent) * math.expm1(exponent * math.log1p((last - first) / start))

    def sum_of_first(self, count: int) -> float:
        """Return alpha_0 + ... + alpha_(count - 1), or an upper bound if there are very many terms."""
        if count <= MOST_TERMS:
            return float(np.sum(self.a / (np.arange(count) + self.c0) ** self.xi))
        if self.xi == 1.0:
            integral = np.log1p((count - 1) / self.c0)
        else:
            integral = self.between(0.0, count - 1.0) / (1.0 - self.xi)
        return float(self.at(0) + self.a * integral)

    def large_offset(self, formula: str, limit: float) -> Condition:
        """Return the condition that c0 is at least `limit`."""
        return at_least(OFFSET, formula, self.c0, limit, f"c0 at least {rounded_up(limit)}")

    def advice(self, needed: Callable[[Decay], float]) -> str:
        """Return, in words, how large c0 has to be.

        `needed` is the least c0 for given step sizes. It grows with c0, because mixing times grow as steps
        shrink, hence the search.
        """
        now = self
        while now.c0 < (more := needed(now)) < math.inf:
            now = replace(now, c0=more)
        return f"c0 at least {rounded_up(max(now.c0, more))}"


def slow_decay(decay: Decay, tau: int, mixing_time: Callable[[Decay], int]) -> Condition:
    """Return the condition that c0 is at least c_0_1, which depends on the mixing time and so on c0."""

    def needed(now: Decay) -> float:
        return offset_for_ratio(mixing_time(now), now.xi)

    limit = offset_for_ratio(tau, decay.xi)
    remedy = decay.advice(needed) if decay.c0 < limit else ""
    return at_least(OFFSET, "c0 >= c_0_1 = tau_mix / (2^(1/xi) - 1)", decay.c0, limit, remedy)


def offset_for_ratio(tau: int, xi: float) -> float:
    """Return c_0_1, the least c0 with alpha_(t - tau) <= 2 alpha_t for all t >= tau."""
    return tau / (power(2.0, 1.0 / xi) - 1.0)


def offset_for_sum(a: float, xi: float, tau: int, limit: float) -> float:
    """Return c_0_2, the least c0 for which any tau successive steps sum to at most `limit`."""
    high = power(a * tau / limit, 1.0 / xi)  # every step is at most the first
    low = max(high - tau, 0.0)  # every step is at least the last
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if Decay(a, middle, xi).sum_of_first(tau) <= limit:
            high = middle
        else:
            low = middle
    return high


def ratio(above: float, below: float) -> float:
    """Return a quotient; it is infinite where the denominator is 0, and 0 for 0 / 0."""
    if below:
        return above / below
    return math.copysign(math.inf, above) if above else 0.0


def power(base: float, exponent: float) -> float:
    """Return a power, infinite where it is too large."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def exponential(exponent: float) -> float:
    """Return e to the power of `exponent`, infinite where it is too large."""
    return power(math.e, exponent) if exponent > 700.0 else math.exp(exponent)


def close(one: float, other: float) -> bool:
    """Return whether numbers are equal up to rounding, to tell the cases of a theorem apart."""
    return math.isclose(one, other, rel_tol=1e-12)


def rounded_up(number: float) -> str:
    """Return a number rounded up to six digits, for advice that must be enough.

    Examples
    --------
    >>> rounded_up(2 / 3), rounded_down(2 / 3)
    ('0.666667', '0.666666')
    """
    return f"{float(Context(6, ROUND_CEILING).create_decimal_from_float(number)):.6g}"


def rounded_down(number: float) -> str:
    """Return a number rounded down to six digits."""
    return f"{float(Context(6, ROUND_FLOOR).create_decimal_from_float(number)):.6g}"
