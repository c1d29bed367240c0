"""Units that keep a core busy for a given time."""

import time
from dataclasses import dataclass

from tests.experiments.trivial import Trivial


@dataclass(frozen=True)
class Busy(Trivial):
    """Takes the given seconds of processor time."""

    def compute(self) -> dict[str, dict[str, list[float]]]:
        began, end = time.perf_counter(), time.thread_time() + self.takes
        while time.thread_time() < end:
            pass
        taken = time.perf_counter() - began  # longer, if other programs run
        return {"runs": {"taken": [taken] * 1000, "step": list(range(1000))}}
