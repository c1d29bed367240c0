"""Units that do next to nothing, or misbehave."""

import os
import signal
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from gainbias.experiments.provenance import code_of, hash_of
from gainbias.experiments.units import MOST_CARRIED

REACH = ("gainbias.experiments.units",)


@dataclass(frozen=True)
class Trivial:
    """A number; `does` may be "nothing", "sleep", "raise", "leave", "hoard" or "kill", as the system does.

    Memory is hoarded in megabytes of the number. For a GPU it may also be "large" or "no GPU".
    """

    number: int
    does: str = "nothing"
    takes: float = 0.0
    code: str = field(default_factory=lambda: code_of(REACH))

    lane_steps = 1
    reach = REACH

    @property
    def seconds(self) -> float:
        return self.takes

    @cached_property
    def id(self) -> str:
        return hash_of(asdict(self))

    @property
    def label(self) -> str:
        return f"number {self.number}"

    companions = "all"

    def compute_together(self, units, device):
        """Compute units one after the other, as those whose lanes run together."""
        yield from (unit.compute() for unit in units)

    def begin(self):
        """Do all that can go wrong; of a `large` one there is more than is carried."""
        self.compute()
        return b"x" * (MOST_CARRIED if self.does == "large" else 0)

    def run_stacked(self, begun):
        """Return how many units there are, for each."""
        if self.does == "no GPU":
            raise MemoryError("it is full")
        return [{"together": len(begun)} for _ in begun]

    def finish(self, begun, found):
        """Return the number and what was found."""
        return {"runs": {"number": [self.number], "together": [found.get("together", 0)]}}

    def compute(self) -> dict[str, dict[str, list[int]]]:
        if self.does == "raise":
            raise ArithmeticError(f"number {self.number} is too large")
        if self.does == "kill":
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "leave":
            os._exit(3)
        hoard = b"x" * (self.number * 10**6 * (self.does == "hoard"))
        if self.does in ("sleep", "hoard"):
            time.sleep(self.takes)
        if self.does.startswith("touch "):
            Path(self.does.removeprefix("touch ")).touch()
            time.sleep(self.takes)
        return {"runs": {"number": [self.number], "process": [os.getpid()], "hoarded": [len(hoard)]}}
