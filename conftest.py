"""Settings for all tests, and the rule about their time.

A test that takes more than a second of processor time, compiling not counted, is marked ``slow``: by a
decorator, or by a line in ``tests/slow.txt``, which ``pytest --times FILE`` helps to write. One that is not
marked and takes longer fails. So ``pytest -m "not slow"`` stays a signal that one can wait for.

Linear algebra has one thread, as in a study: with more, last digits change. It reads that when it is loaded.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from hypothesis import settings
from numba.core import event

# The same examples on every machine, and no failure because a machine is busy.
settings.register_profile("gainbias", derandomize=True, deadline=None)
settings.load_profile("gainbias")

MOST_SECONDS = 1.0
"""Processor time that a test may take unless it is marked slow, on a machine like the one below."""

SECONDS_OF_A_MILLION_STEPS = 0.045
"""What the loop of `_slowness` takes on the machine on which tests were marked."""

SLOW = Path(__file__).parent / "tests" / "slow.txt"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options about the number of tests and their time."""
    parser.addoption("--times", help="write the processor time of each test into this folder")
    parser.addoption("--thin", type=int, help="keep at most this many parametrisations of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the time that goes into compiling."""
    config.stash[_CLOCK] = _Clock()
    event.register("numba:compile", config.stash[_CLOCK])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and leave out parametrisations if that is asked for."""
    listed = {line for line in SLOW.read_text().splitlines() if line and not line.startswith("#")}
    for item in items:
        if item.nodeid in listed or item.nodeid.partition("[")[0] in listed:
            item.add_marker("slow")
    if (most := config.getoption("thin")) is not None:
        kept, left_out = _thinned(items, most)
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)


def _thinned(items: list[pytest.Item], most: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return at most `most` of the parametrisations of each test, evenly spread, and those left out."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {
        family[i * (len(family) - 1) // max(most - 1, 1)].nodeid
        for family in families.values()
        for i in range(min(most, len(family)))
    }
    return [x for x in items if x.nodeid in chosen], [x for x in items if x.nodeid not in chosen]


class _Clock(event.Listener):  # type: ignore[misc]
    """Processor time that goes into compiling, in this process."""

    def __init__(self) -> None:
        self.compiling = 0.0
        self._depth = 0
        self._begin = 0.0

    def on_start(self, event: Any) -> None:
        """Note when the outermost of nested compilations begins."""
        if self._depth == 0:
            self._begin = time.process_time()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Add up what the outermost has taken."""
        self._depth -= 1
        if self._depth == 0:
            self.compiling += time.process_time() - self._begin

    def now(self) -> float:
        """Return the processor time of this process so far, compiling left out.

        That of children is not in it: it becomes known when they end, which may be in another test.
        """
        return time.process_time() - self.compiling


_CLOCK = pytest.StashKey[_Clock]()
_TAKEN = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure each test, without its fixtures."""
    clock = item.config.stash[_CLOCK]
    begin = clock.now()
    try:
        return (yield)
    finally:
        item.stash[_TAKEN] = clock.now() - begin


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Fail a test that takes too long and is not marked."""
    report: Any = yield
    taken = item.stash.get(_TAKEN, 0.0)
    if call.when == "call" and report.passed:
        if folder := item.config.getoption("times"):
            name = os.environ.get("PYTEST_XDIST_WORKER", "main")
            with open(Path(folder) / f"{name}.jsonl", "a") as file:
                file.write(
                    json.dumps([item.nodeid, round(taken, 3), bool(item.get_closest_marker("slow"))]) + "\n"
                )
        elif _is_too_long(item, taken):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {taken:.1f} s of processor time without compiling: more than "
                f"{MOST_SECONDS:g} s wants the mark slow (a decorator, or a line in tests/slow.txt)"
            )
    return report


def _is_too_long(item: pytest.Item, taken: float) -> bool:
    settings: Any = numba.config
    if settings.DISABLE_JIT or item.get_closest_marker("slow") or taken <= MOST_SECONDS:
        return False
    return min(taken, _seconds_again(item)) > MOST_SECONDS * max(_slowness(), 1.0)


def _seconds_again(item: pytest.Item) -> float:
    """Return what a test takes when it is run once more, or 0 if it cannot be repeated.

    What only the first test of a process pays, such as imports and caches, is then not counted.
    """
    clock = item.config.stash[_CLOCK]
    begin = clock.now()
    try:
        item.runtest()
    except (Exception, pytest.fail.Exception, pytest.skip.Exception):
        return 0.0
    return clock.now() - begin


def _slowness() -> float:
    """Return how many times slower than the machine of the marks this one is just now."""
    begin = time.process_time()
    total = 0
    for i in range(1_000_000):
        total += i
    return (time.process_time() - begin) / SECONDS_OF_A_MILLION_STEPS
