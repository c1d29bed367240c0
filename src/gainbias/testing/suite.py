"""The contract that every algorithm keeps: one table of checks, `CHECKS`, `check_algorithm`, and its report.

A check that does not apply is skipped, and one skipped check says little. But if *all* results of a check
are skipped, because the algorithm declares too little, a whole class of mistakes goes unnoticed. Each such
class is a `Power`, and `gaps` names those that are missing. Results, gaps and the `Report` on all of them
are at the end.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.testing import declared, dependence
from gainbias.testing.drive import FEATURE_KINDS, FEW, SEVERAL, Case, Skip, all_params, small_problem


@dataclass(frozen=True)
class Check:
    """A check, and the cases in which it is made.

    Attributes
    ----------
    function : callable (case) -> str
        Returns its figures, raises `Skip` if it does not apply, `AssertionError` if the algorithm is wrong.
    kinds : tuple of str
        Kinds of problems.
    num_states : int
        Their number of states.
    all_params : bool
        Whether parameters other than the defaults are tried too.
    """

    function: Callable[[Case], str]
    kinds: tuple[str, ...] = FEATURE_KINDS
    num_states: int = SEVERAL
    all_params: bool = False

    @property
    def name(self) -> str:
        """Name of the check."""
        return self.function.__name__

    def cases(self, algorithm: Algorithm) -> Iterator[Case]:
        """Iterate over the cases in which an algorithm is checked."""
        tried = all_params(algorithm)[: None if self.all_params else 1]
        for kind in ("tabular",) if algorithm.declared.tabular_only else self.kinds:
            for params in tried:
                yield Case(algorithm, kind, small_problem(kind, self.num_states), params)

    def result(self, case: Case) -> Result:
        """Return the result of the check in one case."""
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "[a-z-]+ needs features that do not span")
                detail = self.function(case)
        except Skip as reason:
            return Result(self.name, case.kind, case.changed, "skipped", str(reason))
        except AssertionError as failure:
            return Result(self.name, case.kind, case.changed, "failed", str(failure))
        except Exception as error:
            return Result(self.name, case.kind, case.changed, "failed", f"{type(error).__name__}: {error}")
        return Result(self.name, case.kind, case.changed, "passed", detail)


TWO = ("dense", "constants")

CHECKS = (
    Check(dependence.compiled_equals_python, all_params=True),
    Check(dependence.state_is_its_own, all_params=True),
    Check(dependence.cuts_change_no_bit),
    Check(dependence.threads_change_no_bit),
    Check(dependence.company_changes_no_bit),
    Check(dependence.seeds_decide),
    Check(dependence.averages_are_means),
    Check(declared.mean_field_is_true, num_states=FEW, all_params=True),
    Check(declared.sample_field_is_true, num_states=FEW, all_params=True),
    Check(declared.sample_field_has_the_mean_field, num_states=FEW, all_params=True),
    Check(declared.limit_solves_the_mean_field, num_states=FEW, all_params=True),
    Check(declared.limit_stays_without_noise, num_states=FEW, all_params=True),
    Check(declared.limit_attracts, num_states=FEW, all_params=True),
    Check(declared.runs_approach_the_limit, TWO, FEW),
    Check(declared.runs_end_at_the_limit, TWO, FEW),
    Check(declared.constants_do_what_is_declared, ("constants",), FEW),
    Check(declared.gain_is_learned, TWO, FEW),
    Check(declared.rate_holds, TWO, FEW),
    Check(dependence.shifted_rewards_keep_the_limit, num_states=FEW, all_params=True),
    Check(dependence.shifted_rewards_keep_the_path),
    Check(dependence.doubled_rewards_double_the_path, all_params=True),
    Check(dependence.names_of_states_do_not_matter, all_params=True),
    Check(dependence.kinds_of_features_agree, ("dense", "sparse", "tabular"), all_params=True),
    Check(dependence.parameters_matter, ("dense", "tabular")),
    Check(dependence.step_sizes_matter, ("dense", "tabular")),
    Check(dependence.only_touched_rows_change, all_params=True),
    Check(declared.moments_are_exact, TWO, FEW),
    Check(declared.paths_average_to_the_exact_mean, num_states=FEW, all_params=True),
    Check(declared.runs_average_to_the_mean_of_paths, num_states=FEW),
)
"""All checks, in the order in which they are made."""


def check_algorithm(algorithm: Algorithm | str, raises: bool = True) -> Report:
    """Check an algorithm, your own or one of this package, against everything it declares.

    Parameters
    ----------
    algorithm : Algorithm or str
        What is checked. A check that does not apply to what is declared is skipped, with its reason. So an
        algorithm that declares little is checked for little. At least its `limit` must be declared for a
        clean report: then long runs must end there, which finds mistakes of about a per cent.
    raises : bool
        Whether a failure is raised as an error that lists all failures.

    Returns
    -------
    Report
        The result of each check, on each small problem, for each setting of the parameters; what was not
        checked is in `Report.not_checked`.

    Raises
    ------
    AssertionError
        If a check fails and `raises` is true.

    Warns
    -----
    NotCheckedWarning
        If nothing failed, but too little is declared to tell a right algorithm from a wrong one: no limit,
        or no bounds of a parameter.

    Examples
    --------
    >>> import gainbias as gb
    >>> report = gb.testing.check_algorithm("double-chain")
    >>> print(report)
    double-chain: clean; ... passed, ... skipped, 0 failed
      compiled_equals_python                   4 passed
      ...
    """
    chosen = as_algorithm(algorithm)
    results = [check.result(case) for check in CHECKS for case in check.cases(chosen)]
    report = Report(chosen.name, tuple(results), gaps(chosen, results))
    if raises and report.failures:
        listed = "\n".join(map(str, [*report.failures, *report.not_checked]))
        raise AssertionError(f"{chosen.name} fails {len(report.failures)} checks:\n{listed}")
    if grave := [str(gap) for gap in report.not_checked if gap.grave]:
        warnings.warn(f"{chosen.name}: {'; '.join(grave)}", NotCheckedWarning, stacklevel=2)
    return report


@dataclass(frozen=True)
class Power:
    """A class of mistakes, and the checks that find it.

    Attributes
    ----------
    what : str
        What the checks are about.
    checks : tuple of str
        Their names; if none of them was made, it is not checked.
    unseen : str
        What goes unnoticed then, and what to declare.
    grave : bool
        Whether wrong algorithms pass then, so that a warning is given.
    """

    what: str
    checks: tuple[str, ...]
    unseen: str
    grave: bool = False


CHECKING_POWERS = (
    Power(
        "rate of convergence",
        ("rate_holds",),
        "it may be far slower than it should be; declare `rate`",
    ),
    Power(
        "single steps and moments",
        ("sample_field_is_true", "moments_are_exact", "paths_average_to_the_exact_mean"),
        "no single step is compared with a formula, and neither mean nor spread of its runs with exact ones; "
        "declare `sample_field` and `affine`",
    ),
    Power(
        "mean update",
        ("mean_field_is_true",),
        "runs show only mistakes that move the limit by a per cent or so; declare `mean_field`",
    ),
    Power(
        "convergence",
        ("runs_approach_the_limit",),
        "a wrong sign, a wrong discount or an old gain passes every other check; declare `limit`",
        grave=True,
    ),
)
"""What may remain unchecked, the most serious last."""


def gaps(algorithm: Algorithm, results: Sequence[Result]) -> tuple[NotChecked, ...]:
    """Return what was not checked, the most serious last.

    Parameters
    ----------
    algorithm : Algorithm
        What was checked.
    results : sequence of Result
        All results for it. Checks that are not among them were not asked for, and are no gap.

    Examples
    --------
    >>> import gainbias as gb
    >>> skipped = Result("rate_holds", "dense", {}, "skipped", "it declares no rate")
    >>> [str(gap) for gap in gaps(gb.ALGORITHMS["lstd"], [skipped])]
    ['rate of convergence NOT checked (it declares no rate): it may be far slower ...; declare `rate`']
    """
    found = []
    fixed = [name for name in algorithm.params._fields if name not in algorithm.bounds]
    if fixed and any(result.check == "parameters_matter" for result in results):
        found.append(
            NotChecked(
                f"parameters {', '.join(fixed)}",
                "it declares no bounds of them",
                "only their usual values were tried; declare `bounds`",
                grave=True,
            )
        )
    for power in CHECKING_POWERS:
        made = [result for result in results if result.check in power.checks]
        if made and all(result.outcome == "skipped" for result in made):
            reasons = dict.fromkeys(result.detail for result in made)
            found.append(NotChecked(power.what, "; ".join(reasons), power.unseen, power.grave))
    return tuple(found)


Outcome = Literal["passed", "skipped", "failed"]


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
    """A property that no check covered.

    Attributes
    ----------
    what : str
        What was not checked.
    why : str
        The reasons for which all checks of it were skipped.
    unseen : str
        What goes unnoticed, and what to declare.
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

    The first line says whether the report is clean, and names the properties that no check covered; the last
    lines explain these.

    Attributes
    ----------
    algorithm : str
        Its name.
    results : tuple of Result
    not_checked : tuple of NotChecked
        What was not checked because the algorithm declares too little, the most serious last.

    Examples
    --------
    >>> skipped = Result("rate_holds", "dense", {}, "skipped", "it declares no rate")
    >>> print(Report("my-td", (skipped,), (NotChecked("rate", "it declares no rate", "declare `rate`"),)))
    my-td: clean; rate NOT checked; 0 passed, 1 skipped, 0 failed
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
        """Whether nothing failed, and nothing was left unchecked that would let a wrong algorithm pass."""
        return not self.failures and not any(gap.grave for gap in self.not_checked)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.having(o))} {o}" for o in ("passed", "skipped", "failed"))
        missing = "".join(f"{gap.what} NOT checked; " for gap in reversed(self.not_checked))
        names = dict.fromkeys(result.check for result in self.results)
        judged = "clean" if self.is_clean else "not clean"
        lines = [f"{self.algorithm}: {judged}; {missing}{counts}", *(self._line(name) for name in names)]
        return "\n".join([*lines, *map(str, self.failures), *map(str, self.not_checked)])

    def _line(self, name: str) -> str:
        own = [result for result in self.results if result.check == name]
        counted = Counter(result.outcome for result in own)
        words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        reasons = dict.fromkeys(result.detail for result in own if result.outcome == "skipped")
        return f"  {name:<40} {words}" + (f" ({'; '.join(reasons)})" if reasons else "")
