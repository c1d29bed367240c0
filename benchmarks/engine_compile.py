"""How long each algorithm takes to compile, with each kind of features: seconds by name, as JSON.

    GAINBIAS_CACHE=0 python -m benchmarks.engine_compile

Processor time of a first run, the best of three. Each has its own process, so that nothing that
algorithms share is compiled already, except numba itself and the kernels that solve a chain and draw its
paths. The processes are copies of one that has these, which is why this needs a system that can fork.
"""

import json
import multiprocessing
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse

import gainbias as gb
from gainbias.engine.paths import Sampler
from gainbias.engine.schedules import side_by_side
from gainbias.kernels import bare_kernel

ROUNDS = 3
PROBLEMS: dict[str, gb.Problem] = {}


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def prepare() -> float:
    """Compile what all algorithms share; return the seconds that the kernels for paths took."""
    bare_kernel(lambda x: x[0] + 1.0)(np.ones(3))  # numba itself takes a second when it is first used
    rng = np.random.default_rng(0)
    mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(12), 12), rng.random(12))
    dense = rng.normal(size=(12, 4)) / 8
    for kind, features in (("dense", dense), ("sparse", sparse.csr_array(dense)), ("tabular", gb.Tabular())):
        PROBLEMS[kind] = gb.Problem(mrp, features)
        _ = PROBLEMS[kind].ones_weights, PROBLEMS[kind].solution

    def draw() -> None:
        Sampler(mrp).paths([0]).take(10)
        side_by_side([gb.Constant(0.1)], 0, 10)

    return seconds(draw)


def first_run(pair: tuple[str, str]) -> float:
    """Return the seconds of a run of an algorithm with features of a kind."""
    name, kind = pair
    return seconds(lambda: gb.run(name, PROBLEMS[kind], 10, 0.01, checkpoints=1))


def main() -> None:
    warnings.simplefilter("ignore")  # an algorithm may find these features unfit
    measured = {"paths": prepare()}
    pairs = [
        (name, kind)
        for name, algorithm in gb.ALGORITHMS.items()
        for kind in PROBLEMS
        if kind == "tabular" or not algorithm.declared.tabular_only
    ]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        rounds = [pool.map(first_run, pairs, chunksize=1) for _ in range(ROUNDS)]
    for (name, kind), *times in zip(pairs, *rounds, strict=True):
        measured[f"{name}, {kind}"] = min(times)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
