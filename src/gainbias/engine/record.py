"""What is written down at checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from gainbias.algorithms.algorithm import Output
from gainbias.engine.errors import Kind, Norm, Scale, Target
from gainbias.engine.lanes import Lane
from gainbias.features.rows import Floats

if TYPE_CHECKING:
    from gainbias.engine.work import Plan

Keep = Literal["weights", "errors"] | Sequence[int]

MOST_BYTES = 4 * 2**30
"""Weights of all checkpoints may take so much memory."""


class Record:
    """Room for the checkpoints of all lanes; threads write into different parts of it.

    Parameters
    ----------
    plan : Plan
        What is run.
    lanes : list of Lane
        All lanes.
    keep : {"weights", "errors"} or sequence of int
        What to keep at every checkpoint.
    """

    def __init__(self, plan: Plan, lanes: list[Lane], keep: Keep) -> None:
        count, checkpoints, d = len(lanes), len(plan.checkpoints), plan.problem.num_features
        every = isinstance(keep, str) and keep == "weights"
        if isinstance(keep, str) and keep not in ("weights", "errors"):
            raise ValueError(f"keep must be 'weights', 'errors' or a list of states, found {keep!r}")
        if every and 8 * count * checkpoints * d > MOST_BYTES:
            raise ValueError(
                f"the weights of {count} lanes at {checkpoints} checkpoints with {d} features would take "
                f"{8 * count * checkpoints * d / 2**30:.1f} GB: use keep='errors', keep=[some states], or "
                "fewer checkpoints"
            )
        self.kept = np.arange(checkpoints) if every else np.array([checkpoints - 1])
        self.weights = np.full((count, len(self.kept), d), np.nan)
        self.gain = np.full((count, checkpoints), np.nan)
        self.diverged: dict[int, int] = {}
        self.values: Floats | None = None
        self.errors: dict[tuple[str, ...], Floats] = {}
        self._every = every
        self._plan = plan
        if isinstance(keep, str) and keep == "errors":
            self._prepare_errors(lanes, checkpoints)
        elif not isinstance(keep, str):
            self._prepare_values(keep, count, checkpoints)

    def put(self, places: list[int], checkpoint: int, output: Output) -> None:
        """Write down the output of some lanes at a checkpoint."""
        assert output.gain is not None
        together = places[-1] - places[0] == len(places) - 1
        rows: Any = slice(places[0], places[-1] + 1) if together else places
        self.gain[rows, checkpoint] = output.gain
        self.weights[rows, checkpoint if self._every else 0] = output.weights.T
        if self.values is not None:
            values = self._plan.problem.features.combine(output.weights)
            self.values[rows, checkpoint] = values[self._states].T
        for key, errors in self.errors.items():
            for k, place in enumerate(places):
                row = output.weights[None, :, k]
                errors[place, checkpoint] = self._scales[place].errors(row, *key)[0]  # type: ignore[arg-type]

    def _prepare_errors(self, lanes: list[Lane], checkpoints: int) -> None:
        plan, algorithm = self._plan, self._plan.algorithm
        self._scales = [
            Scale(algorithm, plan.problem, algorithm.params(**lane.params), plan.first_weights)
            for lane in lanes
        ]
        for kind in get_args(Kind):
            for target in get_args(Target)[:2]:
                for norm in get_args(Norm):
                    self.errors[kind, target, norm, "values"] = np.full((len(lanes), checkpoints), np.nan)

    def _prepare_values(self, states: Sequence[int], count: int, checkpoints: int) -> None:
        n = self._plan.problem.mrp.num_states
        self._states = np.asarray(states)
        if self._states.ndim != 1 or self._states.dtype.kind not in "iu" or self._states.size == 0:
            raise ValueError(f"keep must be 'weights', 'errors' or a list of states, found {states!r}")
        if not (self._states.min() >= 0 and self._states.max() < n):
            raise ValueError(f"states to keep must be from 0 to {n - 1}, found {states!r}")
        self.values = np.full((count, checkpoints, len(self._states)), np.nan)
