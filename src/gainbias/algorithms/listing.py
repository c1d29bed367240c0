"""The algorithms as plain facts, for the command line and the documentation."""

from __future__ import annotations

import math
from typing import Any

from gainbias.algorithms.references import REFERENCES
from gainbias.algorithms.registry import ALGORITHMS


def describe_algorithms() -> list[dict[str, Any]]:
    """Return the facts of all registered algorithms.

    Examples
    --------
    >>> entry = describe_algorithms()[0]
    >>> entry["id"], entry["transitions_per_step"]
    ('double-chain', 2)
    """
    return [
        {
            "id": algorithm.name,
            "title": algorithm.title,
            "converges_to": algorithm.converges_to,
            "not_guaranteed": algorithm.not_guaranteed,
            "transitions_per_step": algorithm.chains,
            "parameters": {name: _plain(value) for name, value in algorithm.params._field_defaults.items()},
            "table_row": algorithm.table_row,
            "ours": algorithm.ours,
            "reconstructed": algorithm.reconstructed,
            "tabular_only": algorithm.tabular_only,
            "references": [REFERENCES[key] for key in algorithm.reference.split("; ")],
        }
        for algorithm in ALGORITHMS.values()
    ]


def _plain(number: float) -> float | str:
    """Return what JSON can hold."""
    return number if math.isfinite(number) else str(number)
