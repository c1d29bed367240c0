"""A program: chains solved in the simulator of a GPU, compared with elimination, whose errors are bounds."""

import contextlib
import gc
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sparse

import gainbias as gb
from gainbias.model.doubled import Doubled
from gainbias.model.solve.residual import balance_residual, bounded_residual, throughput
from gainbias.model.solve.vectors import here, rows_of, transposed

RNG = np.random.default_rng(0)


def random_chain(n: int = 24, density: float = 0.25) -> sparse.csr_array:
    """A random chain in which all states reach each other."""
    weights = np.where(RNG.random((n, n)) < density, RNG.random((n, n)), 0.0) + 0.3 * np.roll(np.eye(n), 1, 1)
    return sparse.csr_array(weights / weights.sum(axis=1)[:, None])


def walk(n: int, up: float, down: float) -> sparse.csr_array:
    """A walk up and down that stays at its ends."""
    transitions = (1.0 - up - down) * np.eye(n) + up * np.eye(n, k=1) + down * np.eye(n, k=-1)
    transitions[0, 0] += down
    transitions[-1, -1] += up
    return sparse.csr_array(transitions)


def ring(n: int, period: int) -> sparse.csr_array:
    """A ring whose states lead one or `period + 1` steps on."""
    steps = 0.75 * np.roll(np.eye(n), 1, 1) + 0.25 * np.roll(np.eye(n), period + 1, 1)
    return sparse.csr_array(steps)


def star(n: int) -> sparse.csr_array:
    """A centre to which all states lead, and from which all are reached."""
    transitions = np.zeros((n, n))
    transitions[0, 1:] = np.arange(1, n) / np.arange(1, n).sum()
    transitions[1:, 0], transitions[1:, 1] = 0.75, 0.25
    return sparse.csr_array(transitions)


def with_transient(n: int = 16) -> sparse.csr_array:
    """A chain with a tail of states that are left for good, some of them before the others in number."""
    inner = random_chain(n).toarray()
    transitions = np.zeros((n + 6, n + 6))
    transitions[3:-3, 3:-3] = inner
    for state in (0, 1, 2, n + 3, n + 4, n + 5):
        transitions[state, state], transitions[state, 5] = 0.5, 0.25
        transitions[state, (state + 1) % (n + 6) if state in (0, 1, n + 3, n + 4) else 4] = 0.25
    return sparse.csr_array(transitions)


def rates(n: int = 7) -> gb.MarkovRewardProcess:
    """A queue in continuous time."""
    generator = np.eye(n, k=1) + 1.5 * np.eye(n, k=-1)
    generator -= np.diag(generator.sum(axis=1))
    return gb.MarkovRewardProcess.from_rates(sparse.csr_array(generator), np.arange(n) / 4.0)


def of(transitions: sparse.csr_array) -> Callable[[], gb.MarkovRewardProcess]:
    """Return what makes a process with random rewards."""
    rewards = RNG.random(transitions.shape[0])
    return lambda: gb.MarkovRewardProcess(transitions, rewards)


def paid(transitions: sparse.csr_array) -> Callable[[], gb.MarkovRewardProcess]:
    """Return what makes a process with rewards of transitions."""
    rewards = transitions.copy()
    rewards.data = RNG.random(rewards.nnz) - 0.5
    return lambda: gb.MarkovRewardProcess(transitions, rewards)


CHAINS = {
    "random": of(random_chain()),
    "slow": of(walk(8, 0.2, 0.25)),
    "periodic": of(ring(12, 3)),
    "hub": of(star(60)),
    "transient": of(with_transient()),
    "paid": paid(random_chain(16)),
    "rates": rates,
    "steep": of(walk(9, 0.02, 0.6)),
}


def wrong(one: gb.Solution, exact: gb.Solution) -> list[str]:
    """Return which numbers are off by more than their errors say."""
    found = {
        "gain": abs(one.gain - exact.gain) <= one.gain_error + exact.gain_error,
        "bias": (np.abs(one.bias - exact.bias) <= one.bias_error + exact.bias_error).all(),
        "law": np.abs(one.stationary - exact.stationary).sum()
        <= one.stationary_error_total + exact.stationary_error_total,
        "variance": abs(one.asymptotic_variance - exact.asymptotic_variance)
        <= one.asymptotic_variance_error + exact.asymptotic_variance_error,
        "variance per step": abs(one.variance_per_step - exact.variance_per_step)
        <= one.variance_per_step_error + exact.variance_per_step_error,
        "tolerance": one.error_bound <= 1e-10,
    }
    return [name for name, good in found.items() if not good]


def compare(name: str, method: str) -> list[str]:
    """Return what differs between the processor and the device; rows of the hub are taken as long ones."""
    from gainbias.model.solve import on_gpu

    if name == "hub":
        on_gpu.PIECE_LENGTH, on_gpu.MOST_SORTED = 8, 16
    exact = gb.solve(CHAINS[name](), method="dense-gth")
    mrp = CHAINS[name]()
    found = gb.solve(mrp, method=method, device="gpu")
    differ = wrong(found, exact)
    if not found.notes[0].startswith("on a GPU"):
        differ.append("notes")
    structure, usual = mrp.structure, exact.mrp.structure
    if not np.array_equal(structure.class_of, usual.class_of) or mrp.period != exact.mrp.period:
        differ.append("structure")
    again = gb.solve(mrp, method=method, device="gpu", extra_rewards={"twice": 2.0 * mrp.rewards})
    if not np.array_equal(again.bias, found.bias) or again.gain != found.gain:
        differ.append("bits")
    extra = again.extra["twice"]
    if abs(extra.gain - 2.0 * exact.gain_per_step) > 1e-12:
        differ.append("extra rewards")
    return differ


def transposition() -> list[str]:
    """Return what differs between transposes and products of random matrices on both."""
    from gainbias.kernels.gpu import sent
    from gainbias.kernels.gpu_vectors import GpuVector
    from gainbias.model.solve import on_gpu

    differ = []
    for n, density, on_gpu.MOST_SORTED in (
        (1, 1.0, 4096), (7, 0.5, 4096), (40, 0.02, 4096), (40, 0.6, 4096), (40, 0.6, 25), (3000, 0.0005, 2),
    ):  # fmt: skip
        matrix = sparse.random_array((n, n), density=density, format="csr", rng=RNG)
        matrix.sort_indices()
        usual = matrix.T.tocsr()
        there = on_gpu.GpuChain(sent(matrix.indptr), sent(matrix.indices), GpuVector(sent(matrix.data))).T
        for part in ("indptr", "indices"):
            if not np.array_equal(getattr(usual, part), getattr(there, part)):
                differ.append(f"{part} of {n}")
        if not np.array_equal(usual.data, there.data.fetched()):
            differ.append(f"data of {n}")
        x = RNG.random(n)
        for on_gpu.PIECE_LENGTH in (512, 3):
            there.__dict__.pop("_pieces", None)
            if not np.allclose((there @ GpuVector(x.copy())).fetched(), usual @ x, rtol=1e-14):
                differ.append(f"product of {n}, {on_gpu.PIECE_LENGTH} together")
    return differ


def residuals() -> list[str]:
    """Return which residuals have other bits than on the processor."""
    from gainbias.kernels.gpu import sent
    from gainbias.kernels.gpu_vectors import GpuVector
    from gainbias.model.solve import on_gpu

    csr = random_chain()
    law, rewards, bias, low = RNG.random((4, csr.shape[0]))
    there = on_gpu.GpuChain(sent(csr.indptr), sent(csr.indices), GpuVector(sent(csr.data)))

    def found(chain: Any, *vectors: Any) -> list[Any]:
        law, rewards, bias, low = vectors
        rows, columns = rows_of(chain), rows_of(transposed(chain))
        return [
            *balance_residual(rows, columns, Doubled(law, 1e-17 * low)),
            *bounded_residual(rows, rewards, Doubled(law), Doubled(bias, 1e-17 * low)),
            throughput(chain, bias),
        ]

    usual = found(csr, law, rewards, bias, low)
    other = found(there, *(GpuVector(sent(one)) for one in (law, rewards, bias, low)))
    names = "balance", "its rounding", "residual", "its rounding", "throughput"
    return [
        name for name, one, two in zip(names, usual, other, strict=True) if not np.array_equal(one, here(two))
    ]


def arithmetic() -> list[str]:
    """Return which operations differ from those of NumPy."""
    from gainbias.kernels.gpu_vectors import GpuVector

    x, y = np.array([1.5, -2.0, 0.0, 7.25, -0.0]), np.array([-1.0, 3.0, 0.5, 7.25, 2.0])
    a, b = GpuVector(x.copy()), GpuVector(y.copy())
    results = {
        "add": (x + y, a + b), "subtract": (1.0 - y, 1.0 - b), "multiply": (x * 3.0, a * 3.0),
        "divide": (x / y, a / b), "negative": (-x, -a), "absolute": (np.abs(x), np.abs(a)),
        "maximum": (np.maximum(x, 0.0), np.maximum(a, 0.0)), "greater": (1.0 * (x > y), a > b),
        "ldexp": (np.ldexp(x, -1030), np.ldexp(a, -1030)),
    }  # fmt: skip
    differ = [name for name, (one, other) in results.items() if one.tobytes() != other.fetched().tobytes()]
    long = RNG.random(30_000) - 0.5
    there = GpuVector(long.copy())
    numbers = {
        "sum": abs(there.sum() - long.sum()) < 1e-11,
        "exact sum": GpuVector(np.array([1.0, 1e100, 1.0, -1e100] * 5000)).exact_sum() == 10_000.0,
        "products": abs((there @ there) - long @ long) < 1e-10,
        "max": there.max() == long.max(),
        "min": there.min() == long.min(),
        "size": there.size_of_largest() == np.abs(long).max(),
        "no number": np.isnan(GpuVector(np.array([1.0, np.nan, 2.0])).max()),
    }
    return differ + [name for name, good in numbers.items() if not good]


def refused() -> list[str]:
    """Return what is not refused, or not in the right words."""
    several = np.kron(np.eye(2), np.full((2, 2), 0.5))
    cases = {
        "the process has 2 recurrent classes: {0, 1}, {2, 3}": gb.MarkovRewardProcess(several, np.ones(4)),
        "steps with durations are solved on the processor": gb.MarkovRewardProcess(
            [[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], durations=[1.0, 2.0]
        ),
    }
    missed = []
    for words, mrp in cases.items():
        try:
            gb.solve(mrp, device="gpu")
            missed.append(words)
        except ValueError as error:
            missed += [] if words in str(error) else [str(error)]
    try:
        gb.solve(CHAINS["slow"](), method="power", device="gpu", time_limit=0.2)
        missed.append("time limit")
    except gb.ConvergenceError as error:
        missed += [] if "raise time_limit" in str(error) else [str(error)]
    return missed


def memory() -> list[str]:
    """Return what takes more memory than a solve asks for, and what is left of it before Python looks."""
    from gainbias.kernels import gpu_vectors
    from gainbias.model.solve import on_gpu

    taken, differ = [], []

    def noted(function):
        def noting(*given):
            array = function(*given)
            taken.append(array.nbytes)
            return array

        return noting

    for module in (gpu_vectors, on_gpu):
        module.sent, module.empty_gpu_array = noted(module.sent), noted(module.empty_gpu_array)
    hard = gb.MarkovRewardProcess(walk(3, 1e-12, 1e-12), [1.0, 2.0, 5.0])
    for mrp, extra in ((CHAINS["random"](), 0), (CHAINS["paid"](), 3), (hard, 0)):
        rewards = {f"{k}": RNG.random(mrp.num_states) for k in range(extra)}
        gc.collect()
        taken.clear()
        gc.disable()
        with contextlib.suppress(gb.ConvergenceError):
            gb.solve(mrp, device="gpu", extra_rewards=rewards)
        asked = on_gpu.bytes_needed(mrp, 1 + extra)
        if sum(taken) > asked:
            differ.append(f"{mrp.num_states} states: {sum(taken):,} bytes, {asked:,} asked for")
        kinds = gpu_vectors.GpuVector, on_gpu.GpuChain
        left = sum(isinstance(one, kinds) for one in gc.get_objects())
        differ += [f"{mrp.num_states} states: {left} left"] if left else []
        gc.enable()
    return differ


def at_once() -> list[str]:
    """Return which of several solves at once, in threads, have other bits than alone."""
    names = ("steep", "rates") * 2
    alone = [gb.solve(CHAINS[name](), device="gpu").bias for name in names]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda name: gb.solve(CHAINS[name](), device="gpu").bias, names))
    pairs = zip(names, alone, together, strict=True)
    return [name for name, one, other in pairs if not np.array_equal(one, other)]


def assembly() -> list[str]:
    """Return the kernels that have fused operations, compiled for a GPU that this machine need not have.

    What they do is done in Python, so that a solve goes on to the next one.
    """
    from numba import typeof

    from gainbias.kernels import gpu, gpu_vectors
    from gainbias.model.solve import on_gpu

    fused = {}

    def next_place(places, k):
        places[k] += 1
        return places[k] - 1

    def compiled(kernel, size, inputs, outputs):
        signature = typeof((size, inputs, outputs)).types
        if (kernel, signature) not in fused:
            fused[kernel, signature] = gpu.assembly(gpu_vectors._each(kernel), signature).count("fma.")
        on_gpu.next_place = next_place
        getattr(kernel, "py_func", kernel)(*inputs, 0, size, *outputs)
        on_gpu.next_place = gpu_vectors.next_place

    for module in (gpu_vectors, on_gpu):
        module.launch_each, module.empty_gpu_array = compiled, np.empty
        module.sent = module.fetched = np.copy
    on_gpu.what_is_missing = on_gpu.device_name = str
    on_gpu.free_memory = lambda: 2**30
    on_gpu.copy_over, on_gpu.PIECE_LENGTH, on_gpu.MOST_SORTED = np.copyto, 8, 16
    for name in ("random", "paid", "hub"):
        gb.solve(CHAINS[name](), method="krylov", device="gpu")
    sys.stdout.write(f"{len(fused)} kernels: ")
    return [f"{kernel.__name__}: {count} fused" for (kernel, _), count in fused.items() if count]


def mutants() -> list[str]:
    """Return which wrong solvers are believed: an answer may be bad, but its errors must tell."""
    from gainbias.model.solve import on_gpu

    exact = gb.solve(CHAINS["random"](), method="dense-gth")
    right, believed = on_gpu.GpuChain.__matmul__, []

    def loses_an_entry(chain, x):
        out = right(chain, x)
        out.data[3] -= x.data[chain.indices[chain.indptr[3]]] * chain.data.data[chain.indptr[3]]
        return out

    def is_rough(chain, x):
        return right(chain, x) * (1.0 + 1e-7)

    def forgets_the_end(chain, x):
        out = right(chain, x)
        out.data[-1] = 0.0
        return out

    for product in (loses_an_entry, is_rough, forgets_the_end):
        on_gpu.GpuChain.__matmul__ = product
        try:
            found = gb.solve(CHAINS["random"](), method="krylov", device="gpu")
            believed += [f"{product.__name__}: {part}" for part in wrong(found, exact) if part != "tolerance"]
        except gb.ConvergenceError:
            pass
        finally:
            on_gpu.GpuChain.__matmul__ = right
    return believed


def main(what: str, method: str = "") -> None:
    """Print what is wrong, or that nothing is."""
    differ = compare(what, method) if method else globals()[what]()
    sys.stdout.write(f"{', '.join(differ) or 'as it should be'}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
