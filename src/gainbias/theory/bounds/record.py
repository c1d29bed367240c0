"""A bound as a record: its value, its constants by name, and the conditions under which it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

WEIGHTS_ERROR = "E|theta_T - theta*|^2"
"""Expected squared Euclidean distance of the last weights from the fixed point."""

CLOSE = 1e-9
"""Relative error of limits: what must stay below one counts as equal if it is closer than this."""


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
        The bound; not a number unless every condition holds.
    certified : bool
        Whether every condition holds.
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

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.Problem(gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0]), [[1.0], [0.0]])
    >>> gb.bound("double-chain", problem, step_size=0.5, num_steps=1_000, sampling="iid")
    Bound(not certified: alpha <= eta / 18 fails with 0.5 against 0.0389)
    """

    value: float
    certified: bool
    quantity: str
    formula: str
    constants: Mapping[str, float]
    conditions: tuple[Condition, ...]
    theorem: str

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
        }

    def __repr__(self) -> str:
        if self.certified:
            return f"Bound({self.quantity} <= {self.value:.6g})"
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
    quantity: str = WEIGHTS_ERROR,
) -> Bound:
    """Return the bound, whose value is computed only if all conditions hold."""
    certified = all(condition.holds for condition in conditions)
    plain = {name: float(constant) for name, constant in constants.items()}
    number = float(value()) if certified else math.nan
    return Bound(number, certified, quantity, formula, plain, tuple(conditions), theorem)
