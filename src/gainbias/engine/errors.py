"""How far weights are from a target: in which space, up to what, in which norm."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.features.rows import Floats
from gainbias.model.problem import Problem

Kind = Literal["full", "centred", "quotient"]
Target = Literal["bias", "paper", "own"]
Norm = Literal["euclidean", "stationary"]
Space = Literal["values", "weights"]

BLOCK_BYTES = 64 * 2**20
"""Values of all states for several weights at once stay below this size."""


class Scale:
    """Errors of one algorithm's weights on one problem.

    Parameters
    ----------
    algorithm, problem
        What is judged, and on what.
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

    def _in_values(self, weights: Floats, kind: Kind, target: Target, norm: Norm) -> Floats:
        aim, mu = self._target_values(target), self.problem.solution.stationary
        errors = np.empty(len(weights))
        height = max(1, BLOCK_BYTES // (8 * len(aim)))
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
        if self.algorithm.limit is None:
            raise ValueError(f"{self.algorithm.name} states no limit: use target='bias' or 'paper'")
        limit = self.algorithm.limit(self.problem, self.params, self.first)
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
        if space == "weights" and norm == "stationary":
            raise ValueError("the stationary norm is one of values: use norm='euclidean' for weights")
        if target == "own" and self.algorithm.limit_is_line and self.problem.ones_in_span and kind == "full":
            raise ValueError(
                f"the limit of {self.algorithm.name} on these features, which span the constants, is known "
                "up to a constant only: use kind='quotient' or 'centred'"
            )
