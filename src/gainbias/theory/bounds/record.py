"""A bound as a record: its value, its constants by name, and the conditions under which it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Condition:
    """Something that a theorem requires.

    Attributes
    ----------
    name : str
        In a few words.
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


@dataclass(frozen=True)
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
        Every constant of the theorem, by the name it has there.
    conditions : tuple of Condition
        What the theorem requires.
    theorem : str
        Which theorem it is, and in which form.
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
        """Return plain values, ready for JSON except for numbers that are not finite."""
        raise NotImplementedError
