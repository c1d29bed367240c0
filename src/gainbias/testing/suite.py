"""The contract that every algorithm keeps: one table of checks, `CHECKS`, and `check_algorithm`.

A check that does not apply is skipped, and one skipped check says little. But where *all* results of a check
are skipped, because the algorithm declares too little, a whole class of mistakes passes unseen. Each such
class is a `Power`, and `gaps` names those that are missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gainbias.algorithms.algorithm import Algorithm
from gainbias.algorithms.registry import as_algorithm
from gainbias.testing import fields, invariance, limits, reproducible
from gainbias.testing.drive import FEATURE_KINDS, FEW, SEVERAL, Case, all_params, small_problem
from gainbias.testing.report import NotChecked, NotCheckedWarning, Report, Result, Skip


@dataclass(frozen=True)
class Check:
    """A check, and where it is made.

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
    Check(reproducible.compiled_equals_python, all_params=True),
    Check(reproducible.state_is_its_own, all_params=True),
    Check(reproducible.cuts_change_no_bit),
    Check(reproducible.threads_change_no_bit),
    Check(reproducible.company_changes_no_bit),
    Check(reproducible.seeds_decide),
    Check(reproducible.averages_are_means),
    Check(fields.mean_field_is_true, num_states=FEW, all_params=True),
    Check(fields.sample_field_is_true, num_states=FEW, all_params=True),
    Check(fields.sample_field_has_the_mean_field, num_states=FEW, all_params=True),
    Check(limits.limit_solves_the_mean_field, num_states=FEW, all_params=True),
    Check(limits.limit_stays_without_noise, num_states=FEW, all_params=True),
    Check(limits.limit_attracts, num_states=FEW, all_params=True),
    Check(limits.runs_approach_the_limit, TWO, FEW),
    Check(limits.constants_do_what_is_declared, ("constants",), FEW),
    Check(limits.gain_is_learned, TWO, FEW),
    Check(limits.rate_holds, TWO, FEW),
    Check(invariance.shifted_rewards_keep_the_limit, num_states=FEW, all_params=True),
    Check(invariance.shifted_rewards_keep_the_path),
    Check(invariance.doubled_rewards_double_the_path, all_params=True),
    Check(invariance.names_of_states_do_not_matter, all_params=True),
    Check(invariance.kinds_of_features_agree, ("dense", "sparse", "tabular"), all_params=True),
    Check(invariance.parameters_matter, ("dense", "tabular")),
    Check(invariance.step_sizes_matter, ("dense", "tabular")),
    Check(invariance.only_touched_rows_change, all_params=True),
    Check(limits.moments_are_exact, TWO, FEW),
    Check(limits.paths_average_to_the_exact_mean, num_states=FEW, all_params=True),
    Check(limits.runs_average_to_the_mean_of_paths, num_states=FEW),
)
"""All checks, in the order in which they are made."""


def check_algorithm(algorithm: Algorithm | str, raises: bool = True) -> Report:
    """Check an algorithm, your own or one of this package, against everything it declares.

    Parameters
    ----------
    algorithm : Algorithm or str
        What is checked. A check that does not apply to what is declared is skipped, with its reason. So an
        algorithm that declares little is checked for little: at least its `limit` should be declared.
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
    double-chain: ... passed, ... skipped, 0 failed
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
        What passes unseen then, and what to declare.
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
        "no mean step is compared with a formula, nor the limit with its solution; declare `mean_field`",
    ),
    Power(
        "convergence",
        ("runs_approach_the_limit",),
        "a wrong sign, a wrong discount or an old gain passes every other check; declare `limit`",
        grave=True,
    ),
)
"""What may stay unchecked, the gravest last."""


def gaps(algorithm: Algorithm, results: Sequence[Result]) -> tuple[NotChecked, ...]:
    """Return what was not checked, the gravest last.

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
