"""Whether the identities behind the paper's proofs hold to rounding.

Over random chains and features: the mean of the update itself, by enumeration of all moves, against the forms
that the proofs work with.
"""

from __future__ import annotations

import numpy as np

from gainbias.experiments.claims.claim import Chart, Claim, Judgement, Line, at_most
from gainbias.experiments.claims.measuring import double_chain_field, mean_update, random_chain
from gainbias.experiments.statistics import Interval
from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats

IDENTITY_TOLERANCE = 1e-12
"""Identities hold if they are missed by no more than this, relative to their largest term."""

DIRICHLET = "Dirichlet form as a double sum"
SPLITTING = "mean update splits the gradient"
INNER = "inner product with theta - theta*"
SOLVED = "mean update at theta*"


def collect(seed: int, quick: bool) -> dict[str, list[float]]:
    """Return by how much identities are missed on random chains."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {DIRICHLET: [], SPLITTING: [], INNER: [], SOLVED: []}
    for _ in range(5 if quick else 100):
        for name, missed in _identities(rng).items():
            found[name].append(missed)
    return found


def _identities(rng: np.random.Generator) -> dict[str, float]:
    n = int(rng.integers(2, 9))
    d = int(rng.integers(1, n + 1))
    features = rng.normal(size=(n, d))
    problem = Problem(MarkovRewardProcess(random_chain(rng, n), rng.normal(size=n)), features)
    transitions, mu = problem.mrp.csr.toarray(), problem.solution.stationary
    drift = np.diag(mu) @ (np.eye(n) - transitions)
    matrix, force = mean_update(double_chain_field(), problem)
    f, x = rng.normal(size=n), rng.normal(size=d)
    total = 0.5 * (mu[:, None] * transitions * (f[:, None] - f[None, :]) ** 2).sum()
    gradient = features.T @ (drift + drift.T) @ features + 2.0 * np.outer(mu @ features, mu @ features)
    composite = 0.5 * (mu[:, None] * transitions * ((features @ x)[:, None] - features @ x) ** 2).sum()
    composite += (mu @ features @ x) ** 2
    update = matrix @ (problem.fixed_point + x) - force
    return {
        DIRICHLET: _missed(total, f @ drift @ f),
        SPLITTING: _missed(matrix + matrix.T, gradient),
        INNER: _missed(composite, x @ update),
        SOLVED: _missed(matrix @ problem.fixed_point, force),
    }


def _missed(one: Floats | float, other: Floats | float) -> float:
    return float(np.abs(np.asarray(one) - other).max() / max(np.abs(one).max(), np.abs(other).max(), 1e-300))


def judge(found: dict[str, list[float]]) -> Judgement:
    """Judge whether all identities hold to rounding."""
    # Identities are claimed for all chains, so the worst one decides.
    parts = tuple(
        at_most(name, Interval(*[max(missed)] * 3), IDENTITY_TOLERANCE) for name, missed in found.items()
    )
    worst = max(part.value for part in parts)
    count = len(next(iter(found.values())))
    reason = f"On {count} random chains no identity is missed by more than {worst:.1e} of its largest term."
    lines = tuple(
        Line(
            name, [k / len(missed) for k in range(1, len(missed) + 1)], sorted(max(m, 1e-18) for m in missed)
        )
        for name, missed in found.items()
    )
    chart = Chart("Random chains", "share of chains", "missed by, relative", lines, x_axis="linear")
    return Judgement(parts, reason, (chart,), {"chains": count})


CLAIM = Claim(
    id="splitting",
    text="The mean update of double-chain is a gradient splitting of |Phi x|_Dir^2 + (mu^T Phi x)^2, x = "
    "theta - theta*.",
    where="Proof idea; section on norms; equation of the fixed point",
    how="Mean update by enumeration of all moves on {chains} random chains of 2 to 8 states with random "
    "features.",
    interval="none: figures are the largest over all chains, and computed",
    collect=collect,
    judge=judge,
    findings=("finding-29",),
    said={"at most 1e-12": "0"},
)
