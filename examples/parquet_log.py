"""A log in a Parquet file: a call centre with three desks, minute by minute, with breaks between shifts.

The file says how many callers were there and what the minute earned. It is read in pieces, so it may be
larger than memory. The answer is for the rule that was followed while the log was written.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

import gainbias as gb

DESKS, ROOM, ARRIVAL, SERVICE = 3, 8, 0.30, 0.12
SHIFTS, MINUTES = 400, 480

callers = np.arange(ROOM + 1)
up = ARRIVAL * (callers < ROOM)
down = SERVICE * np.minimum(callers, DESKS)
earns = 2.0 * np.minimum(callers, DESKS) - 1.0 * np.maximum(callers - DESKS, 0)  # talk pays, waiting costs


def write_log(path):
    """Simulate all shifts side by side and write one below the other; each begins where one was drawn."""
    rng = np.random.default_rng(0)
    present = np.empty((MINUTES, SHIFTS), dtype=np.int64)
    present[0] = rng.integers(DESKS + 1, size=SHIFTS)
    for minute in range(1, MINUTES):
        before, draw = present[minute - 1], rng.random(SHIFTS)
        present[minute] = before + (draw < up[before]) - (draw > 1.0 - down[before])
    columns = {
        "shift": np.repeat(np.arange(SHIFTS), MINUTES),
        "callers": present.T.ravel(),
        "earned": earns[present.T.ravel()],
    }
    parquet.write_table(pyarrow.table(columns), path)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "calls.parquet"
    write_log(path)
    estimate = gb.evaluate_log(path, state="callers", reward="earned", columns={"episode": "shift"})
print(estimate, "\n")

moves = np.diag(1.0 - up - down) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
exact = gb.solve(gb.MarkovRewardProcess(moves, earns))
low, high = estimate.gain_interval
print(f"gain {estimate.gain:.3f}, interval {low:.3f} to {high:.3f}; exact {exact.gain:.3f}")
for count in (0, DESKS, ROOM):
    low, high = estimate.value_interval(count)
    found = f"value of {count} callers {estimate.value(count):.2f}, interval {low:.2f} to {high:.2f}"
    print(f"{found}; exact {exact.bias[count]:.2f}")
