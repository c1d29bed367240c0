"""Answers in a few plain numbers, ready for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.engine.trace import Trace
from gainbias.model.solve.solution import Solution

EXTREMES = 3
"""How many of the lowest and highest biases are shown."""


def solution_summary(solution: Solution, seconds: float, subject: str) -> dict[str, Any]:
    """Return what was solved, gain, method, certificate and the extremes of the bias."""
    order = np.argsort(solution.bias, kind="stable")
    labels = solution.mrp.labels

    def entry(state: int) -> dict[str, Any]:
        name = {} if labels is None else {"label": str(labels[state])}
        return {"state": state, **name, "bias": float(solution.bias[state])}

    return {
        "subject": subject,
        "gain": solution.gain,
        "method": solution.method,
        "error_bound": solution.error_bound,
        "residual": solution.residual,
        "iterations": solution.iterations,
        "num_states": solution.mrp.num_states,
        "seconds": seconds,
        "fingerprint": solution.mrp.fingerprint,
        "notes": list(solution.notes),
        "lowest_bias": [entry(int(state)) for state in order[:EXTREMES]],
        "highest_bias": [entry(int(state)) for state in order[::-1][:EXTREMES]],
    }


def trace_summary(trace: Trace, seconds: float) -> dict[str, Any]:
    """Return gain and errors of each lane at the last checkpoint it reached, beside the exact answer."""
    errors = {kind: trace.errors(kind) for kind in ("full", "centred", "quotient")}
    reached = [_last_reached(trace, place) for place in range(len(trace.lanes))]
    bias = trace.problem.solution.bias
    lanes = [
        {
            "seed": lane.seed,
            "step_size": "none" if trace.algorithm.step_free else str(lane.step_size),
            **lane.params,
            "outcome": outcome.status,
            "outcome_step": outcome.step,
            "checkpoint": int(trace.steps[last]) if trace.steps[last] <= outcome.step else None,
            "gain": float(trace.gain[place, last]),
            **{f"error_{kind}": float(values[place, last]) for kind, values in errors.items()},
        }
        for place, (lane, outcome, last) in enumerate(zip(trace.lanes, trace.outcomes, reached, strict=True))
    ]
    made = max(outcome.step for outcome in trace.outcomes)
    is_cut = any(outcome.status == "interrupted" for outcome in trace.outcomes)
    steps_made = made if is_cut else int(trace.steps[-1])
    return {
        "algorithm": trace.algorithm.name,
        **trace.settings,
        "steps_made": steps_made,
        "transitions": steps_made * trace.algorithm.chains,
        "exact_gain": trace.problem.solution.gain,
        "exact_values": {"lowest": float(bias.min()), "highest": float(bias.max())},
        "bias_norm": float(np.linalg.norm(bias)),
        "seconds": seconds,
        "lanes": lanes,
    }


def _last_reached(trace: Trace, place: int) -> int:
    """Return the last checkpoint; for a lane that was interrupted, the last one before that."""
    if trace.outcomes[place].status != "interrupted":
        return len(trace.steps) - 1
    reached = np.flatnonzero(trace.steps <= trace.outcomes[place].step)
    return int(reached[-1]) if reached.size else 0
