"""Answers in a few plain numbers, ready for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.engine.trace import Trace
from gainbias.model.solution import Solution

EXTREMES = 3
"""How many of the lowest and highest biases are shown."""


def solution_summary(solution: Solution, seconds: float) -> dict[str, Any]:
    """Return gain, method, certificate and the extremes of the bias."""
    order = np.argsort(solution.bias, kind="stable")
    labels = solution.mrp.labels

    def entry(state: int) -> dict[str, Any]:
        name = {} if labels is None else {"label": str(labels[state])}
        return {"state": state, **name, "bias": float(solution.bias[state])}

    return {
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
    """Return gain and errors of each lane at the last checkpoint, beside the exact gain."""
    errors = {kind: trace.errors(kind)[:, -1] for kind in ("full", "centred", "quotient")}
    lanes = [
        {
            "seed": lane.seed,
            "step_size": str(lane.step_size),
            **lane.params,
            "outcome": outcome.status,
            "outcome_step": outcome.step,
            "gain": float(gain),
            **{f"error_{kind}": float(values[place]) for kind, values in errors.items()},
        }
        for place, (lane, outcome, gain) in enumerate(
            zip(trace.lanes, trace.outcomes, trace.gain[:, -1], strict=True)
        )
    ]
    return {
        "algorithm": trace.algorithm.name,
        **trace.settings,
        "transitions": int(trace.transitions[-1]),
        "exact_gain": trace.problem.solution.gain,
        "seconds": seconds,
        "lanes": lanes,
    }
