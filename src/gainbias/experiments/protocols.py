"""How the paper's study is run: by its letter, by what fits its numbers, and fairly."""

from __future__ import annotations

from dataclasses import dataclass

from gainbias.engine.errors import Norm, Target
from gainbias.tasks.task import Protocol as ProtocolName

PAPER_ALGORITHMS = ("double-chain", "single-chain", "td-lambda", "implicit-td")
"""The four methods of the paper's table of distances; it calls the last two coupled SA and implicit."""


@dataclass(frozen=True)
class Protocol:
    """One way to run the study.

    Attributes
    ----------
    name : str
        Its id, which is also that of the features `task` makes for it.
    summary : str
        What is particular about it.
    algorithms : tuple of str
        Ids of the algorithms; least squares are the floor that others are seen against.
    runs : int
        Instances of each task; an instance has features, a policy and a sample path of its own.
    target : str
        What the paper's score is a distance to: the "bias", or the values of the "paper" fixed point.
    norms : tuple of str
        In which norms errors are stored.
    """

    name: ProtocolName
    summary: str
    algorithms: tuple[str, ...]
    runs: int
    target: Target
    norms: tuple[Norm, ...]


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "literal",
            "what the paper's text says: one scale for all features, distances to the bias, three runs",
            (*PAPER_ALGORITHMS, "lstd"),
            3,
            "bias",
            ("euclidean",),
        ),
        Protocol(
            "inferred",
            "what fits the paper's numbers best: each feature row scaled alone, distances to its fixed point",
            (*PAPER_ALGORITHMS, "lstd"),
            3,
            "paper",
            ("euclidean",),
        ),
        Protocol(
            "fair",
            "every method by every measure, budgets in transitions, many instances, least squares as floor",
            (*PAPER_ALGORITHMS, "relative-td", "lstd"),
            30,
            "bias",
            ("euclidean", "stationary"),
        ),
    )
}
"""The protocols by name."""
