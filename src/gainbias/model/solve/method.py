"""What every exact method offers, and within which limits it works."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from gainbias.model.checks import FloatArray
from gainbias.progress import Watch


class Solver(Protocol):
    """A chain that is ready to be solved for many right sides."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def stationary(self) -> FloatArray:
        """Stationary law, (n,); with several recurrent classes each of them sums to one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth telling the user."""

    @property
    def iterations(self) -> int:
        """Matrix-vector products or sweeps so far, 0 for a direct method."""

    @property
    def tolerance(self) -> float:
        """Residual at which `solve` stops relative to its right side, 0 for a direct method."""

    def average(self, values: FloatArray) -> FloatArray:
        """Return the long-run average of `values` from each state, (n,)."""

    def solve(self, right: FloatArray) -> FloatArray:
        """Return x with ``x - P x = right`` and average 0, for a right side (n,) with average 0."""


class MethodError(Exception):
    """A method cannot do it here; the text says why. The next method takes over."""


@dataclass(frozen=True)
class Budget:
    """How much memory (bytes), time and arithmetic a method may use."""

    max_memory: float
    watch: Watch
    max_flops: float = float("inf")


def available_memory() -> float:
    """Return the memory in bytes that is free on this machine, as far as the system tells.

    Examples
    --------
    >>> available_memory() > 1e6
    True
    """
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4e9
