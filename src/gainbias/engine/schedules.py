"""Step sizes: how large the step with number t = 0, 1, 2, ... is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gainbias.kernels import bare_kernel
from gainbias.types import Floats, is_real


class Schedule(Protocol):
    """A sequence of step sizes."""

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""


@dataclass(frozen=True)
class Constant:
    """A constant step size `a`.

    Examples
    --------
    >>> Constant(0.1).values(0, 3)
    array([0.1, 0.1, 0.1])
    """

    a: float

    def __post_init__(self) -> None:
        _check("a", self.a)

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The numbers a, b, c for which the step sizes are ``a / (b t + c)``."""
        return self.a, 0.0, 1.0

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""
        return np.full(last - first, self.a)


@dataclass(frozen=True)
class Harmonic:
    """The step sizes ``a / (t + c0)``.

    Examples
    --------
    >>> Harmonic(2.0, 4.0).values(0, 3)
    array([0.5       , 0.4       , 0.33333333])
    """

    a: float
    c0: float

    def __post_init__(self) -> None:
        _check("a", self.a)
        _check("c0", self.c0)

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The numbers a, b, c for which the step sizes are ``a / (b t + c)``."""
        return self.a, 1.0, self.c0

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""
        return np.asarray(self.a / (np.arange(first, last) + self.c0))


@dataclass(frozen=True)
class Polynomial:
    """The step sizes ``a / (t + c0)**xi``, with xi between 0 and 1.

    Examples
    --------
    >>> Polynomial(1.0, 4.0, 0.5).values(0, 2).round(6)
    array([0.5     , 0.447214])
    """

    a: float
    c0: float
    xi: float

    def __post_init__(self) -> None:
        _check("a", self.a)
        _check("c0", self.c0)
        if not 0.0 < self.xi <= 1.0:
            raise ValueError(f"xi must be above 0 and at most 1, found {self.xi!r}: use Constant for 0")

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""
        return np.asarray(self.a / (np.arange(first, last) + self.c0) ** self.xi)


@dataclass(frozen=True, eq=False)
class Listed:
    """Step sizes from an array, one for each step.

    Examples
    --------
    >>> Listed(np.array([0.3, 0.2, 0.1])).values(1, 3)
    array([0.2, 0.1])
    """

    array: Floats

    def __post_init__(self) -> None:
        array = np.array(self.array, dtype=np.float64)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"step sizes must be a list of numbers, found an array of shape {array.shape}")
        bad = ~(np.isfinite(array) & (array >= 0.0))
        if bad.any():
            t = int(np.argmax(bad))
            raise ValueError(f"step sizes must be finite and not negative, found {array[t]} at step {t}")
        array.flags.writeable = False
        object.__setattr__(self, "array", array)

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""
        if last > self.array.size:
            raise ValueError(
                f"{self.array.size} step sizes were given, but there are {last} steps: give more"
            )
        return self.array[first:last]


@dataclass(frozen=True)
class Checked:
    """A schedule of the user's own, whose step sizes are checked before they are used.

    Examples
    --------
    >>> Checked(Constant(0.1)).values(0, 2)
    array([0.1, 0.1])
    """

    schedule: Schedule

    def values(self, first: int, last: int) -> Floats:
        """Return the step sizes with numbers ``first`` to ``last - 1``."""
        sizes = np.asarray(self.schedule.values(first, last), dtype=np.float64)
        if sizes.shape != (last - first,) or not (np.isfinite(sizes) & (sizes >= 0.0)).all():
            raise ValueError(
                f"{self.schedule!r} must give {last - first} step sizes, finite and not negative, for the "
                f"steps from {first} on; found {sizes}"
            )
        return sizes

    def __str__(self) -> str:
        return str(self.schedule)


def as_schedule(step_size: Schedule | float | Sequence[float] | Floats) -> Schedule:
    """Return a schedule: a number is constant, an array is taken step by step.

    Examples
    --------
    >>> as_schedule(0.1)
    Constant(a=0.1)
    """
    if isinstance(step_size, Constant | Harmonic | Polynomial | Listed):
        return step_size
    if is_real(step_size):
        _check("step_size", step_size)
        return Constant(float(step_size))
    if isinstance(step_size, bool | str | type) or step_size is None:
        raise ValueError(
            "a step size must be a number, an array of numbers or a schedule such as gb.Harmonic(150, 1000), "
            f"found {step_size!r}"
        )
    if hasattr(step_size, "values") and not isinstance(step_size, np.ndarray):
        return Checked(step_size)
    return Listed(np.asarray(step_size, dtype=np.float64))


def side_by_side(schedules: Sequence[Schedule], first: int, last: int) -> Floats:
    """Return step sizes number ``first`` to ``last - 1`` of several schedules: shape (steps, schedules).

    The common ones are computed by a kernel, step by step: filling in one schedule after the other would
    take as long as a step of the algorithm.

    Examples
    --------
    >>> side_by_side([Constant(0.5), Harmonic(2.0, 4.0)], 0, 2)
    array([[0.5, 0.5],
           [0.5, 0.4]])
    """
    sizes = np.empty((last - first, len(schedules)))
    ratios = [schedule.ratio for schedule in schedules if isinstance(schedule, Constant | Harmonic)]
    if len(ratios) == len(schedules):
        fill_ratios(np.array(ratios), first, sizes)
    else:
        for k, schedule in enumerate(schedules):
            sizes[:, k] = schedule.values(first, last)
    return sizes


@bare_kernel
def fill_ratios(ratios: Floats, first: int, sizes: Floats) -> None:
    """Write ``a / (b t + c)``; the ratios a, b, c are the rows of a (lanes, 3) array."""
    for t in range(sizes.shape[0]):
        number = float(first + t)
        for k in range(sizes.shape[1]):
            sizes[t, k] = ratios[k, 0] / (ratios[k, 1] * number + ratios[k, 2])


def _check(name: str, value: Any) -> None:
    if not is_real(value) or not 0.0 < value < np.inf:
        raise ValueError(f"{name} must be positive and finite, found {value!r}")
