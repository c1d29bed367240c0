"""How long each algorithm takes to compile, with each kind of features: seconds by name, as JSON.

GAINBIAS_CACHE=0 python -m benchmarks.engine_compile
"""

import json
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sparse

import gainbias as gb
from gainbias.engine.paths import Sampler
from gainbias.engine.schedules import side_by_side
from gainbias.kernels import bare_kernel


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    warnings.simplefilter("ignore")  # an algorithm may find these features unfit
    rng = np.random.default_rng(0)
    mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(12), 12), rng.random(12))
    dense = rng.normal(size=(12, 4)) / 8
    kinds = {"dense": dense, "sparse": sparse.csr_array(dense), "tabular": gb.Tabular()}
    bare_kernel(lambda x: x[0] + 1.0)(np.ones(3))  # numba itself takes a second when it is used first
    gb.solve(mrp)

    def draw() -> None:
        Sampler(mrp).paths([0]).take(10)
        side_by_side([gb.Constant(0.1)], 0, 10)

    measured = {"paths": seconds(draw)}
    for name, algorithm in gb.ALGORITHMS.items():
        for kind, features in kinds.items():
            if kind == "tabular" or not algorithm.tabular_only:
                problem = gb.Problem(mrp, features)
                _ = problem.ones_weights, problem.solution
                run = lambda: gb.run(name, problem, 10, 0.01, checkpoints=1)  # noqa: B023, E731
                measured[f"{name}, {kind}"] = seconds(run)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
