"""How errors are scored: as the paper does, and alike for all algorithms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

PAPER_METHODS = ("double-chain", "single-chain")
BASELINES = ("td-lambda", "implicit-td")
FLOOR = "lstd"
STUDIED = PAPER_METHODS + BASELINES
"""The four columns of the paper's table of distances."""


@dataclass(frozen=True)
class Score:
    """How errors are measured and when.

    Attributes
    ----------
    protocol : str
        "literal", "inferred" or "fair".
    kind : str
        "full", "centred", "quotient"; or "paper": "full" for the paper's two algorithms and least squares,
        "quotient" for all others.
    target : str
        "bias", "paper" (the paper's fixed point) or "own".
    budget : str
        "steps": each algorithm makes all its steps; "transitions": all stop after as many transitions as the
        one that uses fewest.
    norm : str
        "euclidean" or "stationary".

    Examples
    --------
    >>> score = Score("literal", kind="paper", target="bias")
    >>> score.kind_of("single-chain"), score.kind_of("td-lambda")
    ('full', 'quotient')
    """

    protocol: str
    kind: str
    target: str
    budget: Literal["steps", "transitions"] = "steps"
    norm: str = "euclidean"

    def kind_of(self, algorithm: str) -> str:
        """Return the kind of error that an algorithm is scored by."""
        if self.kind != "paper":
            return self.kind
        return "full" if algorithm in (*PAPER_METHODS, FLOOR) else "quotient"

    def but(self, **changes: Any) -> Score:
        """Return a score with other fields."""
        return replace(self, **changes)


PAPER_SCORES = {
    "literal": Score("literal", kind="paper", target="bias"),
    "inferred": Score("inferred", kind="paper", target="paper"),
}
"""How the paper scores, by its text and by its numbers."""

TABLE_SCORES = PAPER_SCORES | {"fair": PAPER_SCORES["literal"].but(protocol="fair")}
"""How the paper's tables are rebuilt: the fair protocol has the literal features, and many more instances."""

FAIR_SCORES = {
    f"fair, {kind}": Score("fair", kind=kind, target="bias", budget="transitions")
    for kind in ("full", "centred", "quotient")
}
"""One metric for all algorithms, at equal numbers of transitions."""
