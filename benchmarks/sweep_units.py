"""Units that keep a core busy for a given time, or do nothing."""

import time
from dataclasses import asdict, dataclass, field
from functools import cached_property

from gainbias.experiments.provenance import code_version
from gainbias.experiments.work import hash_of


@dataclass(frozen=True)
class Busy:
    number: int
    takes: float
    code: str = field(default_factory=code_version)

    lane_steps = 0

    @property
    def seconds(self) -> float:
        return self.takes

    @cached_property
    def id(self) -> str:
        return hash_of(asdict(self))

    @property
    def label(self) -> str:
        return f"number {self.number}"

    def compute(self) -> dict[str, dict[str, list[float]]]:
        began, end = time.perf_counter(), time.thread_time() + self.takes
        while time.thread_time() < end:
            pass
        taken = time.perf_counter() - began  # longer, if other programs run
        return {"runs": {"taken": [taken] * 1000, "step": list(range(1000))}}
