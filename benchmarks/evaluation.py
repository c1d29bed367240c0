"""What evaluation itself costs: per step of an environment, per transition of a log, and in memory.

    python -m benchmarks.evaluation                        # about three minutes
    python -m benchmarks.evaluation --parts memory --gigabytes 2
    python -m benchmarks.evaluation --parts events

Everything runs in one thread and is measured in processor time. Things that are compared take turns, and
the best of several rounds counts for each. The cost of the library is what `evaluate` takes beyond a bare
loop over the same policy and the same environment; runs of two lengths separate it from what is done once, at
the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

import gainbias as gb
from gainbias.evaluation.collection import Collection
from gainbias.evaluation.sources.logs import log_stream
from gainbias.evaluation.values.methods import Learning, value_method
from gainbias.progress import Interruptions

ROUNDS, EVENT_ROUNDS = 4, 30
SHORT, LONG = 65_536, 262_144
EVENTS = 1_048_576
MOST_SHARE = 0.20
FEWEST_PER_SECOND = 1e6
MOST_GROWTH = 200.0
SLOW_ENOUGH = 20e-6
"""Seconds of a step from which on the share of the library is bounded. What the library does does not depend
on what a step takes, so it is measured beside steps that take no time, and compared with this."""


class Row(NamedTuple):
    """One measurement; `holds` is None if nothing is required."""

    what: str
    found: str
    need: str
    holds: bool | None


class Prepared(gymnasium.Env):
    """Returns prepared observations, discrete or of some numbers: no step could be faster."""

    def __init__(self, dimensions: int | None) -> None:
        self.place = 0
        self.action_space = spaces.Discrete(2)
        seen = np.random.default_rng(0).random((1009, dimensions or 1))
        if dimensions is None:
            self.observation_space, self.seen = spaces.Discrete(50), (50 * seen[:, 0]).astype(int).tolist()
        else:
            self.observation_space, self.seen = spaces.Box(0.0, 1.0, (dimensions,), np.float64), seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.seen[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = (self.place + 1) % len(self.seen)
        return self.seen[self.place], float(self.place), False, False, {}


def processor_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def best_times(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best processor time of each; they take turns."""
    rounds = [{name: processor_time(call) for name, call in calls.items()} for _ in range(ROUNDS)]
    return {name: min(one[name] for one in rounds) for name in calls}


def bare_loop(make: Callable[[], gymnasium.Env], policy: Callable[[Any], Any], steps: int) -> None:
    env = make()
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        observation, _, terminated, _, _ = env.step(policy(observation))
        if terminated:
            observation, _ = env.reset()


def environment_rows() -> Iterator[Row]:
    kinds = {"50 states": None, "1 number": 1, "2 numbers": 2, "3 numbers": 3, "6 numbers": 6}
    for name, dimensions in kinds.items():
        bare, own, once = costs(partial(Prepared, dimensions), lambda seen: 1)
        found = f"{1e6 * own:.1f} us a step, {own / SLOW_ENOUGH:.0%} of 20 us; {once:.2f} s once"
        yield Row(name, found, f"<= {MOST_SHARE:.0%}", own <= MOST_SHARE * SLOW_ENOUGH)
    for name in ("Acrobot-v1", "Pendulum-v1", "CartPole-v1", "FrozenLake-v1"):
        action = gymnasium.make(name).action_space.sample()
        bare, own, once = costs(partial(_plain, name), lambda seen, a=action: a)
        found = f"{1e6 * own:.1f} us beside {1e6 * bare:.1f} us, {own / bare:.0%}; {once:.2f} s once"
        bounded = bare >= SLOW_ENOUGH
        need, holds = (f"<= {MOST_SHARE:.0%}", own <= MOST_SHARE * bare) if bounded else ("", None)
        yield Row(name, found, need, holds)


def _plain(name: str) -> gymnasium.Env:
    return gymnasium.make(name, max_episode_steps=-1, disable_env_checker=True)


def costs(make: Callable[[], gymnasium.Env], policy: Callable[[Any], Any]) -> tuple[float, float, float]:
    """Seconds of a step of environment and policy, of the library on top of it, and of what it does once."""
    times = best_times(
        {
            "bare": lambda: bare_loop(make, policy, LONG - SHORT),
            "short": lambda: gb.evaluate(make, policy, num_steps=SHORT),
            "long": lambda: gb.evaluate(make, policy, num_steps=LONG),
        }
    )
    bare, both = times["bare"] / (LONG - SHORT), (times["long"] - times["short"]) / (LONG - SHORT)
    return bare, both - bare, times["short"] - SHORT * both


def log_rows(transitions: int) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    states, numbers = rng.integers(20, size=transitions), rng.random((transitions, 2))
    rewards, rows = rng.random(transitions), TWENTY[states]
    grid = gb.FourierBasis(np.zeros(2), np.ones(2), order=3)
    columns = {"state": states, "x": numbers[:, 0], "y": numbers[:, 1], "reward": rewards}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_parquet(path, columns)
        calls = {
            "arrays, 20 states": lambda: gb.evaluate_log((states, rewards)),
            "arrays, matrix of 20 features": lambda: gb.evaluate_log((states, rewards), features=TWENTY),
            "arrays, 20 numbers as features": lambda: gb.evaluate_log((rows, rewards), features=same),
            "arrays, Fourier basis of 16": lambda: gb.evaluate_log((numbers, rewards), features=grid),
            "Parquet, 20 states": lambda: gb.evaluate_log(path, state="state", num_states=20),
            "Parquet, matrix of 20 features": lambda: gb.evaluate_log(path, state="state", features=TWENTY),
        }
        for what, seconds in best_times(calls).items():
            speed = transitions / seconds
            found = f"{speed / 1e6:.2f} million transitions a second"
            yield Row(what, found, f">= {FEWEST_PER_SECOND / 1e6:g}", speed >= FEWEST_PER_SECOND)


def event_rows() -> Iterator[Row]:
    """What a row costs to read, of an ordinary log and of events, and what one more column costs.

    Columns have meaningless names, so that an ordinary log is not checked for a column of times.
    """
    from pyarrow import parquet

    rng, size = np.random.default_rng(0), EVENTS
    lasted = rng.exponential(size=size)
    columns = {"state": rng.integers(20, size=size), "reward": rng.random(size), "x": lasted}
    columns |= {"y": np.cumsum(lasted), "z": rng.random(size)}
    columns["date"] = (1e9 * columns["y"]).astype("M8[ns]")
    kinds = {
        "ordinary": {},
        "duration=": {"duration": "x"},
        "time=": {"time": "y"},
        "time=, dates": {"time": "date"},
        "duration=, reward_rate=": {"duration": "x", "reward_rate": "z"},
    }
    alone = "one column alone"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        calls: dict[str, Callable[[], float]] = {}
        for kind, named in kinds.items():
            log = {name: columns[name] for name in ("state", "reward", *named.values())}
            file = path.with_stem("-".join(log))
            write_parquet(file, log)
            calls[f"arrays, {kind}"] = partial(reading_time, log, **named)
            calls[f"Parquet, {kind}"] = partial(reading_time, file, state="state", **named)
        calls[f"arrays, {alone}"] = partial(processor_time, lasted.sum)
        column = partial(parquet.read_table, file, columns=["x"], use_threads=False)
        calls[f"Parquet, {alone}"] = partial(processor_time, column)
        found = [{name: call() for name, call in calls.items()} for _ in range(EVENT_ROUNDS)]
    best = {name: 1e9 * min(one[name] for one in found) / size for name in calls}
    for name in sorted(best):
        share = (
            ""
            if alone in name
            else f", {best[name.split(',')[0] + ', ordinary'] / best[name]:.2f} of its speed"
        )
        yield Row(name, f"{best[name]:.1f} ns a row{share}", "", None)


def reading_time(log: Any, **named: Any) -> float:
    """Processor time in which a log of 20 states is read, without what is done once, at the end."""
    stream = log_stream(log, num_states=20, **named)
    method = partial(value_method, Learning("auto"), stream.observed, stream.is_timed)
    with Interruptions() as interruptions:
        collection = Collection(stream, method, interruptions)
        return processor_time(partial(collection.reach, None))


TWENTY = np.random.default_rng(1).random((20, 20))


def same(rows: Any) -> Any:
    return rows


def write_parquet(path: Path, columns: dict[str, Any], copies: int = 1) -> None:
    """Write a table several times, one below the other, in separate row groups; times "at" go on."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(columns)
    with parquet.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for copy in range(copies):
            later = {"at": columns["at"] + copy * (columns["at"][-1] + 1.0)} if "at" in columns else {}
            writer.write_table(pyarrow.table(columns | later) if later else table)


def memory_rows(gigabytes: float) -> Iterator[Row]:
    """Peak memory while a file is read in a separate process, beyond what a small file took there."""
    rng, part = np.random.default_rng(0), 1_000_000
    plain = {f"x{k}": rng.random(part) for k in range(7)} | {"reward": rng.random(part)}
    events = plain | {"at": np.cumsum(rng.exponential(size=part))}
    for what, columns in (("7 numbers, 36 features", plain), ("events, 36 features", events)):
        with tempfile.TemporaryDirectory() as folder:
            small, large = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
            write_parquet(small, {name: column[:20_000] for name, column in columns.items()})
            write_parquet(large, columns, copies=max(1, round(gigabytes * 1e9 / (8 * len(columns) * part))))
            size = large.stat().st_size
            command = [sys.executable, "-m", "benchmarks.evaluation", "--read", str(small), str(large)]
            growth = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        found = f"{growth:.0f} MB for a file of {size / 1e9:.2f} GB"
        yield Row(f"Parquet, {what}", found, f"<= {MOST_GROWTH:g} MB", growth <= MOST_GROWTH)


def growth_in_megabytes(small: str, large: str) -> float:
    from pyarrow import parquet

    names = tuple(f"x{k}" for k in range(7))
    chosen = gb.PolynomialBasis(np.zeros(7), np.ones(7), degree=2)
    clock = {"time": "at"} if "at" in parquet.read_schema(small).names else {}

    def peak_after(path: str) -> float:
        gb.evaluate_log(path, state=names, features=chosen, **clock)
        # Not resource.getrusage: a new process begins there with the peak of the one that started it.
        status = Path("/proc/self/status").read_text()
        return float(status.split("VmHWM:")[1].split()[0]) / 1024

    return -peak_after(small) + peak_after(large)


def show(rows: Iterator[Row]) -> None:
    for row in rows:
        verdict = {True: "yes", False: "NO", None: ""}[row.holds]
        print(f"| {row.what:32} | {row.found:48} | {row.need:9} | {verdict:3} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["environments", "logs", "events", "memory"])
    parser.add_argument("--transitions", type=int, default=2_000_000, help="of the logs in memory")
    parser.add_argument(
        "--gigabytes", type=float, default=0.25, help="size of the file of which memory is told"
    )
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(growth_in_megabytes(*options.read))
        return
    parts = {
        "environments": environment_rows,
        "logs": lambda: log_rows(options.transitions),
        "events": event_rows,
        "memory": lambda: memory_rows(options.gigabytes),
    }
    for part in options.parts:
        show(parts[part]())


if __name__ == "__main__":
    main()
