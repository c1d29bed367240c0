"""Random chains: as many successors as asked for, laws that sum to 1, ergodic, decided by the seed."""

import numpy as np
import pytest

import gainbias as gb
from gainbias.tasks.chains.random_chains import branching_chain


@pytest.mark.parametrize(("size", "branching"), [(30, 5), (10, 10), (200, 8)])
def test_garnet_has_as_many_successors_as_asked_for(size, branching):
    process = gb.task("garnet", num_states=size, branching=branching).problem.mrp
    np.testing.assert_array_equal(np.diff(process.csr.indptr), branching)
    np.testing.assert_allclose(process.csr.sum(axis=1), 1.0, rtol=1e-12)
    assert process.is_ergodic
    assert process.num_states == size


def test_the_draw_is_the_documented_one():
    """Successors and cuts are uniform: a probability has mean 1/b and second moment 2/(b(b+1))."""
    rng = np.random.default_rng(0)
    chains = [branching_chain(20, 3, rng) for _ in range(300)]
    hits = np.mean([chain.toarray() > 0.0 for chain in chains], axis=0)
    assert np.abs(hits - 0.15).max() < 4.5 * np.sqrt(0.15 * 0.85 / 300)  # the largest of 400 entries
    probabilities = np.concatenate([chain.data for chain in chains])
    assert probabilities.mean() == pytest.approx(1.0 / 3.0)
    squares = probabilities**2
    assert abs(squares.mean() - 1.0 / 6.0) < 4.0 * squares.std() / np.sqrt(squares.size)


def test_rewards_are_standard_normal():
    rewards = gb.task("garnet", num_states=4000, branching=20, num_features=2).problem.mrp.rewards
    assert abs(rewards.mean()) < 4.0 / np.sqrt(4000)
    assert abs(rewards.var() - 1.0) < 4.0 * np.sqrt(2.0 / 4000)


def test_garet_averages_over_actions():
    process = gb.task("garet").problem.mrp
    successors = np.diff(process.csr.indptr)
    assert successors.max() <= 8
    assert successors.min() > 2
    assert process.is_ergodic
    rewards = gb.task("garet", num_states=4000, branching=5, num_features=2).problem.mrp.rewards
    spread = 2.0 / 5.0  # the expected sum of squared probabilities of 4 actions, uniform on all laws
    assert abs(rewards.var() - spread) < 4.0 * rewards.var() * np.sqrt(3.0 / 4000)


def test_one_action_of_garet_is_a_garnet():
    process = gb.task("garet", num_actions=1, branching=6).problem.mrp
    np.testing.assert_array_equal(np.diff(process.csr.indptr), 6)


@pytest.mark.parametrize("name", ["garnet", "garet"])
def test_the_seed_decides(name):
    first, same, other = (gb.task(name, seed=seed) for seed in (3, 3, 4))
    assert first.fingerprint == same.fingerprint
    assert first.problem.mrp.fingerprint != other.problem.mrp.fingerprint


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("garnet", {"branching": 31}, "branching must be an integer of at least 1 and at most 30, found 31"),
        ("garnet", {"branching": 0}, "branching must be an integer of at least 1 and at most 30, found 0"),
        ("garnet", {"branching": 2.0}, "branching must be an integer"),
        (
            "garnet",
            {"branching": 1},
            "100 draws of 30 states with 1 successors each gave no ergodic chain: incr",
        ),
        ("garnet", {"num_states": 1}, "num_states must be an integer of at least 2, found 1"),
        ("garnet", {"num_features": 31}, "and 30, the number of states, found 31"),
        ("garet", {"num_actions": 0}, "num_actions must be an integer of at least 1, found 0"),
        ("garet", {"branching": "x"}, "branching must be an integer"),
    ],
)
def test_wrong_settings(name, settings, message):
    with pytest.raises(ValueError, match=message):
        gb.task(name, **settings)
