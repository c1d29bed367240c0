"""Streams for many seeds at once have the bits of the generators that NumPy makes one by one."""

import numpy as np
import pytest

from gainbias.engine.streams import (
    first_uniforms,
    generator_of,
    next_uniform,
    stream,
    stream_states,
    stream_words,
)

SEEDS = [0, 1, 7, 2**32 - 1, 2**32, 2**63, 2**64 + 5, 2**127]
NAMES = ("first chain", "markov")


def inner(seed: int) -> tuple[int, int]:
    state = stream(seed, *NAMES).bit_generator.state["state"]
    return state["state"], state["inc"]


@pytest.mark.parametrize("seeds", [SEEDS, [2**128, 3], [5]])
def test_states_are_those_of_generators(seeds) -> None:
    states = stream_states(seeds, *NAMES).astype(object)
    found = [(int(s[0]) << 64 | int(s[1]), int(s[2]) << 64 | int(s[3])) for s in states.T]
    assert found == [inner(seed) for seed in seeds]


def test_numbers_are_those_of_generators() -> None:
    generators = [stream(seed, *NAMES) for seed in SEEDS]
    states = stream_states(SEEDS, *NAMES)
    assert first_uniforms(states).tolist() == [generator.random() for generator in generators]
    with np.errstate(over="ignore"):
        for k, generator in enumerate(generators):
            assert [next_uniform(states, k) for _ in range(300)] == generator.random(300).tolist()


@pytest.mark.parametrize("seeds", [SEEDS, [2**128, 3], [5]])
def test_generators_from_words(seeds) -> None:
    made = [generator_of(words) for words in stream_words(seeds, *NAMES).T]
    assert [one.bit_generator.state for one in made] == [
        stream(seed, *NAMES).bit_generator.state for seed in seeds
    ]
