"""Every algorithm against its naive twin: along sampled paths, and over all paths of a small chain."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.algorithms.fields import dense_features
from gainbias.testing.declared import ORACLE_STEP_SIZE, mean_over_paths, path_length
from gainbias.testing.drive import (
    FEATURE_KINDS,
    FEW,
    SEVERAL,
    Case,
    all_params,
    first_weights,
    sampled_moves,
    small_problem,
)
from gainbias.theory.curve.enumeration import move_law

from ..oracles.algorithms import TWINS, Episode

STEPS = 120
STEP_SIZES = gb.Harmonic(6.0, 16.0).values(0, STEPS)


def cases(num_states):
    for algorithm in gb.ALGORITHMS.values():
        for kind in ("tabular",) if algorithm.declared.tabular_only else FEATURE_KINDS:
            for params in all_params(algorithm):
                yield Case(algorithm, kind, small_problem(kind, num_states), params)


def name_of(case):
    return "-".join([case.algorithm.name, case.kind, *(f"{k}={v:g}" for k, v in case.changed.items())])


def episode_of(case, moves, step_sizes):
    problem = case.problem
    return Episode(dense_features(problem), moves, step_sizes, first_weights(problem), problem.ones_weights)


def test_every_algorithm_has_a_twin():
    assert set(TWINS) == set(gb.ALGORITHMS)


@pytest.mark.kernels
@pytest.mark.parametrize("case", list(cases(SEVERAL)), ids=name_of)
def test_a_run_takes_the_path_of_its_twin(case):
    trace = gb.run(
        case.algorithm,
        case.problem,
        STEPS,
        STEP_SIZES,
        seeds=5,
        params=case.params._asdict(),
        checkpoints=range(STEPS + 1),
        initial_weights=first_weights(case.problem),
    )
    moves = list(zip(*sampled_moves(case, STEPS, seed=5), strict=True))
    weights, gain = TWINS[case.algorithm.name](episode_of(case, moves, STEP_SIZES), *case.params)
    np.testing.assert_allclose(trace.weights[0], weights, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(trace.gain[0], gain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", list(cases(FEW)), ids=name_of)
def test_all_paths_have_the_mean_of_the_twin(case):
    law, steps = move_law(case.problem, case.algorithm.chains, "markov"), path_length(case)
    paths = [(probability, node, []) for node, probability in enumerate(law.first)]
    for _ in range(steps):
        paths = [
            (probability * law.probability[k], law.target[k], [*moves, tuple(law.move(k))])
            for probability, node, moves in paths
            for k in np.flatnonzero(law.source == node)
        ]
    assert sum(probability for probability, *_ in paths) == pytest.approx(1.0, abs=1e-14)
    sizes = np.full(steps, ORACLE_STEP_SIZE)
    mean = sum(
        probability * TWINS[case.algorithm.name](episode_of(case, moves, sizes), *case.params)[0][-1]
        for probability, _, moves in paths
    )
    np.testing.assert_allclose(mean_over_paths(case)[0], mean, rtol=1e-12, atol=1e-12)
