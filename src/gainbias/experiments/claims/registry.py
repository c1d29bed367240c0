"""All claims, and how they are put to the test one after the other."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import gainbias
from gainbias.experiments.claims import (
    almost_sure,
    bound_holds,
    bridge,
    conditions,
    dimension,
    double_sampling,
    eta_order,
    one_limit,
    parity,
    rate,
    reward_estimate,
    splitting,
)
from gainbias.experiments.claims.claim import Claim, ClaimResult
from gainbias.experiments.engines import EngineName, check_choice, opened
from gainbias.experiments.provenance import Reach, code_of, hash_of, package_versions
from gainbias.experiments.results import Results
from gainbias.experiments.runner import complete, refuse_failures, refuse_outdated, show_labels
from gainbias.experiments.units import BATCH_SECONDS, Columns
from gainbias.extras import require
from gainbias.progress import Watch
from gainbias.suggest import known_names

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        eta_order.INDEPENDENT_CLAIM,
        eta_order.ALONG_CHAIN_CLAIM,
        eta_order.SINGLE_CLAIM,
        parity.ORDER_CLAIM,
        parity.ANSWER_CLAIM,
        bridge.CLAIM,
        rate.CLAIM,
        dimension.CLAIM,
        dimension.PROJECTED_CLAIM,
        one_limit.CLAIM,
        almost_sure.CLAIM,
        splitting.CLAIM,
        conditions.CLAIM,
        bound_holds.CLAIM,
        double_sampling.CLAIM,
        reward_estimate.CLAIM,
    )
}
"""The claims by id, in the order in which they are shown."""


@dataclass(frozen=True)
class ClaimUnit:
    """One claim, put to the test by one worker."""

    claim: str
    seed: int
    quick: bool
    code: str = ""

    seconds = BATCH_SECONDS  # one at a time
    lane_steps = 0

    def __post_init__(self) -> None:
        """Fill in the code, unless it is given."""
        object.__setattr__(self, "code", self.code or code_of(self.reach))

    @property
    def reach(self) -> Reach:
        """The module in which the claim is measured and judged."""
        return (CLAIMS[self.claim].collect.__module__,)

    @cached_property
    def id(self) -> str:
        """Hash of everything that determines the result, code and versions included."""
        return hash_of(asdict(self))

    @property
    def label(self) -> str:
        """The unit in a few words."""
        return f"claim {self.claim}"

    def compute(self) -> dict[str, Columns]:
        """Return the result as JSON, in a table of one cell."""
        result = CLAIMS[self.claim].measure(self.seed, self.quick)
        return {"claim": {"result": [json.dumps(result.to_dict())]}}


def check_claims(
    names: Iterable[str] | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str | None = None,
    wait: float | str | None = None,
    folder: Path | str | None = None,
    recompute: bool = False,
    command: str = "check_claims",
) -> list[ClaimResult]:
    """Put the paper's claims to the test.

    Parameters
    ----------
    names : iterable of str, optional
        Ids of claims, by default all.
    seed : int
        Of everything random; the same seed gives the same figures.
    quick : bool
        A small version, for a first look: its intervals are wide and some figures are missing. Its results
        say that they are one.
    engine, workers, address, wait
        Where they are measured, see `gainbias.sweep`.
    folder : path, optional
        Where finished claims are kept: those of the same code are not measured again. It is made if it does
        not exist.
    recompute : bool
        Whether finished claims may be measured again if their code or versions have changed.
    command : str
        What is recorded as the command that was typed.

    Examples
    --------
    >>> [result] = check_claims(["reward-estimate"], quick=True)
    >>> result.verdict, result.parts[0].name, round(result.parts[0].value, 3)
    ('holds', 'power of 1/T', 1.0)
    >>> result.quick, result.how[:90]
    (True, 'Quick look, not the full test: Exact variance and bias of the average along 4 random chain')
    """
    require("pyarrow")
    chosen = known_names(CLAIMS if names is None else names, CLAIMS, "claim")
    units = [ClaimUnit(name, seed, quick) for name in chosen]
    check_choice(engine, workers, address, wait)
    if engine == "local":
        workers = min(workers or os.cpu_count() or 1, len(units))
    with contextlib.ExitStack() as stack:
        results = Results(folder or stack.enter_context(tempfile.TemporaryDirectory()))
        refuse_outdated(units, results, recompute)
        watch = stack.enter_context(Watch())
        where = stack.enter_context(opened(engine, workers, address, wait=wait))
        with results.log:
            complete(units, results, where, lambda now: show_labels(watch, now, where.workers))
        refuse_failures(results, units)
        stored = [tables["claim"]["result"][0].as_py() for tables in results.stored_tables(units)]
    versions = {"gainbias": gainbias.__version__, **package_versions()}
    return [
        replace(ClaimResult.from_dict(json.loads(result)), command=command, versions=versions)
        for result in stored
    ]
