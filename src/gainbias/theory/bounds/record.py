"""A bound as a record: its value, its constants by name, and the conditions under which it holds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

WEIGHTS_ERROR = "E|theta_T - theta*|^2"
"""Expected squared Euclidean distance of the last weights from the fixed point."""

CLOSE = 1e-9
"""Relative error of limits: what must stay below one counts as equal if it is closer than this."""


class Trivial(NamedTuple):
    """What is known without a theorem, and where from.

    `without_steps` is the error before the first step: what making no step at all guarantees. `anyway` is
    what no error can exceed, because weights are kept in a ball or rewards are bounded; infinite where
    nothing bounds them.
    """

    without_steps: float = math.inf
    anyway: float = math.inf
    anyway_because: str = ""


@dataclass(frozen=True)
class Condition:
    """Something that a theorem requires.

    Attributes
    ----------
    name : str
        What would have to change, in a few words.
    formula : str
        In symbols, such as ``alpha <= eta / 18``.
    value, limit : float
        What was found, and what it is compared with.
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


@dataclass(frozen=True, repr=False)
class Bound:
    """What a theorem guarantees on one problem.

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

    A bound that is no better than making no step at all says nothing:

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
        """Whether it says something, being certified and below what is known without the theorem.

        That is the error before the first step, |theta_0 - theta*|^2, which making no step at all guarantees;
        and what holds anyway, because weights are kept in a ball or, for averages of rewards, because the
        rewards are bounded: (r_max + |g|)^2.
        """
        return self.certified and self.value < min(self.trivial.without_steps, self.trivial.anyway)

    @property
    def note(self) -> str:
        """Why it says nothing; empty if it does say something."""
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


def at_most(
    name: str, formula: str, value: float, limit: float, remedy: str, strict: bool = False
) -> Condition:
    """Return the condition that a value is at most its limit, or below it."""
    holds = value < below(limit) if strict else value <= limit
    return Condition(name, formula, value, limit, holds, remedy)


def below(limit: float) -> float:
    """Return the nearest number that is told from a limit above it."""
    return limit - CLOSE * abs(limit) if math.isfinite(limit) else limit


def at_least(
    name: str, formula: str, value: float, limit: float, remedy: str, strict: bool = False
) -> Condition:
    """Return the condition that a value is at least its limit, or above it."""
    holds = value > -below(-limit) if strict else value >= limit
    return Condition(name, formula, value, limit, holds, remedy)


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
    """Return the condition that a bound is a number, which it is not."""
    guilty = [name for name, value in constants.items() if math.isinf(value) and name in formula]
    remedy = f"steps for which {' and '.join(guilty)} is finite" if guilty else "smaller steps, or rewards"
    return Condition(
        "size of the bound", "bound <= largest float", math.inf, sys.float_info.max, False, remedy
    )
