"""Nearly decomposable chains that lump exactly, with sparse random links that an elimination would fill.

A state is (block, place). Inside a block the walk mixes permutations of the places. A link leads from block
A to block B with probability ``coupling * rate`` from every place of A, by another permutation of the
places. So the chain of blocks is a Markov chain of its own, with generator ``coupling * L``, and within a
block the law is uniform.
"""

from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .expanders import series_answer
from .groups import TWO_PI
from .record import ExactChain, Floats, Matrix, Wide, finished, from_entries, wide

TINY = 2.0**-40  # the coupling 1e-12, dyadic so that no row is rounded
INSIDE = (1 / 4, 1 / 8, 1 / 16)  # probabilities of the steps inside a block; the rest is the chance to stay


@dataclass(frozen=True)
class Links:
    """Link j of block A leads to ``blocks[j, A]`` at ``rates[j, A]``."""

    blocks: NDArray[np.int64]
    rates: Floats

    @classmethod
    def random(cls, num_blocks: int, rng: np.random.Generator, degree: int = 4) -> "Links":
        blocks = rng.integers(0, num_blocks, (degree, num_blocks))
        blocks[0] = np.roll(np.arange(num_blocks), -1)
        return cls(blocks, rng.integers(1, 9, (degree, num_blocks)) / 16)

    def uniformised(self) -> csr_array:
        """The chain of blocks at rate 2, which no block exceeds."""
        degree, num_blocks = self.blocks.shape
        return from_entries(
            [np.arange(num_blocks)] * degree, list(self.blocks), list(self.rates / 2), num_blocks
        )


def lumpable_blocks(
    num_blocks: int, block_size: int, rng: np.random.Generator, coupling: float = TINY
) -> ExactChain:
    """Random permutations everywhere; the reward, and so the bias, is constant on the blocks."""
    links = Links.random(num_blocks, rng)
    degree = len(links.blocks)
    places = np.tile(np.arange(block_size), (len(INSIDE) + degree, num_blocks, 1))
    moves = rng.permuted(places, axis=2)
    transitions = _transitions(links, moves[: len(INSIDE)], moves[len(INSIDE) :], coupling)

    block_rewards = rng.integers(0, 17, num_blocks).astype(np.float64)
    law, gain, bias = series_answer(links.uniformised(), block_rewards)
    return finished(
        transitions,
        np.repeat(block_rewards, block_size),
        np.repeat(law, block_size) / block_size,
        np.repeat(bias, block_size) / (2 * wide(coupling)),
        gain,
    )


def twisted_blocks(
    num_blocks: int,
    block_size: int,
    rng: np.random.Generator,
    coupling: float = TINY,
    block_rewards: Floats | None = None,
) -> ExactChain:
    """Every move shifts the place, so that Fourier analysis over the places solves it for any reward.

    Frequency 0 is the chain of blocks; at any other frequency the links are a small perturbation of a
    diagonal, summed as a series. Rewards are ``block_rewards`` (random by default) plus random ones that
    add up to zero in every block.
    """
    links = Links.random(num_blocks, rng)
    shifts = rng.integers(0, block_size, links.blocks.shape)
    places = np.arange(block_size)
    inside = np.stack([np.tile((places + step) % block_size, (num_blocks, 1)) for step in (1, -1, 3)])
    across = (places + shifts[..., np.newaxis]) % block_size
    transitions = _transitions(links, inside, across, coupling)

    if block_rewards is None:
        block_rewards = rng.integers(0, 17, num_blocks).astype(np.float64)
    half = rng.integers(-8, 9, (num_blocks, block_size // 2)) / 8
    local = np.concatenate([half, -half], axis=1)
    law, gain, coarse = series_answer(links.uniformised(), block_rewards)
    bias = coarse[:, np.newaxis] / (2 * wide(coupling)) + _local_bias(
        links, shifts, wide(local), wide(coupling)
    )
    rewards = block_rewards[:, np.newaxis] + local
    return finished(transitions, rewards.ravel(), np.repeat(law, block_size) / block_size, bias.ravel(), gain)


def _transitions(links: Links, inside: NDArray, across: NDArray, coupling: float) -> csr_array:
    """``inside[l, A, x]`` and ``across[j, A, x]`` are the places that the moves from (A, x) lead to."""
    _, num_blocks, block_size = inside.shape
    n = num_blocks * block_size
    states = np.arange(n)
    own_block = np.arange(num_blocks)[:, np.newaxis] * block_size
    targets = [(own_block + place).ravel() for place in inside]
    targets += [
        (block[:, np.newaxis] * block_size + place).ravel()
        for block, place in zip(links.blocks, across, strict=True)
    ]
    probabilities = [*INSIDE, *(np.repeat(coupling * rate, block_size) for rate in links.rates)]
    return from_entries([states] * len(targets), targets, probabilities, n)


def _local_bias(links: Links, shifts: NDArray, rewards: Wide, coupling: np.longdouble) -> Wide:
    """The bias of rewards that add up to zero in every block."""
    block_size = rewards.shape[1]
    turn = TWO_PI * np.arange(block_size) / block_size
    leaving_inside = sum(
        p * (1 - np.exp(1j * step * turn)) for p, step in zip(INSIDE, (1, -1, 3), strict=True)
    )
    leaving_inside[0] = 1  # nothing is left of frequency 0
    diagonal = leaving_inside + coupling * wide(links.rates).sum(axis=0)[:, np.newaxis]
    spectrum = scipy.fft.fft(rewards, axis=1)
    spectrum[:, 0] = 0
    bias = spectrum / diagonal
    for _ in range(200):
        arriving = sum(
            wide(rate)[:, np.newaxis] * np.exp(1j * np.outer(shift, turn)) * bias[block]
            for rate, shift, block in zip(links.rates, shifts, links.blocks, strict=True)
        )
        following = (spectrum + coupling * arriving) / diagonal
        settled = np.abs(following - bias).max() <= 1e-19 * np.abs(bias).max()
        bias = following
        if settled:
            return scipy.fft.ifft(bias, axis=1).real
    raise AssertionError("the coupling is too strong for this oracle")


def random_nearly_decomposable(
    num_blocks: int, block_size: int, coupling: float, rng: np.random.Generator
) -> Matrix:
    """A small dense chain of random blocks, left with probability ``coupling``; it has no closed form."""
    n = num_blocks * block_size
    same_block = np.equal.outer(np.arange(n) // block_size, np.arange(n) // block_size)
    inside = np.where(same_block, rng.exponential(size=(n, n)), 0.0)
    outside = np.where(same_block, 0.0, rng.exponential(size=(n, n)))
    inside /= inside.sum(axis=1, keepdims=True)
    outside /= outside.sum(axis=1, keepdims=True)
    return (1 - coupling) * inside + coupling * outside
