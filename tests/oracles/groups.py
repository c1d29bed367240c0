"""Random walks on groups: Fourier analysis gives the bias, the law is uniform."""

from collections.abc import Mapping

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray

from .record import ExactChain, Extended, Wide, from_entries, wide

TWO_PI = 8 * np.arctan(Extended(1))


def torus(shape: tuple[int, ...], law: Mapping[tuple[int, ...], float], rewards: ArrayLike) -> ExactChain:
    """The walk that jumps by each offset with its probability, and stays with what is missing to one."""
    n = int(np.prod(shape))
    states = np.arange(n)
    places = np.unravel_index(states, shape)
    targets = [
        np.ravel_multi_index(
            [(x + jump) % size for x, jump, size in zip(places, offset, shape, strict=True)], shape
        )
        for offset in law
    ]
    transitions = from_entries([states] * len(law), targets, list(law.values()), n)

    gap_real, gap_imaginary = _gaps(shape, law)
    gap_real.flat[0] = 1
    reward = wide(rewards).reshape(shape)
    gain = reward.mean()
    spectrum = scipy.fft.fftn(reward - gain)
    spectrum.flat[0] = 0
    bias = scipy.fft.ifftn(spectrum / (gap_real + 1j * gap_imaginary)).real.ravel()

    # Each frequency contributes its power times (1 + eigenvalue) / (1 - eigenvalue).
    power = (spectrum.real**2 + spectrum.imag**2) / Extended(n) ** 2
    variance = (power * (2 * gap_real / (gap_real**2 + gap_imaginary**2) - 1)).sum()
    return _uniform(transitions, reward.ravel(), gain, bias, variance)


def _gaps(shape: tuple[int, ...], law: Mapping[tuple[int, ...], float]) -> tuple[Wide, Wide]:
    """Real and imaginary part of one minus the eigenvalues, without cancellation near zero."""
    frequencies = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij", sparse=True)
    real, imaginary = np.zeros(shape, dtype=Extended), np.zeros(shape, dtype=Extended)
    for offset, probability in law.items():
        turns = sum(
            (k * jump % size) / Extended(size)
            for k, jump, size in zip(frequencies, offset, shape, strict=True)
        )
        turns = turns - np.rint(turns)
        real += 2 * probability * np.sin(TWO_PI * turns / 2) ** 2
        imaginary -= probability * np.sin(TWO_PI * turns)
    return real, imaginary


def ring(num_states: int, forward: float, backward: float, rewards: ArrayLike) -> ExactChain:
    """The ring with drift."""
    return torus((num_states,), {(1,): forward, (-1,): backward}, rewards)


def hypercube(flips: ArrayLike, rewards: ArrayLike) -> ExactChain:
    """The walk that flips bit b with probability ``flips[b]``, and stays with what is missing to one."""
    flips = np.asarray(flips, dtype=np.float64)
    n = 2 ** len(flips)
    states = np.arange(n)
    transitions = from_entries(
        [states] * len(flips), [states ^ (1 << bit) for bit in range(len(flips))], list(flips), n
    )

    gaps = np.ones(n, dtype=Extended)
    gaps[1:] = sum(2 * wide(flip) * (states[1:] >> bit & 1) for bit, flip in enumerate(flips))
    reward = wide(rewards)
    gain = reward.mean()
    spectrum = _walsh_hadamard(reward - gain)
    spectrum[0] = 0
    bias = _walsh_hadamard(spectrum / gaps) / n
    variance = ((spectrum / n) ** 2 * (2 / gaps - 1)).sum()
    return _uniform(transitions, reward, gain, bias, variance)


def _walsh_hadamard(values: Wide) -> Wide:
    width = 1
    while width < len(values):
        pairs = values.reshape(-1, 2, width)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        width *= 2
    return values


def _uniform(
    transitions: NDArray, rewards: Wide, gain: Extended, bias: Wide, variance: Extended
) -> ExactChain:
    n = len(rewards)
    return ExactChain(
        transitions,
        rewards.astype(np.float64),
        np.full(n, 1 / n),
        float(gain),
        (bias - bias.mean()).astype(np.float64),
        float(variance),
    )
