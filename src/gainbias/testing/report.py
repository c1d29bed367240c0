"""What checking an algorithm brought to light: comparisons of numbers, results, and the report on all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gainbias.types import Floats


def same_bits(found: Any, expected: Any, what: str) -> None:
    """Demand that two arrays have the same bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.tobytes() != expected.tobytes():
        raise AssertionError(f"{what}: not the same bits, {_difference(found, expected):.2e} apart")


def close(found: Any, expected: Any, tolerance: float, what: str) -> str:
    """Demand that two arrays agree, relative to the largest number or 1, and say how well they do."""
    found, expected = np.asarray(found), np.asarray(expected)
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    difference = _difference(found, expected) / size
    if not difference <= tolerance:
        raise AssertionError(f"{what}: {difference:.2e} apart, {tolerance:.0e} is allowed")
    return f"{what}: {difference:.1e} apart"


def within_errors(found: Floats, expected: Floats, error: Floats, what: str, most: float = 4.0) -> str:
    """Demand that means are within a few standard errors, and say how far the farthest one is.

    A number without any spread must be exact up to rounding.
    """
    room = most * error + 1e-12 * np.maximum(1.0, np.abs(expected))
    farthest = float((np.abs(found - expected) / room).max()) * most
    if not farthest <= most:
        raise AssertionError(f"{what}: {farthest:.1f} standard errors off, {most:g} are allowed")
    return f"{what}: at most {farthest:.1f} standard errors off"


def _difference(found: Any, expected: Any) -> float:
    if found.shape != expected.shape:
        return np.inf
    with np.errstate(invalid="ignore"):
        return float(np.abs(found - expected).max(initial=0.0))


Outcome = Literal["passed", "skipped", "failed"]


class Skip(Exception):
    """A check does not apply, for the reason given."""


@dataclass(frozen=True)
class Result:
    """What one check found on one problem with one setting of the parameters.

    Attributes
    ----------
    check : str
        Name of the check.
    problem : str
        Which of the small problems.
    params : mapping of str to float
        Parameters that differ from their defaults.
    outcome : {"passed", "skipped", "failed"}
    detail : str
        The figures, or the reason.

    Examples
    --------
    >>> print(Result("rate_holds", "dense", {"discount": 0.5}, "passed", "slope -1.01"))
    passed  rate_holds [dense, discount=0.5]: slope -1.01
    """

    check: str
    problem: str
    params: Mapping[str, float]
    outcome: Outcome
    detail: str

    @property
    def where(self) -> str:
        """Problem and parameters in words."""
        return ", ".join([self.problem, *(f"{name}={value:g}" for name, value in self.params.items())])

    def __str__(self) -> str:
        return f"{self.outcome:<7} {self.check} [{self.where}]: {self.detail}"


class NotCheckedWarning(UserWarning):
    """An algorithm declares so little that a wrong one would pass."""


@dataclass(frozen=True)
class NotChecked:
    """A property that no check looked at.

    Attributes
    ----------
    what : str
        What was not checked.
    why : str
        The reasons for which all checks of it were skipped.
    unseen : str
        What passes unseen, and what to declare.
    grave : bool
        Whether plainly wrong algorithms pass.

    Examples
    --------
    >>> print(NotChecked("convergence", "it declares no limit", "a wrong sign passes; declare `limit`"))
    convergence NOT checked (it declares no limit): a wrong sign passes; declare `limit`
    """

    what: str
    why: str
    unseen: str
    grave: bool = False

    def __str__(self) -> str:
        return f"{self.what} NOT checked ({self.why}): {self.unseen}"


@dataclass(frozen=True)
class Report:
    """All results for one algorithm; printing it shows every failure, and a line for each check.

    What no check looked at is named in the first line and explained in the last ones.

    Attributes
    ----------
    algorithm : str
        Its name.
    results : tuple of Result
    not_checked : tuple of NotChecked
        What was not checked because the algorithm declares too little, the gravest last.

    Examples
    --------
    >>> skipped = Result("rate_holds", "dense", {}, "skipped", "it declares no rate")
    >>> print(Report("my-td", (skipped,), (NotChecked("rate", "it declares no rate", "declare `rate`"),)))
    my-td: rate NOT checked; 0 passed, 1 skipped, 0 failed
      rate_holds                               1 skipped (it declares no rate)
    rate NOT checked (it declares no rate): declare `rate`
    """

    algorithm: str
    results: tuple[Result, ...]
    not_checked: tuple[NotChecked, ...] = ()

    def having(self, outcome: Outcome) -> list[Result]:
        """Return the results with an outcome."""
        return [result for result in self.results if result.outcome == outcome]

    @property
    def failures(self) -> list[Result]:
        """Return the results that failed."""
        return self.having("failed")

    @property
    def convergence_checked(self) -> bool:
        """Whether any run was compared with a declared limit."""
        return not any(gap.what == "convergence" for gap in self.not_checked)

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed, and nothing was left unchecked with which a wrong algorithm passes."""
        return not self.failures and not any(gap.grave for gap in self.not_checked)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.having(o))} {o}" for o in ("passed", "skipped", "failed"))
        missing = "".join(f"{gap.what} NOT checked; " for gap in reversed(self.not_checked))
        names = dict.fromkeys(result.check for result in self.results)
        lines = [f"{self.algorithm}: {missing}{counts}", *(self._line(name) for name in names)]
        return "\n".join([*lines, *map(str, self.failures), *map(str, self.not_checked)])

    def _line(self, name: str) -> str:
        own = [result for result in self.results if result.check == name]
        counted = Counter(result.outcome for result in own)
        words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        reasons = dict.fromkeys(result.detail for result in own if result.outcome == "skipped")
        return f"  {name:<40} {words}" + (f" ({'; '.join(reasons)})" if reasons else "")
