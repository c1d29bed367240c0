"""Rewrite the list of slow tests from measured times.

On an otherwise idle machine::

    rm -rf times; mkdir times
    pytest -n 2 --times=times
    python -m tools.slow times

A test goes on the list if it took more than `SECONDS` of processor time, and all its parametrisations go with
it: which of them is slow may depend on which is first. Of large families, only slow members go on it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

SECONDS = 0.6
"""Below the limit that `conftest.py` enforces, because times vary."""

LARGE_FAMILY = 30
"""Parametrisations of a test from which on they are listed one by one."""

FILE = Path(__file__).parents[1] / "tests" / "slow.txt"
HEAD = "# Tests that take more than a second of processor time; written by tools/slow.py.\n"


def read_times(folder: Path) -> dict[str, float]:
    """Return the longest time that was measured for each test."""
    times: dict[str, float] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            name, seconds, _ = json.loads(line)
            times[name] = max(seconds, times.get(name, 0.0))
    return times


def slow_tests(times: dict[str, float], limit: float = SECONDS) -> list[str]:
    """Return the names of slow tests, with one name for a family unless it is large.

    Examples
    --------
    >>> slow_tests({"a::x[1]": 2.0, "a::x[2]": 0.1, "a::y": 0.1})
    ['a::x']
    """
    families: dict[str, dict[str, float]] = defaultdict(dict)
    for name, seconds in times.items():
        families[name.partition("[")[0]][name] = seconds
    found = []
    for family, members in families.items():
        slow = [name for name, seconds in members.items() if seconds > limit]
        found += [family] if slow and len(members) < LARGE_FAMILY else slow
    return sorted(found)


if __name__ == "__main__":
    listed = slow_tests(read_times(Path(sys.argv[1])))
    FILE.write_text(HEAD + "".join(f"{name}\n" for name in listed))
    print(f"{len(listed)} lines in {FILE.name}")
