"""The zoo: no number of a solution is outside its bound on any kind of chain, and bounds are of use."""

import numpy as np
import pytest

from benchmarks import zoo as benchmark
from tests.oracles.exact import as_float, enclosed_answer, exact_answer
from tests.oracles.zoo import (
    ALL_KINDS,
    HELD_OUT,
    KINDS,
    OPEN,
    dense,
    in_eighths,
    product_of,
    specimen,
    transient_tail,
)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_chain_of_each_kind(kind: str) -> None:
    row = benchmark.measure(kind, [(OPEN.get(kind) or HELD_OUT[kind])[0]])
    assert row.chains == 1
    assert not row.refused
    assert not row.outside
    assert row.median <= 1e6


@pytest.mark.parametrize("method", benchmark.METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_forced_methods(kind: str, method: str) -> None:
    """They may refuse a chain; what they answer is within its bound or estimate."""
    assert not benchmark.measure(kind, OPEN[kind][2:3], method).outside


@pytest.mark.parametrize(
    ("kind", "seed", "method"),
    [
        ("sparse random", 2, "krylov"),
        pytest.param("nearly decomposable", 1, "power", marks=pytest.mark.slow),
        ("rewards of moves on stiff chains", 1, "power"),
        ("birth and death over 80 decades", 0, "incomplete-gth"),
    ],
)
def test_what_was_once_outside(kind: str, seed: int, method: str) -> None:
    """A random right side that hardly saw the error of the law, a mean of rewards, and a division by 0."""
    assert not benchmark.measure(kind, [seed], method).outside


def test_there_are_enough() -> None:
    assert len(KINDS) >= 12
    assert sum(map(len, (OPEN | HELD_OUT).values())) >= 200
    assert len(HELD_OUT) > len(OPEN)


@pytest.mark.parametrize(
    "kind", ["dense", "periodic", "several classes", "rewards of moves", "transient tail"]
)
def test_intervals_enclose_the_fractions(kind: str) -> None:
    mrp = specimen(kind, 3).mrp
    near, exact = enclosed_answer(mrp), exact_answer(mrp)
    for name in ("law", "gain", "bias"):
        for one, other in zip(getattr(near, name), getattr(exact, name), strict=True):
            assert abs(one - other) <= abs(other) / 10**30
    assert (near.variance is None) == (exact.variance is None)
    if exact.variance is not None:
        assert near.variance is not None
        assert abs(near.variance - exact.variance) <= exact.variance / 10**30


def test_a_product_is_what_its_equations_say() -> None:
    rng = np.random.default_rng(0)
    mrp, exact = product_of(in_eighths(dense(rng), rng), in_eighths(transient_tail(rng), rng))
    direct = enclosed_answer(mrp)
    assert exact.variance is not None
    assert direct.variance is not None
    numbers = [*exact.law, *exact.bias, exact.variance]
    for one, other in zip(numbers, [*direct.law, *direct.bias, direct.variance], strict=True):
        assert abs(as_float(one - other)) <= 1e-20


def test_what_is_outside_is_counted() -> None:
    row = benchmark.Row()
    found = benchmark.measured(*specimen("dense", 1))
    half = {name: one._replace(bound=0.25 * one.error) for name, one in found.items()}
    row.add("here", half)
    assert len(row.outside) == sum(int((one.error > 0.0).sum()) for one in found.values()) > 0
    assert row.worst == pytest.approx(4.0)
    assert np.isfinite(row.median)


@pytest.mark.slow
def test_the_whole_zoo() -> None:
    text, is_met = benchmark.report("both")
    assert is_met, text
