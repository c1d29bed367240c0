"""Checks of what an algorithm is said to converge to, and how fast."""

from __future__ import annotations

import numpy as np

from gainbias.algorithms.algorithm import Field
from gainbias.features.rows import Floats
from gainbias.testing.cases import Case
from gainbias.testing.compare import close
from gainbias.testing.curves import CHECKPOINTS, SEEDS, curves, slowest_rate
from gainbias.testing.drive import first_weights
from gainbias.testing.fields import mean_update
from gainbias.testing.report import Skip

EXACT = 1e-9
"""A limit is the solution of an equation, which rounds."""

EARLY = 7
"""Number of the checkpoint, at about a tenth of the steps, with which the last one is compared."""

WEAK = 0.05
"""Below this rate of return, first errors are not forgotten in a short run."""

RATE_TOLERANCE = 0.06
"""What the curves may bend because the number of steps is finite."""


def limit_solves_the_mean_field(case: Case) -> str:
    """The mean field is 0 at the limit, and there it stays: without noise nothing moves."""
    field, limit = _field(case), _limit(case)
    residual = _without_constants(case, (field.vector - field.matrix @ limit)[None])
    close(residual, np.zeros_like(residual), EXACT, "mean field at the limit")
    weights = limit
    for _ in range(100):
        weights = weights + 0.5 * (field.vector - field.matrix @ weights)
    missed = _without_constants(case, (weights - limit)[None])
    return close(missed, np.zeros_like(missed), EXACT, "100 steps of the mean field from the limit")


def limit_stays_without_noise(case: Case) -> str:
    """The mean over all transitions of real steps from the limit is 0."""
    _field(case)
    case.need_no_radius()
    case.need_plain_form()
    update = _without_constants(case, mean_update(case, _limit(case))[None])
    return close(update, np.zeros_like(update), EXACT, "mean step from the limit")


def limit_attracts(case: Case) -> str:
    """The mean field pulls towards its solution, along the constants perhaps not."""
    field, ones = _field(case), case.problem.ones_weights
    rates = np.sort(np.linalg.eigvals(field.matrix).real)
    frozen = ones is not None and bool(np.abs(field.matrix @ ones).max() < EXACT * np.abs(ones).max())
    if (case.on_a_line or (case.algorithm.needs_ones_outside_span and ones is not None)) and not frozen:
        raise AssertionError("the mean field does not vanish along the constants, as declared")
    slowest = float(rates[1 if frozen else 0]) if len(rates) > frozen else np.inf
    if not slowest > EXACT:
        raise AssertionError(f"the mean field has the rate {slowest:.2e} of return, must be positive")
    return f"slowest rate of return {slowest:.3g}{', none along the constants' * frozen}"


def runs_approach_the_limit(case: Case) -> str:
    """Runs of all seeds come closer to the limit, on the quotient by the constants if it is a line."""
    case.need_a_limit()
    missed = _without_constants(case, curves(case).missed)
    return _falls((missed**2).sum(axis=-1), "squared error")


def gain_is_learned(case: Case) -> str:
    """The estimate of the gain comes closer to the gain."""
    case.need_a_limit()
    return _falls(curves(case).gain_missed ** 2, "squared error of the gain")


def constants_do_what_is_declared(case: Case) -> str:
    """Along the constants runs end where chance leaves them if the limit is a line; otherwise in one point.

    The first weights differ along the constants too, and the declared limit says what that does.
    """
    case.need_a_limit()
    ones = case.problem.ones_weights
    if ones is None:
        raise Skip("features that do not span the constants")
    parts = [curves(case, along=along).missed @ ones / (ones @ ones) for along in (0.0, 2.0)]
    if not case.on_a_line:
        return "; ".join(_falls(part**2, "squared error along the constants") for part in parts)
    spread = parts[0].std(axis=0)
    if not spread[-1] > max(1e-6, 0.5 * spread[EARLY]):
        raise AssertionError(
            f"declared a line, but along the constants runs differ by {spread[-1]:.2e} in the end and by "
            f"{spread[EARLY]:.2e} earlier: the limit is one point"
        )
    return f"runs end {spread[-1]:.2g} apart along the constants"


def rate_holds(case: Case) -> str:
    """The mean squared error falls with the declared power of the number of steps.

    The slope of its logarithm must be within 4 standard errors, found by leaving out one seed at a time, and
    a small tolerance. Samples are independent: along a chain a bias of the order of the step size, whose
    square falls faster, would take long to become negligible.
    """
    case.need("rate")
    case.need_a_limit()
    assert case.algorithm.rate is not None
    if slowest_rate(case) < WEAK:
        raise Skip(f"the mean field pulls at the rate {slowest_rate(case):.2g}: too weak for short runs")
    found = curves(case, "iid")
    squares = (_without_constants(case, found.missed) ** 2).sum(axis=-1)
    total = squares.sum(axis=0)
    steps = np.log(found.clock)
    weights = (steps - steps.mean()) / ((steps - steps.mean()) ** 2).sum()
    slope = float(np.log(total) @ weights)
    without_one = np.log(total - squares) @ weights
    error = float(np.sqrt((SEEDS - 1) / SEEDS * ((without_one - without_one.mean()) ** 2).sum()))
    if not abs(slope + case.algorithm.rate) <= 4.0 * error + RATE_TOLERANCE:
        raise AssertionError(
            f"the mean squared error falls with the power {-slope:.3f} (standard error {error:.3f}), "
            f"declared {case.algorithm.rate:g}"
        )
    return f"power {-slope:.3f}, standard error {error:.3f}"


def _falls(squares: Floats, what: str) -> str:
    """Demand that a mean over seeds, (seeds, checkpoints), falls at least to half in ten times the time."""
    early, last = squares[:, EARLY].mean(), squares[:, -1].mean()
    if not last <= max(0.5 * early, 1e-18):
        raise AssertionError(
            f"mean {what} is {early:.2e} after {CHECKPOINTS[EARLY]} steps and {last:.2e} after "
            f"{CHECKPOINTS[-1]}: it must fall"
        )
    return f"{what} falls from {early:.1e} to {last:.1e}"


def _field(case: Case) -> Field:
    case.need("mean_field", "limit")
    assert case.algorithm.mean_field is not None
    return case.algorithm.mean_field(case.problem, case.params)


def _limit(case: Case) -> Floats:
    assert case.algorithm.limit is not None
    limit = case.algorithm.limit(case.problem, case.params, first_weights(case.problem))
    if limit is None:
        raise Skip("no limit stated for these parameters")
    return limit


def _without_constants(case: Case, weights: Floats) -> Floats:
    """Take off what points along the weights of the constant 1, where the limit is a line."""
    ones = case.problem.ones_weights
    if not case.on_a_line or ones is None:
        return weights
    return weights - np.multiply.outer(weights @ ones, ones) / (ones @ ones)
