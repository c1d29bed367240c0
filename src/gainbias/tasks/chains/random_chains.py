"""Random chains, drawn from the seed: the dense ones of the paper, and sparse ones.

`random-walk-50`, `-100` and `-1000`: the paper calls them random walks, though every state leads to every
state. Each row is uniform on all laws of the next state (a Dirichlet law with parameters 1) and each reward
is uniform between 0 and 1. This is the random Markov reward process of Zhang, Zhang and Maguluri; the paper
does not define its random walks, and no walk between neighbours comes near its numbers.

`garnet`: each of n states leads to b different states, drawn uniformly, with the probabilities into which
b - 1 uniform points cut [0, 1]. Rewards R(s) are standard normal. This is Garnet(n, m, b, sigma, tau) of
Archibald, McKinnon and Thomas, in the form of Bhatnagar et al., with one action (m = 1), rewards without
noise (sigma = 0) and a chain that does not change (tau = 0).

`garet`: the same with m actions, each with b successors and a standard normal reward of its own in each
state, under a policy whose probabilities are uniform on all laws of the action. So a state has up to m b
successors. The name is Garnet's without the N, which stands for non-stationary; the policy is our choice.

A chain of these two that is not ergodic is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse

from gainbias.model.checks import CsrArray
from gainbias.model.process import MarkovRewardProcess
from gainbias.tasks.paper import PAPER_CITATION, paper_numbers
from gainbias.tasks.task import Recipe, Settings, Source, as_integer

RANDOM_WALK_CITATION = (
    "Zhang, Zhang, Maguluri: Finite Sample Analysis of Average-Reward TD Learning and Q-Learning, NeurIPS "
    f"2021 (the random process); {PAPER_CITATION}"
)


def random_process(num_states: int, rng: np.random.Generator) -> MarkovRewardProcess:
    """Draw a chain with rows that are uniform on all laws, and rewards uniform between 0 and 1.

    Examples
    --------
    >>> random_process(3, np.random.default_rng(0)).is_ergodic
    True
    """
    cuts = np.sort(rng.random((num_states, num_states - 1)), axis=1)  # they cut [0, 1] into probabilities
    chain = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    return MarkovRewardProcess(chain, rng.random(num_states))


def _random_walk(num_states: int) -> Recipe:
    name = f"random-walk-{num_states}"
    paper = paper_numbers()[name]

    def process(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
        return random_process(num_states, np.random.default_rng([seed, num_states])), {}

    return Recipe(
        name=name,
        summary=f"A dense random chain of {num_states} states with random rewards, drawn from the seed.",
        citation=RANDOM_WALK_CITATION,
        num_states=num_states,
        settings={"num_features": paper.num_features},
        process=process,
        paper=paper,
        title=f"Random walk, {num_states} states",
    )


RANDOM_WALKS = tuple(_random_walk(num_states) for num_states in (50, 100, 1000))


SPARSE_CHAIN_CITATION = (
    "Archibald, McKinnon, Thomas: On the Generation of Markov Decision Processes, Journal of the Operational "
    "Research Society 46(3), 1995; Bhatnagar, Sutton, Ghavamzadeh, Lee: Natural Actor-Critic Algorithms, "
    "Automatica 45(11), 2009"
)

CHAIN_TRIES = 100
"""How many chains are drawn before giving up."""


def branching_chain(num_states: int, branching: int, rng: np.random.Generator) -> CsrArray:
    """Draw a chain in which each state has `branching` successors.

    Examples
    --------
    >>> branching_chain(5, 2, np.random.default_rng(0)).nnz
    10
    """
    successors = [rng.choice(num_states, branching, replace=False) for _ in range(num_states)]
    cuts = np.sort(rng.random((num_states, branching - 1)), axis=1)
    probabilities = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    starts = np.arange(0, num_states * branching + 1, branching)
    chain: CsrArray = sparse.csr_array(
        (probabilities.ravel(), np.concatenate(successors), starts), shape=(num_states, num_states)
    )
    return chain


def garnet_process(num_states: int, branching: int, rng: np.random.Generator) -> MarkovRewardProcess:
    """Draw an ergodic chain of `num_states` states with `branching` successors each.

    Examples
    --------
    >>> garnet_process(20, 5, np.random.default_rng(0)).is_ergodic
    True
    """
    return _first_ergodic(
        lambda: MarkovRewardProcess(
            branching_chain(num_states, branching, rng), rng.standard_normal(num_states)
        ),
        f"{num_states} states with {branching} successors each",
    )


def garet_process(
    num_states: int, num_actions: int, branching: int, rng: np.random.Generator
) -> MarkovRewardProcess:
    """Draw a decision process and a policy under which it is ergodic.

    Examples
    --------
    >>> garet_process(30, 4, 2, np.random.default_rng(0)).is_ergodic
    True
    """
    return _first_ergodic(
        lambda: MarkovRewardProcess.from_mdp(
            [branching_chain(num_states, branching, rng) for _ in range(num_actions)],
            rng.standard_normal((num_states, num_actions)),
            rng.dirichlet(np.ones(num_actions), num_states),
        ),
        f"{num_states} states with {num_actions} actions of {branching} successors each",
    )


def _first_ergodic(draw: Callable[[], MarkovRewardProcess], what: str) -> MarkovRewardProcess:
    for _ in range(CHAIN_TRIES):
        process = draw()
        if process.is_ergodic:
            return process
    raise ValueError(f"{CHAIN_TRIES} draws of {what} gave no ergodic chain: increase branching")


def _sizes(settings: Settings) -> tuple[int, int]:
    size = as_integer(settings["num_states"], "num_states", least=2)
    return size, as_integer(settings["branching"], "branching", least=1, most=size)


def _garnet(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size, branching = _sizes(settings)
    return garnet_process(size, branching, np.random.default_rng([seed, size, branching])), {}


def _garet(seed: int, settings: Settings) -> tuple[MarkovRewardProcess, Source]:
    size, branching = _sizes(settings)
    actions = as_integer(settings["num_actions"], "num_actions", least=1)
    rng = np.random.default_rng([seed, size, actions, branching])
    return garet_process(size, actions, branching, rng), {}


GARNET = Recipe(
    name="garnet",
    summary="A random chain with a few successors for each state, drawn from the seed.",
    citation=SPARSE_CHAIN_CITATION,
    num_states=30,
    settings={"num_features": 8, "num_states": 30, "branching": 5},
    process=_garnet,
)

GARET = Recipe(
    name="garet",
    summary="A random decision process under a random policy, drawn from the seed.",
    citation=SPARSE_CHAIN_CITATION,
    num_states=30,
    settings={"num_features": 8, "num_states": 30, "num_actions": 4, "branching": 2},
    process=_garet,
)
