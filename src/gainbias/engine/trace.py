"""`Trace`, what a run returns: checkpoints of all lanes, and how far each is from a target.

`Scale` measures errors, given the target, the space, the norm, and what is ignored, such as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.lanes import Lane
from gainbias.model.problem import Problem
from gainbias.notebook import Card, InNotebooks
from gainbias.store import plain
from gainbias.types import Floats, Ints

Kind = Literal["full", "centred", "quotient"]
Target = Literal["bias", "paper", "own"]
Norm = Literal["euclidean", "stationary"]
Space = Literal["values", "weights"]

VALUE_BLOCK_BYTES = 64 * 2**20
"""Values of all states for several weights at once stay below this size."""


class Scale:
    """A measure of the errors of one algorithm's weights on one problem.

    Parameters
    ----------
    algorithm, problem
        The algorithm to judge, and the problem.
    params : NamedTuple of float
        Parameters, on which the limit may depend.
    first : (d,) array
        First weights, on which the limit may depend.

    Examples
    --------
    >>> import gainbias as gb
    >>> from gainbias.algorithms.registry import ALGORITHMS
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> problem = gb.Problem(mrp, gb.Tabular())
    >>> scale = Scale(ALGORITHMS["double-chain"], problem, (), np.zeros(2))
    >>> scale.errors(problem.solution.bias[None] + 3.0, "full", "bias", norm="stationary").round(6)
    array([3.])
    """

    def __init__(self, algorithm: Algorithm, problem: Problem, params: object, first: Floats) -> None:
        self.algorithm, self.problem, self.params, self.first = algorithm, problem, params, first

    def errors(
        self,
        weights: Floats,
        kind: Kind = "full",
        target: Target = "bias",
        norm: Norm = "euclidean",
        space: Space = "values",
    ) -> Floats:
        """Return the error of each row of weights, (m, d): shape (m,), infinite where they are not finite."""
        self._check(kind, target, norm, space)
        finite = np.isfinite(weights).all(axis=1)
        errors = np.full(len(weights), np.inf)
        if space == "weights":
            errors[finite] = self._in_weights(weights[finite], kind, target)
        else:
            errors[finite] = self._in_values(weights[finite], kind, target, norm)
        return errors

    def form(self, kind: Kind = "full", norm: Norm = "euclidean", space: Space = "values") -> Floats:
        """Return K, (d, d): weights that are v away from a target have the squared error v^T K v."""
        if norm not in ("euclidean", "stationary"):
            raise ValueError(f"the {norm} norm is not a quadratic form, so there is no exact curve")
        mu, ones, d = self.problem.solution.stationary, self.problem.ones_weights, self.problem.num_features
        if space == "weights":
            keep = np.eye(d)
            if ones is not None and kind != "full":
                mean = ones / (ones @ ones) if kind == "quotient" else self.problem.features.adjoint(mu)
                keep -= np.outer(ones, mean)
            return np.asarray(keep.T @ keep)
        values = self.problem.features.combine(np.eye(d))
        if kind != "full":
            values = values - (mu @ values if kind == "centred" else values.mean(axis=0))
        return np.asarray((values.T * mu if norm == "stationary" else values.T) @ values)

    def at_the_limit(self, kind: Kind = "full", norm: Norm = "euclidean") -> float:
        """Return the error of the limit itself against the bias; nan if no limit, or only a line, is stated.

        With average rewards it is what the features cannot express; with a discount, also what that changes.

        Examples
        --------
        >>> import gainbias as gb
        >>> from gainbias.algorithms.registry import ALGORITHMS
        >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
        >>> problem = gb.Problem(mrp, [[1.0], [0.0]])
        >>> round(Scale(ALGORITHMS["double-chain"], problem, (), np.zeros(1)).at_the_limit(), 6)
        0.288893
        """
        try:
            self._check(kind, "own", norm, "values")
            limit = self._limit
        except ValueError:
            return float("nan")
        return float(self.errors(limit[None], kind, "bias", norm)[0])

    def _in_values(self, weights: Floats, kind: Kind, target: Target, norm: Norm) -> Floats:
        aim, mu = self._target_values(target), self.problem.solution.stationary
        errors = np.empty(len(weights))
        height = max(1, VALUE_BLOCK_BYTES // (8 * len(aim)))
        with np.errstate(over="ignore"):
            for start in range(0, len(weights), height):
                block = slice(start, start + height)
                missed = self.problem.features.combine(weights[block].T) - aim[:, None]
                if kind == "centred":
                    missed -= mu @ missed
                elif kind == "quotient":
                    missed -= missed.mean(axis=0)
                squares = mu @ missed**2 if norm == "stationary" else (missed**2).sum(axis=0)
                errors[block] = np.sqrt(squares)
        return errors

    def _in_weights(self, weights: Floats, kind: Kind, target: Target) -> Floats:
        missed = weights - (self.problem.fixed_point if target == "paper" else self._limit)
        ones = self.problem.ones_weights
        with np.errstate(over="ignore"):
            if ones is not None and kind == "quotient":
                missed = missed - np.outer(missed @ ones, ones) / (ones @ ones)
            elif ones is not None and kind == "centred":
                mean = self.problem.features.adjoint(self.problem.solution.stationary)
                missed = missed - np.outer(missed @ mean, ones)
            return np.asarray(np.sqrt((missed**2).sum(axis=1)))

    def _target_values(self, target: Target) -> Floats:
        if target == "bias":
            return self.problem.solution.bias
        return self.problem.values if target == "paper" else self._limit_values

    @cached_property
    def _limit_values(self) -> Floats:
        return self.problem.features.combine(self._limit)

    @cached_property
    def _limit(self) -> Floats:
        if self.algorithm.declared.limit is None:
            raise ValueError(f"{self.algorithm.name} states no limit: use target='bias' or 'paper'")
        limit = self.algorithm.declared.limit(self.problem, self.params, self.first)
        if limit is None:
            raise ValueError(
                f"{self.algorithm.name} states no limit for {self.params}: use target='bias' or 'paper'"
            )
        return limit

    def _check(self, kind: Kind, target: Target, norm: Norm, space: Space) -> None:
        for name, value, allowed in (
            ("kind", kind, Kind),
            ("target", target, Target),
            ("norm", norm, Norm),
            ("space", space, Space),
        ):
            if value not in get_args(allowed):
                raise ValueError(f"{name} must be one of {', '.join(get_args(allowed))}, found {value!r}")
        if space == "weights" and target == "bias":
            raise ValueError("the bias is a value of each state, not weights: use target='paper' or 'own'")
        if space == "weights" and norm != "euclidean":
            raise ValueError(f"the {norm} norm is one of values: use norm='euclidean' for weights")
        on_a_line = self.algorithm.declared.limit_is_line and self.problem.ones_in_span
        if target == "own" and on_a_line and kind == "full":
            raise ValueError(
                f"the limit of {self.algorithm.name} on these features, which span the constants, is known "
                "up to a constant only: use kind='quotient' or 'centred'"
            )


@dataclass(frozen=True)
class Outcome(InNotebooks):
    """How a lane ended: "finished", "diverged" or "interrupted", and after how many steps.

    Examples
    --------
    >>> Outcome("diverged", step=12)
    Outcome(status='diverged', step=12)
    """

    status: str
    step: int


@dataclass(frozen=True, eq=False, repr=False)
class Trace(InNotebooks):
    """What a run returns: checkpoints of all its lanes.

    Attributes
    ----------
    algorithm : Algorithm
    problem : Problem
    lanes : sequence of Lane
        Seed, step sizes and parameters of each lane.
    steps : (checkpoints,) int array
        Number of steps taken at each checkpoint.
    kept : (kept checkpoints,) int array
        Which checkpoints the weights were kept of: all, or the last one.
    weights : (lanes, kept checkpoints, d) array
        Not finite from where a lane diverged, or was interrupted.
    values : (lanes, checkpoints, states) array or None
        Values of the states that the run was asked to keep.
    gain : (lanes, checkpoints) array
        Estimates of the gain: the method's own, or the running mean of the rewards; per unit of time for
        processes made by `from_rates`.
    outcomes : list of Outcome
    first_weights : (d,) array
        Weights before the first step.
    settings : dict
        How the run was made, for the record.

    Examples
    --------
    >>> import gainbias as gb
    >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
    >>> problem = gb.Problem(mrp, gb.Tabular())
    >>> trace = gb.run("double-chain", problem, 1000, [0.1, 0.2], checkpoints=[10, 100, 1000])
    >>> trace.weights.shape, trace.steps.tolist(), trace.transitions.tolist()
    ((2, 3, 2), [10, 100, 1000], [20, 200, 2000])
    """

    algorithm: Algorithm
    problem: Problem
    lanes: Sequence[Lane]
    steps: Ints
    kept: Ints
    weights: Floats
    values: Floats | None
    gain: Floats
    outcomes: list[Outcome]
    first_weights: Floats
    stored_errors: dict[tuple[str, ...], Floats] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def transitions(self) -> Ints:
        """Number of transitions used at each checkpoint, (checkpoints,)."""
        return self.steps * self.algorithm.chains

    def errors(
        self,
        kind: Kind = "full",
        *,
        target: Target = "bias",
        norm: Norm = "euclidean",
        space: Space = "values",
    ) -> Floats:
        """Return the error of each lane at each checkpoint, (lanes, checkpoints).

        Parameters
        ----------
        kind : {"full", "centred", "quotient"}
            The whole difference; or the difference less its stationary mean; or less its plain mean.
        target : {"bias", "paper", "own"}
            The exact bias, the paper's fixed point, or the algorithm's own limit.
        norm : {"euclidean", "stationary"}
            Plain, or weighted by the stationary law.
        space : {"values", "weights"}
            Differences of the values of all states, or of the weights. In the space of weights "quotient"
            removes the component along the weights of the constant 1.

        Returns
        -------
        (lanes, checkpoints) array
            Infinite from where a lane diverged, NaN where it was interrupted before.

        Examples
        --------
        >>> import gainbias as gb
        >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
        >>> trace = gb.run("double-chain", gb.Problem(mrp, gb.Tabular()), num_steps=1000, step_size=0.1)
        >>> trace.errors("centred", norm="stationary").shape == (1, len(trace.steps))
        True
        """
        key = (kind, target, norm, space)
        if key in self.stored_errors:
            return self.stored_errors[key]
        if len(self.kept) < len(self.steps):
            raise ValueError(
                f"this run kept only the weights of its last checkpoint, and not {key}: run it with "
                "checkpoints=gb.Checkpoints(keep='weights'), or with keep='errors' for the usual errors"
            )
        errors = np.empty((len(self.lanes), len(self.steps)))
        for i, lane in enumerate(self.lanes):
            errors[i] = self._scale(lane).errors(self.weights[i], *key)
        return self._without_missing(errors)

    def errors_at_limits(self, kind: Kind = "full", norm: Norm = "euclidean") -> Floats:
        """Return the error against the bias at which each lane ends, (lanes,); nan where no limit is stated.

        With average rewards it is what the features cannot express.

        Parameters
        ----------
        kind, norm
            As for `errors`.

        Examples
        --------
        >>> import gainbias as gb
        >>> mrp = gb.MarkovRewardProcess([[0.1, 0.9], [0.9, 0.1]], [1.0, 0.0])
        >>> trace = gb.run("double-chain", gb.Problem(mrp, [[1.0], [0.0]]), 1_000, [0.01, 0.1])
        >>> trace.errors_at_limits("centred").round(4)
        array([0.1403, 0.1403])
        """
        return np.array([self._scale(lane).at_the_limit(kind, norm) for lane in self.lanes])

    def part(self, first: int, last: int) -> Trace:
        """Return the trace of the lanes from number `first` to ``last - 1``."""
        own = slice(first, last)
        return replace(
            self,
            lanes=self.lanes[own],
            weights=self.weights[own],
            values=None if self.values is None else self.values[own],
            gain=self.gain[own],
            outcomes=self.outcomes[own],
            stored_errors={key: errors[own] for key, errors in self.stored_errors.items()},
        )

    def params(self, lane: Lane) -> Any:
        """Return the parameters of a lane as the algorithm's NamedTuple."""
        return self.algorithm.params(**lane.params)

    def _scale(self, lane: Lane) -> Scale:
        """Return the scale for a lane's parameters, made once: a limit may take long to compute."""
        params = self.params(lane)
        if self.settings.get("sampling") == "iid" and "trace_decay" in lane.params:
            # Transitions that do not follow each other leave no trace.
            params = params._replace(trace_decay=0.0)
        if params not in self._scales:
            self._scales[params] = Scale(self.algorithm, self.problem, params, self.first_weights)
        return self._scales[params]

    @cached_property
    def _scales(self) -> dict[Any, Scale]:
        return {}

    def _without_missing(self, errors: Floats) -> Floats:
        for i, outcome in enumerate(self.outcomes):
            if outcome.status == "interrupted":
                errors[i, self.steps > outcome.step] = np.nan
        return errors

    def to_dict(self) -> dict[str, Any]:
        """Return what can be written as JSON: settings, lanes, checkpoints, gains, outcomes, last weights.

        The weights are those of the last checkpoint at which they are finite.
        """
        return {
            "algorithm": self.algorithm.name,
            **self.settings,
            "steps": self.steps.tolist(),
            "transitions": self.transitions.tolist(),
            "lanes": [
                {
                    "seed": lane.seed,
                    "step_size": str(lane.step_size),
                    "params": dict(lane.params),
                    "outcome": outcome.status,
                    "outcome_step": outcome.step,
                    "gain": plain(gain.tolist()),
                    "weights": plain(weights.tolist()),
                }
                for lane, outcome, gain, weights in zip(
                    self.lanes, self.outcomes, self.gain, self._last_weights(), strict=True
                )
            ],
        }

    def _last_weights(self) -> list[Floats]:
        """Return for each lane the last finite weights that were reached, or else the very last."""
        chosen = []
        for weights in self.weights:
            reached = np.flatnonzero(np.isfinite(weights).all(axis=1))
            chosen.append(weights[reached[-1] if reached.size else -1])
        return chosen

    def to_frame(self) -> Any:
        """Return a tidy pandas table: a row for each lane and checkpoint, with errors against the bias.

        Needs pandas (``pip install 'gainbias[data]'``).
        """
        import pandas

        count = len(self.steps)

        def spread(of: Callable[[Lane, Outcome], Any]) -> list[Any]:
            pairs = zip(self.lanes, self.outcomes, strict=True)
            return [value for lane, outcome in pairs for value in [of(lane, outcome)] * count]

        columns: dict[str, Any] = {
            "algorithm": self.algorithm.name,
            "lane": np.repeat(np.arange(len(self.lanes)), count),
            "seed": spread(lambda lane, _: lane.seed),
            "step_size": spread(lambda lane, _: str(lane.step_size)),
        }
        for name in self.algorithm.params._fields:
            columns[name] = np.repeat([lane.params[name] for lane in self.lanes], count)
        columns["outcome"] = spread(lambda _, outcome: outcome.status)
        columns["step"] = np.tile(self.steps, len(self.lanes))
        columns["transitions"] = np.tile(self.transitions, len(self.lanes))
        columns["gain"] = self.gain.ravel()
        if len(self.kept) == count or self.stored_errors:
            for kind in ("full", "centred", "quotient"):
                columns[f"error_{kind}"] = self.errors(kind).ravel()
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        statuses = [outcome.status for outcome in self.outcomes]
        ended = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses))
        lanes = "1 lane" if len(self.lanes) == 1 else f"{len(self.lanes)} lanes"
        return f"Trace({self.algorithm.name}, {lanes}, {self.steps[-1]} steps: {ended})"

    def _card(self) -> Card:
        facts = {"algorithm": self.algorithm.name, "problem": self.problem, "steps": int(self.steps[-1])}
        rows = [
            {"seed": lane.seed, "step size": lane.step_size, "outcome": outcome.status, "gain": gain}
            for lane, outcome, gain in zip(self.lanes, self.outcomes, self.gain[:, -1], strict=True)
        ]
        return Card("Trace", facts, rows)
