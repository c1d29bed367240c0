"""Exact moments against the enumeration of every path, and the law of moves against the process."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.engine.schedules import Listed
from gainbias.testing.drive import FEW, Case, Rig, copied, first_weights, small_problem
from gainbias.theory.curve.enumeration import move_law
from gainbias.theory.curve.terms import bound_field, read_terms
from tests.testing.own import declaring

SIZES = np.array([0.5, 0.25, 0.125, 0.5, 0.0625, 0.25])
AFFINE = [name for name, algorithm in gb.ALGORITHMS.items() if algorithm.declared.sample_field is not None]


def by_enumeration(case, law, num_steps):
    """First and second moments of the reported weights over all sequences of moves, after each step."""
    rig = Rig(case)
    begin = rig.begin(first_weights(case.problem))
    moves_from = [np.flatnonzero(law.source == node) for node in range(len(law.first))]
    paths = [(probability, node, begin) for node, probability in enumerate(law.first) if probability > 0]
    found = []
    for size in [None, *SIZES[:num_steps]]:
        longer = [] if size else paths
        for probability, node, state in paths if size else []:
            for k in moves_from[node]:
                after = copied(state)
                rig.step(after, law.move(k), size)
                longer.append((probability * law.probability[k], law.target[k], after))
        paths = longer
        weight = np.array([probability for probability, *_ in paths])
        ends = np.array([rig.output(state) for *_, state in paths])
        found.append((weight @ ends, np.einsum("p,pi,pj->ij", weight, ends, ends)))
    return found


def exact(algorithm, problem, num_steps, **options):
    return gb.exact_curve(
        algorithm,
        problem,
        num_steps,
        Listed(SIZES[:num_steps]),
        checkpoints=range(num_steps + 1),
        initial_weights=first_weights(problem),
        **options,
    )


def agree(curve, expected):
    """Moments are kept about the limit, and rounded as such."""
    near = 1e-12 * max(1.0, curve.limit @ curve.limit)
    for t, (mean, second) in enumerate(expected):
        np.testing.assert_allclose(curve.mean_weights[t], mean, rtol=0, atol=near)
        np.testing.assert_allclose(curve.second_moments[t], second, rtol=0, atol=near)


@pytest.mark.parametrize("kind", ["dense", "constants", "sparse", "tabular"])
@pytest.mark.parametrize("sampling", ["iid", "markov"])
@pytest.mark.parametrize("name", AFFINE)
def test_moments_are_those_of_all_paths(name, sampling, kind):
    algorithm, problem = gb.ALGORITHMS[name], small_problem(kind, FEW)
    steps = 2 if algorithm.chains == 2 or sampling == "iid" else 3
    law = move_law(problem, algorithm.chains, sampling)
    expected = by_enumeration(Case(algorithm, kind, problem, algorithm.params()), law, steps)
    agree(exact(name, problem, steps, sampling=sampling), expected)


@pytest.mark.parametrize("name", ["double-chain-symmetric", "td-lambda"])
def test_states_with_different_numbers_of_successors(name):
    transitions = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]
    process = gb.MarkovRewardProcess(transitions, [[1.0, 2.0, 0.0], [-1.0, 0.0, 0.0], [3.0, 0.5, 0.0]])
    algorithm, problem = gb.ALGORITHMS[name], gb.Problem(process, gb.Tabular())
    law = move_law(problem, algorithm.chains, "markov")
    expected = by_enumeration(Case(algorithm, "tabular", problem, algorithm.params()), law, 2)
    agree(exact(name, problem, 2, sampling="markov"), expected)


@pytest.mark.parametrize("start", ["stationary", 1])
@pytest.mark.parametrize("name", ["double-chain", "implicit-td"])
def test_any_start(name, start):
    algorithm, problem = gb.ALGORITHMS[name], small_problem("dense", FEW)
    law = move_law(problem, algorithm.chains, "markov", start)
    expected = by_enumeration(Case(algorithm, "dense", problem, algorithm.params()), law, 2)
    agree(exact(name, problem, 2, sampling=gb.Markov(start)), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("td-lambda", 6), ("differential-td", 6), ("double-chain", 3)])
def test_six_steps_along_every_path(name, steps):
    """2^6 moves from each of 3 states, or 4^3 from each of 9 pairs."""
    algorithm, problem = gb.ALGORITHMS[name], small_problem("dense", FEW)
    law = move_law(problem, algorithm.chains, "markov")
    expected = by_enumeration(Case(algorithm, "dense", problem, algorithm.params()), law, steps)
    agree(exact(name, problem, steps, sampling="markov"), expected)


@pytest.mark.parametrize("sampling", ["iid", "markov"])
@pytest.mark.parametrize("name", ["td-lambda", "double-chain"])
def test_a_field_that_is_no_sum_of_products_is_listed_move_by_move(name, sampling):
    """Its terms cannot be read, yet its moments are the same as those of the field it hides."""
    plain, problem = gb.ALGORITHMS[name], small_problem("dense", FEW)

    def hidden(sample, params, step_size):
        if len(sample.here) == 4:  # the rows with which terms are read
            return np.full((5, 5), 7.0), np.ones(5)
        return plain.declared.sample_field(sample, params, step_size)

    found = exact(declaring(plain, sample_field=hidden), problem, 4, sampling=sampling)
    expected = exact(plain, problem, 4, sampling=sampling)
    np.testing.assert_allclose(found.second_moments, expected.second_moments, rtol=0, atol=1e-14)


@pytest.mark.parametrize("largest", [0.15, 1000.0])
def test_coefficients_between_step_sizes(largest):
    """Small steps need few nodes; what no polynomial fits, such as 1 / (1 + alpha) up to 1000, is read."""
    plain, problem, calls = gb.ALGORITHMS["implicit-td"], small_problem("dense", FEW), 0

    def counted(*args):
        nonlocal calls
        calls += 1
        return plain.declared.sample_field(*args)

    terms = read_terms(problem, bound_field(counted, plain.params()), problem.num_features + 1, 1)
    calls = 0
    between = terms.between(largest)
    if largest < 1.0:
        assert calls <= (2 + 16) * 3 * len(terms.lengths)
    for share in (0.0, 1e-3, 0.1, 0.7, 1.0, 1.5):  # larger ones than were announced are read too
        size = share * largest
        np.testing.assert_allclose(between(size), terms.at(size), rtol=0, atol=1e-13)


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
