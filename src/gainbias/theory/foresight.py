"""How long a curve will take is said before the work."""

from __future__ import annotations

import time
import warnings

LONG = 60.0
"""A curve that takes more seconds than this says so first."""


def say_time(seconds: float, time_limit: float | None) -> None:
    """Refuse what takes longer than its limit; without a limit, warn of what takes long."""
    if time_limit is not None and seconds > time_limit:
        raise ValueError(
            f"this curve would take about {seconds:.3g} s, more than time_limit={time_limit:g}: allow more "
            "time, ask for fewer steps, or use sampling='iid', which costs less"
        )
    if time_limit is None and seconds > LONG:
        warnings.warn(f"this curve takes about {seconds:.0f} s", stacklevel=2)


class Foresight:
    """Says how long steps of equal cost will take, after the third one; the first may prepare something.

    Parameters
    ----------
    num_steps : int
        How many there are.
    time_limit : float, optional
        Seconds.
    """

    def __init__(self, num_steps: int, time_limit: float | None) -> None:
        self.num_steps, self.time_limit = num_steps, time_limit
        self.done, self.began = 0, 0.0

    def count(self) -> None:
        """Count a step."""
        self.done += 1
        if self.done == 1:
            self.began = time.perf_counter()
        elif self.done == 3:
            say_time((time.perf_counter() - self.began) / 2.0 * (self.num_steps - 3), self.time_limit)
