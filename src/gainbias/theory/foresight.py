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
    """Says how long steps of equal cost will take, after some of them; the first may prepare something.

    Parameters
    ----------
    num_steps : int
        How many there are.
    time_limit : float, optional
        Seconds.
    after : int
        So many steps are timed.
    """

    def __init__(self, num_steps: int, time_limit: float | None, after: int = 2) -> None:
        self.num_steps, self.time_limit, self.after = num_steps, time_limit, after
        self.done, self.began = 0, 0.0

    def count(self) -> None:
        """Count a step."""
        self.done += 1
        if self.done == 1:
            self.began = time.perf_counter()
        elif self.done == self.after + 1:
            seconds = (time.perf_counter() - self.began) / self.after
            say_time(seconds * (self.num_steps - self.done), self.time_limit)
