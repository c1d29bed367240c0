"""The chains on which statements are tried: random ones, and ones at the edge of what is allowed.

A `ChainCase` is a problem with its matrices. Random chains have 2 to 5 states and dense, sparse, lazy or
reversible moves; edge cases are chains that are nearly reducible, nearly periodic or very uneven, and
features that do or do not span the constants. Small cases have at most 3 states and forget where they
started within a few steps, such that all paths can be listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.types import Floats

NUM_RANDOM = 120
"""Random chains of each kind that every statement is tried on."""

SMALL_FEATURES = 2


@dataclass(frozen=True, eq=False)
class ChainCase:
    """A problem on which a statement is tried.

    Attributes
    ----------
    name : str
        What is special about it.
    problem : Problem
        Its feature rows are no longer than 1, as the paper asks for.
    seed : int
        Of the numbers that a check draws besides.
    """

    name: str
    problem: Problem
    seed: int = 0

    @property
    def rng(self) -> np.random.Generator:
        """A fresh source of numbers, the same at every call."""
        return np.random.default_rng([self.seed, 23])

    @cached_property
    def P(self) -> Floats:
        """Transitions, (n, n)."""
        return np.asarray(self.problem.mrp.csr.toarray())

    @cached_property
    def mu(self) -> Floats:
        """Stationary law, (n,)."""
        return self.problem.solution.stationary

    @cached_property
    def D(self) -> Floats:
        """The stationary law on a diagonal, (n, n)."""
        return np.diag(self.mu)

    @cached_property
    def Pi(self) -> Floats:
        """The projection that takes the mean away, I - e mu^T, (n, n)."""
        return np.eye(self.n) - np.outer(np.ones(self.n), self.mu)

    @cached_property
    def Phi(self) -> Floats:
        """Features, (n, d)."""
        return self.problem.features.combine(np.eye(self.problem.num_features))

    @cached_property
    def R(self) -> Floats:
        """Rewards, (n,)."""
        return self.problem.mrp.rewards

    @property
    def r_max(self) -> float:
        """Largest absolute reward."""
        return float(np.abs(self.R).max())

    @cached_property
    def mean(self) -> Floats:
        """Mean features w* = Phi^T mu, (d,)."""
        return np.asarray(self.Phi.T @ self.mu)

    @property
    def theta(self) -> Floats:
        """The fixed point theta*, (d,)."""
        return self.problem.fixed_point

    @property
    def length(self) -> float:
        """Length of the fixed point."""
        return float(np.linalg.norm(self.theta))

    @property
    def eta(self) -> float:
        """The condition number eta."""
        return self.problem.condition_numbers.eta1

    @property
    def n(self) -> int:
        """Number of states."""
        return self.problem.mrp.num_states

    @property
    def d(self) -> int:
        """Number of features."""
        return self.problem.num_features

    @cached_property
    def drift(self) -> Floats:
        """The matrix D (I - P), (n, n)."""
        return self.D @ (np.eye(self.n) - self.P)

    @cached_property
    def matrix(self) -> Floats:
        """The matrix of the projected equation, Phi^T D (I - Pi P) Phi, (d, d)."""
        return np.asarray(self.Phi.T @ self.D @ (np.eye(self.n) - self.Pi @ self.P) @ self.Phi)


def random_cases(count: int = NUM_RANDOM, seed: int = 0, small: bool = False) -> Iterator[ChainCase]:
    """Yield random cases.

    Examples
    --------
    >>> [case.problem for case in random_cases(2)]
    [Problem(5 states, 4 dense features), Problem(4 states, 4 dense features)]
    """
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        n = int(rng.integers(2, 4 if small else 6))
        d = int(rng.integers(1, min(n, SMALL_FEATURES if small else n) + 1))
        chain = _random_chain(rng, n, k)
        if small:
            chain = 0.75 * rng.dirichlet(np.ones(n)) + 0.25 * chain
        features = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-0.5, 0.5, size=d)
        if d > 1 and k % 2:
            features[:, 0] = 1.0
        features *= rng.uniform(0.5, 1.0) / np.linalg.norm(features, axis=1).max()
        rewards = rng.normal(size=n) + rng.normal()
        yield ChainCase(f"random {k}", Problem(MarkovRewardProcess(chain, rewards), features), k)


def _random_chain(rng: np.random.Generator, n: int, k: int) -> Floats:
    """Return a dense, a sparse, a lazy or a reversible chain, in turn."""
    if k % 4 == 0:
        return rng.dirichlet(np.ones(n), n)
    if k % 4 == 1:
        return 0.98 * rng.dirichlet(np.full(n, 0.2), n) + 0.02 / n
    if k % 4 == 2:
        return 0.8 * np.eye(n) + 0.2 * rng.dirichlet(np.ones(n), n)
    weights = rng.uniform(0.05, 1.0, (n, n))
    weights = weights + weights.T
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def edge_cases(small: bool = False) -> Iterator[ChainCase]:
    """Yield the cases at the edge: of chains, of features and of rewards."""
    turning = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    swapping = np.array([[0.1, 0.9], [0.9, 0.1]])
    alike = np.tile([0.3, 0.7], (2, 1))
    yield _case("no contraction in one step", turning, [1.0, 0.0, 0.0], np.eye(3))
    yield _case("two states that swap", swapping, [1.0, 0.0], np.eye(2))
    yield _case("one feature of one state", swapping, [1.0, 0.0], [[1.0], [0.0]])
    yield _case("opposite features", swapping, [1.0, -1.0], [[1.0], [-1.0]])
    yield _case("opposite features, reward against them", swapping, [-1.0, -1.0], [[1.0], [-1.0]])
    yield _case("independent states", alike, [2.0, -1.0], np.eye(2))
    yield _case("no rewards", swapping, [0.0, 0.0], np.eye(2))
    yield _case("equal rewards", swapping, [1.0, 1.0], [[1.0], [0.5]])
    yield _case("a constant feature", alike, [1.0, 0.0], [[1.0], [1.0]])
    uneven = np.tile([1.0 - 1e-4, 1e-4], (2, 1))
    yield _case("very uneven", uneven, [0.0, 1.0], np.eye(2))
    yield _case("a short feature", alike, [1.0, 0.0], [[1.0, 0.0], [1.0, 1e-2]], scale=True)
    if small:
        return
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.5)) * (1 - 2e-3) + 5e-4
    yield _case("nearly reducible", pairs, [1.0, 0.0, 0.0, -1.0], np.eye(4))
    yield _case("nearly reducible, no constant", pairs, [1.0, 0.0, 0.0, 0.0], np.eye(4)[:, :2])
    circle = 0.999 * np.roll(np.eye(4), 1, axis=1) + 0.001 * np.eye(4)
    yield _case("nearly periodic", circle, [1.0, 0.0, 0.0, 0.0], np.eye(4))
    yield _case("nearly periodic, few features", circle, [1.0, 0.0, 0.0, 0.0], np.eye(4)[:, :2])


def _case(name: str, chain: Floats, rewards: list[float], features: object, scale: bool = False) -> ChainCase:
    rows = np.array(features, dtype=float)
    if scale:
        rows /= np.linalg.norm(rows, axis=1).max()
    return ChainCase(name, Problem(MarkovRewardProcess(chain, np.array(rewards)), rows), 10_000 + len(name))


def all_cases(count: int = NUM_RANDOM, seed: int = 0, small: bool = False) -> list[ChainCase]:
    """Return the random cases and those at the edge."""
    return [*random_cases(count, seed, small), *edge_cases(small)]


def edge_case(name: str) -> ChainCase:
    """Return the case at the edge that has this name."""
    return next(case for case in edge_cases() if case.name == name)
