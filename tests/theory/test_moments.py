"""Exact moments against the enumeration of every path, and the law of moves against the process."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.testing.cases import FEW, Case, small_problem
from gainbias.testing.drive import Rig, copied, first_weights
from gainbias.theory.moments import affine_moments
from gainbias.theory.moves import move_law

SIZES = np.array([0.5, 0.25, 0.125])


def by_enumeration(case, law, steps):
    """First and second moments of the affine fields over all sequences of moves."""
    rig, names = Rig(case), case.algorithm.affine
    begin = rig.begin(first_weights(case.problem))
    paths = [(probability, node, begin) for node, probability in enumerate(law.first)]
    for size in SIZES[:steps]:
        longer = []
        for probability, node, state in paths:
            for k in np.flatnonzero(law.source == node):
                after = copied(state)
                rig.step(after, law.move(k), size)
                longer.append((probability * law.probability[k], law.target[k], after))
        paths = longer
    weight = np.array([probability for probability, *_ in paths])
    ends = np.array([rig.read(state, names) for *_, state in paths])
    return weight @ ends, np.einsum("p,pi,pj->ij", weight, ends, ends)


@pytest.mark.parametrize("name", ["double-chain", "td-lambda", "implicit-td", "differential-td"])
@pytest.mark.parametrize("sampling", ["iid", "markov"])
@pytest.mark.parametrize("start", ["uniform", "stationary", 1])
def test_moments_are_those_of_all_paths(name, sampling, start):
    algorithm, problem = gb.ALGORITHMS[name], small_problem("dense", FEW)
    case, steps = Case(algorithm, "dense", problem, algorithm.params()), 3 if algorithm.chains == 1 else 2
    law = move_law(problem, algorithm.chains, sampling, start)
    rig = Rig(case)
    first = rig.read(rig.begin(first_weights(problem)), algorithm.affine)
    moments = affine_moments(algorithm, problem, case.params, law, SIZES[:steps], first)
    for t in range(steps + 1):
        mean, second = by_enumeration(case, law, t)
        np.testing.assert_allclose(moments.mean[t], mean, rtol=0, atol=1e-14)
        np.testing.assert_allclose(moments.second[t], second, rtol=0, atol=1e-14)


@pytest.mark.parametrize("chains", [1, 2])
def test_independent_moves_have_the_stationary_law(chains):
    problem = small_problem("tabular", FEW)
    law = move_law(problem, chains)
    mu, rewards = problem.solution.stationary, problem.mrp.transition_rewards
    assert law.probability.sum() == pytest.approx(1.0, abs=1e-14)
    for states in (law.moves.here, law.moves.after, law.moves.other, law.moves.other_after):
        np.testing.assert_allclose(np.bincount(states, law.probability), mu, atol=1e-14)
    np.testing.assert_array_equal(law.moves.reward, rewards[law.moves.here, law.moves.after])
    np.testing.assert_array_equal(law.moves.other_reward, rewards[law.moves.other, law.moves.other_after])
    joint = np.zeros((FEW, FEW))
    np.add.at(joint, (law.moves.here, law.moves.other), law.probability)
    np.testing.assert_allclose(joint, np.outer(mu, mu) if chains == 2 else np.diag(mu), atol=1e-14)


def test_moves_along_a_chain_begin_where_the_last_one_ended():
    problem = small_problem("tabular", FEW)
    law = move_law(problem, 2, "markov", "stationary")
    np.testing.assert_array_equal(law.source, FEW * law.moves.here + law.moves.other)
    np.testing.assert_array_equal(law.target, FEW * law.moves.after + law.moves.other_after)
    np.testing.assert_allclose(np.bincount(law.source, law.probability), 1.0, atol=1e-14)
    mu = problem.solution.stationary
    np.testing.assert_allclose(law.first, np.outer(mu, mu).ravel(), atol=1e-15)
    after = np.bincount(law.target, law.probability * law.first[law.source])
    np.testing.assert_allclose(after, law.first, atol=1e-14)
