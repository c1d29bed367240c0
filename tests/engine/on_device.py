"""A program: lanes of an algorithm in the simulator, compared with the processor; or what they compile to."""

import sys
import tempfile
import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse

import gainbias as gb
from gainbias.algorithms.registry import ALGORITHMS

STEPS = 60


def problems() -> dict[str, gb.Problem]:
    """Return a small chain with features of each kind."""
    rng = np.random.default_rng(0)
    mrp = gb.MarkovRewardProcess(rng.dirichlet(np.ones(12), 12), rng.random(12))
    dense = rng.random((12, 4)) / 3.0
    few = scipy.sparse.csr_array(np.where(dense > 0.12, dense, 0.0))
    return {
        "dense": gb.Problem(mrp, dense),
        "sparse": gb.Problem(mrp, few),
        "tabular": gb.Problem(mrp, gb.Tabular()),
    }


def same(one: gb.Trace, other: gb.Trace) -> bool:
    """Whether two runs have the same bits."""
    arrays = [(one.weights, other.weights), (one.gain, other.gain)]
    return one.outcomes == other.outcomes and all(np.array_equal(a, b, equal_nan=True) for a, b in arrays)


def both(*given, **options) -> tuple[gb.Trace, gb.Trace]:
    """Return a run on the processor and on the device."""
    return gb.run(*given, **options), gb.run(*given, device="gpu", **options)


def compare(name: str, problem: gb.Problem) -> bool:
    """Whether an algorithm has the same bits with several seeds and step sizes, along a chain and without."""
    sizes = [gb.Harmonic(2.0, 10.0), gb.Polynomial(0.5, 4.0, 0.7)]
    usual = {"checkpoints": [0, 7, STEPS], "params": dict(ALGORITHMS[name].declared.trial_params)}
    chain = both(name, problem, STEPS, sizes, seeds=(0, 5), **usual)
    apart = both(name, problem, STEPS, 0.1, seeds=3, sampling="iid", **usual)
    return same(*chain) and same(*apart)


def fused_operations(name: str, problem: gb.Problem) -> int:
    """Return how many fused operations there are in what a run would launch on a GPU that is not here."""
    from numba import typeof

    from gainbias.engine import device, work
    from gainbias.kernels import gpu

    texts = []
    device.sent = device.fetched = np.copy
    device.copy_over, device.free_memory, device.what_is_missing = np.copyto, lambda: 2**30, str
    device.empty_there, device.fetch_into = np.ones, np.copyto
    device.launch = lambda kernel, count, *given, block=None: texts.append(
        gpu.assembly(kernel, tuple(typeof(one) for one in given))
    )
    params = dict(ALGORITHMS[name].declared.trial_params)
    looks = gb.Checkpoints([1], keep="errors")
    widths = (False, True) if problem.features.kind == "dense" else (False,)  # for one, and for any
    for work.RunPlan.any_width in widths:
        gb.run(name, problem, 1, 0.1, seeds=(0, 1), params=params, checkpoints=looks, device="gpu")
    assert len(texts) == 4 * len(widths), "launches for step sizes, paths, lanes and errors"
    return sum(text.count("fma.") for text in texts)


def own() -> gb.Algorithm:
    """Return discounted TD as a user would write it, for one lane."""

    class Params(NamedTuple):
        discount: float = 0.9

    class State(NamedTuple):
        weights: np.ndarray

    def init(setting, params):
        return State(setting.weights.copy())

    def step(state, params, rows, move, step_size):
        here, after = gb.dot(rows, move.here, state.weights), gb.dot(rows, move.after, state.weights)
        delta = move.reward + params.discount * after - here
        gb.axpy(rows, move.here, step_size * delta, state.weights)

    return gb.Algorithm(name="own", form=gb.Form(init, step), params=Params)


def others() -> dict[str, bool]:
    """Return what else is the same: one's own algorithms, lanes that diverge, what is kept."""
    from gainbias.engine import device

    problem = problems()["dense"]
    listed = np.linspace(0.5, 0.1, STEPS)
    mine = both(own(), problem, STEPS, [0.1, listed], seeds=(1, 2), params={"discount": [0.5, 0.9]})
    wild = both("td-lambda", problem, 400, [0.1, 200.0], seeds=range(2), checkpoints=[50, 400])
    looks = gb.Checkpoints([3, STEPS], keep="errors")
    kept = both("double-chain", problem, STEPS, 0.1, checkpoints=looks, sampling=gb.Markov(start=3))
    fallen = both("td-lambda", problem, 400, [0.1, 200.0], checkpoints=gb.Checkpoints([1, 400], "errors"))
    some = both("lstd", problem, STEPS, checkpoints=gb.Checkpoints([3, STEPS], keep=[5, 1]))
    radii = {"weights_radius": [np.inf, 0.05]}
    mixed = both("single-chain", problems()["tabular"], STEPS, 0.1, seeds=range(2), params=radii)
    swept, study, stacked = tables_are_equal(), studies_are_equal(), stacked_lanes_are_equal()
    device.LEAST_STRETCH, device.LONGEST_STRETCH = 1, 7
    short = both("td-lambda", problem, STEPS, 0.1)
    device.free_memory = lambda: 7_000
    pieces = both("td-lambda", problem, STEPS, [0.1, 0.2, 0.3], seeds=range(4), checkpoints=range(STEPS))
    plan = "td-lambda", problem, STEPS, [0.1, 0.2, 0.3]
    return {
        "own algorithm": same(*mine),
        "diverged": same(*wild) and {o.status for o in wild[1].outcomes} == {"diverged", "finished"},
        "errors kept": same(*kept) and close(*kept),
        "errors of lanes that diverge": same(*fallen) and close(*fallen),
        "values kept": same(*some) and np.array_equal(some[0].values, some[1].values),
        "states of two types": same(*mixed),
        "short stretches": same(*short),
        "a sweep": swept,
        "a reproduction": study,
        "stacked problems": all(stacked.values()) and len(stacked) == 13,
        "pieces": same(*pieces) and number_of_pieces(*plan) > 1,
    }


def close(one: gb.Trace, other: gb.Trace) -> bool:
    """Whether all errors that two runs kept agree to rounding, sums being taken in other orders."""
    keys = list(one.stored_errors)
    pairs = [(one.stored_errors[key], other.stored_errors[key]) for key in keys]
    return len(keys) == 12 and all(np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in pairs)


def tables_are_equal() -> bool:
    """Whether a sweep has the same tables, and can continue what the other one stored."""
    grid = {"algorithms": ["td-lambda", "lstd"], "step_size": [0.1, 0.5]}
    study = gb.Study(tasks=["boyan-chain"], num_steps=STEPS, seeds=2, instances=2, **grid)
    with tempfile.TemporaryDirectory() as folder:
        one = gb.sweep(study, f"{folder}/cpu", workers=1).to_frame()
        other = gb.sweep(study, f"{folder}/gpu", device="gpu").to_frame()
        again = gb.sweep(study, f"{folder}/gpu", workers=1, resume=True).manifest
    return one.equals(other) and again["reused"] == again["units"] == 8


def studies_are_equal() -> bool:
    """Whether a reproduction has the same tables, and the processor goes on with what was stored."""
    tasks = ["random-walk-50", "frozen-lake", "random-walk-1000"]  # the last one is too large to be carried
    options = {"tasks": tasks, "protocols": ["fair"], "shorten": 1500, "workers": 2}
    with tempfile.TemporaryDirectory() as folder:
        one = gb.reproduce(f"{folder}/cpu", instances=3, **options)
        gb.reproduce(f"{folder}/gpu", instances=2, device="gpu", **options)
        other = gb.reproduce(f"{folder}/gpu", instances=3, resume=True, **options)
        tables = [one.frame(table).equals(other.frame(table)) for table in ("runs", "instances", "values")]
        return all(tables) and other.manifest["reused"] == 6


def stacked_lanes_are_equal() -> dict[str, bool]:
    """Whether several runs on problems of several sizes have the bits of one problem at a time."""
    from gainbias.engine import stacked

    rng, together = np.random.default_rng(1), list[gb.Problem]()
    for n in (12, 7, 9):
        chain = rng.dirichlet(np.ones(n), n)
        chain[0], paid = np.eye(n)[1], rng.random((n, n)) if n == 7 else rng.random(n)
        features = rng.random((n, 4)) / 3.0
        if n < 12:
            features[:, 0] = 0.03 * n  # they span the constants
        together.append(gb.Problem(gb.MarkovRewardProcess(chain, paid), features))
    names = [name for name, one in ALGORITHMS.items() if not one.declared.tabular_only]
    sizes = {"td-lambda": 150.0}
    runs = [
        stacked.StackedRun(name, 400, sizes.get(name, 0.1), whole_params(name), [0, 7, 400])
        for name in names
        if name != "projected-td"
    ]
    seeds, equal = [5, 0, 3], dict[str, bool]()
    for found in stacked.run_stacked(runs, together, seeds):
        for run, lane in zip(runs, found, strict=True):
            problem = together[seeds.index(lane.seed)]
            alone = gb.run(
                run.algorithm, problem, run.num_steps, run.step_size, seeds=lane.seed, params=run.params,
                checkpoints=run.checkpoints,
            )  # fmt: skip
            equal[run.algorithm] = equal.get(run.algorithm, True) and same(lane.trace(problem), alone)
    return equal


def whole_params(name: str) -> dict[str, float]:
    """Return parameters with which an algorithm has something to say after few steps."""
    return {**ALGORITHMS[name].params()._asdict(), **ALGORITHMS[name].declared.trial_params}


def number_of_pieces(name: str, problem: gb.Problem, steps: int, sizes: list[float]) -> int:
    """Return in how many pieces lanes of four seeds are run."""
    from gainbias.engine import device

    counted, pieces_of = [], device.pieces_of
    device.pieces_of = lambda *given: iter([counted.append(piece) or piece for piece in pieces_of(*given)])
    gb.run(name, problem, steps, sizes, seeds=range(4), checkpoints=range(steps), device="gpu")
    return len(counted)


def main(what: str, name: str = "") -> None:
    """Print a line for each kind of features."""
    if what == "others":
        for thing, good in others().items():
            sys.stdout.write(f"{thing}: {'the same bits' if good else 'DIFFERENT BITS'}\n")
        return
    for kind, problem in problems().items():
        if ALGORITHMS[name].declared.tabular_only and kind != "tabular":
            continue
        if what == "assembly":
            sys.stdout.write(f"{name} {kind}: {fused_operations(name, problem)} fused\n")
        else:
            sys.stdout.write(
                f"{name} {kind}: {'the same bits' if compare(name, problem) else 'DIFFERENT BITS'}\n"
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
