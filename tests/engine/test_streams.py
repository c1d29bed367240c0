"""Streams for many seeds at once have the bits of the generators that NumPy makes one by one."""

import numpy as np
import pytest

from gainbias.engine.streams import (
    first_uniforms,
    next_uniform,
    skipped,
    stream,
    stream_states,
)
from gainbias.kernels import bare_kernel, high_product

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
def test_several_names_at_once_are_one_after_the_other(seeds) -> None:
    together = stream_states(seeds, ["first chain", "second chain"], "start")
    alone = [stream_states(seeds, name, "start") for name in ("first chain", "second chain")]
    np.testing.assert_array_equal(together, np.concatenate(alone, axis=1))


@bare_kernel
def fill_uniforms(states, out):
    for k in range(out.shape[0]):
        for t in range(out.shape[1]):
            out[k, t] = next_uniform(states, k)


def test_kernels_draw_the_numbers_of_generators() -> None:
    """They multiply by an instruction of the processor, and Python by halves."""
    states, drawn = stream_states(SEEDS, *NAMES), np.empty((len(SEEDS), 1000))
    fill_uniforms(states, drawn)
    np.testing.assert_array_equal(drawn, [stream(seed, *NAMES).random(1000) for seed in SEEDS])


@bare_kernel
def fill_products(a, b, out):
    for i in range(len(out)):
        out[i] = high_product(a[i], b[i])


def test_upper_halves_of_products() -> None:
    edges = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1], np.uint64)
    a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
    expected = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    found = np.empty(len(a), np.uint64)
    fill_products(a, b, found)
    assert found.tolist() == expected
    with np.errstate(over="ignore"):
        assert high_product(a, b).tolist() == expected


@pytest.mark.parametrize("count", [0, 1, 2, 5, 4096, 2**40 + 7])
def test_numbers_are_skipped_as_generators_do(count) -> None:
    states = skipped(stream_states(SEEDS, *NAMES), count)
    generators = [stream(seed, *NAMES) for seed in SEEDS]
    for generator in generators:
        generator.bit_generator.advance(count)
    assert first_uniforms(states).tolist() == [generator.random() for generator in generators]
