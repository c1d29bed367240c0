"""Checks of what an algorithm declares: its mean field, its samples, its limit and its rate.

In this order:

- the mean field and the sample field against the step itself. The step is called on every move that has a
  positive probability, so there is no sampling and no tolerance beyond rounding;
- the limit, the gain and the rate, against learning curves of many seeds (`curves`), which several checks
  read;
- whole runs against exact means, without Monte Carlo on one side. Statistics of many seeds must be within 4
  standard errors of the exact mean. With m of them, a correct algorithm fails with a probability of at most
  m * 6.4e-5 if seeds are drawn at random; here they are fixed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from gainbias.algorithms.algorithm import Field, Sample
from gainbias.engine.paths import Sampling
from gainbias.engine.run import run
from gainbias.engine.schedules import Constant, Harmonic
from gainbias.engine.trace import Trace
from gainbias.testing.drive import Case, Rig, Skip, close, copied, first_weights, law_of, within_errors
from gainbias.theory.curve.curve import Curve, exact_curve
from gainbias.theory.curve.enumeration import move_law
from gainbias.types import Floats

FIELD_TOLERANCE = 1e-12
SMALL_STEPS = 2.0 ** -np.arange(4.0, 11.0)
"""Step sizes from which the mean update for steps that go to 0 is extrapolated, if necessary."""


def mean_field_is_true(case: Case) -> str:
    """The mean change of the weights, divided by the step size, is the declared b - A theta."""
    case.need("mean_field")
    case.need_plain_form()
    assert case.declared.mean_field is not None
    declared = case.declared.mean_field(case.problem, case.params)
    d = case.problem.num_features
    # Weights of any size will do; those of a short length stay inside every radius.
    length = min(1.0, 0.25 * case.radius)
    constant = mean_update(case, np.zeros(d))
    columns = [(constant - mean_update(case, length * unit)) / length for unit in np.eye(d)]
    close(constant, declared.vector, FIELD_TOLERANCE, "vector b of the mean field")
    return close(np.array(columns).T, declared.matrix, FIELD_TOLERANCE, "matrix A of the mean field")


def sample_field_is_true(case: Case) -> str:
    """Every step is ``x + step_size * (y - X x)`` with the declared X and y."""
    law, samples = law_of(case), affine_samples(case)
    assert case.declared.sample_field is not None
    rig, names, rng = Rig(case), case.declared.affine, np.random.default_rng(0)
    size = len(rig.read(rig.begin(np.zeros(case.problem.num_features)), names))
    said = ""
    for step_size in (0.125, 0.5):
        found, expected = np.empty((2, len(samples), size))
        for k, sample in enumerate(samples):
            x = rng.uniform(-1.0, 1.0, size)
            field = case.declared.sample_field(sample, case.params, step_size)
            assert field is not None
            expected[k] = x + step_size * (field[1] - field[0] @ x)
            state = begin_at(rig, names, x)
            rig.step(state, law.move(k), step_size)
            found[k] = rig.read(state, names)
        said = close(found, expected, FIELD_TOLERANCE, f"{', '.join(names)} after a step")
    return said


def sample_field_has_the_mean_field(case: Case) -> str:
    """The mean of the sampled X and y, at the limits of the other fields, is the declared A and b."""
    case.need("mean_field")
    matrix, vector = mean_sample(case)
    assert case.declared.mean_field is not None
    declared = case.declared.mean_field(case.problem, case.params)
    d = case.problem.num_features
    rig, zeros = Rig(case), np.zeros(d)
    # Without a trace, which no affine step has, the limits are the same in all states.
    limits = rig.begin(zeros, **frozen_fields(case, 0, zeros))
    at_limits = vector - matrix @ rig.read(limits, case.declared.affine)
    close(at_limits[:d], declared.vector, FIELD_TOLERANCE, "mean of y")
    return close(matrix[:d, :d], declared.matrix, FIELD_TOLERANCE, "mean of X")


def mean_sample(case: Case) -> tuple[Floats, Floats]:
    """Return the means of the sampled X and y for step sizes that go to 0, (m, m) and (m,)."""
    samples, sample_field = affine_samples(case), case.declared.sample_field
    assert sample_field is not None
    fields = [sample_field(sample, case.params, 0.0) for sample in samples]
    matrices, vectors = zip(*(field for field in fields if field is not None), strict=True)
    law = law_of(case).probability
    return np.tensordot(law, np.array(matrices), axes=1), law @ np.array(vectors)


def mean_update(case: Case, weights: Floats) -> Floats:
    """Return the mean change of the weights divided by the step size, (d,)."""
    law, rig = law_of(case), Rig(case)
    inside = min(0.25, case.radius / 64.0)
    step_sizes = SMALL_STEPS if case.declared.small_steps_only else np.array([inside])
    by_size = np.zeros((len(step_sizes), len(weights)))
    for k, probability in enumerate(law.probability):
        fields = frozen_fields(case, int(law.moves.here[k]), weights)
        for i, step_size in enumerate(step_sizes):
            state = rig.begin(weights, **fields)
            before = rig.read(state, ["weights"])
            rig.step(state, law.move(k), float(step_size))
            by_size[i] += probability * (rig.read(state, ["weights"]) - before) / step_size
    return at_zero(by_size)


def at_zero(values: Floats) -> Floats:
    """Extrapolate values for step sizes that halve from one to the next (Richardson).

    Examples
    --------
    >>> at_zero(np.exp(SMALL_STEPS)) - 1.0 < 1e-14
    np.True_
    """
    power = 2.0
    while len(values) > 1:
        values = (power * values[1:] - values[:-1]) / (power - 1.0)
        power *= 2.0
    return np.asarray(values[0])


def frozen_fields(case: Case, here: int, weights: Floats) -> dict[str, Any]:
    """Return the other fields at their limits, given the state of the chain."""
    if case.declared.frozen is None:
        return {}
    return case.declared.frozen(case.problem, case.params, here, weights)


def begin_at(rig: Rig, names: tuple[str, ...], x: Floats) -> object:
    """Return a first state with the affine fields, of which the first are the weights, at x."""
    d = rig.problem.num_features
    state = rig.begin(x[:d])
    ends = np.cumsum([getattr(state, name).size for name in names])
    parts = dict(zip(names, np.split(x, ends[:-1]), strict=True))
    return rig.begin(parts.pop("weights"), **parts)


def affine_samples(case: Case) -> list[Sample]:
    """Return the samples of all moves, or skip the check if the step is not affine."""
    case.need("sample_field")
    case.need_plain_form()
    samples = law_of(case).samples(case.problem)
    assert case.declared.sample_field is not None
    if case.declared.sample_field(samples[0], case.params, 0.1) is None:
        raise Skip("not affine with these parameters")
    return samples


CURVE_STEPS = 10_000
CURVE_SEEDS = 64
CURVE_CHECKPOINTS = 16

END_STEPS = 400_000
"""After these steps a limit that is off by a per cent or so shows; after 10,000 three per cent need not."""

SURE_OF_THE_END = 5.0
"""Standard errors by which the mean of the last weights may be off. By Student's law for 64 seeds, a right
algorithm with six numbers to compare would fail with a probability of 3e-5 if seeds were drawn at random;
here they are fixed."""


@dataclass(frozen=True, eq=False)
class Curves:
    """Learning curves of many runs: their errors at some checkpoints.

    Attributes
    ----------
    missed : (seeds, checkpoints, d) array
        Weights minus the limit.
    gain_missed : (seeds, checkpoints) array
        Estimates of the gain minus the gain.
    clock : (checkpoints,) array
        Number of steps, plus the c0 of the step sizes.
    """

    missed: Floats
    gain_missed: Floats
    clock: Floats


@lru_cache(maxsize=8)
def curves(
    case: Case, sampling: Sampling = "markov", along: float = 0.0, num_steps: int = CURVE_STEPS
) -> Curves:
    """Run many seeds, from first weights moved by `along` times the weights of the constant 1."""
    problem, algorithm = case.problem, case.algorithm
    assert algorithm.declared.limit is not None
    first = first_weights(problem)
    if problem.ones_weights is not None:
        first = first + along * problem.ones_weights
    schedule = _schedule(case)
    trace = run(
        algorithm,
        problem,
        num_steps,
        schedule,
        seeds=range(CURVE_SEEDS),
        params=case.params._asdict(),
        sampling=sampling,
        checkpoints=np.unique(
            np.geomspace(num_steps // 50, num_steps, CURVE_CHECKPOINTS).astype(int)
        ).tolist(),
        initial_weights=first,
        threads=1,
    )
    limit = algorithm.declared.limit(problem, case.params, first)
    assert limit is not None
    begun = schedule.c0 if isinstance(schedule, Harmonic) else 0.0
    return Curves(trace.weights - limit, trace.gain - problem.solution.gain, trace.steps + begun)


def _schedule(case: Case) -> Harmonic | Constant:
    """Return steps a / (t + c0) with a large enough for the slowest rate of return of the mean field."""
    if case.declared.constant_step is not None:
        return Constant(case.declared.constant_step)
    slowest = slowest_rate(case)
    return Harmonic(2.0 / slowest, 4.0 / slowest)


def slowest_rate(case: Case) -> float:
    """Return the rate of return of the mean field, also of other fields that a step is affine in."""
    matrices = []
    if case.declared.mean_field is not None:
        matrices.append(case.declared.mean_field(case.problem, case.params).matrix)
    with suppress(Skip):
        matrices.append(mean_sample(case)[0])
    rates = np.concatenate([np.linalg.eigvals(matrix).real for matrix in matrices] or [np.array([0.2])])
    return float(rates[rates > 1e-9].min())


LIMIT_ROUNDING = 1e-9
"""A limit is the solution of an equation, which rounds."""

EARLY = 7
"""Number of the checkpoint, at about a tenth of the steps, with which the last one is compared."""

WEAK = 0.05
"""Below this rate of return, first errors are not forgotten in a short run."""

SLOPE_TOLERANCE = 0.06
"""Tolerance for the bend of curves because the number of steps is finite."""


def limit_solves_the_mean_field(case: Case) -> str:
    """The mean field is 0 at the limit, and there it stays: without noise nothing moves."""
    field, limit = _field(case), _limit(case)
    residual = _without_constants(case, (field.vector - field.matrix @ limit)[None])
    close(residual, np.zeros_like(residual), LIMIT_ROUNDING, "mean field at the limit")
    weights = limit
    for _ in range(100):
        weights = weights + 0.5 * (field.vector - field.matrix @ weights)
    missed = _without_constants(case, (weights - limit)[None])
    return close(missed, np.zeros_like(missed), LIMIT_ROUNDING, "100 steps of the mean field from the limit")


def limit_stays_without_noise(case: Case) -> str:
    """The mean over all transitions of real steps from the limit is 0."""
    _field(case)
    case.need_no_radius()
    case.need_plain_form()
    update = _without_constants(case, mean_update(case, _limit(case))[None])
    return close(update, np.zeros_like(update), LIMIT_ROUNDING, "mean step from the limit")


def limit_attracts(case: Case) -> str:
    """The mean field pulls towards its solution, along the constants perhaps not."""
    field, ones = _field(case), case.problem.ones_weights
    rates = np.sort(np.linalg.eigvals(field.matrix).real)
    frozen = ones is not None and bool(
        np.abs(field.matrix @ ones).max() < LIMIT_ROUNDING * np.abs(ones).max()
    )
    if (case.on_a_line or (case.declared.needs_ones_outside_span and ones is not None)) and not frozen:
        raise AssertionError("the mean field does not vanish along the constants, as declared")
    slowest = float(rates[1 if frozen else 0]) if len(rates) > frozen else np.inf
    if not slowest > LIMIT_ROUNDING:
        raise AssertionError(f"the mean field has the rate {slowest:.2e} of return, must be positive")
    return f"slowest rate of return {slowest:.3g}{', none along the constants' * frozen}"


def runs_approach_the_limit(case: Case) -> str:
    """Runs of all seeds come closer to the limit, modulo constants if it is a line."""
    case.need_a_limit()
    missed = _without_constants(case, curves(case).missed)
    return _falls((missed**2).sum(axis=-1), "squared error")


def runs_end_at_the_limit(case: Case) -> str:
    """Weights and gain end at their limits, up to chance, on the mean over long runs of all seeds.

    What is left of the start is not chance. It counts as gone if a mean is half as far off as it was after a
    tenth of the steps.
    """
    case.need_a_limit()
    _need_a_strong_field(case)
    found = curves(case, num_steps=END_STEPS)
    missed = np.concatenate([_without_constants(case, found.missed), found.gain_missed[..., None]], axis=2)
    early, last = np.abs(missed[:, [EARLY, -1]].mean(axis=0))
    error = missed[:, -1].std(axis=0, ddof=1) / np.sqrt(CURVE_SEEDS)
    beyond = np.maximum(last - 0.5 * early, 0.0)
    what = f"mean of weights and gain after {END_STEPS:,} steps"
    return within_errors(beyond, np.zeros_like(beyond), error, what, SURE_OF_THE_END)


def gain_is_learned(case: Case) -> str:
    """The estimate of the gain comes closer to the gain."""
    case.need_a_limit()
    return _falls(curves(case).gain_missed ** 2, "squared error of the gain")


def constants_do_what_is_declared(case: Case) -> str:
    """Along the constants, runs end at random if the limit is a line; otherwise at one point.

    The first weights also differ along the constants, and the declared limit says what follows from that.
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
    assert case.declared.rate is not None
    _need_a_strong_field(case)
    found = curves(case, "iid")
    squares = (_without_constants(case, found.missed) ** 2).sum(axis=-1)
    total = squares.sum(axis=0)
    steps = np.log(found.clock)
    weights = (steps - steps.mean()) / ((steps - steps.mean()) ** 2).sum()
    slope = float(np.log(total) @ weights)
    without_one = np.log(total - squares) @ weights
    error = float(np.sqrt((CURVE_SEEDS - 1) / CURVE_SEEDS * ((without_one - without_one.mean()) ** 2).sum()))
    if not abs(slope + case.declared.rate) <= 4.0 * error + SLOPE_TOLERANCE:
        raise AssertionError(
            f"the mean squared error falls with the power {-slope:.3f} (standard error {error:.3f}), "
            f"declared {case.declared.rate:g}"
        )
    return f"power {-slope:.3f}, standard error {error:.3f}"


def _falls(squares: Floats, what: str) -> str:
    """Demand that a mean over seeds, (seeds, checkpoints), falls at least to half in ten times the time."""
    early, last = squares[:, EARLY].mean(), squares[:, -1].mean()
    if not last <= max(0.5 * early, 1e-18):
        raise AssertionError(
            f"mean {what} is {early:.2e} after about a tenth of {CURVE_STEPS:,} steps and {last:.2e} after "
            "all of them: it must fall"
        )
    return f"{what} falls from {early:.1e} to {last:.1e}"


def _need_a_strong_field(case: Case) -> None:
    """Skip the check if the mean field, as far as it is declared, pulls too weakly."""
    if slowest_rate(case) < WEAK:
        raise Skip(f"the mean field pulls at the rate {slowest_rate(case):.2g}: too weak for short runs")


def _field(case: Case) -> Field:
    case.need("mean_field", "limit")
    assert case.declared.mean_field is not None
    return case.declared.mean_field(case.problem, case.params)


def _limit(case: Case) -> Floats:
    assert case.declared.limit is not None
    limit = case.declared.limit(case.problem, case.params, first_weights(case.problem))
    if limit is None:
        raise Skip("no limit stated for these parameters")
    return limit


def _without_constants(case: Case, weights: Floats) -> Floats:
    """Remove the component along the weights of the constant 1 if the limit is a line."""
    ones = case.problem.ones_weights
    if not case.on_a_line or ones is None:
        return weights
    return weights - np.multiply.outer(weights @ ones, ones) / (ones @ ones)


ORACLE_SEEDS = 400
ORACLE_STEP_SIZE = 0.25
ORACLE_CHECKPOINTS = [4, 16, 48]


def moments_are_exact(case: Case) -> str:
    """Means and second moments over many runs are those that the declared affine step gives exactly."""
    said = []
    for sampling in get_args(Sampling):
        exact = _curve(case, sampling, ORACLE_CHECKPOINTS)
        found = _run(case, sampling, ORACLE_CHECKPOINTS).weights
        products = found[..., :, None] * found[..., None, :]
        statistics = np.concatenate([found, products.reshape(*found.shape[:2], -1)], axis=2)
        second = exact.second_moments.reshape(len(ORACLE_CHECKPOINTS), -1)
        expected = np.concatenate([exact.mean_weights, second], axis=1)
        error = statistics.std(axis=0) / np.sqrt(ORACLE_SEEDS)
        said.append(within_errors(statistics.mean(axis=0), expected, error, f"moments, {sampling}"))
    return "; ".join(said)


def paths_average_to_the_exact_mean(case: Case) -> str:
    """The mean over all paths of a few steps is exactly that of the declared affine step."""
    exact = _curve(case, "markov", [path_length(case)])
    mean, _ = mean_over_paths(case)
    return close(exact.mean_weights[-1], mean, 1e-12, f"mean after {path_length(case)} steps")


def runs_average_to_the_mean_of_paths(case: Case) -> str:
    """The mean over many runs is that over all paths of a few steps, each with its probability."""
    mean, variance = mean_over_paths(case)
    found = _run(case, "markov", [path_length(case)]).weights[:, -1].mean(axis=0)
    return within_errors(
        found, mean, np.sqrt(variance / ORACLE_SEEDS), f"mean after {path_length(case)} steps"
    )


def path_length(case: Case) -> int:
    """Return how many steps of a chain with two successors for each state are few enough to enumerate."""
    return 6 if case.algorithm.chains == 1 else 3


def mean_over_paths(case: Case) -> tuple[Floats, Floats]:
    """Return mean and variance of the weights after a few steps, by following every path: two (d,) arrays."""
    num_steps = path_length(case)
    law, rig = move_law(case.problem, case.algorithm.chains, "markov"), Rig(case)
    moves_from = [np.flatnonzero(law.source == node) for node in range(len(law.first))]
    begin = rig.begin(first_weights(case.problem))
    paths = [(probability, node, begin) for node, probability in enumerate(law.first)]
    for _ in range(num_steps):
        longer = []
        for probability, node, state in paths:
            for k in moves_from[node]:
                after = copied(state)
                rig.step(after, law.move(int(k)), ORACLE_STEP_SIZE)
                longer.append((probability * law.probability[k], law.target[k], after))
        paths = longer
    weight = np.array([probability for probability, _, _ in paths])
    ends = np.array([rig.output(state) for _, _, state in paths])
    mean = weight @ ends
    return mean, weight @ (ends - mean) ** 2


def _curve(case: Case, sampling: Sampling, checkpoints: list[int]) -> Curve:
    affine_samples(case)
    return exact_curve(
        case.algorithm,
        case.problem,
        checkpoints[-1],
        ORACLE_STEP_SIZE,
        params=case.params._asdict(),
        sampling=sampling,
        checkpoints=checkpoints,
        initial_weights=first_weights(case.problem),
    )


def _run(case: Case, sampling: Sampling, checkpoints: list[int]) -> Trace:
    return run(
        case.algorithm,
        case.problem,
        checkpoints[-1],
        ORACLE_STEP_SIZE,
        seeds=range(ORACLE_SEEDS),
        params=case.params._asdict(),
        sampling=sampling,
        checkpoints=checkpoints,
        initial_weights=first_weights(case.problem),
        threads=1,
    )
