"""How long a curve will take is said before the work."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

LONG = 60.0
"""A curve that takes more seconds than this says so first."""


def say_time(seconds: float, time_limit: float | None, nodes: int = 1) -> None:
    """Refuse what takes longer than its limit; without a limit, warn of what takes long.

    Several nodes are those of a chain: independent samples have one.
    """
    if time_limit is not None and seconds > time_limit:
        cheaper = ", or use sampling='iid', which costs less" if nodes > 1 else ""
        raise ValueError(
            f"this curve would take about {seconds:.3g} s, more than time_limit={time_limit:g}: allow more "
            f"time, or ask for fewer steps{cheaper}"
        )
    if time_limit is None and seconds > LONG:
        warnings.warn(f"this curve takes about {seconds:.0f} s", stacklevel=2)


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Return how long some work takes, tried a few times after a first time, which may prepare something."""
    work()
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats
