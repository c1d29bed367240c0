"""What a report on an algorithm does not say, because the algorithm declares too little.

A check that does not apply is skipped, and one skipped check says little. But where *all* results of a check
are skipped, a whole class of mistakes passes unseen. Each such class is named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gainbias.algorithms.algorithm import Algorithm
from gainbias.testing.report import NotChecked, Result


@dataclass(frozen=True)
class Power:
    """What some checks are good for, together.

    Attributes
    ----------
    what : str
        What they check.
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


POWERS = (
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
"""What there is to lose, the gravest last."""


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
    for power in POWERS:
        made = [result for result in results if result.check in power.checks]
        if made and all(result.outcome == "skipped" for result in made):
            reasons = dict.fromkeys(result.detail for result in made)
            found.append(NotChecked(power.what, "; ".join(reasons), power.unseen, power.grave))
    return tuple(found)
