"""What errors of a run are in the mean over all sample paths, without sampling."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Algorithm
from gainbias.engine.lanes import Lane
from gainbias.features.matrix import FloatArray
from gainbias.model.problem import Problem
from gainbias.theory.curve.curve import exact_curve
from gainbias.theory.curve.system import has_exact_curve


def exact_errors(
    algorithm: Algorithm,
    problem: Problem,
    lanes: Sequence[Lane],
    steps: Sequence[int],
    metrics: Sequence[tuple[Any, Any, Any]],
) -> FloatArray:
    """Return root mean squared errors with independent samples.

    Parameters
    ----------
    algorithm : Algorithm
    problem : Problem
    lanes : sequence of Lane
        Step sizes and parameters.
    steps : sequence of int
        Checkpoints.
    metrics : sequence of triples
        Kind, target and norm of errors.

    Returns
    -------
    (lanes, metrics, checkpoints) array
        nan for lanes whose step is not affine in the weights.

    Examples
    --------
    >>> import gainbias as gb
    >>> problem = gb.task("boyan-chain").problem
    >>> trace = gb.run("td-lambda", problem, 100, [0.1, 0.2], sampling="iid")
    >>> metrics = [("quotient", "paper", "euclidean")]
    >>> exact_errors(trace.algorithm, problem, trace.lanes, [10, 100], metrics).shape
    (2, 1, 2)
    """
    found = np.full((len(lanes), len(metrics), len(steps)), np.nan)
    for lane, errors in zip(lanes, found, strict=True):
        if not has_exact_curve(algorithm, algorithm.params(**lane.params)):
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "this curve takes about", UserWarning)
            curve = exact_curve(
                algorithm,
                problem,
                steps[-1],
                lane.step_size,
                params=lane.params,
                sampling="iid",
                checkpoints=steps,
            )
        for k, (kind, target, norm) in enumerate(metrics):
            errors[k] = curve.errors(kind, target=target, norm=norm)
    return found
