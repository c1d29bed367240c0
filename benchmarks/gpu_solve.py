"""Solves on a GPU: a random graph with 8 transitions from each state; times of parts, and the error.

    python benchmarks/gpu_solve.py --states 1e5             # every kernel, in less than a minute
    python benchmarks/gpu_solve.py --states 1e6 1e7 1e8

The probabilities are multiples of 1/64, and the rewards are those of a bias of whole numbers and of the gain
1/8, so that the answer is known exactly, up to a level of the bias. Each graph is made with all threads,
checked by `MarkovRewardProcess`, and solved twice from the process on the host. The extra
time of the first solve is compiling; both must give the same bits. Up to `--compare` states the processor
solves it too.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sparse

import gainbias as gb
from gainbias.kernels import count_threads, kernel, share_runs, using_threads
from gainbias.kernels.gpu import device_name, what_is_missing
from gainbias.kernels.gpu_vectors import wait
from gainbias.model.solve import iterative, on_gpu, semi_markov, solve

WAYS = 8
GAIN = 0.125
PARTS = ("transfer", "transpose", "structure", "law", "solves", "certificate", "variance", "fetched", "rest")


@kernel
def mixed(number: int) -> int:
    """Return a number of 31 bits that looks random (the finaliser of SplitMix64)."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(33))


@kernel
def bias_of(state: int) -> float:
    """Return the bias of a state, up to a level."""
    return float(mixed(-state - 1) % 1000)


@kernel
def write_graph(n: int, begin: int, end: int, indices: Any, data: Any, rewards: Any) -> None:
    """Write the rows and rewards of the states `begin` to ``end - 1``: one leads to the next state."""
    for i in range(begin, end):
        first = i * WAYS
        indices[first] = (i + 1) % n
        found, draw = 1, 0
        while found < WAYS:
            target = mixed(first + draw * 1_000_003 * n) % n
            draw += 1
            place = first + found
            while place > first and indices[place - 1] > target:
                indices[place] = indices[place - 1]
                place -= 1
            if place > first and indices[place - 1] == target:
                # Drawn before: what was moved goes back.
                for k in range(place, first + found):
                    indices[k] = indices[k + 1]
            else:
                indices[place] = target
                found += 1
        reward = GAIN + bias_of(i)
        for k in range(WAYS // 2):
            more = mixed(first + k + 7_777_777_777) % 7
            for place, weight in ((first + k, 8 + more), (first + WAYS - 1 - k, 8 - more)):
                data[place] = weight / 64
                reward -= weight / 64 * bias_of(indices[place])
        rewards[i] = reward


@kernel
def write_bias(begin: int, end: int, bias: Any) -> None:
    """Write the bias of the states `begin` to ``end - 1``, up to a level."""
    for i in range(begin, end):
        bias[i] = bias_of(i)


def graph(n: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Return transitions and rewards."""
    small = n * WAYS < 2**31
    indices, data = np.empty(n * WAYS, np.int32 if small else np.int64), np.empty(n * WAYS)
    rewards = np.empty(n)
    share_runs(lambda begin, end: write_graph(n, begin, end, indices, data, rewards), n)
    starts = np.arange(0, n * WAYS + 1, WAYS, dtype=indices.dtype)
    return sparse.csr_array((data, indices, starts), (n, n)), rewards


class Clock:
    """Seconds of parts of a solve; time that a part spends in another one counts for the other one."""

    def __init__(self) -> None:
        self.seconds, self._inner = dict.fromkeys(PARTS, 0.0), [0.0]

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is timed."""

        @wraps(function)
        def measured(*given: Any, **options: Any) -> Any:
            wait()
            start = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*given, **options)
            finally:
                wait()
                took = time.perf_counter() - start
                self.seconds[part] += took - self._inner.pop()
                self._inner[-1] += took

        return measured


@contextmanager
def timing(clock: Clock) -> Iterator[None]:
    """Time the parts of solves inside the block."""
    chain = on_gpu.GpuChain
    places: list[tuple[Any, str, str]] = [
        (on_gpu, "sent", "transfer"),
        (chain.T, "func", "transpose"),
        (on_gpu.GpuProcess, "_find_structure", "structure"),
        (iterative, "prepare", "law"),
        (iterative.IterativeSolver, "solve", "solves"),
        (semi_markov, "solve_and_certify", "certificate"),
        (semi_markov, "stationary_errors", "certificate"),
        (solve, "asymptotic_variance", "variance"),
        (solve, "here", "fetched"),
    ]
    before = [getattr(owner, name) for owner, name, _ in places]
    try:
        for (owner, name, part), function in zip(places, before, strict=True):
            setattr(owner, name, clock.timed(part, function))
        yield
    finally:
        for (owner, name, _), function in zip(places, before, strict=True):
            setattr(owner, name, function)


def tell(*words: object) -> None:
    """Write a line at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def fresh(mrp: gb.MarkovRewardProcess) -> gb.MarkovRewardProcess:
    """Return the same process, without any stored results."""
    again = object.__new__(gb.MarkovRewardProcess)
    again._set(**{name: getattr(mrp, name) for name in mrp.__dataclass_fields__})
    return again


def measure(n: int, method: str, compare: int) -> None:
    """Solve a graph of `n` states, and report on it."""
    tell(f"\n{n:,} states, {n * WAYS:,} transitions, method {method}")
    start = time.perf_counter()
    transitions, rewards = graph(n)
    tell(f"  made     {time.perf_counter() - start:8.2f} s")
    start = time.perf_counter()
    mrp = gb.MarkovRewardProcess(transitions, rewards)
    del transitions, rewards
    tell(f"  checked  {time.perf_counter() - start:8.2f} s")
    solved = []
    for turn in ("first solve", "second solve"):
        process, clock = fresh(mrp), Clock()
        with timing(clock):
            start = time.perf_counter()
            solved.append(gb.solve(process, method=method, device="gpu"))
            took = time.perf_counter() - start
        clock.seconds["rest"] = took - sum(clock.seconds.values())
        tell(f"  {turn}: {took:.2f} s")
        for part, seconds in clock.seconds.items():
            tell(f"    {part:12s} {seconds:8.3f} s")
    one, two = solved
    same = all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("stationary", "bias", "bias_error", "stationary_error")
    ) and (one.gain, one.gain_error, one.error_bound) == (two.gain, two.gain_error, two.error_bound)
    tell(f"  the same bits twice: {same}")
    tell(f"  {two.iterations} products, notes {two.notes}")
    bias = np.empty(n)
    share_runs(lambda begin, end: write_bias(begin, end, bias), n)
    off = two.bias - bias
    tell(f"  gain {two.gain!r} off by {abs(two.gain - GAIN):.1e}, error given {two.gain_error:.1e}")
    tell(f"  bias off by {np.ptp(off):.1e} of a span of {np.ptp(bias):g}, given {two.bias_error[0]:.1e}")
    tell(f"  error bound {two.error_bound:.1e}, residual {two.residual:.1e}")
    tell(f"  law: total {two.stationary.sum()!r}, error given {two.stationary_error_total:.1e}")
    tell(f"  variance {two.asymptotic_variance!r}, error given {two.asymptotic_variance_error:.1e}")
    if n <= compare:
        start = time.perf_counter()
        usual = gb.solve(fresh(mrp), method=method)
        took = time.perf_counter() - start
        law = np.abs(usual.stationary - two.stationary).sum()
        tell(f"  processor: {took:.2f} s, {usual.iterations} products, error bound {usual.error_bound:.1e}")
        tell(f"  apart: gain {abs(usual.gain - two.gain):.1e}, law {law:.1e} in total,")
        tell(f"    bias {np.abs(usual.bias - two.bias).max():.1e},")
        tell(f"    variance {abs(usual.asymptotic_variance - two.asymptotic_variance):.1e}")


def main() -> None:
    """Measure all requested sizes; one that fails does not stop the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", nargs="+", type=float, default=[1e5])
    parser.add_argument("--method", default="krylov", choices=on_gpu.GPU_METHODS)
    parser.add_argument("--compare", type=float, default=1e6)
    options = parser.parse_args()
    missing = what_is_missing()
    if missing:
        sys.exit(missing)
    tell(device_name(), f"numpy {np.__version__}, {count_threads(None)} threads")
    failed = False
    for states in options.states:
        try:
            with using_threads(count_threads(None)):
                measure(int(states), options.method, int(options.compare))
        except Exception:
            failed = True
            tell(traceback.format_exc())
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
