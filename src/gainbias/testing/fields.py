"""Checks of the declared mean field and sample field against the step itself, over every transition.

The step is called on every move that has a positive probability, so there is no sampling and no tolerance
beyond rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gainbias.algorithms.algorithm import Sample
from gainbias.testing.drive import Case, Rig
from gainbias.testing.report import Skip, close
from gainbias.theory.curve.enumeration import MoveLaw, move_law
from gainbias.types import Floats

FIELD_TOLERANCE = 1e-12
SMALL_STEPS = 2.0 ** -np.arange(4.0, 11.0)
"""Step sizes from which the mean update for steps that go to 0 is extrapolated, where it must be."""


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


def law_of(case: Case) -> MoveLaw:
    """Return all moves of the stationary chain."""
    return move_law(case.problem, case.algorithm.chains)
