"""Problems with many features, and their moments step by step."""

import numpy as np

import gainbias as gb
from gainbias.testing.drive import first_weights
from gainbias.theory.curve.system import make_system


def random_problem(num_states=30, num_features=25, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_states, num_features))
    features /= np.linalg.norm(features, axis=1).max()
    rewards = rng.uniform(size=(num_states, num_states))
    return gb.Problem(
        gb.MarkovRewardProcess(rng.dirichlet(np.ones(num_states), num_states), rewards), features
    )


def recursion_of(name, problem, sampling="iid", largest=1.0):
    algorithm = gb.ALGORITHMS[name]
    system = make_system(
        algorithm,
        problem,
        algorithm.params(),
        first_weights(problem),
        sampling=sampling,
        largest_step=largest,
    )
    return system.recursion, system.first - system.origin


def all_steps(recursion, first, sizes, checkpoints):
    moments, found = recursion.begin(first), []
    for t in range(checkpoints[-1] + 1):
        if t in checkpoints:
            found.append(moments.sum(axis=0))
        if t < checkpoints[-1]:
            moments = recursion.step(moments, sizes[t])
    return np.array(found)
