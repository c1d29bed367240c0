"""One cell of the solver benchmark, in its own process: warm up, say so, solve once, print the figures.

python -m benchmarks.solve_cell SOLVER TOLERANCE WARM-UP-CHAIN CHAIN
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array
from scipy.sparse.linalg import spsolve

from benchmarks.solve_chains import load
from tests.oracles.record import ExactChain, Floats

READY = "ready"
OWN_METHODS = ("dense-gth", "sparse-gth", "incomplete-gth", "power", "krylov", "aggregation")
PEERS = ("quantecon", "pydtmc", "spsolve")
MATVECS = "100 products"


@dataclass(frozen=True)
class Answer:
    """What a solver found; a solver without a bias leaves it out."""

    gain: float
    bias: Floats | None
    note: str = ""
    error_bound: float | None = None


def with_gainbias(method: str, tolerance: float) -> Callable[[ExactChain], Answer]:
    import gainbias as gb

    def solve(chain: ExactChain) -> Answer:
        mrp = gb.MarkovRewardProcess(chain.transitions, chain.rewards)
        solution = gb.solve(mrp, tol=tolerance, method=method)
        return Answer(solution.gain, solution.bias, solution.method, solution.error_bound)

    return solve


def with_quantecon() -> Callable[[ExactChain], Answer]:
    import quantecon

    def solve(chain: ExactChain) -> Answer:
        law = quantecon.MarkovChain(chain.transitions.toarray()).stationary_distributions[0]
        return Answer(float(law @ chain.rewards), None, "no bias")

    return solve


def with_pydtmc() -> Callable[[ExactChain], Answer]:
    import pydtmc

    def solve(chain: ExactChain) -> Answer:
        peer = pydtmc.MarkovChain(chain.transitions.toarray())
        law = np.array(peer.stationary_distributions[0])
        passage = np.array(peer.mean_first_passage_times_to())
        np.fill_diagonal(passage, 0)
        return Answer(float(law @ chain.rewards), (law @ passage - passage) @ (law * chain.rewards))

    return solve


def with_spsolve() -> Callable[[ExactChain], Answer]:
    def solve(chain: ExactChain) -> Answer:
        """One state is taken out, its bias set to zero; what is left is a regular system."""
        laplacian = csc_array(eye_array(chain.num_states) - chain.transitions)
        rest = laplacian[:-1, :-1]
        law = np.append(-spsolve(csc_array(rest.T), laplacian[[-1], :-1].toarray().ravel()), 1.0)
        law /= law.sum()
        gain = float(law @ chain.rewards)
        bias = np.append(spsolve(rest, chain.rewards[:-1] - gain), 0.0)
        return Answer(gain, bias - law @ bias)

    return solve


def with_products() -> Callable[[ExactChain], Answer]:
    """Not a solver: the yardstick of a hundred products of the matrix with a vector."""

    def multiply(chain: ExactChain) -> Answer:
        matrix, vector = csr_array(chain.transitions), chain.rewards
        for _ in range(100):
            vector = matrix @ vector
        return Answer(float("nan"), None, "yardstick")

    return multiply


def solver(name: str, tolerance: float) -> Callable[[ExactChain], Answer]:
    if name in ("auto", *OWN_METHODS):
        return with_gainbias(name, tolerance)
    return {
        "quantecon": with_quantecon,
        "pydtmc": with_pydtmc,
        "spsolve": with_spsolve,
        MATVECS: with_products,
    }[name]()


def warm_up(name: str, tolerance: float, chain: ExactChain) -> None:
    """Compile everything this cell may call; "auto" may call any method."""
    import gainbias as gb

    for each in (name, *OWN_METHODS) if name == "auto" else (name,):
        try:
            solver(each, tolerance)(chain)
        except gb.ConvergenceError:
            continue


def peak_memory() -> int:
    """The most memory this process has held since the last call of `forget_peak`, in bytes."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(name: str, tolerance: float, chain: ExactChain) -> dict[str, object]:
    import gainbias as gb

    run = solver(name, tolerance)
    forget_peak()
    start = time.process_time()
    try:
        answer = run(chain)
    except gb.ConvergenceError as error:
        return {"failed": str(error), "seconds": time.process_time() - start, "bytes": peak_memory()}
    seconds = time.process_time() - start
    peak = peak_memory()
    bias_error = None
    if answer.bias is not None:
        bias_error = float(np.abs(answer.bias - chain.bias).max() / np.ptp(chain.bias))
    return {
        "seconds": seconds,
        "bytes": peak,
        "gain_error": abs(answer.gain - chain.gain) / float(np.abs(chain.rewards).max()),
        "bias_error": bias_error,
        "error_bound": answer.error_bound,
        "note": answer.note,
    }


def main() -> None:
    name, tolerance, small, large = sys.argv[1:]
    chain = load(Path(large))
    warm_up(name, float(tolerance), load(Path(small)))
    print(READY, flush=True)
    print(json.dumps(measure(name, float(tolerance), chain)), flush=True)


if __name__ == "__main__":
    main()
