"""Step sizes agree with their formulas, in pieces or at once, and wrong arguments are refused."""

import numpy as np
import pytest

from gainbias.engine.schedules import (
    Constant,
    Harmonic,
    Listed,
    Polynomial,
    Schedule,
    as_schedule,
    side_by_side,
)


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (Constant(0.3), lambda t: 0.3 + 0 * t),
        (Harmonic(150, 1000), lambda t: 150 / (t + 1000)),
        (Polynomial(2.0, 5.0, 0.75), lambda t: 2.0 * (t + 5.0) ** -0.75),
        (Listed(np.linspace(1, 0, 50)), lambda t: np.linspace(1, 0, 50)[t]),
    ],
)
def test_formula_and_pieces(schedule: Schedule, formula) -> None:  # type: ignore[no-untyped-def]
    whole = schedule.values(0, 50)
    np.testing.assert_allclose(whole, formula(np.arange(50)), rtol=1e-15)
    np.testing.assert_array_equal(np.concatenate([schedule.values(0, 7), schedule.values(7, 50)]), whole)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "schedules",
    [
        [Harmonic(150.0, 1000.0), Constant(0.3), Harmonic(0.1, 1e-3)],
        [Harmonic(3.0, 7.0), Polynomial(2.0, 5.0, 0.75), Listed(np.linspace(1, 0, 3100))],
    ],
    ids=["compiled", "others"],
)
def test_side_by_side_they_have_the_same_bits(schedules: list[Schedule]) -> None:
    joint = side_by_side(schedules, 3000, 3100)
    for k, schedule in enumerate(schedules):
        np.testing.assert_array_equal(joint[:, k], schedule.values(3000, 3100))


def test_as_schedule() -> None:
    assert as_schedule(0.5) == Constant(0.5)
    assert as_schedule(Harmonic(1, 2)) == Harmonic(1, 2)
    assert as_schedule([0.1, 0.2]).values(1, 2).tolist() == [0.2]

    class Own:
        def values(self, first: int, last: int) -> np.ndarray:
            return np.ones(last - first)

    own = Own()
    assert as_schedule(own).values(0, 2).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_parameters_must_be_positive_and_finite(bad: float) -> None:
    for make in (
        Constant,
        lambda a: Harmonic(a, 1),
        lambda c0: Harmonic(1, c0),
        lambda a: Polynomial(a, 1, 0.5),
    ):
        with pytest.raises(ValueError, match="must be positive and finite, found"):
            make(bad)


@pytest.mark.parametrize("xi", [0.0, 1.5])
def test_exponent_is_between_0_and_1(xi: float) -> None:
    with pytest.raises(ValueError, match="xi must be above 0 and at most 1, found"):
        Polynomial(1.0, 1.0, xi)


def test_lists_are_checked() -> None:
    with pytest.raises(ValueError, match=r"found -1\.0 at step 1"):
        Listed(np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"found an array of shape \(1, 2\)"):
        Listed(np.ones((1, 2)))
    with pytest.raises(ValueError, match="2 step sizes were given, but there are 3 steps: give more"):
        Listed(np.ones(2)).values(0, 3)


@pytest.mark.parametrize("given", ["0.1", True, Constant, None])
def test_what_is_no_step_size_is_refused(given) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="a step size must be a number, an array of numbers or a schedule"):
        as_schedule(given)


@pytest.mark.parametrize("sizes", [[-0.1, 0.1], [np.nan, 0.1], [0.1]])
def test_schedules_of_others_are_checked(sizes) -> None:  # type: ignore[no-untyped-def]
    class Own:
        def values(self, first: int, last: int) -> np.ndarray:
            return np.array(sizes)

    with pytest.raises(ValueError, match="must give 2 step sizes, finite and not negative"):
        as_schedule(Own()).values(0, 2)
