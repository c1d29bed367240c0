"""What checking an algorithm brought to light."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True)
class Report:
    """All results for one algorithm; printing it shows every failure, and a line for each check.

    Attributes
    ----------
    algorithm : str
        Its name.
    results : tuple of Result

    Examples
    --------
    >>> skipped = Result("rate_holds", "dense", {}, "skipped", "it declares no rate")
    >>> print(Report("my-td", (skipped,)))
    my-td: 0 passed, 1 skipped, 0 failed
      rate_holds                               1 skipped (it declares no rate)
    """

    algorithm: str
    results: tuple[Result, ...]

    def having(self, outcome: Outcome) -> list[Result]:
        """Return the results with an outcome."""
        return [result for result in self.results if result.outcome == outcome]

    @property
    def failures(self) -> list[Result]:
        """Return the results that failed."""
        return self.having("failed")

    def __str__(self) -> str:
        counts = [f"{len(self.having(o))} {o}" for o in ("passed", "skipped", "failed")]
        names = dict.fromkeys(result.check for result in self.results)
        lines = [f"{self.algorithm}: {', '.join(counts)}", *(self._line(name) for name in names)]
        return "\n".join([*lines, *map(str, self.failures)])

    def _line(self, name: str) -> str:
        own = [result for result in self.results if result.check == name]
        counted = Counter(result.outcome for result in own)
        words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        reasons = dict.fromkeys(result.detail for result in own if result.outcome == "skipped")
        return f"  {name:<40} {words}" + (f" ({'; '.join(reasons)})" if reasons else "")
