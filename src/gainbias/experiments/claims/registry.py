"""All claims, and how they are put to the test one after the other."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gainbias.experiments.claims import (
    bound_holds,
    conditions,
    dimension,
    double_sampling,
    eta_order,
    eta_order_markov,
    one_limit,
    rate,
    reward_estimate,
    splitting,
)
from gainbias.experiments.claims.record import Claim, ClaimResult
from gainbias.progress import Watch

CLAIMS: dict[str, Claim] = {
    module.CLAIM.id: module.CLAIM
    for module in (
        eta_order,
        eta_order_markov,
        rate,
        dimension,
        one_limit,
        splitting,
        conditions,
        bound_holds,
        double_sampling,
        reward_estimate,
    )
}
"""The claims by id, in the order in which they are shown."""


def check_claims(
    names: Iterable[str] | None = None, *, seed: int = 0, quick: bool = False
) -> list[ClaimResult]:
    """Put the paper's claims to the test.

    Parameters
    ----------
    names : iterable of str, optional
        Ids of claims, by default all.
    seed : int
        Of everything random; the same seed gives the same figures.
    quick : bool
        A small version, for a first look: its intervals are wide and some figures are missing.

    Examples
    --------
    >>> [result] = check_claims(["reward-estimate"], quick=True)
    >>> result.verdict, result.parts[0].name, round(result.parts[0].value, 3)
    ('holds', 'power of 1/T', 1.0)
    """
    chosen = list(CLAIMS) if names is None else [_known(name) for name in names]
    results = []
    with Watch() as watch:
        for number, name in enumerate(chosen):
            watch.show(f"claim {number + 1} of {len(chosen)}: {name}", number, len(chosen))
            results.append(CLAIMS[name].measure(seed, quick))
    return results


def _known(name: str) -> str:
    if name not in CLAIMS:
        near = difflib.get_close_matches(name, CLAIMS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(CLAIMS)}"
        raise ValueError(f"unknown claim {name!r}: {hint}")
    return name
