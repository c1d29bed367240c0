"""Checks of whole runs against exact means, without Monte Carlo on one side.

Statistics of many seeds must be within 4 standard errors of the exact mean. With m of them, a correct
algorithm fails with a probability of at most m * 6.4e-5 if seeds are drawn at random; here they are fixed.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from gainbias.engine.paths import Sampling
from gainbias.engine.run import run
from gainbias.engine.trace import Trace
from gainbias.features.rows import Floats
from gainbias.testing.cases import Case
from gainbias.testing.compare import close, within_errors
from gainbias.testing.drive import Rig, copied, first_weights
from gainbias.testing.fields import affine_samples
from gainbias.theory.curve.curve import Curve, exact_curve
from gainbias.theory.curve.moves import move_law

SEEDS = 400
STEP_SIZE = 0.25
CHECKPOINTS = [4, 16, 48]


def moments_are_exact(case: Case) -> str:
    """Means and second moments over many runs are those that the declared affine step gives exactly."""
    said = []
    for sampling in get_args(Sampling):
        exact = _curve(case, sampling, CHECKPOINTS)
        found = _run(case, sampling, CHECKPOINTS).weights
        products = found[..., :, None] * found[..., None, :]
        statistics = np.concatenate([found, products.reshape(*found.shape[:2], -1)], axis=2)
        second = exact.second_moments.reshape(len(CHECKPOINTS), -1)
        expected = np.concatenate([exact.mean_weights, second], axis=1)
        error = statistics.std(axis=0) / np.sqrt(SEEDS)
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
    return within_errors(found, mean, np.sqrt(variance / SEEDS), f"mean after {path_length(case)} steps")


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
                rig.step(after, law.move(int(k)), STEP_SIZE)
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
        STEP_SIZE,
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
        STEP_SIZE,
        seeds=range(SEEDS),
        params=case.params._asdict(),
        sampling=sampling,
        checkpoints=checkpoints,
        initial_weights=first_weights(case.problem),
        threads=1,
    )
