"""The record of one statement of the paper, how it is measured, and how its verdict follows.

A `StatementCheck` looks at one case and returns how close the statement comes to failing: for an inequality
the largest ratio of its two sides, which must not exceed 1; for an identity by how much it is missed,
relative to its largest term. Each check can also be made of a wrong version of the statement, which must be
seen to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from gainbias.theory.statements.cases import ChainCase
from gainbias.types import Floats

RATIO_LIMIT = 1.0 + 1e-9
"""Inequalities hold if the ratio of their sides is at most this: 1, and room for rounding."""

MISSED_LIMIT = 1e-9
"""Identities hold if they are missed by no more than this, relative to their largest term."""

Measure: TypeAlias = Callable[[ChainCase, bool], float]
"""From a case, and whether to check the wrong version, to how close the statement comes to failing."""

Verdict: TypeAlias = Literal["holds as printed", "holds corrected", "fails", "not testable"]


class Refutation(NamedTuple):
    """A case in which the printed form of a statement is wrong: what was found exceeds what was promised."""

    found: float
    promised: float
    where: str


@dataclass(frozen=True)
class StatementCheck:
    """How a statement is tried on a case.

    Attributes
    ----------
    measure : callable
        See `Measure`.
    wrong : str
        What the wrong version says.
    identity : bool
        Whether the statement is an equation.
    small : bool
        Whether it is tried on small cases, because all paths or joint moments are listed.
    """

    measure: Measure
    wrong: str
    identity: bool = False
    small: bool = False

    @property
    def limit(self) -> float:
        """The largest number with which the statement holds."""
        return MISSED_LIMIT if self.identity else RATIO_LIMIT

    def worst(self, cases: Iterable[ChainCase], wrong: bool = False) -> Worst:
        """Return the largest number over cases, and the case that gave it."""
        found = Worst(-np.inf, "")
        for case in cases:
            number = self.measure(case, wrong)
            number = np.inf if np.isnan(number) else float(number)
            if number > found.number:
                found = Worst(number, case.name)
        return found


class Worst(NamedTuple):
    """The largest number that a check found, and in which case."""

    number: float
    case: str


@dataclass(frozen=True)
class Statement:
    """A statement of the paper.

    Attributes
    ----------
    label : str
        Its label in the source, or its kind and line where it has none.
    kind : str
        Such as "lemma".
    says : str
        What it says, in our words, in one line.
    lives : str
        Where it is in this package.
    check : StatementCheck, optional
        Of the statement as printed or, where that does not hold, as corrected.
    corrected : str
        What the check changes in the printed form; empty if nothing.
    refuted : callable, optional
        Returns a case in which the printed form is wrong.
    findings : tuple of str
        Findings about it on the page "What we found in the paper".
    untestable : str
        Why it cannot be tested, if it cannot.
    note : str
        What else there is to say.
    """

    label: str
    kind: str
    says: str
    lives: str
    check: StatementCheck | None = None
    corrected: str = ""
    refuted: Callable[[], Refutation] | None = None
    findings: tuple[str, ...] = ()
    untestable: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        assert (self.check is None) <= bool(self.untestable or self.refuted), self.label

    def measure(self, cases: Sequence[ChainCase], small_cases: Sequence[ChainCase]) -> StatementOutcome:
        """Try the statement and its wrong version on cases, and return what was found."""
        refutation = self.refuted() if self.refuted else None
        if self.check is None:
            return StatementOutcome(self, refutation, None, None, 0)
        chosen = small_cases if self.check.small else cases
        return StatementOutcome(
            self, refutation, self.check.worst(chosen), self.check.worst(chosen, wrong=True), len(chosen)
        )


@dataclass(frozen=True)
class StatementOutcome:
    """What was measured about a statement.

    Attributes
    ----------
    statement : Statement
    refutation : Refutation or None
        Of the printed form.
    worst, wrong : Worst or None
        What the check found, and what it found for the wrong version.
    cases : int
        How many cases were tried.
    """

    statement: Statement
    refutation: Refutation | None
    worst: Worst | None
    wrong: Worst | None
    cases: int

    @property
    def verdict(self) -> Verdict:
        """The verdict, by these rules.

        Without a check that can be made: not testable, or fails if the printed form is refuted. If the check
        is exceeded anywhere, or the printed form refuted and nothing corrected: fails. Otherwise the
        statement holds, corrected if the check changes the printed form, as printed if not.
        """
        if self.worst is None or self.statement.check is None:
            return "fails" if self._is_refuted else "not testable"
        if self.worst.number > self.statement.check.limit:
            return "fails"
        if self._is_refuted and not self.statement.corrected:
            return "fails"
        return "holds corrected" if self.statement.corrected else "holds as printed"

    @property
    def _is_refuted(self) -> bool:
        return self.refutation is not None and self.refutation.found > self.refutation.promised

    @property
    def wrong_is_seen(self) -> bool:
        """Whether the wrong version was found to fail."""
        assert self.wrong is not None
        assert self.statement.check is not None
        return self.wrong.number > self.statement.check.limit


def missed(one: Floats | float, other: Floats | float) -> float:
    """Return by how much two sides differ, relative to the largest entry of either.

    Examples
    --------
    >>> missed(2.0, 1.0)
    0.5
    """
    left, right = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    largest = max(float(np.abs(left).max()), float(np.abs(right).max()), 1e-300)
    return float(np.abs(left - right).max()) / largest


def over(left: float, right: float) -> float:
    """Return a number that is at most 1 exactly if left <= right: their ratio, where both are positive.

    Examples
    --------
    >>> over(1.0, 2.0), over(-1.0, 0.0), over(1.0, 0.0), over(-1.0, -2.0)
    (0.5, 0.0, inf, 2.0)
    """
    if left <= 0.0 <= right:
        return 0.0
    if right > 0.0:
        return float(left / right)
    return float(right / left) if left < 0.0 else float("inf")
